"""Compaction of main, branches and clones, beside other commits and when it is killed; pylance reads the result."""

import os
import shutil
import signal
from datetime import timedelta
from functools import partial

import lance
import pytest
from support.cleanup_datasets import clean, orphans
from support.feeds import feed
from support.local_datasets import contents, written_since
from support.meanwhile import meanwhile
from support.processes import PATIENCE, processes
from support.row_changes import changing_table, check_table, rows_of
from support.row_changes import written as prepared_change
from support.small_fragments import (
    INDEXES,
    ROWS,
    add_indexes,
    all_covered,
    append,
    check_rows,
    covered,
    fragmented,
    rows,
    sizes,
)

from lance_spark.clones import clone
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, CorruptData, InvalidOption, NotFound, Refused, StorageFailure
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize import rewrites
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.rows.action_rules import DELETE, UPDATE
from lance_spark.rows.rows import finish

ENGINE = LocalRunner(1)
"""Each task may be a commit of its own."""


def compact(location, branch=None, **options):
    return optimize(location, branch, OptimizeOptions(**options), ENGINE)


@pytest.fixture(params=[True, False], ids=["stable", "plain"])
def stable(request):
    return request.param


@pytest.fixture
def location(uri, stable):
    return fragmented(uri, stable)


@pytest.fixture
def flat(uri, stable):
    """Main alone, with eight fragments that all indexes know."""
    lance.write_dataset(rows(range(ROWS)), uri, enable_stable_row_ids=stable)
    append(uri, ROWS, 7)
    add_indexes(uri)
    return DatasetLocation.at(uri)


def test_groups_are_committed_one_by_one_and_every_index_follows(flat):
    lance.dataset(flat.uri).delete("id IN (3, 44, 45, 46)")
    before = lance.dataset(flat.uri)
    ids = [key for key in range(80) if key not in (3, 44, 45, 46)]
    row_ids = before.to_table(columns=["id"], with_row_id=True).to_pydict()
    result = compact(flat, target_rows=20, partial_progress=2)
    assert (result.commits, result.fragments_removed, result.fragments_added) == (2, 8, 3)
    assert (result.rows, result.conflicts) == (76, ())
    dataset = lance.dataset(flat.uri)
    assert dataset.version == result.version.version
    assert sizes(flat.uri) == [29, 27, 20]
    assert dataset.to_table(columns=["id"])["id"].to_pylist() == ids
    if dataset.has_stable_row_ids:
        assert dataset.to_table(columns=["id"], with_row_id=True).to_pydict() == row_ids
    assert covered(flat.uri) == all_covered(flat.uri)
    check_rows(flat.uri, ids)
    assert compact(flat, target_rows=20).commits == 0


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(flat):
    before = contents(flat.uri)
    result = compact(flat, target_rows=40, dry_run=True)
    assert written_since(before, flat.uri) == set()
    assert str(result) == f"{result.version}: would rewrite {result.plan.summary}"
    assert [[task.ids for task in group] for group in result.plan.groups] == [[(0, 1, 2, 3)], [(4, 5, 6, 7)]]
    assert (result.plan.sources, result.plan.rows) == (8, 80)
    assert "0, 1, 2, 3" in str(result.plan)


def test_a_branch_compacts_its_own_fragments_and_copies_nothing_that_it_inherited(location):
    root, main = location.branch_uri("exp"), contents(location.uri)
    result = compact(location, "exp")
    assert (result.fragments_removed, result.fragments_added, result.rows) == (4, 1, 40)
    assert result.plan.inherited == 4
    assert not [path for path in written_since(main, location.uri) if not path.startswith("tree/exp/")]
    assert sizes(root) == [10, 10, 10, 10, 40]
    assert covered(root) == dict.fromkeys(INDEXES, frozenset(range(4)))
    check_rows(root, range(80))
    check_rows(location.uri, range(40))


def test_an_index_that_the_branch_made_beside_the_inherited_one_follows(location):
    root = location.branch_uri("exp")
    lance.dataset(root).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(root).delete("id % 10 = 5")
    compact(location, "exp", target_rows=18, partial_progress=2)
    assert sizes(root) == [9, 9, 9, 9, 18, 18]
    assert covered(root) == all_covered(root)
    check_rows(root, [key for key in range(80) if key % 10 != 5])


