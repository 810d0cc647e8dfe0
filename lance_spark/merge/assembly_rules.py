"""A planned replay as a value: the ids of its columns, its settings, the places of its files, and its fragments. Pure.

In: two sides, and what ours takes. Out: a plan, and fragments as pylance's JSON.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count, pairwise
from typing import Any, NamedTuple

from lance_spark import hints
from lance_spark.core.layout import is_generated, stored_name
from lance_spark.core.location import is_within
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.errors import InvalidOption, NotCommittable, Refused
from lance_spark.format.contents import REPLACED, Contents, DataFile, Field, Fragment, renumbered_fragment
from lance_spark.format.mem_wal import INDEX
from lance_spark.format.operations import Step, Steps, key_fields
from lance_spark.format.row_ids import Connected, Rewrite, kept_row_ids, matched_row_ids, read_row_ids, write_row_ids
from lance_spark.format.versions import BRINGING, PERHAPS, Copy, Root, Snapshot, Trace, by_file, counterpart, delta
from lance_spark.layout.layout_rules import CLUSTER_BY, PARTITION_BY, declared
from lance_spark.merge.cell_rules import CellPlan, told
from lance_spark.merge.change_rules import MergeChange, MergeConflict, Replacement, Sides, Tree, default_in, trees
from lance_spark.merge.conflict_rules import (
    NO_VALUES_OURS,
    NO_VALUES_THEIRS,
    NullChange,
    ResultField,
    lost_fields,
    result_fields,
)
from lance_spark.merge.option_rules import OURS, THEIRS, Prefer
from lance_spark.merge.report import Summary
from lance_spark.write.constraint_rules import PREFIX as CONSTRAINTS

# --- The ids of columns
# Lance knows a column by its id, and a merge cannot always keep it: a column that two branches added at the same time
# had the same id as another one, so it got a new one in the branch that took it over. Compared by id, it would be a
# different column from then on. The version that brought the last common version into a branch has its columns under
# the same names: this shows which id means which column. If all ids already mean the same, nothing is translated.

Ids = Mapping[int, int]
Fields = Sequence[Field]


class Numbering(NamedTuple):
    """New ids, by old ones; empty if all stay."""

    base: Ids
    """Of the last common version."""
    theirs: Ids
    spare: frozenset[int] = frozenset()
    """Ids that no column of ours has."""


def is_known(base: Fields, side: Fields) -> bool:
    """Whether a side has the columns of the base under their own ids, so that no other version need be read."""
    known = {(entry.id, entry.parent_id, entry.name, entry.type) for entry in side}
    return all((entry.id, entry.parent_id, entry.name, entry.type) in known for entry in base)


def matched(base: Fields, taken: Fields) -> dict[int, int]:
    """Ids in the version that took the base in, by those of the base. Not for columns that it had dropped.

    By name; a column that was renamed there has another name, and the old id. One with another type was cast there.
    """
    there, here = _by_path(taken), _by_path(base)
    by_id = {entry.id: path for path, entry in there.items()}
    found = {
        entry.id: there[path].id for path, entry in here.items() if path in there and there[path].type == entry.type
    }
    given = set(found.values())
    for entry in here.values():
        if entry.id not in found and entry.id in by_id and by_id[entry.id] not in here and entry.id not in given:
            found[entry.id] = entry.id
    return found


def number(ours: Snapshot, base: Fields, theirs: Fields, ids: tuple[Ids | None, Ids | None]) -> Numbering:
    """The numbering by ours. ``ids``: of the base in ours, and in theirs; None where the base's own ids count.

    A new column of theirs has the id of a new column of ours that looks the same, otherwise one of its own.
    """
    in_ours, in_theirs = ids
    spare: list[int] = []
    free = _spare(ours, (*base, *theirs), spare)
    common = {entry.id: entry.id if in_ours is None else in_ours.get(entry.id, -1) for entry in base}
    numbered = {key: next(free) if new < 0 else new for key, new in common.items()}
    back = {entry.id: entry.id for entry in base} if in_theirs is None else {new: key for key, new in in_theirs.items()}
    found = {key: numbered[old] for key, old in back.items()}
    known = {*numbered.values()}
    by_name = {tree[0].name: tree for key, tree in trees(ours.contents.fields).items() if key not in known}
    taken = {*ours.live, *known}
    for tree in trees(theirs).values():
        twin = by_name.get(tree[0].name)
        if tree[0].id not in found and twin is not None and _looks(tree) == _looks(twin):
            found |= {entry.id: other.id for entry, other in zip(tree, twin, strict=True)}
        for entry in tree:
            if entry.id not in found:
                found[entry.id] = entry.id if entry.id not in taken else next(free)
    if all(key == new for each in (numbered, found) for key, new in each.items()):
        return Numbering({}, {})
    return Numbering(numbered, found, frozenset(spare))


def _spare(ours: Snapshot, fields: Fields, given: list[int]) -> Iterator[int]:
    """Ids above all that are in use, also in files, which are looked at only if an id is needed."""
    files = (key for fragment in ours.contents.fragments() for file in fragment.files for key in file.fields)
    for free in count(max((*ours.live, *(entry.id for entry in fields), *files), default=-1) + 1):
        given.append(free)
        yield free


def _by_path(fields: Fields) -> dict[tuple[str, ...], Field]:
    path_of: dict[int, tuple[str, ...]] = {}
    found = {}
    for entry in fields:
        path_of[entry.id] = (*path_of.get(entry.parent_id, ()), entry.name)
        found[path_of[entry.id]] = entry
    return found


def _looks(tree: Tree) -> list[tuple[object, ...]]:
    """What makes two columns the same one: names, types and nulls, also inside."""
    place = {entry.id: at for at, entry in enumerate(tree)}
    return [(place.get(entry.parent_id), entry.name, entry.type, entry.nullable) for entry in tree]


def renumbered(snapshot: Snapshot, ids: Ids) -> Snapshot:
    """A version with other field ids. Files keep an id only for columns that are known."""
    return replace(snapshot, contents=snapshot.contents.renumbered(ids)) if ids else snapshot


def renumbered_steps(steps: Steps, ids: Ids) -> Steps:
    """Steps whose columns and compacted fragments have other field ids."""
    return replace(steps, all=tuple(_step(step, ids) for step in steps.all)) if ids else steps


def since(steps: Steps, taken: PinnedVersion | None) -> Steps:
    """Steps without the columns of versions before the base was taken in: these say nothing about its columns."""
    if taken is None:
        return steps
    early = [step.branch != taken.branch or step.version < taken.version for step in steps.all]
    kept = (step._replace(fields=None) if older else step for step, older in zip(steps.all, early, strict=True))
    return replace(steps, all=tuple(kept))


def _step(step: Step, ids: Ids) -> Step:
    def other(each: Rewrite) -> Rewrite:
        old, new = (tuple(renumbered_fragment(entry, ids) for entry in several) for several in each[:2])
        return each._replace(old=old, new=new)

    fields = None if step.fields is None else frozenset(ids[key] for key in step.fields if key in ids)
    return step._replace(fields=fields, rewrites=tuple(map(other, step.rewrites)))


# --- Settings, each merged three-way: constraints, the layout, properties
# What only theirs changed is taken over, what both changed alike is settled, and what both changed differently is a
# conflict, unless a preference decides. Settings of Lance itself stay: some of them delete versions.

BOTH_SET = "both sides changed setting"
NO_COLUMN = "names a column that the result does not have"
_OF_LANCE = "lance."
Values = Mapping[str, "str | None"]
"""By key; None removes it."""


@dataclass(frozen=True)
class SettingChange:
    """What ours takes over, and what prevents it."""

    config: Values = field(default_factory=dict)
    metadata: Values = field(default_factory=dict)
    """Of the table: its properties, where no catalog keeps them."""
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Keys that theirs changed and ours does not take over."""

    def __bool__(self) -> bool:
        return bool(self.config or self.metadata)

    def notes(self) -> Iterator[str]:
        taken = sorted({*self.config, *self.metadata})
        if taken:
            yield f"settings are taken over: {', '.join(taken)}"
        if self.left:
            yield f"settings are not taken over: {', '.join(self.left)}"

    def on(self, config: Mapping[str, str]) -> dict[str, str]:
        """The configuration after it."""
        after: dict[str, str | None] = {**config, **self.config}
        return {key: value for key, value in after.items() if value is not None}


