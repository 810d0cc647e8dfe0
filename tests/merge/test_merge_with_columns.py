"""Merges in which rows were replaced and columns changed at once: what pylance commits, and what is refused."""

from functools import partial

import lance
import pyarrow as pa
import pytest
from support.meanwhile import meanwhile
from support.merge_datasets import assert_sound, forked, head, run

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.merge.merge import MergeOptions, cherry_pick, merge
from lance_spark.storage.datasets import pin_latest


def rows(first, last, **more):
    ids = list(range(first, last))
    return pa.table({"id": pa.array(ids, pa.int64()), **{name: [value] * len(ids) for name, value in more.items()}})


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def location(tmp_path, request):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 5), uri, enable_stable_row_ids=request.param)
    for first in (5, 10):
        lance.write_dataset(rows(first, first + 5), uri, mode="append")
    lance.dataset(uri).create_branch("exp")
    return DatasetLocation(uri)


def exp(location):
    return lance.dataset(location.branch_uri("exp"))


def publish(location, source="exp"):
    return merge(location, pin_latest(location, source), None, MergeOptions(), LocalRunner())


def add(location, table, branch=None):
    lance.write_dataset(table, location.branch_uri(branch), mode="append")


def now(location):
    """Main, after a look whether it is sound."""
    dataset = lance.dataset(location.uri)
    dataset.validate()
    return dataset


def test_a_table_that_was_replaced_with_other_columns_is_published(location):
    lance.write_dataset(rows(100, 110, w="x"), exp(location), mode="overwrite")
    result = publish(location)
    now = lance.dataset(location.uri)
    assert (result.version, now.to_table()) == (4, rows(100, 110, w="x"))
    after = lance.write_dataset(rows(200, 201, w="y"), location.uri, mode="append")
    if after.has_stable_row_ids:
        ids = after.to_table(with_row_id=True)["_rowid"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert min(ids) >= 15


def test_it_loses_to_a_commit_that_comes_first(location, monkeypatch):
    """The overwrite must not win over rows that were appended between plan and commit."""
    from lance_spark.merge import replay_commits

    lance.write_dataset(rows(100, 110, w="x"), exp(location), mode="overwrite")
    append = partial(lance.write_dataset, rows(50, 51), location.uri, mode="append")
    meanwhile(monkeypatch, replay_commits, "commit", append)
    with pytest.raises(Conflict, match="replaced the whole table"):
        publish(location)
    assert lance.dataset(location.uri).count_rows() == 16


def test_fewer_fragments_and_other_columns_are_refused_before_anything_happens(location):
    exp(location).delete("id < 5")
    exp(location).add_columns({"w": "id + 1"})
    with pytest.raises(Refused, match=r"(?s)compacted or removed.*in steps.*first exp@4, then 'exp'"):
        publish(location)
    assert lance.dataset(location.uri).version == 3
    merge(location, pin_latest(location, "exp").__class__("exp", 4), None, MergeOptions(), LocalRunner())
    publish(location)
    assert lance.dataset(location.uri).to_table()["w"].to_pylist() == list(range(6, 16))


def test_rows_that_both_sides_deleted_together_are_refused_beside_other_columns(location):
    exp(location).add_columns({"w": "id + 1"})
    exp(location).delete("id < 3")
    lance.dataset(location.uri).delete("id = 3 or id = 4")
    with pytest.raises(Refused, match="compacted or removed"):
        merge(location, pin_latest(location, "exp"), None, MergeOptions(dry_run=True), LocalRunner())
    with pytest.raises(Refused, match="compacted or removed"):
        publish(location)
    assert now(location).count_rows() == 13


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "added",
    [{"y": "id * 1000"}, {"z": "id * 1000"}, {"z": "cast(id as double)"}, {"z": "cast(id as string)"}],
    ids=str,
)
def test_a_new_column_with_the_id_of_a_dropped_one_gets_none_of_its_values(location, turned, added):
    """pylance gives the id away again, when no file has it any more, be it to a column of the same name."""
    lance.dataset(location.uri).add_columns({"z": "id * 2"})
    lance.dataset(location.uri).create_branch("old")
    one, other = (location.branch_uri(branch) for branch in (("old", None) if turned else (None, "old")))
    lance.dataset(one).drop_columns(["z"])
    lance.dataset(one).add_columns(added)
    assert lance.dataset(one).lance_schema.fields()[1].id() == lance.dataset(other).lance_schema.fields()[1].id()
    lance.write_dataset(rows(50, 51, z=7), other, mode="append")
    before = now(location).to_table()
    with pytest.raises(Conflict, match="'z' was dropped on one side, where its id is another column's"):
        publish(location, "old")
    assert now(location).to_table() == before


def test_a_column_whose_values_were_replaced_keeps_those_of_new_rows(location):
    lance.dataset(location.uri).add_columns({"z": "id * 2"})
    lance.dataset(location.uri).create_branch("old")
    lance.dataset(location.uri).add_columns({"y": "id"})
    lance.dataset(location.uri).drop_columns(["y"])
    lance.dataset(location.uri).update({"z": "id * 1000"})
    lance.dataset(location.uri).optimize.compact_files()
    add(location, rows(50, 51, z=7), "old")
    publish(location, "old")
    assert now(location).to_table(filter="id in (2, 50)").to_pylist() == [{"id": 2, "z": 2000}, {"id": 50, "z": 7}]


def test_a_column_that_was_only_renamed_gets_the_values_of_the_other_side(location):
    lance.dataset(location.uri).add_columns({"z": "id * 2"})
    lance.dataset(location.uri).create_branch("old")
    lance.dataset(location.uri).alter_columns({"path": "z", "name": "y"})
    lance.dataset(location.uri).add_columns({"x": "id + 1"})
    add(location, rows(50, 51, z=7), "old")
    publish(location, "old")
    assert now(location).to_table(filter="id = 50").to_pylist() == [{"id": 50, "y": 7, "x": None}]


