"""What pages ask of a lake and its tables: each look reads what one part of a page needs, and changes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import TypeVar

from lance_spark.catalog.lake import at_ref, list_refs
from lance_spark.catalog.lake_rules import BRANCH, TAG
from lance_spark.catalog.lookup import describe_table, open_table
from lance_spark.catalog.name_rules import NAMESPACE, TABLE, Catalog, is_inside
from lance_spark.catalog.overview import Item, overview
from lance_spark.catalog.publish_rules import AuditRecord, Journal
from lance_spark.changes.diff import ComparedRows, compare, diff, rows_to_compare
from lance_spark.changes.diff_rules import Diff
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.layout import KeyRange
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_files import BRANCHES
from lance_spark.core.ref_names import (
    STREAM_TAG,
    branch_or_none,
    is_service_branch,
    is_service_tag,
    is_stream_tag,
)
from lance_spark.core.refs import MAIN, PinnedVersion, RefSpec
from lance_spark.core.show import Grid, card_of
from lance_spark.core.texts import counted, masked, moment, moment_at, readable
from lance_spark.disk_usage.disk_usage import catalog_storage, storage
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, LanceSparkError, NotFound, Refused
from lance_spark.format.operations import key_columns
from lance_spark.format.python_values import python_rows
from lance_spark.format.versions import read_trace
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.indexes.index_rules import indexes_card
from lance_spark.indexes.indexes import list_indexes
from lance_spark.lake import publish as publishing
from lance_spark.lake.branches import merge_branch
from lance_spark.lake.diff import diff as diff_lake
from lance_spark.lake.manifest_rules import BranchRows
from lance_spark.lake.report import LakeDiff, Publish, report, report_plan
from lance_spark.log.log import log, show
from lance_spark.maintenance.expiry import plan_expiry
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions, Prefer, PublishOptions
from lance_spark.merge.report import MergeResult
from lance_spark.scan.fragment_reads import head, schema_of
from lance_spark.storage.datasets import find_latest, locate, pin_latest
from lance_spark.storage.files import each
from lance_spark.storage.listing import list_range
from lance_spark.storage.refs import list_ref_names, read_refs
from lance_spark.storage.resolving import resolve_expression
from lance_spark.storage.small_files import read_report as read_text
from lance_spark.storage.versions import read_contents, read_transaction
from lance_spark.survey.survey import recorded_clones
from lance_spark.ui import health_rules, page_rules, row_history, row_rules
from lance_spark.ui.health_rules import StoredReport
from lance_spark.ui.page_rules import PAGE

_REMEMBERED = 20.0
"""Seconds for which the names of a lake's tables are remembered: a search and its parts should see one list."""
_PUBLISHES = 15
KNOWN_PLACE = "/var/lib/lance"
"""Where the crontab that ``lance-catalog schedule`` writes puts reports."""
_MOST_REPORTS = 24
"""Files of a directory that are looked at."""
_CLEANUP_TABLES, _CLEANUP_SECONDS, _AT_ONCE = 24, 10.0, 4
"""One part of the lake's cleanup: tables, and seconds after which no other table is begun."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Subject:
    """What the pages are about: a lake, or one dataset."""

    catalog: Catalog | None = None
    location: DatasetLocation | None = None
    reports: tuple[str, ...] = ()
    """Paths or URIs of stored reports."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    names: _Names = field(default_factory=lambda: _Names(), repr=False, compare=False)

    @property
    def lake(self) -> Catalog:
        """The lake. Raises NotFound for pages of one dataset."""
        if self.catalog is None:
            raise NotFound("This page is about a whole lake, and one dataset is shown here.")
        return self.catalog

    def table(self, name: str, at: str = "") -> DatasetLocation:
        """Where a table is, by its name on main or at a branch or tag of the lake. Raises NotFound."""
        if self.location is not None:
            return self.location
        return describe_table(at_typed(self.lake, at), name).location

    def pin(self, name: str, at: str = "") -> PinnedVersion:
        """The version of a table that a reader sees: main's newest one, or that of a branch or tag of the lake."""
        if self.location is not None or not at:
            return pin_latest(self.table(name), None)
        return open_table(at_typed(self.lake, at), name, RefSpec())[1]

    def stored_reports(self) -> tuple[StoredReport, ...]:
        """The reports that were named, read now: a job may have written them again; of a directory, the newest ones.

        Without a name, those of this subject where the crontab of ``lance-catalog schedule`` has them written.
        """
        if not self.reports:
            about = self.lake.uri if self.location is None else self.location.uri
            return health_rules.newest(self._in_directory(KNOWN_PLACE), about) if os.path.isdir(KNOWN_PLACE) else ()
        found: list[StoredReport] = []
        for path in self.reports:
            if path.endswith("/") or os.path.isdir(path):
                found += health_rules.newest(self._in_directory(path)) or [_no_report(path, "no report is there")]
            else:
                found.append(self._report(path))
        return tuple(found)

    def _report(self, path: str) -> StoredReport:
        try:
            return health_rules.read_report(path, read_text(path, self.storage))
        except LanceSparkError as problem:
            return _no_report(path, problem.message)

    def _in_directory(self, path: str) -> tuple[StoredReport, ...]:
        """The newest JSON files of a directory, newest first."""
        place = locate(path.rstrip("/") or "/", self.storage)
        try:
            listed = [row for batch in islice(list_range(place, KeyRange(None, None)), 1) for row in batch.to_pylist()]
        except LanceSparkError as problem:
            return (_no_report(path, problem.message),)
        own = [row for row in listed if row["path"].endswith(".json") and "/" not in row["path"]]
        own.sort(key=lambda row: (row["last_modified"] is None, row["last_modified"]), reverse=True)
        return tuple(self._report(f"{place.uri}/{row['path']}") for row in own[:_MOST_REPORTS])


