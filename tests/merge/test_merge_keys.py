"""Keys that pylance takes and that are no plain column: fields inside a struct, and keys declared by a position."""

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import place
from support.merge_datasets import assert_sound, error_of, head, ids, run

from lance_spark.errors import Conflict
from lance_spark.merge import replay_commits

KEY = "lance-schema:unenforced-primary-key"
DECLARED = {
    "by a position": ({f"{KEY}:position": "1"}, None),
    "inside a struct": (None, {KEY: "true"}),
    "a column and a field": ({KEY: "true"}, {KEY: "true"}),
}


def row(number):
    return {"id": number, "s": {"a": number, "b": "b"}}


@pytest.fixture
def make(tmp_path):
    def made(column=None, inner=None):
        uri = str(tmp_path / "t.lance")
        struct = pa.struct([pa.field("a", pa.int64(), False, inner), pa.field("b", pa.string())])
        schema = pa.schema([pa.field("id", pa.int64(), False, column), pa.field("s", struct, False)])
        lance.write_dataset(pa.Table.from_pylist([row(number) for number in range(4)], schema=schema), uri)
        head(uri).create_branch("exp")
        return uri

    return made


def add(uri, branch, number):
    schema = head(uri, branch).schema
    lance.write_dataset(pa.Table.from_pylist([row(number)], schema=schema), place(uri, branch), mode="append")


@pytest.mark.parametrize("how", DECLARED)
def test_new_rows_of_both_sides_keep_the_key_unique(make, how):
    uri = make(*DECLARED[how])
    add(uri, "exp", 9)
    add(uri, None, 9)
    refusal = error_of(uri)
    assert isinstance(refusal, Conflict)
    assert "both sides have new rows with the same key" in str(refusal)
    assert ids(head(uri)) == [0, 1, 2, 3, 9]
    head(uri).delete("id = 9")
    add(uri, None, 8)
    run(uri)
    assert ids(head(uri)) == [0, 1, 2, 3, 8, 9]
    assert_sound(head(uri))


def test_two_merges_at_once_keep_the_key_unique_although_they_change_different_fragments(make, monkeypatch):
    uri = make({KEY: "true"})
    for number in (4, 5):
        add(uri, None, number)
    for branch, gone in (("one", 4), ("two", 5)):
        head(uri).create_branch(branch)
        head(uri, branch).delete(f"id = {gone}")
        add(uri, branch, 9)
    real, left = replay_commits.open_newest, ["two"]

    def early(*given, **more):
        found = real(*given, **more)
        if left:
            run(uri, left.pop())
        return found

    monkeypatch.setattr(replay_commits, "open_newest", early)
    refusal = error_of(uri, "one")
    assert not left
    assert isinstance(refusal, Conflict)
    assert "both sides have new rows with the same key" in str(refusal)
    assert ids(head(uri)) == [0, 1, 2, 3, 4, 9]


@pytest.mark.parametrize("side", [None, "exp"], ids=["ours", "theirs"])
def test_a_key_inside_a_struct_holds_for_the_rows_of_the_other_side(make, side):
    uri = make()
    head(uri, side).update_field_metadata({"s.a": {KEY: "true"}})
    add(uri, "exp" if side is None else None, 2)
    with pytest.raises(Conflict, match="more than one row would have the same key"):
        run(uri)


@pytest.mark.when(day=0)
@pytest.mark.parametrize("side", [None, "exp"], ids=["ours", "theirs"])
@pytest.mark.parametrize("another", [True, False], ids=["another key", "deleted"])
def test_what_the_hint_about_a_key_inside_a_struct_says_leads_out(make, side, another):
    uri = make()
    head(uri, side).update_field_metadata({"s.a": {KEY: "true"}})
    place = "exp" if side is None else None
    add(uri, place, 2)
    refusal = error_of(uri)
    assert "Delete one of the rows, or give it another key. Then try again." in refusal.hint
    head(uri, place).delete("id = 2")
    if another:
        add(uri, place, 8)
    else:
        add(uri, place, 2)
    run(uri)
    assert ids(head(uri)) == ([0, 1, 3, 8] if another else [0, 1, 2, 3])
    assert_sound(head(uri))


@pytest.mark.parametrize("change", [{"comment": "in euros"}, {KEY: "true"}], ids=["a comment", "a key"])
@pytest.mark.parametrize("ours", ["a row", "a column"])
def test_metadata_of_a_field_inside_a_column_is_merged(make, change, ours):
    """It was lost without a word if ours had changed its columns."""
    uri = make()
    head(uri, "exp").update_field_metadata({"s.a": change})
    if ours == "a row":
        add(uri, None, 9)
    else:
        head(uri).add_columns({"w": "id"})
    run(uri)
    run(uri, None, "exp")
    wanted = {key.encode(): value.encode() for key, value in change.items()}
    for branch in (None, "exp"):
        assert head(uri, branch).schema.field("s").type.field("a").metadata == wanted


def test_metadata_of_a_field_inside_a_renamed_column_is_merged(make):
    uri = make()
    head(uri, "exp").alter_columns({"path": "s", "name": "t"})
    head(uri, "exp").update_field_metadata({"t.a": {"comment": "in euros"}})
    head(uri).add_columns({"w": "id"})
    run(uri)
    assert head(uri).schema.field("t").type.field("a").metadata == {b"comment": b"in euros"}
    assert head(uri).to_table()["t"].to_pylist() == [row(number)["s"] for number in range(4)]
