"""Choosing a version by time, and naming what is near when there is none."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.ref_names import missing, missing_version
from lance_spark.core.refs import PinnedVersion, VersionInfo, newest_at
from lance_spark.errors import NotFound

pytestmark = pytest.mark.pure

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def version(number, seconds):
    return VersionInfo(number, NOON + timedelta(seconds=seconds))


@pytest.mark.parametrize(("seconds", "expected"), [(0, 1), (0.5, 1), (1, 2), (9.999999, 2), (10, 3), (1e6, 3)])
def test_the_newest_version_at_or_before_a_moment_is_chosen(seconds, expected):
    history = [version(3, 10), version(1, 0), version(2, 1)]
    assert newest_at(history, NOON + timedelta(seconds=seconds), "b") == expected


def test_the_highest_number_wins_when_clocks_disagree():
    assert newest_at([version(1, 5), version(2, 3), version(3, 9)], NOON + timedelta(seconds=6), None) == 2


def test_a_moment_in_another_zone_is_the_same_moment():
    tokyo = timezone(timedelta(hours=9))
    assert newest_at([version(1, 0), version(2, 60)], NOON.astimezone(tokyo), None) == 1


@given(st.dictionaries(st.integers(1, 50), st.integers(-5, 5), min_size=1), st.integers(-5, 5))
def test_no_version_after_the_moment_is_ever_chosen(times, at):
    history = [version(number, seconds) for number, seconds in times.items()]
    candidates = [number for number, seconds in times.items() if seconds <= at]
    moment = NOON + timedelta(seconds=at)
    if candidates:
        assert newest_at(history, moment, None) == max(candidates)
    else:
        with pytest.raises(NotFound):
            newest_at(history, moment, None)


def test_a_moment_before_the_first_version_names_the_oldest():
    with pytest.raises(NotFound, match="Branch 'main' has no version at or before 2026-01-01T11") as caught:
        newest_at([version(2, 60), version(1, 0)], NOON - timedelta(hours=1), None)
    assert "2026-01-01T12:00:00" in caught.value.hint
    with pytest.raises(NotFound, match="Branch 'b'"):
        newest_at([], NOON, "b")


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("exp/delay", ["exp/delays", "other"], "Did you mean 'exp/delays'?"),
        ("zzz", ["b", "a"], "The dataset has 'a', 'b'."),
        ("zzz", list("abcdef"), "The dataset has 'a', 'b', 'c', 'd', 'e' and more."),
        ("zzz", [], "The dataset has no branch yet."),
    ],
)
def test_a_missing_name_comes_with_near_ones(name, known, hint):
    error = missing("branch", name, known)
    assert (error.message, error.hint) == (f"There is no branch '{name}'.", hint)


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        (range(1, 100), "Nearest versions: 97, 98, 99."),
        ([3], "Nearest versions: 3."),
        ([500, 90, 110], "Nearest versions: 90, 110, 500."),
        ([], None),
    ],
)
def test_a_missing_version_comes_with_near_ones(known, hint):
    error = missing_version(100, None, list(known))
    assert (error.message, error.hint) == ("Branch 'main' has no version 100.", hint)


def test_a_pinned_version_reads_as_branch_and_number():
    assert f"{PinnedVersion(None, 3)} {PinnedVersion('a/b', 1)}" == "main@3 a/b@1"
