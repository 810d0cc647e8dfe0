"""Says what a relocation found and did, or would do: as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lance_spark.refs.names import MAIN
from lance_spark.show.card import Grid
from lance_spark.show.lines import Line, said_of_places
from lance_spark.show.tables import table_lines
from lance_spark.show.words import counted

if TYPE_CHECKING:
    from lance_spark.relocate.repair import BaseState
    from lance_spark.relocate.result import Relocated, Relocation

NOTHING_ELSEWHERE = "No branch has a base path: nothing is read from anywhere else."


def relocation_lines(found: Relocation) -> Iterator[Line]:
    """All of it: base paths, what is wrong with some, what was done to branches."""
    if not found.bases:
        yield said_of_places(NOTHING_ELSEWHERE)
        return
    yield from base_lines(found)
    yield from (said_of_places(f"  {problem}") for problem in problems(found))
    yield from (said_of_places(told) for told in done(found))
    if not found.branches:
        yield said_of_places("Nothing to do.")
    yield from (said_of_places(f"  note: {note}") for note in found.notes)


def base_lines(found: Relocation) -> list[Line]:
    """The base paths as a table."""
    grid = base_grid(found)
    bright = [row for row, base in enumerate(found.bases) if base in found.repaired]
    return table_lines(grid.header, grid.shown, grid.right, bright)


def base_grid(found: Relocation) -> Grid:
    """The base paths: state, files, and where they are read from afterwards."""
    rows = tuple(
        (
            base.branch or MAIN,
            base.path,
            base.state,
            f"{base.files:,}",
            base.target.uri if base in found.repaired and base.target is not None else "",
        )
        for base in found.bases
    )
    return Grid(("branch", "base path", "state", "files", "read from"), rows, right=frozenset({3}))


def problems(found: Relocation) -> Iterator[str]:
    """Why base paths are left as they are."""
    for base in found.problems:
        yield f"{base.branch or MAIN}: {base.path} is left alone: {_why(base)}"


def _why(base: BaseState) -> str:
    if base.state == "unclear":
        return "files of these names are here, but such names are given more than once; say it with --from"
    if base.target is None:
        return base.state
    few = ", ".join(base.missing[:3]) + (", ..." if len(base.missing) > 3 else "")
    return f"{len(base.missing)} of its files are not in {base.target.uri}: {few}"


def done(found: Relocation) -> Iterator[str]:
    """What was done to branches, or would be."""
    return (_done(branch, found.dry_run) for branch in found.branches)


def _done(branch: Relocated, dry_run: bool) -> str:
    name = branch.branch or MAIN
    indexes = f" and {counted(len(branch.indexes), 'index', 'indexes')}" if branch.indexes else ""
    told = [
        f"{name}: {counted(branch.files, 'file')}{indexes} {'would be' if dry_run else 'are'} read from the new place"
    ]
    told[0] += "" if branch.version is None else f" ({name}@{branch.version})"
    told += [f"indexes to be made anew: {', '.join(branch.dropped)}"] if branch.dropped else []
    told += [f"{counted(branch.older, 'older version')} can only be read with the old place"] if branch.older else []
    told += [f"tags on those: {', '.join(branch.tags)}"] if branch.tags else []
    return "; ".join(told) + "."
