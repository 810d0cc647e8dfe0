"""Disks that do not tell upper from lower case, such as those of macOS and Windows: names that differ only in case.

A ref or a table that the disk would take for another one is refused. Where other software made such branches, all is
read, checked and cleaned as if each had a directory of its own.
"""

import os
import time
from datetime import datetime, timedelta, timezone

import lance
import pyarrow as pa
import pytest
from support.branched_lakes import EVERYTHING
from support.cleanup_datasets import RUNNER
from support.folding_disk import can_mount, folding_disk

from lance_spark.catalog import lake, lookup, tables
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.core.records import finding_codes
from lance_spark.core.refs import RefSpec
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.errors import NotFound, Refused
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.refs import reflog, refs
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch
from lance_spark.remotes.push import push
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.storage.resolving import resolve


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("folding"))
    if not can_mount(f"{directory}/try"):
        pytest.skip("This process may not mount a FUSE file system.")
    with folding_disk(f"{directory}/backing", f"{directory}/mounted"):
        yield f"{directory}/mounted"


@pytest.fixture
def location(disk, request):
    uri = f"{disk}/{request.node.name.replace('/', '-')}.lance"
    lance.write_dataset(pa.table({"k": pa.array([0], pa.int64())}), uri)
    return locate(uri)


def append(location, branch, *keys):
    uri = location.uri if branch is None else location.branch_uri(branch)
    lance.write_dataset(pa.table({"k": pa.array(keys, pa.int64())}), uri, mode="append")


def rows(location, branch):
    dataset = lance.dataset(location.uri)
    pin = (branch, None) if branch else None
    return sorted((dataset.checkout_version(pin) if pin else dataset).to_table()["k"].to_pylist())


def made_by_pylance(location, *names):
    for key, name in enumerate(names, 1):
        lance.dataset(location.uri).create_branch(name)
        append(location, name, key)


def clean(location):
    time.sleep(0.01)
    return plan_cleanup(location, EVERYTHING, RUNNER, time.time_ns() + 10**9).apply()


def found_by_fsck(location):
    return fsck(location, FsckOptions(left_after=timedelta(0)), RUNNER, time.time_ns() + 10**12).findings


@pytest.mark.parametrize(
    ("there", "new", "shown"),
    [
        ("Exp", "exp", "Exp"),
        ("Feature/a", "feature/b", "Feature/b"),
        ("Feature/a", "feature/A", "Feature/a"),
        ("Feature/a", "feature", "Feature"),
        ("feature", "Feature/a", "feature/a"),
        ("a/Deep/x", "a/deep/y", "a/Deep/y"),
    ],
)
def test_a_branch_that_the_disk_takes_for_another_one_is_refused(location, there, new, shown):
    refs.create_branch(location, there, RefSpec())
    before = sorted(os.walk(location.uri))
    with pytest.raises(Refused, match=f"'{new}' was not created.*upper from lower case.*'{shown}'"):
        refs.create_branch(location, new, RefSpec())
    assert sorted(os.walk(location.uri)) == before
    refs.create_branch(location, shown if shown != there else f"{there}2", RefSpec())
    assert there in {branch.name for branch in refs.list_branches(location)}


def test_a_tag_that_the_disk_takes_for_another_one_is_refused(location):
    refs.create_tag(location, "V1", RefSpec())
    with pytest.raises(Refused, match=r"Tag 'v1' was not created.*'V1' is there"):
        refs.create_tag(location, "v1", RefSpec())
    refs.create_tag(location, "v2", RefSpec())


def test_a_ref_is_found_by_its_own_spelling_only(location):
    refs.create_branch(location, "Exp", RefSpec())
    refs.create_tag(location, "V1", RefSpec())
    for spec in (RefSpec(branch="exp"), RefSpec(tag="v1")):
        with pytest.raises(NotFound) as problem:
            resolve(location, spec)
        assert "Exp" in problem.value.hint or "V1" in problem.value.hint
    for verb in (refs.delete_branch, refs.remove_branch, refs.set_aside_branch):
        with pytest.raises(NotFound):
            verb(location, "exp")
    with pytest.raises(NotFound):
        refs.delete_tag(location, "v1")
    assert rows(location, "Exp") == [0]
    with pytest.raises(Refused, match="upper from lower case"):
        refs.rename_branch(location, "Exp", "EXP")


def test_branches_that_share_a_directory_are_checked_and_cleaned_as_their_own(location):
    made_by_pylance(location, "Feature/a", "feature/b", "feature", "exp")
    for branch, key in (("feature/b", 12), ("Feature/a", 11), ("feature", 13)):
        lance.write_dataset(pa.table({"k": [key]}), location.branch_uri(branch), mode="overwrite")
    assert len(os.listdir(f"{location.uri}/tree")) == 2
    found = found_by_fsck(location)
    assert {finding.code for finding in found} == {finding_codes.CASE_CLASH}
    assert {ref for finding in found for ref in finding.refs} == {"feature", "feature/b"}
    held = {usage.ref for usage in storage(location, EVERYTHING, RUNNER).refs}
    assert {"Feature/a", "feature/b", "feature", "exp"} <= held
    report = clean(location)
    assert report.count("deleted")[0] > 3
    assert report.complete
    for branch, key in (("feature/b", 12), ("Feature/a", 11), ("feature", 13)):
        assert rows(location, branch) == [key]
        assert lance.dataset(location.branch_uri(branch)).count_rows() == 1
    assert {finding.code for finding in found_by_fsck(location)} == {finding_codes.CASE_CLASH}


