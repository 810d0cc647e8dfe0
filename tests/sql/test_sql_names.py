"""Names in SQL: tables, refs in names and behind them, metadata tables, and what is said of what is not there."""

from datetime import timedelta

import lance
import pytest
from pyspark.errors import AnalysisException
from support.local_datasets import numbers

from lance_spark import errors

pytestmark = [pytest.mark.on_services, pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(oldest=0.2)]


def count(spark, name):
    return spark.sql(f"SELECT count(*) FROM {name}").first()[0]


def test_a_name_has_a_ref_in_it_or_behind_it(spark, lake_flights):
    uri = lake_flights.location.uri
    second = lance.dataset(uri).versions()[1]["timestamp"].astimezone(tz=None) - timedelta(microseconds=1)
    expected = {
        "lake.ns1.flights": 10,
        "lake.ns1.`flights@exp/delays`": 11,
        "lake.ns1.`flights@v2013`": 10,
        "lake.ns1.`flights@1`": 5,
        "lake.ns1.`flights@exp/delays@2`": 10,
        "lake.ns1.flights VERSION AS OF 1": 5,
        "lake.ns1.flights VERSION AS OF '1'": 5,
        "lake.ns1.flights VERSION AS OF 'v2013'": 10,
        "lake.ns1.flights VERSION AS OF 'exp/delays'": 11,
        "lake.ns1.flights VERSION AS OF 'exp/delays@2'": 10,
        "lake.ns1.`flights@exp/delays` VERSION AS OF 2": 10,
        f"lake.ns1.flights TIMESTAMP AS OF timestamp_micros({int(second.timestamp() * 1e6)})": 5,
        f"lance.`{uri}`": 10,
        f"lance.`{uri}@exp/delays`": 11,
        f"lance.`{uri}` VERSION AS OF 1": 5,
    }
    assert {name: count(spark, name) for name in expected} == expected


def test_what_is_not_there(spark, lake_flights):
    spark_says = {
        "lake.ns1.trips": "TABLE_OR_VIEW_NOT_FOUND",
        "lake.ns1.trips VERSION AS OF 1": "TABLE_OR_VIEW_NOT_FOUND",
        "lake.ns2.flights": "TABLE_OR_VIEW_NOT_FOUND",
        "lake.ns1.flights.columns": "TABLE_OR_VIEW_NOT_FOUND",
        "lake.ns1.`a$b`": "TABLE_OR_VIEW_NOT_FOUND",
    }
    for name, condition in spark_says.items():
        with pytest.raises(AnalysisException) as caught:
            (spark.table(name) if " " not in name else spark.sql(f"SELECT * FROM {name}")).collect()
        assert caught.value.getCondition() == condition, name
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SHOW TABLES IN lake.ns2")
    assert caught.value.getCondition() == "SCHEMA_NOT_FOUND"
    we_say = {
        "lake.ns1.`flights@exp/delay`": (errors.NotFound, "exp/delays"),
        "lake.ns1.flights VERSION AS OF 'v2014'": (errors.NotFound, "v2013"),
        "lake.ns1.flights VERSION AS OF 99": (errors.NotFound, "99"),
        "lake.ns1.`flights@v2013` VERSION AS OF 1": (errors.InvalidOption, "cannot take another"),
        f"lance.`{lake_flights.location.uri}s`": (errors.NotFound, "There is no Lance dataset"),
    }
    for name, (kind, text) in we_say.items():
        with pytest.raises(kind, match=text) as caught:
            spark.sql(f"SELECT * FROM {name}").collect()
        assert isinstance(caught.value, AnalysisException), name


def test_options_that_would_be_left_out_of_account(spark, lake_flights):
    for option, value in (("branch", "exp/delays"), ("tag", "v2013"), ("filter", "id > 3"), ("storage.key", "x")):
        with pytest.raises(errors.InvalidOption, match=f"takes no option '{option}'"):
            spark.read.option(option, value).table("lake.ns1.flights").collect()
    assert spark.read.option("versionAsOf", "exp/delays").table("lake.ns1.flights").count() == 11


@pytest.mark.on_connect(False)  # whose frames are queries, analyzed by each action
def test_a_frame_stays_at_its_version_and_a_view_moves_on(spark, lake, lake_flights):
    frame = spark.table("lake.ns1.flights")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW moving AS SELECT * FROM lake.ns1.flights")
    spark.sql("CACHE TABLE moving")
    assert (frame.count(), count(spark, "moving")) == (10, 10)
    lance.write_dataset(numbers(3, 20), lake_flights.location.uri, mode="append")
    assert frame.count() == 10
    spark.sql("REFRESH TABLE lake.ns1.flights")
    assert (frame.count(), count(spark, "moving"), count(spark, "lake.ns1.flights")) == (10, 13, 13)
    spark.sql("DROP VIEW moving")


def test_metadata_tables(spark, lake_flights):
    ask = lambda columns, table: [tuple(row) for row in spark.sql(f"SELECT {columns} FROM lake.ns1.{table}").collect()]  # noqa: E731
    assert ask("name, parent_branch, parent_version", "flights.branches") == [("exp/delays", "main", 2)]
    assert ask("name, version", "flights.tags") == [("v2013", 2)]
    assert ask("version", "flights.versions ORDER BY 1") == [(1,), (2,)]
    assert ask("version", "`flights@exp/delays`.versions ORDER BY 1 DESC LIMIT 1") == [(3,)]
    assert ask("sum(num_rows), count(*)", "flights.fragments") == [(10, 2)]
    assert ask("sum(num_rows)", "flights.fragments VERSION AS OF 1") == [(5,)]
    assert ask("count(*)", "flights.files WHERE content = 'data' AND file_size_in_bytes > 0") == [(2,)]
    assert ask("count(*)", "flights.indexes") == [(0,)]
    paths = spark.sql(f"SELECT name FROM lance.`{lake_flights.location.uri}`.branches").collect()
    assert [row.name for row in paths] == ["exp/delays"]
    spark.sql("SELECT * FROM lake.ns1.flights.files").toPandas()
    with pytest.raises(AnalysisException) as caught:
        spark.sql("INSERT INTO lake.ns1.flights.tags SELECT * FROM lake.ns1.flights.tags")
    assert "UNSUPPORTED_FEATURE" in caught.value.getCondition()


def test_a_table_exists_only_if_its_path_and_ref_do(spark, lake_flights):
    uri = lake_flights.location.uri
    there = ("lake.ns1.flights", "lake.ns1.`flights@exp/delays`", "lake.ns1.`flights@1`", f"lance.`{uri}`")
    missing = ("lake.ns1.nope", "lake.ns1.`nope@x`", "lake.ns1.`flights@x`", "lake.ns1.`flights@99`", "lake.no.t")
    names = [*there, *missing, f"lance.`{uri}x`", f"lance.`{uri}@x`"]
    assert [name for name in names if spark.catalog.tableExists(name)] == [*there]


@pytest.mark.parametrize("option", ["versionAsOf", "timestampAsOf"])
def test_a_stream_of_a_table_takes_no_version(spark, lake_flights, option):
    with pytest.raises(errors.InvalidOption, match="but a stream continues"):
        spark.readStream.option(option, "1").table("lake.ns1.flights").isStreaming  # noqa: B018 - which has it analyzed
