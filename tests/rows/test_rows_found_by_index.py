"""Indexes of every kind find updated rows by the values that they have, and not by those that they had."""

import lance
import pyarrow as pa
import pytest
from support.row_changes import written

from lance_spark import LanceTable
from lance_spark.core.location import DatasetLocation
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import finish

KINDS = {
    "bitmap": ("n", "n = 99", "n = 2", "n IN (2, 3)"),
    "btree": ("n", "n = 99", "n = 2", "n < 4"),
    "zonemap": ("n", "n = 99", "n = 2", "n BETWEEN 50 AND 100"),
    "bloomfilter": ("n", "n = 99", "n = 2"),
    "label_list": ("tags", "array_has(tags, 'new')", "array_has(tags, 'even')"),
    "ngram": ("text", "contains(text, 'another')", "contains(text, 'word2')"),
    "inside a struct": ("s.n", "s.n = 99", "s.n = 2"),
}


def rows(ids):
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array([key % 8 for key in ids], pa.int64()),
            "tags": [["even"] if key % 2 == 0 else ["odd"] for key in ids],
            "text": [f"word{key % 8}" for key in ids],
            "s": [{"n": key % 8} for key in ids],
        }
    )


def other(row):
    return {**row, "n": 99, "tags": ["new"], "text": "another", "s": {"n": 99}}


def update(location, branch=None):
    finish(written(location, branch, lambda rows: [(UPDATE, other(row)) for key, row in rows.items() if key % 6 == 2]))


def replace(location):
    finish(written(location, None, lambda rows: [(DELETE, {"id": 2}), (INSERT, other(rows[2]))]))


def update_again(location):
    update(location)
    back = rows([2, 8]).to_pylist()
    finish(written(location, None, [(UPDATE, row) for row in back]))


def update_and_sort(location):
    update(location)
    LanceTable.for_path(location.uri).optimize(sort_by="n")


def sort_and_update(location):
    LanceTable.for_path(location.uri).optimize(sort_by="id")
    update(location)


def update_and_upkeep(location):
    update(location)
    LanceTable.for_path(location.uri).optimize(own_only=False)
    LanceTable.for_path(location.uri).indexes.optimize()


def merge_into_updated(location):
    t = LanceTable.for_path(location.uri)
    t.branches.create("exp")
    lance.write_dataset(rows([50, 51]), lance.dataset(location.branch_uri("exp")), mode="append")
    update(location)
    t.branches.merge("exp")


def merge_updated(location):
    t = LanceTable.for_path(location.uri)
    t.branches.create("exp")
    update(location, "exp")
    lance.write_dataset(rows([50, 51]), location.uri, mode="append")
    t.branches.merge("exp")


CHANGES = [update, replace, update_again, update_and_sort, sort_and_update, update_and_upkeep]
CHANGES += [merge_into_updated, merge_updated]


@pytest.mark.when(day=1.0)
@pytest.mark.when(day={"stable": [True]})
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stable", [True, False], ids=["stable", "plain"])
def test_updated_rows_are_found_by_what_they_are(uri, change, kind, stable):
    lance.write_dataset(rows(range(40)), uri, enable_stable_row_ids=stable)
    column, *filters = KINDS[kind]
    t = LanceTable.for_path(uri)
    t.indexes.create(column, kind="bitmap" if kind == "inside a struct" else kind)
    change(DatasetLocation.at(uri))
    dataset = lance.dataset(uri)
    for where in filters:
        expected = dataset.scanner(filter=where, use_scalar_index=False).to_table()["id"].to_pylist()
        assert sorted(dataset.to_table(filter=where)["id"].to_pylist()) == sorted(expected), where
        assert LanceTable.for_path(uri).count_rows(where) == len(expected), where
