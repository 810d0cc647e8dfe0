"""How a session executes its reads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from lance_spark.catalog.lake import at_ref
from lance_spark.catalog.lake_rules import PUBLISHED
from lance_spark.catalog.lookup import open_catalog
from lance_spark.columns.rules import quoted_name
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Refused
from lance_spark.jvm.bridge import Bridge, propagate_exceptions
from lance_spark.jvm.detection import catalogs, connect, connected
from lance_spark.native.catalog import NativeCatalog, PathCatalog, RootCatalog
from lance_spark.native.published import PublishedCatalog


@dataclass(frozen=True)
class Capabilities:
    """What a session can do, determined when it was registered."""

    native: bool
    """Whether Spark's planner works with this package: columns, filters, limits and aggregates are pushed down."""
    reason: str
    """Why, or why not."""
    spark: str = ""
    """Spark's version."""
    catalogs: tuple[str, ...] = ()
    """Names of the catalogs that SQL can use."""
    no_row_changes: str | None = None
    """Why SQL refuses UPDATE, MERGE INTO and DELETE by any condition; None if it accepts them."""

    no_batches: str | None = None
    """Why scans return rows, which Spark copies; None if they return Arrow batches, which Spark reads without a
    copy."""
    no_columns: str | None = None
    """Why writes send rows to Python; None if they send columns."""

    def __str__(self) -> str:
        way = "Spark plans into Lance" if self.native else "reads go through the plain data source"
        known = f"; catalogs: {', '.join(self.catalogs)}" if self.catalogs else ""
        missing = f"; no UPDATE and MERGE in SQL: {self.no_row_changes}" if self.native and self.no_row_changes else ""
        by_rows = f"; scans hand over rows: {self.no_batches}" if self.native and self.no_batches else ""
        only = self.no_columns if self.native and not self.no_batches else None
        slower = f"; writes send rows: {only}" if only else ""
        return f"{way}: {self.reason}{known}{missing}{by_rows}{slower}"


# --- A registered session's connection to its JVM, and its catalogs


class Room:
    """The JVM side of one session."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        propagate_exceptions(bridge.gateway, True)
        self.catalogs: dict[str, NativeCatalog] = {}
        bridge.names_of = self.names_of

    def add_catalog(
        self, name: str, root: str | None, storage_options: Mapping[str, str], ref: tuple[str, str] | None = None
    ) -> None:
        """Register a catalog in SQL under a name; ``ref`` is the kind and name of a ref of the lake.

        Raises Refused if the name is taken, NotFound.
        """
        if name not in self.catalogs and self.taken(name):
            raise Refused(
                f"The session already has a catalog '{name}'.", hint="Give another name: register(spark, catalog=...)."
            )
        if root is None:
            catalog: NativeCatalog = PathCatalog(self.bridge, name, storage_options)
        else:
            opened = open_catalog(root, storage_options)
            if ref is not None and ref[0] == PUBLISHED:
                catalog = PublishedCatalog(self.bridge, name, opened)
            else:
                catalog = RootCatalog(self.bridge, name, opened if ref is None else at_ref(opened, *ref))
        self.catalogs[name] = catalog
        catalogs(self.bridge).put(name, catalog.java())

    def names_of(self, location: DatasetLocation) -> list[str]:
        """The names that SQL has used for branches of a dataset, in Spark's spelling."""
        found = [(name, *parts) for name, catalog in self.catalogs.items() for parts in catalog.names_of(location)]
        return [".".join(quoted_name(part) for part in parts) for parts in found]

    def drop_catalogs(self) -> None:
        """Remove the catalogs from the session."""
        for name in self.catalogs:
            catalogs(self.bridge).remove(name)
        self.catalogs.clear()

    def taken(self, name: str) -> bool:
        """Whether the session has a catalog of that name, loaded or not."""
        return bool(catalogs(self.bridge).contains(name)) or bool(
            self.bridge.spark.conf.get(f"spark.sql.catalog.{name}", None)
        )


_rooms: WeakKeyDictionary[SparkSession, Room] = WeakKeyDictionary()
_lock = threading.Lock()
_refusals: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def enter(spark: SparkSession) -> Room | None:
    """The room of a session, created on the first call; None if that is impossible or switched off."""
    with _lock:
        if spark not in _rooms and spark not in _refusals:
            try:
                connected[spark] = connect(spark)
                _rooms[spark] = Room(connected[spark])
            except Refused as reason:
                _refusals[spark] = reason.message
        return _rooms.get(spark)


def allow(spark: SparkSession) -> None:
    """Undo :func:`switch_off`."""
    _refusals.pop(spark, None)


def leave(spark: SparkSession) -> None:
    """Remove everything from a session."""
    room = _rooms.pop(spark, None)
    connected.pop(spark, None)
    _refusals.pop(spark, None)
    if room is not None:
        room.drop_catalogs()
        if not _rooms:
            propagate_exceptions(room.bridge.gateway, False)


def switch_off(spark: SparkSession, reason: str) -> None:
    """Make a session read through the plain data source from now on."""
    leave(spark)
    _refusals[spark] = reason


def current(spark: SparkSession) -> Room | None:
    """The room of a session; None if it has none."""
    return _rooms.get(spark)


def describe(spark: SparkSession) -> Capabilities:
    """How the session executes its reads."""
    room = _rooms.get(spark)
    if room is not None:
        reason = "every name of Spark that it takes was found"
        bridge = room.bridge
        return Capabilities(
            True,
            reason,
            spark.version,
            tuple(room.catalogs),
            bridge.no_row_changes,
            bridge.no_batches,
            bridge.no_columns,
        )
    reason = _refusals.get(spark, "the session is not registered; call lance_spark.register(spark).")
    only = "only classic sessions with the native way have it."
    return Capabilities(False, reason, spark.version, no_row_changes=only, no_batches=only, no_columns=only)
