"""Clone: a new dataset that begins with the content of another one and then follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.clones import clone as clones
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.records.tracking import Follows, VersionPair, following_name
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import AlreadyExists, PermissionDenied, Refused
from lance_spark.format.versions import BEGIN, CLONE, Trace, read_trace
from lance_spark.merge import replay_commits
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch, followed, write_down
from lance_spark.remotes.fetch_rules import CloneOptions
from lance_spark.remotes.protection import protect
from lance_spark.remotes.report import FetchResult
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.datasets import find_latest, locate, pin_latest, pin_version
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.others import check_elsewhere
from lance_spark.storage.versions import VersionCache


@dataclass(frozen=True)
class CloneResult:
    """The result of a clone, or of a dry run."""

    source: str
    target: str
    branch: str
    """The branch to work on: the ref's branch, or main."""
    version: int | None
    """The newest version of that branch in the clone."""
    source_version: str
    """``branch@version`` of the source that the branch starts with."""
    rows: int
    files: int
    """Data files that the clone reads from the source; for a deep clone, those that were copied."""
    bytes: int
    deep: bool
    fetched: FetchResult | None
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def as_record(self) -> dict[str, Any]:
        fetched = None if self.fetched is None else self.fetched.as_record()["branches"]
        return {"action": "clone", **vars(self), "fetched": fetched, "notes": list(self.notes)}


def clone(
    source: Remote, pin: PinnedVersion, target: DatasetLocation, engine: Engine, options: CloneOptions | None = None
) -> CloneResult:
    """Clone a dataset at version ``pin``; the two may be in different stores.

    The clone's main is the source's main, at ``pin`` if that is a version of main. Files stay at the source, where
    tags protect them, unless ``deep``. The next call completes a clone that was interrupted. Raises AlreadyExists
    for another dataset at the target, NotFound, StorageFailure.
    """
    options = options or CloneOptions()
    check_elsewhere(source.location, "clone it")
    main = pin if pin.branch is None else pin_latest(source.location, None)
    _check_target(source, target)
    check_nothing_waits(source.location, pin, "the clone would be without them")
    reader = VersionCache()
    fetched: FetchResult | None = None
    notes: tuple[str, ...] = ()
    version: int | None = None
    if not options.dry_run:
        _make_main(source, main, target, options.deep, reader)
        _follow_main(source, target, reader)
        notes = protect(target, source, _followed_versions(target, source))
        fetched = fetch(target, source, engine, _what_to_fetch(pin, main, options))
        notes = tuple(dict.fromkeys((*notes, *fetched.notes)))
        version = _branch(source, pin, target).version
    contents = reader.contents(source.location, pin)
    return CloneResult(
        source=source.location.uri,
        target=target.uri,
        branch=pin.branch or MAIN,
        version=version,
        source_version=str(pin),
        rows=sum(fragment.rows for fragment in contents.fragments()),
        files=sum(len(fragment.files) for fragment in contents.fragments()),
        bytes=sum(file.size for fragment in contents.fragments() for file in fragment.files),
        deep=options.deep,
        fetched=fetched,
        notes=notes,
        dry_run=options.dry_run,
    )


def _check_target(source: Remote, target: DatasetLocation) -> None:
    """Raise AlreadyExists for a dataset that is not an unfinished clone of this source."""
    if source.location.uri == target.uri:
        raise AlreadyExists(f"{target.uri} is the dataset itself.", hint="Choose another target.")
    if find_latest(target, None) is None:
        return
    follows = followed(refs.read_refs(target), source.name).get(None)
    if follows is not None and follows.uri == source.location.uri:
        return
    if follows is None and _is_begun(source, target):
        return
    raise AlreadyExists(
        f"A dataset already exists at {target.uri}.",
        hint="Choose another directory; to bring a clone up to date, use fetch or pull.",
    )


def _is_begun(source: Remote, target: DatasetLocation) -> bool:
    """Whether a clone of this source was interrupted here: the clone itself made the newest version."""
    newest = pin_latest(target, None)
    transaction = stored_versions.read_transaction(target, newest)
    if transaction is None:
        return False
    if transaction.cloned_from is not None:
        return locate(transaction.cloned_from).uri == source.location.uri  # by pylance; a deep one has no bases
    trace = read_trace(transaction.properties)
    if trace is None or trace.action not in (BEGIN, CLONE):
        return False
    roots = stored_versions.read_snapshot(target, newest).bases.values()
    if any(root.uri == source.location.uri for root in roots):
        return True
    # A deep one, to which base paths for blobs were added.
    before = stored_versions.read_transaction(target, PinnedVersion(None, newest.version - 1))
    made = None if before is None else before.cloned_from
    return made is not None and locate(made).uri == source.location.uri


