"""Compactions of tables with partitions: facts that are missing, and the fragments that belong together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import counted
from lance_spark.engine.local import Engine, rewriting
from lance_spark.format.contents import Fragment
from lance_spark.layout.fact_rules import Bounds, inherited, only_key, watched
from lance_spark.layout.facts import layout_bounds, write_facts
from lance_spark.layout.key_rules import Key
from lance_spark.layout.layout_rules import TableLayout
from lance_spark.layout.measuring import MEASURED, MeasureItem, divided, facts_of, measure
from lance_spark.optimize.compaction_rules import RewrittenTask
from lance_spark.storage.datasets import open_pinned

Known = Mapping[int, Mapping[str, Bounds]]


def complete_facts(
    location: DatasetLocation,
    pin: PinnedVersion,
    layout: TableLayout,
    fragments: Mapping[int, Fragment],
    engine: Engine,
) -> Known:
    """Measure the fragments that lack facts; returns what is known of all after that."""
    known = layout_bounds(location, pin, layout)
    missing = [
        key
        for key, bounds in known.items()
        if not bounds.keys() >= {*layout.columns} and key in fragments and fragments[key].deletion is None
    ]
    if not missing:
        return known
    runner = engine.for_work("analyze", rewriting(fragments[key].size for key in missing))
    stage = f"measure {counted(len(missing), 'fragment')}"
    columns = watched(layout)
    names = tuple(each.name for each in columns)
    items = divided(MeasureItem(location, pin, tuple(missing), names, True, partial(facts_of, columns)))
    facts: dict[str, Any] = {}
    for text in runner.collect(stage, runner.flat_map(stage, items, measure, MEASURED))["found"].to_pylist():
        facts |= json.loads(text)
    if facts:
        write_facts(location, facts)
    return layout_bounds(location, pin, layout)


def keys_of(location: DatasetLocation, pin: PinnedVersion, layout: TableLayout, known: Known) -> dict[int, Key | None]:
    """The only key of each fragment; None for one that may have several."""
    schema = open_pinned(location, pin).schema
    kinds = {name: schema.field(name).type for name in layout.columns}
    return {key: only_key(layout.partition, bounds, kinds) for key, bounds in known.items()}


def keep_facts(
    location: DatasetLocation, pin: PinnedVersion, layout: TableLayout, known: Known, rewritten: Sequence[RewrittenTask]
) -> None:
    """Give the new files of a compaction the facts of the old ones."""
    fields = open_pinned(location, pin).lance_schema.fields()
    ids = {field.name(): field.id() for field in fields if field.name() in layout.columns}
    facts: dict[str, Any] = {}
    for entry in rewritten:
        sources = [known.get(key, {}) for key in entry.task.ids]
        facts |= inherited(json.loads(entry.result)["new_fragments"], sources, ids)
    if facts:
        write_facts(location, facts)
