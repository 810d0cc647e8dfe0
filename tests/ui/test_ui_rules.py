"""What pages show, as values: searches, a row on all branches, commands to copy."""

import shlex
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lance_spark.changes.diff_rules import RowExample
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict, CorruptData, InvalidOption, NotFound, PermissionDenied, StorageFailure
from lance_spark.ui import page_rules, row_rules
from lance_spark.ui.row_rules import RowOnBranch, RowPage

pytestmark = pytest.mark.pure
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("rate", pa.float64()),
        ("ok", pa.bool_()),
        ("cost", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("small", pa.int8()),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("picture", pa.binary()),
        ("vector", pa.list_(pa.float32(), 8)),
        ("od`d", pa.string()),
    ]
)


@pytest.mark.parametrize(
    ("column", "text", "condition"),
    [
        ("id", "7", "`id` = 7"),
        ("id", " 1,000 ", "`id` = 1000"),
        ("id", "-5", "`id` = -5"),
        ("name", "O'Hara", "`name` = 'O''Hara'"),
        ("name", "' OR 1=1 --", "`name` = ''' OR 1=1 --'"),
        ("name", "", "`name` = ''"),
        ("name", " x ", "`name` = ' x '"),
        ("ok", "TRUE", "`ok` = true"),
        ("cost", "1.50", "`cost` = CAST('1.50' AS DECIMAL(9,2))"),
        ("day", "1970-01-03", "`day` = CAST(2 AS DATE)"),
        ("word", "a", "`word` = 'a'"),
    ],
)
def test_a_row_is_asked_for_by_a_value(column, text, condition):
    assert row_rules.condition(SCHEMA, column, text) == condition


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("id", "7 OR 1=1"),
        ("id", "1.5"),
        ("id", ""),
        ("small", "300"),
        ("ok", "maybe"),
        ("cost", "abc"),
        ("cost", "1.234"),
        ("day", "tomorrow"),
        ("at", "x"),
        ("picture", "1"),
        ("vector", "1"),
        ("od`d", "1"),
        ("nope", "1"),
    ],
)
def test_no_other_text_becomes_a_condition(column, text):
    with pytest.raises(InvalidOption):
        row_rules.condition(SCHEMA, column, text)


@pytest.mark.parametrize(
    ("names", "key", "first"),
    [
        (["a", "id"], (), "id"),
        (["a", "user_id"], (), "user_id"),
        (["a", "b"], (), "a"),
        (["a", "id", "b"], ("b",), "b"),
        ([], (), ""),
    ],
)
def test_the_form_begins_with_the_key(names, key, first):
    assert row_rules.first_choice(pa.schema([(name, pa.int64()) for name in names]), key) == first


def on(branch, state="same", own=False):
    return RowOnBranch(branch, PinnedVersion(None if branch == "main" else branch, 3), state, own)


@pytest.mark.parametrize(
    ("branches", "answer"),
    [
        ([on("main", "here", True), on("exp", "changed", True)], "Branch exp changed this row."),
        (
            [on("exp", "gone", True), on("x", "added", True), on("y", "same", True)],
            "Branches exp, x and y changed this row.",
        ),
        # Main changed it after the branch was made: the branch did not.
        ([on("main", "here", True), on("exp", "changed", False)], "No branch changed this row."),
        ([on("main", "absent"), on("exp", "absent")], "No branch has a row with id = 7."),
    ],
)
def test_the_answer_names_the_branches_that_changed_the_row(branches, answer):
    assert RowPage("id", "7", ("id",), tuple(branches)).answer == answer


@pytest.mark.parametrize(
    ("mine", "main", "state"),
    [
        ((), (), "absent"),
        (({"a": 1},), (), "added"),
        ((), ({"a": 1},), "gone"),
        (({"a": 1},), ({"a": 1},), "same"),
        (({"a": 1, "b": None},), ({"a": 1},), "same"),
        (({"a": 1}, {"a": 2}), ({"a": 2}, {"a": 1}), "same"),
        (({"a": 1, "b": 2},), ({"a": 1},), "changed"),
        (({"a": 1},), ({"a": 1}, {"a": 1}), "changed"),
    ],
)
def test_rows_compare_with_mains(mine, main, state):
    assert row_rules.state_of(mine, main) == state


def test_a_search_finds_all_words_in_any_case():
    names = ["raw.Events", "raw.orders", "shop.events_old", "x"]
    assert page_rules.matching(names, "") == names
    assert page_rules.matching(names, "EVENTS") == ["raw.Events", "shop.events_old"]
    assert page_rules.matching(names, "old shop") == ["shop.events_old"]
    assert page_rules.matching(names, "x") == ["x"]
    assert page_rules.matching(names, "none") == []


