"""Repairs that are killed, that meet a dataset which moves on, that lack evidence, or that others have built on."""

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest.mock import patch

import lance
import pytest
from support import broken_datasets as broken
from support.broken_datasets import check, children, data, index, readable, ref, rich, state
from support.cleanup_datasets import append, manifest, place
from support.killed import Killed

from lance_spark import LanceTable
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import CorruptData, NotFound, Refused, StorageFailure
from lance_spark.fsck import file_contents, quarantine, repair
from lance_spark.fsck import undo as undoing
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import execute, fsck_and_repair
from lance_spark.fsck.undo import undo
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate


class Killer:
    """Ends the process before or after the nth change of the store."""

    changes = (
        (quarantine, "write_below"),
        (quarantine, "remove"),
        (repair, "write_below"),
        (repair, "create_branch_at"),
        (repair, "leave_out"),
        (repair, "commit_indexes"),
        (undoing, "delete_branch"),
    )

    def __init__(self, monkeypatch, at):
        self.seen, self.at = 0, at
        for module, name in self.changes:
            monkeypatch.setattr(module, name, self.wrapped(getattr(module, name)))

    def wrapped(self, really):
        def change(*arguments):
            self.seen += 1
            if self.seen == self.at:
                raise Killed
            done = really(*arguments)
            if self.seen == self.at + 0.5:
                raise Killed
            return done

        return change


def ruined(uri):
    """Something for every kind of step."""
    rich(uri)
    manifest(uri, 2).write_bytes(b"")
    ref(uri, "dev").write_bytes(b"{")
    data(uri, number=-1).unlink()
    broken.drop_index(uri)
    return state(uri)


def versions_aside(files):
    """What a repair of indexes cannot take back: versions, to which it adds one that is equal to that before."""
    return {path: content for path, content in files.items() if not path.endswith("latest_version_hint.json")}


BY_DAY = {1.0, 2.5, 4.0, 5.5, 7.0, 8.5, 10.0}
MOMENTS = [number / 2 for number in range(2, 24)]
"""Before a change, or with a half behind it."""


@pytest.mark.when(day={"at": BY_DAY})
@pytest.mark.parametrize("at", MOMENTS)
def test_a_killed_repair_can_be_taken_back(uri, monkeypatch, at):
    before = versions_aside(ruined(uri))
    with monkeypatch.context() as patched:
        killer = Killer(patched, at)
        try:
            check(uri, execute=True)
        except Killed:
            assert killer.seen >= int(at)
    if not Path(uri, "_quarantine").exists():
        assert versions_aside(state(uri)) == before  # killed before the record was written
        return
    undo(locate(uri), "last")
    after = state(uri)
    assert {path: after.get(path) for path in before} == before
    assert not Path(uri, "_quarantine").exists()
    assert not [path for path in after if path.startswith("tree/repair")]


@pytest.mark.when(day={"at": BY_DAY})
@pytest.mark.parametrize("at", MOMENTS)
def test_a_killed_repair_can_be_gone_on_with(uri, monkeypatch, at):
    before = versions_aside(ruined(uri))
    with monkeypatch.context() as patched:
        Killer(patched, at)
        with suppress(Killed):
            check(uri, execute=True)
    assert check(uri, execute=True).repaired.complete
    assert check(uri).repair.steps == ()
    assert {finding.code for finding in check(uri).findings} == {"data-missing", "index-missing"}
    (made,) = (name for name in lance.dataset(uri).branches.list() if name.startswith("repair/"))
    assert len(readable(uri, made)) == 57
    while quarantine.list_records(locate(uri)):
        undo(locate(uri), "last")
    after = state(uri)
    assert {path: after.get(path) for path in before} == before


@pytest.mark.when(day={"at": BY_DAY})
@pytest.mark.parametrize("at", MOMENTS[:12])
def test_taking_back_can_be_killed_and_be_repeated(uri, monkeypatch, at):
    before = versions_aside(ruined(uri))
    check(uri, execute=True)
    with monkeypatch.context() as patched:
        Killer(patched, at)
        with suppress(Killed):
            undo(locate(uri), "last")
    if quarantine.list_records(locate(uri)):
        undo(locate(uri), "last")
    after = state(uri)
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if path.startswith("_quarantine")]


def planned(uri, deep=False, on_main=False):
    report = fsck_and_repair(
        locate(uri), FsckOptions(deep), RepairOptions(on_main, dry_run=True), LocalRunner(2), 10**18
    )
    return report.repair


