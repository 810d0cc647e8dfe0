"""A survey of a dataset, and whether it shows everything that refs and names promise. Pure.

A cleanup cannot protect what it does not see. Branches come and go during a survey, so one survey that contradicts
itself proves little. Only a contradiction in two consecutive surveys counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from lance_spark.core.layout import BROUGHT, STREAMS, Roots, is_passing, last_noted, read_brought_name
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import RefChange
from lance_spark.core.ref_names import READER_TAG, STREAM_TAG
from lance_spark.core.refs import MAIN, RefTable, Tag
from lance_spark.errors import CorruptData


@dataclass(frozen=True)
class Contradiction:
    """Something that one file promises and that is missing elsewhere."""

    about: Hashable
    """Distinguishes it from a similar one, such as that of a later branch of the same name."""
    message: str = field(compare=False)
    hint: str = field(compare=False)

    def error(self) -> CorruptData:
        return CorruptData(self.message, hint=f"Nothing was deleted. {self.hint}")


@dataclass(frozen=True)
class Manifest:
    """A manifest of a repository. One rewritten in the same place is a different manifest."""

    repository: str
    """URI of the dataset or clone."""
    root: str
    """Root of its chain, relative to the repository."""
    file: VersionFile

    @property
    def path(self) -> str:
        return join(self.root, f"_versions/{self.file.name}")


def manifest_at(survey: Survey, chain: Chain, position: int) -> Manifest:
    return Manifest(survey.repositories[chain.repository].uri, chain.root, chain.files[position])


def still_listed(survey: Survey, manifests: Collection[Manifest]) -> list[Manifest]:
    """The manifests that a later survey also shows."""
    listed = _manifests(survey)
    return [manifest for manifest in manifests if manifest in listed]


def of_branches(survey: Survey, manifests: Collection[Manifest]) -> list[Manifest]:
    """The manifests that a later survey also shows, except for branches that are being deleted.

    The ref of such a branch goes first, then its files in any order.
    """
    chains = ((survey.repositories[chain.repository].uri, chain) for chain in survey.chains if chain.has_ref)
    refs = {(uri, chain.root) for uri, chain in chains}
    return [each for each in still_listed(survey, manifests) if (each.repository, each.root) in refs]


def still_newest(survey: Survey, manifests: Collection[Manifest]) -> list[Manifest]:
    """The manifests that a later survey shows as the newest of their branch."""
    newest = {manifest_at(survey, chain, len(chain.versions) - 1) for chain in survey.chains if chain.versions}
    return [manifest for manifest in manifests if manifest in newest]


def not_explained(before: Survey, after: Survey, gone: Collection[Manifest]) -> list[Manifest]:
    """Unreadable manifests that a later survey shows, or that were newer than everything left of their branch.

    A branch is deleted whole, its ref first, and no cleanup deletes the newest version.
    """
    newest = {
        (after.repositories[chain.repository].uri, chain.root): chain.versions[-1].version if chain.versions else 0
        for chain in after.chains
        if chain.has_ref
    }
    left = {(each.repository, each.root) for each in _manifests(before) & _manifests(after)} & newest.keys()
    detached = {
        manifest_at(before, chain, at) for chain in before.chains for at in range(len(chain.versions), len(chain.files))
    }
    return still_listed(after, gone) + [
        each
        for each in gone
        if (each.repository, each.root) in left
        and each not in detached
        and each.file.version > newest[each.repository, each.root]
    ]


def _manifests(survey: Survey) -> set[Manifest]:
    return {manifest_at(survey, chain, at) for chain in survey.chains for at in range(len(chain.files))}


def contradictions(survey: Survey) -> list[Contradiction]:
    """All contradictions.

    A contradiction is a dataset or a branch without versions, also in clones; a version that exists twice; a version
    that was recorded and is missing; a tag whose version is missing.
    """
    return [*_without_versions(survey), *_ends_too_early(survey), *_twice(survey), *_dangling_tags(survey)]


def _without_versions(survey: Survey) -> Iterator[Contradiction]:
    chains = {chain.branch: chain for _, chain in survey.owned() if chain.has_ref}
    if None not in chains or not chains[None].versions:
        yield Contradiction(
            "main",
            f"The listing of {survey.location.uri}/_versions shows no version.",
            "Check the path and what the credentials may list.",
        )
    # Identified by its ref: a later branch of the same name is another one.
    refs = {branch.name: (branch.identity, branch.created_at) for branch in survey.refs.branches.values()}
    lost = [(survey.location.uri, name) for name in refs if name not in chains or not chains[name].versions]
    lost += [
        (survey.repositories[chain.repository].uri, chain.name)
        for chain in survey.chains
        if chain.repository and chain.has_ref and not chain.versions
    ]
    for uri, name in lost:
        yield Contradiction(
            ("branch", uri, name, refs.get(name) if uri == survey.location.uri else None),
            f"Branch '{name}' of {uri} has a ref but its directory shows no versions.",
            "Delete the branch if it is lost, or restore its directory.",
        )


def _ends_too_early(survey: Survey) -> Iterator[Contradiction]:
    for chain in survey.chains:
        newest = chain.versions[-1].version if chain.versions else 0
        if chain.noted > newest:
            uri = survey.repositories[chain.repository].uri
            yield Contradiction(
                ("noted", uri, chain.root, newest, chain.noted),
                f"The listing of {uri}/{join(chain.root, '_versions')} ends with version {newest}, but version "
                f"{chain.noted} was written.",
                "Check the file system, and restore the missing manifests.",
            )


def _twice(survey: Survey) -> Iterator[Contradiction]:
    for _, chain in survey.owned():
        counts = Counter(manifest.version for manifest in chain.versions)
        twice = frozenset(version for version, count in counts.items() if count > 1)
        if twice:
            yield Contradiction(
                ("twice", chain.root, twice),
                f"A version of '{chain.name}' has two manifests: their names are being changed to the newer scheme.",
                "Let the migration of manifest names end first.",
            )


def _dangling_tags(survey: Survey) -> Iterator[Contradiction]:
    versions = {
        chain.branch: {manifest.version for manifest in chain.versions} for _, chain in survey.owned() if chain.has_ref
    }
    for tag in survey.refs.tags.values():
        if tag.version not in versions.get(tag.branch, ()):
            yield Contradiction(
                ("tag", tag.name, tag.branch, tag.version),
                f"Tag '{tag.name}' names version {tag.branch or MAIN}@{tag.version}, which does not exist.",
                "Delete the tag if the version is lost.",
            )


# --- A repository at one moment: its chains of versions and its refs, as plain values


class VersionFile(NamedTuple):
    """One manifest in a listing. A tuple: there can be very many, and they are compared repeatedly."""

    version: int
    name: str
    size: int
    """Bytes."""
    modified_ns: int
    """Last-modified time, nanoseconds since the epoch, by the store's clock."""


