"""Findings about what this package writes down beside a dataset: what is said of main, changed refs, repairs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from lance_spark.checkup import codes
from lance_spark.checkup.finding import CheckFinding
from lance_spark.checkup.record import RECORD, RepairRecord, read_record
from lance_spark.checkup.repair_steps import Digest
from lance_spark.errors import CorruptData
from lance_spark.layout.names import QUARANTINE
from lance_spark.location import DatasetLocation
from lance_spark.refs.names import MAIN
from lance_spark.refs.parse import MAIN_FILE, parse_main
from lance_spark.refs.reflog import LOG, TAG, RefChange, decode
from lance_spark.show.moments import moment_at
from lance_spark.store import files
from lance_spark.store.insides import size_of
from lance_spark.store.parallel import each

_CHANGE = re.compile(r"(\d{20})-[0-9a-f]{8}\.json(\.[0-9a-f]{32}\.tmp)?")
_REPAIR = re.compile(r"\d{8}T\d{6}\.\d{6}")
_YOUNG = timedelta(hours=1)
"""What is unfinished and younger may be being written."""


def findings_of_records(location: DatasetLocation, now_ns: int) -> Iterator[CheckFinding]:
    """All that is wrong with records. ``now_ns`` is the time, nanoseconds since the epoch. Raises StorageFailure."""
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
        yield CheckFinding(codes.MAIN_DAMAGED, MAIN_FILE, (MAIN,), detail=problem.message)


def _of_changes(location: DatasetLocation, now: datetime) -> Iterator[CheckFinding]:
    names = files.list_names(location, LOG)
    paths = [f"{LOG}/{name}" for name in names]
    contents = each(location, partial(files.read, location), paths)
    for name, path, content in zip(names, paths, contents, strict=True):
        if content is not None:
            yield from _of_change(name, path, content, now)


def _of_change(name: str, path: str, content: bytes, now: datetime) -> Iterator[CheckFinding]:
    named = _CHANGE.fullmatch(name)
    if not name.endswith(".json"):
        if named is None or moment_at(int(named[1])) < now - _YOUNG:
            yield CheckFinding(codes.RECORD_UNFINISHED, path)
        return
    try:
        change = decode(name.removesuffix(".json"), content)
        ref = _ref_of(change)
    except CorruptData as problem:
        yield CheckFinding(codes.REFLOG_DAMAGED, path, detail=problem.message)
        return
    if named is None or moment_at(int(named[1])) != change.at:
        yield CheckFinding(codes.REFLOG_MISNAMED, path, (ref,), detail=f"It is of {change.at.isoformat()}.")


def _ref_of(change: RefChange) -> str:
    """As findings name refs. Raises CorruptData if it holds a ref file that cannot be understood."""
    if change.branch is not None:
        return change.branch.name
    return f"tag {change.name}" if change.kind == TAG else change.name


def _of_repairs(location: DatasetLocation, now: datetime) -> Iterator[CheckFinding]:
    names = files.list_names(location, QUARANTINE)
    paths = [f"{QUARANTINE}/{name}/{RECORD}" for name in names]
    contents = each(location, partial(files.read, location), paths)
    records: list[tuple[str, RepairRecord]] = []
    for name, path, content in zip(names, paths, contents, strict=True):
        if content is None:
            if not _is_young(name, now):
                yield CheckFinding(codes.RECORD_UNFINISHED, f"{QUARANTINE}/{name}", detail=_inside(location, name))
            continue
        try:
            records.append((name, read_record(content)))
        except CorruptData as problem:
            yield CheckFinding(codes.REPAIR_DAMAGED, path, detail=problem.message)
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
    return f"In it are {', '.join(left)}, and nothing says where they belong." if left else ""


def _of_copies(
    location: DatasetLocation, name: str, record: RepairRecord, copies: Mapping[Digest, Sequence[str]]
) -> Iterator[CheckFinding]:
    """What a repair moved away and neither it nor another one has. ``copies`` are those of all repairs, by file.

    A repair that was killed before its first copy names a file that the next repair moved away.
    """
    if record.id != name:
        detail = f"It is of repair {record.id}."
        yield CheckFinding(codes.REPAIR_DAMAGED, f"{QUARANTINE}/{name}/{RECORD}", detail=detail)
        return
    for kept in record.kept():
        is_kept = any(size_of(location, place) == kept.file.size for place in copies[kept.file])
        if not is_kept and size_of(location, kept.file.path) is None:
            yield CheckFinding(codes.REPAIR_COPY_GONE, kept.to, detail=f"It was {kept.file.path}.")
