"""The procedure that compacts a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.optimize import optimize
from lance_spark.actions.procedures.procedure import DRY_RUN, TABLE, Context, Parameter, Procedure, Rows
from lance_spark.compaction.model import OptimizeOptions
from lance_spark.compaction.ordering import ordering_of
from lance_spark.refs.names import MAIN, branch_or_none


def _optimize(context: Context, given: Mapping[str, Any]) -> Rows:
    options = OptimizeOptions(
        given["target_rows"],
        given["where"],
        given["own_only"],
        given["partial_progress"],
        given["dry_run"],
        ordering_of(_columns(given["sort_by"]), _columns(given["zorder"])),
    )
    yield optimize(context.table(given["table"]), branch_or_none(given["branch"]), options, context.engine).as_record()


def _columns(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


OPTIMIZE = Procedure(
    "optimize",
    "Rewrite small fragments, and those with many deleted rows, into larger ones; no row changes.",
    (
        TABLE,
        Parameter("branch", "STRING", "the branch", default=MAIN),
        Parameter("target_rows", "BIGINT", "rows that a fragment should have", default=1_000_000),
        Parameter("where", "STRING", "Lance SQL: only fragments with a row that it is true for"),
        Parameter("own_only", "BOOLEAN", "false to rewrite what a branch or clone inherited, too", default=True),
        Parameter("partial_progress", "BIGINT", "how many commits there are at most", default=10),
        Parameter("sort_by", "STRING", "columns that rows are sorted by, with commas in between"),
        Parameter("zorder", "STRING", "columns of a z-order, with commas in between"),
        DRY_RUN,
    ),
    pa.schema(
        [
            ("branch", pa.string()),
            ("version", pa.int64()),
            ("dry_run", pa.bool_()),
            ("fragments_planned", pa.int64()),
            ("fragments_removed", pa.int64()),
            ("fragments_added", pa.int64()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("commits", pa.int64()),
            ("conflicts", pa.list_(pa.string())),
            ("indexes_rehomed", pa.list_(pa.string())),
            ("depth_before", pa.float64()),
            ("depth_after", pa.float64()),
            ("indexes_uncovered", pa.list_(pa.string())),
        ]
    ),
    _optimize,
)