def test_inherited_fragments_are_compacted_once_the_branch_has_the_indexes_itself(location, tmp_path):
    root = location.branch_uri("exp")
    lance.dataset(root).delete("id % 10 = 5")
    ids = [key for key in range(80) if key % 10 != 5]
    plan = compact(location, "exp", own_only=False, dry_run=True).plan
    assert plan.rehome == ("id_idx", "k_idx", "s_idx", "v_idx")
    result = compact(location, "exp", target_rows=18, own_only=False, partial_progress=2)
    assert result.rehomed == plan.rehome
    assert (result.fragments_removed, result.commits, result.conflicts) == (8, 2, ())
    assert sizes(root) == [18, 18, 18, 18]
    there = {fragment.fragment_id for fragment in lance.dataset(root).get_fragments()}
    old = {key for found in covered(root).values() for key in found}
    assert len(old) == 2
    assert old <= there
    check_rows(root, ids)
    check_rows(location.uri, range(40))
    for version in lance.dataset(root).versions():
        lance.dataset(root, version=version["version"]).to_table()
    lance.dataset(root).optimize.optimize_indices()
    assert covered(root) == all_covered(root)
    # Now the branch needs nothing of main: neither rows nor indexes.
    for directory in ("data", "_indices", "_deletions"):
        if os.path.exists(f"{location.uri}/{directory}"):
            shutil.move(f"{location.uri}/{directory}", tmp_path / directory)
    check_rows(root, ids)


def test_an_index_that_has_lost_files_is_not_copied(location):
    shutil.rmtree(f"{location.uri}/_indices")
    before = lance.dataset(location.branch_uri("exp")).version
    with pytest.raises(CorruptData, match="lost files"):
        compact(location, "exp", own_only=False)
    assert lance.dataset(location.branch_uri("exp")).version == before


def test_a_shallow_clone_leaves_alone_what_is_in_its_source(location, tmp_path):
    target = DatasetLocation.at(str(tmp_path / "clone.lance"))
    clone.shallow_clone(location, PinnedVersion(None, lance.dataset(location.uri).version), target, True)
    append(target.uri, 40, 3)
    assert compact(target).fragments_removed == 3
    assert sizes(target.uri) == [10, 10, 10, 10, 30]
    check_rows(target.uri, range(70))
    result = compact(target, own_only=False)
    assert (result.fragments_removed, sizes(target.uri)) == (4, [30, 40])
    check_rows(target.uri, range(70))


@pytest.mark.parametrize("reference", [True, False])
def test_rows_that_were_compacted_on_a_branch_arrive_by_a_merge_and_are_mains_own_then(location, reference):
    compact(location, "exp", target_rows=20)
    source = PinnedVersion("exp", lance.dataset(location.branch_uri("exp")).version)
    merge(location, source, None, MergeOptions(reference=reference), ENGINE)
    check_rows(location.uri, range(80))
    result = compact(location)
    assert result.plan.inherited == 0
    assert sum(sizes(location.uri)) == 80
    assert len(sizes(location.uri)) <= 2
    check_rows(location.uri, range(80))
    check_rows(location.branch_uri("exp"), range(80))


def test_where_compacts_only_fragments_with_a_matching_row(flat):
    lance.dataset(flat.uri).delete("id = 30")
    result = compact(flat, where="id BETWEEN 12 AND 29 OR id = 30 OR id >= 60")
    assert [task.ids for task in result.plan.tasks] == [(1, 2), (6, 7)]
    check_rows(flat.uri, [key for key in range(80) if key != 30])
    assert compact(flat, where="id < 0").plan.tasks == ()
    for wrong in ("nothing = 1", "id ==== 2"):
        with pytest.raises(InvalidOption):
            compact(flat, where=wrong)


@pytest.fixture
def between(monkeypatch):
    """What happens right before commits of the compaction."""
    return partial(meanwhile, monkeypatch, rewrites, "commit_rewrites")


