"""DESCRIBE HISTORY, OPTIMIZE, VACUUM, RESTORE, and branches and tags by ALTER TABLE: in Delta's and Iceberg's words."""

from datetime import timedelta

import lance
import pytest
from support.cleanup_datasets import age_all
from support.local_datasets import make_dataset, numbers

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(spark="newest", sample=0.1, newest=0.45)]


def ask(spark, text, args=None):
    return [row.asDict() for row in spark.sql(text, args=args).collect()]


def column(rows, name):
    return [row[name] for row in rows]


@pytest.fixture(params=["by name", "by path"])
def name(request, lake_flights):
    """The table in SQL; `{}` stands for a ref in its name."""
    return "lake.ns1.`flights{}`" if request.param == "by name" else f"lance.`{lake_flights.location.uri}{{}}`"


def test_the_history_of_a_table_and_of_a_branch(spark, lake_flights, name):
    history = spark.sql(f"DESCRIBE HISTORY {name.format('')}")
    assert history.columns[:4] == ["version", "timestamp", "operation", "operationParameters"]
    rows = [row.asDict() for row in history.collect()]
    assert column(rows, "version") == [2, 1]
    assert column(rows, "operation") == ["append", "create"]
    assert column(rows, "tags") == [["v2013"], []]
    assert [(row["rows"], row["rows_added"], row["rows_removed"]) for row in rows] == [(10, 5, 0), (5, 5, 0)]
    assert lake_flights.history().collect() == history.collect()
    assert [row.version for row in lake_flights.checkout(branch="exp/delays").history(limit=1).collect()] == [3]
    assert rows[0]["operationParameters"] == {"transaction": "Append"}
    assert rows[0]["timestamp"].timestamp() == lake_flights.log().entries[0].timestamp.timestamp()
    branch = ask(spark, f"-- so\ndesc history {name.format('@exp/delays')} limit 2;")
    assert [(row["branch"], row["rows"]) for row in branch] == [("exp/delays", 11), ("main", 10)]
    assert column(ask(spark, f"DESCRIBE HISTORY {name.format('@v2013')} LIMIT 1"), "version") == [2]


def test_compaction(spark, lake_flights, name):
    before = len(lance.dataset(lake_flights.location.uri).get_fragments())
    none = ask(spark, f"OPTIMIZE {name.format('')} WHERE id > 100 AND id < 200")
    assert (column(none, "commits"), before) == ([0], 2)
    done = ask(spark, f"OPTIMIZE {name.format('')} WHERE id >= :least", {"least": 0})
    assert (done[0]["branch"], done[0]["fragments_removed"], done[0]["fragments_added"]) == ("main", 2, 1)
    assert len(lance.dataset(lake_flights.location.uri).get_fragments()) == 1
    ordered = ask(spark, f"OPTIMIZE {name.format('@exp/delays')} ZORDER BY (id)")
    assert ordered[0]["branch"] == "exp/delays"
    assert lake_flights.checkout(branch="exp/delays").count_rows() == 11


def test_a_condition_is_sparks(spark, lake_flights):
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        spark.sql("OPTIMIZE lake.ns1.flights WHERE nothing = 1")
    with pytest.raises(Refused, match="cannot select rows"):
        spark.sql("OPTIMIZE lake.ns1.flights WHERE hash(id) > 5")
    assert ask(spark, "OPTIMIZE lake.ns1.flights WHERE id > ?", [20])[0]["commits"] == 0
    assert lake_flights.version == 2


def test_cleanup_deletes_what_the_policy_lets_go(spark, lake_flights, name):
    uri = lake_flights.location.uri
    for number in range(3):
        lance.write_dataset(numbers(1, 20 + number), uri, mode="append")
    age_all(uri, 20)
    lance.write_dataset(numbers(1, 30), uri, mode="append")
    assert ask(spark, f"VACUUM {name.format('')} RETAIN 100000 HOURS") == []
    planned = ask(spark, f"VACUUM {name.format('')} DRY RUN")
    assert {row["outcome"] for row in planned} == {"would be deleted"}
    assert len(lance.dataset(uri).versions()) == 6
    lake_flights.tags.create("kept", version=3)
    done = ask(spark, f"VACUUM {name.format('')} RETAIN :hours HOURS", {"hours": 24 * 14})
    assert {row["kind"] for row in done} >= {"manifest"}
    assert [each["version"] for each in lance.dataset(uri).versions()] == [2, 3, 5, 6]
    assert lake_flights.count_rows() == 14


