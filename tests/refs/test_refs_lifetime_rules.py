"""What refs say about themselves: reading it, changing it, and what cannot be understood."""

from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.core.lifetimes import (
    EXPIRE_AFTER,
    OWNER,
    PROTECTED,
    RETAIN_VERSIONS,
    WARNED,
    Lifetime,
    Warned,
    changed_metadata,
    only_lifetime,
    read_lifetime,
    with_warning,
)
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure

WHEN = datetime(2026, 5, 1, 12, 30, 15, 250_000, tzinfo=timezone.utc)
ALL = {"expire_after": "30d", "retain_versions": 3, "owner": "ml", "protected": True}


def test_what_is_set_is_read_and_everything_else_in_the_metadata_stays():
    before = {"team.note": "x", "lance_spark.follows": "{}"}
    after = changed_metadata(before, ALL)
    assert {key: after[key] for key in before} == before
    assert read_lifetime(after) == Lifetime(timedelta(days=30), 3, "ml", True)
    assert changed_metadata(after, {}, ["expire_after", "retain_versions", "owner", "protected"]) == before
    assert not only_lifetime(after)
    assert only_lifetime(changed_metadata({}, ALL))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, ""),
        ({"expire_after": timedelta(hours=36)}, "expires after 36h"),
        ({"retain_versions": 1}, "keeps 1 version"),
        ({"protected": False, "owner": "a b"}, "owner a b"),
        (ALL, "expires after 30d, keeps 3 versions, owner ml, protected"),
    ],
)
def test_lifetimes_in_words(settings, said):
    assert str(read_lifetime(changed_metadata({}, settings))) == said


@pytest.mark.parametrize(
    ("settings", "unset", "tag", "said"),
    [
        ({"expire_after": "soon"}, (), False, "a span such as"),
        ({"expire_after": "0s"}, (), False, "longer than zero"),
        ({"expire_after": timedelta(days=-1)}, (), False, "longer than zero"),
        ({"retain_versions": 0}, (), False, "at least 1"),
        ({"retain_versions": True}, (), False, "at least 1"),
        ({"protected": "yes"}, (), False, "True or False"),
        ({"owner": " "}, (), False, "a text"),
        ({"expires": "1d"}, (), False, "no setting 'expires'"),
        ({"protected": True}, (), True, "A tag has no setting 'protected'"),
        ({}, ("retain_versions",), True, "A tag has no setting"),
        ({"owner": "ml"}, ("owner",), False, "set and unset at the same time"),
    ],
)
def test_what_cannot_be_is_named(settings, unset, tag, said):
    with pytest.raises(InvalidOption, match=said):
        changed_metadata({}, settings, unset, tag)


@pytest.mark.parametrize(
    ("key", "text", "name"),
    [
        (EXPIRE_AFTER, "whenever", "expire_after"),
        (RETAIN_VERSIONS, "-1", "retain_versions"),
        (RETAIN_VERSIONS, "", "retain_versions"),
        (PROTECTED, "maybe", "protected"),
    ],
)
def test_what_something_else_wrote_is_told_and_protects(key, text, name):
    lifetime = read_lifetime({key: text, OWNER: "ml"})
    assert lifetime.unreadable == (name,)
    assert lifetime.owner == "ml"
    assert lifetime.protected == (name == "protected")
    assert f"{name} not understood" in str(lifetime)


def test_a_warning_goes_with_the_end_that_it_was_about():
    warned = Warned(WHEN, WHEN + timedelta(days=7))
    metadata = with_warning(changed_metadata({}, ALL), warned)
    assert read_lifetime(metadata).warned == warned
    assert read_lifetime(changed_metadata(metadata, {"owner": "x"})).warned == warned
    assert read_lifetime(changed_metadata(metadata, {"expire_after": "60d"})).warned is None
    assert read_lifetime(changed_metadata(metadata, {}, ["expire_after"])).warned is None
    for text in ("", "yesterday", f"{WHEN}"):
        assert read_lifetime({**metadata, WARNED: text}).warned is None
