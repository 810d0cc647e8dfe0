"""The table: a line for each question, with what was to be reached."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Result, Target

WAYS = {
    "ours": "ours",
    "connected": "native on Connect",
    "plain": "plain source",
    "connect": "plain on Connect",
    "parquet": "Parquet",
    "jvm": "JVM connector",
}
_WORDS = {True: "yes", False: "no", None: "not measured"}


def reading_table(results: Sequence[Result]) -> str:
    """Seconds; ratios are of the others' time to ours, so that above 1 ours is faster."""
    titles = [*WAYS.values(), "Connect / ours", "plain / ours", "Parquet / ours", "JVM / ours", "to reach", "reached"]
    lines = [f"| question | {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 2)}---|---|"]
    for result in results:
        cells = [_seconds(result, who) for who in WAYS]
        cells += [_ratio(result, who) for who in ("connected", "plain", "parquet", "jvm")]
        targets = result.case.targets
        cells.append("; ".join(target.text for target in targets) or "-")
        cells.append("; ".join(_reached(result, target) for target in targets) or "-")
        lines.append(f"| {result.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def problems(results: Sequence[Result]) -> list[str]:
    """Who failed, and why."""
    return [f"{result.name}: {who}: {why}" for result in results for who, why in result.problems.items()]


def _seconds(result: Result, who: str) -> str:
    seconds = result.medians.get(who)
    failed = " FAILED" if who in result.problems else ""
    return (f"{seconds:.3f}" if seconds is not None else "-") + failed


def _ratio(result: Result, who: str) -> str:
    medians = result.medians
    return f"{medians[who] / medians['ours']:.2f}" if who in medians and "ours" in medians else "-"


def _reached(result: Result, target: Target) -> str:
    word = _WORDS[target.reached(result.medians)]
    if target.peer in (None, "parquet") or target.peer not in result.medians:
        return word
    return f"{word} ({result.medians[target.peer] / result.medians['ours']:.2f})"
