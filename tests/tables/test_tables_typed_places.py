"""What users type for a place: paths with a ref in them, relative paths in a server, schemes that are not opened."""

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark.catalog.lookup import open_catalog
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.spark.table import LanceTable
from lance_spark.storage.datasets import locate_typed
from lance_spark.storage.resolving import check_target, dataset_at, read_path
from lance_spark.streams.query_records import read_query_id
from lance_spark.streams.sink import plan_stream
from lance_spark.streams.source import stream_read
from lance_spark.tables.read import pin_read
from lance_spark.tables.write import plan_write

FRAME = pa.schema([("id", pa.int64())])


@pytest.fixture
def dataset(uri):
    """Version 1 and 2 on main, version 3 on branch exp/a, tag v1."""
    make_dataset(uri, numbers(5), numbers(5, 5))
    table = LanceTable.for_path(uri)
    table.tags.create("v1", version=1)
    table.branches.create("exp/a")
    lance.write_dataset(numbers(1, 10), lance.dataset(uri).checkout_version(("exp/a", None)), mode="append")
    return uri


def pin(**options):
    read = pin_read(options)
    return read.pin.branch, read.pin.version


def test_a_read_takes_a_ref_behind_the_path_as_sql_does(dataset):
    assert pin(path=f"{dataset}@exp/a") == ("exp/a", 3)
    assert pin(path=f"{dataset}@exp/a", version="2") == ("exp/a", 2)
    assert pin(path=f"{dataset}@exp/a@2") == ("exp/a", 2)
    assert pin(path=f"{dataset}@v1") == (None, 1)
    assert pin(path=f"{dataset}@1") == (None, 1)
    assert pin(path=f"{dataset}@main~1") == (None, 1)
    assert pin(path=f"file://{dataset}@exp/a") == ("exp/a", 3)


def test_a_ref_that_is_not_there_is_not_read_from_elsewhere(dataset):
    with pytest.raises(NotFound, match="There is no branch or tag 'nope'"):
        pin(path=f"{dataset}@nope")
    with pytest.raises(NotFound, match="There is no Lance dataset at"):
        pin(path=f"{dataset}-other@exp/a")


def test_a_ref_in_the_path_and_another_one_in_the_options_are_refused(dataset):
    for option in ({"branch": "exp/a"}, {"branch": "main"}, {"tag": "v1"}):
        with pytest.raises(InvalidOption, match="names a ref behind its '@', and so does option"):
            pin(path=f"{dataset}@exp/a", **option)
    with pytest.raises(InvalidOption, match="names a ref behind its '@', and so does option 'branch'"):
        plan_write({"path": f"{dataset}@exp/a", "branch": "exp/a"}, FRAME, False)
    with pytest.raises(InvalidOption, match="already chooses a version"):
        pin(path=f"{dataset}@exp/a@2", version="3")


def test_a_write_goes_to_the_branch_behind_the_path(dataset):
    plan = plan_write({"path": f"{dataset}@exp/a"}, FRAME, False)
    assert (plan.location.uri, plan.options.branch, plan.mode) == (dataset, "exp/a", "append")
    assert plan_write({"path": f"{dataset}@main"}, FRAME, False).options.branch is None
    stream = plan_stream({"path": f"{dataset}@exp/a", "query_id": "q"}, FRAME, False)
    assert (stream.job.plan.location.uri, stream.job.plan.options.branch) == (dataset, "exp/a")


def test_a_write_to_a_ref_that_never_changes_or_is_not_there_is_refused_and_makes_nothing(dataset):
    for ref, words in (("v1", "Cannot write to a tag"), ("1", "Cannot write to a version")):
        with pytest.raises(Refused, match=words):
            plan_write({"path": f"{dataset}@{ref}"}, FRAME, False)
    with pytest.raises(NotFound, match="There is no branch or tag 'nope'"):
        plan_write({"path": f"{dataset}@nope"}, FRAME, False)
    assert [each.name for each in Path(dataset).parent.iterdir()] == [Path(dataset).name]


def test_a_new_dataset_may_have_the_mark_in_its_name_and_handles_stay_at_it(dataset, tmp_path):
    plan = plan_write({"path": f"{tmp_path}/me@home/t.lance"}, FRAME, False)
    assert (plan.location.uri, plan.mode) == (f"{tmp_path}/me@home/t.lance", "create")
    make_dataset(f"{dataset}@exp/a", numbers(1))
    with pytest.raises(Refused, match="can mean more than one table"):
        pin(path=f"{dataset}@exp/a")
    assert pin(path=f"{dataset}@exp/a", branch="main") == (None, 1)
    assert pin_read({"path": f"{dataset}@exp/a", "branch": "main"}).location.uri == f"{dataset}@exp/a"
    plan = plan_write({"path": f"{dataset}@exp/a", "branch": "main"}, FRAME, False)
    assert (plan.location.uri, plan.options.branch) == (f"{dataset}@exp/a", None)


