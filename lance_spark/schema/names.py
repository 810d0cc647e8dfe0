"""Which names a column of a Lance dataset can have."""

from __future__ import annotations

from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID

RULES = "Names are not empty, not _rowid or _rowaddr, and hold no '.' and no '`'"
_OWN = frozenset({ROW_ID, ROW_ADDRESS})


def is_column_name(name: str) -> bool:
    """Whether pylance writes a column of that name, and reads it again."""
    return bool(name) and "." not in name and "`" not in name and name not in _OWN
