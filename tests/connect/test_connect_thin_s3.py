"""The wheel with ``pyspark-client``: a client without PySpark, Java or access to the store, whose server has them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from support import thin_client
from support.connect_server import Server
from support.environments import environment_with
from support.s3_tables import storage_options
from support.spark_cluster import HOME

from lance_spark import LanceCatalog
from lance_spark.spark import at_server_rules

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.when(spark="newest", day=0)]

ROOT = Path(__file__).parents[2]
ROWS = sorted(
    [
        *([each, 5 if each == 11 else each % 7, None] for each in range(100) if each % 10 != 9 and each != 1),
        [200, 3, None],
        [201, 6, None],
        [400, 9, "merged"],
        *([each, each % 7, "frame"] for each in (401, 402)),
        *([each, (each - 10) % 7, "frame"] for each in (410, 411, 412)),
        [500, 9, "merged"],
    ]
)
COUNTED = {
    "SELECT count(*) FROM lake.ns.`t@other`": [[93]],
    "SELECT count(*) FROM lake.ns.t": [[92]],
    "SELECT count(*) FROM lake.ns.t VERSION AS OF 1": [[100]],
    "SELECT k, count(*) FROM lake.ns.t WHERE id > 150 GROUP BY k ORDER BY k": [[3, 1], [6, 1]],
    "SHOW TABLES IN lake.ns": [["ns", "t", False]],
}
READ = {
    "to_df": 9,
    "query": "merged",
    "count_rows": [99, 2],
    "head": 2,
    "schema": ["id", "k", "remark"],
    "at a version": 100,
}
"""What the server reads for a handle."""
TYPED_INSTEAD = {
    **{f"branches.{verb}": at_server_rules.BRANCHES[verb] for verb in ("create", "list")},
    "tags.create": at_server_rules.TAGS["create"],
    **{verb: at_server_rules.TABLE[verb] for verb in ("optimize", "storage", "log", "delete")},
    "list_tables": at_server_rules.CATALOG["list_tables"],
    "lake.branches.create": at_server_rules.LAKE_BRANCHES["create"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    made = tmp_path_factory.mktemp("wheel")
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", str(made), str(ROOT)], check=True)
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def thin(tmp_path_factory, wheel):
    """The programs of a client's environment."""
    return environment_with(tmp_path_factory.mktemp("thin"), f"{wheel}[connect]")


@pytest.fixture(scope="module")
def version(thin):
    """Of the client's PySpark: the newest one that there is."""
    asked = [thin / "python", "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(params=["the client's", "that of the tests"])
def server_of(request, tmp_path_factory, wheel, version):
    """The home and the Python of a server's Spark: of the client's version, and of the newest one."""
    if request.param == "that of the tests":
        return HOME, sys.executable
    fat = environment_with(tmp_path_factory.mktemp("fat"), f"{wheel}[server]", f"pyspark[connect]=={version}")
    (home,) = fat.parent.glob("lib/*/site-packages/pyspark")
    return home, str(fat / "python")


def test_a_thin_client_has_sql_and_frames_and_is_told_what_to_type_for_the_rest(
    tmp_path, thin, version, server_of, moto, bucket
):
    home, python = server_of
    place = {"AWS_ENDPOINT_URL": moto, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
    keys = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "hush-hush"}
    server, root = Server(tmp_path), f"s3://{bucket}/lake"
    try:
        pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), python)
        server.start({**pythons, "SPARK_HOME": str(home), **place, **keys})
        # Of the surroundings nothing but the store's place: no program java, no package, no keys.
        around = {"HOME": os.environ["HOME"], "PATH": str(thin), "AWS_EC2_METADATA_DISABLED": "true", **place}
        command = [thin / "python", thin_client.__file__, server.url, root]
        done = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=1800)
    finally:
        server.kill()
    assert done.returncode == 0, done.stderr[-4000:] + server.log
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["client"], told["native"]) == (version, True)
    assert {text: told["sql"][text] for text in COUNTED} == COUNTED
    assert told["frames"] == {"table": [[14, 200]], "path": 5, "version": 100, "written": 7}
    assert told["handles"] == {**READ, **TYPED_INSTEAD}
    assert told["branches"] == ["exp", "other"]
    assert [name for name in told["tags"] if not name.startswith("lake-")] == ["v1"]
    assert told["rows"] == ROWS
    lake = LanceCatalog(root, storage_options=storage_options(moto))
    stored = lance.dataset(lake.table("ns.t").location.uri, storage_options=storage_options(moto)).to_table()
    assert sorted([row["id"], row["k"], row["remark"]] for row in stored.to_pylist()) == ROWS
