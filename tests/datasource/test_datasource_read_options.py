"""Every read option, through the DataFrame API, against what pylance itself returns."""

import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from support.frames import all_files, ids, load, rows
from support.spark_fixtures import PLAIN

from lance_spark.errors import NotFound

pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(oldest=0.15, newest=0.4),
    pytest.mark.usefixtures("both_ways"),
]


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """main: versions 1 to 3 with 10, 20, 30 rows; tag ``two`` at 2; branch ``exp/a`` from 2 with 5 more rows."""
    uri = str(tmp_path_factory.mktemp("history") / "t.lance")
    for first in (0, 10, 20):
        dataset = lance.write_dataset(table(first, first + 10), uri, mode="append" if first else "create")
        time.sleep(0.01)  # versions are told apart by their timestamps below
    dataset.tags.create("two", 2)
    branch = dataset.create_branch("exp/a", 2)
    lance.write_dataset(table(100, 105), branch, mode="append")
    return uri


def table(first, last):
    return pa.table(
        {
            "id": pa.array(range(first, last), pa.int64()),
            "name": [f"n{number % 3}" for number in range(first, last)],
            "who": [{"first": f"f{number}", "age": number, "in": {"x": -number}} for number in range(first, last)],
        }
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, range(30)),
        ({"branch": "main"}, range(30)),
        ({"version": 1}, range(10)),
        ({"versionAsOf": "2"}, range(20)),
        ({"tag": "two"}, range(20)),
        ({"branch": "exp/a"}, [*range(20), *range(100, 105)]),
        ({"branch": "exp/a", "version": 2}, range(20)),
        ({"BRANCH": "exp/a", "Version": 3}, [*range(20), *range(100, 105)]),
        ({"filter": "id > 25 AND name = 'n2'"}, [26, 29]),
        ({"filter": "who.age = 7"}, [7]),
        ({"filter": "id > 1000"}, []),
        ({"branch": "exp/a", "filter": "id >= 18"}, [18, 19, 100, 101, 102, 103, 104]),
        ({"limit": 12}, range(12)),
        ({"limit": 0}, []),
        ({"limit": 1000}, range(30)),
        ({"limit": 3, "filter": "id >= 18"}, [18, 19, 20]),
        ({"limit": 0, "filter": "id >= 18"}, []),
        ({"batch_size": 3}, range(30)),
        ({"split_size": "1"}, range(30)),
        ({"split_size": "1k", "limit": 7, "batch_size": 2}, range(7)),
        ({"split_size": "1k", "filter": "id % 2 = 0", "limit": 4}, [0, 2, 4, 6]),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) or "none" if isinstance(value, dict) else "",
)
def test_refs_filters_and_limits(spark, history, options, expected):
    assert ids(load(spark, history, columns="id", **options)) == list(expected)


@pytest.mark.parametrize("alias", ["asOf", "timestampAsOf"])
def test_as_of_takes_the_newest_version_at_or_before_the_moment(spark, history, alias):
    moments = [entry["timestamp"].astimezone(timezone.utc) for entry in lance.dataset(history).versions()]
    assert load(spark, history, columns="id", **{alias: moments[1].isoformat()}).count() == 20
    before = moments[2] - timedelta(microseconds=1)
    zone = timezone(timedelta(hours=-5))
    assert load(spark, history, columns="id", **{alias: before.astimezone(zone).isoformat()}).count() == 20
    later = datetime.now(timezone.utc) + timedelta(days=1)
    assert load(spark, history, columns="id", branch="exp/a", **{alias: later.isoformat()}).count() == 25


@pytest.mark.parametrize(
    ("columns", "schema", "first"),
    [
        ("name,id", "struct<name:string,id:bigint>", ("n0", 0)),
        (" id , id ", "struct<id:bigint>", (0,)),
        ("who.age,who.in.x", "struct<who:struct<age:bigint,in:struct<x:bigint>>>", ((0, (0,)),)),
        ("who.in", "struct<who:struct<in:struct<x:bigint>>>", (((0,),),)),
        ("id,who.age", "struct<id:bigint,who:struct<age:bigint>>", (0, (0,))),
        ("`id`", "struct<id:bigint>", (0,)),
        ("_rowid", "struct<_rowid:bigint>", (0,)),
        ("id,_rowaddr", "struct<id:bigint,_rowaddr:bigint>", (0, 0)),
    ],
)
def test_columns_alone_cross_into_spark(spark, history, columns, schema, first):
    frame = load(spark, history, columns=columns, limit=1)
    assert frame.schema.simpleString() == schema
    assert [tuple(row) for row in frame.collect()] == [first]


def test_a_filter_may_use_columns_that_are_not_read(spark, history):
    assert rows(load(spark, history, columns="name", filter="id = 29")) == [("n2",)]


@pytest.mark.parametrize("stable", [False, True])
def test_row_ids_and_addresses_are_those_of_pylance(spark, uri, stable):
    dataset = lance.write_dataset(table(0, 20), uri, max_rows_per_file=8, enable_stable_row_ids=stable)
    dataset.delete("id % 5 = 0")
    dataset.optimize.compact_files(target_rows_per_fragment=20)
    lance.write_dataset(table(20, 24), uri, mode="append")
    wanted = lance.dataset(uri).to_table(columns=["id"], with_row_id=True, with_row_address=True)
    options = {"columns": "id", "with_row_id": True, "with_row_address": "true"}
    expected = sorted(zip(*wanted.to_pydict().values(), strict=True))
    assert wanted.column_names == ["id", "_rowid", "_rowaddr"]
    assert rows(load(spark, uri, **options)) == expected
    assert rows(load(spark, uri, filter="id > 10", **options)) == [row for row in expected if row[0] > 10]


