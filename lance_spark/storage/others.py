"""Tables of catalogs that belong to another writer: whoever has the path of one changes nothing of it, either.

Versions that are committed through such a catalog, or that its rows pin, are in no manifest or ref of the table.
"""

from __future__ import annotations

from functools import lru_cache

from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_names import LAKE_TABLE
from lance_spark.core.services import keeps_versions
from lance_spark.errors import NotFound, PermissionDenied, Refused
from lance_spark.format.others import USE_THEIRS, directories_above, why_of_others
from lance_spark.storage import files
from lance_spark.storage.credentials import only_main
from lance_spark.storage.datasets import open_latest
from lance_spark.storage.failures import translated


def check_ours(location: DatasetLocation, doing: str) -> None:
    """Raise Refused for a change that is no commit, if the table is another writer's or its catalog keeps its versions.

    ``doing`` completes "Cannot ...".
    """
    check_elsewhere(location, doing)
    check_commits(location)


def check_elsewhere(location: DatasetLocation, doing: str) -> None:
    """Raise Refused for a table whose catalog keeps its versions: not all of them are in its directory."""
    if keeps_versions(location):
        raise only_main(location, doing)


def check_commits(location: DatasetLocation) -> None:
    """Raise Refused for a table of a catalog that belongs to another writer: at once below its root, or registered.

    A catalog that keeps the table's versions is asked with each commit, so it may be one of them.
    Each process looks once at each directory above, all at the same time. One that may not be listed is taken for no
    catalog.
    """
    if location.uri.endswith(f"/{LAKE_TABLE}") or keeps_versions(location):
        return
    directory, slash, name = location.uri.rpartition("/")
    for root, why in _of_others(DatasetLocation(directory, location.options)) if slash and directory else ():
        if root.uri == directory or _registers(root, f"{directory[len(root.uri) + 1 :]}/{name}"):
            raise Refused(
                f"Nothing of {location.uri} may be changed here. Of the catalog {root.uri}, {why}.", hint=USE_THEIRS
            )


def forget() -> None:
    """Look at all directories again, as another process would."""
    _of_others.cache_clear()
    _why.cache_clear()


@lru_cache(maxsize=1024)
def _of_others(directory: DatasetLocation) -> tuple[tuple[DatasetLocation, str], ...]:
    """The catalogs of other writers at a directory and above, the nearest first, with the reason.

    Kept as a whole: every commit asks several times, and must not start threads for what is known.
    """
    roots = [DatasetLocation(above, directory.options) for above in directories_above(f"{directory.uri}/table")]
    found = zip(roots, files.each(directory, _why, roots), strict=True)
    return tuple((root, why) for root, why in found if why is not None)


def _registers(root: DatasetLocation, below: str) -> bool:
    """Whether a catalog has a table at a place below its root. A lake may have others below it that are none of its."""
    manifest = DatasetLocation(f"{root.uri}/{LAKE_TABLE}", root.options)
    dataset = open_latest(manifest)
    with translated(manifest, "reading the places of its tables"):
        places = dataset.to_table(columns=["location"])["location"].to_pylist()
    return below in {str(place).removeprefix("./").rstrip("/") for place in places}


@lru_cache(maxsize=1024)
def _why(root: DatasetLocation) -> str | None:
    manifest = DatasetLocation(f"{root.uri}/{LAKE_TABLE}", root.options)
    try:
        if not files.entries(manifest, ""):
            return None
        dataset = open_latest(manifest)
    except (NotFound, PermissionDenied):
        return None
    with translated(manifest, "reading the properties of the root namespace"):
        return why_of_others(dataset.metadata)
