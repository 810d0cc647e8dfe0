"""Secrets appear in no log line, error, plan, DataFrame, event log or repr, wherever they came from."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]

SECRETS = {
    "aws_access_key_id": "AKIAVISIBLE",
    "aws_secret_access_key": "sEcReT+in/the=open",
    "aws_session_token": "tOkEn+in/the=open",
}


def run_job(uri, storage, environment, log):
    """Everything the job and Spark printed, logged at INFO level and recorded in the event log."""
    log.mkdir()
    (log / "spark-defaults.conf").write_text(
        (Path(__file__).parents[2] / "conf/spark-defaults.conf").read_text()
        + f"spark.master local[2]\nspark.ui.enabled false\nspark.log.level INFO\nspark.sql.shuffle.partitions 1\n"
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{log}\n"
        "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
    )
    job = Path(__file__).with_name("secret_job.py")
    done = subprocess.run(
        [sys.executable, str(job), uri],
        input=json.dumps(storage),
        env={**os.environ, **environment, "SPARK_CONF_DIR": str(log)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    events = [path.read_text() for path in log.rglob("*") if path.is_file() and path.suffix != ".conf"]
    assert "SparkListenerSQLExecutionStart" in "".join(events)
    return done.stdout, done.stderr, "".join(events)


@pytest.mark.parametrize("given", ["options", "environment"])
def test_secrets_are_nowhere_to_be_seen(bucket, faulty, tmp_path, given):
    faulty.rule = lambda request: "403 SignatureDoesNotMatch" if "denied" in request.key else None
    place = {"aws_region": "us-east-1", "aws_endpoint": faulty.endpoint, "allow_http": "true"}
    storage, environment = {**SECRETS, **place}, {}
    if given == "environment":
        renamed = {"allow_http": "aws_allow_http"}
        environment = {renamed.get(key, key).upper(): value for key, value in storage.items()}
        storage = {}
    output, errors, events = run_job(f"s3://{bucket}/t.lance", storage, environment, tmp_path / "log")
    assert "rows 4 10 5" in output
    assert "no error" not in output
    for error in ("NotFound", "InvalidOption", "SchemaMismatch", "AlreadyExists", "PermissionDenied"):
        assert error in errors
    assert "INFO" in errors
    assert {(request.access_key, request.token) for request in faulty.seen} == {
        (SECRETS["aws_access_key_id"], SECRETS["aws_session_token"])
    }
    for name, secret in SECRETS.items():
        for kind, text in (("output", output), ("errors and log", errors), ("event log", events)):
            where = text.find(secret)
            assert where == -1, f"{name} in the {kind}: ...{text[max(0, where - 200) : where + 50]}"
