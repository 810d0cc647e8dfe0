"""Push: send a local branch to a remote. Only as a fast-forward, and never over another process's commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import tracking
from lance_spark.core.ref_files import BRANCHES
from lance_spark.core.refs import MAIN, ROOT, Branch, PinnedVersion, RefTable
from lance_spark.engine.local import Engine
from lance_spark.errors import AlreadyExists, Conflict, NotCommittable, NotFound, Refused
from lance_spark.format.versions import BEGIN, RECEIVE, Trace, read_trace
from lance_spark.merge import replay_commits
from lance_spark.merge.ancestry import Graph, nothing_in_common
from lance_spark.merge.merge import Request, replay
from lance_spark.merge.report import MergeResult
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.fetch import (
    FetchOptions,
    Remote,
    RemoteHistory,
    Seen,
    check_free,
    fetch,
    followed,
    is_own_push,
    node_of,
    pusher,
    with_history,
    write_down,
)
from lance_spark.remotes.fetch_rules import RemoteChain, reshaping
from lance_spark.remotes.report import PushResult
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.datasets import find_latest, pin_latest, pin_version
from lance_spark.storage.followers import check_mergeable, check_writable
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.spelling import same_on_disk


@dataclass(frozen=True)
class PushOptions:
    message: str | None = None
    dry_run: bool = False


def push(
    local: DatasetLocation,
    remote: Remote,
    branch: str | None,
    engine: Engine,
    options: PushOptions | None = None,
) -> PushResult:
    """Update a remote's branch to the local branch of the same name, as one version if pylance can commit it.

    Copies the files that the remote lacks, then commits. Creates the remote's branch, and the remote, if they do not
    exist. Raises Refused unless the local branch has everything that the remote's branch has, including a push of
    another process a moment ago; then nothing was changed. The next push completes what an interrupted push left.
    """
    options = options or PushOptions()
    check_mergeable(local, branch)
    check_nothing_waits(local, pin_latest(local, branch), "the remote would not get them")
    known = None if options.dry_run else _look_up(local, remote, branch)
    if known is not None:
        with suppress(Refused, NotCommittable, NotFound):  # a full look comes next: then it succeeds, or says why not
            return _push_on_top(local, remote, known, options, engine)
    latest = find_latest(remote.location, None)
    begins = latest is None or _is_half_made(local, remote, latest)
    if begins:
        _check_never_fetched(local, remote)
        if options.dry_run:
            return PushResult(remote.name, remote.location.uri, branch or MAIN, True, None, dry_run=True)
        _create_remote(local, remote, branch)
    exists = branch is None or refs.read_branch(remote.location, branch) is not None
    if exists:
        check_writable(remote.location, branch)
    else:
        _check_spelling(remote, str(branch))
    fetched = fetch(local, remote, engine, FetchOptions(branches=[branch] if exists else None))
    if not exists and options.dry_run:
        return PushResult(remote.name, remote.location.uri, branch or MAIN, True, None, fetched.notes, dry_run=True)
    if not exists:
        _create_branch(local, remote, str(branch), engine)
    result = _bring(local, remote, branch, options, engine)
    if not options.dry_run:
        if result.version is not None or result.indexes_carried:
            # The next fetch would also find this push by its trace, so a crash here loses nothing.
            fetched = replace(fetched, notes=(*fetched.notes, *_fetched_after(local, remote, branch, engine)))
        tell(local, remote, branch)
    return PushResult(
        remote=remote.name,
        uri=remote.location.uri,
        branch=branch or MAIN,
        created=begins or not exists,
        replayed=result,
        notes=fetched.notes,
        dry_run=options.dry_run,
    )


def _check_spelling(remote: Remote, branch: str) -> None:
    """Raise Refused if the remote's disk would take a new branch for another one."""
    there = refs.taken_in_other_case(remote.location, branch)
    if there is not None:
        another = hints.of("Push it under another name: ", hints.create_branch("NEW", branch), ".")
        raise same_on_disk("branch", branch, there, another, f" at {remote.name}")


# --- A push to a branch that is where the last fetch or push left it
# That is known from here: the remote's other branches and versions need not be read. Whether it still is so is looked
# up when the version is committed.


@dataclass(frozen=True)
class _Known:
    """The remote's branch as the last fetch or push left it."""

    follows: tracking.Follows
    there: PinnedVersion
    ref: Branch | None
    """None for main."""
    reader: stored_versions.VersionCache


