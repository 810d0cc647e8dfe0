"""Tables that are being created or replaced: begun, then committed or aborted; and properties of datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

import pyarrow as pa

from lance_spark.catalog import name_rules
from lance_spark.catalog.entry_rules import check_properties, refusal
from lance_spark.catalog.lookup import describe_table, find_table, located, need_manifest, table_exists
from lance_spark.catalog.manifest_commits import check_may_change
from lance_spark.catalog.services import lacks, warn_of_kept
from lance_spark.catalog.tables import alter_table, confirm, declare_table, tell_dataset, withdraw
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import WriteOptions
from lance_spark.core.table_properties import obeyed
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound, Refused
from lance_spark.storage.commits import change_table_metadata, read_table_metadata
from lance_spark.storage.datasets import find_latest
from lance_spark.storage.followers import check_writable
from lance_spark.write.data_files import write_without_rows


@dataclass(frozen=True)
class TableDefinition:
    schema: pa.Schema
    properties: Mapping[str, str] = field(default_factory=dict)
    options: WriteOptions = field(default_factory=WriteOptions)


class Stage(Protocol):
    """A table that is being created or replaced."""

    @property
    def options(self) -> Mapping[str, str]:
        """Options for the write of its rows, which overwrites."""
        ...

    @property
    def replaces(self) -> PinnedVersion | None:
        """The newest version of what is replaced, when the stage began; None for a new table."""
        ...

    @property
    def definition(self) -> TableDefinition: ...

    def commit(self, written: bool) -> None:
        """Called after the write, or in its place if there was none: then the table has no rows."""
        ...

    def abort(self) -> None: ...


@dataclass(frozen=True)
class NameStage:
    """A table of a catalog, whose name has been taken."""

    staged: StagedTable
    options: Mapping[str, str] = field(repr=False)
    definition: TableDefinition
    replaces: PinnedVersion | None = None

    def commit(self, written: bool) -> None:
        """Raises Conflict for a new table that another process dropped meanwhile."""
        if not written:
            fill_without_rows(self.staged, self.definition.schema, self.definition.options)
        commit(self.staged)

    def abort(self) -> None:
        abort(self.staged)


@dataclass(frozen=True)
class DatasetStage:
    """A dataset at a path, or a branch. No name is taken: if several jobs create it, the first commit wins."""

    location: DatasetLocation
    branch: str | None
    new: bool
    options: Mapping[str, str] = field(repr=False)
    definition: TableDefinition
    replaces: PinnedVersion | None = None

    def commit(self, written: bool) -> None:
        """Properties get a version of their own."""
        if not written:
            write_without_rows(self.location, self.branch, self.definition.schema, self.definition.options, self.new)
        if self.definition.properties:
            alter_properties(self.location, self.branch, self.definition.properties)

    def abort(self) -> None:
        """Does nothing: the write cleans up after itself."""


def make(stage: Stage) -> None:
    """A table without rows, in one step."""
    try:
        stage.commit(written=False)
    except LanceSparkError:
        with suppress(LanceSparkError):
            stage.abort()
        raise


# --- Properties of a dataset that is in no catalog: the metadata of the table, as Lance keeps it, branch by branch
# A table with a row in a catalog has its properties there (lance_spark.catalog.tables): they belong to the
# table, whatever branch is read, and other tools of the catalog see them.

_SETTINGS = "lance."
"""Prefix of settings that control pylance, such as its automatic cleanup."""


def read_properties(location: DatasetLocation, branch: str | None) -> dict[str, str]:
    """The properties on a branch (None for main). Raises NotFound."""
    return read_table_metadata(location, branch)


def alter_properties(
    location: DatasetLocation, branch: str | None, put: Mapping[str, str] | None = None, unset: Sequence[str] = ()
) -> dict[str, str]:
    """Set and remove properties on a branch, as one version; returns all its properties after that.

    Raises NotFound, InvalidOption for values that are not text, and Refused for settings of Lance itself, some of which
    lose data unless they are checked.
    """
    given = check_properties(put)
    obeyed(given)
    settings = sorted(key for key in {*given, *unset} if key.startswith(_SETTINGS))
    if settings:
        raise Refused(
            f"'{settings[0]}' is a setting of Lance, not a property.",
            hint="For automatic cleanup, use LanceTable.enable_auto_cleanup, which checks that no data is lost.",
        )
    check_writable(location, branch)
    before = read_properties(location, branch)
    wanted = {**before, **given}
    after = {key: value for key, value in wanted.items() if key not in set(unset)}
    changes: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    changes |= dict.fromkeys(before.keys() - after.keys())
    if changes:
        change_table_metadata(location, branch, changes)
    return after


# --- Creating and replacing tables in the steps of a planner: begin, write, commit; or abort
# A new table's name is taken at the beginning, so of several jobs that create it, one wins before any of them writes.
# The commit of a write to that name adds the rows, which makes it a table with data at once or not at all. An existing
# table keeps its rows until the one commit that overwrites them.

Way = Literal["create", "replace", "create or replace"]


@dataclass(frozen=True)
class StagedTable:
    """A table that is about to be created or replaced."""

    catalog: name_rules.Catalog
    identifier: name_rules.Identifier
    location: DatasetLocation
    """Where a write puts its rows, in mode overwrite."""
    declaration: name_rules.Declaration | None = None
    """The name that was taken; None for an existing table."""
    properties: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    """The properties of an existing table when the stage began: those that others set since then stay."""

    @property
    def is_new(self) -> bool:
        return self.declaration is not None


def begin(
    catalog: name_rules.Catalog, name: name_rules.Name, way: Way, properties: Mapping[str, str] | None = None
) -> StagedTable:
    """Take the name of a new table, or find the one to replace.

    Raises InvalidName, InvalidOption, AlreadyExists for ``create``, NotFound for ``replace`` and for a missing
    namespace, Conflict if another process creates it at the same time, Refused for anything V1 cannot store.
    """
    identifier = name_rules.identify_table(name)
    given = check_properties(properties)
    obeyed(given)
    doing = f"{way} table '{identifier}'"
    if catalog.service is None:
        check_may_change(catalog.manifest, doing)
    if given:
        need_manifest(catalog, doing)
    if way != "create":
        try:
            found = find_table(catalog, identifier, doing)
            if given and catalog.service is not None:
                raise lacks(catalog, "that changes the properties of a table", doing)
            before = describe_table(catalog, identifier).properties if catalog.reads_manifest else {}
            return StagedTable(catalog, identifier, located(catalog, found), properties=given, before=before)
        except NotFound:
            if way == "replace":
                raise
    name_rules.check_new(identifier, name_rules.TABLE)
    try:
        declaration = declare_table(catalog, identifier, given)
    except AlreadyExists as taken:
        if way != "create" and table_exists(catalog, identifier):
            raise Conflict(taken.message, hint="Run it again: it will replace that table.") from None
        raise
    return StagedTable(catalog, identifier, declaration.location, declaration, given)


def commit(staged: StagedTable) -> name_rules.TableInfo:
    """Called after the rows were committed; returns the table as it is. A replaced table gets its new properties now.

    Raises Conflict for a new table that another process dropped or renamed meanwhile; then nothing is left behind.
    """
    if staged.declaration is not None:
        confirm(staged.catalog, staged.declaration)
        told = obeyed(staged.properties)
        if told:
            tell_dataset(staged.location, told)
    elif staged.catalog.service is not None:
        warn_of_kept(staged.catalog, staged.identifier, staged.before)
    elif staged.catalog.reads_manifest:
        _replace_properties(staged)
    return describe_table(staged.catalog, staged.identifier)


def abort(staged: StagedTable) -> None:
    """Release the name of a new table, and delete the files written under it. An existing table stays as it is.

    Does nothing for a new table whose rows are committed: its commit may have succeeded despite its error.
    """
    if staged.declaration is not None:
        withdraw(staged.catalog, staged.declaration)


def fill_without_rows(staged: StagedTable, schema: pa.Schema, options: WriteOptions) -> None:
    """Replaces a write: columns, and no rows. For a replaced table this is one version, and older ones stay.

    Of the options, only the file format and stable row ids apply. Raises SchemaMismatch, Conflict, and Refused if a
    replaced table has another file format or other row ids.
    """
    doing = f"table '{staged.identifier}'"
    if not staged.is_new and find_latest(staged.location, None) is None:
        raise refusal(Conflict, f"replace {doing}", "it has no data yet", "A job is writing it: wait, or drop it.")
    try:
        write_without_rows(staged.location, None, schema, options, new=staged.is_new)
    except AlreadyExists:
        raise refusal(Conflict, f"create {doing}", "another process wrote to it at the same time") from None


def _replace_properties(staged: StagedTable) -> None:
    now = describe_table(staged.catalog, staged.identifier)
    gone = tuple((staged.before.keys() & now.properties.keys()) - staged.properties.keys())
    new = {key: value for key, value in staged.properties.items() if now.properties.get(key) != value}
    if now.registered and (gone or new):
        alter_table(staged.catalog, staged.identifier, staged.properties, gone)
