"""Overwrites of partitions and of the rows of a condition: one version, no other row, and the conflicts it implies."""

import os

import lance
import pyarrow as pa
import pytest
from support.processes import Job, Team

from lance_spark.core.table_options import REPLACES
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.rows.rows import delete_where
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

DYNAMIC = {"partitionOverwriteMode": "dynamic"}


def rows_of(days, first=0):
    numbers = range(first, first + 4 * len(days))
    values = [day for day in days for _ in range(4)]
    return pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.array(values, pa.int32())})


def begun(uri, rows, overwrite=False, **options):
    return begin(plan_write({"path": uri, **options}, rows.schema, overwrite))


def write(uri, rows, overwrite=False, **options):
    job = begun(uri, rows, overwrite, **options)
    return finish(job, write_rows(job, rows.to_batches()))


def held(uri):
    return sorted((row["day"], row["id"]) for row in lance.dataset(uri).to_table().to_pylist())


def expected(*tables):
    return sorted((row["day"], row["id"]) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("stable", ["false", "true"])
def test_only_the_partitions_of_the_new_rows_are_replaced(uri, stable):
    write(uri, rows_of([1, 2, 3]), partition_by="day", enable_stable_row_ids=stable)
    lance.write_dataset(rows_of([1, 2, None], 100), uri, mode="append")
    version = lance.dataset(uri).version
    new = rows_of([2, None], 200)
    write(uri, new, overwrite=True, **DYNAMIC)
    assert lance.dataset(uri).version == version + 1
    kept = [(1, each) for each in (0, 1, 2, 3, 100, 101, 102, 103)] + [(3, each) for each in (8, 9, 10, 11)]
    fresh = [(2, each) for each in (200, 201, 202, 203)] + [(None, each) for each in (204, 205, 206, 207)]
    found = [(row["day"], row["id"]) for row in lance.dataset(uri).to_table().to_pylist()]
    assert sorted(found, key=str) == sorted(kept + fresh, key=str)


def test_buckets_are_replaced_as_a_whole(uri):
    write(uri, rows_of([1, 2]), partition_by="bucket(1, id)")
    new = rows_of([9], 50)
    write(uri, new, overwrite=True, **DYNAMIC)
    assert held(uri) == expected(new)


def test_a_table_without_partitions_is_replaced_as_a_whole(uri):
    write(uri, rows_of([1, 2]))
    new = rows_of([9], 50)
    write(uri, new, overwrite=True, **DYNAMIC)
    assert held(uri) == expected(new)


def test_an_overwrite_without_rows_replaces_none(uri):
    write(uri, rows_of([1, 2]), partition_by="day")
    write(uri, rows_of([1]).slice(0, 0), overwrite=True, **DYNAMIC)
    assert held(uri) == expected(rows_of([1, 2]))


@pytest.mark.parametrize("first", [0, 300])
def test_the_rows_of_a_condition_are_replaced_even_by_none(uri, first):
    write(uri, rows_of([1, 2, 3]), partition_by="day")
    new = rows_of([2], first) if first else rows_of([2]).slice(0, 0)
    write(uri, new, **{REPLACES: "day = 2 OR id = 0"})
    left = [each for each in expected(rows_of([1, 2, 3])) if each[0] != 2 and each[1] != 0]
    assert held(uri) == sorted(left + expected(new))


MEANWHILE = [(2, True), (3, False)]


@pytest.mark.parametrize(("day", "conflicts"), MEANWHILE)
@pytest.mark.parametrize("what", ["append", "delete", "compact"])
def test_what_others_did_to_a_replaced_partition_is_a_conflict(uri, what, day, conflicts):
    write(uri, rows_of([1, 2, 3, 2, 3]), partition_by="day")
    new = rows_of([2], 500)
    job = begun(uri, new, overwrite=True, **DYNAMIC)
    fragments = write_rows(job, new.to_batches())
    if what == "append":
        lance.write_dataset(rows_of([day], 700), uri, mode="append")
    elif what == "delete":
        lance.dataset(uri).delete(f"day = {day} AND id % 2 = 0")
    else:
        write(uri, rows_of([day], 700))
    before = held(uri)
    if conflicts:
        with pytest.raises(Conflict):
            finish(job, fragments)
        assert held(uri) == before
        return
    finish(job, fragments)
    assert held(uri) == sorted([each for each in before if each[0] != 2] + expected(new))


def overwrite(job, uri, options, rows):
    """In a process that planned it and wrote its files beside others. Returns whether it was committed."""
    job, fragments = job
    try:
        finish(job, fragments)
    except Conflict:
        return False
    return True


def planned(uri, options, rows):
    dynamic = "partitionOverwriteMode" in options
    job = begin(plan_write({"path": uri, **options}, rows.schema, dynamic))
    return job, write_rows(job, rows.to_batches())


@pytest.fixture(scope="module")
def team():
    with Team(2) as found:
        yield found


WAYS = {"dynamic": lambda _: DYNAMIC, "a partition": lambda day: {REPLACES: f"day = {day}"}}


@pytest.mark.parametrize("other", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_of_two_processes_that_replace_one_partition_one_does_and_of_two_partitions_both(uri, team, way, other):
    write(uri, rows_of([1, 2, 3]), partition_by="day")
    new = [rows_of([2], 500), rows_of([other], 600)]
    days = (2, other)
    done = team.run([Job(overwrite, (uri, WAYS[way](day), rows), planned) for day, rows in zip(days, new, strict=True)])
    kept = [each for each in expected(rows_of([1, 2, 3])) if each[0] not in days]
    assert done.count(True) == (1 if other == 2 else 2)
    assert held(uri) == sorted(kept + [row for ok, rows in zip(done, new, strict=True) if ok for row in expected(rows)])


def test_deleting_a_partition_reads_and_writes_no_rows(uri):
    write(uri, rows_of([1, 2, 3]), partition_by="day")
    for name in os.listdir(f"{uri}/data"):
        os.rename(f"{uri}/data/{name}", f"{uri}/data/{name}.away")
    result = delete_where(locate(uri), None, "day = 2", LocalRunner(1))
    for name in os.listdir(f"{uri}/data"):
        os.rename(f"{uri}/data/{name}", f"{uri}/data/{name.removesuffix('.away')}")
    assert result.rows == 4
    assert held(uri) == expected(rows_of([1, 2, 3]).filter(pa.compute.field("day") != 2))
    assert not os.path.exists(f"{uri}/_deletions")
