"""Types that Arrow lacks, in statements: what DESCRIBE says, ALTER TABLE, values that do not fit."""

import lance
import pytest
from pyspark.errors import PySparkException

from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(spark="newest", sample=0.1)]

T = "lake.ns1.t"
TOO_LONG = (PySparkException, LanceSparkError)


@pytest.fixture
def table(spark, lake):
    spark.sql(
        f"CREATE TABLE {T} (k INT, c CHAR(3), v VARCHAR(3), s STRUCT<x: CHAR(2), y: STRING COLLATE UTF8_LCASE>, "
        "l STRING COLLATE UTF8_LCASE, d INTERVAL DAY)"
    )
    spark.sql(
        f"INSERT INTO {T} VALUES (1, 'a', 'b', named_struct('x', 'p', 'y', 'Qr'), 'Ab', INTERVAL '3' DAY), "
        "(2, NULL, NULL, NULL, 'aB', NULL)"
    )
    return lake.table("ns1.t")


def kinds(spark):
    return {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE {T}").collect()}


def rows(spark, query):
    return [tuple(row) for row in spark.sql(query).collect()]


def test_a_table_says_its_types_and_stores_plain_values(spark, table):
    assert kinds(spark) == {
        "k": "int",
        "c": "char(3)",
        "v": "varchar(3)",
        # Python's own type of CHAR has no collation, so the struct is shown as Spark reads it.
        "s": "struct<x:string,y:string collate UTF8_LCASE>",
        "l": "string collate UTF8_LCASE",
        "d": "interval day",
    }
    stored = lance.dataset(table.location.uri).to_table(columns=["c", "v", "s", "l"]).to_pylist()[0]
    assert stored == {"c": "a  ", "v": "b", "s": {"x": "p ", "y": "Qr"}, "l": "Ab"}
    created = spark.sql(f"SHOW CREATE TABLE {T}").first()[0]
    assert [kind for kind in ("c CHAR(3)", "v VARCHAR(3)", "l STRING COLLATE UTF8_LCASE") if kind not in created] == []


def test_fields_inside_structs_keep_their_types_whatever_happens_beside_them(spark, table):
    spark.sql(f"ALTER TABLE {T} ADD COLUMN s.z VARCHAR(2)")
    spark.sql(f"ALTER TABLE {T} RENAME COLUMN s.x TO w")
    spark.sql(f"INSERT INTO {T} VALUES (3, 'a', 'b', named_struct('w', 'p', 'y', 'qR', 'z', 'zz'), 'x', NULL)")
    assert rows(spark, f"SELECT s.w, s.z FROM {T} WHERE s.y = 'QR' ORDER BY k") == [("p ", None), ("p ", "zz")]
    spark.sql(f"ALTER TABLE {T} DROP COLUMN s.w")
    for value in ("named_struct('y', 'a', 'z', 'long')",):
        with pytest.raises(TOO_LONG, match=r"(?i)length|characters"):
            spark.sql(f"INSERT INTO {T} VALUES (4, 'a', 'b', {value}, 'x', NULL)")


def test_alter_column_gives_a_type_that_holds_all_values(spark, table):
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN v TYPE VARCHAR(5)")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN l TYPE STRING COLLATE UNICODE_CI")
    found = {name: kind for name, kind in kinds(spark).items() if name in "vl"}
    assert found == {"v": "varchar(5)", "l": "string collate UNICODE_CI"}
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN l TYPE STRING COLLATE UTF8_BINARY")
    assert rows(spark, f"SELECT k FROM {T} WHERE l = 'ab'") == []
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN l TYPE STRING COLLATE UTF8_LCASE")
    assert rows(spark, f"SELECT k FROM {T} WHERE l = 'ab' ORDER BY k") == [(1,), (2,)]
    with pytest.raises(TOO_LONG):
        spark.sql(f"ALTER TABLE {T} ALTER COLUMN v TYPE VARCHAR(2)")
    assert kinds(spark)["v"] == "varchar(5)"


WRITES = {
    "update": lambda table, _: table.update({"v": "'long'"}, where="k = 1"),
    "update of all": lambda table, _: table.update({"v": "'long'"}),
    "columns": lambda table, _: table.update_columns({"v": "'long'"}),
    "columns from a frame": lambda table, frame: table.update_columns_from(frame, on="k"),
    "merge": lambda table, frame: table.merge(frame, on="k").when_matched_update_all().execute(),
    "append": lambda table, frame: table.write(frame),
    "overwrite of a part": lambda table, frame: table.overwrite(frame, where="k = 1"),
}


@pytest.mark.when(day={"write": ["columns", "append"]})
@pytest.mark.parametrize("write", WRITES)
def test_text_that_is_too_long_is_refused_by_every_verb(spark, table, write):
    before = rows(spark, f"SELECT k, v FROM {T} ORDER BY k")
    frame = spark.sql("SELECT 1 AS k, 'long' AS v")
    with pytest.raises(TOO_LONG, match=r"'v' is varchar\(3\), and a value has 4 characters"):
        WRITES[write](table, frame)
    assert rows(spark, f"SELECT k, v FROM {T} ORDER BY k") == before


def test_a_value_with_finer_units_is_refused(spark, table):
    with pytest.raises(TOO_LONG, match="'d' is interval day, and holds no value such as"):
        table.write(spark.sql("SELECT 5 AS k, INTERVAL '3 1' DAY TO HOUR AS d"))


def test_a_key_with_a_collation_finds_its_rows(spark, table):
    table.indexes.create("l")
    spark.sql("SELECT 'AB' COLLATE UTF8_LCASE AS l, 7 AS n").createOrReplaceTempView("changes_by_l")
    spark.sql(f"MERGE INTO {T} t USING changes_by_l s ON t.l = s.l WHEN MATCHED THEN UPDATE SET k = t.k + n")
    assert rows(spark, f"SELECT k FROM {T} ORDER BY k") == [(8,), (9,)]
    merge = table.merge(spark.sql("SELECT 'AB' COLLATE UTF8_LCASE AS l, 1 AS k"), on="l")
    assert merge.when_matched_update_all().execute().rows_updated == 2
    spark.sql(f"DELETE FROM {T} WHERE l = 'AB'")
    assert rows(spark, f"SELECT k FROM {T}") == []
