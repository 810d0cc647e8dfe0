"""Plans, dry runs and crashes: a dry run lists what the run deletes, and a run killed at any stage is finished by the
next one.
"""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.cleanup_datasets import (
    KEEPING,
    RUNNER,
    UUID,
    after_batch,
    append,
    assert_kept,
    busy,
    candidates,
    clean,
    files,
    now_ns,
    orphans,
    overwrite,
    overwritten,
    plan,
    put,
    reads,
    versions,
)

from lance_spark.cleanup.cleanup import open_plan
from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.storage.datasets import locate


@pytest.fixture
def messy(uri):
    """A busy dataset with files that no version names, old and young."""
    busy(uri)
    for path in (
        "data/old.lance",
        "_deletions/1-2-3.arrow",
        f"_indices/{UUID}/part/page.lance",
        "tree/dev/data/o.lance",
    ):
        put(uri, path, 30)
    put(uri, "data/young.lance", 1)
    put(uri, "notes.txt", 100)
    return uri


def records(uri):
    """Plans that are recorded as being carried out."""
    return sorted(path.parent.name for path in Path(uri, "_cleanup").glob("*/_plan.json"))


@pytest.mark.parametrize("unverified", [False, True])
def test_a_dry_run_names_exactly_what_a_run_deletes_and_counts_it_the_same(messy, unverified):
    policy = {**KEEPING, "delete_unverified": unverified}
    there = files(messy)
    made = plan(messy, **policy)
    assert files(messy) == there
    assert not Path(messy, "_cleanup").exists()
    announced, dry = candidates(made), made.report()
    sizes = {path: Path(messy, path).stat().st_size for path in there}

    report = clean(messy, **policy)
    assert there - files(messy) == announced
    assert files(messy) <= there
    assert report.count("deleted") == dry.to_delete == (len(announced), sum(sizes[path] for path in announced))
    assert [(row["kind"], row["branch"], row["files"]) for row in report.outcomes] == [
        (row["kind"], row["branch"], row["files"])
        for row in sorted(dry.planned, key=lambda row: (row["kind"], row["branch"], row["reason"]))
        if row["action"] == "delete"
    ]
    assert ("data/young.lance" in announced) == unverified


def test_candidates_say_where_a_file_is_and_why_it_goes(messy):
    rows = {row["file"]: row for row in plan(messy, **KEEPING).candidates().to_pylist()}
    for path, row in rows.items():
        status = Path(messy, path).stat()
        assert row["path"] == f"{os.path.realpath(messy)}/{path}"
        assert row["size"] == status.st_size
        assert int(row["last_modified"].timestamp() * 1e6) == status.st_mtime_ns // 1000
        assert row["branch"] == ("dev/deep" if "dev/deep/" in path else "dev" if "tree/dev/" in path else "main")
    assert rows["data/old.lance"]["reason"] == "no version names it"
    assert not rows["data/old.lance"]["verified"]
    assert rows["tree/dev/data/o.lance"]["kind"] == "data"


def test_a_stored_plan_is_carried_out_later_with_the_same_result(messy, tmp_path):
    made = plan(messy, **KEEPING)
    directory = locate(str(tmp_path / "plan"))
    made.store(directory)
    announced, there, before = candidates(made), files(messy), reads(messy)
    append(messy, 999)

    stored = open_plan(locate(messy), directory, RUNNER, now_ns())
    assert candidates(stored) == announced
    assert str(stored) == str(made)
    assert stored.facts.verdicts == made.facts.verdicts
    assert stored.facts.survey.chains == made.facts.survey.chains
    report = stored.apply()
    assert report.plan_id == made.facts.id
    assert there - files(messy) == announced
    assert reads(messy).items() > {which: rows for which, rows in before.items() if which in reads(messy)}.items()
    assert (
        candidates(open_plan(locate(messy), directory, RUNNER, now_ns())) == announced
    )  # the plan itself is the user's


def test_a_stored_plan_can_be_carried_out_twice(messy, tmp_path):
    directory = locate(str(tmp_path / "plan"))
    plan(messy, **KEEPING).store(directory)
    first = open_plan(locate(messy), directory, RUNNER, now_ns()).apply()
    there = files(messy)
    second = open_plan(locate(messy), directory, RUNNER, now_ns()).apply()
    assert second.count("deleted") == (0, 0)
    assert second.count("already gone")[0] == first.count("deleted")[0]
    assert files(messy) == there


def test_the_stored_candidates_are_plain_parquet(messy, tmp_path):
    made = plan(messy, **KEEPING).store(locate(str(tmp_path / "plan")))
    table = pq.read_table(tmp_path / "plan", columns=["path", "kind", "size", "last_modified", "branch", "reason"])
    assert {os.path.relpath(path, os.path.realpath(messy)) for path in table["path"].to_pylist()} == candidates(made)


