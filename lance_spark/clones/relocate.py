"""Relocation: after a dataset was moved or copied, its branches read from its current place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lance_spark import hints
from lance_spark.clones import base_commits, base_rules
from lance_spark.clones.base_commits import Head, canonical, list_sizes, read_head
from lance_spark.clones.identity import register_moved
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.refs import MAIN, RefTable
from lance_spark.core.texts import counted
from lance_spark.errors import Conflict, CorruptData, InvalidOption, NotFound, Refused, StorageFailure
from lance_spark.format.versions import ADDS_ONLY, MOVED, RELOCATE, Root, Trace
from lance_spark.scan.fragment_reads import blob_columns
from lance_spark.storage import files, refs
from lance_spark.storage.commits import attempts, overtaken
from lance_spark.storage.datasets import locate, locate_typed
from lance_spark.survey.survey import recorded_clones


def relocate(
    location: DatasetLocation, old: str | None = None, new: str | None = None, dry_run: bool = False
) -> base_rules.Relocation:
    """Check every base path of the newest version of main and each branch; repair those that lead to an old place.

    A base path is repaired if this dataset has every file read from it, at the same place below its root and in the
    same size; pylance's file names are unique. ``old`` names a former root, ``new`` the place to read instead (by
    default this dataset), which must have the files. Everything else stays as it is.

    Each branch gets up to three versions: for a new place, for indexes, for fragments. An interrupted repair can be run
    again. Raises Refused if ``new`` lacks files, NotFound if nothing is read from ``old``, Conflict if other processes
    keep committing.
    """
    move = _move(location, old, new)
    table = refs.read_refs(location)
    places = BasePathResolver(location, move)
    heads = [read_head(location, branch) for branch in (None, *sorted(table.branches))]
    states = {head.pin.branch: places.look(head) for head in heads}
    former = base_rules.former_roots(location.uri, (base for branch in states.values() for base in branch))
    states = {head.pin.branch: places.look_again(head, states[head.pin.branch], former) for head in heads}
    if move is not None:
        _check_named(move, (base for branch in states.values() for base in branch))
    of_sources = ("", "") if move is None or move.new == location.uri else (move.old, move.new)
    told = [] if dry_run else list(register_moved(location, *of_sources))  # first: what is read must be protected
    done = tuple(
        _relocated(
            location, table, places, _BranchRepair(head, states[head.pin.branch], trace_of(table, head)), dry_run
        )
        for head in heads
        if any(base.is_repaired for base in states[head.pin.branch])
    )
    bases = tuple(base for branch in states.values() for base in branch)
    former |= set() if move is None else {move.old}
    notes = [*_notes(location, former, bases), *told]
    return base_rules.Relocation(location.uri, bases, done, tuple(notes), dry_run)


def trace_of(table: RefTable, head: Head) -> Trace:
    """The trace of a repair's commits: their source is the branch itself."""
    branch = table.branches.get(head.pin.branch or "")
    return Trace(RELOCATE, head.pin, "" if branch is None else branch.identity)


def _move(location: DatasetLocation, old: str | None, new: str | None) -> Move | None:
    if old is None:
        if new is not None:
            raise InvalidOption("A new place was given without the old one.", hint="Name the place that it replaces.")
        return None
    move = Move(locate(old).uri, location.uri if new is None else locate_typed(new).uri)
    if is_within(move.old, location.uri):
        raise InvalidOption(f"{move.old} is this dataset's own place.", hint="Name the former place of the files.")
    if move.old == move.new:
        raise InvalidOption(f"{move.old} would be replaced by itself.")
    return move


def _check_named(move: Move, states: Iterable[base_rules.BaseState]) -> None:
    """Raise unless a branch reads from the named place and its files are in the new place."""
    named = [base for base in states if (uri := canonical(base.path)) is not None and is_within(uri, move.old)]
    if not named:
        raise NotFound(
            f"No branch reads from {move.old}.", hint=hints.of("To see all base paths: ", hints.RELOCATE_DRY_RUN, ".")
        )
    for base in named:
        if base.state == base_rules.INCOMPLETE and base.target is not None:
            few = "".join(f"\n  - {path}" for path in base.missing[:5])
            raise Refused(
                f"'{base.branch or MAIN}' needs {counted(len(base.missing), 'file')} not in {base.target.uri}; "
                f"nothing was changed.{few}",
                hint="Copy them there first.",
            )


@dataclass(frozen=True)
class _BranchRepair:
    head: Head
    states: tuple[base_rules.BaseState, ...]
    trace: Trace


