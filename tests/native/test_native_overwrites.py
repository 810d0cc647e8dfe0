"""Statements that replace a table: what they know of what they read, and that they take back nothing of others."""

import contextlib
import os

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from support.local_datasets import make_dataset
from support.service_lakes import place

from lance_spark import LanceTable
from lance_spark.core.isolation import STATEMENT, parse_statement
from lance_spark.errors import Refused
from lance_spark.native import hooks, reading, tables

pytestmark = [pytest.mark.on_services, pytest.mark.spark, pytest.mark.when(spark="newest", sample=0.1)]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "k": ["a", "b"]})


@pytest.fixture
def t(lake):
    """Table ns1.t with a branch, a tag, and two versions; ns1.other; views over it."""
    uri, where = place(lake, "t")
    make_dataset(uri, ROWS, ROWS)
    lake.register_table("ns1.t", where)
    other, where = place(lake, "other")
    make_dataset(other, ROWS)
    lake.register_table("ns1.other", where)
    lake.table("ns1.t").branches.create("exp")
    lake.table("ns1.t").tags.create("old")
    return uri


@pytest.fixture
def statements(monkeypatch):
    """What writes are told; they go no further. On Spark Connect another process tells them."""
    found = []

    def told(*arguments):
        found.append(reading.told(*arguments))
        raise Refused("That is enough.")

    monkeypatch.setattr(tables, "told", told)
    monkeypatch.setattr(hooks, "told", told)
    return found


def path(spark, uri, **options):
    return spark.read.format("lance").options(**options).load(uri)


def cached(spark):
    spark.catalog.dropTempView("mine")
    spark.sql("CACHE TABLE mine AS SELECT * FROM lake.ns1.t")
    return spark.table("mine")


INTO = "INSERT OVERWRITE lake.ns1.t "
SQL = {
    "itself": (INTO + "SELECT * FROM lake.ns1.t WHERE id > 1", True),
    "a view": (INTO + "SELECT * FROM v", True),
    "a subquery of a value": (INTO + "SELECT 1, (SELECT max(k) FROM lake.ns1.t)", True),
    "a subquery of a condition": (INTO + "SELECT * FROM lake.ns1.other WHERE id IN (SELECT id FROM lake.ns1.t)", True),
    "a subquery in a subquery": (
        INTO + "SELECT * FROM lake.ns1.other WHERE id = (SELECT max(id) FROM range(3) WHERE EXISTS (SELECT 1 FROM v))",
        True,
    ),
    "with before": ("WITH c AS (SELECT * FROM lake.ns1.t) " + INTO + "SELECT * FROM c", True),
    "with after": (INTO + "WITH c AS (SELECT * FROM lake.ns1.t) SELECT a.* FROM c a JOIN c USING (id)", True),
    "its path": (INTO + "SELECT * FROM lance.`{uri}`", True),
    "an aggregate": (INTO + "SELECT sum(id), k FROM lake.ns1.t GROUP BY k", True),
    "a view with its path": (INTO + "SELECT * FROM by_path", True),
    "a view of a version": (INTO + "SELECT * FROM by_version", False),
    "nothing": (INTO + "VALUES (1, 'a')", False),
    "another table": (INTO + "SELECT * FROM lake.ns1.other", False),
    "another branch": (INTO + "SELECT * FROM lake.ns1.`t@exp`", False),
    "a version": (INTO + "SELECT * FROM lake.ns1.t VERSION AS OF 1", False),
    "a tag": (INTO + "SELECT * FROM lake.ns1.`t@old`", False),
    "its metadata": (INTO + "SELECT version, 'a' FROM lake.ns1.t.versions", False),
    "the branch itself": ("INSERT OVERWRITE lake.ns1.`t@exp` SELECT * FROM lake.ns1.`t@exp`", True),
    "main into a branch": ("INSERT OVERWRITE lake.ns1.`t@exp` SELECT * FROM lake.ns1.t", False),
    "replace": ("CREATE OR REPLACE TABLE lake.ns1.t AS SELECT * FROM lake.ns1.t", True),
    "replace by others": ("REPLACE TABLE lake.ns1.t AS SELECT * FROM lake.ns1.other", False),
    "an append": ("INSERT INTO lake.ns1.t SELECT * FROM lake.ns1.t", True),
}
FRAMES = {
    "insertInto": (lambda s, _: s.table("lake.ns1.t").write.insertInto("lake.ns1.t", overwrite=True), True),
    "saveAsTable": (lambda s, _: s.table("v").write.format("lance").mode("overwrite").saveAsTable("lake.ns1.t"), True),
    "writeTo": (lambda s, uri: path(s, uri).writeTo("lake.ns1.t").overwrite(F.lit(True)), True),
    "overwritePartitions": (lambda s, _: s.table("v").writeTo("lake.ns1.t").overwritePartitions(), True),
    "replace": (lambda s, _: s.table("v").writeTo("lake.ns1.t").createOrReplace(), True),
    "a cached table": (lambda s, _: cached(s).writeTo("lake.ns1.t").overwrite(F.lit(True)), True),
    "save by path": (lambda s, uri: path(s, uri).write.format("lance").mode("overwrite").save(uri), True),
    "save of a struct": (
        lambda s, uri: path(s, uri).select("id", F.struct("k")).write.format("lance").mode("overwrite").save(uri),
        True,
    ),
    "save of a name": (lambda s, uri: s.table("v").write.format("lance").mode("overwrite").save(uri), True),
    "save of a version": (
        lambda s, uri: path(s, uri, version=1).write.format("lance").mode("overwrite").save(uri),
        False,
    ),
    "save of a tag": (lambda s, uri: path(s, uri + "@old").write.format("lance").mode("overwrite").save(uri), False),
    "a handle": (lambda _, uri: handle(uri).write(handle(uri).to_df(), mode="overwrite"), True),
    "a query of a handle": (
        lambda _, uri: handle(uri).write(handle(uri).query(lambda rows: rows.where("id > 1")), mode="overwrite"),
        True,
    ),
    "a handle at a version": (
        lambda _, uri: handle(uri).write(handle(uri).checkout(version=1).to_df(), mode="overwrite"),
        False,
    ),
}


