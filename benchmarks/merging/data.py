"""The tables that are merged, made once below benchmarks/data/, and fresh copies of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import write_fragments

from benchmarks.data import HOME

BRANCH = "exp"
FLOATS = 12
"""Columns of random numbers, which nothing compresses: with the id 104 bytes a row."""
DELTA_FRAGMENTS, DELTA_ROWS = 10, 100_000
"""What the branch appends: 10.4 MB."""
_MOVED_ROWS = 1_000
_DELETED = 10
"""Rows that are deleted in each of a few fragments."""
_SCHEMA = pa.schema([("id", pa.int64()), *((f"x{column}", pa.float64()) for column in range(FLOATS))])


@dataclass(frozen=True)
class Shape:
    """How large main is, and what happened since the branch was made."""

    fragments: int
    fragment_rows: int
    deletes: bool = True
    """Whether the branch also deleted a few rows of main's."""
    moved: bool = False
    """Whether main moved in the meantime: rows appended, rows of other fragments deleted."""

    @property
    def rows(self) -> int:
        """Rows of main when the branch was made; their ids are 0, 1, 2, ..."""
        return self.fragments * self.fragment_rows

    @property
    def home(self) -> Path:
        made = f"{'' if self.deletes else '-appends'}{'-moved' if self.moved else ''}"
        return HOME / f"merge-{self.fragments}x{self.fragment_rows}{made}"

    @property
    def deleted_by_branch(self) -> list[int]:
        return self._few(0) if self.deletes else []

    @property
    def deleted_by_main(self) -> list[int]:
        return self._few(1) if self.moved else []

    @property
    def merged_ids(self) -> tuple[int, int]:
        """How many rows main has once everything is merged, and the sum of their ids."""
        gone = self.deleted_by_branch + self.deleted_by_main
        last = self.rows + DELTA_ROWS + (_MOVED_ROWS if self.moved else 0)
        return last - len(gone), last * (last - 1) // 2 - sum(gone)

    def _few(self, side: int) -> list[int]:
        """Ids in three fragments, others on the other side."""
        fragments = (side, self.fragments // 2 + side, self.fragments - 2 + side)
        return [fragment * self.fragment_rows + row for fragment in fragments for row in range(_DELETED)]


@dataclass(frozen=True)
class Table:
    """A dataset on disk whose branch is ready to be merged."""

    shape: Shape

    @property
    def home(self) -> str:
        return str(self.shape.home)

    @property
    def pristine(self) -> Path:
        return self.shape.home / "pristine.lance"

    @property
    def place(self) -> Path:
        """Where it was made, and where its copies are: branches name their parent's files by this path."""
        return self.shape.home / "table.lance"

    @contextmanager
    def copy(self) -> Iterator[str]:
        """A copy that may be written to; it is gone afterwards. Its files are hard links: files are never changed."""
        _link(self.pristine, self.place)
        try:
            yield str(self.place)
        finally:
            shutil.rmtree(self.place)

    def check(self, uri: str) -> None:
        """Raise AssertionError unless main has exactly the rows it should have after the merge, as pylance reads it."""
        ids = lance.dataset(uri).to_table(["id"])["id"]
        counted = (len(ids), int(ids.to_numpy().sum()))
        if counted != self.shape.merged_ids:
            raise AssertionError(f"main has {counted[0]} rows, not {self.shape.merged_ids[0]}, or others.")


def table(shape: Shape) -> Table:
    """Make it, if it is not there yet."""
    table = Table(shape)
    if not table.pristine.exists():
        print(f"making {shape.home.relative_to(HOME.parent)} ...", flush=True)
        shutil.rmtree(table.place, ignore_errors=True)
        table.place.parent.mkdir(parents=True, exist_ok=True)
        _make(str(table.place), shape)
        table.place.rename(table.pristine)
    return table


def once(home: Path, make: Callable[[str], None]) -> str:
    """URI of the dataset that ``make`` makes in a directory, where it stays; one left half made does not count."""
    uri, whole = home / "table.lance", home / "made"
    if not whole.exists():
        print(f"making {home.relative_to(HOME.parent)} ...", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        make(str(uri))
        whole.touch()
    return str(uri)


def files_of(directory: str) -> dict[str, int]:
    """Size in bytes of every file below a directory, by path."""
    sizes = {}
    for parent, _, names in os.walk(directory):
        sizes.update({f"{parent}/{name}": os.path.getsize(f"{parent}/{name}") for name in names})
    return sizes


def append(uri: str, first: int, rows: int, per_file: int) -> lance.LanceDataset:
    """Commit rows with the ids from ``first`` on."""
    return lance.write_dataset(batches(first, rows, per_file), uri, mode="append", max_rows_per_file=per_file)


def batches(first: int, rows: int, per_batch: int) -> pa.RecordBatchReader:
    """Rows with the ids from ``first`` on, other rows in every batch."""
    random = np.random.default_rng(first)

    def produced() -> Iterator[pa.RecordBatch]:
        for start in range(first, first + rows, per_batch):
            count = min(per_batch, first + rows - start)
            ids = pa.array(np.arange(start, start + count))
            yield pa.record_batch([ids, *(pa.array(random.random(count)) for _ in range(FLOATS))], schema=_SCHEMA)

    return pa.RecordBatchReader.from_batches(_SCHEMA, produced())


def _make(uri: str, shape: Shape) -> None:
    rows, per_file = shape.rows, shape.fragment_rows
    first = rows - per_file
    files = write_fragments(batches(0, first, per_file), uri, max_rows_per_file=per_file, max_rows_per_group=per_file)
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(_SCHEMA, files))
    # That version's manifest has every fragment twice, in its transaction as well; those of later versions do not.
    dataset = append(uri, first, per_file, per_file)
    branch = dataset.create_branch(BRANCH)
    branch = append(branch.uri, rows, DELTA_ROWS, DELTA_ROWS // DELTA_FRAGMENTS)
    if shape.deletes:
        branch.delete(f"id IN ({', '.join(map(str, shape.deleted_by_branch))})")
    if shape.moved:
        append(uri, rows + DELTA_ROWS, _MOVED_ROWS, _MOVED_ROWS)
        lance.dataset(uri).delete(f"id IN ({', '.join(map(str, shape.deleted_by_main))})")


def _link(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for directory, _, names in os.walk(source):
        made = target / Path(directory).relative_to(source)
        made.mkdir(parents=True)
        for name in names:
            os.link(os.path.join(directory, name), made / name)
