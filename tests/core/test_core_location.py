"""Locations: every spelling of a dataset's URI becomes one, and storage options stay hidden."""

import copy
import pickle
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.location import (
    DatasetLocation,
    canonical_uri,
    check_scheme,
    is_relative,
    is_uri,
    refused_relative,
)
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure

LINKS = {"/link": "/real/place"}
SECRET = "wJalrXUtnFEMI"


def canonical(text):
    """The canonical URI as seen from the directory /work, where /link is a symbolic link."""
    return canonical_uri(text, realpath)


def realpath(path):
    whole = posixpath.normpath(posixpath.join("/work", path))
    whole = "/" + whole.lstrip("/")
    return next((target + whole[len(link) :] for link, target in LINKS.items() if whole.startswith(link)), whole)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("/data/t.lance", "/data/t.lance"),
        ("/data/t.lance/", "/data/t.lance"),
        ("/data/t.lance///", "/data/t.lance"),
        ("//data//t.lance", "/data/t.lance"),
        (" /data/t.lance\n", "/data/t.lance"),
        ("t.lance", "/work/t.lance"),
        ("./t.lance", "/work/t.lance"),
        ("../data/./t.lance", "/data/t.lance"),
        (".", "/work"),
        ("file:/data/t.lance", "/data/t.lance"),
        ("file:///data/t.lance/", "/data/t.lance"),
        ("file:////data/t.lance", "/data/t.lance"),
        ("file://localhost/data/t.lance", "/data/t.lance"),
        ("FILE:///data/t.lance", "/data/t.lance"),
        ("file:t.lance", "/work/t.lance"),
        ("file:///data/with%20blank", "/data/with blank"),
        ("/data/with%20percent", "/data/with%20percent"),
        ("/data/with blank", "/data/with blank"),
        ("/data/a#b", "/data/a#b"),
        ("/data/é", "/data/é"),
        ("file:///data/%C3%A9", "/data/é"),
        ("/link/t.lance", "/real/place/t.lance"),
        ("file:///link/t.lance", "/real/place/t.lance"),
        ("C:\\data\\t.lance", "/work/C:\\data\\t.lance"),
        ("c:/data", "/work/c:/data"),
        ("2024:01", "/work/2024:01"),
        ("dir/s3://bucket", "/work/dir/s3:/bucket"),
        ("s3", "/work/s3"),
        ("~", "/work/~"),
    ],
)
def test_every_spelling_of_a_local_path_is_the_absolute_real_path(text, uri):
    location = DatasetLocation.at(canonical(text))
    assert (location.uri, location.is_local, location.store) == (uri, True, "file://")


