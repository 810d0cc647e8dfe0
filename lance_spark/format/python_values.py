"""Values of columns as Python's, for people to read.

Python's dates begin with the year 1 and end with the year 9999, Spark's and Arrow's do not. Other values are texts
here, so that an error or a comparison that names their rows is not lost to an OverflowError.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def python_value(value: pa.Scalar) -> Any:
    """One value; dates and moments that Python does not have as texts, also inside of structs, lists and maps."""
    try:
        return value.as_py()
    except (OverflowError, ValueError, LookupError):  # the last one: a zone that Python does not know
        kind = value.type
    if pt.is_struct(kind):
        return {field.name: python_value(value[at]) for at, field in enumerate(kind)}
    if pt.is_map(kind):
        return [(python_value(entry[0]), python_value(entry[1])) for entry in value.values]
    if pt.is_date(kind) or pt.is_timestamp(kind):
        unit = "D" if pt.is_date32(kind) else "ms" if pt.is_date64(kind) else kind.unit
        text = str(np.array([value.value], f"datetime64[{unit}]")[0])
        return text if getattr(kind, "tz", None) is None else f"{text}Z"
    return [python_value(each) for each in value.values]


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError, LookupError):  # the last one: a zone that Python does not know
        found = [python_value(value) for value in values]
    return found


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows by their columns' names."""
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
