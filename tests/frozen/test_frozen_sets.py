"""Frozen sets of real datasets: pylance reads them, every cleanup keeps them, and a killed call is called again."""

import re
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from unittest.mock import patch

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.local_datasets import make_dataset

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.cleanup.many_tables import FleetTable
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, InvalidOption, NotFound, Refused
from lance_spark.frozen import frozen, set_plans
from lance_spark.frozen.draw_rules import make_spec
from lance_spark.frozen.frozen import diff_frozen
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import NEEDED
from lance_spark.maintenance.maintain import Job, TableSteps, UpkeepOptions
from lance_spark.storage import refs
from lance_spark.storage.datasets import pin_version

SPLIT = {"train": 0.8, "val": 0.2}
CALL = {"filter": "id < 90", "split": SPLIT, "by": "patient", "seed": 7}
BY_PATIENT = [34, 32, 31, 30, 33]
BY_ROW = [26, 39, 3, 37, 0]


def visits(first=0, count=100):
    ids = range(first, first + count)
    images = pa.array([None if n % 9 == 0 else bytes([n % 256]) * 3 for n in ids], pa.large_binary())
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("patient", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), 2)),
            pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    return pa.table([list(ids), [f"p{n // 5}" for n in ids], [[float(n), 0.5] for n in ids], images], schema=schema)


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def uri(tmp_path, request):
    uri = str(tmp_path / "visits.lance")
    made = make_dataset(uri, visits(), max_rows_per_file=30, enable_stable_row_ids=request.param)
    made.delete("id % 7 = 0")
    return uri


def table_at(uri):
    return LanceTable.for_path(uri)


def rows_of(table, name, split=None, **options):
    return pa.Table.from_batches(table.frozen.batches(name, split, **options))


def ids_of(table, name, split=None):
    return rows_of(table, name, split, columns=["id"])["id"].to_pylist()


