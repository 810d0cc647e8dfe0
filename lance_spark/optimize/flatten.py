"""Flattening: makes a branch or clone independent of other places by copying its files."""

from __future__ import annotations

from lance_spark.clones import base_commits
from lance_spark.clones.base_commits import Head, read_head
from lance_spark.clones.base_rules import Repair
from lance_spark.clones.relocate import trace_of
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, Refused
from lance_spark.format.contents import IndexRecord
from lance_spark.format.versions import ADDS_ONLY, MOVED, Copy
from lance_spark.indexes.index_segments import commit_indexes
from lance_spark.merge.replay_commits import copy_each
from lance_spark.optimize.compaction_rules import FlattenResult, inherited_copies, reads_elsewhere
from lance_spark.optimize.optimize import index_copies
from lance_spark.scan.fragment_reads import blob_columns
from lance_spark.storage import refs, versions
from lance_spark.storage.commits import attempts, overtaken
from lance_spark.storage.followers import check_mergeable

_MESSAGE = "Flatten"


def flatten(location: DatasetLocation, branch: str | None, engine: Engine) -> FlattenResult:
    """Copy all files that a branch (None for main) reads from other places, and read the copies: up to two versions.

    Indexes come first, so that each version is sound. After a crash, call it again: it reuses its copies.
    Raises Refused for files that were named by hand, CorruptData for an index without files, NotFound, Conflict.
    """
    check_mergeable(location, branch)
    files: dict[str, Copy] = {}
    names: set[str] = set()
    for _ in attempts():
        head = read_head(location, branch)
        snapshot = versions.snapshot_of(location, head.pin, head.contents)
        found = inherited_copies(snapshot, bool(blob_columns(location, head.pin)))
        indexes = _inherited(head)
        files |= {copy.target: copy for copy in found}
        if not (found or indexes):
            size = sum(copy.size for copy in files.values())
            return FlattenResult(head.pin, len(files), size, tuple(sorted(names)))
        copies = [copy for index in indexes for copy in index_copies(location, index, snapshot.bases[index.base_id])]
        target = DatasetLocation(location.branch_uri(branch), location.options)
        items = [(DatasetLocation(copy.source.uri, location.options), copy, target) for copy in (*copies, *found)]
        copy_each("flatten", items, engine)
        try:
            _commit(location, head, indexes)
        except Conflict:
            continue
        names.update(index.name for index in indexes)
    raise overtaken(branch, "it still reads files in other places")


def _inherited(head: Head) -> list[IndexRecord]:
    found = [index for index in head.indexes if index.base_id is not None]
    internal = next((index.name for index in found if index.is_internal), None)
    if internal is not None:
        raise Refused(f"The branch inherited {internal}, which belongs to its parent.", hint="Optimize the parent.")
    return found


def _commit(location: DatasetLocation, head: Head, indexes: list[IndexRecord]) -> None:
    """One version: the indexes or, once they are copied, the fragments."""
    trace = trace_of(refs.read_refs(location), head)
    properties = {**trace.properties(_MESSAGE), MOVED: "false", ADDS_ONLY: "true"}
    if indexes:
        own = [index._replace(base_id=None) for index in indexes]
        commit_indexes(location, head.pin, own, indexes, properties)
        return
    moved = tuple(fragment.id for fragment in head.contents.fragments() if reads_elsewhere(fragment))
    bases: dict[int, int | None] = dict.fromkeys(head.contents.head.bases)
    base_commits.repoint_fragments(location, head, Repair(bases=bases, fragments=moved), properties)
