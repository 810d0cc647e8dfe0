"""Catalogs of many tables, made in no time: tables of V1 are one small file each, those of V2 only rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lance.namespace import DirectoryNamespace

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import RESERVED, AddTables
from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.name_rules import Catalog, Mode

NAMESPACE = "ns"
V1 = {"manifest_enabled": "false"}
V2 = {"dir_listing_enabled": "false"}
INDEXED = {**V2, "inline_optimization_enabled": "true"}
"""pylance makes the indexes of the specification only if it is asked to, with this property."""


def name_of(number: int) -> str:
    return f"t{number:06}"


@contextmanager
def scratch() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="catalog"))
    try:
        yield root
    finally:
        shutil.rmtree(root)


def fill_v1(root: Path, tables: int) -> Path:
    """Tables that are declared: each a directory with one empty file."""
    for number in range(tables):
        directory = root / f"{name_of(number)}.lance"
        directory.mkdir(parents=True)
        (directory / RESERVED).touch()
    return root


def fill_v2(root: Path, tables: int) -> Path:
    """Rows of tables in the root, with all indexes, and one namespace that is empty."""
    catalog = open_catalog(str(root), mode="v2")
    manifest_commits.apply(catalog.manifest, AddTables({name_of(n): f"{name_of(n)}.lance" for n in range(tables)}))
    create_namespace(catalog, NAMESPACE)
    return root


def ours(uri: str, mode: Mode, storage: dict[str, str] | None = None) -> Catalog:
    return open_catalog(uri, storage, mode)


def theirs(uri: str, properties: dict[str, str], storage: dict[str, str] | None = None) -> Any:
    """pylance's namespace. It is made once: making it takes requests that are not measured."""
    given = {f"storage.{key.removeprefix('aws_')}": value for key, value in (storage or {}).items()}
    return DirectoryNamespace(root=uri, **properties, **given)
