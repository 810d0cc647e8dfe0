"""Which types a stored column may be given without looking at its values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.casts import why_not

_FAMILIES = (pt.is_integer, pt.is_floating, pt.is_decimal)


def why_not_widen(old: pa.DataType, new: pa.DataType) -> str | None:
    """The reason a stored column of one type cannot become the other; None when every value stays what it is.

    pylance casts within whole numbers, floating-point numbers and decimals, and not from one of these to another.
    """
    if not any(family(old) and family(new) for family in _FAMILIES):
        return "only a number can be given a wider type, of its own kind"
    # Appending may check each value; a column is not altered in the hope that all its values fit.
    if pt.is_signed_integer(old) and pt.is_unsigned_integer(new):
        return "values could be lost"
    if not pt.is_decimal(old) and new.bit_width < old.bit_width:
        return "values could be lost"
    return why_not(old, new)
