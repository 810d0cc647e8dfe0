"""Whether something new can have a name: what is looked at before a change is decided and committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import RowFilter, refusal
from lance_spark.catalog.directory import v1_directory
from lance_spark.catalog.entries import Rows, check_properties
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.names import TABLE, Identifier, Name, check_new, identify_table
from lance_spark.errors import AlreadyExists
from lance_spark.store.catalog.directories import look_at
from lance_spark.store.catalog.snapshots import read_rows


@dataclass(frozen=True)
class NewTable:
    """A name that keeps the rules, for a table."""

    identifier: Identifier
    properties: dict[str, str]
    doing: str
    """Completes "Cannot ..."."""


def new_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None, verb: str) -> NewTable:
    """Raises InvalidName, InvalidOption for bad properties, and Refused for what V1 cannot keep."""
    identifier = identify_table(name)
    check_new(identifier, TABLE)
    given = check_properties(properties)
    doing = f"{verb} table '{identifier}'"
    if given or not identifier.in_root:
        need_manifest(catalog, doing)
    return NewTable(identifier, given, doing)


def check_no_table(catalog: Catalog, identifier: Identifier, doing: str) -> None:
    """Raise AlreadyExists if a directory has the name that something is to get."""
    if not catalog.reads_directories or not identifier.in_root:
        return
    rows = read_rows(catalog.manifest, RowFilter((identifier.object_id,), locations=(v1_directory(identifier),)))
    if rows.find(identifier.object_id) is None and not check_no_directory(catalog, rows, identifier):
        raise refusal(AlreadyExists, doing, "there is a table of that name already")


def check_no_directory(catalog: Catalog, rows: Rows, identifier: Identifier) -> bool:
    """Whether no directory has the name of something new, by itself. V1 would show two things of one name."""
    if not catalog.reads_directories or not identifier.in_root:
        return True
    directory = v1_directory(identifier)
    return bool(rows.at(directory)) or not look_at(catalog.root, directory).is_table
