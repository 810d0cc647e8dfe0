"""Findings about this package's records next to a dataset (main, changed refs, repairs), and about refs and clones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from lance_spark.core.layout import QUARANTINE
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import finding_codes
from lance_spark.core.records.reflog import LOG, RefChange, decode
from lance_spark.core.records.reflog import TAG as REFLOG_TAG
from lance_spark.core.records.repair_record import RECORD, Digest, RepairRecord, read_record
from lance_spark.core.ref_files import BRANCHES, MAIN_FILE, parse_main, ref_file
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import moment_at
from lance_spark.errors import CorruptData, Refused
from lance_spark.fsck.file_contents import size_of
from lance_spark.fsck.finding_rules import (
    CheckFinding,
    Origin,
    contradiction,
    mapping,
)
from lance_spark.storage import files
from lance_spark.storage.spelling import folds_case
from lance_spark.storage.versions import transaction_of
from lance_spark.survey.chain_rules import Chain, Contradiction, Survey
from lance_spark.survey.survey import DamagedRef

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
