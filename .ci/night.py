"""The tests of the night, in parts that resume: each runs until it has passed on this state of the code.

``make test-nightly`` runs what is missing, two parts at a time, each in a process with a Spark session of its own.
``ARGS=--list`` shows the parts with what passed, now or before a change; ``ARGS="merge streams"`` runs those whose
names begin so. A part that passed is not repeated until the package, its tests, what these stand on or a page that
they name changes; with uncommitted changes it is. Results are in ``.ci/night.json``, to be committed; logs are in
``.night/``, and what a part that failed has written in ``night-PART`` of the temporary directory.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from records import ROOT, UNKNOWN, Records, Result, code, last_line, today

LOGS, RESULTS = ROOT / ".night", ROOT / ".ci/night.json"
ENVIRONMENTS = {"newest": ".venv", "oldest": ".venv-oldest"}
SHARES = {
    "tests/native/test_native_queries.py": 10,
    "tests/whole/test_store_from_hell_s3.py": 8,
    "tests/whole/test_documentation.py": 4,
    "tests/whole/test_everything_at_once.py": 2,
    "tests/whole/test_everything_at_once_s3.py": 1,
    "tests/whole/test_bad_input.py": 1,
    "tests/cleanup/test_cleanup_beside_pylance.py": 2,
    "tests/merge/test_merge_pairs.py": 2,
    "tests/remotes/test_remotes_killed.py": 4,
    "tests/streams/test_streams_killed_spark.py": 6,
    "tests/streams/test_streams_killed_s3.py": 6,
    "tests/streams/test_streams_killed_connect.py": 6,
}
"""Files that take an hour or more, in so many parts; the oldest Spark runs one of them. The other files of a room are
one part, and those that look at the checkout another one, for each Spark."""
STANDING = ("lance_spark/", "pyspark_lance/", "tests/daemons/", "tests/conftest.py", "pyproject.toml")
"""What every test stands on, beside the files of its room and what these import of tests/support."""
_PAGES = ("docs/", "conf/", "jobs/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
_LOOKS = {
    "support.pages": _PAGES,
    '(ROOT / "docs")': _PAGES,
    "benchmarks": ("benchmarks/",),
    '".ci/': (".ci/",),
    '(ROOT / "tests")': ("tests/",),
}
"""What of the checkout tests look at, whatever the files are called, by what these tests say."""
_SUPPORT = re.compile(r"\bsupport\.(\w+)|\bfrom support import ([\w, ]+)|\b(\w+)\.py\b")


@dataclass(frozen=True)
class Part:
    """What one process runs."""

    name: str
    spark: str
    files: tuple[str, ...]
    share: str = "1/1"

    @property
    def python(self) -> str:
        """The interpreter, which has that Spark."""
        return str(ROOT / ENVIRONMENTS[self.spark] / "bin/python")

    @property
    def command(self) -> list[str]:
        """The call of pytest."""
        # The oldest Spark runs only what may differ there.
        marked = ["-m", "spark"] if self.spark == "oldest" else []
        return [self.python, "-m", "pytest", "--quiet", f"--share={self.share}", *marked, *self.files]

    @property
    def room(self) -> str:
        """The directory of its tests, with "/"."""
        return self.files[0].rpartition("/")[0] + "/"

    @cached_property
    def texts(self) -> str:
        """The tests' own text, and that of their neighbours that are no tests."""
        near = [path for path in (ROOT / self.room).glob("*.py") if not path.name.startswith("test_")]
        return "\n".join(path.read_text() for path in [*(ROOT / file for file in self.files), *near])

    @cached_property
    def support(self) -> frozenset[str]:
        """The files of tests/support that its tests import or name, or that these do."""
        texts, found = [self.texts, (ROOT / "tests/conftest.py").read_text()], set[str]()
        while texts:
            named = re.findall(r"\w+", " ".join(" ".join(names) for names in _SUPPORT.findall(texts.pop())))
            new = {path for path in (f"tests/support/{name}.py" for name in named) if (ROOT / path).exists()} - found
            found |= new
            texts += [(ROOT / path).read_text() for path in new]
        return frozenset(found)

    def looks_at(self, path: str) -> bool:
        """Whether its tests look at that part of the checkout, whatever the file is called."""
        return any(word in self.texts and path.startswith(places) for word, places in _LOOKS.items())

    def stands_on(self, path: str) -> bool:
        """Whether a change of the file may change its result."""
        if path in (".ci/night.json", ".ci/versions.json"):
            return False
        if path in self.files or path in self.support or path.startswith(STANDING) or self.looks_at(path):
            return True
        name = path.rpartition("/")[2]
        if path.startswith(f"{self.room}test_"):
            return name.removesuffix(".py") in self.texts
        return path.startswith(self.room) or name in self.texts

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its process."""
        pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), self.python)
        return {**os.environ, **pythons, "HYPOTHESIS_PROFILE": "nightly"}


def parts() -> list[Part]:
    """All parts, those that take long first."""
    found, rooms = [], []
    for room in sorted(path for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))):
        files = [str(path.relative_to(ROOT)) for path in sorted(room.glob("test_*.py"))]
        for file in filter(SHARES.get, files):
            name = Path(file).stem.removeprefix("test_")
            shares = [f"{number}/{SHARES[file]}" for number in range(1, SHARES[file] + 1)]
            found += [Part(f"{name}-{share.partition('/')[0]}", "newest", (file,), share) for share in shares]
            rooms += [Part(f"{name}-oldest", "oldest", (file,), shares[0])] if _uses_spark(file) else []
        looking = {file for file in files if any(word in (ROOT / file).read_text() for word in _LOOKS)}
        for name, chosen in ((room.name, {*files} - looking), (f"{room.name}-looking", looking)):
            rest = tuple(file for file in files if file in chosen and file not in SHARES)
            rooms += [Part(name, "newest", rest)] if rest else []
            with_spark = tuple(file for file in rest if _uses_spark(file))
            rooms += [Part(f"{name}-oldest", "oldest", with_spark)] if with_spark else []
    return found + rooms


def _uses_spark(file: str) -> bool:
    return "pytest.mark.spark" in (ROOT / file).read_text()


def run(part: Part, state: str) -> Result:
    """Run a part; returns how it ended."""
    log, began = LOGS / f"{part.name}.log", time.time()
    # Files of its own, which stay if it fails: pytest keeps those of the last three runs, whoever started them.
    kept = Path(tempfile.gettempdir(), f"night-{part.name}")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    around = {**part.environment, "PYTEST_DEBUG_TEMPROOT": str(kept)}
    with log.open("w") as out:
        command = ["nice", "-n", "5", *part.command]
        ended = subprocess.run(command, cwd=ROOT, env=around, stdout=out, stderr=subprocess.STDOUT)
    # Exit code 5: no test of the part is for the oldest Spark. The newest has some of each.
    passed = ended.returncode == 0 or (ended.returncode == 5 and part.spark == "oldest")
    if passed:
        shutil.rmtree(kept)
    return {
        "passed": passed,
        "seconds": round(time.time() - began),
        "said": last_line(log),
        "day": today(),
        "state": state,
    }


def _line(name: str, result: Result | None, is_of_now: bool = True) -> str:
    if result is None:
        return f"{'missing':15}{name}"
    word = ("passed" if result["passed"] else "FAILED") + ("" if is_of_now else " before")
    return f"{word:15}{name:32}{result['seconds']:>7} s  {result['said']}"


def main() -> int:
    """Run what is missing; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names of parts; all without any")
    parser.add_argument("--list", action="store_true", help="show the parts and their results on this state")
    parser.add_argument("--jobs", type=int, default=2, help="parts at a time (2)")
    parser.add_argument("--minutes", type=float, default=None, help="begin no part after that time")
    given = parser.parse_args()
    every, now = parts(), code()
    records = Records(RESULTS, [part.name for part in every])
    wanted = [part for part in every if not given.names or part.name.startswith(tuple(given.names))]
    if not wanted:
        print(f"No part is called {' or '.join(given.names)}; --list shows them.", file=sys.stderr)
        return 2
    states = {part.name: now.state(part.stands_on) for part in wanted}
    if given.list:
        known = records.read()
        for name, state in states.items():
            print(_line(name, known.get(name), known.get(name, {}).get("state") == state))
        return 0
    LOGS.mkdir(exist_ok=True)
    end = None if given.minutes is None else time.time() + given.minutes * 60
    missing = [part for part in wanted if not records.passed(part.name, states[part.name])]

    def turn(part: Part) -> Result | None:
        if end is not None and time.time() > end:
            return None
        result = run(part, states[part.name])
        if states[part.name] != UNKNOWN:
            records.store(part.name, result)
        print(_line(part.name, result), flush=True)
        return result

    with ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(turn, missing))
    failed = [part.name for part, result in zip(missing, results, strict=True) if result and not result["passed"]]
    left = [part.name for part, result in zip(missing, results, strict=True) if result is None]
    print(f"{len(wanted) - len(failed) - len(left)} parts passed, {len(failed)} failed, {len(left)} not begun")
    for name in failed:
        print(f"failed: {LOGS / name}.log")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
