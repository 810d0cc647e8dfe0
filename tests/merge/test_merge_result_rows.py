"""What only rows show of a result: nulls where none may be, keys that two rows have, values of a dropped column."""

import lance
import pyarrow as pa
import pytest
from support.meanwhile import meanwhile
from support.merge_datasets import head, run

from lance_spark import LanceTable
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.merge import replay_commits, row_conflicts
from lance_spark.merge.merge import MergeOptions, cherry_pick, merge, revert
from lance_spark.storage.datasets import locate, pin_latest

KEY = {"lance-schema:unenforced-primary-key": "true"}
STRUCT = pa.struct([("b", pa.string())])
by_day = pytest.mark.when(day=0.2)


def given(uri, columns=None, keyed=False, stable=False):
    """Two rows, and a branch 'exp'."""
    data = pa.table(columns or {"k": [1, 2], "a": ["x", "y"], "s": pa.array([{"b": "x"}, {"b": "y"}], STRUCT)})
    if keyed:
        data = data.cast(pa.schema([pa.field("k", pa.int64(), False, KEY), *list(data.schema)[1:]]))
    lance.write_dataset(data, uri, enable_stable_row_ids=stable)
    lance.dataset(uri).create_branch("exp")
    return uri


def add(dataset, **values):
    """Append one row; columns that are not given are null."""
    row = pa.Table.from_pylist([dict.fromkeys(dataset.schema.names) | values], dataset.schema.empty_table().schema)
    lance.write_dataset(row, dataset.uri, mode="append")


def strict(dataset, path="a"):
    dataset.alter_columns({"path": path, "nullable": False})


def update(dataset, condition, **values):
    dataset.update(values, where=condition)


def sides(uri, flipped):
    """(the dataset that changes first, the other one): main and the branch, or the other way round."""
    both = (lambda: head(uri)), (lambda: head(uri, "exp"))
    return both[::-1] if flipped else both


def replayed(uri, verb="merge", version=None):
    """The verb as a dry run and for good: both say the same, and what comes of it can be read."""
    location, engine = locate(uri), LocalRunner()

    def go(dry_run):
        if verb == "revert":
            return revert(location, version, None, engine, MergeOptions(dry_run=dry_run))
        source = pin_latest(location, "exp")
        if verb == "cherry-pick":
            return cherry_pick(location, source, None, engine, MergeOptions(dry_run=dry_run))
        return merge(location, source, None, MergeOptions(dry_run=dry_run, reference=verb == "by reference"), engine)

    dry, before = go(True), head(uri).version
    if dry.conflicts:
        with pytest.raises(Conflict) as refused:
            go(False)
        assert head(uri).version == before
        for conflict in dry.conflicts:
            assert str(conflict) in str(refused.value)
        return dry
    done = go(False)
    assert done.summary == dry.summary
    head(uri).to_table()
    head(uri).validate()
    return done


def reasons(result):
    return [(each.reason, tuple(row.partition(":")[0] for row in each.rows)) for each in result.conflicts]


# --- Nulls

each_side = pytest.mark.parametrize("flipped", [False, True], ids=["theirs", "ours"])
VERBS = ["merge", "by reference", "cherry-pick"]


@by_day
@each_side
@pytest.mark.parametrize("verb", VERBS)
def test_a_null_in_a_column_that_lost_its_nulls_is_a_conflict(tmp_path, flipped, verb):
    uri = given(str(tmp_path / "t.lance"))
    one, other = sides(uri, flipped)
    strict(one())
    add(other(), k=9, s={"b": "z"})
    side = "ours" if flipped else "theirs"
    assert reasons(replayed(uri, verb)) == [
        (f"column 'a' cannot be null, and {side} has rows without it", ("k=9, a=None",))
    ]
    head(uri).to_table()


@by_day
@each_side
@pytest.mark.parametrize("extra", [False, True], ids=["alone", "beside another column"])
@pytest.mark.parametrize("path", ["a", "s", "s.b"])
def test_without_nulls_both_sides_come_together(tmp_path, flipped, extra, path):
    uri = given(str(tmp_path / "t.lance"))
    one, other = sides(uri, flipped)
    strict(one(), path)
    add(other(), k=9, a="z", s={"b": "z"})
    if extra:
        other().add_columns(pa.field("n", pa.int32()))
    assert not reasons(replayed(uri))
    field = head(uri).schema.field(path[0])
    assert not (field.type.field("b") if "." in path else field).nullable
    assert sorted(head(uri).to_table()["k"].to_pylist()) == [1, 2, 9]


