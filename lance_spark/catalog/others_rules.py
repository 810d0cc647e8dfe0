"""Catalogs whose tables belong to another writer: what they mean, and that nothing of them is changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_spark import errors
from lance_spark.catalog.entry_rules import OBJECT_ID, refusal
from lance_spark.core.refs import MAIN, RefSpec
from lance_spark.format.others import USE_THEIRS, why_of_others

_PINS = ("read_branch", "read_tag", "read_version")
"""Columns of a partitioned root: which version of a row's table is a part of it."""


def check_ours(properties: Mapping[str, str], doing: str) -> None:
    """Raise Refused for a catalog that belongs to another writer."""
    why = why_of_others(properties)
    if why is not None:
        raise refusal(errors.Refused, doing, why, hint=USE_THEIRS)


def read_pin(rows: pa.Table, object_id: str) -> RefSpec:
    """Which version of a table a partitioned root means; the default if its row names none."""
    there = [name for name in _PINS if name in rows.column_names]
    for row in rows.select([OBJECT_ID, *there]).to_pylist() if there else ():
        if row[OBJECT_ID] == object_id:
            branch, tag, version = (row.get(name) for name in _PINS)
            if tag is not None:
                return RefSpec(tag=str(tag))
            named = None if branch in (None, MAIN) else str(branch)
            return RefSpec(branch=named, version=None if version is None else int(version))
    return RefSpec()
