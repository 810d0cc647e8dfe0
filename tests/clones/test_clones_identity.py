"""A clone is somebody, not a path: what protects one is never released, moved or pruned for another."""

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.branched_lakes import EVERYTHING
from support.cleanup_datasets import RUNNER
from support.clones import name_of

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.clones.clone import shallow_clone
from lance_spark.clones.identity import own_name
from lance_spark.clones.relocate import relocate
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import AlreadyExists, Conflict, NotFound, Refused, StorageFailure
from lance_spark.refs import refs as ref_actions
from lance_spark.remotes.clone import clone as clone_following
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.survey import survey
from lance_spark.survey.clone_records import former_name, is_of_clone, release, write_record
from lance_spark.survey.identity import CLONE_FILE, read_identity, write_identity
from lance_spark.workspace.workspace_files import alone_in

ROWS = [1, 2, 3]


def table(*keys):
    return pa.table({"k": pa.array(keys, pa.int64())})


@pytest.fixture
def source(tmp_path):
    uri = str(tmp_path / "source.lance")
    lance.write_dataset(table(*ROWS), uri)
    return locate(uri)


def shallow(source, uri):
    target = locate(uri)
    shallow_clone(source, pin_latest(source, None), target)
    return target


def following(source, uri):
    target = locate(uri)
    clone_following(Remote("origin", source), pin_latest(source, None), target, RUNNER)
    return target


def replace_rows(source, *keys):
    lance.write_dataset(table(*keys), source.uri, mode="overwrite")


def clean(source, *known_bases):
    import time

    policy = replace(EVERYTHING, known_bases=known_bases)
    return plan_cleanup(source, policy, RUNNER, time.time_ns() + 10**9).apply()


def keys(location):
    return sorted(lance.dataset(location.uri).to_table()["k"].to_pylist())


def moved(location, uri):
    os.rename(location.uri, uri)
    return locate(uri)


def tags_of(source, name):
    return {tag for tag in refs.list_ref_names(source, "_refs/tags") if is_of_clone(tag, name)}


def pulls(source, uri):
    there = following(source, uri)
    for key in range(10):
        lance.write_dataset(table(key), source.uri, mode="append")
        fetch(there, Remote("origin", source), RUNNER, FetchOptions())
    return there


def fails(source, uri):
    """Its first write into the target is refused."""
    os.mkdir(uri)
    os.chmod(uri, 0o500)
    try:
        if os.access(uri, os.W_OK):  # root writes everywhere
            Path(uri, "_versions").write_text("not a directory")
        with pytest.raises((StorageFailure, Refused, AlreadyExists, NotFound, Conflict)):
            shallow(source, uri)
    finally:
        os.chmod(uri, 0o700)


@pytest.mark.parametrize("second", [shallow, pulls, fails])
@pytest.mark.parametrize("first", [shallow, following])
def test_another_clone_in_its_former_place_takes_nothing_from_a_moved_one(source, tmp_path, first, second):
    one = moved(first(source, str(tmp_path / "c")), str(tmp_path / "host1"))
    replace_rows(source, 100)
    second(source, str(tmp_path / "c"))
    clean(source)
    assert keys(one) == ROWS


def test_clones_have_names_of_their_own_that_sources_know(source, tmp_path):
    one, two = shallow(source, str(tmp_path / "one")), following(source, str(tmp_path / "two"))
    assert name_of(one) != name_of(two)
    assert survey.recorded_clones(source) == {name_of(one): one.uri, name_of(two): two.uri}
    assert tags_of(source, name_of(one)) == {name_of(one)}


@pytest.mark.parametrize("way", ["fetch", "relocate"])
def test_a_moved_clone_registers_its_new_place(source, tmp_path, way):
    old = following(source, str(tmp_path / "c"))
    former = name_of(old)
    one = moved(old, str(tmp_path / "host1"))
    replace_rows(source, 100)
    fetch(one, Remote("origin", source), RUNNER, FetchOptions()) if way == "fetch" else relocate(one)
    assert name_of(one) != former
    assert survey.recorded_clones(source) == {former: old.uri, name_of(one): one.uri}
    pinned = {tag.target.version for tag in refs.read_refs(source).tags.values() if tag.name in tags_of(source, former)}
    own = {tag.target.version for tag in refs.read_refs(source).tags.values() if tag.name.startswith(name_of(one))}
    assert pinned <= own
    ref_actions.delete_tag(source, former, force=True)  # the former place is forgotten
    clean(source)
    assert keys(one) == ROWS
    assert survey.recorded_clones(source) == {name_of(one): one.uri}
    again = name_of(one)
    relocate(one)
    fetch(one, Remote("origin", source), RUNNER, FetchOptions())
    assert name_of(one) == again


@pytest.mark.parametrize("make", [shallow, following])
def test_a_clone_of_a_moved_source_tells_its_next_move_there(source, tmp_path, make):
    """Told to the former place only, the record of the clone's former place could be forgotten, and its files went."""
    one, former = make(source, str(tmp_path / "c")), source.uri
    source = moved(source, str(tmp_path / "moved.lance"))
    relocate(one, former, source.uri)
    one = moved(one, str(tmp_path / "host1"))
    relocate(one)
    replace_rows(source, 100)
    for name in survey.recorded_clones(source):
        if ref_actions.gone_clone(source, name) is not None:
            ref_actions.delete_tag(source, name, force=True)
    clean(source, former)
    assert keys(one) == ROWS
    assert survey.recorded_clones(source) == {name_of(one): one.uri}