@dataclass(frozen=True)
class Merged:
    """One kind of settings, merged."""

    taken: Values
    conflicts: tuple[str, ...] = ()
    """Keys."""


def merged(base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], prefer: Prefer) -> Merged:
    """What ours takes from theirs, key by key."""
    taken: dict[str, str | None] = {}
    conflicts = []
    for key in sorted(base.keys() | ours.keys() | theirs.keys()):
        before, mine, other = (side.get(key) for side in (base, ours, theirs))
        if other in (before, mine):
            continue
        side = THEIRS if mine == before else prefer.side(key)
        if side is None:
            conflicts.append(key)
        elif side == THEIRS:
            taken[key] = other
    return Merged(taken, tuple(conflicts))


def merge_settings(sides: Sides, prefer: Prefer, fields: tuple[ResultField, ...]) -> SettingChange:
    """The settings of theirs that ours takes; ``fields`` are those of the result."""
    ours, theirs = sides.ours.contents, sides.theirs.contents
    # A clone's branch may have begun with other settings than the version that it follows: the result is theirs.
    base = ours if sides.is_fast_forward else sides.base_theirs.contents
    if theirs.config == base.config and theirs.table_metadata == base.table_metadata:
        return SettingChange(conflicts=() if sides.is_fast_forward else tuple(_misfit(SettingChange(), ours, fields)))
    config = merged(base.config, ours.config, theirs.config, prefer)
    metadata = merged(base.table_metadata, ours.table_metadata, theirs.table_metadata, prefer)
    stay = {key for key in (*config.taken, *config.conflicts) if key.startswith(_OF_LANCE) or _is_foreign(key, ours)}
    told = [_told(key, ours.config, theirs.config) for key in config.conflicts if key not in stay]
    told += [_told(key, ours.table_metadata, theirs.table_metadata) for key in metadata.conflicts]
    found = {key: value for key, value in config.taken.items() if key not in stay}
    found, unclear = with_one_spelling(found, ours.config, prefer)
    told += [_told(key, ours.config, theirs.config, mine) for key, mine in unclear]
    change = SettingChange(found, metadata.taken, tuple(told), tuple(sorted(stay)))
    return SettingChange(found, metadata.taken, (*told, *_misfit(change, ours, fields)), change.left)


