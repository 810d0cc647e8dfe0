"""Rows that both sides changed, merged cell by cell: every pair of changes against a model in memory."""

import re
import time
from copy import deepcopy
from itertools import product
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.cleanup_datasets import place
from support.meanwhile import meanwhile
from support.merge_datasets import assert_sound, error_of, head, run
from support.merge_datasets import rows as by_id

from lance_spark.columns.columns import add_filled_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, InvalidOption, NotCommittable
from lance_spark.fsck.fsck import FsckOptions, fsck
from lance_spark.merge.merge import MergeOptions, cherry_pick, merge, revert
from lance_spark.storage.datasets import locate, pin_latest

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
IDS = range(8)


def fields(keyed):
    key = pa.field("id", pa.int64(), nullable=not keyed, metadata=KEY if keyed else None)
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    return pa.schema([key, pa.field("x", pa.int64()), pa.field("y", pa.string()), pa.field("s", inner)])


def row(number):
    return {"id": number, "x": 10 * number, "y": f"y{number}", "s": {"a": number, "b": None}}


def table(numbers, keyed, **more):
    schema = fields(keyed)
    return pa.Table.from_pylist([{**row(number), **more} for number in numbers], schema=schema)


@pytest.fixture(params=["stable ids", "key"])
def uri(tmp_path, request):
    return forked(str(tmp_path / "t.lance"), request.param)


def forked(uri, how):
    for start in (0, 4):
        numbers = range(start, start + 4)
        mode = "append" if start else "create"
        lance.write_dataset(table(numbers, how == "key"), uri, mode=mode, enable_stable_row_ids=how == "stable ids")
    head(uri).create_scalar_index("x", "BTREE")
    head(uri).create_branch("exp")
    return uri


# --- What a side does: to a dataset, and to the model


class Side:
    """The rows of a side, by id, with what it deleted, rewrote and computed."""

    def __init__(self, base, first):
        self.rows, self.first = deepcopy(base), first
        self.rewritten, self.computed = set(), {}


def update(condition, column, sql, value):
    def on(uri, branch):
        head(uri, branch).update({column: sql}, where=f"id in {condition}")

    def model(side):
        for number in condition:
            if number in side.rows:
                side.rows[number][column] = value(side.rows[number])
                side.rewritten.add(number)

    return on, model


def delete(*numbers):
    def on(uri, branch):
        head(uri, branch).delete(f"id in ({', '.join(map(str, numbers))})")

    def model(side):
        for number in numbers:
            side.rows.pop(number, None)

    return on, model


FIRST = {None: 20, "exp": 30}
"""The id of the first new row on each side."""


def append(count):
    """New rows; the second one is updated later, in some cases."""

    def on(uri, branch):
        numbers = range(FIRST[branch], FIRST[branch] + count)
        names = head(uri, branch).schema.names
        keyed = head(uri, branch).schema.field("id").metadata is not None
        known = table(numbers, keyed).select([name for name in names if name in fields(keyed).names])
        lance.write_dataset(known, place(uri, branch), mode="append")

    def model(side):
        new = {name: None for row in side.rows.values() for name in row}
        for number in range(side.first, side.first + count):
            side.rows[number] = {**new, **row(number)}

    return on, model


def compute(column, read, existing=False, recorded=True):
    """A column from another one, through this package, which records what it read; or through pylance."""

    def function(batch):
        return {column: [None if value is None else value + 1 for value in batch[read].to_pylist()]}

    def on(uri, branch):
        if not recorded:
            head(uri, branch).add_columns({column: f"{read} + 1"})
            return
        values = LocalValues(locate(uri), function, **{column: pa.int64()})
        values.inputs = values.reads = (read,)
        (update_filled_columns if existing else add_filled_columns)(locate(uri), branch, values, BackfillOptions())

    def model(side):
        side.computed[column] = {read} if recorded else None
        for found in side.rows.values():
            found[column] = found[read] + 1

    return on, model