def test_a_dropped_column_leaves_no_files_behind(location):
    exp(location).add_columns({"w": "id + 1"})
    publish(location)
    exp(location).drop_columns(["w"])
    add(location, rows(20, 22), "exp")
    publish(location)
    assert now(location).to_table()["id"].to_pylist() == [*range(15), 20, 21]
    assert now(location).schema.names == ["id"]


def test_a_compaction_that_came_with_new_columns_is_no_replaced_table(location):
    lance.dataset(location.uri).create_branch("other")
    add(location, rows(50, 52), "other")
    exp(location).add_columns({"w": "id + 1"})
    exp(location).optimize.compact_files()
    if now(location).has_stable_row_ids:
        with pytest.raises(Refused, match="with stable row ids"):
            publish(location)
        return
    assert publish(location).fast_forward
    assert publish(location, "other").summary.rows_added == 2
    assert now(location).to_table()["w"].to_pylist() == [*range(1, 16), None, None]


def test_a_table_that_was_replaced_and_merged_is_still_a_replaced_one(location):
    lance.dataset(location.uri).create_branch("other")
    add(location, rows(50, 52), "other")
    lance.write_dataset(rows(100, 110), exp(location), mode="overwrite")
    assert publish(location).fast_forward
    with pytest.raises(Conflict, match="'main' replaced the whole table"):
        publish(location, "other")


def comments(location):
    """By column, of main."""
    return {field.name: (field.metadata or {}).get(b"comment", b"").decode() for field in now(location).schema}


def comment(location, text, column="id", branch=None):
    lance.dataset(location.branch_uri(branch)).update_field_metadata({column: {"comment": text}})


@pytest.mark.parametrize(
    "ours",
    [
        now,
        lambda location: lance.dataset(location.uri).add_columns({"w": "id + 1"}),
        lambda location: comment(location, "mine", "v"),
        lambda location: lance.dataset(location.uri).alter_columns({"path": "id", "name": "key"}),
        lambda location: comment(location, "the key, über alles"),
    ],
    ids=["nothing", "a column", "another comment", "a new name", "the same comment"],
)
def test_comments_of_columns_are_merged(location, ours):
    lance.dataset(location.uri).add_columns({"v": "id * 2"})
    lance.dataset(location.uri).create_branch("described")
    comment(location, "the key, über alles", branch="described")
    add(location, rows(50, 51, v=7), "described")
    ours(location)
    before = comments(location)
    publish(location, "described")
    name = "key" if "key" in before else "id"
    assert comments(location) == {**before, name: "the key, über alles"}
    assert now(location).to_table(columns=[name, "v"]).to_pylist()[-1] == {name: 50, "v": 7}


def test_a_comment_that_is_gone_on_the_branch_goes(location):
    comment(location, "old")
    lance.dataset(location.uri).create_branch("silent")
    comment(location, None, branch="silent")
    lance.dataset(location.uri).add_columns({"w": "id + 1"})
    publish(location, "silent")
    assert comments(location) == {"id": "", "w": ""}


def test_two_comments_on_one_column_are_a_conflict_that_names_both_versions(location):
    comment(location, "theirs", branch="exp")
    comment(location, "ours")
    with pytest.raises(Conflict, match=r"comment of column 'id' was changed on both sides: main@4 .* against exp@4"):
        publish(location)
    assert comments(location) == {"id": "ours"}


def test_a_column_that_was_picked_is_known_beside_the_next_one(location):
    exp(location).add_columns({"w": "id + 1"})
    cherry_pick(location, PinnedVersion("exp", exp(location).version), None, LocalRunner())
    exp(location).add_columns({"x": "id + 2"})
    publish(location)
    assert now(location).to_table(filter="id = 5").to_pylist() == [{"id": 5, "w": 6, "x": 7}]


def test_a_new_column_has_no_values_of_one_that_the_branch_dropped_again(tmp_path):
    """Rows of the branch still have the dropped column in their files, under the id of the new column of main."""
    uri = forked(str(tmp_path / "t.lance"), index=False)
    head(uri, "exp").add_columns({"w": "id * 7"})
    given = pa.table({"id": [50, 51], "v": [1, 2], "w": [998, 999]})
    lance.write_dataset(given, head(uri, "exp").uri, mode="append")
    head(uri, "exp").drop_columns(["w"])
    head(uri).add_columns({"y": "id * 3"})
    run(uri)
    found = {row["id"]: row["y"] for row in head(uri).to_table().to_pylist()}
    assert found == {**{n: 3 * n for n in range(30)}, 50: None, 51: None}
    assert_sound(head(uri))


def test_a_new_column_of_the_branch_has_no_values_of_one_that_main_dropped(tmp_path):
    """Main forgets the id of the dropped column, and gives it to the new one."""
    uri = forked(str(tmp_path / "t.lance"), index=False)
    head(uri).add_columns({"x": "id * 5"})
    run(uri, None, "exp")
    head(uri).drop_columns(["x"])
    head(uri, "exp").add_columns({"w": "id * 7"})
    given = pa.table({"id": [50, 51], "v": [1, 2], "x": [800, 801], "w": [998, 999]})
    lance.write_dataset(given, head(uri, "exp").uri, mode="append")
    run(uri)
    found = {row["id"]: row["w"] for row in head(uri).to_table().to_pylist()}
    assert found == {**{n: 7 * n for n in range(30)}, 50: 998, 51: 999}
    assert head(uri).schema.names == ["id", "v", "w"]
    assert_sound(head(uri))