@dataclass(frozen=True)
class Chain:
    """One root with versions: main, a branch, or a branch's directory whose ref is gone."""

    repository: int
    """0 for the dataset being cleaned, others for clones: index into ``Survey.repositories``."""
    root: str
    """Relative to the repository: "" for main, ``tree/<branch>`` for a branch."""
    branch: str | None
    """None for main."""
    has_ref: bool
    """False for a directory below ``tree/`` without a ref: a branch in the making, or leftovers of a deleted one."""
    versions: tuple[VersionFile, ...]
    """Ascending by version."""
    detached: tuple[VersionFile, ...] = ()
    noted: int = field(default=0, compare=False)
    """The newest version recorded before the manifests were listed, or 0. pylance records it on local disks."""

    @property
    def files(self) -> tuple[VersionFile, ...]:
        """All manifests; the index of a manifest is its *position*, which marks refer to."""
        return self.versions + self.detached

    @property
    def name(self) -> str:
        return self.branch or MAIN

    def path(self, manifest: VersionFile) -> str:
        """Path of a manifest relative to the repository."""
        return join(self.root, f"_versions/{manifest.name}")


class Quarantined(NamedTuple):
    """A manifest that a repair moved away and that can be restored: the files that it names are unknown."""

    branch: str | None
    """None for main."""
    at_ns: int
    """Time of the repair, nanoseconds since the epoch."""


