"""Appends, deletes, compactions, branches, merges, tags and cleanups at once; then an exact account of every row."""

import os
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import orphans, place, put
from support.processes import Team
from support.storm import Place
from support.storm_checks import EVERYTHING, account, clean_up, run_storm
from support.storm_log import OK, REFUSED, UNKNOWN, Entry, history_problems, problems, taken_twice
from support.storm_upkeep import MORE_THINGS, MORE_WORKERS
from support.storm_workers import WORKERS

from lance_spark.core.refs import RefSpec
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate

SECONDS = 4
NIGHT = float(os.environ.get("EVERYTHING_AT_ONCE_SECONDS", "1800"))
"""Of each of the two runs at night."""


@pytest.fixture(scope="module")
def team():
    # The last upsert may have begun just before the end.
    with Team(len(WORKERS) + len(MORE_WORKERS), patience=600) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable row ids"])
@pytest.mark.when(day={"seconds": [SECONDS], "stable": [True]})
@pytest.mark.parametrize("seconds", [SECONDS, NIGHT], ids=["short", "long"])
def test_every_row_is_accounted_for(uri, tmp_path, team, seconds, stable):
    """By night also with our own verbs, streams in and out, and Spark."""
    place = Place(uri, {}, str(tmp_path / "notes"), seed=int(stable), seconds=seconds, pause=0.1)
    more, things = (MORE_WORKERS, MORE_THINGS) if seconds > SECONDS else ((), ())
    run_storm(place, team, stable, (*WORKERS, *more))
    account(place, (*EVERYTHING, *things))
    clean_up(place)
    account(place, (*EVERYTHING, *things))
    remove_lone_hints(uri)
    assert orphans(uri) == set()


def test_a_hint_that_a_dropped_branch_left_does_no_harm(uri):
    lance.write_dataset(pa.table({"id": [1]}), uri)
    put(uri, "tree/exp/a/_versions/latest_version_hint.json", content=b'{"version":12752}')
    remove_lone_hints(uri)
    assert orphans(uri) == set()
    put(uri, "tree/exp/a/_versions/latest_version_hint.json", content=b'{"version":12752}')
    create_branch(locate(uri), "exp/a", RefSpec())
    assert lance.dataset(place(uri, "exp/a")).to_table()["id"].to_pylist() == [1]
    lance.write_dataset(pa.table({"id": [2]}), place(uri, "exp/a"), mode="append")
    assert lance.dataset(place(uri, "exp/a")).to_table()["id"].to_pylist() == [1, 2]


def remove_lone_hints(uri: str) -> None:
    """Remove the directories of dropped branches that have no version, only pylance's hint of the latest one.

    pylance writes the hint after the manifest. An index was committed to a branch while another process dropped it:
    the manifest went with the branch, and the hint came after that. Nothing reads it.
    """
    for versions in list(Path(uri, "tree").rglob("_versions")):
        if [path.name for path in versions.iterdir()] == ["latest_version_hint.json"]:
            shutil.rmtree(versions)


ADDED = Entry("a", 1, "append", OK, added=(1, 2, 3))
DELETED = Entry("d", 1, "delete", OK, deleted=(2,))


@pytest.mark.parametrize(
    ("told", "rows", "found"),
    [
        ([ADDED, DELETED], [3, 1], []),
        ([ADDED, DELETED], [1], ["lost"]),
        ([ADDED, DELETED], [1, 2, 3], ["back"]),
        ([ADDED, DELETED], [1, 3, 3], ["more than once"]),
        ([ADDED, DELETED], [1, 3, 4], ["no writer"]),
        ([ADDED, Entry("a", 2, "append", REFUSED, added=(4,))], [1, 2, 3, 4], ["no writer"]),
        ([ADDED, Entry("d", 2, "delete", REFUSED, deleted=(2,))], [1, 3], ["lost"]),
        ([ADDED, Entry("a", 2, "append", UNKNOWN, added=(4, 5))], [1, 2, 3], []),
        ([ADDED, Entry("a", 2, "append", UNKNOWN, added=(4, 5))], [1, 2, 3, 4, 5], []),
        ([ADDED, Entry("a", 2, "append", UNKNOWN, added=(4, 5))], [1, 2, 3, 4], ["by half"]),
        ([ADDED, Entry("d", 2, "delete", UNKNOWN, deleted=(1, 2))], [1, 2, 3], []),
        ([ADDED, Entry("d", 2, "delete", UNKNOWN, deleted=(1, 2))], [3], []),
        ([ADDED, Entry("d", 2, "delete", UNKNOWN, deleted=(1, 2))], [1, 3], ["by half"]),
        ([ADDED, DELETED, Entry("d", 2, "delete", UNKNOWN, deleted=(1, 2))], [1, 3], []),
        ([ADDED, Entry("m", 1, "merge", UNKNOWN, added=(4,), deleted=(1,))], [2, 3, 4], []),
        ([ADDED, Entry("m", 1, "merge", UNKNOWN, added=(4,), deleted=(1,))], [1, 2, 3, 4], ["by half"]),
    ],
)
def test_the_account_finds_what_is_wrong_and_nothing_else(told, rows, found):
    said = problems(told, rows)
    assert len(said) == len(found), said
    assert all(word in text for word, text in zip(found, said, strict=True)), said


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({4: [1, 2, 3], 5: [1, 3], 6: [1, 3, 7, 8]}, []),
        ({4: [1, 2, 3], 5: [1, 3], 6: [1, 2, 3]}, ["an earlier one had lost: [2]"]),
        ({4: [], 5: [1, 3, 7], 6: [1, 3, 7, 8]}, ["version 5 has half of: a#2"]),
    ],
)
def test_the_account_looks_at_what_readers_saw(versions, found):
    said = history_problems([ADDED, DELETED, Entry("a", 2, "append", OK, added=(7, 8))], versions)
    assert len(said) == len(found), said
    assert all(word in text for word, text in zip(found, said, strict=True)), said


def test_the_account_finds_a_version_that_two_commits_got():
    one = Entry("a", 1, "append", OK, facts={"version": 4})
    others = [
        Entry("d", 1, "delete", OK, facts={"version": 5, "read": 4}),
        Entry("r", 1, "read", OK, facts={"version": 4}),
    ]
    nothing = Entry("d", 2, "delete", OK, facts={"version": 4, "read": 4})
    assert taken_twice([one, nothing, *others]) == []
    (said,) = taken_twice([one, *others, Entry("b", 1, "merge", OK, facts={"version": 5})])
    assert said.startswith("version 5 has two commits: d#1")