MOVES = {
    "a new version": (
        lambda uri: data(uri, number=-1).unlink(),
        lambda uri: lance.write_dataset(lance.dataset(uri).to_table(limit=1), uri, mode="append"),
    ),
    "a new version, with an index": (
        broken.drop_index,
        lambda uri: append(uri, 900),
    ),
    "a tag on the manifest": (
        lambda uri: manifest(uri, 2).write_bytes(b""),
        lambda uri: (
            shutil.copy(ref(uri, "v3", "tags"), ref(uri, "v2", "tags"))
            and ref(uri, "v2", "tags").write_text(
                ref(uri, "v3", "tags").read_text().replace('"version": 3', '"version": 2')
            )
        ),
    ),
    "a manifest that came back": (
        lambda uri: manifest(uri, 2).write_bytes(b""),
        lambda uri: manifest(uri, 2).write_bytes(manifest(uri, 1).read_bytes()),
    ),
    "a ref that came back": (
        lambda uri: ref(uri, "dev").write_text("{"),
        lambda uri: ref(uri, "dev").write_text('{"parentVersion": 4, "createAt": 1}'),
    ),
    "a ref that nothing needs": (
        lambda uri: ref(uri, "dev").unlink(),
        lambda uri: ref(uri, "on-dev", "tags").unlink(),
    ),
    "a ref that is there again": (
        lambda uri: ref(uri, "dev").unlink(),
        lambda uri: ref(uri, "dev").write_text('{"parentVersion": 4, "createAt": 1}'),
    ),
}


@pytest.mark.parametrize(("damage", "move"), MOVES.values(), ids=MOVES)
def test_what_does_not_look_as_it_did_is_passed_over(uri, damage, move):
    rich(uri)
    damage(uri)
    plan = planned(uri)
    assert plan.steps
    move(uri)
    before = state(uri)
    done = execute(locate(uri), plan, 10**18)
    touched = [outcome.state for outcome in done.outcomes]
    assert "passed over" in touched
    if "done" not in touched:
        assert state(uri) == before
        assert done.record == ""


@pytest.mark.parametrize("at", range(1, 4))
def test_a_step_that_is_overtaken_half_way_loses_no_file(uri, monkeypatch, at):
    rich(uri)
    (newest,) = manifests(uri)
    newest.write_bytes(b"damaged")
    before = state(uri)
    plan = planned(uri, on_main=True)
    hint = newest.with_name("latest_version_hint.json")
    assert [len(step.files) for step in plan.steps] == [2]
    changes = []

    def meanwhile(really, *arguments):
        changes.append(arguments)
        if len(changes) == at:
            hint.write_text('{"version": 1}')
        return really(*arguments)

    for name in ("keep", "remove"):
        monkeypatch.setattr(quarantine, name, partial(meanwhile, getattr(quarantine, name)))
    done = execute(locate(uri), plan, 10**18)
    after = state(uri)
    hint_path = str(hint.relative_to(uri))
    kept = [content for path, content in after.items() if not path.endswith("record.json")]
    assert all(content in kept for path, content in before.items() if path != hint_path)
    if done.record:
        hint.unlink(missing_ok=True)
        undo(locate(uri), done.record)
    assert {**state(uri), hint_path: before[hint_path]} == before


def manifests(uri):
    """Manifests of main by version: V2 names count down."""
    paths = Path(uri, "_versions").glob("*.manifest")
    return sorted(paths, key=lambda path: -int(path.stem))[-1:]


def test_a_file_that_came_back_is_not_left_out(uri):
    rich(uri)
    file = data(uri, number=-1)
    content = file.read_bytes()
    file.unlink()
    plan = planned(uri)
    file.write_bytes(content)
    (outcome,) = execute(locate(uri), plan, 10**18).outcomes
    assert (outcome.state, "is now readable" in outcome.why) == ("passed over", True)


def test_an_index_that_came_back_is_not_dropped(uri):
    rich(uri)
    directory = index(uri).parent
    shutil.copytree(directory, f"{uri}-kept")
    shutil.rmtree(directory)
    plan = planned(uri)
    shutil.copytree(f"{uri}-kept", directory)
    assert {outcome.state for outcome in execute(locate(uri), plan, 10**18).outcomes} == {"passed over"}
    assert lance.dataset(uri).list_indices()


def test_what_cannot_be_reached_stops_a_repair(uri):
    rich(uri)
    manifest(uri, 2).write_bytes(b"")

    with patch.object(file_contents, "_tail", side_effect=StorageFailure("The store does not answer.")):
        plan = planned(uri, deep=True)
    assert "could not be examined" in plan.stopped
    before = state(uri)
    with pytest.raises(Refused, match="could not be examined"):
        execute(locate(uri), plan, 10**18)
    assert state(uri) == before


def test_a_store_that_fails_in_the_middle_leaves_a_record_to_take_back(uri):
    rich(uri)
    data(uri, number=-1).unlink()
    before = state(uri)
    plan = planned(uri)

    with (
        patch.object(repair, "size_of", side_effect=StorageFailure("503")),
        pytest.raises(StorageFailure, match="stopped at step 1 of 1") as stopped,
    ):
        execute(locate(uri), plan, 10**18)
    assert "t.undo_repair(" in stopped.value.hint
    undo(locate(uri), "last")
    assert state(uri) == before