@dataclass(frozen=True)
class Survey:
    """The dataset being cleaned, and its clones, before anything else is read."""

    repositories: tuple[DatasetLocation, ...]
    chains: tuple[Chain, ...]
    refs: RefTable
    """Of the dataset being cleaned."""
    recorded_clones: Mapping[str, str] = field(default_factory=dict)
    """Tag that protects a cloned version, to the clone's URI."""
    changes: tuple[RefChange, ...] = ()
    """Recorded changes of refs: what undoing them needs is kept for a while."""
    quarantined: tuple[Quarantined, ...] = ()
    """Quarantined manifests: files that they might name are also kept for a while."""

    @property
    def location(self) -> DatasetLocation:
        return self.repositories[0]

    @property
    def branch_names(self) -> tuple[str, ...]:
        """The branch of every chain, for display."""
        return tuple(chain.name for chain in self.chains)

    @property
    def branches(self) -> tuple[str | None, ...]:
        """Main, which is None, and the other branches of the dataset that have a ref."""
        return tuple(chain.branch for _, chain in self.owned() if chain.has_ref)

    @cached_property
    def roots(self) -> Roots:
        """Finds the chain of the dataset that a path belongs to."""
        return Roots(chain.root for _, chain in self.owned())

    def owned(self) -> Iterator[tuple[int, Chain]]:
        """The chains of the dataset itself with their index; files are deleted only there."""
        return ((index, chain) for index, chain in enumerate(self.chains) if chain.repository == 0)


def join(root: str, path: str) -> str:
    """A path below a root; the root can be ""."""
    return f"{root}/{path}" if root else path


# --- Streaming queries, known by their tags: the versions that they still have to read or look at


def first_sink(refs: RefTable, branch: str | None) -> int | None:
    """The lowest version of a branch that a query committed last; None if no query writes.

    A query still has to look at the versions after it.
    """
    tags = refs.tags_on.get(branch, ())
    return min((tag.version for tag in tags if tag.name.startswith(STREAM_TAG)), default=None)


def first_sinks(survey: Survey) -> dict[int, int]:
    """:func:`first_sink` by chain of the dataset, only for chains that a query writes to."""
    found = ((index, first_sink(survey.refs, chain.branch)) for index, chain in survey.owned())
    return {index: version for index, version in found if version is not None}


def is_needed_note(local: str, sink: int | None) -> bool:
    """Whether a file, by its path in its chain, is a note that a query at that version needs."""
    directory, _, name = local.rpartition("/")
    last = last_noted(name) if directory == STREAMS else None
    return last is not None and sink is not None and last > sink


def is_needed_record(local: str, base: int | None) -> bool:
    """Whether a file, by its path in its chain, is a record that a merge needs which compares with that version."""
    directory, _, name = local.rpartition("/")
    if directory != BROUGHT or is_passing(local):
        return False  # a process died while it wrote one
    record = read_brought_name(name)
    return record is None or not record.columns or base is None or record.last is None or record.last > base


def going_after(chain: Chain, removed: Iterable[int], after: int) -> Iterator[int]:
    """The versions of a chain that will be deleted, by position, and that come after another one."""
    versions = (chain.versions[position].version for position in removed)
    return (version for version in versions if version > after)


def first_unread(refs: RefTable) -> dict[str | None, int]:
    """The first version that a stream still reads, by branch; a branch that no stream reads is absent.

    A stream that reads a branch from before its fork passes through the branches that it was made from. Its tag is then
    on one of them, and it still has to read all of those in between.
    """
    found: dict[str | None, int] = {}
    for tag in refs.tags.values():
        if tag.name.startswith(READER_TAG):
            found[tag.branch] = min(tag.version, found.get(tag.branch, tag.version))
            found.update(dict.fromkeys(_ahead_of(tag, refs), 0))
    return found


def _ahead_of(tag: Tag, refs: RefTable) -> set[str | None]:
    """The branches that a stream will reach, from the name of its tag; see ``stream_notes.source_tag``."""
    ahead: set[str | None] = set()
    for name in refs.branches:
        if tag.name.endswith(f"-{name.replace('/', '.')}"):
            ahead |= _way(name, tag, refs)
    return ahead


def _way(name: str, tag: Tag, refs: RefTable) -> set[str]:
    """A branch and its ancestors, up to the version of an ancestor with the tag; empty if none has it."""
    way: set[str] = set()
    at: str | None = name
    while at is not None and at in refs.branches and at not in way:
        way.add(at)
        fork = refs.branches[at]
        at = fork.parent_branch
        if at == tag.branch:
            return way if tag.version <= fork.parent_version else set()
    return set()
