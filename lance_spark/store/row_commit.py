"""Commits a prepared change of rows as one version, or deletes its files; runs on the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lance_spark.layout.names import deletion_path
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.merge.trace import ADDS_ONLY, MOVED, REORDERED
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.messages import Prepared
from lance_spark.store import files
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_pinned
from lance_spark.store.fragment_json import fragments_from
from lance_spark.store.own_commits import find_noted

if TYPE_CHECKING:
    import lance

VERB, CHANGE = "lance_spark.verb", "lance_spark.change"
_TYPES = {"array": 0, "bitmap": 1}


class Terms(NamedTuple):
    """What is said of a change in its version."""

    verb: str
    identity: str
    """Tells this change from all others: after an unclear commit it is looked for."""
    exclusive: bool
    """Whether two such changes at once have to be a conflict for one of them, as both may insert the same key."""
    predicate: str = ""
    """Of a delete, for those who read the history."""
    message: str | None = None
    reordered: bool = False
    """Whether it moves all rows of some fragments to new ones, in another order, and changes none."""
    properties: Mapping[str, str] = {}
    """What its version says beside all that."""


def commit_rows(location: DatasetLocation, head: PinnedVersion, change: Prepared, terms: Terms) -> PinnedVersion:
    """Commit a change that was prepared for this version. Raises Conflict; then nothing was committed."""
    properties = {
        VERB: terms.verb,
        CHANGE: terms.identity,
        MOVED: str(bool(change.updated)).lower(),
        ADDS_ONLY: str(not change.changed).lower(),
        **terms.properties,
    }
    if terms.message:
        properties[MESSAGE] = terms.message
    if terms.reordered:
        properties[REORDERED] = "true"
    return commit_on(location, head, _operation(open_pinned(location, head), change, terms), properties)


def _operation(dataset: lance.LanceDataset, change: Prepared, terms: Terms) -> Any:
    import lance

    updated = [json.loads(metadata) for metadata in change.changed.values() if metadata is not None]
    removed = [key for key, metadata in change.changed.items() if metadata is None]
    written = fragments_from([json.loads(entry) for entry in change.written])
    if not written:
        return lance.LanceOperation.Delete(fragments_from(updated), removed, terms.predicate or terms.verb)
    if not change.changed and not terms.exclusive:
        return lance.LanceOperation.Append(written)
    untouched: list[Any] = []
    if terms.exclusive:
        # pylance combines changes that touch no fragment in common, also two that insert the same key. So all of them
        # record the first fragment as changed.
        first = next(iter(dataset.get_fragments()), None)
        if first is None:
            return lance.LanceOperation.Merge(written, dataset.lance_schema)
        if first.fragment_id not in change.changed:
            untouched = [first.metadata]
    return lance.LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=[*fragments_from(updated), *untouched],
        new_fragments=written,
        fields_modified=[],
        update_mode="rewrite_rows",
    )


def find_commit(location: DatasetLocation, branch: str | None, above: int, identity: str) -> PinnedVersion | None:
    """The version that a change made after that one; None if there is none."""
    return find_noted(location, PinnedVersion(branch, above), CHANGE, identity)


def discard(location: DatasetLocation, branch: str | None, changes: Iterable[Prepared]) -> None:
    """Delete files of changes that were never committed, with the sidecars of blobs."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    paths = {path for change in changes for path in (*_data_files(change), *_deletion_files(change))}
    files.delete(root, sorted(paths))


def _data_files(change: Prepared) -> list[str]:
    found = [file for entry in change.written for file in json.loads(entry)["files"] if file.get("base_id") is None]
    paths = [f"data/{file['path']}" for file in found]
    return [*paths, *(path.removesuffix(".lance") for path in paths)]


def _deletion_files(change: Prepared) -> list[str]:
    found = [json.loads(metadata) for metadata in change.changed.values() if metadata is not None]
    return [path for entry in found if (path := deletion_file_path(entry)) is not None]


def deletion_file_path(fragment: dict[str, Any]) -> str | None:
    """Path below the branch's root of the deletion file in a fragment's JSON; None if it has none there."""
    deletion = fragment["deletion_file"]
    if deletion is None or deletion.get("base_id") is not None:
        return None
    kind = _TYPES[deletion["file_type"]]
    return deletion_path(fragment["id"], deletion["read_version"], deletion["id"], kind)
