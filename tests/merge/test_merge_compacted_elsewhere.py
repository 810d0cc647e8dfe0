"""Compactions between, before and after picks, reverts, several merges, fetches, pulls and pushes."""

import shutil

import lance
import pyarrow as pa
import pytest
from support.feeds import feed, plan
from support.merge_datasets import add, assert_sound, error_of, exp, forked, head, rows, run
from support.remote_datasets import made_clone, pulled, pushed

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, NotCommittable
from lance_spark.format import row_ids
from lance_spark.merge.merge import cherry_pick, revert
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate, pin_latest


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(tmp_path, request):
    """30 rows in three fragments, and a branch 'exp'."""
    return forked(str(tmp_path / "t.lance"), request.param, index=False)


def compact(uri, branch=None):
    head(uri, branch).optimize.compact_files()


def expected(*without, more=(), **values):
    found = {n: 10 * n for n in [*range(30), *more] if n not in without}
    found.update({int(key[1:]): value for key, value in values.items()})
    return [{"id": n, "v": found[n]} for n in sorted(found)]


def version_of(uri, branch=None):
    return head(uri, branch).version


def pick(uri, version, branch="exp", into=None):
    return cherry_pick(locate(uri), PinnedVersion(branch, version), into, LocalRunner())


def take_back(uri, version, branch=None):
    return revert(locate(uri), PinnedVersion(branch, version), branch, LocalRunner())


def assert_rows(uri, wanted, branch=None):
    assert rows(head(uri, branch)) == wanted
    assert_sound(head(uri, branch))


@pytest.mark.parametrize("index", [False, True], ids=["", "index"])
def test_a_deletion_is_picked_onto_a_compacted_branch(uri, index):
    exp(uri).delete("id in (4, 17)")
    if index:
        head(uri).create_scalar_index("id", "BTREE")
    compact(uri)
    assert pick(uri, version_of(uri, "exp")).version
    assert_rows(uri, expected(4, 17))


def test_a_change_is_picked_from_a_branch_that_was_compacted_before(uri):
    add(uri, 30, 35, "exp")
    exp(uri).delete("id in (1, 32)")
    compact(uri, "exp")
    exp(uri).delete("id in (2, 21)")
    assert pick(uri, version_of(uri, "exp")).version
    assert_rows(uri, expected(2, 21))
    exp(uri).delete("id = 5")
    compact(uri)
    assert pick(uri, version_of(uri, "exp")).version
    assert_rows(uri, expected(2, 5, 21))


def test_a_picked_row_that_is_gone_is_a_conflict(uri):
    exp(uri).delete("id in (4, 17)")
    head(uri).delete("id = 17")
    compact(uri)
    with pytest.raises(Conflict, match="same rows"):
        pick(uri, version_of(uri, "exp"))
    assert_rows(uri, expected(17))


CHANGES = {
    "delete": lambda dataset: dataset.delete("id in (4, 5, 17)"),
    "delete a fragment": lambda dataset: dataset.delete("id < 10"),
    "update": lambda dataset: dataset.update({"v": "-1"}, "id in (4, 25)"),
    "append": lambda dataset: lance.write_dataset(
        pa.table({"id": pa.array([70, 71], pa.int64()), "v": pa.array([0, 0], pa.int64())}), dataset.uri, mode="append"
    ),
}


