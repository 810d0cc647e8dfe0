"""Catalog services as values, and when what they hand out is renewed."""

import pickle

import pytest

from lance_spark.core.services import (
    PROVIDER,
    ServedTable,
    Service,
    Vended,
    is_secret,
    service_of,
    table_of,
    without_service,
)
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure

SECRET = Service.of("rest", {"uri": "https://me:hush@catalog.example:8443/v/", "headers.X-Api-Key": "hush-hush"})


@pytest.mark.parametrize(
    ("impl", "properties", "uri"),
    [
        ("rest", {"uri": "http://127.0.0.1:2333"}, "rest://127.0.0.1:2333"),
        ("rest", {"uri": "https://me:hush@catalog.example:8443/v/"}, "rest://catalog.example:8443/v"),
        ("glue", {"region": "eu-central-1", "access_key_id": "k"}, "glue://eu-central-1"),
        ("glue", {}, "glue://"),
        ("my.package.Catalog", {"root": "s3://b/x"}, "my.package.Catalog://b/x"),
    ],
)
def test_a_service_says_where_it_is(impl, properties, uri):
    assert Service.of(impl, properties).uri == uri


@pytest.mark.parametrize("impl", ["", "a b", "rest://x", "../x", "1x", "a;b"])
def test_other_names_are_refused(impl):
    with pytest.raises(InvalidOption):
        Service.of(impl)


def test_a_service_travels_as_storage_options_and_shows_no_secret():
    root = SECRET.root({"aws_region": "eu-central-1"})
    assert service_of(dict(root.options)) == SECRET == pickle.loads(pickle.dumps(SECRET))
    assert without_service(root.storage_options) == {"aws_region": "eu-central-1"}
    assert service_of({"aws_region": "eu-central-1"}) is None
    assert SECRET.headers == {"X-Api-Key": "hush-hush"}
    assert table_of(SECRET.provider(["a", "t"], "s3://b/t")) == ServedTable(SECRET, ("a", "t"), "s3://b/t", False)
    assert table_of(SECRET.provider(["t"], "/t", True)) == ServedTable(SECRET, ("t",), "/t", True)
    assert table_of('service:["rest", {"uri": "http://x"}, ["t"]]').uri is None  # as 1.0.0 stored it
    assert table_of("mycompany.vending:keys") is None
    assert "hush" not in f"{SECRET!r} {SECRET} {root!r} {root} {SECRET.uri}"
    # By these words Spark hides the values of options, and this package those of errors.
    assert all(is_secret(key) for key, value in root.options if "hush" in value)
    assert is_secret(PROVIDER)
    assert (
        SECRET.clean("GET https://me:hush@catalog.example with hush-hush") == "GET https://***@catalog.example with ***"
    )


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1', "3", "[" * 100_000])
def test_properties_that_cannot_be_read_are_an_error_of_ours(text):
    with pytest.raises(InvalidOption) as refused:
        service_of({"catalog_impl": "rest", "catalog_properties_secret": text})
    assert text not in str(refused.value) or len(text) < 4
    with pytest.raises(InvalidOption):
        table_of("service:" + text)


def vended(seconds, wall=1000.0, fetched=50.0):
    return Vended.of({"key": "k", "expires_at_millis": str(int((wall + seconds) * 1000))}, wall, fetched)


@pytest.mark.parametrize(
    ("seconds", "later", "due", "over"),
    [
        (60, 0, False, False),
        (60, 47, False, False),
        (60, 49, True, False),
        (60, 61, True, True),
        (3600, 3000, False, False),
        (3600, 3301, True, False),
        (1, 0.5, False, False),
        (1, 1.1, True, True),
        (-500, 0.5, False, True),  # a clock that is off by more than the lifetime: not renewed for each request
        (-500, 1.5, True, True),
    ],
)
def test_they_are_renewed_before_they_expire(seconds, later, due, over):
    found = vended(seconds)
    assert (found.is_due(50.0 + later), found.is_over(50.0 + later)) == (due, over)


def test_what_does_not_expire_is_never_renewed():
    found = Vended.of({"key": "k", "absent": None}, 1000.0, 50.0)
    assert not found.is_due(1e12)
    assert dict(found.options) == {"key": "k"}
    assert "k'" not in repr(found)


@pytest.mark.parametrize("text", ["soon", "", "1e3", "-5"])
def test_a_moment_that_is_none_is_an_error(text):
    with pytest.raises(InvalidOption):
        Vended.of({"expires_at_millis": text}, 0.0, 0.0)


def test_the_end_of_keys_is_read_in_upper_case_as_the_keys_are():
    known = Vended.of({"AWS_ACCESS_KEY_ID": "k", "EXPIRES_AT_MILLIS": "1060000"}, 1000.0, 50.0)
    assert known.lifetime == 60.0
    assert dict(known.options) == {"AWS_ACCESS_KEY_ID": "k", "expires_at_millis": "1060000"}  # pylance reads it


def test_keys_that_are_refused_early_are_renewed_earlier():
    known = Vended.of({"expires_at_millis": "1360000"}, 1000.0, 50.0, early=300.0)
    assert known.lifetime == 60.0
    assert dict(known.options)["expires_at_millis"] == "1060000"  # pylance reads it
    assert known.is_due(50.0 + 48)
