"""One version with the place of each file, the trace of its origin, and its difference from another version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.errors import CorruptData
from lance_spark.format.contents import Contents, DataFile, DeletionFile, Fragment
from lance_spark.format.transactions import MESSAGE


class Root(NamedTuple):
    uri: str
    """Canonical URI."""
    is_dataset: bool = True
    """Whether it has a dataset's layout (``data/``, ``_deletions/``); otherwise data files lie directly in it."""


class Deletions(NamedTuple):
    root: str
    """URI of the dataset or branch that holds it."""
    path: str


@dataclass(frozen=True)
class Snapshot:
    """One version of one chain. ``bases`` holds the chain's own root under None."""

    pin: PinnedVersion
    contents: Contents
    bases: Mapping[int | None, Root]

    @property
    def root(self) -> Root:
        """The root of the chain's own files."""
        return self.bases[None]

    @cached_property
    def live(self) -> frozenset[int]:
        """Ids of the fields in its schema. Files can hold others, of dropped columns."""
        return frozenset(field.id for field in self.contents.fields)

    def root_of(self, file: DataFile | DeletionFile) -> Root:
        """The place of a file. Raises CorruptData for a base that the version does not have."""
        if file.base_id not in self.bases:
            raise CorruptData(f"Version {self.pin} names a file in the unknown base {file.base_id}.")
        return self.bases[file.base_id]

    def deletions_of(self, fragment: Fragment) -> Deletions | None:
        """The deletion file of a fragment; None if no row is deleted. Raises CorruptData."""
        deletion = fragment.deletion
        if deletion is None:
            return None
        root = self.root_of(deletion)
        if not root.is_dataset:
            raise CorruptData(
                f"Fragment {fragment.id} has a deletion file in base {deletion.base_id}, which cannot hold any."
            )
        return Deletions(root.uri, deletion.path_for(fragment.id))


def same_files(one: Fragment, other: Fragment, live: frozenset[int], in_other: frozenset[int] | None = None) -> bool:
    """Whether two fragments have the live columns in the same data files, wherever those are.

    ``in_other`` are the live columns of the other one, if they can differ. Files keep the values of a dropped column.
    So if one version dropped a column and another has it back, the files look the same, but only one version has the
    values.
    """
    return columns(one, live) == columns(other, live if in_other is None else live & in_other)


def same_deletion(one: Fragment, other: Fragment) -> bool:
    """Whether the same rows are deleted. A copied deletion file keeps its version and id."""
    return _deletion(one) == _deletion(other)


def columns(fragment: Fragment, live: frozenset[int]) -> dict[int, str]:
    """The data file of each column, by field id."""
    return {field: file.path for file in fragment.files for field in file.fields if field in live}


def _deletion(fragment: Fragment) -> tuple[int, int, int] | None:
    deletion = fragment.deletion
    return None if deletion is None else (deletion.read_version, deletion.id, deletion.rows)


# --- Files copied from one dataset to another


@dataclass(frozen=True)
class Copy:
    source: Root
    path: str
    """Relative to the source's root, in the store's spelling."""
    target: str
    """Relative to this dataset's root."""
    size: int = 0
    """Bytes, as recorded in the manifest; 0 if not recorded."""
    sidecars: bool = False
    """Whether to also copy the directory of the same name, which holds blobs."""


# --- The trace in a version's transaction: the source of its changes

ACTION, SOURCE, SOURCE_ID = "lance_spark.action", "lance_spark.source", "lance_spark.source_id"
MOVED = "lance_spark.moved_rows"
"""Whether older rows were rewritten: the operation does not show it."""
BRINGS = "lance_spark.brings"
"""Whether it has rows from a cherry-pick, a revert or a restore, directly or through a branch merge."""
ADDS_ONLY = "lance_spark.adds_only"
"""Whether it only added rows: it left every older fragment unchanged, and none of the rows that it took in had been
rewritten or deleted. The operation does not show it."""
REORDERED = "lance_spark.reordered"
"""Whether it only moved rows to other files, in another order. It must not count as a compaction, which keeps the
order: following rows through it by their order would confuse one row with another."""
REPLACES = "lance_spark.replaces"
"""Whether it replaced the whole table: an overwrite can be committed as another operation, and a compaction as one."""
PERHAPS = "perhaps"
"""The value of that if versions in between were gone, and with them all files."""
COMPUTED = "lance_spark.computed"
"""The columns whose values it computed, as JSON: for each, those that it read, or null if that is unknown. A merge
keeps such a value only if the other side did not change what it was computed from."""
MERGE, CHERRY_PICK, REVERT, RESTORE = "merge", "cherry-pick", "revert", "restore"
CLONE, FETCH, PUSH, RECEIVE, RELOCATE = "clone", "fetch", "push", "receive", "relocate"
"""The branch that follows the remote records a push; the remote itself records that it received one."""
PUBLISH, TAKE_BACK = "publish", "take-back"
"""A change of a whole lake at once, in one of its tables, and its opposite. A publish counts as a merge only once the
whole lake is published: from then on, notes on the branches record it."""
PUBLISH_ID = "lance_spark.publish"
"""The publish that a version belongs to. With the action "take-back" the version excludes it."""
AUDIT = "lance_spark.audit"
"""Of the version that a transaction became: that its audit passed. Nothing decides by it."""
PASSED = "passed"
NULLS_OF = "lance_spark.nulls_of"
"""Of the version that changed settings, or which columns may be null, before the rows of a publish: its id."""
PREPARES = "lance_spark.prepares"
"""Of the version that took over settings, before the rows of the same merge: it does not end a fast-forward."""
BEGIN = "begin"
"""The first half of a version copied from another dataset: it has no rows; the next version adds them."""
HELD = "lance_spark.source_held"
"""The ancestors of a merged version in other chains, as JSON: their identities, and the newest version of each. The
refs also record them, until the merged branch is deleted."""
PUSHER = "lance_spark.pusher"
"""The dataset and version that sent a received push."""
BRINGING = frozenset({CHERRY_PICK, REVERT, RESTORE, TAKE_BACK})
"""Actions that put the same rows into two chains, although neither holds everything of the other."""
_TAKES_IN = frozenset({MERGE, PUSH})
"""Actions whose version holds everything that its source held, like git's second parent."""


