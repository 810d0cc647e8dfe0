"""Every kind of sound dataset has no findings; each kind of damage is found and named, with the refs it hits."""

import json
import os
import shutil
import time
from pathlib import Path
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support import remote_datasets, shaped_datasets
from support.broken_datasets import (
    cut,
    data,
    deletions,
    drop_index,
    index,
    old_orphan,
    other_version,
    overwrite_middle,
    overwrite_tail,
    rich,
    shorter_deletions,
    swap,
    tag_elsewhere,
    transaction,
    without_ref,
)
from support.cleanup_datasets import append, busy, manifest, overwrite, place
from support.local_datasets import numbers
from support.merge_datasets import add, forked
from support.merge_datasets import run as merge_run

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import NotFound, StorageFailure
from lance_spark.fsck import file_contents
from lance_spark.fsck import fsck as checking
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.indexes.indexes import optimize_indexes
from lance_spark.merge.restore import restore
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.flatten import flatten
from lance_spark.optimize.optimize import optimize
from lance_spark.storage.datasets import locate


def check(uri, deep=False, **options):
    return fsck(locate(uri), FsckOptions(deep, **options), LocalRunner(2), time.time_ns())


def codes(report):
    return {finding.code for finding in report.findings}


def detached(uri):
    rich(uri)
    fragments = lance.fragment.write_fragments(numbers(3, 900), uri)
    operation = lance.LanceOperation.Append(fragments)
    lance.LanceDataset.commit(uri, operation, read_version=lance.dataset(uri).version, detached=True)


def merged(uri):
    forked(uri)
    add(uri, 100, 110, "exp")
    merge_run(uri)


