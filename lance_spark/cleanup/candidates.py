"""The files a plan would delete, as they are stored and shown; and sums over what was decided. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.sums import add_up
from lance_spark.cleanup.sweep import DECIDED, DELETE
from lance_spark.layout import file_kinds

CANDIDATES = pa.schema(
    [
        ("path", pa.string()),  # absolute: a URI, or a local path
        ("kind", pa.string()),
        ("size", pa.int64()),  # bytes
        ("last_modified", pa.timestamp("us", "UTC")),
        ("branch", pa.string()),  # whose directory it is in
        ("reason", pa.string()),
        ("verified", pa.bool_()),  # whether a removed version is known to name it
        ("file", pa.string()),  # path relative to the dataset
        ("key", pa.string()),  # what versions would name, relative to the dataset
        ("local", pa.string()),  # the same, relative to the branch
    ]
)
SUMS = pa.schema(
    [
        ("kind", pa.string()),
        ("branch", pa.string()),
        ("action", pa.string()),
        ("reason", pa.string()),
        ("verified", pa.bool_()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("example", pa.string()),  # a path relative to the dataset; null where files stay
    ]
)


def to_candidates(batches: Iterator[pa.RecordBatch], root: str, branches: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """CANDIDATES from batches of DECIDED. ``branches`` are the names of all chains, ``root`` is the dataset's URI."""
    for batch in batches:
        rows = pa.Table.from_batches([batch], DECIDED)
        rows = rows.filter(pc.equal(rows["action"], DELETE))
        columns = {
            "path": pc.binary_join_element_wise(pa.scalar(f"{root}/"), rows["path"], ""),
            "kind": rows["kind"],
            "size": rows["size"],
            "last_modified": pc.divide(rows["modified_ns"], 1000).cast(pa.timestamp("us", "UTC")),
            "branch": _branch_names(rows, branches),
            "reason": rows["reason"],
            "verified": rows["verified"],
            "file": rows["path"],
            "key": rows["key"],
            "local": rows["local"],
        }
        yield from pa.table(columns, schema=CANDIDATES).to_batches()


def sum_up(batches: Iterator[pa.RecordBatch], branches: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """SUMS over batches of DECIDED: files and bytes by kind, branch, action and reason."""
    tables = []
    for batch in batches:
        rows = pa.Table.from_batches([batch], DECIDED)
        tables.append(
            pa.table(
                {
                    **{name: rows[name] for name in ("kind", "action", "reason", "verified", "files")},
                    "branch": _branch_names(rows, branches),
                    "bytes": rows["size"],
                    "example": rows["path"],
                }
            ).select(SUMS.names)
        )
    if tables:
        yield from add_up(pa.concat_tables(tables).cast(SUMS)).to_batches()


def _branch_names(rows: pa.Table, branches: Sequence[str]) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pa.array(branches, pa.string()).take(chunk) for chunk in rows["chain"].chunks], pa.string()
    )


def is_manifest(batch: pa.RecordBatch) -> pa.Array:
    """Which candidates are manifests; those are deleted before all else, in their own order."""
    return pc.equal(batch["kind"], file_kinds.MANIFEST)
