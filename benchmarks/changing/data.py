"""The table that is changed, in Lance and in Delta, and what is changed: made once per size below benchmarks/data/."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lance.fragment import write_fragments

from benchmarks.data import HOME, flights_rows, made_once

VECTOR = 512
CHUNK = 200_000
"""Rows of a data file: half a gigabyte."""
PLAIN, INDEXED = "plain", "indexed"
"""Tags: without an index, and with a BTREE on ``id``."""
_numbers = count()


@dataclass(frozen=True)
class Tables:
    """Where the tables of one size are."""

    directory: Path
    rows: int

    @property
    def lance(self) -> str:
        return str(self.directory / "flights.lance")

    @property
    def parquet(self) -> str:
        return str(self.directory / "flights.parquet")

    @property
    def upserts(self) -> str:
        """Rows to merge in: 1 % of the table's, half of them with new keys."""
        return str(self.directory / "upserts.parquet")

    @property
    def changed(self) -> int:
        return max(10, self.rows // 100)


@dataclass(frozen=True)
class LancePlace:
    """A fresh branch for each round: it has the table's rows and no files."""

    tables: Tables
    tag: str

    @property
    def home(self) -> str:
        return self.tables.lance

    @contextmanager
    def copy(self) -> Iterator[str]:
        """The name of a branch, which is gone afterwards."""
        name = f"round-{next(_numbers)}"
        dataset = lance.dataset(self.tables.lance)
        dataset.create_branch(name, self.tag)
        try:
            yield name
        finally:
            lance.dataset(self.tables.lance).branches.delete(name)

    def check(self, uri: str) -> None:
        """Raise unless pylance can read the branch, all fragments of it."""
        lance.dataset(f"{self.tables.lance}/tree/{uri}").validate()


def prepare(rows: int) -> Tables:
    """Make what is missing."""
    home = HOME / f"changing-{rows}"
    made_once(home, lambda place: _make(Tables(place, rows)))
    return Tables(home, rows)


def _make(tables: Tables) -> None:
    ids = np.random.default_rng(13).permutation(tables.rows)
    Path(tables.parquet).mkdir(parents=True)
    fragments = []
    schema = None
    for number, start in enumerate(range(0, tables.rows, CHUNK)):
        chunk = _rows(ids[start : start + CHUNK], start, tables.rows)
        schema = chunk.schema
        pq.write_table(chunk, f"{tables.parquet}/part-{number:04}.snappy.parquet")
        fragments += write_fragments(chunk, tables.lance)
    dataset = lance.LanceDataset.commit(tables.lance, lance.LanceOperation.Overwrite(schema, fragments))
    dataset.tags.create(PLAIN, dataset.version)
    dataset.create_scalar_index("id", "BTREE")
    dataset = lance.dataset(tables.lance)
    dataset.tags.create(INDEXED, dataset.version)
    half = tables.changed // 2
    known = np.random.default_rng(7).choice(tables.rows, half, replace=False)
    keys = np.concatenate([known, np.arange(tables.rows, tables.rows + half)])
    pq.write_table(_rows(keys, 0, tables.rows), tables.upserts)


def _rows(ids: np.ndarray, start: int, rows: int) -> pa.Table:
    """Thirty columns as in the other benchmarks, and a vector."""
    values = np.random.default_rng(start).random(len(ids) * VECTOR, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), VECTOR)
    return flights_rows(ids, start, rows).append_column("vector", vectors)


def remove(path: str) -> None:
    """A table of a peer, after its round."""
    shutil.rmtree(path, ignore_errors=True)
