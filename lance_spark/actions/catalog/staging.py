"""Creating and replacing tables for a planner that asks for steps: begin, write, commit; or abort.

A new table's name is taken when it begins, so of several jobs that create it one wins, before any of them writes. Its
rows come with the commit of a write to that name, which makes it a table with data at once or not at all. A table that
is there keeps its rows until the one commit that overwrites them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from lance_spark.actions.catalog.declaring import confirm, declare_table, withdraw
from lance_spark.actions.catalog.lookup import describe_table, find_table, located, table_exists
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.actions.catalog.properties import alter_table
from lance_spark.actions.empty import write_without_rows
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.entries import check_properties
from lance_spark.catalog.model import Catalog, Declaration, TableInfo
from lance_spark.catalog.names import TABLE, Identifier, Name, check_new, identify_table
from lance_spark.errors import AlreadyExists, Conflict, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions
from lance_spark.store.datasets import find_latest

Way = Literal["create", "replace", "create or replace"]


@dataclass(frozen=True)
class StagedTable:
    """A table that is about to be created or replaced."""

    catalog: Catalog
    identifier: Identifier
    location: DatasetLocation
    """Where a write puts its rows, in mode overwrite."""
    declaration: Declaration | None = None
    """The name as it was taken; None for a table that was there."""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        """Whether there was no such table before."""
        return self.declaration is not None


def begin(catalog: Catalog, name: Name, way: Way, properties: Mapping[str, str] | None = None) -> StagedTable:
    """Take the name of a new table, or find the one to replace.

    Raises InvalidName, InvalidOption, AlreadyExists for ``create``, NotFound for ``replace`` and for a missing
    namespace, Conflict where another process creates it at the same time, Refused for what V1 cannot keep.
    """
    identifier = identify_table(name)
    given = check_properties(properties)
    doing = f"{way} table '{identifier}'"
    if given:
        need_manifest(catalog, doing)
    if way != "create":
        try:
            found = find_table(catalog, identifier, doing)
            return StagedTable(catalog, identifier, located(catalog, found), properties=given)
        except NotFound:
            if way == "replace":
                raise
    check_new(identifier, TABLE)
    try:
        declaration = declare_table(catalog, identifier, given)
    except AlreadyExists as taken:
        if way != "create" and table_exists(catalog, identifier):
            raise Conflict(taken.message, hint="Run it again: it will replace that table.") from None
        raise
    return StagedTable(catalog, identifier, declaration.location, declaration, given)


def commit(staged: StagedTable) -> TableInfo:
    """After the rows were committed: the table as it is. A replaced table gets its new properties now.

    Raises Conflict for a new table that another process dropped or renamed meanwhile; then it leaves nothing behind.
    """
    if staged.declaration is not None:
        confirm(staged.catalog, staged.declaration)
    elif staged.catalog.reads_manifest:
        _replace_properties(staged)
    return describe_table(staged.catalog, staged.identifier)


def abort(staged: StagedTable) -> None:
    """Give the name of a new table back, with what was written under it. A table that was there is as it was.

    Nothing happens to a new table whose rows are committed: its commit may have succeeded although it seemed to fail.
    """
    if staged.declaration is not None:
        withdraw(staged.catalog, staged.declaration)


def fill_without_rows(staged: StagedTable, schema: pa.Schema, options: WriteOptions) -> None:
    """In the place of a write: columns, and no rows. For a replaced table that is one version, and older ones stay.

    Of the options the file format and stable row ids count. Raises SchemaMismatch, Conflict, and Refused for another
    file format or other row ids than a replaced table has.
    """
    doing = f"table '{staged.identifier}'"
    if not staged.is_new and find_latest(staged.location, None) is None:
        raise refusal(Conflict, f"replace {doing}", "it has no data yet", "A job is writing it; or drop it.")
    try:
        write_without_rows(staged.location, None, schema, options, new=staged.is_new)
    except AlreadyExists:
        raise refusal(Conflict, f"create {doing}", "another process wrote to it at the same time") from None


def _replace_properties(staged: StagedTable) -> None:
    before = describe_table(staged.catalog, staged.identifier)
    gone = tuple(before.properties.keys() - staged.properties.keys())
    if before.registered and (gone or before.properties != staged.properties):
        alter_table(staged.catalog, staged.identifier, staged.properties, gone)
