"""How Spark finds the source: by itself, under another name, and from SQL."""

import lance
import pyarrow as pa
import pytest
from support.frames import ids, load, numbers, refused, save

from lance_spark import register
from lance_spark.errors import InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.25, newest=0.45)]


@pytest.fixture
def made(uri):
    dataset = lance.write_dataset(pa.table({"id": [1, 2, 3]}), uri)
    dataset.create_branch("exp", 1).delete("id = 2")
    return uri


@pytest.mark.when(oldest=1.0)
def test_spark_finds_the_source_by_itself_after_installation(spark, made):
    fresh = spark.newSession()
    assert ids(fresh.read.format("lance").load(made)) == [1, 2, 3]


def test_the_source_can_be_registered_under_another_name(spark, made):
    for _ in range(2):
        register(spark, name="lance_python")
    assert ids(spark.read.format("lance_python").option("branch", "exp").load(made)) == [1, 3]
    spark.range(7, 8).write.format("lance_python").mode("append").option("branch", "exp").save(made)
    assert ids(spark.read.format("lance").option("branch", "exp").load(made)) == [1, 3, 7]


def test_a_temporary_view_takes_all_options(spark, made):
    options = f"path '{made}', branch 'exp', filter 'id > 1', limit 5"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS ({options})")
    assert spark.sql("SELECT id FROM v WHERE id < 10").collect() == [(3,)]
    spark.catalog.dropTempView("v")


def test_a_temporary_view_can_carry_a_schema(spark, made):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v (id BIGINT) USING lance OPTIONS (path '{made}')")
    assert spark.sql("SELECT sum(id) FROM v").collect() == [(6,)]
    spark.catalog.dropTempView("v")


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file://{}", "file:{}", "{}//"])
def test_every_spelling_of_a_path_is_the_same_dataset(spark, made, spelling):
    path = spelling.format(made)
    assert load(spark, path).count() == 3
    save(numbers(spark, 9, 10), path, branch="exp")
    assert ids(load(spark, made, branch="exp")) == [1, 3, 9]


def test_a_missing_path_is_named_for_reading_and_writing(spark):
    with refused(InvalidOption, "No dataset was named", "load("):
        spark.read.format("lance").load()
    with refused(InvalidOption, "No dataset was named", "save("):
        spark.range(1).write.format("lance").mode("append").save()


def test_a_path_takes_a_ref_behind_an_at_for_reading_and_writing(spark, made):
    save(numbers(spark, 20, 21), f"{made}@exp")
    assert ids(load(spark, f"{made}@exp")) == [1, 3, 20]
    assert ids(load(spark, f"{made}@exp", version=2)) == [1, 3]
    assert ids(load(spark, f"{made}@main")) == [1, 2, 3]
    with refused(NotFound, "There is no branch or tag 'nope'", "The dataset has 'exp', 'main'"):
        load(spark, f"{made}@nope").count()


def test_one_path_of_a_list_is_read_and_several_are_answered_with_what_reads_them(spark, made):
    assert ids(spark.read.format("lance").load([made])) == [1, 2, 3]
    with refused(InvalidOption, "load() got 2 paths", f"read.load('{made}').unionByName(read.load('/b'))"):
        spark.read.format("lance").load([made, "/b"]).count()


def test_deltas_options_are_taken_or_answered(spark, made):
    save(numbers(spark, 4, 5).selectExpr("*", "1 AS more"), made, mergeSchema="true")
    assert load(spark, made).columns[-1] == "more"
    # The oldest Spark passes names of options to the plain data source in small letters.
    with refused(InvalidOption, "overwrite(df, where='id = 1')"):
        save(numbers(spark, 1, 2), made, mode="overwrite", replaceWhere="id = 1")
    with refused(InvalidOption, "'readChangeFeed' does not apply to a read", "changes(2)"):
        load(spark, made, readChangeFeed="true", startingVersion=3).count()
    stream = spark.readStream.format("lance").option("readChangeFeed", "true").load(made)
    assert "_change_type" in stream.columns


def test_a_scheme_that_is_not_opened_is_refused(spark, tmp_path):
    for path, hint in (("dbfs:/x/a.lance", "write /dbfs/x/a.lance"), ("hdfs:///a.lance", "HDFS does not work")):
        with refused(InvalidOption, "Datasets are opened at local", hint):
            save(numbers(spark, 1, 2), path)
        with refused(InvalidOption, "Datasets are opened at local", hint):
            load(spark, path).count()


def test_a_table_of_sparks_own_catalog_says_what_to_type(spark, made):
    """As on Spark Connect, where nobody is asked about a table that has columns, until it is used."""
    view = f"CREATE TEMPORARY VIEW t USING lance OPTIONS (path 'file:{made}', branch 'exp')"
    with refused(Refused, "Spark's own catalog cannot keep Lance tables", view):
        spark.sql(f"CREATE TABLE own USING lance OPTIONS (path '{made}', branch 'exp')")
    with refused(InvalidOption, "No dataset was named", "df.write.saveAsTable('lake.t')"):
        spark.range(1).write.format("lance").saveAsTable("own")
    assert not spark.catalog.tableExists("own")
    spark.sql("CREATE TABLE own (id INT) USING lance")
    try:
        with refused(InvalidOption, "No dataset was named", "type SELECT * FROM lake.t"):
            spark.table("own").collect()
        with refused(InvalidOption, "No dataset was named", "INSERT INTO lake.t"):
            spark.sql("INSERT INTO own VALUES (1)")
    finally:
        spark.sql("DROP TABLE own")