@by_day
@each_side
def test_a_null_struct_has_no_null_inside(tmp_path, flipped):
    uri = given(str(tmp_path / "t.lance"))
    one, other = sides(uri, flipped)
    strict(one(), "s.b")
    add(other(), k=9, a="z", s=None)
    assert not reasons(replayed(uri))


@by_day
@each_side
def test_a_null_inside_a_struct_is_a_conflict(tmp_path, flipped):
    uri = given(str(tmp_path / "t.lance"))
    one, other = sides(uri, flipped)
    strict(one(), "s.b")
    add(other(), k=10, a="z", s={"b": None})
    side = "ours" if flipped else "theirs"
    expected = f"column 's.b' cannot be null, and {side} has rows without it"
    assert reasons(replayed(uri)) == [(expected, ("k=10, a='z'",))]


@by_day
@each_side
@pytest.mark.parametrize("extra", [False, True], ids=["alone", "beside another column"])
def test_rows_without_a_new_column_that_cannot_be_null(tmp_path, flipped, extra):
    uri = given(str(tmp_path / "t.lance"), keyed=True)
    one, other = sides(uri, flipped)
    one().add_columns({"n": "7"})
    if extra:
        other().add_columns(pa.field("o", pa.int32()))
    add(other(), k=9, a="z")
    side = "ours" if flipped else "theirs"
    (found,) = reasons(replayed(uri))
    assert found == (f"column 'n' cannot be null, and {side} has rows without it", ("k=9",))


@by_day
@pytest.mark.parametrize("verb", VERBS)
def test_a_new_column_that_cannot_be_null_is_taken_over_beside_others(tmp_path, verb):
    uri = given(str(tmp_path / "t.lance"))
    head(uri, "exp").add_columns({"n": "7"})
    head(uri).add_columns(pa.field("o", pa.int32()))
    head(uri).delete("k = 2")
    assert not reasons(replayed(uri, verb))
    assert head(uri).to_table(columns=["k", "n", "o"]).to_pylist() == [{"k": 1, "n": 7, "o": None}]
    assert not head(uri).schema.field("n").nullable


@by_day
@pytest.mark.parametrize("first", [True, False], ids=["was nullable", "becomes nullable"])
@pytest.mark.parametrize("more", ["nothing", "append", "update", "column", "append and column"])
def test_a_branch_that_altered_nulls_and_more_is_taken_over(tmp_path, first, more):
    uri = given(str(tmp_path / "t.lance"))
    if not first:
        strict(head(uri))
        lance.dataset(uri).create_branch("late")
    branch = "exp" if first else "late"
    head(uri, branch).alter_columns({"path": "a", "nullable": not first})
    if "append" in more:
        add(head(uri, branch), k=9, a="z" if first else None, s={"b": "z"})
    if more == "update":
        update(head(uri, branch), "k < 5", a="'new'")
    if "column" in more:
        head(uri, branch).add_columns(pa.field("o", pa.int32()))
    location, engine = locate(uri), LocalRunner()
    dry = merge(location, pin_latest(location, branch), None, MergeOptions(dry_run=True), engine)
    done = merge(location, pin_latest(location, branch), None, MergeOptions(), engine)
    assert done.summary == dry.summary
    assert head(uri).schema == head(uri, branch).schema
    by_key = [("k", "ascending")]
    assert head(uri).to_table().sort_by(by_key) == head(uri, branch).to_table().sort_by(by_key)
    again = merge(location, pin_latest(location, branch), None, MergeOptions(), engine)
    assert again.up_to_date


def test_a_protected_branch_takes_nulls_and_more_from_a_merge(tmp_path):
    uri = given(str(tmp_path / "t.lance"))
    LanceTable.for_path(uri).branches.alter("main", protected=True)
    strict(head(uri, "exp"))
    add(head(uri, "exp"), k=9, a="z", s={"b": "z"})
    assert not reasons(replayed(uri))
    assert not head(uri).schema.field("a").nullable