def test_the_plan_of_another_dataset_is_refused(messy, tmp_path):
    directory = locate(str(tmp_path / "plan"))
    plan(messy, **KEEPING).store(directory)
    other = overwritten(str(tmp_path / "other.lance"))
    with pytest.raises(InvalidOption, match=r"is for .*table.lance, not for .*other.lance"):
        open_plan(locate(other), directory, RUNNER, now_ns())


@pytest.mark.parametrize("content", [None, b"", b"{", b"{}", b"[]", b'{"format": 99}'])
def test_a_directory_without_a_plan_that_can_be_read_is_refused(messy, tmp_path, content):
    directory = tmp_path / "plan"
    plan(messy, **KEEPING).store(locate(str(directory)))
    (directory / "_plan.json").unlink()
    if content is not None:
        (directory / "_plan.json").write_bytes(content)
    with pytest.raises((NotFound, CorruptData, InvalidOption)):
        open_plan(locate(messy), locate(str(directory)), RUNNER, now_ns())


def test_a_plan_that_lost_a_part_is_refused_before_anything_is_deleted(messy, tmp_path):
    directory = tmp_path / "plan"
    plan(messy, **KEEPING).store(locate(str(directory)))
    next(directory.glob("*.parquet")).unlink()
    there = files(messy)
    with pytest.raises(NotFound, match=r"is gone"):
        open_plan(locate(messy), locate(str(directory)), RUNNER, now_ns()).apply()
    assert files(messy) == there


class Crash(BaseException):
    """Nothing in the package may catch it, as with a lost machine."""


def crash():
    raise Crash


def crashed(uri, batch, **policy):
    """A run that dies after so many batches, of two files each."""
    with pytest.MonkeyPatch.context() as patch:
        after_batch(patch, batch, crash)
        with pytest.raises(Crash):
            plan(uri, **policy).apply()


@pytest.mark.parametrize("batch", range(1, 13))
def test_a_run_that_dies_after_any_batch_leaves_versions_readable_and_the_next_finishes(messy, batch):
    before = reads(messy)
    expected = candidates(plan(messy, **KEEPING))
    there = files(messy)
    crashed(messy, batch, **KEEPING)
    assert len(records(messy)) == 1
    assert_kept(messy, before)
    clean(messy, **KEEPING)
    assert_kept(messy, before)
    assert there - files(messy) == expected
    assert orphans(messy) == {"data/young.lance", "notes.txt"}
    assert not records(messy)
    assert not candidates(plan(messy, **KEEPING))


def test_files_whose_manifests_a_dead_run_deleted_need_not_wait_for_days(uri):
    overwritten(uri, 4)
    crashed(uri, 2)
    assert versions(uri) == [4]
    assert len(orphans(uri)) == 6
    made = plan(uri)
    assert {row["reason"] for row in made.candidates().to_pylist()} == {"only removed versions name it"}
    made.apply()
    assert not orphans(uri)


def test_a_file_that_a_dead_run_was_about_to_delete_stays_when_it_became_live_since(uri):
    overwritten(uri, 4)
    crashed(uri, 1)  # versions 1 and 2 are no longer listed, 3 is
    import lance

    lance.dataset(uri, version=3).restore()
    before = reads(uri)
    clean(uri)
    assert versions(uri) == [5]
    assert_kept(uri, before)
    assert not orphans(uri)


def test_a_run_that_dies_again_and_again_is_finished_by_one_that_does_not(messy):
    before = reads(messy)
    for batch in (1, 2, 1, 3, 2):
        crashed(messy, batch, **KEEPING)
        overwrite(messy, 1000 * batch)
        before.update({which: rows for which, rows in reads(messy).items() if which not in before})
        assert_kept(messy, before)
    clean(messy, **KEEPING)
    assert_kept(messy, before)
    assert orphans(messy) == {"data/young.lance", "notes.txt"}
    assert not records(messy)


def test_a_plan_made_before_another_run_died_does_not_take_that_runs_evidence_away(uri):
    overwritten(uri, 4)
    early = plan(uri, versions={1})
    crashed(uri, 2)
    assert versions(uri) == [4]
    early.apply()
    assert len(records(uri)) == 1
    clean(uri)
    assert not orphans(uri)
    assert not records(uri)


def test_a_policy_that_keeps_more_leaves_what_a_dead_run_had_not_begun_with(uri):
    overwritten(uri, 6)
    crashed(uri, 1)  # versions 1 and 2
    before = reads(uri)
    clean(uri, retain_versions=3)
    assert versions(uri) == [4, 5, 6]
    assert_kept(uri, before)
    assert not orphans(uri)
