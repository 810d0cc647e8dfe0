"""The check of a dataset: survey, read all manifests, list all files, compare, look again, report. Changes nothing.

In: a dataset and options. Out: a report of findings. Manifests, base paths, files, row ids and blobs are examined on
executors. Everything that seems wrong is looked at again: a dataset that changes is not a corrupt one.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.cleanup import about_rows, list_all, work_of_all
from lance_spark.cleanup.reference_rules import ChainSpan, KeyResolver, cut_spans
from lance_spark.cleanup.retention_rules import RunClock
from lance_spark.cleanup.sweep_rules import FILES
from lance_spark.core.layout import QUARANTINE, KeyRange, branch_root, classify, stored_name
from lance_spark.core.location import DatasetLocation
from lance_spark.core.progress import WorkProgress
from lance_spark.core.records import finding_codes
from lance_spark.core.records.reflog import LOG, RefChange, decode
from lance_spark.core.records.reflog import TAG as REFLOG_TAG
from lance_spark.core.records.repair_record import RECORD, Digest, RepairRecord, read_record
from lance_spark.core.ref_files import BRANCHES, MAIN_FILE, parse_main, ref_file
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.texts import moment_at
from lance_spark.disk_usage.holder_rules import BRANCH, CLONE, TAG, Holder, Holders, holders_of
from lance_spark.engine.local import Engine, Frame, Runner
from lance_spark.errors import CorruptData, InvalidOption, LanceSparkError, NotFound, Refused, StorageFailure
from lance_spark.format.blobs import BLOB_EXTENSION
from lance_spark.format.contents import Contents, DataFile, Fragment
from lance_spark.format.mem_wal import DIRECTORY
from lance_spark.format.metadata import data_directory
from lance_spark.format.row_ids import read_row_ids
from lance_spark.format.versions import Root, Snapshot
from lance_spark.fsck import finding_rules
from lance_spark.fsck.file_contents import holds_nulls, look_inside, may_hold_nulls, read_descriptions, size_of
from lance_spark.fsck.finding_rules import CheckFinding, Origin, contradiction, mapping
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.fsck.report import FsckReport, worst_first
from lance_spark.scan.fragment_reads import deleted_offsets
from lance_spark.storage import files
from lance_spark.storage.datasets import locate, open_pinned
from lance_spark.storage.files import each
from lance_spark.storage.listing import linked_directories, list_range
from lance_spark.storage.mem_wal import waiting_beside
from lance_spark.storage.objects import StoredObject, look, look_many
from lance_spark.storage.spelling import folds_case, spelling_of
from lance_spark.storage.versions import read_manifests, read_snapshot, transaction_of
from lance_spark.survey.chain_rules import Chain, Contradiction, Manifest, Survey, manifest_at, not_explained
from lance_spark.survey.survey import DamagedRef, lenient_survey, listed_below, look_at
from lance_spark.write.constraint_rules import Check, Constraint
from lance_spark.write.constraints import EXAMPLES, constraints_of, rows_breaking

# --- What is found in this package's records, in refs and in clones

_CHANGE = re.compile(r"(\d{20})-[0-9a-f]{8}\.json(\.[0-9a-f]{32}\.tmp)?")
_REPAIR = re.compile(r"\d{8}T\d{6}\.\d{6}")
_YOUNG = timedelta(hours=1)
"""Anything unfinished and younger than this may still be in progress."""


def findings_of_records(location: DatasetLocation, now_ns: int) -> Iterator[CheckFinding]:
    """All findings about records. ``now_ns`` is the time in nanoseconds since the epoch. Raises StorageFailure."""
    now = moment_at(now_ns)
    yield from _of_main(location)
    yield from _of_changes(location, now)
    yield from _of_repairs(location, now)


def _of_main(location: DatasetLocation) -> Iterator[CheckFinding]:
    content = files.read(location, MAIN_FILE)
    if content is None:
        return
    try:
        parse_main(content)
    except CorruptData as problem:
        yield CheckFinding(finding_codes.MAIN_DAMAGED, MAIN_FILE, (MAIN,), detail=problem.message)


def _of_changes(location: DatasetLocation, now: datetime) -> Iterator[CheckFinding]:
    names = files.list_names(location, LOG)
    paths = [f"{LOG}/{name}" for name in names]
    contents = files.each(location, partial(files.read, location), paths)
    for name, path, content in zip(names, paths, contents, strict=True):
        if content is not None:
            yield from _of_change(name, path, content, now)


def _of_change(name: str, path: str, content: bytes, now: datetime) -> Iterator[CheckFinding]:
    named = _CHANGE.fullmatch(name)
    if not name.endswith(".json"):
        if named is None or moment_at(int(named[1])) < now - _YOUNG:
            yield CheckFinding(finding_codes.RECORD_UNFINISHED, path)
        return
    try:
        change = decode(name.removesuffix(".json"), content)
        ref = _ref_of(change)
    except CorruptData as problem:
        yield CheckFinding(finding_codes.REFLOG_DAMAGED, path, detail=problem.message)
        return
    if named is None or moment_at(int(named[1])) != change.at:
        yield CheckFinding(finding_codes.REFLOG_MISNAMED, path, (ref,), detail=f"It is of {change.at.isoformat()}.")


def _ref_of(change: RefChange) -> str:
    """The ref's name as in findings. Raises CorruptData if the change holds an unreadable ref file."""
    if change.branch is not None:
        return change.branch.name
    return f"tag {change.name}" if change.kind == REFLOG_TAG else change.name


