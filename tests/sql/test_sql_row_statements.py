"""Which statements are carried out here, which are left to Spark, and which are refused, without a row lost."""

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.merge import MergeIntoWriter
from support.connect_clients import another_session
from support.service_lakes import of
from support.sql_changes import asked, changed, stored

from lance_spark import capabilities, errors, register, unregister
from lance_spark.engine.session_spark import is_connect
from lance_spark.jvm import names
from lance_spark.native import row_statements, session

pytestmark = [
    pytest.mark.on_services,
    pytest.mark.spark,
    pytest.mark.on_connect,
    pytest.mark.when(oldest=0.18, newest=0.6),
]

ALL = "SELECT * FROM model"


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("name", ["lake.ns1.`t@before`", "lake.ns1.`t@1`", "lance.`{uri}@before`"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} SET v = 1",
        "DELETE FROM {t} WHERE v % 2 = 0",
        "DELETE FROM {t} WHERE id = 1",
        "DELETE FROM {t}",
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_tags_and_versions_never_change(spark, target, name, statement):
    before = stored(target), lance.dataset(target).version
    with pytest.raises(errors.Refused, match="never changes"):
        spark.sql(statement.format(t=name.format(uri=target)))
    assert (stored(target), lance.dataset(target).version) == before


STATEMENTS = (
    "UPDATE lake.ns1.t SET v = 1",
    "DELETE FROM lake.ns1.t WHERE v % 4 = 2",
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE",
)


@pytest.mark.on_connect(False)  # whose clients do not see the JVM
@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_comes_to_spark_by_another_way_is_refused_before_anything_happens(spark, target, statement):
    """As in Scala, spark-sql and scripts: Spark's own tasks would lose the rows."""
    before = stored(target), lance.dataset(target).version
    with pytest.raises(errors.Refused, match=r"spark\.sql"):
        spark._jsparkSession.sql(statement)
    assert (stored(target), lance.dataset(target).version) == before
    assert "of Lance rows" in spark.sql(f"EXPLAIN {statement}").first()[0]


def test_a_merge_of_a_frame(spark, target):
    """It tells its plan from Spark 4.3 on; before, it is refused."""
    before = stored(target)
    source = spark.sql("SELECT id AS key, v AS new FROM src WHERE id < 101")
    merge = source.mergeInto("lake.ns1.t", col("key") == col("id"))
    merge = merge.whenMatched(col("new").isNull()).delete().whenMatched().update({"v": col("new")})
    merge = merge.whenNotMatched().insert({"id": col("key"), "v": col("new")})
    room = session.current(spark)
    if room is not None and not room.bridge.plans_merges:
        with pytest.raises(errors.Refused, match=r"LanceTable\.update, \.delete and \.merge"):
            merge.merge()
        assert stored(target) == before
        return
    merge.merge()
    expected = (
        "SELECT id, k, CASE id WHEN 0 THEN 100 WHEN 3 THEN 300 WHEN 4 THEN 400 ELSE v END, d, s FROM model "
        "WHERE id <> 2 UNION ALL VALUES (100, NULL, 1000, NULL, NULL)"
    )
    assert stored(target) == asked(spark, expected)
    twice = source.union(source).mergeInto("lake.ns1.t", col("key") == col("id")).whenMatched()
    with pytest.raises(errors.Refused, match="id = "):
        twice.update({"v": col("new")}).merge()
    with pytest.raises(errors.Refused, match="never changes"):
        source.mergeInto("lake.ns1.`t@before`", col("key") == col("id")).whenMatched().delete().merge()


@pytest.mark.on_connect(False)  # whose clients do not see the JVM
def test_what_spark_can_do_itself_is_done_by_every_way(spark, target):
    spark._jsparkSession.sql("DELETE FROM lake.ns1.t WHERE id IN (0, 1)")
    spark._jsparkSession.sql(
        "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN NOT MATCHED AND s.v > 9 THEN INSERT (id) VALUES (s.id)"
    )
    new = "SELECT id, NULL, NULL, NULL, NULL FROM VALUES (0), (100) AS x(id)"
    assert stored(target) == asked(spark, f"{ALL} WHERE id > 1 UNION ALL {new}")


@pytest.mark.on_connect(False)  # whose clients do not see the JVM
@pytest.mark.when(oldest=1.0)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_where_spark_lacks_a_name_they_are_refused(spark, target, statement, monkeypatch):
    monkeypatch.setattr(session.current(spark).bridge, "no_row_changes", "this Spark has no Such.")
    before = stored(target)
    with pytest.raises(errors.Refused, match="this Spark has no Such"):
        spark.sql(statement)
    assert stored(target) == before
    assert "no UPDATE and MERGE in SQL: this Spark has no Such." in str(capabilities(spark))


@pytest.mark.on_connect(False)  # whose clients do not see the JVM
def test_what_is_missing_is_looked_for_when_a_session_is_registered(spark, monkeypatch):
    unregister(spark)
    assert capabilities(spark).no_row_changes is not None
    monkeypatch.setattr(names, "FOR_CHANGES", (*names.FOR_CHANGES, "org.apache.spark.Missing"))
    register(spark)
    assert capabilities(spark).native
    assert capabilities(spark).no_row_changes == "this Spark has no org.apache.spark.Missing."
    unregister(spark)
    monkeypatch.undo()
    register(spark)
    assert capabilities(spark).no_row_changes is None


SPARKS_OWN = {
    "UPDATE lake.ns1.nothing SET v = 1": "TABLE_OR_VIEW_NOT_FOUND",
    "UPDATE lake.ns1.t SET nothing = 1": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "UPDATE lake.ns1.t SET v = 'x' WHERE id = array(1)": None,
    "UPDATE lake.ns1.t SET v": "PARSE_SYNTAX_ERROR",
    "DELETE lake.ns1.t": "PARSE_SYNTAX_ERROR",
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id": None,
    "UPDATE lake.ns1.t.versions SET version = 1": None,
}


@pytest.mark.parametrize("statement", SPARKS_OWN)
def test_what_is_wrong_with_a_statement_says_spark(spark, target, statement):
    before = stored(target)
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement)
    if not is_connect(spark):
        with pytest.raises(PySparkException) as plain:
            spark._jsparkSession.sql(statement)
        assert str(caught.value).splitlines()[0] == str(plain.value).splitlines()[0]
    if SPARKS_OWN[statement] is not None:
        assert caught.value.getCondition() == SPARKS_OWN[statement]
    assert stored(target) == before


