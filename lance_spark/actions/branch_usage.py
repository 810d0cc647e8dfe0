"""What branches wrote themselves: their own versions, files and bytes, from one listing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lance_spark.layout.file_kinds import Roots
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import read_manifest_name
from lance_spark.location import DatasetLocation
from lance_spark.store.listing import list_range


@dataclass(frozen=True)
class OwnFiles:
    """What lies in one branch's own directory."""

    versions: tuple[int, ...] = ()
    """Numbers of its versions, ascending; the first is the one it was made with."""
    files: int = 0
    bytes: int = 0


def own_files(location: DatasetLocation, branches: Collection[str]) -> dict[str, OwnFiles]:
    """The own files of each of the branches, by name; main is none of them.

    ``branches`` are all the branches of the dataset: a branch ``a/b`` lies inside the directory of branch ``a``.
    """
    names = {f"tree/{name}": name for name in branches}
    owners = Roots(names)
    versions: dict[str, list[int]] = {name: [] for name in branches}
    files, sizes = dict.fromkeys(branches, 0), dict.fromkeys(branches, 0)
    for batch in list_range(location, KeyRange.below("tree")):
        for path, size in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True):
            root = owners.owner(path)
            if root not in names:
                continue  # what a deleted branch left behind
            name = names[root]
            files[name] += 1
            sizes[name] += size
            versions[name] += _version(path[len(root) + 1 :])
    return {name: OwnFiles(tuple(sorted(versions[name])), files[name], sizes[name]) for name in branches}


def _version(path: str) -> list[int]:
    directory, _, name = path.rpartition("/")
    read = read_manifest_name(name) if directory == "_versions" else None
    return [] if read is None or read.detached else [read.version]
