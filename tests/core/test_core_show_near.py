"""Hints for names that were misspelt, and moments from numbers."""

from datetime import datetime, timezone

import pytest

from lance_spark.core.texts import meant, moment_at

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("name", "known", "lead", "hint"),
    [
        ("filtr", ["filter", "fast"], "There are", "Did you mean 'filter'?"),
        ("german", ["German", "Greek"], "There are", "Did you mean 'German'?"),
        ("FILTER", ["filter"], "There are", "Did you mean 'filter'?"),
        ("xyz", ["filter", "fast"], "There are", "There are filter, fast."),
        ("xyz", ["filter", "fast"], "It takes", "It takes filter, fast."),
        ("xyz", [], "It takes", "It takes none."),
        ("a", {"a": 1}, "There are", "Did you mean 'a'?"),
    ],
)
def test_a_hint_names_what_was_meant_or_all_there_is(name, known, lead, hint):
    assert meant(name, known, lead) == hint


def test_moments_to_the_microsecond():
    assert moment_at(0) == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert moment_at(1_764_000_000_123_456_999) == datetime(2025, 11, 24, 16, 0, 0, 123456, tzinfo=timezone.utc)
