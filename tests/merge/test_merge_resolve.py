"""Rows that the caller decides: what a function is shown, what it may return, and what becomes of the rows."""

import numpy as np
import pyarrow as pa
import pytest
from support.merge_datasets import head
from test_merge_settled import Layout, append, compact, content, delete, goes_on, made, update

from lance_spark import LanceTable
from lance_spark.errors import Conflict, InvalidOption, NotFound
from lance_spark.merge.cell_rules import CellColumn, Cells, Form
from lance_spark.merge.resolve_rules import asked, given_cells

BOTH = Layout(stable=True, keyed=True)


def clashing(path, layout=BOTH):
    """Row 2 updated twice, 3 deleted in main, 5 deleted in exp, and two rows with one key where keys are declared."""
    uri = made(path, layout)
    update("id in (2, 5)", price=77)(uri, None)
    delete("id = 3")(uri, None)
    update("id in (2, 3)", price=88, name="theirs")(uri, "exp")
    delete("id = 5")(uri, "exp")
    if layout.keyed:
        append(20, 1)(uri, None)
        append(20, 2)(uri, "exp")
    return uri


def sums(rows):
    """The higher price of a row; rows that one side deleted go."""
    found = []
    for row in rows.to_pylist():
        sides = [side["price"] for side in (row["ours"], row["theirs"]) if side is not None]
        found.append({"_row": row["_row"], "price": max(sides), "_delete": len(sides) < 2})
    return found


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("layout", [Layout(False, True), Layout(True, False), Layout(True, True)], ids=str)
def test_a_function_decides_rows_from_all_three_versions(tmp_path, layout):
    uri = clashing(str(tmp_path / "t.lance"), layout)
    seen = []

    def resolve(rows):
        seen.append(rows)
        return sums(rows)

    t = LanceTable.for_path(uri)
    planned = t.branches.merge("exp", resolve=resolve, dry_run=True)
    result = t.branches.merge("exp", resolve=resolve)
    assert (planned.conflicts, planned.summary) == ((), result.summary)
    assert result.summary.rows_settled == (4 if layout.keyed else 3)
    rows = content(uri)
    assert rows[2] == {"id": 2, "name": "theirs", "price": 88}
    assert [n for n in (3, 5) if n in rows] == []
    assert rows.get(20, {}).get("price") == (2 if layout.keyed else None)
    assert head(uri).count_rows() == len(rows) == (7 if layout.keyed else 6)
    assert t.fsck(deep=True).sound
    shown = {row["ours" if row["ours"] else "theirs"]["id"]: row for row in seen[-1].to_pylist()}
    assert shown[2]["base"] == {"id": 2, "name": "n2", "price": 20}
    assert [shown[3]["ours"], shown[5]["theirs"]] == [None, None]
    goes_on(uri, t)


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("compacts", [False, True])
def test_rows_that_stay_have_the_given_values(tmp_path, compacts):
    uri = clashing(str(tmp_path / "t.lance"))
    if compacts:
        compact(uri, None)

    def resolve(rows):
        return pa.table({"id": rows["id"], "price": [500 + n for n in rows["id"].to_pylist()]})

    t = LanceTable.for_path(uri)
    t.branches.merge("exp", resolve=resolve)
    rows = content(uri)
    assert {n: rows[n]["price"] for n in (2, 3, 5, 20)} == {2: 502, 3: 503, 5: 505, 20: 520}
    assert (rows[3]["name"], rows[5]["name"]) == ("theirs", "n5")
    assert head(uri).count_rows() == len(rows) == 9
    assert t.fsck(deep=True).sound


def test_a_preference_leaves_the_rest_to_the_function(tmp_path):
    uri = clashing(str(tmp_path / "t.lance"), Layout(stable=True, keyed=False))
    asked = []

    def resolve(rows):
        asked.append([row["_row"] for row in rows.to_pylist() if row["ours"] and row["theirs"]])
        return sums(rows)

    LanceTable.for_path(uri).branches.merge("exp", prefer={"price": "ours"}, resolve=resolve)
    assert (asked, content(uri)[2]["price"]) == ([[]], 77)


def test_nobody_is_asked_without_a_conflict(tmp_path):
    uri = made(str(tmp_path / "t.lance"), Layout(stable=True, keyed=False))
    update("id = 2", price=7)(uri, None)
    update("id = 2", name="theirs")(uri, "exp")
    LanceTable.for_path(uri).branches.merge("exp", resolve=lambda _: pytest.fail("asked"))
    assert content(uri)[2] == {"id": 2, "name": "theirs", "price": 7}


NUMBERED = [{"_row": n, "price": 1} for n in range(3)]
ROWS_BACK = None
"""The rows that were asked, as they are."""
WRONG = {
    "a number": (7, "int, which is no table"),
    "no rows": (pa.table({"_row": pa.array([], pa.int64())}), "3 of 3 rows are missing"),
    "one row": (NUMBERED[:1], "2 of 3 rows are missing"),
    "another row": ([*NUMBERED, {"_row": 3, "price": 1}], "1 rows were not asked, such as row 3"),
    "another key": ([{"id": 9, "price": 1}], "were not asked, such as row with"),
    "a row twice": ([*NUMBERED, NUMBERED[0]], "1 rows are in it twice"),
    "no identity": (pa.table({"price": [1, 2, 3]}), "no column '_row' or"),
    "another column": ([{**row, "cost": 1} for row in NUMBERED], "no column 'cost'"),
    "another type": ([{**row, "price": "much"} for row in NUMBERED], "column 'price' has values"),
    "a null": ([{**row, "price": None} for row in NUMBERED], "column 'price' cannot be null"),
    "without the cell": (ROWS_BACK, "column 'price' is not in it"),
    "a strange flag": ([{**row, "_delete": "no"} for row in NUMBERED], "and not boolean"),
}
COLUMNS = [
    CellColumn(name, name, name, name, False, Form.VALUES, frozenset({at})) for at, name in enumerate(("id", "price"))
]


