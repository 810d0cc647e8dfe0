"""The datasets that are cleaned up, made once below benchmarks/data/, and fresh copies of them."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from benchmarks.data import HOME

AGED, FRESH = timedelta(days=30), timedelta(0)
AGES = {"aged": AGED, "fresh": FRESH}
_FRESH_FOR = 45 * 60
"""Seconds. Fresh files keep their times, and are made again: the reference deletes no file that is newer than the
manifests, whose times are inside them, so a new time alone would let it do a third of the work."""
LINEAGE = 5
"""Branches stand on each other's shoulders, five high, so that the order of cleaning them matters to the reference."""
BRANCH_FRAGMENTS = 20
_BRANCH_ROWS = 1_000_000
"""Ids of a branch's rows begin at a multiple of this, those of main's at 0."""
_ID_SIZE = 26


@dataclass(frozen=True)
class Dataset:
    """A dataset, and the ids that have to be readable at the latest version of main ("") and of each branch."""

    home: Path
    rows: dict[str, range]
    age: timedelta = AGED

    @property
    def pristine(self) -> Path:
        return self.home / "pristine.lance"

    @property
    def table(self) -> Path:
        """Where it was made, and where its copies are: branches name their parent's files by this path."""
        return self.home / "table.lance"

    @property
    def modified(self) -> float:
        """When its files were modified, in seconds since 1970; the oldest of them, where they are fresh."""
        if self.age:
            return time.time() - self.age.total_seconds()
        return min(path.stat().st_mtime for path in self.pristine.rglob("*") if path.is_file())

    @contextmanager
    def copy(self) -> Iterator[str]:
        """A copy that may be cleaned up; it is gone afterwards.

        Files are hard links: deleting them does the pristine ones no harm, but both have one time.
        """
        shutil.rmtree(self.table, ignore_errors=True)
        seconds = self.modified
        for directory, _, names in os.walk(self.pristine):
            target = self.table / Path(directory).relative_to(self.pristine)
            target.mkdir(parents=True)
            for name in names:
                os.link(os.path.join(directory, name), target / name)
                if self.age:
                    os.utime(target / name, (seconds, seconds))
        try:
            yield str(self.table)
        finally:
            shutil.rmtree(self.table)

    def check(self, uri: str, storage: dict[str, str] | None = None) -> None:
        """Read the latest version of main and of all branches. Raises AssertionError where rows are missing."""
        for branch, expected in self.rows.items():
            ids = lance.dataset(branch_uri(uri, branch), storage_options=storage).to_table(["id"])["id"].to_pylist()
            if sorted(ids) != list(expected):
                raise AssertionError(f"{branch or 'main'} has {len(ids)} rows, not {len(expected)}, or others.")


def branch_uri(uri: str, branch: str) -> str:
    return f"{uri}/tree/{branch}" if branch else uri


def history(fragments: int, versions: int, age: timedelta = AGED) -> Dataset:
    """Each version replaces the oldest fragment: it makes one data file, one manifest and one transaction stale."""
    home = HOME / f"cleanup-{fragments}x{versions}{'' if age else '-fresh'}"
    dataset = Dataset(home, {"": range(versions, versions + fragments)}, age)
    return _once(dataset, lambda uri: _commit_history(uri, fragments, versions))


def lineages(branches: int, versions: int) -> Dataset:
    """Branches of branches, on each of which versions replace what they inherited."""
    names = branch_names(branches)
    rows = {
        name: range(number * _BRANCH_ROWS + versions - BRANCH_FRAGMENTS, number * _BRANCH_ROWS + versions)
        for number, name in enumerate(names, 1)
    }
    rows[""] = range(versions, versions + BRANCH_FRAGMENTS)
    return _once(
        Dataset(HOME / f"cleanup-branches-{branches}x{versions}", rows), lambda uri: _commit_all(uri, names, versions)
    )


def branch_names(branches: int) -> list[str]:
    """Parents before children."""
    return [f"team{number // LINEAGE}/level{number % LINEAGE}" for number in range(branches)]


def add_orphans(uri: str, count: int, age: timedelta) -> None:
    """Empty files named like data files, which no version names."""
    seconds = time.time() - age.total_seconds()
    generator = random.Random(count)
    for number in range(count):
        path = f"{uri}/data/{generator.getrandbits(24):024b}{number:0{_ID_SIZE}x}.lance"
        os.mknod(path)
        os.utime(path, (seconds, seconds))


def file_count(uri: str) -> int:
    return sum(len(names) for _, _, names in os.walk(uri))


def stale_files(uri: str) -> frozenset[str]:
    """Paths of the files that only versions of main before the latest one need, as pylance sees it."""
    dataset = lance.dataset(uri)
    named = {f"data/{file.path}" for part in dataset.get_fragments() for file in part.metadata.files}
    manifest = f"_versions/{2**64 - 1 - dataset.version:020}.manifest"
    transaction = f"_transactions/{dataset.version - 1}-"
    return frozenset(
        path
        for directory in ("data", "_versions", "_transactions")
        for name in os.listdir(f"{uri}/{directory}")
        if (path := f"{directory}/{name}") not in named and path != manifest and not path.startswith(transaction)
        if directory != "_versions" or name.endswith(".manifest")
    )


def _once(dataset: Dataset, make: Callable[[str], None]) -> Dataset:
    if not dataset.age and dataset.pristine.exists() and time.time() - dataset.modified > _FRESH_FOR:
        shutil.rmtree(dataset.pristine)
    if not dataset.pristine.exists():
        print(f"making {dataset.home.relative_to(HOME.parent)} ...", flush=True)
        shutil.rmtree(dataset.table, ignore_errors=True)
        dataset.home.mkdir(parents=True, exist_ok=True)
        make(str(dataset.table))
        dataset.table.rename(dataset.pristine)
    return dataset


def _commit_all(uri: str, branches: list[str], versions: int) -> None:
    handles = {"": _commit_history(uri, BRANCH_FRAGMENTS, versions)}
    for number, name in enumerate(branches):
        parent = "" if number % LINEAGE == 0 else branches[number - 1]
        branch = handles[parent].create_branch(name)
        first = (number + 1) * _BRANCH_ROWS
        handles[name] = _replace_oldest(branch, _fragments(branch.uri, range(first, first + versions)))


def _commit_history(uri: str, fragments: int, versions: int) -> lance.LanceDataset:
    files = _fragments(uri, range(fragments + versions))
    schema = pa.schema([("id", pa.int64())])
    created = lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(schema, files[:fragments]))
    return _replace_oldest(created, files[fragments:])


def _fragments(uri: str, ids: range) -> list[FragmentMetadata]:
    table = pa.table({"id": pa.array(ids, pa.int64())})
    return list(write_fragments(table, uri, max_rows_per_file=1, max_rows_per_group=1))


def _replace_oldest(dataset: lance.LanceDataset, files: list[FragmentMetadata]) -> lance.LanceDataset:
    ids = deque(fragment.fragment_id for fragment in dataset.get_fragments())
    for file in files:
        swap = lance.LanceOperation.Update(removed_fragment_ids=[ids.popleft()], new_fragments=[file])
        ids.append(ids[-1] + 1)
        dataset = lance.LanceDataset.commit(dataset, swap, read_version=dataset.version)
    return dataset