def _of_repairs(location: DatasetLocation, now: datetime) -> Iterator[CheckFinding]:
    names = files.list_names(location, QUARANTINE)
    paths = [f"{QUARANTINE}/{name}/{RECORD}" for name in names]
    contents = files.each(location, partial(files.read, location), paths)
    records: list[tuple[str, RepairRecord]] = []
    for name, path, content in zip(names, paths, contents, strict=True):
        if content is None:
            if not _is_young(name, now):
                yield CheckFinding(
                    finding_codes.RECORD_UNFINISHED, f"{QUARANTINE}/{name}", detail=_inside(location, name)
                )
            continue
        try:
            records.append((name, read_record(content)))
        except CorruptData as problem:
            yield CheckFinding(finding_codes.REPAIR_DAMAGED, path, detail=problem.message)
    copies: defaultdict[Digest, list[str]] = defaultdict(list)
    for kept in (kept for _, record in records for kept in record.kept()):
        copies[kept.file].append(kept.to)
    for name, record in records:
        yield from _of_copies(location, name, record, copies)


def _is_young(name: str, now: datetime) -> bool:
    made = _REPAIR.match(name)
    return made is not None and now - _YOUNG < datetime.strptime(f"{made[0]}+0000", "%Y%m%dT%H%M%S.%f%z")


def _inside(location: DatasetLocation, name: str) -> str:
    left = [one for one in files.list_names(location, f"{QUARANTINE}/{name}") if not one.startswith(f"{RECORD}.")]
    return f"It contains {', '.join(left)}, but no record of where they belong." if left else ""


def _of_copies(
    location: DatasetLocation, name: str, record: RepairRecord, copies: Mapping[Digest, Sequence[str]]
) -> Iterator[CheckFinding]:
    """Files that a repair moved away and that no repair still has. ``copies`` are those of all repairs, by file.

    A repair that crashed before its first copy names a file that the next repair moved away.
    """
    if record.id != name:
        detail = f"It belongs to repair {record.id}."
        yield CheckFinding(finding_codes.REPAIR_DAMAGED, f"{QUARANTINE}/{name}/{RECORD}", detail=detail)
        return
    for kept in record.kept():
        is_kept = any(size_of(location, place) == kept.file.size for place in copies[kept.file])
        if not is_kept and size_of(location, kept.file.path) is None:
            yield CheckFinding(finding_codes.REPAIR_COPY_GONE, kept.to, detail=f"It was {kept.file.path}.")


# --- Findings about branches, tags and records of clones

_BY_CONTRADICTION = {
    "branch": finding_codes.BRANCH_EMPTY,
    "noted": finding_codes.VERSIONS_LOST,
    "twice": finding_codes.VERSION_TWICE,
    "tag": finding_codes.TAG_DANGLING,
}


def findings_of_refs(
    survey: Survey, lasting: Iterable[Contradiction], damaged: Iterable[DamagedRef]
) -> Iterator[CheckFinding]:
    for file in damaged:
        named = (file.branch or f"tag {file.tag}",) if file.branch or file.tag else ()
        yield CheckFinding(finding_codes.REF_DAMAGED, file.path, named, detail=file.reason)
    for one in lasting:
        about = one.about if isinstance(one.about, tuple) else (one.about,)
        code = _BY_CONTRADICTION.get(str(about[0]), finding_codes.NO_VERSIONS)
        name = (
            MAIN
            if code == finding_codes.NO_VERSIONS
            else str(about[2] if code == finding_codes.BRANCH_EMPTY else about[1])
        )
        yield CheckFinding(code, name or MAIN, detail=one.message)
    there = {*survey.refs.branches, *(file.branch for file in damaged)}
    for branch in survey.refs.branches.values():
        if branch.parent_branch is not None and branch.parent_branch not in there:
            detail = f"'{branch.name}' was created from '{branch.parent_branch}'."
            yield CheckFinding(finding_codes.PARENT_GONE, branch.name, (branch.name,), detail=detail)
    roots = {str(chain.branch): chain.root for _, chain in survey.owned() if chain.root}
    for _, chain in survey.owned():
        if not chain.has_ref:
            code = finding_codes.SECOND_MAIN if chain.branch == MAIN else finding_codes.NO_REF
            yield CheckFinding(code, chain.root, tuple(_lying_in(survey.location, chain.root, roots)))
    uris = {location.uri for location in survey.repositories}
    for tag, uri in survey.recorded_clones.items():
        if uri not in uris:
            yield CheckFinding(finding_codes.CLONE_GONE, uri, (tag,))
    yield from _of_origins(survey)


def _lying_in(location: DatasetLocation, root: str, roots: Mapping[str, str]) -> list[str]:
    """The branches whose directories lie in that of another one: it must not be removed as a whole."""
    folds = folds_case(location) if len(roots) > 1 else False
    above = f"{root.casefold() if folds else root}/"
    return sorted(name for name, one in roots.items() if (one.casefold() if folds else one).startswith(above))


