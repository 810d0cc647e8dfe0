"""Small repositories as values: chains of versions, refs, and what a listing says of them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import Branch, RefTable, Tag
from lance_spark.survey.chain_rules import Chain, Survey, VersionFile

HOUR = 3_600 * 1_000_000_000
DAY = 24 * HOUR
NOW = 20_000 * DAY
"""When the runs of these tests begin, nanoseconds since the epoch."""
ROOT = "/warehouse/t.lance"
CLONE = "/clones/c.lance"


def manifest(version: int, modified_ns: int = NOW - 100 * DAY, size: int = 100) -> VersionFile:
    return VersionFile(version, f"{2**64 - 1 - version:020d}.manifest", size, modified_ns)


def chain(
    branch: str | None = None,
    versions: Iterable[int | VersionFile] = (1, 2, 3),
    repository: int = 0,
    has_ref: bool = True,
    detached: Iterable[VersionFile] = (),
) -> Chain:
    """A chain from version numbers or VersionFiles."""
    files = tuple(each if isinstance(each, VersionFile) else manifest(each) for each in versions)
    root = f"tree/{branch}" if branch else ""
    return Chain(repository, root, branch, has_ref, files, tuple(detached))


def fork(name: str, parent_version: int, parent: str | None = None, created: float = 0) -> Branch:
    return Branch(name, parent, parent_version, datetime.fromtimestamp(created, timezone.utc))


def survey(
    *chains: Chain,
    branches: Iterable[Branch] = (),
    tags: Iterable[tuple[str, str | None, int]] = (),
    recorded: Mapping[str, str] | None = None,
    repositories: Iterable[str] = (ROOT, CLONE),
) -> Survey:
    """``branches`` are Branch values, ``tags`` are (name, branch, version)."""
    return Survey(
        tuple(DatasetLocation(uri) for uri in repositories),
        tuple(chains),
        RefTable({branch.name: branch for branch in branches}, {tag[0]: Tag(*tag) for tag in tags}),
        recorded or {},
    )


_LINKS = {"/links/table": ROOT, "/links/clone": CLONE}


def realpath(path: str) -> str:
    """The real path in a world with two symbolic links, seen from the directory above the table."""
    path = posixpath.normpath(posixpath.join("/warehouse", path))
    for link, target in _LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path[len(link) :]
    return path
