"""A compaction keeps partitions apart, divides what others mixed, and leaves facts about all files."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.engine.local import LocalRunner
from lance_spark.layout.facts import fragment_bounds
from lance_spark.layout.pruning import excluded
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

ENGINE = LocalRunner(2)


def rows_of(first, last):
    numbers = range(first, last)
    return pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.array([n % 3 for n in numbers], pa.int32())})


def write(uri, rows, **options):
    job = begin(plan_write({"path": uri, **options}, rows.schema, False))
    finish(job, write_rows(job, rows.to_batches()))


def days_of(uri):
    return [{*each.to_table()["day"].to_pylist()} for each in lance.dataset(uri).get_fragments()]


def facts_of(uri, column):
    return fragment_bounds(locate(uri), pin_latest(locate(uri), None), [column]).values()


@pytest.mark.parametrize("stable", ["false", "true"])
@pytest.mark.parametrize(("partition", "fragments"), [("day", 3), ("bucket(2, id)", 2)])
def test_fragments_of_one_partition_become_one(uri, partition, fragments, stable):
    write(uri, rows_of(0, 60), partition_by=partition, cluster_by="id", enable_stable_row_ids=stable)
    for first in (60, 120, 180):
        write(uri, rows_of(first, first + 60))
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.write_dataset(rows_of(240, 300), uri, mode="append")
    lance.write_dataset(rows_of(300, 303), uri, mode="append")
    lance.dataset(uri).delete("id < 9")
    result = optimize(locate(uri), None, OptimizeOptions(), ENGINE)
    assert result.fragments_removed
    dataset = lance.dataset(uri)
    # Rows that the index does not cover may stay beside those that it covers.
    assert len(dataset.get_fragments()) <= 2 * fragments
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(9, 303))
    assert dataset.to_table(filter="id = 250").num_rows == 1
    if partition == "day":
        assert {len(days) for days in days_of(uri)} == {1}
        assert all(bounds["day"].low == bounds["day"].high for bounds in facts_of(uri, "day"))
        assert len(excluded(locate(uri), pin_latest(locate(uri), None), "day = 1")) >= 2
    else:
        assert all(bounds["id"].bucket(2) is not None for bounds in facts_of(uri, "id"))
    again = optimize(locate(uri), None, OptimizeOptions(), ENGINE)
    assert again.fragments_removed == 0


def test_what_was_written_before_the_layout_is_divided(uri):
    write(uri, rows_of(0, 90))
    lance.dataset(uri).update_config({"lance_spark.partition_by": "day"})
    assert days_of(uri) == [{0, 1, 2}]
    optimize(locate(uri), None, OptimizeOptions(), ENGINE)
    assert sorted(map(sorted, days_of(uri))) == [[0], [1], [2]]
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == list(range(90))


def test_a_sorted_rewrite_keeps_partitions_apart(uri):
    write(uri, rows_of(0, 90), partition_by="day")
    write(uri, rows_of(90, 180))
    optimize(locate(uri), None, OptimizeOptions(sort_by=["id"]), ENGINE)
    assert sorted(map(sorted, days_of(uri))) == [[0], [1], [2]]


def test_what_another_writer_added_is_measured(uri):
    write(uri, rows_of(0, 30), partition_by="day")
    lance.write_dataset(rows_of(30, 33).filter(pa.compute.field("day") == 1), uri, mode="append")
    table = LanceTable.for_path(uri)
    assert (table.layout.describe().fragments, table.layout.describe().with_facts) == (4, 3)
    version = lance.dataset(uri).version
    assert table.layout.analyze().with_facts == 4
    assert lance.dataset(uri).version == version
    assert len(excluded(locate(uri), pin_latest(locate(uri), None), "day = 2")) == 3
