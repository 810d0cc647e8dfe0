"""Conflicts about rows, settled: each command of a hint is typed as it stands, and leads out."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from typing import NamedTuple

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import place
from support.command_line import call
from support.merge_datasets import head

from lance_spark import LanceTable
from lance_spark.core.workspace import Workspace
from lance_spark.errors import Conflict
from lance_spark.workspace.workspace_files import create_workspace

KEY = {b"lance-schema:unenforced-primary-key": b"true"}


class Layout(NamedTuple):
    stable: bool
    keyed: bool

    def __str__(self) -> str:
        return f"{'stable ids' if self.stable else 'addresses'}{', keyed' if self.keyed else ''}"


LAYOUTS = [Layout(stable, keyed) for stable in (False, True) for keyed in (False, True)]


def rows_of(numbers, schema, **more):
    return pa.Table.from_pylist([{"id": n, "name": f"n{n}", "price": 10 * n, **more} for n in numbers], schema=schema)


def made(path, layout):
    fields = [pa.field("id", pa.int64(), not layout.keyed, KEY if layout.keyed else None)]
    schema = pa.schema([*fields, ("name", pa.string()), ("price", pa.int64())])
    for start in (0, 4):
        table, mode = rows_of(range(start, start + 4), schema), "append" if start else "create"
        lance.write_dataset(table, path, mode=mode, enable_stable_row_ids=layout.stable)
    head(path).create_branch("exp")
    return path


def update(where, **values):
    return lambda uri, branch: head(uri, branch).update({k: repr(v) for k, v in values.items()}, where)


def delete(where):
    return lambda uri, branch: head(uri, branch).delete(where)


def compact(uri, branch):
    head(uri, branch).optimize.compact_files()


def append(number, price):
    def on(uri, branch):
        dataset = head(uri, branch)
        lance.write_dataset(rows_of([number], dataset.schema, price=price), place(uri, branch), mode="append")

    return on


def price(number):
    return lambda rows: rows.get(number, {}).get("price")


class Kind(NamedTuple):
    """A conflict: what main and exp do, and what distinguishes whose rows the result has."""

    ours: tuple[Callable, ...]
    theirs: tuple[Callable, ...]
    seen: Callable
    on_ours: object
    on_theirs: object
    keyed: bool = False


KINDS = {
    "update x update": Kind((update("id = 3", price=77),), (update("id = 3", price=88),), price(3), 77, 88),
    "update x delete": Kind((delete("id = 3"),), (update("id = 3", price=88),), price(3), None, 88),
    "delete x update": Kind((update("id = 3", price=77),), (delete("id = 3"),), price(3), 77, None),
    "update x update, deleted": Kind(
        (update("id = 3", price=77), delete("id = 3")), (update("id = 3", price=88),), price(3), None, 88
    ),
    "fragments x updates": Kind((update("id < 4", price=77),), (update("id = 3", price=88),), price(3), 77, 88),
    "deleted fragment x update": Kind((delete("id < 4"),), (update("id = 3", price=88),), price(3), None, 88),
    "update x update, compacted": Kind(
        (update("id = 3", price=77), compact), (update("id = 3", price=88),), price(3), 77, 88
    ),
    "compacted, update x update": Kind(
        (update("id = 3", price=77),), (compact, update("id = 3", price=88)), price(3), 77, 88
    ),
    "compacted, update x delete": Kind((compact, delete("id = 3")), (update("id = 3", price=88),), price(3), None, 88),
    "one key": Kind((append(20, 1),), (append(20, 2),), price(20), 1, 2, keyed=True),
    "one key, compacted": Kind((append(20, 1), compact), (append(20, 2),), price(20), 1, 2, keyed=True),
    "update of the key x append": Kind(
        (update("id = 3", id=20),), (append(20, 2),), lambda rows: rows[20]["price"], 30, 2, keyed=True
    ),
}
CASES = [(kind, layout) for kind in KINDS for layout in LAYOUTS if layout.keyed or not KINDS[kind].keyed]
each_case = pytest.mark.parametrize("case", CASES, ids=[f"{kind}: {layout}" for kind, layout in CASES])


def clashing(path, kind, layout):
    """A table on whose main and exp a conflict waits, beside a change of another row on either side."""
    uri = made(path, layout)
    for change in (*kind.ours, update("id = 6", name="ours")):
        change(uri, None)
    for change in (*kind.theirs, update("id = 7", name="theirs")):
        change(uri, "exp")
    return uri


def content(uri, branch=None):
    return {row["id"]: row for row in head(uri, branch).to_table().to_pylist()}


def check(uri, kind, expected):
    rows = content(uri)
    assert kind.seen(rows) == expected
    assert (rows[6]["name"], rows[7]["name"]) == ("ours", "theirs")
    assert head(uri).count_rows() == len(rows)
    assert LanceTable.for_path(uri).fsck(deep=True).sound


def commands(hint):
    """What a hint says to type, in Python."""
    return re.findall(r"t\.[a-z_.]+\((?:[^()']|'[^']*')*\)", hint)


@pytest.mark.when(day=0.1)
@each_case
def test_each_command_of_a_hint_leads_out(tmp_path, case):
    kind, layout = KINDS[case[0]], case[1]
    uri = clashing(str(tmp_path / "t.lance"), kind, layout)
    t = LanceTable.for_path(uri)
    planned = t.branches.merge("exp", dry_run=True)
    with pytest.raises(Conflict) as refusal:
        t.branches.merge("exp")
    assert refusal.value.hint == planned.hint
    typed = commands(refusal.value.hint)
    assert [re.search(r"prefer='(\w+)'", command)[1] for command in typed] == ["theirs", "ours"]
    saved = shutil.copytree(uri, tmp_path / "saved")
    for command, expected in zip(typed, (kind.on_theirs, kind.on_ours), strict=True):
        shutil.rmtree(uri)
        shutil.copytree(saved, uri)
        t = LanceTable.for_path(uri)
        told = eval(command.replace(")", ", dry_run=True)"), {"t": t})
        assert not told.conflicts
        done = eval(command, {"t": t})
        assert (done.summary, done.notes) == (told.summary, told.notes)
        check(uri, kind, expected)
        goes_on(uri, t)


def goes_on(uri, t):
    """Neither direction brings a settled conflict back."""
    before = content(uri)
    append(30, 3)(uri, "exp")
    t.branches.merge("exp")
    assert content(uri) == before | {30: {"id": 30, "name": "n30", "price": 3}}
    t.branches.merge("main", into="exp")
    assert content(uri, "exp") == content(uri)
    append(31, 3)(uri, None)
    t.branches.merge("main", into="exp")
    assert content(uri, "exp") == content(uri)


@pytest.mark.when(day=0.05)
@each_case
def test_hints_in_a_shell_lead_out(tmp_path, case):
    kind, layout = KINDS[case[0]], case[1]
    uri = clashing(str(tmp_path / "t.lance"), kind, layout)
    create_workspace(uri, Workspace("."))
    refused = call(uri, "merge", "exp", "--json")
    told = json.loads(refused.err)
    assert (refused.code, told["exit_code"]) == (12, 12)
    assert told["conflicts"] == call(uri, "merge", "exp", "--dry-run", "--json").json_of(12)["conflicts"]
    typed = re.findall(r"lance-git ([^.]+?)(?=\. |\.$)", told["hint"])
    assert len(typed) == 2
    done = call(uri, *shlex.split(typed[0]))
    assert done.code == 0, done.err
    check(uri, kind, kind.on_theirs)


def test_rows_that_both_sides_deleted_are_settled_by_either(tmp_path):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=False, keyed=False))
    delete("id = 3")(uri, None)
    delete("id in (2, 3)")(uri, "exp")
    t = LanceTable.for_path(uri)
    (conflict,) = t.branches.merge("exp", dry_run=True).conflicts
    assert conflict.count == 1
    assert t.branches.merge("exp", prefer="ours").summary.rows_settled == 1
    assert [*content(uri)] == [0, 1, 4, 5, 6, 7]


def test_a_conflict_names_each_row_with_both_values(tmp_path):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=False, keyed=True))
    update("id in (1, 3, 5)", price=77)(uri, None)
    update("id in (1, 3)", price=88)(uri, "exp")
    t = LanceTable.for_path(uri)
    with pytest.raises(Conflict) as refusal:
        t.branches.merge("exp")
    (conflict,) = refusal.value.conflicts
    cells = [(row.row, row.base, row.ours, row.theirs) for row in conflict.contested]
    assert cells == [(f"id={n}", {"price": 10 * n}, {"price": 77}, {"price": 88}) for n in (1, 3)]
    assert "id=3: price is 77 in ours, 88 in theirs" in refusal.value.message
    planned = t.branches.merge("exp", dry_run=True)
    assert planned.conflicts == (conflict,)
    assert planned.as_record()["conflicts"][0]["contested"][1] == {
        "row": "id=3",
        "base": {"price": 30},
        "ours": {"price": 77},
        "theirs": {"price": 88},
    }
    assert re.search(r"id=3 +price +30 +77 +88", planned._card().text())


def test_only_the_first_rows_are_named(tmp_path):
    uri = str(tmp_path / "t.lance")
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata=KEY), ("name", pa.string()), ("price", pa.int64())]
    )
    lance.write_dataset(rows_of(range(50), schema), uri)
    head(uri).create_branch("exp")
    update("id < 30", price=7)(uri, None)
    update("id < 40", price=8)(uri, "exp")
    (conflict,) = LanceTable.for_path(uri).branches.merge("exp", dry_run=True).conflicts
    assert (len(conflict.contested), conflict.count) == (20, 30)
    assert [*conflict.lines()][-1] == "and 10 more rows"


def test_columns_are_preferred_one_by_one(tmp_path):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=True, keyed=False))
    update("id = 3", price=77, name="ours")(uri, None)
    update("id = 3", price=88, name="theirs")(uri, "exp")
    t = LanceTable.for_path(uri)
    (left,) = t.branches.merge("exp", dry_run=True, prefer={"price": "theirs"}).conflicts
    assert left.reason == "both sides changed column 'name' of the same rows"
    result = t.branches.merge("exp", prefer={"price": "theirs", "*": "ours"})
    assert (result.summary.rows_settled, content(uri)[3]) == (1, {"id": 3, "name": "ours", "price": 88})


def test_by_rows_a_row_is_taken_whole(tmp_path):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=True, keyed=False))
    update("id = 3", price=77)(uri, None)
    update("id = 3", name="theirs")(uri, "exp")
    t = LanceTable.for_path(uri)
    t.branches.merge("exp", conflicts="rows", prefer="theirs")
    assert content(uri)[3] == {"id": 3, "name": "theirs", "price": 30}


def test_a_preference_that_changes_nothing_is_remembered(tmp_path):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=False, keyed=True))
    update("id = 3", price=77)(uri, None)
    update("id = 3", price=88)(uri, "exp")
    t = LanceTable.for_path(uri)
    assert not t.branches.merge("exp", prefer="ours").up_to_date
    assert t.branches.merge("exp").up_to_date
    assert content(uri)[3]["price"] == 77


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize(("prefer", "expected"), [("theirs", 30), ("ours", 99)])
def test_a_revert_settles_rows_that_changed_again(tmp_path, prefer, expected):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=True, keyed=False))
    update("id = 3", price=77)(uri, None)
    t, version = LanceTable.for_path(uri), head(uri).version
    update("id = 3", price=99)(uri, None)
    with pytest.raises(Conflict) as refusal:
        t.revert(version)
    assert f"t.revert({version}, prefer='theirs')" in refusal.value.hint
    t.revert(version, prefer=prefer)
    assert (content(uri)[3]["price"], head(uri).count_rows()) == (expected, 8)


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("stable", [False, True])
def test_a_version_is_reverted_beside_later_changes_of_the_same_fragment(tmp_path, stable):
    uri = made(str(tmp_path / "t.lance"), Layout(stable, keyed=False))
    delete("id in (1, 3)")(uri, None)
    t, version = LanceTable.for_path(uri), head(uri).version
    update("id = 2", price=99)(uri, None)
    planned, done = t.revert(version, dry_run=True), t.revert(version)
    assert planned.summary == done.summary
    assert (done.summary.rows_added, done.summary.rows_deleted) == (2, 0)
    assert [row["price"] for row in content(uri).values()].count(99) == 1
    assert sorted(content(uri)) == [*range(8)]
    assert t.fsck(deep=True).sound


@pytest.mark.parametrize(("prefer", "expected"), [("theirs", {"a": 88}), ("ours", {"a": 77})])
def test_a_struct_that_lost_a_field_keeps_its_value_or_its_row_is_deleted_first(tmp_path, prefer, expected):
    """A merged row stays in ours, and no file gives it a struct with other fields."""
    uri = str(tmp_path / "t.lance")
    inner = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    table = pa.table({"id": range(4), "s": pa.array([{"a": n, "b": n} for n in range(4)], inner)})
    lance.write_dataset(table, uri, enable_stable_row_ids=True)
    head(uri).create_branch("exp")
    head(uri).update({"s": "named_struct('a', cast(77 as bigint), 'b', cast(3 as bigint))"}, "id = 3")
    head(uri).drop_columns(["s.b"])
    head(uri, "exp").update({"s": "named_struct('a', cast(88 as bigint), 'b', cast(3 as bigint))"}, "id = 3")
    t = LanceTable.for_path(uri)
    (row,) = t.branches.merge("exp", dry_run=True).conflicts[0].contested
    assert (row.ours["s"], row.theirs["s"]) == ("{'a': 77}", "{'a': 88}")
    if prefer == "theirs":
        with pytest.raises(Conflict) as refusal:
            t.branches.merge("exp", prefer=prefer)
        assert "Delete these rows on the side that should not win" in refusal.value.hint
        head(uri).delete("id = 3")
    t.branches.merge("exp", prefer=prefer)
    assert content(uri)[3]["s"] == expected
