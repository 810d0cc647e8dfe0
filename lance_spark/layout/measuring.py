"""Facts about data files that came without: their columns are read, on executors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.fact_rules import FACTS, Collector, Watched
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

MEASURED = pa.schema([("facts", pa.string())])
"""Facts of one fragment, as JSON."""


class MeasureItem(NamedTuple):
    location: DatasetLocation
    pin: PinnedVersion
    columns: tuple[Watched, ...]
    fragments: tuple[int, ...]


def measure(item: MeasureItem) -> Iterator[pa.RecordBatch]:
    """MEASURED of fragments. Those with deleted rows are left out: an older version has them, in the same file."""
    dataset = open_pinned(item.location, item.pin)
    ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}
    names = [each.name for each in item.columns]
    for key in item.fragments:
        with translated(item.location, "reading the columns of the layout"):
            fragment = dataset.get_fragment(key)
            if fragment is None or fragment.metadata.deletion_file is not None:
                continue
            collector = Collector(item.columns)
            for _ in collector.watch(dataset.scanner(columns=names, fragments=[fragment]).to_batches()):
                pass
            entry = fragment.metadata.to_json()
        collector.give([entry], ids)
        if FACTS in entry:
            yield pa.record_batch([pa.array([json.dumps(entry[FACTS])])], schema=MEASURED)


def measure_items(
    location: DatasetLocation, pin: PinnedVersion, columns: Sequence[Watched], fragments: Sequence[int], at_once: int
) -> list[MeasureItem]:
    parts = [tuple(fragments[first : first + at_once]) for first in range(0, len(fragments), at_once)]
    return [MeasureItem(location, pin, tuple(columns), part) for part in parts]