def setting_changes(now: Contents, wanted: Contents) -> SettingChange:
    """What gives a version the settings of another one, but for those of Lance itself."""
    config = merged(now.config, now.config, wanted.config, Prefer()).taken
    metadata = merged(now.table_metadata, now.table_metadata, wanted.table_metadata, Prefer()).taken
    return SettingChange({key: value for key, value in config.items() if not key.startswith(_OF_LANCE)}, metadata)


def _is_foreign(key: str, ours: Contents) -> bool:
    return key == PARTITION_BY and any(segment.name == INDEX for segment in ours.indexes)


def with_one_spelling(
    taken: Values, ours: Mapping[str, str], prefer: Prefer
) -> tuple[dict[str, str | None], tuple[tuple[str, str], ...]]:
    """What ours takes, without a second constraint whose name differs only in case: to Spark that is the same name.

    Ours stays where both say the same, and the other pairs, theirs and ours, that no preference settles are conflicts.
    """
    found, unclear = dict(taken), []
    for key, value in taken.items():
        same = key.lower() if value is not None and key.startswith(CONSTRAINTS) else None
        for mine in (each for each in ours if each.lower() == same and each != key and taken.get(each, "") is not None):
            side = OURS if ours[mine] == value else prefer.side(key, mine)
            if side == THEIRS:
                found[mine] = None
            else:
                found.pop(key, None)
                unclear += [(key, mine)] if side is None else []
    return found, tuple(unclear)


def _told(key: str, ours: Mapping[str, str], theirs: Mapping[str, str], mine: str | None = None) -> str:
    own, other = (repr(side[name]) if name in side else "none" for name, side in ((mine or key, ours), (key, theirs)))
    spelled = "" if mine is None else f" as '{mine.removeprefix(CONSTRAINTS)}'"
    return f"{BOTH_SET} '{key}': {own} in ours{spelled}, {other} in theirs"


def _misfit(change: SettingChange, ours: Contents, fields: tuple[ResultField, ...]) -> Iterator[str]:
    """A layout that names a column that is dropped or has another name in the result.

    One that stays counts if its columns were there: another tool may have dropped them in ours before.
    """
    comes = bool({PARTITION_BY, CLUSTER_BY} & change.config.keys())
    try:
        layout = declared(change.on(ours.config))
    except InvalidOption as unreadable:
        if comes:
            yield f"the layout of theirs cannot be read: {unreadable.message}"
        return
    known = {entry.path[0] for entry in fields if len(entry.path) == 1}
    gone = [name for name in layout.columns if name not in known]
    before = {each.name for each in ours.fields if each.parent_id < 0} if gone else set()
    for name in gone:
        if comes or name in before:
            yield f"the layout {layout} {NO_COLUMN}: '{name}'"


# --- Defaults of columns that one side added, for rows that the other side added

_ONE_FILE = frozenset({"", "0.1"})
"""Formats in which a fragment has all of its columns in one file."""


class LackingRows(NamedTuple):
    """Rows of a fragment that one side brings, without columns with a default that the other side added."""

    of_ours: bool
    fragment: Fragment
    columns: tuple[str, ...]


def lacking_defaults(
    sides: Sides, change: MergeChange, fields: Iterable[ResultField]
) -> tuple[tuple[LackingRows, ...], tuple[str, ...]]:
    """The rows that get defaults, and notes about rows for which no version tells whether they should.

    Where the other side has rows without a value in such a column, a row that was moved has to be left as it is: only
    rows that were certainly appended get the default.
    """
    if sides.is_fast_forward or sides.is_up_to_date or sides.ours.contents.storage_version in _ONE_FILE:
        return (), ()
    found, notes = [], []
    gone = {fragment.id for _, fragment in change.removed}
    mine = [entry for entry in delta(sides.base_ours, sides.ours).added if entry.id not in gone]
    added = [entry for entry in fields if len(entry.path) == 1 and default_in(entry.field) is not None]
    for side, rows, steps, other in (
        (OURS, mine, sides.our_steps, sides.theirs),
        (THEIRS, change.added, sides.their_steps, sides.ours),
    ):
        wanted = {entry.field.id: entry.name for entry in added if entry.on(side) is None}
        if not (wanted and rows):
            continue
        everywhere = {*wanted}.intersection(*(_stored(each) for each in other.contents.fragments()))
        for fragment in rows:
            lacks = {key: name for key, name in wanted.items() if key not in _stored(fragment)}
            is_new = any(file.path in steps.appended for file in fragment.files)
            fills = tuple(name for key, name in lacks.items() if is_new or key in everywhere)
            if fills:
                found.append(LackingRows(side == OURS, fragment, fills))
            if len(fills) < len(lacks):
                note = NO_VALUES_OURS if side == OURS else NO_VALUES_THEIRS
                notes.append(note.format(steps.branch or MAIN))
    return tuple(found), tuple(dict.fromkeys(notes))