@pytest.mark.parametrize(
    ("text", "uri", "store"),
    [
        ("s3://bucket/a/t.lance", "s3://bucket/a/t.lance", "s3://bucket"),
        ("s3a://bucket/a/t.lance/", "s3://bucket/a/t.lance", "s3://bucket"),
        ("s3n://bucket/a/t.lance", "s3://bucket/a/t.lance", "s3://bucket"),
        ("S3A://bucket/A//", "s3://bucket/A", "s3://bucket"),
        ("s3://Bucket/t", "s3://Bucket/t", "s3://Bucket"),
        ("s3://bucket", "s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket", "s3://bucket"),
        ("\ts3://bucket/t ", "s3://bucket/t", "s3://bucket"),
        ("s3://bucket/with blank", "s3://bucket/with%20blank", "s3://bucket"),
        ("s3://bucket/with%20blank", "s3://bucket/with%20blank", "s3://bucket"),
        ("s3://bucket/%7Etilde%2B", "s3://bucket/~tilde+", "s3://bucket"),
        ("s3://bucket/a%2Fb", "s3://bucket/a/b", "s3://bucket"),
        ("s3://bucket/a%2fb%2f", "s3://bucket/a/b", "s3://bucket"),
        ("s3://bucket/100%25", "s3://bucket/100%25", "s3://bucket"),
        ("s3://bucket/a%zz", "s3://bucket/a%25zz", "s3://bucket"),
        ("s3://bucket/a#c", "s3://bucket/a%23c", "s3://bucket"),
        ("s3://bucket/é", "s3://bucket/%C3%A9", "s3://bucket"),
        ("s3://bucket/date=2024-01-01/x:y@z", "s3://bucket/date=2024-01-01/x:y@z", "s3://bucket"),
        ("gs://bucket/t", "gs://bucket/t", "gs://bucket"),
        ("abfs://files@account.dfs.core/t", "abfss://files@account.dfs.core/t", "abfss://files@account.dfs.core"),
        ("memory://bucket/t", "memory://bucket/t", "memory://bucket"),
    ],
)
def test_every_spelling_of_an_object_store_uri_is_one(text, uri, store):
    location = DatasetLocation.at(canonical(text))
    assert (location.uri, location.is_local, location.store) == (uri, False, store)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("file:", "cannot be the path"),
        ("file://", "cannot be the path"),
        ("file://localhost", "cannot be the path"),
        ("file://server/share", "server"),
        ("/data/a\0b", "cannot be the path"),
        ("file:///data/a%00b", "cannot be the path"),
        ("file:///data/blank%20", "cannot be the path"),
        ("file:///data/%FF", "not UTF-8"),
        ("/data/what?/t.lance", "cannot be the path"),
        ("s3://bucket/what?/t.lance", "cannot be the URI"),
        ("s3:///t.lance", "names no bucket"),
        ("s3://", "names no bucket"),
        ("s3://my bucket/t", "names no bucket"),
        ("gs://[bucket/t", "names no bucket"),
        ("s3:/bucket/t", "two slashes"),
        ("S3A:/bucket/t", "two slashes"),
        ("s3://bucket/a/../b", "path segment"),
        ("s3://bucket/./b", "path segment"),
        ("s3://bucket/a//b", "path segment"),
        ("s3://bucket//b", "path segment"),
        ("s3://bucket/a/%2e%2E/b", "path segment"),
        ("s3://bucket/..%2fb", "path segment"),
        ("s3://bucket/%FF", "not UTF-8"),
    ],
)
def test_a_uri_that_means_nothing_or_two_things_is_refused(text, word):
    with pytest.raises(InvalidOption, match=word):
        canonical(text)


@pytest.mark.parametrize("uri", ["s3://KEY:{}@bucket/t", "s3a://{}@bucket/t", "gs://u:{}@bucket/t", "S3://a:{}@b/./x"])
def test_credentials_in_a_uri_are_refused_without_repeating_them(uri):
    with pytest.raises(InvalidOption, match="Credentials") as caught:
        canonical(uri.format(SECRET))
    assert SECRET not in str(caught.value) + repr(caught.value)


@given(
    st.sampled_from(["", "s3://", "s3a://", "gs://b", "s3://b/", "file:", "file:///", "/", "x/"]),
    st.text("ab/. %2057Ff?:@#\n") | st.text(),
)
def test_a_canonical_uri_is_its_own_canonical_uri(start, rest):
    try:
        uri = canonical(start + rest)
    except InvalidOption:
        return
    assert canonical(uri) == uri


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0?"), min_size=1))
def test_all_spellings_of_a_local_path_agree(name):
    from urllib.parse import quote

    try:
        uri = canonical(f"/d/{name}/t")
    except InvalidOption:
        return
    assert canonical("file://" + quote(uri)) == canonical("file:" + quote(uri)) == uri


def test_no_way_of_printing_a_location_shows_a_storage_option():
    location = DatasetLocation.at("s3://bucket/t", {"aws_secret_access_key": SECRET, "aws_access_key_id": "AKIA123"})
    shown = f"{location} {location!r} {location!s} {[location]} {location:}" + "{}".format(location) + "%s" % location  # noqa: UP031, UP032
    assert SECRET not in shown
    assert "AKIA123" not in shown
    assert "s3://bucket/t" in shown
    assert "2 hidden" in shown


def test_a_location_is_a_value():
    one = DatasetLocation.at("s3://bucket/t", {"b": "2", "a": "1"})
    same = DatasetLocation.at("s3://bucket/t", {"a": "1", "b": "2"})
    assert one == same == pickle.loads(pickle.dumps(one)) == copy.deepcopy(one)
    assert len({one, same}) == 1
    assert one != DatasetLocation.at("s3://bucket/t", {"a": "1"})
    assert one.storage_options == {"a": "1", "b": "2"}
    one.storage_options["c"] = "3"
    assert "c" not in one.storage_options


