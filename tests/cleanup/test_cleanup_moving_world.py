"""The world moves between plan and deletion: rate limits, new tags and branches, writers of every kind, restores, and
other cleanups, pylance's as well.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import lance
import pytest
from support.cleanup_datasets import (
    KEEPING,
    NOW,
    after_batch,
    append,
    assert_kept,
    candidates,
    clean,
    files,
    orphans,
    overwrite,
    overwritten,
    place,
    plan,
    reads,
    small_batches,
    versions,
)
from support.local_datasets import make_dataset, numbers

from lance_spark.cleanup import cleanup
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.merge.restore import restore
from lance_spark.storage.datasets import locate
from lance_spark.storage.deleting import delete_batch

BATCHES = range(9)
"""Main loses five manifests and fifteen files, two to a batch: the world changes before the first batch, ..."""


@pytest.fixture
def history(uri):
    """Six versions of main with rows of their own, three of a branch, and what all of them read as."""
    overwritten(uri, 4)
    lance.dataset(uri).create_branch("dev")
    overwrite(uri, 500, branch="dev")
    overwrite(uri, 600, branch="dev")
    overwrite(uri, 40)
    overwrite(uri, 50)
    return uri


def tag(uri):
    lance.dataset(uri).tags.create("new", 3)
    return lambda: lance.dataset(uri).checkout_version("new")


def tag_on_branch(uri):
    lance.dataset(uri).tags.create("new", ("dev", 5))
    return lambda: lance.dataset(uri).checkout_version("new")


def branch(uri):
    lance.dataset(uri).create_branch("new", 3)
    return lambda: lance.dataset(place(uri, "new"))


def branch_of_branch(uri):
    lance.dataset(uri).create_branch("new", ("dev", 5))
    return lambda: lance.dataset(place(uri, "new"))


def restore_by_pylance(uri):
    lance.dataset(uri, version=3).restore()
    return lambda: lance.dataset(uri)


def restore_by_us(uri):
    restore(locate(uri), PinnedVersion(None, 3), LocalRunner())
    return lambda: lance.dataset(uri)


def append_rows(uri):
    append(uri, 900)
    return lambda: lance.dataset(uri)


def overwrite_all(uri):
    overwrite(uri, 900)
    return lambda: lance.dataset(uri)


def compact(uri):
    append(uri, 900)
    lance.dataset(uri).optimize.compact_files()
    return lambda: lance.dataset(uri)


def build_index(uri):
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    return lambda: lance.dataset(uri)


def pylances_own_cleanup(uri):
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    return lambda: lance.dataset(uri)


def a_second_run(uri):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleanup, "delete_batch", delete_batch)
        clean(uri, **KEEPING)
    return lambda: lance.dataset(uri)


CHANGES = (
    tag,
    tag_on_branch,
    branch,
    branch_of_branch,
    restore_by_pylance,
    restore_by_us,
    append_rows,
    overwrite_all,
    compact,
    build_index,
    pylances_own_cleanup,
    a_second_run,
)


def expected(before, change):
    if change in (tag, branch, restore_by_pylance, restore_by_us):
        return before[None, 3]
    if change in (tag_on_branch, branch_of_branch):
        return before["dev", 5]
    return {
        append_rows: before[None, 6] + [{"id": number} for number in (900, 901, 902)],
        compact: before[None, 6] + [{"id": number} for number in (900, 901, 902)],
        overwrite_all: [{"id": number} for number in (900, 901, 902)],
    }.get(change, before[None, 6])


@pytest.mark.when(day=0.12)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_happens_before_or_amid_the_deletion_wins_and_nothing_listed_is_unreadable(
    history, monkeypatch, change, batch
):
    before, made = reads(history), plan(history, **KEEPING)
    done, too_late = [], []

    def happen():
        try:
            done.append(change(history))
        except (ValueError, OSError, LookupError) as problem:
            too_late.append(str(problem))

    with monkeypatch.context() as patch:
        small_batches(patch, 2)
        if batch:
            after_batch(patch, batch, happen)
        else:
            happen()
        report = made.apply()
    assert report.complete, report
    assert len(done) + len(too_late) == 1
    if too_late:  # the version is gone already, and nothing was made of it
        assert batch > 0
        assert change in (tag, tag_on_branch, branch, branch_of_branch, restore_by_pylance, restore_by_us)
        assert re.search(r"ot found|does not exist|has no version", too_late[0])
    for opened in done:
        assert opened().to_table().to_pylist() == expected(before, change)
    now = reads(history)
    assert {which: rows for which, rows in now.items() if which in before} == {
        which: rows for which, rows in before.items() if which in now
    }
    clean(history, **KEEPING)
    assert reads(history).items() <= now.items()
    for opened in done:
        assert opened().to_table().to_pylist() == expected(before, change)
    assert not orphans(history)


@pytest.mark.parametrize("change", [tag, tag_on_branch, branch, branch_of_branch, restore_by_pylance, restore_by_us])
def test_what_became_live_after_the_plan_is_kept_and_reported_so(history, change):
    made = plan(history, **KEEPING)
    change(history)
    report = made.apply()
    kept = [row for row in report.outcomes if row["outcome"] == "kept"]
    assert {row["reason"] for row in kept} == {"became live"}
    assert {row["kind"] for row in kept} >= {"data"}


def test_a_moved_tag_is_followed(history):
    lance.dataset(history).tags.create("moving", 2)
    made = plan(history, **KEEPING)
    lance.dataset(history).tags.update("moving", 3)
    before = reads(history)
    made.apply()
    assert 3 in versions(history)
    assert_kept(history, before)
    assert lance.dataset(history).checkout_version("moving").to_table()["id"].to_pylist() == [20, 21, 22]


@pytest.mark.parametrize("batch", [2, 3, 4])
def test_a_tag_that_comes_and_goes_amid_the_run_leaves_no_version_without_its_files(history, monkeypatch, batch):
    before, made = reads(history), plan(history)
    lance.dataset(history).tags.create("brief", 3)
    after_batch(monkeypatch, batch, lambda: lance.dataset(history).tags.delete("brief"))
    made.apply()
    assert 3 in versions(history)
    assert_kept(history, before)
    clean(history)
    assert versions(history) == [4, 6]
    assert not orphans(history)


def test_a_commit_of_files_that_no_version_named_at_the_mark_keeps_them(uri):
    make_dataset(uri)
    fragments = lance.fragment.write_fragments(numbers(2, 50), uri)
    made = plan(uri, older_than=NOW, delete_unverified=True)
    assert [path for path in candidates(made) if path.startswith("data/")]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(fragments), read_version=1)
    made.apply()
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [0, 1, 2, 50, 51]


def test_a_dataset_made_anew_at_the_same_place_after_the_plan_keeps_all_its_files(uri):
    import shutil

    overwritten(uri, 4)
    made = plan(uri)
    shutil.rmtree(uri)
    for version in range(4):
        lance.write_dataset(numbers(5, 100 * version), uri, mode="overwrite" if version else "create")
    before, there = reads(uri), files(uri)
    made.apply()
    assert reads(uri) == before
    assert files(uri) == there


def test_a_branch_deleted_and_made_anew_after_the_plan_keeps_all_its_versions(history):
    made = plan(history)
    lance.dataset(history).branches.delete("dev")
    lance.dataset(history).create_branch("dev", 4)
    overwrite(history, 700, branch="dev")
    overwrite(history, 800, branch="dev")
    before = reads(history)
    made.apply()
    now = reads(history)
    assert {which for which in now if which[0]} == {("dev", 4), ("dev", 5), ("dev", 6)}
    assert now.items() <= before.items()


@pytest.mark.parametrize("others", [1, 3])
def test_runs_side_by_side_all_succeed_and_lose_nothing(history, others, monkeypatch):
    small_batches(monkeypatch, 2)
    before = reads(history)
    with ThreadPoolExecutor(others + 1) as pool:
        plans = [plan(history) for _ in range(others + 1)]
        reports = list(pool.map(lambda made: made.apply(), plans))
    assert all(report.complete for report in reports)
    assert_kept(history, before)
    assert versions(history) == [4, 6]
    clean(history)
    assert not orphans(history)


@pytest.mark.parametrize("rounds", range(3))
def test_our_run_and_pylances_own_side_by_side_lose_nothing(history, rounds):
    before = reads(history)
    with ThreadPoolExecutor(2) as pool:
        ours = pool.submit(clean, history)
        theirs = pool.submit(pylances_own_cleanup, history)
        assert ours.result().complete
        # pylance's own stops where ours deletes a manifest that it is about to read; ours deletes what is left.
        missing = theirs.exception()
    assert missing is None or re.search(r"Not found: \S+/_versions/\d+\.manifest", str(missing)), missing
    assert_kept(history, before)
    clean(history)
    assert not orphans(history)


def test_writers_at_work_during_many_runs_lose_no_row(uri):
    make_dataset(uri)
    until = time.monotonic() + 1.5

    def write():
        written = []
        while time.monotonic() < until:
            start = 1000 + 10 * len(written)
            append(uri, start)
            written.append(start)
        return written

    def sweep():
        runs = 0
        while time.monotonic() < until:
            clean(uri)
            runs += 1
        return runs

    with ThreadPoolExecutor(2) as pool:
        writing, sweeping = pool.submit(write), pool.submit(sweep)
        written, runs = writing.result(), sweeping.result()
    assert runs > 1
    ids = lance.dataset(uri).to_table()["id"].to_pylist()
    assert sorted(ids) == [0, 1, 2, *(start + number for start in written for number in range(3))]
    clean(uri)
    assert len(versions(uri)) == 1
    assert not orphans(uri)


@pytest.mark.parametrize("size", [1, 1000])
def test_deletions_per_second_stay_below_the_limit_over_manifests_and_files_alike(history, monkeypatch, size):
    small_batches(monkeypatch, size)
    made = plan(history, LocalRunner(8))
    count = len(candidates(made))
    assert count > 15
    started = time.monotonic()
    assert made.apply(max_deletes_per_second=50).count("deleted")[0] == count
    assert count / 50 <= time.monotonic() - started < count / 50 + 2  # the limit is used, too
    started = time.monotonic()
    plan(history)
    assert time.monotonic() - started < 2  # planning deletes nothing, and waits for nothing
