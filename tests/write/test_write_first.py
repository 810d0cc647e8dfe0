"""What the first write of a session waits for: Spark starts a process to plan it, one per task and one to commit."""

import subprocess
import sys

from support.local_datasets import ids

NEEDLESS = (
    *("google.protobuf", "tomlkit", "pyarrow.parquet", "lance_spark.merge.report", "click"),
    *(("tomli",) if sys.version_info >= (3, 11) else ()),  # where Python brings none, it reads every TOML file
)
"""What is needed by other verbs only; each took a tenth of a second to half a second, in each of these processes."""
WRITE = """
import sys
import pyarrow as pa
from pyspark.sql.types import StructType
from lance_spark.datasource.writer import LanceWriter

def unneeded(when):
    print(when, *[name for name in sys.argv[2].split(",") if name in sys.modules])

writer = LanceWriter({"path": sys.argv[1]}, StructType().add("id", "long"), False)
unneeded("plan")
message = writer.write(iter([pa.RecordBatch.from_pydict({"id": pa.array([1, 2])})]))
unneeded("write")
writer.commit([message])
unneeded("commit")
"""


def test_a_write_imports_nothing_that_only_other_verbs_need(uri):
    for _ in range(2):  # creates the dataset, then appends
        done = subprocess.run(
            [sys.executable, "-c", WRITE, uri, ",".join(NEEDLESS)], capture_output=True, text=True, check=True
        )
        assert done.stdout.split("\n")[:3] == ["plan", "write", "commit"]
    assert ids(uri) == [1, 2, 1, 2]


def test_a_task_imports_no_planning():
    loaded = subprocess.run(
        [sys.executable, "-c", "import lance_spark.datasource.writer, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("lance_spark.")}
    assert rooms <= {"core", "errors", "hints", "format", "storage", "layout", "scan", "write", "datasource", "engine"}
