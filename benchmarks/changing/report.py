"""The table: seconds and bytes of everyone, and how many times ours that is."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Result

_WORDS = {True: "yes", False: "no", None: "not measured"}


def changes_table(results: Sequence[Result]) -> str:
    """A Markdown table. Ratios are of the others' seconds to ours: above 1 ours is faster."""
    lines = ["| change | who | seconds | times ours | MB written | to reach |", "|---|---|---:|---:|---:|---|"]
    for result in results:
        mine = result.medians.get("ours")
        for who, seconds in result.medians.items():
            name = result.name if who == "ours" else ""
            ratio = f"{seconds / mine:.2f}" if mine else ""
            size = result.details[who]["bytes_written"] / 1e6
            targets = [f"{each.text}: {_WORDS[each.reached(result.medians)]}" for each in result.case.targets]
            told = "; ".join(targets) if who == "ours" else ""
            lines.append(f"| {name} | {who.replace('_', ' ')} | {seconds:.2f} | {ratio} | {size:,.1f} | {told} |")
    return "\n".join(lines)