@pytest.mark.parametrize(
    ("uri", "branch", "expected"),
    [
        ("/d/t", None, "/d/t"),
        ("/d/t", "exp/delays", "/d/t/tree/exp/delays"),
        ("/d/t", "é", "/d/t/tree/é"),
        ("s3://b/t", None, "s3://b/t"),
        ("s3://b/t", "exp/delays", "s3://b/t/tree/exp/delays"),
        ("s3://b/t%20u", "é", "s3://b/t%20u/tree/é"),
    ],
)
def test_a_branch_lives_below_tree(uri, branch, expected):
    assert DatasetLocation.at(uri).branch_uri(branch) == expected


@pytest.mark.parametrize(
    ("text", "scheme", "instead"),
    [
        ("dbfs:/x/a.lance", "dbfs", "write /dbfs/x/a.lance."),
        ("dbfs:///x/a.lance", "dbfs", "write /dbfs/x/a.lance."),
        ("DBFS:/x", "DBFS", "write /dbfs/x."),
        ("hdfs:///a.lance", "hdfs", "HDFS does not work"),
        ("hdfs://name:8020/a.lance", "hdfs", "HDFS does not work"),
        ("viewfs:/a", "viewfs", "HDFS does not work"),
        ("wasbs://box@account/t", "wasbs", "abfss://container@account"),
        ("gcs://bucket/t", "gcs", "gs://bucket/path"),
        ("http://host/t.lance", "http", "one of these places"),
        ("oss:/bucket/t", "oss", "one of these places"),
        (" s3x://bucket/t", "s3x", "one of these places"),
    ],
)
@pytest.mark.parametrize("check", [check_scheme, is_uri])
def test_a_scheme_that_is_not_opened_is_refused_with_those_that_are_and_what_to_do(text, scheme, instead, check):
    with pytest.raises(InvalidOption) as caught:
        check(text)
    assert caught.value.message == (
        f"Datasets are opened at local (or mounted) paths, s3://, gs://, az:// and abfss://, not at {scheme}:."
    )
    assert instead in caught.value.hint


@pytest.mark.parametrize("hint", ["/dbfs/x", "gs://bucket/path", "abfss://container@account.dfs.core.windows.net/path"])
def test_what_a_hint_says_to_write_is_not_refused_in_its_turn(hint):
    check_scheme(hint)


def test_a_refused_scheme_does_not_show_a_password():
    for text in (f"hdfs://me:{SECRET}@host/t", f"dbfs://me:{SECRET}@host/t"):
        with pytest.raises(InvalidOption) as caught:
            check_scheme(text)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["t.lance", "/t", "file:/t", "FILE:///t", "s3://b/t", "s3a://b/t", "S3N://b", "gs://b", "az://b", "abfss://b@a/t"],
)
def test_schemes_that_are_opened_are_not_refused(text):
    check_scheme(text)


@pytest.mark.parametrize("text", ["", "2024:01", "a:b/c", "dir/dbfs:/x", "c:/data", "./dbfs:/x"])
def test_a_plain_path_with_a_colon_is_not_refused(text):
    check_scheme(text)


@pytest.mark.parametrize(
    ("text", "relative"),
    [
        ("t.lance", True),
        ("./t.lance", True),
        ("../t.lance", True),
        ("~/t.lance", True),
        ("lake", True),
        (" lake ", True),
        ("file:t.lance", True),
        ("a:b", True),
        ("", False),
        ("/data/t.lance", False),
        (" /data/t.lance", False),
        ("file:/data/t", False),
        ("file:///data/t", False),
        ("file://localhost/data/t", False),
        ("s3://bucket/t", False),
        ("memory://bucket/t", False),
    ],
)
def test_a_path_is_relative_where_the_directory_of_a_process_decides(text, relative):
    assert is_relative(text) is relative


def test_a_relative_path_is_refused_with_the_absolute_one():
    known = refused_relative("t.lance", "/home/me/t.lance")
    assert "'t.lance' is a relative path" in known.message
    assert "'/home/me/t.lance'" in known.hint
    assert "os.path.abspath('t.lance')" in refused_relative("file:t.lance").hint
