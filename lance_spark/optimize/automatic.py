"""Compactions that writes make: a few small fragments at a time, in the process that commits.

A table asks for them with the property ``auto_compact``. The rows are committed before, so that nothing that goes wrong
here is an error of the write.
"""

from __future__ import annotations

import logging
from itertools import takewhile

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_properties import auto_compact
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import LanceSparkError
from lance_spark.format.blobs import holds_blobs
from lance_spark.format.contents import decode_indexes
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.facts import layout_bounds
from lance_spark.optimize import automatic_rules, by_layout, compaction_rules
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.rows.action_rules import ChangeResult
from lance_spark.storage import versions
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.write.plan_rules import WritePlan

_LOG = logging.getLogger("lance_spark.optimize")


def compact_written(plan: WritePlan) -> None:
    """Compact what a write has added to, if the table asked for it when the write was planned."""
    compact_if_due(plan.location, plan.options.branch, plan.auto_compact)


def compact_after(location: DatasetLocation, done: ChangeResult) -> None:
    """Compact what a change of rows has added to, if the table asks for it."""
    if done.rows_inserted or done.rows_updated:
        compact_if_due(location, done.version.branch, auto_compact(open_pinned(location, done.version).metadata))


def compact_if_due(location: DatasetLocation, branch: str | None, many: int | None) -> bool:
    """Compact the small fragments of a branch once there are ``many`` (None: never).

    Returns whether it tried: even a compaction that was overtaken may have made versions.
    """
    due: frozenset[int] = frozenset()
    if many is None:
        return False
    try:
        due, rows = _due(location, pin_latest(location, branch), many)
        if due:
            _compact(location, branch, rows, due)
    except LanceSparkError as problem:
        _not_compacted(location, problem)
    return bool(due)


def compact_newest(location: DatasetLocation, branch: str | None) -> None:
    """Compact the small, most recent fragments at the end of a branch, however many there are."""
    target = OptimizeOptions().target_rows
    try:
        fragments = [*versions.read_contents(location, pin_latest(location, branch)).fragments()]
        newest = takewhile(lambda fragment: 2 * fragment.rows < target, reversed(fragments))
        small = frozenset(automatic_rules.affordable(newest))
        if len(small) > 1:
            _compact(location, branch, target, small)
    except LanceSparkError as problem:
        _not_compacted(location, problem)


def _due(location: DatasetLocation, head: PinnedVersion, many: int) -> tuple[frozenset[int], int]:
    """The fragments to compact now, and how many rows a new one has."""
    manifest = versions.read_manifest(location, head)
    contents = versions.contents_of(location, head, manifest)
    fragments = [*contents.fragments()]
    if len(fragments) < many or any(map(holds_blobs, open_pinned(location, head).schema)):
        return frozenset(), 0
    snapshot = versions.snapshot_of(location, head, contents)
    left = compaction_rules.inherited_fragments(snapshot, location.uri)
    indexes = decode_indexes(manifest)
    free = [
        each if each.id not in left and not compaction_rules.coverage(indexes, each.id) else None for each in fragments
    ]
    layout = read_layout(location, head)
    if layout.partition:
        keys = by_layout.keys_of(location, head, layout, layout_bounds(location, head, layout))
        runs = automatic_rules.alike(free, keys)
    else:
        runs = automatic_rules.neighbors(free)
    return frozenset(automatic_rules.due(runs, many)), automatic_rules.rows_of(free)


def _compact(location: DatasetLocation, branch: str | None, rows: int, fragments: frozenset[int]) -> None:
    options = OptimizeOptions(target_rows=rows, partial_progress=1)
    _LOG.info("%s", optimize(location, branch, options, LocalRunner(), fragments))


def _not_compacted(location: DatasetLocation, problem: LanceSparkError) -> None:
    _LOG.warning("Small fragments of %s were not compacted: %s", location.uri, problem.message)