CHANGES = {
    "nothing": [],
    "update x": [update((1, 5), "x", "x + 1", lambda row: row["x"] + 1)],
    "update x differently": [update((1, 6), "x", "x + 2", lambda row: row["x"] + 2)],
    "update y": [update((1, 2, 5), "y", "'new'", lambda _: "new")],
    "update y of a fragment": [update((0, 1, 2, 3), "y", "'new'", lambda _: "new")],
    "update everything": [update(tuple(IDS), "y", "concat(y, '!')", lambda row: row["y"] + "!")],
    "update to null": [update((1, 5), "y", "cast(null as string)", lambda _: None)],
    "update twice": [
        update((1, 5), "y", "'new'", lambda _: "new"),
        update((1, 7), "x", "x + 1", lambda row: row["x"] + 1),
    ],
    "compute z of x": [compute("z", "x")],
    "compute w of id": [compute("w", "id")],
    "compute w somehow": [compute("w", "x", recorded=False)],
    "update, compute": [update((1, 2), "y", "'new'", lambda _: "new"), compute("w", "id")],
    "recompute x of id": [compute("x", "id", existing=True)],
    "delete": [delete(2, 7)],
    "append": [append(2)],
    "append, update": [append(1), update((1, 20, 30), "x", "x + 1", lambda row: row["x"] + 1)],
}


def apply(uri, branch, name):
    for on, _ in CHANGES[name]:
        on(uri, branch)


def modelled(base, name, branch=None):
    side = Side(base, FIRST[branch])
    for _, model in CHANGES[name]:
        model(side)
    return side


def merged(base, ours, theirs):
    """The rows of the merge by id, and the cells left empty by column; None for a conflict."""
    result, emptied = {}, {}
    names = list({name: None for side in (ours, theirs) for row in side.rows.values() for name in row})
    for number in sorted({*ours.rows, *theirs.rows}):
        before = base.get(number)
        mine, other = ours.rows.get(number), theirs.rows.get(number)
        if before is None:
            result[number] = {name: (mine or other).get(name) for name in names}
            continue
        if mine is None or other is None:
            if number in (theirs if mine is None else ours).rewritten:
                return None
            continue
        found = _row(before, mine, other, (ours.computed, theirs.computed), names, emptied)
        if found is None:
            return None
        result[number] = found
    return result, emptied


def _row(before, mine, other, computed, names, emptied):
    found = {}
    for name in names:
        old, one, two = before.get(name), mine.get(name), other.get(name)
        changed_ours = name in mine and one != old
        changed_theirs = name in other and two != old
        if changed_ours and changed_theirs and one != two:
            return None
        found[name] = two if changed_theirs else one if name in mine else two
        if changed_ours == changed_theirs:
            continue
        by, sides = (computed[0], (before, other)) if changed_ours else (computed[1], (before, mine))
        if name in by:
            read = before.keys() - {name} if by[name] is None else by[name]
            if any(sides[0].get(each) != sides[1].get(each) for each in read):
                found[name] = None
                emptied[name] = emptied.get(name, 0) + 1
    return found


BASE = {number: row(number) for number in IDS}
PAIRS = [pair for pair in product(CHANGES, CHANGES) if "nothing" not in pair]


def content(uri, branch=None):
    return {found["id"]: found for found in by_id(head(uri, branch))}


def check_merged(uri, planned, done, expected):
    """The merge has what the model has, said before what it did, and left a sound dataset."""
    assert expected is not None, done
    result, emptied = expected
    assert content(uri) == result
    assert planned.summary == done.summary
    assert {each.column: each.rows for each in done.summary.cells_emptied} == emptied
    assert_sound(head(uri))
    assert not fsck(locate(uri), FsckOptions(deep=True), LocalRunner(), time.time_ns()).findings


