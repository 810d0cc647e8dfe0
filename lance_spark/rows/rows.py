"""The final step of every change of rows: one version on top of the newest one, or a conflict and no change.

Prepared files, or a predicate in Lance's SQL, come in. A result comes out. Changes are rebased on the newest version
and committed, or their files are deleted. Rows are deleted by a predicate one fragment at a time on executors, then in
one commit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark import errors
from lance_spark.core.layout import deletion_path
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine, rewriting
from lance_spark.errors import Conflict, NotFound
from lance_spark.format.contents import DeletionFile, Fragment
from lance_spark.format.row_ids import Offsets, Rewrite
from lance_spark.format.transactions import MESSAGE, Rewritten, Transaction
from lance_spark.format.versions import ADDS_ONLY, MOVED, REORDERED, Snapshot
from lance_spark.layout.facts import recorded
from lance_spark.layout.pruning import judge
from lance_spark.rows.action_rules import ChangeResult, Fate, Prepared, column_conflict, fate_of, follow, new_fragments
from lance_spark.rows.row_files import take_row, without_rows
from lance_spark.scan.fragment_reads import Scan, ScanColumns, check_filter, count_rows, deleted_offsets, index_matches
from lance_spark.storage import commits, files, versions
from lance_spark.storage.commits import commit_on, find_noted, fragments_from
from lance_spark.storage.copying import flattened
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.files import each
from lance_spark.storage.followers import check_writable
from lance_spark.write.constraints import check_none_since
from lance_spark.write.data_files import read_target
from lance_spark.write.isolation import Since, is_serializable

if TYPE_CHECKING:
    import lance

Meets = Callable[[PinnedVersion, Sequence[int]], bool]
"""Whether a change would have changed or matched rows of fragments of a version."""


@dataclass(frozen=True)
class Finish:
    """A change of rows whose files are written, with everything that its commit needs."""

    location: DatasetLocation
    start: PinnedVersion
    """The version it was computed on."""
    change: Prepared
    terms: Terms
    meets: Meets | None
    inserts_by_key: bool
    check: Callable[[], None] | None = None
    """Called before each attempt to commit; raises to abort the change."""


def new_terms(verb: str, exclusive: bool, predicate: str, message: str | None) -> Terms:
    """The terms of another attempt at a change."""
    return Terms(verb, uuid.uuid4().hex, exclusive, predicate, message)


def check_unambiguous(location: DatasetLocation, start: PinnedVersion, change: Prepared, key: tuple[str, ...]) -> None:
    """Raise Refused, with the row's key, if two source rows would change one row; first delete all files."""
    if change.twice is None:
        return
    row = take_row(location, start, change.twice, key)
    with suppress(errors.StorageFailure):
        discard(location, start.branch, [change])
    shown = ", ".join(f"{name} = {value!r}" for name, value in row.items())
    raise errors.Refused(
        f"Several rows of the source match the row with {shown}: the result would depend on their order. "
        "Nothing was changed.",
        hint="Give a source with one row for each key, e.g. source.dropDuplicates([...]).",
    )


def finish(work: Finish) -> ChangeResult:
    """Commit the change on the newest version of its branch; returns its result.

    Raises Conflict if commits in between changed the same rows, or rows that the change would have met; then its files
    are deleted. After most StorageFailures the outcome is unknown, and the files stay for cleanup.
    """
    tried: list[Prepared] = [work.change]
    undo = partial(discard, work.location, work.start.branch, tried)
    with commits.undone_on_failure(undo, "files that were written"):
        version, change = _commit(work, tried)
    with suppress(errors.StorageFailure):
        _discard_replaced(work, tried, change)
    return _result(version, change)


def _commit(work: Finish, tried: list[Prepared]) -> tuple[PinnedVersion, Prepared]:
    location, branch = work.location, work.start.branch
    rebase: Rebase | None = None
    since = Since(location, work.start)
    for left in commits.attempts():
        check_written(location, branch, work.change)
        head, change = pin_latest(location, branch), work.change
        if head != work.start:
            commits.check_still_there(location, work.start)
            if work.change.written and not work.terms.reordered:
                check_none_since(location, work.start, head)
            rebase = rebase or Rebase(location, work.start, work.change)
            head, change, added = rebase.on(head)
            tried.append(change)
            if not work.terms.reordered and is_serializable(location, head):
                since.check_rows(head)
            _check_new_rows(work, added)
        if work.check is not None:
            work.check()
        try:
            return commit_rows(location, head, change, work.terms), change
        except (errors.Conflict, errors.StorageFailure) as failure:
            # The store may have taken the version and failed to confirm it: a second commit would duplicate its rows.
            found = find_commit(location, branch, head.version, work.terms.identity)
            if found is not None:
                return found, change
            if isinstance(failure, errors.StorageFailure) or not left:
                raise
    raise commits.overtaken(branch)


def _check_new_rows(work: Finish, added: Sequence[Added]) -> None:
    """Raise Conflict if the change would have met rows that others added while it was computed."""
    if work.meets is None:
        return
    for entry in added:
        if (work.inserts_by_key or not entry.appended) and work.meets(entry.pin, entry.fragments):
            raise errors.Conflict(
                f"Rows that the change would have met were added, up to version {entry.pin}, while it was computed. "
                "Nothing was changed.",
                hint="Run it again, or use retries=3 to recompute it automatically.",
            )


