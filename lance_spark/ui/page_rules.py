"""What pages show, as values: made from logs, differences, dry runs and reports that others computed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_spark import hints
from lance_spark.changes.diff_rules import Diff, RowCounts, RowExample
from lance_spark.cleanup.sweep_rules import DELETE
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_names import is_service_tag
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, RefTable, Tag
from lance_spark.core.show import Card, Grid, card_of, plain_text
from lance_spark.core.texts import counted, masked, moment, one_line, readable
from lance_spark.errors import LanceSparkError
from lance_spark.format.operations import LogEntry, Stat, VersionDetail
from lance_spark.log.graph_rules import lay_out, legend, svg
from lance_spark.log.print_rules import happened, stat_line
from lance_spark.merge.change_rules import ContestedRow, MergeConflict
from lance_spark.merge.report import MergeResult
from lance_spark.ui.cell_rules import Cell, Pair, cell, cells, equal, pairs
from lance_spark.ui.health_rules import Health, StoredReport

PAGE = 50
"""Rows or tables in one part of a page."""
_WIDE = 14
"""Columns of rows that a page shows before the others fold."""

_SPANS = ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


def age(moment_: datetime, now: datetime) -> str:
    """``3 days ago``."""
    seconds = (now - moment_).total_seconds()
    for span, unit in _SPANS:
        if seconds >= span:
            return f"{counted(int(seconds // span), unit)} ago"
    return "just now"


@dataclass(frozen=True)
class Problem:
    message: str
    hint: str = ""
    status: int = 500

    @classmethod
    def of(cls, error: LanceSparkError) -> Problem:
        """An error of this package, as the shell says it."""
        hint = hints.said(error.hint, "shell") if error.hint else ""
        return cls(masked(error.message), masked(hint), _STATUS.get(error.exit_code, 500))


_STATUS = {2: 400, 3: 409, 10: 404, 11: 409, 12: 409, 20: 504, 21: 403, 22: 422}
"""Statuses of HTTP by the exit codes of errors."""


# --- The lake


@dataclass(frozen=True)
class TableLine:
    name: str
    rows: str = ""
    size: str = ""
    version: str = ""
    age: str = ""
    when: str = ""
    branches: str = ""
    health: Health = field(default_factory=Health)
    problem: str = ""
    """Why its facts could not be read."""


@dataclass(frozen=True)
class TablesPart:
    lines: tuple[TableLine, ...]
    found: int
    """How many tables match the search."""
    start: int
    following: int | None
    """Where the next part begins; None at the end."""
    query: str = ""


@dataclass(frozen=True)
class LakeRefLine:
    """A branch or a tag of the whole lake."""

    kind: str
    name: str
    made: str
    tables: int
    lifetime: str
    ready: bool


@dataclass(frozen=True)
class PublishLine:
    """What was published, as its record tells."""

    branch: str
    state: str
    made: str
    message: str
    tables: tuple[str, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True)
class LakePage:
    """A lake: what a person sees first."""

    uri: str
    tables: int
    namespaces: tuple[str, ...]
    refs: tuple[LakeRefLine, ...]
    publishes: tuple[PublishLine, ...]
    reports: tuple[StoredReport, ...]
    at: str = ""
    """The branch or tag of the lake that is looked at, as ``branch:etl``."""
    notes: tuple[str, ...] = ()

    @property
    def branches(self) -> tuple[LakeRefLine, ...]:
        return tuple(ref for ref in self.refs if ref.kind == "branch")


def matching(names: Sequence[str], query: str) -> list[str]:
    """The names that have all words of a search, in any case; those that begin with it come first."""
    words = query.casefold().split()
    found = [name for name in names if all(word in name.casefold() for word in words)]
    return sorted(found, key=lambda name: not name.casefold().startswith(query.casefold())) if words else found


# --- A table


@dataclass(frozen=True)
class RefLine:
    kind: str
    name: str
    at: str
    """The version that it points to, or was made from."""
    made: str
    lifetime: str
    service: bool = False
    """Whether this package made it, for a clone, a merge or a stream."""


@dataclass(frozen=True)
class TablePage:
    """A table: its newest version and its refs. The other parts are loaded after it."""

    name: str
    uri: str
    head: str
    rows: str
    size: str
    when: str
    age: str
    columns: tuple[tuple[str, str, str], ...]
    """Path, type, and whether nulls are allowed."""
    layout: tuple[tuple[str, str], ...]
    refs: tuple[RefLine, ...]
    askable: tuple[str, ...]
    """Columns by which a row can be looked up."""
    asked: str
    """The one that the form begins with."""
    health: Health
    branches: tuple[str, ...]
    """Names, main first."""

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(ref.name for ref in self.refs if ref.kind == "tag" and not ref.service)


def ref_lines(table: RefTable) -> tuple[RefLine, ...]:
    """Branches, then tags, those of this package last."""

    def of_branch(branch: Branch) -> RefLine:
        name, origin, made = branch.row
        return RefLine("branch", name, f"made from {origin}", made, str(branch.lifetime))

    def of_tag(tag: Tag) -> RefLine:
        name, at, made = tag.row
        return RefLine("tag", name, at, made, str(tag.lifetime), is_service_tag(name, table.tags))

    lines = [of_branch(branch) for _, branch in sorted(table.branches.items())]
    tags = [of_tag(tag) for _, tag in sorted(table.tags.items())]
    return (*lines, *(tag for tag in tags if not tag.service), *(tag for tag in tags if tag.service))


def layout_facts(detail: VersionDetail) -> tuple[tuple[str, str], ...]:
    deleted = f"{counted(detail.deleted_rows, 'row')} in {counted(detail.deletion_files, 'deletion file')}"
    return (
        ("fragments", f"{detail.fragments:,}"),
        ("data files", f"{detail.data_files:,}, {readable(detail.bytes)}"),
        ("deleted rows", deleted if detail.deletion_files else "none"),
        ("format", f"{detail.storage_version or 'before 1.0'}{', stable row ids' if detail.stable_row_ids else ''}"),
        *((("layout", detail.layout),) if detail.layout else ()),
        *((("other places", masked(", ".join(detail.bases))),) if detail.bases else ()),
    )


@dataclass(frozen=True)
class GraphLine:
    pin: str
    what: str
    message: str
    author: str
    rows: str
    changed: str
    when: str
    age: str
    heads: tuple[str, ...]
    tags: tuple[str, ...]
    forks: tuple[str, ...]


@dataclass(frozen=True)
class GraphPage:
    """The versions of all branches, newest first, and their picture."""

    picture: str
    """SVG of the log's graph, whose texts are escaped."""
    lines: tuple[GraphLine, ...]
    legend: tuple[str, ...]
    older: bool
    shown: int

    @property
    def signed(self) -> bool:
        """Whether any of these versions says who made it."""
        return any(line.author for line in self.lines)


