"""The way from one version to another, along the lines of branches."""

from datetime import datetime, timezone

import pytest

from lance_spark.changes.feed_rules import at_or_before, before, first_of, line_of, path_between
from lance_spark.core.refs import ROOT, Branch, PinnedVersion
from lance_spark.errors import Refused
from lance_spark.format.operations import VersionSpan

pytestmark = pytest.mark.pure

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
BRANCHES = {
    "exp": Branch("exp", None, 5, NOW),
    "deep": Branch("deep", "exp", 7, NOW),
    "other": Branch("other", None, 3, NOW),
    "alone": Branch("alone", None, 5, NOW, {ROOT: "1"}),
}


def pin(text):
    name, _, version = text.partition("@")
    return PinnedVersion(None if name == "main" else name, int(version))


def spans(*texts):
    """``exp:5-7`` is what came after version 5 up to version 7."""
    parts = (text.replace(":", "-").split("-") for text in texts)
    return tuple(VersionSpan(None if name == "main" else name, int(after), int(until)) for name, after, until in parts)


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ("main@4", ["main:0-4"]),
        ("exp@7", ["main:0-5", "exp:5-7"]),
        ("exp@5", ["main:0-5"]),
        ("deep@9", ["main:0-5", "exp:5-7", "deep:7-9"]),
        ("alone@6", ["alone:0-6"]),
        ("unknown@6", ["unknown:0-6"]),
    ],
)
def test_a_version_is_at_the_end_of_one_line(at, line):
    assert line_of(pin(at), BRANCHES) == spans(*line)


@pytest.mark.parametrize(
    ("since", "until", "common", "back", "forward"),
    [
        ("main@2", "main@4", "main@2", [], ["main:2-4"]),
        ("main@4", "main@2", "main@2", ["main:2-4"], []),
        ("main@4", "main@4", "main@4", [], []),
        ("main@2", "exp@8", "main@2", [], ["main:2-5", "exp:5-8"]),
        ("main@9", "exp@8", "main@5", ["main:5-9"], ["exp:5-8"]),
        ("exp@8", "main@9", "main@5", ["exp:5-8"], ["main:5-9"]),
        ("main@5", "exp@5", "main@5", [], []),
        ("exp@5", "exp@6", "main@5", [], ["exp:5-6"]),
        ("deep@8", "exp@9", "exp@7", ["deep:7-8"], ["exp:7-9"]),
        ("exp@6", "deep@8", "exp@6", [], ["exp:6-7", "deep:7-8"]),
        ("other@4", "deep@8", "main@3", ["other:3-4"], ["main:3-5", "exp:5-7", "deep:7-8"]),
    ],
)
def test_the_way_leads_back_to_what_both_have_and_on_from_there(since, until, common, back, forward):
    path = path_between(pin(since), pin(until), BRANCHES)
    assert (path.common, path.back, path.forward) == (pin(common), spans(*back), spans(*forward))


def test_two_versions_that_share_nothing_have_no_way():
    with pytest.raises(Refused, match="main@4 and alone@6 have no common version"):
        path_between(pin("main@4"), pin("alone@6"), BRANCHES)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("exp@6", "exp@6"),
        ("exp@5", "exp@5"),
        ("exp@4", "main@4"),
        ("deep@6", "exp@6"),
        ("deep@2", "main@2"),
        ("alone@2", "alone@2"),
    ],
)
def test_a_number_below_the_fork_is_a_version_of_the_parent(asked, found):
    assert at_or_before(pin(asked), BRANCHES) == pin(found)


@pytest.mark.parametrize(
    ("at", "found"),
    [("main@1", None), ("main@3", "main@2"), ("exp@6", "exp@5"), ("exp@5", "main@4"), ("deep@7", "exp@6")],
)
def test_the_version_that_one_was_made_from(at, found):
    assert before(pin(at), BRANCHES) == (None if found is None else pin(found))


@pytest.mark.parametrize(("at", "first"), [("main@4", "main@1"), ("deep@9", "main@1"), ("alone@7", "alone@1")])
def test_the_first_version_of_a_line(at, first):
    assert first_of(pin(at), BRANCHES) == pin(first)
