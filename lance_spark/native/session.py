"""How a session executes its reads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lance_spark.catalog.lake import at_ref
from lance_spark.catalog.lake_rules import PUBLISHED
from lance_spark.catalog.lookup import open_catalog
from lance_spark.core.location import DatasetLocation
from lance_spark.core.texts import quoted_name
from lance_spark.errors import Refused
from lance_spark.jvm.bridge import Bridge, propagate_exceptions
from lance_spark.jvm.detection import catalogs, cloned_from, connect, connected
from lance_spark.jvm.java.compiled import for_tasks
from lance_spark.native.catalog import NativeCatalog, PathCatalog, RootCatalog
from lance_spark.native.published import PublishedCatalog
from lance_spark.session.capabilities import Capabilities, plain_way

# --- A registered session's connection to its JVM, and its catalogs


class Room:
    """The JVM side of one session."""

    def __init__(self, bridge: Bridge, origin: Room | None = None) -> None:
        self.bridge = bridge
        self.origin = origin
        """The room of the session that this one was made from, if it was."""
        self.formats: set[str] = set() if origin is None else {*origin.formats}
        """This package's format names, in lower case."""
        propagate_exceptions(bridge.gateway, True)
        self.catalogs: dict[str, NativeCatalog] = {}
        bridge.names_of = self.names_of

    def for_child(self, spark: SparkSession) -> Room:
        """The room of a session made from this one: with the same catalogs, and so with the same rights."""
        child = Room(self.bridge.of(spark), self)
        child.catalogs = {name: catalog.in_session(child.bridge) for name, catalog in self.catalogs.items()}
        loaded = catalogs(child.bridge)
        for name, catalog in child.catalogs.items():
            loaded.put(name, catalog.java())
        return child

    def comes_from(self, other: Room) -> bool:
        """Whether it is this room, or one of a session made from the other's."""
        return self is other or (self.origin is not None and self.origin.comes_from(other))

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
        self.put_catalog(self.make_catalog(name, root, storage_options, ref))

    def make_catalog(
        self, name: str, root: str | None, storage_options: Mapping[str, str], ref: tuple[str, str] | None = None
    ) -> NativeCatalog:
        """A catalog, of which Spark does not know. Raises NotFound."""
        if root is None:
            return PathCatalog(self.bridge, name, storage_options)
        opened = open_catalog(root, storage_options)
        if ref is not None and ref[0] == PUBLISHED:
            return PublishedCatalog(self.bridge, name, opened)
        return RootCatalog(self.bridge, name, opened if ref is None else at_ref(opened, *ref))

    def put_catalog(self, catalog: NativeCatalog) -> None:
        self.catalogs[catalog.name()] = catalog
        catalogs(self.bridge).put(catalog.name(), catalog.java())

    def names_of(self, location: DatasetLocation) -> list[str]:
        """The names that SQL has used for branches of a dataset, in Spark's spelling."""
        found = [(name, *parts) for name, catalog in self.catalogs.items() for parts in catalog.names_of(location)]
        return [".".join(quoted_name(part) for part in parts) for parts in found]

    def drop_catalogs(self) -> None:
        known = catalogs(self.bridge) if self.bridge.session is not None else None  # None: a server's that has ended
        for name in self.catalogs:
            if known is not None:
                known.remove(name)
        self.catalogs.clear()

    def taken(self, name: str) -> bool:
        """Whether the session has a catalog of that name, loaded or not."""
        return bool(catalogs(self.bridge).contains(name)) or bool(
            self.bridge.spark.conf.get(f"spark.sql.catalog.{name}", None)
        )


_rooms: WeakKeyDictionary[SparkSession, Room] = WeakKeyDictionary()
_lock = threading.RLock()
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
        room = _rooms.get(spark)
        if room is not None:
            for_tasks(room.bridge)
        return room


def allow(spark: SparkSession) -> None:
    _refusals.pop(spark, None)


def inherit(spark: SparkSession, origin: SparkSession | None = None) -> None:
    """Give a new session what the one has that it was made from: ``origin``, or the one that Spark cloned.

    Spark clones the session for each streaming query, and wraps the clone anew for each call of a function of
    ``foreachBatch``. A session that Python knows under another object gets the same room.
    """
    with _lock:
        if spark in _rooms or spark in _refusals:
            return
        try:
            room = _same_session(spark)
            if room is not None:
                room.bridge.also(spark)
            else:
                parent = _cloned(spark) if origin is None else _rooms.get(origin)
                if parent is None:
                    return
                room = parent.for_child(spark)
                for_tasks(room.bridge)
        except Py4JError:
            return  # its JVM is going: what the session lacks shows when it is used, as in any other
        _rooms[spark], connected[spark] = room, room.bridge


def _neighbours(spark: SparkSession) -> list[tuple[SparkSession, Room]]:
    """The registered sessions of the same JVM: objects of another one cannot be compared."""
    gateway = spark.sparkContext._gateway
    return [(other, room) for other, room in [*_rooms.items()] if room.bridge.gateway is gateway]


def _same_session(spark: SparkSession) -> Room | None:
    session = spark._jsparkSession
    return next((room for other, room in _neighbours(spark) if other._jsparkSession == session), None)


def _cloned(spark: SparkSession) -> Room | None:
    state = cloned_from(spark)
    found = (room for other, room in _neighbours(spark) if other._jsparkSession.sessionState() == state)
    return None if state is None else next(found, None)


def leave(spark: SparkSession) -> None:
    """Remove everything from a session, and from those made from it."""
    room = _rooms.get(spark)
    _refusals.pop(spark, None)
    connected.pop(spark, None)
    if room is None:
        return
    for other, found in [*_rooms.items()]:
        if found.comes_from(room):
            found.drop_catalogs()
            _rooms.pop(other, None)
            connected.pop(other, None)
    if not _rooms:
        propagate_exceptions(room.bridge.gateway, False)


def any_session() -> bool:
    return bool(_rooms)


def switch_off(spark: SparkSession, reason: str) -> None:
    """Make a session read through the plain data source from now on."""
    leave(spark)
    _refusals[spark] = reason


def current(spark: SparkSession) -> Room | None:
    if spark not in _rooms and _rooms:
        inherit(spark)  # another Python object of a registered session, made before that was registered
    return _rooms.get(spark)


def describe(spark: SparkSession) -> Capabilities:
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
    return plain_way(spark.version, reason)
