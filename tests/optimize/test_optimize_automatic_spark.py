"""Statements of Spark on tables with ``auto_compact``: few fragments, and the rows of a table without it."""

import lance
import pytest

from lance_spark.catalog.staging import alter_properties
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]

STATEMENTS = (
    "INSERT INTO {t} SELECT {n}, 0",
    "UPDATE {t} SET v = v + 1 WHERE id = {n}",
    "MERGE INTO {t} t USING (SELECT {n} + 100 AS id, 7 AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM {t} WHERE id = {n} - 3",
)


def fragments(uri):
    return len(lance.dataset(uri).get_fragments())


def test_statements_answer_as_without_it(spark, lake):
    tables = {"kept": "'color' = 'red'", "small": "'delta.autoOptimize.autoCompact' = '5'"}
    for name, settings in tables.items():
        spark.sql(f"CREATE TABLE lake.ns1.{name} (id INT, v INT) TBLPROPERTIES ({settings})")
    for number in range(7):
        for statement in STATEMENTS:
            for name in tables:
                spark.sql(statement.format(t=f"lake.ns1.{name}", n=number))
    kept, small = (spark.table(f"lake.ns1.{name}").orderBy("id").collect() for name in tables)
    assert kept == small
    assert len(small) > 7
    counts = [fragments(lake.table(f"ns1.{name}").location.uri) for name in tables]
    assert counts[1] < 5 < counts[0]


def test_appends_to_a_path_and_to_a_branch_of_it(spark, uri):
    spark.range(1).write.format("lance").mode("append").save(uri)
    alter_properties(locate(uri), None, {"auto_compact": "3"})
    lance.dataset(uri).create_branch("exp")
    for key in range(1, 8):
        for branch in ("main", "exp"):
            frame = spark.range(key, key + 1).coalesce(1)
            frame.write.format("lance").mode("append").option("branch", branch).save(uri)
    assert sorted(row.id for row in spark.read.format("lance").load(uri).collect()) == [*range(8)]
    exp = spark.read.format("lance").option("branch", "exp").load(uri)
    assert sorted(row.id for row in exp.collect()) == [*range(8)]
    assert fragments(uri) < 4
    assert fragments(f"{uri}/tree/exp") < 5


def test_a_value_that_means_nothing_is_refused_where_it_is_set(spark, lake):
    with pytest.raises(Exception, match="must be true, false, or a number of small fragments"):
        spark.sql("CREATE TABLE lake.ns1.t (id INT) TBLPROPERTIES ('auto_compact' = 'often')")
    spark.sql("CREATE TABLE lake.ns1.t (id INT)")
    with pytest.raises(Exception, match="must be true, false, or a number of small fragments"):
        spark.sql("ALTER TABLE lake.ns1.t SET TBLPROPERTIES ('auto_compact' = '1')")
