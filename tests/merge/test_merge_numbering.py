"""Field ids of two branches that added columns at the same time: merges go on working in both directions."""

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import head, run
from support.merge_values import FIELDS, data_file, fragment, version

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.format.contents import REPLACED, Field
from lance_spark.format.operations import Step, Steps
from lance_spark.merge.assembly_rules import Numbering, matched, number, renumbered, renumbered_steps, since
from lance_spark.merge.merge import revert
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import PushOptions, push
from lance_spark.storage.datasets import locate, pin_latest

W, X = Field(2, -1, "w", "int64", True, ()), Field(3, -1, "x", "int64", True, ())


# --- Decisions


@pytest.mark.pure
@pytest.mark.parametrize(
    ("ours", "theirs", "ids"),
    [
        ([*FIELDS], [*FIELDS, W], {}),
        ([*FIELDS, W], [*FIELDS], {}),
        ([*FIELDS, W], [*FIELDS, W], {}),
        ([*FIELDS, W], [*FIELDS, W._replace(name="z")], {2: 4}),
        ([*FIELDS, W._replace(id=3)], [*FIELDS, W], {2: 3}),
        ([*FIELDS, W._replace(id=3, type="string")], [*FIELDS, W], {}),
        ([*FIELDS, W, X], [*FIELDS, X._replace(id=2), W._replace(id=3)], {2: 3, 3: 2}),
    ],
    ids=["theirs adds", "ours adds", "alike", "another one", "the same one", "another type", "both in another order"],
)
def test_new_columns_of_theirs_get_an_id_that_means_them(ours, theirs, ids):
    files = [fragment(0, data_file("a.lance", 0, 1, 3))]
    numbering = number(version(files, fields=ours), FIELDS, theirs, (None, None))
    assert numbering == Numbering(
        {0: 0, 1: 1} if ids else {}, {0: 0, 1: 1, **ids} if ids else {}, frozenset({4} & {*ids.values()})
    )


@pytest.mark.pure
def test_columns_of_the_base_are_found_by_the_version_that_took_it_in():
    base = (*FIELDS, W)
    taken = (FIELDS[0], FIELDS[1]._replace(name="renamed"), X._replace(id=2), W._replace(id=5))
    assert matched(base, taken) == {0: 0, 1: 1, 2: 5}
    assert matched(base, FIELDS) == {0: 0, 1: 1}
    assert matched(base, (*FIELDS, W._replace(id=7, type="string"))) == {0: 0, 1: 1}
    numbering = number(version([], fields=taken), base, (*FIELDS, W), (matched(base, taken), None))
    assert (numbering.base, numbering.theirs, numbering.spare) == ({0: 0, 1: 1, 2: 5}, {0: 0, 1: 1, 2: 5}, frozenset())
    dropped = number(version([], fields=FIELDS), base, base, (matched(base, FIELDS), None))
    assert (dropped.base[2], dropped.theirs[2], dropped.spare) == (3, 3, {3})


@pytest.mark.pure
def test_files_of_a_renumbered_version_have_the_new_ids_and_none_of_unknown_columns():
    before = version([fragment(0, data_file("a.lance", 0, 1, 2, 7))], fields=(*FIELDS, W))
    after = renumbered(before, {0: 0, 1: 1, 2: 9})
    assert [entry.id for entry in after.contents.fields] == [0, 1, 9]
    assert after.live == {0, 1, 9}
    assert next(after.contents.fragments()).files[0].fields == (0, 1, 9, REPLACED)
    assert after.contents.fragments_without(before.contents) == [*after.contents.fragments()]
    assert not after.contents.fragments_without(after.contents)


@pytest.mark.pure
def test_steps_before_the_base_was_taken_in_say_nothing_about_its_columns():
    steps = Steps("exp", tuple(Step(number, "Merge", fields=frozenset({number}), branch="exp") for number in (2, 3, 4)))
    kept = since(steps, PinnedVersion("exp", 3))
    assert [step.fields for step in kept.all] == [None, {3}, {4}]
    assert since(steps, None) is steps
    assert [step.fields for step in renumbered_steps(kept, {4: 9}).all] == [None, set(), {9}]


