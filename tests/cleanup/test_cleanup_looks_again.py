"""Branches and tags come and go while a cleanup looks: that is looked at again, and never taken for corruption."""

import os
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import (
    KEEPING,
    after_batch,
    append,
    clean,
    files,
    overwrite,
    overwritten,
    place,
    plan,
    reads,
)
from support.meanwhile import meanwhile

from lance_spark.cleanup import cleanup
from lance_spark.core.layout import manifest_names
from lance_spark.core.refs import Branch, PinnedVersion
from lance_spark.errors import Conflict
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate
from lance_spark.survey import survey
from lance_spark.survey.clone_records import write_record


@pytest.fixture
def history(uri):
    """Main has four versions with rows of their own; so have branch dev, and a branch of it."""
    overwritten(uri, 4)
    for name, parent in (("dev", None), ("dev/deep", "dev")):
        lance.dataset(place(uri, parent)).create_branch(name)
        for start in (100, 200, 300):
            overwrite(uri, start, branch=name)
    return uri


def delete_branches(uri):
    for name in ("dev/deep", "dev"):
        lance.dataset(uri).branches.delete(name)


def make_again(uri):
    delete_branches(uri)
    lance.dataset(uri).create_branch("dev", 2)
    append(uri, 900, branch="dev")


def move_tag(uri):
    lance.dataset(uri).tags.update("moving", 4)
    lance.dataset(uri).cleanup_old_versions(retain_versions=1)


MOMENTS = {
    "between refs and versions": (survey, "_version_files"),
    "before manifests are read": (cleanup, "read_manifests"),
    "before files are listed": (cleanup, "list_range"),
}


@pytest.mark.parametrize("change", [delete_branches, make_again], ids=lambda change: change.__name__)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_branch_that_goes_while_a_plan_is_made_stops_nothing(history, monkeypatch, moment, change):
    where, name = MOMENTS[moment]
    before = reads(history)
    with monkeypatch.context() as patch:
        meanwhile(patch, where, name, lambda: change(history))
        made = plan(history, **KEEPING)
    assert lance.dataset(history).branches.list().keys() == ({"dev"} if change is make_again else set())
    now = reads(history)
    report = made.apply()
    assert report.complete, report
    left = reads(history)
    assert {which: rows for which, rows in now.items() if which in left} == left
    assert left[None, 4] == before[None, 4]
    if change is make_again:
        assert [row["id"] for row in left["dev", 3]] == [10, 11, 12, 900, 901, 902]
    clean(history, **KEEPING)
    assert reads(history)[None, 4] == before[None, 4]


def test_a_tag_that_moves_while_a_plan_is_made_stops_nothing(history, monkeypatch):
    lance.dataset(history).tags.create("moving", 2)
    meanwhile(monkeypatch, survey, "_version_files", lambda: move_tag(history))
    plan(history, **KEEPING)


def test_a_branch_that_goes_while_files_are_deleted_stops_nothing(history, monkeypatch):
    made = plan(history, **KEEPING)
    append(history, 800, branch="dev")  # news, which are read before the first batch
    read, left = cleanup.read_manifests, [history]

    def reading(location, paths):
        while left:
            delete_branches(left.pop())
        return read(location, paths)

    monkeypatch.setattr(cleanup, "read_manifests", reading)
    assert made.apply().complete
    assert not [path for path in files(history) if path.startswith("tree/") and path.endswith(".lance")]


def test_a_branch_of_a_clone_that_goes_while_files_are_deleted_stops_nothing(history, monkeypatch, tmp_path):
    clone = str(tmp_path / "clone.lance")
    lance.dataset(history).shallow_clone(clone, None)
    lance.dataset(clone).create_branch("there")
    made = plan(history, **KEEPING, clones=(clone,))
    append(clone, 800, branch="there")
    gone = []

    def delete():
        gone.append(lance.dataset(clone).branches.delete("there"))

    after_batch(monkeypatch, 2, delete)
    assert made.apply().complete
    assert gone


def test_a_dataset_that_never_holds_still_is_a_conflict(history, monkeypatch):
    read, seen = refs.read_ref_files, []

    def reading(location):
        table = read(location)
        seen.append(f"brief-{len(seen)}")
        brief = Branch(seen[-1], None, 4, datetime.now(timezone.utc))
        return replace(table, branches={**table.branches, brief.name: brief})

    monkeypatch.setattr("lance_spark.survey.survey._PAUSE", 0)
    monkeypatch.setattr(refs, "read_ref_files", reading)
    before = files(history)
    with pytest.raises(Conflict, match="during each of 8 attempts to read them; nothing was deleted") as caught:
        plan(history, **KEEPING)
    assert "brief-7" in str(caught.value)
    assert files(history) == before


def lost_on_the_way(uri, monkeypatch, manifest_goes):
    """Another cleanup is amid its work when files are listed: a version has lost its files and not its manifest."""
    latest = lance.dataset(uri).version
    path = Path(uri, "_versions", manifest_names(latest)[0])

    def supersede(uri):
        overwrite(uri, 900)
        for fragment in lance.dataset(uri, version=latest).get_fragments():
            for file in fragment.metadata.files:
                Path(uri, "data", file.path).unlink()

    meanwhile(monkeypatch, cleanup, "list_range", lambda: supersede(uri))
    monkeypatch.setattr("lance_spark.survey.survey._PAUSE", 0)
    if manifest_goes:
        looks, real = iter(range(100)), survey.survey

        def looking(*given):
            if next(looks) == 2:
                path.unlink()
            return real(*given)

        monkeypatch.setattr("lance_spark.survey.survey.survey", looking)


def test_a_latest_version_that_another_cleanup_is_taking_by_now_stops_nothing(history, monkeypatch):
    lost_on_the_way(history, monkeypatch, manifest_goes=True)
    assert plan(history, **KEEPING).apply().complete
    assert [row["id"] for row in reads(history)[None, 5]] == [900, 901, 902]


def test_a_latest_version_that_is_superseded_and_lacks_files_is_a_conflict(history, monkeypatch):
    lost_on_the_way(history, monkeypatch, manifest_goes=False)
    with pytest.raises(Conflict, match="newer version"):
        plan(history, **KEEPING)


def test_a_branch_whose_files_go_before_its_manifests_stops_nothing(history, monkeypatch):
    """So pylance deletes one on a local disk: its ref file, then its directory in no particular order."""

    def half_delete(uri):
        Path(uri, "_refs", "branches", "dev%2Fdeep.json").unlink()
        for path in Path(uri, "tree", "dev", "deep", "data").iterdir():
            path.unlink()

    meanwhile(monkeypatch, cleanup, "list_range", lambda: half_delete(history))
    assert plan(history, **KEEPING).apply().complete


def test_a_clone_that_is_being_recorded_stops_nothing(history, monkeypatch, tmp_path):
    """A look sees the record whole or not at all: one that cannot be read is a clone that cannot be protected."""
    clone, replace_file, looks = locate(str(tmp_path / "clone.lance")), os.replace, []

    def replacing(source, target):
        looks.append(survey.recorded_clones(locate(history)))
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", replacing)
    write_record(locate(history), "clone-0123456789abcdef", clone, PinnedVersion(None, 2))
    assert looks == [{}]
    assert list(survey.recorded_clones(locate(history)).values()) == [clone.uri]