@pytest.mark.when(day=0.06)
@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_each_cell_comes_from_the_side_that_changed_it(uri, theirs, ours):
    apply(uri, "exp", theirs)
    apply(uri, None, ours)
    before, stable = content(uri), head(uri).has_stable_row_ids
    expected = merged(BASE, modelled(BASE, ours), modelled(BASE, theirs, "exp"))
    alike = {"compute z of x", "compute w of id", "compute w somehow", "update, compute"}
    planned = None
    try:
        planned = run(uri, dry_run=True)
        done = run(uri)
    except Conflict:
        assert content(uri) == before
        same_column = theirs in alike and ours in alike
        deleted_alike = theirs == ours == "delete"
        assert expected is None or same_column or deleted_alike
        assert planned is None or planned.conflicts
        return
    except NotCommittable:
        assert content(uri) == before
        assert stable
        assert "update, compute" in theirs  # pylance commits no rows with ids together with new columns
        return
    check_merged(uri, planned, done, expected)
    assert run(uri).up_to_date
    try:
        run(uri, None, "exp")
    except NotCommittable:
        assert stable
        assert "compute" in ours  # rows with ids and new columns, as above
        return
    assert content(uri, "exp") == expected[0]
    assert_sound(head(uri, "exp"))


def compact(uri, branch):
    """Everything into one fragment."""
    head(uri, branch).optimize.compact_files()


WHO = {"ours": (None,), "theirs": ("exp",), "both": (None, "exp")}


def check_in_steps(uri, hint, expected):
    """The merges that the hint of a refusal names lead to what the model has."""
    steps = [int(version) for version in re.findall(r"exp@(\d+)", hint)]
    assert steps, hint
    for version in steps:
        merge(locate(uri), PinnedVersion("exp", version), None, MergeOptions(), LocalRunner())
    run(uri)
    assert content(uri) == expected[0]
    assert_sound(head(uri))


@pytest.mark.when(day=0.004)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_each_cell_finds_its_row_through_compactions(uri, theirs, ours, who, before):
    for branch in (None, "exp"):  # pylance compacts no branch whose index is the parent's
        head(uri, branch).drop_index("x_idx")
    for branch, name in (("exp", theirs), (None, ours)):
        for step in (compact, apply) if before else (apply, compact):
            if step is apply:
                apply(uri, branch, name)
            elif branch in WHO[who]:
                compact(uri, branch)
    here, stable = content(uri), head(uri).has_stable_row_ids
    expected = merged(BASE, modelled(BASE, ours), modelled(BASE, theirs, "exp"))
    planned = None
    try:
        planned = run(uri, dry_run=True)
        done = run(uri)
    except (Conflict, NotCommittable) as refusal:
        assert content(uri) == here
        if "compacted or removed" in refusal.message:  # pylance commits new columns or a compaction, not both at once
            check_in_steps(uri, str(refusal.hint), expected)
            return
        assert planned is None or planned.conflicts
        silent = "compute w somehow" in (theirs, ours)  # nothing records what was computed before a compaction
        limited = isinstance(refusal, NotCommittable) and stable and "update, compute" in theirs
        alike = {theirs, ours} <= {"compute z of x", "compute w of id", "update, compute"} or theirs == ours
        assert expected is None or silent or limited or alike
        return
    check_merged(uri, planned, done, expected)


def test_without_ids_and_keys_a_column_finds_the_rows_that_ours_only_compacted(tmp_path):
    uri = forked(str(tmp_path / "t.lance"), "nothing")
    head(uri).drop_index("x_idx")
    apply(uri, "exp", "compute z of x")
    head(uri).delete("id IN (2, 7)")
    compact(uri, None)
    lance.write_dataset(table([20], False), uri, mode="append")
    run(uri)
    assert {n: each["z"] for n, each in content(uri).items()} == {
        **{n: 10 * n + 1 for n in IDS if n not in (2, 7)},
        20: None,
    }
    assert_sound(head(uri))