# --- Merges


def given(uri):
    lance.write_dataset(pa.table({"k": [1, 2], "a": ["x", "y"]}), uri)
    lance.dataset(uri).create_branch("exp")
    return uri


def empty(name):
    return lambda dataset: dataset.add_columns(pa.field(name, pa.string()))


def constant(name, text="'c'"):
    return lambda dataset: dataset.add_columns({name: text})


def rename(dataset):
    dataset.alter_columns({"path": "a", "name": "b"})


def add(dataset, k):
    """Append a row, with its number in every column."""
    row = {entry.name: k if entry.name == "k" else str(k) for entry in dataset.schema}
    lance.write_dataset(pa.Table.from_pylist([row], dataset.schema.empty_table().schema), dataset.uri, mode="append")


def rows(dataset):
    names = sorted(dataset.schema.names)
    return names, sorted(dataset.to_table(columns=names).to_pylist(), key=lambda row: row["k"])


ADDED = {
    "alike, empty": ([empty("d")], [empty("d")]),
    "alike, constant": ([constant("d")], [constant("d")]),
    "alike, computed": ([constant("d", "upper(a)")], [constant("d", "upper(a)")]),
    "alike, under another id": ([empty("o"), constant("d")], [constant("d")]),
    "others, empty": ([empty("o")], [empty("d")]),
    "others, constant": ([constant("o")], [constant("d")]),
    "others, and a rename": ([empty("o"), rename], [constant("d")]),
    "others, crosswise": ([empty("o"), empty("d")], [empty("d"), empty("o")]),
}
each_addition = pytest.mark.parametrize("name", ADDED)
by_day = pytest.mark.when(day=0.15)


@by_day
@each_addition
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("order", ["there and back", "back and there"])
def test_branches_that_added_columns_merge_in_both_directions_for_ever(tmp_path, name, flipped, order):
    uri = given(str(tmp_path / "t.lance"))
    for changes, branch in zip(ADDED[name], (None, "exp") if flipped else ("exp", None), strict=True):
        for change in changes:
            change(head(uri, branch))
    ways = [("exp", None), (None, "exp")]
    for turn in range(3):
        for source, into in ways if order == "there and back" else ways[::-1]:
            run(uri, source, into)
        assert rows(head(uri)) == rows(head(uri, "exp"))
        add(head(uri), 10 + turn)
        add(head(uri, "exp"), 20 + turn)
        head(uri, "exp").update({"k": "k + 100"}, where=f"k = {19 + turn}")
    run(uri)
    run(uri, None, "exp")
    assert rows(head(uri)) == rows(head(uri, "exp"))
    found = rows(head(uri))[1]
    assert [row["k"] for row in found] == [1, 2, 10, 11, 12, 22, 120, 121]
    for row in found:
        assert all(value == str(row["k"] % 100) for key, value in row.items() if key != "k") or row["k"] < 3
    for dataset in (head(uri), head(uri, "exp")):
        dataset.validate()


@pytest.mark.parametrize("texts", [("'c'", "'other'"), ("'c'", "cast(null as string)")])
def test_columns_of_one_name_with_other_values_or_nulls_are_a_conflict_with_a_way_out(tmp_path, texts):
    uri = given(str(tmp_path / "t.lance"))
    for text, branch in zip(texts, (None, "exp"), strict=True):
        constant("d", text)(head(uri, branch))
    with pytest.raises(Conflict) as refused:
        run(uri)
    assert "drop or rename it" in str(refused.value).lower()
    head(uri, "exp").drop_columns(["d"])
    run(uri)
    run(uri, None, "exp")
    assert rows(head(uri)) == rows(head(uri, "exp")) == (["a", "d", "k"], rows(head(uri))[1])
    assert [row["d"] for row in rows(head(uri))[1]] == ["c", "c"]


