"""Creating, describing, altering and dropping namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.actions.catalog.dropping import check_unused, erase_table
from lance_spark.actions.catalog.naming import check_no_table
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import Wanted, find_namespace, refusal
from lance_spark.catalog.entries import check_properties
from lance_spark.catalog.model import Catalog, NamespaceInfo, Removed, is_inside
from lance_spark.catalog.names import NAMESPACE, Name, check_new, identify_namespace
from lance_spark.catalog.namespaces import AddNamespace, RemoveNamespace
from lance_spark.catalog.properties import AlterProperties
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.store.catalog import manifest
from lance_spark.store.catalog.snapshots import read_rows


def create_namespace(
    catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None, exist_ok: bool = False
) -> bool:
    """Create a namespace; False if ``exist_ok`` and it was there, which then keeps the properties it has.

    Raises InvalidName, AlreadyExists (also for a table of that name), NotFound for a missing parent.
    """
    change = new_namespace(catalog, name, properties)
    try:
        manifest.apply(catalog.manifest, change)
    except AlreadyExists:
        if exist_ok and namespace_exists(catalog, change.identifier):
            return False
        raise
    return True


def new_namespace(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> AddNamespace:
    """The change that makes a namespace. Raises as :func:`create_namespace`, but for what only its commit can tell."""
    identifier = identify_namespace(name)
    check_new(identifier, NAMESPACE)
    change = AddNamespace(identifier, check_properties(properties))
    need_manifest(catalog, change.doing)
    if identifier.is_root:
        raise refusal(AlreadyExists, change.doing, "the root is always there")
    check_no_table(catalog, identifier, change.doing)
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
        found = manifest.root_properties(catalog.manifest) if catalog.reads_manifest else {}
        return NamespaceInfo(identifier, found)
    need_manifest(catalog, doing)
    rows = read_rows(catalog.manifest, Wanted(ids=(identifier.object_id,)))
    return NamespaceInfo(identifier, find_namespace(rows, identifier, doing).properties)


def alter_namespace(
    catalog: Catalog, name: Name, put: Mapping[str, str] | None = None, unset: Sequence[str] = ()
) -> NamespaceInfo:
    """Set and remove properties of a namespace, or of the root. Raises NotFound."""
    identifier = identify_namespace(name)
    change = AlterProperties(identifier, NAMESPACE, check_properties(put), tuple(unset))
    need_manifest(catalog, change.doing)
    if identifier.is_root:
        manifest.alter_root_properties(catalog.manifest, dict(change.put), tuple(unset))
    else:
        manifest.apply(catalog.manifest, change)
    return describe_namespace(catalog, identifier)


def drop_namespace(catalog: Catalog, name: Name, cascade: bool = False, force: bool = False) -> tuple[Removed, ...]:
    """Drop a namespace, and with ``cascade`` all namespaces and tables in it; returns the tables that went.

    All rows go in one commit, then the files of the tables. Raises NotFound, Refused for the root, for a namespace that
    is not empty, and, without ``force``, if clones read the files of a table in it.
    """
    identifier = identify_namespace(name)
    change = RemoveNamespace(identifier, cascade)
    need_manifest(catalog, change.doing)
    if identifier.is_root:
        raise refusal(Refused, change.doing, "the root cannot be dropped")
    if cascade and not force:
        inside = read_rows(catalog.manifest, Wanted(below=(identifier.object_id,)))
        check_unused(catalog, [found.location for found in inside.entries if found.is_table], change.doing)
    edit = manifest.apply(catalog.manifest, change)
    removed = []
    for entry in edit.before:
        if entry.is_table:
            kept = entry.location in edit.shared or not is_inside(entry.location)
            if entry.location is not None and not kept:
                erase_table(catalog, entry.location)
            removed.append(Removed(entry.identifier, entry.location, entry.properties, kept))
    return tuple(removed)
