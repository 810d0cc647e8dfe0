"""Where the files of a change go: copied into the chain of ours, or read in place. Pure.

A file is read in place if ours already reads other files from there: from a parent's root, or from the remote of a
clone. Every other file is copied, so that the other branch can be deleted afterwards. ``reference`` copies no data
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from lance_spark import hints
from lance_spark.core.layout import is_generated, stored_name
from lance_spark.core.location import is_within
from lance_spark.errors import Refused
from lance_spark.format.contents import DataFile, Fragment
from lance_spark.format.versions import Copy, Root, Snapshot
from lance_spark.merge.change_rules import MergeChange


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
