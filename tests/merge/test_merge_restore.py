"""Restore as a replay: the version that comes back is the one that was, indexes answer, and nobody's commit is lost."""

import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import place
from support.local_datasets import contents
from support.meanwhile import meanwhile
from support.merge_datasets import (
    add,
    assert_sound,
    clean_all,
    every_version,
    exp,
    forked,
    head,
    ids,
    row_ids,
    rows,
    table,
)

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.log.log import log
from lance_spark.merge import restore as restoring
from lance_spark.merge.merge import revert
from lance_spark.merge.restore import restore, restore_version
from lance_spark.storage.datasets import locate

STABLE = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])


def write_column(uri):
    """New values of a column in one fragment, in a file of their own."""
    dataset = head(uri)
    values = pa.table({"id": pa.array(range(10, 20), pa.int64()), "v": pa.array([7] * 10, pa.int64())})
    changed, fields = dataset.get_fragment(1).update_columns(values, left_on="id", right_on="id")
    lance.LanceDataset.commit(uri, lance.LanceOperation.Update([], [changed], [], fields), read_version=dataset.version)


def upsert(uri):
    values = pa.table({"id": pa.array([4, 14, 99], pa.int64()), "v": pa.array([1, 2, 3], pa.int64())})
    head(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(values)


CHANGES = {
    "append": lambda uri: add(uri, 40, 44),
    "delete": lambda uri: head(uri).delete("id IN (2, 3, 11)"),
    "delete a fragment": lambda uri: head(uri).delete("id >= 10 AND id < 20"),
    "delete all": lambda uri: head(uri).delete("true"),
    "update": lambda uri: head(uri).update({"v": "id + 1000"}, where="id < 15"),
    "upsert": upsert,
    "write a column": write_column,
    "overwrite": lambda uri: lance.write_dataset(table(50, 55), uri, mode="overwrite"),
    "compact": lambda uri: head(uri).optimize.compact_files(),
    "add a column": lambda uri: head(uri).add_columns({"w": "id * 2"}),
    "drop a column": lambda uri: head(uri).drop_columns(["v"]),
    "rename a column": lambda uri: head(uri).alter_columns({"path": "v", "name": "value"}),
    "cast a column": lambda uri: head(uri).alter_columns({"path": "v", "data_type": pa.int32()}),
    "index": lambda uri: head(uri).create_scalar_index("v", "BTREE"),
    "replace an index": lambda uri: head(uri).create_scalar_index("id", "BTREE", replace=True),
    "optimize indexes": lambda uri: head(uri).optimize.optimize_indices(num_indices_to_merge=1),
    "drop an index": lambda uri: head(uri).drop_index("id_idx"),
    "configure": lambda uri: head(uri).update_config({"mine": "yes"}),
}
LACKING = ("delete a fragment", "delete all", "update", "overwrite", "compact")
"""Changes that take the first fragment away, which cannot have its id 0 again."""
STORIES = [
    ["delete", "index", "replace an index"],
    ["delete", "compact", "replace an index"],
    ["update", "index", "replace an index", "compact"],
    ["update", "optimize indexes", "delete"],
    ["write a column", "index", "delete a fragment"],
    ["append", "add a column", "delete"],
    ["overwrite", "index", "replace an index", "append"],
    ["drop an index", "delete", "append"],
    ["delete all", "append", "optimize indexes"],
    ["append", "optimize indexes", "compact"],
]
ALONE = [
    pytest.param([name], marks=pytest.mark.when(day=0) if any(name in story for story in STORIES) else ())
    for name in CHANGES
    if name != "optimize indexes"  # alone it has nothing to do
]
"""A change that is part of a longer story is made alone at night."""


def known(dataset: lance.LanceDataset) -> dict[str, set[int]]:
    """The rows, by their ids, that each index knows."""
    found: dict[str, set[int]] = {}
    for index in dataset.list_indices():
        for number in index["fragment_ids"]:
            fragment = dataset.get_fragment(number)
            if fragment is not None:
                found.setdefault(index["name"], set()).update(fragment.to_table(columns=["id"])["id"].to_pylist())
    return found


@pytest.mark.when(day=0.1)
@pytest.mark.parametrize("story", [*STORIES, *ALONE], ids=", ".join)
@STABLE
def test_the_version_that_comes_back_is_the_one_that_was(uri, stable, story):
    forked(uri, stable)
    head(uri).delete("id = 13")
    head(uri).delete("id = 7")
    pinned = head(uri)
    for step in story:
        CHANGES[step](uri)
    before = every_version(uri)
    done = restore_version(locate(uri), PinnedVersion(None, pinned.version), LocalRunner())
    now = head(uri)
    assert done.version == PinnedVersion(None, now.version)
    assert now.version > max(before)
    assert rows(now) == rows(pinned)
    assert now.schema == pinned.schema
    if stable:
        assert row_ids(now) == row_ids(pinned)
    assert_sound(now)
    for name, covered in known(pinned).items():
        assert known(now)[name] >= covered or (name in done.indexes_lacking and {*LACKING} & {*story})
    assert {version: found for version, found in every_version(uri).items() if version in before} == before
    _goes_on(uri)


def _goes_on(uri):
    """Later commits and a cleanup change no answer."""
    expected = ids(head(uri))
    add(uri, 200, 203)
    head(uri).delete("id = 201")
    head(uri).optimize.optimize_indices()
    assert_sound(head(uri))
    head(uri).optimize.compact_files()
    assert_sound(head(uri))
    clean_all(uri)
    assert ids(head(uri)) == [*expected, 200, 202]
    assert_sound(head(uri))


@STABLE
def test_a_restored_branch_reads_inherited_files_where_they_are(uri, stable):
    forked(uri, stable)
    exp(uri).delete("id = 2")
    version = exp(uri).version
    exp(uri).update({"v": "0"}, where="id > 15")
    exp(uri).optimize.compact_files()
    expected = rows(lance.dataset(place(uri, "exp"), version=version))
    before = contents(f"{uri}/data")
    restore(locate(uri), PinnedVersion("exp", version), LocalRunner())
    assert rows(exp(uri)) == expected
    assert contents(f"{uri}/data") == before
    assert_sound(exp(uri))
    add(uri, 80, 82, "exp")
    assert_sound(exp(uri))


def test_the_log_says_what_came_back(uri):
    forked(uri, index=False)
    add(uri, 40, 41)
    restore(locate(uri), PinnedVersion(None, 3), LocalRunner())
    newest = log(locate(uri), None)[0]
    assert (newest.version, newest.action, newest.message) == (5, "restore", "Restore main@3")


def test_a_restore_can_be_restored_and_reverted(uri):
    forked(uri, stable=True)
    head(uri).update({"v": "0"}, where="id < 12")
    changed = head(uri).version
    for version in (4, changed, 4, changed):
        expected = rows(lance.dataset(uri, version=version))
        restore(locate(uri), PinnedVersion(None, version), LocalRunner())
        assert rows(head(uri)) == expected
        assert_sound(head(uri))
    add(uri, 60, 61)
    restored = restore(locate(uri), PinnedVersion(None, 4), LocalRunner())
    revert(locate(uri), PinnedVersion(None, min(restored.version, head(uri).version)), None, LocalRunner())
    assert_sound(head(uri))


def late(monkeypatch, change, module=restoring.replay_commits, name="commit"):
    """Lets something happen in the moment between the plan and the commit; once."""
    meanwhile(monkeypatch, module, name, change)


def test_rows_that_are_appended_in_the_same_moment_are_kept(uri, monkeypatch):
    forked(uri)
    head(uri).delete("id < 5")
    late(monkeypatch, lambda: add(uri, 70, 73))
    made = restore(locate(uri), PinnedVersion(None, 4), LocalRunner())
    assert ids(lance.dataset(uri, version=made.version)) == ids(head(uri)) == [*range(30), 70, 71, 72]
    assert_sound(head(uri))


@pytest.mark.parametrize(
    "change",
    [
        lambda uri: head(uri).optimize.compact_files(),
        lambda uri: head(uri).create_scalar_index("v", "BTREE"),
        lambda uri: head(uri).drop_index("id_idx"),
    ],
    ids=["compaction", "index", "no index"],
)
def test_what_changes_no_rows_does_not_stop_it(uri, monkeypatch, change):
    forked(uri)
    head(uri).delete("id < 5")
    late(monkeypatch, lambda: change(uri))
    restore(locate(uri), PinnedVersion(None, 4), LocalRunner())
    assert ids(head(uri)) == [*range(30)]
    assert_sound(head(uri))


@pytest.mark.parametrize("change", ["delete", "update", "upsert", "overwrite", "add a column"])
def test_what_nobody_has_seen_is_not_taken_back(uri, monkeypatch, change):
    forked(uri)
    head(uri).delete("id = 1")
    head(uri).delete("id = 20")
    late(monkeypatch, lambda: CHANGES[change](uri))
    with pytest.raises(Conflict, match=r"Version 7 of 'main' was committed while main@4 was being restored; nothing"):
        restore(locate(uri), PinnedVersion(None, 4), LocalRunner())
    assert head(uri).version == 7
    assert_sound(head(uri))


def test_what_pylance_has_to_restore_is_told_when_it_covers_a_commit(uri, monkeypatch):
    forked(uri)
    head(uri).update_config({"mine": "yes"})
    late(monkeypatch, lambda: add(uri, 70, 71), restoring.datasets, "restore")
    with pytest.raises(Conflict, match="restored as 7, but version 6 was committed first and is covered"):
        restore(locate(uri), PinnedVersion(None, 4), LocalRunner())
    assert ids(lance.dataset(uri, version=6)) == [*range(30), 70]


@pytest.mark.parametrize("deleted", ["id = 5", "id >= 10 AND id < 20"])
@STABLE
def test_an_index_made_in_between_finds_rows_that_come_back(uri, stable, deleted):
    """It does not know rows that were deleted when it was made; a revert brings them back as a restore does."""
    forked(uri, stable, index=False)
    head(uri).delete(deleted)
    gone = head(uri).version
    head(uri).create_scalar_index("id", "BTREE")
    revert(locate(uri), PinnedVersion(None, gone), None, LocalRunner())
    assert ids(head(uri)) == [*range(30)]
    assert_sound(head(uri))
    head(uri).optimize.optimize_indices()
    assert_sound(head(uri))


APPEND = """
import sys
import lance, pyarrow as pa
uri, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    lance.write_dataset(pa.table({"id": pa.array([1000 + number]), "v": pa.array([number])}), uri, mode="append")
"""
RESTORE = """
import sys
from lance_spark.merge import replay_commits as merge_commit
from lance_spark.merge import restore as restoring
from lance_spark.errors import Conflict, Refused
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.storage.datasets import locate

def committing(location, theirs, plan):
    made = commit(location, theirs, plan)
    print(plan.ours.pin.version, made)
    return made

commit, merge_commit.commit = merge_commit.commit, committing
for _ in range(int(sys.argv[2])):
    try:
        restoring.restore(locate(sys.argv[1]), PinnedVersion(None, 4), LocalRunner())
    except (Conflict, Refused) as error:
        print(error, file=sys.stderr)
"""


@pytest.mark.slow
def test_of_two_processes_that_append_and_restore_no_append_is_lost(uri):
    """Each restore takes back what was there when it was planned, and keeps what was appended since."""
    forked(uri)
    add(uri, 40, 45)
    appending, restoring_too = (
        subprocess.Popen(
            [sys.executable, "-c", code, uri, count], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
        )
        for code, count in ((APPEND, "40"), (RESTORE, "15"))
    )
    said, _ = restoring_too.communicate(timeout=120)
    appending.communicate(timeout=120)
    assert (appending.returncode, restoring_too.returncode) == (0, 0)
    planned_on = {int(made): int(planned) for planned, made in (line.split() for line in said.splitlines())}
    appended: dict[int, int] = {}
    expected = {*range(30), *range(40, 45)}
    for version in range(6, head(uri).version + 1):
        now = set(ids(lance.dataset(uri, version=version)))
        if version in planned_on:
            expected = {*range(30), *(row for at, row in appended.items() if at > planned_on[version])}
        elif now != expected:
            (appended[version],) = now - expected
            expected |= {appended[version]}
        assert now == expected, version
    assert sorted(appended.values()) == list(range(1000, 1040))
    assert planned_on
    assert_sound(head(uri))
