"""Bad input through the DataFrame API: our own class and message first, a way out, and nothing changed."""

import glob
import os
import shutil

import lance
import pyarrow as pa
import pytest
from support.frames import all_files, load, numbers, refused, save

from lance_spark.errors import (
    CorruptData,
    InvalidName,
    InvalidOption,
    NotFound,
    PermissionDenied,
    SchemaMismatch,
    StorageFailure,
)

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.1, newest=0.45)]


def on_one(*given):
    """Cases that are enough on the newest Spark: another one takes the same way through the older ones."""
    return [pytest.param(value, marks=pytest.mark.when(spark="newest")) for value in given]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("bad") / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2], "name": ["a", "b"], "v": [[1.0], None]}), uri)
    dataset = lance.write_dataset(pa.table({"id": [3], "name": ["c"], "v": [[2.0]]}), uri, mode="append")
    dataset.tags.create("v2013", 1)
    dataset.create_branch("exp/delays", 2)
    return uri


CASES = {
    "missing branch": ({"branch": "exp/delay"}, NotFound, ("'exp/delay'", "Did you mean 'exp/delays'?")),
    "missing tag": ({"tag": "v2012"}, NotFound, ("'v2012'", "Did you mean 'v2013'?")),
    "missing version": ({"version": 7}, NotFound, ("no version 7", "Nearest versions: 1, 2")),
    "missing version of a branch": ({"branch": "exp/delays", "version": 1}, NotFound, ("'exp/delays'", "version 1")),
    "before the first version": ({"asOf": "2001-01-01"}, NotFound, ("2001-01-01", "oldest version")),
    "tag and branch": ({"tag": "v2013", "branch": "exp/delays"}, InvalidOption, ("'tag'", "'branch'", "either")),
    "version and moment": ({"version": 1, "asOf": "2024-01-01"}, InvalidOption, ("'version'", "'asOf'", "one of")),
    "version given twice": ({"version": 1, "versionAsOf": 1}, InvalidOption, ("'version'", "twice")),
    "bad branch name": ({"branch": "a b"}, InvalidName, ("'a b'", "letters")),
    "bad tag name": ({"tag": "a/b"}, InvalidName, ("'a/b'", "no '/'")),
    "unknown option": ({"brnch": "x"}, InvalidOption, ("'brnch'", "Did you mean 'branch'?")),
    "option of a write": ({"create_branch": "true"}, InvalidOption, ("'create_branch'",)),
    "limit in words": ({"limit": "ten"}, InvalidOption, ("'limit'", "'ten'", "whole number")),
    "negative limit": ({"limit": -1}, InvalidOption, ("'limit'", "at least 0")),
    "version zero": ({"version": 0}, InvalidOption, ("'version'", "at least 1")),
    "bad moment": ({"asOf": "yesterday"}, InvalidOption, ("'asOf'", "ISO 8601")),
    "bad size": ({"split_size": "huge"}, InvalidOption, ("'split_size'", "128MiB")),
    "bad flag": ({"with_row_id": "si"}, InvalidOption, ("'with_row_id'", "true or false")),
    "bad blob handling": ({"blob_handling": "lazy"}, InvalidOption, ("'blob_handling'", "bytes or descriptions")),
    "unknown column": ({"columns": "id,nam"}, NotFound, ("'nam'", "Did you mean 'name'?")),
    "other case": ({"columns": "ID"}, NotFound, ("'ID'", "Did you mean 'id'?")),
    "field of a list": ({"columns": "v.x"}, SchemaMismatch, ("'v'", "read 'v' whole")),
    "half a column list": ({"columns": "id,"}, InvalidOption, ("'columns'", "comma-separated")),
    "predicate that does not parse": ({"filter": "id >"}, InvalidOption, ("id >",)),
    "predicate on an unknown column": ({"filter": "nope = 1"}, InvalidOption, ("nope",)),
    "predicate of a wrong type": ({"filter": "name + 1"}, InvalidOption, ("name",)),
    "column in double quotes": ({"filter": "\"name\" = 'a'"}, InvalidOption, ("double quotes", "`name`")),
    "empty predicate": ({"filter": " "}, InvalidOption, ("'filter'", "Leave it out")),
}
"""What was typed, the class of the error, and what its text must say."""


ON_EVERY_SPARK = ("missing branch", "tag and branch", "bad branch name", "field of a list")
"""One of each class."""


ON_ONE = ("missing version of a branch", "unknown option", "unknown column", "predicate on an unknown column")
OTHERS = tuple(name for name in CASES if name not in ON_EVERY_SPARK + ON_ONE)


