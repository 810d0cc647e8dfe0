"""Clones of datasets of any shape: everything that can be read at the source can be read in the clone."""

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents
from support.merge_datasets import add, head, table
from support.remote_datasets import (
    WAYS,
    assert_all_sound,
    assert_follows,
    assert_same,
    begun,
    branch_off,
    fetched,
    ids_of,
    made_clone,
    merged,
    own_branches,
    pulled,
    pushed,
    read,
)
from support.shaped_datasets import SHAPES, blobs, people

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError
from lance_spark.storage.datasets import find_latest, locate

pytestmark = [pytest.mark.parametrize("way", WAYS), pytest.mark.when(day=0.5)]


@pytest.fixture
def source(tmp_path):
    return str(tmp_path / "source.lance")


@pytest.fixture
def target(tmp_path):
    return str(tmp_path / "target.lance")


@pytest.mark.parametrize("stable", [False, True])
def test_a_clone_has_every_branch_of_the_source(source, target, way, stable):
    begun(source, stable)
    result = made_clone(source, target, way)
    assert_same(target, None, source, None)
    assert_follows(target, source)
    assert own_branches(target) == [None]
    assert (result.branch, result.rows, result.files, result.deep) == ("main", 28, 3, way == "deep")
    assert {found.branch for found in result.fetched.branches} == {"main", "exp", "exp/deep"}


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_clone_of_any_shape_reads_as_the_source_does(source, target, way, shape):
    shape(source)
    if (shape.__name__, way) == ("many_bases", "deep"):
        # pylance 14.0.2 looks for the files of every place in a directory data/.
        with pytest.raises(LanceSparkError):
            made_clone(source, target, way)
        assert find_latest(locate(target), None) is None
        return
    made_clone(source, target, way)
    assert_same(target, None, source, None)
    assert_follows(target, source)
    new = head(source).to_table(limit=3) if head(source).count_rows() else people(3)
    lance.write_dataset(new, target, mode="append")
    assert pushed(target, source).version is not None
    assert_same(target, None, source, None)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_stay_readable_in_a_clone_and_go_with_a_push(source, target, way, version):
    blobs(source, version)
    branch_off(source, "exp")
    expected = payloads(source)
    made_clone(source, target, way)
    assert payloads(target) == payloads(target, "origin/main") == payloads(target, "origin/exp") == expected
    more = [b"inline", b"r" * 100_000, b"s" * 4_200_000]
    values = lance.blob_array(more) if version == "2.2" else pa.array(more, pa.large_binary())
    lance.write_dataset(
        pa.table({"id": range(3), "payload": values}, schema=head(source).schema), target, mode="append"
    )
    pushed(target, source)
    shutil.rmtree(target)
    assert payloads(source) == [*expected, *more]


def payloads(uri, branch=None):
    """All blobs, in the order of the rows. By take_blobs() pylance 14.0.2 does not find those of older formats."""
    dataset = head(uri, branch)
    if dataset.data_storage_version != "2.2":
        return dataset.to_table(blob_handling="all_binary")["payload"].to_pylist()
    found = dataset.take_blobs("payload", indices=list(range(dataset.count_rows())))
    return [None if blob is None else blob.readall() for blob in found]


def test_a_clone_begins_at_the_version_that_was_asked_for(source, target, way):
    """Main is the source's main; of a branch it has the version named, and a local branch to work on."""
    begun(source)
    add(source, 200, 201, "exp")
    result = made_clone(source, target, way, PinnedVersion("exp", 5))
    assert (result.branch, result.source_version) == ("exp", "exp@5")
    assert read(target, "exp") == read(target, "origin/exp") == read(source, "exp", 5)
    assert read(target) == read(source)
    assert set(own_branches(target)) == {None, "exp"}
    add(target, 300, 301, "exp")
    fetched(target, source)
    assert_follows(target, source)
    merged(target, "origin/exp", "exp")
    assert ids_of(target, "exp") == [*ids_of(source, "exp"), 300]
    pushed(target, source, "exp")
    assert_same(target, "exp", source, "exp")


