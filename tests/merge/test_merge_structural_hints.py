"""What the hint of a conflict about columns says is done, on the side that it names: the same merge goes through."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import Conflict

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "x": pa.array([1, 2, 3], pa.int32())})


def alter(**change):
    return lambda dataset: dataset.alter_columns({"path": "x", **change})


def comment(text):
    return lambda dataset: dataset.update_field_metadata({"x": {"comment": text}}, replace=True)


def new(value):
    return lambda dataset: dataset.add_columns({"n": value})


def write(dataset):
    dataset.update({"x": "5"}, "id = 1")


def empty(dataset):
    dataset.update({"x": "null"}, "id = 1")


SAME, CAST, GIVE = "Make the same change on both sides", "Cast the column in the same way", "Give these rows a value"
CASES = {
    "the same name on both sides": (
        alter(name="y"),
        alter(name="z"),
        SAME,
        "exp",
        lambda d: d.alter_columns({"path": "z", "name": "y"}),
        {},
    ),
    "one name taken back": (
        alter(name="y"),
        alter(name="z"),
        SAME,
        "exp",
        lambda d: d.alter_columns({"path": "z", "name": "x"}),
        {},
    ),
    "the same comment": (comment("a"), comment("b"), SAME, "exp", comment("a"), {}),
    "the same type": (
        alter(data_type=pa.int64()),
        write,
        CAST,
        "exp",
        alter(data_type=pa.int64()),
        {"prefer": "theirs"},
    ),
    "one new column dropped": (
        new("id + 1"),
        new("'t'"),
        "Drop or rename it on one side",
        "exp",
        lambda d: d.drop_columns(["n"]),
        {},
    ),
    "one new column renamed": (
        new("id + 1"),
        new("'t'"),
        "Drop or rename it on one side",
        "exp",
        lambda d: d.alter_columns({"path": "n", "name": "m"}),
        {},
    ),
    "the column restored": (
        lambda d: d.drop_columns(["x"]),
        write,
        "restore, on the side that dropped it",
        "restore",
        None,
        {},
    ),
    "a value given": (alter(nullable=False), empty, GIVE, "exp", lambda d: d.update({"x": "0"}, "id = 1"), {}),
    "nullable again": (alter(nullable=False), empty, "let the column be null again", "main", alter(nullable=True), {}),
}
"""What both sides did, words of the hint, the side on which they are followed, how, and what the merge takes then."""


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("case", CASES)
def test_the_hint_of_a_conflict_about_columns_leads_out(uri, case):
    ours, theirs, words, side, way, then = CASES[case]
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    t = LanceTable.for_path(uri)
    t.branches.create("exp")
    places = {"main": uri, "exp": t.location.branch_uri("exp")}
    ours(lance.dataset(places["main"]))
    theirs(lance.dataset(places["exp"]))
    with pytest.raises(Conflict) as refused:
        t.branches.merge("exp")
    assert words in refused.value.hint
    if side == "restore":
        t.restore(1)
    else:
        way(lance.dataset(places[side]))
    t.branches.merge("exp", **then)
    assert lance.dataset(uri).count_rows() == 3
    assert t.branches.merge("exp").up_to_date