@by_day
@each_addition
def test_a_clone_pulls_and_pushes_for_ever(tmp_path, name):
    there, here = given(str(tmp_path / "there.lance")), str(tmp_path / "here.lance")
    engine = LocalRunner()
    remote = Remote("origin", locate(there))
    clone(remote, pin_latest(locate(there), None), locate(here), engine)
    for changes, uri in zip(ADDED[name], (here, there), strict=True):
        for change in changes:
            change(head(uri))
    for turn in range(2):
        pull(locate(here), remote, None, None, engine)
        push(locate(here), remote, None, engine)
        assert rows(head(here)) == rows(head(there))
        add(head(there), 10 + turn)
        add(head(here), 20 + turn)
    pull(locate(here), remote, None, None, engine)
    push(locate(here), remote, None, engine)
    assert rows(head(here)) == rows(head(there))
    assert len(rows(head(here))[1]) == 6


def test_reverting_an_addition_on_one_side_leaves_the_other_columns(tmp_path):
    uri = given(str(tmp_path / "t.lance"))
    empty("o")(head(uri))
    constant("d")(head(uri, "exp"))
    run(uri)
    revert(locate(uri), PinnedVersion(None, 2), None, LocalRunner())
    assert rows(head(uri))[0] == ["a", "d", "k"]
    run(uri, None, "exp")
    assert rows(head(uri)) == rows(head(uri, "exp"))


@pytest.mark.parametrize("first", ["append", "alter"])
def test_a_push_that_needs_steps_says_so_in_a_dry_run(tmp_path, first):
    """Whether a column may be null is a version of its own."""
    there, here = given(str(tmp_path / "there.lance")), str(tmp_path / "here.lance")
    engine, remote = LocalRunner(), Remote("origin", locate(there))
    clone(remote, pin_latest(locate(there), None), locate(here), engine)
    changes = [lambda: add(head(here), 9), lambda: head(here).alter_columns({"path": "a", "nullable": False})]
    for change in changes if first == "append" else changes[::-1]:
        change()
    dry = push(locate(here), remote, None, engine, PushOptions(dry_run=True))
    assert dry.replayed is not None
    assert dry.replayed.notes == ("in 2 steps, because pylance cannot commit all of it at once; this is the first",)
    assert head(there).version == 1
    push(locate(here), remote, None, engine)
    assert (rows(head(there)), head(there).schema) == (rows(head(here)), head(here).schema)
    assert head(there).version == 3


def test_rows_deleted_in_a_branch_that_took_everything_over_are_read_there(tmp_path):
    """Its fragments name their files by base paths, which the last common version, on main, does not have."""
    uri = given(str(tmp_path / "t.lance"))
    head(uri).delete("k = 1")
    run(uri, None, "exp")
    constant("d")(head(uri))
    run(uri, None, "exp")
    assert rows(head(uri, "exp")) == (["a", "d", "k"], [{"a": "y", "d": "c", "k": 2}])


def cast(dataset):
    dataset.alter_columns({"path": "a", "data_type": pa.large_string()})


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_cast_beside_changed_rows_goes_once_the_other_side_casts_as_well(tmp_path, flipped, change):
    uri = given(str(tmp_path / "t.lance"))
    one, other = (None, "exp") if flipped else ("exp", None)
    cast(head(uri, one))
    if change == "append":
        add(head(uri, other), 9)
    else:
        head(uri, other).delete("k = 2")
    with pytest.raises(Conflict, match="was cast on one side") as refused:
        run(uri)
    assert "Cast the column in the same way on the other side" in str(refused.value)
    cast(head(uri, other))
    expected = rows(head(uri, other))
    run(uri)
    run(uri, None, "exp")
    assert rows(head(uri)) == rows(head(uri, "exp")) == expected
    assert head(uri).schema.field("a").type == pa.large_string()
