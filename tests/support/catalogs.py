"""Catalogs on local disk through the actions, and through pylance's own namespace."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
from lance.namespace import DirectoryNamespace

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.lookup import list_namespaces, list_tables, locate_table
from lance_spark.catalog.manifest_commits import newest
from lance_spark.catalog.name_rules import Catalog, Declaration, Name
from lance_spark.catalog.tables import declare_table
from support.local_datasets import numbers

PYLANCE = {
    "v1": {"manifest_enabled": "false"},
    "v2": {"dir_listing_enabled": "false"},
    "compatibility": {"dir_listing_to_manifest_migration_enabled": "true"},
}
"""The properties with which pylance comes nearest to a mode of the specification."""


def pylance(catalog: Catalog, **properties: str) -> DirectoryNamespace:
    """pylance's namespace on the same directory, in the same mode unless properties are given."""
    return DirectoryNamespace(root=catalog.uri, **(properties or PYLANCE[catalog.mode]))


def make_table(catalog: Catalog, name: Name, rows: pa.Table | None = None, **properties: str) -> Declaration:
    """A table with rows, as a Spark job makes it: declared, written, committed."""
    declared = declare_table(catalog, name, properties)
    lance.write_dataset(numbers(3) if rows is None else rows, declared.location.uri)
    return declared


def ids_of(catalog: Catalog, name: Name) -> list[int]:
    """The rows of a table, read by pylance at the place the catalog tells."""
    return list(lance.dataset(locate_table(catalog, name).uri).to_table()["id"].to_pylist())


def tables(catalog: Catalog, namespace: Name = "", recursive: bool = False) -> list[str]:
    return [str(table) for table in list_tables(catalog, namespace, recursive)]


def namespaces(catalog: Catalog, parent: Name = "", recursive: bool = False) -> list[str]:
    return [str(child) for child in list_namespaces(catalog, parent, recursive)]


def raw(catalog: Catalog) -> lance.LanceDataset:
    """``__manifest``, opened by pylance."""
    return lance.dataset(f"{catalog.uri}/__manifest")


def rows(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """The rows of ``__manifest``, read by pylance; each id once."""
    rows = raw(catalog).to_table().to_pylist()
    assert len({row["object_id"] for row in rows}) == len(rows)
    return {row["object_id"]: row for row in rows}


def indexes(catalog: Catalog) -> frozenset[str]:
    snapshot = newest(catalog.manifest)
    assert snapshot is not None
    return manifest_commits.index_names(snapshot)
