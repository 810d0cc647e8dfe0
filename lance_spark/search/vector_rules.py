"""Vectors: the columns that hold them, conversion of given values, and the metric of a comparison. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.indexes.index_rules import HAMMING, find_column, is_byte_vector, is_number_list, lengthen
from lance_spark.search.search_rules import ColumnIndex, the_only, those

Vectors = npt.NDArray[Any]
_DEFAULT_METRIC = "l2"
_EMBED = "Embed {} with the model that was used for the column."


class Shape(NamedTuple):
    """The contents of each row of a column of vectors."""

    size: int
    number: str
    """The type of the numbers, as numpy names it."""
    several: bool
    """Whether a row has several vectors, for late interaction."""

    @property
    def of_bytes(self) -> bool:
        """Whether numbers are bytes, which are compared bit by bit."""
        return self.number == "u1"


@dataclass(frozen=True)
class QueryVector:
    """The query vector, as a value that can be compared and sent to executors."""

    content: bytes
    number: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, values: Vectors) -> QueryVector:
        return cls(values.tobytes(), values.dtype.str, values.shape)

    @property
    def values(self) -> Vectors:
        """The numbers: a vector, or one for each row of a matrix."""
        return np.frombuffer(self.content, self.number).reshape(self.shape)


def shape_of(type: pa.DataType) -> Shape | None:
    """The contents of a column of that type; None if it cannot be searched for neighbors."""
    several = pt.is_list(type)
    inner = type.value_type if several else type
    if not pt.is_fixed_size_list(inner):
        return None
    if pt.is_floating(inner.value_type):
        return Shape(inner.list_size, "f8" if pt.is_float64(inner.value_type) else "f4", several)
    if pt.is_uint8(inner.value_type) and not several:
        return Shape(inner.list_size, "u1", False)
    return None


def has_several(field: pa.Field) -> bool:
    shape = shape_of(field.type)
    return shape is not None and shape.several


def vector_column(schema: pa.Schema, column: str | None) -> pa.Field:
    """The column to search for a vector. Raises NotFound, SchemaMismatch, InvalidOption."""
    vectors = [field.name for field in schema if shape_of(field.type) is not None]
    lists = [field.name for field in schema if is_number_list(field.type)]
    if column is None and not vectors and len(lists) == 1:
        column = lists[0]
    field = find_column(schema, the_only(vectors, "vectors") if column is None else column)
    if is_number_list(field.type):
        raise SchemaMismatch(
            f"Column '{column}' is {field.type}: vectors need a length, which its lists do not have.",
            hint=lengthen(str(column)),
        )
    if shape_of(field.type) is None:
        raise SchemaMismatch(
            f"Column '{column}' is {field.type} and cannot be searched for neighbors.",
            hint=f"Vectors are fixed-size lists of floats, or of bytes (uint8). {those('Vectors are', vectors)}",
        )
    return field if column is None else field.with_name(column)


def check_alone(field: pa.Field) -> None:
    """Raise SchemaMismatch for a column with several vectors per row: each query of a join is one vector."""
    if has_several(field):
        raise SchemaMismatch(
            f"Column '{field.name}' has several vectors per row, which a join does not support.",
            hint="Search for one at a time: t.search(vector=[[...], [...]]).",
        )


def as_vector(given: Any, field: pa.Field) -> Vectors:
    """The given vector, or matrix for several vectors per row, as numbers. Raises SchemaMismatch for another length."""
    shape = shape_of(field.type)
    assert shape is not None
    values = _numbers(given, shape, field.name)
    if shape.several and values.ndim == 1:
        values = values[None, :]
    if values.ndim != 1 + shape.several:
        raise SchemaMismatch(
            f"vector= must be one vector, but has {values.ndim} dimensions.",
            hint="Many vectors: queries.transform(t.nearest_join('embedding', k=10)).",
        )
    if not values.size or values.shape[-1] != shape.size:
        raise SchemaMismatch(
            f"vector= has {values.shape[-1]} numbers, but those of column '{field.name}' have {shape.size}.",
            hint=_EMBED.format("the query"),
        )
    if not np.isfinite(values).all():
        raise SchemaMismatch("vector= holds a number that is not finite.", hint="Check how it was embedded.")
    return values


def check_direction(values: Vectors, metric: str) -> None:
    """Raise SchemaMismatch for zeros with cosine: no row has a distance to them, so none would be found."""
    if metric == "cosine" and not values.any(axis=-1).all():
        raise SchemaMismatch(
            "vector= is all zeros, which have no direction, so no cosine distance.",
            hint="Check how it was embedded; or use metric='l2'.",
        )


def as_vectors(given: pa.Array, field: pa.Field) -> tuple[Vectors, Vectors]:
    """Places of the vectors that are not null, and these as a matrix. Raises SchemaMismatch for another length."""
    shape = shape_of(field.type)
    assert shape is not None
    places = np.flatnonzero(np.asarray(given.is_valid()))
    valid = given.drop_null()
    lengths = np.asarray(pc.list_value_length(valid))
    if len(valid) and not (lengths == shape.size).all():
        wrong = int(lengths[lengths != shape.size][0])
        raise SchemaMismatch(
            f"A query has {wrong} numbers, but those of column '{field.name}' have {shape.size}.",
            hint=_EMBED.format("the queries"),
        )
    flat: Vectors = np.asarray(valid.flatten().to_numpy(zero_copy_only=False))
    flat = _as_bytes(_plain(flat), "A query", field.name) if shape.of_bytes else flat.astype(shape.number)
    matrix = flat.reshape(len(valid), shape.size)
    if not np.isfinite(matrix).all():
        raise SchemaMismatch("A query holds a number that is not finite.", hint="Omit such queries.")
    return places, matrix


def is_incomplete(vectors: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether each vector lacks a number, or has one that is not finite; a null is no vector at all, so it does not.

    Of several vectors in a row one is enough.
    """
    found = np.zeros(len(vectors), bool)
    places = np.flatnonzero(np.asarray(vectors.is_valid()))
    inner = vectors.drop_null()
    if not len(inner):
        return found
    numbers = inner.flatten()
    if pt.is_fixed_size_list(inner.type):
        # Arrow gives NaN for null.
        bad = ~np.isfinite(numbers.to_numpy(zero_copy_only=False).astype(np.float64)).reshape(len(inner), -1)
        found[places] = bad.any(axis=1)
        return found
    of_row = np.repeat(places, np.asarray(pc.list_value_length(inner)))
    found[of_row[is_incomplete(numbers) | ~np.asarray(numbers.is_valid())]] = True
    return found


