"""What a column was computed from outlives the versions that a cleanup removes, so that a merge keeps right cells."""

import json
from pathlib import Path
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.cleanup_datasets import place
from support.killed import killed_at
from support.merge_datasets import assert_sound, clean_all, head, run

from lance_spark.columns.columns import add_filled_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.layout import BROUGHT, BroughtName, brought_path, brought_versions, column_records
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import StorageFull
from lance_spark.format import column_records as records
from lance_spark.format.column_records import ColumnRecord, ColumnStep, decode_record, encode_record, joined
from lance_spark.refs.refs import create_branch_at, drop_branch
from lance_spark.storage import brought, small_files
from lance_spark.storage.datasets import locate, pin_latest


def rows(*numbers):
    return pa.table({"id": pa.array(numbers, pa.int64()), "v": [10 * n for n in numbers], "w": list(numbers)})


@pytest.fixture
def dataset(uri):
    """Branch exp computes z from v, renames it, and goes on; main changes w in a row, and v in another one."""
    lance.write_dataset(rows(1, 2, 3, 4), uri, enable_stable_row_ids=True)
    create_branch_at(locate(uri), "exp", PinnedVersion(None, 1))
    add(uri, 5, "exp")
    clean_all(uri)
    compute(uri, "z", existing=False)
    head(uri, "exp").alter_columns({"path": "z", "name": "zz"})
    add(uri, 6, "exp")
    head(uri).update({"w": "0"}, where="id = 1")
    head(uri).update({"v": "0"}, where="id = 2")
    return uri


def add(uri, number, branch=None):
    schema = head(uri, branch).schema
    lance.write_dataset(
        pa.Table.from_pylist([{"id": number, "v": 0, "w": 0}], schema=schema), place(uri, branch), mode="append"
    )


def compute(uri, name, existing, branch="exp"):
    location = locate(uri)
    values = LocalValues(location, lambda batch: {name: [v + 1 for v in batch["v"].to_pylist()]}, **{name: pa.int64()})
    values.inputs = values.reads = ("v",)
    fill = update_filled_columns if existing else add_filled_columns
    return fill(location, branch, values, BackfillOptions(resume=False))


def values_of(uri, branch=None, name="zz"):
    found = head(uri, branch).to_table(columns=["id", name]).to_pylist()
    return {row["id"]: row[name] for row in found if row["id"] <= 4}


def kept(uri, branch="exp"):
    return [*Path(place(uri, branch), BROUGHT).glob("*.columns.json")]


def steps_of(uri, branch="exp"):
    (record,) = kept(uri, branch)
    return json.loads(record.read_text())["steps"]


RIGHT = {1: 11, 2: None, 3: 31, 4: 41}
"""Only what was computed from a value that main changed is left empty."""


@pytest.mark.parametrize("into", [None, "exp"], ids=["exp into main", "main into exp"])
def test_a_cleanup_takes_nothing_away_from_what_was_computed(dataset, into):
    clean_all(dataset)
    clean_all(dataset)  # and repeats itself
    assert len(kept(dataset)) == 1
    run(dataset, None if into else "exp", into)
    assert values_of(dataset, into) == RIGHT
    assert_sound(head(dataset, into))


@pytest.mark.when(day=0)
def test_a_cleanup_after_each_step_keeps_what_all_of_them_say(dataset):
    for _ in range(3):
        clean_all(dataset)
        compute(dataset, "zz", existing=True)
        add(dataset, 7, "exp")
    clean_all(dataset)
    run(dataset, "exp")
    assert values_of(dataset) == RIGHT


@pytest.mark.when(day=0)
def test_a_branch_of_the_branch_reads_what_both_kept(dataset):
    create_branch_at(locate(dataset), "exp/deep", pin_latest(locate(dataset), "exp"))
    compute(dataset, "zz", existing=True, branch="exp/deep")
    add(dataset, 8, "exp/deep")
    add(dataset, 9, "exp")
    clean_all(dataset)
    run(dataset, "exp/deep")
    assert values_of(dataset) == RIGHT


@pytest.mark.when(day=0)
def test_what_came_with_a_merge_is_known_after_a_cleanup_of_main(dataset):
    create_branch_at(locate(dataset), "other", pin_latest(locate(dataset), None))
    run(dataset, "exp")
    drop_branch(locate(dataset), "exp")
    add(dataset, 10)
    clean_all(dataset)
    head(dataset, "other").update({"w": "-1"}, where="id = 3")
    head(dataset, "other").update({"v": "-1"}, where="id = 4")
    run(dataset, "other")
    assert values_of(dataset) == {**RIGHT, 4: None}


def test_what_another_tool_wrote_stays_unknown(dataset):
    branch = head(dataset, "exp")
    branch.add_columns({"other": "v + 2"})
    add(dataset, 7, "exp")
    clean_all(dataset)
    run(dataset, "exp")
    assert values_of(dataset) == {**RIGHT, 1: None}


@pytest.mark.when(day=0)
def test_what_another_tool_cleaned_stays_unknown(dataset):
    from datetime import timedelta

    head(dataset, "exp").cleanup_old_versions(timedelta(0), delete_unverified=True)
    clean_all(dataset)
    run(dataset, "exp")
    assert values_of(dataset) == {**RIGHT, 1: None}


