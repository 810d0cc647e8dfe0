"""A catalog of Spark's: the tables below a root, or those at paths."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.actions.catalog import listing, namespaces
from lance_spark.actions.catalog.lookup import locate_table
from lance_spark.actions.expressions import resolve_expression
from lance_spark.actions.read import PinnedRead
from lance_spark.actions.resolve import resolve
from lance_spark.actions.target import dataset_at
from lance_spark.catalog.names import identify_table
from lance_spark.errors import InvalidName, NotFound
from lance_spark.options.read import ReadOptions
from lance_spark.refs.model import RefSpec
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.failures import java_error
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.source import Source
from lance_spark.spark.jvm.table import NativeTable
from lance_spark.store import datasets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_spark.catalog.model import Catalog
    from lance_spark.location import DatasetLocation
    from lance_spark.spark.jvm.bridge import Bridge


class NativeCatalog(Implementation):
    """What tables of any kind of catalog have in common: they are looked up, and read at a version."""

    interfaces: ClassVar[tuple[str, ...]] = (names.TABLE_CATALOG,)

    reads_paths: ClassVar = False
    """Whether names are paths. Of one that it does not find, Spark says that it knows no such data source."""

    def __init__(self, bridge: Bridge, name: str) -> None:
        super().__init__(bridge)
        self._name = name

    def to_string(self) -> str:
        """Java's toString."""
        return f"{type(self).__name__} {self._name}"

    def initialize(self, name: str, options: Any) -> None:
        """Spark calls this for catalogs that it makes itself."""

    def name(self) -> str:
        """Its name in the session."""
        return self._name

    def load_table(self, identifier: Any, at: Any = None, *others: Any) -> Any:
        """A table, at a version (text), at a moment (microseconds), or for writing (privileges)."""
        if others:
            return self.default("loadTable", identifier, at, *others)  # Spark 4.3: calls one of the other three
        parts = [*identifier.namespace(), identifier.name()]
        try:
            location = self.locate(parts)
            pin = self._pin(location, at)
        except (NotFound, InvalidName) as missing:
            if self.reads_paths or self._is_there(parts):
                raise
            raise java_error(self.bridge.new(names.NO_SUCH_TABLE, identifier)) from missing
        source = Source(PinnedRead(location, pin, ReadOptions()))
        return NativeTable(self.bridge, source, f"{self._name}.{identifier}").java()

    def table_exists(self, identifier: Any) -> bool:
        """Whether there is such a table."""
        return self._is_there([*identifier.namespace(), identifier.name()])

    def invalidate_table(self, identifier: Any) -> None:
        """Nothing is kept that could be out of date."""

    def locate(self, parts: Sequence[str]) -> DatasetLocation:
        """Where a table is. Raises NotFound, InvalidName."""
        raise NotImplementedError

    def _is_there(self, parts: Sequence[str]) -> bool:
        try:
            datasets.open_latest(self.locate(parts))
        except (NotFound, InvalidName):
            return False
        return True

    def _pin(self, location: DatasetLocation, at: Any) -> Any:
        if isinstance(at, str):
            if at.isdecimal():
                return resolve(location, RefSpec(version=int(at)))
            return resolve_expression(location, at, None)
        if isinstance(at, int):
            return resolve(location, RefSpec(as_of=datetime.fromtimestamp(at / 1e6, timezone.utc)))
        return resolve(location, RefSpec())

    def list_tables(self, _namespace: Any) -> Any:
        """Tables of a namespace. Paths have none."""
        return self.bridge.array(names.IDENTIFIER, [])


class PathCatalog(NativeCatalog):
    """A catalog without a root: the name of a table is its path or URI."""

    reads_paths: ClassVar = True

    def __init__(self, bridge: Bridge, name: str, storage_options: Mapping[str, str]) -> None:
        super().__init__(bridge, name)
        self._storage_options = storage_options

    def locate(self, parts: Sequence[str]) -> DatasetLocation:
        """The dataset at the path. In front of it may be nothing but the name of this catalog."""
        if len(parts) != 1:
            raise NotFound(f"{'.'.join(parts)} is no path.", hint=f"Write {self._name}.`s3://bucket/table.lance`.")
        return dataset_at(parts[0], self._storage_options)


class RootCatalog(NativeCatalog):
    """The tables and namespaces below a root."""

    interfaces: ClassVar[tuple[str, ...]] = (names.TABLE_CATALOG, names.NAMESPACES)

    def __init__(self, bridge: Bridge, name: str, catalog: Catalog) -> None:
        super().__init__(bridge, name)
        self.catalog = catalog

    def locate(self, parts: Sequence[str]) -> DatasetLocation:
        """Where the catalog says that the table is."""
        return locate_table(self.catalog, identify_table(list(parts)))

    def list_tables(self, namespace: Any) -> Any:
        """Tables of a namespace."""
        found = listing.list_tables(self.catalog, list(namespace))
        made = [self._identifier(name.parts) for name in found]
        return self.bridge.array(names.IDENTIFIER, made)

    def _identifier(self, parts: Sequence[str]) -> Any:
        namespace = self.bridge.array("java.lang.String", parts[:-1])
        return self.bridge.call(f"{names.IDENTIFIER}.of", namespace, parts[-1])

    def namespace_exists(self, namespace: Any) -> bool:
        """Whether there is such a namespace."""
        return namespaces.namespace_exists(self.catalog, list(namespace))

    def list_namespaces(self, parent: Any = None) -> Any:
        """Namespaces in a namespace, or in the root."""
        found = listing.list_namespaces(self.catalog, [] if parent is None else list(parent))
        rows = [self.bridge.array("java.lang.String", name.parts) for name in found]
        return self.bridge.array("[Ljava.lang.String;", rows)

    def load_namespace_metadata(self, namespace: Any) -> Any:
        """A namespace's properties."""
        try:
            return self.bridge.map(dict(namespaces.describe_namespace(self.catalog, list(namespace)).properties))
        except (NotFound, InvalidName) as missing:
            raise java_error(self.bridge.new(names.NO_SUCH_NAMESPACE, namespace)) from missing