def _no_report(path: str, why: str) -> StoredReport:
    """What stands for a report that cannot be read."""
    return StoredReport(masked(path), health_rules.UNREADABLE, f"This report cannot be read: {why}", Grid((), ()), {})


class _Names:
    """The items of a lake, remembered for some seconds."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, tuple[float, tuple[Item, ...]]] = {}

    def of(self, at: str, catalog: Catalog) -> tuple[Item, ...]:
        """Namespaces and tables, by name."""
        with self._lock:
            known = self._found.get(at)
            if known is None or time.monotonic() - known[0] > _REMEMBERED:
                known = self._found[at] = (time.monotonic(), overview(catalog, recursive=True))
            return known[1]


def now() -> datetime:
    return datetime.now(timezone.utc)


# --- The lake


def at_typed(catalog: Catalog, typed: str) -> Catalog:
    """The lake at ``branch:NAME`` or ``tag:NAME``; at "" as it is."""
    kind, _, name = typed.partition(":")
    if not typed or (kind == BRANCH and name == MAIN):
        return catalog
    return at_ref(catalog, kind, name)


def look_at_lake(subject: Subject, at: str = "") -> page_rules.LakePage:
    """The lake without the facts of its tables. Raises NotFound for a missing ref."""
    catalog = at_typed(subject.lake, at)
    items = subject.names.of(at, catalog)
    notes: list[str] = []
    refs = _or_note(notes, "branches and tags", lambda: lake_refs(subject.lake))
    publishes = _or_note(notes, "publishes", lambda: _publishes(subject.lake))
    return page_rules.LakePage(
        uri=subject.lake.uri,
        tables=sum(item.kind == TABLE for item in items),
        namespaces=tuple(str(item.identifier) for item in items if item.kind == NAMESPACE),
        refs=refs,
        publishes=publishes,
        reports=subject.stored_reports(),
        at=at,
        notes=tuple(notes),
    )


def _or_note(notes: list[str], what: str, ask: Callable[[], tuple[_T, ...]]) -> tuple[_T, ...]:
    """What can be read; a note says what cannot: one broken file must not hide the lake."""
    try:
        return ask()
    except LanceSparkError as problem:
        notes.append(f"The {what} cannot be shown: {problem.message}")
        return ()


def lake_refs(catalog: Catalog) -> tuple[page_rules.LakeRefLine, ...]:
    return tuple(
        page_rules.LakeRefLine(kind, ref.name, moment(ref.created_at), ref.tables, str(ref.lifetime), ref.ready)
        for kind in (BRANCH, TAG)
        for ref in list_refs(catalog, kind)
    )


def _publishes(catalog: Catalog) -> tuple[page_rules.PublishLine, ...]:
    if not catalog.reads_manifest:
        return ()
    found = [report(*one) for one in publishing.latest(catalog, _PUBLISHES)]
    return tuple(
        page_rules.PublishLine(
            branch=one.branch,
            state=one.state,
            made=moment(datetime.fromisoformat(one.made)) if one.made else "",
            message=one.message,
            tables=(*(table.name for table in one.tables), *one.others),
            conflicts=one.conflicts,
        )
        for one in found
    )


def look_at_tables(subject: Subject, at: str, query: str, start: int) -> page_rules.TablesPart:
    """Some tables with their facts. One that cannot be read says so, and hides no other."""
    catalog = at_typed(subject.lake, at)
    items = {str(item.identifier): item for item in subject.names.of(at, catalog) if item.kind == TABLE}
    names = page_rules.matching(list(items), query)
    reports = subject.stored_reports()
    chosen = [items[name] for name in names[start : start + PAGE]]
    lines = each(catalog.root, lambda item: _table_line(catalog, item, reports), chosen)
    following = start + PAGE if start + PAGE < len(names) else None
    return page_rules.TablesPart(tuple(lines), len(names), start, following, query)


def _table_line(catalog: Catalog, item: Item, reports: Sequence[StoredReport]) -> page_rules.TableLine:
    name = str(item.identifier)
    if not is_inside(item.path):
        return page_rules.TableLine(name, problem="its row leads to no directory below the catalog")
    location = catalog.at(item.path or "")
    health = health_rules.health_of(reports, name, location.uri)
    try:
        if catalog.ref is not None:
            location, pin = open_table(catalog, item.identifier, RefSpec())
        else:
            found = find_latest(location, None)
            if found is None:
                return page_rules.TableLine(name, version="no data yet", health=health)
            pin = found
        contents = read_contents(location, pin)
        branches = len(list_ref_names(location, BRANCHES))
    except LanceSparkError as problem:
        return page_rules.TableLine(name, problem=problem.message, health=health)
    made = moment_at(contents.head.timestamp_ns)
    fragments = list(contents.fragments())
    return page_rules.TableLine(
        name=name,
        rows=f"{sum(fragment.rows for fragment in fragments):,}" if contents.counts_rows else "",
        size=readable(sum(fragment.size for fragment in fragments)),
        version=page_rules.pin_text(pin),
        age=page_rules.age(made, now()),
        when=moment(made),
        branches=f"{branches:,}" if branches else "",
        health=health,
    )


# --- A table


def look_at_table(subject: Subject, name: str, ref: str = "", at: str = "") -> page_rules.TablePage:
    """A table at its newest version, or at a ref. Raises NotFound, CorruptData, StorageFailure."""
    location = subject.table(name, at)
    pin = resolve_expression(location, ref, None) if ref else subject.pin(name, at)
    detail, refs = show(location, pin), read_refs(location)
    schema = schema_of(location, pin)
    key = key_columns(read_contents(location, pin).fields)
    branches = [branch for branch in sorted(refs.branches) if not is_service_branch(branch, refs.tags)]
    return page_rules.TablePage(
        name=name or location.uri.rstrip("/").rpartition("/")[2],
        uri=location.uri,
        head=page_rules.pin_text(pin),
        rows="" if detail.entry.total_rows is None else counted(detail.entry.total_rows, "row"),
        size=readable(detail.bytes),
        when=moment(detail.entry.timestamp),
        age=page_rules.age(detail.entry.timestamp, now()),
        columns=page_rules.column_lines(detail),
        layout=page_rules.layout_facts(detail),
        refs=page_rules.ref_lines(refs),
        askable=row_rules.askable(schema),
        asked=row_rules.first_choice(schema, key),
        health=health_rules.health_of(subject.stored_reports(), name, location.uri),
        branches=(MAIN, *branches),
    )


@dataclass(frozen=True)
class Again:
    """What a form needs that comes after a mistake in it: another try should not begin at the table's page."""

    form: str
    """``row``, ``diff`` or ``merge``."""
    typed: Mapping[str, str]
    askable: tuple[str, ...] = ()
    asked: str = ""
    branches: tuple[str, ...] = (MAIN,)
    tags: tuple[str, ...] = ()


