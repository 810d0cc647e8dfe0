"""The tables that are measured, made once per size below benchmarks/data/."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lance.fragment import write_fragments

HOME = Path(__file__).parent / "data"
CHUNK = 1_000_000
"""Rows of a data file, in Lance and in Parquet."""
VECTOR = 512
FRAGMENTS = 100_000
WEATHER_STATIONS = 100_000
SELECTED_STATIONS = 100
"""``weather_id < 100`` keeps 0.1 % of the rows, spread evenly, so that no format can skip by minimum and maximum."""

_CARRIERS = pa.array(["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"])
_ORIGINS = pa.array(["EWR", "JFK", "LGA"])
_AIRPORTS = pa.array([f"{a}{b}{c}" for a in "ABDLMS" for b in "AEIOU" for c in "LNTX"])
_PLANES = pa.array([f"N{number}{tail}" for number in range(100, 1100) for tail in ("AA", "JB", "UW", "DL")])


@dataclass(frozen=True)
class Tables:
    """Where the tables of one size are: the same rows as ``<name>.lance`` and ``<name>.parquet``."""

    home: Path
    rows: int
    vector_rows: int

    def lance(self, name: str) -> str:
        return str(self.home / f"{name}.lance")

    def parquet(self, name: str) -> str:
        return str(self.home / f"{name}.parquet")


def prepare(rows: int) -> Tables:
    """Make what is missing."""
    tables = Tables(HOME / str(rows), rows, max(1_000, rows // 100))
    made_once(tables.home, lambda home: _make_tables(Tables(home, rows, tables.vector_rows)))
    return tables


def many_fragments(fragments: int = FRAGMENTS) -> str:
    """A dataset of so many fragments: one tiny file, committed so many times over."""
    target = HOME / ("fragments.lance" if fragments == FRAGMENTS else f"fragments-{fragments}.lance")
    made_once(target, lambda home: _commit(str(home), fragments))
    return str(target)


def made_once(target: Path, make: Callable[[Path], None]) -> None:
    """Make a directory that is missing. A run that was interrupted leaves nothing that counts as made."""
    if target.exists():
        return
    print(f"making {target.relative_to(HOME.parent)} ...", flush=True)
    unfinished = target.with_name(target.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    make(unfinished)
    unfinished.rename(target)


def _commit(uri: str, times: int) -> None:
    table = pa.table({"id": pa.array(range(10), pa.int64()), "value": pa.array(range(10), pa.float64())})
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(table.schema, write_fragments(table, uri) * times))


def _make_tables(tables: Tables) -> None:
    _write(tables, "flights", lambda: _flights(tables.rows))
    _write(tables, "narrow", lambda: _narrow(tables.rows))
    _write(tables, "pair", lambda: (chunk.select(["distance", "air_time"]) for chunk in _flights(tables.rows)))
    _write(tables, "vectors", lambda: _vectors(tables.vector_rows))
    flights = lance.dataset(tables.lance("flights"))  # version 1 stays without an index
    for column in ("id", "weather_id"):
        flights.create_scalar_index(column, "BTREE")


def _write(tables: Tables, name: str, make: Callable[[], Iterator[pa.Table]]) -> None:
    Path(tables.parquet(name)).mkdir(parents=True)
    fragments = []
    chunks = make()
    first = next(chunks)
    for number, chunk in enumerate(chain((first,), chunks)):
        pq.write_table(chunk, f"{tables.parquet(name)}/part-{number:04}.snappy.parquet", row_group_size=CHUNK)
        fragments += write_fragments(chunk, tables.lance(name))
    lance.LanceDataset.commit(tables.lance(name), lance.LanceOperation.Overwrite(first.schema, fragments))


def _chunks(rows: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, size):
        yield start, min(size, rows - start)


def _narrow(rows: int) -> Iterator[pa.Table]:
    """bigint, two doubles, a short string: rows so narrow that Spark's channel counts, not Lance."""
    for start, count in _chunks(rows):
        random = np.random.default_rng(start)
        yield pa.table(
            {
                "id": np.arange(start, start + count),
                "delay": random.normal(size=count),
                "distance": random.uniform(80, 5_000, count),
                "carrier": _CARRIERS.take(pa.array(random.integers(0, len(_CARRIERS), count))),
            }
        )


