"""Names of tables and namespaces, as Spark passes them, and the datasets that they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lance_spark.catalog import staging
from lance_spark.catalog.entry_rules import readings
from lance_spark.catalog.lake import begin_table_branch
from lance_spark.catalog.lookup import describe_table, namespace_exists, read_name, table_exists
from lance_spark.catalog.manifest_commits import newest, only_read
from lance_spark.catalog.name_rules import Catalog, Identifier, split_name
from lance_spark.catalog.removing import drop_table, rename_table
from lance_spark.catalog.staging import DatasetStage, NameStage, Stage, TableDefinition
from lance_spark.catalog.tables import alter_table
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import DEFAULT, MARK, TypedRef, split_refs
from lance_spark.core.refs import RefSpec
from lance_spark.core.storage_options import PREFIX
from lance_spark.engine.local import Engine
from lance_spark.errors import AlreadyExists, InvalidName, NotFound, Refused
from lance_spark.jvm import names
from lance_spark.jvm.bridge import Bridge
from lance_spark.sql.declaring import Context
from lance_spark.storage.datasets import find_latest
from lance_spark.storage.resolving import dataset_at, read_path_name


def parts_of(identifier: Any) -> list[str]:
    """The parts of Spark's identifier, outermost first."""
    return [*identifier.namespace(), identifier.name()]


def identifier(bridge: Bridge, parts: Sequence[str]) -> Any:
    return bridge.call(f"{names.IDENTIFIER}.of", strings(bridge, parts[:-1]), parts[-1])


def strings(bridge: Bridge, parts: Sequence[str]) -> Any:
    return bridge.array("java.lang.String", parts)


# --- The meaning of a table's name in SQL: in a catalog with a root, or as a path
# No JVM access.


@dataclass(frozen=True)
class Place:
    """A dataset at a ref; it existed when the name was read."""

    location: DatasetLocation
    spec: RefSpec
    metadata_table: str | None = None
    table: Identifier | None = None
    """Its name in its catalog; None for a path."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options of a write that name it."""

    @property
    def is_branch(self) -> bool:
        """Whether it is the current state of a branch, which can be written to."""
        return self.spec.is_branch and self.metadata_table is None

    def branch_to_change(self, doing: str) -> str | None:
        """The branch (None for main) to change. Raises Refused for a tag, a version or a moment."""
        if self.spec.begins is not None:
            return begin_table_branch(self.location, self.spec.begins)
        if not self.is_branch:
            if "catalog_tag" in self.options:
                raise Refused(
                    f"Cannot {doing}: the catalog is read at tag '{self.options['catalog_tag']}', which never changes.",
                    hint="Use the catalog without a tag.",
                )
            if "catalog_published" in self.options:
                raise only_read(doing)
            what = "a metadata table" if self.metadata_table else "a version" if self.spec.tag is None else "a tag"
            raise Refused(
                f"Cannot {doing}: {what} never changes.",
                hint=f"Name a branch, as in `flights{MARK}exp`. CALL ... .create_branch makes one of a tag or version.",
            )
        return self.spec.branch


def replaced_branch(place: Place, way: staging.Way, definition: TableDefinition) -> DatasetStage:
    """A branch that gets other columns and rows. Raises AlreadyExists, and Refused for a tag or a version."""
    if way == "create":
        raise AlreadyExists(f"A dataset already exists at {place.location.uri}.")
    branch = place.branch_to_change("replace the table")
    if place.table is not None and definition.properties:
        raise Refused("A branch has no properties of its own.", hint="ALTER TABLE sets those of the table.")
    options = dict(place.options) if branch is None else {**place.options, "branch": branch}
    return DatasetStage(place.location, branch, False, options, definition, find_latest(place.location, branch))


