"""Merges while other processes write: nothing is lost, nothing is doubled, and what clashes is refused whole."""

import random
import time
from pathlib import Path
from typing import NamedTuple

import lance
import pyarrow as pa
import pytest
from support.local_datasets import write
from support.meanwhile import meanwhile
from support.merge_datasets import assert_sound, error_of, every_version, exp, head, rows, run
from support.processes import Job, Team

from lance_spark.errors import Conflict
from lance_spark.merge import replay_commits

pytestmark = pytest.mark.slow

WRITERS = 8
BASE = range(10)
"""Of each writer's hundred keys those that are there before; the last one is the branch's."""
ATOMIC = range(900, 903)


@pytest.fixture(scope="module")
def team():
    with Team(WRITERS) as made:
        yield made


def table_of(values):
    """Keys and their values."""
    return pa.table({"id": pa.array(values, pa.int64()), "v": pa.array(values.values(), pa.int64())})


def values_of(dataset):
    found = [(row["id"], row["v"]) for row in rows(dataset)]
    assert len(dict(found)) == len(found), "a key is there twice"
    return dict(found)


def base_values():
    return {100 * writer + key: key for writer in range(WRITERS) for key in BASE}


def make(uri, stable=False, values=None):
    """Three fragments in which every writer, and the branch, has rows; an index; and a branch 'exp'."""
    values = base_values() if values is None else values
    lance.write_dataset(table_of(values), uri, max_rows_per_file=30, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_branch("exp")


def keys_of_exp():
    return [100 * writer + BASE[-1] for writer in range(WRITERS)]


def change_exp(uri):
    """Updates, deletions, an upsert and an append on the branch; what its keys are then."""
    keys = keys_of_exp()
    exp(uri).update({"v": "-1"}, f"id in ({keys[0]}, {keys[3]})")
    exp(uri).delete(f"id in ({keys[1]}, {keys[4]})")
    upsert(exp(uri), {keys[2]: -2, keys[7]: -3, ATOMIC[0]: -4})
    lance.write_dataset(table_of(dict.fromkeys(ATOMIC[1:], -5)), exp(uri).uri, mode="append")
    now = values_of(exp(uri))
    return {key: value for key, value in now.items() if key in (*keys, *ATOMIC)}


def upsert(dataset, values):
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table_of(values))


class Reported(NamedTuple):
    """What a writer says of its own keys."""

    values: dict[int, int]
    commits: int


def open_before(uri, *_):
    """The version that a writer has read when the others begin."""
    return lance.dataset(uri)


def write_a_while(dataset, uri, writer, seed):
    """Appends, updates, deletes and upserts of own keys, in any order and through a version that gets old."""
    chance = random.Random(f"{seed} {writer}")
    first = 100 * writer
    mine = {first + key: key for key in BASE[:-1]}
    commits = 0
    for number, change in enumerate(chance.sample(["append", "update", "delete", "upsert"], 3)):
        new = {first + 50 + 10 * number + more: seed for more in range(3)}
        old = chance.choice(sorted(set(mine) & set(range(first, first + 10))))
        before = dict(mine)
        try:
            if change == "append" and writer % 2:
                lance.write_dataset(table_of(new), dataset, mode="append")
                mine |= new
            elif change == "append":
                write(uri, table_of(new))
                mine |= new
            elif change == "update":
                dataset.update({"v": str(1000 + seed)}, f"id = {old}")
                mine[old] = 1000 + seed
            elif change == "delete":
                dataset.delete(f"id = {old}")
                del mine[old]
            else:
                upsert(dataset, {old: 2000 + seed, **new})
                mine |= {old: 2000 + seed, **new}
            commits += 1
        except (OSError, RuntimeError, Conflict) as problem:
            if not is_conflict(problem):
                raise
            mine = before
        time.sleep(chance.uniform(0, 0.004))
    return Reported(mine, commits)


def is_conflict(problem):
    return any(word in str(problem).lower() for word in ("conflict", "contention", "concurrent"))


def commits_in(uri):
    return len(list(Path(uri, "_versions").glob("*.manifest")))


def once_planned(monkeypatch, begin):
    """Let something happen between the plan of a merge and its commit, for the first time that it gets there."""
    meanwhile(monkeypatch, replay_commits, "commit", begin)


@pytest.mark.when(day=0.12)
@pytest.mark.parametrize("number", range(20))
def test_a_branch_merges_while_eight_processes_write(uri, team, monkeypatch, number):
    make(uri, stable=number % 2 == 1)
    theirs = change_exp(uri)
    before, started = values_of(head(uri)), commits_in(uri)
    team.prepare([Job(write_a_while, (uri, writer, number), open_before) for writer in range(WRITERS)])
    if number % 4 < 2:
        team.go()
        time.sleep(random.Random(number).uniform(0, 0.01))
    else:
        once_planned(monkeypatch, lambda: begin_and_wait(team, uri, started))

    result = run(uri)

    reports = team.outcomes()
    expected = dict(theirs)
    for report in reports:
        expected |= report.values
    assert values_of(head(uri)) == expected
    assert commits_in(uri) == started + sum(report.commits for report in reports) + 1
    assert_sound(head(uri))
    of_exp = {key: value for key, value in before.items() if key in keys_of_exp()}
    for version, found in every_version(uri).items():
        seen = {row["id"]: row["v"] for row in found if row["id"] in (*keys_of_exp(), *ATOMIC)}
        assert seen == (theirs if version >= result.version else of_exp), version
    assert run(uri).up_to_date


def begin_and_wait(team, uri, started):
    team.go()
    while commits_in(uri) == started:
        time.sleep(0.001)