def handle(uri):
    return LanceTable.for_path(uri)


def told_of(spark, uri, statements, run):
    spark.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM lake.ns1.t")
    for name, version in (("by_path", ""), ("by_version", ", version '1'")):
        spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} USING lance OPTIONS (path '{uri}'{version})")
    try:
        with contextlib.suppress(Refused):
            run()
    finally:
        spark.catalog.clearCache()
        spark.catalog.dropTempView("v")
    (given,) = statements
    return parse_statement(given[STATEMENT])


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("name", SQL)
def test_a_statement_says_whether_it_reads_its_target(spark, t, statements, name):
    text, reads = SQL[name]
    statement = told_of(spark, t, statements, lambda: spark.sql(text.format(uri=t)))
    branch = "exp" if "INTO lake.ns1.`" in text or "OVERWRITE lake.ns1.`" in text else None
    newest = lance.dataset(f"{t}/tree/exp" if branch else t).version
    assert statement.read_of(t, branch) == (newest if reads else None)
    assert statement.base == newest


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("name", FRAMES)
def test_a_dataframe_says_whether_it_reads_its_target(spark, t, statements, name):
    run, reads = FRAMES[name]
    statement = told_of(spark, t, statements, lambda: run(spark, t))
    assert statement.read_of(t, None) == (2 if reads else None)
    assert statement.base == 2


def test_a_dataframe_that_is_older_than_the_statement(spark, t, statements):
    before = path(spark, t)  # by name, newer Sparks look again
    lance.write_dataset(ROWS, t, mode="append")
    statement = told_of(spark, t, statements, lambda: before.writeTo("lake.ns1.t").overwrite(F.lit(True)))
    assert (statement.read_of(t, None), statement.base) == (2, 3)


@pytest.mark.on_connect
@pytest.mark.parametrize(
    ("statement", "event", "words"),
    [
        (INTO + "SELECT hurried(id), k FROM lake.ns1.t GROUP BY ALL", "append", "did not see"),
        ("CREATE OR REPLACE TABLE lake.ns1.t AS SELECT hurried(9) id", "drop", "would take that back"),
        (INTO + "SELECT hurried(9), 'new'", "append", None),
    ],
)
def test_another_commit_while_the_statement_runs(spark, t, statement, event, words):
    """The function that the statement calls makes it, in the first of its tasks."""

    def hurried(value):
        import lance  # in Spark's worker

        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{t}-done")
            if event == "drop":
                lance.dataset(t).drop_columns(["k"])
            else:
                lance.write_dataset(ROWS, t, mode="append")
        return value

    spark.udf.register("hurried", F.udf(hurried, "bigint").asNondeterministic())
    if words is None:
        spark.sql(statement)
        assert lance.dataset(t).to_table().to_pylist() == [{"id": 9, "k": "new"}]
        return
    with pytest.raises(Exception, match=words) as caught:
        spark.sql(statement)
    assert "Conflict" in str(caught.value)
    assert "Run it again" in str(caught.value)
    assert lance.dataset(t).version == 3
    assert lance.dataset(t).schema.names == (["id"] if event == "drop" else ["id", "k"])


@pytest.mark.on_connect
def test_a_dynamic_overwrite_replaces_a_table_without_partitions(spark, t):
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(INTO + "VALUES (5, 'five')")
        assert lance.dataset(t).to_table().to_pylist() == [{"id": 5, "k": "five"}]
        spark.sql("SELECT 6L id, 'six' k").write.insertInto("lake.ns1.t", overwrite=True)
        assert lance.dataset(t).to_table().to_pylist() == [{"id": 6, "k": "six"}]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    spark.sql("SELECT 7L id, 'seven' k").writeTo("lake.ns1.t").overwritePartitions()
    assert lance.dataset(t).to_table().to_pylist() == [{"id": 7, "k": "seven"}]
