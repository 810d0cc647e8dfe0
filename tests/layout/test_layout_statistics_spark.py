"""Statistics of columns: measured once for each file, known of any version and branch, and told to the optimizer."""

import random
from pathlib import Path

import lance
import pytest
from support.kinds import NIGHT
from support.told_statistics import told

from lance_spark import errors
from lance_spark.native import scan

pytestmark = [pytest.mark.spark]
ROWS = (
    "SELECT id, CAST(id % 100 AS INT) AS k, IF(id % 4 = 0, NULL, id % 10) AS n, concat('name ', id % 7) AS c, "
    "CAST(id AS DECIMAL(12, 2)) AS x, DATE'2026-01-01' + CAST(id % 50 AS INT) AS d, id % 2 = 0 AS o, "
    "timestamp_seconds(id) AS ts, CAST(id % 3 AS DOUBLE) AS f FROM range(20000)"
)


@pytest.fixture
def costs(spark, monkeypatch):
    """The session with an optimizer that weighs costs, and tables read by tasks."""
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    spark.conf.set("spark.sql.cbo.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.cbo.enabled")


def near(number, exact, part=0.06):
    return abs(int(number) - exact) <= max(2, part * exact)


def test_statistics_reach_the_optimizer(costs, lake, monkeypatch):
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {ROWS}")
    assert told(spark, "SELECT * FROM lake.ns1.t") == (20000, {})
    found = spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR ALL COLUMNS").collect()
    rows = {row.col_name: row for row in found}
    assert [*rows] == ["id", "k", "n", "c", "x", "d", "o", "ts", "f"]
    assert (rows["n"].num_nulls, rows["c"].max_col_len, rows["d"].max) == (5000, 6, "2026-02-19")
    count, columns = told(spark, "SELECT * FROM lake.ns1.t")
    assert count == 20000
    exact = {"id": 20000, "k": 100, "n": 10, "c": 7, "x": 20000, "d": 50, "o": 2, "ts": 20000, "f": 3}
    assert {name: near(columns[name][0], number) for name, number in exact.items()} == dict.fromkeys(exact, True)
    assert columns["k"][1:] == ("0", "0", "99")
    assert columns["n"][1:] == ("5000", "0", "9")
    assert columns["c"][1:] == ("0", None, None)
    assert columns["x"][2:] == ("0.00", "19999.00")
    assert columns["o"][2:] == ("false", "true")
    assert columns["ts"][2:] == ("0", "19999000000")
    assert columns["f"][2:] == ("0.0", "2.0")
    assert near(told(spark, "SELECT * FROM lake.ns1.t WHERE k = 5")[0], 200)
    assert near(told(spark, "SELECT * FROM lake.ns1.t WHERE id >= 15000 AND k < 50")[0], 2500, 0.1)
    shown = {row.info_name: row.info_value for row in spark.sql("DESCRIBE EXTENDED lake.ns1.t k").collect()}
    assert near(shown["distinct_count"], 100)
    assert shown["num_nulls"] == "0"
    monkeypatch.setattr(scan, "SMALL_ROWS", 0)  # filters are left to the scan
    assert near(told(spark, "SELECT * FROM lake.ns1.t WHERE k = 5")[0], 200)
    assert near(told(spark, "SELECT * FROM lake.ns1.t WHERE id >= 15000 AND k < 50")[0], 2500, 0.1)
    assert told(spark, "SELECT id, k FROM lake.ns1.t WHERE k IN (1, 2)")[1]["k"][0] == "2"


@pytest.mark.when(day=0)
def test_what_was_measured_once_serves_every_version_and_branch(costs, lake):
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {ROWS}")
    t = lake.table("ns1.t")
    made = t.version
    assert t.analyze("id", "k").measured == len(lance.dataset(t.location.uri).get_fragments())
    assert t.version == made
    assert t.analyze("k").measured == 0
    t.branches.create("exp")
    spark.sql(
        "INSERT INTO lake.ns1.`t@exp` "
        "SELECT id + 20000, 1, 1, 'a', 1, DATE'2026-01-01', true, now(), 1 FROM range(5000)"
    )
    count, columns = told(spark, "SELECT * FROM lake.ns1.`t@exp`")
    assert count == 25000
    assert near(columns["id"][0], 25000)  # nearly a key, and so it goes on
    assert near(columns["k"][0], 100)
    assert columns["id"][2:] == ("-19999", "39998")  # those of new rows are guessed
    uri = t.location.uri
    lance.write_dataset(lance.dataset(uri).to_table(limit=100), uri, mode="append")
    lance.dataset(uri).delete("id >= 10000")
    count, columns = told(spark, "SELECT * FROM lake.ns1.t")
    assert (count, near(columns["id"][0], 10100, 0.02)) == (10100, True)
    assert t.checkout(branch="exp").analyze("id", "k").measured >= 1
    assert told(spark, "SELECT * FROM lake.ns1.`t@exp`")[1]["id"][2:] == ("0", "24999")
    t.optimize()
    assert t.analyze("id", "k").measured in (0, 1)  # the appended file was not known before
    assert near(told(spark, "SELECT * FROM lake.ns1.t")[1]["k"][0], 100)