@pytest.mark.parametrize("strict", [None, "exp"], ids=["ours", "theirs"])
@pytest.mark.parametrize("write", ["update", "backfill"])
def test_a_merged_row_without_a_value_that_one_side_requires_is_a_conflict(uri, strict, write):
    """pylance refused to write the file, after a dry run that said nothing."""
    loose = "exp" if strict is None else None
    head(uri, strict).update({"x": "5"}, where="id IN (1, 5)")
    head(uri, strict).alter_columns({"path": "y", "nullable": False})
    if write == "update":
        head(uri, loose).update({"y": "cast(null as string)"}, where="id = 1")
    else:
        values = LocalValues(
            locate(uri), lambda batch: {"y": [None if n == 1 else "q" for n in batch["id"].to_pylist()]}, y=pa.string()
        )
        update_filled_columns(locate(uri), loose, values, BackfillOptions(resume=False))
    before, schema = content(uri), head(uri).schema
    with pytest.raises(Conflict, match="column 'y' cannot be null"):
        run(uri)
    assert run(uri, dry_run=True).conflicts
    assert (content(uri), head(uri).schema) == (before, schema)


def test_with_conflicts_by_rows_the_same_rows_are_a_conflict(uri):
    apply(uri, "exp", "update x")
    apply(uri, None, "update y")
    with pytest.raises(Conflict, match="both sides deleted or updated the same rows"):
        run(uri, conflicts="rows")
    assert run(uri, dry_run=True, conflicts="rows").conflicts
    assert not run(uri, dry_run=True).conflicts
    with pytest.raises(InvalidOption, match="'cells' or 'rows'"):
        run(uri, conflicts="columns")


def test_a_conflict_names_rows_by_key_with_both_values(tmp_path):
    uri = forked(str(tmp_path / "t.lance"), "key")
    apply(uri, "exp", "update x")
    apply(uri, None, "update x differently")
    with pytest.raises(Conflict) as refused:
        run(uri)
    assert "both sides changed column 'x' of the same rows" in str(refused.value)
    assert "id=1: x is 12 in ours, 11 in theirs" in str(refused.value)
    assert "id=5" not in str(refused.value)


def test_without_ids_or_a_key_rows_are_matched_by_columns_that_the_caller_names(tmp_path):
    uri = forked(str(tmp_path / "t.lance"), "nothing")
    apply(uri, "exp", "update x")
    apply(uri, None, "update y")
    refusal = error_of(uri)
    assert isinstance(refusal, Conflict)
    assert "on=" in str(refusal)
    run(uri, on=("id",))
    assert content(uri)[5] == {"id": 5, "x": 51, "y": "new", "s": {"a": 5, "b": None}}
    assert_sound(head(uri))


def test_rows_whose_key_changed_are_not_taken_for_deleted_ones(tmp_path):
    uri = forked(str(tmp_path / "t.lance"), "nothing")
    apply(uri, "exp", "compute z of x")
    head(uri).update({"id": "id + 100"}, where="id = 1")
    before = content(uri)
    with pytest.raises(Conflict, match="changed key"):
        run(uri, on=("id",))
    head(uri).delete("id = 101")
    assert before != content(uri)
    run(uri, on=("id",))
    assert 1 not in content(uri)
    assert content(uri)[2]["z"] == 21


def test_a_key_that_two_rows_have_matches_none(tmp_path):
    uri = forked(str(tmp_path / "t.lance"), "nothing")
    apply(uri, "exp", "update x")
    head(uri).update({"y": "'new'", "id": "1"}, where="id in (1, 5)")
    with pytest.raises(Conflict, match="same key"):
        run(uri, on=("id",))


def test_a_merge_is_one_version_and_a_row_keeps_its_id(tmp_path):
    uri = forked(str(tmp_path / "t.lance"), "stable ids")
    apply(uri, "exp", "update x")
    apply(uri, None, "update y")
    before = {row["id"]: row["_rowid"] for row in head(uri).to_table(with_row_id=True).to_pylist()}
    version = head(uri).version
    assert run(uri).version == version + 1 == head(uri).version
    assert {row["id"]: row["_rowid"] for row in head(uri).to_table(with_row_id=True).to_pylist()} == before


