"""Tables of catalogs that belong to another writer: whoever has the path of one changes nothing of it, either.

Versions that are committed through such a catalog, or that its rows pin, are in no manifest or ref of the table.
"""

from __future__ import annotations

from functools import lru_cache

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import LAKE_TABLE
from lance_spark.errors import NotFound, PermissionDenied, Refused
from lance_spark.format.others import USE_THEIRS, directories_above, why_of_others
from lance_spark.storage import files
from lance_spark.storage.datasets import open_latest
from lance_spark.storage.failures import translated


def check_ours(location: DatasetLocation) -> None:
    """Raise Refused for a table of a catalog that belongs to another writer: at once below its root, or registered.

    Each process looks once at each directory above, all at the same time. One that may not be listed is taken for no
    catalog.
    """
    if location.uri.endswith(f"/{LAKE_TABLE}"):
        return
    roots = [DatasetLocation(above, location.options) for above in directories_above(location.uri)]
    for nearest, (root, why) in enumerate(zip(roots, files.each(location, _why, roots), strict=True)):
        if why is not None and (nearest == 0 or _registers(root, location.uri[len(root.uri) + 1 :])):
            raise Refused(
                f"Nothing of {location.uri} may be changed here. Of the catalog {root.uri}, {why}.", hint=USE_THEIRS
            )


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