@pytest.mark.on_connect(False)  # whose clients do not see the JVM
def test_other_statements_are_not_looked_at(spark, target, monkeypatch):
    monkeypatch.setattr(row_statements.RowStatement, "verb", property(lambda self: pytest.fail(self.text)))
    assert spark.sql("-- UPDATE\nSELECT count(*) FROM lake.ns1.t WHERE k <> 'UPDATE'").first()[0] == 6
    assert spark.sql("WITH x AS (SELECT 1 AS n) SELECT n FROM x").first()[0] == 1
    assert spark.sql("SELECT :n + {more}", {"n": 1}, more=2).first()[0] == 3


def test_a_query_that_only_mentions_a_verb(spark, target):
    assert spark.sql("WITH x AS (SELECT 'delete' AS n) SELECT n FROM x").first()[0] == "delete"


@pytest.mark.on_connect(False)  # whose clients do not see the JVM
def test_unregister_gives_pyspark_its_function_back(spark, target):
    ours = SparkSession.sql, MergeIntoWriter.merge
    unregister(spark)
    assert SparkSession.sql is not ours[0]
    assert MergeIntoWriter.merge is not ours[1]
    assert SparkSession.sql.__module__ == "pyspark.sql.session"
    register(spark, catalog="lake", root=target.rpartition("/")[0])