def test_an_index_on_a_merged_column_finds_the_new_values(uri):
    apply(uri, None, "update y")
    head(uri).optimize.optimize_indices()
    apply(uri, "exp", "update x")
    run(uri)
    assert head(uri).to_table(filter="x = 51")["id"].to_pylist() == [5]
    assert head(uri).to_table(filter="x = 50").num_rows == 0


def test_branches_are_merged_again_and_again(uri):
    """Each merge begins where the last one ended, in both directions; both sides change the same rows each time."""
    for turn in range(3):
        for branch, column, sql in (("exp", "x", f"{turn}"), (None, "y", f"'{turn}'")):
            head(uri, branch).update({column: sql}, where="id in (1, 5)")
        run(uri)
        if turn != 1:
            run(uri, None, "exp")
        for number in (1, 5):
            found = content(uri)[number]
            assert (found["x"], found["y"]) == (turn, str(turn))
        assert len(content(uri)) == len(IDS) == head(uri).count_rows()
        assert_sound(head(uri))


def test_a_version_is_picked_and_reverted_by_cells(uri):
    apply(uri, "exp", "update x")
    apply(uri, None, "update y")
    picked = pin_latest(locate(uri), "exp")
    cherry_pick(locate(uri), picked, None, LocalRunner())
    assert (content(uri)[5]["x"], content(uri)[5]["y"]) == (51, "new")
    assert_sound(head(uri))


def test_an_added_column_is_reverted_although_rows_changed_since(uri):
    apply(uri, None, "compute z of x")
    added = pin_latest(locate(uri), None)
    apply(uri, None, "update y")
    with_z = content(uri)
    revert(locate(uri), PinnedVersion(None, added.version), None, LocalRunner())
    assert content(uri) == {n: {k: v for k, v in found.items() if k != "z"} for n, found in with_z.items()}
    assert_sound(head(uri))


def test_what_was_computed_is_known_after_a_merge(uri):
    """The record of what a column was computed from comes along, to the next branch."""
    head(uri).create_branch("late")
    apply(uri, "exp", "compute w of id")
    run(uri)
    head(uri, "late").update({"x": "x + 1"}, where="id in (1, 5)")
    run(uri, None, "late")
    assert content(uri, "late")[5]["w"] == 6
    assert content(uri, "late")[5]["x"] == 51


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_computed_column_keeps_its_values_although_columns_were_renamed(uri, late):
    """No value is left empty for it: the record of what a column was computed from follows the names."""
    if not late:
        head(uri).alter_columns({"path": "y", "name": "why"}, {"path": "s.b", "name": "c"})
    apply(uri, None, "compute z of x")
    if late:
        head(uri).alter_columns({"path": "x", "name": "ex"}, {"path": "s.b", "name": "c"})
    apply(uri, "exp", "update y")
    assert not run(uri, dry_run=True).summary.cells_emptied
    run(uri)
    assert {key: found["z"] for key, found in content(uri).items()} == {number: 10 * number + 1 for number in IDS}


def test_a_column_that_was_renamed_before_a_compaction_is_no_new_one(uri):
    apply(uri, "exp", "compute z of x")
    head(uri, "exp").alter_columns({"path": "x", "name": "ex"})
    head(uri, "exp").optimize.compact_files()
    update((1, 5), "y", "'new'", None)[0](uri, None)
    assert run(uri, dry_run=True).summary == run(uri).summary
    found = content(uri)
    assert {key: (each["ex"], each["z"]) for key, each in found.items()} == {n: (10 * n, 10 * n + 1) for n in IDS}
    assert (found[1]["y"], found[2]["y"]) == ("new", "y2")
    assert_sound(head(uri))


