"""Compaction on Spark's executors: tasks, results and conditions cross, and pylance reads what they made."""

import lance
import pyarrow as pa
import pytest
from support.small_fragments import all_covered, append, check_rows, covered, fragmented, sizes

from lance_spark import LanceTable
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import Work
from lance_spark.engine.session_spark import engine_for
from lance_spark.errors import InvalidOption, Refused
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", sample=0.1)]


@pytest.mark.parametrize("stable", [True, False], ids=["stable", "plain"])
def test_a_branch_with_what_it_inherited(spark, uri, stable):
    location, engine = fragmented(uri, stable), engine_for("spark", lambda: spark, parallelism=2)
    root = location.branch_uri("exp")
    lance.dataset(root).delete("id % 10 = 5")
    options = OptimizeOptions(target_rows=18, own_only=False, partial_progress=2, where="id < 60")
    result = optimize(location, "exp", options, engine)
    assert (result.fragments_removed, result.fragments_added, result.commits, result.conflicts) == (6, 3, 2, ())
    check_rows(root, [key for key in range(80) if key % 10 != 5])
    assert sorted(sizes(root)) == [9, 9, 18, 18, 18]
    lance.dataset(root).optimize.optimize_indices()
    assert covered(root) == all_covered(root)
    check_rows(uri, range(40))
    with pytest.raises(InvalidOption):
        optimize(location, "exp", OptimizeOptions(where="nothing = 1"), engine)


def test_the_verb_of_a_handle(spark, uri):
    fragmented(uri, stable=False)
    append(uri, 40, 2)
    table = LanceTable.for_path(uri, spark=spark)
    assert table.optimize().fragments_removed == 6
    check_rows(uri, range(60))
    assert table.checkout(branch="exp").optimize(where="id >= 60").rows == 20
    for standing in (table.checkout(version=1), table.checkout(branch="exp", version=9)):
        with pytest.raises(Refused, match="pinned to a tag or version"):
            standing.optimize()
    assert LanceTable.for_path(uri).optimize().commits == 0


@pytest.mark.parametrize(("kind", "stable"), [("sort_by", True), ("zorder", False)])
def test_another_order_on_executors(spark, uri, kind, stable):
    fragmented(uri, stable, inherited=8, own=0)
    lance.dataset(uri).delete("id = 7")
    before = lance.dataset(uri).to_table(with_row_id=stable).sort_by("id")
    engine = engine_for("spark", lambda: spark, parallelism=2)
    result = optimize(DatasetLocation.at(uri), None, OptimizeOptions(target_rows=20, **{kind: ["k", "s"]}), engine)
    assert (result.fragments_removed, result.fragments_added, result.rows) == (8, 4, 79)
    assert result.depth < result.plan.depth / 2
    assert lance.dataset(uri).to_table(with_row_id=stable).sort_by("id") == before
    check_rows(uri, {*range(80)} - {7})


def test_another_order_by_the_verb_of_a_handle(spark, uri):
    fragmented(uri, stable=False)
    table, told = LanceTable.for_path(uri, spark=spark), []
    assert table.optimize(sort_by="k", target_rows=20, progress=told.append).commits == 1
    assert str(told[-1]).startswith("committed: 4 of 4 fragments, 40 rows")
    assert lance.dataset(uri).to_table()["k"].to_pylist() == [key for key in range(5) for _ in range(8)]
    assert table.checkout(branch="exp").optimize(zorder=["k", "id"], target_rows=20, dry_run=True).plan.sources == 4


def test_a_stage_may_have_a_large_number_in_its_name(spark):
    """Spark refuses tags with commas: 1,000 fragments could not be rewritten."""

    def numbered(item):
        yield pa.record_batch([pa.array([item])], ["n"])

    runner = engine_for("spark", lambda: spark, parallelism=2).for_work("optimize", Work())
    stage, schema = "rewrite 1,000 fragments", pa.schema([("n", pa.int64())])
    assert runner.collect(stage, runner.flat_map(stage, [1, 2], numbered, schema))["n"].to_pylist() == [1, 2]