def _look_up(local: DatasetLocation, remote: Remote, branch: str | None) -> _Known | None:
    """The branch, if its version that was fetched last still exists and the last fetch was not interrupted."""
    follows = followed(refs.read_branches(local), remote.name).get(branch)
    if follows is None or follows.newest is None or follows.uri != remote.location.uri:
        return None
    if pin_latest(local, tracking.following_name(remote.name, branch)).version != follows.newest.local:
        return None
    there, reader = PinnedVersion(branch, follows.newest.remote), stored_versions.VersionCache()
    ref = None if branch is None else refs.read_branch(remote.location, branch)
    if branch is not None and (ref is None or ref.identity != follows.identity or tracking.read_follows(ref)):
        return None
    try:
        head = reader.contents(remote.location, there).head
    except NotFound:
        return None
    stamped = PinnedVersion(branch, there.version, head.timestamp_ns)
    return _Known(follows, stamped, ref, reader) if head.timestamp_ns == follows.stamp else None


def _push_on_top(
    local: DatasetLocation, remote: Remote, known: _Known, options: PushOptions, engine: Engine
) -> PushResult:
    branch = known.there.branch
    result = _replay(_Ends(local, remote, branch), pin_latest(local, branch), options, engine, known)
    notes: tuple[str, ...] = ()
    if result.version == known.there.version + 1 and not result.indexes_carried:
        versions = (known.there.version, result.version)
        chain = RemoteChain(branch, "" if known.ref is None else known.ref.identity, versions)
        table = RefTable({} if known.ref is None else {known.ref.name: known.ref}, {})
        history = RemoteHistory(remote.location, table, known.reader)
        seen = Seen(with_history(local, history, chain, known.follows), known.reader)
        notes = _fetched_after(local, remote, branch, engine, seen)
    elif result.version is not None or result.indexes_carried:
        notes = _fetched_after(local, remote, branch, engine)
    tell(local, remote, branch)
    return PushResult(remote.name, remote.location.uri, branch or MAIN, False, result, notes)


def _fetched_after(
    local: DatasetLocation, remote: Remote, branch: str | None, engine: Engine, seen: Seen | None = None
) -> tuple[str, ...]:
    """The notes of a fetch right after a push. A refusal is one of them: its error would say that nothing was changed.

    The next fetch finds the push by its trace.
    """
    try:
        return fetch(local, remote, engine, FetchOptions(branches=[branch]), seen).notes
    except Refused as problem:
        said = problem.message.removesuffix(" Nothing was changed.")
        return (f"it was pushed, but could not be fetched from {remote.name} afterwards: {said}",)


def _bring(
    local: DatasetLocation, remote: Remote, branch: str | None, options: PushOptions, engine: Engine
) -> MergeResult:
    """Push everything as one version; if pylance cannot commit that, add a version for each column change.

    If it cannot commit that either, rows that the remote had rewritten get new stable ids: a push that is refused for
    ever would be worse.
    """
    ends, pin = _Ends(local, remote, branch), pin_latest(local, branch)
    bring = _would_bring_steps if options.dry_run else _bring_steps
    with suppress(NotCommittable):
        return _replay(ends, pin, options, engine)
    for kinds in ({"Rewrite"}, {"Rewrite", "Update"}):
        with suppress(NotCommittable):
            return bring(ends, pin, options, engine, kinds)
    try:
        result = _replay(replace(ends, keeps_ids=False), pin, options, engine)
    except NotCommittable as problem:
        problem.hint = hints.of(
            "Compact the branch: ",
            hints.optimize(own_only=False),
            ", then push again. To take the remote's state, and keep your own rows on a branch: ",
            hints.pull(remote.name, branch or MAIN, reset=True),
            ".",
        )
        raise
    return replace(result, notes=(*result.notes, _NEW_IDS))


_NEW_IDS = "rows that this branch rewrote have new stable row ids at the remote, since pylance cannot keep them here"


def _would_bring_steps(
    ends: _Ends, pin: PinnedVersion, options: PushOptions, engine: Engine, kinds: Collection[str]
) -> MergeResult:
    """What the first of several steps would bring. Raises NotCommittable if there are none."""
    steps = [*_steps(ends.local, ends.remote, ends.branch, pin, kinds), pin]
    first = _replay(ends, steps[0], options, engine)
    note = f"in {len(steps)} steps, because pylance cannot commit all of it at once; this is the first"
    return replace(first, notes=(*first.notes, note))