@pytest.mark.when(spark="newest")
def test_deleted_rows_and_columns_added_later_read_as_pylance_reads_them(spark, uri):
    dataset = lance.write_dataset(table(0, 30), uri, max_rows_per_file=7)
    dataset.delete("id IN (0, 6, 7, 29)")
    dataset.add_columns({"twice": "id * 2"})
    dataset.drop_columns(["name"])
    lance.write_dataset(
        pa.table({"id": [99], "twice": [None]}).cast(pa.schema([("id", pa.int64()), ("twice", pa.int64())])),
        uri,
        mode="append",
    )
    expected = [(n, 2 * n) for n in range(30) if n not in (0, 6, 7, 29)] + [(99, None)]
    for options in ({}, {"split_size": "1"}, {"batch_size": 2}):
        assert rows(load(spark, uri, columns="id,twice", **options)) == expected
    assert rows(load(spark, uri, columns="id,twice", limit=5)) == expected[:5]


@pytest.mark.when(spark="newest")
def test_large_fragments_are_split_into_row_ranges_that_cover_every_row_once(spark, uri):
    count = 300_000
    wide = pa.table({"id": pa.array(range(count), pa.int64()), "pad": pa.array([b"x" * 60] * count)})
    dataset = lance.write_dataset(wide, uri)
    dataset.delete("id % 1000 = 1 OR id > 299000")
    everything = load(spark, uri, split_size="4m")
    assert everything.rdd.getNumPartitions() > 2
    expected = [number for number in range(299_001) if number % 1000 != 1]
    assert ids(everything.select("id")) == expected
    filtered = load(spark, uri, split_size="4m", filter="id % 7 = 0")
    assert ids(filtered.select("id")) == [number for number in expected if number % 7 == 0]
    assert ids(load(spark, uri, split_size="4m", limit=123_456).select("id")) == expected[:123_456]


@pytest.mark.when(spark="newest")
def test_a_wide_table_is_counted(spark, uri):
    lance.write_dataset(pa.table({f"c{index}": [1, 2, None] for index in range(300)}), uri)
    assert load(spark, uri).count() == 3
    assert load(spark, uri).selectExpr("sum(c0)", "sum(c299)").collect() == [(3, 3)]


def test_an_empty_dataset_has_its_schema_and_no_rows(spark, uri):
    lance.write_dataset(table(0, 0), uri)
    frame = load(spark, uri)
    assert frame.columns == ["id", "name", "who"]
    assert frame.collect() == []
    assert frame.count() == 0
    assert load(spark, uri, filter="id > 1", limit=5, split_size="1k").collect() == []


def test_a_dataset_without_live_rows_reads_as_empty(spark, uri):
    lance.write_dataset(table(0, 5), uri).delete("true")
    assert load(spark, uri).count() == 0
    assert load(spark, uri, filter="id >= 0").collect() == []


def test_reading_leaves_no_trace_in_the_dataset(spark, history, tmp_path):
    before = all_files(history)
    load(spark, history, branch="exp/a", filter="id > 1").collect()
    assert all_files(history) == before


@pytest.mark.when(spark="newest")
def test_a_scalar_index_answers_the_filter_with_the_right_rows(spark, uri):
    dataset = lance.write_dataset(table(0, 40), uri, max_rows_per_file=10)
    dataset.create_scalar_index("id", "BTREE")
    lance.write_dataset(table(40, 45), uri, mode="append")
    for predicate, expected in (("id = 17", [17]), ("id >= 38", range(38, 45)), ("id IN (3, 42, 99)", [3, 42])):
        assert ids(load(spark, uri, columns="id", filter=predicate)) == list(expected)
    lance.dataset(uri).delete("id = 17")
    assert ids(load(spark, uri, columns="id", filter="id = 17")) == []


@pytest.mark.when(newest=1.0)
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_a_moment_without_an_offset_is_in_the_time_zone_of_the_session(both_ways, spark, uri, zone):
    for name in ("a", "b"):
        lance.write_dataset(pa.table({"name": [name]}), uri, mode="append" if name == "b" else "create")
        time.sleep(0.01)
    first = lance.dataset(uri).versions()[0]["timestamp"].astimezone(ZoneInfo(zone)) + timedelta(microseconds=1)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        # In New York, 02:30 does not exist on that day: as in SQL, it is 03:30.
        for moment in (f"{first:%Y-%m-%d %H:%M:%S.%f}", "2026-03-08 02:30:00", "2026-03-08", "2999-01-01T12:00:00"):
            read = spark.read.format("lance").option("timestampAsOf", moment)
            if both_ways == PLAIN:
                with pytest.raises(PySparkException, match=r"without an offset|NotFound"):
                    read.load(uri).collect()
            else:
                query = f"SELECT count(*) FROM lance.`{uri}` TIMESTAMP AS OF '{moment}'"
                expected = outcome(lambda query=query: spark.sql(query).first()[0])
                assert outcome(lambda read=read: read.load(uri).count()) == expected
        assert load(spark, uri, asOf=first.isoformat()).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def outcome(action):
    """What it returns, or says."""
    try:
        return action()
    except NotFound as missing:
        return missing.message
