"""A server of Spark Connect in a process of its own, and the process that this package starts beside it."""

import os
import shutil
import time
from pathlib import Path

import pytest
from support.connect_clients import client
from support.connect_server import Server, processes_beside

import lance_spark
from lance_spark import LanceCatalog, capabilities, register
from lance_spark.errors import Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="this system does not tell")
def test_the_process_ends_with_the_server_however_it_ends(tmp_path):
    server, root = Server(tmp_path), f"{tmp_path}/lake"
    mark = str(os.getpid())
    try:
        for rows in (10, 20):
            server.start({"MARK": mark, "ROUND": str(rows)})
            with client(server.url, release=False) as session:
                register(session, catalog="lake", root=root)
                session.sql("CREATE NAMESPACE IF NOT EXISTS lake.ns")
                session.sql(f"CREATE OR REPLACE TABLE lake.ns.t AS SELECT id FROM range({rows})")
                session.sql("UPDATE lake.ns.t SET id = -1 WHERE id = 0").collect()
                assert LanceCatalog(root).table("ns.t").count_rows("id >= 0") == rows - 1
                assert len(processes_beside(mark)) == 1
                server.kill()
            end = time.monotonic() + 60
            while processes_beside(mark):
                assert time.monotonic() < end
                time.sleep(0.1)
    finally:
        server.kill()


LACKING = "import sys\nsys.modules['lance_spark'] = None\n"
"""What Python does at its start where this package is not installed, as far as an import can tell."""


def another_version(directory):
    """A copy of this package of another version, which the server's Python finds first."""
    copy = directory / "lance_spark"
    shutil.copytree(Path(lance_spark.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    beginning = copy / "__init__.py"
    beginning.write_text(beginning.read_text().replace(f'"{lance_spark.__version__}"', '"0.9.9"'))


@pytest.mark.when(spark="newest")
@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda at: (at / "sitecustomize.py").write_text(LACKING), "the server's Python cannot load lance_spark: "),
        (another_version, "the server has lance_spark 0.9.9, or another build of it, and the client"),
    ],
    ids=["lacking", "another version"],
)
def test_a_server_whose_python_does_not_fit_is_one_for_the_plain_way(tmp_path, prepare, reason):
    finds = tmp_path / "finds"
    finds.mkdir()
    prepare(finds)
    server = Server(tmp_path)
    try:
        server.start({"PYTHONPATH": str(finds)})
        with client(server.url, release=False) as session:
            with pytest.raises(Refused) as refusal:
                register(session, catalog="lake", root=f"{tmp_path}/lake")
            assert reason in str(refusal.value)
            assert not capabilities(session).native
            assert reason in capabilities(session).reason
            assert session.range(3).count() == 3
            server.kill()
    finally:
        server.kill()
