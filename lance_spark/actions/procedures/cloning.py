"""The procedure that makes a dataset which follows a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.procedures.procedure import (
    DRY_RUN,
    REFS,
    TABLE,
    Context,
    Parameter,
    Procedure,
    Rows,
    pin_of,
)
from lance_spark.actions.sync.clone import CloneOptions, clone
from lance_spark.actions.sync.tracking_branches import Remote
from lance_spark.actions.sync.write_guards import ORIGIN
from lance_spark.refs.names import MAIN

_COLUMNS = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("branch", pa.string()),
        ("version", pa.int64()),
        ("source_version", pa.string()),
        ("rows", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("deep", pa.bool_()),
        ("dry_run", pa.bool_()),
    ]
)


def _clone(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    options = CloneOptions(deep=given["deep"], dry_run=given["dry_run"])
    pin, target = pin_of(location, given["ref"]), context.place(given["target"])
    done = clone(Remote(ORIGIN, location), pin, target, context.engine, options)
    yield {name: getattr(done, name) for name in _COLUMNS.names}


CLONE = Procedure(
    "clone",
    "Make a dataset that follows a table, as its remote 'origin'.",
    (
        TABLE,
        Parameter("target", "STRING", "the path or URI of the new dataset", required=True),
        Parameter("ref", "STRING", f"the version that its branch begins with: {REFS}", default=MAIN),
        Parameter("deep", "BOOLEAN", "whether to copy all files", default=False),
        DRY_RUN,
    ),
    _COLUMNS,
    _clone,
)
