"""TPC-DS: queries as people write them, over 24 tables. The answers are Spark's over the same rows in Parquet."""

import pytest
from pyspark.errors import PySparkException

from benchmarks.tpc import make_tpcds, questions
from benchmarks.tpch import same_rows

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]

QUESTIONS = questions("tpcds")


@pytest.fixture(scope="module")
def parquet(classic, tmp_path_factory):
    """A session in which the names of the tables stand for Parquet files, and those files by name.

    It is a classic one for all cases: a client of Spark Connect 4.0 makes no session from another one.
    """
    home = tmp_path_factory.mktemp("tpcds")
    here = classic.newSession()
    files = {name: str(home / f"{name}.parquet") for name in make_tpcds(home, scale=0.01)}
    for name, path in files.items():
        here.read.parquet(path).createOrReplaceTempView(name)
    return here, files


@pytest.fixture(scope="module")
def ours(spark, both_ways, parquet, tmp_path_factory):
    """The same names for datasets with the same rows, in the session of the tests."""
    _, files = parquet
    home = tmp_path_factory.mktemp("tpcds-lance")
    for name, path in files.items():
        uri = str(home / f"{name}.lance")
        spark.read.parquet(path).write.format("lance").mode("overwrite").save(uri)
        spark.read.format("lance").load(uri).createOrReplaceTempView(name)
    yield spark
    for name in files:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("number", QUESTIONS)
def test_every_query_answers_as_over_parquet(ours, parquet, number):
    expected, found = answer(parquet[0], QUESTIONS[number]), answer(ours, QUESTIONS[number])
    assert isinstance(expected, str) == isinstance(found, str), (expected, found)
    assert found == expected if isinstance(expected, str) else same_rows(found, expected)


def answer(spark, text):
    """The rows, or the name of Spark's error: a division by zero is an answer of ANSI mode."""
    try:
        return [tuple(row) for row in spark.sql(text).collect()]
    except PySparkException as error:
        return error.getCondition()
