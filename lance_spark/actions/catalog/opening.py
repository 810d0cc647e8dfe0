"""Which catalog a URI means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lance_spark import hints
from lance_spark.actions.target import NamedTable
from lance_spark.catalog.model import Catalog, Mode
from lance_spark.errors import NotFound, Refused
from lance_spark.store.directories import is_directory
from lance_spark.store.uri import locate_typed


def open_catalog(uri: str, storage_options: Mapping[str, str] | None = None, mode: Mode = "compatibility") -> Catalog:
    """The catalog in a directory. Nothing is asked of the store, and nothing is made before the first write.

    Raises InvalidOption for what cannot be the place of a catalog.
    """
    return Catalog(locate_typed(uri, storage_options), mode)


def check_root(catalog: Catalog) -> None:
    """Raise NotFound for a local catalog whose directory is not there: a misspelt one must not look like an empty one.

    Another store has no directories, only what is in them.
    """
    if catalog.root.is_local and not is_directory(catalog.uri):
        raise NotFound(
            f"There is no directory {catalog.uri}.",
            hint=hints.of("Check the catalog's path", hints.CATALOG_ROOT, "; the first table or namespace makes it."),
        )


def catalog_of(table: NamedTable) -> Catalog:
    """The catalog that has a table. Raises InvalidOption for an unknown mode."""
    return Catalog(table.root, cast("Mode", table.mode or "compatibility"))


def need_manifest(catalog: Catalog, doing: str) -> None:
    """Raise Refused for what V1 cannot do."""
    if not catalog.reads_manifest:
        from lance_spark.catalog.changes import refusal  # pulls in pyarrow, for which commands do not wait

        raise refusal(
            Refused, doing, "a catalog of directories (V1) has no such thing", hint="Open it in compatibility mode."
        )
