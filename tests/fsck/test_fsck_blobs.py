"""Files with blobs beside data files: no manifest names them, so a deep check reads what the rows say of them."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import shaped_datasets
from support.broken_datasets import check, cut
from support.cleanup_datasets import place

from lance_spark.fsck import fsck


@pytest.fixture
def table(uri):
    """Main with two fragments of blobs, the first one tagged; and a branch with a fragment more."""
    shaped_datasets.blobs(uri, "2.2")
    lance.dataset(uri).tags.create("first", 1)
    lance.dataset(uri).create_branch("exp")
    values = lance.blob_array(shaped_datasets.PAYLOADS)
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("payload")])
    rows = pa.table([pa.array(range(5)), values], schema)
    lance.write_dataset(rows, lance.dataset(uri).checkout_version(("exp", None)), mode="append")
    return uri


def beside(uri, branch=None):
    return sorted(Path(place(uri, branch), "data").glob("*/*.blob"), key=lambda path: path.stat().st_mtime_ns)


def test_a_sound_table_has_no_findings(table):
    assert check(table, deep=True).findings == ()


def test_everybody_who_reads_a_lost_blob_is_hit(table):
    lost = beside(table)[0]
    lost.unlink()
    assert check(table).findings == ()  # only the rows say that there is such a file
    (finding,) = check(table, deep=True).findings
    assert (finding.code, finding.path) == ("blob-missing", str(lost.relative_to(table)))
    assert finding.refs == ("exp", "main", "old versions of exp", "old versions of main", "tag first")
    assert finding.rows == 1
    assert check(table, deep=True).exit_code == 22


def test_a_blob_of_a_branch_hits_that_branch(table):
    cut(beside(table, "exp")[0])
    (finding,) = check(table, deep=True).findings
    assert (finding.code, finding.refs) == ("blob-size-wrong", ("exp",))
    assert finding.path.startswith("tree/exp/data/")
    assert "instead of" in finding.says


def test_blobs_that_only_a_tag_needs_are_looked_for(table):
    lance.dataset(table).delete("true")
    lance.dataset(place(table, "exp")).delete("true")
    beside(table)[0].unlink()
    (finding,) = check(table, deep=True).findings
    assert "tag first" in finding.refs


def test_a_large_version_is_looked_at_in_parts(table, monkeypatch):
    monkeypatch.setattr(fsck, "_AT_ONCE", 100)
    for path in beside(table) + beside(table, "exp"):
        path.unlink()
    assert {finding.code for finding in check(table, deep=True).findings} == {"blob-missing"}
    assert len(check(table, deep=True).findings) == 6


def test_a_data_file_that_is_gone_is_one_finding(table):
    data = Path(f"{beside(table)[0].parent}.lance")
    data.unlink()
    assert {finding.code for finding in check(table, deep=True).findings} == {"data-missing"}


# --- Blobs by reference


@pytest.fixture
def referring(tmp_path):
    """A whole object in two fragments, ranges of another one, and bytes inline; a branch and a tag."""
    elsewhere, uri = tmp_path / "else where", str(tmp_path / "t.lance")
    elsewhere.mkdir()
    for name in ("whole", "part"):
        (elsewhere / name).write_bytes(b"0123456789")
    at = elsewhere.as_uri()
    blobs = [
        lance.Blob.from_uri(f"{at}/whole"),
        lance.Blob.from_uri(f"{at}/part", position=2, size=5),
        lance.Blob.from_uri(f"{at}/part", position=6, size=4),
        b"inline",
        None,
    ]
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("payload")])
    settings = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    rows = pa.table([pa.array(range(5)), lance.blob_array(blobs)], schema)
    lance.write_dataset(rows, uri, **settings)
    lance.dataset(uri).tags.create("first", 1)
    lance.write_dataset(rows.slice(0, 1), uri, mode="append", **settings)
    lance.dataset(uri).create_branch("exp")
    return uri, elsewhere


@pytest.mark.when(day=0)
def test_objects_elsewhere_that_are_as_they_were_are_no_finding(referring):
    assert check(referring[0], deep=True).findings == ()


def test_a_lost_object_hits_everybody_who_refers_to_it(referring):
    uri, elsewhere = referring
    (elsewhere / "whole").unlink()
    assert check(uri).findings == ()
    (finding,) = check(uri, deep=True).findings
    assert (finding.code, finding.path, finding.rows) == ("object-missing", str(elsewhere / "whole"), 2)
    assert finding.refs == ("exp", "main", "tag first")
    assert check(uri, deep=True).exit_code == 22


def test_an_object_that_became_shorter_than_a_range_is_found(referring):
    uri, elsewhere = referring
    (elsewhere / "part").write_bytes(b"01234567")
    (elsewhere / "whole").write_bytes(b"")  # nobody recorded how long it was
    (finding,) = check(uri, deep=True).findings
    assert (finding.code, finding.path, finding.rows) == ("object-too-short", str(elsewhere / "part"), 2)
    assert "8 bytes instead of at least 10" in finding.says


@pytest.mark.when(day=0)
def test_no_repair_touches_an_object_elsewhere_or_the_rows_that_refer_to_it(referring):
    uri, elsewhere = referring
    (elsewhere / "whole").unlink()
    before = lance.dataset(uri).count_rows()
    check(uri, deep=True, on_main=True, execute=True)
    assert lance.dataset(uri).count_rows() == before
    assert sorted(path.name for path in elsewhere.iterdir()) == ["part"]


@pytest.mark.when(day=0)
def test_an_object_below_a_base_path_is_looked_for_there(tmp_path):
    elsewhere, uri = tmp_path / "else where", str(tmp_path / "t.lance")
    elsewhere.mkdir()
    (elsewhere / "a b").write_bytes(b"0123456789")
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("payload")])
    rows = pa.table([[1], lance.blob_array([lance.Blob.from_uri(str(elsewhere / "a b"))])], schema)
    base = lance.DatasetBasePath(str(elsewhere), "objects", is_dataset_root=False, id=7)
    lance.write_dataset(rows, uri, data_storage_version="2.2", initial_bases=[base])
    assert check(uri, deep=True).findings == ()
    (elsewhere / "a b").rename(elsewhere / "c")
    (finding,) = check(uri, deep=True).findings
    assert (finding.code, finding.path, finding.refs) == ("object-missing", str(elsewhere / "a b"), ("main",))
