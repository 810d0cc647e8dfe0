"""The tests of the night, in parts that resume: each runs until it has passed on this state of the code.

``make test-nightly`` runs what is missing, two parts at a time, each in a process with a Spark session of its own.
``ARGS=--list`` shows the parts, ``ARGS="merge streams"`` runs those whose names begin so. A part that passed is not
repeated until the code changes, or a page if it reads pages; with uncommitted changes nothing is remembered. Logs and
results are in ``.night/``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / ".night"
ENVIRONMENTS = {"newest": ".venv", "oldest": ".venv-oldest"}
SHARES = {
    "tests/native/test_native_queries.py": 10,
    "tests/whole/test_documentation.py": 4,
    "tests/cleanup/test_cleanup_beside_pylance.py": 2,
    "tests/remotes/test_remotes_killed.py": 4,
    "tests/streams/test_streams_killed_spark.py": 6,
}
"""Files that take an hour or more, in so many parts. All other files of a room are one part, one for each Spark."""


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
    def reads_pages(self) -> bool:
        """Whether a change of a page may change its result."""
        texts = [(ROOT / file).read_text() for file in self.files]
        return any(
            word in text for text in texts for word in ("docs/", '"docs"', "README", "support.pages", "CHANGELOG")
        )

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
        rest = tuple(file for file in files if file not in SHARES)
        rooms += [Part(room.name, "newest", rest)] if rest else []
        with_spark = tuple(file for file in files if "pytest.mark.spark" in (ROOT / file).read_text())
        rooms += [Part(f"{room.name}-oldest", "oldest", with_spark)] if with_spark else []
    return found + rooms


def state(with_pages: bool) -> str | None:
    """The state of the code, by which results are remembered; None with uncommitted changes."""
    if _git("status", "--porcelain"):
        return None
    kept = [line for line in _git("ls-tree", "-r", "HEAD").splitlines() if with_pages or not _is_page(line)]
    return sha256("\n".join(kept).encode()).hexdigest()[:12]


def _is_page(line: str) -> bool:
    path = line.partition("\t")[2]
    return path.startswith(("docs/", "benchmarks/", ".ci/versions")) or ("/" not in path and path.endswith(".md"))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def run(part: Part, records: Path, remember: bool) -> dict[str, object]:
    """Run a part; returns and stores how it ended."""
    log, began = records / f"{part.name}.log", time.time()
    with log.open("w") as out:
        command = ["nice", "-n", "5", *part.command]
        code = subprocess.run(command, cwd=ROOT, env=part.environment, stdout=out, stderr=subprocess.STDOUT).returncode
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    # Exit code 5: no test of the part is for that Spark.
    result = {"passed": code in (0, 5), "seconds": round(time.time() - began), "said": lines[-1] if lines else ""}
    if remember:
        (records / f"{part.name}.json").write_text(json.dumps(result))
    print(_line(part, result), flush=True)
    return result


def _line(part: Part, result: dict[str, object] | None) -> str:
    if result is None:
        return f"{'missing':8}{part.name}"
    word = "passed" if result["passed"] else "FAILED"
    return f"{word:8}{part.name:32}{result['seconds']:>7} s  {result['said']}"


def remembered(part: Part, records: Path) -> dict[str, object] | None:
    """How the part ended on this state; None if it has not run."""
    file = records / f"{part.name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def main() -> int:
    """Run what is missing; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names of parts; all without any")
    parser.add_argument("--list", action="store_true", help="show the parts and their results on this state")
    parser.add_argument("--jobs", type=int, default=2, help="parts at a time (2)")
    parser.add_argument("--minutes", type=float, default=None, help="begin no part after that time")
    given = parser.parse_args()
    places = {reads: RECORDS / (state(reads) or "uncommitted") for reads in (False, True)}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    keeps = places[True].name != "uncommitted"
    wanted = [part for part in parts() if not given.names or part.name.startswith(tuple(given.names))]
    if not wanted:
        print(f"No part is called {' or '.join(given.names)}; --list shows them.", file=sys.stderr)
        return 2
    before = {part.name: remembered(part, places[part.reads_pages]) if keeps else None for part in wanted}
    if given.list:
        print(*(_line(part, before[part.name]) for part in wanted), sep="\n")
        return 0
    end = None if given.minutes is None else time.time() + given.minutes * 60
    missing = [part for part in wanted if not (before[part.name] or {}).get("passed")]

    def turn(part: Part) -> dict[str, object] | None:
        return None if end is not None and time.time() > end else run(part, places[part.reads_pages], keeps)

    with ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(turn, missing))
    failed = [part for part, result in zip(missing, results, strict=True) if result and not result["passed"]]
    left = [part.name for part, result in zip(missing, results, strict=True) if result is None]
    print(f"{len(wanted) - len(failed) - len(left)} parts passed, {len(failed)} failed, {len(left)} not begun")
    for part in failed:
        print(f"failed: {places[part.reads_pages] / part.name}.log")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
