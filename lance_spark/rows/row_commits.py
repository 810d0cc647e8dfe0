"""Prepared changes of rows on the driver: rebases them on the newest version and commits them, or deletes their files.

Also deletes rows by a predicate: one fragment at a time on executors, then one commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.core.layout import deletion_path
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict, NotFound
from lance_spark.format.contents import DeletionFile, Fragment
from lance_spark.format.row_ids import Offsets, Rewrite
from lance_spark.format.transactions import MESSAGE, Rewritten, Transaction
from lance_spark.format.versions import ADDS_ONLY, MOVED, REORDERED, Snapshot
from lance_spark.layout.facts import recorded
from lance_spark.rows.action_rules import Fate, Prepared, column_conflict, fate_of, follow, new_fragments
from lance_spark.rows.row_files import without_rows
from lance_spark.scan.fragment_reads import deleted_offsets
from lance_spark.storage import commits, files, versions
from lance_spark.storage.commits import commit_on, find_noted, fragments_from
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.storage.files import each

if TYPE_CHECKING:
    import lance

VERB, CHANGE = "lance_spark.verb", "lance_spark.change"
_TYPES = {"array": 0, "bitmap": 1}


class Terms(NamedTuple):
    """What the version of a change records."""

    verb: str
    identity: str
    """Identifies this change: after an unclear commit, the branch is searched for it."""
    exclusive: bool
    """Whether two such changes at once must conflict, because both may insert the same key."""
    predicate: str = ""
    """Of a delete, for readers of the history."""
    message: str | None = None
    reordered: bool = False
    """Whether it moves all rows of some fragments to new ones, in another order, and changes none."""
    properties: Mapping[str, str] = {}


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
    change = replace(change, written=tuple(recorded(location, change.written)))
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
        # pylance combines changes that touch no common fragment, even two that insert the same key. So each of them
        # records the first fragment as changed.
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
    """The version that a change committed after that one; None if there is none."""
    return find_noted(location, PinnedVersion(branch, above), CHANGE, identity)


def discard(location: DatasetLocation, branch: str | None, changes: Iterable[Prepared]) -> None:
    """Delete files of changes that were never committed, with the sidecars of blobs."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    data = {path for change in changes for path in _data_files(change)}
    deletions = {path for change in changes for path in _deletion_files(change)}
    files.delete(root, sorted({*data, *(path.removesuffix(".lance") for path in data), *deletions}))


def check_written(location: DatasetLocation, branch: str | None, change: Prepared) -> None:
    """Raise Conflict if files of a change were deleted before its commit."""
    commits.check_written(location, branch, [*_data_files(change), *_deletion_files(change)])


def _data_files(change: Prepared) -> list[str]:
    return commits.data_paths(change.written)


def _deletion_files(change: Prepared) -> list[str]:
    found = [json.loads(metadata) for metadata in change.changed.values() if metadata is not None]
    return [path for entry in found if (path := deletion_file_path(entry)) is not None]


def deletion_file_path(fragment: dict[str, Any]) -> str | None:
    """Path of a fragment's deletion file below the branch's root, from pylance's JSON; None if it has none there."""
    deletion = fragment["deletion_file"]
    if deletion is None or deletion.get("base_id") is not None:
        return None
    kind = _TYPES[deletion["file_type"]]
    return deletion_path(fragment["id"], deletion["read_version"], deletion["id"], kind)


# --- Rebasing a prepared change on a newer version

_REPLACES = frozenset({"Overwrite", "Restore"})


class Added(NamedTuple):
    """Fragments with rows that did not exist when the change was computed."""

    pin: PinnedVersion
    """A version that has them."""
    fragments: tuple[int, ...]
    appended: bool
    """Whether a plain append added them: then it changed no older row."""


class Rebased(NamedTuple):
    pin: PinnedVersion
    change: Prepared
    added: tuple[Added, ...]
    """What was added since the version that the change was rebased on before."""


@dataclass(frozen=True)
class _Touched:
    """A fragment that the change takes rows from, as of the last version looked at."""

    fragment: Fragment
    offsets: Offsets | None = None
    """The rows; None as long as they are those that the change was prepared with."""


