"""Settings and defaults in merges that SQL runs, natively and on Spark Connect."""

import lance
import pytest
from pyspark.errors import PySparkException

from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(day=0)]
CONSTRAINT = "lance_spark.constraints.positive"


@pytest.fixture
def sides(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT, x INT)")
    spark.sql("INSERT INTO lake.ns1.t VALUES (1, 1), (2, 2)")
    main = lake.table("ns1.t")
    main.branches.create("exp")
    return main, main.checkout(branch="exp")


@pytest.mark.parametrize("step", ["theirs", "ours"])
@pytest.mark.parametrize("verb", ["merge_branch", "cherry_pick", "revert"])
def test_a_conflict_of_settings_says_how_to_go_on(spark, sides, verb, step):
    main, exp = sides
    uri = main.location.uri
    for table, condition in ((exp, "x >= 0"), (main, "x >= 0"), (main, None), (main, "x > 0")):
        _ = table.constraints.add("positive", condition) if condition else table.constraints.drop("positive")
    undone = lance.dataset(uri).version - 1
    typed = {
        "merge_branch": "merge_branch('ns1.t', 'exp'",
        "cherry_pick": f"cherry_pick('ns1.t', 'exp@{lance.dataset(uri).checkout_version(('exp', None)).version}'",
        "revert": f"revert('ns1.t', {undone}",
    }[verb]
    said = f"both sides changed setting '{CONSTRAINT}': 'x > 0' in ours, 'x >= 0' in theirs"
    with pytest.raises((PySparkException, LanceSparkError)) as refused:
        spark.sql(f"CALL lake.system.{typed})").collect()
    assert said in str(refused.value)
    assert "say whose is taken: prefer => 'theirs' or 'ours'" in str(refused.value)
    assert lance.dataset(uri).config()[CONSTRAINT] == "x > 0"
    spark.sql(f"CALL lake.system.{typed}, prefer => '{step}')").collect()
    assert lance.dataset(uri).config()[CONSTRAINT] == ("x >= 0" if step == "theirs" else "x > 0")


@pytest.mark.parametrize("adds", ["main", "exp"])
def test_a_merge_fills_in_the_default_of_a_new_column(spark, sides, adds):
    other = "exp" if adds == "main" else "main"
    spark.sql(f"ALTER TABLE lake.ns1.`t@{adds}` ADD COLUMN state STRING DEFAULT 'new'")
    spark.sql(f"INSERT INTO lake.ns1.`t@{other}` VALUES (3, 3)")
    (done,) = spark.sql("CALL lake.system.merge_branch('ns1.t', 'exp')").collect()
    assert not done.notes
    spark.sql("INSERT INTO lake.ns1.t VALUES (4, 4, DEFAULT)")
    rows = spark.sql("SELECT id, state FROM lake.ns1.t ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(key, "new") for key in (1, 2, 3, 4)]
    table, _ = sides
    with pytest.raises((PySparkException, LanceSparkError), match="CHECK old"):
        table.constraints.add("old", "state <> 'new'")
