"""A maintenance as one page of HTML that needs nothing else: no script, no font, no picture from elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.show.card import safe
from lance_spark.show.words import counted, moment, readable
from lance_spark.upkeep.chart import legend, svg
from lance_spark.upkeep.records import NOTHING, StepRecord, TableRecord
from lance_spark.upkeep.report import MaintenanceReport

_MOST = 500
"""Tables that are listed: those with problems first, then those that free most. All are in the JSON."""
_STYLE = """
:root{color-scheme:light dark;--edge:#8885;--faint:#777}
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.8rem 0 .4rem}
p{margin:.3rem 0}code{overflow-wrap:anywhere}.faint{color:var(--faint);fill:var(--faint)}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}
.tile{border:1px solid var(--edge);border-radius:6px;padding:.5rem .9rem}.tile b{display:block;font-size:1.2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;
border-bottom:1px solid var(--edge);overflow-wrap:anywhere}th{white-space:nowrap}
.right{text-align:right;white-space:nowrap}.failed,.stopped{color:#c33}.left{color:#b70}
svg{max-width:100%;height:auto}svg text{font-size:12px;fill:currentColor}svg text.faint{fill:var(--faint)}
.key{margin-right:1rem;white-space:nowrap}.dot{display:inline-block;width:.8em;height:.8em;margin-right:.35em}
"""


def to_html(report: MaintenanceReport) -> str:
    """The page. Names and errors are escaped, and what is secret in URIs is not shown."""
    parts = [_head(report), _tiles(report), _problems(report), _chart(report), _left(report), _tables(report)]
    parts += [_catalog(report), _notes(report)]
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
        going = f'<p class="failed">Unfinished: {told} so far. The run goes on, or it was killed.</p>'
    return f'<h1>Maintenance of <code>{safe(report.root)}</code></h1>{going}<p class="faint">{dry}{took}</p>'


def _tiles(report: MaintenanceReport) -> str:
    tiles = [
        (f"{len(report.tables):,}", "tables"),
        (readable(report.freed), "freed" if report.executed else "to free"),
        (readable(sum(record.owned for record in report.tables)), "owned before"),
        (f"{len(report.left):,}", "steps left for next time"),
        (f"{len(report.problems):,}", "problems"),
    ]
    drawn = "".join(f'<div class="tile"><b>{safe(value)}</b>{safe(name)}</div>' for value, name in tiles)
    return f'<div class="tiles">{drawn}</div>'


def _problems(report: MaintenanceReport) -> str:
    rows = [f'<tr><td>{safe(name)}</td><td class="failed">{safe(why)}</td></tr>' for name, why in report.problems]
    rows += [
        f'<tr><td>{safe(record.name)}</td><td class="faint">{safe(example)}</td></tr>'
        for record in report.tables
        for example in record.told
    ]
    return _section("Problems and findings", ("table", "what"), rows)


def _chart(report: MaintenanceReport) -> str:
    drawn = svg(report.tables, report.executed)
    if not drawn:
        return ""
    freed = "what went of it" if report.executed else "what would go of it"
    return (
        "<h2>Bytes by kind of file</h2>"
        f'<p class="faint">The upper bar is what a table owned before the cleanup, the lower one {freed}.</p>'
        f"<p>{legend(report.tables)}</p>{drawn}"
    )


def _left(report: MaintenanceReport) -> str:
    rows = [
        f'<tr><td>{safe(name)}</td><td class="left">{safe(step.name)}</td><td>{safe(step.why)}</td></tr>'
        for name, step in report.left
    ]
    return _section("Left for next time", ("table", "step", "what"), rows[:_MOST])


def _tables(report: MaintenanceReport) -> str:
    first = sorted(report.tables, key=lambda record: (record.complete, -record.freed, record.name))
    rows = [row for record in first[:_MOST] for row in _rows(record)]
    title = "Tables" if len(first) <= _MOST else f"Tables ({_MOST:,} of {len(first):,})"
    freed = "freed" if report.executed else "to free"
    return _section(title, ("table", "owned", freed, "step", "what"), rows)


def _rows(record: TableRecord) -> Iterable[str]:
    shown: list[StepRecord | None] = [step for step in record.steps if step.state != NOTHING]
    for at, step in enumerate(shown or [None]):
        name, owned, freed = (
            (record.name, readable(record.owned) if record.kinds else "", readable(record.freed))
            if at == 0
            else [""] * 3
        )
        what = (record.error or "nothing to do") if step is None else step.text()
        state = (record.state if record.error else "faint") if step is None else step.state
        yield (
            f'<tr><td>{safe(name)}</td><td class="right">{safe(owned)}</td><td class="right">{safe(freed)}</td>'
            f'<td>{safe("" if step is None else step.name)}</td><td class="{safe(state)}">{safe(what)}</td></tr>'
        )


def _catalog(report: MaintenanceReport) -> str:
    rows = []
    for each in report.catalog:
        cells = (each.name, each.kind, each.error or each.what or each.state)
        size = f"{counted(each.files, 'file')}, {readable(each.bytes)}"
        drawn = "".join(f"<td>{safe(cell)}</td>" for cell in cells)
        rows.append(f'<tr>{drawn}<td class="right">{safe(size)}</td></tr>')
    return _section("The catalog itself", ("directory", "kind", "what", ""), rows)


def _notes(report: MaintenanceReport) -> str:
    return "".join(f'<p class="faint">note: {safe(note)}</p>' for note in report.notes)


def _section(title: str, header: tuple[str, ...], rows: list[str]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{safe(name)}</th>" for name in header)
    return f"<h2>{safe(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
