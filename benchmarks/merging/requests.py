"""(d): how many requests a verb sends to S3, beside the fewest that could do; each verb in a process of its own."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa

from benchmarks.cleanup_s3 import Store, slow_store, storage_options
from benchmarks.merging.history import SCRIPT
from lance_spark.cli.verbs import VERBS
from lance_spark.core.workspace import Workspace
from lance_spark.workspace.workspace_files import create_workspace

_BRANCHES = ("a", "b", "c", "d", "exp")
_TAGS = ("v1", "v2")
_VERSIONS = 20
_REFS = len(_BRANCHES) + len(_TAGS)
_SHOWN = 10


@dataclass(frozen=True)
class Requests:
    """What a verb took."""

    verb: str
    counts: dict[str, int]
    """By type."""
    least: dict[str, int]
    why: str
    seconds: float

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def fewest(self) -> int:
        return sum(self.least.values())


@dataclass(frozen=True)
class _Place:
    """A dataset on the store, and a directory on this machine."""

    uri: str
    directory: str
    storage: dict[str, str]
    """That reach the store directly, and are not counted."""

    def append(self, branch: str, first: int) -> lance.LanceDataset:
        uri = self.uri if branch == "main" else f"{self.uri}/tree/{branch}"
        return lance.write_dataset(_rows(first), uri, mode="append", storage_options=self.storage)

    def workspace(self, branch: str) -> str:
        create_workspace(self.directory, Workspace(self.uri, branch))
        return self.directory


@dataclass(frozen=True)
class _Case:
    arguments: tuple[str, ...]
    least: dict[str, int]
    why: str
    on: str = "main"
    """Branch that the workspace is on; "" without a workspace."""
    before: Callable[[_Place], None] = lambda _: None
    cloned: bool = False
    """Whether it runs in a clone of the dataset, which is made first."""


def _cases() -> dict[str, _Case]:
    branches, log_versions = len(_BRANCHES), _SHOWN
    follow = {"LIST": 2 + branches, "GET": branches}
    known = {
        "branch NAME": _Case(
            ("branch", "new"), {"LIST": 1, "GET": 1, "PUT": 3}, "newest version; manifest; transaction, manifest, ref"
        ),
        "tag NAME": _Case(
            ("tag", "new"), {"LIST": 1, "GET": 1, "PUT": 1}, "newest version; whether the name is free; the tag"
        ),
        "tag -d": _Case(
            ("tag", "-d", _TAGS[0], "--yes"),
            {"GET": 3, "PUT": 2, "DELETE": 1},
            "the tag, that of a frozen set, its version; the record before and after; the tag",
        ),
        "log -n 10": _Case(
            ("log", "-n", str(_SHOWN)),
            {"LIST": 3, "GET": _REFS + log_versions},
            "versions, branches, tags; each ref, each version",
        ),
        "status": _Case(("status",), {"LIST": 2, "GET": 1}, "versions of both branches; the ref", "exp"),
        "diff --stat main..exp": _Case(
            ("diff", "--stat", "main..exp"), {"LIST": 2, "GET": 3}, "versions of both; the ref, two manifests"
        ),
        "merge, fast-forward": _Case(
            ("merge", "exp"),
            {"LIST": 2, "GET": 6, "PUT": 6},
            "versions of both; ref, both newest, fork, two more versions; 3 files, transaction, manifest, ref",
        ),
        "merge, three-way": _Case(
            ("merge", "exp"),
            {"LIST": 2, "GET": 8, "PUT": 6},
            "the same and two more versions of main",
            before=lambda place: [place.append("main", 8_000).delete("id = 7"), None][1],
        ),
        "clone": _Case(
            ("clone",),
            {"LIST": 2 + branches, "GET": 2 * branches + 1, "PUT": 1 + branches},
            "branches, versions of each; each ref, each newest version; a tag on each",
            on="",
        ),
        "fetch, nothing new": _Case(("fetch",), follow, "branches, versions of each; each ref", cloned=True),
        "fetch, two branches moved": _Case(
            ("fetch",),
            {**follow, "GET": branches + 2, "PUT": 2},
            "the same, two manifests, two tags",
            before=lambda place: [place.append("main", 8_000), place.append("exp", 9_000), None][2],
            cloned=True,
        ),
        "push, one file": _Case(
            ("push",),
            {"LIST": 1, "GET": 1, "PUT": 4},
            "newest version; its manifest; file, transaction, manifest, tag",
            before=lambda place: _append_here(place),
            cloned=True,
        ),
    }
    return {name: case for name, case in known.items() if case.arguments[0] in VERBS}


def requests(rounds: int) -> Iterator[Requests]:
    """Every verb on a dataset of its own: 20 versions, 5 branches, 2 tags, and a delta of two files and a deletion."""
    numbers = count()
    with slow_store(time.time()) as store:
        for name, case in _cases().items():
            print(f"measuring: (d) {name}", flush=True)
            taken = [_once(store, case, next(numbers)) for _ in range(rounds)]
            seconds = median(took for took, _ in taken)
            yield Requests(name, taken[-1][1], case.least, case.why, seconds)


def _once(store: Store, case: _Case, number: int) -> tuple[float, dict[str, int]]:
    with _directory() as directory:
        place = _Place(f"s3://bench/{number}/t.lance", directory, storage_options(store.direct))
        _make(place)
        if case.cloned:
            _run(store, "clone", place.uri, f"{directory}/clone")
        case.before(place)
        arguments = list(case.arguments)
        if arguments == ["clone"]:
            arguments += [place.uri, f"{directory}/clone"]
        elif case.cloned:
            arguments = ["-C", f"{directory}/clone", *arguments]
        elif case.on:
            arguments = ["-C", place.workspace(case.on), *arguments]
        store.requests()
        started = time.perf_counter()
        _run(store, *arguments)
        return time.perf_counter() - started, store.requests()


def _directory() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory()


def _run(store: Store, *arguments: str) -> None:
    options = [text for key, value in storage_options(store.slow).items() for text in ("--storage", f"{key}={value}")]
    done = subprocess.run(
        [str(SCRIPT), *options, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"lance-git {' '.join(arguments)}: {done.stderr}")


def _make(place: _Place) -> None:
    dataset = lance.write_dataset(_rows(0), place.uri, max_rows_per_file=5, storage_options=place.storage)
    for version in range(1, _VERSIONS):
        dataset = place.append("main", 100 * version)
    for name in _BRANCHES:
        dataset.create_branch(name, storage_options=place.storage)
    for number, name in enumerate(_TAGS, 5):
        dataset.tags.create(name, number)
    place.append("exp", 5_000)
    place.append("exp", 6_000).delete("id = 3")


def _append_here(place: _Place) -> None:
    lance.write_dataset(_rows(7_000), str(Path(place.directory) / "clone"), mode="append")


def _rows(first: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + 10), pa.int64())})


def requests_table(measured: list[Requests]) -> str:
    """A Markdown table."""
    lines = ["| verb | requests | of them | least | what for | s |", "|---|---:|---|---:|---|---:|"]
    lines += [
        f"| {each.verb} | {each.total} | {_types(each.counts)} | {each.fewest}: {_types(each.least)} | {each.why} "
        f"| {each.seconds:.2f} |"
        for each in measured
    ]
    return "\n".join(lines)


def _types(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