def test_cleanup_of_a_branch_leaves_the_others(spark, lake_flights, name):
    uri = lake_flights.location.uri
    exp = f"{uri}/tree/exp/delays"
    for number in range(3):
        lance.write_dataset(numbers(1, 20 + number), exp, mode="append")
    age_all(uri, 20)
    lance.write_dataset(numbers(1, 30), exp, mode="append")
    before = [each["version"] for each in lance.dataset(uri).versions()]
    ask(spark, f"VACUUM {name.format('@exp/delays')}")
    assert [each["version"] for each in lance.dataset(uri).versions()] == before
    assert lake_flights.checkout(branch="exp/delays").versions().count() == 2
    assert lake_flights.checkout(branch="exp/delays").count_rows() == 15
    with pytest.raises(Refused, match="never changes"):
        spark.sql(f"VACUUM {name.format('@2')}")


def test_restoring(spark, lake_flights, name):
    table = name.format("")
    spark.table(table).cache().count()
    done = ask(spark, f"RESTORE TABLE {table} TO VERSION AS OF 1")
    assert [(row["branch"], row["restored_version"], row["version"]) for row in done] == [("main", 1, 3)]
    assert spark.table(table).count() == 5
    assert ask(spark, f"RESTORE {table} VERSION AS OF 'v2013'")[0]["restored_version"] == 2
    assert spark.table(table).count() == 10
    spark.catalog.clearCache()


def test_restoring_a_moment(spark, lake_flights, name):
    lake_flights.branches.delete("exp/delays")
    first = lake_flights.log().entries[-1].timestamp
    moment = (first + timedelta(microseconds=1)).strftime("%Y-%m-%d %H:%M:%S.%f")
    restored = ask(spark, f"RESTORE TABLE {name.format('')} TO TIMESTAMP AS OF '{moment}'")
    assert column(restored, "restored_version") == [1]
    moment = (first - timedelta(days=1)).strftime("%Y-%m-%d")
    with pytest.raises(NotFound):
        spark.sql(f"RESTORE TABLE {name.format('')} TO TIMESTAMP AS OF date('{moment}')")
    text = f"RESTORE TABLE {name.format('')} TO TIMESTAMP AS OF :now - INTERVAL 0 HOURS"
    with pytest.raises(Refused, match="newest"):
        spark.sql(text, args={"now": first + timedelta(days=1)})


def test_a_branch_is_restored_by_its_own_name(spark, lake_flights, name):
    with pytest.raises(Refused, match="is a version of branch 'exp/delays'"):
        spark.sql(f"RESTORE TABLE {name.format('')} TO VERSION AS OF 'exp/delays@3'")
    lance.write_dataset(numbers(1, 50), f"{lake_flights.location.uri}/tree/exp/delays", mode="append")
    ask(spark, f"RESTORE TABLE {name.format('@exp/delays')} TO VERSION AS OF 3")
    assert lake_flights.checkout(branch="exp/delays").count_rows() == 11
    assert lake_flights.version == 2


def test_branches(spark, lake_flights, name):
    table = name.format("")
    made = ask(spark, f"ALTER TABLE {table} CREATE BRANCH audit/a AS OF VERSION 1 RETAIN 7 DAYS")
    assert made == [{"name": "audit/a", "parent_branch": "main", "parent_version": 1}]
    assert lake_flights.checkout(branch="audit/a").count_rows() == 5
    found = {each.name: each for each in lake_flights.branches.list()}
    assert found["audit/a"].lifetime.expire_after == timedelta(days=7)
    with pytest.raises(AlreadyExists):
        spark.sql(f"ALTER TABLE {table} CREATE BRANCH audit/a")
    assert ask(spark, f"ALTER TABLE {table} CREATE BRANCH IF NOT EXISTS audit/a") == made
    with pytest.raises(Refused, match="cannot be moved to another version"):
        spark.sql(f"ALTER TABLE {table} CREATE OR REPLACE BRANCH audit/a AS OF VERSION 2")
    with pytest.raises(NotFound):
        spark.sql(f"ALTER TABLE {table} REPLACE BRANCH nothing AS OF VERSION 2")
    ask(spark, f"ALTER TABLE {name.format('@exp/delays')} CREATE BRANCH b WITH SNAPSHOT RETENTION 3 SNAPSHOTS")
    assert lake_flights.checkout(branch="b").count_rows() == 11
    assert {each.name: each for each in lake_flights.branches.list()}["b"].lifetime.retain_versions == 3
    for branch in ("audit/a", "b"):
        ask(spark, f"ALTER TABLE {table} DROP BRANCH {branch}")
    ask(spark, f"ALTER TABLE {table} DROP BRANCH IF EXISTS b")
    with pytest.raises(NotFound):
        spark.sql(f"ALTER TABLE {table} DROP BRANCH b")
    assert [each.name for each in lake_flights.branches.list()] == ["exp/delays"]


