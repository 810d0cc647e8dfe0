"""Merging, cherry-picking and reverting: changes of one chain, committed to another as one version.

In: two pinned versions and how to merge. Out: one new version, or an error and an unchanged branch. The module plans a
replay, compares rows where fragments are not enough, copies files, commits, and carries indexes over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import NamedTuple

from lance_spark import hints
from lance_spark.changes.changes import DeletionReader, Held, known_deletions
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.progress import WorkProgress
from lance_spark.core.records.tracking import MergeNote, Node, with_note
from lance_spark.core.refs import MAIN, PinnedVersion, RefTable
from lance_spark.core.texts import counted
from lance_spark.engine.local import Engine, LocalRunner
from lance_spark.errors import Conflict, InvalidOption, NotCommittable, NotFound, PermissionDenied, Refused
from lance_spark.format import row_ids
from lance_spark.format import versions as format_versions
from lance_spark.format.operations import VersionSpan
from lance_spark.format.schema import unknown_column
from lance_spark.merge import change_rules, conflict_rules, replay_commits
from lance_spark.merge.ancestry import Graph, numbering_of_pick, only_base, steps_between, trace_of
from lance_spark.merge.assembly_rules import (
    Assembly,
    InPlacePolicy,
    Numbering,
    Placed,
    ReplayPlan,
    in_steps,
    is_known,
    lacking_defaults,
    matched,
    merge_settings,
    number,
    place,
    renumbered,
    renumbered_steps,
    since,
)
from lance_spark.merge.cell_files import place_of, resolved, write_defaults, write_patches
from lance_spark.merge.cells import NO_TWINS, Addresses, Matching, SettledCells, settle_cells
from lance_spark.merge.conflict_rules import (
    TAKEN_BEFORE,
    NullChange,
    compare,
    may_find_rows,
    may_settle,
    rows_without_values,
    taken_before,
    with_contested,
)
from lance_spark.merge.following_rules import settle
from lance_spark.merge.hint_rules import Again, hint_for
from lance_spark.merge.option_rules import CELLS, MergeOptions, Prefer
from lance_spark.merge.replay_commits import LITTLE_COPY, copy_files
from lance_spark.merge.report import MergeResult
from lance_spark.merge.resolve_rules import Resolve
from lance_spark.merge.row_conflicts import (
    ResultRows,
    agreed_columns,
    blank_rows,
    examples,
    other_rows,
    with_rows_found,
)
from lance_spark.merge.unshared import Unshared
from lance_spark.scan import fragment_reads as scanning
from lance_spark.scan.fragment_reads import deleted_offsets
from lance_spark.storage import files, refs, versions
from lance_spark.storage.commits import attempts, check_unprotected, check_written, overtaken, unchanged
from lance_spark.storage.datasets import check_may_commit, pin_latest, pin_version
from lance_spark.storage.followers import check_mergeable, check_writable
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.resolving import check_branch

# --- What is asked of a replay: which versions, which rows are the same, and whose value wins


@dataclass(frozen=True)
class Request:
    """Apply to ``ours`` what ``theirs`` changed since the base. Each side sees the base in its own chain."""

    location: DatasetLocation
    ours: PinnedVersion
    theirs: PinnedVersion
    base_ours: PinnedVersion
    base_theirs: PinnedVersion
    trace: format_versions.Trace
    message: str | None = None
    reference: InPlacePolicy = field(default_factory=InPlacePolicy)
    """Which data files stay where they are."""
    our_path: tuple[VersionSpan, ...] | None = None
    """The versions of ours that the base does not have; None to find them by the base's branch."""
    their_path: tuple[VersionSpan, ...] | None = None
    numbering: PinnedVersion | None = None
    """A version of theirs with the rows of the base, if the base itself numbers rows differently."""
    our_numbering: PinnedVersion | None = None
    """The version of ours that took the base in, if ours did not begin with it."""
    certain_ids: bool = False
    """Whether these two tell each version from which a side may have other field ids."""
    gains: tuple[PinnedVersion, ...] = ()
    """What theirs holds of other branches and ours lacks."""
    remote: DatasetLocation | None = None
    """Where theirs is, if that is another dataset."""
    with_indexes: bool = True
    """Whether to copy indexes of theirs that are valid in ours."""
    reader: versions.VersionCache = field(default_factory=versions.VersionCache)
    """What this attempt has already read of the two sides."""
    shares: bool = False
    """Whether ours has versions that theirs has and the base lacks."""
    alone: bool = False
    """Whether the commit must follow ours directly, so that nothing is combined with what another process commits."""
    one_version: bool = False
    """Whether nothing may be committed to ours before the replay itself."""
    engine: Engine | None = None
    """Where rows are compared by their values; None to refuse instead."""
    by_cells: bool = False
    """Whether rows that both sides changed combine where they changed different columns."""
    settles_cells: bool = False
    """Whether a preference settles single cells, and not whole rows."""
    on: tuple[str, ...] = ()
    """Columns by which such rows are matched if they have no stable ids; by default those of the table's key."""
    prefer: Prefer = field(default_factory=Prefer)
    """Whose value is taken where both sides changed the same row or cell."""
    resolve: Resolve | None = None
    """A function of the caller that decides about the rows that this leaves open."""
    again: Again | None = None
    """The verb as it is typed with another preference, for hints."""
    row_numbering: PinnedVersion | None = None
    """A version with rows of the base under their stable ids in ours; None if there is none."""
    fork: PinnedVersion | None = None
    """The version that both chains were forked from: rows have the ids of that version in both."""
    their_fork: PinnedVersion | None = None
    """The same of theirs and its base, if that is another dataset's."""
    keeps_ids: bool = True
    """Whether rows that ours has keep their stable ids in new fragments."""
    unshared: Unshared | None = None
    """Tells whether what ours got since the base certainly never left the dataset; None if it may have."""
    earlier_path: tuple[VersionSpan, ...] | None = ()
    """Versions of theirs before the base that ours does not have: they may have compacted what ours still has. None if
    unknown."""

    @property
    def their_location(self) -> DatasetLocation:
        return self.remote or self.location


