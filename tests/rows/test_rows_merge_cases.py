"""MERGE on Spark's executors: a table of cases beside a plain model, and columns that only one side has."""

import lance
import pytest
from pyspark.errors import AnalysisException
from support.merge_cases import CASES, check_merge
from support.row_changes import changing_table, check_table, rows_of

from lance_spark import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", newest=0.45)]

FOR_THE_NIGHT = (
    "a condition that never holds, and a constant one",
    "several rows delete one row under a condition",
    "one of several rows deletes and none updates",
    "nothing is to be done for rows that match",
)
"""Other cases take the same way."""


@pytest.mark.when(day=0.4)
@pytest.mark.when(night={"name": FOR_THE_NIGHT})
@pytest.mark.parametrize("name", CASES)
def test_a_merge_does_what_the_model_does(spark, uri, name):
    check_merge(spark, uri, name)


def test_columns_that_only_one_side_has(spark, uri):
    """Those of the table stay or are null, and those of the source are not written: the table keeps its schema."""
    location = changing_table(uri, "exp", stable=True)
    before, schema = rows_of(location, "exp"), lance.dataset(location.branch_uri("exp")).schema
    table = LanceTable.for_path(uri, spark=spark).checkout(branch="exp")
    given = spark.createDataFrame([(1, 5, "new"), (70, 6, "new")], "id bigint, x int, remark string")
    merge = table.merge(given, on="id").when_matched_update_all("source.remark = 'new'")
    result = merge.when_not_matched_insert_all("source.remark <> 'old'").execute()
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert lance.dataset(location.branch_uri("exp")).schema == schema
    after = [{**row, "x": 5} if row["id"] == 1 else row for row in before]
    check_table(location, "exp", [*after, {"id": 70, "x": 6, "day": None}])


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        (lambda merge: merge.when_not_matched_insert({"id": "target.id"}), "target"),
        (lambda merge: merge.when_not_matched_by_source_update({"x": "source.x"}), "source"),
    ],
    ids=["insert", "not matched by source"],
)
def test_a_clause_that_names_the_side_where_its_rows_are_not(spark, uri, clause, words):
    """Before, every such value was null."""
    changing_table(uri, "exp", stable=False)
    table = LanceTable.for_path(uri, spark=spark).checkout(branch="exp")
    given = spark.createDataFrame([(1, 5, "a")], "id bigint, x int, day string")
    with pytest.raises(AnalysisException, match=words):
        clause(table.merge(given, on="id")).execute()


def test_the_case_of_names_does_not_matter(spark, uri):
    """Before, values of a column in another case were lost, and rows of nulls inserted."""
    spark.createDataFrame([(1, "a"), (2, "b")], "id int, Name string").write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    given = spark.createDataFrame([(1, "new"), (3, "c")], "ID int, NAME string")
    for key in ("id", "ID", ["Id"]):
        merge = table.merge(given, on=key).when_matched_update_all("source.NAME = 'new'")
        merge.when_not_matched_insert_all().execute()
        assert sorted(map(tuple, table.to_df().collect())) == [(1, "new"), (2, "b"), (3, "c")]
    table.merge(given, on="ID").when_matched_update({"NAME": "upper(target.name)"}).execute()
    assert lance.dataset(uri).to_table(filter="id = 1")["Name"].to_pylist() == ["NEW"]