def graph_page(entries: Sequence[LogEntry], older: bool, now: datetime) -> GraphPage:
    drawing = lay_out(entries)
    lines = tuple(version_line(entry, now) for entry in entries)
    return GraphPage(svg(drawing, bare=True), lines, legend(drawing), older, len(lines))


def version_line(entry: LogEntry, now: datetime) -> GraphLine:
    return GraphLine(
        pin=str(entry.pin),
        what=happened(entry),
        message=masked(entry.message or ""),
        author=masked(entry.author or ""),
        rows="" if entry.total_rows is None else f"{entry.total_rows:,}",
        changed=stat_text(entry.stat),
        when=moment(entry.timestamp),
        age=age(entry.timestamp, now),
        heads=entry.heads,
        tags=tuple(tag for tag in entry.tags if not is_service_tag(tag)),
        forks=tuple(fork for fork in entry.forks if fork not in entry.heads),
    )


def stat_text(stat: Stat | None) -> str:
    """What a version added and removed, in a line."""
    return "" if stat is None else plain_text([stat_line(stat)])


# --- Rows


@dataclass(frozen=True)
class RowsGrid:
    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    hidden: tuple[str, ...] = ()
    """Columns that are left out."""


def rows_grid(names: Sequence[str], rows: Iterable[Mapping[str, Any]], everything: bool = False) -> RowsGrid:
    shown = tuple(names) if everything else tuple(names[:_WIDE])
    return RowsGrid(shown, tuple(cells(row, shown) for row in rows), tuple(names[len(shown) :]))