def form_again(location: DatasetLocation, form: str, typed: Mapping[str, str]) -> Again:
    """The form with what was typed. Raises NotFound, CorruptData, StorageFailure."""
    pin, refs = pin_latest(location, None), read_refs(location)
    schema = schema_of(location, pin)
    branches = [branch for branch in sorted(refs.branches) if not is_service_branch(branch, refs.tags)]
    tags = [tag for tag in sorted(refs.tags) if not is_service_tag(tag, refs.tags)]
    askable, column = row_rules.askable(schema), typed.get("column", "")
    if form == "row" and column not in askable:
        askable += tuple(row_history.columns_of_branches(location))
    key = key_columns(read_contents(location, pin).fields)
    asked = column if column in askable else row_rules.first_choice(schema, key)
    return Again(form, dict(typed), askable, asked, (MAIN, *branches), tuple(tags))


def look_at_graph(location: DatasetLocation, count: int) -> page_rules.GraphPage:
    """The newest versions of all branches, as a picture and in words."""
    entries = log(location, None, None, count + 1, stat=True, scope="all")
    return page_rules.graph_page(entries[:count], len(entries) > count, now())


def look_at_version(location: DatasetLocation, ref: str) -> page_rules.VersionPage:
    detail = show(location, resolve_expression(location, ref, None))
    made = read_transaction(location, detail.entry.pin)
    trace = None if made is None else read_trace(made.properties)
    return page_rules.version_page(detail, now(), trace is not None and trace.audited)