def _bring_steps(
    ends: _Ends, pin: PinnedVersion, options: PushOptions, engine: Engine, kinds: Collection[str]
) -> MergeResult:
    """Push the versions that change columns, and those of some other kinds, one by one, and then the rest."""
    results = []
    for step in _steps(ends.local, ends.remote, ends.branch, pin, kinds):
        results.append(_replay(ends, step, PushOptions(), engine))
        fetch(ends.local, ends.remote, engine, FetchOptions(branches=[ends.branch]))
    return MergeResult.of_steps([*results, _replay(ends, pin, options, engine)])


def _steps(
    local: DatasetLocation, remote: Remote, branch: str | None, pin: PinnedVersion, kinds: Collection[str]
) -> list[PinnedVersion]:
    """Versions on the way to ``pin`` that contain everything the remote has."""
    graph = Graph(local)
    base = pin_latest(local, tracking.following_name(remote.name, branch))
    steps = []
    for stretch in graph.path(pin, graph.node(base), base):
        versions = [name for name in stored_versions.version_numbers(local, stretch.branch) if name > stretch.after]
        transactions = stored_versions.read_transactions(
            local, stretch.branch, [name for name in versions if name <= stretch.until]
        )
        operations = {version: "" if made is None else made.operation for version, made in transactions.items()}
        steps += [pin_version(local, stretch.branch, version) for version in reshaping(operations, kinds)]
    return [step for step in steps if step != pin and _is_forward(graph, step, base)]


@dataclass(frozen=True)
class _Ends:
    """The two datasets, and the branch of both."""

    local: DatasetLocation
    remote: Remote
    branch: str | None
    keeps_ids: bool = True
    """Whether rows keep their stable ids."""


def _replay(
    ends: _Ends, pin: PinnedVersion, options: PushOptions, engine: Engine, known: _Known | None = None
) -> MergeResult:
    local, remote, branch = ends.local, ends.remote, ends.branch
    following = tracking.following_name(remote.name, branch)
    first = [known]

    def make() -> Request:
        assumed = first.pop() if first else None  # once overtaken, only a look at the remote helps
        graph = Graph(local, reader=None if assumed is None else assumed.reader)
        base = pin_latest(local, following)
        follows = followed(graph.table, remote.name)[branch]
        there = pin_latest(remote.location, branch) if assumed is None else assumed.there
        _check_forward(graph, pin, base, remote, branch)
        if follows.newest is None or there.version != follows.newest.remote or there.stamp != follows.stamp:
            raise Refused(
                f"Another process pushed {there} to {remote.name} a moment ago.",
                hint=hints.of("Run ", hints.pull(remote.name, branch or MAIN), ", then push again."),
            )
        node = graph.node(base)
        return Request(
            location=remote.location,
            ours=there,
            theirs=pin,
            base_ours=there,
            base_theirs=base,
            trace=Trace(RECEIVE, pin, graph.identity(pin.branch), pusher(local, pin.stamp)),
            message=options.message or _message(local, pin),
            our_path=(),
            their_path=graph.path(pin, node, base),
            numbering=graph.numbering(pin, node, base) or base,
            their_fork=graph.fork_of(pin, base),
            certain_ids=True,
            keeps_ids=ends.keeps_ids,
            remote=local,
            reader=graph.reader,
            alone=True,
            one_version=True,
        )

    return replay(make, engine, options.dry_run)


def _check_forward(graph: Graph, pin: PinnedVersion, base: PinnedVersion, remote: Remote, branch: str | None) -> None:
    if not _is_forward(graph, pin, base):
        name = branch or MAIN
        if not graph.bases(pin, base):
            raise nothing_in_common(graph, pin, base)
        raise Refused(
            f"{remote.name} has versions of '{name}' that yours lacks, so this push is not a fast-forward.",
            hint=hints.of("Run ", hints.pull(remote.name, name), ", then push again."),
        )


def _is_forward(graph: Graph, pin: PinnedVersion, base: PinnedVersion) -> bool:
    node = graph.origin(base)
    return graph.held(pin, base).get(node.chain, -1) >= node.version


def _message(local: DatasetLocation, pin: PinnedVersion) -> str:
    transaction = stored_versions.read_transaction(local, pin)
    return (None if transaction is None else transaction.message) or f"Push {pin}"