def effective_metric(metric: str | None, index: ColumnIndex | None, field: pa.Field) -> str:
    """The metric of a search: the given one, that of the index, that of bytes, or l2."""
    if metric is not None or index is not None:
        return metric or str(index.settings["metric"])  # type: ignore[union-attr]
    return HAMMING if is_byte_vector(field.type) else _DEFAULT_METRIC


def check_refined(field: pa.Field, index: ColumnIndex | None, refine_factor: int | None, fast: bool) -> bool:
    """Whether an index may be used. Raises InvalidOption if one must be used but may not.

    With several vectors per row, pylance 14.0.2 guesses the distances of rows that an index did not find for every
    vector of the query: distant rows come out first, unless candidates are compared by their exact distances.
    """
    if index is None or refine_factor is not None or not has_several(field):
        return True
    if fast:
        raise InvalidOption(
            f"Column '{field.name}' has several vectors per row, whose distances an index only approximates.",
            hint="Use refine_factor=10, or omit fast=True to compare all vectors.",
        )
    return False


def _numbers(given: Any, shape: Shape, column: str) -> Vectors:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        given = given.to_pylist()
    elif isinstance(given, pa.Scalar):
        given = given.as_py()
    if shape.of_bytes and isinstance(given, bytes | bytearray | memoryview):
        return np.frombuffer(given, np.uint8)
    try:
        values: Vectors = np.asarray(given)
        if values.dtype.kind in "iufO":  # Text is not numbers, even if it consists of digits.
            values = _plain(values) if shape.of_bytes else values.astype(shape.number)
        else:
            values = np.zeros(())
    except (TypeError, ValueError):
        values = np.zeros(())
    if values.ndim == 0:
        words = "For words, use text=. " if isinstance(given, str) else ""
        raise SchemaMismatch(
            f"vector= is not a list of numbers: {type(given).__name__}.",
            hint=f"{words}Column '{column}' has vectors of {shape.size} numbers: give as many in a list or array.",
        )
    return _as_bytes(values, "vector=", column) if shape.of_bytes else values


def _plain(values: Vectors) -> Vectors:
    """Decimals, Python's type for numbers of SQL, as floats. Raises TypeError and ValueError for anything else."""
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _as_bytes(values: Vectors, what: str, column: str) -> Vectors:
    """Numbers as bytes. Raises SchemaMismatch for one that does not fit."""
    if not values.size:
        return values.astype(np.uint8)
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values <= 255) & (values % 1 == 0)
    if not good.all():
        raise SchemaMismatch(
            f"{what} holds {values[~good].reshape(-1)[0]}, but column '{column}' has bytes.",
            hint="Bytes are whole numbers from 0 to 255; numpy.packbits makes them from bits.",
        )
    return values.astype(np.uint8)
