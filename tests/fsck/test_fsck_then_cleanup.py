"""Cleanups after a repair: what a manifest in the quarantine may name stays as long as it may be put back."""

from datetime import timedelta
from pathlib import Path

import lance
import pytest
from support.broken_datasets import check, readable
from support.cleanup_datasets import age_all, append, clean, let_pass, manifest, plan, versions
from support.local_datasets import make_dataset, numbers

from lance_spark.errors import CorruptData
from lance_spark.fsck.undo import undo
from lance_spark.storage.datasets import locate

POLICY = {"older_than": timedelta(0), "commit_window": timedelta(0)}


@pytest.fixture
def repaired(uri):
    """A dataset whose newest manifest was damaged and moved away, long after it was written; and a backup of it."""
    make_dataset(uri, numbers(3))
    append(uri, 10)
    append(uri, 20)
    lance.dataset(uri).create_branch("dev")
    append(uri, 30)
    newest = max(versions(uri))
    path = manifest(uri, newest)
    backup = path.read_bytes()
    path.write_bytes(backup[:100])
    age_all(uri, 40)
    assert check(uri, on_main=True, execute=True).repaired.complete
    return path, backup


def test_a_cleanup_keeps_what_a_manifest_in_the_quarantine_may_name(uri, repaired):
    path, backup = repaired
    report = clean(uri, **POLICY)
    assert any("A repair quarantined a manifest of 'main'" in warning for warning in report.warnings)
    assert versions(uri) == [1, 2, 3]
    undo(locate(uri), "last")
    path.write_bytes(backup)
    assert readable(uri, None) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]


@pytest.mark.parametrize("policy", [{"undo_window": timedelta(0)}, {"days": 8}], ids=["without a window", "in time"])
def test_after_the_window_a_cleanup_takes_it(uri, repaired, monkeypatch, policy):
    let_pass(monkeypatch, policy.pop("days", 0))
    report = clean(uri, **POLICY, **policy)
    assert not any("repair" in warning for warning in report.warnings)
    assert versions(uri) == [3]


def test_files_that_no_version_names_stay_whatever_the_policy_says(uri, repaired):
    assert plan(uri, **POLICY, delete_unverified=True).report().to_delete[0] == 0


def test_a_record_that_cannot_be_read_stops_the_cleanup(uri, repaired):
    (record,) = Path(uri, "_quarantine").rglob("record.json")
    record.write_text("{")
    with pytest.raises(CorruptData, match="The record of a repair"):
        plan(uri, **POLICY)
