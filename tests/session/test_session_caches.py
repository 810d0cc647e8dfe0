"""What a new query sees after a verb of a handle, where Spark has cached an older query of the same table."""

import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.fixture(autouse=True)
def _nothing_cached(spark):
    yield
    spark.catalog.clearCache()


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def other_rows(table):
    frame = table.spark.range(20, 22)
    table.write(frame)
    table.overwrite(frame.where("id = 20"), where="id = 20")


VERBS = {
    "delete": (lambda t: t.delete("id < 3"), [3, 4]),
    "update": (lambda t: t.update({"id": "id + 5"}, where="id > 3"), [0, 1, 2, 3, 9]),
    "merge": (
        lambda t: t.merge(t.spark.range(4, 6), on="id").when_matched_delete().when_not_matched_insert_all().execute(),
        [0, 1, 2, 3, 5],
    ),
    "write": (other_rows, [0, 1, 2, 3, 4, 20, 21]),
    "columns": (lambda t: t.update_columns({"id": "-id"}), [-4, -3, -2, -1, 0]),
    "restore": (lambda t: t.checkout(version=1).restore(), [0, 1]),
    "merge_branch": (lambda t: t.branches.merge("exp"), [0, 2, 3, 4]),
}


@pytest.mark.when(newest=0.45)
@pytest.mark.parametrize("verb", VERBS)
def test_new_queries_of_names_see_what_a_handle_changed(spark, lake, verb):
    uri = lake.catalog.at("t").uri
    make_dataset(uri, numbers(2), numbers(3, 2))
    lake.register_table("ns1.t", "t")
    table = LanceTable.for_path(uri, spark=spark)
    table.branches.create("exp")
    table.checkout(branch="exp").delete("id = 1")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW moving AS SELECT * FROM lake.ns1.t")
    names = ["lake.ns1.t", f"lance.`{uri}`", "moving"]
    for name in names:
        assert ids(spark.table(name).cache()) == [0, 1, 2, 3, 4]
    change, expected = VERBS[verb]
    change(table)
    assert {name: ids(spark.table(name)) for name in names} == dict.fromkeys(names, expected)
    assert ids(spark.table("lake.ns1.`t@exp`")) == [0, 2, 3, 4]
    spark.catalog.dropTempView("moving")


def test_what_can_no_longer_be_cached_does_not_hide_that_the_verb_was_done(spark, lake):
    uri = lake.catalog.at("t").uri
    make_dataset(uri, numbers(5))
    lake.register_table("ns1.t", "t")
    table = LanceTable.for_path(uri, spark=spark)
    table.add_columns({"twice": "id * 2"})
    assert spark.table("lake.ns1.t").select("twice").cache().count() == 5
    table.drop_columns(["twice"])
    assert spark.table("lake.ns1.t").columns == ["id"]
    table.delete("id = 0")
    assert ids(spark.table("lake.ns1.t")) == [1, 2, 3, 4]