def merge_one(_, uri, source):
    """Of a merge by a process: the version it made, if it made one."""
    result = run(uri, source)
    assert result.up_to_date == (result.version is None)
    return result.version


@pytest.mark.parametrize("number", range(5))
def test_processes_that_merge_branches_of_one_dataset_at_once_take_in_all_of_them(uri, team, number):
    make(uri, stable=number % 2 == 1)
    names = [f"b{writer}" for writer in range(3)]
    for writer, name in enumerate(names):
        lance.dataset(uri).create_branch(name)
        branch = head(uri, name)
        branch.update({"v": "-1"}, f"id = {100 * writer}")
        branch.delete(f"id = {100 * writer + 1}")
        lance.write_dataset(table_of({1000 + writer: 1}), branch.uri, mode="append")

    versions = team.run([Job(merge_one, (uri, name), open_before) for name in names])

    expected = base_values() | {100 * writer: -1 for writer in range(3)} | {1000 + writer: 1 for writer in range(3)}
    for writer in range(3):
        del expected[100 * writer + 1]
    assert values_of(head(uri)) == expected
    assert len(set(versions)) == 3
    assert_sound(head(uri))
    assert all(run(uri, name).up_to_date for name in names)


@pytest.mark.parametrize("number", range(6))
def test_of_processes_that_merge_one_branch_at_once_one_takes_it_in(uri, team, number):
    make(uri, stable=number % 2 == 1)
    if number < 2:
        change_exp(uri)
    else:
        append_to_exp(uri)
    expected, started = values_of(exp(uri)), commits_in(uri)

    versions = team.run([Job(merge_one, (uri, "exp"), open_before)] * 4)

    assert values_of(head(uri)) == expected
    assert sorted(versions, key=str) == [started + 1, None, None, None]
    assert commits_in(uri) == started + 1
    assert_sound(head(uri))


def append_to_exp(uri):
    """Appends alone combine with each other: rows that were merged twice would be there twice."""
    lance.write_dataset(table_of({900: 1}), exp(uri).uri, mode="append")


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("change", [change_exp, append_to_exp])
@pytest.mark.parametrize("size", [80, 0])
def test_a_merge_that_another_one_overtakes_is_up_to_date(uri, monkeypatch, stable, change, size):
    make(uri, stable, dict(list(base_values().items())[:size]))
    change(uri)
    first, started = [], commits_in(uri)
    once_planned(monkeypatch, lambda: first.append(run(uri)))
    assert run(uri).up_to_date
    assert [result.version for result in first] == [started + 1]
    assert values_of(head(uri)) == values_of(exp(uri))
    assert commits_in(uri) == started + 1


CLASHES = {
    "update": lambda uri: head(uri).update({"v": "77"}, "id = 9"),
    "delete": lambda uri: head(uri).delete("id = 9"),
    "upsert": lambda uri: upsert(head(uri), {9: 77}),
    "overwrite": lambda uri: lance.write_dataset(table_of({5: 5}), uri, mode="overwrite"),
    "delete all": lambda uri: head(uri).delete("true"),
}
"""Changes of a row, or of the fragment of a row, that the branch has changed as well."""


@pytest.mark.parametrize("name", CLASHES)
def test_a_writer_that_comes_first_and_clashes_is_kept_and_the_merge_changes_nothing(uri, monkeypatch, name):
    make(uri)
    change_exp(uri)
    theirs, before = values_of(exp(uri)), []

    def clash():
        CLASHES[name](uri)
        before.append((every_version(uri), values_of(head(uri))))

    once_planned(monkeypatch, clash)
    assert isinstance(error_of(uri), Conflict)
    assert [(every_version(uri), values_of(head(uri)))] == before
    assert values_of(exp(uri)) == theirs
    assert isinstance(error_of(uri), Conflict)


@pytest.mark.parametrize("stable", [False, True])
def test_a_compaction_that_comes_first_is_kept_and_rows_are_followed_through_it(uri, monkeypatch, stable):
    """It takes the very fragments in which the branch changed rows."""
    make(uri, stable)
    theirs = change_exp(uri)

    def compact():
        head(uri).delete("id = 5")
        head(uri).optimize.compact_files()

    once_planned(monkeypatch, compact)
    run(uri)
    expected = {key: value for key, value in base_values().items() if key not in keys_of_exp()} | theirs
    expected.pop(5)
    assert values_of(head(uri)) == expected
    assert_sound(head(uri))
    assert run(uri).up_to_date


def clash_one(dataset, uri, name):
    """Whether a writer could commit."""
    changes = {
        "update": lambda: dataset.update({"v": "77"}, "id = 9"),
        "delete": lambda: dataset.delete("id = 9"),
        "upsert": lambda: upsert(dataset, {9: 77}),
    }
    try:
        changes[name]()
    except (OSError, RuntimeError) as problem:
        if not is_conflict(problem):
            raise
        return False
    return True


def merge_or_not(_, uri):
    problem = error_of(uri)
    assert problem is None or isinstance(problem, Conflict), problem
    return problem is None


@pytest.mark.parametrize("number", range(6))
def test_of_a_merge_and_a_writer_of_the_same_row_both_are_told_the_truth(uri, team, number):
    make(uri)
    theirs = change_exp(uri)
    name = ("update", "delete", "upsert")[number % 3]
    jobs = [Job(clash_one, (uri, name), open_before), Job(merge_or_not, (uri,), open_before)]

    wrote, merged = team.run(jobs)

    assert wrote or merged
    expected = base_values()
    if merged:
        expected = {key: value for key, value in expected.items() if key not in keys_of_exp()} | theirs
    if wrote:
        expected[9] = 77
    if wrote and name == "delete":
        del expected[9]
    assert values_of(head(uri)) == expected
    assert_sound(head(uri))
