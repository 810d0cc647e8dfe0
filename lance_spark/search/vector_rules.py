"""Vectors: which columns hold them, what was given as one, and by which metric they are compared. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.indexes.rules import HAMMING, find_column, is_byte_vector
from lance_spark.search.rules import ColumnIndex, the_only, those

Vectors = npt.NDArray[Any]
_DEFAULT_METRIC = "l2"
_EMBED = "Embed {} with the model that the column was made with."


class Shape(NamedTuple):
    """What each row of a column of vectors holds."""

    size: int
    """Numbers of a vector."""
    number: str
    """The numbers, as numpy calls them."""
    several: bool
    """Whether a row has several vectors, as late interaction compares them."""

    @property
    def of_bytes(self) -> bool:
        """Whether numbers are bytes, of which bits are compared."""
        return self.number == "u1"


@dataclass(frozen=True)
class QueryVector:
    """What is searched for, as a value that can be compared and crosses to executors."""

    content: bytes
    number: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, values: Vectors) -> QueryVector:
        """From numbers."""
        return cls(values.tobytes(), values.dtype.str, values.shape)

    @property
    def values(self) -> Vectors:
        """The numbers: a vector, or one for each row of a matrix."""
        return np.frombuffer(self.content, self.number).reshape(self.shape)


def shape_of(type: pa.DataType) -> Shape | None:
    """What a column of that type holds; None if it cannot be searched for neighbours."""
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
    """Whether a row has several vectors."""
    shape = shape_of(field.type)
    return shape is not None and shape.several


def vector_column(schema: pa.Schema, column: str | None) -> pa.Field:
    """The column that a vector is searched for in. Raises NotFound, SchemaMismatch, InvalidOption."""
    vectors = [field.name for field in schema if shape_of(field.type) is not None]
    field = find_column(schema, the_only(vectors, "vectors") if column is None else column)
    if shape_of(field.type) is None:
        raise SchemaMismatch(
            f"Column '{column}' is {field.type}, and cannot be searched for neighbours.",
            hint=f"Vectors are fixed-size lists of floats, or of bytes (uint8). {those('Vectors are', vectors)}",
        )
    return field if column is None else field.with_name(column)


def check_alone(field: pa.Field) -> None:
    """Raise SchemaMismatch for a column with several vectors a row, where each query of many is one vector."""
    if has_several(field):
        raise SchemaMismatch(
            f"Column '{field.name}' has several vectors a row, which a join does not look for.",
            hint="Search for one at a time: t.search(vector=[[...], [...]]).",
        )


def as_vector(given: Any, field: pa.Field) -> Vectors:
    """What was given as a vector of the column; of several a row a matrix. Raises SchemaMismatch for another length."""
    shape = shape_of(field.type)
    assert shape is not None
    values = _numbers(given, shape, field.name)
    if shape.several and values.ndim == 1:
        values = values[None, :]
    if values.ndim != 1 + shape.several:
        raise SchemaMismatch(
            f"vector= has {values.ndim} dimensions, and has to be one vector.",
            hint="Many vectors: queries.transform(t.nearest_join('embedding', k=10)).",
        )
    if not values.size or values.shape[-1] != shape.size:
        raise SchemaMismatch(
            f"vector= has {values.shape[-1]} numbers, and those of column '{field.name}' have {shape.size}.",
            hint=_EMBED.format("the query"),
        )
    if not np.isfinite(values).all():
        raise SchemaMismatch("vector= holds a number that is not finite.", hint="Look at how it was embedded.")
    return values


def check_direction(values: Vectors, metric: str) -> None:
    """Raise SchemaMismatch for zeros by cosine: no row has a distance to them, and none would be found."""
    if metric == "cosine" and not values.any(axis=-1).all():
        raise SchemaMismatch(
            "vector= is all zeros, which have no direction, and so no distance by cosine.",
            hint="Look at how it was embedded; or give metric='l2'.",
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
            f"A query has {wrong} numbers, and those of column '{field.name}' have {shape.size}.",
            hint=_EMBED.format("the queries"),
        )
    flat: Vectors = np.asarray(valid.flatten().to_numpy(zero_copy_only=False))
    flat = _as_bytes(_plain(flat), "A query", field.name) if shape.of_bytes else flat.astype(shape.number)
    matrix = flat.reshape(len(valid), shape.size)
    if not np.isfinite(matrix).all():
        raise SchemaMismatch("A query holds a number that is not finite.", hint="Leave such queries out.")
    return places, matrix


def effective_metric(metric: str | None, index: ColumnIndex | None, field: pa.Field) -> str:
    """The metric of a search: what was asked for, that of the index, that of bytes, or l2."""
    if metric is not None or index is not None:
        return metric or str(index.settings["metric"])  # type: ignore[union-attr]
    return HAMMING if is_byte_vector(field.type) else _DEFAULT_METRIC


def check_refined(field: pa.Field, index: ColumnIndex | None, refine_factor: int | None, fast: bool) -> bool:
    """Whether an index may answer. Raises InvalidOption where nothing else may.

    Of several vectors a row, pylance 14.0.2 guesses the distances of rows that an index did not find for each vector
    of the query; rows that are far come out first, unless candidates are compared by their exact distances.
    """
    if index is None or refine_factor is not None or not has_several(field):
        return True
    if fast:
        raise InvalidOption(
            f"Column '{field.name}' has several vectors a row, whose distances an index only guesses.",
            hint="Give refine_factor=10, or leave fast=True out: all vectors are compared then.",
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
        if values.dtype.kind in "iufO":  # Texts that are digits, too, are not numbers.
            values = _plain(values) if shape.of_bytes else values.astype(shape.number)
        else:
            values = np.zeros(())
    except (TypeError, ValueError):
        values = np.zeros(())
    if values.ndim == 0:
        words = "Words are searched for by text=. " if isinstance(given, str) else ""
        raise SchemaMismatch(
            f"vector= is not a list of numbers: {type(given).__name__}.",
            hint=f"{words}Column '{column}' has vectors of {shape.size} numbers: give as many in a list or array.",
        )
    return _as_bytes(values, "vector=", column) if shape.of_bytes else values


def _plain(values: Vectors) -> Vectors:
    """Decimals, which Python has for numbers of SQL, as floats. Raises TypeError and ValueError for what is none."""
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _as_bytes(values: Vectors, what: str, column: str) -> Vectors:
    """Numbers as bytes. Raises SchemaMismatch for one that is none."""
    if not values.size:
        return values.astype(np.uint8)
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values <= 255) & (values % 1 == 0)
    if not good.all():
        raise SchemaMismatch(
            f"{what} holds {values[~good].reshape(-1)[0]}, and column '{column}' has bytes.",
            hint="Bytes are whole numbers from 0 to 255; numpy.packbits makes them of bits.",
        )
    return values.astype(np.uint8)