@dataclass(frozen=True)
class VersionPage:
    pin: str
    line: GraphLine
    parents: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]
    layout: tuple[tuple[str, str], ...]
    indexes: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str, str], ...]
    """Settings that it changed: name, before, after."""
    audited: bool = False
    """Whether the audit of a transaction let it pass."""


def version_page(detail: VersionDetail, now: datetime, audited: bool = False) -> VersionPage:
    return VersionPage(
        pin=str(detail.entry.pin),
        line=version_line(detail.entry, now),
        parents=tuple(map(str, detail.entry.parents)),
        columns=column_lines(detail),
        layout=layout_facts(detail),
        indexes=tuple((index.name, ", ".join(index.columns)) for index in detail.indexes),
        settings=tuple(
            (one_line(each.key), one_line(each.before or ""), one_line(each.after or ""))
            for each in detail.config_changes
        ),
        audited=audited,
    )


def column_lines(detail: VersionDetail) -> tuple[tuple[str, str, str], ...]:
    return tuple((each.path, each.type, "" if each.nullable else "not null") for each in detail.columns)


# --- Differences


@dataclass(frozen=True)
class DiffPage:
    before: str
    after: str
    counts: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str, str, str], ...]
    """Kind of change, column, before, after."""
    values: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    to_read: int = 0
    """How many rows a comparison of rows reads."""
    same: bool = False


def diff_page(diff: Diff, to_read: int = 0) -> DiffPage:
    return DiffPage(
        before=str(diff.before),
        after=str(diff.after),
        counts=count_facts(diff.rows, diff.stat),
        columns=tuple((each.kind, each.column, each.before or "", each.after or "") for each in diff.columns),
        values=tuple(
            (each.column, f"written again in {counted(each.fragments, 'fragment')}, {counted(each.rows, 'row')}")
            for each in diff.values
        ),
        notes=diff.notes,
        to_read=to_read,
        same=diff.is_empty,
    )


def count_facts(rows: RowCounts, stat: Stat | None = None) -> tuple[tuple[str, str], ...]:
    """How many rows and files differ."""
    unknown = "unknown: rows cannot be matched" if rows.compared else "comparing the rows tells"
    changed = unknown if rows.changed is None else f"~{rows.changed:,}"
    files = [] if stat is None else [("files", f"+{stat.files_added:,} -{stat.files_removed:,}")]
    return (
        ("rows before", f"{rows.before:,}"),
        ("rows after", f"{rows.after:,}"),
        ("added", f"+{rows.added:,}"),
        ("deleted", f"-{rows.deleted:,}"),
        ("changed", changed),
        *files,
    )


@dataclass(frozen=True)
class DiffRow:
    kind: str
    """``changed``, ``added`` or ``deleted``."""
    cells: tuple[Pair, ...]
    key: str = ""
    """Its value in the column by which it can be looked up."""


@dataclass(frozen=True)
class DiffRowsPart:
    """Some of the rows that differ, side by side."""

    names: tuple[str, ...]
    rows: tuple[DiffRow, ...]
    counts: tuple[tuple[str, str], ...]
    total: int
    start: int
    following: int | None
    notes: tuple[str, ...]
    hidden: tuple[str, ...]
    """Columns that are left out, as they are the same in all these rows."""
    on: str = ""
    """The column by which rows are matched, if the table has neither a key nor stable row ids."""


def diff_rows(examples: Sequence[RowExample], key: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[DiffRow, ...]]:
    """The shown columns, the hidden ones, and the rows; the key and what differs come first."""
    names = dict.fromkeys(name for each in examples for name in (each.after or each.before or {}))
    names |= dict.fromkeys(name for each in examples for name in (each.before or {}))
    differing = [
        name
        for name in names
        if any(
            each.before is not None
            and each.after is not None
            and not equal(each.before.get(name), each.after.get(name))
            for each in examples
        )
    ]
    order = tuple(dict.fromkeys([*([key] if key in names else []), *differing, *names]))
    shown, hidden = order[: max(_WIDE, len(differing) + 1)], order[max(_WIDE, len(differing) + 1) :]
    rows = tuple(DiffRow(each.kind, pairs(each.before, each.after, shown), _key_text(each, key)) for each in examples)
    return shown, hidden, rows