def _stored(fragment: Fragment) -> set[int]:
    return {key for file in fragment.files for key in file.fields}


# --- The places of files
# A file is read in place if ours already reads other files from there: from a parent's root, or from the remote of a
# clone. Every other file is copied, so that the other branch can be deleted afterwards. ``reference`` copies no data
# files.


@dataclass(frozen=True)
class InPlacePolicy:
    """Which files may be read in place from where ours did not read before."""

    everything: bool = False
    outside: str | None = None
    """URI of a dataset: files outside of it are read in place. They belong to the remote of a clone."""
    present: Mapping[tuple[str, int], Root] = field(default_factory=dict)
    """Places that ours may know, by name and size of files that already exist there and need no second copy."""

    def allows(self, root: Root) -> bool:
        """Whether ours may read files of this root in place."""
        if self.everything:
            return True
        return self.outside is not None and not is_within(root.uri, self.outside)


@dataclass(frozen=True)
class Placed:
    """Where a manifest of ours finds each data file of theirs."""

    bases: Mapping[Root, int | None]
    """Base id in ours, by the root in theirs; None for ours itself and for roots whose files are copied."""
    new_bases: tuple[Root, ...] = ()
    """Roots that ours does not know yet, with the ids in ``bases``."""
    names: Mapping[tuple[Root, str], str] = field(default_factory=dict)
    """Names of copied files, by their place and name in theirs. A name that is not unique is replaced."""
    ids: Mapping[int, int] = field(default_factory=dict)
    """Ids in ours of added fragments, by those in theirs; 0 leaves the choice to the commit."""
    copies: tuple[Copy, ...] = ()
    present: Mapping[tuple[Root, str], int | None] = field(default_factory=dict)
    """Base id in ours of files that stay in a second place, by place and name in theirs."""

    def with_ids(self, ids: Mapping[int, int]) -> Placed:
        """The same placement with other ids for added fragments."""
        return replace(self, ids=ids)

    @property
    def bytes(self) -> int:
        """Bytes of data files to copy, as their writers recorded them."""
        return sum(copy.size for copy in self.copies)


def place(change: MergeChange, ours: Snapshot, theirs: Snapshot, reference: InPlacePolicy, sidecars: bool) -> Placed:
    """Decide where every file of a change goes. ``sidecars``: the table has blobs next to its data files.

    Raises Refused if blobs of theirs would refer to other objects, or to none, in ours.
    """
    with_files = [*change.added, *(replacement.theirs for replacement in change.replaced if replacement.files)]
    if sidecars and with_files:
        _check_references(ours, theirs)
    moved = [
        replacement.theirs
        for replacement in change.replaced
        if replacement.deletion and not replacement.both_deleted and replacement.ours.id not in change.followed.back
    ]
    roots = [theirs.root_of(file) for fragment in with_files for file in fragment.files]
    roots += [
        theirs.root_of(fragment.deletion)
        for fragment in (*change.added, *moved)
        if fragment.deletion and fragment.id not in change.followed.masks
    ]
    bases, new = _bases(dict.fromkeys(roots), ours, reference)
    names: dict[tuple[Root, str], str] = {}
    copies: dict[tuple[Root, str], Copy] = {}
    present: dict[tuple[Root, str], int | None] = {}
    known = {root: key for key, root in ours.bases.items()}
    for fragment in with_files:
        for file in fragment.files:
            root = theirs.root_of(file)
            if root == ours.root or bases[root] is not None:
                continue
            key = root, file.path
            here = reference.present.get((file.path, file.size))
            if here in known and is_generated(file.path):
                present[key] = known[here]
                continue
            names[key] = _free_name(root, file, theirs)
            copies[key] = Copy(root, _path(root, file.path), f"data/{names[key]}", file.size, sidecars)
    kept = {file.path for replacement in change.replaced for file in replacement.ours.files}
    ids = _ids(change, ours, theirs)
    pairs = [(fragment, ids[fragment.id]) for fragment in change.added]
    pairs += [
        (replacement.theirs, replacement.ours.id) for replacement in change.replaced if replacement.theirs in moved
    ]
    deletions = [
        copy
        for fragment, new_id in pairs
        if fragment.id not in change.followed.masks
        for copy in _deletion(fragment, new_id, ours, theirs, bases)
    ]
    return Placed(
        bases=bases,
        new_bases=new,
        names=names,
        ids=ids,
        copies=(*(copy for key, copy in copies.items() if names[key] not in kept), *deletions),
        present=present,
    )


