"""Tables of catalogs that belong to another writer: whoever has the path of one changes nothing of it, either.

Versions that are committed through such a catalog, or that its rows pin, are in no manifest or ref of the table.
"""

from __future__ import annotations

from functools import lru_cache

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import LAKE_TABLE
from lance_spark.errors import NotFound, PermissionDenied, Refused
from lance_spark.format.others import USE_THEIRS, why_of_others
from lance_spark.storage import files
from lance_spark.storage.datasets import open_latest
from lance_spark.storage.failures import translated


def check_ours(location: DatasetLocation) -> None:
    """Raise Refused for a table directly below the root of a catalog that belongs to another writer.

    Each process looks once at each directory. One that may not be listed is taken for no catalog.
    """
    root, slash, name = location.uri.rpartition("/")
    why = _why(DatasetLocation(root, location.options)) if slash and root and name != LAKE_TABLE else None
    if why is not None:
        raise Refused(f"Nothing of {location.uri} may be changed here. Of the catalog {root}, {why}.", hint=USE_THEIRS)


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
