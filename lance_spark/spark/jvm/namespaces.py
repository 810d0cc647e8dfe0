"""Namespaces of a catalog with a root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lance_spark.actions.catalog import dropping, listing, namespaces, properties
from lance_spark.errors import AlreadyExists, InvalidName, NotFound
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.failures import java_error
from lance_spark.spark.jvm.identifiers import strings
from lance_spark.spark.jvm.proxies import Implementation

if TYPE_CHECKING:
    from lance_spark.catalog.model import Catalog

OWNER = "owner"
"""Spark sets it for everything that it makes, to whoever runs the session; it is not kept."""


class Namespaces(Implementation):
    """The part of a catalog that is Spark's ``SupportsNamespaces``."""

    catalog: Catalog

    @contextmanager
    def known(self, namespace: Any) -> Iterator[None]:
        """Let Spark say that there is no such namespace."""
        try:
            yield
        except (NotFound, InvalidName) as missing:
            raise java_error(self.bridge.new(names.NO_SUCH_NAMESPACE, namespace)) from missing

    def namespace_exists(self, namespace: Any) -> bool:
        """Whether there is such a namespace."""
        try:
            return namespaces.namespace_exists(self.catalog, [*namespace])
        except InvalidName:
            return False

    def list_namespaces(self, parent: Any = None) -> Any:
        """Namespaces in a namespace, or in the root."""
        with self.known(parent):
            children = listing.list_namespaces(self.catalog, [] if parent is None else [*parent])
        return self.bridge.array("[Ljava.lang.String;", [strings(self.bridge, name.parts) for name in children])

    def load_namespace_metadata(self, namespace: Any) -> Any:
        """A namespace's properties."""
        with self.known(namespace):
            return self.bridge.map(dict(namespaces.describe_namespace(self.catalog, [*namespace]).properties))

    def create_namespace(self, namespace: Any, given: Any) -> None:
        """Make one, with properties. Its parent must be there."""
        kept = {key: value for key, value in dict(given).items() if key != OWNER}
        try:
            namespaces.create_namespace(self.catalog, [*namespace], kept)
        except AlreadyExists as taken:
            if not self.namespace_exists(namespace):
                raise  # a table has the name
            raise java_error(self.bridge.new(names.NAMESPACE_EXISTS, namespace)) from taken

    def alter_namespace(self, namespace: Any, changes: Any) -> None:
        """Set and remove properties."""
        put, unset = property_changes(changes)
        with self.known(namespace):
            properties.alter_namespace(self.catalog, [*namespace], put, unset)

    def drop_namespace(self, namespace: Any, cascade: bool) -> bool:
        """Drop one, with what is in it if ``cascade``."""
        parts = [*namespace]
        with self.known(namespace):
            if not cascade and self._holds_something(parts):
                raise java_error(self.bridge.new(names.NAMESPACE_NOT_EMPTY, namespace))
            dropping.drop_namespace(self.catalog, parts, cascade)
        return True

    def _holds_something(self, parts: list[str]) -> bool:
        return bool(listing.list_tables(self.catalog, parts, limit=1)) or bool(
            listing.list_namespaces(self.catalog, parts, limit=1)
        )


def property_changes(changes: Any) -> tuple[dict[str, str], list[str]]:
    """What is to be set and removed, of Spark's changes of properties; others are left out. The last one counts."""
    put: dict[str, str] = {}
    unset: dict[str, None] = {}
    for change in changes:
        kind = change.getClass().getSimpleName()
        if kind == "SetProperty":
            put[change.property()] = change.value()
            unset.pop(change.property(), None)
        elif kind == "RemoveProperty":
            put.pop(change.property(), None)
            unset[change.property()] = None
    return put, [*unset]