def question():
    """Rows 1 to 3, of which both sides changed the price of 1, ours deleted 2 and both added 3."""

    def side(ids, prices):
        return {0: pa.array(ids, pa.int64()), 1: pa.array(prices, pa.int64())}

    cells = Cells(
        side([1, 2, None], [10, 20, None]),
        side([1, None, 3], [11, None, 31]),
        side([1, 2, 3], [12, 22, 32]),
        3,
        new=np.array([False, False, True]),
        names=np.array([7, 5, 9]),
        only_ours=np.zeros(3, bool),
        only_theirs=np.array([False, True, False]),
    )
    return asked(COLUMNS, ("id",), [(cells, {1: np.array([True, False, True])})])


@pytest.mark.pure
@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_that_does_not_fit_is_refused(wrong):
    answer, words = WRONG[wrong]
    with pytest.raises(InvalidOption, match=words) as refusal:
        given_cells(question(), COLUMNS, question().table if answer is ROWS_BACK else answer)
    assert "'_row' or the key" in refusal.value.hint


@pytest.mark.pure
def test_the_function_is_shown_each_row_in_all_three_versions():
    rows = question().table.to_pylist()
    assert [(row["_row"], row["id"], row["base"], row["ours"], row["theirs"]) for row in rows] == [
        (0, 2, {"id": 2, "price": 20}, None, {"id": 2, "price": 22}),
        (1, 1, {"id": 1, "price": 10}, {"id": 1, "price": 11}, {"id": 1, "price": 12}),
        (2, 3, None, {"id": 3, "price": 31}, {"id": 3, "price": 32}),
    ]


@pytest.mark.pure
def test_rows_come_back_in_any_order_by_key():
    answer = [{"id": 3, "price": 33}, {"id": 1, "price": 13}, {"id": 2, "price": 0, "_delete": True}]
    given = given_cells(question(), COLUMNS, answer)
    assert (given.names.tolist(), given.values[1].to_pylist()) == ([5, 7, 9], [0, 13, 33])
    assert given.goes(np.array([4, 5, 7, 9])).tolist() == [False, True, False, False]


@pytest.fixture(scope="module")
def open_rows(tmp_path_factory):
    return clashing(str(tmp_path_factory.mktemp("open") / "t.lance"), Layout(stable=True, keyed=False))


def test_an_answer_that_does_not_fit_changes_nothing(open_rows):
    before = head(open_rows).version
    with pytest.raises(InvalidOption, match="2 of 3 rows are missing"):
        LanceTable.for_path(open_rows).branches.merge("exp", resolve=lambda _: NUMBERED[:1])
    assert head(open_rows).version == before


def test_what_the_function_raises_comes_out(open_rows):
    with pytest.raises(ZeroDivisionError):
        LanceTable.for_path(open_rows).branches.merge("exp", resolve=lambda _: 1 / 0)
    with pytest.raises(Conflict):
        LanceTable.for_path(open_rows).branches.merge("exp")


def test_a_data_frame_of_pandas_is_taken(tmp_path):
    pytest.importorskip("pandas")
    uri = made(str(tmp_path / "t.lance"), Layout(stable=False, keyed=True))
    update("id = 2", price=77)(uri, None)
    update("id = 2", price=88)(uri, "exp")

    def resolve(rows):
        frame = rows.to_pandas()
        frame["price"] = [
            (ours["price"] + theirs["price"]) // 2 for ours, theirs in zip(frame.ours, frame.theirs, strict=True)
        ]
        return frame[["id", "price"]]

    LanceTable.for_path(uri).branches.merge("exp", resolve=resolve)
    assert content(uri)[2]["price"] == 82


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"prefer": {"prize": "theirs", "*": "ours"}}, NotFound, "There is no column 'prize'"),
        ({"on": "idd"}, NotFound, "There is no column 'idd'"),
        ({"resolve": "theirs"}, InvalidOption, "resolve must be one function"),
        (
            {"resolve": {"price": max}},
            InvalidOption,
            "not a dict of 'price'.\n.*gets one pyarrow.Table.*returns",
        ),
        (
            {"resolve": lambda ours, theirs: ours or theirs},
            InvalidOption,
            "with one argument.*\n.*def resolve",
        ),
    ],
)
def test_a_typing_error_decides_about_no_row(tmp_path, given, error, words):
    """The misspelled column was passed over, and ``*`` decided about the one that was meant."""
    uri = clashing(str(tmp_path / "t.lance"))
    before = content(uri)
    with pytest.raises(error, match=words):
        LanceTable.for_path(uri).branches.merge("exp", **given)
    assert content(uri) == before


def test_the_hint_of_a_transaction_leads_out(tmp_path):
    """It named ``on=``, which a transaction did not take."""
    uri = made(str(tmp_path / "t.lance"), Layout(False, False))
    t = LanceTable.for_path(uri)

    def both(**took):
        with t.transaction(**took) as work:
            update("id = 2", price=77)(uri, None)
            update("id = 2", price=88)(uri, work.branch)

    with pytest.raises(Conflict) as caught:
        both()
    assert "with t.transaction(on='id', prefer='theirs')" in caught.value.hint
    both(on="id", prefer="theirs")
    assert content(uri)[2]["price"] == 88
