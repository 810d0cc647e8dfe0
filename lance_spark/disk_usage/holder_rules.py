"""Attributes files to holders (branches, tags, clones, or no ref), and adds up what each ref costs. Pure.

A file belongs to all holders of all versions that name it. A deleted ref takes its holders along, and with them the
files that no other holder needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from lance_spark.cleanup.reference_rules import ANYWHERE, LEFTOVER
from lance_spark.cleanup.retention_rules import merge_bases
from lance_spark.core import layout
from lance_spark.core.layout import UNKNOWN, read_manifest_name
from lance_spark.core.records.tracking import merged_versions
from lance_spark.core.ref_files import BRANCHES, TAGS, ref_file
from lance_spark.core.ref_names import is_dataset_directory
from lance_spark.core.refs import MAIN, Branch
from lance_spark.errors import Refused
from lance_spark.refs.ref_rules import check_delete_branch
from lance_spark.survey.chain_rules import Chain, Survey

BRANCH, OLD, TAG, CLONE, DETACHED, NO_REF = (
    "branch",
    "old versions",
    "tag",
    "clone",
    "detached versions",
    "directory without a ref",
)
Ids = frozenset[int]
"""Holders, by index in ``Holders.all``."""


@dataclass(frozen=True)
class Holder:
    kind: str
    ref: str
    """Name of the branch (of old or detached versions: their branch) or of the tag; URI of the clone."""


@dataclass(frozen=True)
class ChainHolders:
    default: int
    """Holds all versions without another holder."""
    newest: int
    """Holds versions newer than the survey, and everything else that goes with the chain."""
    positions: tuple[int, ...] = ()
    """Versions with other holders, ascending."""
    held_by: tuple[Ids, ...] = ()
    """The holders of each of ``positions``."""

    def of_span(self, first: int, last: int) -> Ids:
        """All holders of a version from the first to the last position."""
        begin, end = bisect_left(self.positions, first), bisect_right(self.positions, last)
        ids: Ids = frozenset().union(*self.held_by[begin:end])
        return ids if end - begin == last - first + 1 else ids | {self.default}


@dataclass(frozen=True)
class Holders:
    all: tuple[Holder, ...]
    chains: tuple[ChainHolders, ...]
    """In the order of ``Survey.chains``."""
    manifests: tuple[Mapping[tuple[bool, int], int], ...] = field(repr=False)
    """Position by (whether detached, version), for each chain."""
    ref_files: Mapping[str, int] = field(repr=False)
    """Holder by the path of its ref file or record."""

    def of_manifest(self, chain: int, name: str) -> Ids:
        """The holders of the version whose manifest has this file name."""
        read = read_manifest_name(name)
        at = None if read is None else self.manifests[chain].get((read.detached, read.version))
        return frozenset({self.chains[chain].newest}) if at is None else self.chains[chain].of_span(at, at)

    def families(self) -> list[int]:
        """For each holder, the one that takes it along when deleted: a branch takes its old and detached versions."""
        branches = {holder.ref: at for at, holder in enumerate(self.all) if holder.kind == BRANCH}
        return [
            branches.get(holder.ref, at) if holder.kind in (OLD, DETACHED) else at for at, holder in enumerate(self.all)
        ]


_Numbers = defaultdict[Holder, int]
"""The number of each holder, in the order of first mention."""


def holders_of(survey: Survey) -> Holders:
    numbers: _Numbers = defaultdict(count().__next__)
    for _, chain in survey.owned():
        numbers[Holder(BRANCH if chain.has_ref else NO_REF, chain.name)]
    merged = merged_versions(survey.refs.branches.values())
    chains = tuple(_chain(survey, chain, numbers, merged) for chain in survey.chains)
    files = _ref_files(survey, numbers)  # before "all": the tag of a missing clone is also a holder
    return Holders(
        all=tuple(numbers),
        chains=chains,
        manifests=tuple(_places(chain) if chain.repository == 0 else {} for chain in survey.chains),
        ref_files=files,
    )


_Merged = Mapping[str, Sequence[tuple[int, Branch]]]
"""As ``tracking.merged_versions`` returns it."""


def _chain(survey: Survey, chain: Chain, numbers: _Numbers, merged: _Merged) -> ChainHolders:
    if chain.repository:
        clone = numbers[Holder(CLONE, survey.repositories[chain.repository].uri)]
        return ChainHolders(clone, clone)
    if not chain.has_ref:
        left = numbers[Holder(NO_REF, chain.name)]
        return ChainHolders(left, left)
    held: dict[int, set[int]] = {}
    places = {manifest.version: at for at, manifest in enumerate(chain.versions)}
    for version, holder in _pins(survey, chain, numbers, merged):
        if version in places:
            held.setdefault(places[version], set()).add(holder)
    branch = numbers[Holder(BRANCH, chain.name)]
    if chain.versions:
        held.setdefault(len(chain.versions) - 1, set()).add(branch)
    for at in range(len(chain.versions), len(chain.files)):
        held[at] = {numbers[Holder(DETACHED, chain.name)]}
    positions = tuple(sorted(held))
    old = numbers[Holder(OLD, chain.name)]
    return ChainHolders(old, branch, positions, tuple(frozenset(held[at]) for at in positions))


def _pins(survey: Survey, chain: Chain, numbers: _Numbers, merged: _Merged) -> list[tuple[int, int]]:
    """(version, holder) for everything that a cleanup keeps for a ref at any age."""
    tags = survey.refs.tags_on.get(chain.branch, ())
    forks = [(branch.parent_version, branch) for branch in survey.refs.created_from.get(chain.branch, ())]
    return [(tag.version, _of_tag(survey, tag.name, numbers)) for tag in tags] + [
        (version, numbers[Holder(BRANCH, branch.name)])
        for version, branch in (*merge_bases(survey, chain, merged), *forks)
    ]


def _of_tag(survey: Survey, tag: str, numbers: _Numbers) -> int:
    """The tag, or the clone that it protects if the survey found that clone."""
    recorded = survey.recorded_clones.get(tag)
    clones = {location.uri for location in survey.repositories[1:]}
    return numbers[Holder(CLONE, recorded)] if recorded in clones else numbers[Holder(TAG, tag)]


def _places(chain: Chain) -> dict[tuple[bool, int], int]:
    count = len(chain.versions)
    return {(at >= count, manifest.version): at for at, manifest in enumerate(chain.files)}


def _ref_files(survey: Survey, numbers: _Numbers) -> dict[str, int]:
    found = {ref_file(BRANCHES, name): numbers[Holder(BRANCH, name)] for name in survey.refs.branches}
    for name in survey.refs.tags:
        found[ref_file(TAGS, name)] = _of_tag(survey, name, numbers)
    for tag in survey.recorded_clones:
        found[f"_clones/{tag}.json"] = _of_tag(survey, tag, numbers)
    return found


# --- Joining files with marks: which holders need which file
# Pure; the same code on Spark and without.

ATTRIBUTED = pa.schema(
    [
        ("kind", pa.string()),
        ("chain", pa.int32()),  # index into Survey.chains of the chain in whose directory they are
        ("holders", pa.string()),  # comma-separated indexes into Holders.all; see also STAYS
        ("files", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
STAYS = "-"
"""In place of holders: no holder needs the file, and neither a cleanup nor the deletion of its branch removes it."""
_NOBODY: Ids = frozenset()


class Portion(NamedTuple):
    """Files of one kind in one directory, needed by the same holders."""

    kind: str
    chain: int
    holders: Ids
    stays: bool
    """Whether they stay although no holder needs them."""
    files: int
    bytes: int


def attribute(files: pa.Table, marks: pa.Table, holders: Holders, roots: Sequence[str]) -> pa.Table:
    """ATTRIBUTED for some FILES and all MARKS with the same ``local``. ``roots`` are the roots of all chains."""
    needed = _needed(marks, holders)
    sums: dict[tuple[str, int, str], list[int]] = {}
    texts: dict[Ids, str] = {_NOBODY: ""}
    columns = (files[name].to_pylist() for name in ("path", "kind", "chain", "key", "local", "size"))
    for path, kind, chain, key, local, size in zip(*columns, strict=True):
        ids = needed.get(key, _NOBODY)
        if anywhere := needed.get(ANYWHERE + local):
            ids |= anywhere
        if not ids:
            ids = _by_its_place(path, kind, chain, holders)
        if ids and ids not in texts:
            texts[ids] = ",".join(map(str, sorted(ids)))
        text = texts[ids] if ids or not _stays(path, kind, roots[chain]) else STAYS
        total = sums.setdefault((kind, chain, text), [0, 0])
        total[0] += 1
        total[1] += size
    rows = [dict(zip(ATTRIBUTED.names, (*group, *total), strict=True)) for group, total in sums.items()]
    return pa.Table.from_pylist(rows, ATTRIBUTED)


def _needed(marks: pa.Table, holders: Holders) -> dict[str, Ids]:
    """The holders of the files of each key.

    Very many files have few sets of holders. Each set is made once, from the list of spans that leads to it; lists
    share their beginnings. A set for each beginning of a file that ten thousand branches need would take gigabytes.
    """
    lists: list[tuple[int, _Span]] = [(0, (-1, 0, 0))]  # the list it continues, and its last span; 0 is the empty list
    longer: dict[tuple[int, _Span], int] = {}
    ends: dict[str, int] = {}
    columns = (marks[name].to_pylist() for name in ("chain", "key", "first", "last"))
    for chain, key, first, last in zip(*columns, strict=True):
        if key is None or chain == LEFTOVER:
            continue
        one = (ends.get(key, 0), (chain, first, last))
        if one not in longer:
            longer[one] = len(lists)
            lists.append(one)
        ends[key] = longer[one]
    sets = {end: _holders_of_all(lists, end, holders) for end in set(ends.values())}
    return {key: sets[end] for key, end in ends.items()}


_Span = tuple[int, int, int]
"""A chain, and the first and the last position of versions that name a file."""


def _holders_of_all(lists: Sequence[tuple[int, _Span]], end: int, holders: Holders) -> Ids:
    found: set[int] = set()
    while end:
        end, (chain, first, last) = lists[end]
        found |= holders.chains[chain].of_span(first, last)
    return frozenset(found)


def _by_its_place(path: str, kind: str, chain: int, holders: Holders) -> Ids:
    """The holders of a file that versions do not name: manifests, refs and notes."""
    if kind == layout.MANIFEST:
        return holders.of_manifest(chain, path.rpartition("/")[2])
    if path in holders.ref_files:
        return frozenset({holders.ref_files[path]})
    return frozenset({holders.chains[chain].newest}) if kind == layout.BOOKKEEPING else _NOBODY


def _stays(path: str, kind: str, root: str) -> bool:
    """Whether a file survives: cleanups keep unknown kinds, except in a deleted branch's own directories."""
    if kind != layout.UNKNOWN:
        return False
    return not root or not is_dataset_directory(path[len(root) + 1 :].partition("/")[0])


