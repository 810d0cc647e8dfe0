"""Which dataset the options name."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.options.storage import split_storage
from lance_spark.store import refs
from lance_spark.store.uri import locate


def take_location(options: Mapping[str, str], call: str) -> tuple[DatasetLocation, dict[str, str]]:
    """The dataset that ``path`` and the storage options name, and the options that are left.

    ``call`` is what the user should have written, for the error when there is no path.
    """
    rest, storage = split_storage(options)
    path = rest.pop("path", None)
    if path is None:
        raise InvalidOption("No dataset was named.", hint=f"Give a path or a URI, e.g. {call}('s3://bucket/t.lance').")
    return dataset_at(path, storage), rest


def dataset_at(uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
    """The dataset at a URI. Raises InvalidOption for a branch's own directory, ``<root>/tree/<branch>``.

    pylance opens it, but then takes the branch for a dataset of its own: a tag made there lands on main, and a
    branch made there in a place where nobody looks.
    """
    location = locate(uri, storage_options)
    root, found, branch = location.uri.partition("/tree/")
    while found:
        whole = DatasetLocation(root, location.options)
        if refs.read_branch(whole, branch if location.is_local else unquote(branch)) is not None:
            raise InvalidOption(
                f"{location.uri} is the directory of branch '{branch}'.",
                hint=f"Use the dataset's root {root} and the branch option: option('branch', '{branch}').",
            )
        more, found, branch = branch.partition("/tree/")
        root = f"{root}/tree/{more}"
    return location