@dataclass(frozen=True)
class RootPlaces:
    """Tables below a root, by their names."""

    catalog: Catalog

    def find(self, parts: Sequence[str], travel: TypedRef = DEFAULT) -> Place:
        """The table, or the metadata table, of a name. Raises NotFound, InvalidName, InvalidOption, Refused."""
        found = read_name(self.catalog, list(parts), travel)
        return Place(found.location, found.spec, found.metadata_table, found.table, self.options(found.table))

    def options(self, table: Identifier) -> dict[str, str]:
        """The options of a write that name a table of the catalog."""
        catalog = self.catalog
        storage = {PREFIX + key: value for key, value in catalog.root.options}
        ref = {} if catalog.ref is None else catalog.ref.option
        return {**storage, "catalog": catalog.uri, "catalog_mode": catalog.mode, **ref, "path": str(table)}

    def explains(self, parts: Sequence[str], _for_reading: bool) -> bool:
        """Whether an unknown name needs a better error than "no such table".

        A missing ref has near names, a table without data has a job that is writing it, and the catalog's branch of the
        lake may have been deleted.
        """
        return MARK in split_name(list(parts)).name or self._is_gone() or self._is_table(parts)

    def exists(self, parts: Sequence[str]) -> bool:
        """As a table of exactly that name, or as one at a ref."""
        if self._is_table(parts):
            return True
        try:
            self.find(parts)
        except (NotFound, InvalidName):
            return False
        return True

    def _is_gone(self) -> bool:
        """Whether the branch or the tag of the lake was deleted since the catalog was registered."""
        if self.catalog.ref is None:
            return False
        try:
            newest(self.catalog.manifest)
        except NotFound:
            return True
        return False

    def _is_table(self, parts: Sequence[str]) -> bool:
        try:
            return table_exists(self.catalog, list(parts))
        except (InvalidName, Refused):  # Refused: a namespace in V1, which has none
            return False

    def is_declared(self, place: Place) -> bool:
        """Whether the table has only a name, and no data yet. Called only if there is no such version."""
        is_main = place.spec == RefSpec() or place.spec.begins is not None  # or a new table of a branch of the lake
        if place.table is None or not is_main or place.metadata_table is not None:
            return False
        return bool(describe_table(self.catalog, place.table).declared)

    def stage(self, parts: Sequence[str], way: staging.Way, definition: TableDefinition) -> Stage:
        """Begin to create a table, or to replace the table or the branch in the name.

        Raises AlreadyExists, NotFound, InvalidName, Conflict, Refused.
        """
        place = self._at_ref(parts) if self.catalog.ref is None else self._on_branch(parts)
        if place is not None:
            return replaced_branch(place, way, definition)
        staged = staging.begin(self.catalog, list(parts), way, definition.properties)
        replaces = None if staged.is_new else find_latest(staged.location, None)
        return NameStage(staged, self.options(staged.identifier), definition, replaces)

    def _on_branch(self, parts: Sequence[str]) -> Place | None:
        """The place of a table on a branch of the lake that has data; None for a new one."""
        if not self._is_table(parts) or describe_table(self.catalog, list(parts)).declared:
            return None
        return self.find(parts)

    def _at_ref(self, parts: Sequence[str]) -> Place | None:
        """The place of a name with a ref; None for a table's name, possibly of a new table.

        A name with a missing ref is not a new table: the user of ``flights@exp`` means the branch. Raises NotFound
        for it.
        """
        if MARK not in parts[-1] or self._is_table(parts):
            return None
        others = [way.table for way in readings(split_name(list(parts))) if not way.ref.is_default]
        if not any(self._is_table(other.parts) for other in others):
            return None
        return self.find(parts)

    def drop(self, parts: Sequence[str]) -> None:
        """Drop a table with its files. Raises NotFound, Refused."""
        drop_table(self.catalog, self._whole_table(parts, "drop").parts)

    def rename(self, parts: Sequence[str], new: Sequence[str]) -> None:
        """Rename a table, possibly into another namespace. Raises NotFound, AlreadyExists, InvalidName, Refused."""
        table = self._whole_table(parts, "rename")
        target = table.parent.child(new[0]).parts if len(new) == 1 else new  # as in other databases
        rename_table(self.catalog, table.parts, list(target))

    def _whole_table(self, parts: Sequence[str], doing: str) -> Identifier:
        """The table of a name without a ref. Raises NotFound, Refused."""
        if self._is_table(parts):
            return split_name(list(parts))
        place = self.find(parts)
        what = "a metadata table" if place.metadata_table else "a branch or a version"
        raise Refused(
            f"Cannot {doing} {'.'.join(parts)}: it is {what} of table '{place.table}'.",
            hint="CALL ... .drop_branch and .drop_tag delete branches and tags.",
        )

    def properties(self, place: Place) -> dict[str, str]:
        """The properties in the catalog: they belong to the table, whichever branch is read."""
        return {} if place.table is None else describe_table(self.catalog, place.table).properties

    def alter_properties(self, place: Place, put: Mapping[str, str], unset: Sequence[str]) -> None:
        if place.table is not None:
            alter_table(self.catalog, place.table, put, unset)

    def context(self, engine: Engine) -> Context:
        return Context(engine, self.catalog)

    def without_catalog(self, name: str, called: str) -> str:
        """A table's name without the catalog's own before it, with which Iceberg's procedures take it, too."""
        rest = name.removeprefix(f"{called}.")
        return name if rest == name or namespace_exists(self.catalog, called) else rest


