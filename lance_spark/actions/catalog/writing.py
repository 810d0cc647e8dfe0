"""Writing a table of a catalog. One that does not exist is declared, written and committed, or withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lance_spark.actions.catalog.declaring import TablePlan, confirm, declare, plan_table, withdraw
from lance_spark.actions.catalog.lookup import FoundTable, find_table, located, table_exists
from lance_spark.actions.catalog.opening import catalog_of
from lance_spark.actions.target import NamedTable
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import RESERVED, VERSIONS
from lance_spark.catalog.model import Catalog, Declaration
from lance_spark.catalog.names import Identifier, identify_table
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions
from lance_spark.store import files
from lance_spark.store.catalog import markers


@dataclass(frozen=True)
class TableClaim:
    """A table that a write gives its first rows. The write declares it, or joins one that was declared before."""

    catalog: Catalog
    location: DatasetLocation
    table: TablePlan | FoundTable
    must_be_new: bool
    held: Declaration | None = None
    """None before it is taken."""

    def take(self) -> TableClaim | None:
        """Declare the table, unless it is. None for a declared one that cannot be told from another of that name."""
        if isinstance(self.table, FoundTable):
            held = self._joined(self.table)
            return None if held is None else replace(self, held=held)
        with _taken_in_between(self.catalog, self.table.identifier, self.must_be_new):
            return replace(self, held=declare(self.table))

    def _joined(self, table: FoundTable) -> Declaration | None:
        holder = markers.content_of(self.location, RESERVED)
        if holder is None or table.path is None or (table.entry is None and self.catalog.reads_manifest):
            return None
        return Declaration(table.identifier, self.location, table.path, holder.decode(errors="replace"))

    def confirm(self) -> None:
        """Raise Conflict if the table was dropped, deregistered or renamed since."""
        if self.held is not None:
            confirm(self.catalog, self.held)

    def withdraw(self) -> None:
        """Give the name back, if this write declared it."""
        if self.held is not None and isinstance(self.table, TablePlan):
            withdraw(self.catalog, self.held)


def claim_table(table: NamedTable, options: WriteOptions) -> TableClaim:
    """The table that a write goes to, with its location, whether it exists or is to be declared. Changes nothing.

    Raises InvalidName, AlreadyExists, Conflict, and NotFound for a missing namespace and for a branch of a new table.
    """
    catalog, identifier = catalog_of(table), identify_table(table.name)
    try:
        known = find_table(catalog, identifier, f"write table '{identifier}'")
    except NotFound as missing:
        if options.branch is not None:
            raise NotFound(
                missing.message, hint=missing.hint or "Write the table first; a new one has only main."
            ) from None
        with _taken_in_between(catalog, identifier, options.create_table):
            plan = plan_table(catalog, identifier)
        return TableClaim(catalog, plan.location, plan, options.create_table)
    location = located(catalog, known)
    if options.create_table:
        raise _exists(identifier, location)
    return TableClaim(catalog, location, known, must_be_new=False)


@contextmanager
def _taken_in_between(catalog: Catalog, identifier: Identifier, must_be_new: bool) -> Iterator[None]:
    """For a write that takes any table, one that another process has just created is a conflict: run it again."""
    try:
        yield
    except AlreadyExists as taken:
        if not must_be_new and table_exists(catalog, identifier):
            raise Conflict(taken.message, hint="Run it again: it will write to that table.") from None
        raise


def _exists(identifier: Identifier, location: DatasetLocation) -> LanceSparkError:
    hint = "Append to it or overwrite it; these are modes."
    if not files.list_names(location, VERSIONS):
        hint = "It has no data: a job is writing it, or was killed at that. Append to it, or drop it."
    return refusal(AlreadyExists, f"create table '{identifier}'", "there is a table of that name already", hint)
