"""A remote rewrites rows that its clones have: pulls and pushes go on, in any order, and double nothing."""

import lance
import pytest
from support.merge_datasets import add, head, ids, table
from support.remote_datasets import made_clone, pulled, pushed

from lance_spark.engine.local import LocalRunner
from lance_spark.optimize.optimize import optimize
from lance_spark.optimize.rules import OptimizeOptions
from lance_spark.storage.datasets import locate


def compacted(uri):
    head(uri).optimize.compact_files(target_rows_per_fragment=1000)


def sorted_by_id(uri):
    optimize(locate(uri), None, OptimizeOptions(sort_by=["id"]), LocalRunner())


def updated(uri):
    head(uri).update({"v": "v + 1"})


def merged_rows(uri):
    rows = head(uri).to_table()
    head(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("again", [False, True], ids=["once", "and by the clone"])
@pytest.mark.parametrize("rewrite", [compacted, sorted_by_id, updated, merged_rows])
@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
def test_the_other_clone_pulls_what_one_pushed_after_the_source_was_rewritten(tmp_path, stable, rewrite, again):
    source, one, other = (str(tmp_path / f"{name}.lance") for name in ("source", "one", "other"))
    lance.write_dataset(table(0, 3), source, enable_stable_row_ids=stable)
    for clone in (one, other):
        made_clone(source, clone)
    for number, uri in ((100, one), (110, source), (120, other)):
        add(uri, number, number + 1)
    rewrite(source)
    pulled(other, source)
    pulled(one, source)
    if again:
        rewrite(one)
    pushed(one, source)
    pulled(other, source)
    pushed(other, source)
    pulled(one, source)
    for uri in (source, one, other):
        assert ids(head(uri)) == [0, 1, 2, 100, 110, 120]