@pytest.mark.when(night={"name": OTHERS})
@pytest.mark.parametrize("name", [*ON_EVERY_SPARK, *on_one(*ON_ONE), *OTHERS])
def test_a_bad_read_is_refused_before_any_task(spark, made, name):
    options, error, words = CASES[name]
    before = all_files(made)
    with refused(error, *words):
        load(spark, made, **options).collect()
    assert all_files(made) == before


@pytest.mark.when(oldest=1.0)
@pytest.mark.parametrize(
    "place", ["nowhere/t.lance", *on_one(".", "notes.txt")], ids=["missing", "plain directory", "file"]
)
def test_a_missing_dataset_is_not_found(spark, tmp_path, place):
    (tmp_path / "notes.txt").write_text("x")
    uri = str(tmp_path / place)
    with refused(NotFound, "There is no Lance dataset at", "Check the path"):
        load(spark, uri)
    assert sorted(os.listdir(tmp_path)) == ["notes.txt"]


def copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy.lance")


def damage(root, pattern, content=b"\0" * 40):
    (path,) = glob.glob(os.path.join(root, pattern))
    with open(path, "wb") as file:
        file.write(content)


@pytest.mark.when(day={"content": [b""]})
@pytest.mark.parametrize(
    "content", [*on_one(b""), b"\0" * 40, b"garbage that is long enough to hold a footer LANC"], ids=len
)
def test_a_corrupt_manifest_is_corrupt_and_not_missing(spark, made, tmp_path, content):
    root = copy(made, tmp_path)
    newest = min(os.listdir(root / "_versions"))
    damage(root, f"_versions/{newest}", content)
    before = all_files(root)
    with refused(CorruptData, "older version"):
        load(spark, root)
    with refused(CorruptData, "older version"):
        save(numbers(spark, 0, 1), root)
    assert all_files(root) == before
    assert load(spark, root, version=1, columns="id").count() == 2


@pytest.mark.when(oldest=1.0)
def test_a_corrupt_ref_file_is_named(spark, made, tmp_path):
    root = copy(made, tmp_path)
    damage(root, "_refs/tags/v2013.json", b"{")
    damage(root, "_refs/branches/exp%2Fdelays.json", b'{"parentVersion": "x"}')
    with refused(CorruptData, "tag 'v2013'", "Restore the file"):
        load(spark, root, tag="v2013")
    with refused(CorruptData, "branch 'exp/delays'", "Restore the file"):
        load(spark, root, branch="exp/delays")
    assert load(spark, root).count() == 3


def test_a_lost_data_file_fails_the_query(spark, made, tmp_path):
    root = copy(made, tmp_path)
    for path in glob.glob(os.path.join(root, "data", "*.lance")):
        os.remove(path)
    frame = load(spark, root)
    with refused(CorruptData, "data/"):
        frame.collect()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_forbidden_directory_is_denied_and_not_missing(spark, made, tmp_path):
    root = copy(made, tmp_path)
    os.chmod(root, 0)
    try:
        with refused(PermissionDenied, "denied"):
            load(spark, root)
    finally:
        os.chmod(root, 0o755)


def test_an_unreachable_store_is_not_a_missing_dataset(spark):
    options = {
        "storage.aws_endpoint": "http://127.0.0.1:9",
        "storage.allow_http": "true",
        "storage.aws_region": "us-east-1",
        "storage.aws_access_key_id": "someone",
        "storage.aws_secret_access_key": "very-secret-value",
        "storage.client_max_retries": "0",
    }
    with refused(StorageFailure, "could not be reached", "endpoint") as caught:
        load(spark, "s3://bucket/t.lance", **options)
    assert "very-secret-value" not in str(caught.value)
    with refused(StorageFailure, "could not be reached", "endpoint"):
        save(numbers(spark, 0, 1), "s3://bucket/t.lance", **options)


@pytest.mark.parametrize(
    "uri", ["s3:///t", *on_one("s3://key:secret@bucket/t", "s3://bucket/a/../t", "", "file://host/p")]
)
def test_a_uri_that_cannot_be_meant_is_refused(spark, uri):
    with refused(InvalidOption, "hint: "):
        load(spark, uri)


@pytest.mark.when(day={"name": ["a//b", "a b", "x/data"]})
@pytest.mark.parametrize("name", ["a//b", *on_one("a b", "x/data"), "/a", "a..b", "a.lock", "x/_refs"])
def test_a_branch_cannot_be_created_under_a_bad_name(spark, made, name):
    before = all_files(made)
    with refused(InvalidName, f"'{name}' is not a valid branch name"):
        save(numbers(spark, 0, 1), made, branch=name, create_branch=True)
    assert all_files(made) == before
