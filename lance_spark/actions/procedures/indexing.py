"""The procedure that makes indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.indexes.change import create_index
from lance_spark.actions.procedures.procedure import MESSAGE, TABLE, Context, Parameter, Procedure, Rows
from lance_spark.indexing.model import IndexRequest
from lance_spark.refs.names import MAIN, branch_or_none


def _create(context: Context, given: Mapping[str, Any]) -> Rows:
    settings = {name: given[name] for name in ("metric", "num_partitions") if given[name] is not None}
    request = IndexRequest(given["column"], given["kind"], given["name"], given["replace"], settings, given["message"])
    made = create_index(context.table(given["table"]), branch_or_none(given["branch"]), request, context.engine)
    yield {
        "name": made.name,
        "kind": made.kind,
        "branch": made.version.branch or MAIN,
        "version": made.version.version,
        "rows": made.rows,
        "segments": made.segments,
        "bytes": made.bytes,
        "left": made.left,
    }


CREATE_INDEX = Procedure(
    "create_index",
    "Make an index on a branch, built by the executors; of an index that the branch inherited, what it does not cover.",
    (
        TABLE,
        Parameter("column", "STRING", "the column", required=True),
        Parameter("kind", "STRING", "the kind, such as 'btree', 'inverted' or 'ivf_pq'", default="btree"),
        Parameter("name", "STRING", "the index's name; the column's with '_idx'"),
        Parameter("branch", "STRING", "the branch", default=MAIN),
        Parameter("replace", "BOOLEAN", "whether to build an index that is there anew", default=False),
        Parameter("metric", "STRING", "of vectors: 'l2', 'cosine' or 'dot'"),
        Parameter("num_partitions", "BIGINT", "of vectors: how many partitions"),
        MESSAGE,
    ),
    pa.schema(
        [
            ("name", pa.string()),
            ("kind", pa.string()),
            ("branch", pa.string()),
            ("version", pa.int64()),
            ("rows", pa.int64()),
            ("segments", pa.int64()),
            ("bytes", pa.int64()),
            ("left", pa.string()),
        ]
    ),
    _create,
)
