"""Frozen sets in a bucket: made by threads and on executors, read by Spark, pylance and training loops, and deleted."""

from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from support.s3_tables import storage_options

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.engine.local import LocalRunner
from lance_spark.frozen.draw_rules import make_spec
from lance_spark.frozen.frozen import freeze
from lance_spark.training.reading import open_split

pytestmark = pytest.mark.s3

CALL = {"filter": "id < 90", "split": {"train": 0.8, "val": 0.2}, "by": "patient", "seed": 7}


@pytest.fixture
def stored(bucket, moto):
    """A table of a branch with rows of its own, and the options that open it."""
    uri, storage = f"s3://{bucket}/visits.lance", storage_options(moto)
    rows = pa.table({"id": list(range(100)), "patient": [f"p{n // 5}" for n in range(100)]})
    made = lance.write_dataset(rows, uri, max_rows_per_file=30, storage_options=storage)
    made.create_branch("exp")
    lance.write_dataset(rows.slice(0, 3), f"{uri}/tree/exp", mode="append", storage_options=storage)
    return uri, storage


def ids(table, name, split=None):
    return pa.Table.from_batches(table.frozen.batches(name, split, "id"))["id"].to_pylist()


def test_a_set_of_a_branch_in_a_bucket(stored):
    uri, storage = stored
    table = LanceTable.for_path(uri, storage)
    branch = table.checkout(branch="exp")
    freeze(branch.location, branch._pin(), make_spec("s", **CALL), LocalRunner(), at_once=11)
    assert branch.frozen.create("again", **CALL).rows == 93
    assert ids(table, "s") == ids(table, "again")
    table.cleanup(CleanupPolicy(retain_versions=1, commit_window=timedelta(0))).apply()
    plan = lance.dataset(uri, version="frozen-s", storage_options=storage).to_table(filter="split = 'train'")
    rows = lance.dataset(uri, version="s", storage_options=storage).take(plan["row_offset"].to_pylist())
    assert rows["id"].to_pylist() == ids(table, "s", "train")
    split = open_split(uri, "s", "train", "id", storage)
    assert split.read([3, 0])["id"].to_pylist() == [rows["id"][3].as_py(), rows["id"][0].as_py()]
    assert (table.frozen.diff("s", "again").kept, table.fsck().sound) == (93, True)
    table.frozen.delete("s")
    assert [each.name for each in table.frozen.list()] == ["again"]


@pytest.mark.when(spark="newest", day=0)  # by day executors write plans on a local disk, and threads write them here
@pytest.mark.spark
def test_executors_make_and_read_a_set_in_a_bucket(stored, spark):
    from lance_spark.engine.session_spark import engine_for

    uri, storage = stored
    table = LanceTable.for_path(uri, storage, spark=spark)
    engine = engine_for("spark", lambda: spark, parallelism=2)
    freeze(table.location, table._pin(), make_spec("s", **CALL), engine, at_once=30)
    assert [row["id"] for row in table.frozen.read("s", columns="id").collect()] == ids(table, "s")
    assert sorted(ids(table, "s")) == list(range(90))
