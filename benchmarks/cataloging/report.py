"""The numbers as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.cataloging.places import Measured

_WORDS = {True: "reached", False: "**MISSED**", None: "not measured"}


def local_table(measured: Sequence[Measured]) -> str:
    """Milliseconds of one operation."""
    lines = ["| operation | tables | ours, ms | pylance, ms | with its indexes, ms | pylance by ours | goal |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for each in measured:
        cells = [_milliseconds(each, who) for who in ("ours", "pylance", "pylance_indexed")]
        lines.append(f"| {each.operation} | {each.tables:,} | {' | '.join(cells)} | {_ratio(each)} | {_goal(each)} |")
    return "\n".join(lines)


def store_table(measured: Sequence[Measured], place: str = "S3") -> str:
    """Milliseconds and requests of one operation on an object store, or of a catalog service."""
    lines = [
        f"| operation on {place} | tables | ours, ms | requests | pylance, ms | requests | pylance by ours | goal |"
    ]
    lines.append("|---|---:|---:|---|---:|---|---:|---|")
    for each in measured:
        cells = [text for who in ("ours", "pylance") for text in (_milliseconds(each, who), _requests(each, who))]
        lines.append(f"| {each.operation} | {each.tables:,} | {' | '.join(cells)} | {_ratio(each)} | {_goal(each)} |")
    return "\n".join(lines)


def problems(measured: Sequence[Measured]) -> list[str]:
    return [
        f"{each.place}, {each.operation}, {each.tables:,} tables, {who}: {why}"
        for each in measured
        for who, why in each.result.problems.items()
    ]


def missed(measured: Sequence[Measured]) -> Iterator[str]:
    """What was promised and is not so."""
    for each in measured:
        for target in each.result.case.targets:
            if target.reached(each.result.medians) is False or each.result.problems.get("ours"):
                yield f"MISSED: {each.place}, {each.operation}, {each.tables:,} tables: {target.text}"


def _milliseconds(each: Measured, who: str) -> str:
    median = each.milliseconds(who)
    if median is None:
        return "none" if who == "pylance" and each.operation in ("rename", "migrate") else ""
    return f"{median:,.2f}" if median < 10 else f"{median:,.0f}"


def _requests(each: Measured, who: str) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in each.requests.get(who, {}).items())


def _ratio(each: Measured) -> str:
    ours, peer = each.milliseconds("ours"), each.milliseconds("pylance")
    return f"{peer / ours:,.1f}" if ours and peer else ""


def _goal(each: Measured) -> str:
    notes = [
        f"{target.text}: {_WORDS[target.reached(each.result.medians) and not each.result.problems.get('ours')]}"
        for target in each.result.case.targets
    ]
    return "; ".join(notes)
