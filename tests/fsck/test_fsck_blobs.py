"""Files with blobs beside data files: no manifest names them, so a deep check reads what the rows say of them."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import shaped_datasets
from support.broken_datasets import check, cut
from support.cleanup_datasets import place

from lance_spark.fsck import fsck


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(fsck, "_PAUSE", 0.0005)


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
