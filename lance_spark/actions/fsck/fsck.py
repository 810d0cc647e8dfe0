"""Checks a dataset: survey, read all manifests, list all files, hold them against each other, look again, report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from lance_spark.actions.cleanup.evidence import look_at
from lance_spark.actions.cleanup.extent import about_rows, work_of_all
from lance_spark.actions.cleanup.plan import list_all
from lance_spark.actions.fsck.blob_stage import Naming, blob_items, data_file_of, look_for_blobs
from lance_spark.actions.fsck.confirm import Confirming
from lance_spark.actions.fsck.record_findings import findings_of_records
from lance_spark.actions.fsck.ref_findings import LenientLook, findings_of_refs
from lance_spark.actions.fsck.stages import (
    BASES,
    WHOLE,
    Compare,
    ListBase,
    NeedSpan,
    RowIdItem,
    about_bases,
    about_versions,
    check_row_ids,
)
from lance_spark.checkup import codes
from lance_spark.checkup.compare import COUNTED, SUSPECTS, Question
from lance_spark.checkup.finding import CheckFinding
from lance_spark.checkup.needed import NEEDED
from lance_spark.checkup.report import FsckReport, worst_first
from lance_spark.cleanup.policy import DEFAULT_UNVERIFIED_AGE
from lance_spark.cleanup.references import cut_spans
from lance_spark.cleanup.retention import RunClock
from lance_spark.cleanup.survey import Survey
from lance_spark.cleanup.sweep import FILES
from lance_spark.errors import InvalidOption, NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine, Frame, Runner
from lance_spark.show.progress import WorkProgress
from lance_spark.store.insides import LookInside
from lance_spark.store.listing import list_range
from lance_spark.store.survey import DamagedRef
from lance_spark.store.uri import locate
from lance_spark.usage.holders import BRANCH, CLONE, TAG, Holder, Holders, holders_of


@dataclass(frozen=True)
class FsckOptions:
    """How a dataset is checked."""

    deep: bool = False
    """Whether files are opened: footers, numbers of rows, deletion files, indexes, row ids."""
    clones: tuple[str, ...] = ()
    """URIs of clones that are not recorded: what they read here has to be there."""
    clones_from: tuple[str, ...] = ()
    """Directories; every dataset below them is taken for a clone."""
    left_after: timedelta = DEFAULT_UNVERIFIED_AGE
    """Age from which on files that no version names are noted."""


def fsck(location: DatasetLocation, options: FsckOptions, engine: Engine, now_ns: int) -> FsckReport:
    """Check main, all branches and tags, and what clones read here. Nothing is changed.

    ``now_ns`` is the time, nanoseconds since the epoch. Raises NotFound if there is no dataset, Conflict for one that
    never stops changing, StorageFailure if the store of the dataset itself does not answer.
    """
    return examine(location, options, engine, now_ns).report


@dataclass(frozen=True)
class Examined:
    """What a check found, and what it saw of the dataset."""

    report: FsckReport
    survey: Survey
    damaged: tuple[DamagedRef, ...]


def examine(location: DatasetLocation, options: FsckOptions, engine: Engine, now_ns: int) -> Examined:
    """As :func:`fsck`, for whoever has to know more than the report says."""
    looking = LenientLook()
    engine.tell(WorkProgress("look at branches, tags and clones"))
    survey, lasting = look_at(location, options.clones, options.clones_from, looking.take)
    runner = engine.for_work("fsck", work_of_all(survey))
    try:
        check = _Check(survey, options, runner, RunClock(now_ns))
        findings = [*findings_of_refs(survey, lasting, looking.damaged), *findings_of_records(location, now_ns)]
        findings += check.findings()
    finally:
        runner.release()
    report = FsckReport(
        dataset=location.uri,
        deep=options.deep,
        findings=worst_first(findings),
        versions=sum(len(chain.files) for chain in survey.chains),
        files=check.files,
        ran_on=runner.name,
        complete=not any(each.branch is None and each.tag is None for each in looking.damaged),
    )
    return Examined(report, survey, looking.damaged)


class _Check:
    """One check, after its survey."""

    def __init__(self, survey: Survey, options: FsckOptions, runner: Runner, clock: RunClock) -> None:
        self._survey, self._options, self._runner, self._clock = survey, options, runner, clock
        self.files = 0
        self._holders: Holders = holders_of(survey)

    def findings(self) -> Iterator[CheckFinding]:
        needed = self._needed()
        bases = self._collected("read base paths", needed, about_bases, BASES)
        lost = self._lost_bases(bases)
        suspects = self._collected("read manifests", needed, about_versions, NEEDED)
        found: list[dict[str, Any]] = [
            {**row, "path": self._manifest(row), "expected": 0, "files": 1, "bytes": 0, "rows": None}
            for row in suspects
        ]
        found += self._compared(needed, bases, lost)
        found += self._row_ids()
        found += self._blobs(needed)
        found = [row for row in found if row["code"] != codes.UNCOMMITTED] + _added_up(found)
        about = Confirming(self._survey, self._options.clones, self._options.clones_from)
        in_versions = [row for row in found if row["chain"] is not None]
        yield from self._named([*about.confirmed(in_versions), *(row for row in found if row["chain"] is None)])
        yield from self._of_bases(bases, lost)

    def _needed(self) -> Frame:
        positions = {index: range(len(chain.files)) for index, chain in enumerate(self._survey.chains) if chain.files}
        spans = cut_spans(self._survey, positions, 2 * self._runner.parallelism, {})
        return self._runner.keep(self._runner.flat_map("read manifests", spans, NeedSpan(self._survey), NEEDED))

    def _collected(self, stage: str, frame: Frame, function: Any, schema: pa.Schema) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._runner.collect(
            stage, self._runner.map(stage, frame, function, schema)
        ).to_pylist()
        return rows

    def _lost_bases(self, bases: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
        """(code, detail) of the base paths that lead nowhere or that cannot be looked at."""
        lost = {}
        for base in sorted({row["base"] for row in bases}):
            try:
                place = self._place(base)
                if next(iter(list_range(place, WHOLE)), None) is None:
                    lost[base] = (codes.BASE_ABSENT, "")
            except (InvalidOption, NotFound) as problem:
                lost[base] = (codes.BASE_ABSENT, problem.message)
            except StorageFailure as problem:
                lost[base] = (codes.BASE_UNREACHABLE, problem.message)
        return lost

    def _place(self, base: str) -> DatasetLocation:
        return locate(base, self._survey.location.storage_options)

    def _compared(
        self, needed: Frame, bases: Iterable[Mapping[str, Any]], lost: Mapping[str, object]
    ) -> list[dict[str, Any]]:
        runner, survey = self._runner, self._survey
        places = {place.uri: place for row in bases if row["base"] not in lost for place in [self._place(row["base"])]}
        files = list_all(survey, runner)
        if places:
            listed = runner.flat_map("list base paths", list(places.values()), ListBase(), FILES)
            files = runner.union([files, listed])
        question = Question(
            checked=frozenset(at for at, chain in enumerate(survey.chains) if chain.has_ref),
            lost_bases=frozenset(lost),
            left_before_ns=self._clock.before(self._options.left_after),
        )
        comparing = Compare(question, LookInside(survey.location) if self._options.deep else None)
        stage = "look inside of files" if self._options.deep else "compare"
        suspects = runner.match(stage, (files, needed), comparing, SUSPECTS, about_rows(survey))
        rows: list[dict[str, Any]] = runner.collect(stage, suspects).to_pylist()
        self.files = sum(row["files"] for row in rows if row["code"] == COUNTED)
        return [row for row in rows if row["code"] != COUNTED]

    def _row_ids(self) -> list[dict[str, Any]]:
        if not self._options.deep:
            return []
        items = [
            RowIdItem(self._survey.location, PinnedVersion(chain.branch, newest.version), index, at, chain.path(newest))
            for index, chain in self._survey.owned()
            if chain.has_ref and chain.versions
            for at, newest in [(len(chain.versions) - 1, chain.versions[-1])]
        ]
        frame = self._runner.flat_map("check row ids", items, check_row_ids, SUSPECTS)
        rows: list[dict[str, Any]] = self._runner.collect("check row ids", frame).to_pylist()
        return rows

    def _blobs(self, needed: Frame) -> list[dict[str, Any]]:
        """A row for each span of versions that name a data file whose blobs are not there."""
        if not self._options.deep:
            return []
        stage = "look for blobs"
        frame = self._runner.flat_map(stage, list(blob_items(self._survey)), look_for_blobs, SUSPECTS)
        wrong = {row["path"]: row for row in self._runner.collect(stage, frame).to_pylist()}
        if not wrong:
            return []
        keys = frozenset(data_file_of(path) for path in wrong)
        naming = self._collected(stage, needed, Naming(keys), NEEDED)
        return [
            {**row, **{name: one[name] for name in ("chain", "first", "last", "base")}}
            for row in wrong.values()
            for one in naming
            if one["key"] == data_file_of(row["path"])
        ]

    def _manifest(self, row: Mapping[str, Any]) -> str:
        chain = self._survey.chains[row["chain"]]
        path = chain.path(chain.files[row["first"]])
        return f"{self._survey.repositories[chain.repository].uri}/{path}" if chain.repository else path

    def _named(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[CheckFinding]:
        """One finding for each code and path, with everybody who is hit."""
        groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            groups.setdefault((row["code"], row["path"]), []).append(row)
        for (code, path), group in groups.items():
            counts = [row["rows"] for row in group if row["rows"] is not None]
            detail = next((row["detail"] for row in group if row["detail"]), "")
            refs = sorted({ref for row in group if row["chain"] is not None for ref in self._refs(row)})
            count = max(counts) if counts else None
            yield CheckFinding(code, path, tuple(refs), count, detail, max(row["files"] for row in group))

    def _refs(self, row: Mapping[str, Any]) -> list[str]:
        ids = self._holders.chains[row["chain"]].of_span(row["first"], row["last"])
        return [_name(self._holders.all[one]) for one in ids]

    def _of_bases(
        self, bases: Iterable[Mapping[str, Any]], lost: Mapping[str, tuple[str, str]]
    ) -> Iterator[CheckFinding]:
        for base, (code, detail) in lost.items():
            refs = {ref for row in bases if row["base"] == base for ref in self._refs(row)}
            yield CheckFinding(code, base, tuple(sorted(refs)), detail=detail)


def _name(holder: Holder) -> str:
    """How a finding names somebody who is hit."""
    if holder.kind == BRANCH:
        return holder.ref
    return f"{holder.kind} {holder.ref}" if holder.kind in (TAG, CLONE) else f"{holder.kind} of {holder.ref}"


def _added_up(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for all files that no version names."""
    left = [row for row in rows if row["code"] == codes.UNCOMMITTED]
    if not left:
        return []
    size = sum(row["bytes"] for row in left)
    return [{**left[0], "files": sum(row["files"] for row in left), "rows": None, "detail": f"{size:,} bytes in all."}]
