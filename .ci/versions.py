"""What users combine: Sparks, Pythons, pandas, pyarrow and pylance; each row of ROWS is an environment that runs tests.

``make test-versions`` runs the rows that have not passed on this state of ``lance_spark``, ``ARGS="spark-4.1 pandas"``
those whose names begin so, ``ARGS=--list`` shows them. Results are in ``.ci/versions.json``, from which
``ARGS=--write`` makes the table of docs/reference/versions.md. Environments and logs are in ``.versions/``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records import ROOT, Records, Result, code, last_line, today

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOGS, RESULTS = ROOT / ".versions", ROOT / ".ci/versions.json"
PAGE = ROOT / "docs/reference/versions.md"
PACKAGES = ("pyspark", "pandas", "pyarrow", "pylance", "numpy")
"""Whose versions are told, as they were found after the installation."""
DATA = ("tests/format", "tests/datasource", "tests/write")
"""Types, reads and writes: where another version of a library may differ."""
WHOLE = (*DATA, "tests/sql", "tests/native", "tests/layout", "tests/whole/test_every_session.py")
"""Also statements, SQL, layouts, and the same answers from a local session, a standalone cluster and Spark Connect."""


@dataclass(frozen=True)
class Row:
    """An environment and what it runs."""

    name: str
    python: str
    pins: tuple[str, ...]
    """Requirements beside the project's own."""
    tests: tuple[str, ...] = DATA
    resolution: str = "highest"
    """What uv takes of the versions that fit: "highest", or "lowest-direct", each bound of pyproject.toml itself."""
    at_night: bool = False
    """Whether the tests of the night run, too."""


_NEWEST = "pyspark[connect]==4.3.*"
ROWS = (
    Row("spark-4.0", "3.11", ("pyspark[connect]==4.0.*",), WHOLE),
    Row("spark-4.1", "3.11", ("pyspark[connect]==4.1.*",), WHOLE),
    Row("spark-4.2", "3.11", ("pyspark[connect]==4.2.*",), WHOLE),
    Row("spark-4.3", "3.11", (_NEWEST,), WHOLE),
    Row("python-3.10", "3.10", ("pyspark[connect]==4.1.*",)),
    Row("python-3.12", "3.12", (_NEWEST,)),
    Row("python-3.13", "3.13", (_NEWEST,)),
    Row("pandas-2", "3.11", (_NEWEST, "pandas==2.2.*")),
    Row("pandas-3", "3.12", (_NEWEST, "pandas>=3")),
    Row("pyarrow-oldest", "3.11", ("pyspark[connect]==4.0.*", "pyarrow=={pyarrow}.*")),
    Row("pyarrow-newest", "3.12", (_NEWEST, "pyarrow>=22", "pandas>=3")),
    Row("pylance-oldest", "3.11", (_NEWEST, "pylance=={pylance}")),
    Row("oldest-of-all", "3.10", ("pyspark[connect]==4.0.0", "pandas==2.2.0"), DATA, "lowest-direct"),
    Row("torch", "3.11", (_NEWEST, "torch", "setuptools<81"), ("tests/training",), at_night=True),
    Row("newest-of-all", "3.13", ("pyspark[connect]>=4.3", "pandas>=3", "pyarrow>=22", "numpy>=2"), WHOLE),
)


def _project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def bounds() -> dict[str, str]:
    """The oldest version that pyproject.toml allows, by requirement."""
    asked = (re.match(r"([\w-]+)>=([\d.]+)", each) for each in _project()["dependencies"])
    return {found[1]: found[2] for found in asked if found}


def test_tools() -> list[str]:
    """What the tests need beside what is tried."""
    extras = _project()["optional-dependencies"]
    names = [each for extra in ("test", "bench") for each in extras[extra]]
    return [each for each in names if re.split(r"[^\w-]", each)[0] not in PACKAGES]


def interpreter(version: str) -> str:
    """A Python of that version that works: on the PATH, or of pyenv; otherwise its version, which uv downloads."""
    found = shutil.which(f"python{version}")
    own = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in [*([found] if found else []), *map(str, reversed(own))]:
        if subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    return version