def test_tags(spark, lake_flights, name):
    table = name.format("")
    made = ask(spark, f"ALTER TABLE {table} CREATE TAG `one` AS OF VERSION 1 RETAIN 30 DAYS")
    assert made == [{"name": "one", "branch": "main", "version": 1}]
    found = {each.name: each for each in lake_flights.tags.list()}
    assert found["one"].lifetime.expire_after == timedelta(days=30)
    with pytest.raises(AlreadyExists):
        spark.sql(f"ALTER TABLE {table} CREATE TAG one")
    assert ask(spark, f"ALTER TABLE {table} CREATE TAG IF NOT EXISTS one AS OF VERSION 2") == made
    ask(spark, f"ALTER TABLE {table} REPLACE TAG one AS OF VERSION 2")
    assert spark.table(name.format("@one")).count() == 10
    ask(spark, f"ALTER TABLE {table} CREATE OR REPLACE TAG one AS OF VERSION 'exp/delays@3'")
    assert spark.table(name.format("@one")).count() == 11
    ask(spark, f"ALTER TABLE {name.format('@exp/delays')} CREATE TAG IF NOT EXISTS two")
    assert spark.table(name.format("@two")).count() == 11
    with pytest.raises(NotFound):
        spark.sql(f"ALTER TABLE {table} REPLACE TAG nothing AS OF VERSION 2")
    for tag in ("one", "two"):
        ask(spark, f"ALTER TABLE {table} DROP TAG {tag}")
    ask(spark, f"ALTER TABLE {table} DROP TAG IF EXISTS two")
    assert [each.name for each in lake_flights.tags.list()] == ["v2013"]


def test_names_are_found_as_spark_finds_them(spark, lake_flights):
    spark.sql("USE lake.ns1")
    assert len(ask(spark, "DESCRIBE HISTORY flights")) == 2
    assert len(ask(spark, "DESCRIBE HISTORY ns1.flights")) == 2
    assert len(ask(spark, "DESCRIBE HISTORY IDENTIFIER(:t)", {"t": "lake.ns1.`flights@exp/delays`"})) == 3
    assert len(ask(spark, f"DESCRIBE HISTORY '{lake_flights.location.uri}'")) == 2
    with pytest.raises(NotFound, match="flihgts"):
        spark.sql("OPTIMIZE flihgts")
    with pytest.raises(NotFound, match="flihgts"):
        spark.sql("OPTIMIZE lake.ns1.flihgts")
    with pytest.raises(InvalidOption) as refusal:
        spark.sql("VACUUM flights RETAIN 7")
    assert refusal.value.hint.startswith("Its form is: VACUUM table [RETAIN n HOURS]")


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE delta.`/data/events`",
        "VACUUM '/data/events' RETAIN 168 HOURS",
        "VACUUM spark_catalog.default.events",
        "RESTORE TABLE delta.`/data/events` TO VERSION AS OF 1",
        "ALTER TABLE iceberg.db.t CREATE BRANCH b",
    ],
)
@pytest.mark.parametrize("current", ["spark_catalog", "lake"])
def test_statements_about_other_tables_are_sparks(spark, lake, text, current):
    spark.catalog.setCurrentCatalog(current)
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        spark.sql(text)


def test_a_table_of_the_current_catalog_is_sparks_where_that_is_not_ours(spark, lake):
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        spark.sql("OPTIMIZE events")


def test_a_column_of_a_table_called_history_is_described_by_spark(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.history (at INT COMMENT 'when')")
    spark.sql("USE lake.ns1")
    rows = {row["info_name"]: row["info_value"] for row in ask(spark, "DESCRIBE history at")}
    assert (rows["col_name"], rows["comment"]) == ("at", "when")


def test_the_tables_in_the_root_of_a_catalog_are_listed(spark, lake):
    make_dataset(lake.catalog.at("g").uri, numbers(1))
    lake.register_table("g", "g")
    spark.catalog.setCurrentCatalog("lake")
    for listed in (
        spark.catalog.listTables(),
        spark.catalog.listTables("lake"),
        spark.catalog.listTables(pattern="g*"),
    ):
        assert [(each.name, each.catalog, each.namespace, each.isTemporary) for each in listed] == [
            ("g", "lake", [], False)
        ]
    assert spark.catalog.listTables(pattern="x*") == []
    assert spark.catalog.listTables("ns1") == []


def test_one_string_is_one_column(lake_flights):
    table = LanceTable.for_path(lake_flights.location.uri, spark=lake_flights.spark)
    assert table.to_df(columns="id").columns == ["id"]