def _check_never_fetched(local: DatasetLocation, remote: Remote) -> None:
    """Raise NotFound for a dataset that is gone: created again, it would name files that were deleted with it."""
    if any(follows.newest is not None for follows in followed(refs.read_refs(local), remote.name).values()):
        raise NotFound(
            f"The dataset of {remote.name} at {remote.location.uri} no longer exists.",
            hint=hints.of(
                "If it was moved: ", hints.set_url(remote.name), ". To push to a new place, add it as another remote."
            ),
        )


def _is_half_made(local: DatasetLocation, remote: Remote, latest: PinnedVersion) -> bool:
    """Whether a push of this dataset was interrupted while creating the remote, which then has no rows yet."""
    follows = followed(refs.read_refs(local), remote.name).get(None)
    if follows is not None and follows.newest is not None:
        return False
    transaction = stored_versions.read_transaction(remote.location, latest)
    trace = None if transaction is None else read_trace(transaction.properties)
    return trace is not None and trace.action == BEGIN and is_own_push(local, trace)


def _create_remote(local: DatasetLocation, remote: Remote, branch: str | None) -> None:
    """Create an empty dataset with the columns of the local one, and its following branch."""
    if branch is not None:
        raise NotFound(
            f"There is no dataset at {remote.location.uri}.",
            hint=hints.of("Push main first, which creates it: ", hints.push(remote.name, MAIN), "."),
        )
    pin = pin_latest(local, None)
    name = tracking.following_name(remote.name, None)
    begun = check_free(local, name)
    begin = Trace(BEGIN, pin, pusher=pusher(local, pin.stamp)).properties("Create the dataset")
    replay_commits.create(remote.location, local, stored_versions.read_snapshot(local, pin), begin, places=False)
    there = pin_latest(remote.location, None)
    if begun is None:
        create_branch_at(local, name, pin)
    follows = tracking.Follows(remote.name, remote.location.uri, None)
    write_down(local, follows, {ROOT: "true"})
    replay_commits.truncate(local, name, remote.location, there, Trace(BEGIN, there).properties(f"Begin {name}"))
    empty = pin_latest(local, name)
    table = refs.read_refs(local)
    graph = Graph(local, table)
    # Everything descends from a table without rows: all of main, and every branch created from it.
    oldest = min(stored_versions.version_numbers(local, None))
    edge = tracking.Edge("", oldest, graph.node(PinnedVersion(name, empty.version)))
    pair = tracking.VersionPair(empty.version, there.version)
    write_down(local, follows.with_pair(pair, there.stamp or 0).with_edges([edge]))


def _create_branch(local: DatasetLocation, remote: Remote, branch: str, engine: Engine) -> None:
    """Create the branch at the remote from the newest common version, and its following branch.

    The remote may have had the branch, and deleted it: then the branch here follows the new one from now on.
    """
    pin = pin_latest(local, branch)
    table = refs.read_refs(local)
    graph = Graph(local, table)
    best: tuple[int, tracking.Follows, tracking.VersionPair] | None = None
    names = {None, *refs.list_ref_names(remote.location, BRANCHES)}
    known = followed(table, remote.name)
    for follows in known.values():
        if follows.branch not in names:
            continue
        name = tracking.following_name(remote.name, follows.branch)
        held, there = graph.held(pin, pin_latest(local, name)), None
        for pair in follows.pairs:
            node = node_of(graph, follows, pair)
            if held.get(node.chain, -1) >= node.version and (best is None or best[0] < pair.remote):
                there = there or set(stored_versions.version_numbers(remote.location, follows.branch))
                if pair.remote not in there:
                    continue  # cleaned up at the remote
                best = (pair.remote, follows, pair)
    if best is None:
        raise Refused(
            f"'{branch}' and {remote.location.uri} have no common version, or it is no longer recorded.",
            hint=hints.of(
                "First push the branch that it was created from: ",
                hints.push(remote.name, MAIN),
                f". If the branches of {remote.name} were deleted here and fetched again, continue from one of those.",
            ),
        )
    _, follows, pair = best
    source = PinnedVersion(follows.branch, pair.remote)
    made = False
    with suppress(AlreadyExists):  # another process just created it; the fast-forward check comes later
        create_branch_at(remote.location, branch, source)
        made = True
    try:
        fetch(local, remote, engine, FetchOptions(branches=[branch]))
    except NotFound:
        # The branch's first manifest existed, which showed the branch, but its ref file was not written yet.
        raise Conflict(
            f"Another process is creating branch '{branch}' at {remote.location.uri}; nothing was pushed.",
            hint="Push again in a moment.",
        ) from None
    if made and branch in known:
        _follow_anew(local, remote, pin, source)


