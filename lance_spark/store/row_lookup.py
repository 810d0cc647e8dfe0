"""Finds the rows of a table that have the keys of other rows, through an index; runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from lance_spark.location import DatasetLocation
from lance_spark.query.literals import literal
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.conform import conform
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.fragment_sizes import fragment_sizes

_KEYS = 4096
"""Keys of one look-up."""
_EXACT = frozenset({"BTree", "BTREE", "Bitmap", "BITMAP"})


class Lookup(NamedTuple):
    """What is looked up in a version."""

    location: DatasetLocation
    pin: PinnedVersion
    key: str
    wire: pa.Schema
    """The columns of the table that come out, in the types of Spark, and the row's address; the key among them."""


def rows_outside(location: DatasetLocation, pin: PinnedVersion, key: str) -> tuple[int, int] | None:
    """(rows, rows in fragments that no index on the column knows); None where there is no such index."""
    dataset = open_pinned(location, pin)
    with translated(location, "describing the indexes"):
        known = [
            fragment
            for index in dataset.describe_indices()
            if list(index.field_names) == [key] and index.index_type in _EXACT
            for segment in index.segments
            for fragment in segment.fragment_ids
        ]
    if not known:
        return None
    sizes = fragment_sizes(location, pin)
    covered = frozenset(known)
    return (
        sum(size.live_rows for size in sizes),
        sum(size.live_rows for size in sizes if size.fragment_id not in covered),
    )


def with_matches(lookup: Lookup, names: tuple[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row beside each row of the table that has its key, as two structs of these names.

    A row without a match is there once, with nulls beside it.
    """
    for batch in batches:
        for start in range(0, batch.num_rows, _KEYS):
            part = batch.slice(start, _KEYS)
            keys = part.column(lookup.key).to_pylist()
            found = _rows(lookup, sorted({key for key in keys if key is not None}))
            mine, theirs = _pairs(keys, found.column(lookup.key).to_pylist())
            given, other = part.take(pa.array(mine, pa.int64())), found.take(pa.array(theirs, pa.int64()))
            sides = [_struct(given), _struct(other)]
            yield pa.RecordBatch.from_arrays(sides, list(names))


def _pairs(keys: list[object], found: list[object]) -> tuple[list[int], list[int | None]]:
    places: dict[object, list[int]] = {}
    for place, key in enumerate(found):
        places.setdefault(key, []).append(place)
    mine: list[int] = []
    theirs: list[int | None] = []
    for position, key in enumerate(keys):
        matches: list[int | None] = [*places.get(key, ())] if key is not None else []
        matches = matches or [None]
        mine += [position] * len(matches)
        theirs += matches
    return mine, theirs


def _struct(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def _rows(lookup: Lookup, keys: list[object]) -> pa.RecordBatch:
    """The rows of the table that have one of the keys."""
    dataset = open_pinned(lookup.location, lookup.pin)
    kind = dataset.schema.field(lookup.key).type
    texts = [text for key in keys if isinstance(text := literal(key, kind), str)]
    names = [name for name in lookup.wire.names if name != "_rowaddr"]
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in lookup.wire], schema=lookup.wire)
    if not texts:
        return empty
    quoted = "`" + lookup.key + "`"
    with translated(lookup.location, "looking up keys"):
        scanner = dataset.scanner(
            columns=names, with_row_address=True, filter=f"{quoted} IN ({', '.join(texts)})", prefilter=True
        )
        found = [conform(batch, lookup.wire) for batch in scanner.to_batches() if batch.num_rows]
    whole = pa.Table.from_batches([empty, *found]).combine_chunks().to_batches()
    return whole[0] if whole else empty