def test_a_deleted_branch_that_shares_a_directory_can_be_restored_until_it_expires(location):
    made_by_pylance(location, "Feature/a", "feature/b")
    refs.remove_branch(location, "feature/b")
    clean(location)
    with pytest.raises(Refused, match="upper from lower case"):
        refs.create_branch(location, "Feature/b", RefSpec())
    reflog.restore_branch(location, "feature/b")
    assert rows(location, "feature/b") == [0, 2]
    refs.remove_branch(location, "feature/b", purge=True)
    assert os.listdir(f"{location.uri}/tree/feature") == ["a"]
    assert rows(location, "Feature/a") == [0, 1]
    assert not found_by_fsck(location)


def test_advice_about_a_leftover_directory_names_the_branches_that_the_disk_has_in_it(location):
    made_by_pylance(location, "Feature/a", "feature")
    refs.remove_branch(location, "feature")
    told = {finding.path: finding.do for finding in found_by_fsck(location)}
    assert "keep the directories in it that are of 'Feature/a'" in told["tree/feature"]


def test_a_record_of_a_deletion_in_another_case_never_removes_a_living_branch(location):
    made_by_pylance(location, "exp")
    refs.remove_branch(location, "exp")
    record = next(change for change in reflog.list_changes(location).changes if change.name == "exp")
    os.rename(f"{location.uri}/tree/exp", f"{location.uri}/tree/Exp")
    with open(f"{location.uri}/_refs/branches/Exp.json", "w") as file:
        file.write(record.ref_file)
    assert not reflog.forget_branch(location, record)
    clean(location)
    assert lance.dataset(location.branch_uri("Exp")).count_rows() == 2


@pytest.mark.parametrize("mode", ["compatibility", "v1"])
def test_a_table_that_the_disk_takes_for_another_one_is_refused(disk, mode):
    catalog = lookup.open_catalog(f"{disk}/catalog-{mode}", mode=mode)
    declared = tables.declare_table(catalog, "A")
    lance.write_dataset(pa.table({"k": [1]}), declared.location.uri)
    with pytest.raises(Refused, match=r"table 'a'.*upper from lower case.*'A\.lance'"):
        tables.declare_table(catalog, "a")
    assert [lookup.table_exists(catalog, name) for name in ("A", "a")] == [True, False]
    with pytest.raises(NotFound):
        tables.deregister_table(catalog, "a")
    tables.declare_table(catalog, "b")


def test_where_case_counts_names_that_differ_in_it_are_two(tmp_path):
    location = locate(f"{tmp_path}/t.lance")
    lance.write_dataset(pa.table({"k": [0]}), location.uri)
    for name in ("Feature/a", "feature/a", "Exp", "exp"):
        refs.create_branch(location, name, RefSpec())
    for name in ("V1", "v1"):
        refs.create_tag(location, name, RefSpec())
    append(location, "exp", 1)
    assert (rows(location, "Exp"), rows(location, "exp")) == ([0], [0, 1])
    with pytest.raises(NotFound):
        resolve(location, RefSpec(branch="EXP"))


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_ref_of_the_lake_that_the_disk_takes_for_another_one_is_refused(disk, kind):
    catalog = lookup.open_catalog(f"{disk}/lake-{kind}")
    tables.declare_table(catalog, "t")
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    lake.create_ref(catalog, kind, "Exp", now)
    with pytest.raises(Refused, match=f"{kind.capitalize()} 'exp' was not created.*upper from lower case, and 'Exp'"):
        lake.create_ref(catalog, kind, "exp", now)
    assert [ref.name for ref in lake.list_refs(catalog, kind)] == ["Exp"]
    with pytest.raises(NotFound):
        lake.delete_ref(catalog, kind, "exp", purge=True)
    lake.delete_ref(catalog, kind, "Exp", purge=True)
    lake.create_ref(catalog, kind, "exp", now)


def test_branches_of_a_remote_that_differ_in_case_are_fetched_by_name(location, tmp_path):
    source = locate(f"{tmp_path}/source.lance")
    lance.write_dataset(pa.table({"k": [0]}), source.uri)
    made_by_pylance(source, "Exp", "exp")
    remote = Remote("origin", source)
    with pytest.raises(Refused, match="upper from lower case") as problem:
        fetch(location, remote, RUNNER)
    assert "lance-git fetch origin main" in problem.value.hint.shell
    fetch(location, remote, RUNNER, FetchOptions([None, "Exp"]))
    assert rows(location, "origin/Exp") == [0, 1]
    with pytest.raises(Refused, match="upper from lower case") as problem:
        fetch(location, remote, RUNNER, FetchOptions(["exp"]))
    assert problem.value.hint.shell.startswith("If you do not need that: lance-git branch -d origin/Exp.")
    with pytest.raises(Refused, match="'Origin/main' was not created"):
        fetch(location, Remote("Origin", source), RUNNER)


@pytest.mark.parametrize("name", ["exp", "EXP/b"])
def test_a_branch_that_the_disk_of_a_remote_takes_for_another_one_is_not_pushed(location, tmp_path, name):
    refs.create_branch(location, "Exp", RefSpec())
    local = locate(f"{tmp_path}/local.lance")
    clone(Remote("origin", location), pin_latest(location, None), local, RUNNER)
    refs.create_branch(local, name, RefSpec())
    append(local, name, 1)
    before = sorted(os.walk(location.uri))
    with pytest.raises(Refused, match=f"'{name}' was not created at origin: its disk does not tell") as problem:
        push(local, Remote("origin", location), name, RUNNER)
    assert problem.value.hint.shell == f"Push it under another name: lance-git branch NEW {name}."
    assert sorted(os.walk(location.uri)) == before
    refs.create_branch(local, "NEW", RefSpec(branch=name))
    push(local, Remote("origin", location), "NEW", RUNNER)
    assert rows(location, "NEW") == [0, 1]