def _key_text(example: RowExample, key: str) -> str:
    row = example.after or example.before or {}
    value = row.get(key)
    return "" if value is None else str(value)


# --- The review of a merge


@dataclass(frozen=True)
class Commands:
    """A merge as it is typed."""

    shell: str
    sql: str
    python: str


@dataclass(frozen=True)
class ConflictRow:
    """A row that both sides changed, cell by cell."""

    row: str
    cells: tuple[tuple[str, Cell, Cell, Cell], ...]
    """Column, common version, ours, theirs."""


@dataclass(frozen=True)
class ConflictPart:
    reason: str
    ours: str
    theirs: str
    rows: tuple[ConflictRow, ...]
    others: tuple[str, ...]
    """Rows of which only the keys are known."""
    count: int


@dataclass(frozen=True)
class ReviewPage:
    source: str
    """The version that is merged."""
    into: str
    into_version: str
    outcome: str
    """``ready``, ``conflicts`` or ``up to date``."""
    facts: tuple[tuple[str, str], ...]
    conflicts: tuple[ConflictPart, ...]
    notes: tuple[str, ...]
    hint: str
    commands: Commands
    on: tuple[str, ...] = ()
    """Columns by which rows could be matched."""


def review_page(result: MergeResult, into_version: str, commands: Commands) -> ReviewPage:
    card = card_of(result)
    return ReviewPage(
        source=result.source,
        into=result.into,
        into_version=into_version,
        outcome="up to date" if result.up_to_date else "conflicts" if result.conflicts else "ready",
        facts=tuple((name, text) for name, text in card.facts if text and name not in ("from", "into", "outcome")),
        conflicts=tuple(map(conflict_part, result.conflicts)),
        notes=tuple(map(one_line, result.notes)),
        hint=masked(hints.said(result.hint, "shell")) if result.hint else "",
        commands=commands,
        on=tuple(dict.fromkeys(name for conflict in result.conflicts for name in conflict.on)),
    )


def conflict_part(conflict: MergeConflict) -> ConflictPart:
    """A conflict with both values of its rows."""
    return ConflictPart(
        conflict.reason,
        conflict.ours,
        conflict.theirs,
        tuple(map(_conflict_row, conflict.contested)),
        () if conflict.contested else conflict.rows,
        conflict.count,
    )


def _conflict_row(row: ContestedRow) -> ConflictRow:
    names = dict.fromkeys(name for side in (row.ours, row.theirs, row.base) for name in side or ())
    told = tuple((name, _side(row.base, name), _side(row.ours, name), _side(row.theirs, name)) for name in names)
    gone = (("", Cell("text", ""), _side(row.ours, ""), _side(row.theirs, "")),)
    return ConflictRow(row.row, told or gone)


def _side(values: Mapping[str, Any] | None, name: str) -> Cell:
    if values is None:
        return Cell("null", "no such row")
    return cell(values[name]) if name in values else Cell("null", "")


def commands(
    location: DatasetLocation, branches: tuple[str, str], how: tuple[str, str], lake: tuple[str, str] | None = None
) -> Commands:
    """A merge of a table as it is typed: of one of ``branches`` into the other.

    ``how`` are the preference and the column that matches rows; ``lake`` are the root and the name of a table of a
    catalog.
    """
    source, into = branches
    prefer, on = how
    hint = hints.merge(source, None if into == MAIN else into, prefer, (on,) if on else ())
    verb = hint.shell.removeprefix("lance-git ")
    if into == MAIN or location.is_local:
        shell = f"{hints.quoted('lance-git', '-C', location.branch_uri(into))} {verb}"
    else:
        steps = (("lance-git", "init", location.uri, "work"), ("lance-git", "-C", "work", "switch", into))
        shell = " && ".join([*(hints.quoted(*step) for step in steps), f"lance-git -C work {verb}"])
    handle, table = f"LanceTable.for_path({location.uri!r})", location.uri
    if lake is not None:
        handle, table = f"LanceCatalog({lake[0]!r}).table({lake[1]!r})", lake[1]
    python = f"{handle}.{str(hint).removeprefix('t.')}"
    return Commands(shell, hints.said(hint, "sql", "lake", table.replace("'", "''")), python)


