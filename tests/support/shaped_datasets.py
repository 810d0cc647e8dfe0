"""Datasets of every shape that a scan must read like pylance does; each builder returns pylance's own handle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import DatasetBasePath

from lance_spark.format.blobs import BLOB_KEY

POINT = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string()), ("w", pa.int64())]))])


def people(count: int, start: int = 0) -> pa.Table:
    """Rows with nulls in every kind of column, and null structs beside structs of nulls."""
    numbers = range(start, start + count)
    points = [None, {"x": None, "y": None}, {"x": 1, "y": {"z": "a", "w": None}}, {"x": 2, "y": None}]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": pa.array([None if n % 7 == 0 else n % 4 for n in numbers], pa.int32()),
            "name": pa.array([None if n % 5 == 0 else f"n{n % 3}" for n in numbers]),
            "point": pa.array([points[n % 4] for n in numbers], POINT),
            "vector": pa.array([[float(n)] * 4 for n in numbers], pa.list_(pa.float32(), 4)),
            "tags": pa.array([None if n % 3 == 0 else ["t"] * (n % 3) for n in numbers], pa.list_(pa.string())),
        }
    )


def plain(uri: str, **arguments: Any) -> lance.LanceDataset:
    """Two commits, five fragments of 10, 10, 3, 10 and 2 rows."""
    lance.write_dataset(people(23), uri, max_rows_per_file=10, **arguments)
    return lance.write_dataset(people(12, 23), uri, mode="append", max_rows_per_file=10, **arguments)


def deleted_rows(uri: str) -> lance.LanceDataset:
    dataset = plain(uri)
    dataset.delete("id % 3 = 0 OR (id >= 20 AND id < 23) OR id = 9")
    return lance.dataset(uri)


def evolved(uri: str) -> lance.LanceDataset:
    """Columns added and dropped between appends, one renamed, one widened."""
    dataset = plain(uri)
    dataset.add_columns({"doubled": "id * 2"})
    dataset.drop_columns(["name"])
    lance.write_dataset(people(5, 100).drop_columns(["name", "tags"]), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.alter_columns({"path": "kind", "data_type": pa.int64()}, {"path": "tags", "name": "labels"})
    dataset.delete("id = 101")
    return lance.dataset(uri)


def indexed(uri: str) -> lance.LanceDataset:
    """BTREE and BITMAP over the first fragments; then rows deleted, changed and appended behind the indexes' backs."""
    dataset = plain(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("kind", "BITMAP")
    dataset.delete("id IN (3, 11, 12)")
    dataset.update({"kind": "9"}, where="id = 21")
    return lance.write_dataset(people(15, 35), uri, mode="append", max_rows_per_file=10)


def stable_ids(uri: str, index: bool = False) -> lance.LanceDataset:
    """Row ids that survived an update and a compaction, so that they differ from the addresses."""
    dataset = plain(uri, enable_stable_row_ids=True)
    if index:
        dataset.create_scalar_index("id", "BTREE")
        dataset.create_scalar_index("kind", "BITMAP")
    dataset.update({"kind": "3"}, where="id % 4 = 1")
    dataset.delete("id IN (2, 30)")
    dataset.optimize.compact_files(target_rows_per_fragment=15)
    return lance.write_dataset(people(15, 35), uri, mode="append", max_rows_per_file=10)


def stable_ids_indexed(uri: str) -> lance.LanceDataset:
    return stable_ids(uri, index=True)


def branch_of_branch(uri: str) -> lance.LanceDataset:
    """Deletions and appends on each of three generations."""
    plain(uri).create_branch("a")
    first = lance.dataset(f"{uri}/tree/a")
    first.delete("id < 4")
    lance.write_dataset(people(4, 50), first.uri, mode="append")
    lance.dataset(first.uri).create_branch("a/b")
    second = lance.dataset(f"{uri}/tree/a/b")
    second.create_scalar_index("id", "BTREE")
    second.delete("id IN (5, 51)")
    return lance.write_dataset(people(3, 60), second.uri, mode="append")


def clone(uri: str) -> lance.LanceDataset:
    """A shallow clone, written to since, of a clone of a dataset with deletions."""
    deleted_rows(f"{uri}-origin").shallow_clone(f"{uri}-middle", None)
    lance.dataset(f"{uri}-middle").delete("id = 22")
    lance.dataset(f"{uri}-middle").shallow_clone(uri, None)
    lance.dataset(uri).delete("id = 1")
    return lance.write_dataset(people(3, 70), uri, mode="append")


def many_bases(uri: str) -> lance.LanceDataset:
    """Data files in three directories, two of them outside the dataset."""
    for name in ("flat", "rooted"):
        Path(f"{uri}-{name}").mkdir()
    bases = [
        DatasetBasePath(f"{uri}-flat", name="flat"),
        DatasetBasePath(f"{uri}-rooted", name="rooted", is_dataset_root=True),
    ]
    lance.write_dataset(people(20), uri, initial_bases=bases, target_bases=["flat"], max_rows_per_file=8)
    lance.write_dataset(people(10, 20), uri, mode="append", target_bases=["rooted"], max_rows_per_file=8)
    lance.write_dataset(people(5, 30), uri, mode="append")
    lance.dataset(uri).delete("id % 6 = 0")
    return lance.dataset(uri)


def compacted(uri: str) -> lance.LanceDataset:
    """Fragments whose ids are not 0, 1, 2, and an index that was remapped with them."""
    dataset = indexed(uri)
    dataset.optimize.compact_files(target_rows_per_fragment=12)
    dataset.optimize.optimize_indices()
    dataset.delete("id = 40")
    return lance.dataset(uri)


def oldest_format(uri: str) -> lance.LanceDataset:
    flat = people(35).drop_columns(["point", "tags"])
    dataset = lance.write_dataset(flat, uri, max_rows_per_file=10, max_rows_per_group=4, data_storage_version="legacy")
    dataset.delete("id % 3 = 0")
    return lance.dataset(uri)


def emptied(uri: str) -> lance.LanceDataset:
    plain(uri).delete("true")
    return lance.dataset(uri)


SHAPES = (
    plain,
    deleted_rows,
    evolved,
    indexed,
    stable_ids,
    stable_ids_indexed,
    branch_of_branch,
    clone,
    many_bases,
    compacted,
    oldest_format,
    emptied,
)

PAYLOADS = [b"inline", None, b"", b"p" * 200_000, b"q" * 5_000_000]
"""Small, null, empty, packed and dedicated: each kind of storage a blob can have."""


def blobs(uri: str, version: str) -> lance.LanceDataset:
    """Two fragments of blobs, the first row of each deleted."""
    if version == "2.2":
        field, values = lance.blob_field("payload"), lance.blob_array(PAYLOADS)
    else:
        field = pa.field("payload", pa.large_binary(), metadata={BLOB_KEY: "true"})
        values = pa.array(PAYLOADS, pa.large_binary())
    schema = pa.schema([pa.field("id", pa.int64()), field])
    rows = pa.table({"id": range(len(PAYLOADS)), "payload": values}, schema=schema)
    for mode in ("create", "append"):
        lance.write_dataset(rows, uri, mode=mode, data_storage_version=version)
    lance.dataset(uri).delete("id = 0")
    return lance.dataset(uri)
