"""Appends that bring columns along, while others commit: no row is lost, and no value changes its column."""

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, finish, make_dataset, prepare, write, written_since

from lance_spark import LanceTable
from lance_spark.engine.local import Work
from lance_spark.errors import Conflict, Refused, SchemaMismatch


def some(first, **more):
    ids = list(range(first, first + 5))
    return pa.table({"id": pa.array(ids, pa.int32()), **{name: pa.array([value] * 5) for name, value in more.items()}})


@pytest.fixture(params=[False, True], ids=["plain", "stable row ids"])
def made(request, uri):
    make_dataset(uri, some(0), some(5), enable_stable_row_ids=request.param)
    lance.dataset(uri).create_branch("exp")
    return uri


def now(uri):
    dataset = lance.dataset(uri)
    dataset.validate()
    return dataset.to_table().to_pylist()


def wide(first):
    return some(first, word="a").set_column(0, "id", pa.array(range(first, first + 5), pa.int64()))


@pytest.mark.parametrize("branch", ["main", "exp"])
def test_rows_of_others_stay(made, branch):
    root = made if branch == "main" else f"{made}/tree/exp"
    job, fragments = prepare(made, some(100, word="a"), some(200, word="a"), merge_schema="true", branch=branch)
    lance.write_dataset(some(300), root, mode="append")
    lance.dataset(root).delete("id = 2")
    finish(job, fragments)
    found = {row["id"]: row["word"] for row in now(root)}
    assert len(found) == 24
    assert all(word == ("a" if 100 <= key < 300 else None) for key, word in found.items())


def test_two_appends_that_bring_the_same_column_both_count(made):
    first = prepare(made, wide(100), merge_schema="true")
    second = prepare(made, wide(200), merge_schema="true")
    finish(*first)
    finish(*second)
    assert [row["id"] for row in now(made) if row["word"] == "a"] == [*range(100, 105), *range(200, 205)]


def test_two_appends_that_bring_a_column_in_two_types_do_not(made):
    first = prepare(made, some(100, word="a"), merge_schema="true")
    second = prepare(made, some(200, word=1), merge_schema="true")
    finish(*first)
    before = contents(made)
    with pytest.raises(Conflict, match="'word' became string"):
        finish(*second)
    assert not {path for path in written_since(before, made) if path in contents(made)}
    assert len(now(made)) == 15


def test_a_column_that_was_dropped_meanwhile_does_not_come_back(made):
    job, fragments = prepare(made, some(100, word="a"), merge_schema="true")
    lance.write_dataset(some(300).append_column("extra", pa.array([1] * 5)).select(["id"]), made, mode="append")
    lance.dataset(made).add_columns(pa.schema([("other", pa.int8())]))
    lance.dataset(made).drop_columns(["id"])
    with pytest.raises(Conflict, match="'id'"):
        finish(job, fragments)


def test_columns_without_rows_are_added(made):
    assert write(made, some(0, word="a").slice(0, 0), merge_schema="true") is not None
    assert lance.dataset(made).schema.names == ["id", "word"]
    assert len(now(made)) == 10


def test_a_type_of_which_much_is_stored_is_widened_elsewhere(made, monkeypatch):
    monkeypatch.setattr(Work, "is_little", False)
    before = contents(made)
    with pytest.raises(Refused, match=r"2 fragments(.|\n)*alter_columns\(\{'id'"):
        write(made, wide(100), merge_schema="true")
    assert written_since(before, made) == set()
    write(made, some(100, word="a"), merge_schema="true")
    assert len(now(made)) == 15


def test_arrow_rows_that_do_not_fit_name_the_way_to_a_wider_type(tmp_path):
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"n": pa.array([1], pa.int32())}), uri)
    table, wide = LanceTable.for_path(uri), pa.table({"n": pa.array([2**40], pa.int64())})
    with pytest.raises(SchemaMismatch, match="'n' does not fit int32") as refused:
        table.write(wide, mode="append", merge_schema=True)
    typed = refused.value.hint.split(": ", 1)[1].removesuffix(".")
    eval(typed, {"t": table})
    table.write(wide, mode="append")
    assert lance.dataset(uri).to_table()["n"].to_pylist() == [1, 2**40]
    with pytest.raises(SchemaMismatch, match="'n' does not fit int64") as refused:
        table.write(pa.table({"n": [0.5]}), mode="append")
    assert not refused.value.hint