@dataclass(frozen=True)
class Trace:
    action: str
    source: PinnedVersion
    source_id: str = ""
    """Identity of the source's branch, which a later branch of the same name does not share; "" for main."""
    pusher: str = ""
    """The dataset and version of origin of a push."""
    held: tuple[tuple[str, int], ...] = ()
    """For a branch merge: identities of other chains that the source descends from ("" for main), with versions."""
    publish: str = ""
    """Id of the publish that it belongs to; "" for none."""
    audited: bool = False
    """Whether an audit let it pass."""

    @property
    def takes_in(self) -> bool:
        """Whether the version holds everything that its source held."""
        return self.action in _TAKES_IN

    def properties(self, message: str | None) -> dict[str, str]:
        properties = {ACTION: self.action, SOURCE: str(self.source), SOURCE_ID: self.source_id}
        properties |= {PUSHER: self.pusher} if self.pusher else {}
        properties |= {HELD: json.dumps(dict(self.held))} if self.held else {}
        properties |= {PUBLISH_ID: self.publish} if self.publish else {}
        properties |= {AUDIT: PASSED} if self.audited else {}
        return {**properties, MESSAGE: message} if message else properties


def read_trace(properties: Mapping[str, str]) -> Trace | None:
    """The trace in transaction properties; None if there is none, or it is unreadable."""
    branch, _, version = properties.get(SOURCE, "").rpartition("@")
    if not branch or not version.isdecimal():
        return None
    pin = PinnedVersion(None if branch == MAIN else branch, int(version))
    source_id, pusher = properties.get(SOURCE_ID, ""), properties.get(PUSHER, "")
    held, publish = _read_held(properties.get(HELD, "{}")), properties.get(PUBLISH_ID, "")
    audited = properties.get(AUDIT) == PASSED
    return Trace(properties.get(ACTION, ""), pin, source_id, pusher, held, publish, audited)


def _read_held(written: str) -> tuple[tuple[str, int], ...]:
    """Empty if unreadable: another tool can write anything."""
    try:
        return tuple((str(chain), int(version)) for chain, version in decode_json(written).items())
    except (ValueError, TypeError, AttributeError):
        return ()


Reads = tuple[tuple[str, tuple[str, ...] | None], ...]
"""Columns with what they were computed from; None if that is unknown."""


def write_computed(reads: Mapping[str, Iterable[str] | None]) -> dict[str, str]:
    """A record of computed columns as a transaction property; also without any, which says that there are none."""
    return {COMPUTED: json.dumps({name: None if read is None else sorted(read) for name, read in reads.items()})}


def read_computed(properties: Mapping[str, str]) -> Reads | None:
    """The record of computed columns in transaction properties; None if there is none, or it is unreadable."""
    if COMPUTED not in properties:
        return None
    try:
        listed = decode_json(properties[COMPUTED]).items()
        return tuple((str(name), None if read is None else tuple(map(str, read))) for name, read in listed)
    except (ValueError, TypeError, AttributeError):
        return None


# --- Differences of two versions by fragment


@dataclass(frozen=True)
class Delta:
    """The fragments that differ between a base and a side."""

    added: tuple[Fragment, ...] = ()
    """Fragments that only the side has."""
    removed: tuple[Fragment, ...] = ()
    """Fragments that only the base has."""
    changed: tuple[tuple[Fragment, Fragment], ...] = ()
    """(of the base, of the side): the deleted rows differ, or columns are in other files."""
    renumbered: tuple[tuple[Fragment, Fragment], ...] = ()
    """(of the base, of the side): only the id differs, as after a revert of a compaction."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def delta(base: Snapshot, side: Snapshot) -> Delta:
    """How the side's fragments derive from the base's.

    Two versions of one chain are first compared as bytes, so that only differing fragments are decoded. Bringing back a
    dropped column changes fragments without changing one of their bytes.
    """
    if base.bases == side.bases and side.live <= base.live:
        before = base.contents.fragments_without(side.contents)
        after = side.contents.fragments_without(base.contents)
    else:
        before, after = list(base.contents.fragments()), list(side.contents.fragments())
    known = by_file(before)
    added, changed, renumbered, kept = [], [], [], set()
    for fragment in after:
        origin = counterpart(fragment, known)
        if origin is None:
            added.append(fragment)
            continue
        kept.add(origin.id)
        if not (same_files(fragment, origin, side.live, base.live) and same_deletion(origin, fragment)):
            changed.append((origin, fragment))
        elif origin.id != fragment.id:
            renumbered.append((origin, fragment))
    removed = [fragment for fragment in before if fragment.id not in kept]
    return Delta(tuple(added), tuple(removed), tuple(changed), tuple(renumbered))


def by_file(fragments: Iterable[Fragment]) -> dict[str, Fragment]:
    return {file.path: fragment for fragment in fragments for file in fragment.files}


def counterpart(fragment: Fragment, known: dict[str, Fragment]) -> Fragment | None:
    """The known fragment that shares a data file, and so has the same rows in the same order."""
    for file in fragment.files:
        if file.path in known:
            return known[file.path]
    return None
