"""Datasets for the tests of merges: a main and a branch 'exp', changes to either, and what must hold afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_spark.engine.local import LocalRunner
from lance_spark.errors import LanceSparkError
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.report import MergeResult
from lance_spark.storage.datasets import locate, pin_latest
from support.cleanup_datasets import NOW, clean, place

Rows = list[dict[str, Any]]


def table(start: int, stop: int) -> pa.Table:
    """Rows start, ..., stop - 1: the number, and ten times the number."""
    numbers = range(start, stop)
    return pa.table({"id": pa.array(numbers, pa.int64()), "v": pa.array([10 * n for n in numbers], pa.int64())})


def forked(uri: str, stable: bool = False, index: bool = True, **arguments: Any) -> str:
    """30 rows in three fragments, an index on ``id``, and a branch 'exp' that begins there."""
    for start in (0, 10, 20):
        mode = "append" if start else "create"
        lance.write_dataset(table(start, start + 10), uri, mode=mode, enable_stable_row_ids=stable, **arguments)
    if index:
        lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_branch("exp")
    return uri


def head(uri: str, branch: str | None = None) -> lance.LanceDataset:
    """The newest version of a branch, opened from scratch."""
    return lance.dataset(place(uri, branch))


def exp(uri: str) -> lance.LanceDataset:
    return head(uri, "exp")


def add(uri: str, start: int, stop: int, branch: str | None = None) -> None:
    """Append rows to a branch, in the columns of ``table``."""
    lance.write_dataset(table(start, stop), place(uri, branch), mode="append")


def run(uri: str, source: str | None = "exp", into: str | None = None, **options: Any) -> MergeResult:
    """Merge the newest version of a branch into another one."""
    location = locate(uri)
    return merge(location, pin_latest(location, source), into, MergeOptions(**options), LocalRunner())


def error_of(uri: str, source: str | None = "exp", into: str | None = None, **options: Any) -> LanceSparkError | None:
    """What a merge was refused with; None if it was done."""
    try:
        run(uri, source, into, **options)
    except LanceSparkError as refusal:
        return refusal
    return None


def rows(dataset: lance.LanceDataset) -> Rows:
    """All rows by their id, as pylance reads them."""
    return sorted(dataset.to_table().to_pylist(), key=lambda row: (row["id"], str(row)))


def ids(dataset: lance.LanceDataset) -> list[int]:
    return [row["id"] for row in rows(dataset)]


def row_ids(dataset: lance.LanceDataset) -> dict[int, int]:
    """The row id that pylance gives each row, by the row's own id."""
    listed = dataset.to_table(columns=["id"], with_row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in listed}


def assert_sound(dataset: lance.LanceDataset) -> None:
    """The files are there, no two rows have one id, every row is found by its id, and indexes answer like scans."""
    dataset.validate()
    whole = dataset.to_table(with_row_id=True).to_pylist()
    assert len({row["_rowid"] for row in whole}) == len(whole)
    assert dataset.count_rows() == len(whole)
    for column in {"id", "v"} & set(dataset.schema.names):
        _assert_found(dataset, whole, column)
    if whole:
        taken = dataset._take_rows([row["_rowid"] for row in whole]).to_pylist()
        assert taken == [{name: row[name] for name in row if name != "_rowid"} for row in whole]


def _assert_found(dataset: lance.LanceDataset, whole: Rows, column: str) -> None:
    """A third of the values, three single ones, and null are found, and nothing else is."""
    values = sorted({row[column] for row in whole if row[column] is not None})
    samples = [values[::3], *([value] for value in values[:: max(1, len(values) // 2)])] if values else []
    asked = [(f"{column} IN ({', '.join(map(str, several))})", several) for several in samples]
    for condition, values_in in [*asked, (f"{column} IS NULL", [None])]:
        expected = [row for row in whole if row[column] in values_in]
        rows = dataset.to_table(filter=condition, with_row_id=True).to_pylist()
        assert sorted(map(str, rows)) == sorted(map(str, expected)), condition


def every_version(uri: str, branch: str | None = None) -> dict[int, Rows]:
    """The rows of all versions of a branch."""
    listed = [entry["version"] for entry in head(uri, branch).versions()]
    return {version: rows(lance.dataset(place(uri, branch), version=version)) for version in listed}


def clean_all(uri: str) -> None:
    """A cleanup with everything old, the files of interrupted writes among it."""
    clean(uri, older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False)


def data_files(uri: str, branch: str | None = None) -> dict[str, int]:
    """Names and sizes of a branch's own data files."""
    directory = Path(place(uri, branch), "data")
    return {str(path.relative_to(directory)): path.stat().st_size for path in directory.rglob("*") if path.is_file()}