def test_a_stream_follows_the_branch_behind_the_path_and_no_version(dataset):
    assert stream_read({"path": f"{dataset}@exp/a"}).read.pin.branch == "exp/a"
    for ref in ("v1", "1", "exp/a@2"):
        with pytest.raises(InvalidOption, match="names a version after its '@', but a stream does not stop"):
            stream_read({"path": f"{dataset}@{ref}"})


SERVER = "SPARK_JOB_ARTIFACT_UUID"
IN_A_SERVER = "is a relative path, and on Spark Connect it would lead to a temporary directory of the server"
TAKING_A_PATH = {
    "read": lambda path: pin_read({"path": path}),
    "read with a branch": lambda path: pin_read({"path": path, "branch": "exp"}),
    "read at a ref": lambda path: pin_read({"path": f"{path}@exp"}),
    "read of a name": lambda path: pin_read({"catalog": path, "path": "ns.t"}),
    "write": lambda path: plan_write({"path": path}, FRAME, False),
    "write at a ref": lambda path: plan_write({"path": f"{path}@exp"}, FRAME, False),
    "write of a name": lambda path: plan_write({"catalog": path, "path": "ns.t"}, FRAME, False),
    "stream": lambda path: plan_stream({"path": path, "query_id": "q"}, FRAME, False),
    "stream of a name": lambda path: plan_stream({"catalog": path, "path": "ns.t", "query_id": "q"}, FRAME, False),
    "stream out": lambda path: stream_read({"path": path}),
    "dataset": lambda path: dataset_at(path, None),
    "place": locate_typed,
    "catalog": open_catalog,
    "name in SQL": lambda path: read_path(f"{path}@exp"),
    "handle": lambda path: LanceTable.for_path(path),
}


@pytest.mark.parametrize("verb", [*TAKING_A_PATH])
@pytest.mark.parametrize("path", ["rel.lance", "./rel.lance", "file:rel.lance"])
def test_a_process_of_a_server_takes_no_relative_path(verb, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SERVER, "88900b3e-adff-47b2-9e3a-b8515f1507eb")
    with pytest.raises(InvalidOption, match=IN_A_SERVER) as caught:
        TAKING_A_PATH[verb](path)
    assert "os.path.abspath('" in caught.value.hint
    assert os.listdir() == []


def test_the_checkpoint_of_a_stream_is_not_looked_for_in_a_server(monkeypatch):
    monkeypatch.setenv(SERVER, "88900b3e-adff-47b2-9e3a-b8515f1507eb")
    with pytest.raises(InvalidOption, match=IN_A_SERVER) as caught:
        read_query_id("checkpoints/orders", {})
    assert "option('query_id', 'orders')" in caught.value.hint


@pytest.mark.parametrize("session", ["default", None])
def test_a_classic_session_and_a_process_without_spark_take_relative_paths(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SERVER, raising=False)
    if session is not None:
        monkeypatch.setenv(SERVER, session)
    lance.write_dataset(numbers(3), "rel.lance")
    assert pin(path="rel.lance") == (None, 1)
    assert LanceTable.for_path("rel.lance").count_rows() == 3
    assert open_catalog("rel").uri == f"{Path.cwd()}/rel"
    check_target({"path": "rel.lance"})


def test_absolute_paths_are_taken_in_a_server(dataset, monkeypatch):
    monkeypatch.setenv(SERVER, "88900b3e-adff-47b2-9e3a-b8515f1507eb")
    assert pin(path=dataset) == (None, 2)
    assert pin(path=f"file://{dataset}@exp/a") == ("exp/a", 3)
    check_target({"path": "ns.t", "Catalog": "s3://bucket/lake"})


@pytest.mark.parametrize("verb", [*TAKING_A_PATH])
@pytest.mark.parametrize("path", ["dbfs:/x/a.lance", "hdfs:///a.lance", "hdfs://name:8020/a.lance"])
def test_a_scheme_that_is_not_opened_makes_no_directory(verb, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match="Datasets are opened at local"):
        TAKING_A_PATH[verb](path)
    assert os.listdir() == []


def test_a_clone_that_a_cleanup_is_told_of_is_not_looked_for_below_here(dataset):
    with pytest.raises(InvalidOption, match="Datasets are opened at local"):
        LanceTable.for_path(dataset).cleanup(CleanupPolicy(clones=("dbfs:/clone",)))