@pytest.mark.parametrize("moment", ["before the record", "after it", "before the old one goes"])
def test_a_cleanup_that_dies_leaves_a_record_too_many_never_one_too_few(dataset, moment):
    clean_all(dataset)
    compute(dataset, "zz", existing=True)
    add(dataset, 7, "exp")

    step = (brought.files, "delete") if moment == "before the old one goes" else (small_files, "write_below")
    with killed_at(*step, after=moment == "after it"):
        clean_all(dataset)
    clean_all(dataset)
    assert len(kept(dataset)) == 1
    run(dataset, "exp")
    assert values_of(dataset) == RIGHT


def test_a_full_disk_is_cleaned_although_nothing_can_be_recorded(dataset, monkeypatch):
    monkeypatch.setattr(small_files, "write_below", Mock(side_effect=StorageFull("no room")))
    clean_all(dataset)
    monkeypatch.undo()
    assert kept(dataset) == []
    run(dataset, "exp")
    assert values_of(dataset) == {**RIGHT, 1: None}  # named in the result, not wrong


def test_a_record_goes_as_far_as_no_merge_compares_with_its_versions(uri):
    lance.write_dataset(rows(1, 2), uri)
    for number in (3, 4, 5):
        add(uri, number)
    clean_all(uri)
    assert kept(uri, None) == []  # nothing older than main's newest version is left
    lance.dataset(uri).tags.create("v1", 4)
    compute(uri, "z", existing=False, branch=None)
    add(uri, 6)
    clean_all(uri)
    assert [step[:2] for step in steps_of(uri, None)] == [[5, 5]]
    lance.dataset(uri).tags.delete("v1")
    add(uri, 7)
    clean_all(uri)
    assert kept(uri, None) == []


# --- Decisions

C, D = (("c", ("x",)),), (("d", None),)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("versions", "span", "known"),
    [
        ([4, 5], (2, 9), [ColumnStep(4, 5, C)]),
        ([4, 6], (3, 6), [ColumnStep(4, 5, C)]),
        ([5], (4, 9), None),
        ([4], (3, 4), None),
        ([6], (5, 9), []),
        ([7], (5, 9), None),
        ([6, 8], (5, 9), [ColumnStep(8, 8)]),
        ([], (5, 9), []),
    ],
)
def test_what_a_record_says_of_versions_that_are_gone(versions, span, known):
    record = ColumnRecord(((4, 6), (8, 8)), (ColumnStep(4, 5, C), ColumnStep(8, 8)))
    assert record.of(versions, *span) == (None if known is None else tuple(known))


@pytest.mark.pure
def test_records_are_joined_and_read_again():
    one = ColumnRecord(((2, 3), (7, 7)), (ColumnStep(3, 3, C), ColumnStep(7, 7, None, (("a", None), ("b", "c")))))
    other = ColumnRecord(((3, 5),), (ColumnStep(3, 3, C), ColumnStep(5, 5, D)))
    both = joined([one, other])
    assert both.covered == ((2, 5), (7, 7))
    assert both.steps == (ColumnStep(3, 3, C), ColumnStep(5, 5, D), one.steps[1])
    assert decode_record(encode_record(both)) == both
    assert both.above(3) == ColumnRecord(((4, 5), (7, 7)), both.steps[1:])
    broken = (None, b"{", b'{"covered": 7}', b"[7]", b'{"x": 1}')
    assert {decode_record(content) for content in broken} == {ColumnRecord()}


@pytest.mark.pure
def test_thousands_of_steps_are_told_in_few():
    many = [ColumnStep(at, at, (("c", (f"x{at % 3}",)),)) for at in range(1, 5001)]
    record = joined([ColumnRecord(((1, 5000),), tuple(many))])
    assert len(record.steps) == records.MOST_STEPS + 1
    assert record.steps[0] == ColumnStep(1, 5000 - records.MOST_STEPS, (("c", ("x0", "x1", "x2")),))
    assert record.of([1, 5000], 0, 5000) == (record.steps[0], record.steps[-1])
    many[7] = ColumnStep(8, 8)
    oldest = joined([ColumnRecord(((1, 5000),), tuple(many))]).steps[0]
    assert (oldest.computed, oldest.renames) == (None, None)
    apart = joined([ColumnRecord(((1, 2000), (2002, 5000)), tuple(step for step in many if step.first != 2001))])
    assert [step[:2] for step in apart.steps[:2]] == [(1, 2000), (2002, 5000 - records.MOST_STEPS)]
    many[7] = ColumnStep(8, 8, None, (("c", "d"),))
    renamed = joined([ColumnRecord(((1, 5000),), tuple(many))]).steps
    assert [step[:2] for step in renamed[:3]] == [(1, 7), (8, 8), (9, 5000 - records.MOST_STEPS)]


@pytest.mark.pure
def test_records_on_rows_and_on_columns_are_told_apart_by_name():
    names = [BroughtName(4, 6, "a" * 16, "1" * 32, columns) for columns in (False, True)]
    paths = [brought_path("b", name).rpartition("/")[2] for name in names]
    assert brought_versions(paths, "a" * 16, [4, 5, 9]) == (4, 5)
    assert brought_versions(paths[1:], "a" * 16, [4, 5, 9]) == ()
    assert column_records(paths, "a" * 16) == names[1:]
    assert column_records(paths, "b" * 16) == []