def _relocated(
    location: DatasetLocation, table: RefTable, places: BasePathResolver, work: _BranchRepair, dry_run: bool
) -> base_rules.Relocated:
    """Repair a branch, unless it is a dry run; returns what was done."""
    moving = [base for base in work.states if base.moves]
    newest = work.head.pin
    older = base_commits.versions_naming(location, newest, {base.path for base in moving}) if moving else []
    tags = [tag.name for tag in table.tags.values() if tag.branch == newest.branch and tag.version in older]
    broken = {uuid for base in moving for uuid in base.broken}
    return base_rules.Relocated(
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
    """Commit until nothing is left to repair; returns the newest version. Every single step leaves a sound branch."""
    branch = work.head.pin.branch
    before: base_rules.Repair | None = None
    for _ in attempts():
        head, states = (work.head, work.states) if before is None else _newest(location, places, branch)
        repair = base_rules.repair_of(head.contents, head.uses, head.known, states)
        if not repair:
            return head.pin.version
        if repair == before:
            raise CorruptData(f"pylance did not apply the new base paths of '{branch or MAIN}'.")
        try:
            _step(location, head, repair, work.trace)
            before = repair
        except Conflict:
            before = base_rules.Repair()
            places.forget()
    raise overtaken(branch, "it is not repaired")


def _newest(
    location: DatasetLocation, places: BasePathResolver, branch: str | None
) -> tuple[Head, tuple[base_rules.BaseState, ...]]:
    head = read_head(location, branch)
    return head, places.look(head)


def _step(location: DatasetLocation, head: Head, repair: base_rules.Repair, trace: Trace) -> None:
    """One commit. Indexes come before fragments: while fragments name an old place, the next run recognizes it."""
    properties = {**trace.properties(f"Relocate to {location.uri}"), MOVED: "false", ADDS_ONLY: "true"}
    if repair.new_roots:
        base_commits.register(location, head.pin.branch, repair.new_roots, properties)
    elif repair.indexes or repair.dropped:
        base_commits.repoint_indexes(location, head, repair, properties)
    else:
        base_commits.repoint_fragments(location, head, repair, properties)


def _notes(location: DatasetLocation, former: Collection[str], bases: Iterable[base_rules.BaseState]) -> Iterator[str]:
    paths = sorted({base.path for base in bases if base.moves})
    if paths:
        yield (
            f"Older versions still read from {', '.join(paths)}. If that place is gone, a cleanup that keeps one of "
            "them has to know it (known_bases, --known-base)."
        )
    for old in sorted(former) if paths else ():
        for clone in sorted(set(recorded_clones(location).values())):
            yield (
                f"A clone of this dataset is recorded at {clone}. If it reads from the old place: "
                f"lance-git --dataset {clone} relocate --from {old} --to {location.uri}"
            )


# --- Finding where base paths lead


@dataclass(frozen=True)
class Move:
    """The user's claim: files of one root are now in another root."""

    old: str
    new: str


class BasePathResolver:
    """Finds where base paths lead. Listings are cached: files may be added meanwhile, but never change."""

    def __init__(self, location: DatasetLocation, move: Move | None) -> None:
        self._location = location
        self._move = move
        self._listed: dict[tuple[str, str], dict[str, int | None]] = {}
        self._there: dict[str, str] = {}

    def forget(self) -> None:
        self._listed.clear()

    def look(self, head: Head) -> tuple[base_rules.BaseState, ...]:
        """Where every base path of a version leads."""
        return tuple(self._with_home(head, use) for use in head.uses.values())

    def _with_home(self, head: Head, use: base_rules.BaseUse) -> base_rules.BaseState:
        home = Root(self._location.branch_uri(head.pin.branch))
        lying = [
            index.uuid
            for index in use.indexes
            if not self._missing(home, base_rules.index_files(index, is_dataset=True))
        ]
        base = replace(self._state(use.without(lying), _unused(head, use)), home=tuple(lying))
        if base.moves and base.target is not None and blob_columns(self._location, head.pin):
            base = self._with_blobs(use, base, base.target)
        return (
            replace(base, state=base_rules.MISPLACED)
            if lying and base.state in (base_rules.OK, base_rules.FOREIGN, base_rules.UNUSED)
            else base
        )

    def _with_blobs(self, use: base_rules.BaseUse, base: base_rules.BaseState, root: Root) -> base_rules.BaseState:
        """Blobs lie next to data files, and no manifest names them: only the old place shows which ones existed."""
        old = canonical(use.path)
        try:
            there = {} if old is None else list_sizes(DatasetLocation(old, self._location.options), "data")
        except StorageFailure:
            return base  # after a move, the old place may no longer be reachable
        stems = {file.path.removesuffix(".lance") for file in use.files}
        blobs = [base_rules.Needed(path, size or 0) for path, size in there.items() if path.rpartition("/")[0] in stems]
        lost = self._missing(root, tuple(blobs)) if blobs else []
        return replace(base, state=base_rules.INCOMPLETE, missing=tuple(lost)) if lost else base

    def look_again(
        self, head: Head, states: tuple[base_rules.BaseState, ...], former: Collection[str]
    ) -> tuple[base_rules.BaseState, ...]:
        """The states once former roots of this dataset are known: what is below such a root belongs to this dataset."""
        return tuple(self._again(head.uses[base.key], base, former) for base in states)

    def _again(
        self, use: base_rules.BaseUse, base: base_rules.BaseState, former: Collection[str]
    ) -> base_rules.BaseState:
        uri = canonical(use.path)
        for old in former if uri is not None and base.state == base_rules.FOREIGN else ():
            place = base_rules.moved(uri or "", old, self._location.uri)
            if place is not None:
                return self._verified(use, base, Root(place, use.is_dataset))
        return base

    def _state(self, use: base_rules.BaseUse, base: base_rules.BaseState) -> base_rules.BaseState:
        if not use.probes:
            return base
        uri = None if use.is_relative else canonical(use.path)
        if uri is not None and is_within(uri, self._location.uri):
            return replace(base, state=self._look_at(uri, base_rules.OK))
        if self._move is not None and uri is not None:
            target = base_rules.moved(uri, self._move.old, self._move.new)
            if target is not None:
                return self._verified(use, replace(base, state=base_rules.OLD), Root(target, use.is_dataset))
        here = self._counterpart(use, base)
        if here is not None:
            return here
        there = canonical(use.path)
        return replace(
            base, state=base_rules.UNREACHABLE if there is None else self._look_at(there, base_rules.FOREIGN)
        )

    def _counterpart(self, use: base_rules.BaseUse, base: base_rules.BaseState) -> base_rules.BaseState | None:
        """The place in this dataset that has the files; None if this dataset has none of them."""
        partly = None
        for place in base_rules.likely_places(
            (not use.is_relative and canonical(use.path)) or use.path, use.is_dataset
        ):
            root = Root(f"{self._location.uri}/{place}".rstrip("/"), use.is_dataset)
            if self._has_none(root, use):
                continue
            state = base_rules.OLD if use.generated else base_rules.UNCLEAR
            here = self._verified(use, replace(base, state=base_rules.RELATIVE if use.is_relative else state), root)
            if here.state != base_rules.INCOMPLETE:
                return here
            if partly is None or len(here.missing) < len(partly.missing):
                partly = here
        return partly

    def _verified(self, use: base_rules.BaseUse, base: base_rules.BaseState, root: Root) -> base_rules.BaseState:
        """The state if every file is at the root; otherwise INCOMPLETE. A missing index is dropped."""
        lost = self._missing(root, use.probes)
        broken = {index.uuid for index in use.indexes if index.fragments is None}
        broken |= {
            index.uuid for index in use.indexes if self._missing(root, base_rules.index_files(index, use.is_dataset))
        }
        state = base_rules.INCOMPLETE if lost else base.state
        return replace(base, state=state, target=root, missing=tuple(lost), broken=tuple(sorted(broken)))

    def _has_none(self, root: Root, use: base_rules.BaseUse) -> bool:
        """Whether none of the files of one directory are in a place; one listing is enough to rule a place out."""
        some = [file for file in use.probes if base_rules.directories([file]) == base_rules.directories(use.probes[:1])]
        return len(base_rules.missing(some, self._list(root.uri, base_rules.directories(some)[0]))) == len(some)

    def _missing(self, root: Root, needed: tuple[base_rules.Needed, ...]) -> list[str]:
        listed: dict[str, int | None] = {}
        for directory in base_rules.directories(needed):
            listed |= self._list(root.uri, directory)
        return base_rules.missing(needed, listed)

    def _list(self, uri: str, directory: str) -> Mapping[str, int | None]:
        if (uri, directory) not in self._listed:
            self._listed[uri, directory] = list_sizes(DatasetLocation(uri, self._location.options), directory)
        return self._listed[uri, directory]

    def _look_at(self, uri: str, if_there: str) -> str:
        """Whether a place exists. A store that does not answer proves nothing."""
        if uri not in self._there:
            try:
                there = files.exists(locate(uri, self._location.storage_options))
                self._there[uri] = if_there if there else base_rules.ABSENT
            except StorageFailure:
                self._there[uri] = base_rules.UNREACHABLE
        return self._there[uri]


def _unused(head: Head, use: base_rules.BaseUse) -> base_rules.BaseState:
    return base_rules.BaseState(
        branch=head.pin.branch,
        key=use.key,
        path=use.path,
        state=base_rules.UNUSED,
        files=len(use.files),
        indexes=tuple(sorted({index.name for index in use.indexes if not index.is_internal})),
    )