OTHERS = {
    "append": (lambda root: append(root, 80, 1), range(90)),
    "delete": (lambda root: lance.dataset(root).delete("id IN (11, 12)"), {*range(80)} - {11, 12}),
    "update": (
        lambda root: lance.dataset(root).merge_insert("id").when_matched_update_all().execute(rows([15, 61])),
        range(80),
    ),
    "compaction": (lambda root: lance.dataset(root).optimize.compact_files(target_rows_per_fragment=40), range(80)),
    "index": (lambda root: lance.dataset(root).create_scalar_index("id", "ZONEMAP", name="again"), range(80)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_others_commit_meanwhile_is_kept_and_fragments_that_they_changed_are_planned_again(flat, between, other):
    commit, ids = OTHERS[other]
    left = between(lambda: commit(flat.uri))
    result = compact(flat, target_rows=20, partial_progress=2)
    assert left == []
    assert result.conflicts == ()
    check_rows(flat.uri, ids)
    if other in ("append", "delete"):
        assert max(sizes(flat.uri)) == 20
        assert len(sizes(flat.uri)) == 4 + (other == "append")
    assert lance.dataset(flat.uri).count_rows() == len(list(ids))


@pytest.mark.parametrize("column", [{"y": "id + 1"}, None], ids=["values", "renamed"])
def test_columns_that_change_meanwhile(flat, between, column):
    def change():
        dataset = lance.dataset(flat.uri)
        if column:
            dataset.add_columns(column)
        else:
            dataset.alter_columns({"path": "k", "name": "z"})

    between(change)
    result = compact(flat, target_rows=40)
    dataset = lance.dataset(flat.uri)
    assert result.conflicts == ()
    assert len(sizes(flat.uri)) == 2
    table = dataset.to_table().sort_by("id")
    assert table["y" if column else "z"].to_pylist() == [key + 1 if column else key % 5 for key in range(80)]
    dataset.validate()


def test_a_task_that_is_overtaken_twice_is_named_and_nothing_of_it_is_lost(flat, between, monkeypatch):
    root = flat.uri
    steps = [lambda key=key: lance.dataset(root).delete(f"id = {key}") for key in (11, 12, 13, 14, 15)]
    between(*steps)
    result = compact(flat, target_rows=20, partial_progress=1)
    assert result.conflicts == ((0, 1),)
    assert result.fragments_removed == 6
    assert str(result).endswith("; 1 task in conflict")
    gone = [key for key in (11, 12, 13, 14, 15) if key not in lance.dataset(root).to_table()["id"].to_pylist()]
    check_rows(root, [key for key in range(80) if key not in gone])
    assert len(gone) >= 2
    monkeypatch.undo()
    assert compact(flat, target_rows=20).conflicts == ()
    check_rows(root, [key for key in range(80) if key not in gone])
    assert covered(root) == all_covered(root)


def test_a_version_that_is_gone_in_between_is_no_reason_to_guess(flat, between):
    def vanish():
        lance.dataset(flat.uri).delete("id = 11")
        lance.dataset(flat.uri).delete("id = 79")
        number = lance.dataset(flat.uri).version - 1
        for name in (f"{number}.manifest", f"{2**64 - 1 - number:020}.manifest"):
            if os.path.exists(f"{flat.uri}/_versions/{name}"):
                os.remove(f"{flat.uri}/_versions/{name}")

    between(vanish)
    result = compact(flat, partial_progress=1)
    assert result.conflicts == ()
    assert sizes(flat.uri) == [78]
    check_rows(flat.uri, [key for key in range(80) if key not in (11, 79)])


@pytest.mark.parametrize("failure", [Conflict, StorageFailure])
def test_a_commit_that_arrived_although_it_seemed_to_fail(flat, monkeypatch, failure):
    commit = rewrites.commit_rewrites

    def unclear(*arguments):
        commit(*arguments)
        monkeypatch.setattr(rewrites, "commit_rewrites", commit)
        raise failure("The answer was lost.")

    monkeypatch.setattr(rewrites, "commit_rewrites", unclear)
    if failure is Conflict:
        result = compact(flat, target_rows=20, partial_progress=2)
        assert (result.fragments_removed, result.commits, result.conflicts) == (8, 2, ())
    else:
        with pytest.raises(StorageFailure):
            compact(flat, target_rows=20, partial_progress=2)
        assert sorted(sizes(flat.uri)) == [10, 10, 10, 10, 20, 20]
        assert compact(flat, target_rows=20).fragments_removed == 4
    assert sizes(flat.uri) == [20, 20, 20, 20]
    check_rows(flat.uri, range(80))


def compact_and_die(uri, branch, commits, own_only):
    commit, left = rewrites.commit_rewrites, [None] * commits

    def dying(*arguments):
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left.pop()
        return commit(*arguments)

    rewrites.commit_rewrites = dying
    compact(DatasetLocation.at(uri), branch, target_rows=20, partial_progress=4, own_only=own_only)


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize(("branch", "own_only"), [("exp", None), ("exp", False), (None, None)])
def test_killed_it_has_lost_nothing_and_the_same_call_goes_on(location, branch, own_only, commits):
    root, ids = location.branch_uri(branch), range(80 if branch else 40)
    process = processes().Process(target=compact_and_die, args=(location.uri, branch, commits, own_only))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    check_rows(root, ids)
    assert sizes(root).count(20) == commits
    compact(location, branch, target_rows=20, own_only=own_only)
    check_rows(root, ids)
    assert sizes(root).count(20) == (4 if branch and own_only is False else 2)


def test_fewer_rows_than_there_were_are_never_committed(flat, monkeypatch):
    true = rewrites._new_fragments

    def short(result):
        return [{**fragment, "physical_rows": fragment["physical_rows"] - 1} for fragment in true(result)]

    monkeypatch.setattr(rewrites, "_new_fragments", short)
    before = lance.dataset(flat.uri).version
    with pytest.raises(CorruptData, match="instead of 80"):
        compact(flat)
    assert lance.dataset(flat.uri).version == before


@pytest.mark.parametrize("branch", [None, "exp"])
def test_a_change_of_rows_that_began_before_is_combined_with_it(uri, stable, branch):
    location = changing_table(uri, branch, stable)
    change = prepared_change(location, branch, [(UPDATE, {"id": 14, "x": 50, "day": "mon"}), (DELETE, {"id": 25})])
    result = compact(location, branch, own_only=False)
    assert result.commits == 1
    before = rows_of(location, branch)
    done = finish(change)
    assert (done.rows_updated, done.rows_deleted) == (1, 1)
    expected = [row for row in before if row["id"] not in (14, 25)] + [{"id": 14, "x": 50, "day": "mon"}]
    check_table(location, branch, expected)


def test_the_change_feed_has_nothing_to_tell(flat):
    since = lance.dataset(flat.uri).version
    compact(flat, target_rows=20, partial_progress=2)
    assert feed(flat.uri, since) == []
    lance.dataset(flat.uri).delete("id = 33")
    assert [(row["_change_type"], row["id"]) for row in feed(flat.uri, since)] == [("delete", 33)]


def test_a_cleanup_afterwards_leaves_every_version_readable(location, between):
    uri, root = location.uri, location.branch_uri("exp")
    lance.dataset(uri).tags.create("before", lance.dataset(uri).version)
    between(lambda: lance.dataset(root).delete("id = 41"))  # so that there are files of no version
    compact(location, "exp", own_only=False)
    compact(location)
    clean(uri, older_than=timedelta(0), error_if_tagged_old_versions=False, delete_unverified=True)
    for branch in (uri, root):
        for version in lance.dataset(branch).versions():
            lance.dataset(branch, version=version["version"]).to_table()
    assert orphans(uri) == set()
    check_rows(uri, range(40))
    check_rows(root, {*range(80)} - {41})
    tagged = lance.dataset(uri).checkout_version("before")
    assert len(tagged.get_fragments()) == 4
    assert tagged.to_table(filter="id = 33")["k"].to_pylist() == [3]


def test_what_cannot_be_optimized(flat):
    with pytest.raises(NotFound):
        compact(flat, "nowhere")


def test_an_inherited_index_that_does_not_say_what_it_covers_is_refused(location, monkeypatch):
    from lance_spark.optimize import optimize as optimize_plan

    decode = optimize_plan.decode_indexes
    monkeypatch.setattr(
        optimize_plan, "decode_indexes", lambda content: [entry._replace(fragments=None) for entry in decode(content)]
    )
    with pytest.raises(Refused, match="does not record which fragments"):
        compact(location, "exp")
