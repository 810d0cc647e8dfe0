"""How Spark finds the source: by itself, under another name, and from SQL."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from support.frames import ids, load, numbers, refused, save

from lance_spark import register
from lance_spark.errors import InvalidOption

pytestmark = [pytest.mark.spark, pytest.mark.less_on("oldest", 0.5)]


@pytest.fixture
def made(uri):
    dataset = lance.write_dataset(pa.table({"id": [1, 2, 3]}), uri)
    dataset.create_branch("exp", 1).delete("id = 2")
    return uri


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
