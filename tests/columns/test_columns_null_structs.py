"""Structs that had a value keep it when their stored fields are dropped, in files of every kind and in merges."""

import random

import lance
import pyarrow as pa
import pytest

from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.format.contents import Field
from lance_spark.format.evolution import AddColumn, DropColumn, RenameColumn, lost_structs
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch
from lance_spark.rows.rows import delete_where
from lance_spark.storage.datasets import pin_latest

INT = pa.int32()
ADD, DROP = AddColumn(("s", "b"), INT), DropColumn(("s", "a"))
SHALLOW = pa.struct([("a", INT)])
DEEP = pa.struct([("a", INT), ("u", pa.struct([("x", INT), ("v", pa.struct([("y", INT)]))]))])


def alter(location, *changes, branch=None):
    return alter_columns(location, branch, changes, LocalRunner(1))


def make(uri, kind, *blocks, **options):
    """A table with a fragment for each block of values, whose ids go on."""
    first = 1
    for block in blocks:
        ids = range(first, first + len(block))
        lance.write_dataset(pa.table({"id": ids, "s": pa.array(block, kind)}), uri, mode="append", **options)
        first += len(block)
    return DatasetLocation.at(uri)


def values(location, branch=None):
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    rows = dataset.to_table().sort_by("id")
    found = {row["id"]: row["s"] for row in rows.to_pylist()}
    absent = dataset.to_table(filter="s IS NULL")["id"].to_pylist()
    assert sorted(absent) == [key for key, value in found.items() if value is None]
    return found


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("together", [True, False], ids=["one call", "two calls"])
def test_a_struct_whose_first_field_goes_is_not_null(uri, version, together):
    location = make(uri, SHALLOW, [{"a": 1}, None], [{"a": None}, {"a": 4}, None], data_storage_version=version)
    delete_where(location, None, "id = 4", LocalRunner(1))
    for changes in [(ADD, DROP)] if together else [(ADD,), (DROP,)]:
        alter(location, *changes)
    expected = {1: {"b": None}, 2: None, 3: {"b": None}, 5: None}
    assert values(location) == expected
    optimize(location, None, OptimizeOptions(), LocalRunner(1))
    assert values(location) == expected
    lance.write_dataset(pa.table({"id": [6], "s": pa.array([{"b": 6}], pa.struct([("b", INT)]))}), uri, mode="append")
    assert values(location) == {**expected, 6: {"b": 6}}


def test_a_table_without_null_structs_in_its_format(uri):
    location = make(uri, SHALLOW, [{"a": 1}, {"a": None}], data_storage_version="2.0")
    alter(location, ADD)
    alter(location, DROP)
    assert values(location) == {1: {"b": None}, 2: {"b": None}}


def test_structs_in_structs_each_keep_what_is_null(uri):
    full = {"a": 1, "u": {"x": 1, "v": {"y": 1}}}
    location = make(uri, DEEP, [full, {"a": 2, "u": None}, None], [{"a": None, "u": {"x": 3, "v": None}}])
    alter(location, AddColumn(("s", "u", "v", "z"), pa.list_(INT)))
    alter(location, DropColumn(("s", "u", "v", "y")))
    left = {"a": 1, "u": {"x": 1, "v": {"z": None}}}
    other = {"a": None, "u": {"x": 3, "v": None}}
    assert values(location) == {1: left, 2: {"a": 2, "u": None}, 3: None, 4: other}
    alter(location, DropColumn(("s", "u", "x")), DropColumn(("s", "a")), RenameColumn(("s",), "t"))
    alter(location, RenameColumn(("t",), "s"))
    assert values(location) == {1: {"u": {"v": {"z": None}}}, 2: {"u": None}, 3: None, 4: {"u": {"v": None}}}
    alter(location, AddColumn(("s", "c"), INT))
    alter(location, DropColumn(("s", "u")))
    assert values(location) == {1: {"c": None}, 2: {"c": None}, 3: None, 4: {"c": None}}


@pytest.mark.parametrize("outer", [True, False], ids=["null", "not null"])
@pytest.mark.parametrize("inner", [True, False], ids=["null inside", "not null inside"])
def test_structs_that_may_or_may_not_be_null(uri, outer, inner):
    kind = pa.struct([pa.field("a", INT, nullable=False), pa.field("u", SHALLOW, inner)])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("s", kind, outer)])
    full = {"a": 1, "u": {"a": 1}}
    block = [full, None if outer else full, {"a": 1, "u": None if inner else {"a": 1}}]
    lance.write_dataset(pa.table([[1, 2, 3], pa.array(block, kind)], schema), uri)
    location = DatasetLocation.at(uri)
    alter(location, AddColumn(("s", "u", "b"), SHALLOW))
    alter(location, DropColumn(("s", "u", "a")))
    alter(location, DropColumn(("s", "a")))
    left = {"u": {"b": None}}
    assert values(location) == {1: left, 2: None if outer else left, 3: {"u": None} if inner else left}