def test_what_others_have_built_on_is_not_taken_back(uri):
    rich(uri)
    data(uri, number=-1).unlink()
    done = check(uri, execute=True).repaired
    append(uri, 700, branch="repair/main-4")
    before = state(uri)
    with pytest.raises(Refused, match="was written to since"):
        undo(locate(uri), done.record)
    assert state(uri) == before


def test_newer_versions_of_main_are_not_taken_back(uri):
    rich(uri)
    data(uri, number=-1).unlink()
    done = check(uri, on_main=True, execute=True).repaired
    append(uri, 700)
    before = state(uri)
    with pytest.raises(Refused, match="newer versions by others"):
        undo(locate(uri), done.record)
    assert state(uri) == before


def test_a_ref_that_was_changed_since_and_a_lost_copy_stay(uri):
    rich(uri)
    ref(uri, "dev").write_text("{")
    manifest(uri, 2).write_bytes(b"")
    done = check(uri, execute=True).repaired
    written = ref(uri, "dev").read_bytes()
    ref(uri, "dev").write_bytes(written + b" ")
    with pytest.raises(Refused, match="was changed since"):
        undo(locate(uri), done.record)
    ref(uri, "dev").write_bytes(written)
    (copy,) = Path(uri, "_quarantine", done.record).glob("*.manifest")
    copy.write_bytes(b"other")
    with pytest.raises(Refused, match="gone or damaged"):
        undo(locate(uri), done.record)
    assert not manifest(uri, 2).exists()


def test_records_that_are_not_there_or_make_no_sense(uri):
    rich(uri)
    with pytest.raises(NotFound, match="no record"):
        undo(locate(uri), "last")
    manifest(uri, 2).write_bytes(b"")
    done = check(uri, execute=True).repaired
    with pytest.raises(NotFound) as missing:
        undo(locate(uri), "other")
    assert done.record in missing.value.hint
    Path(uri, "_quarantine", done.record, "record.json").write_text('{"format": 9}')
    with pytest.raises(CorruptData, match="format 9"):
        undo(locate(uri), done.record)


def test_a_branch_that_was_repaired_and_deleted_is_taken_back(uri):
    rich(uri)
    data(uri, number=-1).unlink()
    before = state(uri)
    done = check(uri, execute=True).repaired
    delete_branch(locate(uri), "repair/main-4")
    assert undo(locate(uri), done.record).outcomes[0].why == "it was never done"
    assert state(uri) == before


def test_a_clone_is_repaired_without_its_source(uri):
    rich(uri)
    data(uri, number=1).unlink()
    source = state(uri)
    clone = f"{uri}-clone"
    done = check(clone, execute=True).repaired
    assert done.complete
    (made,) = lance.dataset(clone).branches.list()
    assert len(readable(clone, made)) == 38
    assert state(uri) == source
    undo(locate(clone), "last")
    assert not lance.dataset(clone).branches.list()


def test_a_branch_of_a_branch_gets_a_branch_of_its_own(uri):
    children(uri)
    data(uri, "dev").unlink()
    plan = planned(uri)
    assert [(step.branch, step.onto) for step in plan.steps] == [
        ("dev", "repair/dev-5"),
        ("dev/deep", "repair/dev/deep-5"),
    ]
    assert execute(locate(uri), plan, 10**18).complete
    assert lance.dataset(place(uri, "repair/dev/deep-5")).count_rows() == 57


def protect(uri, protected=True):
    LanceTable.for_path(uri).branches.alter("main", protected=protected)


def test_indexes_of_a_protected_branch_are_mended_and_its_rows_stay(uri):
    rich(uri)
    protect(uri)
    broken.drop_index(uri)
    data(uri, number=-1).unlink()
    done = check(uri, on_main=True, execute=True).repaired
    assert done.complete
    assert "repair/main-5" in lance.dataset(uri).branches.list()
    assert lance.dataset(uri).version == 5  # the index
    assert not lance.dataset(uri).list_indices()
    undo(locate(uri), done.record)
    assert len(lance.dataset(uri).list_indices()) == 1


def test_what_a_repair_left_out_of_a_branch_that_is_protected_since_is_not_put_back(uri):
    rich(uri)
    data(uri, number=-1).unlink()
    done = check(uri, on_main=True, execute=True).repaired
    protect(uri)
    before = state(uri)
    with pytest.raises(Refused, match="Branch 'main' is protected"):
        undo(locate(uri), done.record)
    assert state(uri) == before
    protect(uri, False)
    undo(locate(uri), done.record)
