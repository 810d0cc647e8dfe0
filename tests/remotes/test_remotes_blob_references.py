"""Pushes and fetches of blobs that refer to objects below base paths, whose numbers differ or not on both sides."""

import lance
import pyarrow as pa
import pytest
from support.referring import SCHEMA, made_objects
from support.remote_datasets import origin

from lance_spark import LanceTable
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Refused
from lance_spark.remotes import push as pushing
from lance_spark.remotes.clone import CloneOptions, clone
from lance_spark.storage.datasets import locate, pin_latest

pytestmark = pytest.mark.when(spark="newest", day=0)


def refer(uri, directory, number):
    """Append a row whose blob refers to an object below a base path of that number."""
    lance.dataset(uri).add_bases([lance.DatasetBasePath(f"file://{directory}", "objects", id=number)])
    blob = lance.Blob.from_uri(f"file://{directory}/whole", position=2, size=3)
    lance.write_dataset(pa.table([[1], lance.blob_array([blob])], SCHEMA), uri, mode="append")


def blobs(uri):
    return lance.dataset(uri).to_table(blob_handling="all_binary")["payload"].to_pylist()


@pytest.fixture
def sides(tmp_path):
    """A dataset, its clone, and a directory of objects for each."""
    uri, copy = str(tmp_path / "origin.lance"), str(tmp_path / "clone.lance")
    lance.write_dataset(pa.table([[0], lance.blob_array([b"own"])], SCHEMA), uri, data_storage_version="2.2")
    clone(origin(uri), pin_latest(locate(uri), None), locate(copy), LocalRunner(1), CloneOptions(deep=True))
    return uri, copy, made_objects(tmp_path / "objects"), made_objects(tmp_path / "other")


def test_a_push_goes_where_the_base_path_has_the_same_number(sides):
    uri, copy, objects, _ = sides
    refer(copy, objects, 1)
    lance.dataset(uri).add_bases([lance.DatasetBasePath(f"file://{objects}", "objects", id=1)])
    remotes = LanceTable.for_path(copy).remotes
    with pytest.raises(Refused, match="not a fast-forward"):
        remotes.push()
    remotes.pull()
    assert remotes.push().version
    assert blobs(uri) == blobs(copy) == [b"own", b"234"]
    assert str(remotes.push()).startswith("Everything up-to-date") or blobs(uri) == [b"own", b"234"]


@pytest.mark.parametrize("other", [None, 1, 2])
def test_a_push_to_other_base_paths_is_refused_and_changes_nothing(sides, other):
    uri, copy, objects, elsewhere = sides
    refer(copy, objects, 1)
    if other is not None:
        place = elsewhere if other == 1 else objects
        lance.dataset(uri).add_bases([lance.DatasetBasePath(f"file://{place}", "objects", id=other)])
        LanceTable.for_path(copy).remotes.pull()
    before = lance.dataset(uri).version
    with pytest.raises(Refused, match=r"base path 1.*Nothing was changed"):
        LanceTable.for_path(copy).remotes.push()
    assert lance.dataset(uri).version == before
    assert blobs(uri) == [b"own"]


def test_a_fetch_gives_the_following_branch_the_base_paths_of_the_remote(sides):
    uri, copy, objects, _ = sides
    refer(uri, objects, 5)
    table = LanceTable.for_path(copy)
    table.remotes.fetch()
    assert blobs(locate(copy).branch_uri("origin/main")) == [b"own", b"234"]
    with pytest.raises(Refused, match="base path 5"):
        table.remotes.pull()
    lance.dataset(copy).add_bases([lance.DatasetBasePath(f"file://{objects}", "objects", id=5)])
    table.remotes.pull()
    assert blobs(copy) == [b"own", b"234"]


def test_what_refuses_the_fetch_after_a_push_does_not_say_that_nothing_changed(sides, monkeypatch):
    uri, copy, *_ = sides
    lance.write_dataset(pa.table([[2], lance.blob_array([b"new"])], SCHEMA), copy, mode="append")
    real = pushing.fetch

    def fetch(*given, **options):
        if len(blobs(uri)) == 2:
            raise Refused("The following branch cannot have it. Nothing was changed.")
        return real(*given, **options)

    monkeypatch.setattr(pushing, "fetch", fetch)
    told = str(LanceTable.for_path(copy).remotes.push())
    assert "could not be fetched from origin afterwards" in told
    assert "Nothing was changed" not in told
    assert blobs(uri) == [b"own", b"new"]