def test_rows_without_a_value_that_leave_need_a_step_of_their_own(tmp_path):
    """The column cannot lose its nulls before the rows with them are deleted."""
    uri = given(str(tmp_path / "t.lance"), {"k": [1, 2], "a": ["x", None]})
    head(uri, "exp").delete("k = 2")
    strict(head(uri, "exp"))
    location, engine = locate(uri), LocalRunner()
    for dry_run in (True, False):
        with pytest.raises(Refused, match="column 'a' may be null") as refused:
            merge(location, pin_latest(location, "exp"), None, MergeOptions(dry_run=dry_run), engine)
        assert "first the version before" in str(refused.value)
    assert head(uri).version == 1
    for version in (2, 3):
        merge(location, PinnedVersion("exp", version), None, MergeOptions(), engine)
    assert head(uri).to_table().to_pylist() == [{"k": 1, "a": "x"}]
    assert not head(uri).schema.field("a").nullable


def test_reverting_a_deletion_brings_no_null_back(tmp_path):
    uri = given(str(tmp_path / "t.lance"))
    add(head(uri), k=9, a=None, s={"b": "z"})
    head(uri).delete("k = 9 or k = 2")
    strict(head(uri))
    expected = ("column 'a' cannot be null, and theirs has rows without it", ("k=9, a=None",))
    assert reasons(replayed(uri, "revert", PinnedVersion(None, 3))) == [expected]


def test_nothing_is_read_if_no_column_changed(tmp_path, monkeypatch):
    uri = given(str(tmp_path / "t.lance"))
    add(head(uri), k=8, a="z", s={"b": "z"})
    add(head(uri, "exp"), k=9, a="z", s={"b": "z"})
    update(head(uri, "exp"), "k = 1", a="'new'")
    monkeypatch.setattr(row_conflicts, "read_rows", None)
    assert not reasons(replayed(uri))


# --- Keys


def declare(dataset):
    dataset.update_field_metadata({"k": KEY})


@by_day
@each_side
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("declared", ["before", "one side", "both sides"])
@pytest.mark.parametrize("how", ["append", "update of the key"])
def test_a_key_is_unique_whoever_declared_it(tmp_path, flipped, verb, declared, how, stable):
    uri = given(str(tmp_path / "t.lance"), {"k": [1, 2], "v": [10, 20]}, declared == "before", stable)
    one, other = sides(uri, flipped)
    for dataset in {"before": [], "one side": [one], "both sides": [one, other]}[declared]:
        if declared != "before":
            dataset().alter_columns({"path": "k", "nullable": False})
            declare(dataset())
    add(one(), k=9, v=90)
    if how == "append":
        add(other(), k=9, v=91)
    else:
        update(other(), "k = 2", k="9")
    found = reasons(replayed(uri, verb))
    # A cherry-pick of the other side's rows leaves out the version that declares the key.
    picked_alone = verb == "cherry-pick" and declared == "one side" and flipped
    assert [rows for _, rows in found] == ([] if picked_alone else [("k=9",)])


def test_of_a_key_of_two_columns_both_count(tmp_path):
    data = pa.table({"k": [1, 2], "v": [10, 20]})
    schema = pa.schema([pa.field(name, pa.int64(), False, KEY) for name in data.schema.names])
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(data.cast(schema), uri)
    lance.dataset(uri).create_branch("exp")
    add(head(uri), k=9, v=90)
    add(head(uri, "exp"), k=9, v=91)
    assert not reasons(replayed(uri))
    add(head(uri), k=8, v=80)
    add(head(uri, "exp"), k=8, v=80)
    assert reasons(replayed(uri)) == [("both sides have new rows with the same key", ("k=8, v=80",))]


@by_day
@pytest.mark.parametrize("whole", [False, True], ids=["part of a fragment", "whole fragment"])
def test_reverting_a_deletion_brings_no_key_twice(tmp_path, whole):
    uri = given(str(tmp_path / "t.lance"), {"k": [1, 2], "v": [10, 20]}, keyed=True)
    head(uri).delete("true" if whole else "k = 2")
    assert not reasons(replayed(uri, "revert", PinnedVersion(None, 2)))
    head(uri).delete("k = 2")
    add(head(uri), k=2, v=21)
    assert reasons(replayed(uri, "revert", PinnedVersion(None, 4))) == [
        ("both sides have new rows with the same key", ("k=2",))
    ]


