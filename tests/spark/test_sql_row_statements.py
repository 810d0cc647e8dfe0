"""Which statements are carried out here, which are left to Spark, and which are refused, without a row lost."""

from dataclasses import replace

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from support.local_datasets import pin
from support.sql_changes import asked, changed, stored, table

from lance_spark import capabilities, errors, register, unregister
from lance_spark.spark.jvm import names, room, row_statements

pytestmark = pytest.mark.spark

ALL = "SELECT * FROM model"


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


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_comes_to_spark_by_another_way_is_refused_before_anything_happens(spark, target, statement):
    """As in Scala, spark-sql and scripts: Spark's own tasks would lose the rows."""
    before = stored(target), lance.dataset(target).version
    with pytest.raises(errors.Refused, match=r"spark\.sql"):
        spark._jsparkSession.sql(statement)
    assert (stored(target), lance.dataset(target).version) == before
    assert "of Lance rows" in spark.sql(f"EXPLAIN {statement}").first()[0]


def test_a_merge_of_a_frame_is_refused(spark, target):
    before = stored(target)
    merge = spark.table("src").alias("s").mergeInto("lake.ns1.t", col("t.id") == col("s.id"))
    with pytest.raises(PySparkException):
        merge.whenMatched().delete().merge()
    merge = spark.table("src").mergeInto("lake.ns1.t", col("op") == col("lake.ns1.t.k"))
    with pytest.raises(errors.Refused, match=r"LanceTable\.update, \.delete and \.merge"):
        merge.whenMatched().delete().merge()
    assert stored(target) == before


def test_exact_deletes_need_nothing_of_this(spark, target):
    spark._jsparkSession.sql("DELETE FROM lake.ns1.t WHERE id IN (0, 1)")
    assert stored(target) == asked(spark, f"{ALL} WHERE id > 1")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_where_spark_lacks_a_name_they_are_refused(spark, target, statement, monkeypatch):
    monkeypatch.setattr(room.current(spark).bridge, "no_row_changes", "this Spark has no Such.")
    before = stored(target)
    with pytest.raises(errors.Refused, match="this Spark has no Such"):
        spark.sql(statement)
    assert stored(target) == before
    assert "no UPDATE and MERGE in SQL: this Spark has no Such." in str(capabilities(spark))


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
    "UPDATE src SET v = 1": None,
    "MERGE INTO src USING model ON src.id = model.id WHEN MATCHED THEN DELETE": None,
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
    with pytest.raises(PySparkException) as plain:
        spark._jsparkSession.sql(statement)
    assert str(caught.value).splitlines()[0] == str(plain.value).splitlines()[0]
    if SPARKS_OWN[statement] is not None:
        assert caught.value.getCondition() == SPARKS_OWN[statement]
    assert stored(target) == before


def test_other_statements_are_not_looked_at(spark, target, monkeypatch):
    monkeypatch.setattr(row_statements.RowStatement, "verb", property(lambda self: pytest.fail(self.text)))
    assert spark.sql("-- UPDATE\nSELECT count(*) FROM lake.ns1.t WHERE k <> 'UPDATE'").first()[0] == 6
    assert spark.sql("WITH x AS (SELECT 1 AS n) SELECT n FROM x").first()[0] == 1
    assert spark.sql("SELECT :n + {more}", {"n": 1}, more=2).first()[0] == 3


def test_a_query_that_only_mentions_a_verb(spark, target):
    assert spark.sql("WITH x AS (SELECT 'delete' AS n) SELECT n FROM x").first()[0] == "delete"


def test_unregister_gives_pyspark_its_function_back(spark, target):
    ours = SparkSession.sql
    unregister(spark)
    assert SparkSession.sql is not ours
    assert SparkSession.sql.__module__ == "pyspark.sql.session"
    register(spark, catalog="lake", root=target.rpartition("/")[0])


def test_another_session_has_its_own_settings(spark, target):
    other = spark.newSession()
    register(other, catalog="lake", root=target.rpartition("/")[0])
    try:
        other.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
        other.sql("UPDATE lake.ns1.t SET v = 5 WHERE \"k\" = 'a'")
        assert changed(spark, 'UPDATE lake.ns1.t SET v = v + 1 WHERE k = "a" AND v = 5') == (1, 0, 0)
    finally:
        unregister(other)


