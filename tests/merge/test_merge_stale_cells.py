"""No value stays beside an input that the other side changed, whatever became of the files that show it."""

from datetime import timedelta
from itertools import product

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.cleanup_datasets import place
from support.merge_datasets import assert_sound, head, run

from lance_spark.columns.columns import update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate, pin_latest

KEY = {"lance-schema:unenforced-primary-key": "true"}
ROWS = range(12)
IN_A_FILE = 4


@pytest.fixture(params=["stable ids", "key"])
def dataset(uri, request):
    """Branches exp and other; z is to be v + 1."""
    columns = {"id": [*ROWS], "v": [10 * row for row in ROWS], "w": [*ROWS], "z": [None for _ in ROWS]}
    schema = pa.schema([(name, pa.int64()) for name in columns])
    keyed = request.param == "key"
    if keyed:
        schema = schema.set(0, pa.field("id", pa.int64(), False, KEY))
    table = pa.table(columns, schema)
    lance.write_dataset(table, uri, enable_stable_row_ids=not keyed, max_rows_per_file=IN_A_FILE)
    for name in ("exp", "other"):
        create_branch_at(locate(uri), name, PinnedVersion(None, 1))
    return uri


def compute(uri, branch="exp"):
    values = LocalValues(locate(uri), lambda batch: {"z": [v + 1 for v in batch["v"].to_pylist()]}, z=pa.int64())
    values.inputs = values.reads = ("v",)
    update_filled_columns(locate(uri), branch, values, BackfillOptions(resume=False))


def cleaned_by_pylance(uri, branch):
    """Its newest version is an append."""
    row = pa.Table.from_pylist([{"id": 100, "v": 0, "w": 0, "z": 1}], schema=head(uri, branch).schema)
    lance.write_dataset(row, place(uri, branch), mode="append")
    head(uri, branch).cleanup_old_versions(timedelta(0), delete_unverified=True)


def stale(uri, branch=None):
    rows = head(uri, branch).to_table(filter=f"id < {len(ROWS)}").to_pylist()
    assert len(rows) == len(ROWS)
    return [row for row in rows if row["z"] not in (None, row["v"] + 1)]


def changes(compacts, rewritten, is_cleaned, is_late):
    def on(uri):
        """Main changes an input of row 2, and exp computes from it."""
        if compacts and not is_late:
            head(uri).optimize.compact_files()
        head(uri).update({"v": "1000"}, where="id = 2")
        if compacts and is_late:
            head(uri).optimize.compact_files()
        compute(uri)
        if rewritten:
            head(uri, "exp").update({"w": "w + 100"}, where=f"id < {rewritten}")
        if is_cleaned:
            cleaned_by_pylance(uri, "exp")

    return on


CASES = [
    (compacts, rewritten, is_cleaned, is_late)
    for compacts, rewritten, is_cleaned, is_late in product(
        (True, False), (0, IN_A_FILE, len(ROWS)), (True, False), (0, 1)
    )
    if compacts or not is_late
]


@pytest.mark.when(day=0.1)
@pytest.mark.parametrize("into", [None, "exp"], ids=["exp into main", "main into exp"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_value_whose_input_changed_does_not_stay(dataset, case, into):
    """Main compacted, exp updated all rows of a file afterwards, its versions are gone; or any of these."""
    changes(*case)(dataset)
    _, rewritten, is_cleaned, _ = case
    try:
        merged = run(dataset, None if into else "exp", into)
    except Conflict:
        assert rewritten == len(ROWS)  # nothing tells whether exp compacted
        assert is_cleaned
        return
    assert stale(dataset, into) == []
    (emptied,) = merged.summary.cells_emptied
    assert (emptied.column, emptied.rows) == ("z", 1)
    assert_sound(head(dataset, into))


@pytest.mark.when(day={"dataset": ["stable ids"]})
def test_what_came_from_versions_that_are_gone_may_be_computed_for_later_merges_too(dataset):
    compute(dataset)
    cleaned_by_pylance(dataset, "exp")
    head(dataset).update({"w": "0"}, where="id = 1")
    run(dataset, "exp")
    head(dataset).optimize.compact_files()
    head(dataset, "other").update({"v": "1000"}, where="id = 2")
    run(dataset, "other")
    assert stale(dataset) == []
    values = {row["id"]: row["z"] for row in head(dataset).to_table().to_pylist()}
    assert [row for row in ROWS if values[row] is None] == [1, 2]


@pytest.mark.when(day={"dataset": ["stable ids"]})
def test_a_value_that_a_merge_put_into_a_row_was_set_and_is_not_left_empty(dataset):
    """The merge writes it in place, as a computation does."""
    head(dataset).update({"w": "77"}, where="id = 5")
    create_branch_at(locate(dataset), "late", pin_latest(locate(dataset), None))
    head(dataset, "other").update({"v": "1000"}, where="id = 5")
    run(dataset, "other")
    compute(dataset, "late")
    merged = run(dataset, "late")
    assert [each.column for each in merged.summary.cells_emptied] == ["z"]
    (row,) = head(dataset).to_table(filter="id = 5").to_pylist()
    assert row == {"id": 5, "v": 1000, "w": 77, "z": None}