def installed(row: Row, uv: str, log: Path) -> Path:
    """The environment's interpreter. Raises CalledProcessError; the log says why."""
    home = LOGS / row.name
    python = home / "bin/python"
    pins = [pin.format(**bounds()) for pin in row.pins]
    with log.open("w") as out:
        shutil.rmtree(home, ignore_errors=True)
        for command in (
            [uv, "venv", "--quiet", "--python", interpreter(row.python), str(home)],
            [uv, "pip", "install", "--python", str(python), "--resolution", row.resolution, "--editable", ".", *pins],
        ):
            subprocess.run(command, cwd=ROOT, check=True, stdout=out, stderr=subprocess.STDOUT)
        # What is tried stays as it is: moto alone would bring a botocore that s3fs's aiobotocore does not know.
        exactly = [f"{name}=={version}" for name, version in versions_of(python, uv).items()]
        command = [uv, "pip", "install", "--python", str(python), *test_tools(), *exactly]
        subprocess.run(command, cwd=ROOT, check=True, stdout=out, stderr=subprocess.STDOUT)
    return python


def versions_of(python: Path, uv: str) -> dict[str, str]:
    """The versions of all packages in an environment, but for this one."""
    listed = subprocess.run(
        [uv, "pip", "list", "--format", "json", "--python", str(python)], check=True, capture_output=True, cwd=ROOT
    )
    return {each["name"]: each["version"] for each in json.loads(listed.stdout) if each["name"] != "lance-spark"}


def run(row: Row, uv: str, state: str) -> Result:
    """Install and run a row; returns how it ended."""
    log = LOGS / f"{row.name}.log"
    try:
        python = installed(row, uv, log)
    except subprocess.CalledProcessError:
        return {"passed": False, "said": f"not installed: {last_line(log)}", "state": state}
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    environment = {**os.environ, **pythons, **({"HYPOTHESIS_PROFILE": "nightly"} if row.at_night else {})}
    with log.open("w") as out:
        command = ["nice", "-n", "5", str(python), "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *row.tests]
        ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
    asked = subprocess.run([str(python), "--version"], check=True, capture_output=True, text=True)
    found = versions_of(python, uv)
    return {
        "passed": ended.returncode == 0,
        "said": last_line(log),
        "versions": {"python": asked.stdout.split()[1], **{name: found[name] for name in PACKAGES}},
        "day": today(),
        "state": state,
    }


def records() -> Records:
    """The stored results, by row."""
    return Records(RESULTS, [row.name for row in ROWS])


def table(found: dict[str, Result]) -> str:
    """The table of the page."""
    lines = [
        "| Row | Python | Spark | pandas | pyarrow | pylance | Tests | Result |",
        "|---|---|---|---|---|---|---:|---|",
    ]
    for row in ROWS:
        result = found.get(row.name, {"passed": False, "said": "not run"})
        versions = result.get("versions") or {}
        cells = [str(versions.get(name, "")) for name in ("python", "pyspark", "pandas", "pyarrow", "pylance")]
        passed = re.search(r"(\d+) passed", str(result["said"]))
        count = f"{int(passed[1]):,}" if passed else ""
        ended = f"passed on {result['day']}" if result["passed"] else f"**{result['said']}**"
        lines.append(f"| {row.name} | {' | '.join(cells)} | {count} | {ended} |")
    return "\n".join(lines) + "\n"


BEGIN, END = "<!-- table: make test-versions ARGS=--write -->\n", "<!-- end of the table -->\n"


def write() -> None:
    """Put the table into the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + table(records().read()) + "\n" + END + rest.partition(END)[2])


def main() -> int:
    """Run what has not passed; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names of rows; all without any")
    parser.add_argument("--list", action="store_true", help="show the rows and their results")
    parser.add_argument("--write", action="store_true", help="write the table of the page from the results")
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time (2)")
    given = parser.parse_args()
    if given.write:
        write()
        return 0
    wanted = [row for row in ROWS if not given.names or row.name.startswith(tuple(given.names))]
    if not wanted:
        print(f"No row is called {' or '.join(given.names)}; --list shows them.", file=sys.stderr)
        return 2
    state, kept = code().state(lambda path: path.startswith("lance_spark/")), records()
    left = [row for row in wanted if not kept.passed(row.name, state)]
    if given.list:
        known = kept.read()
        for row in wanted:
            result = known.get(row.name, {})
            word = "missing" if not result else "FAILED" if not result["passed"] else "passed"
            when = "" if result.get("state") == state else " before"
            print(f"{word + when:16}{row.name:16}{result.get('said', '')}")
        return 0
    LOGS.mkdir(exist_ok=True)
    uv = str(Path(sys.executable).with_name("uv"))
    failed = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for row, result in zip(left, pool.map(lambda row: run(row, uv, state), left), strict=True):
            kept.store(row.name, result)
            print(f"{'passed' if result['passed'] else 'FAILED':8}{row.name:16}{result['said']}", flush=True)
            failed += [] if result["passed"] else [row.name]
    write()
    for name in failed:
        print(f"failed: {LOGS / name}.log")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
