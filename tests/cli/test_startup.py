"""A command line that takes a second to say "usage" is not used: nothing heavy loads before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"lance", "pyspark", "pyarrow", "fsspec", "s3fs"}
CODE = (
    "import sys; from lance_spark.cli.main import main; main({0!r}); print(set(sys.modules) & {1!r}, file=sys.stderr)"
)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["gc", "--help"], ["push", "--help"], ["remote"], ["brnch"]], ids=" ".join
)
def test_nothing_heavy_is_loaded_for(flights, arguments):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments, HEAVY)], cwd=flights, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "set()"


def test_it_is_a_module_too(tmp_path):
    command = [sys.executable, "-m", "lance_spark.cli", "tag", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: lance-git tag")
