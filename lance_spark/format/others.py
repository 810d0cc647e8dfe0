"""Catalogs whose tables belong to another writer, by the properties of their root. Nothing of them is changed here."""

from __future__ import annotations

from collections.abc import Mapping

_MANAGED, _PARTITIONED = "table_version_management", "partition_spec_v"
USE_THEIRS = "Use the tool that made it. Reads are possible here."


def directories_above(uri: str) -> list[str]:
    """Those in which a table's directory lies, the nearest first, up to the bucket or below the root of the disk."""
    scheme, separator, path = uri.rpartition("://")
    parts = path.split("/")
    above = ["/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]
    return [f"{scheme}{separator}{each}" for each in above if each]


def why_of_others(properties: Mapping[str, str]) -> str | None:
    """Why nothing of a catalog may be changed here, by the properties of its root; None if it may."""
    if properties.get(_MANAGED, "").lower() == "true":
        return f"its property {_MANAGED} says that the versions of its tables are committed through the catalog itself"
    spec = next((key for key in sorted(properties) if key.startswith(_PARTITIONED)), None)
    return None if spec is None else f"its property {spec} says that it is one partitioned table"
