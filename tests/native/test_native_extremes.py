"""Minima and maxima of indexed columns: right in every state of index and table, and without reading the table."""

import shutil

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.engine.types_spark import to_spark
from lance_spark.native import scan
from lance_spark.native.scan import Pushed, Source, plan_scan
from lance_spark.pushdown.aggregates import Aggregate, plan_aggregates
from lance_spark.pushdown.filters import Column
from lance_spark.tables.read import pin_read

ROWS = 12_000
"""More than the driver reads."""


def rows(start=0, count=ROWS):
    """``id`` and ``moment`` grow, ``mirrored`` falls, ``holes`` has nulls, ``same`` has one value."""
    ids = list(range(start, start + count))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "moment": pa.array([1000 * (each - 6000) for each in ids], pa.timestamp("us", "UTC")),
            "mirrored": pa.array([-each for each in ids], pa.int32()),
            "holes": pa.array([None if each % 3 else each for each in ids], pa.int64()),
            "same": pa.array([7] * count, pa.int64()),
        }
    )


@pytest.fixture
def indexed(uri):
    dataset = lance.write_dataset(rows(), uri, max_rows_per_file=4_000)
    for name in rows(0, 0).schema.names:
        dataset.create_scalar_index(name, "BTREE")
    return dataset


def ask(uri, *asked, **options):
    """What the driver knows without a job, as a list of numbers; None where the table has to be read."""
    source = Source(pin_read({"path": uri, **options}))
    aggregates = [Aggregate(function, Column((name,)) if name else None) for function, name in asked]
    plan = plan_aggregates(aggregates, [], source.stored)
    batches = plan_scan(source, Pushed(to_spark(plan.output), aggregate=plan)).local
    if batches is None:
        return None
    [batch] = batches
    return [column.cast(pa.int64())[0].as_py() for column in batch.columns]


def both(uri, name, **options):
    return ask(uri, ("MIN", name), ("MAX", name), **options)


def expected(dataset, name):
    """What pylance and Arrow say."""
    found = pc.min_max(dataset.to_table(columns=[name])[name].cast(pa.int64())).as_py()
    return [found["min"], found["max"]]


@pytest.mark.parametrize("name", ["id", "moment", "mirrored"])
def test_the_ends_of_an_index_are_those_of_its_column(uri, indexed, name):
    assert both(uri, name) == expected(indexed, name)


def test_several_columns_and_the_count_at_once(uri, indexed):
    asked = ask(uri, ("MAX", "mirrored"), ("COUNT_STAR", None), ("MIN", "id"), ("MAX", "id"))
    assert asked == [0, ROWS, 0, ROWS - 1]


def test_an_index_with_nulls_knows_its_largest_value(uri, indexed):
    assert ask(uri, ("MAX", "holes")) == [ROWS - 3]
    assert ask(uri, ("MIN", "holes")) is None


def test_more_rows_than_the_driver_reads_are_left_to_tasks(uri, indexed):
    assert both(uri, "same") is None


def test_without_an_index_the_table_is_read(uri):
    lance.write_dataset(rows(), uri, max_rows_per_file=4_000)
    assert both(uri, "id") is None


def test_other_kinds_of_index_know_no_order(uri):
    lance.write_dataset(rows(), uri, max_rows_per_file=4_000).create_scalar_index("same", "BITMAP")
    assert both(uri, "same") is None


def test_a_deleted_end_is_no_end(uri, indexed):
    indexed.delete(f"id = {ROWS - 1}")
    assert both(uri, "id") is None
    assert ask(uri, ("MIN", "id")) == [0]
    indexed.delete("id = 5")
    assert ask(uri, ("MIN", "id"), ("COUNT_STAR", None)) == [0, ROWS - 2]


def test_rows_beyond_the_index_count(uri, indexed):
    lance.write_dataset(rows(ROWS, 100), uri, mode="append")
    assert ask(uri, ("MAX", "id")) == [ROWS + 99]
    lance.write_dataset(rows(-50, 10), uri, mode="append")
    assert both(uri, "id") == [-50, ROWS + 99]


def test_many_rows_beyond_the_index_are_left_to_tasks(uri, indexed):
    lance.write_dataset(rows(ROWS, 11_000), uri, mode="append")
    assert ask(uri, ("MAX", "id")) is None


def test_an_index_of_several_segments(uri, indexed):
    lance.write_dataset(rows(-50, 100), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert both(uri, "id") == [-50, ROWS - 1]


def test_values_that_were_updated(uri, indexed):
    indexed.update({"id": "id + 100000"}, where="id >= 11998 OR id = 0")
    assert both(uri, "id") in (None, expected(lance.dataset(uri), "id"))
    assert expected(lance.dataset(uri), "id") == [1, 111_999]


def test_compacted_fragments(uri, indexed):
    indexed.delete("id < 3000")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100_000)
    assert both(uri, "id") in (None, [3000, ROWS - 1])
    assert ask(uri, ("MAX", "id")) == [ROWS - 1]


def test_each_ref_has_its_own_ends(uri, indexed):
    version = indexed.version
    indexed.create_branch("exp")
    branch = lance.dataset(uri).checkout_version(("exp", None))
    lance.write_dataset(rows(ROWS, 10), branch, mode="append")
    indexed.delete("id < 10")
    assert both(uri, "id", branch="exp") == [0, ROWS + 9]
    assert both(uri, "id", version=str(version)) == [0, ROWS - 1]
    assert ask(uri, ("MAX", "id")) == [ROWS - 1]


@pytest.mark.parametrize("options", [{"filter": "id < 11000"}, {"limit": "11000"}])
def test_only_whole_tables_have_the_ends_of_their_index(uri, indexed, options):
    assert both(uri, "id", **options) != [0, ROWS - 1]


def test_an_index_that_is_damaged_fails_no_query_that_can_do_without(uri, indexed):
    shutil.rmtree(f"{uri}/_indices")
    assert both(uri, "id") is None


def test_an_empty_table(uri, indexed):
    indexed.delete("true")
    assert both(uri, "id") == [None, None]


def test_no_row_but_those_at_the_ends_is_read(uri, indexed, monkeypatch):
    read = []
    real = scan.ScanTask.rows

    def count(self, part):
        for batch in real(self, part):
            read.append(self.scan.filter)
            yield batch

    monkeypatch.setattr(scan.ScanTask, "rows", count)
    assert both(uri, "id") == [0, ROWS - 1]
    assert read == [f"((`id` <= 0) OR (`id` >= {ROWS - 1}))"]
