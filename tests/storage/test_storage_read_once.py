"""An action asks for a version once, and not for refs that it has no use for: on S3 each is a request."""

import shutil
from collections import Counter

import lance
import pytest
from support.local_datasets import make_dataset, numbers
from support.merge_datasets import add, forked, run
from support.remote_datasets import begun, fetched, made_clone, pushed

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import NotFound
from lance_spark.storage import files, refs, versions
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.storage.versions import VersionCache

MANY = 12
"""Versions that are not asked for by their numbers any more."""


@pytest.fixture
def asked(monkeypatch):
    """What was read and listed, by URI and path."""
    found = Counter()

    def counted(real):
        def counting(location, path, *more):
            found[location.uri, path] += 1
            return real(location, path, *more)

        return counting

    for name in ("read", "list_names"):
        monkeypatch.setattr(files, name, counted(getattr(files, name)))
    return found


def test_a_merge_reads_no_version_twice_and_no_tags(tmp_path, asked):
    uri = forked(str(tmp_path / "t.lance"))
    lance.dataset(uri).tags.create("v1", 1)
    add(uri, 500, 503)
    add(uri, 600, 603, "exp")
    asked.clear()
    assert run(uri).version
    twice = {path for (_, path), times in asked.items() if times > 1 and "_versions" in path}
    assert twice == set()
    assert not [path for _, path in asked if "_refs/tags" in path]


def test_a_fetch_reads_no_version_of_the_remote_twice_and_only_its_own_tags(tmp_path, asked):
    source, local = begun(str(tmp_path / "source.lance")), str(tmp_path / "local.lance")
    lance.dataset(source).tags.create("v1", 1)
    made_clone(source, local)
    add(source, 500, 503)
    add(source, 600, 603)
    asked.clear()
    fetched(local, source)
    there = {path: times for (uri, path), times in asked.items() if uri == source}
    assert {path for path, times in there.items() if times > 1 and path.endswith(".manifest")} == set()
    assert not [path for path in there if path.startswith("_refs/tags/")]
    asked.clear()
    fetched(local, source)
    assert not [path for uri, path in asked if uri == source and "_refs/tags/" in path]


def test_a_push_reads_no_tags_and_no_other_branchs_versions_at_the_remote(tmp_path, asked):
    source, local = begun(str(tmp_path / "source.lance")), str(tmp_path / "local.lance")
    lance.dataset(source).create_branch("other")
    add(source, 400, 403, "other")
    made_clone(source, local)
    add(local, 500, 503)
    asked.clear()
    assert pushed(local, source).version
    assert not [path for uri, path in asked if uri == source and path.startswith(("_refs/tags/", "tree/"))]


@pytest.mark.parametrize("count", [3, MANY])
def test_it_finds_what_chains_find(tmp_path, count):
    uri = str(tmp_path / "t.lance")
    make_dataset(uri, *(numbers(2, start) for start in range(count)))
    lance.dataset(uri).cleanup_old_versions(retain_versions=2)
    add_to(uri)
    location, reader = locate(uri), VersionCache()
    known = versions.version_numbers(location, None)
    for _ in range(2):
        found = reader.transactions(location, None, reader.versions(location, None, 0, known[-1]))
        assert found == versions.read_transactions(location, None, known)
        assert list(found) == known
    pin = PinnedVersion(None, known[-1])
    assert list(reader.contents(location, pin).fragments()) == list(versions.read_contents(location, pin).fragments())
    assert not reader.has(location, PinnedVersion(None, 1))
    with pytest.raises(NotFound):
        reader.contents(location, PinnedVersion(None, 1))


@pytest.mark.parametrize("count", [3, MANY])
def test_versions_that_came_later_are_found(tmp_path, count):
    uri = str(tmp_path / "t.lance")
    make_dataset(uri, *(numbers(2, start) for start in range(count)))
    location, reader = locate(uri), VersionCache()
    assert list(reader.versions(location, None, 0, count)) == list(range(1, count + 1))
    add_to(uri)
    assert list(reader.versions(location, None, 0, count + 1)) == list(range(1, count + 2))
    assert list(reader.versions(location, None, count, count + 1)) == [count + 1]


def test_a_dataset_that_was_made_anew_is_read_anew(tmp_path):
    uri = str(tmp_path / "t.lance")
    make_dataset(uri, numbers(2))
    location, reader = locate(uri), VersionCache()
    assert sum(found.rows for found in reader.contents(location, pin_latest(location, None)).fragments()) == 2
    shutil.rmtree(uri)
    make_dataset(uri, numbers(5))
    assert sum(found.rows for found in reader.contents(location, pin_latest(location, None)).fragments()) == 5


def test_branches_are_read_without_tags(tmp_path):
    uri = forked(str(tmp_path / "t.lance"))
    lance.dataset(uri).tags.create("v1", 1)
    table = refs.read_branches(locate(uri))
    assert set(table.branches) == {"exp"}
    assert not table.tags
    assert refs.read_tags(locate(uri), ["v1", "v2"]).keys() == {"v1"}


def add_to(uri):
    lance.write_dataset(numbers(1), uri, mode="append")
