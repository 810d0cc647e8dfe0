"""Reports of a maintenance, as text, JSON, one HTML page, or Prometheus metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from typing import Any

from lance_spark.cleanup.report import Upkeep, shown_state
from lance_spark.core import layout
from lance_spark.core.show import Card, Grid, Report, fields_of, safe
from lance_spark.core.texts import counted, few, masked, moment, one_line, readable
from lance_spark.errors import PermissionDenied
from lance_spark.maintenance import policy_rules
from lance_spark.maintenance.policy_rules import KindSize, Memory, StepRecord, TableRecord

PARTLY = 6
"""Exit code: a step failed or a check found damage; everything else was done."""


_UPKEEP = ("kind", "name", "state", "files", "bytes", "what", "error")
"""What the JSON has of each part of the catalog other than a table."""


@dataclass(frozen=True, repr=False)
class MaintenanceReport(Report):
    """What a maintenance did, or would do. Sizes are in bytes."""

    root: str
    """URI of the catalog or of the dataset."""
    executed: bool
    tables: tuple[TableRecord, ...]
    """By name."""
    started: datetime = field(default_factory=lambda: datetime.fromtimestamp(0, timezone.utc))
    seconds: float = 0.0
    catalog: tuple[Upkeep, ...] = ()
    """What belongs to the whole lake: publishes, branches, the catalog's own table, directories that no row names."""
    notes: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory, compare=False)
    expected: int | None = None
    """Number of tables, in the unfinished report of a run that is going on or was interrupted; None in a final one."""

    @property
    def finished(self) -> bool:
        return self.expected is None

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Table and reason of everything that needs attention."""
        told = [(record.name, problem) for record in self.tables for problem in record.problems]
        return told + [(each.name, each.error) for each in self.catalog if each.error]

    @property
    def complete(self) -> bool:
        """Whether the run finished and nothing failed. Steps left for lack of time do not count as failures."""
        return self.finished and not self.problems

    @property
    def exit_code(self) -> int:
        """0; 6 for a failure or damage; 21 if only permissions lack; an error's code if all tables ended with it."""
        if self.complete:
            return 0
        if not self.finished:
            return PARTLY
        if self._is_denied:
            return PermissionDenied.exit_code
        codes = [record.exit_code for record in self.tables]
        return min(codes) if codes and all(codes) else PARTLY

    @property
    def _is_denied(self) -> bool:
        """Whether a missing permission was behind all problems, so that the next run ends in the same way."""
        codes = [record.exit_code for record in self.tables if record.error]
        codes += [step.exit_code for record in self.tables for step in record.steps if step.bad]
        codes += [each.exit_code for each in self.catalog if each.error]
        return set(codes) == {PermissionDenied.exit_code}

    @property
    def freed(self) -> int:
        """Bytes that are to be, or were, freed."""
        return sum(record.freed for record in self.tables) + sum(each.bytes for each in self.catalog)

    @property
    def left(self) -> list[tuple[str, StepRecord]]:
        """Table and step of everything left for lack of time."""
        return [(record.name, step) for record in self.tables for step in record.left]

    def steps(self, *states: str) -> list[tuple[TableRecord, StepRecord]]:
        return [(record, step) for record in self.tables for step in record.steps if step.state in states]

    def as_document(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "executed": self.executed,
            "started": self.started.isoformat(),
            "seconds": self.seconds,
            "finished": self.finished,
            "expected_tables": len(self.tables) if self.expected is None else self.expected,
            "complete": self.complete,
            "exit_code": self.exit_code,
            "freed_bytes": self.freed,
            "left_steps": len(self.left),
            "tables": [policy_rules.as_json(record) for record in self.tables],
            "catalog": [fields_of(each, *_UPKEEP) for each in self.catalog],
            "problems": [{"name": name, "problem": problem} for name, problem in self.problems],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """A line for each planned or finished step, the problems, and a one-line summary."""
        parts = [self.steps_grid().text(), self._catalog_grid().text()]
        parts += ["\n".join(f"{name}: {problem}" for name, problem in self.problems)]
        parts += ["\n".join(f"note: {note}" for note in self._all_notes())]
        return masked("\n\n".join([*(part for part in parts if part), self.summary()]))

    def _card(self) -> Card:
        notes = (*(f"{name}: {problem}" for name, problem in self.problems), *self._all_notes())
        grids = (self.steps_grid(), self._catalog_grid())
        return Card(type(self).__name__, self.root, self.summary(), grids=grids, notes=notes)

    def _all_notes(self) -> tuple[str, ...]:
        return (*(f"{record.name}: {told}" for record in self.tables for told in record.told), *self.notes)

    def steps_grid(self) -> Grid:
        """The steps of all tables except those with nothing to do."""
        rows = tuple(
            (record.name, step.step, step.branch or "", step.text())
            for record in self.tables
            for step in record.steps
            if step.state != policy_rules.NOTHING
        )
        return Grid(("table", "step", "branch", "what"), rows)

    def _catalog_grid(self) -> Grid:
        rows = tuple(
            (each.name, each.kind, shown_state(each.state), f"{each.files:,}", readable(each.bytes), each.what)
            for each in self.catalog
        )
        return Grid(("of the catalog", "kind", "state", "files", "bytes", "what"), rows, right=frozenset({3, 4}))

    def summary(self) -> str:
        counts: Counter[str] = Counter(step.state for record in self.tables for step in record.steps)
        what = (
            f"{counted(counts[policy_rules.DONE], 'step')} done"
            if self.executed
            else f"{counted(counts[policy_rules.WOULD], 'step')} to do"
        )
        freed = f"{readable(self.freed)} {'freed' if self.executed else 'would be freed'}"
        left = f"; {counted(len(self.left), 'step')} left for next time" if self.left else ""
        bad = f"; {counted(len(self.problems), 'problem')}" if self.problems else ""
        tables = counted(len(self.tables), "table")
        if self.expected is not None:
            tables = f"unfinished, {len(self.tables):,} of {counted(self.expected, 'table')}"
        return f"{'' if self.executed else 'dry run: '}{tables}: {what}, {freed}{left}{bad}"


# --- The report as one HTML page
# Without external resources: no scripts, fonts or images.

_FEW = 5
"""Number of tables that a sentence names."""
_MOST = 500
"""Number of tables that are listed: those with problems first, then those that free most. The JSON has all."""
_STYLE = """
:root{color-scheme:light dark;--edge:#8885;--faint:#666;--bad:#b3261e;--late:#8f5a00}
@media(prefers-color-scheme:dark){:root{--faint:#a0a0a0;--bad:#ff8a80;--late:#ffb74d}}
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}
p{margin:.3rem 0}code{overflow-wrap:anywhere}.faint{color:var(--faint);fill:var(--faint)}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}
.tile{border:1px solid var(--edge);border-radius:6px;padding:.5rem .9rem}.tile b{display:block;font-size:1.2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;
border-bottom:1px solid var(--edge);overflow-wrap:anywhere}th{white-space:nowrap}td:first-child{min-width:9rem}
.right{text-align:right;white-space:nowrap}.failed,.stopped{color:var(--bad)}.left{color:var(--late)}
.chart{overflow-x:auto}svg text{font-size:12px;fill:currentColor}svg text.faint{fill:var(--faint)}
@media(max-width:40rem){thead{display:none}tr{display:block;border-bottom:1px solid var(--edge);padding:.3rem 0}
td,.right{display:block;border:none;padding:.05rem 0;text-align:left;white-space:normal}td:empty{display:none}
td[data-name]::before{content:attr(data-name) ": ";color:var(--faint)}td:first-child{font-weight:bold}}
.key{margin-right:1rem;white-space:nowrap}.dot{display:inline-block;width:.8em;height:.8em;margin-right:.35em}
"""


def to_html(report: MaintenanceReport) -> str:
    """The page. Names and errors are escaped, and secrets in URIs are hidden."""
    parts = [_head(report), _tiles(report), _problems(report), _chart(report), _left(report), _tables(report)]
    parts += [_catalog(report), *(f'<p class="faint">note: {safe(note)}</p>' for note in report.notes)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Maintenance of {safe(report.root)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _head(report: MaintenanceReport) -> str:
    dry = "" if report.executed else "dry run, nothing was changed; "
    took = f"began {safe(moment(report.started))}, took {report.seconds:,.0f} s"
    going = ""
    if report.expected is not None:
        took = f"began {safe(moment(report.started))}, this is after {report.seconds:,.0f} s"
        told = f"{len(report.tables):,} of {counted(report.expected, 'table')}"
        going = f'<p class="failed">Unfinished: {told} so far. The run is going on or was interrupted.</p>'
    return f'<h1>Maintenance of <code>{safe(report.root)}</code></h1>{going}<p class="faint">{dry}{took}</p>'


def _tiles(report: MaintenanceReport) -> str:
    tiles = [
        (f"{len(report.tables):,}", "tables"),
        (readable(report.freed), "freed" if report.executed else "to free"),
        (readable(sum(record.owned for record in report.tables)), _owned(report)),
        (f"{len(report.left):,}", "steps left for next time"),
        (f"{len(report.problems):,}", "problems"),
    ]
    drawn = "".join(f'<div class="tile"><b>{safe(value)}</b>{safe(name)}</div>' for value, name in tiles)
    return f'<div class="tiles">{drawn}</div>'


def _owned(report: MaintenanceReport) -> str:
    """What the sum of bytes counts: a table whose files nobody listed would otherwise count as empty."""
    listed = sum(1 for record in report.tables if record.kinds)
    of = "" if listed == len(report.tables) else f" ({listed:,} of {counted(len(report.tables), 'table')} listed)"
    return f"in files before the cleanup{of}"


def _problems(report: MaintenanceReport) -> str:
    rows = [f"<tr>{_td(name)}{_td(why, css='failed')}</tr>" for name, why in report.problems]
    rows += [
        f"<tr>{_td(record.name)}{_td(example, css='faint')}</tr>" for record in report.tables for example in record.told
    ]
    return _section("Problems and findings", ("table", "what"), rows)


def _chart(report: MaintenanceReport) -> str:
    drawn = svg(report.tables, report.executed)
    if not drawn:
        return ""
    freed = "the part that was freed" if report.executed else "the part that would be freed"
    absent = [record.name for record in report.tables if not record.kinds]
    missing = f" Not drawn, because their files were not listed: {few(absent, _FEW)}." if absent else ""
    return (
        "<h2>Bytes by kind of file</h2>"
        '<p class="faint">The upper bar of a table is all files in its own directory before the cleanup, '
        f"the lower one {freed}.{safe(missing)}</p>"
        f'<p>{legend(report.tables)}</p><div class="chart">{drawn}</div>'
    )


def _left(report: MaintenanceReport) -> str:
    rows = [f"<tr>{_td(name)}{_td(step.name, css='left')}{_td(step.why)}</tr>" for name, step in report.left]
    return _section("Left for next time", ("table", "step", "what"), rows[:_MOST])


def _tables(report: MaintenanceReport) -> str:
    first = sorted(report.tables, key=lambda record: (record.complete, -record.freed, record.name))
    rows = [row for record in first[:_MOST] for row in _rows(record)]
    title = "Tables" if len(first) <= _MOST else f"Tables ({_MOST:,} of {len(first):,})"
    freed = "freed" if report.executed else "to free"
    return _section(title, ("table", "size before", freed, "step", "what"), rows)


def _rows(record: TableRecord) -> Iterable[str]:
    shown: list[StepRecord | None] = [step for step in record.steps if step.state != policy_rules.NOTHING]
    for at, step in enumerate(shown or [None]):
        name, owned, freed = (
            (record.name, readable(record.owned) if record.kinds else "not listed", readable(record.freed))
            if at == 0
            else [""] * 3
        )
        nothing = "nothing to do" if record.steps else "no data yet"
        what = (record.error or nothing) if step is None else step.text()
        state = (record.state if record.error else "faint") if step is None else step.state
        yield (
            f"<tr>{_td(name)}{_td(owned, 'size before', 'right')}{_td(freed, 'freed', 'right')}"
            f"{_td('' if step is None else step.name)}{_td(what, css=state)}</tr>"
        )


def _catalog(report: MaintenanceReport) -> str:
    rows = []
    for each in report.catalog:
        cells = (each.name, each.kind, each.error or each.what or shown_state(each.state))
        size = f"{counted(each.files, 'file')}, {readable(each.bytes)}"
        rows.append(f"<tr>{''.join(map(_td, cells))}{_td(size, 'freed', 'right')}</tr>")
    freed = "freed" if report.executed else "to free"
    return _section("The catalog itself", ("of the catalog", "kind", "what", freed), rows)


def _td(text: str, name: str = "", css: str = "") -> str:
    """A cell. ``name`` stands before it where a narrow screen has no room for a header."""
    told = f' data-name="{safe(name)}"' if name and text else ""
    styled = f' class="{safe(css)}"' if css else ""
    return f"<td{told}{styled}>{safe(text)}</td>"


def _section(title: str, header: tuple[str, ...], rows: list[str]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{safe(name)}</th>" for name in header)
    return f"<h2>{safe(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


# --- A chart of bytes by kind of file, as inline SVG

_COLOURS = {
    layout.DATA: "#4477aa",
    layout.BLOB: "#66ccee",
    layout.INDEX: "#228833",
    layout.DELETION: "#ee6677",
    layout.MANIFEST: "#ccbb44",
    layout.TRANSACTION: "#aa3377",
    layout.BOOKKEEPING: "#b08060",
}
"""Colors that are distinguishable with any kind of color vision, for the most common kinds."""
_OTHER = "#888888"
_KINDS = {
    layout.DATA: "data",
    layout.BLOB: "blobs",
    layout.INDEX: "indexes",
    layout.DELETION: "deletion files",
    layout.MANIFEST: "manifests of versions",
    layout.TRANSACTION: "transactions",
    layout.BOOKKEEPING: "refs and notes",
    layout.STAGING: "left by interrupted writes",
    layout.UNKNOWN: "other files",
}
_MOST_BARS = 40
"""Number of tables with their own bars, largest first; one more pair sums up the rest."""
_NAME, _BAR, _VALUE, _ROW, _THICK = 220, 560, 170, 44, 14
_LONGEST_NAME = 30


def bars(records: Sequence[TableRecord]) -> list[TableRecord]:
    """The largest tables first; the rest as one more."""
    listed = sorted((each for each in records if each.kinds), key=lambda each: (-each.owned, each.name))
    shown, rest = listed[:_MOST_BARS], listed[_MOST_BARS:]
    if rest:
        sums: dict[str, KindSize] = {}
        for kind, size in (item for record in rest for item in record.kinds.items()):
            sofar = sums.get(kind, KindSize(0, 0))
            sums[kind] = KindSize(sofar.owned + size.owned, sofar.freed + size.freed)
        shown.append(TableRecord(f"{len(rest):,} smaller tables", "", kinds=sums))
    return shown


def svg(records: Sequence[TableRecord], executed: bool) -> str:
    """The chart; "" if no table's files were listed."""
    shown = bars(records)
    largest = max((each.owned for each in shown), default=0)
    if not largest:
        return ""
    width, height = _NAME + _BAR + _VALUE, _ROW * len(shown) + 8
    drawn = "".join(_pair(each, at * _ROW + 8, largest, executed) for at, each in enumerate(shown))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="Bytes by kind of file, owned and freed, of each table">{drawn}</svg>'
    )


def legend(records: Sequence[TableRecord]) -> str:
    kinds = sorted({kind for each in bars(records) for kind in each.kinds}, key=_place)
    return "".join(
        f'<span class="key"><span class="dot" style="background:{_COLOURS.get(kind, _OTHER)}"></span>'
        f"{escape(_KINDS.get(kind, kind))}</span>"
        for kind in kinds
    )


def _pair(each: TableRecord, top: int, largest: int, executed: bool) -> str:
    name = one_line(each.name)
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    owned = {kind: size.owned for kind, size in each.kinds.items()}
    freed = {kind: size.freed for kind, size in each.kinds.items()}
    said = f"{readable(sum(freed.values()))} {'freed' if executed else 'to free'}"
    return (
        f'<text x="{_NAME - 10}" y="{top + 17}" text-anchor="end"><title>{escape(name)}</title>{escape(short)}</text>'
        + _bar(owned, top, largest, "before", 1.0)
        + _bar(freed, top + _THICK + 2, largest, "freed" if executed else "to free", 0.6)
        + f'<text x="{_NAME + _BAR + 8}" y="{top + 11}">{escape(readable(each.owned))}</text>'
        + f'<text x="{_NAME + _BAR + 8}" y="{top + 27}" class="faint">{escape(said)}</text>'
    )


def _bar(sizes: Mapping[str, int], top: int, largest: int, what: str, opacity: float) -> str:
    drawn, left = [], float(_NAME)
    for kind in sorted(sizes, key=_place):
        width = _BAR * sizes[kind] / largest
        if width > 0:
            told = escape(f"{_KINDS.get(kind, kind)}: {readable(sizes[kind])} {what}")
            drawn.append(
                f'<rect x="{left:.2f}" y="{top}" width="{max(width, 0.5):.2f}" height="{_THICK}" '
                f'fill="{_COLOURS.get(kind, _OTHER)}" fill-opacity="{opacity}"><title>{told}</title></rect>'
            )
            left += width
    return "".join(drawn)


def _place(kind: str) -> tuple[int, str]:
    order = list(_COLOURS)
    return (order.index(kind) if kind in order else len(order), kind)


# --- The report as Prometheus metrics
# For the textfile collector of a node exporter.

_PREFIX = "lance_maintenance_"


_HELP = {
    "last_run_timestamp_seconds": "When the last maintenance began.",
    "duration_seconds": "How long it took.",
    "executed": "1 if it changed tables, 0 for a dry run.",
    "finished": "1 if it finished, 0 if it is running or was interrupted.",
    "complete": "1 if it finished, nothing failed and no check found damage.",
    "table_problems": "Problems of a table, and steps that a finding stopped.",
    "table_freed_bytes": "Bytes that the last maintenance freed, or would free.",
    "table_owned_bytes": "Bytes of a table's files before the cleanup, by kind of file.",
    "table_steps": "Steps of the last maintenance by state.",
    "table_runs_left": "Runs in a row that had no time for every step of a table.",
    "table_checked_timestamp_seconds": "When a table was last checked.",
    "table_sound": "1 if the last check of a table found no damage.",
}
"""The help text of each metric, in their order."""


def to_prometheus(report: MaintenanceReport) -> str:
    """All metrics with help and type. Table names are labels; URIs contain no secrets."""
    root = {"root": one_line(report.root)}
    samples: dict[str, list[str]] = {name: [] for name in _HELP}

    def add(name: str, labels: Mapping[str, str], value: float) -> None:
        drawn = ",".join(f'{key}="{_escaped(label, quotes=True)}"' for key, label in labels.items())
        number = str(int(value)) if value == int(value) else repr(float(value))
        samples[name].append(f"{_PREFIX}{name}{{{drawn}}} {number}")

    add("last_run_timestamp_seconds", root, report.started.timestamp())
    add("duration_seconds", root, report.seconds)
    add("executed", root, report.executed)
    add("finished", root, report.finished)
    add("complete", root, report.complete)
    for record in report.tables:
        table, known = {**root, "table": record.name}, report.memory.of(record.uri)
        add("table_problems", table, len(record.problems))
        add("table_freed_bytes", table, record.freed)
        for kind, size in record.kinds.items():
            add("table_owned_bytes", {**table, "kind": kind}, size.owned)
        counts = Counter(step.state for step in record.steps)
        for (
            state
        ) in policy_rules.STATES:  # also those without a step: an alert would see a missing series as its last value
            add("table_steps", {**table, "state": state}, counts[state])
        add("table_runs_left", table, known.left)
        if known.checked is not None:
            add("table_checked_timestamp_seconds", table, known.checked)
            add("table_sound", table, known.sound)
    lines = []
    for name, drawn in samples.items():
        if drawn:
            lines += [f"# HELP {_PREFIX}{name} {_escaped(_HELP[name])}", f"# TYPE {_PREFIX}{name} gauge", *drawn]
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped
