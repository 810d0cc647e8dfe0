"""A command line that takes a second to say "usage" is not used: nothing heavy loads before it is needed."""

import subprocess
import sys

import pytest

HEAVY = {"lance", "pyspark", "pyarrow", "fsspec", "s3fs"}
CODE = "import sys; from {2} import main; main({0!r}); print(set(sys.modules) & {1!r}, file=sys.stderr)"
GIT, CATALOG = "lance_spark.cli.main", "lance_spark.cli.catalog.main"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        *((GIT, found) for found in (["--help"], ["gc", "--help"], ["push", "--help"], ["remote"], ["brnch"])),
        *((CATALOG, found) for found in (["--help"], ["rm", "--help"], ["tag", "--help"], ["lss"])),
    ],
    ids=str,
)
def test_nothing_heavy_is_loaded_for(flights, module, arguments):
    code = CODE.format(arguments, HEAVY, module)
    done = subprocess.run([sys.executable, "-c", code], cwd=flights, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "set()"


@pytest.mark.parametrize(
    ("module", "name", "verb"),
    [("lance_spark.cli", "lance-git", "tag"), ("lance_spark.cli.catalog", "lance-catalog", "ls")],
)
def test_it_is_a_module_too(tmp_path, module, name, verb):
    command = [sys.executable, "-m", module, verb, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Usage: {name} {verb}")


STOPPED = """
import sys
class Stop:
    def find_spec(name, path, target=None):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop)
from lance_spark.cli import start
sys.exit(start.{0}())
"""


@pytest.mark.parametrize("command", ["lance_git", "lance_catalog"])
def test_an_interrupt_while_modules_load_is_one_line(command):
    done = subprocess.run([sys.executable, "-c", STOPPED.format(command)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: Interrupted.\n")
