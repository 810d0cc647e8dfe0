"""A catalog of Spark's: the tables below a root, or those at paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from lance_spark.actions.catalog import listing
from lance_spark.actions.metadata_tables import metadata_schema, read_metadata_table
from lance_spark.actions.read import PinnedRead
from lance_spark.actions.resolve import resolve
from lance_spark.errors import InvalidName, NotFound, Refused
from lance_spark.options.read import ReadOptions
from lance_spark.refs.model import RefSpec
from lance_spark.refs.typed import DEFAULT, parse_moment, parse_version_text
from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.altering import Altering
from lance_spark.spark.jvm.creating import Creating, shown_properties
from lance_spark.spark.jvm.declared_table import DeclaredTable
from lance_spark.spark.jvm.failures import Spoken, java_error
from lance_spark.spark.jvm.identifiers import identifier, parts_of
from lance_spark.spark.jvm.lookups import current_lookups, with_blobs
from lance_spark.spark.jvm.namespaces import Namespaces
from lance_spark.spark.jvm.places import PathPlaces, RootPlaces
from lance_spark.spark.jvm.plain_values import plain
from lance_spark.spark.jvm.procedures import Procedures
from lance_spark.spark.jvm.rows import RowsTable
from lance_spark.spark.jvm.source import Source
from lance_spark.spark.jvm.stored_table import StoredTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_spark.catalog.model import Catalog
    from lance_spark.location import DatasetLocation
    from lance_spark.refs.typed import TypedRef
    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place, Places


class NativeCatalog(Creating, Altering, Procedures):
    """What catalogs of any kind have in common: tables are looked up, and read at a version."""

    interfaces: ClassVar[tuple[str, ...]] = (names.STAGING_CATALOG, names.PROCEDURE_CATALOG)
    defaults: ClassVar = frozenset({"loadTable/3", "loadTable/4"})
    """Spark 4.3: they call one of the other three."""

    def __init__(self, bridge: Bridge, name: str, places: Places) -> None:
        super().__init__(bridge)
        self._name, self._places = name, places
        self._asked: dict[tuple[str, ...], str] = {}

    @property
    def places(self) -> Places:
        """Where its tables are."""
        return self._places

    def to_string(self) -> str:
        """Java's toString."""
        return f"{type(self).__name__} {self._name}"

    def initialize(self, name: str, options: Any) -> None:
        """Spark calls this for catalogs that it makes itself."""

    def name(self) -> str:
        """Its name in the session."""
        return self._name

    def answered(self) -> dict[str, Answer]:
        """The name."""
        return {"name": answers.text(self._name)}

    def spoken(self) -> Spoken:
        """SQL: what names a table of a catalog in Python can type a statement as well."""
        return Spoken("sql", self._name)

    def load_table(self, wanted: Any, at: Any = None) -> Any:
        """A table, at a version (text), at a moment (microseconds), or for writing (privileges)."""
        for_reading = at is None or isinstance(at, str | int)
        parts, shown = plain(self.bridge, wanted)
        name = f"{self._name}.{shown}"
        place = self._find(wanted, _travel(at), for_reading, parts)
        if place.is_branch:
            self._asked[tuple(parts)] = place.location.uri
        return self._table(place, name, for_reading)

    def names_of(self, location: DatasetLocation) -> list[tuple[str, ...]]:
        """The names, in parts, by which branches of a dataset were asked for."""
        return [parts for parts, uri in [*self._asked.items()] if uri == location.uri]

    def table_exists(self, wanted: Any) -> bool:
        """Whether there is such a table."""
        return self._places.exists(parts_of(wanted))

    def load_changelog(self, wanted: Any, *_range: Any) -> NoReturn:
        """Raises Refused: what SQL asks for with CHANGES, the change feed tells in Python.

        Pairing the rows before and after a commit takes a shuffle, which a scan of Spark's cannot have inside.
        """
        place = self._find(wanted)
        raise Refused(
            f"CHANGES of {self._name}.{wanted.toString()} cannot be read by SQL.",
            hint="In Python: LanceTable.for_path(spark, "
            f"{place.location.uri!r}).changes(since, until).createOrReplaceTempView('changes').",
        )

    def invalidate_table(self, wanted: Any) -> None:
        """Nothing is kept that could be out of date."""

    def list_tables(self, _namespace: Any) -> Any:
        """Tables of a namespace. Paths have none."""
        return self.bridge.array(names.IDENTIFIER, [])

    def _find(
        self, wanted: Any, travel: TypedRef = DEFAULT, for_reading: bool = True, parts: list[str] | None = None
    ) -> Place:
        """What a name means; Spark's own exception where there is no more to be said than that it is not there."""
        parts = parts_of(wanted) if parts is None else parts
        try:
            return self._places.find(parts, travel)
        except (NotFound, InvalidName) as missing:
            if self._places.explains(parts, for_reading):
                raise
            raise java_error(self.bridge.new(names.NO_SUCH_TABLE, wanted)) from missing

    def _table(self, place: Place, name: str, for_reading: bool = True) -> Any:
        found = current_lookups(self.bridge)
        try:
            if found is None:
                pin = resolve(place.location, place.spec)
            else:
                pin = found.version(place, lambda: resolve(place.location, place.spec))
        except NotFound:
            if not self._places.is_declared(place):
                raise
            return DeclaredTable(self.bridge, name, place, lambda: self._properties(place)).java()
        if place.metadata_table is None:
            read = PinnedRead(place.location, pin, ReadOptions())
            source = Source(with_blobs(read) if found is not None and not for_reading else read)
            stored = StoredTable(self.bridge, source, name, place, lambda: self._properties(place))
            if found is not None:
                found.tables[stored.to_string()] = stored
            return stored.java()
        table, fixed = place.metadata_table, RefSpec(branch=pin.branch, version=pin.version)
        return RowsTable(
            self.bridge, name, metadata_schema(table), lambda: read_metadata_table(place.location, fixed, table)
        ).java()

    def _properties(self, place: Place) -> dict[str, str]:
        return shown_properties(self._places.properties(place), place)


class PathCatalog(NativeCatalog):
    """A catalog without a root: the name of a table is its path or URI."""

    def __init__(self, bridge: Bridge, name: str, storage_options: Mapping[str, str]) -> None:
        super().__init__(bridge, name, PathPlaces(storage_options))


class RootCatalog(Namespaces, NativeCatalog):
    """The tables and namespaces below a root."""

    interfaces: ClassVar[tuple[str, ...]] = (*NativeCatalog.interfaces, names.NAMESPACES)

    def __init__(self, bridge: Bridge, name: str, catalog: Catalog) -> None:
        super().__init__(bridge, name, RootPlaces(catalog))
        self.catalog = catalog

    def list_tables(self, namespace: Any) -> Any:
        """Tables of a namespace."""
        with self.known(namespace):
            found = listing.list_tables(self.catalog, [*namespace])
        return self.bridge.array(names.IDENTIFIER, [identifier(self.bridge, name.parts) for name in found])


def _travel(at: Any) -> TypedRef:
    if isinstance(at, str):
        return parse_version_text(at)
    return parse_moment(at) if isinstance(at, int) else DEFAULT