def _check_references(ours: Snapshot, theirs: Snapshot) -> None:
    """Blobs refer to objects below a base path by its number, which their data file holds and no merge can change.

    A base path with data files is taken for a place of these alone.
    """
    others = {key: root for key, root in theirs.bases.items() if not root.is_dataset and ours.bases.get(key) != root}
    if others:
        used = {file.base_id for fragment in theirs.contents.fragments() for file in fragment.files}
        others = {key: root for key, root in others.items() if key not in used}
    for key, root in others.items():
        raise Refused(
            f"Blobs of {theirs.pin} may refer to objects below {root.uri}, its base path {key}; {ours.pin} has "
            f"{'another base path' if key in ours.bases else 'no base path'} of that number. Nothing was changed.",
            hint=hints.python_only(f"lance.dataset(...).add_bases([DatasetBasePath('{root.uri}', id={key})])")
            if key not in ours.bases
            else "Write the bytes of these blobs to the other table.",
        )


def _bases(
    roots: Iterable[Root], ours: Snapshot, reference: InPlacePolicy
) -> tuple[dict[Root, int | None], tuple[Root, ...]]:
    known: dict[Root, int | None] = {root: key for key, root in ours.bases.items()}
    bases: dict[Root, int | None] = {}
    new: list[Root] = []
    free = max((key for key in ours.bases if key is not None), default=0) + 1
    for root in roots:
        bases[root] = known.get(root)
        if root not in known and reference.allows(root):
            bases[root] = free + len(new)
            new.append(root)
    return bases, tuple(new)


def _free_name(root: Root, file: DataFile, theirs: Snapshot) -> str:
    """A name that no file of ours has. A file named by hand may be replaced by one of the same name and size.

    If the copy kept that name, it would be taken for the newer file, or be overwritten while older versions read it. So
    the name includes the time of the version. Every attempt makes the same name, so that an interrupted merge
    continues where it stopped.
    """
    if is_generated(file.path):
        return file.path
    source = f"{root.uri}\n{file.path}\n{file.size}\n{theirs.contents.head.timestamp_ns}"
    token = sha256(source.encode()).hexdigest()[:24]
    return f"{token}-{re.sub(r'[^A-Za-z0-9._-]', '_', file.path)}"


def _path(root: Root, path: str) -> str:
    return f"data/{stored_name(path)}" if root.is_dataset else stored_name(path)


def _ids(change: MergeChange, ours: Snapshot, theirs: Snapshot) -> dict[int, int]:
    """Ids of new fragments; 0 leaves the choice to the commit.

    The name of a deletion file begins with the id of its fragment, so fragments with one get their id here. An index
    knows rows by fragment ids, so indexed fragments keep their ids where those are free.
    """
    added = {fragment.id for fragment in change.added}
    indexed = any(not added.isdisjoint(segment.fragments) for segment in theirs.contents.indexes)
    has_deletions = any(fragment.deletion for fragment in change.added)
    free = ours.contents.max_fragment_id + 1
    if (has_deletions or indexed) and all(key >= free for key in added):
        return {fragment.id: fragment.id for fragment in change.added}
    if not has_deletions:
        return {fragment.id: 0 for fragment in change.added}
    return {fragment.id: free + count for count, fragment in enumerate(change.added)}


def _deletion(
    fragment: Fragment, new_id: int, ours: Snapshot, theirs: Snapshot, bases: Mapping[Root, int | None]
) -> list[Copy]:
    """The copy of a deletion file; empty if it is read in place under the fragment's id."""
    if fragment.deletion is None:
        return []
    root = theirs.root_of(fragment.deletion)
    if new_id == fragment.id and (root == ours.root or bases[root] is not None):
        return []
    return [Copy(root, fragment.deletion.path_for(fragment.id), fragment.deletion.path_for(new_id))]


# --- The plan, and the fragments of its commit