def open_root(request: Request, uri: str) -> DatasetLocation:
    """A root with the storage options of the side in the same store."""
    there = request.their_location
    location = DatasetLocation(uri, there.options)
    return location if location.store == there.store else DatasetLocation(uri, request.location.options)


def stamped(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    return pin if pin.stamp is not None else pin_version(location, pin.branch, pin.version)


# --- The verb as it is typed again, for hints


def merge_again(source: str | None, into: str | None, prefer: str, on: Sequence[str]) -> hints.Hint:
    return hints.merge(source or MAIN, into, prefer, on)


def pick_again(pin: PinnedVersion, into: str | None, action: str, prefer: str, on: Sequence[str]) -> hints.Hint:
    """A cherry-pick or a revert as it is typed again."""
    if action == format_versions.CHERRY_PICK:
        return hints.cherry_pick(pin.branch or MAIN, pin.version, into, prefer, on)
    return hints.revert(pin.version, pin.branch, prefer, on)


# --- A merge


def merge(
    location: DatasetLocation,
    source: PinnedVersion,
    into: str | None,
    options: MergeOptions,
    engine: Engine,
) -> MergeResult:
    """Merge a version and everything it descends from into a branch (None for main).

    Readers see the branch before or after, never in between. The merge keeps concurrent commits: it is planned again on
    top of them. Raises Conflict, which names what clashes, Refused or NotFound, and then leaves the branch unchanged.
    """
    make, without = merge_requests(location, source, into, options), "the merge would pass them over"
    if options.reference and not options.dry_run:
        check_branch(location, source.branch)  # before the tag: a deleted branch must not get one
        with unchanged():
            check_may_commit(location, into)
            check_nothing_waits(location, source, without)
            protect(location, source)
    requests: list[Request] = []

    def noted() -> Request:
        requests.append(make())
        # With the request's own cache: a store must not send the manifest of the source twice.
        check_nothing_waits(location, source, without, requests[-1].reader)
        return requests[-1]

    result = replay(noted, engine, options.dry_run)
    if result.version is None:
        return result
    try:
        remember(location, into, [source, *requests[-1].gains], result.version)
    except PermissionDenied as denied:
        why = denied.message if denied.missing is None else f"{denied.missing} is missing"
        note = (
            f"The merge is committed, but not noted on a branch, as {why}. Only version "
            f"{result.version} records it: once a cleanup removes that version, the next merge may find conflicts."
        )
        return replace(result, notes=(*result.notes, note))
    return result


_NAME_ANOTHER = hints.Hint(
    "Name another branch to merge, or the one to merge it into: into='main'.",
    shell="Name another branch to merge, or go to the one to merge it into first: lance-git switch main.",
)


def merge_requests(
    location: DatasetLocation, source: PinnedVersion, into: str | None, options: MergeOptions, publish: str = ""
) -> Callable[[], Request]:
    """Makes requests to merge a version into a branch, each for its newest version; ``publish`` is a publish's id.

    Raises Refused or NotFound for a branch that cannot be merged into.
    """
    check_mergeable(location, into)
    if source.branch == into:
        raise InvalidOption(f"{source} is a version of '{into or MAIN}' itself.", hint=_NAME_ANOTHER)
    action = format_versions.PUBLISH if publish else format_versions.MERGE

    def make() -> Request:
        graph = Graph(location)
        graph.identity(source.branch)  # raises NotFound for a branch that was deleted: its directory may still be there
        ours = pin_latest(location, into)
        base = only_base(graph, ours, source)
        base_ours, our_path = base_of(location, graph, ours, base), graph.path(ours, base, source)
        if options.ff_only and not (
            _is_forward(graph, ours, source, base)
            or steps_between((graph.reader, location), ours, base_ours, our_path).only_registers_bases
        ):
            raise Refused(
                f"'{into or MAIN}' has versions after {graph.pin(base)} that {source} does not have, so this is not a "
                "fast-forward.",
                hint=f"Merge '{into or MAIN}' into '{source.branch or MAIN}' first, or allow a real merge.",
            )
        held = _held(graph, source, ours)
        return Request(
            location=location,
            ours=ours,
            theirs=source,
            base_ours=base_ours,
            base_theirs=base_of(location, graph, source, base),
            trace=replace(trace_of(graph, action, source), held=held, publish=publish, audited=options.audited),
            message=options.message or f"{action.capitalize()} {source} into {into or MAIN}",
            our_path=our_path,
            their_path=graph.path(source, base, ours),
            numbering=graph.numbering(source, base, ours),
            our_numbering=graph.numbering(ours, base, source),
            certain_ids=True,
            gains=graph.gains(source, ours),
            reference=InPlacePolicy(everything=options.reference, outside=location.uri),
            reader=graph.reader,
            one_version=options.ff_only,
            by_cells=options.conflicts == CELLS,
            settles_cells=options.conflicts == CELLS,
            on=names_of(options.on),
            prefer=options.preferred,
            resolve=options.resolve,
            again=None if publish else partial(merge_again, source.branch, into),
            row_numbering=row_numbering(location, graph, ours, base),
            fork=graph.fork_of(ours, source),
            unshared=Unshared(location, graph, ours, source, base),
        )

    return make


def _held(graph: Graph, source: PinnedVersion, ours: PinnedVersion) -> tuple[tuple[str, int], ...]:
    """What the source has of other chains. This is lost once the source branch is deleted."""
    own = graph.identity(source.branch)
    return tuple(sorted((chain, version) for chain, version in graph.held(source, ours).items() if chain != own))


def base_of(location: DatasetLocation, graph: Graph, side: PinnedVersion, base: Node) -> PinnedVersion:
    """The common version in the side's own chain, if that has it: a branch begins with a copy of its fork."""
    pin = graph.pin(base)
    if side.branch is None or pin.branch == side.branch or graph.fork(side.branch) != pin:
        return pin
    copy = PinnedVersion(side.branch, pin.version)
    return copy if graph.reader.has(location, copy) else pin


def row_numbering(location: DatasetLocation, graph: Graph, ours: PinnedVersion, base: Node) -> PinnedVersion | None:
    """A version that has rows of the common version under their ids in ours."""
    if graph.inherits(ours, base):
        return base_of(location, graph, ours, base)
    return graph.numbering(ours, base, graph.pin(base))


def _is_forward(graph: Graph, ours: PinnedVersion, source: PinnedVersion, base: Node) -> bool:
    """Whether ours or source is the base itself, so that there is nothing to combine."""
    if base in (graph.node(ours), graph.node(source)):
        return True
    return ours.branch is not None and ours.version == base.version and graph.fork(ours.branch) == graph.pin(base)


def protect(location: DatasetLocation, source: PinnedVersion) -> None:
    """Tag a version whose files another branch reads: cleanups keep it, and its branch cannot be deleted."""
    name = f"merged-{sha256(str(source).encode()).hexdigest()[:16]}"
    if refs.read_tag(location, name) is None:
        refs.create_tag(location, name, source)


def remember(location: DatasetLocation, into: str | None, sources: Sequence[PinnedVersion], version: int) -> None:
    """Record in refs of branches that took part what a version took in, for the next merge and for cleanups.

    ``sources`` are the merged version, and versions of other branches that came with it: once the merged branch is
    deleted, only these notes tell.
    """
    names = {into, *(source.branch for source in sources)} - {None}
    branches = (refs.read_branch(location, name) for name in names if name is not None)
    table = RefTable({branch.name: branch for branch in branches if branch is not None}, {})
    graph = Graph(location, table)
    changed: dict[str, dict[str, str]] = {}
    for source in sources:
        holder = into if into is not None else source.branch
        if (
            holder is not None
            and holder in table.branches
            and (source.branch is None or source.branch in table.branches)
        ):
            note = MergeNote(graph.identity(into), version, graph.node(source))
            changed[holder] = with_note(changed.get(holder, table.branches[holder].metadata), note)
    for holder, metadata in changed.items():
        refs.replace_metadata(location, holder, metadata)


# --- Planning a replay
# Nothing is written.


def plan_replay(request: Request) -> ReplayPlan:
    """Compare and place files. Nothing is written.

    Raises NotCommittable for a change that does not fit or has lost its base; NotFound.
    """
    sides = _sides(request)
    sides = replace(sides, agreed=agreed_columns((request.location, request.their_location), sides))
    plan, _ = _planned(request, sides, Matching(request.on))
    if not may_settle(plan.conflicts):
        return plan
    _check_names(request, sides)
    open_sides = replace(sides, settling=True, prefer=request.prefer, by_cells=request.settles_cells)
    chosen, matching = bool(request.prefer or request.resolve), Matching(request.on, asks=bool(request.resolve))
    try:
        compared, twins = _planned(request, open_sides, matching)
        if len(twins):
            matching = matching._replace(twins=twins)
            compared, _ = _planned(request, open_sides, matching)
    except NotCommittable:
        if chosen:
            raise
        return plan
    if request.resolve is not None and compared.cells is not None and compared.cells.open:
        place = place_of((request.location, request.their_location), compared.sides)
        given = resolved(place, compared.cells, compared.cells.keys, request.resolve)
        compared, _ = _planned(request, open_sides, matching._replace(given=given))
    if chosen:
        return compared
    rows = 0 if compared.cells is None else compared.cells.rows
    return replace(plan, conflicts=with_contested(plan.conflicts, compared.conflicts, rows))


def _check_names(request: Request, sides: change_rules.Sides) -> None:
    """Raise NotFound for a column that no side has: without its entry, ``*`` would decide about the column meant."""
    snapshots = (sides.base_ours, sides.ours, sides.base_theirs, sides.theirs)
    fields = (field for snapshot in snapshots for field in snapshot.contents.fields if field.parent_id == -1)
    known = [*dict.fromkeys(field.name for field in fields)]
    preferred = () if request.prefer.many else (name for name, _ in request.prefer.columns)
    for name in (*request.on, *preferred):
        if name not in known:
            raise unknown_column(name, known)


def _planned(request: Request, sides: change_rules.Sides, matching: Matching) -> tuple[ReplayPlan, Addresses]:
    """The plan, and the addresses of rows that both sides added under one key, of which one may stay."""
    there, places = request.their_location, (request.location, request.their_location)
    sides, followed, settled = _settled(request, sides, matching)
    change = settled.change
    conflicts = [*change.conflicts, *followed.conflicts, *settled.conflicts]
    deletions: dict[int, tuple[int, ...]] = {**settled.deletions}
    back = {**change.followed.back}
    for replacement in change.replaced:
        if replacement.both_deleted and replacement.ours.id not in deletions:
            other = other_rows(places, sides, replacement)
            conflicts += other.conflicts
            if other.dead is None:
                deletions[replacement.ours.id] = other.deletions
            else:
                back[replacement.ours.id] = other.dead
    change = change_rules.with_rows_back(change, back)
    conflicts += blank_rows(places, sides, change.replaced)
    settles = settled.cells is not None and bool(settled.cells.rows)
    made = matching.given is not None or bool(settled.cells and settled.cells.emptied)
    settings = merge_settings(sides, request.prefer, conflict_rules.result_fields(sides, change))
    lacking, without = lacking_defaults(sides, change, conflict_rules.result_fields(sides, change))
    result = ResultRows(places, sides, change, settings, deletions, followed.ours_old, settles, made, lacking)
    conflicts += [*map(sides.conflict, settings.conflicts), *result.conflicts()]
    found = result.twins() if sides.settling and not len(matching.twins) else NO_TWINS
    change = replace(change, notes=tuple(dict.fromkeys((*settings.notes(), *change.notes, *without, *result.notes()))))
    blobs = bool(change.added or change.replaced) and bool(scanning.blob_columns(there, sides.theirs.pin))
    placed = place(change, sides.ours, sides.theirs, request.reference, sidecars=blobs)
    nulls = NullChange() if conflicts else result.null_change(request.one_version)
    merges_columns = False
    if not conflicts:
        change = _with_dead_rows(there, sides, change, placed)
        emptied = _empties(sides.ours, change, deletions, back)
        change_rules.check_key(sides, change)
        rest = conflict_rules.without_nulls(change, nulls)
        hint = partial(in_steps, sides.theirs.pin, sides.their_steps)
        merges_columns = change_rules.operation_for(rest, sides.ours, emptied, hint) == "Merge"
        if merges_columns:
            change_rules.check_names(sides, rest)
            conflict_rules.check_taken(sides, rest)
        Assembly.of(sides, change, placed, {}).check_row_ids(rest, sides.their_steps)
    plan = ReplayPlan(
        sides=sides,
        change=change,
        placed=placed,
        trace=request.trace,
        message=request.message,
        deletions=deletions,
        cells=settled.cells,
        conflicts=tuple(conflicts),
        rewrites=row_ids.taken_over(
            (*sides.their_steps.rewrites, *sides.kinship.earlier.rewrites), sides.base_theirs.contents
        ),
        lacking=lacking,
        nulls=nulls,
        settings=settings,
    )
    if merges_columns:
        replay_commits.check_indexes(request.location, there, plan)
    return plan, found


def _settled(
    request: Request, sides: change_rules.Sides, matching: Matching
) -> tuple[change_rules.Sides, FollowedChange, SettledCells]:
    """What ours takes from theirs; where no version tells where rows are, their values do, before it is a conflict."""
    places = request.location, request.their_location
    engine = request.engine

    def settle_all(sides: change_rules.Sides) -> tuple[change_rules.Sides, FollowedChange, SettledCells]:
        followed = follow_rows(request, sides, compare(sides))
        change_rules.check_supported(sides, followed.change)
        return sides, followed, settle_cells(places, sides, followed.change, engine or LocalRunner(), matching)

    first = settle_all(sides)
    _, followed, settled = first
    reasons = {clash.reason for clash in (*followed.change.conflicts, *followed.conflicts)}
    if TAKEN_BEFORE in reasons and engine and request.unshared and request.unshared.certainly(sides, places, engine):
        sides = replace(sides, unshared=True)
        first = settle_all(sides)
        _, followed, settled = first
    if not may_find_rows([*followed.change.conflicts, *followed.conflicts, *settled.conflicts]):
        return first
    found = engine and with_rows_found(places, sides, engine)
    return settle_all(found) if found else first


def _with_dead_rows(
    there: DatasetLocation, sides: change_rules.Sides, change: change_rules.MergeChange, placed: Placed
) -> change_rules.MergeChange:
    """The change with the deleted rows of new fragments whose other rows keep their ids; deleted rows need no ids."""
    mixed = Assembly.of(sides, change, placed, {}).mixed(change)
    if not mixed:
        return change
    dead = {entry.id: tuple(deleted_offsets(there, sides.theirs, entry).to_pylist()) for entry in mixed}
    return replace(change, followed=replace(change.followed, dead=dead))


def _empties(
    ours: format_versions.Snapshot,
    change: change_rules.MergeChange,
    deletions: Mapping[int, Sequence[int]],
    back: Mapping[int, Sequence[int]],
) -> bool:
    """Whether a plan takes the last rows of a fragment of ours."""
    followed = change.followed.deletions
    return (
        any(0 < len(deletions.get(each.ours.id, ())) == each.ours.rows for each in change.replaced)
        or (bool(followed) and any(len(followed.get(each.id, ())) == each.rows for each in ours.contents.fragments()))
        or any(len(back.get(each.ours.id, ())) == each.ours.physical_rows for each in change.replaced)
    )


def _sides(request: Request) -> change_rules.Sides:
    read = lru_cache(maxsize=None)(request.reader.snapshot)
    there = request.their_location
    ours, theirs = read(request.location, request.ours), read(there, request.theirs)
    try:
        base_ours = read(request.location, request.base_ours)
        base_theirs = read(there, request.base_theirs)
    except NotFound as missing:
        what = f"is the last common version of {request.ours} and {request.theirs}"
        raise _gone(f"{request.base_ours} {what}, and it no longer exists", missing) from None
    ids, certain = _field_ids(request, ours, base_theirs, theirs)
    kinship = _kinship(request)
    steps = since(
        steps_between((request.reader, there), request.theirs, request.base_theirs, request.their_path),
        request.numbering,
    )
    return change_rules.Sides(
        base_ours=base_ours if request.our_numbering is None else renumbered(base_ours, ids.base),
        ours=replace(ours, pin=stamped(request.location, request.ours)),
        base_theirs=renumbered(base_theirs, ids.base),
        theirs=replace(renumbered(theirs, ids.theirs), pin=stamped(there, request.theirs)),
        our_steps=since(
            steps_between((request.reader, request.location), request.ours, request.base_ours, request.our_path),
            request.our_numbering,
        ),
        their_steps=renumbered_steps(steps, ids.theirs),
        kinship=replace(kinship, earlier=renumbered_steps(kinship.earlier, ids.theirs)),
        numbering=_numbering(request, ours),
        their_ids=ids.theirs,
        spare_ids=ids.spare,
        certain_ids=certain,
        our_numbering=_row_numbering(request, base_ours),
        same_below=_next_row_id(request, request.location, request.fork, ours),
        their_same_below=_next_row_id(request, there, request.their_fork, ours),
        keeps_ids=request.keeps_ids,
        by_cells=request.by_cells,
    )


def _field_ids(
    request: Request, ours: format_versions.Snapshot, base: format_versions.Snapshot, theirs: format_versions.Snapshot
) -> tuple[Numbering, bool]:
    """The field ids by which both sides are compared, and whether they are certain."""
    fields, lost = base.contents.fields, list[PinnedVersion]()

    def ids(
        side: format_versions.Snapshot, location: DatasetLocation, taken: PinnedVersion | None
    ) -> Mapping[int, int] | None:
        if taken is None or is_known(fields, side.contents.fields):
            return None
        try:
            return matched(fields, request.reader.contents(location, taken).fields)
        except NotFound:
            lost.append(taken)  # a cleanup removed it: by their ids, columns are found to be others
            return None

    in_ours = ids(ours, request.location, request.our_numbering)
    in_theirs = ids(theirs, request.their_location, request.numbering)
    return number(ours, fields, theirs.contents.fields, (in_ours, in_theirs)), request.certain_ids and not lost


def _kinship(request: Request) -> change_rules.Kinship:
    path, there = request.earlier_path, (request.reader, request.their_location)
    earlier = steps_between(there, request.theirs, request.base_theirs, path or ())
    earlier = replace(earlier, complete=path is not None and earlier.complete)
    return change_rules.Kinship(request.shares, path == (), earlier)


def _numbering(request: Request, ours: format_versions.Snapshot) -> format_versions.Snapshot | None:
    if request.numbering is None or not ours.contents.has_stable_row_ids:
        return None
    try:
        return request.reader.snapshot(request.their_location, request.numbering)
    except NotFound as missing:
        what = "took in the last common version, and it no longer exists"
        raise _gone(f"{request.numbering} {what}, so rows cannot keep their stable ids", missing) from None


def _next_row_id(
    request: Request, location: DatasetLocation, fork: PinnedVersion | None, ours: format_versions.Snapshot
) -> int:
    """The next stable row id of the version that two chains were forked from; 0 if that is gone or unknown."""
    if fork is None or not ours.contents.has_stable_row_ids:
        return 0
    try:
        return request.reader.contents(location, fork).next_row_id
    except NotFound:
        return 0


def _row_numbering(request: Request, base: format_versions.Snapshot) -> format_versions.Snapshot | None:
    """A version with rows of the base under their ids in ours; None if there is none any more."""
    if not base.contents.has_stable_row_ids or request.row_numbering is None:
        return None
    if request.row_numbering == request.base_ours:
        return base
    try:
        return request.reader.snapshot(request.location, request.row_numbering)
    except NotFound:
        return None


def _gone(what: str, missing: NotFound) -> NotCommittable:
    return NotCommittable(
        f"{what}: {missing.message}",
        hint="Write the rows to the branch instead. This package's cleanup() keeps such versions.",
    )


# --- Settling contests from deletion files


class FollowedChange(NamedTuple):
    change: change_rules.MergeChange
    conflicts: tuple[change_rules.MergeConflict, ...] = ()
    ours_old: Mapping[int, row_ids.Runs] = {}
    """Rows of the base in new fragments of ours, by fragment."""


def follow_rows(request: Request, sides: change_rules.Sides, change: change_rules.MergeChange) -> FollowedChange:
    """Settle the contest of a change, if it has one. Raises NotFound if an existing version lacks a deletion file.

    A compaction whose deletion files are gone does not count.
    """
    if change.contest is None:
        return FollowedChange(change)
    settled = settle(sides, change, _deleted(request, sides, change.contest))
    reasons: defaultdict[str, list[tuple[change_rules.BasePair, tuple[int, ...]] | None]] = defaultdict(list)
    for clash in settled.clashes:
        reasons[clash.reason].append(None if clash.pair is None else (clash.pair, clash.offsets))
    conflicts = []
    for reason, several in reasons.items():
        known = [entry for entry in several if entry is not None]
        rows = tuple(
            row
            for pair, offsets in known[:1]
            for row in examples(request.location, sides.base_ours, pair.base, offsets)
        )
        conflicts.append(sides.conflict(reason, {pair.base.id for pair, _ in known}, rows))
    conflicts += taken_before(sides, settled.change)
    notes = (*change.notes, *rows_without_values(sides, settled.change))
    followed = replace(settled.change, notes=notes)
    return FollowedChange(followed, tuple(conflicts), settled.ours_old)


def _deleted(request: Request, sides: change_rules.Sides, contest: change_rules.Contest) -> row_ids.Deleted:
    """The deleted rows of every fragment of a contest."""
    held = (
        Held(sides.ours, contest.ours),
        Held(sides.theirs, contest.theirs),
        Held(sides.base_ours, [pair.base for pair in contest.pairs if pair.base is not pair.before]),
        Held(sides.base_theirs, [pair.before for pair in contest.pairs]),
    )
    reader = DeletionReader(request.location, sides.ours.pin, partial(open_root, request))
    return known_deletions(reader, held, contest.rewrites)


# --- Carrying a plan out: copy files, commit one version, carry indexes


class PreparedReplay(NamedTuple):
    """A replay whose files are copied: only its commit is left. Nobody sees anything of it yet."""

    request: Request
    plan: ReplayPlan
    ran_on: str | None = None
    """Where the copy ran; None if there was nothing to copy."""


def replay(make: Callable[[], Request], engine: Engine, dry_run: bool = False) -> MergeResult:
    """Plan and carry out. After a concurrent commit, ``make`` is called again for the newest versions.

    Raises Conflict, which names what clashes, Refused or NotFound; then nothing was changed.
    """
    if dry_run:
        engine.tell(WorkProgress("compare versions"))
        request = replace(make(), engine=engine)
        return _result(request, plan_replay(request), dry_run=True)
    for left in attempts():
        prepared = prepare(make, engine)
        try:
            done, version = _committed(prepared, engine)
        except Conflict:
            if not left:
                raise
            continue
        return _carried(done, version, engine)
    raise overtaken(make().ours.branch)


def prepare(make: Callable[[], Request], engine: Engine) -> PreparedReplay:
    """Plan a replay and copy its files. At most, ours learns about places to read files from. Raises like replay()."""
    for _ in attempts():
        engine.tell(WorkProgress("compare versions"))
        request = replace(make(), engine=engine)
        plan = plan_replay(request)
        check_plan(plan, request)
        if request.alone and not _may_go_on(request, plan):
            continue
        if plan.is_up_to_date:
            return PreparedReplay(request, plan)
        if not plan.placed.new_bases:
            with _denied(request, plan):
                return PreparedReplay(request, _with_cells(request, plan, engine), _copied(request, plan, engine))
        replay_commits.add_bases(
            request.location, request.ours.branch, plan.placed.new_bases
        )  # next time they have ids
    raise overtaken(make().ours.branch)


def commit_prepared(prepared: PreparedReplay, engine: Engine) -> MergeResult:
    """Commit a prepared replay and carry indexes over. Raises Conflict after a concurrent commit: prepare it again.

    The same if a cleanup deleted the copies, while other tables were prepared for hours.
    """
    request, plan, _ = prepared
    written = [f"data/{file['path']}" for file in (*plan.patched.values(), *plan.filled.values())]
    check_written(open_root(request, plan.ours.root.uri), None, [*(copy.target for copy in plan.copies), *written])
    return _carried(*_committed(prepared, engine), engine)


def _committed(prepared: PreparedReplay, engine: Engine) -> tuple[PreparedReplay, int | None]:
    """What was committed, and its version; None if there was nothing to commit. Raises Conflict; then it was not."""
    request, plan, _ = prepared
    if plan.is_up_to_date and not plan.is_agreed:
        return prepared, None
    engine.tell(WorkProgress("commit"))
    with _denied(request, plan):
        if plan.settings:
            version = replay_commits.commit_settings(request.location, plan)
            if not plan.change and not plan.only_settles:
                return prepared, version
            after = _after(request, version)
            rest = prepare(lambda: after, engine)
            told = replace(rest.plan.change, notes=(*plan.settings.notes(), *rest.plan.change.notes))
            return _committed(rest._replace(plan=replace(rest.plan, change=told)), engine)
        return prepared, _commit(prepared)


def _after(request: Request, version: int) -> Request:
    """The request for the next version of ours, which has the settings that came with it."""
    path = request.our_path
    if path is not None:
        path = (*path, VersionSpan(request.ours.branch, request.ours.version, version))
    return replace(request, ours=pin_version(request.location, request.ours.branch, version), our_path=path)


def _commit(prepared: PreparedReplay) -> int:
    request, plan, _ = prepared
    if plan.is_up_to_date:
        return replay_commits.commit_record(request.location, plan)
    if plan.nulls.fields and not plan.nulls.is_all:
        replay_commits.commit_nulls(request.location, plan)
        raise overtaken(request.ours.branch)  # by ourselves: the rest is planned again on top of it
    if plan.only_settles:
        return replay_commits.commit_record(request.location, plan)
    return replay_commits.commit(request.location, request.their_location, plan, request.alone)


def _carried(prepared: PreparedReplay, version: int | None, engine: Engine) -> MergeResult:
    """The result of a committed replay, with its indexes."""
    request, plan, ran_on = prepared
    result = replace(_result(request, plan), version=version, ran_on=ran_on)
    if not request.with_indexes:
        return result
    engine.tell(WorkProgress("carry indexes"))
    carried, missing = replay_commits.carry_indexes(request.location, request.their_location, plan, result.version)
    return replace(result, indexes_carried=carried, indexes_missing=missing)


@contextmanager
def _denied(request: Request, plan: ReplayPlan) -> Iterator[None]:
    """Says in the error of a denied step what it left behind."""
    try:
        yield
    except PermissionDenied as denied:
        raise (denied.saying(_left(request, plan)) if denied.of_change else denied) from None


def _may_go_on(request: Request, plan: ReplayPlan) -> bool:
    """Whether ours is still the newest version; not looked up if the commit does so soon.

    It does not if there is nothing to commit, and not soon after a lot was copied. Raises Refused for a lot of copies
    for a protected branch.
    """
    if not plan.is_up_to_date:
        if sum(copy.size for copy in plan.copies) <= LITTLE_COPY:
            return True
        check_unprotected(request.location, request.ours.branch)
    newest = next(versions.newest_first(request.location, request.ours.branch), None)
    return newest is not None and newest[0] == request.ours.version


def _copied(request: Request, plan: ReplayPlan, engine: Engine) -> str | None:
    """Copy the files, unless this process may not commit: nothing else could use the copies.

    Copies cannot be deleted again. They carry the names of their originals, and another process may be committing the
    same merge.
    """
    if plan.copies:
        check_may_commit(request.location, request.ours.branch)
    return copy_files(plan, partial(open_root, request), engine)


def _with_cells(request: Request, plan: ReplayPlan, engine: Engine) -> ReplayPlan:
    """The plan with the files of its merged rows and of defaults, which are written now."""
    if not plan.change.patches and not plan.lacking:
        return plan
    check_may_commit(request.location, request.ours.branch)
    places = (request.location, request.their_location)
    patched = write_patches(places, plan.sides, plan.change.patches, plan.cells, plan.lacking, engine)
    return replace(plan, patched=patched, filled=write_defaults(places, plan.sides, plan.lacking_files, engine))


def _left(request: Request, plan: ReplayPlan) -> str:
    """What remains of a plan that could not be carried out."""
    root = open_root(request, plan.ours.root.uri)
    copied = sum(files.exists(root, copy.target) for copy in plan.copies)
    where = f" at {request.location.uri}" if request.remote is not None else ""
    if copied:
        return f"No version was made{where}; a cleanup removes the {counted(copied, 'file')} already copied."
    return f"Nothing was changed{where}."


def check_plan(plan: ReplayPlan, request: Request) -> None:
    """Raise Conflict, which names what clashes."""
    if plan.conflicts:
        told = (each.lines() for each in plan.conflicts[:10])
        listed = "".join("\n      ".join([f"\n  - {head}", *rows]) for head, *rows in told)
        more = f"\n  - {len(plan.conflicts) - 10} more" if len(plan.conflicts) > 10 else ""
        problem = Conflict(
            f"{request.theirs} cannot be combined with {request.ours}; nothing was changed.{listed}{more}",
            hint=hint_for(plan.conflicts, request.again, request.prefer, request.on),
        )
        problem.conflicts = plan.conflicts
        raise problem


def _result(request: Request, plan: ReplayPlan, dry_run: bool = False) -> MergeResult:
    return MergeResult(
        action=plan.trace.action,
        into=request.ours.branch or MAIN,
        source=str(plan.trace.source),
        base=str(request.base_theirs),
        version=None,
        fast_forward=plan.sides.is_fast_forward,
        up_to_date=plan.is_up_to_date,
        summary=plan.summary(),
        conflicts=plan.conflicts,
        hint=hint_for(plan.conflicts, request.again, request.prefer, request.on) if plan.conflicts else "",
        notes=(*plan.change.notes, *plan.notes_on_cells),
        dry_run=dry_run,
    )


# --- Cherry-pick and revert: the change of one version, forwards or backwards


def _replay_one(
    action: str,
    location: DatasetLocation,
    pin: PinnedVersion,
    into: str | None,
    engine: Engine,
    options: MergeOptions | None = None,
) -> MergeResult:
    """Commit the change of one version, or its opposite. Raises Conflict, Refused or NotFound, and changed nothing."""
    options = options or MergeOptions()
    check_writable(location, into)
    return replay(pick_requests(location, pin, into, action, options), engine, options.dry_run)


cherry_pick = partial(_replay_one, format_versions.CHERRY_PICK)
revert = partial(_replay_one, format_versions.REVERT)


def pick_requests(
    location: DatasetLocation,
    pin: PinnedVersion,
    into: str | None,
    action: str,
    options: MergeOptions,
    publish: str = "",
) -> Callable[[], Request]:
    """Makes requests for the change of one version: forwards for a cherry-pick, otherwise backwards.

    Backwards only by rows: merged by cells, a row that was deleted after the reverted update would be back.
    """
    before = version_before(location, pin)
    base, theirs = (before, pin) if action == format_versions.CHERRY_PICK else (pin, before)

    def make() -> Request:
        ours, graph = pin_latest(location, into), Graph(location)
        common = graph.bases(base, ours)
        return Request(
            location=location,
            ours=ours,
            theirs=theirs,
            base_ours=base,
            base_theirs=base,
            our_path=graph.path(ours, graph.node(base), base),
            their_path=(VersionSpan(pin.branch, before.version, pin.version),),
            trace=replace(trace_of(graph, action, pin), publish=publish),
            message=options.message or f"{action.capitalize()} {pin}",
            numbering=None if into == pin.branch else base,
            certain_ids=into == pin.branch,
            reader=graph.reader,
            by_cells=options.conflicts == CELLS and action == format_versions.CHERRY_PICK,
            settles_cells=options.conflicts == CELLS,
            on=names_of(options.on),
            prefer=options.preferred,
            resolve=options.resolve,
            again=None if publish else partial(pick_again, pin, into, action),
            row_numbering=numbering_of_pick(graph, ours, base, common),
            fork=graph.fork_of(ours, base),
            shares=action == format_versions.CHERRY_PICK and graph.share(theirs, ours, base),
            earlier_path=graph.path(base, common[0], ours) if len(common) == 1 else None,
        )

    return make


def version_before(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    """The version that a version was made from. Raises Refused if it has none."""
    older = [version for version in versions.version_numbers(location, pin.branch) if version < pin.version]
    if not older:
        raise Refused(
            f"{pin} is the oldest existing version of '{pin.branch or MAIN}', so its change is unknown.",
            hint="Pick or revert a version that has another one before it on its branch.",
        )
    if older[-1] != pin.version - 1:
        raise Refused(
            f"The version before {pin} was cleaned up; the nearest is {older[-1]}, {pin.version - older[-1]} versions "
            "older.",
            hint="Merge the branch, or write the rows again.",
        )
    return PinnedVersion(pin.branch, older[-1])
