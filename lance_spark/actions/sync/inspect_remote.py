"""Reads what a remote has, as far as a fetch needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lance_spark import hints
from lance_spark.actions.sync.tracking_branches import is_own_push
from lance_spark.errors import CorruptData, NotFound
from lance_spark.history.entries import words_for
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import UNKNOWN, Transaction
from lance_spark.merge.trace import ACTION, PUSH, RECEIVE, read_trace
from lance_spark.refs.model import Branch, PinnedVersion, RefTable
from lance_spark.refs.names import MAIN, is_dataset_directory
from lance_spark.refs.resolve import missing
from lance_spark.store import refs, version_listing
from lance_spark.store.datasets import open_latest
from lance_spark.store.parallel import each
from lance_spark.store.version_cache import VersionCache
from lance_spark.sync.fetch_steps import Received, RemoteChain, RemoteMerge, reshaping, with_parents
from lance_spark.sync.merge_notes import merged_notes
from lance_spark.sync.tracking import Follows, read_follows


@dataclass(frozen=True)
class RemoteHistory:
    """The branches of a remote, and the cache through which their versions are read."""

    location: DatasetLocation
    table: RefTable
    reader: VersionCache


def look(
    local: DatasetLocation,
    remote: DatasetLocation,
    follows: Mapping[str | None, Follows],
    chosen: Collection[str | None] | None = None,
    reader: VersionCache | None = None,
) -> dict[str | None, RemoteChain]:
    """The remote's branches, or some of them with their ancestors. Raises NotFound, StorageFailure.

    Branches that follow another dataset are left out, and so are branches that cannot be followed from here.
    """
    reader = reader or VersionCache()
    table = refs.read_branches(remote)
    own = {
        name: branch
        for name, branch in table.branches.items()
        if read_follows(branch) is None and _can_be_followed(name)
    }
    forks = {name: _fork(table, own, branch) for name, branch in own.items()}
    names: set[str | None] = {None, *own}
    if chosen is not None:
        for name in chosen:
            if name not in names:
                open_latest(remote)  # without a dataset, that is what is missing
                raise missing("branch", name or MAIN, [MAIN, *own])
        names = with_parents(chosen, {name: fork for name, fork in forks.items() if fork is not None})
    versions = dict(zip(names, each(remote, partial(version_listing.version_numbers, remote), names), strict=True))
    chains = {}
    for name in names:
        if not versions[name]:
            if name is None:
                raise NotFound(
                    f"There is no Lance dataset at {remote.uri}.",
                    hint=hints.of("Check the place of the remote; if it was moved: ", hints.set_url("NAME"), "."),
                )
            raise CorruptData(f"Branch '{name}' of {remote.uri} has no versions.")
        chain = RemoteChain(
            branch=name,
            identity="" if name is None else own[name].identity,
            versions=tuple(versions[name]),
            fork=None if name is None else forks[name],
        )
        there = RemoteHistory(remote, table, reader)
        chains[name] = _with_history(local, there, chain, follows.get(name))
    return chains


def _fork(table: RefTable, own: Collection[str], branch: Branch) -> PinnedVersion | None:
    """The version of a followed branch that a branch descends from; its own parent may not be followed."""
    fork = branch.fork
    while fork is not None and fork.branch is not None and fork.branch not in own:
        between = table.branches.get(fork.branch)
        before = None if between is None else between.fork
        fork = None if before is None else PinnedVersion(before.branch, min(fork.version, before.version))
    return fork


def _can_be_followed(name: str) -> bool:
    """Whether there may be a branch ``origin/<name>``: not if it would lie among the files of another branch."""
    return not is_dataset_directory(name.partition("/")[0])


def _with_history(
    local: DatasetLocation, there: RemoteHistory, chain: RemoteChain, follows: Follows | None
) -> RemoteChain:
    """The branch with its merges and the pushes from here, among the versions that were not fetched yet."""
    newest = None if follows is None else follows.newest
    if newest is not None:
        after = newest.remote
    elif chain.fork is not None:
        after = chain.fork.version
    else:
        return chain  # begins with the newest version: what was before it is not fetched
    versions = [version for version in chain.versions if version > after]
    branches = there.table.branches.values()
    names = {branch.identity: branch.name for branch in branches}
    taken, received = {}, []
    transactions = there.reader.transactions(there.location, chain.branch, versions)
    operations = {version: "" if made is None else made.operation for version, made in transactions.items()}
    told = {}
    for version, transaction in transactions.items():
        told[version] = _words(version, transaction)
        trace = None if transaction is None else read_trace(transaction.properties)
        if trace is None:
            continue
        if trace.takes_in and (not trace.source_id or trace.source_id in names):
            taken[version] = trace.source
        if trace.action == RECEIVE and is_own_push(local, trace):
            received.append(Received(version, trace.source))
    for note in merged_notes(branches):
        if note.into == chain.identity and (not note.source.chain or note.source.chain in names):
            source = PinnedVersion(names.get(note.source.chain), note.source.version)
            taken.setdefault(note.at, source)
    return replace(
        chain,
        taken=tuple(RemoteMerge(at, source) for at, source in sorted(taken.items())),
        received=tuple(received),
        reshaped=reshaping(operations),
        told=told,
    )


def _words(version: int, transaction: Transaction | None) -> str:
    """What made a version, as a log says it, and the first line of its message."""
    if transaction is None:
        return words_for(version, UNKNOWN, None)
    action = transaction.properties.get(ACTION)
    said = words_for(version, transaction.operation, PUSH if action == RECEIVE else action)
    message = (transaction.message or "").strip().partition("\n")[0]
    return f"{said}: {message}" if message else said
