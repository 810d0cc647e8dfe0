"""Blobs that are references to objects elsewhere: nothing that cleans up or copies touches the objects."""

import os

import lance
import pyarrow as pa
import pytest
from lance.blob import Blob, blob_array, blob_field

from lance_spark import CleanupPolicy, LanceTable

pytestmark = pytest.mark.when(spark="newest", day=0)


def test_objects_elsewhere_stay_and_copies_refer_to_them(tmp_path):
    elsewhere, uri = tmp_path / "elsewhere", str(tmp_path / "t.lance")
    elsewhere.mkdir()
    for name in ("x", "y"):
        (elsewhere / name).write_bytes(name.encode() * 100)
    whole, part = Blob.from_uri(f"file://{elsewhere}/x"), Blob.from_uri(f"file://{elsewhere}/y", position=10, size=5)
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("blob")])
    rows = pa.table({"id": [1, 2, 3], "blob": blob_array([whole, part, Blob.from_bytes(b"inline")])}, schema=schema)
    settings = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    lance.write_dataset(rows, uri, **settings)
    table = LanceTable.for_path(uri)
    lance.write_dataset(rows, lance.dataset(uri), mode="append", **settings)
    table.optimize(run_on="local")
    policy = CleanupPolicy(older_than="0s", commit_window="0s", delete_unverified=True)
    assert table.cleanup(policy, run_on="local").apply().exit_code == 0
    table.clone(str(tmp_path / "deep.lance"), "deep")
    assert sorted(os.listdir(elsewhere)) == ["x", "y"]
    for place in (uri, str(tmp_path / "deep.lance")):
        read = [blob.readall() for blob in lance.dataset(place).take_blobs("blob", indices=[0, 1, 2])]
        assert read == [b"x" * 100, b"y" * 5, b"inline"]