def _make_main(source: Remote, pin: PinnedVersion, target: DatasetLocation, deep: bool, reader: VersionCache) -> None:
    """Make or complete the main branch of the clone. A complete main stays as it is."""
    newest = find_latest(target, None)
    if newest is None and deep:
        properties = Trace(CLONE, pin).properties(f"Clone {source.location.uri}")
        clones.deep_clone(source.location, pin, target, properties=properties)
        return
    if newest is None and source.location.store == target.store:
        _clone_by_pylance(source, pin, target)
        return
    begun = pin
    if newest is not None:
        trace = _trace(target, newest)
        if trace is None or trace.action != BEGIN:
            return
        begun = pin_version(source.location, trace.source.branch, trace.source.version)
    begin = Trace(BEGIN, begun).properties(f"Begin a clone of {source.location.uri}")
    theirs = reader.snapshot(source.location, begun)
    replay_commits.create(target, source.location, theirs, begin)
    properties = Trace(CLONE, begun).properties(f"Clone {source.location.uri}")
    replay_commits.populate(target, None, source.location, theirs, properties)


def _clone_by_pylance(source: Remote, pin: PinnedVersion, target: DatasetLocation) -> None:
    """Clone without a record if the source is read-only. The fetch then warns that nothing protects the files."""
    try:
        clones.shallow_clone(source.location, pin, target)
    except PermissionDenied:
        if find_latest(target, None) is None:
            clones.shallow_clone(source.location, pin, target, record=False)


def _follow_main(source: Remote, target: DatasetLocation, reader: VersionCache) -> None:
    """Let the branch that follows the source's main begin with the same version as the clone's main."""
    name = following_name(source.name, None)
    if followed(refs.read_refs(target), source.name).get(None) is not None:
        return
    newest = pin_latest(target, None)
    trace = _trace(target, newest)
    # pylance's own clones keep the version number of their original.
    cloned = trace.source if trace is not None else PinnedVersion(None, newest.version)
    if refs.read_branch(target, name) is None:
        create_branch_at(target, name, newest)
    stamp = reader.contents(source.location, cloned).head.timestamp_ns
    follows = Follows(source.name, source.location.uri, None)
    write_down(target, follows.with_pair(VersionPair(newest.version, cloned.version), stamp))


def _followed_versions(target: DatasetLocation, source: Remote) -> list[PinnedVersion]:
    """Versions of the source from which the clone may read files; none for a deep clone."""
    versions = []
    for follows in followed(refs.read_refs(target), source.name).values():
        if follows.newest is None:
            continue
        here = PinnedVersion(following_name(source.name, follows.branch), follows.newest.local)
        uris = (root.uri for root in stored_versions.read_snapshot(target, here).bases.values())
        if any(is_within(uri, source.location.uri) for uri in uris):
            versions.append(PinnedVersion(follows.branch, follows.newest.remote))
    return versions


def _trace(location: DatasetLocation, pin: PinnedVersion) -> Trace | None:
    transaction = stored_versions.read_transaction(location, pin)
    return None if transaction is None else read_trace(transaction.properties)


def _what_to_fetch(pin: PinnedVersion, main: PinnedVersion, options: CloneOptions) -> FetchOptions:
    branches: Sequence[str | None] | None = None
    if options.single_branch:
        branches = [None] if pin.branch is None else [None, pin.branch]
    until = {None: main.version} | ({pin.branch: pin.version} if pin.branch is not None else {})
    return FetchOptions(branches=branches, until=until, deep=options.deep)


def _branch(source: Remote, pin: PinnedVersion, target: DatasetLocation) -> PinnedVersion:
    """The local branch to work on, created from the branch that follows the source's branch."""
    if pin.branch is None:
        return pin_latest(target, None)
    if refs.read_branch(target, pin.branch) is None:
        follows = followed(refs.read_refs(target), source.name)[pin.branch]
        if follows.newest is None or follows.newest.remote != pin.version:
            raise Refused(f"{pin} of {source.location.uri} could not be fetched.", hint="Run it again.")
        create_branch_at(target, pin.branch, pin_latest(target, following_name(source.name, pin.branch)))
    return pin_latest(target, pin.branch)