def test_a_moved_clone_tells_all_of_its_sources_whichever_it_fetches_from(source, tmp_path):
    one = shallow(source, str(tmp_path / "c"))
    other = locate(str(tmp_path / "other.lance"))
    lance.write_dataset(table(7), other.uri)
    fetch(one, Remote("other", other), RUNNER, FetchOptions())
    one = moved(one, str(tmp_path / "host1"))
    fetch(one, Remote("other", other), RUNNER, FetchOptions())
    relocate(one)
    for place in (source, other):
        assert tags_of(place, name_of(one))


def test_a_copy_gets_a_name_of_its_own_and_both_stay(source, tmp_path):
    one = following(source, str(tmp_path / "one"))
    shutil.copytree(one.uri, tmp_path / "two")
    two = locate(str(tmp_path / "two"))
    replace_rows(source, 100)
    fetch(two, Remote("origin", source), RUNNER, FetchOptions())
    assert name_of(one) != name_of(two)
    shutil.rmtree(one.uri)
    ref_actions.delete_tag(source, name_of_gone(source, one), force=True)
    clean(source)
    assert keys(two) == ROWS


def name_of_gone(source, clone):
    return next(name for name, uri in survey.recorded_clones(source).items() if uri == clone.uri)


def test_what_an_earlier_release_protected_is_taken_over(source, tmp_path):
    """Its clones have no file with their name; tags and record are named by a hash of the place."""
    one = following(source, str(tmp_path / "c"))
    former, legacy = name_of(one), former_name(one)
    Path(one.uri, CLONE_FILE).unlink()
    for tag in refs.read_tags(source, sorted(tags_of(source, former))).values():
        refs.create_tag(source, legacy + tag.name.removeprefix(former), tag.target)
    write_record(source, legacy, one, PinnedVersion(None, 1))
    release(source, former)
    replace_rows(source, 100)
    clean(source)
    assert keys(one) == ROWS
    fetch(one, Remote("origin", source), RUNNER, FetchOptions())
    assert name_of(one) != legacy
    release(source, legacy)
    clean(source)
    assert keys(one) == ROWS


def test_one_command_forgets_a_clone_that_is_gone(source, tmp_path):
    one, two = pulls(source, str(tmp_path / "one")), shallow(source, str(tmp_path / "two"))
    name = name_of(one)
    with pytest.raises(Refused):
        ref_actions.delete_tag(source, name)
    assert ref_actions.gone_clone(source, name) is None
    shutil.rmtree(one.uri)
    assert ref_actions.gone_clone(source, name) == one.uri
    report = clean(source)
    assert any(f"clone at {one.uri} is gone" in note for note in report.warnings)
    refs.delete_tag(source, name)  # the tag alone, as by an earlier release: the command works without it
    ref_actions.delete_tag(source, name, force=True)
    assert tags_of(source, name) == set()
    assert survey.recorded_clones(source) == {name_of(two): two.uri}
    assert not any("is gone" in note for note in clean(source).warnings)
    with pytest.raises(NotFound):
        ref_actions.delete_tag(source, name, force=True)


def test_force_on_a_clone_that_exists_takes_one_tag_only(source, tmp_path):
    one = pulls(source, str(tmp_path / "one"))
    before = tags_of(source, name_of(one))
    ref_actions.delete_tag(source, name_of(one), force=True)
    assert tags_of(source, name_of(one)) == before - {name_of(one)}
    assert survey.recorded_clones(source) == {name_of(one): one.uri}


@pytest.mark.parametrize("make", [shallow, following])
def test_of_several_clones_into_one_place_one_wins(source, tmp_path, make):
    uri, start, ends = str(tmp_path / "c"), threading.Barrier(3), []

    def run():
        start.wait()
        try:
            make(source, uri)
        except (AlreadyExists, Conflict, NotFound, StorageFailure, Refused) as problem:
            ends.append(problem)
        else:
            ends.append(None)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None in ends
    one = locate(uri)
    replace_rows(source, 100)
    clean(source)
    assert keys(one) == ROWS
    assert name_of(one) in survey.recorded_clones(source)
    assert tags_of(source, name_of(one))


def test_a_damaged_file_is_told_with_what_to_do(source, tmp_path):
    one = shallow(source, str(tmp_path / "c"))
    Path(one.uri, CLONE_FILE).write_text("{")
    with pytest.raises(Exception, match="cannot be read") as told:
        own_name(one, source)
    assert "Remove it" in told.value.hint
    assert read_identity(source) is None
    write_identity(source, read_identity(following(source, str(tmp_path / "d"))))
    assert own_name(source, locate(str(tmp_path / "d"))) != name_of(locate(str(tmp_path / "d")))


def test_a_directory_in_which_another_process_clones_is_left_alone(tmp_path):
    place = str(tmp_path / "c")
    with alone_in(place):
        Path(place, "x").write_text("made by the first")
        with pytest.raises(AlreadyExists, match="Another process"), alone_in(place):
            raise AssertionError("it is not alone")
    assert Path(place, "x").read_text() == "made by the first"
    with alone_in(place), alone_in(str(tmp_path / "d")):
        assert Path(tmp_path / "d").is_dir()
    assert not Path(tmp_path / "d").exists()


@pytest.mark.when(day=0)
def test_of_several_commands_one_clones(source, tmp_path):
    run = "import sys; from lance_spark.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", run, "clone", source.uri, str(tmp_path / "c")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate()[1] for process in running]
    codes = sorted(process.returncode for process in running)
    assert codes[0] == 0, errors
    assert all(codes[1:]), errors
    one = locate(str(tmp_path / "c"))
    replace_rows(source, 100)
    clean(source)
    assert keys(one) == ROWS
    assert [*survey.recorded_clones(source)] == [name_of(one)]
