"""After a dataset was moved or copied: lets its branches read from where it is now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from lance_spark import hints
from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.relocate.base_paths import BasePathResolver, Move
from lance_spark.errors import Conflict, CorruptData, InvalidOption, NotFound, Refused
from lance_spark.location import DatasetLocation, is_within
from lance_spark.merge.trace import ADDS_ONLY, MOVED, RELOCATE, Trace
from lance_spark.refs.model import RefTable
from lance_spark.refs.names import MAIN
from lance_spark.relocate.repair import (
    INCOMPLETE,
    BaseState,
    Repair,
    former_roots,
    repair_of,
)
from lance_spark.relocate.result import Relocated, Relocation
from lance_spark.store import refs, relocate_commit
from lance_spark.store.relocate_commit import Head, canonical, read_head
from lance_spark.store.survey import recorded_clones
from lance_spark.store.uri import locate, locate_typed


def relocate(
    location: DatasetLocation, old: str | None = None, new: str | None = None, dry_run: bool = False
) -> Relocation:
    """Check every base path of the newest version of main and of each branch, and repair what leads to an old place.

    A base path is repaired if every file that is read from it is in this dataset as well, at the same place below its
    root, in the same size; pylance's file names are unique. ``old`` names a former root, ``new`` the place to read
    instead (by default this dataset), which must have the files. Everything else is left alone.

    Each branch gets up to three versions: for a place that is registered, for indexes, for fragments. A repair that was
    interrupted can be run again. Raises Refused if ``new`` lacks files, NotFound if nothing is read from ``old``,
    Conflict if other processes commit again and again.
    """
    move = _move(location, old, new)
    table = refs.read_refs(location)
    places = BasePathResolver(location, move)
    heads = [read_head(location, branch) for branch in (None, *sorted(table.branches))]
    states = {head.pin.branch: places.look(head) for head in heads}
    former = former_roots(location.uri, (base for branch in states.values() for base in branch))
    states = {head.pin.branch: places.look_again(head, states[head.pin.branch], former) for head in heads}
    if move is not None:
        _check_named(move, (base for branch in states.values() for base in branch))
    done = tuple(
        _relocated(
            location, table, places, _BranchRepair(head, states[head.pin.branch], trace_of(table, head)), dry_run
        )
        for head in heads
        if any(base.is_repaired for base in states[head.pin.branch])
    )
    bases = tuple(base for branch in states.values() for base in branch)
    former |= set() if move is None else {move.old}
    return Relocation(location.uri, bases, done, tuple(_notes(location, former, bases)), dry_run)


def trace_of(table: RefTable, head: Head) -> Trace:
    """What the commits of a repair say: their source is the branch itself."""
    branch = table.branches.get(head.pin.branch or "")
    return Trace(RELOCATE, head.pin, "" if branch is None else branch.identity)


def _move(location: DatasetLocation, old: str | None, new: str | None) -> Move | None:
    if old is None:
        if new is not None:
            raise InvalidOption("A new place needs an old one.", hint="Say which place it replaces.")
        return None
    move = Move(locate(old).uri, location.uri if new is None else locate_typed(new).uri)
    if is_within(move.old, location.uri):
        raise InvalidOption(
            f"{move.old} is this dataset's own place.", hint="Name the place where the files were before."
        )
    if move.old == move.new:
        raise InvalidOption(f"{move.old} would be replaced by itself.")
    return move


def _check_named(move: Move, states: Iterable[BaseState]) -> None:
    """Raise unless a branch reads from the place that the user named, and its files are at the new place."""
    named = [base for base in states if (uri := canonical(base.path)) is not None and is_within(uri, move.old)]
    if not named:
        raise NotFound(
            f"No branch reads from {move.old}.", hint=hints.of("To see all base paths: ", hints.RELOCATE_DRY_RUN, ".")
        )
    for base in named:
        if base.state == INCOMPLETE and base.target is not None:
            few = "".join(f"\n  - {path}" for path in base.missing[:5])
            raise Refused(
                f"'{base.branch or MAIN}' needs {len(base.missing)} files that are not in {base.target.uri}; "
                f"nothing was changed.{few}",
                hint="Copy them there first.",
            )


@dataclass(frozen=True)
class _BranchRepair:
    """One branch to be repaired."""

    head: Head
    states: tuple[BaseState, ...]
    trace: Trace


def _relocated(
    location: DatasetLocation, table: RefTable, places: BasePathResolver, work: _BranchRepair, dry_run: bool
) -> Relocated:
    """Repair a branch, unless it is a dry run, and say what was done."""
    moving = [base for base in work.states if base.moves]
    newest = work.head.pin
    older = relocate_commit.versions_naming(location, newest, {base.path for base in moving}) if moving else []
    tags = [tag.name for tag in table.tags.values() if tag.branch == newest.branch and tag.version in older]
    broken = {uuid for base in moving for uuid in base.broken}
    return Relocated(
        branch=newest.branch,
        before=newest.version,
        version=None if dry_run else _repair(location, places, work),
        files=sum(base.files for base in moving),
        indexes=tuple(sorted({name for base in work.states if base.is_repaired for name in base.indexes})),
        dropped=tuple(sorted({index.name for index in work.head.indexes if index.uuid in broken})),
        older=len(older),
        tags=tuple(sorted(tags)),
    )


def _repair(location: DatasetLocation, places: BasePathResolver, work: _BranchRepair) -> int:
    """Commit until nothing is left to do; returns the newest version. Each step alone leaves a branch that is sound."""
    branch = work.head.pin.branch
    before: Repair | None = None
    for _ in attempts():
        head, states = (work.head, work.states) if before is None else _newest(location, places, branch)
        repair = repair_of(head.contents, head.uses, head.known, states)
        if not repair:
            return head.pin.version
        if repair == before:
            raise CorruptData(f"pylance does not take over the new base paths of '{branch or MAIN}'.")
        try:
            _step(location, head, repair, work.trace)
            before = repair
        except Conflict:
            before = Repair()
            places.forget()
    raise overtaken(branch, "it is not repaired")


def _newest(
    location: DatasetLocation, places: BasePathResolver, branch: str | None
) -> tuple[Head, tuple[BaseState, ...]]:
    head = read_head(location, branch)
    return head, places.look(head)


def _step(location: DatasetLocation, head: Head, repair: Repair, trace: Trace) -> None:
    """One commit. Indexes come before fragments: while fragments name an old place, the next run recognises it."""
    properties = {**trace.properties(f"Relocate to {location.uri}"), MOVED: "false", ADDS_ONLY: "true"}
    if repair.new_roots:
        relocate_commit.register(location, head.pin.branch, repair.new_roots, properties)
    elif repair.indexes or repair.dropped:
        relocate_commit.repoint_indexes(location, head, repair, properties)
    else:
        relocate_commit.repoint_fragments(location, head, repair, properties)


def _notes(location: DatasetLocation, former: Collection[str], bases: Iterable[BaseState]) -> Iterator[str]:
    paths = sorted({base.path for base in bases if base.moves})
    if paths:
        yield (
            f"The lists of base paths keep {', '.join(paths)} for ever. Once that is gone, a cleanup has to be told "
            "that it is known (known_bases, --known-base)."
        )
    for old in sorted(former) if paths else ():
        for clone in sorted(set(recorded_clones(location).values())):
            yield (
                f"A clone of this dataset is noted down at {clone}. If it reads from the old place: "
                f"lance-git --dataset {clone} relocate --from {old} --to {location.uri}"
            )
