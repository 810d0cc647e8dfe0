"""Properties of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.actions.catalog.lookup import describe_table, find_table
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.entries import Entry, check_properties
from lance_spark.catalog.model import Catalog, TableInfo
from lance_spark.catalog.names import TABLE, Identifier, Name, identify_table
from lance_spark.catalog.properties import AlterProperties
from lance_spark.errors import Refused
from lance_spark.store.catalog import manifest


def alter_table(
    catalog: Catalog, name: Name, put: Mapping[str, str] | None = None, unset: Sequence[str] = ()
) -> TableInfo:
    """Set and remove properties of a table. Raises NotFound, Refused for a table that is a directory only."""
    identifier = identify_table(name)
    change = AlterProperties(identifier, TABLE, check_properties(put), tuple(unset))
    check_alterable(catalog, identifier)
    manifest.apply(catalog.manifest, change)
    return describe_table(catalog, identifier)


def check_alterable(catalog: Catalog, identifier: Identifier) -> Entry:
    """The row of a table whose properties can be altered. Raises as :func:`alter_table`."""
    doing = f"alter the properties of table '{identifier}'"
    need_manifest(catalog, doing)
    entry = find_table(catalog, identifier, doing).entry
    if entry is None:
        raise refusal(
            Refused, doing, "it is a directory only, which has none", hint="Register it, or migrate the catalog."
        )
    return entry