def test_a_row_that_was_deleted_and_written_again_on_one_side_is_no_second_one(tmp_path):
    uri = given(str(tmp_path / "t.lance"), {"k": [1, 2, 3], "v": [10, 20, 30]}, keyed=True)
    head(uri, "exp").delete("k = 2")
    add(head(uri, "exp"), k=2, v=21)
    update(head(uri), "k = 1", v="11")
    head(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert not reasons(replayed(uri))
    assert sorted(head(uri).to_table().to_pydict()["v"]) == [11, 21, 30]


def test_a_key_that_somebody_adds_right_before_the_commit_is_a_conflict(tmp_path, monkeypatch):
    uri = given(str(tmp_path / "t.lance"), {"k": [1, 2], "v": [10, 20]}, keyed=True)
    add(head(uri, "exp"), k=9, v=91)
    meanwhile(monkeypatch, replay_commits, "commit", *(lambda key=key: add(head(uri), k=key, v=90) for key in (7, 9)))
    with pytest.raises(Conflict, match="same key"):
        run(uri)
    assert sorted(head(uri).to_table()["k"].to_pylist()) == [1, 2, 7, 9]


def test_a_declared_key_is_not_taken_back_beside_other_changes(tmp_path):
    """pylance refuses it, after a dry run that said it was fine."""
    uri = given(str(tmp_path / "t.lance"), {"k": [1, 2], "v": [10, 20]})
    head(uri).alter_columns({"path": "k", "nullable": False})
    declare(head(uri))
    head(uri).add_columns(pa.field("o", pa.int32()))
    for dry_run in (True, False):
        with pytest.raises(Refused, match="'k' is part of the table's key"):
            revert(locate(uri), PinnedVersion(None, 3), None, LocalRunner(), MergeOptions(dry_run=dry_run))


# --- Values of dropped columns

WRITTEN = "column 'a' was dropped on one side, and the other one wrote values into it"


@by_day
@each_side
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("keyed", [False, True], ids=["without a key", "keyed"])
def test_values_written_into_a_dropped_column_are_a_conflict(tmp_path, flipped, verb, keyed):
    uri = given(str(tmp_path / "t.lance"), keyed=keyed)
    one, other = sides(uri, flipped)
    one().drop_columns(["a"])
    update(other(), "k = 1", a="'precious'")
    (found,) = reasons(replayed(uri, verb))
    assert found[0] == WRITTEN
    assert "'precious'" in found[1][0]


@by_day
@each_side
@pytest.mark.parametrize("keyed", [False, True], ids=["without a key", "keyed"])
@pytest.mark.parametrize("change", ["append", "update of another column", "both", "compaction", "delete"])
def test_a_dropped_column_takes_only_what_was_in_it(tmp_path, flipped, keyed, change):
    uri = given(str(tmp_path / "t.lance"), keyed=keyed)
    one, other = sides(uri, flipped)
    one().drop_columns(["a"])
    if change in ("append", "both", "compaction"):
        add(other(), k=9, a="z", s={"b": "z"})
    if change in ("update of another column", "both"):
        update(other(), "k = 1", s="named_struct('b', 'new')")
    if change == "compaction":
        other().optimize.compact_files()
    if change == "delete":
        other().delete("k = 1")
    result = replayed(uri)
    assert not reasons(result)
    assert result.summary.columns_dropped == (("a",) if flipped else ())
    lost = f"rows that '{'main' if flipped else 'exp'}' added lose their values in dropped columns: a"
    assert (lost in result.notes) == (change in ("append", "both"))
    assert head(uri).schema.names == ["k", "s"]


@by_day
@pytest.mark.parametrize("extra", [False, True], ids=["alone", "beside another column"])
def test_the_summary_names_dropped_columns(tmp_path, extra):
    uri = given(str(tmp_path / "t.lance"))
    head(uri, "exp").drop_columns(["a"])
    head(uri, "exp").drop_columns(["s"])
    if extra:
        head(uri).add_columns(pa.field("o", pa.int32()))
    result = replayed(uri)
    assert result.summary.columns_dropped == ("a", "s")
    assert "dropped columns: a, s" in str(result)


def test_reverting_the_addition_of_a_column_that_has_values_is_a_conflict(tmp_path):
    uri = given(str(tmp_path / "t.lance"))
    head(uri).add_columns(pa.field("d", pa.string()))
    update(head(uri), "k = 1", s="named_struct('b', 'new')")
    result = replayed(uri, "revert", PinnedVersion(None, 2))
    assert result.summary.columns_dropped == ("d",)
    head(uri).add_columns(pa.field("e", pa.string()))
    added = head(uri).version
    update(head(uri), "k = 1", e="'precious'")
    (found,) = reasons(replayed(uri, "revert", PinnedVersion(None, added)))
    assert found[0].startswith("column 'e' was dropped")
