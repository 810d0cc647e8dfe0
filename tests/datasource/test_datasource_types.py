"""Every row of the type table in both directions, with pylance on the other side."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from support.frames import load, refused, save
from support.type_table import HAS_TIME, READABLE, TABLE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("both_ways")]

each_row = pytest.mark.parametrize("row", READABLE, ids=lambda row: row.name)


def make(path):
    """A dataset made by pylance with one column for each row of the table."""
    table = pa.table({row.name: row.stored for row in READABLE})
    return lance.write_dataset(table, str(path)).uri


@pytest.fixture(scope="module")
def directory(tmp_path_factory, both_ways):
    """A new one for each way to read, and so are all tables in it."""
    return tmp_path_factory.mktemp("types")


@pytest.fixture(scope="module")
def frame(spark, directory):
    return load(spark, make(directory / "made_by_pylance.lance"))


@pytest.fixture(scope="module")
def collected(frame):
    return frame.collect()


@pytest.fixture(scope="module")
def appended(frame, directory):
    """pylance's dataset after Spark appended to it what it had read from it."""
    uri = make(directory / "appended.lance")
    save(frame, uri)
    return lance.dataset(uri).to_table()


@pytest.fixture(scope="module")
def spark_made(spark, frame):
    """The same values, handed to Spark by this process."""
    values = zip(*([_for_spark(row, value) for value in row.shown] for row in READABLE), strict=True)
    return spark.createDataFrame(list(values), frame.schema)


def _for_spark(row, value):
    # collect() shows instants without their zone; handed in like that, they would be taken as local time again.
    return value.astimezone() if row.spark == "timestamp" and value is not None else value


@pytest.fixture(scope="module")
def created(spark_made, directory):
    save(spark_made, directory / "created.lance")
    return lance.dataset(str(directory / "created.lance")).to_table()


@pytest.fixture(scope="module")
def filled(spark_made, directory):
    """An empty dataset of pylance's types after Spark appended its own values."""
    uri = make(directory / "filled.lance")
    lance.dataset(uri).delete("true")
    save(spark_made, uri)
    return lance.dataset(uri).to_table()


def is_kept(found, kind):
    """Whether pylance's reader finds the type that the dataset had."""
    if pa.types.is_dictionary(found) and int(pa.__version__.partition(".")[0]) < 26:
        # Such a pyarrow reads several dictionaries with indices of its own.
        return found.value_type == kind.value_type
    return found == kind


@each_row
def test_spark_reads_what_pylance_wrote(frame, collected, row):
    field = frame.schema[row.name]
    assert field.dataType.simpleString() == row.spark
    assert (field.nullable, field.metadata) == (True, row.metadata)
    assert [found[row.name] for found in collected] == row.shown


@pytest.mark.when(newest=0.5, oldest=0.5)
@each_row
def test_spark_appends_what_it_read(appended, row):
    assert is_kept(appended.schema.field(row.name).type, row.lance)
    assert appended[row.name].to_pylist() == row.read_back * 2


@pytest.mark.when(newest=0.5, oldest=0.5)
@each_row
def test_spark_appends_its_own_values(filled, row):
    assert is_kept(filled.schema.field(row.name).type, row.lance)
    assert filled[row.name].to_pylist() == row.read_back


@pytest.mark.when(newest=0.5, oldest=0.5)
@each_row
def test_spark_creates(created, row):
    assert created.schema.field(row.name).type.equals(row.created)
    assert created[row.name].to_pylist() == _as(row.created, row.read_back)


def _as(kind, values):
    return pa.array(values, kind).to_pylist()


def test_what_spark_created_reads_back_as_it_was_written(spark, created, spark_made, directory):
    again = load(spark, directory / "created.lance")
    assert again.schema == spark_made.schema
    assert again.collect() == spark_made.collect()


@pytest.mark.skipif(HAS_TIME, reason="this Spark has TIME")
@pytest.mark.parametrize("row", [row for row in TABLE if row.needs_time], ids=lambda row: row.name)
def test_times_are_refused_before_spark_has_them(spark, uri, row):
    lance.write_dataset(pa.table({"id": [1, 2, 3], "at": row.stored}), uri)
    with refused_type("at", row.lance):
        assert load(spark, uri).schema  # a client of Spark Connect asks no earlier
    assert load(spark, uri, columns="id").count() == 3


def refused_type(column, kind):
    from lance_spark.errors import SchemaMismatch

    return refused(SchemaMismatch, f"Column '{column}' is {kind}", "columns")


def test_the_session_time_zone_does_not_move_instants(spark, uri):
    row = next(row for row in TABLE if row.name == "timestamp_us_utc")
    lance.write_dataset(pa.table({"at": row.stored}), uri)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = load(spark, uri)
        assert [found["at"] for found in frame.collect()] == row.shown
        save(frame, uri)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert lance.dataset(uri).to_table()["at"].to_pylist() == row.read_back * 2
    assert isinstance(frame.schema["at"].dataType, st.TimestampType)