def test_a_frozen_set_has_the_rows_that_pass_the_filter_in_splits_and_in_order(uri):
    table = table_at(uri)
    lineage = table.frozen.create("train-1", code="abc123", **CALL)
    live = [n for n in range(90) if n % 7]
    assert sorted(ids_of(table, "train-1")) == live
    train, val = ids_of(table, "train-1", "train"), ids_of(table, "train-1", "val")
    assert ids_of(table, "train-1") == train + val
    assert train != sorted(train)
    assert {n // 5 for n in train}.isdisjoint(n // 5 for n in val)
    assert [(size.name, size.rows) for size in lineage.sizes] == [("train", len(train)), ("val", len(val))]
    assert (lineage.spec.code, lineage.spec.filter, str(lineage.source)) == ("abc123", "id < 90", "main@2")
    rows = rows_of(table, "train-1", "val", with_position=True)
    assert rows["_position"].to_pylist() == list(range(len(val)))
    assert set(rows["_split"].to_pylist()) == {"val"}


def test_the_rows_are_pinned(tmp_path):
    """On every machine: a change of hashes, encodings or orders fails here."""
    uri = str(tmp_path / "pinned.lance")
    make_dataset(uri, visits(count=40), max_rows_per_file=15)
    table = table_at(uri)
    table.frozen.create("by-patient", **CALL)
    assert ids_of(table, "by-patient", "val") == BY_PATIENT
    table.frozen.create("by-row", split=SPLIT, seed=7)
    assert ids_of(table, "by-row", "val") == BY_ROW


def test_pylance_reads_a_set_in_three_lines(uri):
    table_at(uri).frozen.create("train-1", **CALL)
    plan = lance.dataset(uri, version="frozen-train-1").to_table(filter="split = 'train'")
    rows = lance.dataset(uri, version="train-1").take(plan["row_offset"].to_pylist(), columns=["id"])
    assert rows["id"].to_pylist() == ids_of(table_at(uri), "train-1", "train")
    assert plan["position"].to_pylist() == list(range(plan.num_rows))
    ids = lance.dataset(uri, version="train-1").to_table(columns=["id"], with_row_id=True)
    known = dict(zip(ids["_rowid"].to_pylist(), ids["id"].to_pylist(), strict=True))
    assert [known[each] for each in plan["row_id"].to_pylist()] == rows["id"].to_pylist()


def test_vectors_and_blobs_come_with_the_rows(uri):
    table = table_at(uri)
    table.frozen.create("all")
    rows = rows_of(table, "all").sort_by("id")
    expected = visits().filter(pc.is_in(pc.field("id"), rows["id"]))
    assert rows["vector"].to_pylist() == expected["vector"].to_pylist()
    assert rows["image"].to_pylist() == expected["image"].to_pylist()
    assert rows_of(table, "all", columns=["patient"]).schema.names == ["patient"]
    with pytest.raises(NotFound, match="'nothing'"):
        rows_of(table, "all", columns=["nothing"])


def test_every_cleanup_keeps_a_set(uri):
    table = table_at(uri)
    table.frozen.create("train-1", **CALL)
    before = rows_of(table, "train-1")
    lance.dataset(uri).delete("id < 50")
    make_more = visits(200, 50)
    lance.write_dataset(make_more, uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    for place in (uri, f"{uri}/tree/frozen/train-1"):
        lance.dataset(place).cleanup_old_versions(
            older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    policy = CleanupPolicy(retain_versions=1, commit_window=timedelta(0))
    report = table.cleanup(policy).apply()
    assert report is not None
    assert table.fsck().sound
    assert rows_of(table, "train-1") == before


def test_the_fork_alone_keeps_a_set_whose_tag_of_the_rows_another_tool_deleted(uri):
    table = table_at(uri)
    table.frozen.create("train-1", **CALL)
    before = rows_of(table, "train-1")
    lance.dataset(uri).tags.delete("train-1")
    lance.write_dataset(visits(200, 5), uri, mode="append")
    lance.dataset(uri).delete("id < 90")
    lance.dataset(uri).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    assert rows_of(table, "train-1") == before


def test_the_same_call_changes_nothing_and_another_one_is_refused(uri):
    table = table_at(uri)
    first = table.frozen.create("train-1", **CALL)
    versions = lance.dataset(f"{uri}/tree/frozen/train-1").version
    assert table.frozen.create("train-1", code="another", **CALL) == first
    assert lance.dataset(f"{uri}/tree/frozen/train-1").version == versions
    for change, told in (({"seed": 8}, "seed"), ({"by": None}, "by"), ({"split": {"all": 1}}, "splits")):
        with pytest.raises(AlreadyExists, match=f"with another {told}"):
            table.frozen.create("train-1", **{**CALL, **change})
    lance.write_dataset(visits(100, 5), uri, mode="append")
    with pytest.raises(AlreadyExists, match="with another version"):
        table.frozen.create("train-1", **CALL)
    assert table.checkout(tag="train-1").frozen.create("train-1", **CALL) == first


@pytest.mark.parametrize("stage", ["_ready_branch", "write_slice", "commit_plan", "_tag", "_finished"])
@pytest.mark.parametrize("moved", [False, True], ids=["same version", "newer version"])
def test_a_killed_freeze_is_called_again(tmp_path, stage, moved):
    uri = str(tmp_path / "visits.lance")
    make_dataset(uri, visits(), max_rows_per_file=30)
    table = table_at(uri)
    place = frozen if hasattr(frozen, stage) else set_plans
    real = getattr(place, stage)

    def killed(*arguments):
        done = real(*arguments)
        if stage == "write_slice":
            list(done)
        raise KeyboardInterrupt

    with patch.object(place, stage, killed), pytest.raises(KeyboardInterrupt):
        table.frozen.create("train-1", **CALL)
    done = stage in ("_tag", "_finished")
    if moved:
        lance.write_dataset(visits(100, 5), uri, mode="append")
    again = table.checkout(version=1) if done else table
    lineage = again.frozen.create("train-1", **CALL)
    assert sorted(ids_of(table, "train-1")) == list(range(90))
    assert lineage.source.version == (2 if moved and not done else 1)
    assert {tag.name for tag in table.tags.list(all=True)} == {"train-1", "frozen-train-1"}


@pytest.mark.parametrize("stage", ["_check_own", "_tag"])
def test_what_a_killed_freeze_left_is_sound_no_set_and_removed_by_unfreeze(uri, stage):
    table = table_at(uri)
    with patch.object(frozen, stage, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        table.frozen.create("train-1", **CALL)
    assert table.frozen.list() == []
    assert table.fsck(deep=True).sound
    table.frozen.delete("train-1")
    assert (len(table.tags.list(all=True)), len(table.branches.list(all=True))) == (0, 0)


def test_two_that_freeze_other_rows_at_once_get_one_set_and_one_refusal(uri):
    table = table_at(uri)
    real = set_plans.commit_plan

    def after_another(*arguments):
        with patch.object(set_plans, "commit_plan", real):
            table.frozen.create("train-1", **{**CALL, "seed": 8})
        return real(*arguments)

    with patch.object(set_plans, "commit_plan", after_another), pytest.raises(AlreadyExists, match="another seed"):
        table.frozen.create("train-1", **CALL)
    table.frozen.create("train-2", **{**CALL, "seed": 8})
    assert ids_of(table, "train-1") == ids_of(table, "train-2")
    assert table.fsck(deep=True).sound


def test_the_hint_for_rows_without_a_group_can_be_copied(uri):
    rows = visits(200, 9).rename_columns(["id", "my group", "vector", "image"])
    rows = rows.set_column(1, "my group", pa.array([None, *"abcdefgh"]))
    lance.write_dataset(rows, uri, mode="overwrite")
    with pytest.raises(Refused, match="1 rows have no 'my group'") as told:
        table_at(uri).frozen.create("s", by="my group")
    (known,) = re.findall("filter='(.*)'", told.value.hint)
    assert table_at(uri).frozen.create("s", known, by="my group").rows == 8


@pytest.mark.parametrize("stage", ["delete_tag", "delete_branch"])
def test_a_killed_unfreeze_is_called_again(uri, stage):
    table = table_at(uri)
    table.frozen.create("train-1", **CALL)
    place = frozen.refs if stage == "delete_tag" else frozen
    real = getattr(place, stage)

    def killed(*arguments):
        if stage == "delete_tag":
            real(*arguments)
        raise KeyboardInterrupt

    with patch.object(place, stage, killed), pytest.raises(KeyboardInterrupt):
        table.frozen.delete("train-1")
    table.frozen.delete("train-1")
    assert (len(table.tags.list(all=True)), len(table.branches.list(all=True)), table.frozen.list()) == (0, 0, [])
    with pytest.raises(NotFound, match="no frozen set 'train-1'"):
        table.frozen.delete("train-1")
    table.frozen.create("train-1", **CALL)


def test_of_two_that_freeze_at_once_both_get_the_first_plan(uri):
    table = table_at(uri)
    real = set_plans.commit_plan

    def after_another(*arguments):
        with patch.object(set_plans, "commit_plan", real):
            table.frozen.create("train-1", **CALL)
        return real(*arguments)

    with patch.object(set_plans, "commit_plan", after_another):
        lineage = table.frozen.create("train-1", **CALL)
    assert [each.name for each in table.frozen.list()] == ["train-1"]
    assert lineage.rows == len(ids_of(table, "train-1"))


@pytest.mark.parametrize("stage", ["has_stable_row_ids", "_tag"])
@pytest.mark.parametrize("other", ["freezes", "is killed", "unfreezes"])
def test_a_plan_whose_branch_another_call_deleted_is_never_taken_for_a_set(uri, stage, other):
    """That of another version deletes what it takes for left over, with files that the slower call has yet to name."""
    table = table_at(uri)
    place = frozen if hasattr(frozen, stage) else set_plans
    real = getattr(place, stage)

    def overtaken(*arguments):
        with patch.object(place, stage, real):
            _overtake(table, other)
        return real(*arguments)

    with patch.object(place, stage, overtaken), pytest.raises((Conflict, AlreadyExists, NotFound)):
        table.frozen.create("train-1", **CALL)
    assert table.fsck(deep=True).sound
    assert [each.source.version for each in table.frozen.list()] == ([3] if other == "freezes" else [])
    lineage = table.checkout(version=3 if other == "freezes" else 2).frozen.create("train-1", **CALL)
    assert len(ids_of(table, "train-1")) == lineage.rows


def _overtake(table, other):
    if other == "unfreezes":
        table.frozen.delete("train-1")
        return
    lance.write_dataset(visits(500, 5), table.location.uri, mode="append")
    if other == "freezes":
        table.frozen.create("train-1", **CALL)
        return
    with patch.object(set_plans, "write_slice", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
        table.frozen.create("train-1", **CALL)


def test_a_tag_that_somebody_made_before_stays_when_the_set_goes(uri):
    table = table_at(uri)
    table.tags.create("release", version=2)
    table.frozen.create("release", **CALL)
    table.frozen.delete("release")
    assert [tag.name for tag in table.tags.list()] == ["release"]
    table.frozen.create("again", **CALL)
    table.frozen.delete("again")
    assert [tag.name for tag in table.tags.list()] == ["release"]


def test_what_a_set_is_found_by_is_deleted_with_the_set_alone(uri):
    table = table_at(uri)
    table.branches.create("exp")
    table.checkout(branch="exp").frozen.create("s")
    for change in (
        lambda: table.tags.delete("frozen-s"),
        lambda: table.tags.delete("s"),
        lambda: table.tags.delete("s", force=True),
        lambda: table.tags.alter("s", expire_after="1d"),
        lambda: table.tags.move("frozen-s", version=1),
        lambda: table.tags.move("s", version=1),
        lambda: table.branches.delete("frozen/s"),
        lambda: table.branches.delete("exp"),
    ):
        with pytest.raises(Refused) as told:
            change()
        assert "t.frozen.delete('s')" in told.value.hint
    table.frozen.delete("s")
    table.branches.delete("exp")
    table.tags.create("frozen-s", version=1)
    table.tags.move("frozen-s", version=2)
    table.tags.delete("frozen-s")


def test_a_set_whose_plan_was_lost_is_told_hides_no_other_and_is_deleted(uri):
    table = table_at(uri)
    table.frozen.create("good", **CALL)
    table.frozen.create("lost", **CALL)
    shutil.rmtree(f"{uri}/tree/frozen/lost")
    assert [each.name for each in table.frozen.list()] == ["good"]
    assert not table.fsck().sound
    with pytest.raises(NotFound):
        table.frozen.lineage("lost")
    table.frozen.delete("lost")
    assert [tag.name for tag in table.tags.list(all=True)] == ["frozen-good", "good"]
    assert table.fsck().sound


def test_a_set_whose_branch_has_to_stay_loses_nothing(uri):
    table = table_at(uri)
    table.frozen.create("s", **CALL)
    before = ids_of(table, "s")
    table.branches.alter("frozen/s", protected=True)
    with pytest.raises(Refused, match="protected"):
        table.frozen.delete("s")
    table.branches.alter("frozen/s", protected=False)
    table.checkout(branch="frozen/s").branches.create("mine", branch="frozen/s")
    with pytest.raises(Refused, match="'mine' was created from it"):
        table.frozen.delete("s")
    assert ids_of(table, "s") == before
    assert {tag.name for tag in table.tags.list(all=True)} == {"s", "frozen-s"}
    table.branches.delete("mine")
    table.frozen.delete("s")
    assert len(table.tags.list(all=True)) == 0


def test_maintenance_leaves_plans_as_they_are(uri, tmp_path):
    table, pin = table_at(uri), table_at(uri)._pin()
    frozen.freeze(table.location, pin, make_spec("s", **CALL), LocalRunner(), at_once=11)
    table.branches.create("frozen/mine")
    steps = TableSteps(Job(UpkeepOptions(), LocalRunner(), 0), FleetTable("visits", table.location))
    assert steps.branches(refs.read_refs(table.location)) == [None, "frozen/mine"]


def test_columns_that_cannot_stand_side_by_side_are_refused(uri):
    table = table_at(uri)
    table.frozen.create("s")
    assert rows_of(table, "s", columns="id").schema.names == ["id"]
    for columns in ([], ["id", "id"]):
        with pytest.raises(InvalidOption, match="names no columns, or a column twice"):
            rows_of(table, "s", columns=columns)
    lance.dataset(uri).add_columns({"_split": "'mine'"})
    table_at(uri).frozen.create("other")
    with pytest.raises(InvalidOption, match="has a column '_split'"):
        rows_of(table, "other", with_position=True)
    assert rows_of(table, "other", columns="id", with_position=True)["_split"][0].as_py() == "all"


def test_the_same_fractions_in_other_words_are_the_same_call(uri):
    table = table_at(uri)
    first = table.frozen.create("s", split={"all": 1})
    assert table.frozen.create("s", split={"all": 1.0}) == table.frozen.create("s") == first


def test_names_that_are_taken_are_refused(uri):
    table = table_at(uri)
    table.tags.create("release", version=1)
    with pytest.raises(AlreadyExists, match="tag 'release' already exists, on version main@1"):
        table.frozen.create("release", **CALL)
    table.branches.create("frozen/mine")
    lance.write_dataset(visits(500, 1), f"{uri}/tree/frozen/mine", mode="append")
    with pytest.raises(AlreadyExists, match="not the plan of a frozen set"):
        table.frozen.create("mine", **CALL)
    table.tags.create("frozen-x", version=1)
    with pytest.raises(AlreadyExists, match="'frozen-x' exists"):
        table.frozen.create("x", **CALL)
    with pytest.raises(NotFound):
        table.frozen.delete("mine-too")
    assert table.frozen.list() == []


def test_what_cannot_be_frozen_is_refused_before_anything_is_made(uri):
    table = table_at(uri)
    lance.write_dataset(visits(300, 2).set_column(1, "patient", pa.array([None, "x"])), uri, mode="append")
    cases = [
        ({"by": "patient"}, Refused, "1 rows have no 'patient'"),
        ({"filter": "id < 0"}, Refused, "no rows"),
        ({"by": "nobody"}, NotFound, "'nobody'"),
        ({"by": "vector"}, InvalidOption, "cannot be used to group"),
        ({"by": "image"}, InvalidOption, "blobs"),
        ({"filter": "id <"}, InvalidOption, "filter"),
    ]
    for arguments, error, words in cases:
        with pytest.raises(error, match=words):
            table.frozen.create("bad", **arguments)
    assert (len(table.tags.list(all=True)), len(table.branches.list(all=True))) == (0, 0)
    table.frozen.create("good", filter="patient IS NOT NULL", by="patient")


def test_a_plan_is_the_same_when_it_is_sorted_slice_by_slice(uri):
    table, pin = table_at(uri), table_at(uri)._pin()
    table.frozen.create("whole", **CALL)
    frozen.freeze(table.location, pin, make_spec("slices", **CALL), LocalRunner(), at_once=11)
    plans = [lance.dataset(f"{uri}/tree/frozen/{name}").to_table() for name in ("whole", "slices")]
    assert plans[0] == plans[1].combine_chunks()
    assert len(lance.dataset(f"{uri}/tree/frozen/slices").get_fragments()) > 3


def test_branches_are_frozen_like_main(uri):
    table = table_at(uri)
    table.branches.create("exp")
    lance.write_dataset(visits(100, 20), f"{uri}/tree/exp", mode="append")
    table.checkout(branch="exp").frozen.create("exp-set", split=SPLIT, seed=1)
    table.frozen.create("main-set", split=SPLIT, seed=1)
    assert sorted(ids_of(table, "exp-set")) == [n for n in range(120) if n % 7 or n >= 100]
    diff = table.frozen.diff("main-set", "exp-set", key="id")
    assert (diff.added, diff.removed, diff.moved) == (20, 0, 0)
    with pytest.raises(Refused, match="Nothing identifies the same rows"):
        table.frozen.diff("main-set", "exp-set")


def test_two_sets_of_one_version_differ_by_their_rows(uri):
    table = table_at(uri)
    table.frozen.create("a", split=SPLIT, seed=1, filter="id < 80")
    table.frozen.create("b", split=SPLIT, seed=2, filter="id >= 20")
    split = {name: {s: set(ids_of(table, name, s)) for s in SPLIT} for name in "ab"}
    rows = {name: split[name]["train"] | split[name]["val"] for name in "ab"}
    moved = (split["a"]["train"] & split["b"]["val"]) | (split["a"]["val"] & split["b"]["train"])
    for key in ((), "id", ["patient", "id"]):
        diff = table.frozen.diff("a", "b", key)
        assert (diff.added, diff.removed) == (len(rows["b"] - rows["a"]), len(rows["a"] - rows["b"]))
        assert diff.moved == len(moved) > 0
        columns = (key,) if isinstance(key, str) else tuple(key)
        here = diff_frozen(table.location, ("a", "b"), columns, LocalRunner())
        assert here == diff
        assert here.frame.num_rows == diff.added + diff.removed + diff.moved
    with pytest.raises(Refused, match="same key"):
        table.frozen.diff("a", "b", "patient")
    with pytest.raises(NotFound, match="Existing sets: 'a', 'b'"):
        table.frozen.diff("a", "c")


def test_a_source_that_was_made_again_is_told(tmp_path):
    uri = str(tmp_path / "visits.lance")
    make_dataset(uri, visits())
    table = table_at(uri)
    table.branches.create("exp")
    table.checkout(branch="exp").frozen.create("s")
    lineage = table.frozen.lineage("s")
    other = replace(lineage.source, stamp=1)
    with (
        patch("lance_spark.frozen.frozen.pin_version", lambda *at: other if at[1] == "exp" else pin_version(*at)),
        pytest.raises(Conflict, match="not the one"),
    ):
        ids_of(table, "s")
    with pytest.raises(Refused):
        table.branches.delete("exp")


def test_a_copy_of_the_dataset_has_the_set(uri, tmp_path):
    table = table_at(uri)
    table.frozen.create("train-1", **CALL)
    there = str(tmp_path / "copy.lance")
    shutil.copytree(uri, there)
    copied = table_at(there)
    copied.relocate()
    assert rows_of(copied, "train-1") == rows_of(table, "train-1")
    assert copied.checkout(tag="train-1").frozen.create("again", **CALL).rows == table.frozen.lineage("train-1").rows
    assert ids_of(copied, "again") == ids_of(table, "train-1")


def test_a_set_of_a_branch_is_made_again_after_the_dataset_has_moved(uri, tmp_path):
    """As the page says: a version that reads its parent's files by their old place stays as it is."""
    table = table_at(uri)
    table.branches.create("exp")
    lance.write_dataset(visits(100, 20), f"{uri}/tree/exp", mode="append")
    table.checkout(branch="exp").frozen.create("s", **CALL)
    before = ids_of(table, "s")
    there = str(tmp_path / "moved.lance")
    shutil.move(uri, there)
    moved = table_at(there)
    moved.relocate()
    with pytest.raises(CorruptData):
        ids_of(moved, "s")
    moved.branches.create("moved", tag="s")
    moved.relocate()
    moved.checkout(branch="moved").frozen.create("s-moved", **CALL)
    assert ids_of(moved, "s-moved") == before


def test_clones_make_the_same_set_and_follow_the_plan(uri, tmp_path):
    table = table_at(uri)
    table.frozen.create("train-1", **CALL)
    deep = table.checkout(tag="train-1").clone(str(tmp_path / "deep.lance"), "deep", follow=False)
    deep.frozen.create("train-1", **CALL)
    assert ids_of(deep, "train-1") == ids_of(table, "train-1")
    clone = table.clone(str(tmp_path / "clone.lance"))
    assert "origin/frozen/train-1" in [branch.name for branch in clone.branches.list(all=True)]
    with pytest.raises(NotFound, match="'origin/frozen/train-1' is the plan of a remote's set: to create it here"):
        clone.frozen.lineage("train-1")
    clone.frozen.create("train-1", **CALL)
    assert ids_of(clone, "train-1") == ids_of(table, "train-1")


def test_a_tag_that_was_to_expire_stays_once_a_set_is_frozen_by_it(uri):
    table = table_at(uri)
    table.tags.create("release", version=2, expire_after="1d")
    table.frozen.create("release", **CALL)
    later = datetime.now(timezone.utc) + timedelta(days=30)
    (entry,) = [each for each in plan_expiry(table.location, later).entries if each.record.name == "release"]
    assert (entry.state, entry.why) == (NEEDED, "it belongs to the frozen set 'release'")
    assert not carry_out(table.location, plan_expiry(table.location, later), later).outcomes
    assert rows_of(table, "release")


def test_a_tag_does_not_go_back_to_where_it_was_before_a_set_was_frozen_by_it(uri):
    table = table_at(uri)
    table.tags.create("release", version=1)
    table.tags.move("release", version=2)
    table.frozen.create("release", **CALL)
    with pytest.raises(Refused, match="belongs to the frozen set 'release'"):
        table.tags.restore("release")
    assert table.checkout(tag="release").version == 2


def test_the_tags_and_the_branch_of_a_set_are_listed_when_asked_for(uri):
    table = table_at(uri)
    table.frozen.create("s")
    assert [tag.name for tag in table.tags.list()] == ["s"]
    assert [tag.name for tag in table.tags.list(all=True)] == ["frozen-s", "s"]
    assert table.branches.list() == []
    assert [branch.name for branch in table.branches.list(all=True)] == ["frozen/s"]
    with pytest.raises(NotFound) as told:
        table.checkout(branch="frozn")
    assert "frozen/s" not in told.value.hint
    with pytest.raises(NotFound) as told:
        table.checkout(branch="frozen/t")
    assert "'frozen/s'" in told.value.hint