def look_at_rows(location: DatasetLocation, ref: str, everything: bool, count: int = 20) -> page_rules.RowsGrid:
    pin = resolve_expression(location, ref, None)
    names = list(schema_of(location, pin).names)
    shown = page_rules.rows_grid(names, [], everything)
    rows = python_rows(head(location, pin, count, shown.names)) if shown.names else []
    return page_rules.rows_grid(names, rows, everything)


def look_at_indexes(location: DatasetLocation, ref: str) -> page_rules.UpkeepPart:
    """The indexes of a version and what they cover."""
    pin = resolve_expression(location, ref, None)
    found = list_indexes(location, pin)
    card = indexes_card("Indexes", location.uri, page_rules.pin_text(pin), found)
    return page_rules.upkeep_part(card, f"{counted(len(found), 'index', 'indexes')} at {page_rules.pin_text(pin)}")


def look_at_storage(location: DatasetLocation) -> page_rules.UpkeepPart:
    """What each ref and each kind of file takes, what would free most first; lists all files."""
    found = storage(location, CleanupPolicy(), LocalRunner())
    found = replace(found, refs=tuple(sorted(found.refs, key=lambda ref: -(ref.freed or 0))))
    return page_rules.upkeep_part(card_of(found), found.summary())


def look_at_dependents(location: DatasetLocation) -> page_rules.UpkeepPart:
    """The streams and clones that depend on a table, and the refs that expire."""
    refs = read_refs(location)
    clones = recorded_clones(location)
    streams = tuple(
        (
            name,
            "writes" if name.startswith(STREAM_TAG) else "reads",
            page_rules.pin_text(PinnedVersion(tag.branch, tag.version)),
        )
        for name, tag in sorted(refs.tags.items())
        if is_stream_tag(name)
    )
    expiry = plan_expiry(location, now())
    grids = (
        Grid(("clone", "keeps"), tuple((uri, tag) for tag, uri in sorted(clones.items())), title="Clones"),
        Grid(("stream", "does", "is at"), streams, title="Streams"),
        Grid(expiry.grid().header, expiry.grid().rows, title="Branches and tags that expire"),
    )
    parts = [
        counted(len(clones), "clone"),
        counted(len(streams), "stream"),
        counted(len(expiry.grid().rows), "expiring ref"),
    ]
    return page_rules.UpkeepPart(", ".join(parts), tuple(grid for grid in grids if grid.rows))


