"""Datasets for the tests of cleanup: their histories, what pylance reads back from them, and time that passes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_spark.cleanup import cleanup
from lance_spark.cleanup.cleanup import CleanupPlan, plan_cleanup
from lance_spark.cleanup.report import CleanupReport
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import LanceSparkError
from lance_spark.storage import deleting
from lance_spark.storage import versions as version_reader
from lance_spark.storage.datasets import locate
from lance_spark.storage.deleting import Deleted
from support.local_datasets import numbers

DAY = 86_400
NOW = timedelta(0)
RUNNER = LocalRunner(2)
BLOB_DIGITS = "0" * 32
KEEPING = {"older_than": NOW, "error_if_tagged_old_versions": False}
AT_ONCE = {"commit_window": NOW}
"""In most tests no other process commits, so that no version has to wait for a day."""
UUID = "11111111-2222-4333-8444-555555555555"


def append(uri: str, start: int, count: int = 3, branch: str | None = None) -> None:
    """One more version of a branch, with rows start, start + 1, ..."""
    lance.write_dataset(numbers(count, start), place(uri, branch), mode="append")


def overwrite(uri: str, start: int, count: int = 3, branch: str | None = None) -> None:
    """One more version that shares no data file with those before."""
    lance.write_dataset(numbers(count, start), place(uri, branch), mode="overwrite")


def place(uri: str, branch: str | None) -> str:
    return f"{uri}/tree/{branch}" if branch else uri


def overwritten(uri: str, versions: int = 4) -> str:
    """Each version has rows and files of its own."""
    for version in range(versions):
        lance.write_dataset(numbers(3, 10 * version), uri, mode="overwrite" if version else "create")
    return uri


def busy(uri: str) -> str:
    """Appends, deletions, an index, an overwrite, a tag on version 2, a branch from 3 and a branch of the branch."""
    lance.write_dataset(numbers(6), uri, max_rows_per_file=3)
    append(uri, 10)
    lance.dataset(uri).delete("id = 1")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_branch("dev", 3)
    append(uri, 100, branch="dev")
    lance.dataset(place(uri, "dev")).delete("id = 100")
    lance.dataset(place(uri, "dev")).create_branch("dev/deep")
    overwrite(uri, 200, branch="dev/deep")
    append(uri, 20)
    lance.dataset(uri).delete("id = 20")
    overwrite(uri, 30)
    append(uri, 40)
    lance.dataset(uri).tags.create("first", 2)
    return uri


def plan(uri: str, runner: LocalRunner = RUNNER, **policy: Any) -> CleanupPlan:
    """A plan to remove all that ``policy`` lets go; every version but the latest if it says nothing."""
    return plan_cleanup(locate(uri), CleanupPolicy(**{**AT_ONCE, **(policy or {"older_than": NOW})}), runner, now_ns())


def clean(uri: str, **policy: Any) -> CleanupReport:
    """Plan, delete, and expect that no deletion failed."""
    report = plan(uri, **policy).apply()
    assert report.complete, report
    return report


def candidates(made: CleanupPlan) -> set[str]:
    """Paths that a plan would delete, relative to the dataset."""
    return set(made.candidates()["file"].to_pylist())


def files(uri: str) -> set[str]:
    """All files of a dataset, relative to it, without the records of cleanups."""
    paths = {str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()}
    return {path for path in paths if not path.startswith("_cleanup/") and not is_record(path)}


def is_record(path: str) -> bool:
    """Whether a file is what a cleanup leaves about the versions that it removed, for merges.

    Half of one, whose writer was killed, stays as long as any file that no version names.
    """
    return ".columns.json" in path


def bytes_of(uri: str) -> int:
    return sum(Path(uri, path).stat().st_size for path in files(uri))


def versions(uri: str, branch: str | None = None) -> list[int]:
    return [entry["version"] for entry in lance.dataset(place(uri, branch)).versions()]


def branches(uri: str) -> list[str | None]:
    """Main and every branch that has a directory, whatever the refs say."""
    names = [str(path.parent.relative_to(Path(uri, "tree"))) for path in Path(uri, "tree").rglob("_versions")]
    return [None, *sorted(names)]


def reads(uri: str) -> dict[tuple[str | None, int], list[dict[str, Any]]]:
    """The rows of every version that is listed on any branch, read by pylance from scratch."""
    return {
        (branch, version): lance.dataset(place(uri, branch), version=version).to_table().to_pylist()
        for branch in branches(uri)
        for version in versions(uri, branch)
    }


def assert_kept(uri: str, before: dict[tuple[str | None, int], list[dict[str, Any]]]) -> None:
    """Every version that is listed, the latest ones among them, has the rows it had."""
    now = reads(uri)
    assert now == {which: before[which] for which in now}
    for branch in {branch for branch, _ in before}:
        assert max(version for on, version in before if on == branch) in versions(uri, branch)
    for tag in lance.dataset(uri).tags.list().values():
        assert (tag["branch"], tag["version"]) in now


def named(uri: str) -> set[str]:
    """What pylance says that the listed versions of all branches name, with the blobs beside data files."""
    paths: set[str] = set()
    for branch in branches(uri):
        rows = lance.dataset(place(uri, branch)).tracked_files().read_all().to_pylist()
        bases = [(os.path.relpath(os.path.realpath(row["base_uri"]), os.path.realpath(uri)), row) for row in rows]
        paths |= {os.path.normpath(f"{base}/{row['path']}") for base, row in bases if not base.startswith("..")}
        paths |= _index_files(uri, branch)
    blobs = {path for path in files(uri) if path.endswith(".blob")}
    return paths | {path for path in blobs if f"{path.rpartition('/')[0]}.lance" in paths}


def _index_files(uri: str, branch: str | None) -> set[str]:
    """Files of the indexes of all versions, also of those that a branch has from where it was made."""
    identifiers = {
        index["uuid"]
        for version in versions(uri, branch)
        for index in lance.dataset(place(uri, branch), version=version).list_indices()
    }
    return {path for path in files(uri) if any(f"_indices/{identifier}/" in path for identifier in identifiers)}


def orphans(uri: str) -> set[str]:
    """Files that no listed version names."""
    own = ("_refs/", "_clones/")
    rest = {path for path in files(uri) - named(uri) if not path.startswith(own) and not is_record(path)}
    return {path for path in rest if not path.endswith("latest_version_hint.json")}


def put(uri: str, path: str, days_old: float = 0, content: bytes = b"x" * 10) -> Path:
    """A file that no version names."""
    file = Path(uri, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    age(file, days_old)
    return file


def age(file: str | Path, days: float) -> None:
    """Let a file have been modified that many days ago."""
    then = time.time() - days * DAY
    os.utime(file, (then, then))


def age_all(uri: str, days: float, under: str = "") -> None:
    """Let all files be that old; the times inside manifests stay."""
    for path in files(uri):
        if path.startswith(under):
            age(Path(uri, path), days)


def manifest(uri: str, version: int, branch: str | None = None) -> Path:
    return Path(place(uri, branch), "_versions", f"{2**64 - 1 - version}.manifest")


def now_ns() -> int:
    """The time, nanoseconds since the epoch; days later once ``let_pass`` was called."""
    return time.time_ns() + int(getattr(now_ns, "days", 0) * DAY * 1e9)


def let_pass(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """From here on ``now_ns`` is that many days later."""
    monkeypatch.setattr(now_ns, "days", days, raising=False)


def after_batch(monkeypatch: pytest.MonkeyPatch, number: int, change: Callable[[], object], size: int = 2) -> None:
    """Delete in small batches, look again before each, and let something happen right after one of them."""
    done = iter(range(1, 10_000))
    really_delete = deleting.delete_batch

    def deleting_some(location: Any, paths: Iterable[str]) -> Deleted:
        deleted = really_delete(location, list(paths))
        if next(done) == number:
            change()
        return deleted

    small_batches(monkeypatch, size)
    monkeypatch.setattr(cleanup, "delete_batch", deleting_some)


def small_batches(monkeypatch: pytest.MonkeyPatch, size: int = 3) -> None:
    """Delete a few files at a time, and look again before each batch."""
    monkeypatch.setattr(cleanup, "BATCH", size)
    monkeypatch.setattr(cleanup, "Recheck", partial(cleanup.Recheck, rest=0.0))


@dataclass(frozen=True)
class Manifests:
    """Which manifests a run has read."""

    paths: list[str]

    def versions(self) -> set[int]:
        return {2**64 - 1 - int(Path(path).name[:20]) for path in self.paths}


def watch_manifests(monkeypatch: pytest.MonkeyPatch) -> Manifests:
    read, seen = version_reader.read_manifests, Manifests([])

    def reading(location: Any, paths: list[str]) -> Iterator[bytes | None]:
        seen.paths.extend(paths)
        return read(location, paths)

    monkeypatch.setattr(cleanup, "read_manifests", reading)
    return seen


def refused(
    uri: str,
    error: type[LanceSparkError] | tuple[type[LanceSparkError], ...] = LanceSparkError,
    match: str | None = None,
    **policy: Any,
) -> LanceSparkError:
    """A run must stop with the error, and not have touched a file."""
    there = {path: Path(uri, path).read_bytes() for path in files(uri)}
    with pytest.raises(error, match=match) as caught:
        clean(uri, **{**KEEPING, **policy})
    assert {path: Path(uri, path).read_bytes() for path in files(uri)} == there
    return caught.value
