"""Statements of newer Sparks that cannot be carried out: each says what to do instead, and changes nothing."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrameReader

from lance_spark import errors

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]

has_changes = pytest.mark.skipif(not hasattr(DataFrameReader, "changes"), reason="this Spark has no CHANGES FROM")

CHANGES = [
    "SELECT * FROM {name} CHANGES FROM VERSION 1 TO VERSION 2",
    "SELECT count(*) FROM {name} CHANGES FROM VERSION 1",
    "WITH c AS (SELECT * FROM {name} CHANGES FROM TIMESTAMP '2020-01-01') SELECT id FROM c",
]


@has_changes
@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.parametrize("name", ["lake.ns1.flights", "lake.ns1.`flights@exp/delays`"])
def test_the_change_feed_is_read_in_python(spark, lake_flights, statement, name):
    with pytest.raises(errors.Refused, match="cannot be read by SQL") as refused:
        spark.sql(statement.format(name=name)).collect()
    assert f"{lake_flights.location.uri!r}).changes(since, until)" in refused.value.hint
    assert isinstance(refused.value, AnalysisException)


@has_changes
def test_the_change_feed_by_a_reader_is_refused_too(spark, lake_flights):
    reader = spark.read.option("startingVersion", "1").option("endingVersion", "2")
    with pytest.raises(errors.Refused, match="cannot be read by SQL"):
        reader.changes("lake.ns1.flights").collect()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        reader.changes("lake.ns1.trips").collect()


def test_what_the_hint_says_works(spark, lake_flights):
    lake_flights.changes(1, 2).createOrReplaceTempView("changes")
    assert spark.sql("SELECT count(*) FROM changes WHERE _change_type = 'insert'").first()[0] == 5
    spark.catalog.dropTempView("changes")
