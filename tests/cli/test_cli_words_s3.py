"""The script in docs/branches/lance-git.md on S3: git's eleven words on a dataset, through real processes.

On a local disk tests/whole/test_documentation.py types it into a shell.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import parquet

pytestmark = pytest.mark.s3

PAGE = Path(__file__).parents[2] / "docs" / "branches" / "lance-git.md"
WORDS = ("Repository", "Commit", "Clone", "Remote", "Branch", "Checkout", "Tag", "Log", "Fetch", "Pull", "Push")


def script() -> str:
    """The script as people copy it."""
    found = re.search(r"<!-- eleven rows -->\s*```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_script_has_a_command_for_every_word():
    commented = re.findall(r"# (\w+):", script())
    assert sorted(commented) == sorted(WORDS)


@pytest.fixture
def place(storage, bucket):
    """(STORE, storage options, environment)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    environment |= {key.upper(): value for key, value in storage.items()}
    return f"s3://{bucket}/warehouse", storage, environment


def flights(start: int, distances: list[int]) -> pa.Table:
    return pa.table({"flight": pa.array(range(start, start + len(distances)), pa.int64()), "distance": distances})


@pytest.mark.when(day=0)
def test_the_script_runs(place, tmp_path):
    store, storage, environment = place
    work = tmp_path / "work"
    work.mkdir()
    parquet.write_table(flights(0, [50, 200, 300]), work / "day1.parquet")
    parquet.write_table(flights(3, [400, 500]), work / "day2.parquet")
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script()],
        cwd=work,
        env=environment | {"STORE": store},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    production = lance.dataset(f"{store}/flights.lance", storage_options=storage)
    assert sorted(production.to_table()["flight"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(production.checkout_version(("experiment", None)).to_table()["flight"].to_pylist()) == [0, 1, 2, 3, 4]
    local = lance.dataset(str(work / "flights"), storage_options=storage)
    assert sorted(local.to_table()["flight"].to_pylist()) == [1, 2, 3, 4]
    assert {"experiment", "origin/main", "origin/experiment"} <= set(local.branches.list())
    assert "v1.0.0" in local.tags.list()
    assert "Up to date with origin/main" in ran.stdout
    assert "origin/main  2 -> 3" in ran.stdout
    own = [path for path in (work / "flights").rglob("*.lance") if path.is_file()]
    assert len(own) == 2, "day 2 on its branch, and its copy on main: nothing of the remote's was copied"