def test_another_session_has_its_own_settings(spark, lake, target):
    other = another_session(spark)
    of(lake).register(other, "lake")
    try:
        other.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
        other.sql("UPDATE lake.ns1.t SET v = 5 WHERE \"k\" = 'a'")
        assert changed(spark, 'UPDATE lake.ns1.t SET v = v + 1 WHERE k = "a" AND v = 5') == (1, 0, 0)
    finally:
        unregister(other)


def test_a_statement_that_fails_changes_nothing(spark, target):
    """Also what only a task can tell."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())])
    lance.write_dataset(pa.table([[1, 2], [1, 0]], schema=schema), f"{target}.strict")
    place = f"lance.`{target}.strict`"
    for statement, condition in (
        (f"UPDATE {place} SET v = if(v = 0, raise_error('own fault'), 5)", "own fault"),
        (f"UPDATE {place} SET id = nullif(id, 2)", "NOT_NULL_ASSERT_VIOLATION"),
        (
            f"MERGE INTO {place} t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            "NOT_NULL_ASSERT_VIOLATION",
        ),
    ):
        with pytest.raises(PySparkException, match=condition):
            spark.sql(statement)
    assert lance.dataset(f"{target}.strict").version == 1
    assert changed(spark, f"UPDATE {place} SET id = id + 1 WHERE v + 0 = 0") == (1, 0, 0)
    assert lance.dataset(f"{target}.strict").to_table().to_pylist()[-1] == {"id": 3, "v": 0}


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.2 marked"])
def test_blobs_stay_with_their_rows(spark, target, version):
    values = [b"first", None, b"x" * 100_000]
    if version != "2.2":
        kind = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        rows = pa.table([[0, 1, 2], values], pa.schema([("id", pa.int64()), kind]))
    else:
        rows = pa.table([[0, 1, 2], lance.blob_array(values)], pa.schema([("id", pa.int64()), lance.blob_field("b")]))
    uri = f"{target}.blobs"
    lance.write_dataset(rows, uri, data_storage_version=version[:3])
    spark.sql(f"INSERT INTO lance.`{uri}` VALUES (7, X'AA')")
    assert changed(spark, f"UPDATE lance.`{uri}` SET id = id + 10 WHERE id % 2 = 0") == (2, 0, 0)
    spark.sql(
        f"MERGE INTO lance.`{uri}` t USING (SELECT 1 AS id, CAST('new' AS BINARY) AS b UNION ALL SELECT 5, NULL) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT *"
    )
    found = lance.dataset(uri).to_table(blob_handling="all_binary").sort_by("id")
    assert found["id"].to_pylist() == [1, 5, 7, 10, 12]
    assert found["b"].to_pylist() == [b"new", None, b"\xaa", values[0], values[2]]


def test_columns_with_odd_names(spark, target):
    names = ["a b", "c0", "select", "x y é", "_c"]
    uri = f"{target}.odd"
    lance.write_dataset(pa.table([[1, 2]] * 5, names=names), uri)
    changed(spark, f"UPDATE lance.`{uri}` SET `a b` = `a b` + 1, `x y é` = c0 * 7 WHERE `select` + 0 = 2")
    changed(
        spark,
        f"MERGE INTO lance.`{uri}` t USING (SELECT 3 AS `a b`, 4 AS c0) s ON t.`a b` = s.`a b` + 0 "
        "WHEN MATCHED THEN UPDATE SET _c = s.c0 WHEN NOT MATCHED BY SOURCE THEN DELETE",
    )
    assert lance.dataset(uri).to_table().to_pylist() == [dict(zip(names, [3, 2, 2, 14, 4], strict=True))]


def test_a_new_query_sees_the_change_whatever_is_cached(spark, target):
    before = spark.table("lake.ns1.t").cache()
    assert before.count() == 8
    changed(spark, "DELETE FROM lake.ns1.t WHERE id % 2 = 0")
    assert spark.table("lake.ns1.t").count() == 4
    changed(spark, "DELETE FROM lake.ns1.t WHERE id = 1")
    assert spark.table("lake.ns1.t").count() == 3
    changed(spark, "UPDATE lake.ns1.t SET id = -1")
    assert spark.table("lake.ns1.t").agg({"id": "max"}).first()[0] == -1
    spark.catalog.clearCache()


# --- Columns about rows

OF_ROWS = {
    "duplicates": (
        "DELETE FROM {t} WHERE _rowid NOT IN (SELECT min(_rowid) FROM {t} GROUP BY id)",
        [(1, "a"), (2, "b")],
    ),
    "duplicates, correlated": (
        "DELETE FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE a.id = b.id AND a._rowid > b._rowid)",
        [(1, "a"), (2, "b")],
    ),
    "duplicates, by MERGE": (
        "MERGE INTO {t} t USING (SELECT _rowaddr r, row_number() OVER (PARTITION BY id ORDER BY _rowid) n FROM {t}) s "
        "ON t._rowaddr = s.r WHEN MATCHED AND s.n > 1 THEN DELETE",
        [(1, "a"), (2, "b")],
    ),
    "a constant": ("DELETE FROM {t} WHERE _rowid < 0", [(1, "a"), (1, "c"), (2, "b")]),
    "UPDATE": (
        "UPDATE {t} SET v = concat(_row_created_at_version, v) WHERE _ROWID IN (SELECT max(_rowid) FROM {t})",
        [(1, "a"), (1, "c"), (2, "1b")],
    ),
    "MERGE that sets": (
        "MERGE INTO {t} t USING (SELECT max(_rowid) r FROM {t}) s ON t._rowid = s.r "
        "WHEN MATCHED THEN UPDATE SET v = concat('x', t._row_created_at_version) WHEN NOT MATCHED BY SOURCE AND "
        "t._rowid >= 0 THEN UPDATE SET v = 'other'",
        [(1, "other"), (1, "other"), (2, "x1")],
    ),
    "MERGE that reads": (
        "MERGE INTO {t} t USING (SELECT id + 1 AS id, v FROM {t} WHERE _rowid >= 0 AND v <> 'c') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "a"), (1, "c"), (2, "a"), (3, "b")],
    ),
    "MERGE that inserts": (
        "MERGE INTO {t} t USING (SELECT 9 AS id) s ON t.id = s.id AND t._rowid >= 0 "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')",
        [(1, "a"), (1, "c"), (2, "b"), (9, "new")],
    ),
}
"""What is run on rows of which two have the same id, and the rows afterwards."""


@pytest.mark.when(day=0.4, newest=1.0, spark="newest")
@pytest.mark.parametrize("name", OF_ROWS)
def test_statements_name_the_columns_about_rows(spark, lake, name):
    spark.sql("CREATE TABLE lake.ns1.rows AS SELECT * FROM VALUES (1, 'a'), (1, 'c'), (2, 'b') AS x(id, v)")
    statement, expected = OF_ROWS[name]
    spark.sql(statement.format(t="lake.ns1.rows"))
    assert sorted(map(tuple, spark.table("lake.ns1.rows").collect())) == expected


def test_a_merge_that_spark_cannot_plan_over_columns_about_rows(spark, target):
    before = stored(target)
    statement = "MERGE INTO lake.ns1.t t USING src s ON t._rowid = s.id WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(errors.Refused, match="names _rowid"):
        spark.sql(statement)
    assert stored(target) == before


# --- Views


def test_statements_through_a_view_say_that_it_is_one(spark, target):
    before = stored(target)
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW v_all AS SELECT * FROM lake.ns1.t")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW v_some AS SELECT * FROM lake.ns1.t WHERE id > 1")
    for statement in (
        "UPDATE v_all SET v = 1",
        "UPDATE v_some AS x SET v = 1",
        "DELETE FROM v_some",
        "MERGE INTO v_all t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(errors.Refused, match="it is a view"):
            spark.sql(statement)
    assert stored(target) == before
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        spark.sql("UPDATE v_all SET nope = 1")
    for view in ("v_all", "v_some"):
        spark.catalog.dropTempView(view)
