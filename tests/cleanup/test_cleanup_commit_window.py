"""A cleanup removes versions that a job under way has not seen: nothing that they changed is undone.

A job opened version 2. Then version 3 deletes row 3, version 4 appends, and a cleanup is to keep version 4 alone.
"""

from datetime import timedelta

import lance
import pytest
from support.cleanup_datasets import RUNNER, append, clean, let_pass, now_ns, place, versions
from support.commit_window import JOBS, finish
from support.local_datasets import numbers

from lance_spark.cleanup.cleanup import open_plan, plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.clones import base_commits
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict
from lance_spark.indexes import index_segments as index_commit
from lance_spark.merge import merge as single_version
from lance_spark.merge import replay_commits as merge_commit
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.merge.restore import restore
from lance_spark.storage import commits, datasets
from lance_spark.storage.datasets import locate

RULES = [{"retain_versions": 1}, {"older_than": timedelta(0)}, {"before_version": 4}, {"versions": {2, 3}}]


@pytest.fixture
def two(uri):
    """Version 2 has the rows 0 to 5 in two files, and a branch of it has a row of its own."""
    lance.write_dataset(numbers(3), uri)
    append(uri, 3)
    lance.dataset(uri).create_branch("exp", 2)
    append(uri, 50, 1, branch="exp")
    return uri


def meanwhile(uri, branch=None):
    """What others do while the job is under way."""
    lance.dataset(place(uri, branch)).delete("id = 3")
    append(uri, 90, 1, branch=branch)


def ids(uri, branch=None):
    return sorted(lance.dataset(place(uri, branch)).to_table()["id"].to_pylist())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: next(iter(rule)))
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_what_pylance_commits_with_the_window_undoes_nothing(two, job, rule):
    under_way = lance.dataset(two)
    meanwhile(two)
    report = plan_cleanup(locate(two), CleanupPolicy(**rule, unverified_age=timedelta(0)), RUNNER, now_ns()).apply()
    assert report.versions["main"].get("removed", 0) == 0
    assert report.versions["main"]["a job under way may need it"] >= 1
    finish(job, under_way)
    assert ids(two) == JOBS[job]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
@pytest.mark.parametrize("whose", ["ours", "pylance's"])
def test_without_the_window_pylance_brings_deleted_rows_back(two, job, whose):
    """The reason for the window. Where pylance learns of the conflict one day, the window may go."""
    under_way = lance.dataset(two)
    meanwhile(two)
    if whose == "ours":
        clean(two, retain_versions=1)
    else:
        lance.dataset(two).cleanup_old_versions(retain_versions=1)
    assert versions(two)[-1:] == [4]
    assert 3 not in versions(two)
    job(under_way)
    assert 3 in ids(two), (
        "pylance behaves differently now. If it refuses to commit over versions that it cannot look at, say so where "
        "CleanupPolicy.commit_window is documented, and let this test expect it."
    )


def test_a_stored_plan_is_held_against_the_window_again_when_it_is_carried_out(two, tmp_path, monkeypatch):
    meanwhile(two)
    with monkeypatch.context() as patch:  # the clock of whoever made the plan is two days ahead
        let_pass(patch, 2)
        made = plan_cleanup(locate(two), CleanupPolicy(retain_versions=1), RUNNER, now_ns())
        made.store(str(tmp_path / "plan"))
        assert made.report().versions["main"]["removed"] == 2
    stored = open_plan(locate(two), locate(str(tmp_path / "plan")), RUNNER, now_ns())
    report = stored.apply()
    assert report.count("deleted") == (0, 0)
    assert {row["reason"] for row in report.outcomes} == {"became live"}
    assert versions(two) == [1, 2, 3, 4]


def test_the_report_says_that_there_was_no_window(two):
    for window, said in ((timedelta(0), True), (timedelta(hours=1), False)):
        report = plan_cleanup(locate(two), CleanupPolicy(commit_window=window), RUNNER, now_ns()).report()
        assert ("only while no other process commits" in str(report)) == said
        assert any("commit window is 0" in text for text in report.warnings) == said


def while_under_way(monkeypatch, uri, branch=None):
    """Between the look of a job of ours at the newest version and its commit, others commit and clean up."""
    left = [uri]

    def late(look):
        def looking(*arguments):
            while left:
                meanwhile(left.pop(), branch)
                clean(uri, retain_versions=1, error_if_tagged_old_versions=False)
            return look(*arguments)

        return looking

    for name in ("open_newest", "check_nothing_missing"):  # the last look of commits, and that of a restore
        monkeypatch.setattr(commits, name, late(getattr(commits, name)))
    return left


