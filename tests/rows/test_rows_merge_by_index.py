"""Merges whose rows are found through an index: the same rows as through a join. Also on the oldest Spark."""

import pytest
from pyspark.errors import AnalysisException
from support.merge_cases import CASES, check_merge
from support.row_changes import changing_table, rows_of

from lance_spark import LanceTable
from lance_spark.rows import merge_spark
from lance_spark.rows.merge_spark import looked_up

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.3)]

# Through an index and through a join the clauses are the same code: a few of them show that both find the same rows.
# Of one case the plan of Spark 4.0 does not tell which columns it needs, so that rows are joined there.
BY_INDEX = [
    name
    for name, (on, _, clauses) in CASES.items()
    if on == "id" and "by_source" not in str(clauses) and name != "values are those from before"
]


BY_DAY = {
    "upsert",
    "the first clause whose condition is true",
    "keys that are null are inserted",
    "set columns by both sides",
}


@pytest.mark.when(day={"name": BY_DAY})
@pytest.mark.parametrize("name", BY_INDEX)
def test_a_merge_through_an_index_does_what_the_model_does(spark, uri, name, monkeypatch):
    known, taken = [], []
    monkeypatch.setattr(merge_spark.action_rules, "uses_index", lambda found: known.append(found) or True)
    monkeypatch.setattr(merge_spark, "looked_up", lambda *given: taken.append(given[-1]) or looked_up(*given))
    check_merge(spark, uri, name)
    assert (known[0].rows, known[0].outside) == (29, 10)
    (columns,) = taken
    assert set(columns) <= {"id", "x", "day"}
    assert name != "upsert" or columns == ["id"]


@pytest.mark.when(oldest=1.0)
def test_which_columns_a_merge_may_leave_unqualified(spark, uri, monkeypatch):
    location = changing_table(uri, "exp", stable=False)
    table = LanceTable.for_path(uri, spark=spark).checkout(branch="exp")
    gone = spark.createDataFrame([(1, True), (2, False)], "id bigint, gone boolean")
    for indexed in (False, True):
        monkeypatch.setattr(merge_spark.action_rules, "uses_index", lambda _, indexed=indexed: indexed)
        with pytest.raises(AnalysisException, match="AMBIGUOUS_REFERENCE"):
            table.merge(gone, on="id").when_matched_delete("id = 1").execute()
        change = table.merge(gone, on="id").when_matched_update({"x": "9"}, "gone AND day = 'mon'")
        assert change.execute().rows_updated == 1
    assert [row["id"] for row in rows_of(location, "exp") if row["x"] == 9] == [1]


def test_a_source_whose_column_is_named_as_a_side(spark, uri, monkeypatch):
    location = changing_table(uri, "exp", stable=False)
    table = LanceTable.for_path(uri, spark=spark).checkout(branch="exp")
    monkeypatch.setattr(merge_spark.action_rules, "uses_index", lambda _: True)
    named = spark.createDataFrame([(1, True), (2, False)], "id bigint, target boolean")
    assert table.merge(named, on="id").when_matched_delete("source.target").execute().rows_deleted == 1
    assert 1 not in [row["id"] for row in rows_of(location, "exp")]
