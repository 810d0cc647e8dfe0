"""The files of publishes: each is created once, by one process, and read whole."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from lance_spark.catalog import journal
from lance_spark.catalog.publish_rules import (
    PUBLISHED,
    TAKEN_BACK,
    AuditRecord,
    Journal,
    JournalTable,
    PublishOutcome,
    PublishVerdict,
    journal_name,
)
from lance_spark.errors import CorruptData, StorageFailure
from lance_spark.storage.datasets import locate


@pytest.fixture
def manifest(tmp_path):
    return locate(f"{tmp_path}/__manifest")


def given(sequence, publish_id="a1"):
    return Journal(sequence, publish_id, "etl", "2026-11-24T02:00:00+00:00", ())


def names(manifest):
    return sorted(path.name for path in Path(manifest.uri, journal.DIRECTORY).iterdir())


def test_one_of_several_publishers_gets_a_number(manifest):
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda own: journal.write_journal(manifest, given(1, own)), map(str, range(8))))
    assert sum(won) == 1
    assert journal.read_journal(manifest, 1).id == str(won.index(True))
    assert names(manifest) == [journal_name(1)]


def test_publishes_are_listed_newest_first(manifest):
    assert journal.sequences(manifest) == []
    for number in range(1, 11):
        assert journal.write_journal(manifest, given(number))
        journal.decide(manifest, number, PublishVerdict("a1", PUBLISHED))
        journal.write_outcome(manifest, PublishOutcome(number, "a1", PUBLISHED))
    assert journal.sequences(manifest) == [*range(10, 0, -1)]
    assert journal.read_journal(manifest, 10) == given(10)


def test_a_publish_begins_only_when_the_one_before_has_ended(manifest):
    assert journal.write_journal(manifest, given(1))
    assert not journal.write_journal(manifest, given(2))
    journal.decide(manifest, 1, PublishVerdict("a1", TAKEN_BACK))
    assert not journal.write_journal(manifest, given(2))
    journal.write_outcome(manifest, PublishOutcome(1, "a1", TAKEN_BACK))
    assert journal.write_journal(manifest, given(2))


def test_the_first_verdict_and_outcome_count(manifest):
    assert journal.read_verdict(manifest, 1) is None
    assert journal.read_outcome(manifest, 1) is None
    first, second = PublishVerdict("a1", PUBLISHED), PublishVerdict("a1", TAKEN_BACK)
    assert journal.decide(manifest, 1, first) == first
    assert journal.decide(manifest, 1, second) == first == journal.read_verdict(manifest, 1)
    done = PublishOutcome(1, "a1", PUBLISHED)
    assert journal.write_outcome(manifest, done) == done
    assert journal.write_outcome(manifest, replace(done, outcome=TAKEN_BACK)) == done


def test_a_damaged_journal_stops(manifest):
    journal.write_journal(manifest, given(1))
    Path(manifest.uri, journal.DIRECTORY, journal_name(1)).write_bytes(b"{")
    with pytest.raises(CorruptData, match="cannot be read"):
        journal.read_journal(manifest, 1)
    with pytest.raises(CorruptData, match="cannot be found"):
        journal.read_journal(manifest, 2)


def test_a_publisher_whose_answer_was_lost_has_its_number(manifest, monkeypatch):
    """A client tries a conditional write again after a time-out, and finds the file of its own first try."""
    real = journal._create

    def twice(*arguments):
        real(*arguments)
        return real(*arguments)

    monkeypatch.setattr(journal, "_create", twice)
    assert journal.write_journal(manifest, given(1, "a1"))
    assert not journal.write_journal(manifest, given(1, "b2"))


def test_without_hard_links_no_journal_is_written(manifest, monkeypatch):
    """Any other way to create a file could leave half of one, which would stop all publishes."""
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EPERM, "Operation not permitted")))
    with pytest.raises(StorageFailure):
        journal.write_journal(manifest, given(1))
    assert names(manifest) == []


def test_the_last_audit_of_a_branch_is_kept_and_says_whether_the_branch_has_changed(manifest):
    seen = replace(given(1), tables=(JournalTable("t", "t.lance", "etl", 3, 1),), branch_id="0a", branch_version=5)
    for failure in ("x > 0 has 3 rows", ""):
        made = AuditRecord.of(seen, "2026-11-24T02:00:00+00:00", failure, "Anna")
        journal.write_audit(manifest, "0a", made)
        assert journal.read_audit(manifest, "0a") == made
        assert made.passed is (not failure)
    assert made.is_of(seen)
    assert not made.is_of(replace(seen, branch_version=6))
    assert not made.is_of(replace(seen, tables=(JournalTable("t", "t.lance", "etl", 4, 1),)))
    assert journal.read_audit(manifest, "0b") is None
    assert journal.sequences(manifest) == []


@pytest.mark.parametrize("branch_id", ["", "../../x", "a/b", "G", "0" * 65])
def test_an_id_that_names_no_file_has_no_audit(manifest, branch_id):
    journal.write_audit(manifest, branch_id, AuditRecord("etl", 1, {}, "", True))
    assert journal.read_audit(manifest, branch_id) is None
    assert not Path(manifest.uri).exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"branch": 1}', b"\xff"])
def test_a_damaged_record_of_an_audit_says_so(manifest, content):
    journal.write_audit(manifest, "0a", AuditRecord("etl", 1, {}, "", True))
    Path(manifest.uri, journal.AUDITS, "0a.json").write_bytes(content)
    with pytest.raises(CorruptData, match="audit"):
        journal.read_audit(manifest, "0a")
