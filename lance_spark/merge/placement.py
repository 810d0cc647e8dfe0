"""Where the files of a change come to lie: which are copied into the chain of ours, and which are read where they are.

A file stays where it is if ours reads other files from that place already: that is a parent's root, or the remote of
a clone. Everything else is copied, so that the other branch can be deleted afterwards. ``reference`` leaves all data
files where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from lance_spark.layout.names import is_generated, stored_name
from lance_spark.location import is_within
from lance_spark.manifest.contents import DataFile, Fragment
from lance_spark.merge.change import MergeChange
from lance_spark.merge.snapshot import Root, Snapshot


@dataclass(frozen=True)
class Reference:
    """Which files may stay where they are although ours did not read from there before."""

    everything: bool = False
    outside: str | None = None
    """URI of a dataset: files that are not below it may stay. They are in the remote of a clone."""
    present: Mapping[tuple[str, int], Root] = field(default_factory=dict)
    """Places that ours may know, by names and sizes of files that are there as well: those are not copied once more."""

    def allows(self, root: Root) -> bool:
        """Whether ours may read files of this root in place."""
        if self.everything:
            return True
        return self.outside is not None and not is_within(root.uri, self.outside)


@dataclass(frozen=True)
class Copy:
    """A file to copy into the root of ours."""

    source: Root
    path: str
    """Relative to the source's root, as the store has it."""
    target: str
    """Relative to the root of ours."""
    size: int = 0
    """Bytes, as recorded in the manifest; 0 for not recorded."""
    sidecars: bool = False
    """Whether the directory of the same name goes with it, which holds blobs."""


@dataclass(frozen=True)
class Placed:
    """Where each data file of theirs is found by a manifest of ours."""

    bases: Mapping[Root, int | None]
    """Base id in ours, by the root in theirs; None for ours itself, and for roots whose files are copied."""
    new_bases: tuple[Root, ...] = ()
    """Roots that ours does not know yet, with the ids in ``bases``."""
    names: Mapping[str, str] = field(default_factory=dict)
    """New names of copied files that could collide."""
    ids: Mapping[int, int] = field(default_factory=dict)
    """Ids in ours of added fragments, by those in theirs; 0 leaves it to the commit."""
    copies: tuple[Copy, ...] = ()
    present: Mapping[str, int | None] = field(default_factory=dict)
    """Base id in ours of files that are in another place, too, and are read there, by their names."""

    def with_ids(self, ids: Mapping[int, int]) -> Placed:
        """With other ids of added fragments."""
        return replace(self, ids=ids)

    @property
    def bytes(self) -> int:
        """Bytes of data files to copy, as their writers recorded them."""
        return sum(copy.size for copy in self.copies)


def place(change: MergeChange, ours: Snapshot, theirs: Snapshot, reference: Reference, sidecars: bool) -> Placed:
    """Decide where every file of a change comes to lie. ``sidecars``: the table has blobs beside its data files."""
    wanted = [*change.added, *(found.theirs for found in change.replaced if found.files)]
    moved = [found.theirs for found in change.replaced if found.deletion and not found.both_deleted]
    roots = [theirs.root_of(file) for fragment in wanted for file in fragment.files]
    roots += [theirs.root_of(found.deletion) for found in (*change.added, *moved) if found.deletion]
    bases, new = _bases(dict.fromkeys(roots), ours, reference)
    names, copies, present = {}, {}, {}
    known = {root: key for key, root in ours.bases.items()}
    for fragment in wanted:
        for file in fragment.files:
            root = theirs.root_of(file)
            if root == ours.root or bases[root] is not None:
                continue
            here = reference.present.get((file.path, file.size))
            if here in known and is_generated(file.path):
                present[file.path] = known[here]
                continue
            names[file.path] = _free_name(root, file)
            copies[file.path] = Copy(root, _path(root, file.path), f"data/{names[file.path]}", file.size, sidecars)
    kept = {path for found in change.replaced for path in _paths(found.ours)}
    ids = _ids(change, ours)
    pairs = [(fragment, ids[fragment.id]) for fragment in change.added]
    pairs += [(found.theirs, found.ours.id) for found in change.replaced if found.theirs in moved]
    deletions = [copy for fragment, new_id in pairs for copy in _deletion(fragment, new_id, ours, theirs, bases)]
    return Placed(
        bases=bases,
        new_bases=new,
        names=names,
        ids=ids,
        copies=(*(copy for path, copy in copies.items() if path not in kept), *deletions),
        present=present,
    )


def _bases(
    roots: Iterable[Root], ours: Snapshot, reference: Reference
) -> tuple[dict[Root, int | None], tuple[Root, ...]]:
    known: dict[Root, int | None] = {root: key for key, root in ours.bases.items()}
    found: dict[Root, int | None] = {}
    new: list[Root] = []
    free = max((key for key in ours.bases if key is not None), default=0) + 1
    for root in roots:
        found[root] = known.get(root)
        if root not in known and reference.allows(root):
            found[root] = free + len(new)
            new.append(root)
    return found, tuple(new)


def _free_name(root: Root, file: DataFile) -> str:
    if is_generated(file.path):
        return file.path
    # The same for every try, so that a merge that was killed goes on where it was.
    token = sha256(f"{root.uri}\n{file.path}\n{file.size}".encode()).hexdigest()[:24]
    return f"{token}-{re.sub(r'[^A-Za-z0-9._-]', '_', file.path)}"


def _path(root: Root, path: str) -> str:
    return f"data/{stored_name(path)}" if root.is_dataset else stored_name(path)


def _ids(change: MergeChange, ours: Snapshot) -> dict[int, int]:
    """The name of a deletion file begins with the id of its fragment: where there is one, ids are settled now."""
    if not any(fragment.deletion for fragment in change.added):
        return {fragment.id: 0 for fragment in change.added}
    free = ours.contents.max_fragment_id + 1
    if all(fragment.id >= free for fragment in change.added):
        return {fragment.id: fragment.id for fragment in change.added}
    return {fragment.id: free + count for count, fragment in enumerate(change.added)}


def _deletion(
    fragment: Fragment, new_id: int, ours: Snapshot, theirs: Snapshot, bases: Mapping[Root, int | None]
) -> list[Copy]:
    """The copy of a deletion file; none where it is found under the fragment's id already."""
    if fragment.deletion is None:
        return []
    root = theirs.root_of(fragment.deletion)
    if new_id == fragment.id and (root == ours.root or bases[root] is not None):
        return []
    return [Copy(root, fragment.deletion.path_for(fragment.id), fragment.deletion.path_for(new_id))]


def _paths(fragment: Fragment) -> set[str]:
    return {file.path for file in fragment.files}
