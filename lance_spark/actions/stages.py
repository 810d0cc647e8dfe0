"""Tables that are being created or replaced: begun, then committed or aborted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lance_spark.actions.catalog import staging
from lance_spark.actions.empty import write_without_rows
from lance_spark.actions.table_properties import alter_properties
from lance_spark.errors import LanceSparkError
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions


@dataclass(frozen=True)
class TableDefinition:
    """What a table is to be."""

    schema: pa.Schema
    properties: Mapping[str, str] = field(default_factory=dict)
    options: WriteOptions = field(default_factory=WriteOptions)


class Stage(Protocol):
    """A table that is being created or replaced."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the write that gives it its rows, which overwrites."""
        ...

    def commit(self, written: bool) -> None:
        """After the write; or in its place, where there was none: then it has no rows."""
        ...

    def abort(self) -> None:
        """Leave everything as it was."""
        ...


@dataclass(frozen=True)
class NameStage:
    """A table of a catalog, whose name is taken."""

    staged: staging.StagedTable
    options: Mapping[str, str] = field(repr=False)
    definition: TableDefinition

    def commit(self, written: bool) -> None:
        """Raises Conflict for a new table that another process dropped meanwhile."""
        if not written:
            staging.fill_without_rows(self.staged, self.definition.schema, self.definition.options)
        staging.commit(self.staged)

    def abort(self) -> None:
        """Give the name back."""
        staging.abort(self.staged)


@dataclass(frozen=True)
class DatasetStage:
    """A dataset at a path, or a branch. Nothing is taken: of several that create it, the first commit wins."""

    location: DatasetLocation
    branch: str | None
    new: bool
    options: Mapping[str, str] = field(repr=False)
    definition: TableDefinition

    def commit(self, written: bool) -> None:
        """Properties come with a version of their own."""
        if not written:
            write_without_rows(self.location, self.branch, self.definition.schema, self.definition.options, self.new)
        if self.definition.properties:
            alter_properties(self.location, self.branch, self.definition.properties)

    def abort(self) -> None:
        """The write has cleaned up after itself."""


def make(stage: Stage) -> None:
    """A table without rows, in one go."""
    try:
        stage.commit(written=False)
    except LanceSparkError:
        with suppress(LanceSparkError):
            stage.abort()
        raise