@dataclass(frozen=True)
class ReplayPlan:
    sides: Sides
    change: MergeChange
    placed: Placed
    trace: Trace
    message: str | None = None
    deletions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to delete where both sides deleted rows: offsets in the fragment of ours, by its id."""
    rewrites: tuple[Rewrite, ...] = ()
    """Compactions of theirs that later merges need to know."""
    cells: CellPlan | None = None
    """What was decided cell by cell, if anything was."""
    patched: Mapping[tuple[bool, int], Mapping[str, Any]] = field(default_factory=dict)
    """The written files of merged rows, as pylance's JSON: by whether it is a fragment of ours, and its id."""
    conflicts: tuple[MergeConflict, ...] = ()
    lacking: tuple[LackingRows, ...] = ()
    """Rows that get defaults of columns that the other side added."""
    filled: Mapping[tuple[bool, int], Mapping[str, Any]] = field(default_factory=dict)
    """The written files of such columns, as ``patched`` has those of merged rows."""
    nulls: NullChange = field(default_factory=NullChange)
    settings: SettingChange = field(default_factory=SettingChange)
    """Settings of theirs that ours takes over: in a version before the rows, or alone."""

    @property
    def ours(self) -> Snapshot:
        """The version before the new one."""
        return self.sides.ours

    @property
    def lacking_files(self) -> tuple[LackingRows, ...]:
        """The rows whose defaults are in a file of their own: other ones are in that of merged rows."""
        patched = {(patch.of_ours, patch.home.id) for patch in self.change.patches}
        return tuple(each for each in self.lacking if (each.of_ours, each.fragment.id) not in patched)

    @property
    def is_up_to_date(self) -> bool:
        return not self.change and not self.conflicts and not self.only_settles and not self.settings

    @property
    def only_settles(self) -> bool:
        """Whether ours stays as it is because a preference says so, which later merges need to know."""
        return not self.change and self.cells is not None and self.cells.settled is not None

    @property
    def is_agreed(self) -> bool:
        """Whether there is nothing to do since both sides changed rows in the same way.

        The next merge begins after that only if a version says so: beside later rows, these might not be told any more.
        """
        return self.is_up_to_date and self.cells is not None and self.trace.action not in BRINGING

    @property
    def moves_rows(self) -> bool:
        """Whether rows of ours may have moved to other fragments."""
        left = self.change.removed or any(replacement.deletion for replacement in self.change.replaced)
        return bool(self.change.added and (left or self.change.followed.deletions))

    @property
    def keeps_all_rows(self) -> bool:
        """Whether ours keeps its rows and values, in other files: by what the steps record, and by count."""
        change, summary = self.change, self.summary()
        columns = change.columns or change.columns_of_theirs
        same = summary.rows_added == summary.rows_deleted
        return self.sides.their_steps.keep_all_rows and not columns and same

    @property
    def replaces_all(self) -> str:
        """Whether the table is replaced, as far as the versions taken over record it: true, false or perhaps."""
        steps, removed = self.sides.their_steps, [before for before, _ in self.change.removed]
        if steps.replaces_all or steps.complete or not removed:
            return str(steps.replaces_all).lower()
        whole = len(removed) == self.sides.base_ours.contents.fragment_count
        lost = Connected(steps.rewrites).lost(removed, self.change.added)
        return PERHAPS if whole and len(lost) == len(removed) else "false"

    @property
    def excludes_others(self) -> bool:
        """Whether the commit must follow ours directly.

        pylance would combine it with an append: nulls in it would make the table unreadable, or two rows would have one
        key.
        """
        change = self.change
        brings = bool(change.added) or any(each.deletion or each.files for each in change.replaced)
        fields = result_fields(self.sides, change) if brings else ()
        return bool(self.nulls.fields) or bool(key_fields([entry.field for entry in fields]))

    @property
    def copies(self) -> tuple[Copy, ...]:
        return self.placed.copies

    @property
    def notes_on_cells(self) -> tuple[str, ...]:
        return () if self.cells is None else tuple(told(self.cells.emptied))

    def summary(self) -> Summary:
        change = self.change
        back = change.followed.back
        alone = [each for each in change.replaced if each.deletion and each.ours.id not in self.deletions]
        whole = [each for each in alone if each.ours.id not in back]
        more = sum(each.ours.physical_rows - each.ours.rows - len(back.get(each.ours.id, ())) for each in alone)
        more -= sum(each.ours.physical_rows - each.ours.rows for each in whole)
        deleted = sum(each.theirs.physical_rows - each.theirs.rows for each in whole)
        before = sum(each.base.physical_rows - each.base.rows for each in whole)
        added = sum(fragment.rows for fragment in change.added)
        removed = sum(ours.rows for _, ours in change.removed)
        removed += sum(len(rows) for rows in (*change.followed.deletions.values(), *self.deletions.values()))
        return Summary(
            versions=len(self.sides.their_steps.all),
            rows_added=added + max(0, before - deleted) + max(0, more),
            rows_deleted=removed + max(0, deleted - before) + max(0, -more),
            fragments_changed=len(change.replaced) + len(change.followed.deletions),
            columns_added=self._new_columns(),
            columns_dropped=self._dropped_columns(),
            rows_merged=0 if self.cells is None else self.cells.rows,
            cells_emptied=() if self.cells is None else self.cells.emptied,
            rows_settled=0 if self.cells is None or self.cells.settled is None else self.cells.settled.rows,
            files=len(self.copies),
            bytes=self.placed.bytes,
        )

    def _new_columns(self) -> tuple[str, ...]:
        """Columns that ours gets, and fields inside of its own columns."""
        if not (self.change.columns_of_theirs or self.change.columns):
            return ()
        fields = result_fields(self.sides, self.change)
        known = {(), *(entry.path for entry in fields if entry.ours is not None)}
        return tuple(entry.name for entry in fields if entry.ours is None and entry.path[:-1] in known)

    def _dropped_columns(self) -> tuple[str, ...]:
        """Columns of ours, and fields inside them, that the result does not have."""
        if not (self.change.columns_of_theirs or self.change.columns):
            return ()
        lost = lost_fields(self.sides, result_fields(self.sides, self.change), OURS)
        return tuple(entry.name for entry in lost)


