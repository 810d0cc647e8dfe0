"""Columns of fragments that somebody has to read, on executors, for what is known of their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.fact_rules import FACTS, Collector, Watched
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

MEASURED = pa.schema([("found", pa.string())])
"""What was collected, as JSON."""
_ROWS = 65_536
_AT_ONCE = 32
"""Fragments that one task reads, at most."""
_TASKS = 16
"""Tasks that share the fragments of a small table."""


Read = Iterable[tuple[dict[str, Any], Iterable[pa.RecordBatch]]]
"""Fragments, pylance's JSON, and their rows; each is read before the next one."""


class MeasureItem(NamedTuple):
    location: DatasetLocation
    pin: PinnedVersion
    fragments: tuple[int, ...]
    columns: tuple[str, ...]
    whole: bool
    """Whether fragments with deleted rows are left out."""
    collect: Callable[[Read, Mapping[str, int]], Iterator[Any]]
    """What is told of fragments, as JSON has it, with the ids of all columns."""


def measure(item: MeasureItem) -> Iterator[pa.RecordBatch]:
    """MEASURED of the live rows of fragments."""
    dataset = open_pinned(item.location, item.pin)
    ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}
    with translated(item.location, "reading columns to measure them"):
        for each in item.collect(_read(item, dataset), ids):
            yield pa.record_batch([pa.array([json.dumps(each)])], schema=MEASURED)


def _read(item: MeasureItem, dataset: Any) -> Read:
    for key in item.fragments:
        fragment = dataset.get_fragment(key)
        if fragment is not None and not (item.whole and fragment.metadata.deletion_file is not None):
            scanner = dataset.scanner(columns=list(item.columns), fragments=[fragment], batch_size=_ROWS)
            yield fragment.metadata.to_json(), scanner.to_batches()


def divided(item: MeasureItem) -> list[MeasureItem]:
    """One for each task."""
    every = item.fragments
    at_once = max(1, min(_AT_ONCE, -(-len(every) // _TASKS)))
    return [item._replace(fragments=every[first : first + at_once]) for first in range(0, len(every), at_once)]


def facts_of(columns: Sequence[Watched], fragments: Read, ids: Mapping[str, int]) -> Iterator[Any]:
    """Facts of each fragment. It needs whole ones: an older version has deleted rows, in the same file."""
    for entry, batches in fragments:
        collector = Collector(columns)
        for _ in collector.watch(batches):
            pass
        collector.give([entry], ids)
        if FACTS in entry:
            yield entry[FACTS]
