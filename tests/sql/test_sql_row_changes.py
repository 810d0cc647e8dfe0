"""UPDATE, DELETE and MERGE in SQL. What they should have done is asked of Spark, over a copy in its own memory."""

import lance
import pytest
from pyspark.errors import AnalysisException
from support.sql_changes import asked, changed, stored

from lance_spark import errors

pytestmark = [
    pytest.mark.on_services,
    pytest.mark.spark,
    pytest.mark.on_connect,
    pytest.mark.when(oldest=0.06, newest=0.4),
]

ALL = "SELECT * FROM model"
UPDATES = {
    "all rows": ("UPDATE {t} SET v = 0", "SELECT id, k, 0 v, d, s FROM model", 8),
    "one column": (
        "UPDATE {t} SET v = v + id WHERE id % 2 = 0",
        "SELECT id, k, int(if(id % 2 = 0, v + id, v)), d, s FROM model",
        4,
    ),
    "several columns": (
        "UPDATE {t} SET k = upper(concat(k, '!')), v = NULL, d = v WHERE length(k) = 1 AND id > 2",
        "SELECT id, if(k IS NOT NULL AND id > 2, upper(concat(k, '!')), k), if(k IS NOT NULL AND id > 2, NULL, v), "
        "if(k IS NOT NULL AND id > 2, v, d), s FROM model",
        3,
    ),
    "nulls are neither": ("UPDATE {t} SET d = 9 WHERE v > 45", "SELECT id, k, v, if(v > 45, 9, d), s FROM model", 3),
    "not of nulls is neither": (
        "UPDATE {t} SET d = 9 WHERE NOT (v > 45)",
        "SELECT id, k, v, CASE WHEN v <= 45 THEN 9 ELSE d END, s FROM model",
        3,
    ),
    "null-safe equality": (
        "UPDATE {t} SET d = 9 WHERE v <=> NULL",
        "SELECT id, k, v, if(v IS NULL, 9, d), s FROM model",
        2,
    ),
    "NaN is NaN": (
        "UPDATE {t} SET v = -1 WHERE d = double('NaN')",
        "SELECT id, k, if(id IN (1, 6), -1, v), d, s FROM model",
        2,
    ),
    "a list from a query": (
        "UPDATE {t} SET v = -v WHERE id IN (SELECT id FROM src WHERE op = 'u')",
        "SELECT id, k, if(id IN (0, 2), -v, v), d, s FROM model",
        2,
    ),
    "a query about the row": (
        "UPDATE {t} AS t SET v = 1 WHERE EXISTS (SELECT 1 FROM src WHERE src.id = t.id AND src.v > t.v)",
        "SELECT id, k, if(id IN (0, 3, 4), 1, v), d, s FROM model",
        3,
    ),
    "a value from a query": (
        "UPDATE {t} SET v = (SELECT max(v) FROM src) WHERE id = 1",
        "SELECT id, k, if(id = 1, 1000, v), d, s FROM model",
        1,
    ),
    "a value from the table itself": (
        "UPDATE {t} SET v = (SELECT max(v) FROM {t}) WHERE v < (SELECT avg(v) FROM {t})",
        "SELECT id, k, if(v < 280.0 / 6, 80, v), d, s FROM model",
        3,
    ),
    "a field of a struct": (
        "UPDATE {t} SET s.a = s.a + 100 WHERE s.b = 'x'",
        "SELECT id, k, v, d, if(s.b = 'x', named_struct('a', s.a + 100, 'b', s.b), s) FROM model",
        3,
    ),
    "an alias": ("UPDATE {t} x SET x.v = 5 WHERE x.k = 'a'", "SELECT id, k, if(k = 'a', 5, v), d, s FROM model", 1),
    "comments before it": (
        "/* one /* in */ another */ -- and a line\n update {t} set v = 5 where id = 0; ",
        "SELECT id, k, if(id = 0, 5, v), d, s FROM model",
        1,
    ),
    "no row": ("UPDATE {t} SET v = 5 WHERE k = 'nobody'", ALL, 0),
}


SEEN_BY_SPARK = ("not of nulls is neither", "null-safe equality", "NaN is NaN", "an alias", "comments before it")
"""What these are about is done before the change begins, by Spark or by what test_sql_statements.py tests."""


@pytest.mark.when(night={"case": SEEN_BY_SPARK})
@pytest.mark.parametrize("case", UPDATES)
def test_updates(spark, target, case):
    statement, expected, count = UPDATES[case]
    version = lance.dataset(target).version
    assert changed(spark, statement.format(t="lake.ns1.t")) == (count, 0, 0)
    assert stored(target) == asked(spark, expected)
    assert lance.dataset(target).version == version + (count > 0)
    lance.dataset(target).validate()


