"""jobs/maintain.py with everything in a bucket: tables, policy, state and reports."""

import json

import pytest
from support.s3_tables import rows, storage_options, write
from support.scripts import script

pytestmark = pytest.mark.s3


def test_a_lake_its_policy_its_state_and_its_reports_are_in_one_bucket(client, bucket, moto, capsys):
    storage = storage_options(moto)
    job = script("jobs/maintain.py")
    for name in ("a", "b"):
        for first in (0, 10, 20):
            write(f"s3://{bucket}/lake/{name}.lance", storage, range(first, first + 4))
    policy = '[compaction]\nsmall_fragments = 2\n[cleanup]\nolder_than = "0s"\ncommit_window = "0s"\n'
    client.put_object(Bucket=bucket, Key="policy.toml", Body=policy.encode())
    files = {"policy": "policy.toml", "state": "state.json", "report": "out/r.json", "html": "out/r.html"}
    command = [f"s3://{bucket}/lake", "--local", "--execute"]
    command += [word for name, key in files.items() for word in (f"--{name}", f"s3://{bucket}/{key}")]
    command += [word for key, value in storage.items() for word in ("--storage", f"{key}={value}")]
    assert job.main(command) == 0, capsys.readouterr()
    first = json.loads(client.get_object(Bucket=bucket, Key="out/r.json")["Body"].read())
    assert [table["state"] for table in first["tables"]] == ["done", "done"]
    assert job.main(command) == 0
    second = json.loads(client.get_object(Bucket=bucket, Key="out/r.json")["Body"].read())
    assert {step["why"] for table in second["tables"] for step in table["steps"] if step["step"] == "fsck"} == {
        "checked not long ago"
    }
    for name in ("a", "b"):
        assert sorted(rows(f"s3://{bucket}/lake/{name}.lance", storage)) == [*range(4), *range(10, 14), *range(20, 24)]
    said = capsys.readouterr()
    secret = storage["aws_secret_access_key"]
    html = client.get_object(Bucket=bucket, Key="out/r.html")["Body"].read().decode()
    assert secret not in said.out + said.err + html + json.dumps([first, second])


def test_a_report_to_a_missing_bucket_ends_the_job_before_its_work(bucket, moto, capsys):
    storage = storage_options(moto)
    write(f"s3://{bucket}/lake/a.lance", storage, range(4))
    command = [f"s3://{bucket}/lake", "--local", "--execute", "--report", "s3://no-such-bucket/r.json"]
    command += [word for key, value in storage.items() for word in ("--storage", f"{key}={value}")]
    assert script("jobs/maintain.py").main(command) == 10
    told = capsys.readouterr()
    assert "error: --report: s3://no-such-bucket/r.json cannot be written" in told.err
    assert "Nothing was done." in told.err
    assert not told.out