def _discard_replaced(work: Finish, tried: Sequence[Prepared], kept: Prepared) -> None:
    """Delete deletion files that later ones replaced."""
    used = set(kept.changed.values())
    for change in tried:
        left = {key: metadata for key, metadata in change.changed.items() if metadata not in used}
        if left:
            discard(work.location, work.start.branch, [Prepared(left, (), 0, 0, 0)])


def _result(version: PinnedVersion, change: Prepared) -> ChangeResult:
    files = [file for entry in change.written for file in json.loads(entry)["files"]]
    deletions = sum(metadata is not None for metadata in change.changed.values())
    return ChangeResult(
        version=version,
        rows_deleted=change.deleted,
        rows_updated=change.updated,
        rows_inserted=change.inserted,
        files=len(files) + deletions,
        bytes=sum(file["file_size_bytes"] or 0 for file in files),
    )


# --- Deleting rows on any branch

OPERATION = "delete"


@dataclass(frozen=True)
class DeleteResult:
    version: PinnedVersion
    """The new version; the newest one if no row was deleted."""
    rows: int


def delete_where(
    location: DatasetLocation, branch: str | None, predicate: str, engine: Engine, message: str | None = None
) -> DeleteResult:
    """Delete the rows of a branch (None for main) for which a predicate in Lance's SQL is true, as one version.

    Rows for which it is null stay. No data file is rewritten: the engine gives each fragment with matching rows a
    deletion file. Concurrent commits are kept, and only fragments that they changed are searched again. Rows appended
    meanwhile are not deleted, unless the commit had to be retried. Raises InvalidOption for an invalid predicate,
    NotFound, Refused and Conflict; then nothing was changed.
    """
    if not predicate.strip():
        raise errors.InvalidOption(
            "The predicate is empty.", hint="Give one such as id > 5; to delete all rows: truncate."
        )
    check_writable(location, branch)
    deleting = _Deleting(location, predicate, engine)
    for left in commits.attempts():
        head = pin_latest(location, branch)
        found = deleting.look(head)
        rows = sum(count for count, _ in found.values())
        if not rows:
            return DeleteResult(head, 0)
        hit = {fragment: metadata for fragment, (count, metadata) in found.items() if count}
        check_written(location, branch, Prepared(hit, (), 0, 0, 0))
        try:
            if is_serializable(location, head):  # look again at what others committed meanwhile
                Since(location, head).check_rows(pin_latest(location, branch))
            return DeleteResult(commit_deletions(location, head, predicate, hit, message), rows)
        except errors.Conflict:
            if not left:
                raise
    raise commits.overtaken(branch)


def truncate(location: DatasetLocation, branch: str | None, message: str | None = None) -> DeleteResult:
    """Delete all rows of a branch as one version; keeps columns, comments and settings, drops indexes.

    Raises NotFound, Refused and Conflict; then nothing was changed.
    """
    check_writable(location, branch)
    start = pin_latest(location, branch)
    rows = count_rows(location, start)
    if not rows:
        return DeleteResult(start, 0)
    schema = read_target(location, start).schema
    return DeleteResult(commits.overwrite_without_rows(location, start, schema, message), rows)


_Found = tuple[int, "str | None"]
"""How many rows of a fragment match, and the fragment without them."""


class _Deleting:
    """Matches by fragment. Fragments that a concurrent commit left unchanged are not searched again."""

    def __init__(self, location: DatasetLocation, predicate: str, engine: Engine) -> None:
        self._location, self._predicate, self._engine = location, predicate, engine
        self._known: dict[Fragment, _Found] = {}

    def look(self, head: PinnedVersion) -> Mapping[int, _Found]:
        """The rows to delete in each fragment of a version that may have any.

        Skips fragments that an index excludes. Raises InvalidOption for an invalid predicate.
        """
        scan = Scan(self._location, head, ScanColumns(()), self._predicate)
        check_filter(scan)
        matches = index_matches(scan)
        contents = versions.read_contents(self._location, head)
        judged = judge(self._location, head, self._predicate)
        fragments = {each.id: each for each in contents.fragments() if each.id not in judged.excluded}
        for key in judged.whole if contents.counts_rows else ():
            if key in fragments:
                self._known[fragments[key]] = fragments[key].rows, None
        if matches is not None:
            may_match = {*matches.rows} | (fragments.keys() - matches.covered)
            fragments = {key: fragment for key, fragment in fragments.items() if key in may_match}
        wanted = [fragment for fragment in fragments.values() if fragment not in self._known]
        if wanted:
            work = rewriting(fragment.size for fragment in wanted)
            runner = self._engine.for_work(OPERATION, work)
            items = [DeletionItem(self._location, head, fragment.id, self._predicate) for fragment in wanted]
            table = runner.collect("delete", runner.flat_map("delete", items, delete_in_fragment, DELETIONS))
            for row in table.to_pylist():
                self._known[fragments[row["fragment"]]] = row["rows"], row["metadata"]
        return {key: self._known[fragment] for key, fragment in fragments.items()}


# --- Commits of prepared changes

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
        # The columns with other values. An index on any other one is taken to cover the new fragments, by the ids of
        # their rows: it would go on finding updated rows by the values that they had, and not by those that they have.
        fields_for_preserving_frag_bitmap=[]
        if terms.reordered
        else [each.id for each in flattened(dataset.lance_schema)],
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