DELETES = {
    "what Lance understands": ("DELETE FROM {t} WHERE id > 5 OR k IS NULL", "id <= 5 AND k IS NOT NULL", 3),
    "a function": ("DELETE FROM {t} WHERE id % 3 = 1", "id % 3 <> 1", 3),
    "two columns": ("DELETE FROM {t} WHERE v > id * 11", "NOT coalesce(v > id * 11, false)", 6),
    "a list from a query": ("DELETE FROM {t} WHERE k IN (SELECT k FROM src)", "id NOT IN (0, 4)", 2),
    "not in a list with null": ("DELETE FROM {t} WHERE id NOT IN (SELECT id FROM src)", "true", 0),
    "a query about the row": (
        "DELETE FROM {t} x WHERE NOT EXISTS (SELECT * FROM src WHERE src.id = x.id)",
        "id IN (0, 2, 3, 4)",
        4,
    ),
    "a whole fragment": ("DELETE FROM {t} WHERE abs(id) <= 2", "id > 2", 3),
    "all rows": ("DELETE FROM {t}", "false", 8),
    "no row": ("DELETE FROM {t} WHERE id * 2 = 1", "true", 0),
}


@pytest.mark.parametrize("case", DELETES)
def test_deletes(spark, target, case):
    statement, stays, count = DELETES[case]
    assert changed(spark, statement.format(t="lake.ns1.t")) == (0, count, 0)
    assert stored(target) == asked(spark, f"{ALL} WHERE {stays}")