# --- Fragments for pylance's commit

Json = dict[str, Any]
_LINEAGE = ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")


@dataclass(frozen=True)
class RowIds:
    """How ours knows rows of theirs."""

    renamed: Mapping[int, int] = field(default_factory=dict)
    same_below: int = 0
    """Below this, an id means the same row on both sides, except for renamed ones."""
    forked_below: int = 0
    """Below this, both chains were forked with the row."""

    def known(self, row: int) -> int | None:
        """The id of a row in ours; None for a new row."""
        if row < self.forked_below:
            return row
        return self.renamed.get(row, row if row < self.same_below else None)


@dataclass(frozen=True)
class Assembly:
    """Turns fragments of theirs into fragments of ours."""

    theirs: Snapshot
    placed: Placed
    fields: Mapping[int, int]
    """Field ids in ours, by field ids of theirs that differ; REPLACED where the id means another column there."""
    row_ids: RowIds | None = None
    """None without stable row ids."""
    masks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to leave out of new fragments, by ids in theirs; a deletion file is written for them."""
    dead: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Deleted rows of new fragments, by ids in theirs, where it matters."""
    base: frozenset[int] = frozenset()
    """Field ids of the base's columns."""
    has_rows: bool = True
    """Whether ours has any fragment."""

    @classmethod
    def of(cls, sides: Sides, change: MergeChange, placed: Placed, fields: Mapping[int, int]) -> Assembly:
        ours, followed = sides.ours.contents, change.followed
        return cls(
            sides.theirs,
            placed,
            fields,
            row_ids=row_ids(sides, change) if ours.has_stable_row_ids else None,
            masks=followed.masks,
            dead=followed.dead,
            base=sides.base_theirs.live,
            has_rows=ours.fragment_count > 0,
        )

    def mixed(self, change: MergeChange) -> list[Fragment]:
        """New fragments whose rows could keep their ids only because some of the rows are deleted."""
        return [
            fragment
            for fragment in change.added
            if fragment.deletion is not None and fragment.id not in self.masks and self._kept(fragment) is None
        ]

    def check_row_ids(self, change: MergeChange, steps: Steps) -> None:
        """Raise NotCommittable for rows that cannot keep their stable ids. ``steps``: those of theirs."""
        moved = [fragment for fragment in change.added if self._kept_rows(fragment)]
        if moved and not self.has_rows:
            raise NotCommittable(
                "Rows with stable ids would return to an empty branch; pylance cannot commit that.",
                hint=hints.of("Restore a version that has the rows: ", hints.RESTORE_VERSION, "."),
            )
        if moved and (change.columns or change.columns_of_theirs):
            raise NotCommittable(
                "Columns were changed and rows updated since the base; with stable row ids pylance cannot commit both "
                "at once.",
                hint=in_steps(self.theirs.pin, steps),
            )

    def added(self, fragment: Fragment, metadata: Json) -> Json:
        """A new fragment, from pylance's JSON of the one in theirs. Raises NotCommittable for mixed row ids."""
        result = {**copy.deepcopy(metadata), "id": self.placed.ids[fragment.id]}
        result["files"] = [self._file(file) for file in result["files"]]
        result.update(dict.fromkeys(_LINEAGE))
        kept = self._kept_rows(fragment)
        if kept:
            result["row_id_meta"] = {"Inline": list(write_row_ids(kept))}
        if fragment.id in self.masks:
            result["deletion_file"] = None  # a new one is written
        else:
            result["deletion_file"] = self._deletion(fragment, result["deletion_file"], self.placed.ids[fragment.id])
        return result

    def replaced(self, replacement: Replacement, ours: Json, theirs: Json) -> Json:
        """A fragment of ours with the columns and deleted rows of theirs."""
        result = copy.deepcopy(ours)
        if replacement.files:
            result["files"] = self._files(replacement, result["files"], theirs["files"])
        if replacement.deletion and not replacement.both_deleted:
            result["deletion_file"] = self._deletion(replacement.theirs, theirs["deletion_file"], replacement.ours.id)
        return result

    def _files(self, replacement: Replacement, ours: list[Json], theirs: list[Json]) -> list[Json]:
        """The files of both sides. A file has the columns in its ``fields``; older files mark them as replaced."""
        here = {file["path"]: file for file in ours}
        before = {file.path: file.fields for file in replacement.base.files}
        placed = [self._file(file) for file in theirs]
        if {path: tuple(file["fields"]) for path, file in here.items()} == before:
            return [
                {**here[file["path"]], "fields": file["fields"]} if file["path"] in here else file for file in placed
            ]
        new = [file for file in placed if file["path"] not in here]
        back = {
            after["path"]: self._back(before[file["path"]], file["fields"], after["fields"])
            for file, after in zip(theirs, placed, strict=True)
            if file["path"] in before
        }
        written = {field for file in new for field in file["fields"]}
        written |= {field for found in back.values() for field in found.values()}
        return [_with_fields(file, back.get(file["path"], {}), written) for file in ours] + new

    def _back(self, before: Sequence[int], theirs: Sequence[int], placed: Sequence[int]) -> dict[int, int]:
        """Columns that theirs has restored in a file of the base: their ids in ours, by position in the file."""
        live = self.theirs.live
        return {
            at: placed[at]
            for at, (old, new) in enumerate(zip(before, theirs, strict=True))
            if new in live and not self.base.issuperset((old, new))
        }

    def _file(self, file: Json) -> Json:
        root = self.theirs.bases[file["base_id"]]
        key = root, file["path"]
        return {
            **file,
            "path": self.placed.names.get(key, file["path"]),
            "base_id": self.placed.present.get(key, self.placed.bases[root]),
            "fields": [self.fields.get(field, field) for field in file["fields"]],
        }

    def _deletion(self, fragment: Fragment, deletion: Json | None, new_id: int) -> Json | None:
        if deletion is None or fragment.deletion is None:
            return None
        base = self.placed.bases[self.theirs.root_of(fragment.deletion)] if new_id == fragment.id else None
        return {**deletion, "base_id": base}

    def _kept_rows(self, fragment: Fragment) -> list[int]:
        kept = self._kept(fragment)
        if kept is None:
            raise NotCommittable(
                f"Fragment {fragment.id} of {self.theirs.pin} mixes rows from before the base with new ones, so its "
                "rows cannot keep their stable ids.",
                hint="Merge a version from before the branch was compacted.",
            )
        return kept

    def _kept(self, fragment: Fragment) -> list[int] | None:
        """The ids that the fragment keeps; None if old and new rows are mixed."""
        if self.row_ids is None or not fragment.row_ids:
            return []
        dead = frozenset(self.masks.get(fragment.id) or self.dead.get(fragment.id) or ())
        ids = read_row_ids(fragment.row_ids)
        kept = kept_row_ids(ids, self.row_ids.known, dead)
        # Between new rows, old ones whose place in ours is unknown get new ids, like them.
        return kept_row_ids(ids, replace(self.row_ids, forked_below=0).known, dead) if kept is None else kept


