"""Creating and describing namespaces."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.actions.catalog.naming import check_no_table
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import RowFilter, find_namespace, refusal
from lance_spark.catalog.entries import check_properties
from lance_spark.catalog.model import Catalog, NamespaceInfo
from lance_spark.catalog.names import NAMESPACE, Name, check_new, identify_namespace
from lance_spark.catalog.namespaces import AddNamespace
from lance_spark.errors import AlreadyExists, NotFound
from lance_spark.store.catalog import manifest
from lance_spark.store.catalog.snapshots import read_rows


def create_namespace(
    catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None, exist_ok: bool = False
) -> bool:
    """Create a namespace; False if ``exist_ok`` and it was there, which then keeps the properties it has.

    Raises InvalidName, AlreadyExists (also for a table of that name), NotFound for a missing parent.
    """
    try:
        manifest.apply(catalog.manifest, plan_namespace(catalog, name, properties))
    except AlreadyExists:
        if exist_ok and namespace_exists(catalog, name):
            return False
        raise
    return True


def plan_namespace(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> AddNamespace:
    """The change that makes a namespace. Nothing is committed. Raises as :func:`create_namespace`."""
    identifier = identify_namespace(name)
    check_new(identifier, NAMESPACE)
    change = AddNamespace(identifier, check_properties(properties))
    need_manifest(catalog, change.doing)
    if identifier.is_root:
        raise refusal(AlreadyExists, change.doing, "the root is always there")
    check_no_table(catalog, identifier, change.doing)
    manifest.decide(catalog.manifest, change)
    return change


def namespace_exists(catalog: Catalog, name: Name) -> bool:
    """Whether there is such a namespace; the root always is. Raises InvalidName."""
    try:
        describe_namespace(catalog, name)
    except NotFound:
        return False
    return True


def describe_namespace(catalog: Catalog, name: Name) -> NamespaceInfo:
    """A namespace's properties; those of the root are in the metadata of ``__manifest``. Raises NotFound."""
    identifier = identify_namespace(name)
    doing = f"describe namespace '{identifier}'"
    if identifier.is_root:
        properties = manifest.root_properties(catalog.manifest) if catalog.reads_manifest else {}
        return NamespaceInfo(identifier, properties)
    need_manifest(catalog, doing)
    rows = read_rows(catalog.manifest, RowFilter(ids=(identifier.object_id,)))
    return NamespaceInfo(identifier, find_namespace(rows, identifier, doing).properties)