def portions(attributed: pa.Table) -> Iterator[Portion]:
    """ATTRIBUTED of all groups, added up."""
    sums = attributed.group_by(["kind", "chain", "holders"]).aggregate([("files", "sum"), ("bytes", "sum")])
    for row in sums.to_pylist():
        text = row["holders"]
        ids = frozenset(map(int, text.split(","))) if text not in ("", STAYS) else _NOBODY
        yield Portion(row["kind"], row["chain"], ids, text == STAYS, row["files_sum"], row["bytes_sum"])


# --- The cost of each ref

NOT_NAMED = "named by no version"
_ORDER = {kind: at for at, kind in enumerate((BRANCH, OLD, TAG))}


@dataclass(frozen=True)
class RefUsage:
    """The cost of one ref, in bytes of this dataset's directories."""

    ref: str
    """Name of the branch or tag, URI of the clone."""
    kind: str
    """branch, old versions, tag, clone, detached versions, directory without a ref, named by no version."""
    needed: int
    """Bytes of all files that its versions name, including manifests, in any directory."""
    owned: int | None
    """Bytes of all files in its own directory; None without a directory in this dataset."""
    shared: int
    """The part of ``needed`` that something else also needs."""
    freed: int | None
    """Bytes freed by deleting it, once a cleanup has removed what nothing needs. None for main, which cannot be
    deleted."""
    freed_files: int | None
    by_kind: Mapping[str, int] = field(default_factory=dict)
    """``needed`` by kind of file."""
    obstacle: str = ""
    """What must be deleted first, if it cannot be deleted now."""