_OF_COLUMNS = frozenset({"Merge", "Project"})
_OF_ROWS = frozenset({"Append", "Update", "Delete", "Rewrite"})


def in_steps(pin: PinnedVersion, steps: Steps) -> str:
    """How to merge versions that change rows and columns in turns, so that no step changes both."""
    name = pin.branch or MAIN
    kinds = [
        (each.version, each.operation in _OF_COLUMNS) for each in steps.all if each.operation in _OF_COLUMNS | _OF_ROWS
    ]
    turns = [version for (version, kind), (_, following) in pairwise(kinds) if kind != following]
    if not turns or not steps.complete or any(each.branch != pin.branch for each in steps.all):
        return f"Merge the versions of '{name}' one by one: {name}@VERSION, from the oldest on, and '{name}' at last."
    several = ", then ".join(f"{name}@{version}" for version in turns)
    return f"Merge in steps, of which none changes both: first {several}, then '{name}'."


def _with_fields(file: Json, back: Mapping[int, int], written: Collection[int]) -> Json:
    """A file of ours with the columns that return to it, and without those that moved elsewhere."""
    kept = [REPLACED if field in written else field for field in file["fields"]]
    return {**file, "fields": [back.get(at, field) for at, field in enumerate(kept)]}


def row_ids(sides: Sides, change: MergeChange) -> RowIds:
    """How ours identifies the rows that theirs moved out of fragments."""
    if not sides.keeps_ids:
        return RowIds()
    pairs = [(each.theirs, each.ours) for each in change.replaced if each.deletion]
    if sides.numbering is None:
        pairs += change.removed
        same_below = sides.base_theirs.contents.next_row_id
    else:
        gone = by_file(fragment for fragment, _ in change.removed)
        ours_of = {theirs.id: ours for theirs, ours in change.removed}
        for numbered in sides.numbering.contents.fragments() if gone else ():
            base = counterpart(numbered, gone)
            if base is not None:
                pairs.append((numbered, ours_of[base.id]))
        same_below = 0
    renamed: dict[int, int] = dict(change.followed.row_ids)
    if sides.their_same_below:
        # What took the base in left out fragments without a row that is still there: their rows are known by the base.
        for base, ours in (*change.removed, *((each.base, each.ours) for each in change.replaced)):
            inherited = matched_row_ids(base.row_ids, ours.row_ids)
            renamed.update({row: own for row, own in inherited.items() if row < sides.their_same_below})
    for theirs, ours in pairs:
        if not same_below or theirs.row_ids != ours.row_ids:
            renamed.update(matched_row_ids(theirs.row_ids, ours.row_ids))
    return RowIds(renamed, same_below, sides.same_below)
