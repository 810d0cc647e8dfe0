"""``LanceTable.query``: the answers of the plain read, from less of the table, at one version."""

import lance
import pyarrow as pa
import pytest
from support.table_queries import QUERIES, SCHEMA, rows

from lance_spark import LanceTable, register
from lance_spark.session import narrow_query

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0, newest=0.45)]


@pytest.fixture(scope="module")
def plain(spark):
    """The session without its JVM, as Spark Connect has none either."""
    session = spark.newSession()
    register(session, native=False)
    return session


@pytest.fixture(scope="module")
def table(plain, tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("queried") / "t.lance")
    lance.write_dataset(rows(), uri, max_rows_per_file=150).create_scalar_index("id", "BTREE")
    return LanceTable.for_path(uri, spark=plain)


@pytest.fixture
def seen(monkeypatch):
    """What was found out about each query."""
    found, own = [], narrow_query.needs

    def needs(*arguments):
        found.append(own(*arguments))
        return found[-1]

    monkeypatch.setattr(narrow_query, "needs", needs)
    return found


def answer(frame):
    return sorted(map(repr, frame.collect())), frame.schema


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("name", QUERIES)
def test_a_narrowed_query_answers_as_the_plain_one(table, seen, name):
    needed = QUERIES[name]
    found = answer(table.query(needed.query))
    expected = answer(needed.query(table.to_df()))
    if needed.limit is None and name != "limit of matches":  # any rows will do
        assert found == expected
    else:
        assert (len(found[0]), found[1]) == (len(expected[0]), expected[1])
    (narrowed,) = seen
    assert (narrowed.columns and set(narrowed.columns)) == (needed.columns and set(needed.columns))
    assert (narrowed.filter is None) == (needed.filter is None)
    assert narrowed.limit == needed.limit


def test_a_session_made_from_one_that_asked_reads_narrowly_too(plain, table, seen):
    """Spark refuses a name that the active session knows, although this one does not."""
    child = plain.newSession()
    register(child, native=False)
    for session in (plain, child):
        LanceTable.for_path(table.location.uri, spark=session).query(
            lambda frame: frame.where("id = 17").select("never")
        )
    assert [found.columns is not None for found in seen] == [True, True]


def test_a_query_stays_at_one_version_and_is_read_narrowly(plain, tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(), uri)
    table = LanceTable.for_path(uri, spark=plain)

    def asked(frame):
        lance.write_dataset(rows(), uri, mode="append")  # between the look at the plan and the read, and after it
        return frame.where("id = 17").select("never")

    frame = table.query(asked)
    assert [row.never for row in frame.collect()] == [17]
    assert len(table.query(lambda frame: frame.where("id = 17").select("never")).collect()) == 3
    plan = frame.sparkSession.sql("EXPLAIN EXTENDED SELECT * FROM {frame}", frame=frame).first()[0]
    leaf = next(line for line in plan.split("== Optimized")[1].splitlines() if "RelationV2" in line)
    assert "never#" in leaf
    assert "person#" not in leaf


def test_columns_with_odd_names_and_types_are_narrowed_too(plain, tmp_path):
    odd = pa.table({"a,b": [1, 2], "two words": ["x", "y"], "B": [5, 6], "v": [[1.0], [2.0]]})
    lance.write_dataset(odd, str(tmp_path / "odd.lance"))
    table = LanceTable.for_path(str(tmp_path / "odd.lance"), spark=plain)
    found = table.query(lambda frame: frame.where("b > 5").select("`a,b`", "`two words`"))
    assert [tuple(row) for row in found.collect()] == [(2, "y")]
    assert table.query(lambda frame: frame.groupBy().count()).first()[0] == 2


def test_errors_of_the_query_are_its_own(table):
    with pytest.raises(Exception, match="no_such_column"):
        table.query(lambda frame: frame.select("no_such_column"))
    kept = []
    table.query(lambda frame: (kept.append(frame), frame)[1])
    with pytest.raises(Exception, match="only shows what a query needs"):
        kept[0].collect()


def test_a_native_session_reads_natively(spark, table):
    register(spark)
    handle = LanceTable.for_path(table.location.uri, spark=spark)
    calls = []
    found = handle.query(lambda frame: (calls.append(1), frame.where("id = 17"))[1])
    assert [row.never for row in found.collect()] == [17]
    assert len(calls) == 1
    assert found.schema.names == SCHEMA.names
