"""Which types a stored column may be given without looking at its values."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.casts import why_not


def why_not_widen(old: pa.DataType, new: pa.DataType) -> str | None:
    """The reason a stored column of one type cannot become the other; None when every value stays what it is."""
    if not (_is_number(old) and _is_number(new)):
        return "only numbers can be given a wider type"
    if pt.is_floating(old) and not pt.is_floating(new):
        return "values could be lost"
    narrower = pt.is_integer(old) and pt.is_integer(new) and new.bit_width < old.bit_width
    unsigned = pt.is_signed_integer(old) and pt.is_unsigned_integer(new)
    half = pt.is_floating(old) and pt.is_floating(new) and new.bit_width < old.bit_width
    # Appending may check each value; a column is not altered on the hope that all its values fit.
    if narrower or unsigned or half or (pt.is_decimal(old) and not pt.is_decimal(new)):
        return "values could be lost"
    return why_not(old, new)


def _is_number(kind: pa.DataType) -> bool:
    tests: tuple[Callable[[pa.DataType], bool], ...] = (pt.is_integer, pt.is_floating, pt.is_decimal)
    return any(test(kind) for test in tests)