def look_at_cleanup(location: DatasetLocation) -> page_rules.UpkeepPart:
    """What a cleanup would delete, by reason; lists all files, deletes none."""
    plan = plan_cleanup(location, CleanupPolicy(), LocalRunner(), time.time_ns())
    found = plan.report()
    return page_rules.upkeep_part(card_of(found), found.summary())


def look_at_cleanups(subject: Subject, start: int, so_far: tuple[int, int] = (0, 0)) -> page_rules.CleanupsPart:
    """What a cleanup of some tables of the lake would delete, by reason; ``so_far`` are files and bytes before them.

    A part ends after some tables or seconds: a lake of thousands must not leave a page without an answer.
    """
    catalog = subject.lake
    items = [item for item in subject.names.of("", catalog) if item.kind == TABLE]
    lines: list[page_rules.CleanupLine] = []
    ends = time.monotonic() + _CLEANUP_SECONDS
    while start + len(lines) < len(items) and len(lines) < _CLEANUP_TABLES and time.monotonic() < ends:
        begun = start + len(lines)
        with ThreadPoolExecutor(_AT_ONCE, "lance-cleanups") as pool:
            lines += pool.map(lambda item: _cleanup_line(catalog, item), items[begun : begun + _AT_ONCE])
    return page_rules.cleanups_part(lines, len(items), start, so_far)


def _cleanup_line(catalog: Catalog, item: Item) -> page_rules.CleanupLine:
    name = str(item.identifier)
    if not is_inside(item.path):
        return page_rules.CleanupLine(name, problem="its row leads to no directory below the catalog")
    location = catalog.at(item.path or "")
    try:
        if find_latest(location, None) is None:
            return page_rules.CleanupLine(name)
        planned = plan_cleanup(location, CleanupPolicy(), LocalRunner(), time.time_ns()).report().planned
    except LanceSparkError as problem:
        return page_rules.CleanupLine(name, problem=problem.message)
    return page_rules.CleanupLine(name, page_rules.by_reason(planned))


def look_at_check(location: DatasetLocation) -> page_rules.UpkeepPart:
    """What a check finds; reads all manifests, repairs nothing."""
    found = fsck(location, FsckOptions(), LocalRunner(), time.time_ns())
    return page_rules.upkeep_part(card_of(found), found.summary())


def look_at_costs(subject: Subject) -> page_rules.UpkeepPart:
    """What the tables of a lake take, the largest first; lists all files."""
    found = catalog_storage(subject.lake, LocalRunner())
    part = page_rules.upkeep_part(card_of(found), found.summary())
    return page_rules.UpkeepPart(part.summary, tuple(_cut(grid) for grid in part.grids), part.notes)


def _cut(grid: Grid, most: int = 200) -> Grid:
    return Grid(grid.header, grid.rows[:most], grid.right, grid.title)


# --- Differences


def pins(location: DatasetLocation, a: str, b: str) -> tuple[PinnedVersion, PinnedVersion]:
    """The two versions of a difference, without what changes from one look to the next."""
    found = (resolve_expression(location, ref, None) for ref in (a, b))
    one, other = (PinnedVersion(pin.branch, pin.version) for pin in found)
    return one, other


