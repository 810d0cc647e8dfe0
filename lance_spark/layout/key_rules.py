"""The keys of rows: the values of a layout's transforms, and rows divided by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.layout.hash_rules import bucket_of
from lance_spark.layout.layout_rules import BUCKET, IDENTITY, TRUNCATE, TableLayout, Transform

Key: TypeAlias = "tuple[Any, ...]"
"""The key of a partition: for each transform a number, a text, a boolean, a Decimal or None."""
_BATCH = 65_536
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def key_column(transform: Transform, values: pa.Array) -> pa.Array:
    """The transform's value of each row. Instants are taken in UTC, as Iceberg and Spark's own functions take them."""
    if transform.name == BUCKET:
        return pa.array(bucket_of(values, int(transform.argument or 1)), pa.int32())
    if transform.name == IDENTITY:
        return values
    if transform.name == TRUNCATE:
        return _truncated(values, int(transform.argument or 1))
    if pt.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit))  # in UTC, whatever zone it is shown in
    if transform.name == "days":
        return _floored(values, 86_400) if pt.is_timestamp(values.type) else values.cast(pa.int32())
    if transform.name == "hours":
        return _floored(values, 3_600)
    days = _floored(values, 86_400) if pt.is_timestamp(values.type) else values.cast(pa.int32())
    # Not pyarrow's year, which wraps around beyond 32767.
    months = days.fill_null(0).to_numpy().astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    found = months if transform.name == "months" else np.floor_divide(months, 12)
    return pa.array(found.astype(np.int32), pa.int32(), mask=_nulls(days))


def _nulls(values: pa.Array) -> npt.NDArray[np.bool_] | None:
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


def _floored(values: pa.Array, seconds: int) -> pa.Array:
    ticks = values.cast(pa.int64())
    whole = np.floor_divide(ticks.fill_null(0).to_numpy(), seconds * _PER_SECOND[values.type.unit])
    return pa.array(whole.astype(np.int32), pa.int32(), mask=_nulls(ticks))


def _truncated(values: pa.Array, width: int) -> pa.Array:
    if not pt.is_integer(values.type):
        return pc.utf8_slice_codeunits(values, 0, width)
    numbers = values.cast(pa.int64()).fill_null(0).to_numpy()
    # Below the lowest multiple of the width that fits, the numbers wrap around, as in Iceberg.
    floored = numbers - np.mod(numbers, width)
    return pa.array(floored, pa.int64(), mask=_nulls(values))


def key_of(transform: Transform, kind: pa.DataType, value: Any) -> Any:
    """The key of a value as it stands in facts."""
    return plain(key_column(transform, array_of([value], kind)))[0]


def counted(values: pa.Array) -> pa.Array:
    """Dates as days, instants in their column's unit: Python has neither after the year 9999 nor before the year 1."""
    if pt.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pt.is_timestamp(values.type) else values


