"""From portions of a dataset to what each ref costs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lance_spark.cleanup.survey import Survey
from lance_spark.errors import Refused
from lance_spark.layout.file_kinds import UNKNOWN
from lance_spark.refs.edit import check_delete_branch
from lance_spark.refs.names import MAIN
from lance_spark.usage.attribution import Portion
from lance_spark.usage.holders import BRANCH, NO_REF, OLD, TAG, Holders, Ids

NOT_NAMED = "named by no version"
_ORDER = {kind: at for at, kind in enumerate((BRANCH, OLD, TAG))}


@dataclass(frozen=True)
class RefUsage:
    """What one ref costs, in bytes of this dataset's directories."""

    ref: str
    """Name of the branch or tag, URI of the clone."""
    kind: str
    """branch, old versions, tag, clone, detached versions, directory without a ref, named by no version."""
    needed: int
    """Bytes of all files that its versions name, with their manifests, wherever they lie."""
    owned: int | None
    """Bytes of all files in its own directory; None for what has no directory in this dataset."""
    shared: int
    """That part of ``needed`` that something else needs as well."""
    freed: int | None
    """Bytes that go with it, once a cleanup has taken what nothing needs any longer. None for main, which cannot be
    deleted."""
    freed_files: int | None
    by_kind: Mapping[str, int] = field(default_factory=dict)
    """``needed`` by kind of file."""
    obstacle: str = ""
    """Why it cannot be deleted as things are: what has to go first."""


class Costs:
    """Adds up the portions of a dataset."""

    def __init__(self, survey: Survey, holders: Holders, portions: Iterable[Portion]) -> None:
        self._survey, self._holders = survey, holders
        self._portions = tuple(portions)
        self._families = holders.families()
        self._old = frozenset(at for at, holder in enumerate(holders.all) if holder.kind == OLD)
        self._directories = dict(self._with_directories())
        """Chain by its holder."""
        deletable = {at for at, chain in survey.owned() if chain.branch is not None and chain.has_ref}
        self._roots = {chain: one for one, chain in self._directories.items() if chain in deletable}
        """Holder of the branch, by chain: what no version names goes with the branch in whose directory it is."""

    def refs(self) -> tuple[RefUsage, ...]:
        """A record for each ref, and for what no ref needs."""
        needed: list[Counter[str]] = [Counter() for _ in self._holders.all]
        shared: Counter[int] = Counter()
        owned: Counter[int] = Counter()
        freed: dict[int, list[int]] = {}
        for portion in self._portions:
            owned[portion.chain] += portion.bytes
            for one in self._touched(portion.holders):
                needed[one][portion.kind] += portion.bytes
                if not portion.holders <= self._goes_with(one, portion.holders):
                    shared[one] += portion.bytes
            for one in self._ends_with(portion):
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
        """Bytes that go if all these holders go together."""
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

    def _touched(self, ids: Ids) -> Ids:
        """The records that a portion with these holders counts for: the branch, too, for its old versions."""
        return ids | {self._families[one] for one in ids}

    def _goes_with(self, one: int, ids: Ids) -> Ids:
        return frozenset(each for each in ids if each == one or self._families[each] == one)

    def _ends_with(self, portion: Portion) -> Iterator[int]:
        """The records each of which takes the portion along alone."""
        if portion.holders:
            ids = portion.holders
            yield from (one for one in self._touched(ids) if self._goes(ids, self._goes_with(one, ids)))
        elif not portion.stays and portion.chain in self._roots:
            yield self._roots[portion.chain]

    def _all_gone(self, portion: Portion, gone: Ids) -> bool:
        if portion.holders:
            return self._goes(portion.holders, gone)
        return not portion.stays and self._roots.get(portion.chain) in gone

    def _goes(self, ids: Ids, gone: Ids) -> bool:
        """Whether files go with these holders.

        Old versions of other branches do not keep files: the cleanup takes those that nothing else needs. What it takes
        anyway, with or without the holders, is not theirs.
        """
        rest = ids - gone
        return not rest or (rest <= self._old and not ids & gone <= self._old)

    def _with_directories(self) -> Iterator[tuple[int, int]]:
        chains = {(chain.name, chain.has_ref): at for at, chain in self._survey.owned()}
        for one, holder in enumerate(self._holders.all):
            if holder.kind in (BRANCH, NO_REF):
                yield one, chains[holder.ref, holder.kind == BRANCH]

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
