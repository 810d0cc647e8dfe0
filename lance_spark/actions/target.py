"""The door of every read and write: which dataset the options name, by a path or by a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark import hints
from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.options.catalog import take_catalog
from lance_spark.options.session_tables import check_named, nothing_named
from lance_spark.options.storage import split_storage
from lance_spark.refs.typed import MARK
from lance_spark.store.directories import branch_of_directory
from lance_spark.store.uri import check_absolute, locate_typed


@dataclass(frozen=True)
class NamedTable:
    """A table of a catalog, by its name. Plain values: reading a path loads nothing of catalogs."""

    root: DatasetLocation
    """The catalog's directory."""
    name: str
    mode: str | None = None
    """How the catalog is to be read, unchecked; None for its default."""


@dataclass(frozen=True)
class Target:
    """What the options of a read or a write name. It may not exist."""

    place: DatasetLocation | NamedTable
    options: dict[str, str]
    """The options that are left, for the read or the write itself."""
    typed: str = ""
    """The path, as it was typed, where it may name a ref as well: behind an ``@``."""


def take_target(options: Mapping[str, str], call: str) -> Target:
    """What ``path``, ``catalog`` and the storage options name.

    ``call`` is ``load`` or ``save``, for errors. Raises InvalidOption.
    """
    rest, storage = split_storage(options)
    check_named(rest, call)
    table, rest = take_catalog(rest, call)
    if table is not None:
        return Target(NamedTable(locate_typed(table.root, storage), table.name, table.mode), rest)
    path = rest.pop("path", None)
    if path is None:
        raise nothing_named(call)
    return Target(dataset_at(path, storage), rest, path if MARK in path else "")


def check_target(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for options that name a dataset or a catalog by a relative path, in a server."""
    given = {key.lower(): value for key, value in options.items()}
    check_absolute(given.get("catalog") or given.get("path") or "/")


def located(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of whatever is, or may be, at a URI. No store is asked. Raises InvalidOption."""
    return locate_typed(uri, storage_options)


def dataset_at(uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
    """The dataset at a URI. Raises InvalidOption for a branch's own directory, ``<root>/tree/<branch>``.

    pylance opens it, but then takes the branch for a dataset of its own: a tag made there lands on main, and a
    branch made there in a place where it is never seen.
    """
    location = locate_typed(uri, storage_options)
    directory = branch_of_directory(location)
    if directory is not None:
        root, branch = directory
        raise InvalidOption(
            f"{location.uri} is the directory of branch '{branch}'.",
            hint=hints.of(f"Use the dataset's root {root} and name the branch: ", hints.on_branch(root, branch), "."),
        )
    return location