def plain(values: pa.Array) -> list[Any]:
    """Values as they stand in keys and facts."""
    found: list[Any] = counted(values).to_pylist()
    return found


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as they stand in keys and facts, as values of a column."""
    if pt.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if pt.is_timestamp(kind) else pa.array(values, kind)


def divided(layout: TableLayout, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """The rows of a batch by key, each key once, in the order in which they begin; rows of one key keep theirs."""
    codes, keys = _codes(layout.partition, batch)
    if len(keys) == 1:
        yield keys[0], batch
        return
    order = np.argsort(codes, kind="stable")
    numbers, starts = np.unique(codes[order], return_index=True)
    groups = zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
    for number, places in sorted(groups, key=lambda group: int(group[1][0])):
        first, last = int(places[0]), int(places[-1])
        whole = last - first + 1 == len(places)
        yield keys[number], batch.slice(first, len(places)) if whole else batch.take(pa.array(places))


def key_of_rows(layout: TableLayout, batch: pa.RecordBatch) -> Key | None:
    """The key of all rows of a batch; None if they have several."""
    _, keys = _codes(layout.partition, batch)
    return keys[0] if len(keys) == 1 else None


def with_keys(layout: TableLayout, batch: pa.RecordBatch, wanted: Collection[Key]) -> npt.NDArray[np.int64]:
    """The places of the rows with one of these keys."""
    codes, keys = _codes(layout.partition, batch)
    numbers = [number for number, key in enumerate(keys) if key in wanted]
    return np.flatnonzero(np.isin(codes, numbers))


def in_runs(layout: TableLayout, batch: pa.RecordBatch) -> bool:
    """Whether the rows of each key stand together, as if the rows were sorted by it."""
    codes, keys = _codes(layout.partition, batch)
    return int(np.count_nonzero(np.diff(codes))) == len(keys) - 1


def _codes(transforms: Sequence[Transform], batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[Key]]:
    """A number for each row, and the keys that the numbers stand for."""
    codes = np.zeros(batch.num_rows, np.int64)
    keys: list[Key] = [()]
    for each in transforms:
        coded = key_column(each, batch.column(each.column)).dictionary_encode(null_encoding="encode")
        values = plain(coded.dictionary)
        # Only as many numbers as there are different ones: products of many columns would not fit.
        numbers, dense = np.unique(codes * len(values) + coded.indices.to_numpy(), return_inverse=True)
        keys = [(*keys[number // len(values)], values[number % len(values)]) for number in numbers.tolist()]
        codes = dense.astype(np.int64)
    return codes, keys


# --- Runs: rows that are written one after the other, into files of their own


def runs(layout: TableLayout, batches: Iterable[pa.RecordBatch], budget: int) -> Iterator[Iterable[pa.RecordBatch]]:
    """The rows, in runs of one key each; consume each run before the next one.

    Rows that come in the layout's order are passed on as they come. Of others, up to ``budget`` bytes are held, and
    sorted: when they are more, the key with the most of them gets a run. No row is lost, and none has another key.
    """
    left = iter(batches)
    first = next(left, None)
    if first is None:
        return
    pieces = (piece for batch in chain((first,), left) for piece in divided(layout, batch))
    if not _in_order(layout, first):
        yield from _held(layout, pieces, budget)
        return
    done: set[Key] = set()
    groups = groupby(pieces, key=lambda piece: piece[0])
    for key, group in groups:
        if key in done:  # they are in no order after all
            yield from _held(layout, chain(group, (piece for _, rest in groups for piece in rest)), budget)
            return
        done.add(key)
        yield (batch for _, batch in group)


def cut(layout: TableLayout, batches: Iterable[pa.RecordBatch]) -> Iterator[Iterable[pa.RecordBatch]]:
    """The rows in their order, in runs that end where the key changes; consume each run before the next one."""
    pieces = (piece for batch in batches for piece in _pieces(layout, batch))
    for _, group in groupby(pieces, key=lambda piece: piece[0]):
        yield (batch for _, batch in group)


def _pieces(layout: TableLayout, batch: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
    codes, keys = _codes(layout.partition, batch)
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(bounds):
        if end > start:
            yield keys[int(codes[start])], batch.slice(start, end - start)


def by_key(layout: TableLayout, rows: pa.Table) -> pa.Table:
    """The rows by key, those of one key in their order."""
    if not layout.partition or not rows.num_rows:
        return rows
    columns = list(dict.fromkeys(each.column for each in layout.partition))
    codes, _ = _codes(layout.partition, rows.select(columns).combine_chunks().to_batches()[0])
    return rows.take(pa.array(np.argsort(codes, kind="stable")))


def _in_order(layout: TableLayout, batch: pa.RecordBatch) -> bool:
    """Whether rows are in runs of one key, each in the order of the layout's columns."""
    if not in_runs(layout, batch):
        return False
    if not layout.cluster or layout.curve:
        return True
    keys = [(name, "ascending") for name in layout.cluster]
    for _, piece in divided(layout, batch):
        order = pc.sort_indices(piece.select(list(layout.cluster)), sort_keys=keys)
        if not np.array_equal(_ranks(piece, layout.cluster, order), np.arange(piece.num_rows)):
            return False
    return True


def _ranks(piece: pa.RecordBatch, columns: Sequence[str], order: pa.Array) -> npt.NDArray[np.int64]:
    """The order, with equal rows as they stand."""
    found: npt.NDArray[np.int64] = order.to_numpy().astype(np.int64)
    values = piece.select(list(columns))
    wrong = np.flatnonzero(found != np.arange(len(found)))
    if not len(wrong) or not values.take(pa.array(found[wrong])).equals(values.take(pa.array(wrong))):
        return found
    return np.arange(len(found))


def _held(
    layout: TableLayout, pieces: Iterable[tuple[Key, pa.RecordBatch]], budget: int
) -> Iterator[Iterable[pa.RecordBatch]]:
    held: dict[Key, list[pa.RecordBatch]] = {}
    sizes: dict[Key, int] = {}
    for key, piece in pieces:
        held.setdefault(key, []).append(piece)
        sizes[key] = sizes.get(key, 0) + piece.nbytes
        while sum(sizes.values()) > budget:
            largest = max(sizes, key=lambda each: sizes[each])
            del sizes[largest]
            yield _sorted(layout, held.pop(largest))
    for key in [*held]:
        yield _sorted(layout, held.pop(key))


def _sorted(layout: TableLayout, batches: list[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Rows of one key in the order of the layout's columns, nulls last, as Spark is asked to sort them."""
    if not layout.cluster or layout.curve:
        return batches
    rows = pa.Table.from_batches(batches)
    keys = [(name, "ascending") for name in layout.cluster]
    order = pc.sort_indices(rows.select(list(layout.cluster)), sort_keys=keys)
    found: list[pa.RecordBatch] = rows.take(order).combine_chunks().to_batches(max_chunksize=_BATCH)
    return found
