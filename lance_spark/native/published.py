"""A catalog of complete publishes: every statement reads the last one that was complete when its analysis began.

Spark looks up each table of a statement by itself. The lookups of one analysis share a cache of relations, which tells
statements apart: views, subqueries and commands with a query have that of their statement. Two DataFrames are two
statements.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

from lance_spark.catalog.name_rules import Catalog
from lance_spark.catalog.published import at_published
from lance_spark.errors import Refused
from lance_spark.jvm import names
from lance_spark.jvm.bridge import Bridge
from lance_spark.native.catalog import NativeCatalog, RootCatalog
from lance_spark.native.places import Places, RootPlaces, parts_of

_STATEMENTS = 8
"""How many statements of a thread are remembered: analyses can be nested, and Spark frees their caches at some time."""


class PublishedCatalog(RootCatalog):
    """The tables and namespaces below a root, as of the last complete publish. Nothing can be changed."""

    def __init__(self, bridge: Bridge, name: str, catalog: Catalog) -> None:
        self._statements: dict[int, list[tuple[Any, Catalog]]] = {}
        super().__init__(bridge, name, catalog)
        try:
            self._analysis()
        except Py4JError:
            raise Refused(
                "This Spark does not tell which tables belong to one statement.",
                hint="Without SQL: LanceCatalog(root).checkout(published=True).",
            ) from None

    def in_session(self, bridge: Bridge) -> NativeCatalog:
        return PublishedCatalog(bridge, self._name, self._whole)

    @property
    def catalog(self) -> Catalog:
        """For lookups of their own, such as lists: as of now."""
        return at_published(self._whole)

    @catalog.setter
    def catalog(self, whole: Catalog) -> None:
        self._whole = whole

    @property
    def places(self) -> Places:
        """For tables of a statement: as of its beginning."""
        thread, analysis = self.bridge.thread(), self._analysis()
        known = self._statements.get(thread, [])
        for statement, catalog in known:
            if statement.refersTo(analysis):
                return RootPlaces(catalog)
        found = self.catalog
        begun = self.bridge.new("java.lang.ref.WeakReference", analysis), found
        self._statements[thread] = [begun, *known[: _STATEMENTS - 1]]
        return RootPlaces(found)

    @places.setter
    def places(self, places: Places) -> None:
        """The places follow from the catalog."""

    def table_exists(self, wanted: Any) -> bool:
        return RootPlaces(self.catalog).exists(parts_of(wanted))

    def invalidate_table(self, _wanted: Any) -> None:
        """REFRESH TABLE, whose lookups are outside of any analysis, begins with it."""
        self._statements.pop(self.bridge.thread(), None)

    def _analysis(self) -> Any:
        """The relations that this thread's statement has looked up so far."""
        return self.bridge.call(f"{names.MAYBE_ANALYSIS}.get").relationCache()