@pytest.mark.when(day=0)
def test_wrong_or_damaged_statistics_change_no_answer(costs, lake):
    """Ends that are too wide, and files that are damaged: Spark plans with them, and answers from the rows."""
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {ROWS}")
    t = lake.table("ns1.t")
    t.analyze()
    spark.sql("DELETE FROM lake.ns1.t WHERE id < 10 OR id > 15000")
    spark.sql("UPDATE lake.ns1.t SET k = 1000 WHERE id = 20")
    query = "SELECT min(id), max(id), count(DISTINCT k), max(k), count(n), sum(x), min(c) FROM lake.ns1.t"
    right = spark.sql(
        "SELECT min(id), max(id), 101L, 1000, count(n), sum(x), min(c) FROM ("
        + ROWS
        + ") WHERE id BETWEEN 10 AND 15000"
    )
    assert spark.sql(query).collect() == right.collect()
    assert spark.sql("SELECT count(*) FROM lake.ns1.t WHERE k = 1000").first()[0] == 1
    assert spark.sql("SELECT max(k) FROM lake.ns1.t WHERE k > 99").first()[0] == 1000
    for file in Path(t.location.uri, "_facts").glob("*.statistics"):  # a new name: a file that was read never changes
        file.with_name(f"damaged-{file.name}").write_bytes(file.read_bytes()[:-7])
        file.unlink()
    lance.dataset(t.location.uri).delete("id = 21")
    assert told(spark, "SELECT * FROM lake.ns1.t") == (14990, {})
    assert t.analyze("k").columns[0].num_nulls == 0


@pytest.mark.when(day=0)
def test_what_cannot_be_measured_is_refused(lake, spark):
    spark.sql("CREATE TABLE lake.ns1.t AS SELECT 1 AS id, array(1) AS a")
    t = lake.table("ns1.t")
    with pytest.raises(errors.InvalidOption, match="There is no column 'ib'"):
        t.analyze("ib")
    with pytest.raises(errors.InvalidOption, match="Nothing can be counted in column 'a'"):
        t.analyze("a")
    with pytest.raises(errors.InvalidOption, match="ANALYZE TABLE cannot be read at 'FOR'"):
        spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR nothing")
    assert spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS").count() == 0
    called = spark.sql("CALL lake.system.analyze(table => 'ns1.t', columns => array('id'))").first()
    assert (called.col_name, called.distinct_count, called.min) == ("id", 1, "1")


def change(spark, t, choose, step):
    uri = t.location.uri
    if step == "append":
        spark.sql(f"INSERT INTO lake.ns1.t {ROWS.replace('(20000)', f'(20000, {choose.choice([21000, 30000])})')}")
    elif step == "append by pylance":
        lance.write_dataset(lance.dataset(uri).to_table(limit=500), uri, mode="append")
    elif step == "delete":
        spark.sql(f"DELETE FROM lake.ns1.t WHERE id % 9 = {choose.randrange(9)}")
    elif step == "update":
        spark.sql(f"UPDATE lake.ns1.t SET n = 3 WHERE id % 8 = {choose.randrange(8)}")
    elif step == "compact by pylance":
        lance.dataset(uri).optimize.compact_files()
    else:
        getattr(t, step)()


STEPS = ("append", "append by pylance", "delete", "update", "compact by pylance", "optimize", "analyze")


@pytest.mark.when(day=0)
@pytest.mark.parametrize("seed", range(12) if NIGHT else range(2))
def test_random_tables_have_nearly_the_exact_numbers(costs, lake, seed):
    """After changes of several writers."""
    spark, choose = costs, random.Random(seed)
    spark.sql(f"CREATE TABLE lake.ns1.t AS {ROWS}")
    t = lake.table("ns1.t")
    t.analyze()
    done = choose.choices(STEPS, k=4)
    for step in done:
        change(spark, t, choose, step)
    count, columns = told(spark, "SELECT * FROM lake.ns1.t")
    rows = spark.table("lake.ns1.t").toArrow()
    assert count == rows.num_rows
    for name, (distinct, nulls, low, _) in columns.items():
        values = rows[name]
        exact = len(values.drop_null().unique())
        assert 0.9 * exact - 2 <= int(distinct) <= 1.6 * exact + 2, (name, done)
        if "update" not in done:  # rows that are replaced count on in their old files
            assert abs(int(nulls) - values.null_count) <= max(5, 0.5 * values.null_count), (name, done)
        if low is not None and name == "id":
            assert int(low) <= min(values.to_pylist()), done