def test_a_killed_merge_leaves_only_files_that_no_version_names(uri, monkeypatch):
    from lance_spark.merge import replay_commits

    apply(uri, "exp", "update x")
    apply(uri, None, "update y")
    before = content(uri)
    monkeypatch.setattr(replay_commits, "commit", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(uri)
    assert content(uri) == before
    assert fsck(locate(uri), FsckOptions(deep=True), LocalRunner(), time.time_ns()).sound
    monkeypatch.undo()
    run(uri)
    assert content(uri)[5]["x"] == 51


def test_a_commit_in_between_is_kept(uri, monkeypatch):
    from lance_spark.merge import replay_commits

    apply(uri, "exp", "update x")
    apply(uri, None, "update y")
    meanwhile(monkeypatch, replay_commits, "commit", lambda: head(uri).update({"y": "'late'"}, where="id = 5"))
    run(uri)
    assert (content(uri)[5]["x"], content(uri)[5]["y"]) == (51, "late")
    assert (content(uri)[1]["x"], content(uri)[1]["y"]) == (11, "new")
    assert_sound(head(uri))


def test_a_revert_goes_by_rows(uri):
    """By cells, rows that were deleted after the reverted update would be back."""
    head(uri).update({"x": "x + 1"}, where="id IN (1, 5)")
    updated = pin_latest(locate(uri), None)
    head(uri).delete("id IN (1, 5)")
    before = by_id(head(uri))
    with pytest.raises(Conflict):
        revert(locate(uri), updated, None, LocalRunner())
    assert by_id(head(uri)) == before


def filled(uri, column, times):
    def function(batch):
        return {column: [times * number for number in batch["id"].to_pylist()]}

    values = LocalValues(locate(uri), function, **{column: pa.int64()})
    update_filled_columns(locate(uri), None, values, BackfillOptions(resume=False))
    return pin_latest(locate(uri), None)


def test_a_reverted_fill_leaves_no_values_that_were_computed_from_it(uri):
    written = filled(uri, "x", 7)
    apply(uri, None, "compute z of x")
    apply(uri, None, "compute w of id")
    head(uri).delete("id = 3")
    told = revert(locate(uri), written, None, LocalRunner(), MergeOptions(dry_run=True))
    done = revert(locate(uri), written, None, LocalRunner())
    assert [(each.column, each.rows) for each in done.summary.cells_emptied] == [("z", 6)]
    assert told.summary == done.summary
    assert [(n, each["x"], each["z"], each["w"]) for n, each in content(uri).items()] == [
        (n, 10 * n, None if n else 1, n + 1) for n in IDS if n != 3
    ]
    assert_sound(head(uri))


def test_a_reverted_fill_leaves_a_column_that_was_written_again_alone(uri):
    written = filled(uri, "x", 7)
    filled(uri, "x", 8)
    with pytest.raises(Conflict, match="both sides changed column 'x' of the same rows"):
        revert(locate(uri), written, None, LocalRunner())


def test_by_rows_a_column_computed_from_values_that_changed_is_a_conflict(uri):
    filled(uri, "x", 7)
    apply(uri, "exp", "compute z of x")
    before = content(uri)
    with pytest.raises(Conflict, match="column 'z' was computed from values that changed on the other side") as refused:
        run(uri, conflicts="rows")
    assert "By cells" in refused.value.hint
    assert content(uri) == before
    assert run(uri, dry_run=True).summary.cells_emptied


def test_what_both_sides_changed_alike_is_behind_the_next_merge(tmp_path):
    """Beside a new row, rows of a table without ids could not be told from deleted and new ones."""
    uri = forked(str(tmp_path / "t.lance"), "key")
    for branch in (None, "exp"):
        head(uri, branch).update({"x": "x + 1"}, where="id IN (1, 5)")
        head(uri, branch).delete("id = 2")
        lance.write_dataset(table([2], True, x=7), place(uri, branch), mode="append")
    before = content(uri)
    told, done = run(uri, dry_run=True), run(uri)
    assert told.up_to_date
    assert done.up_to_date
    assert content(uri) == before
    assert run(uri).version is None
    run(uri, None, "exp")
    for number, branch in ((20, "exp"), (21, None)):
        head(uri, branch).update({"x": "0"}, where="id = 3") if branch else None
        lance.write_dataset(table([number], True), place(uri, branch), mode="append")
    run(uri)
    assert content(uri) == {**before, 3: {**before[3], "x": 0}, 20: row(20), 21: row(21)}
    assert_sound(head(uri))