def diff_of(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> Diff:
    """The difference of two versions, from their manifests."""
    return diff(location, a, b, counts_only=True)


def look_at_diff(location: DatasetLocation, a: str, b: str) -> page_rules.DiffPage:
    one, other = pins(location, a, b)
    return page_rules.diff_page(diff_of(location, one, other), rows_to_compare(location, one, other))


@lru_cache(maxsize=8)
def _compared(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion, on: str) -> ComparedRows:
    """Versions never change: their rows are compared once, whichever page is looked at."""
    return compare(location, a, b, (on,) if on else ())


def look_at_diff_rows(location: DatasetLocation, a: str, b: str, start: int, on: str = "") -> page_rules.DiffRowsPart:
    """Some rows that differ, side by side.

    ``on`` is the column that matches rows; "" for the likely one, "-" for none.
    """
    return diff_rows_of(location, *pins(location, a, b), start, on)


def diff_rows_of(
    location: DatasetLocation, a: PinnedVersion, b: PinnedVersion, start: int, on: str = ""
) -> page_rules.DiffRowsPart:
    """The same of two versions."""
    schema, fields = schema_of(location, b), read_contents(location, b).fields
    key = row_rules.first_choice(schema, key_columns(fields))
    matched = row_rules.likely(schema) if not on else "" if on == "-" else on
    found = _compared(location, a, b, matched)
    shown, hidden, rows = page_rules.diff_rows(found.page(start, PAGE), key)
    following = start + PAGE if start + PAGE < found.total else None
    guessed = "" if key_columns(fields) or not matched else matched
    counts = page_rules.count_facts(found.counts)
    return page_rules.DiffRowsPart(shown, rows, counts, found.total, start, following, found.notes, hidden, guessed)


# --- Reviews of merges


@dataclass(frozen=True)
class AskedMerge:
    source: str
    into: str
    prefer: str = ""
    """``ours`` or ``theirs``: whose value is taken where both sides changed the same."""
    on: str = ""
    """A column by which changed rows are matched."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> AskedMerge:
        """From what a form or an address says. Raises InvalidOption."""
        if not given.get("source"):
            raise InvalidOption("Name the branch to merge.", hint="The page of a table has a form for it.")
        return cls(given["source"], given.get("into") or MAIN, given.get("prefer", ""), given.get("on", ""))

    def options(self, dry_run: bool) -> MergeOptions:
        """Raises InvalidOption."""
        on = (self.on,) if self.on else ()
        return MergeOptions(prefer=Prefer.of(self.prefer or None), on=on, dry_run=dry_run)


def review(location: DatasetLocation, asked: AskedMerge, lake: tuple[str, str] | None) -> page_rules.ReviewPage:
    """The dry run of a merge. Raises NotFound, InvalidOption, Refused."""
    given, head_of = _sides(location, asked)
    result = merge(location, given, head_of.branch, asked.options(dry_run=True), LocalRunner())
    typed = page_rules.commands(location, (asked.source, asked.into), (asked.prefer, asked.on), lake)
    return page_rules.review_page(result, page_rules.pin_text(head_of), typed)


def audit_of_tables(subject: Subject, location: DatasetLocation, asked: AskedMerge) -> page_rules.AuditLine | None:
    """What the last audit of a publish of branches of tables said of the one that is merged; None without one."""
    if subject.catalog is None or asked.into != MAIN:
        return None
    catalog, given = subject.catalog, resolve_expression(location, asked.source, None)
    branch = None if given.branch is None else read_refs(location).branches.get(given.branch)
    if branch is None:
        return None
    try:
        record = publishing.last_audit_of_tables(catalog, branch.name)
    except LanceSparkError as problem:
        return page_rules.AuditLine(False, "", problem.message, "", False)
    versions = {} if record is None else {catalog.at(place).uri: at for place, at in record.tables.items()}
    # A branch that is younger than the audit only has the name of the one that it looked at.
    if record is None or location.uri not in versions or datetime.fromisoformat(record.made) < branch.created_at:
        return None
    return _audit_line(record, versions[location.uri] == given.version)


def _sides(location: DatasetLocation, asked: AskedMerge) -> tuple[PinnedVersion, PinnedVersion]:
    return resolve_expression(location, asked.source, None), pin_latest(location, branch_or_none(asked.into))


@dataclass(frozen=True)
class Reviewed:
    """The versions that a person looked at before the button was pressed."""

    source: str
    into: str


def carry_out(location: DatasetLocation, asked: AskedMerge, seen: Reviewed) -> MergeResult:
    """Merge what was reviewed. Raises Refused if a branch has moved since, Conflict, and as a merge does."""
    given, head_of = _sides(location, asked)
    for was, pin in ((seen.source, given), (seen.into, head_of)):
        if was != page_rules.pin_text(pin):
            raise Refused(
                f"Nothing was merged: {was} was reviewed, and {page_rules.pin_text(pin)} is there now.",
                hint="Look at the review again.",
            )
    return merge(location, given, head_of.branch, asked.options(dry_run=False), LocalRunner())


def look_at_lake_diff(subject: Subject, name: str) -> LakeDiff:
    """What a branch of the lake changed.

    Unlike the command's, this ends no unfinished publish, which would be a write.
    """
    publishing.check_manifest(subject.lake)
    return diff_lake(subject.lake, name)


@dataclass(frozen=True)
class LakeReview:
    """The dry run of a merge of a branch of the lake."""

    found: Publish
    rows: BranchRows
    audit: page_rules.AuditLine | None
    """What the last audit of the branch said."""

    @property
    def seen(self) -> str:
        """What a button merges, unless it has changed since."""
        return f"{self.rows.id}@{self.rows.version}"


def review_lake(subject: Subject, name: str, prefer: str) -> LakeReview:
    """The dry run of a merge of a branch of the lake. Writes nothing, not even the end of an unfinished publish."""
    catalog = subject.lake
    rows = publishing.read_branch(catalog, name)
    options = PublishOptions(dry_run=True, prefer=Prefer.of(prefer or None))
    plan = publishing.plan_publish(catalog, rows, LocalRunner(), options)
    empty = Publish(name, "up to date")
    found = empty if plan.is_empty else report_plan(plan.journal, plan.conflicts, plan.dropped)
    return LakeReview(found, rows, _audit_of(catalog, plan.journal, plan.is_empty))


def _audit_of(catalog: Catalog, journal: Journal, merged: bool) -> page_rules.AuditLine | None:
    try:
        record = publishing.last_audit(catalog, journal)
    except LanceSparkError as problem:  # a record that is damaged must not hide the review
        return page_rules.AuditLine(False, "", problem.message, "", False)
    if record is None:
        return None
    return _audit_line(record, merged or record.is_of(journal))


def _audit_line(record: AuditRecord, is_current: bool) -> page_rules.AuditLine:
    made = moment(datetime.fromisoformat(record.made))
    return page_rules.AuditLine(record.passed, made, record.says, record.author, is_current)


def carry_out_lake(
    subject: Subject, asked: tuple[str, str], seen: str, audit: Callable[[Catalog], bool] | None = None
) -> Publish:
    """Merge a branch of the lake as it was reviewed; ``asked`` are its name and the preference.

    Raises Refused if it has changed since, or if the ``audit`` fails; and as a merge does.
    """
    name, prefer = asked
    rows = publishing.read_branch(subject.lake, name)
    if seen != f"{rows.id}@{rows.version}":
        raise Refused(
            f"Nothing was merged: branch '{name}' of the lake was changed since it was reviewed.",
            hint="Look at the review again.",
        )
    options = PublishOptions(prefer=Prefer.of(prefer or None))
    return merge_branch(subject.lake, name, LocalRunner(), options, audit).report