class Costs:
    """Adds up the portions of a dataset."""

    def __init__(self, survey: Survey, holders: Holders, portions: Iterable[Portion]) -> None:
        self._survey, self._holders = survey, holders
        self._portions = tuple(portions)
        self._families = holders.families()
        self._old = frozenset(at for at, holder in enumerate(holders.all) if holder.kind == OLD)
        chains = {(chain.name, chain.has_ref): at for at, chain in survey.owned()}
        with_directories = [(at, each) for at, each in enumerate(holders.all) if each.kind in (BRANCH, NO_REF)]
        self._directories = {at: chains[each.ref, each.kind == BRANCH] for at, each in with_directories}
        """Chain by its holder."""
        deletable = {at for at, chain in survey.owned() if chain.branch is not None and chain.has_ref}
        self._roots = {chain: one for one, chain in self._directories.items() if chain in deletable}
        """Holder of the branch, by chain: files that no version names go with the branch of their directory."""

    def refs(self) -> tuple[RefUsage, ...]:
        """A record for each ref, and for files that no ref needs."""
        needed: list[Counter[str]] = [Counter() for _ in self._holders.all]
        shared: Counter[int] = Counter()
        owned: Counter[int] = Counter()
        freed: dict[int, list[int]] = {}
        for portion in self._portions:
            owned[portion.chain] += portion.bytes
            families = self._by_family(portion.holders)
            for one, gone in families.items():
                needed[one][portion.kind] += portion.bytes
                if len(gone) < len(portion.holders):
                    shared[one] += portion.bytes
            for one in self._ends_with(portion, families):
                total = freed.setdefault(one, [0, 0])
                total[0] += portion.bytes
                total[1] += portion.files
        records = [
            self._record(one, needed[one], shared[one], owned, freed.get(one, [0, 0]))
            for one in range(len(self._holders.all))
        ]
        kept = [record for record in records if record.needed or record.kind == BRANCH or record.owned]
        kept.sort(key=lambda record: (_ORDER.get(record.kind, len(_ORDER)), record.kind, record.ref != MAIN))
        return (*kept, *self._not_named())

    def freed_by(self, wanted: Collection[int]) -> int:
        """Bytes freed by deleting all these holders together."""
        gone = frozenset(at for at, family in enumerate(self._families) if at in wanted or family in wanted)
        return sum(portion.bytes for portion in self._portions if self._all_gone(portion, gone))

    def by_kind(self) -> dict[str, tuple[int, int, int]]:
        """(files, bytes, bytes that no ref needs) by kind of file."""
        sums: dict[str, list[int]] = {}
        for portion in self._portions:
            total = sums.setdefault(portion.kind, [0, 0, 0])
            total[0] += portion.files
            total[1] += portion.bytes
            if portion.kind != UNKNOWN and portion.holders <= self._old:
                total[2] += portion.bytes
        return {kind: (total[0], total[1], total[2]) for kind, total in sorted(sums.items())}

    def _by_family(self, ids: Ids) -> dict[int, set[int]]:
        """The records that a portion with these holders counts for, including the branch of old versions.

        Each with those of the holders that go with it.
        """
        found: dict[int, set[int]] = {}
        for each in ids:
            found.setdefault(each, set()).add(each)
            found.setdefault(self._families[each], set()).add(each)
        return found

    def _ends_with(self, portion: Portion, families: Mapping[int, Collection[int]]) -> Iterator[int]:
        """The records whose deletion alone removes the portion, of those that its holders belong to."""
        if portion.holders:
            lasting = len(portion.holders - self._old)
            for one, gone in families.items():
                if self._goes(len(portion.holders), lasting, gone):
                    yield one
        elif not portion.stays and portion.chain in self._roots:
            yield self._roots[portion.chain]

    def _all_gone(self, portion: Portion, gone: Ids) -> bool:
        if portion.holders:
            lasting = len(portion.holders - self._old)
            return self._goes(len(portion.holders), lasting, portion.holders & gone)
        return not portion.stays and self._roots.get(portion.chain) in gone

    def _goes(self, holders: int, lasting: int, gone: Collection[int]) -> bool:
        """Whether files go with some of their holders, of which ``lasting`` are more than old versions of a branch.

        Old versions of other branches do not keep files: the cleanup removes those that nothing else needs. Files that
        it removes anyway, with or without the holders, do not count as theirs.
        """
        lasting_gone = sum(one not in self._old for one in gone)
        return len(gone) == holders or (lasting_gone == lasting > 0)

    def _record(
        self, one: int, needed: Mapping[str, int], shared: int, owned: Mapping[int, int], freed: Sequence[int]
    ) -> RefUsage:
        holder = self._holders.all[one]
        is_main = holder.kind == BRANCH and holder.ref == MAIN
        directory = self._directories.get(one)
        return RefUsage(
            ref=holder.ref,
            kind=holder.kind,
            needed=sum(needed.values()),
            owned=None if directory is None else owned.get(directory, 0),
            shared=shared,
            freed=None if is_main else freed[0],
            freed_files=None if is_main else freed[1],
            by_kind=dict(sorted(needed.items())),
            obstacle=self._obstacle(one),
        )

    def _obstacle(self, one: int) -> str:
        holder = self._holders.all[one]
        if holder.kind != BRANCH or holder.ref == MAIN:
            return ""
        try:
            check_delete_branch(self._survey.refs, holder.ref)
        except Refused as problem:
            return problem.hint or problem.message
        return ""

    def _not_named(self) -> Iterator[RefUsage]:
        rest = [portion for portion in self._portions if not portion.holders]
        if rest:
            kinds: Counter[str] = Counter()
            for portion in rest:
                kinds[portion.kind] += portion.bytes
            gone = [portion for portion in rest if portion.kind != UNKNOWN]
            yield RefUsage(
                ref="",
                kind=NOT_NAMED,
                needed=0,
                owned=sum(kinds.values()),
                shared=0,
                freed=sum(portion.bytes for portion in gone),
                freed_files=sum(portion.files for portion in gone),
                by_kind=dict(sorted(kinds.items())),
            )
