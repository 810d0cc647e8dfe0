"""A branch or clone that depends on nothing else: the rest is taken away, and pylance reads it."""

import os
import shutil
import signal

import lance
import pyarrow as pa
import pytest
from support.feeds import feed
from support.local_datasets import contents, written_since
from support.processes import PATIENCE, processes
from support.small_fragments import INDEXES, append, check_rows, covered, fragmented, sizes

from lance_spark.clones import clone
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import CorruptData, Refused
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize import flatten as flattening
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.flatten import flatten
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch

ENGINE = LocalRunner(2)


@pytest.fixture(params=[True, False], ids=["stable", "plain"])
def location(request, uri):
    location = fragmented(uri, request.param)
    lance.dataset(location.branch_uri("exp")).delete("id IN (7, 45)")
    return location


LEFT = [key for key in range(80) if key not in (7, 45)]


def take_away(uri):
    for directory in ("data", "_indices", "_deletions"):
        shutil.rmtree(f"{uri}/{directory}", ignore_errors=True)


def test_a_branch_needs_nothing_of_its_parent_afterwards(location):
    root, before = location.branch_uri("exp"), contents(location.uri)
    since, known = lance.dataset(root).version, covered(root)
    row_ids = lance.dataset(root).to_table(columns=["id"], with_row_id=True).to_pydict()
    result = flatten(location, "exp", ENGINE)
    assert result.indexes == INDEXES
    assert result.files == 4
    assert result.version.version == lance.dataset(root).version == since + 2
    assert all(path.startswith("tree/exp/") for path in written_since(before, location.uri))
    assert feed(location.uri, since, branch="exp") == []
    check_rows(location.uri, range(40))
    take_away(location.uri)
    check_rows(root, LEFT)
    assert covered(root) == known
    assert lance.dataset(root).to_table(columns=["id"], with_row_id=True).to_pydict() == row_ids
    assert str(flatten(location, "exp", ENGINE)) == f"{result.version}: depends on no other place"
    optimize(location, "exp", OptimizeOptions(), ENGINE)
    check_rows(root, LEFT)


def test_it_is_merged_as_before(location):
    flatten(location, "exp", ENGINE)
    append(location.uri, 90, 1)
    source = PinnedVersion("exp", lance.dataset(location.branch_uri("exp")).version)
    merge(location, source, None, MergeOptions(), ENGINE)
    check_rows(location.uri, [*LEFT, *range(90, 100)])


def test_deletions_that_it_inherited(uri):
    location = fragmented(uri, stable=False, own=1)
    lance.dataset(uri).delete("id IN (3, 33)")
    create_branch(location, "later", RefSpec())
    assert flatten(location, "later", ENGINE).files == 6
    take_away(uri)
    check_rows(location.branch_uri("later"), [key for key in range(40) if key not in (3, 33)])


def test_a_shallow_clone(location, tmp_path):
    target = DatasetLocation.at(str(tmp_path / "clone.lance"))
    clone.shallow_clone(location, PinnedVersion("exp", lance.dataset(location.branch_uri("exp")).version), target, True)
    flatten(target, None, ENGINE)
    shutil.rmtree(location.uri)
    check_rows(target.uri, LEFT)


def test_blobs_inside_and_beside_the_files(uri):
    payloads = [bytes([key]) * (100_000 if key % 2 else 10) for key in range(4)]
    for first in (0, 2):
        table = pa.table({"id": [first, first + 1], "b": lance.blob_array(payloads[first : first + 2])})
        lance.write_dataset(table, uri, mode="append" if first else "create", data_storage_version="2.2")
    location = DatasetLocation.at(uri)
    create_branch(location, "exp", RefSpec())
    flatten(location, "exp", ENGINE)
    take_away(uri)
    found = lance.dataset(location.branch_uri("exp")).to_table(blob_handling="all_binary").sort_by("id")
    assert found["b"].to_pylist() == payloads


def test_commits_meanwhile_are_kept(location, monkeypatch):
    root, copy_each = location.branch_uri("exp"), flattening.copy_each
    steps = [lambda: lance.dataset(root).delete("id = 20"), lambda: append(root, 80, 1)]

    def copied(*arguments):
        if steps:
            steps.pop()()
        return copy_each(*arguments)

    monkeypatch.setattr(flattening, "copy_each", copied)
    flatten(location, "exp", ENGINE)
    take_away(location.uri)
    check_rows(root, [key for key in (*LEFT, *range(80, 90)) if key != 20])


def flatten_and_die(uri, commits):
    commit, left = flattening._commit, [None] * commits

    def dying(*arguments):
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left.pop()
        commit(*arguments)

    flattening._commit = dying
    flatten(DatasetLocation.at(uri), "exp", ENGINE)


@pytest.mark.parametrize("commits", [0, 1])
def test_killed_it_goes_on(location, commits):
    process = processes().Process(target=flatten_and_die, args=(location.uri, commits))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    root = location.branch_uri("exp")
    check_rows(root, LEFT)
    flatten(location, "exp", ENGINE)
    take_away(location.uri)
    check_rows(root, LEFT)
    assert len(sizes(root)) == 8


def test_a_branch_whose_index_lost_files_is_not_flattened(location):
    root = location.branch_uri("exp")
    before = lance.dataset(root).version
    shutil.rmtree(f"{location.uri}/_indices")
    with pytest.raises(CorruptData, match="lost files"):
        flatten(location, "exp", ENGINE)
    assert lance.dataset(root).version == before


def test_files_that_were_named_by_hand(uri, monkeypatch):
    from lance_spark.optimize import compaction_rules

    location = fragmented(uri, stable=False, own=1)
    monkeypatch.setattr(compaction_rules, "is_generated", lambda _: False)
    with pytest.raises(Refused, match="named by hand"):
        flatten(location, "exp", ENGINE)
