"""Cells of rows that both sides changed: whose value wins, which are left empty, and which rows are the same."""

import numpy as np
import pyarrow as pa
import pytest
from support.merge_values import sides, version

from lance_spark.format.blobs import BLOB_KEY
from lance_spark.format.contents import Field
from lance_spark.format.operations import Step, Steps
from lance_spark.format.versions import read_computed, write_computed
from lance_spark.merge import cell_rules as rules
from lance_spark.merge.change_rules import Computed

pytestmark = pytest.mark.pure

KINDS = {
    "numbers": (pa.int64(), 1, 2, 3),
    "text": (pa.string(), "a", "b", ""),
    "floats": (pa.float64(), 1.5, float("nan"), -2.0),
    "lists": (pa.list_(pa.int32()), [1], [1, 2], []),
    "structs": (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": None}, {"a": 1, "b": "x"}, None),
    "vectors": (pa.list_(pa.float32(), 2), [1.0, 2.0], [1.0, 3.0], [0.0, 0.0]),
    "bytes": (pa.binary(), b"\0", b"\1", b""),
    "truths": (pa.bool_(), True, False, None),
}
X = rules.CellColumn("x", "x", "x", "x", True, rules.Form.VALUES, frozenset({1}))
C = rules.CellColumn("c", None, None, "c", True, rules.Form.VALUES, frozenset({2}))
NOTHING = rules.CellRule({}, {})
CLASH = "clash"


def plain(array):
    return [None if value is None else str(value) for value in array.to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("base", "ours", "theirs", "wanted"),
    [
        (0, 0, 0, 0),
        (0, 1, 0, 1),
        (0, 0, 1, 1),
        (0, 1, 1, 1),
        (0, 1, 2, CLASH),
        (None, 1, None, 1),
        (None, None, 1, 1),
        (0, None, 0, None),
        (0, 0, None, None),
        (0, None, None, None),
        (0, 1, None, CLASH),
        (0, None, 1, CLASH),
    ],
)
def test_a_cell_comes_from_the_side_that_changed_it(kind, base, ours, theirs, wanted):
    type_, *values = KINDS[kind]

    def column(at):
        return pa.array([values[0], None if at is None else values[at]], type_)

    if wanted == CLASH and len({str(None if at is None else values[at]) for at in (base, ours, theirs)}) < 3:
        return  # the kind has too few values for three different ones
    decided = rules.decide_cells(
        [X], [0], rules.Cells({0: column(base)}, {0: column(ours)}, {0: column(theirs)}, 2), NOTHING
    )
    assert decided.clashes[0].tolist() == [False, wanted == CLASH]
    if wanted != CLASH:
        assert plain(decided.values[0]) == plain(column(wanted))
    assert not decided.emptied_ours[0].any()


@pytest.mark.parametrize(
    ("reads", "changed", "wanted", "emptied"),
    [
        ({0}, False, 7, 0),
        ({0}, True, None, 1),
        (set(), True, 7, 0),
        ({2}, False, None, 1),  # a column that was not compared may have changed
    ],
)
def test_a_computed_value_stays_only_if_nothing_changed_what_it_was_computed_from(reads, changed, wanted, emptied):
    x = pa.array([1], pa.int64())
    ours = pa.array([2 if changed else 1], pa.int64())
    cells = rules.Cells({0: x}, {0: ours}, {0: x, 1: pa.array([7], pa.int64())}, 1)
    decided = rules.decide_cells([X, C], [0, 1], cells, rules.CellRule({}, {1: frozenset(reads)}))
    assert decided.values[1].to_pylist() == [wanted]
    assert decided.emptied_theirs[1].sum() == emptied
    assert decided.values[0].to_pylist() == ours.to_pylist()
    mirrored = rules.Cells({0: x}, {0: x, 1: pa.array([7], pa.int64())}, {0: ours}, 1)
    other = rules.decide_cells([X, C], [0, 1], mirrored, rules.CellRule({1: frozenset(reads)}, {}))
    assert other.values[1].to_pylist() == [wanted]
    assert other.emptied_ours[1].sum() == emptied


def test_a_value_that_both_sides_have_is_never_left_out():
    one, two = pa.array([1], pa.int64()), pa.array([2], pa.int64())
    cells = rules.Cells({0: one, 1: one}, {0: two, 1: two}, {0: one, 1: two}, 1)
    decided = rules.decide_cells([X, X._replace(name="y")], [0, 1], cells, rules.CellRule({}, {1: frozenset({0})}))
    assert decided.values[1].to_pylist() == [2]
    assert not decided.emptied_theirs[1].any()


def test_a_home_needs_a_file_only_for_values_that_it_does_not_have():
    values = pa.array([1, None])
    assert not rules.differs(X, values, pa.array([1, None]))
    assert rules.differs(X, values, pa.array([1, 2]))
    assert rules.differs(C, values, None)
    assert not rules.differs(C, pa.nulls(2, pa.int64()), None)
    assert rules.differs(C._replace(has_default=True), pa.nulls(2, pa.int64()), None)


# --- Which rows are the same


def rows(*numbers):
    return np.array(numbers, np.int64)


def test_rows_are_found_by_their_ids():
    candidates = [rules.NumberedRows(3, rows(9, 4, 5), rows(1)), rules.NumberedRows(5, rows(4, 20), rows())]
    assert rules.find_ids(rows(4, 5, 6), candidates).tolist() == [5 << 32, (3 << 32) + 2, rules.NOWHERE]
    assert rules.find_ids(rows(), candidates).tolist() == []
    assert rules.find_ids(rows(1), []).tolist() == [rules.NOWHERE]


def test_an_id_in_two_places_proves_nothing():
    assert (
        rules.find_ids(rows(4), [rules.NumberedRows(3, rows(4), rows()), rules.NumberedRows(5, rows(4), rows())])
        is None
    )
    assert rules.find_ids(rows(4), [rules.NumberedRows(3, rows(4, 4), rows())]) is None


def test_rows_are_found_by_their_keys():
    wanted = pa.table({"a": [1, 2, None], "b": ["x", "y", "z"]})
    there = pa.table({"a": [2, 1, None, 9], "b": ["y", "y", "z", "z"], "address": [70, 71, 72, 73]})
    assert rules.find_keys(wanted, there, ["a", "b"]).tolist() == [rules.NOWHERE, 70, rules.NOWHERE]
    assert rules.find_keys(wanted, there.slice(0, 0), ["a", "b"]).tolist() == [rules.NOWHERE] * 3


def test_a_key_that_occurs_twice_proves_nothing():
    one, two = pa.table({"a": [1], "address": [5]}), pa.table({"a": [1, 1], "address": [5, 6]})
    assert rules.find_keys(pa.table({"a": [1]}), two, ["a"]) is None
    assert rules.find_keys(pa.table({"a": [1, 1]}), one, ["a"]) is None


# --- Structs whose fields changed


def struct(number, name, *inside, of=-1, kind="int64", blob=False):
    """A column or field with fields inside, parents first: (id, name), or fields inside again."""
    metadata = ((BLOB_KEY, b"true"),) if blob else ()
    own = Field(number, of, name, "struct" if inside else kind, True, metadata)
    return [own, *(entry for each in inside for entry in struct(each[0], each[1], *each[2:], of=number))]


def column(base, ours, theirs):
    versions = (version([], fields=fields) for fields in (base, ours, theirs))
    seen = sides(*versions, Steps(None), Steps("exp"))
    (found,) = rules.cell_columns(seen)
    return found


S = struct(1, "s", (2, "a"), (3, "b", (4, "x"), (5, "y")))


@pytest.mark.parametrize(
    ("theirs", "names"),
    [
        (struct(1, "s", (2, "a"), (3, "b", (4, "x"), (5, "y")), (6, "z")), "a b.x b.y z"),
        (struct(1, "s", (2, "a"), (3, "b", (4, "x"), (5, "y"), (6, "z"))), "a b.x b.y b.z"),
        (struct(1, "s", (2, "a"), (3, "b", (5, "y"))), "a b.y"),
        (struct(1, "s", (2, "a")), "a"),
        (struct(1, "s", (2, "new"), (3, "b", (4, "x"), (5, "y"))), "new b.x b.y"),
    ],
    ids=["added", "added inside", "dropped inside", "dropped", "renamed"],
)
def test_a_struct_is_compared_by_the_fields_that_the_result_has(theirs, names):
    for ours, other in ((S, theirs), (theirs, S)):
        found = column(S, ours, other)
        assert (found.form, " ".join(leaves(found.inner))) == (rules.Form.FIELDS, names)


def leaves(inner, before=""):
    for each in inner:
        yield from leaves(each.inner, f"{before}{each.name}.") if each.inner else [f"{before}{each.name}"]


@pytest.mark.parametrize(
    ("before", "after", "form"),
    [
        (S, S, rules.Form.VALUES),
        (S, struct(1, "s", (2, "new"), (7, "a")), rules.Form.FIELDS),
        (struct(1, "s", (2, "a")), struct(1, "s", (6, "z")), rules.Form.FIELDS),
        (struct(1, "s", (2, "a")), struct(1, "s", kind="int64"), rules.Form.NEVER),
        (struct(1, "b", blob=True), struct(1, "c", blob=True), rules.Form.BYTES),
        (struct(1, "b", blob=True), struct(1, "b"), rules.Form.NEVER),
    ],
)
def test_how_a_column_is_compared(before, after, form):
    assert column(before, before, after).form is form


def test_structs_of_three_versions_are_made_alike():
    base = pa.array([{"a": 1, "b": {"x": 1, "y": 2}}, {"a": 2, "b": None}, None])
    ours = pa.array([{"a": 1, "b": {"x": 1, "y": 2}, "z": None}, {"a": 2, "b": None, "z": 7}, None])
    theirs = pa.array([{"b": {"y": 2}, "c": 1}, {"b": None, "c": 2}, {"b": {"y": 5}, "c": None}])
    inner = (
        rules.Inner("c", ("a", "a", "c")),
        rules.Inner("b", ("b", "b", "b"), (rules.Inner("y", ("y", "y", "y")),)),
        rules.Inner("z", (None, "z", None)),
    )
    for start in (0, 1):
        made = rules.aligned(inner, [values.slice(start) for values in (base, ours, theirs)])
        known = [{"c": 1, "b": {"y": 2}, "z": None}, {"c": 2, "b": None, "z": None}, None]
        assert made[0].to_pylist() == known[start:]
        assert made[1].to_pylist() == [known[0], {"c": 2, "b": None, "z": 7}, None][start:]
        assert made[2].to_pylist() == [*known[:2], {"c": None, "b": {"y": 5}, "z": None}][start:]
    assert rules.aligned(inner, [None, ours, None])[::2] == [None, None]


# --- What a column was computed from

COLUMNS = [
    X,
    rules.CellColumn("y", "y", "y", "y", True, rules.Form.VALUES, frozenset({2})),
    rules.CellColumn("c", None, None, "c", True, rules.Form.VALUES, frozenset({3})),
    rules.CellColumn("d", None, None, "d", True, rules.Form.VALUES, frozenset({4})),
]
NAMES = ["x", "y", "c", "d"]


def step(operation, **reads):
    return Step(1, operation, computed=tuple(reads.items()) if reads or operation == "Told" else None)


def renamed(**names):
    return Step(1, "Project", renames=tuple(names.items()))


@pytest.mark.parametrize(
    ("steps", "complete", "wanted"),
    [
        ([step("Merge", c=("x",))], True, {2: {0}}),
        ([step("Merge", c=())], True, {2: set()}),
        ([step("Merge", c=None)], True, {2: {0, 1}}),
        ([step("Merge", c=("x",)), step("Update", c=("y",))], True, {2: {0, 1}}),
        ([step("Merge", c=("x",)), step("Update")], True, {2: {0}}),
        ([step("Merge", c=("x",)), step("Merge")], True, {2: {0, 1}}),
        ([step("Merge", c=("x",)), step("Project")], True, {2: {0, 1}}),
        ([step("Merge", c=("x",))], False, {2: {0, 1}}),
        ([step("Merge", d=("x",), c=("d",))], True, {2: {0}, 3: {0}}),
        ([step("Merge", c=("gone",))], True, {2: {0, 1}}),
        ([step("Merge", c=("x",)), renamed()], True, {2: {0}}),
        ([step("Merge", c=("old",)), renamed(old="x")], True, {2: {0}}),
        ([step("Merge", was=("x",)), renamed(was="c")], True, {2: {0}}),
        ([step("Merge", c=("x",)), renamed(x="y", y="x")], True, {2: {1}}),
        ([step("Merge", c=("x",)), renamed(x=None), renamed(z="x")], True, {2: {0, 1}}),
        ([step("Merge", was=None), renamed(was="c")], True, {2: {0, 1}}),
        ([renamed(c="z"), step("Merge", c=("x",))], True, {2: {0}}),
    ],
)
def test_what_a_column_was_computed_from(steps, complete, wanted):
    computed = Computed.of(Steps("exp", tuple(steps), complete))
    assert rules.reads_of(COLUMNS, computed, NAMES, wanted) == wanted


def test_what_was_computed_into_a_dropped_column_is_not_recorded():
    steps = [step("Merge", c=("x",), d=None), renamed(x="y", c=None)]
    assert Computed.of(Steps("exp", tuple(steps))).record == {"d": None}


def test_the_record_of_computed_columns_is_read_again():
    reads = {"c": ("y", "x"), "d": None, "e": ()}
    assert read_computed(write_computed(reads)) == (("c", ("x", "y")), ("d", None), ("e", ()))
    assert read_computed(write_computed({})) == ()
    assert read_computed({}) is None
    assert read_computed({"lance_spark.computed": "7"}) is None


def test_a_note_names_the_column_the_rows_and_the_call_that_fills_them():
    assert list(rules.told([rules.Emptied("emb", 1, "exp"), rules.Emptied("z", 2000, "main")])) == [
        "1 row has no value in column 'emb', which 'exp' computed from values that changed; fill with "
        't.update_columns({"emb": "..."}, where="emb IS NULL")',
        "2,000 rows have no value in column 'z', which 'main' computed from values that changed; fill with "
        't.update_columns({"z": "..."}, where="z IS NULL")',
    ]
