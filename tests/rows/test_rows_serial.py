"""Processes that change the same rows at once: what comes out is what some order of them gives, one after the other."""

from dataclasses import replace
from random import Random

import lance
import pytest
from support.processes import Job, Team
from support.row_changes import changing_table, rows_of, written
from support.serial_orders import KEYS, Change, serial_order, some_change

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict
from lance_spark.format.versions import ADDS_ONLY
from lance_spark.rows.rows import finish
from lance_spark.storage.versions import read_transactions

pytestmark = pytest.mark.slow


def computed(uri, branch, change, _again):
    """The change up to its commit, on the newest version."""
    location = DatasetLocation.at(uri)

    def meets(pin, fragments):
        found = lance.dataset(location.branch_uri(branch), version=pin.version)
        rows = [row for number in fragments for row in found.get_fragment(number).to_table().to_pylist()]
        return any(change.matches(row) for row in rows if row["id"] is not None)

    def actions(rows):
        return change.actions({key: row for key, row in rows.items() if key is not None})

    whole = written(location, branch, actions, None if change.kind == "append" else meets)
    return replace(whole, inserts_by_key=change.inserts_by_key)


def committed(work, uri, branch, change, again):
    """The version, or None after a conflict; with ``again`` it is computed anew once."""
    for left in (again, False):
        try:
            return None if work.change.is_empty else finish(work).version.version
        except Conflict:
            if not left:
                return None
            work = computed(uri, branch, change, left)
    return None


def adds_only(location, branch, versions):
    """Whether one of the versions added rows and did nothing else."""
    found = read_transactions(location, branch, versions).values()
    return any(each.operation == "Append" or each.properties.get(ADDS_ONLY) == "true" for each in found)


def without_deletions(changes):
    return [change for change in changes if not change.kind.startswith("delete")]


def keyed(rows):
    found = {row["id"]: row for row in rows if row["id"] is not None}
    assert len(found) == len([row for row in rows if row["id"] is not None]), "a key is there twice"
    return found


@pytest.mark.parametrize(
    ("branch", "stable", "members", "rounds"),
    [
        pytest.param("exp", True, 3, 2, id="three processes"),
        pytest.param("exp", True, 8, 20, id="eight processes, stable branch", marks=pytest.mark.when(day=0)),
        pytest.param(None, False, 8, 20, id="eight processes, plain main", marks=pytest.mark.when(day=0)),
    ],
)
def test_the_outcome_is_that_of_some_serial_order_of_those_that_were_told_it_is_done(
    uri, branch, stable, members, rounds
):
    location = changing_table(uri, branch, stable)
    chance, told = Random(members), []
    with Team(members) as team:
        for number in range(rounds):
            before = keyed(rows_of(location, branch))
            changes = [some_change(chance, 1000 + number * members + member) for member in range(members)]
            jobs = [
                Job(committed, (uri, branch, change, member % 2 == 1), computed)
                for member, change in enumerate(changes)
            ]
            outcomes = team.run(jobs)
            done = sorted(
                (version, change) for version, change in zip(outcomes, changes, strict=True) if version is not None
            )
            after = keyed(rows_of(location, branch))
            order = serial_order(before, [change for _, change in done], after)
            if order is None:
                # An insert that found a row does not change it: a deletion of the row meanwhile is no conflict.
                found = {key for key in before if key not in after}
                order = serial_order(before, [change.without(found) for _, change in done], after)
                assert order is not None, (number, done)
            elif not adds_only(location, branch, [version for version, _ in done]):
                # Only rows that were added meanwhile may be left out of account, as if they came afterwards; and those
                # of an update that commits in the same moment as a deletion, since pylance combines the two.
                assert without_deletions(order) == without_deletions(change for _, change in done), (number, done)
            told += outcomes
            lance.dataset(location.branch_uri(branch)).validate()
    assert any(version is not None for version in told)
    assert rounds < 20 or None in told, "nobody ever met anybody"


def test_an_outcome_that_no_order_gives_is_told():
    before = {key: {"id": key, "x": 1, "day": "mon"} for key in KEYS}
    first, second, third = Change("update", (1, 2), 5), Change("update by value", (), 1), Change("delete", (2,))
    after = third.applied(second.applied(first.applied(before)))
    assert serial_order(before, [first, second, third], after) == (first, second, third)
    assert serial_order(before, [second, first], second.applied(first.applied(before))) == (first, second)
    assert serial_order(before, [first, third], after) is None
    lost = {**after, 1: before[1]}
    assert serial_order(before, [first, second, third], lost) is None
    twice = [Change("update", (4,), 3)] * 2
    assert serial_order(before, twice, twice[0].applied(before)) is None
    assert serial_order(before, twice, twice[0].applied(twice[0].applied(before))) == tuple(twice)
