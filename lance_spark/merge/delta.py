"""What changed between two versions, fragment by fragment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lance_spark.manifest.contents import Fragment
from lance_spark.merge.snapshot import Snapshot, same_deletion, same_files


@dataclass(frozen=True)
class Delta:
    """The fragments that differ between a base and a side."""

    added: tuple[Fragment, ...] = ()
    """Fragments that only the side has."""
    removed: tuple[Fragment, ...] = ()
    """Fragments that only the base has."""
    changed: tuple[tuple[Fragment, Fragment], ...] = ()
    """(of the base, of the side): other rows are deleted, or columns are in other files."""
    renumbered: tuple[tuple[Fragment, Fragment], ...] = ()
    """(of the base, of the side): nothing changed but the id, as after a revert of a compaction."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.added or self.removed or self.changed)


def delta(base: Snapshot, side: Snapshot) -> Delta:
    """How the fragments of the side came from those of the base.

    Two versions of one chain are compared as bytes first, so that only fragments that differ are decoded. A dropped
    column that is back changes fragments without changing a byte of them.
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
    """Fragments by each of their data files."""
    return {file.path: fragment for fragment in fragments for file in fragment.files}


def counterpart(fragment: Fragment, known: dict[str, Fragment]) -> Fragment | None:
    """The known fragment that has one of the same data files, and so the same rows in the same order."""
    for file in fragment.files:
        if file.path in known:
            return known[file.path]
    return None