def _of_origins(survey: Survey) -> Iterator[CheckFinding]:
    """Branches whose ref contradicts their first version."""
    chains = [chain for _, chain in survey.owned() if chain.branch in survey.refs.branches and chain.versions]
    found = files.each(survey.location, partial(first_origin, survey), chains)
    for chain, first in zip(chains, found, strict=True):
        branch = survey.refs.branches[str(chain.branch)]
        wrong = contradiction(Origin(branch.parent_branch, branch.parent_version), first)
        if wrong:
            yield CheckFinding(finding_codes.REF_WRONG, ref_file(BRANCHES, branch.name), (branch.name,), detail=wrong)
    yield from _of_identities(survey)


def _of_identities(survey: Survey) -> Iterator[CheckFinding]:
    """Branches that their children record under another identity: a merge would not know what it merged before."""
    branches = survey.refs.branches
    children = [one for one in branches.values() if one.parent_branch in branches]
    paths = [ref_file(BRANCHES, one.name) for one in children]
    wrong: dict[str, list[str]] = {}
    for child, content in zip(children, files.read_many(survey.location, paths), strict=True):
        known, parent = mapping(content or b""), branches[str(child.parent_branch)]
        made_later = parent.created_at > child.created_at  # another branch of that name; the real parent is gone
        if len(known) > 1 and known[-2][1] != parent.identity and not made_later:
            wrong.setdefault(parent.name, []).append(child.name)
    for name, by in wrong.items():
        detail = f"'{by[0]}', which was created from it, records another identity for it"
        yield CheckFinding(finding_codes.REF_WRONG, ref_file(BRANCHES, name), (name, *by), detail=detail)


def first_origin(survey: Survey, chain: Chain) -> Origin | None:
    """The version that a branch was copied from, by its first version; None if that is gone or does not record it.

    Only the last part of the parent's path identifies it: the dataset may have been moved since.
    """
    first = chain.versions[0]
    try:
        content = files.read(survey.location, chain.path(first))
        said = None if content is None else transaction_of(survey.location, chain.branch, content)
    except (CorruptData, Refused):
        return None
    if said is None or said.cloned_from is None:
        return None
    known, parent = _branch_at(survey, said.cloned_from)
    return Origin(parent, first.version) if known else None


def _branch_at(survey: Survey, place: str) -> tuple[bool, str | None]:
    """(whether it is known, branch) for a place that a first version names; the dataset may have been moved since."""
    place, own = place.rstrip("/"), survey.location.uri
    if place == own:
        return True, None
    if place.startswith(f"{own}/tree/"):
        return True, place[len(own) + 6 :]
    names = {chain.branch for _, chain in survey.owned() if chain.branch is not None}
    matching = [name for name in names if place.endswith(f"/tree/{name}")]
    if matching:
        return True, max(matching, key=len)
    return "/tree/" not in place, None


# --- The check


def fsck(location: DatasetLocation, options: FsckOptions, engine: Engine, now_ns: int) -> FsckReport:
    """Check main, all branches and tags, and the files that clones read here. Changes nothing.

    ``now_ns`` is the time in nanoseconds since the epoch. Raises NotFound if there is no dataset, Conflict for one that
    never stops changing, StorageFailure if the store of the dataset itself does not answer.
    """
    return examine(location, options, engine, now_ns).report


@dataclass(frozen=True)
class Examined:
    """The findings of a check, and what it saw of the dataset."""

    report: FsckReport
    survey: Survey
    damaged: tuple[DamagedRef, ...]


def examine(location: DatasetLocation, options: FsckOptions, engine: Engine, now_ns: int) -> Examined:
    """Like :func:`fsck`, for callers that need more than the report."""
    damaged: tuple[DamagedRef, ...] = ()

    def look(location: DatasetLocation, clones: Sequence[str], clones_from: Sequence[str]) -> Survey:
        nonlocal damaged  # those of the last look count
        found, damaged = lenient_survey(location, clones, clones_from)
        return found

    engine.tell(WorkProgress("look at branches, tags and clones"))
    survey, lasting = look_at(location, options.clones, options.clones_from, look)
    runner = engine.for_work("fsck", work_of_all(survey))
    try:
        check = _Check(survey, options, runner, RunClock(now_ns))
        findings = [*findings_of_refs(survey, lasting, damaged), *findings_of_records(location, now_ns)]
        findings += check.findings()
        linked = linked_directories(location, map(branch_root, survey.branches))
        findings += (finding_rules.CheckFinding(finding_codes.LINKED, path) for path in linked)
        findings += _spelled_otherwise(survey)
        findings += _waiting(survey)
    finally:
        runner.release()
    report = FsckReport(
        dataset=location.uri,
        deep=options.deep,
        findings=worst_first(findings),
        versions=sum(len(chain.files) for chain in survey.chains),
        files=check.files,
        ran_on=runner.name,
        complete=not any(each.branch is None and each.tag is None for each in damaged),
    )
    return Examined(report, survey, damaged)


def _spelled_otherwise(survey: Survey) -> Iterator[finding_rules.CheckFinding]:
    """Branches that the disk finds under the spelling of another branch, and deleted ones that it would restore so."""
    for on_disk, root in spelling_of(survey.location).branches.items():
        if on_disk != root:
            yield finding_rules.CheckFinding(finding_codes.CASE_CLASH, on_disk, (root.removeprefix("tree/"),))


