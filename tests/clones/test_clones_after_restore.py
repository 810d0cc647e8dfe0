"""Restore and clones on local disk: what they make, what they leave alone, what they refuse."""

import lance
import pytest
from support.clones import name_of
from support.local_datasets import contents, ids, make_dataset, numbers, pin, rows, write, written_since
from support.shaped_datasets import PAYLOADS, blobs, branch_of_branch, stable_ids_indexed

from lance_spark.clones.clone import deep_clone, shallow_clone
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import create_branch
from lance_spark.storage import datasets
from lance_spark.storage.datasets import locate

CLONES = pytest.mark.parametrize("clone", [shallow_clone, deep_clone], ids=lambda action: action.__name__)


def test_restoring_adds_a_version_and_loses_none(uri):
    make_dataset(uri, numbers(1), numbers(1, 1), numbers(1, 2))
    restored = restore(locate(uri), pin(uri, version=2), LocalRunner())
    assert (restored.branch, restored.version) == (None, 4)
    assert [ids(uri, version=version) for version in (1, 2, 3, 4)] == [[0], [0, 1], [0, 1, 2], [0, 1]]
    assert lance.dataset(uri).to_table()["id"].to_pylist() == ids(uri) == [0, 1]


def test_restoring_on_a_branch_touches_that_branch_only(uri):
    make_dataset(uri)
    create_branch(locate(uri), "a/b", RefSpec())
    write(uri, numbers(1, 9), branch="a/b")
    before = contents(uri)
    assert restore(locate(uri), pin(uri, branch="a/b", version=1), LocalRunner()).version == 3
    assert all(path.startswith("tree/a/b/") for path in written_since(before, uri))
    assert (ids(uri, branch="a/b"), ids(uri, branch="a/b", version=2)) == ([0, 1, 2], [0, 1, 2, 9])


@pytest.mark.parametrize(("version", "error"), [(2, Refused), (3, NotFound)])
def test_restoring_the_newest_or_a_missing_version_changes_nothing(uri, version, error):
    make_dataset(uri, numbers(1), numbers(1))
    before = contents(uri)
    with pytest.raises(error):
        restore(locate(uri), PinnedVersion(None, version), LocalRunner())
    assert contents(uri) == before


def test_a_version_opened_for_reading_stays_what_it_was_when_it_is_restored(uri):
    make_dataset(uri, numbers(1), numbers(1, 1))
    pinned = pin(uri, version=1)
    handle = datasets.open_pinned(locate(uri), pinned)
    restore(locate(uri), pinned, LocalRunner())
    assert (handle.version, ids(uri, version=1), ids(uri)) == (1, [0], [0])


@CLONES
@pytest.mark.parametrize("shape", [branch_of_branch, stable_ids_indexed], ids=lambda shape: shape.__name__)
def test_a_clone_has_the_rows_of_the_version_cloned_and_leaves_its_source_alone(uri, tmp_path, clone, shape):
    dataset = shape(uri)
    expected = dataset.to_table().to_pylist()
    ref = {"branch": "a/b"} if "/tree/" in dataset.uri else {}
    before = contents(uri)
    target = str(tmp_path / "clone.lance")
    clone(locate(uri), pin(uri, **ref), locate(target))
    assert rows(target) == lance.dataset(target).to_table().to_pylist() == expected
    assert rows(target, filter="id = 7") == [row for row in expected if row["id"] == 7]
    lance.dataset(target).delete("id > 5")
    names = [name_of(locate(target))] if clone is shallow_clone else []
    note = {f"{place}/{name}.json" for place in ("_clones", "_refs/tags") for name in names}
    after = contents(uri)
    assert note <= after.keys()
    assert {path: content for path, content in after.items() if path not in note} == before
    assert rows(uri, **ref) == expected
    owned = [path for path in contents(target) if path.startswith("data/")]
    assert bool(owned) == (clone is deep_clone)


@CLONES
def test_blobs_can_be_read_from_a_clone(uri, tmp_path, clone):
    blobs(uri, "2.2")
    target = str(tmp_path / "clone.lance")
    clone(locate(uri), pin(uri), locate(target))
    assert [row["payload"] for row in rows(target, blob_handling="bytes")] == PAYLOADS[1:] * 2


@CLONES
def test_an_old_version_is_cloned_and_written_to_on_its_own(uri, tmp_path, clone):
    make_dataset(uri, numbers(2), numbers(2, 2))
    target = str(tmp_path / "clone.lance")
    clone(locate(uri), pin(uri, version=1), locate(target))
    write(target, numbers(1, 70))
    create_branch(locate(target), "b", RefSpec())
    write(target, numbers(1, 80), branch="b")
    assert (ids(target), ids(target, branch="b"), ids(uri)) == ([0, 1, 70], [0, 1, 70, 80], [0, 1, 2, 3])


@CLONES
def test_a_clone_never_lands_on_a_dataset(uri, tmp_path, clone):
    make_dataset(uri)
    make_dataset(str(tmp_path / "taken.lance"), numbers(1, 50))
    before = contents(tmp_path)
    for target in (uri, str(tmp_path / "taken.lance")):
        with pytest.raises(AlreadyExists, match="Choose another target"):
            clone(locate(uri), pin(uri), locate(target))
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("source", "target"), [(None, "s3://bucket/t"), ("s3://one/t", "s3://two/t")])
def test_a_shallow_clone_to_another_store_is_refused_before_anything_is_written_or_asked(uri, tmp_path, source, target):
    make_dataset(uri)
    before = contents(tmp_path)
    # An address where nobody listens: any request would be a StorageFailure.
    nowhere = {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "region": "us-east-1"}
    with pytest.raises(Refused, match="cannot leave its store"):
        shallow_clone(locate(source or uri, nowhere), PinnedVersion(None, 1), locate(target, nowhere))
    assert contents(tmp_path) == before
