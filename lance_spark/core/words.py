"""Words of Delta, pylance and PySpark that people type on our objects, and what to type instead. Pure.

A plain AttributeError would leave somebody who knows Delta with the list of all names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.errors import NoSuchName

_CLEANUP = "t.cleanup(CleanupPolicy(older_than=timedelta(days=7))), which shows a plan; plan.apply() deletes."
_UPSERT = "t.merge(df, on='id').when_matched_update_all().when_not_matched_insert_all().execute()"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

OF_TABLES: Mapping[str, str] = {
    "alias": "t.merge(df, on='id'): in its conditions, the two sides are called target and source.",
    "append": "t.write(df)",
    "checkout_version": "t.checkout(version=3)",
    "cleanup_old_versions": _CLEANUP,
    "columns": "t.schema.names",
    "compact": "t.optimize()",
    "compact_files": "t.optimize()",
    "count": "t.count_rows()",
    "create_branch": "t.branches.create('exp')",
    "create_index": "t.indexes.create('id')",
    "create_scalar_index": "t.indexes.create('id')",
    "create_tag": "t.tags.create('v1')",
    "delete_branch": "t.branches.delete('exp')",
    "delete_tag": "t.tags.delete('v1')",
    "detail": "print(t), t.schema or t.storage()",
    "forName": "LanceCatalog(root).table('ns.flights')",
    "forPath": "LanceTable.for_path(path)",
    "insert": "t.write(df)",
    "merge_branch": "t.branches.merge('exp')",
    "merge_insert": _UPSERT,
    "restoreToTimestamp": "t.checkout(as_of='2026-01-31').restore()",
    "restoreToVersion": "t.restore(version=3)",
    "rollback": "t.restore(version=3)",
    "select": "t.to_df().select(...)",
    "show": "t.to_df().show()",
    "toDF": "t.to_df()",
    "toPandas": "t.to_df().toPandas()",
    "to_pandas": "t.to_df().toPandas()",
    "to_table": "t.to_df().toArrow()",
    "upsert": _UPSERT,
    "vacuum": _CLEANUP,
    "where": "t.to_df().where(...)",
}
OF_OPTIMIZE: Mapping[str, str] = {
    "executeCompaction": "t.optimize() alone: it has compacted the table already.",
    "executeZOrderBy": "t.optimize(zorder=['day', 'carrier'])",
    "where": "t.optimize(where='...')",
}
OF_CATALOGS: Mapping[str, str] = {
    "create_table": "lake.write_table(df, 'ns.flights')",
    "createTable": "lake.write_table(df, 'ns.flights')",
    "getTable": "lake.table('ns.flights')",
    "get_table": "lake.table('ns.flights')",
    "load_table": "lake.table('ns.flights')",
    "tables": "lake.list_tables('ns')",
}


def missing(kind: type, name: str, words: Mapping[str, str], owner: object) -> AttributeError:
    """The error for an attribute that does not exist, with a hint if it is a known word, or only spelled otherwise."""
    if name in words:
        return NoSuchName(f"{kind.__name__} has no '{name}'.", hint=f"Use {words[name]}")
    spelled = _HUMP.sub("_", name).lower()
    if spelled != name and spelled in dir(kind):
        return NoSuchName(f"{kind.__name__} has no '{name}'.", hint=f"Did you mean '{spelled}'?")
    return AttributeError(f"'{kind.__name__}' object has no attribute '{name}'", name=name, obj=owner)


class Hinting:
    """A class that answers words of other libraries with its own."""

    _words: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # a checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property raised AttributeError itself: show that one
                return object.__getattribute__(self, name)
            raise missing(type(self), name, self._words, self)


class HintingType(type):
    """The same for names that people look for on the class itself, such as ``LanceTable.forPath``."""

    _words: Mapping[str, str]

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls, name, {} if name.startswith("_") else cls._words, cls)