class Rebase:
    """A change of rows that was prepared for one version of a branch, and goes on top of newer ones.

    Each version in between is read once, however often others commit first: on a branch with many writers, a change
    that read them all again at each attempt would never be done.
    """

    def __init__(self, location: DatasetLocation, start: PinnedVersion, change: Prepared) -> None:
        self._location = location
        self._change = change
        self._head = start
        self._start = self._last = versions.read_snapshot(location, start)
        own = {fragment.id: fragment for fragment in self._start.contents.fragments() if fragment.id in change.changed}
        self._first = own
        self._touched = {key: _Touched(fragment) for key, fragment in own.items()}
        self._changed = dict(change.changed)
        """What the commit says of touched fragments; nothing yet of those that others changed since the last call."""
        self._added: dict[int, bool] = {}
        """Fragments that are new since the last call, and whether a plain append added them."""
        self._compacted: list[Added] = []
        """Those that were compacted, in the version before: the fragments that have their rows now have others, too."""

    def on(self, head: PinnedVersion) -> Rebased:
        """The change for the newest version; for the one of the last call, if a listing shows an older one.

        Only fragments that others changed get new deletion files. Raises Conflict if the same rows changed, or if that
        cannot be determined.
        """
        self._head = max(self._head, head, key=lambda pin: pin.version)
        for version in range(self._last.pin.version + 1, self._head.version + 1):
            self._step(PinnedVersion(head.branch, version))
        stale = [key for key in self._touched if key not in self._changed]
        self._changed |= zip(stale, each(self._location, self._without_own, stale), strict=True)
        added = [*self._compacted, *_by_kind(self._head, self._added)]
        self._added, self._compacted = {}, []
        return Rebased(self._head, replace(self._change, changed=dict(self._changed)), tuple(added))

    def _step(self, pin: PinnedVersion) -> None:
        snapshot, transaction = self._read(pin)
        operation = transaction.operation if transaction is not None else ""
        if operation in _REPLACES:
            raise _conflict(pin, operation, "the table was replaced")
        fields = self._start.contents.fields, snapshot.contents.fields
        reason = column_conflict(*fields, bool(self._change.written))
        if reason is not None:
            raise _conflict(pin, operation, reason)
        before = {entry.id: entry for entry in self._last.contents.fragments_without(snapshot.contents)}
        after = {entry.id: entry for entry in snapshot.contents.fragments_without(self._last.contents)}
        groups = transaction.rewritten if transaction is not None else ()
        moved = {key: group for group in groups for key in group.old}
        pending = [key for key in self._touched if key in before]
        stay = []
        for key in pending:
            fate = fate_of(before[key], after.get(key), self._start.live, key in moved, bool(self._change.updated))
            if fate.is_conflict:
                raise _conflict(pin, operation, f"of a fragment that the change touches: {fate.value}")
            stay += [] if fate is Fate.MOVED else [key]
        looked_at = each(self._location, lambda key: self._still(key, after[key], snapshot), stay)
        self._touched.update(zip(stay, looked_at, strict=True))
        for key in pending:
            self._changed.pop(key, None)
        for group in {moved[key] for key in pending if key in moved}:
            self._follow(group, snapshot)
        # Rows that were changed are in other new fragments, and those that were deleted are of no interest any more.
        gone = {key: self._added.pop(key) for key in before.keys() - after.keys() if key in self._added}
        compacted = {key: appended for key, appended in gone.items() if key in moved}
        self._compacted += _by_kind(self._last.pin, compacted)
        new = new_fragments(before, after, {path for group in groups for path in group.new})
        self._added |= dict.fromkeys(new, operation == "Append")
        self._last = snapshot

    def _read(self, pin: PinnedVersion) -> tuple[Snapshot, Transaction | None]:
        try:
            manifest = versions.read_manifest(self._location, pin)
        except NotFound:
            raise Conflict(
                f"Version {pin} of {self._location.uri} was committed and cleaned up since the rows were read, so its "
                "changes are unknown. Nothing was changed.",
                hint="Run it again.",
            ) from None
        contents = versions.contents_of(self._location, pin, manifest)
        transaction = versions.transaction_of(self._location, pin.branch, manifest)
        return versions.snapshot_of(self._location, pin, contents), transaction

    def _still(self, key: int, after: Fragment, snapshot: Snapshot) -> _Touched:
        """The fragment, whose record changed. Raises Conflict if rows of ours were deleted."""
        offsets = self._offsets(key)
        gone = _deleted(self._location, snapshot, after)
        if np.isin(offsets, gone, assume_unique=True).any():
            raise _conflict(snapshot.pin, "", "the same rows were deleted or changed")
        return _Touched(after, offsets)

    def _offsets(self, key: int) -> Offsets:
        touched = self._touched[key]
        if touched.offsets is not None:
            return touched.offsets
        fragment, metadata = self._first[key], self._change.changed[key]
        before = _deleted(self._location, self._start, fragment)
        if metadata is None:
            return np.setdiff1d(np.arange(fragment.physical_rows), before, assume_unique=True)
        found = json.loads(metadata)["deletion_file"]
        own = DeletionFile(
            _TYPES[found["file_type"]], found["read_version"], found["id"], found["num_deleted_rows"], None
        )
        after = _deleted(self._location, self._start, fragment._replace(deletion=own))
        return np.setdiff1d(after, before, assume_unique=True)

    def _follow(self, group: Rewritten, snapshot: Snapshot) -> None:
        """Replace compacted fragments with those that have their rows now."""
        known = {entry.id: entry for entry in self._last.contents.fragments() if entry.id in group.old}
        made = {entry.files[0].path: entry for entry in snapshot.contents.fragments_with(group.new)}
        own = {key: self._offsets(key) for key in group.old if key in self._touched}
        found = None
        if len(known) == len(group.old) and len(made) == len(group.new) and not any(e.deletion for e in made.values()):
            old, new = [known[key] for key in group.old], [made[path] for path in group.new]
            gone = {entry.id: _deleted(self._location, self._last, entry) for entry in old}
            nothing = np.zeros(0, np.int64)
            found = follow(Rewrite(tuple(old), tuple(new)), own, lambda entry: gone.get(entry.id, nothing))
        if found is None:
            raise _conflict(snapshot.pin, "Rewrite", "rows were moved, and their new places are uncertain")
        by_id = {entry.id: entry for entry in made.values()}
        for key in own:
            del self._touched[key]
        self._touched.update({key: _Touched(by_id[key], offsets) for key, offsets in found.items()})

    def _without_own(self, key: int) -> str | None:
        """The fragment without the rows, with a deletion file of its own; None if no row is left."""
        return without_rows(self._location, self._head, key, self._offsets(key).tolist())