@pytest.mark.parametrize("index", [False, True], ids=["", "index"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_older_than_a_compaction_is_reverted(uri, change, index):
    if index:
        head(uri).create_scalar_index("id", "BTREE")
        head(uri).create_scalar_index("v", "BTREE")
    CHANGES[change](head(uri))
    changed = version_of(uri)
    add(uri, 50, 53)
    compact(uri)
    head(uri).delete("id = 11")
    assert take_back(uri, changed).version
    assert_rows(uri, expected(11, more=(50, 51, 52)))
    compact(uri)
    assert_rows(uri, expected(11, more=(50, 51, 52)))


def test_a_revert_of_a_compaction_changes_no_row(uri):
    compact(uri)
    compacted = version_of(uri)
    head(uri).delete("id = 7")
    result = take_back(uri, compacted)
    assert result.up_to_date
    assert_rows(uri, expected(7))


def test_branches_that_are_compacted_differently_are_merged_again_and_again(uri):
    """Each keeps its own fragments; each merge tells the next ones which rows are the same."""
    gone, values, more = set(), {}, []
    for turn in range(4):
        first = 100 + 10 * turn
        add(uri, first, first + 3, "exp")
        exp(uri).delete(f"id in ({turn}, {first + 1})")
        head(uri).update({"v": str(-turn)}, f"id = {20 + turn}")
        add(uri, first + 5, first + 8)
        gone |= {turn, first + 1}
        values[f"_{20 + turn}"] = -turn
        more += [first, first + 2, first + 5, first + 6, first + 7]
        if turn % 2 == 0:
            compact(uri, "exp")
        if turn != 1:
            compact(uri)
        if turn != 3:
            assert run(uri).version
            assert_rows(uri, expected(*gone, more=more, **values))
        if turn != 2:
            assert run(uri, None, "exp").version
            assert_rows(uri, expected(*gone, more=more, **values), "exp")
    run(uri)
    run(uri, None, "exp")
    assert_rows(uri, expected(*gone, more=more, **values))
    assert_rows(uri, expected(*gone, more=more, **values), "exp")


def test_fragments_that_have_each_others_ids_are_not_mixed_up(uri):
    """After two merges main and exp have the same files, and the ids of two fragments are exchanged."""
    compact(uri)
    add(uri, 30, 35, "exp")
    assert run(uri, None, "exp").version
    assert run(uri).version
    exp(uri).delete("id = 31")
    assert run(uri).version
    assert_rows(uri, expected(31, more=range(30, 35)))


@pytest.mark.parametrize("told", [False, True], ids=["too many compactions to tell", "told"])
def test_a_column_written_after_a_merge_of_a_compaction_loses_no_values(uri, monkeypatch, told):
    """Main has rows of the branch's new fragment in fragments of its own."""
    if not told:
        monkeypatch.setattr(row_ids, "_MOST", 10)
    head(uri).delete("id = 4")
    add(uri, 30, 35, "exp")
    compact(uri, "exp")
    assert run(uri).version
    exp(uri).add_columns({"w": "id + 1"})
    before = rows(head(uri))
    refusal = error_of(uri)
    if head(uri).has_stable_row_ids or told:
        assert refusal is None
        assert rows(head(uri)) == [{**row, "w": row["id"] + 1} for row in before]
        return
    assert isinstance(refusal, Conflict)
    assert "ours updated rows" in str(refusal)
    assert rows(head(uri)) == before


def test_a_compaction_that_came_by_a_merge_is_known_to_the_next_branch(uri):
    create_branch_at(locate(uri), "late", pin_latest(locate(uri), None))
    head(uri, "late").delete("id in (6, 16)")
    compact(uri, "exp")
    assert run(uri).fast_forward
    assert run(uri, "late").version
    assert_rows(uri, expected(6, 16))


def test_optimize_is_a_compaction_like_any_other(tmp_path):
    """It gives the branch its own copy of the index, and compacts what it inherited."""
    uri = forked(str(tmp_path / "t.lance"))
    options = OptimizeOptions(own_only=False)
    head(uri).delete("id in (3, 13)")
    exp(uri).delete("id in (4, 24)")
    add(uri, 40, 45, "exp")
    assert optimize(locate(uri), "exp", options, LocalRunner()).commits
    assert optimize(locate(uri), None, options, LocalRunner()).commits
    exp(uri).delete("id in (5, 41)")
    run(uri)
    assert_rows(uri, expected(3, 13, 4, 24, 5, more=(40, 42, 43, 44)))


@pytest.mark.parametrize("who", ["exp", None], ids=["theirs", "ours"])
def test_rows_in_another_order_count_as_written_anew(uri, who):
    """Compactions are followed by the order of rows, which a sort changes."""
    other, early = None if who else "exp", range(-5, 0)
    add(uri, -5, 0, who)
    options = OptimizeOptions(sort_by=["v"], own_only=False)
    assert optimize(locate(uri), who, options, LocalRunner()).commits
    compact(uri, other)
    add(uri, 50, 52, other)
    problem = error_of(uri)
    if who and head(uri).has_stable_row_ids:
        # New rows are in front of older ones, which have ids to keep: pylance cannot number them.
        assert isinstance(problem, NotCommittable)
        assert_rows(uri, expected(more=(50, 51)))
        return
    assert problem is None
    assert_rows(uri, expected(more=(*early, 50, 51)))


def test_rows_that_were_sorted_and_changed_are_found_by_their_values(uri):
    add(uri, -5, 0)
    assert optimize(locate(uri), None, OptimizeOptions(sort_by=["v"]), LocalRunner()).commits
    exp(uri).delete("id = 4")
    run(uri)
    assert_rows(uri, expected(4, more=range(-5, 0)))


def test_deferred_index_remaps_are_no_obstacle(tmp_path):
    uri = forked(str(tmp_path / "t.lance"))
    exp(uri).delete("id in (4, 24)")
    head(uri).delete("id = 3")
    head(uri).optimize.compact_files(defer_index_remap=True)
    run(uri)
    assert_rows(uri, expected(3, 4, 24))


@pytest.mark.parametrize("who", [None, "exp"], ids=["ours", "theirs"])
def test_without_evidence_values_tell(uri, who):
    """A side was compacted, and the version that tells it is gone."""
    other = "exp" if who is None else None
    head(uri, other).delete("id in (4, 24)")
    head(uri, who).delete("id = 3")
    compact(uri, who)
    add(uri, 50, 51, who)
    path = f"{uri}/tree/exp" if who else uri
    versions = sorted(entry["version"] for entry in head(uri, who).versions())
    lance_versions = f"{path}/_versions"
    gone = 2**64 - 1 - versions[-2]
    shutil.os.remove(f"{lance_versions}/{gone}.manifest")
    run(uri)
    assert_rows(uri, expected(3, 4, 24, more=(50,)))


def test_a_column_of_rows_that_were_compacted_is_by_rows_a_conflict_with_a_way_on(uri):
    exp(uri).add_columns({"w": "id + 1"})
    compact(uri)
    compacted = version_of(uri)
    add(uri, 50, 51)
    refusal = error_of(uri, conflicts="rows")
    assert "wrote a column of rows that ours compacted" in str(refusal)
    assert "revert" in refusal.hint.lower()
    assert take_back(uri, compacted).version
    run(uri, conflicts="rows")
    found = rows(head(uri))
    assert [row["w"] for row in found] == [n + 1 for n in range(30)] + [None]
    compact(uri)
    assert rows(head(uri)) == found


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def places(tmp_path, request):
    source = forked(str(tmp_path / "source.lance"), request.param, index=False)
    local = str(tmp_path / "local.lance")
    made_clone(source, local)
    return source, local


@pytest.mark.parametrize("who", ["remote", "local", "both"])
def test_pull_and_push_survive_compactions(places, who):
    source, local = places
    head(source).delete("id in (2, 12)")
    add(source, 40, 43)
    head(local).delete("id in (3, 23)")
    head(local).update({"v": "-1"}, "id = 5")
    add(local, 50, 53)
    for uri, name in ((source, "remote"), (local, "local")):
        if who in (name, "both"):
            compact(uri)
    wanted = expected(2, 12, 3, 23, more=(40, 41, 42, 50, 51, 52), _5=-1)
    assert pulled(local, source).merged.version
    assert_rows(local, wanted)
    assert pushed(local, source).version
    assert_rows(source, wanted)
    compact(source)
    head(source).delete("id = 41")
    head(local).delete("id in (7, 51)")
    compact(local)
    assert pulled(local, source).merged.version
    wanted = [row for row in wanted if row["id"] not in (41, 7, 51)]
    assert_rows(local, wanted)
    assert pushed(local, source).version
    assert_rows(source, wanted)


@pytest.mark.parametrize("act", ["sort", "compact", "compact and delete"])
def test_the_feed_of_a_copy_has_nothing_to_tell_of_rows_that_were_only_moved(places, act):
    """A fetch or a pull commits a compaction, or a sort, as another operation."""
    source, local = places
    add(source, -5, 0)
    pulled(local, source)
    begin = {branch: version_of(local, branch) for branch in (None, "origin/main")}
    if act == "sort":
        options = OptimizeOptions(sort_by=["v"])
        assert optimize(locate(source), None, options, LocalRunner()).commits
    else:
        compact(source)
    if act == "compact and delete":
        head(source).delete("id = 3")
    assert pulled(local, source).merged.version
    for branch, version in begin.items():
        told = [row["id"] for row in feed(local, since=version, branch=branch)]
        assert told == ([3] if act == "compact and delete" else [])
        if act != "compact and delete":
            assert not plan(local, version, branch=branch).rows


def test_the_feed_of_a_remote_has_nothing_to_tell_of_rows_that_a_push_only_moved(places):
    source, local = places
    begin = version_of(source)
    compact(local)
    assert pushed(local, source).version
    assert feed(source, since=begin) == []
    assert not plan(source, begin).rows
    assert_rows(source, expected())
