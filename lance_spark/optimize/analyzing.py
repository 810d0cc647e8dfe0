"""Statistics of columns for Spark's optimizer: measured where they are missing, and kept by compactions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import Card, Grid, Report
from lance_spark.core.texts import counted, meant
from lance_spark.engine.local import Engine, Work, rewriting
from lance_spark.errors import InvalidOption, LanceSparkError
from lance_spark.layout.declaring import look
from lance_spark.layout.histogram_rules import has_distribution
from lance_spark.layout.measuring import MEASURED, MeasureItem, divided, measure
from lance_spark.layout.statistic_rules import ColumnEstimate, countable, group_from, joined
from lance_spark.layout.statistics import (
    VersionStatistics,
    groups_of,
    has_statistics,
    keep_statistics,
    known_columns,
    sketches_of,
    sources_of,
    version_statistics,
)
from lance_spark.optimize.by_layout import complete_facts
from lance_spark.optimize.compaction_rules import RewrittenTask
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.versions import read_contents

COLUMNS = ("col_name", "distinct_count", "num_nulls", "min", "max", "avg_col_len", "max_col_len", "histogram")
"""As Spark's ``DESCRIBE EXTENDED table column`` names them."""


@dataclass(frozen=True)
class ColumnInfo:
    """The statistics of a column: estimates, for plans."""

    col_name: str
    distinct_count: int
    num_nulls: int
    min: str | None
    """The least value as text; None if unknown, and for texts."""
    max: str | None
    avg_col_len: int
    """Bytes."""
    max_col_len: int
    histogram: bool
    """Whether it is known how the values are distributed."""


@dataclass(frozen=True, repr=False)
class TableStatistics(Report):
    """What is known of the columns of a version."""

    rows: int
    columns: tuple[ColumnInfo, ...]
    measured: int
    """Fragments that were read for it; 0 if all was known."""

    def as_document(self) -> dict[str, Any]:
        return asdict(self)

    def _card(self) -> Card:
        rows = (astuple(each) for each in self.columns)
        grid = Grid(COLUMNS, tuple(tuple("" if cell is None else f"{cell}" for cell in row) for row in rows))
        facts = (("rows", f"{self.rows:,}"), ("measured", counted(self.measured, "fragment")))
        return Card("Statistics", facts=facts, grids=(grid,) if self.columns else ())


def analyze(
    location: DatasetLocation,
    pin: PinnedVersion,
    columns: Sequence[str] | None,
    engine: Engine,
    histograms: bool = False,
) -> TableStatistics:
    """Measure columns of the fragments that have no statistics; all columns for None. No version is committed.

    With ``histograms`` fragments without those are measured, too; otherwise only columns that have some get them of
    other fragments. Also measures the facts of the table's layout, where they are missing. Raises InvalidOption for a
    column that the table does not have, or of which nothing can be counted.
    """
    schema = open_pinned(location, pin).schema
    able = countable(schema)
    names = able if columns is None else _checked(columns, schema, able)
    fragments = {each.id: each for each in read_contents(location, pin).fragments()}
    layout, _ = look(location, pin)
    if layout:
        complete_facts(location, pin, layout, fragments, engine)
    rows = {key: each.rows for key, each in fragments.items()}
    missing, told = _missing(schema, version_statistics(location, pin, names, rows), histograms)
    if missing:
        work = rewriting(fragments[key].size for key in missing)
        item = MeasureItem(location, pin, missing, names, False, partial(sketches_of, names, told))
        _measure(item, engine, work)
    found = version_statistics(location, pin, names, rows).columns
    infos = tuple(_info(name, schema.field(name).type, found[name]) for name in names if name in found)
    return TableStatistics(sum(rows.values()), infos, len(missing))


def _missing(schema: pa.Schema, known: VersionStatistics, histograms: bool) -> tuple[tuple[int, ...], frozenset[str]]:
    """The fragments to measure, and the columns of which to measure how values are distributed."""
    told = frozenset(
        name
        for name in known.without
        if has_distribution(schema.field(name).type)
        and (histograms or (name in known.columns and known.columns[name].distribution is not None))
    )
    return tuple(sorted(known.missing.union(*(known.without[name] for name in told)))), told


def renew(location: DatasetLocation, pin: PinnedVersion, engine: Engine) -> int:
    """Measure what came to a version whose columns somebody has measured; returns the number of fragments read."""
    rows = {each.id: each.rows for each in read_contents(location, pin).fragments()}
    names = known_columns(location, pin, rows)
    return analyze(location, pin, names, engine).measured if names else 0


def _checked(columns: Sequence[str], schema: pa.Schema, able: Sequence[str]) -> tuple[str, ...]:
    for name in columns:
        if name not in schema.names:
            raise InvalidOption(f"There is no column '{name}'.", hint=meant(name, schema.names))
        if name not in able:
            raise InvalidOption(
                f"Nothing can be counted in column '{name}', which is {schema.field(name).type}.",
                hint="Name columns of numbers, texts, bytes, booleans, dates or timestamps.",
            )
    return tuple(dict.fromkeys(columns))


def _measure(item: MeasureItem, engine: Engine, work: Work) -> None:
    runner = engine.for_work("analyze", work)
    stage = f"measure {counted(len(item.fragments), 'fragment')}"
    texts = runner.collect(stage, runner.flat_map(stage, divided(item), measure, MEASURED))["found"].to_pylist()
    groups = joined(group_from(json.loads(text)) for text in texts)
    if groups:
        keep_statistics(item.location, groups)


def _info(name: str, kind: pa.DataType, known: ColumnEstimate) -> ColumnInfo:
    low, high = (None if end is None else _text(kind, end) for end in (known.low, known.high))
    lengths = known.average, known.longest
    return ColumnInfo(name, known.distinct, known.nulls, low, high, *lengths, known.distribution is not None)


def _text(kind: pa.DataType, end: Any) -> str:
    if pt.is_date32(kind) or pt.is_timestamp(kind):
        storage = pa.int32() if pt.is_date32(kind) else pa.int64()
        return str(pa.array([end], storage).cast(kind).cast(pa.string())[0].as_py())
    return str(end)


def carry_statistics(location: DatasetLocation, pin: PinnedVersion, rewritten: Sequence[RewrittenTask]) -> None:
    """Give the new files of a compaction the statistics of the old ones, where all of those have some.

    A failure costs plans, and is no error.
    """
    entries = [each for task in rewritten for each in json.loads(task.result)["new_fragments"]]
    fragments = [key for task in rewritten for key in task.task.ids]
    with suppress(LanceSparkError):
        if not has_statistics(location):
            return
        rows = {each.id: each.rows for each in read_contents(location, pin).fragments()}
        known = sources_of(location, pin, fragments, rows)
        if known:
            ids = {field.name(): field.id() for field in open_pinned(location, pin).lance_schema.fields()}
            keep_statistics(location, groups_of(entries, known, ids))
