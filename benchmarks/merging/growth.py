"""(a): one delta, merged into tables that grow: time, bytes, and what the manifest alone costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import lance
from lance.fragment import write_fragments

from benchmarks.measure import Result
from benchmarks.merging.data import BRANCH, DELTA_ROWS, Shape, batches, table
from benchmarks.merging.measure import Details, Run, Work, measure
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.storage import versions
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve_expression

FACTORS = (1, 10, 100)
_FRAGMENT_ROWS = 1_000


def growth(fragments: int, rounds: int) -> Iterator[Result]:
    """A merge into a table of so many fragments, and of 10 and 100 times as many."""
    for factor in FACTORS:
        still = table(Shape(fragments * factor, _FRAGMENT_ROWS))
        moved = table(Shape(fragments * factor, _FRAGMENT_ROWS, moved=True))
        work = {
            "ours": Work(still, ours),
            "ours_three_way": Work(moved, ours),
            "pylance_appends": Work(still, _append, check=False),
            "pylance_opens": Work(still, lambda uri: lambda: _nothing(lance.dataset(uri)), check=False),
            "ours_decodes": Work(still, _decode, check=False),
            "plain_write": Work(still, _write, check=False),
        }
        name = f"(a) {factor} x: {fragments * factor:,} fragments, {still.shape.rows:,} rows"
        yield measure(name, work, (), rounds)


def ours(uri: str) -> Run:
    """Merge the branch into main."""

    def run() -> Details:
        location = locate(uri)
        result = merge(location, resolve_expression(location, BRANCH, None), None, MergeOptions(), LocalRunner())
        return {"bytes_copied": result.summary.bytes, "fast_forward": result.fast_forward}

    return run


def _append(uri: str) -> Run:
    """A commit of one fragment: the least that a new version costs."""
    return append_commit(uri, batches(2 * DELTA_ROWS, _FRAGMENT_ROWS, _FRAGMENT_ROWS))


def append_commit(uri: str, rows: object, storage: dict[str, str] | None = None) -> Callable[[], None]:
    """pylance's commit of rows that are written already."""
    files = write_fragments(rows, uri, mode="append", storage_options=storage)

    def run() -> None:
        dataset = lance.dataset(uri, storage_options=storage)
        append = lance.LanceOperation.Append(files)
        lance.LanceDataset.commit(dataset, append, read_version=dataset.version, storage_options=storage)

    return run


def _decode(uri: str) -> Run:
    """Read the newest manifest of main as a merge does."""
    pin = PinnedVersion(None, lance.dataset(uri).version)
    return lambda: _nothing(versions.read_contents(locate(uri), pin))


def _write(uri: str) -> Run:
    """Write as many bytes as the manifest has."""
    content = versions.read_manifest(locate(uri), PinnedVersion(None, lance.dataset(uri).version))

    def run() -> Details:
        with open(os.path.join(uri, "manifest"), "wb") as file:
            file.write(content)
        return {"manifest_bytes": len(content)}

    return run


def _nothing(_: object) -> None:
    """What a dataset or a manifest is, is no detail."""


def growth_table(results: Sequence[Result]) -> str:
    """A Markdown table: one row per size, and below it how many times the first row the last one is."""
    lines = [
        "| fragments | bytes copied | fast-forward, s | three-way, s | manifest, bytes | pylance opens it, s "
        "| we decode it, s | pylance's append, s | three-way by append |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    rows = [row for row in (_row(result) for result in results) if row is not None]
    lines += [_line(fragments, values) for fragments, values in rows]
    if len(rows) > 1:
        first, last = rows[0][1], rows[-1][1]
        cells = [f"{after / before:.2f} x" if before else "" for before, after in zip(first, last, strict=True)]
        lines.append(f"| last by first | {' | '.join(cells)} | |")
    return "\n".join(lines)


def _line(fragments: str, values: Sequence[float]) -> str:
    copied, forward, three_way, manifest, opens, decodes, appends = values
    times = " | ".join(f"{seconds:.4f}" for seconds in (opens, decodes, appends))
    return (
        f"| {fragments} | {copied:,} | {forward:.3f} | {three_way:.3f} | {manifest:,} | {times} "
        f"| {three_way / appends:.1f} |"
    )


def _row(result: Result) -> tuple[str, list[float]] | None:
    """None where a peer failed."""
    if result.problems:
        return None
    seconds, details = result.medians, result.details
    fragments = result.name.split(": ")[1].split(" ")[0]
    return fragments, [
        details["ours"]["bytes_copied"],
        seconds["ours"],
        seconds["ours_three_way"],
        details["plain_write"]["manifest_bytes"],
        seconds["pylance_opens"],
        seconds["ours_decodes"],
        seconds["pylance_appends"],
    ]