MERGES = {
    "update and insert": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k, t.v = s.v + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)",
        "SELECT id, CASE id WHEN 2 THEN NULL WHEN 3 THEN 'd' ELSE k END, CASE id WHEN 0 THEN 101 WHEN 2 THEN NULL "
        "WHEN 3 THEN 301 WHEN 4 THEN 401 ELSE v END, d, s FROM model "
        "UNION ALL SELECT id, k, NULL, NULL, NULL FROM src WHERE id > 10 OR id IS NULL",
        (4, 0, 3),
    ),
    "star actions": (
        "MERGE INTO {t} USING (SELECT id, k, v, double(v) AS d, named_struct('a', v, 'b', k) AS s FROM src) s "
        "ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        f"{ALL} WHERE id NOT IN (0, 2, 3, 4) UNION ALL SELECT id, k, v, v, named_struct('a', v, 'b', k) FROM src",
        (4, 0, 3),
    ),
    "of several clauses the first that holds": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE "
        "WHEN MATCHED AND s.v > 200 THEN UPDATE SET v = 1 WHEN MATCHED AND s.op = 'u' THEN UPDATE SET v = 2 "
        "WHEN NOT MATCHED AND s.v > 10 THEN INSERT (id, v) VALUES (s.id, 3) "
        "WHEN NOT MATCHED AND s.id IS NOT NULL THEN INSERT (id, v) VALUES (s.id, 4)",
        "SELECT id, k, CASE WHEN id = 4 THEN 1 WHEN id IN (0, 2) THEN 2 ELSE v END, d, s FROM model WHERE id <> 3 "
        "UNION ALL VALUES (100, NULL, 3, NULL, NULL), (101, NULL, 4, NULL, NULL)",
        (3, 1, 2),
    ),
    "delete what matches": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"{ALL} WHERE id NOT IN (0, 2, 3, 4)",
        (0, 4, 0),
    ),
    "delete what matches more than once": (
        "MERGE INTO {t} t USING (SELECT * FROM src UNION ALL SELECT * FROM src) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        f"{ALL} WHERE id NOT IN (0, 2, 3, 4) UNION ALL SELECT id, NULL, NULL, NULL, NULL FROM "
        "VALUES (100), (100), (101), (101), (NULL), (NULL) AS x(id)",
        (0, 4, 6),
    ),
    "several match, but one clause holds": (
        "MERGE INTO {t} t USING (SELECT id, v FROM src UNION ALL SELECT id, 0 FROM src) s ON t.id = s.id "
        "WHEN MATCHED AND s.v > 0 THEN UPDATE SET v = s.v",
        "SELECT id, k, CASE id WHEN 0 THEN 100 WHEN 3 THEN 300 WHEN 4 THEN 400 ELSE v END, d, s FROM model",
        (3, 0, 0),
    ),
    "not matched by the source": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED BY SOURCE AND t.k IS NULL THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -1",
        "SELECT id, k, CASE id WHEN 0 THEN 100 WHEN 2 THEN NULL WHEN 3 THEN 300 WHEN 4 THEN 400 ELSE -1 END, d, s "
        "FROM model WHERE id <> 7",
        (7, 1, 0),
    ),
    "all three": (
        "MERGE INTO {t} t USING src s ON t.id = s.id AND s.op = 'u' WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED AND s.id > 100 THEN INSERT (id, k) VALUES (s.id, 'new') "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 5 THEN UPDATE SET k = 'old'",
        "SELECT id, if(id > 5, 'old', k), v, d, s FROM model WHERE id NOT IN (0, 2) "
        "UNION ALL VALUES (101, 'new', NULL, NULL, NULL)",
        (2, 2, 1),
    ),
    "insert only": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        f"{ALL} UNION ALL SELECT id, NULL, v, NULL, NULL FROM src WHERE id > 10 OR id IS NULL",
        (0, 0, 3),
    ),
    "insert only, by two clauses": (
        "MERGE INTO {t} t USING src s ON t.id = s.id WHEN NOT MATCHED AND s.v IS NULL THEN INSERT (id) VALUES (s.id) "
        "WHEN NOT MATCHED AND s.k = 'n' THEN INSERT (id, k) VALUES (s.id, 'one')",
        f"{ALL} UNION ALL VALUES (100, 'one', NULL, NULL, NULL), (101, NULL, NULL, NULL, NULL)",
        (0, 0, 2),
    ),
    "null keys match nothing": (
        "MERGE INTO {t} t USING (SELECT * FROM src WHERE id < 1000) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v",
        "SELECT id, k, CASE id WHEN 0 THEN 100 WHEN 4 THEN 400 ELSE v END, d, s FROM model",
        (2, 0, 0),
    ),
    "null keys match by null-safe equality": (
        "MERGE INTO {t} t USING (SELECT * FROM src WHERE id = 2) s ON t.k <=> s.k WHEN MATCHED THEN UPDATE SET v = 5",
        "SELECT id, k, if(k IS NULL, 5, v), d, s FROM model",
        (2, 0, 0),
    ),
    "any condition": (
        "MERGE INTO {t} t USING (SELECT 3 AS low, 5 AS high) s ON t.id BETWEEN s.low AND s.high AND t.v > 0 "
        "WHEN MATCHED THEN UPDATE SET v = 0",
        "SELECT id, k, if(id IN (3, 4), 0, v), d, s FROM model",
        (2, 0, 0),
    ),
    "WITH before it": (
        "WITH s AS (SELECT id, v FROM src WHERE op = 'u') MERGE INTO {t} t USING s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v",
        "SELECT id, k, CASE id WHEN 0 THEN 100 WHEN 2 THEN NULL ELSE v END, d, s FROM model",
        (2, 0, 0),
    ),
    "WITH in the source": (
        "MERGE INTO {t} t USING (WITH x AS (SELECT id, v FROM src) SELECT a.id, b.v FROM x a JOIN x b ON a.id = b.id) "
        "s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        "SELECT id, k, CASE id WHEN 0 THEN 100 WHEN 2 THEN NULL WHEN 3 THEN 300 WHEN 4 THEN 400 ELSE v END, d, s "
        "FROM model UNION ALL VALUES (100, NULL, 1000, NULL, NULL), (101, NULL, NULL, NULL, NULL)",
        (4, 0, 2),
    ),
    "the table is its own source": (
        "MERGE INTO {t} t USING (SELECT id + 6 AS id, v FROM {t}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED AND s.id > 12 THEN INSERT (id, v) VALUES (s.id, s.v)",
        "SELECT id, k, CASE id WHEN 6 THEN 10 WHEN 7 THEN NULL ELSE v END, d, s FROM model "
        "UNION ALL VALUES (13, NULL, 80, NULL, NULL)",
        (2, 0, 1),
    ),
    "no row": ("MERGE INTO {t} t USING src s ON t.id = s.id + 1000 WHEN MATCHED THEN DELETE", ALL, (0, 0, 0)),
}


SAME_WAY = (
    "any condition",
    "WITH in the source",
    "null keys match by null-safe equality",
    "insert only, by two clauses",
)
"""Other cases take the same way."""


@pytest.mark.when(night={"case": SAME_WAY})
@pytest.mark.parametrize("case", MERGES)
def test_merges(spark, target, case):
    statement, expected, counts = MERGES[case]
    version = lance.dataset(target).version
    assert changed(spark, statement.format(t="lake.ns1.t")) == counts
    assert stored(target) == asked(spark, expected)
    assert lance.dataset(target).version == version + (sum(counts) > 0)
    lance.dataset(target).validate()


