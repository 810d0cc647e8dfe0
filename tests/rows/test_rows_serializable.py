"""Write skew, and the property that refuses it: a statement that read a table conflicts with any commit since."""

import lance
import pytest
from support.row_changes import changing_table, rows_of, some, written

from lance_spark.catalog.staging import alter_properties
from lance_spark.core.isolation import ISOLATION
from lance_spark.errors import Conflict, InvalidOption
from lance_spark.rows import rows
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import delete_where, finish

BRANCHES = pytest.mark.parametrize("branch", ["exp", None])


@pytest.fixture(params=["serializable", None])
def level(request):
    return request.param


def table(uri, branch, level):
    location = changing_table(uri, branch, stable=False)
    if level is not None:
        alter_properties(location, branch, {ISOLATION: level})
    return location


def update(key):
    return [(UPDATE, {"id": key, "x": 50, "day": "off"})]


@BRANCHES
def test_two_updates_that_read_what_the_other_one_changes(uri, branch, level):
    """Each set a doctor off duty because the other one was on: write skew."""
    location = table(uri, branch, level)
    first, second = written(location, branch, update(1)), written(location, branch, update(14))
    finish(first)
    if level is None:
        finish(second)
    else:
        with pytest.raises(Conflict, match="did not see") as caught:
            finish(second)
        assert "Run it again" in caught.value.hint
    off = [row["id"] for row in rows_of(location, branch) if row["day"] == "off"]
    assert sorted(off) == ([1, 14] if level is None else [1])


EVENTS = {
    "append": (lambda table: lance.write_dataset(some([900]), table.uri, mode="append"), True),
    "delete": (lambda table: table.delete("id = 15"), True),
    "compact": (lambda table: table.optimize.compact_files(), False),
    "index": (lambda table: table.create_scalar_index("day", "BITMAP"), False),
}


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("actions", [update(1), [(DELETE, {"id": 1})], [(INSERT, {"id": 60, "x": 1, "day": "new"})]])
def test_any_commit_of_rows_since_is_a_conflict(uri, level, name, actions):
    location = table(uri, None, level)
    event, changes = EVENTS[name]
    change = written(location, None, actions)
    event(lance.dataset(uri))
    if level is not None and changes:
        with pytest.raises(Conflict, match="did not see"):
            finish(change)
    else:
        finish(change)


def test_a_deletion_by_a_predicate_looks_again(uri, level, monkeypatch):
    location = table(uri, None, level)
    real, pending = rows._Deleting.look, [lambda: lance.write_dataset(some([901]), uri, mode="append")]

    def look(self, head):
        found = real(self, head)
        if pending:
            pending.pop()()
        return found

    monkeypatch.setattr(rows._Deleting, "look", look)
    found = delete_where(location, None, "id IN (1, 901)", rows_engine())
    assert found.rows == (1 if level is None else 2)
    assert 901 not in {row["id"] for row in rows_of(location, None)} or level is None


def rows_engine():
    from lance_spark.engine.session_spark import engine_of

    return engine_of(None, run_on="local")


def test_an_unknown_isolation_level_is_refused(uri):
    location = changing_table(uri, None, stable=False)
    with pytest.raises(InvalidOption, match="isolation_level"):
        alter_properties(location, None, {ISOLATION: "strict"})


def test_a_level_that_another_tool_misspelled_counts_as_serializable(uri):
    location = changing_table(uri, None, stable=False)
    lance.dataset(uri).update_metadata({ISOLATION: "serialisable"})
    change = written(location, None, update(1))
    lance.dataset(uri).delete("id = 15")
    with pytest.raises(Conflict, match="did not see"):
        finish(change)
