"""Who holds which version: branches, tags, clones, and what no ref holds. Pure.

A file is there for all holders of all versions that name it. When a ref goes, its holders go, and with them the files
that nobody else holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.cleanup.retention import merge_bases
from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.layout.names import read_manifest_name
from lance_spark.refs.parse import BRANCHES, TAGS, ref_file

BRANCH, OLD, TAG, CLONE, DETACHED, NO_REF = (
    "branch",
    "old versions",
    "tag",
    "clone",
    "detached versions",
    "directory without a ref",
)
Ids = frozenset[int]
"""Holders, by their index in ``Holders.all``."""


@dataclass(frozen=True)
class Holder:
    """Something that keeps versions alive."""

    kind: str
    ref: str
    """Name of the branch (of the branch that old or detached versions are on) or of the tag, URI of the clone."""


@dataclass(frozen=True)
class ChainHolders:
    """Who holds the versions of one chain."""

    default: int
    """Holds all versions that nobody else does."""
    newest: int
    """Holds versions that came after the survey, and what is no version but goes with the chain."""
    positions: tuple[int, ...] = ()
    """Versions that others hold, ascending."""
    held_by: tuple[Ids, ...] = ()
    """By whom, for each of ``positions``."""

    def of_span(self, first: int, last: int) -> Ids:
        """Everybody who holds a version from the first to the last position."""
        begin, end = bisect_left(self.positions, first), bisect_right(self.positions, last)
        ids: Ids = frozenset().union(*self.held_by[begin:end])
        return ids if end - begin == last - first + 1 else ids | {self.default}


@dataclass(frozen=True)
class Holders:
    """All holders of a dataset."""

    all: tuple[Holder, ...]
    chains: tuple[ChainHolders, ...]
    """In the order of ``Survey.chains``."""
    manifests: tuple[Mapping[tuple[bool, int], int], ...] = field(repr=False)
    """Position by (whether detached, version), for each chain."""
    ref_files: Mapping[str, int] = field(repr=False)
    """Holder by the path of its ref file or of its record."""

    def of_manifest(self, chain: int, name: str) -> Ids:
        """Who holds the version whose manifest has this file name."""
        read = read_manifest_name(name)
        at = None if read is None else self.manifests[chain].get((read.detached, read.version))
        return frozenset({self.chains[chain].newest}) if at is None else self.chains[chain].of_span(at, at)

    def families(self) -> list[int]:
        """For each holder the one with which it goes at the latest: old and detached versions go with their branch."""
        branches = {holder.ref: at for at, holder in enumerate(self.all) if holder.kind == BRANCH}
        return [
            branches.get(holder.ref, at) if holder.kind in (OLD, DETACHED) else at for at, holder in enumerate(self.all)
        ]


class _Numbers:
    """Numbers holders in the order in which they are first named."""

    def __init__(self) -> None:
        self.known: dict[Holder, int] = {}

    def __call__(self, kind: str, ref: str) -> int:
        return self.known.setdefault(Holder(kind, ref), len(self.known))


def holders_of(survey: Survey) -> Holders:
    """The holders of a dataset as a survey shows it."""
    numbers = _Numbers()
    for _, chain in survey.owned():
        numbers(BRANCH if chain.has_ref else NO_REF, chain.name)
    chains = tuple(_chain(survey, chain, numbers) for chain in survey.chains)
    files = _ref_files(survey, numbers)  # before "all": the tag of a clone that is gone is a holder as well
    return Holders(
        all=tuple(numbers.known),
        chains=chains,
        manifests=tuple(_places(chain) if chain.repository == 0 else {} for chain in survey.chains),
        ref_files=files,
    )


def _chain(survey: Survey, chain: Chain, numbers: _Numbers) -> ChainHolders:
    if chain.repository:
        clone = numbers(CLONE, survey.repositories[chain.repository].uri)
        return ChainHolders(clone, clone)
    if not chain.has_ref:
        left = numbers(NO_REF, chain.name)
        return ChainHolders(left, left)
    held: dict[int, set[int]] = {}
    places = {manifest.version: at for at, manifest in enumerate(chain.versions)}
    for version, holder in _pins(survey, chain, numbers):
        if version in places:
            held.setdefault(places[version], set()).add(holder)
    branch = numbers(BRANCH, chain.name)
    if chain.versions:
        held.setdefault(len(chain.versions) - 1, set()).add(branch)
    for at in range(len(chain.versions), len(chain.files)):
        held[at] = {numbers(DETACHED, chain.name)}
    positions = tuple(sorted(held))
    old = numbers(OLD, chain.name)
    return ChainHolders(old, branch, positions, tuple(frozenset(held[at]) for at in positions))


def _pins(survey: Survey, chain: Chain, numbers: _Numbers) -> list[tuple[int, int]]:
    """(version, holder) of what a cleanup keeps for a ref, whatever its age."""
    pins = [
        (tag.version, _of_tag(survey, tag.name, numbers))
        for tag in survey.refs.tags.values()
        if tag.branch == chain.branch
    ]
    for branch in survey.refs.branches.values():
        versions = list(merge_bases(survey, chain, [branch]))
        if branch.parent_branch == chain.branch:
            versions.append(branch.parent_version)
        pins += [(version, numbers(BRANCH, branch.name)) for version in versions]
    return pins


def _of_tag(survey: Survey, tag: str, numbers: _Numbers) -> int:
    """The tag; or the clone that it protects, if the survey found that clone."""
    recorded = survey.recorded_clones.get(tag)
    clones = {location.uri for location in survey.repositories[1:]}
    return numbers(CLONE, recorded) if recorded in clones else numbers(TAG, tag)


def _places(chain: Chain) -> dict[tuple[bool, int], int]:
    count = len(chain.versions)
    return {(at >= count, manifest.version): at for at, manifest in enumerate(chain.files)}


def _ref_files(survey: Survey, numbers: _Numbers) -> dict[str, int]:
    found = {ref_file(BRANCHES, name): numbers(BRANCH, name) for name in survey.refs.branches}
    for name in survey.refs.tags:
        found[ref_file(TAGS, name)] = _of_tag(survey, name, numbers)
    for tag in survey.recorded_clones:
        found[f"_clones/{tag}.json"] = _of_tag(survey, tag, numbers)
    return found
