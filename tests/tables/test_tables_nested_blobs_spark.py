"""Blobs inside structs and lists, through every verb and statement: bytes, marks and files stay."""

import pytest
from pyspark.errors import PySparkException
from support.nested_blobs import IN_PYTHON, IN_SQL, IN_STRUCTS, KINDS, NEW_TABLES, Nested

from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]


@pytest.mark.parametrize(("shape", "version"), IN_STRUCTS)
@pytest.mark.parametrize("statement", IN_SQL)
def test_blobs_inside_others_through_a_statement(lake, spark, tmp_path, statement, shape, version):
    made = Nested(spark, str(tmp_path / "t.lance"), shape, version).make()
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW nested USING lance OPTIONS (path '{made.uri}', blob_handling 'bytes')")
    options = f"TBLPROPERTIES (data_storage_version = '{version}')"
    spark.sql(f"CREATE TABLE lake.ns1.t {options} AS SELECT * FROM nested")
    expected = IN_SQL[statement](made)
    made.at(lake.table("ns1.t").location.uri).check(expected)


def save(frame, uri, **options):
    frame.write.format("lance").mode("append").options(**options).save(uri)


REFUSED = {
    "an order": ("do not fit", lambda made: made.table.optimize(sort_by="id")),
    "positions": (
        "positions of blobs",
        lambda made: save(made.spark.read.format("lance").load(made.uri), made.uri + "2"),
    ),
    "a new column": (
        "holds blobs",
        lambda made: save(made.load().withColumnRenamed("s", "s2"), made.uri, merge_schema="true"),
    ),
    "a whole column": ("holds blobs", lambda made: made.table.update_columns({"s": "s"})),
    "an array": ("not in arrays and maps", lambda made: save(made.load().selectExpr("array(s) AS m"), made.uri + "2")),
    "a map": ("not in arrays and maps", lambda made: save(made.load().selectExpr("map(id, s) AS m"), made.uri + "2")),
    "a feed": ("holds blobs", lambda made: made.table.changes(since=1, columns=["s"])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_blobs_inside_others_cannot_do_is_refused_in_our_words(spark, both_ways, tmp_path, what):
    made = Nested(spark, str(tmp_path / "t.lance"), "in a struct", "2.2").make()
    words, call = REFUSED[what]
    with pytest.raises((PySparkException, LanceSparkError), match=words):
        call(made)
    made.check(made.rows)


def test_a_difference_and_a_feed_see_what_changed_beside_a_blob(spark, both_ways, tmp_path):
    made = Nested(spark, str(tmp_path / "t.lance"), "in a struct", "2.2").make()
    made.table.optimize()
    source = made.load().where("id = 1").selectExpr("id", "n", "named_struct('b', s.b, 'q', 2) AS s")
    made.table.merge(source, on="id").when_matched_update_all().execute()
    assert [row.id for row in made.table.changes(since=1).collect()] == [1, 1]
    difference = made.table.diff("@1", "main")
    assert (difference.stat.rows_added, difference.stat.rows_removed) == (1, 1)


@pytest.mark.parametrize(("shape", "version"), KINDS)
def test_a_frozen_set_has_blobs_inside_others(spark, both_ways, tmp_path, shape, version):
    made = Nested(spark, str(tmp_path / "t.lance"), shape, version).make()
    made.table.frozen.create("set")
    found = {row["id"]: row.asDict(True)["s"] for row in made.table.frozen.read("set").collect()}
    assert found == {key: s for key, (_, s) in made.rows.items()}


@pytest.mark.parametrize(
    ("verb", "shape", "version"),
    [(verb, *kind) for verb in IN_PYTHON for kind in (IN_STRUCTS if verb in NEW_TABLES else KINDS)],
)
def test_blobs_inside_others_through_a_verb(spark, both_ways, tmp_path, verb, shape, version):
    made = Nested(spark, str(tmp_path / "t.lance"), shape, version).make()
    for place, expected in IN_PYTHON[verb](made, tmp_path):
        place.check(expected)