@dataclass(frozen=True)
class PathPlaces:
    """Tables by their paths or URIs."""

    storage_options: Mapping[str, str] = field(repr=False)

    def find(self, parts: Sequence[str], travel: TypedRef = DEFAULT) -> Place:
        found = read_path_name(parts, self.storage_options, travel)
        return Place(found.location, found.spec, found.metadata_table, options=self.options(found.location))

    def options(self, location: DatasetLocation) -> dict[str, str]:
        """The options of a write that name a dataset."""
        return {**{PREFIX + key: value for key, value in location.options}, "path": location.uri}

    def explains(self, _parts: Sequence[str], for_reading: bool) -> bool:
        """For a missing path to be read, Spark would report an unknown data source."""
        return for_reading

    def exists(self, parts: Sequence[str]) -> bool:
        try:
            self.find(parts)
        except (NotFound, InvalidName):
            return False
        return True

    def is_declared(self, _place: Place) -> bool:
        """A path has no name to reserve."""
        return False

    def stage(self, parts: Sequence[str], way: staging.Way, definition: TableDefinition) -> Stage:
        """Replace an existing dataset on the named branch; otherwise create one."""
        try:
            place = self.find(parts)
        except NotFound:
            if way == "replace" or len(parts) != 1 or self._has_ref(parts[0]):
                raise
            location = dataset_at(parts[0], self.storage_options)
            return DatasetStage(location, None, True, {**self.options(location), "create_table": "true"}, definition)
        return replaced_branch(place, way, definition)

    def _has_ref(self, path: str) -> bool:
        """Whether a path is a dataset's path with a ref."""
        return any(self.exists([name]) for name, _ in split_refs(path))

    def drop(self, parts: Sequence[str]) -> None:
        """Raises Refused."""
        raise Refused(
            f"Cannot drop {'.'.join(parts)}: no catalog has it, so its other users are unknown.",
            hint="Delete its directory; or register it in a catalog, and drop it there.",
        )

    def rename(self, parts: Sequence[str], _new: Sequence[str]) -> None:
        """Raises Refused."""
        raise Refused(
            f"Cannot rename {'.'.join(parts)}: its name is its path.", hint="To name it, register it in a catalog."
        )

    def properties(self, place: Place) -> dict[str, str]:
        """The properties in the metadata of the table, on its branch."""
        return staging.read_properties(place.location, place.spec.branch) if place.is_branch else {}

    def alter_properties(self, place: Place, put: Mapping[str, str], unset: Sequence[str]) -> None:
        staging.alter_properties(place.location, place.branch_to_change("alter the table"), put, unset)

    def context(self, engine: Engine) -> Context:
        return Context(engine, None, self.storage_options)

    def without_catalog(self, name: str, called: str) -> str:  # noqa: ARG002 - a path has none
        return name


Places: TypeAlias = RootPlaces | PathPlaces