def several_indexes(uri):
    rows = pa.table(
        {
            "id": pa.array(range(300), pa.int64()),
            "text": [f"word{n} other" for n in range(300)],
            "emb": pa.array([[float(n), 1.0, 2.0, 3.0] for n in range(300)], pa.list_(pa.float32(), 4)),
        }
    )
    dataset = lance.write_dataset(rows, uri)
    dataset.create_scalar_index("id", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("emb", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
    lance.dataset(uri).create_branch("exp")
    lance.dataset(place(uri, "exp")).delete("id = 1")


def older_names(uri):
    lance.write_dataset(numbers(9), uri, enable_v2_manifest_paths=False)
    lance.write_dataset(numbers(9, 9), uri, mode="append")
    lance.dataset(uri).create_branch("exp")
    lance.dataset(uri).tags.create("v1", 1)


def looked_after(uri):
    """Optimized on main and on a branch, with an index that was extended, a column added later, and a flat branch."""
    rich(uri)
    location, runner = locate(uri), LocalRunner(2)
    optimize(location, None, OptimizeOptions(), runner)
    optimize(location, "dev", OptimizeOptions(own_only=False), runner)
    optimize_indexes(location, None, None, runner)
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    lance.dataset(uri).update({"id": "id + 1000"}, where="id = 5")
    lance.dataset(place(uri, "dev")).create_branch("deep")
    flatten(location, "deep", runner)


def with_a_remote(uri):
    """A clone that fetched again, after what it follows had moved on, and has a branch merged."""
    source = f"{uri}-upstream"
    remote_datasets.begun(source)
    remote_datasets.made_clone(source, uri)
    append(source, 500)
    remote_datasets.fetched(uri, source)
    remote_datasets.branch_off(uri, "mine", "origin/main")
    append(uri, 600, branch="mine")
    remote_datasets.merged(uri, "mine")


def restored(uri):
    rich(uri)
    restore(locate(uri), PinnedVersion(None, 2), LocalRunner(2))
    lance.dataset(uri).restore()


SOUND = {
    "older names": older_names,
    "restored": restored,
    "looked after": looked_after,
    "with a remote": with_a_remote,
    "rich": rich,
    "busy": busy,
    "detached version": detached,
    "merged": merged,
    "indexes": several_indexes,
    "blobs": lambda uri: shaped_datasets.blobs(uri, "2.2"),
    "old blobs": lambda uri: shaped_datasets.blobs(uri, "2.0"),
    "stable row ids": shaped_datasets.stable_ids_indexed,
    "branch of a branch": shaped_datasets.branch_of_branch,
    "clone of a clone": shaped_datasets.clone,
    "several bases": shaped_datasets.many_bases,
    "evolved": shaped_datasets.evolved,
    "compacted": shaped_datasets.compacted,
    "first format": shaped_datasets.oldest_format,
    "emptied": shaped_datasets.emptied,
}


@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_a_sound_dataset_has_no_findings(uri, make, deep):
    make(uri)
    report = check(uri, deep)
    assert report.findings == ()
    assert (report.exit_code, report.sound) == (0, True)
    assert report.versions >= 1


ALL = (
    "clone {uri}-clone",
    "dev",
    "main",
    "old versions of dev",
    "old versions of main",
    "tag on-dev",
    "tag v3",
)
DAMAGE = {
    "data of main gone": (lambda uri: data(uri).unlink(), {"data-missing"}, ALL, 20),
    "newest data of main gone": (lambda uri: data(uri, number=-1).unlink(), {"data-missing"}, ("main",), 9),
    "data of a branch gone": (
        lambda uri: data(uri, "dev").unlink(),
        {"data-missing"},
        ("dev", "old versions of dev", "tag on-dev"),
        7,
    ),
    "data cut off": (lambda uri: cut(data(uri)), {"size-wrong"}, ALL, 20),
    "data empty": (lambda uri: data(uri).write_bytes(b""), {"size-wrong"}, ALL, 20),
    "data longer": (lambda uri: data(uri).write_bytes(data(uri).read_bytes() + b"x"), {"size-wrong"}, ALL, 20),
    "deletion file gone": (lambda uri: deletions(uri).unlink(), {"deletion-missing"}, None, 20),
    "deletion file of a branch gone": (
        lambda uri: deletions(uri, "dev").unlink(),
        {"deletion-missing"},
        ("dev", "tag on-dev"),
        7,
    ),
    "deletion file empty": (lambda uri: deletions(uri).write_bytes(b""), {"size-wrong"}, None, 20),
    "index gone": (drop_index, {"index-missing"}, None, 0),
    "one file of an index gone": (lambda uri: index(uri).unlink(), {"index-missing"}, None, 0),
    "index cut off": (lambda uri: cut(index(uri)), {"index-size-wrong"}, None, 0),
    "transaction gone": (lambda uri: transaction(uri).unlink(), {"transaction-missing"}, None, 0),
    "manifest empty": (
        lambda uri: manifest(uri, 2).write_bytes(b""),
        {"manifest-damaged"},
        ("old versions of main",),
        None,
    ),
    "manifest cut off": (lambda uri: cut(manifest(uri, 3), 30), {"manifest-damaged"}, None, None),
    "newest manifest reversed": (
        lambda uri: manifest(uri, 4).write_bytes(manifest(uri, 4).read_bytes()[::-1]),
        {"manifest-damaged"},
        ("main",),
        None,
    ),
    "manifest of a branch zeroed": (
        lambda uri: manifest(uri, 5, "dev").write_bytes(bytes(500)),
        {"manifest-damaged"},
        ("dev", "tag on-dev"),
        None,
    ),
    "manifest of another version": (other_version, {"manifest-wrong-version"}, ("old versions of main",), None),
    "newest manifest gone": (lambda uri: manifest(uri, 4).unlink(), {"versions-lost"}, None, None),
    "tagged manifest gone": (lambda uri: manifest(uri, 3).unlink(), {"tag-dangling"}, None, None),
    "tag at no version": (tag_elsewhere, {"tag-dangling"}, None, None),
    "ref file of a tag damaged": (
        lambda uri: Path(uri, "_refs", "tags", "v3.json").write_text("{"),
        {"ref-damaged"},
        None,
        None,
    ),
    "ref file of a branch damaged": (
        lambda uri: Path(uri, "_refs", "branches", "dev.json").write_text("no"),
        {"ref-damaged"},
        None,
        None,
    ),
    "versions of a branch gone": (
        lambda uri: shutil.rmtree(Path(uri, "tree", "dev", "_versions")),
        {"branch-without-versions", "tag-dangling"},
        None,
        None,
    ),
    "ref of a branch gone": (without_ref, {"directory-without-ref", "tag-dangling"}, None, None),
    "clone gone": (lambda uri: shutil.rmtree(f"{uri}-clone"), {"clone-gone"}, None, None),
    "an old file that no version names": (old_orphan, {"uncommitted-files"}, None, None),
}
ONLY_NOTED = {"clone gone", "an old file that no version names", "transaction gone"}


@pytest.mark.parametrize(("name", "row"), DAMAGE.items(), ids=DAMAGE)
def test_damage_is_found_and_named(uri, name, row):
    damage, expected, refs, rows = row
    rich(uri)
    damage(uri)
    report = check(uri)
    assert expected <= codes(report), report
    hit = [finding for finding in report.findings if finding.code in expected]
    if refs is not None:
        assert hit[0].refs == tuple(sorted(ref.format(uri=uri) for ref in refs))
    if rows is not None:
        assert hit[0].rows == rows
    assert report.exit_code == (0 if name in ONLY_NOTED else 22)
    assert all(finding.do and finding.says for finding in report.findings)
    if len(expected) == 1:
        assert codes(report) == expected, report


DEEP_DAMAGE = {
    "end of a data file": (lambda uri: overwrite_tail(data(uri)), {"data-damaged"}),
    "whole data file": (lambda uri: data(uri).write_bytes(bytes(data(uri).stat().st_size)), {"data-damaged"}),
    "metadata of a data file": (lambda uri: overwrite_middle(data(uri)), {"data-damaged"}),
    "a deletion file": (lambda uri: deletions(uri).write_bytes(b"\1" * 100), {"deletion-damaged"}),
    "deletions of another fragment": (shorter_deletions, {"deletion-count"}),
    "end of an index file": (lambda uri: overwrite_tail(index(uri)), {"index-damaged"}),
}


@pytest.mark.parametrize(("name", "row"), DEEP_DAMAGE.items(), ids=DEEP_DAMAGE)
def test_damage_inside_of_files_of_the_right_size_is_found_by_a_deep_check(uri, name, row):
    damage, expected = row
    rich(uri)
    damage(uri)
    assert codes(check(uri)) == set()
    report = check(uri, deep=True)
    assert codes(report) == expected, report
    assert report.exit_code == 22


def test_everybody_who_reads_a_damaged_file_is_hit(uri):
    """The file is opened once, and named by the versions of several branches."""
    rich(uri)
    overwrite_tail(data(uri))
    (finding,) = check(uri, deep=True).findings
    assert finding.refs == tuple(sorted(ref.format(uri=uri) for ref in ALL))


def test_a_data_file_with_the_rows_of_another_is_found(uri):
    lance.write_dataset(pa.table({"v": pa.nulls(40)}), uri, max_rows_per_file=30)
    files = sorted(Path(uri, "data").iterdir())
    if files[0].stat().st_size != files[1].stat().st_size:
        pytest.skip("pylance writes files of different sizes here")
    swap(*files)
    assert codes(check(uri)) == set()
    assert codes(check(uri, deep=True)) == {"row-count"}


def test_two_rows_of_one_stable_id_are_found_by_a_deep_check(uri):
    lance.write_dataset(numbers(6), uri, enable_stable_row_ids=True, max_rows_per_file=3)
    dataset = lance.dataset(uri)
    first, second = (fragment.metadata for fragment in dataset.get_fragments())
    second.row_id_meta = first.row_id_meta
    operation = lance.LanceOperation.Overwrite(dataset.schema, [first, second])
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert codes(check(uri)) == set()
    assert codes(check(uri, deep=True)) == {"row-ids-twice"}


def test_what_a_branch_reads_of_main_is_hit_as_well_and_other_branches_are_not(uri):
    rich(uri)
    lance.dataset(uri).create_branch("late")
    overwrite(uri, 900, branch="late")
    data(uri, "late", -1).unlink()
    (finding,) = check(uri).findings
    assert finding.refs == ("late",)


def test_a_clone_whose_origin_was_moved_is_told_so_once(uri):
    rich(uri)
    shutil.move(uri, f"{uri}-elsewhere")
    (finding,) = check(f"{uri}-clone").findings
    assert (finding.code, finding.path, finding.refs) == ("base-absent", uri, ("main",))
    assert "relocate" in finding.do


def test_a_clone_misses_a_file_of_its_origin(uri):
    rich(uri)
    gone = data(uri)
    gone.unlink()
    (finding,) = check(f"{uri}-clone").findings
    assert (finding.code, finding.path, finding.refs) == ("data-missing", str(gone), ("main",))


def test_a_base_that_cannot_be_reached_is_not_called_absent(uri, monkeypatch):
    rich(uri)
    clone = f"{uri}-clone"
    really_list = checking.list_range

    def listing(location, part):
        if location.uri == uri:
            raise StorageFailure("The store does not answer.")
        return really_list(location, part)

    monkeypatch.setattr(checking, "list_range", listing)
    report = check(clone)
    assert codes(report) == {"base-unreachable"}
    assert report.exit_code == 20


def test_a_file_that_cannot_be_read_is_unreachable(uri, monkeypatch):
    rich(uri)
    monkeypatch.setattr(file_contents, "_tail", Mock(side_effect=StorageFailure("The store does not answer.")))
    report = check(uri, deep=True)
    assert codes(report) == {"file-unreachable"}
    assert report.exit_code == 20


def test_a_branch_that_is_deleted_and_a_version_that_is_cleaned_up_meanwhile_are_no_damage(uri, monkeypatch):
    """The files were listed after they had gone, the manifests were read before."""
    rich(uri)
    lance.dataset(uri).tags.delete("on-dev")
    really_list = checking.list_all

    def listing(survey, runner):
        from lance_spark.refs.refs import delete_branch

        delete_branch(locate(uri), "dev")
        return really_list(survey, runner)

    monkeypatch.setattr(checking, "list_all", listing)
    assert check(uri, deep=True).findings == ()


def test_there_is_nothing_to_check(uri):
    with pytest.raises(NotFound):
        check(uri)


def test_the_report_as_a_table_as_json_and_as_text(uri):
    rich(uri)
    data(uri).unlink()
    report = check(uri)
    told = json.loads(report.to_json())
    assert (told["sound"], told["exit_code"], told["findings"][0]["code"]) == (False, 22, "data-missing")
    assert report.to_df()["code"].to_pylist() == ["data-missing"]
    assert "data-missing" in str(report)
    assert "1 error" in report.summary()


def test_many_missing_files_are_counted(uri):
    lance.write_dataset(numbers(60), uri, max_rows_per_file=1)
    for file in Path(uri, "data").iterdir():
        os.unlink(file)
    report = check(uri)
    assert sum(finding.files for finding in report.findings) == 60


STRICT = pa.struct([("b", pa.string())])


def with_nulls(uri, path):
    """A version with a null in a field that cannot be null, as a merge of other tools may leave it."""
    rows = pa.table({"k": [1, 2], "a": ["x", "y"], "s": pa.array([{"b": "x"}, {"b": "y"}], STRICT)})
    lance.write_dataset(rows, uri)
    lance.dataset(uri).create_branch("exp")
    lance.dataset(place(uri, "exp")).alter_columns({"path": path, "nullable": False})
    rows = pa.table({"k": [9], "a": pa.array([None], pa.string()), "s": pa.array([{"b": None}], STRICT)})
    before = lance.write_dataset(rows, uri, mode="append")
    strict = lance.LanceOperation.Project(lance.dataset(place(uri, "exp")).lance_schema)
    lance.LanceDataset.commit(uri, strict, read_version=before.version)


@pytest.mark.parametrize("path", ["a", "s.b"])
def test_nulls_where_none_may_be_are_found_in_depth_until_the_column_may_have_them(tmp_path, path):
    uri = str(tmp_path / "t.lance")
    with_nulls(uri, path)
    assert not codes(check(uri))
    report = check(uri, deep=True)
    assert codes(report) == {"nulls-impossible"}
    (finding,) = report.findings
    assert (finding.refs, finding.detail) == (("main",), f"Column '{path[0]}' of main@3.")
    lance.dataset(uri).alter_columns({"path": path, "nullable": True})
    assert check(uri, deep=True).sound


def test_deleted_nulls_and_columns_that_lost_their_nulls_are_sound(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"k": [1, 2], "a": ["x", None]}), uri)
    lance.dataset(uri).delete("k = 2")
    lance.dataset(uri).alter_columns({"path": "a", "nullable": False})
    assert check(uri, deep=True).sound
    rows = lance.dataset(uri).to_table()
    lance.write_dataset(rows, uri, mode="overwrite")
    monkeypatch.setattr(checking, "holds_nulls", None)  # these files were written without nulls: nothing is read
    assert check(uri, deep=True).sound