def _waiting(survey: Survey) -> Iterator[finding_rules.CheckFinding]:
    """Branches beside which rows wait in a write-ahead log."""
    for _, chain in survey.owned():
        newest = PinnedVersion(chain.branch, chain.versions[-1].version) if chain.versions else None
        try:
            found, known = waiting_beside(survey.location, chain.branch, newest)
        except CorruptData:
            continue  # the manifest is a finding of its own
        if found:
            path = f"{chain.root}/{DIRECTORY}" if chain.root else DIRECTORY
            told = f"There are {found}."
            if not known:
                told += (
                    " The newest version has no such log, as after an overwrite: restore a version from before first."
                )
            yield finding_rules.CheckFinding(finding_codes.ROWS_WAIT, path, (chain.name,), found.rows or None, told)


class _Check:
    def __init__(self, survey: Survey, options: FsckOptions, runner: Runner, clock: RunClock) -> None:
        self._survey, self._options, self._runner, self._clock = survey, options, runner, clock
        self.files = 0
        self._holders: Holders = holders_of(survey)

    def findings(self) -> Iterator[finding_rules.CheckFinding]:
        needed = self._needed()
        bases = self._collected("read base paths", needed, about_bases, BASES)
        lost = self._lost_bases(bases)
        suspects = self._collected("read manifests", needed, about_versions, finding_rules.NEEDED)
        found: list[dict[str, Any]] = [
            {**row, "path": self._manifest(row), "expected": 0, "files": 1, "bytes": 0, "rows": None}
            for row in suspects
        ]
        found += self._compared(needed, bases, lost)
        found += self._row_ids()
        found += self._in_rows("look for nulls", look_for_nulls)
        found += self._in_rows("check constraints", look_for_broken)
        found += self._blobs(needed)
        found = [row for row in found if row["code"] != finding_codes.UNCOMMITTED] + _added_up(found)
        about = Confirming(self._survey, self._options.clones, self._options.clones_from)
        in_versions = [row for row in found if row["chain"] is not None]
        yield from self._named([*about.confirmed(in_versions), *(row for row in found if row["chain"] is None)])
        yield from self._of_bases(bases, lost)

    def _needed(self) -> Frame:
        positions = {index: range(len(chain.files)) for index, chain in enumerate(self._survey.chains) if chain.files}
        spans = cut_spans(self._survey, positions, 2 * self._runner.parallelism, {})
        needed = partial(needed_of, self._survey)
        return self._runner.keep(self._runner.flat_map("read manifests", spans, needed, finding_rules.NEEDED))

    def _collected(self, stage: str, frame: Frame, function: Any, schema: pa.Schema) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._runner.collect(
            stage, self._runner.map(stage, frame, function, schema)
        ).to_pylist()
        return rows

    def _lost_bases(self, bases: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
        """(code, detail) of the base paths that lead nowhere or cannot be reached."""
        lost = {}
        for base in sorted({row["base"] for row in bases}):
            try:
                place = self._place(base)
                if next(iter(list_range(place, WHOLE)), None) is None:
                    lost[base] = (finding_codes.BASE_ABSENT, "")
            except (InvalidOption, NotFound) as problem:
                lost[base] = (finding_codes.BASE_ABSENT, problem.message)
            except StorageFailure as problem:
                lost[base] = (finding_codes.BASE_UNREACHABLE, problem.message)
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
            listed = runner.flat_map("list base paths", list(places.values()), list_base, FILES)
            files = runner.union([files, listed])
        question = finding_rules.Question(
            checked=frozenset(at for at, chain in enumerate(survey.chains) if chain.has_ref),
            lost_bases=frozenset(lost),
            left_before_ns=self._clock.before(self._options.left_after),
        )
        look = partial(look_inside, survey.location) if self._options.deep else None
        comparing = partial(finding_rules.compare, question=question, look=look)
        stage = "look inside of files" if self._options.deep else "compare"
        suspects = runner.match(stage, (files, needed), comparing, finding_rules.SUSPECTS, about_rows(survey))
        rows: list[dict[str, Any]] = runner.collect(stage, suspects).to_pylist()
        self.files = sum(row["files"] for row in rows if row["code"] == finding_rules.COUNTED)
        return [row for row in rows if row["code"] != finding_rules.COUNTED]

    def _row_ids(self) -> list[dict[str, Any]]:
        if not self._options.deep:
            return []
        items = [
            RowIdItem(self._survey.location, PinnedVersion(chain.branch, newest.version), index, at, chain.path(newest))
            for index, chain in self._survey.owned()
            if chain.has_ref and chain.versions
            for at, newest in [(len(chain.versions) - 1, chain.versions[-1])]
        ]
        frame = self._runner.flat_map("check row ids", items, check_row_ids, finding_rules.SUSPECTS)
        rows: list[dict[str, Any]] = self._runner.collect("check row ids", frame).to_pylist()
        return rows

    def _in_rows(self, stage: str, look: Callable[[NullItem], Iterator[pa.RecordBatch]]) -> list[dict[str, Any]]:
        """What only the rows of all versions show: nulls where none can be, and rows that break a constraint."""
        if not self._options.deep:
            return []
        frame = self._runner.flat_map(stage, list(null_items(self._survey)), look, finding_rules.SUSPECTS)
        rows: list[dict[str, Any]] = self._runner.collect(stage, frame).to_pylist()
        return rows

    def _blobs(self, needed: Frame) -> list[dict[str, Any]]:
        """A row for each span of versions that name a data file with missing blobs or objects."""
        if not self._options.deep:
            return []
        stage = "look for blobs"
        frame = self._runner.flat_map(stage, list(blob_items(self._survey)), look_for_blobs, finding_rules.BESIDE)
        wrong = {(row["path"], row["file"]): row for row in self._runner.collect(stage, frame).to_pylist()}
        if not wrong:
            return []
        keys = frozenset(file for _, file in wrong)
        naming = self._collected(stage, needed, partial(about_files, keys), finding_rules.NEEDED)
        return [
            {**row, **{name: one[name] for name in ("chain", "first", "last", "base")}}
            for row in wrong.values()
            for one in naming
            if one["key"] == row["file"]
        ]

    def _manifest(self, row: Mapping[str, Any]) -> str:
        chain = self._survey.chains[row["chain"]]
        path = chain.path(chain.files[row["first"]])
        return f"{self._survey.repositories[chain.repository].uri}/{path}" if chain.repository else path

    def _named(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[finding_rules.CheckFinding]:
        """One finding for each code and path, with all affected refs."""
        groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            groups.setdefault((row["code"], row["path"]), []).append(row)
        for (code, path), group in groups.items():
            # Several data files may refer to one object elsewhere; all else is named by the rows of one file.
            counts: dict[str | None, int] = {}
            for row in group:
                if row["rows"] is not None:
                    counts[row.get("file")] = max(row["rows"], counts.get(row.get("file"), 0))
            detail = next((row["detail"] for row in group if row["detail"]), "")
            refs = sorted({ref for row in group if row["chain"] is not None for ref in self._refs(row)})
            count = sum(counts.values()) if counts else None
            yield finding_rules.CheckFinding(code, path, tuple(refs), count, detail, max(row["files"] for row in group))

    def _refs(self, row: Mapping[str, Any]) -> list[str]:
        ids = self._holders.chains[row["chain"]].of_span(row["first"], row["last"])
        return [_name(self._holders.all[one]) for one in ids]

    def _of_bases(
        self, bases: Iterable[Mapping[str, Any]], lost: Mapping[str, tuple[str, str]]
    ) -> Iterator[finding_rules.CheckFinding]:
        for base, (code, detail) in lost.items():
            rows = [row for row in bases if row["base"] == base]
            refs = {ref for row in rows for ref in self._refs(row)}
            if code == finding_codes.BASE_ABSENT and not any(self._is_held(row) for row in rows):
                code = finding_codes.BASE_LEFT
            yield finding_rules.CheckFinding(code, base, tuple(sorted(refs)), detail=detail)

    def _is_held(self, row: Mapping[str, Any]) -> bool:
        """Whether one of a row's versions is the newest of a branch, has a tag, or is read by a clone.

        A version that another branch was made from is history, however long it stays: nobody reads from there.
        """
        chain = self._survey.chains[row["chain"]]
        held = {
            self._holders.all[one].kind for one in self._holders.chains[row["chain"]].of_span(row["first"], row["last"])
        }
        is_newest = row["first"] < len(chain.versions) <= row["last"] + 1
        return bool(held & {TAG, CLONE}) or (BRANCH in held and is_newest)


def _name(holder: Holder) -> str:
    """The name of an affected holder in a finding."""
    if holder.kind == BRANCH:
        return holder.ref
    return f"{holder.kind} {holder.ref}" if holder.kind in (TAG, CLONE) else f"{holder.kind} of {holder.ref}"


def _added_up(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A single row for all files that no version names."""
    left = [row for row in rows if row["code"] == finding_codes.UNCOMMITTED]
    if not left:
        return []
    size = sum(row["bytes"] for row in left)
    return [{**left[0], "files": sum(row["files"] for row in left), "rows": None, "detail": f"{size:,} bytes in all."}]


# --- Work on executors: manifests, base paths, comparisons, row ids

WHOLE = KeyRange(None, None)


def needed_of(survey: Survey, span: ChainSpan) -> Iterator[pa.RecordBatch]:
    """NEEDED of a span of versions."""
    chain = survey.chains[span.chain]
    repository = survey.repositories[chain.repository]
    paths = [chain.path(chain.files[position]) for position in span.positions]
    contents = zip(span.positions, read_manifests(repository, paths), strict=True)
    yield from finding_rules.needed_of_span(chain, span.chain, contents, KeyResolver(survey, os.path.realpath))


def about_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_valid(batch["code"]))


BASES = pa.schema([("base", pa.string()), ("chain", pa.int32()), ("first", pa.int32()), ("last", pa.int32())])


def about_bases(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """BASES: the base paths outside all repositories, with the chains whose versions read files from there."""
    for batch in batches:
        named = pa.Table.from_batches([batch.filter(pc.is_valid(batch["base"]))]).select(BASES.names)
        found = named.group_by(["base", "chain"]).aggregate([("first", "min"), ("last", "max")])
        yield from found.rename_columns(BASES.names).cast(BASES).to_batches()


def list_base(place: DatasetLocation) -> Iterator[pa.RecordBatch]:
    """FILES of no chain, with URIs for paths and keys: the content of a base path."""
    for batch in list_range(place, WHOLE):
        named = [classify(path) for path in batch["path"].to_pylist()]
        columns: list[Any] = [
            [f"{place.uri}/{path}" for path in batch["path"].to_pylist()],
            [each.kind for each in named],
            [-1] * len(named),
            [f"{place.uri}/{each.key}" for each in named],
            [each.key for each in named],
            batch["size"].to_pylist(),
            [None] * len(named),
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, FILES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=FILES)


@dataclass(frozen=True)
class RowIdItem:
    """The newest version of a branch, whose row ids are checked."""

    location: DatasetLocation
    pin: PinnedVersion
    chain: int
    position: int
    path: str
    """Of the manifest."""


def check_row_ids(item: RowIdItem) -> Iterator[pa.RecordBatch]:
    """SUSPECTS about the stable row ids of a version. Skips missing or damaged files, which other stages find."""
    try:
        snapshot = read_snapshot(item.location, item.pin)
        wrong = list(_row_ids(item, snapshot)) if snapshot.contents.has_stable_row_ids else []
    except (NotFound, CorruptData):
        return
    span = {"chain": item.chain, "first": item.position, "last": item.position}
    rows = [finding_rules.suspect(code, item.path, **span, detail=detail, rows=count) for code, detail, count in wrong]
    yield pa.RecordBatch.from_pylist(rows, finding_rules.SUSPECTS)


def _row_ids(item: RowIdItem, snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    contents: Contents = snapshot.contents
    kept, fragments = [], [fragment for fragment in contents.fragments() if fragment.row_ids]
    for fragment in fragments:
        ids = np.array(read_row_ids(fragment.row_ids), np.uint64)
        if len(ids) != fragment.physical_rows:
            detail = f"fragment {fragment.id} has {len(ids):,} row ids for {fragment.physical_rows:,} rows"
            yield finding_codes.ROW_IDS_IMPOSSIBLE, detail, fragment.physical_rows
        elif len(ids) and int(ids.max()) >= contents.next_row_id:
            detail = f"fragment {fragment.id} has row id {int(ids.max()):,}, and {contents.next_row_id:,} comes next"
            yield finding_codes.ROW_IDS_IMPOSSIBLE, detail, fragment.physical_rows
        kept.append(_without_deleted(item, snapshot, fragment, ids))
    values, counts = np.unique(np.concatenate(kept), return_counts=True) if kept else (np.array([]), np.array([]))
    twice = values[counts > 1]
    if len(twice):
        yield (
            finding_codes.ROW_IDS_TWICE,
            f"{len(twice):,} ids, such as {int(twice[0]):,}",
            int(counts[counts > 1].sum()),
        )


def _without_deleted(item: RowIdItem, snapshot: Snapshot, fragment: Fragment, ids: Any) -> Any:
    """The ids without deleted rows: an updated row keeps its id, and its old place is deleted."""
    if fragment.deletion is None or len(ids) != fragment.physical_rows:
        return ids
    return np.delete(ids, deleted_offsets(item.location, snapshot, fragment).to_numpy())


# --- Looking for files with blobs next to data files
# No manifest names them, so rows must be read.

_AT_ONCE = 2**20
"""Bytes of a manifest whose fragments one task examines: some thousands of fragments."""
_EXTENSION = "ARROW:extension:name"


@dataclass(frozen=True)
class BlobItem:
    """A part of the fragments of a version that a ref needs."""

    location: DatasetLocation
    pin: PinnedVersion
    main: PinnedVersion | None
    """The newest version of main, whose files another item examines; None for main itself."""
    part: int
    parts: int


def blob_items(survey: Survey) -> Iterator[BlobItem]:
    """The newest version of each branch, and the tagged versions."""
    tagged = {(tag.branch, tag.version) for tag in survey.refs.tags.values()}
    main = next((chain for _, chain in survey.owned() if chain.branch is None and chain.versions), None)
    newest = None if main is None else PinnedVersion(None, main.versions[-1].version)
    for _, chain in survey.owned():
        if chain.has_ref and chain.versions:
            yield from _items(survey, chain, tagged, newest)


def _items(
    survey: Survey, chain: Chain, tagged: set[tuple[str | None, int]], main: PinnedVersion | None
) -> Iterator[BlobItem]:
    for file in chain.versions:
        if file is chain.versions[-1] or (chain.branch, file.version) in tagged:
            pin = PinnedVersion(chain.branch, file.version)
            parts = 1 + file.size // _AT_ONCE
            for part in range(parts):
                yield BlobItem(survey.location, pin, None if pin == main else main, part, parts)


def look_for_blobs(item: BlobItem) -> Iterator[pa.RecordBatch]:
    """BESIDE without chains, for each blob file or object elsewhere that differs from what the rows record.

    Skips what cannot be read because a data file or manifest is missing; another stage finds that.
    """
    try:
        snapshot = read_snapshot(item.location, item.pin)
        fields = _blob_fields(snapshot)
        known = _files_of(item.location, item.main) if item.main is not None and fields else frozenset()
    except LanceSparkError:
        return
    fragments = list(snapshot.contents.fragments())[item.part :: item.parts] if fields else []
    rows = [
        row
        for fragment in fragments
        for file in fragment.files
        if file.path not in known and (names := [*dict.fromkeys(fields[one] for one in file.fields if one in fields)])
        for row in _beside(item, snapshot, fragment.id, file, names)
    ]
    yield pa.RecordBatch.from_pylist(rows, finding_rules.BESIDE)


@dataclass(frozen=True)
class NullItem:
    """A part of the fragments of a version that a ref needs, and where its manifest is."""

    blobs: BlobItem
    chain: int
    position: int
    path: str


def null_items(survey: Survey) -> Iterator[NullItem]:
    """The newest version of each branch, and the tagged versions."""
    at = {
        (chain.branch, file.version): (index, position, chain.path(file))
        for index, chain in survey.owned()
        for position, file in enumerate(chain.versions)
    }
    for item in blob_items(survey):
        yield NullItem(item, *at[item.pin.branch, item.pin.version])


def look_for_nulls(item: NullItem) -> Iterator[pa.RecordBatch]:
    """SUSPECTS about rows without a value in a column that cannot be null. Skips what other stages find."""
    location, pin = item.blobs.location, item.blobs.pin
    try:
        snapshot = read_snapshot(location, pin)
        strict = _strict_fields(snapshot)
        fragments = list(snapshot.contents.fragments())[item.blobs.part :: item.blobs.parts] if strict else []
    except LanceSparkError:
        return
    found: dict[str, int] = {}
    for fragment, columns in zip(
        fragments, each(location, partial(_with_nulls, item, snapshot, strict), fragments), strict=True
    ):
        for column in columns:
            found[column] = found.get(column, 0) + fragment.rows
    span = {"chain": item.chain, "first": item.position, "last": item.position}
    detail = f"Column {', '.join(map(repr, sorted(found)))} of {pin}."
    row = finding_rules.suspect(
        finding_codes.NULLS_IMPOSSIBLE, item.path, **span, detail=detail, rows=max(found.values(), default=0)
    )
    yield pa.RecordBatch.from_pylist([row] if found else [], finding_rules.SUSPECTS)


def look_for_broken(item: NullItem) -> Iterator[pa.RecordBatch]:
    """SUSPECTS about rows that break a constraint of their version. Skips what other stages find."""
    location, pin = item.blobs.location, item.blobs.pin
    found: list[dict[str, Any]] = []
    try:
        constraints = constraints_of(location, pin)
        fragments = read_snapshot(location, pin).contents.fragments() if constraints else ()
        mine = [each.id for each in [*fragments][item.blobs.part :: item.blobs.parts]]
        for constraint in constraints:
            said = _told(location, pin, constraint, mine)
            if said:
                span = {"chain": item.chain, "first": item.position, "last": item.position}
                detail = f"{constraint} of {pin}: {said}."
                found.append(finding_rules.suspect(finding_codes.CONSTRAINT_BROKEN, item.path, **span, detail=detail))
    except LanceSparkError:
        pass
    yield pa.RecordBatch.from_pylist(found, finding_rules.SUSPECTS)


def _told(location: DatasetLocation, pin: PinnedVersion, constraint: Constraint, fragments: Sequence[int]) -> str:
    """Some rows that break a constraint, or why nobody can tell; empty if none does."""
    try:
        check = Check(constraint, open_pinned(location, pin).schema)
    except InvalidOption as unfit:
        return unfit.message.rstrip(".")
    return "; ".join(islice(rows_breaking(location, pin, check, fragments), EXAMPLES))


def _strict_fields(snapshot: Snapshot) -> dict[int, tuple[str, ...]]:
    """The fields that cannot be null, by id, with the names from the column down."""
    names: dict[int, tuple[str, ...]] = {}
    for entry in snapshot.contents.fields:
        names[entry.id] = (*names.get(entry.parent_id, ()), entry.name)
    return {entry.id: names[entry.id] for entry in snapshot.contents.fields if not entry.nullable}


def _with_nulls(
    item: NullItem, snapshot: Snapshot, strict: Mapping[int, tuple[str, ...]], fragment: Fragment
) -> list[str]:
    """The columns of a fragment with nulls that cannot be there."""
    location, stored = item.blobs.location, {key for file in fragment.files for key in file.fields}
    suspects = {names[0] for key, names in strict.items() if len(names) == 1 and key not in stored}
    for file in fragment.files:
        wanted = [strict[key] for key in file.fields if key in strict]
        root = snapshot.root_of(file)
        path = _relative(location, root, f"{data_directory(root)}{stored_name(file.path)}")
        try:
            if wanted and may_hold_nulls(location, path, wanted):
                suspects |= {names[0] for names in wanted}
        except LanceSparkError:
            continue
    found = []
    for column in sorted(suspects):
        try:
            if holds_nulls(location, item.blobs.pin, fragment.id, column):
                found.append(column)
        except LanceSparkError:
            continue
    return found


def _blob_fields(snapshot: Snapshot) -> dict[int, str]:
    """Columns whose large values, at any depth, are stored next to data files, by the ids of the fields of blobs."""
    columns: dict[int, str] = {}
    for field in snapshot.contents.fields:
        columns[field.id] = columns.get(field.parent_id, field.name)
    return {
        field.id: columns[field.id]
        for field in snapshot.contents.fields
        if dict(field.metadata).get(_EXTENSION) == BLOB_EXTENSION.encode()
    }


def _files_of(location: DatasetLocation, pin: PinnedVersion) -> frozenset[str]:
    """Names of the data files of a version; they begin with random digits."""
    contents = read_snapshot(location, pin).contents
    return frozenset(file.path for fragment in contents.fragments() for file in fragment.files)


def _beside(
    item: BlobItem, snapshot: Snapshot, fragment: int, file: DataFile, names: list[str]
) -> Iterator[dict[str, Any]]:
    try:
        described = list(read_descriptions(item.location, item.pin, fragment, names))
    except LanceSparkError:
        return
    root = snapshot.root_of(file)
    directory = f"{data_directory(root)}{stored_name(file.path).removesuffix('.lance')}/"
    listed = {path[len(directory) :]: size or 0 for path, size in listed_below(item.location, root, directory)}
    key = _relative(item.location, root, f"{data_directory(root)}{stored_name(file.path)}")
    for row in finding_rules.blob_problems(finding_rules.blob_files(described), listed):
        yield {**row, "path": _relative(item.location, root, directory + row["path"]), "file": key}
    objects = finding_rules.referred_objects(
        described, {number: base.uri for number, base in snapshot.bases.items() if number}
    )
    there = look_many(item.location, [one.path for one in objects if not one.why_not])
    sizes = {path: found.size if isinstance(found, StoredObject) else found for path, found in there.items()}
    for row in finding_rules.referred_problems(objects, sizes):
        yield {**row, "file": key}


def _relative(location: DatasetLocation, root: Root, path: str) -> str:
    """The path of a file as in other findings: below the dataset, or its URI."""
    whole = f"{root.uri}/{path}"
    return whole[len(location.uri) + 1 :] if whole.startswith(f"{location.uri}/") else whole


def about_files(keys: frozenset[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_in(batch["key"], pa.array(sorted(keys), pa.string())))


# --- Looking again at suspects: a dataset that changes is not a corrupt one
# During the listing, branches are deleted and other cleanups run. A file counts as missing only if, some looks later, a
# version that names it still exists and the file still does not.

LOOKS = 6
_PAUSE = 0.02
"""Seconds before the second look, doubled before each further one: about half a second in total."""
_ABOUT_MANIFESTS = frozenset(
    {finding_codes.MANIFEST_DAMAGED, finding_codes.MANIFEST_UNKNOWN, finding_codes.MANIFEST_WRONG}
)
_ABSENT = frozenset(
    {
        finding_codes.DATA_MISSING,
        finding_codes.BLOB_MISSING,
        finding_codes.DELETION_MISSING,
        finding_codes.INDEX_MISSING,
        finding_codes.TRANSACTION_MISSING,
        finding_codes.OTHER_MISSING,
    }
)
_SIZES = frozenset({finding_codes.SIZE_WRONG, finding_codes.INDEX_SIZE_WRONG, finding_codes.BLOB_SIZE_WRONG})

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Confirming:
    """What a check saw first, and how to look again."""

    before: Survey
    clones: tuple[str, ...]
    clones_from: tuple[str, ...]

    def confirmed(self, suspects: Sequence[Row]) -> list[Row]:
        """The suspects that are still wrong after several more looks; each is about versions of a chain."""
        left = list(suspects)
        for attempt in range(LOOKS):
            if not left:
                return []
            time.sleep(_PAUSE * 2**attempt)
            now = lenient_survey(self.before.location, self.clones, self.clones_from)[0]
            listed = _listed(now)
            left = [row for row in left if self._is_there(row, now, listed)]
            wrong = each(self.before.location, self._is_still_wrong, left)
            left = [row for row, is_wrong in zip(left, wrong, strict=True) if is_wrong]
        return left

    def _is_there(self, row: Row, now: Survey, listed: frozenset[Manifest]) -> bool:
        """Whether a version that names the file exists, on a branch that is not being deleted."""
        chain = self.before.chains[row["chain"]]
        positions = range(row["last"], row["first"] - 1, -1)
        if row["code"] == finding_codes.MANIFEST_GONE:
            gone = [manifest_at(self.before, chain, at) for at in positions]
            return bool(not_explained(self.before, now, gone))
        return any(manifest_at(self.before, chain, at) in listed for at in positions)

    def _is_still_wrong(self, row: Row) -> bool:
        if row["code"] == finding_codes.OBJECT_MISSING:
            return look(self.before.location, row["path"]) is None
        if row["code"] == finding_codes.OBJECT_SHORT:
            found = look(self.before.location, row["path"])
            return found is None or found.size < row["expected"]
        if row["code"] in _ABSENT:
            path = row["path"]
            is_directory = row["code"] == finding_codes.INDEX_MISSING and "." not in path.rpartition("/")[2]
            return is_directory or not size_of(self.before.location, path)
        if row["code"] in _SIZES:
            size = size_of(self.before.location, row["path"])
            return size is not None and (size != row["expected"] if row["expected"] else not size)
        if row["code"] in _ABOUT_MANIFESTS:
            return row["code"] in self._read_again(row["chain"], row["first"])
        return True

    def _read_again(self, chain: int, position: int) -> list[str]:
        batches = list(needed_of(self.before, ChainSpan(chain, (position,))))
        found = pa.Table.from_batches(batches)["code"] if batches else pa.chunked_array([[]], pa.string())
        return [str(code) for code in pc.drop_null(found).to_pylist()]


def _listed(now: Survey) -> frozenset[Manifest]:
    """Manifests of branches with a ref: a deletion removes the ref first."""
    chains = [chain for chain in now.chains if chain.has_ref]
    return frozenset(manifest_at(now, chain, at) for chain in chains for at in range(len(chain.files)))