def test_pylance_still_makes_such_structs_null(uri):
    """If this fails, pylance keeps which structs are null: lost_structs and its users can go."""
    dataset = lance.dataset(make(uri, SHALLOW, [{"a": 1}, None]).uri)
    dataset.add_columns(pa.schema([pa.field("s", pa.struct([("b", INT)]))]))
    dataset.drop_columns(["s.a"])
    assert dataset.to_table()["s"].to_pylist() == [None, None]


def test_only_fragments_that_need_it_get_a_file(uri):
    location = make(uri, SHALLOW, [{"a": 1}, None])
    alter(location, ADD)
    lance.write_dataset(
        pa.table({"id": [3, 4], "s": pa.array([{"a": 3, "b": 3}, None], pa.struct([("a", INT), ("b", INT)]))}),
        uri,
        mode="append",
    )
    alter(location, DROP)
    assert values(location) == {1: {"b": None}, 2: None, 3: {"b": 3}, 4: None}
    files = [[each.fields for each in fragment.metadata.files] for fragment in lance.dataset(uri).get_fragments()]
    assert [len(each) for each in files] == [2, 1]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.when(day=0 if seed else 1.0)) for seed in range(8)]
)
def test_any_order_of_changes_keeps_what_is_null(uri, seed):
    chance = random.Random(seed)
    location = make(uri, DEEP, [{"a": 1, "u": {"x": 1, "v": {"y": 1}}}, None], [{"a": None, "u": None}, None])
    nulls = {key for key, value in values(location).items() if value is None}
    for step in range(6):
        fields = lance.dataset(uri).schema.field("s").type
        alter(location, AddColumn(("s", f"n{step}"), chance.choice([INT, pa.list_(INT), SHALLOW, pa.string()])))
        alter(location, DropColumn(("s", chance.choice([field.name for field in fields]))))
        assert {key for key, value in values(location).items() if value is None} == nulls


@pytest.mark.parametrize("into", [None, "exp"], ids=["into main", "into the branch"])
def test_new_rows_that_would_lose_their_structs_are_a_conflict(uri, into):
    location = make(uri, SHALLOW, [{"a": 1}, None])
    create_branch(location, "exp", RefSpec())
    alter(location, ADD, branch="exp")
    alter(location, DROP, branch="exp")
    lance.write_dataset(pa.table({"id": [3, 4], "s": pa.array([{"a": 3}, None], SHALLOW)}), uri, mode="append")
    source = "exp" if into is None else None
    before = values(location, into)
    head = pin_latest(location, source)
    tried = merge(location, head, into, MergeOptions(dry_run=True), LocalRunner(1))
    with pytest.raises(Conflict, match="would become null") as caught:
        merge(location, head, into, MergeOptions(), LocalRunner(1))
    assert str(tried.conflicts[0]) in str(caught.value)
    assert values(location, into) == before


def test_changes_without_new_rows_are_merged(uri):
    location = make(uri, SHALLOW, [{"a": 1}, None, {"a": None}])
    create_branch(location, "exp", RefSpec())
    alter(location, ADD, branch="exp")
    alter(location, DROP, branch="exp")
    delete_where(location, None, "id = 3", LocalRunner(1))
    merge(location, pin_latest(location, "exp"), None, MergeOptions(), LocalRunner(1))
    assert values(location) == {1: {"b": None}, 2: None}


def fields(*entries):
    return [Field(key, parent, name, kind, True, ()) for key, parent, name, kind in entries]


LIST = pa.schema([("l", pa.list_(pa.struct([("b", INT)])))])
STRUCT = pa.schema([("s", pa.struct([("t", pa.struct([("b", INT)]))]))])


@pytest.mark.pure
@pytest.mark.parametrize(
    ("before", "after", "schema"),
    [
        (
            fields((0, -1, "l", "list"), (1, 0, "item", "struct"), (2, 1, "a", "int32")),
            fields((0, -1, "l", "list"), (1, 0, "item", "struct"), (3, 1, "b", "int32")),
            LIST,
        ),
        (
            fields((0, -1, "s", "struct"), (1, 0, "u", "struct"), (2, 1, "a", "int32")),
            fields((0, -1, "s", "struct"), (1, 0, "t", "struct"), (3, 1, "b", "int32")),
            STRUCT,
        ),
    ],
    ids=["inside a list", "renamed"],
)
def test_structs_that_cannot_be_kept_are_refused(before, after, schema):
    with pytest.raises(Refused, match="would make its values null"):
        lost_structs(before, after, schema, [2])
    assert lost_structs(before, after, schema, [2, 3]) == ()
    assert lost_structs(before, after, schema, []) == ()
