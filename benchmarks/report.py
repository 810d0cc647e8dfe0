"""The table and the JSON file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Result

_WORDS = {True: "reached", False: "MISSED", None: "not measured"}


def machine() -> dict[str, Any]:
    """What the numbers depend on, without a name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "pylance", "pyarrow")},
    }


def headline(facts: dict[str, Any]) -> str:
    return f"{machine_line(facts)}; {facts['rows']:,} rows, median of {facts['rounds']}"


def machine_line(facts: dict[str, Any]) -> str:
    return (
        f"{facts['cores']} cores, {facts['memory_gib']} GiB; Spark {facts['pyspark']}, pylance {facts['pylance']}, "
        f"pyarrow {facts['pyarrow']}, Python {facts['python']}"
    )


def table(results: Sequence[Result]) -> str:
    """A Markdown table: seconds of everyone, how many times ours that is, and each target."""
    lines = ["| case | who | seconds | times ours | target |", "|---|---|---:|---:|---|"]
    for result in results:
        lines += _rows(result)
    return "\n".join(lines)


def _rows(result: Result) -> list[str]:
    medians = result.medians
    ours = medians.get("ours")
    rows: list[str] = []
    for peer in result.case.work:
        seconds = medians.get(peer)
        notes = [
            f"{target.text}: {_WORDS[target.reached(medians)]}"
            for target in result.case.targets
            if peer == target.who and (target.peer is None or target.peer in result.case.work)
        ]
        if peer in result.problems:
            notes.append(f"FAILED: {result.problems[peer]}")
        times = f"{seconds / ours:.2f}" if seconds is not None and ours else ""
        took = "" if seconds is None else f"{seconds:.4f}" if seconds < 0.1 else f"{seconds:.2f}"
        name = result.name if not rows else ""
        rows.append(f"| {name} | {peer.replace('_', ' ')} | {took} | {times} | {'; '.join(notes)} |")
    return rows


def save(path: Path, facts: dict[str, Any], results: Sequence[Result]) -> None:
    cases = [
        {
            "case": result.name,
            "median_seconds": result.medians,
            "seconds": result.seconds,
            "targets": {target.text: target.reached(result.medians) for target in result.case.targets},
            "problems": result.problems,
            "details": result.details,
        }
        for result in results
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": facts, "cases": cases}, indent=2) + "\n")
