"""Older versions of ``__manifest``: what they had that the newest one lacks."""

from __future__ import annotations

from lance_spark.store.catalog.snapshots import CatalogVersion
from lance_spark.store.failures import translated

_MOST = 64
"""Versions that are looked at, spread evenly over all there are."""


def older_columns(snapshot: CatalogVersion) -> dict[str, int]:
    """Columns of older versions, with the newest of the versions looked at that has each."""
    import lance

    with translated(snapshot.manifest, "listing versions"):
        versions = sorted((int(ref["version"]) for ref in snapshot.dataset.version_refs()), reverse=True)
    step = max(1, len(versions) // _MOST)
    columns: dict[str, int] = {}
    for version in versions[::step]:
        with translated(snapshot.manifest, f"reading version {version}"):
            older = lance.dataset(
                snapshot.manifest.uri, version=version, storage_options=snapshot.manifest.storage_options
            )
        for name in older.schema.names:
            columns.setdefault(name, version)
    return columns
