"""What a fetch brings, and in which steps.

In: the remote's branches, as far as they were not fetched yet. Out: the versions to fetch, in order. A fetch makes one
version of many versions of the remote. But it stops where the remote's chains touch, that is, where a branch was
created or merged: only a version that the local dataset has can be the last common version of a later merge. A merge
from an older version would bring rows again, or remove some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from lance_spark.core.declared import option
from lance_spark.core.records.tracking import Follows, VersionPair
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import InvalidOption

_REPLACES_ALL = frozenset({"Overwrite", "Restore"})
_SHOWN = 20
"""Number of versions that the message of a fetch lists."""
_CHANGES_COLUMNS = frozenset({"Merge", "Project"})


@dataclass(frozen=True)
class CloneOptions:
    deep: bool = option(False, "also copy the files, of all branches that are fetched", places=("shell", "sql"))
    dry_run: bool = option(False, "only show what would happen", short="n", places=("shell", "sql"))
    single_branch: bool = option(False, "follow only main and the branch of the ref", places=("shell", "sql"))


CloneKind = Literal["shallow", "deep"]


def is_deep(kind: CloneKind) -> bool:
    """Whether a clone has copies of the files. Raises InvalidOption for another word."""
    if kind not in get_args(CloneKind):
        raise InvalidOption(f"{kind!r} is not a kind of clone.", hint="A clone is 'shallow' or 'deep'.")
    return kind == "deep"


class RemoteMerge(NamedTuple):
    """A version of the remote that took in a version of another branch."""

    at: int
    source: PinnedVersion


class Received(NamedTuple):
    """A version of the remote that this dataset pushed."""

    at: int
    source: PinnedVersion
    """The version of this dataset that was pushed."""


@dataclass(frozen=True)
class RemoteChain:
    """One branch of a remote, as far as a fetch needs it."""

    branch: str | None
    identity: str
    versions: tuple[int, ...]
    """In ascending order, without those that were cleaned up."""
    fork: PinnedVersion | None = None
    taken: tuple[RemoteMerge, ...] = field(default=())
    """Among the versions that were not fetched yet."""
    received: tuple[Received, ...] = field(default=())
    reshaped: tuple[int, ...] = field(default=())
    """Versions not fetched yet that changed columns, and those right before; see :func:`reshaping`."""
    told: Mapping[int, str] = field(default_factory=dict)
    """What made each version not fetched yet, in words, with the first line of its message."""

    @property
    def head(self) -> int:
        return self.versions[-1]


class Meeting(NamedTuple):
    """A pair of one following branch that contains everything of a pair of another following branch."""

    branch: str | None
    pair: VersionPair
    source_branch: str | None
    source: VersionPair


def message_of(chain: RemoteChain, after: int, version: int, remote: str) -> str:
    """The message of a fetched version: it lists the versions of the remote in it, after one and up to another."""
    told = [f"{PinnedVersion(chain.branch, at)}  {said}" for at, said in chain.told.items() if after < at <= version]
    if not told:
        return f"Fetch {PinnedVersion(chain.branch, version)} of {remote}"
    shown = told[::-1][:_SHOWN]
    return "\n".join([*shown, *([f"and {len(told) - _SHOWN:,} older versions"] if len(told) > _SHOWN else [])])


def in_order(chains: Mapping[str | None, RemoteChain]) -> list[RemoteChain]:
    """Sort parents before the branches that were created from them."""
    ordered: dict[str | None, RemoteChain] = {}

    def visit(branch: str | None) -> None:
        chain = chains.get(branch)
        if chain is None or branch in ordered:
            return
        if chain.fork is not None and chain.fork.branch != branch:
            visit(chain.fork.branch)
        ordered[branch] = chain

    for branch in sorted(chains, key=lambda name: name or ""):
        visit(branch)
    return list(ordered.values())


def with_parents(names: Iterable[str | None], forks: Mapping[str, PinnedVersion]) -> set[str | None]:
    known: set[str | None] = set()
    for name in names:
        branch: str | None = name
        while branch not in known:
            known.add(branch)
            if branch is None or branch not in forks:
                break
            branch = forks[branch].branch
    return known


def stops(chain: RemoteChain, seen: int, until: int, others: Iterable[RemoteChain]) -> list[int]:
    """The versions of a chain to fetch one by one, after ``seen`` and up to ``until``; the last one is the target.

    Column changes are fetched separately: pylance cannot commit them together with most row changes.
    """
    if until <= seen:
        return []
    needed = {until, *(received.at for received in chain.received), *chain.reshaped}
    for other in others:
        if other.fork is not None and other.fork.branch == chain.branch:
            needed.add(other.fork.version)
        needed |= {taken.source.version for taken in other.taken if taken.source.branch == chain.branch}
    return [version for version in chain.versions if seen < version <= until and version in needed]


def reshaping(operations: Mapping[int, str], more: Collection[str] = ()) -> tuple[int, ...]:
    """The versions to fetch one by one because pylance cannot commit two of them at once, by their operations.

    ``operations`` are in ascending order. Versions before a replacement of the whole table do not count. With
    ``more`` operations, rows are pushed before they are compacted, say: no row could keep its stable id in a file that
    mixes old and new rows.
    """
    kinds = _CHANGES_COLUMNS.union(more)
    versions: set[int] = set()
    before: int | None = None
    for version, operation in operations.items():
        if operation in _REPLACES_ALL:
            versions = {version}
        elif operation in kinds:
            versions |= {version, version if before is None else before}
        before = version
    return tuple(sorted(versions))


def meetings(
    chains: Sequence[RemoteChain], follows: Mapping[str | None, Follows], planted: Mapping[str | None, VersionPair]
) -> Iterator[Meeting]:
    """Where following branches contain each other because the remote's branches do.

    ``planted`` has the first pair of each branch that was started over rather than forked from a following branch.
    """
    for chain in chains:
        own = follows.get(chain.branch)
        if own is None:
            continue
        for taken in chain.taken:
            source = follows.get(taken.source.branch)
            pair, other = own.since(taken.at), None if source is None else source.until(taken.source.version)
            if pair is not None and other is not None and taken.source.branch != chain.branch:
                yield Meeting(chain.branch, pair, taken.source.branch, other)
        first, fork = planted.get(chain.branch), chain.fork
        parent = None if fork is None else follows.get(fork.branch)
        if first is None or fork is None or parent is None:
            continue
        later, earlier = parent.since(fork.version), parent.until(fork.version)
        if first.remote == fork.version and later is not None:
            yield Meeting(fork.branch, later, chain.branch, first)
        if earlier is not None:
            yield Meeting(chain.branch, first, fork.branch, earlier)
