"""Which dataset the options name, by a path or by a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from lance_spark.actions.catalog.opening import open_catalog
from lance_spark.catalog.model import Catalog, Mode
from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.options.catalog import take_catalog
from lance_spark.options.storage import split_storage
from lance_spark.store.directories import branch_of_directory
from lance_spark.store.uri import locate


@dataclass(frozen=True)
class NamedTable:
    """A table of a catalog, by its name; nobody has looked whether it is there."""

    catalog: Catalog
    name: str


def take_table(options: Mapping[str, str], call: str) -> tuple[NamedTable | None, dict[str, str]]:
    """The table that ``catalog``, ``path`` and the storage options name, and the options that are left.

    None, and all options, where no catalog is named. ``call`` is as of :func:`take_location`. Raises InvalidOption.
    """
    rest, storage = split_storage(options)
    table, rest = take_catalog(rest, call)
    if table is None:
        return None, dict(options)
    mode = cast("Mode", table.mode or "compatibility")  # a catalog checks it
    return NamedTable(open_catalog(table.root, storage, mode), table.name), rest


def take_location(options: Mapping[str, str], call: str) -> tuple[DatasetLocation, dict[str, str]]:
    """The dataset that ``path`` and the storage options name, and the options that are left.

    ``call`` is what the user should have written, for the error when there is no path.
    """
    rest, storage = split_storage(options)
    path = rest.pop("path", None)
    if path is None:
        raise InvalidOption("No dataset was named.", hint=f"Give a path or a URI, e.g. {call}('s3://bucket/t.lance').")
    return dataset_at(path, storage), rest


def located(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of whatever is, or may be, at a URI. No store is asked. Raises InvalidOption."""
    return locate(uri, storage_options)


def dataset_at(uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
    """The dataset at a URI. Raises InvalidOption for a branch's own directory, ``<root>/tree/<branch>``.

    pylance opens it, but then takes the branch for a dataset of its own: a tag made there lands on main, and a
    branch made there in a place where nobody looks.
    """
    location = locate(uri, storage_options)
    found = branch_of_directory(location)
    if found is not None:
        root, branch = found
        raise InvalidOption(
            f"{location.uri} is the directory of branch '{branch}'.",
            hint=f"Use the dataset's root {root} and the branch option: option('branch', '{branch}').",
        )
    return location