def test_a_merge_takes_what_others_did_and_was_cleaned_up_for_what_it_is(two, monkeypatch):
    left = while_under_way(monkeypatch, two)
    merge(locate(two), PinnedVersion("exp", 3), None, MergeOptions(), RUNNER)
    assert not left
    assert 3 not in versions(two)
    assert ids(two) == [0, 1, 2, 4, 5, 50, 90]


def test_a_cherry_pick_and_a_revert_do_as_well(two, monkeypatch):
    for version in (2, 3):
        lance.dataset(two).tags.create(f"needed-{version}", ("exp", version))
    left = while_under_way(monkeypatch, two)
    single_version.cherry_pick(locate(two), PinnedVersion("exp", 3), None, RUNNER)
    assert not left
    assert ids(two) == [0, 1, 2, 4, 5, 50, 90]
    left = while_under_way(monkeypatch, two, "exp")
    single_version.revert(locate(two), PinnedVersion("exp", 3), "exp", RUNNER)
    assert not left
    assert ids(two, "exp") == [0, 1, 2, 4, 5, 90]


@pytest.mark.parametrize("since", [0, 1, 2])
def test_a_merge_into_a_branch_that_is_made_anew_meanwhile_names_no_file_of_the_old_one(two, monkeypatch, since):
    """pylance tells versions by number alone: it would commit files that went with the old branch."""
    lance.dataset(two).create_branch("into", 1)
    append(two, 70, 1, branch="into")
    lance.dataset(place(two, "into")).delete("id = 70")
    commit, left = merge_commit.commit, [two]

    def committing(*given):
        while left:
            lance.dataset(left.pop()).branches.delete("into")
            lance.dataset(two).create_branch("into", 1)
            for number in range(since):
                append(two, 80 + number, 1, branch="into")
        return commit(*given)

    monkeypatch.setattr(merge_commit, "commit", committing)
    merge(locate(two), PinnedVersion("exp", 3), "into", MergeOptions(), RUNNER)
    assert ids(two, "into") == [0, 1, 2, 3, 4, 5, 50, *range(80, 80 + since)]


def test_a_restore_is_a_conflict(two, monkeypatch):
    left = while_under_way(monkeypatch, two)
    with pytest.raises(Conflict, match="Version 3, 4 of 'main' was committed while"):
        restore(locate(two), PinnedVersion(None, 1), RUNNER)
    assert not left
    assert ids(two) == [0, 1, 2, 4, 5, 90]


def test_a_restore_that_pylance_has_to_do_is_a_conflict_and_covers_nothing(two, monkeypatch):
    append(two, 6)
    newest = lance.dataset(two).version

    def planned(*_):
        meanwhile(two)
        clean(two, retain_versions=1)

    monkeypatch.setattr("lance_spark.merge.restore._plan", planned)  # None: this one is pylance's to do
    with pytest.raises(Conflict, match=f"Version {newest + 1} of branch 'main'"):
        restore(locate(two), PinnedVersion(None, 2), RUNNER)
    assert versions(two)[-1] == newest + 2
    assert 90 in ids(two)


def stale_commits(location):
    """Commits of ours that were made for version 2, by what makes them."""
    import lance

    pin = datasets.pin_version(location, None, 2)
    head = base_commits.read_version(location, pin)
    yield (
        "relocate",
        lambda: base_commits.repoint_fragments(location, head, base_commits.Repair(fragments=(0,)), {}),
    )
    yield "indexes", lambda: index_commit.commit_indexes(location, pin, [], [], {})
    empty = lance.LanceOperation.Overwrite(lance.dataset(location.uri, version=2).lance_schema, [])
    yield "any other", lambda: commits.commit_on(location, pin, empty)


def test_every_commit_on_a_version_is_refused_where_one_since_is_missing(two):
    meanwhile(two)
    jobs = dict(stale_commits(locate(two)))
    clean(two, retain_versions=1)
    for name, commit in jobs.items():
        with pytest.raises(Conflict, match="Version 3 of branch 'main'") as caught:
            commit()
        assert "commit_window=" in str(caught.value), name
        assert versions(two)[-1] == 4
    assert merge_commit.commit_on is base_commits.commit_on is commits.commit_on
