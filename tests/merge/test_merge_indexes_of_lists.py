"""Indexes of lists after a merge: a data file names the elements of a list, an index the list."""

import re

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.merge_datasets import error_of, exp, head, run

from lance_spark import LanceTable
from lance_spark.columns.columns import update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.errors import NotCommittable
from lance_spark.storage.datasets import locate

TAGS = pa.list_(pa.string())
FILTERS = ("array_has(tags, 'even')", "array_has(tags, 'new')")


def renew(uri, branch):
    values = LocalValues(locate(uri), lambda batch: {"tags": pa.array([["new"]] * len(batch), TAGS)}, tags=TAGS)
    update_filled_columns(locate(uri), branch, values, BackfillOptions(resume=False))


def index(uri, branch=None):
    t = LanceTable.for_path(uri)
    (t.checkout(branch=branch) if branch else t).indexes.create("tags", kind="label_list", name="by_tag")


def assert_found(uri, branch=None):
    dataset = head(uri, branch)
    for where in FILTERS:
        expected = dataset.scanner(filter=where, use_scalar_index=False).to_table()["id"].to_pylist()
        assert sorted(dataset.to_table(filter=where)["id"].to_pylist()) == sorted(expected), where


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path):
    table = {"id": range(30), "v": range(30), "tags": [["odd"] if n % 2 else ["even"] for n in range(30)]}
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table(table), uri, max_rows_per_file=10, enable_stable_row_ids=request.param)
    return uri


def fork(uri):
    head(uri).create_branch("exp")


@pytest.mark.parametrize("diverged", [False, True])
def test_lists_that_the_branch_wrote_are_found(uri, diverged):
    index(uri)
    fork(uri)
    renew(uri, "exp")
    if diverged:
        head(uri).delete("id = 7")
    run(uri)
    assert head(uri).count_rows("array_has(tags, 'new')") == 30 - diverged
    assert_found(uri)


def test_an_index_of_the_branch_is_not_taken_over_for_lists_that_it_does_not_know(uri):
    fork(uri)
    index(uri, "exp")
    renew(uri, None)
    assert run(uri).indexes_missing == ("by_tag",)
    assert_found(uri)


def test_an_index_is_not_taken_over_for_another_fragment_of_the_same_id(uri):
    fork(uri)
    LanceTable.for_path(uri).optimize()
    exp(uri).update({"v": "7"}, "id % 4 = 1")
    index(uri)
    run(uri, None, "exp")
    assert_found(uri, "exp")


def test_lists_and_columns_that_both_changed_are_merged_in_the_steps_that_the_hint_names(uri):
    index(uri)
    fork(uri)
    renew(uri, "exp")
    exp(uri).add_columns({"w": "id"})
    head(uri).delete("id = 7")
    refusal = error_of(uri)
    assert isinstance(refusal, NotCommittable)
    assert "index 'by_tag' would find rows by the values that they had" in str(refusal)
    for step in [*re.findall(r"exp@\d+", refusal.hint), "exp"]:
        LanceTable.for_path(uri).branches.merge(step)
    assert "w" in lance.dataset(uri).schema.names
    assert head(uri).count_rows("array_has(tags, 'new')") == 29
    assert_found(uri)