@pytest.mark.parametrize(
    ("passed", "said"),
    [(5, "just now"), (61, "1 minute ago"), (7_200, "2 hours ago"), (86_400 * 3, "3 days ago"), (-10, "just now")],
)
def test_ages(passed, said):
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert page_rules.age(now - timedelta(seconds=passed), now) == said


def test_commands_are_quoted_for_each_language():
    location = DatasetLocation("/data/it's here.lance")
    found = page_rules.commands(location, ("a/b", "main"), ("theirs", "id"))
    words = shlex.split(found.shell)
    assert words == ["lance-git", "-C", "/data/it's here.lance", "merge", "--on", "id", "--theirs", "a/b"]
    assert "table => '/data/it''s here.lance'" in found.sql
    assert found.python.startswith('LanceTable.for_path("/data/it\'s here.lance").branches.merge(')
    assert shlex.split(page_rules.commands(location, ("a", "b"), ("", "")).shell)[2] == "/data/it's here.lance/tree/b"
    away = page_rules.commands(DatasetLocation("s3://x/t.lance"), ("a", "b"), ("", ""))
    assert away.shell == (
        "lance-git init s3://x/t.lance work && lance-git -C work switch b && lance-git -C work merge a"
    )
    lake = page_rules.lake_commands("/lake", "it's", "ours")
    assert shlex.split(lake.shell) == ["lance-catalog", "-C", "/lake", "merge", "--ours", "it's"]
    assert lake.sql == "CALL lake.system.merge_lake_branch(name => 'it''s', prefer => 'ours')"


def test_columns_that_differ_come_after_the_key_and_the_same_ones_fold():
    wide = {f"c{number}": number for number in range(40)}
    examples = [RowExample("changed", {"id": 1, **wide}, {"id": 1, **wide, "c30": -1})]
    shown, hidden, rows = page_rules.diff_rows(examples, "id")
    assert shown[:2] == ("id", "c30")
    assert len(shown) + len(hidden) == 41
    assert rows[0].key == "1"
    assert [pair.changed for pair in rows[0].cells].count(True) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidOption("x"), 400),
        (NotFound("x"), 404),
        (Conflict("x"), 409),
        (StorageFailure("x"), 504),
        (PermissionDenied("x"), 403),
        (CorruptData("x"), 422),
    ],
)
def test_errors_have_a_status_and_show_no_secret(error, status):
    error.message = "s3://key:secret@bucket/x failed"
    found = page_rules.Problem.of(error)
    assert found.status == status
    assert "secret" not in found.message


@pytest.mark.parametrize(
    ("operation", "stat", "may"),
    [
        ("Rewrite", None, False),
        ("CreateIndex", None, False),
        ("Append", None, True),
        ("Append", (0, 0, 0, 0), False),
        ("Delete", (0, 1, 0, 0), True),
        ("Merge", (0, 0, 1, 0), True),
        ("Unknown", (None, None, 0, 0), True),
    ],
)
def test_versions_that_change_no_row_are_not_read(operation, stat, may):
    names = ("rows_added", "rows_removed", "files_added", "files_removed")
    told = None if stat is None else SimpleNamespace(**dict(zip(names, stat, strict=True)))
    assert row_rules.may_change_rows(SimpleNamespace(operation=operation, stat=told)) is may


# --- What a version did to the row that was asked for

ROW = ({"id": 7, "price": 1.0},)
MADE = {
    # what is there before and after, the operation, whether it has a version before it: by the key, by another column
    "a row of a first version": ((), ROW, "Overwrite", False, ("added", "added")),
    "an append": ((), ROW, "Append", True, ("added", "added")),
    "an update that set the value": ((), ROW, "Update", True, ("added", "began")),
    "a table written again": ((), ROW, "Overwrite", True, ("added", "began")),
    "a column written again": ((), ROW, "DataReplacement", True, ("added", "began")),
    "a deletion": (ROW, (), "Delete", True, ("deleted", "deleted")),
    "an update that took the value away": (ROW, (), "Update", True, ("deleted", "ended")),
    "a restore": (ROW, (), "Restore", True, ("deleted", "ended")),
    "an update of another column": (ROW, ({"id": 7, "price": 2.0},), "Update", True, ("changed", "changed")),
}


@pytest.mark.parametrize("name", MADE)
def test_a_version_that_only_set_a_value_did_not_add_the_row(name):
    before, after, operation, has_parents, told = MADE[name]
    entry = SimpleNamespace(operation=operation, parents=("main@1",) if has_parents else ())
    assert tuple(row_rules.what_happened(entry, before, after, is_key) for is_key in (True, False)) == told


@pytest.mark.parametrize(
    ("key", "column"), [((), "id"), (("name",), "name"), (("picture",), ""), (("id", "name"), ""), (("gone",), "")]
)
def test_rows_are_told_apart_by_the_key_or_by_a_column_called_so(key, column):
    assert row_rules.telling(SCHEMA, key) == column
