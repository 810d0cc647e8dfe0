"""Which clauses of a merge make sense together, and what they need to look at."""

import pytest

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.rows.action_rules import (
    DELETE,
    INSERT,
    NEW,
    UPDATE,
    ChangeResult,
    Clause,
    advisory_size,
    check_clauses,
    check_columns,
    inserts,
    join_of,
    prepared,
    spelled,
)

pytestmark = pytest.mark.pure

MATCHED, NEW_ROW, ORPHAN = "matched", "not matched", "not matched by source"
UPDATE_ALL, DELETE_IF = Clause(MATCHED, UPDATE), Clause(MATCHED, DELETE, "source.deleted")
INSERT_ALL, PRUNE = Clause(NEW_ROW, INSERT), Clause(ORPHAN, DELETE)


@pytest.mark.parametrize(
    ("clauses", "join", "may_insert"),
    [
        ([UPDATE_ALL], "inner", False),
        ([INSERT_ALL], "right", True),
        ([DELETE_IF, UPDATE_ALL, INSERT_ALL], "right", True),
        ([PRUNE], "left", False),
        ([UPDATE_ALL, PRUNE], "left", False),
        ([INSERT_ALL, PRUNE], "full", True),
    ],
)
def test_which_rows_clauses_need(clauses, join, may_insert):
    check_clauses(clauses)
    assert join_of(clauses) == join
    assert inserts(clauses) is may_insert


def test_a_merge_needs_a_clause():
    with pytest.raises(InvalidOption, match="no clause"):
        check_clauses([])


def test_a_clause_behind_one_without_a_condition_is_refused():
    with pytest.raises(InvalidOption, match="'when matched then update', which has no condition"):
        check_clauses([UPDATE_ALL, DELETE_IF])
    check_clauses([DELETE_IF, UPDATE_ALL])
    check_clauses([UPDATE_ALL, PRUNE, INSERT_ALL])


@pytest.mark.parametrize(
    ("name", "hint"),
    [("delai", "Did you mean 'delay'"), ("Delay", "'delay'"), ("s.a", "set 's' as a whole"), ("zzz", "The table has")],
)
def test_a_column_that_is_not_there(name, hint):
    with pytest.raises(NotFound) as caught:
        check_columns([name], ["id", "delay", "s"])
    assert hint in caught.value.hint


def old(fragment, deleted=0, updated=0, checksum=0, metadata="{}", twice=None):
    numbers = {"deleted": deleted, "updated": updated, "checksum": checksum, "rows": 0}
    return {"fragment": fragment, "metadata": metadata, "operation": None, "twice": twice, **numbers}


def new(operation, rows, checksum=0):
    numbers = {"deleted": 0, "updated": 0, "rows": rows, "checksum": checksum}
    return {"fragment": NEW, "metadata": "{}", "operation": operation, "twice": None, **numbers}


def test_what_tasks_did_is_summed_up():
    change = prepared([old(1, 2, 3, 50), old(2, 4, metadata=None), new(UPDATE, 3, 50), new(INSERT, 5)], UPDATE)
    assert (change.deleted, change.updated, change.inserted) == (6, 3, 5)
    assert change.changed == {1: "{}", 2: None}
    assert not change.is_empty
    assert prepared([], UPDATE).is_empty


@pytest.mark.parametrize("written", [[], [new(UPDATE, 2, 50)], [new(UPDATE, 3, 51)]])
def test_other_rows_written_than_deleted_end_the_change(written):
    with pytest.raises(CorruptData, match="not the same each time"):
        prepared([old(1, 0, 3, 50), *written], UPDATE)


def test_a_row_that_would_change_twice_is_kept():
    assert prepared([old(1, 0, 3, 50, twice=77), new(UPDATE, 4, 60)], UPDATE).twice == 77


def test_a_result_is_one_line():
    pin = PinnedVersion("exp", 7)
    assert str(ChangeResult(pin)) == "exp@7: no row changed"
    assert str(ChangeResult(pin, 1, 2, 3, 2, 1229)) == ("exp@7: 1 row deleted, 2 updated, 3 inserted; 2 files, 1.2 KiB")


@pytest.mark.parametrize(
    ("setting", "share", "size"),
    [
        ("64MB", 1.0, 2**26),
        ("67108864b", 0.25, 2**24),
        ("67108864", 0.5, 2**25),
        ("1g", 0.5, 2**29),
        ("64m", 0.0001, 2**20),
        ("100k", 0.0001, 100 * 2**10),
        (None, 0.5, 2**25),
        ("much", 0.5, 2**25),
    ],
)
def test_tasks_get_fewer_rows_where_they_write_more_than_they_get(setting, share, size):
    assert advisory_size(setting, share) == size


@pytest.mark.parametrize(
    ("names", "table", "expected"),
    [
        (["id", "V"], ["id", "v"], ["id", "v"]),
        (["ID", "extra"], ["id", "v"], ["id", "extra"]),
        (["id", "ID"], ["id"], ["id", "ID"]),
        (["ID", "Id"], ["id"], ["ID", "Id"]),
        (["A", "a"], ["a", "A"], ["A", "a"]),
        (["x"], ["X", "x"], ["x"]),
        (["xY"], ["XY", "xy"], ["xY"]),
    ],
)
def test_names_get_the_spelling_of_the_table(names, table, expected):
    assert [*spelled(names, table).values()] == expected