def _follow_anew(local: DatasetLocation, remote: Remote, pin: PinnedVersion, source: PinnedVersion) -> None:
    """Record that a local version has everything of the branch that was just made again at the remote.

    The branch here knows the former one only. Without this, it would have to merge the new one first, which has none of
    the former one's rows, and would lose them. If the new one has more than the version it was made from, others pushed
    meanwhile: the local version lacks their rows, and a push would remove them.
    """
    table = refs.read_branches(local)
    graph, follows = Graph(local, table), followed(table, remote.name)[pin.branch]
    if follows.newest is not None and follows.newest.remote == source.version:
        into = graph.origin(pin)
        write_down(local, follows.with_edges([tracking.Edge(*into, node_of(graph, follows, follows.newest))]))


# --- Notes at a remote about branches that contain each other


def tell(local: DatasetLocation, remote: Remote, branch: str | None) -> None:
    """Record at the remote what a pushed branch has in common with the remote's other branches.

    A push makes one version at the remote, without the merges that led to it. Merging the same branch there again would
    bring its rows twice.
    """
    table = refs.read_branches(local)
    known = followed(table, remote.name)
    pushed = known[branch]
    graph, reader, there = Graph(local, table), stored_versions.VersionCache(), None
    held = graph.held_by([tip for follows in known.values() if (tip := _tip(follows)) is not None])
    for other in known.values():
        if other.branch == branch:
            continue
        for into, source, pair in _meetings(graph, held, pushed, other):
            if _forks_show(graph, into, node_of(graph, source, pair)):
                continue
            there = Graph(remote.location, refs.read_branches(remote.location), reader) if there is None else there
            if _note(remote, there, into, PinnedVersion(source.branch, pair.remote)):
                there = None


def _tip(follows: tracking.Follows) -> PinnedVersion | None:
    """The newest fetched version, as the following branch has it."""
    if follows.newest is None:
        return None
    return PinnedVersion(tracking.following_name(follows.remote, follows.branch), follows.newest.local)


def _meetings(
    graph: Graph,
    held: Mapping[PinnedVersion, Mapping[str, int]],
    one: tracking.Follows,
    other: tracking.Follows,
) -> Iterator[tuple[tracking.Follows, tracking.Follows, tracking.VersionPair]]:
    """(containing branch, contained branch, newest version of that in the containing branch's newest version)."""
    for into, source in ((one, other), (other, one)):
        tip = _tip(into)
        if tip is None or source.newest is None:
            continue
        for pair in reversed(source.pairs):
            node = node_of(graph, source, pair)
            if held[tip].get(node.chain, -1) >= node.version:
                yield into, source, pair
                break


def _forks_show(graph: Graph, into: tracking.Follows, node: tracking.Node) -> bool:
    """Whether the branches that follow here fork as the remote's do, which then shows the fact without a note."""
    if into.newest is None:
        return False
    at = PinnedVersion(tracking.following_name(into.remote, into.branch), into.newest.local)
    return graph.origin(at).chain == node.chain or graph.inherits(at, node)


def _note(remote: Remote, there: Graph, into: tracking.Follows, source: PinnedVersion) -> bool:
    """Whether a note was written: only if the remote's own history does not show the fact."""
    names = {None, *there.table.branches}
    if into.newest is None or into.branch not in names or source.branch not in names:
        return False
    at, node = PinnedVersion(into.branch, into.newest.remote), there.origin(source)
    if there.origin(at).chain == node.chain or there.inherits(at, node) or _is_noted(there.table, there.node(at), node):
        return False
    if there.held(at, source).get(node.chain, -1) >= node.version:
        return False
    holder = into.branch if into.branch is not None else source.branch
    if holder is None:
        return False
    note = tracking.MergeNote(there.identity(into.branch), at.version, node)
    refs.replace_metadata(remote.location, holder, tracking.with_note(there.table.branches[holder].metadata, note))
    return True


def _is_noted(there: RefTable, at: tracking.Node, source: tracking.Node) -> bool:
    return any(
        note.into == at.chain
        and note.at <= at.version
        and note.source.chain == source.chain
        and note.source.version >= source.version
        for note in tracking.merged_notes(there.branches.values())
    )