def test_a_clone_of_an_old_version_can_be_brought_up_to_date(source, target, way):
    begun(source)
    lance.dataset(source).tags.create("old", 4)
    made_clone(source, target, way, PinnedVersion(None, 4))
    assert read(target) == read(target, "origin/main") == read(source, version=4)
    assert_same(target, "origin/exp", source, "exp")
    add(target, 300, 301)
    pulled(target, source)
    assert ids_of(target) == [*ids_of(source), 300]
    merged(target, "origin/exp")
    assert ids_of(target) == sorted([*ids_of(source), 100, 101, 102, 300])


def test_a_single_branch_comes_with_what_it_was_made_from(source, target, way):
    begun(source)
    made_clone(source, target, way, PinnedVersion("exp", 5), single_branch=True)
    assert set(lance.dataset(target).branches.list()) == {"exp", "origin/main", "origin/exp"}
    fetched(target, source)
    assert_follows(target, source)
    assert_same(target, "origin/exp/deep", source, "exp/deep")


def test_a_dry_run_tells_and_writes_nothing(source, target, way):
    begun(source)
    before = contents(source)
    result = made_clone(source, target, way, dry_run=True)
    assert (result.rows, result.files, result.version, result.dry_run) == (28, 3, None, True)
    assert contents(source) == before
    assert not Path(target).exists()
    json.dumps(result.as_record())


def test_a_dataset_that_is_no_clone_of_it_is_left_alone(source, target, way):
    begun(source)
    begun(target)
    before = contents(target)
    with pytest.raises(AlreadyExists):
        made_clone(source, target, way)
    with pytest.raises(AlreadyExists):
        made_clone(source, source, way)
    assert contents(target) == before


def test_cloning_again_changes_nothing(source, target, way):
    begun(source)
    made_clone(source, target, way)
    add(target, 50, 51)
    before = contents(target)
    again = made_clone(source, target, way)
    assert again.rows == 28
    assert contents(target) == before


@pytest.mark.parametrize("stable", [False, True])
def test_a_clone_of_a_clone_follows_the_clone(source, target, way, stable):
    begun(source, stable)
    made_clone(source, target, way)
    add(target, 300, 303)
    branch_off(target, "mine")
    head(target, "mine").delete("id = 2")
    add(target, 700, 701, "mine")
    second = f"{target}-second"
    made_clone(target, second, way)
    assert set(lance.dataset(second).branches.list()) == {"origin/main", "origin/mine"}
    assert_follows(second, target)
    head(second).update({"v": "1"}, "id = 300")
    merged(second, "origin/mine")
    pushed(second, target)
    assert_same(second, None, target, None)
    pushed(target, source)
    assert_same(target, None, source, None)
    assert ids_of(source) == [*(n for n in range(30) if n not in (2, 4, 15)), *range(300, 303), 700]
    assert_all_sound(source, target, second)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "legacy"])
def test_every_format_of_data_files_can_be_cloned(source, target, way, version):
    begun(source, data_storage_version=version)
    made_clone(source, target, way)
    assert head(target).data_storage_version == head(source).data_storage_version
    add(target, 300, 303)
    head(target).update({"v": "1"}, "id = 300")
    pushed(target, source)
    add(source, 400, 401)
    fetched(target, source)
    merged(target, "origin/main")
    assert_same(target, None, source, None)


def test_an_empty_dataset_can_be_cloned(source, target, way):
    lance.write_dataset(table(0, 0), source)
    made_clone(source, target, way)
    assert_follows(target, source)
    add(source, 0, 3)
    branch_off(source, "exp")
    pulled(target, source)
    fetched(target, source)
    assert_follows(target, source)
    add(target, 3, 6)
    pushed(target, source)
    assert ids_of(source) == ids_of(target) == list(range(6))


def test_a_key_is_still_declared_in_a_clone(source, target, way):
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, pa.field("v", pa.int64())], metadata={"owner": "us"})
    lance.write_dataset(pa.table({"id": [1, 2], "v": [1, 2]}, schema=schema), source)
    made_clone(source, target, way)
    assert head(target).schema.equals(head(source).schema, check_metadata=True)
    for uri in (source, target):
        lance.write_dataset(pa.table({"id": [3], "v": [3]}, schema=schema), uri, mode="append")
    with pytest.raises(Conflict, match="same key"):
        pulled(target, source)