def _by_kind(pin: PinnedVersion, fragments: Mapping[int, bool]) -> Iterator[Added]:
    """Fragments of a version, by whether they were appended: as few entries as possible, as each is a job of Spark."""
    for kind in (True, False):
        keys = tuple(key for key, appended in fragments.items() if appended is kind)
        if keys:
            yield Added(pin, keys, kind)


def _deleted(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment) -> Offsets:
    found: Offsets = deleted_offsets(location, snapshot, fragment).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _conflict(pin: PinnedVersion, operation: str, what: str) -> Conflict:
    by = f" ({operation})" if operation else ""
    return Conflict(
        f"Version {pin}{by} was committed while the change was computed, and the two cannot be combined: {what}. "
        "Nothing was changed.",
        hint="Run it again, or use retries=3 to recompute it automatically.",
    )


# --- Deleting rows by a predicate: fragment by fragment, then one commit

DELETIONS = pa.schema([("fragment", pa.int64()), ("rows", pa.int64()), ("metadata", pa.string())])
"""A fragment that was searched, how many of its rows match, and its JSON (pylance's) without them; null if no row is
left, or none matched."""


class DeletionItem(NamedTuple):
    """A fragment to delete rows from; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    fragment: int
    predicate: str


def delete_in_fragment(item: DeletionItem) -> Iterator[pa.RecordBatch]:
    """DELETIONS of one fragment. pylance writes a deletion file, which is invisible until the commit."""
    dataset = open_pinned(item.location, item.pin)
    with translated(item.location, "deleting rows"):
        fragment = dataset.get_fragment(item.fragment)
        before = fragment.count_rows()
        left = fragment.delete(item.predicate)
        found = None if left is None else left.to_json()
    deletion = None if found is None else found["deletion_file"]
    after = 0 if found is None else fragment.physical_rows - (deletion["num_deleted_rows"] if deletion else 0)
    metadata = json.dumps(found) if found is not None and after < before else None
    yield pa.record_batch([pa.array([item.fragment]), pa.array([before - after]), pa.array([metadata])], DELETIONS)


def commit_deletions(
    location: DatasetLocation,
    pin: PinnedVersion,
    predicate: str,
    deleted: Mapping[int, str | None],
    message: str | None = None,
) -> PinnedVersion:
    """Commit the results of :func:`delete_in_fragment`, by fragment. Raises Conflict; then nothing was committed."""
    import lance

    updated: list[Any] = [json.loads(metadata) for metadata in deleted.values() if metadata is not None]
    removed = [fragment for fragment, metadata in deleted.items() if metadata is None]
    operation = lance.LanceOperation.Delete(fragments_from(updated), removed, predicate)
    return commit_on(location, pin, operation, {MESSAGE: message} if message else None)
