"""What others do while a maintenance runs is no failure of it: nobody is called at night for a deleted branch."""

import lance
import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark import LanceTable
from lance_spark.errors import StorageFailure
from lance_spark.maintenance import maintain

POLICY = {"compaction": {"small_fragments": 2}, "cleanup": {"older_than": "0s"}}
VERBS = {
    "compaction, planned": ("optimize", "compaction", 1),
    "compaction, carried out": ("optimize", "compaction", 2),
    "indexes, planned": ("list_indexes", "indexes", 1),
    "indexes, carried out": ("list_indexes", "indexes", 2),
}


@pytest.fixture
def table(uri):
    """Main and a branch with small fragments, and an index that lacks some of them."""
    make_dataset(uri)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    exp = lance.dataset(uri).create_branch("exp")
    for at in range(3):
        lance.write_dataset(numbers(2, 10 * at + 10), exp.uri, mode="append")
    return LanceTable.for_path(uri)


def at_the_call(monkeypatch, verb, number, then):
    """Do something right before the given call of a verb for the branch, and remember that."""
    plain, calls = getattr(maintain, verb), []

    def call(location, at, *rest):
        if "exp" in (at, getattr(at, "branch", None)):
            calls.append(at)
            if len(calls) == number:
                then()
        return plain(location, at, *rest)

    monkeypatch.setattr(maintain, verb, call)
    return calls


@pytest.mark.parametrize(("verb", "step", "number"), VERBS.values(), ids=VERBS)
def test_a_branch_that_somebody_deletes_meanwhile(table, monkeypatch, verb, step, number):
    calls = at_the_call(monkeypatch, verb, number, lambda: table.branches.delete("exp", purge=True))
    report = table.maintain(POLICY, run_on="local").apply()
    (record,) = report.tables
    assert len(calls) >= number
    assert (report.complete, report.exit_code) == (True, 0)
    told = {(one.step, one.branch): (one.state, one.why) for one in record.steps}
    assert told[step, "exp"] == ("nothing", "the branch has been deleted")
    assert told["cleanup", None][0] in ("done", "nothing")


@pytest.mark.parametrize("refs_can_be_read", [True, False])
def test_another_failure_of_a_branch_stays_one(table, monkeypatch, refs_can_be_read):
    def fail(*_):
        if not refs_can_be_read:
            monkeypatch.setattr(maintain.refs, "read_refs", fail)
        raise StorageFailure("The store did not answer.")

    at_the_call(monkeypatch, "optimize", 2, fail)
    report = table.maintain(POLICY, run_on="local").apply()
    (record,) = report.tables
    told = {(one.step, one.branch): (one.state, one.error) for one in record.steps}
    assert told["compaction", "exp"] == ("failed", "The store did not answer.")
    assert report.exit_code != 0


def test_an_index_that_somebody_drops_meanwhile(table, monkeypatch):
    exp = table.checkout(branch="exp")
    calls = at_the_call(monkeypatch, "optimize_indexes", 1, lambda: exp.indexes.drop("id_idx"))
    report = table.maintain(POLICY, run_on="local").apply()
    (record,) = report.tables
    assert len(calls) == 1
    assert report.exit_code == 0
    told = {(one.step, one.branch): (one.state, one.why) for one in record.steps}
    assert told["indexes", "exp"][0] == "nothing"
