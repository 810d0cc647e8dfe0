"""What a table's name in SQL means: in a catalog with a root, or as a path. No JVM in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lance_spark.actions.catalog.lookup import table_exists
from lance_spark.actions.catalog.table_refs import read_name
from lance_spark.actions.path_refs import read_path_name
from lance_spark.actions.procedures.procedure import Context
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.names import Identifier, split_name
from lance_spark.errors import InvalidName, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.options.storage import PREFIX
from lance_spark.refs.model import RefSpec
from lance_spark.refs.typed import DEFAULT, MARK, TypedRef
from lance_spark.runner.interface import Engine


@dataclass(frozen=True)
class Place:
    """A dataset at a ref, which was there when the name was read."""

    location: DatasetLocation
    spec: RefSpec
    metadata_table: str | None = None
    table: Identifier | None = None
    """Its name in its catalog; None for a path."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options of a write that name it."""

    @property
    def is_branch(self) -> bool:
        """Whether it is a branch as it is now, which can be written to."""
        return self.spec == RefSpec(branch=self.spec.branch) and self.metadata_table is None

    def branch_to_change(self, doing: str) -> str | None:
        """The branch (None for main), to change something on it. Raises Refused for a tag, a version or a moment."""
        if not self.is_branch:
            what = "a metadata table" if self.metadata_table else "a version" if self.spec.tag is None else "a tag"
            raise Refused(
                f"Cannot {doing}: {what} never changes.",
                hint=f"Name a branch, as in `flights{MARK}exp`. CALL ... .create_branch makes one from a tag or version.",
            )
        return self.spec.branch


class Places(Protocol):
    """Where a catalog's tables are."""

    def find(self, parts: Sequence[str], travel: TypedRef = DEFAULT) -> Place:
        """The table, or the metadata table, of a name. Raises NotFound, InvalidName, InvalidOption, Refused."""
        ...

    def explains(self, parts: Sequence[str], for_reading: bool) -> bool:
        """Whether more is to be said of a name that was not found than that there is no such table."""
        ...

    def exists(self, parts: Sequence[str]) -> bool:
        """Whether there is such a table, with data or without."""
        ...

    def context(self, engine: Engine) -> Context:
        """Where procedures run."""
        ...


@dataclass(frozen=True)
class RootPlaces:
    """Tables below a root, by their names."""

    catalog: Catalog

    def find(self, parts: Sequence[str], travel: TypedRef = DEFAULT) -> Place:
        """As the catalog reads the name."""
        found = read_name(self.catalog, list(parts), travel)
        return Place(found.location, found.spec, found.metadata_table, found.table, self.options(found.table))

    def options(self, table: Identifier) -> dict[str, str]:
        """The options of a write that name a table of the catalog."""
        catalog = self.catalog
        storage = {PREFIX + key: value for key, value in catalog.root.options}
        return {**storage, "catalog": catalog.uri, "catalog_mode": catalog.mode, "path": str(table)}

    def explains(self, parts: Sequence[str], _for_reading: bool) -> bool:
        """A ref that is not there has near names, and a table without data somebody who is writing it."""
        return MARK in split_name(list(parts)).name or self._is_table(parts)

    def exists(self, parts: Sequence[str]) -> bool:
        """As a table of that very name, or as one at a ref."""
        if self._is_table(parts):
            return True
        try:
            self.find(parts)
        except (NotFound, InvalidName):
            return False
        return True

    def _is_table(self, parts: Sequence[str]) -> bool:
        try:
            return table_exists(self.catalog, list(parts))
        except (InvalidName, Refused):  # Refused: a namespace in V1, which has none
            return False

    def context(self, engine: Engine) -> Context:
        """The catalog."""
        return Context(engine, self.catalog)


@dataclass(frozen=True)
class PathPlaces:
    """Tables by their paths or URIs."""

    storage_options: Mapping[str, str] = field(repr=False)

    def find(self, parts: Sequence[str], travel: TypedRef = DEFAULT) -> Place:
        """The dataset at the path."""
        found = read_path_name(parts, self.storage_options, travel)
        return Place(found.location, found.spec, found.metadata_table, options=self.options(found.location))

    def options(self, location: DatasetLocation) -> dict[str, str]:
        """The options of a write that name a dataset."""
        return {**{PREFIX + key: value for key, value in location.options}, "path": location.uri}

    def explains(self, _parts: Sequence[str], for_reading: bool) -> bool:
        """Of a path that is not there to be read, Spark would say that it knows no such data source."""
        return for_reading

    def exists(self, parts: Sequence[str]) -> bool:
        """Whether there is a dataset."""
        try:
            self.find(parts)
        except (NotFound, InvalidName):
            return False
        return True

    def context(self, engine: Engine) -> Context:
        """No catalog."""
        return Context(engine, None, self.storage_options)