def _vectors(rows: int) -> Iterator[pa.Table]:
    for start, count in _chunks(rows, 50_000):
        values = np.random.default_rng(start).random(count * VECTOR, dtype=np.float32)
        yield pa.table(
            {
                "id": np.arange(start, start + count),
                "label": _AIRPORTS.take(pa.array(np.arange(count) % len(_AIRPORTS))),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(values), VECTOR),
            }
        )


def _flights(rows: int) -> Iterator[pa.Table]:
    """Thirty columns: those of nycflights13, a key in random order, and derived ones."""
    ids = np.random.default_rng(13).permutation(rows)
    for start, count in _chunks(rows):
        yield flights_rows(ids[start : start + count], start, rows)


def flights_rows(ids: np.ndarray, start: int, rows: int) -> pa.Table:
    """Thirty columns for some ids: rows ``start`` and following of a table of so many rows."""
    random = np.random.default_rng(start + 1)
    count = len(ids)

    def pick(words: pa.Array) -> pa.Array:
        return words.take(pa.array(random.integers(0, len(words), count)))

    def clock(minutes: np.ndarray) -> np.ndarray:
        return np.asarray(minutes // 60 % 24 * 100 + minutes % 60, dtype=np.int32)

    moment = np.datetime64("2013-01-01T00", "m") + (np.arange(start, start + count) * 525_600 // rows)
    day = moment.astype("datetime64[D]")
    month = moment.astype("datetime64[M]")
    scheduled = random.integers(5 * 60, 23 * 60, count)
    distance = random.integers(80, 4_984, count).astype(np.float64)
    air_time = np.round(distance / 7.5 + random.normal(20, 6, count)).clip(15)
    dep_delay = np.round(random.exponential(18, count) - 6)
    arr_delay = dep_delay + np.round(random.normal(-6, 12, count))
    cancelled = random.random(count) < 0.025
    seats = random.integers(50, 380, count).astype(np.int16)

    def flown(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=cancelled)

    return pa.table(
        {
            "id": ids,
            "year": np.full(count, 2013, np.int32),
            "month": (month.astype(np.int64) % 12 + 1).astype(np.int32),
            "day": ((day - month).astype(np.int64) + 1).astype(np.int32),
            "dep_time": flown(clock(scheduled + dep_delay.astype(np.int64))),
            "sched_dep_time": clock(scheduled),
            "dep_delay": flown(dep_delay),
            "arr_time": flown(clock(scheduled + air_time.astype(np.int64))),
            "sched_arr_time": clock(scheduled + air_time.astype(np.int64) + 10),
            "arr_delay": flown(arr_delay),
            "carrier": pick(_CARRIERS),
            "flight": random.integers(1, 8_500, count).astype(np.int32),
            "tailnum": pick(_PLANES),
            "origin": pick(_ORIGINS),
            "dest": pick(_AIRPORTS),
            "air_time": flown(air_time),
            "distance": distance,
            "hour": (scheduled // 60).astype(np.int32),
            "minute": (scheduled % 60).astype(np.int32),
            "time_hour": pa.array(moment.astype("datetime64[us]"), pa.timestamp("us", tz="UTC")),
            "flight_date": pa.array(day, pa.date32()),
            "weather_id": random.integers(0, WEATHER_STATIONS, count).astype(np.int32),
            "cancelled": cancelled,
            "seats": seats,
            "gain": flown(dep_delay - arr_delay),
            "speed": flown((distance / air_time * 60).astype(np.float32)),
            "gain_per_hour": flown((dep_delay - arr_delay) / air_time * 60),
            "load_factor": random.beta(8, 2, count).astype(np.float32),
            "passengers": (seats * random.beta(8, 2, count)).astype(np.int32),
            "fare": pc.cast(pa.array(random.integers(39, 1_400, count).astype(np.int32)), pa.decimal128(12, 2)),
        }
    )
