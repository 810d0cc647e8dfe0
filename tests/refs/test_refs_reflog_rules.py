"""Which recorded change is taken back, and records as files."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.core.records.reflog import (
    BEGUN,
    BRANCH,
    DELETED,
    DONE,
    FORGOTTEN,
    MOVED,
    RESTORED,
    TAG,
    RefChange,
    RefLog,
    TagState,
    branch_to_restore,
    decode,
    deleted_branch,
    encode,
    tag_to_restore,
)
from lance_spark.core.refs import PinnedVersion, Tag
from lance_spark.errors import AlreadyExists, CorruptData, NotFound, Refused

pytestmark = pytest.mark.pure

AT = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
NS = int(AT.timestamp()) * 10**9


def at(version, branch=None):
    return TagState(PinnedVersion(branch, version, version * 100), {"k": "v"})


def moved(before, after, state=DONE, name="v1", number=0):
    action = DELETED if after is None else MOVED
    return RefChange(
        f"{number}", AT, TAG, name, action, None if before is None else at(before), after and at(after), state=state
    )


def tag(version):
    return None if version is None else Tag("v1", None, version)


@pytest.mark.parametrize(
    ("changes", "current", "expected"),
    [
        ([moved(1, 2)], 2, 1),
        ([moved(1, 2), moved(2, 3)], 3, 2),
        ([moved(1, 2), moved(2, None)], None, 2),
        ([moved(1, 2), moved(2, 9, name="other")], 2, 1),
        ([moved(1, 2, BEGUN)], 2, 1),  # it happened, and the process was killed before it could say so
        ([moved(1, 2), moved(2, 3, BEGUN)], 2, 1),  # the last one did not happen
        ([moved(1, 2), moved(2, None, BEGUN)], 2, 1),
        ([moved(2, None, BEGUN)], None, 2),
    ],
)
def test_the_newest_change_that_happened_is_taken_back(changes, current, expected):
    found = tag_to_restore("v1", tag(current), changes)
    assert found.before.target.version == expected


@pytest.mark.parametrize(
    ("changes", "current", "error"),
    [
        ([], 1, NotFound),
        ([], None, NotFound),
        ([moved(1, 2, name="other")], 2, NotFound),
        ([moved(1, 2, BEGUN)], 1, NotFound),
        ([moved(None, 2)], 2, NotFound),
        ([moved(1, 2)], 3, Refused),  # something else moved it since
        ([moved(1, 2)], None, Refused),
        ([moved(1, None)], 5, AlreadyExists),
    ],
)
def test_what_cannot_be_known_is_not_guessed(changes, current, error):
    with pytest.raises(error):
        tag_to_restore("v1", tag(current), changes)


def branch_change(action, state=DONE, name="exp"):
    ref = (
        '{"parentBranch": null, "parentVersion": 4, "createAt": 7, "metadata": {"a": "b"}}' if action == DELETED else ""
    )
    return RefChange("1", AT, BRANCH, name, action, head=PinnedVersion(name, 6, 600), ref_file=ref, state=state)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([branch_change(DELETED)], True),
        ([branch_change(DELETED, BEGUN)], True),
        ([branch_change(DELETED), branch_change(RESTORED)], False),
        ([branch_change(DELETED), branch_change(RESTORED, BEGUN)], True),
        ([branch_change(DELETED, FORGOTTEN), branch_change(RESTORED, BEGUN)], False),
        ([branch_change(DELETED), branch_change(RESTORED), branch_change(DELETED)], True),
        ([branch_change(DELETED, FORGOTTEN)], False),
        ([branch_change(DELETED), branch_change(DELETED, FORGOTTEN)], False),
        ([branch_change(DELETED, name="other")], False),
        ([], False),
    ],
)
def test_a_deleted_branch_is_found_as_long_as_its_files_are_kept(changes, found):
    assert (deleted_branch("exp", changes) is not None) == found
    if found:
        assert branch_to_restore("exp", False, changes).branch.parent_version == 4
    else:
        with pytest.raises(NotFound):
            branch_to_restore("exp", False, changes)
    with pytest.raises(AlreadyExists):
        branch_to_restore("exp", True, changes)


@pytest.mark.parametrize(
    "change", [moved(1, 2), moved(3, None, BEGUN), branch_change(DELETED), branch_change(RESTORED)]
)
def test_records_survive_the_file(change):
    assert decode(change.id, encode(change)) == change


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"format": 2}', encode(moved(1, 2))[:-9]])
def test_a_damaged_record_is_named(content):
    with pytest.raises(CorruptData, match="17-abc"):
        decode("17-abc", content)


def test_a_change_keeps_versions_for_the_window_and_not_longer():
    change, week = moved(1, 2), timedelta(days=7)
    window = week // timedelta(microseconds=1) * 1000
    assert change.keeps(NS, week)
    assert change.keeps(NS + window - 1, week)
    assert not change.keeps(NS + window, week)
    assert not change.keeps(NS, timedelta(0))
    assert not replace(change, state=FORGOTTEN).keeps(NS, week)


def test_the_log_shows_versions_and_changes_newest_first():
    later = replace(branch_change(DELETED), at=AT + timedelta(hours=2))
    versions = (("exp@6", AT + timedelta(hours=1), "append"), ("exp@5", AT, "append"))
    rows = RefLog("/t", "exp", (later,), versions).rows
    assert [(row[2], row[3], row[4]) for row in rows] == [
        ("deleted", "", "exp@6"),
        ("append", "exp@6", "exp@5"),
        ("append", "exp@5", ""),
    ]
    assert "not finished" in str(RefLog("/t", None, (replace(later, state=BEGUN),)))