@dataclass(frozen=True)
class AuditLine:
    """What the last audit of a branch of the lake, or of branches of tables, said."""

    passed: bool
    made: str
    says: str
    author: str
    is_current: bool
    """Whether the branch is as the audit saw it."""

    @property
    def said(self) -> str:
        if not self.made:
            return "The record of the last audit cannot be read."
        if not self.is_current:
            return f"The branch has changed since the last audit, which {'passed' if self.passed else 'failed'}."
        return "The last audit passed." if self.passed else "The last audit failed."


def lake_commands(root: str, branch: str, prefer: str = "") -> Commands:
    """A merge of a branch of the lake as it is typed."""
    side = [f"--{prefer}"] if prefer else []
    given = f", prefer={prefer!r}" if prefer else ""
    sql = f", prefer => '{prefer}'" if prefer else ""
    name = branch.replace("'", "''")
    return Commands(
        hints.quoted("lance-catalog", "-C", root, "merge", *side, branch),
        f"CALL lake.system.merge_lake_branch(name => '{name}'{sql})",
        f"LanceCatalog({root!r}).branches.merge({branch!r}{given})",
    )


# --- Upkeep


@dataclass(frozen=True)
class UpkeepPart:
    """What a report says: facts, tables, warnings."""

    summary: str
    grids: tuple[Grid, ...]
    notes: tuple[str, ...] = ()


def upkeep_part(card: Card, summary: str) -> UpkeepPart:
    """A report's card without its headline."""
    return UpkeepPart(summary, tuple(grid for grid in card.grids if grid.rows), tuple(map(one_line, card.notes)))


@dataclass(frozen=True)
class CleanupLine:
    """What a cleanup of a table of the lake would delete."""

    name: str
    reasons: tuple[tuple[str, int, int], ...] = ()
    """Reason, files and bytes."""
    problem: str = ""


def by_reason(planned: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, int, int], ...]:
    """What a plan would delete: reason, files and bytes, the most bytes first."""
    found: dict[str, tuple[int, int]] = {}
    for row in planned:
        if row["action"] == DELETE:
            files, size = found.get(row["reason"], (0, 0))
            found[row["reason"]] = files + row["files"], size + row["bytes"]
    return tuple(sorted(((reason, *sums) for reason, sums in found.items()), key=lambda each: (-each[2], each[0])))


@dataclass(frozen=True)
class CleanupsPart:
    """What a cleanup of some tables of the lake would delete."""

    lines: tuple[CleanupLine, ...]
    """Tables with something to delete, or that could not be looked at."""
    said: str
    start: int
    following: int | None
    left: int
    files: int
    bytes: int

    @property
    def rows(self) -> tuple[tuple[str, str, str, str, bool], ...]:
        """Table, reason, files, size, and whether the table could not be looked at."""
        found = []
        for line in self.lines:
            if line.problem:
                found.append((line.name, line.problem, "", "", True))
            found += [(line.name, reason, f"{files:,}", readable(size), False) for reason, files, size in line.reasons]
        return tuple(found)


def cleanups_part(lines: Sequence[CleanupLine], tables: int, start: int, so_far: tuple[int, int]) -> CleanupsPart:
    """A part that begins with table ``start`` of the lake, with the sums so far."""
    told = tuple(line for line in lines if line.reasons or line.problem)
    files = so_far[0] + sum(each[1] for line in lines for each in line.reasons)
    size = so_far[1] + sum(each[2] for line in lines for each in line.reasons)
    looked = start + len(lines)
    of = f"{looked:,} of {counted(tables, 'table')}" if looked < tables else f"All of {counted(tables, 'table')}"
    would = f"{counted(files, 'file')}, {readable(size)} would be deleted" if files else "nothing would be deleted"
    said = f"{of} looked at: {would}"
    return CleanupsPart(told, said, start, looked if looked < tables else None, tables - looked, files, size)


def pin_text(pin: PinnedVersion) -> str:
    """A version as pages and addresses name it."""
    return f"{pin.branch or MAIN}@{pin.version}"
