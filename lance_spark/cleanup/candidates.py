"""The files that a plan would delete, as they are stored and shown; sums of them; and what became of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.sweep import BECAME_LIVE, DECIDED, DELETE
from lance_spark.layout.file_kinds import MANIFEST
from lance_spark.layout.names import read_manifest_name

CANDIDATES = pa.schema(
    [
        ("path", pa.string()),  # absolute: a URI, or a local path
        ("kind", pa.string()),
        ("size", pa.int64()),  # bytes
        ("last_modified", pa.timestamp("us", "UTC")),
        ("branch", pa.string()),  # in whose directory it is
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
DELETED, GONE, FAILED, KEPT = "deleted", "already gone", "failed", "kept"
OUTCOMES = pa.schema(
    [
        ("kind", pa.string()),
        ("branch", pa.string()),
        ("reason", pa.string()),  # why it was to go; why it stayed if it was kept
        ("outcome", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("example", pa.string()),  # a path; with the store's reason if it failed
    ]
)
_ORDER = 4
"""How many of the first columns of sums and outcomes say in which order the groups come."""


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


def is_manifest(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """Which candidates are manifests; those are deleted before all else, in their own order."""
    return pc.equal(batch["kind"], MANIFEST)


def in_deletion_order(manifests: pa.Table) -> pa.Table:
    """Candidates that are manifests, by branch and then the oldest version first."""
    names = (path.rpartition("/")[2] for path in manifests["file"].to_pylist())
    read = [read_manifest_name(name) for name in names]
    versions = pa.array([None if name is None else name.version for name in read], pa.uint64())
    order = pc.sort_indices(
        pa.table({"branch": manifests["branch"], "version": versions}),
        sort_keys=[("branch", "ascending"), ("version", "ascending")],
    )
    return manifests.take(order)


def outcome_rows(
    candidates: pa.RecordBatch, deleted: Collection[str], gone: Collection[str], failed: Mapping[str, str]
) -> pa.RecordBatch:
    """OUTCOMES: how many of the candidates ended how, with one example each.

    ``deleted`` and ``gone`` are paths, ``failed`` has the store's reason by path. All other candidates were kept.
    """
    ends = {**dict.fromkeys(deleted, DELETED), **dict.fromkeys(gone, GONE), **dict.fromkeys(failed, FAILED)}
    files = candidates["file"].to_pylist()
    outcomes = [ends.get(file, KEPT) for file in files]
    reasons = zip(outcomes, candidates["reason"].to_pylist(), strict=True)
    rows = pa.table(
        {
            "kind": candidates["kind"],
            "branch": candidates["branch"],
            "reason": pa.array([BECAME_LIVE if outcome == KEPT else why for outcome, why in reasons], pa.string()),
            "outcome": pa.array(outcomes, pa.string()),
            "files": pa.array([1] * len(files), pa.int64()),
            "bytes": candidates["size"],
            "example": pa.array([f"{file}: {failed[file]}" if file in failed else file for file in files], pa.string()),
        },
        schema=OUTCOMES,
    )
    return add_up(rows).combine_chunks().to_batches()[0]


def add_up(rows: pa.Table) -> pa.Table:
    """One row for each group, with ``files`` and ``bytes`` summed, one ``example``; columns before are the group."""
    names = rows.schema.names
    group = names[: names.index("files")]
    grouped = rows.group_by(group).aggregate([("files", "sum"), ("bytes", "sum"), ("example", "min")])
    renamed = grouped.rename_columns([*group, "files", "bytes", "example"])
    ordered = renamed.select(names).cast(rows.schema)
    return ordered.sort_by([(name, "ascending") for name in group[:_ORDER]])
