"""Changes of rows that are killed, whose commit is unclear, and that race: all or nothing, and never twice."""

import os
import random
import signal
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from unittest.mock import Mock

import lance
import pytest
from support.local_datasets import contents, written_since
from support.processes import PATIENCE, Job, Team, processes
from support.row_changes import changing_table, check_table, rows_of, some, written

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict, CorruptData, StorageFailure
from lance_spark.rows import rows
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.row_files import without_rows
from lance_spark.rows.rows import finish

ROWS = [
    (UPDATE, {"id": 1, "x": 50, "day": "mon"}),
    (UPDATE, {"id": 14, "x": 50, "day": "mon"}),
    (DELETE, {"id": 25}),
    (INSERT, {"id": 60, "x": 6, "day": "new"}),
]


@pytest.fixture(params=["exp", None], ids=["branch", "main"])
def branch(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["stable", "plain"])
def location(request, uri, branch):
    return changing_table(uri, branch, request.param)


def changed(rows):
    new = {row["id"]: row for operation, row in ROWS if operation != DELETE}
    return [row for row in rows if row["id"] not in (1, 14, 25)] + list(new.values())


def change_and_die(uri, branch, moment):
    commit = rows.commit_rows

    def dying(*arguments):
        if moment == "after the commit":
            commit(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    rows.commit_rows = dying
    finish(written(DatasetLocation.at(uri), branch, ROWS))


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_killed_change_is_there_whole_or_not_at_all(location, branch, moment):
    before = rows_of(location, branch)
    process = processes().Process(target=change_and_die, args=(location.uri, branch, moment))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    if moment == "before the commit":
        check_table(location, branch, before)
        finish(written(location, branch, ROWS))
    check_table(location, branch, changed(before))


@pytest.mark.parametrize("failure", [StorageFailure, Conflict])
def test_a_commit_that_arrived_although_it_seemed_to_fail_is_not_made_twice(location, branch, monkeypatch, failure):
    before = rows_of(location, branch)
    commit = rows.commit_rows

    def unclear(*arguments):
        commit(*arguments)
        raise failure("The answer was lost.")

    monkeypatch.setattr(rows, "commit_rows", unclear)
    result = finish(written(location, branch, ROWS))
    assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (2, 1, 1)
    assert result.version.version == lance.dataset(location.branch_uri(branch)).version
    check_table(location, branch, changed(before))


def test_files_stay_while_a_commit_may_still_arrive(location, branch, monkeypatch):
    before, change = contents(location.uri), written(location, branch, ROWS)
    made = written_since(before, location.uri)

    monkeypatch.setattr(rows, "commit_rows", Mock(side_effect=StorageFailure("No answer.")))
    with pytest.raises(StorageFailure):
        finish(change)
    assert len(made) == 5
    assert written_since(before, location.uri) == made


def test_a_conflict_deletes_the_files(location, branch):
    before, change = contents(location.uri), written(location, branch, ROWS)
    lance.dataset(location.branch_uri(branch)).delete("id = 14")
    theirs = rows_of(location, branch)
    with pytest.raises(Conflict, match="cannot be combined") as caught:
        finish(change)
    assert "retries" in caught.value.hint
    new = [path for path in written_since(before, location.uri) if "data/" in path or "_deletions" in path]
    assert len(new) == 1, new  # the deletion file of the other writer
    check_table(location, branch, theirs)


def test_a_version_that_is_gone_in_between_is_a_conflict(location, branch):
    change = written(location, branch, ROWS)
    for key in (5, 6):
        lance.dataset(location.branch_uri(branch)).delete(f"id = {key}")
    dataset = lance.dataset(location.branch_uri(branch))
    number = dataset.version - 1
    directory = f"{location.branch_uri(branch)}/_versions"
    for name in (f"{number}.manifest", f"{2**64 - 1 - number:020}.manifest"):
        if os.path.exists(f"{directory}/{name}"):
            os.remove(f"{directory}/{name}")
    with pytest.raises(Conflict, match="cleaned up"):
        finish(change)


def test_a_column_that_is_dropped_or_filled_in_between(location, branch):
    change = written(location, branch, ROWS)
    lance.dataset(location.branch_uri(branch)).add_columns({"y": "x + 1"})
    with pytest.raises(Conflict, match="new column"):
        finish(change)
    before = rows_of(location, branch)
    change = written(location, branch, [(DELETE, {"id": 25})])
    lance.dataset(location.branch_uri(branch)).add_columns({"z": "x + 1"})
    assert finish(change).rows_deleted == 1
    assert len(rows_of(location, branch)) == len(before) - 1
    change = written(location, branch, [(DELETE, {"id": 24})])
    lance.dataset(location.branch_uri(branch)).drop_columns(["x"])
    with pytest.raises(Conflict, match="'x' was dropped"):
        finish(change)


def test_addresses_of_another_version_end_the_change(location, branch):
    dataset = lance.dataset(location.branch_uri(branch))
    with pytest.raises(CorruptData, match="belong to one version"):
        without_rows(location, PinnedVersion(branch, dataset.version), 0, [3])


def test_changes_of_different_rows_race_and_all_arrive(location, branch):
    before = rows_of(location, branch)
    keys = [4, 5, 6, 15, 16, 17, 26, 27]
    start = threading.Barrier(len(keys))
    problems = []

    def run(key):
        try:
            change = written(location, branch, [(UPDATE, {"id": key, "x": 90 + key, "day": "raced"})])
            start.wait()
            finish(change)
        except Exception as problem:  # noqa: BLE001 - shown below
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    raced = [{"id": key, "x": 90 + key, "day": "raced"} for key in keys]
    check_table(location, branch, [row for row in before if row["id"] not in keys] + raced)


def counting(uri, branch, seed, rounds):
    """Adds one to x of some rows, and inserts a key that may be there, again and again; what it was told is done."""
    location, chance = DatasetLocation.at(uri), random.Random(seed)
    added, inserted = Counter(), []
    for _ in range(rounds):
        keys, new = chance.sample(range(4, 10), 2), chance.randrange(1000, 1008)

        def rows(known, keys=keys, new=new):
            wanted = [(UPDATE, {**known[key], "x": known[key]["x"] + 1}) for key in keys]
            return wanted + ([] if new in known else [(INSERT, {"id": new, "x": 0, "day": "new"})])

        def meets(pin, fragments, new=new):
            found = lance.dataset(location.branch_uri(branch), version=pin.version)
            return any(new in found.get_fragment(key).to_table()["id"].to_pylist() for key in fragments)

        change = written(location, branch, rows, meets)
        with suppress(Conflict):
            result = finish(change)
            added.update(keys)
            inserted += [new] * result.rows_inserted
    return added, inserted


@pytest.mark.slow
def test_processes_that_change_the_same_rows_lose_no_change_that_they_were_told_is_done(uri):
    location = changing_table(uri, "exp", stable=True)
    before = {row["id"]: row["x"] for row in rows_of(location, "exp")}
    with Team(4) as team:
        outcomes = team.run([Job(counting, (uri, "exp", seed, 5)) for seed in range(4)])
    after = Counter(row["id"] for row in rows_of(location, "exp"))
    assert max(after.values()) == 1
    assert sorted(key for _, keys in outcomes for key in keys) == sorted(key for key in after if (key or 0) >= 1000)
    added = sum((counts for counts, _ in outcomes), Counter())
    assert added
    now = {row["id"]: row["x"] for row in rows_of(location, "exp")}
    assert {key: now[key] - x for key, x in before.items() if now[key] != x} == dict(added)
    lance.dataset(location.branch_uri("exp")).validate()


def test_of_two_changes_that_insert_by_key_the_second_looks_at_the_first(location, branch):
    seen = []

    def meets(pin, fragments):
        found = lance.dataset(location.branch_uri(branch), version=pin.version)
        rows = [row for number in fragments for row in found.get_fragment(number).to_table().to_pylist()]
        seen.append(rows)
        return any(row["id"] == 60 for row in rows)

    def versions():
        names = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
        found = lance.dataset(location.branch_uri(branch)).scanner(columns=names).to_table().to_pylist()
        return {row.pop("id"): row for row in found}

    before = versions()
    new = (INSERT, {"id": 60, "x": 6, "day": "new"})
    first, second = (written(location, branch, [new], meets) for _ in range(2))
    finish(first)
    assert {key: row for key, row in versions().items() if key != 60} == before
    with pytest.raises(Conflict, match="would have met"):
        finish(second)
    assert seen == [[{"id": 60, "x": 6, "day": "new"}]]
    assert [row["id"] for row in rows_of(location, branch)].count(60) == 1


def test_a_change_that_others_overtake_reads_their_versions_and_rows_once(location, branch, monkeypatch):
    """If it read them all again, it would be slower each time, and on a table with many writers never done."""
    uri, before = location.branch_uri(branch), rows_of(location, branch)
    met, steps = [], []

    def meets(pin, fragments):
        found = lance.dataset(uri, version=pin.version)
        met.extend(row["id"] for number in fragments for row in found.get_fragment(number).to_table().to_pylist())
        return False

    def overtaken(*arguments):
        if overtaking:
            key = overtaking.pop()
            lance.write_dataset(some([100 + key]), uri, mode="append")
            lance.dataset(uri).delete(f"id = {key}")  # beside a row of ours, in one fragment
        return commit(*arguments)

    def step(self, pin):
        steps.append(pin.version)
        return read(self, pin)

    overtaking, work = [5, 6, 7, 8], rows
    commit, read = work.commit_rows, work.Rebase._step
    monkeypatch.setattr(work, "commit_rows", overtaken)
    monkeypatch.setattr(work.Rebase, "_step", step)
    start = lance.dataset(uri).version
    result = finish(replace(written(location, branch, ROWS, meets), inserts_by_key=True))
    assert met == [108, 107, 106, 105]
    assert steps == list(range(start + 1, start + 9))
    assert result.version.version == start + 9
    theirs = [row for row in before if row["id"] not in (5, 6, 7, 8)] + some([105, 106, 107, 108]).to_pylist()
    check_table(location, branch, changed(theirs))


def test_new_rows_that_were_compacted_since_are_looked_at_together_and_deleted_ones_not(location, branch):
    uri, looks = location.branch_uri(branch), []

    def meets(pin, fragments):
        found = lance.dataset(uri, version=pin.version)
        rows = [row for number in fragments for row in found.get_fragment(number).to_table().to_pylist()]
        looks.append((pin.version, [row["id"] for row in rows]))
        return False

    work = replace(written(location, branch, ROWS, meets), inserts_by_key=True)
    before = rows_of(location, branch)
    for key in (100, 101, 102):
        lance.write_dataset(some([key]), uri, mode="append")
    lance.dataset(uri).delete("id = 101")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=5)
    compacted = lance.dataset(uri).version
    lance.write_dataset(some([103, 104]), uri, mode="append")
    lance.dataset(uri).delete("id = 104")
    head = lance.dataset(uri).version
    finish(work)
    assert looks == [(compacted - 1, [100, 102]), (head, [103])]
    check_table(location, branch, changed(before) + some([100, 102, 103]).to_pylist())
