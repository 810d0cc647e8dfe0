"""Which fragments two versions have in common, and what became of the others.

Names of data files are unique, so fragments that name the same file are the same one, also across a branch and its
parent, where ids of bases and fragments differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lance_spark.manifest.contents import Contents, DeletionFile, Fragment


@dataclass(frozen=True)
class FragmentPair:
    """One fragment as two versions have it."""

    before: Fragment
    after: Fragment

    @property
    def deletes_alike(self) -> bool:
        """Whether the same rows are deleted in both, as far as the names of their deletion files show."""
        return _deletion(self.before.deletion) == _deletion(self.after.deletion)

    def replaced_fields(self, known: Collection[int]) -> frozenset[int]:
        """Those of the known fields whose values are in different files."""
        before, after = _places(self.before), _places(self.after)
        return frozenset(field for field in known if before.get(field) != after.get(field))

    @property
    def may_differ(self) -> bool:
        """Whether anything but ids of bases and fragments differs."""
        overlaid = self.before.has_overlays or self.after.has_overlays
        return overlaid or not self.deletes_alike or _places(self.before) != _places(self.after)


@dataclass(frozen=True)
class FragmentChanges:
    """Fragments that two versions do not have in common. All others hold the same rows."""

    added: tuple[Fragment, ...]
    """Only in the later version."""
    removed: tuple[Fragment, ...]
    """Only in the earlier one."""
    changed: tuple[FragmentPair, ...]
    """In both, with other deletion files, data files or overlays."""


def match(before: Contents, after: Contents, every: bool = False) -> FragmentChanges:
    """Compare the fragments of two versions. Only records that differ are decoded.

    With ``every`` all fragments that both have count as changed: what a column is called, and whether it is there, is
    not in their records.
    """
    gone, new = before.fragments_without(after), after.fragments_without(before)
    pairs, removed, added = _paired(gone, new)
    if every:
        pairs += [FragmentPair(fragment, fragment) for fragment in after.fragments_shared(before)]
    changed = tuple(pair for pair in pairs if every or pair.may_differ)
    return FragmentChanges(tuple(added), tuple(removed), changed)


def _paired(
    gone: Sequence[Fragment], new: Sequence[Fragment]
) -> tuple[list[FragmentPair], list[Fragment], list[Fragment]]:
    """Each fragment is in one pair at most: a file that was taken over twice holds its rows twice."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for place, fragment in enumerate(gone):
        for path in {file.path for file in fragment.files}:
            by_file[path].append(place)
    pairs, added, taken = [], [], set()
    for fragment in new:
        candidates = [place for file in fragment.files for place in by_file.get(file.path, ()) if place not in taken]
        if not candidates:
            added.append(fragment)
            continue
        best = min(candidates, key=lambda place: (gone[place].id != fragment.id, place))
        taken.add(best)
        pairs.append(FragmentPair(gone[best], fragment))
    return pairs, [fragment for place, fragment in enumerate(gone) if place not in taken], added


def _deletion(file: DeletionFile | None) -> tuple[int, int] | None:
    # The fragment's id is part of the file's name and may change; the file's own id is random.
    return None if file is None else (file.read_version, file.id)


def _places(fragment: Fragment) -> dict[int, str]:
    """The file of each column; ids below 0 are columns that were replaced, and row ids."""
    return {field: file.path for file in fragment.files for field in file.fields if field >= 0}


@dataclass(frozen=True)
class Stat:
    """How much a version added and removed. Rows that were only moved from file to file count as neither."""

    rows_added: int | None
    """None where the writer did not record how many rows fragments have."""
    rows_removed: int | None
    files_added: int
    """Data files."""
    files_removed: int
    bytes_added: int
    """Bytes of data files, as far as their writers recorded them."""
    bytes_removed: int

    def as_record(self) -> dict[str, int | None]:
        """As JSON."""
        return dict(vars(self))


def stat(changes: FragmentChanges, counted: bool = True, moved: bool = False) -> Stat:
    """Sum up changes. ``counted``: row counts can be relied on. ``moved``: the commit only moved rows (compaction)."""
    added = sum(fragment.rows for fragment in changes.added)
    removed = sum(fragment.rows for fragment in changes.removed)
    for pair in changes.changed:
        added += max(0, pair.after.rows - pair.before.rows)
        removed += max(0, pair.before.rows - pair.after.rows)
    if moved:
        both = min(added, removed)
        added, removed = added - both, removed - both
    before = _sizes((*changes.removed, *(pair.before for pair in changes.changed)))
    after = _sizes((*changes.added, *(pair.after for pair in changes.changed)))
    new, gone = after.keys() - before.keys(), before.keys() - after.keys()
    return Stat(
        rows_added=added if counted else None,
        rows_removed=removed if counted else None,
        files_added=len(new),
        files_removed=len(gone),
        bytes_added=sum(after[path] for path in new),
        bytes_removed=sum(before[path] for path in gone),
    )


def stat_of_all(contents: Contents) -> Stat:
    """The stat of a version that nothing came before."""
    return stat(FragmentChanges(tuple(contents.fragments()), (), ()), contents.counts_rows)


def _sizes(fragments: Iterable[Fragment]) -> dict[str, int]:
    return {file.path: file.size for fragment in fragments for file in fragment.files}
