"""The tables that are read, made once per size below benchmarks/data/, the same rows in Lance and in Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lance.fragment import write_fragments

from benchmarks.data import CHUNK, HOME, made_once

VECTOR = 256
STATIONS = 100_000
REGIONS = 1_000
"""So that one region has 0.1 % of the stations."""
_CARRIERS = pa.array(["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"])


@dataclass(frozen=True)
class Tables:
    """Where the tables of one size are: ``<name>.lance`` and ``<name>.parquet``."""

    home: str
    rows: int

    def lance(self, name: str) -> str:
        return f"{self.home}/{name}.lance"

    def parquet(self, name: str) -> str:
        return f"{self.home}/{name}.parquet"


def prepare(rows: int) -> Tables:
    """Make what is missing: narrow (4 columns), wide (24), vectors (256 floats) and stations."""
    home = HOME / f"reading-{rows}"
    made_once(home, lambda place: _make(Tables(str(place), rows)))
    return Tables(str(home), rows)


def vector_rows(rows: int) -> int:
    return max(1_000, rows // 50)


def _make(tables: Tables) -> None:
    _write(tables, "narrow", (_chunk(start, count, 0) for start, count in _chunks(tables.rows, CHUNK)))
    _write(tables, "wide", (_chunk(start, count, 20) for start, count in _chunks(tables.rows, CHUNK)))
    _write(tables, "vectors", (_vectors(*each) for each in _chunks(vector_rows(tables.rows), 50_000)))
    stations = np.arange(STATIONS)
    _write(tables, "stations", iter([pa.table({"station": stations.astype(np.int32), "region": stations % REGIONS})]))
    for name in ("narrow", "wide"):
        lance.dataset(tables.lance(name)).create_scalar_index("id", "BTREE")


def _chunks(rows: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, size):
        yield start, min(size, rows - start)


def _chunk(start: int, count: int, more: int) -> pa.Table:
    """``id`` grows, as in tables of events: Parquet skips by it too. Half of the further columns are doubles."""
    random = np.random.default_rng(start)
    columns: dict[str, object] = {
        "id": np.arange(start, start + count),
        "station": random.integers(0, STATIONS, count).astype(np.int32),
        "delay": random.normal(size=count),
        "carrier": _CARRIERS.take(pa.array(random.integers(0, len(_CARRIERS), count))),
    }
    for number in range(more):
        columns[f"c{number}"] = random.random(count) if number % 2 else random.integers(0, 10_000, count)
    return pa.table(columns)


def _vectors(start: int, count: int) -> pa.Table:
    values = np.random.default_rng(start).random(count * VECTOR, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), VECTOR)
    return pa.table({"id": np.arange(start, start + count), "label": np.arange(count) % 50, "vector": vectors})


def _write(tables: Tables, name: str, chunks: Iterator[pa.Table]) -> None:
    Path(tables.parquet(name)).mkdir(parents=True)
    fragments = []
    schema = None
    for number, chunk in enumerate(chunks):
        schema = chunk.schema
        pq.write_table(chunk, f"{tables.parquet(name)}/part-{number:04}.snappy.parquet", row_group_size=CHUNK)
        fragments += write_fragments(chunk, tables.lance(name))
    lance.LanceDataset.commit(tables.lance(name), lance.LanceOperation.Overwrite(schema, fragments))