def test_what_was_committed_meanwhile_is_seen(spark, target, monkeypatch):
    """The engine asks for the actions of the version that it is to commit on, which is not the one first looked at."""
    changing, analyze = row_statements.change_rows, row_statements.RowStatement.analyze
    analyzed = []

    def counted(self, pins):
        analyzed.append([pin.version for pin in pins.values()])
        return analyze(self, pins)

    monkeypatch.setattr(row_statements.RowStatement, "analyze", counted)
    changed(spark, "UPDATE lake.ns1.t SET v = v")
    assert analyzed == [[]]

    def later(session, change):
        lance.write_dataset(table([(2000, "g", 1, 0.0, None)]), target, mode="append")
        return changing(session, change)

    monkeypatch.setattr(row_statements, "change_rows", later)
    assert changed(spark, "UPDATE lake.ns1.t SET v = (SELECT max(id) FROM lake.ns1.t) WHERE length(k) = 1")[0] == 7
    expected = "SELECT id, k, if(k IS NULL, v, 2000), d, s FROM model UNION ALL VALUES (2000, 'g', 2000, 0D, NULL)"
    assert stored(target) == asked(spark, expected)


MEETINGS = {
    "UPDATE lake.ns1.t SET v = 1 WHERE length(k) = 1": (True, False),
    "DELETE FROM lake.ns1.t WHERE v % 2 = 1": (True, False),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1": (True, False),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN MATCHED AND false THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)": (True, False),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) -- so": (
        True,
        False,
    ),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE": (True, True),
}


@pytest.mark.parametrize("statement", MEETINGS)
def test_whether_a_change_meets_rows_that_were_added(spark, target, statement, monkeypatch):
    found = []

    def kept(_session, change):
        found.append(change)
        raise errors.Conflict("kept")

    monkeypatch.setattr(row_statements, "change_rows", kept)
    with pytest.raises(errors.Conflict):
        spark.sql(statement)
    answers = []
    for row in ((100, "g", 1, 0.0, None), (3000, "long", 2, 0.0, None)):
        lance.write_dataset(table([row]), target, mode="append")
        fragment = lance.dataset(target).get_fragments()[-1].fragment_id
        answers.append(found[0].meets(pin(target), [fragment]))
    assert tuple(answers) == MEETINGS[statement]
    assert found[0].inserts_by_key == ("NOT MATCHED THEN" in statement)


def after_the_first_look(monkeypatch, commit):
    """Let somebody commit once the engine has computed what to do."""
    changing = row_statements.change_rows

    def meanwhile(session, change):
        def actions(version):
            found = change.actions(version).localCheckpoint()
            commit()
            return found

        return changing(session, replace(change, actions=actions))

    monkeypatch.setattr(row_statements, "change_rows", meanwhile)


@pytest.mark.parametrize("clause", ["WHEN MATCHED THEN UPDATE SET v = s.v ", ""])
def test_a_key_that_somebody_inserts_meanwhile_is_a_conflict(spark, target, clause, monkeypatch):
    merge = f"MERGE INTO lake.ns1.t t USING {{source}} s ON t.id = s.id {clause}"
    statement = f"{merge} WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    rows = [[(5000, "g", 1, 0.0, None)], [(101, "g", 1, 0.0, None)]]
    after_the_first_look(monkeypatch, lambda: lance.write_dataset(table(rows.pop(0)), target, mode="append"))
    assert changed(spark, statement, source=spark.table("src").where("id = 100"))[2] == 1
    before = stored(target)
    with pytest.raises(errors.Conflict):
        spark.sql(statement, source=spark.table("src"))
    assert rows == []
    assert len(stored(target)) == len(before) + 1


def test_rows_that_somebody_changes_meanwhile_are_a_conflict(spark, target, monkeypatch):
    after_the_first_look(monkeypatch, lambda: lance.dataset(target).delete("id = 0"))
    with pytest.raises(errors.Conflict):
        spark.sql("UPDATE lake.ns1.t SET v = 1 WHERE length(k) = 1")
    assert stored(target) == asked(spark, f"{ALL} WHERE id > 0")


def test_what_fails_changes_nothing(spark, target):
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


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_stay_with_their_rows(spark, target, version):
    values = [b"first", None, b"x" * 100_000]
    if version == "2.1":
        kind = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        rows = pa.table([[0, 1, 2], values], pa.schema([("id", pa.int64()), kind]))
    else:
        rows = pa.table([[0, 1, 2], lance.blob_array(values)], pa.schema([("id", pa.int64()), lance.blob_field("b")]))
    uri = f"{target}.blobs"
    lance.write_dataset(rows, uri, data_storage_version=version)
    assert changed(spark, f"UPDATE lance.`{uri}` SET id = id + 10 WHERE id % 2 = 0") == (2, 0, 0)
    spark.sql(
        f"MERGE INTO lance.`{uri}` t USING (SELECT 1 AS id, CAST('new' AS BINARY) AS b UNION ALL SELECT 5, NULL) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT *"
    )
    found = lance.dataset(uri).to_table(blob_handling="all_binary").sort_by("id")
    assert found["id"].to_pylist() == [1, 5, 10, 12]
    assert found["b"].to_pylist() == [b"new", None, values[0], values[2]]


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
