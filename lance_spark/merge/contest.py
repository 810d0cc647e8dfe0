"""Which fragments are contested: both sides changed their rows, and one side compacted them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from lance_spark.manifest.contents import Fragment
from lance_spark.merge.change import BasePair, Contest, Sides
from lance_spark.merge.delta import Delta
from lance_spark.merge.rewrites import Connected

InOurs = Callable[[Iterable[Fragment]], Mapping[int, Fragment]]
"""Fragments of the base as the chain of ours has them, by their ids in the chain of theirs."""


def contest(sides: Sides, ours: Delta, theirs: Delta, in_ours: InOurs) -> Contest | None:
    """The fragments to follow row by row; None if comparing fragments is enough.

    Fragments that compactions connect go together: either theirs is taken with its layout, or ours keeps its own.
    """
    if sides.is_fast_forward or not sides.rewrites:
        return None
    connected = Connected(sides.rewrites)
    changed = [*theirs.changed, *((before, None) for before in theirs.removed)]
    touched = [(before, after, group) for before, after in changed if (group := connected.group(before)) is not None]
    if not touched:
        return None
    bases = in_ours([before for before, _, _ in touched])
    here = {before.id for before, _ in ours.changed} | {fragment.id for fragment in ours.removed}
    moved = {connected.group(entry) for entry in (*ours.removed, *ours.added, *theirs.removed, *theirs.added)}
    groups = {
        group
        for before, _, group in touched
        if group in moved and ((base := bases.get(before.id)) is None or base.id in here)
    }
    if not groups:
        return None
    rewrites = connected.of(groups)
    pairs = [
        BasePair(before, bases.get(before.id, before), after) for before, after, group in touched if group in groups
    ]
    paths = {path for each in rewrites for path in each.paths}
    paths |= {file.path for pair in pairs for file in pair.before.files}
    return Contest(
        pairs=tuple(pairs),
        tied=tuple(entry for entry in theirs.added if connected.group(entry) in groups),
        ours=tuple(sides.ours.contents.fragments_with(paths)),
        theirs=tuple(sides.theirs.contents.fragments_with(paths)),
        rewrites=rewrites,
    )