def test_two_source_rows_for_one_row_are_refused_with_its_key(spark, target):
    version = lance.dataset(target).version
    with pytest.raises(errors.Refused) as caught:
        spark.sql(
            "MERGE INTO lake.ns1.t t USING (SELECT * FROM src UNION ALL SELECT 4, 'e', 5, 'u') s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v"
        )
    assert "id" in str(caught.value)
    assert "4" in str(caught.value)
    assert lance.dataset(target).version == version


PARAMETERS = {
    "named": ("UPDATE lake.ns1.t SET v = :new WHERE k = :k AND v < :high", {"new": 5, "k": "a", "high": 11.5}),
    "positional": ("UPDATE lake.ns1.t SET v = ? WHERE k = ? AND v < ?", [5, "a", 11.5]),
    "of a query": (
        "WITH x AS (SELECT id FROM src WHERE k = :k) UPDATE lake.ns1.t SET v = :new WHERE id IN (SELECT id FROM x)",
        {"new": 5, "k": "a"},
    ),
    "of a merge": (
        "MERGE INTO lake.ns1.t t USING (SELECT * FROM src WHERE k = ? AND id = ?) s ON t.id = s.id "
        "WHEN MATCHED AND s.op = ? THEN UPDATE SET v = ?",
        ["a", 0, "u", 5],
    ),
    "expressions": ("UPDATE lake.ns1.t SET v = element_at(:new, 1) WHERE k = :k", {"new": [5, 6], "k": "a"}),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters(spark, target, case):
    statement, args = PARAMETERS[case]
    assert changed(spark, statement, args=args) == (1, 0, 0)
    assert stored(target) == asked(spark, "SELECT id, k, if(id = 0, 5, v), d, s FROM model")


def test_parameters_of_deletes_and_of_what_is_missing(spark, target):
    assert changed(spark, "DELETE FROM lake.ns1.t WHERE id IN (:a, :b)", args={"a": 1, "b": 2}) == (0, 2, 0)
    for statement, args in (
        ("UPDATE lake.ns1.t SET v = :new", None),
        ("UPDATE lake.ns1.t SET v = :new", {"other": 1}),
        ("UPDATE lake.ns1.t SET v = ? WHERE k = ?", [1]),
    ):
        with pytest.raises(AnalysisException) as caught:
            spark.sql(statement, args)
        assert caught.value.getCondition() == "UNBOUND_SQL_PARAMETER"
    assert stored(target) == asked(spark, f"{ALL} WHERE id NOT IN (1, 2)")


def test_frames_in_braces(spark, target):
    source = spark.createDataFrame([(0, 7), (9, 8)], "id BIGINT, v INT")
    statement = (
        "MERGE INTO lake.ns1.t t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v + {more})"
    )
    views = spark.catalog.listTables()
    assert changed(spark, statement, source=source, more=1) == (1, 0, 1)
    assert spark.catalog.listTables() == views
    assert stored(target) == asked(
        spark, "SELECT id, k, if(id = 0, 7, v), d, s FROM model UNION ALL VALUES (9, NULL, 9, NULL, NULL)"
    )


PLACES = {
    "lake.ns1.t": None,
    "lake.ns1.`t@main`": None,
    "lake.ns1.`t@exp`": "exp",
    "lance.`{uri}`": None,
    "lance.`{uri}@exp`": "exp",
}


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("name", PLACES)
def test_branches_and_paths(spark, target, name):
    branch = PLACES[name]
    place = name.format(uri=target)
    before = stored(target, "exp" if branch is None else None)
    assert changed(spark, f"UPDATE {place} SET v = 1 WHERE length(k) = 1") == (6, 0, 0)
    assert changed(spark, f"DELETE FROM {place} WHERE id % 4 = 3") == (0, 2, 0)
    merge = f"MERGE INTO {place} t USING src s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN "
    assert changed(spark, f"{merge} INSERT (id, v) VALUES (s.id, s.v)") == (0, 3, 4)
    expected = (
        "SELECT id, k, if(k IS NULL, v, 1), d, s FROM model WHERE id IN (1, 5, 6) "
        "UNION ALL SELECT id, NULL, v, NULL, NULL FROM src WHERE id IN (3, 100, 101) OR id IS NULL"
    )
    assert stored(target, branch) == asked(spark, expected)
    assert stored(target, "exp" if branch is None else None) == before
