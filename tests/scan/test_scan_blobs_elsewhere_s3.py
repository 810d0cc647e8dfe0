"""Blobs in a store that wants other credentials than the table's, which expire and are revoked in the middle."""

import lance
import pytest
from support import vending
from support.referring import mixed, refer

from lance_spark import LanceTable
from lance_spark.errors import NotFound, PermissionDenied

pytestmark = [pytest.mark.s3, pytest.mark.when(spark="newest")]


@pytest.fixture
def objects(client, bucket):
    for name in ("whole", "part"):
        client.put_object(Bucket=bucket, Key=f"else where/{name}", Body=b"0123456789")
    return f"s3://{bucket}/else where"


@pytest.fixture
def table(table, objects, storage):
    """The table's own store takes its keys; that of the objects takes only what the gate hands out."""
    blobs, values = mixed(objects)
    refer(table, blobs, storage_options=storage)
    return LanceTable.for_path(table, {**storage, "blobs.token_provider": vending.PROVIDER}), values, storage


def row_ids(table, storage):
    dataset = lance.dataset(table.location.uri, storage_options=storage)
    return dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()


def test_objects_are_read_by_their_own_keys_which_are_renewed(gate, table):
    handle, values, storage = table
    rows, blobs = row_ids(handle, storage), handle.blobs("payload")
    assert blobs.read(rows) == values
    handed_out = gate.handed_out
    gate.revoke()
    assert blobs.read_ranges([(rows[1], 1, 2), (rows[0], 8, 5)]) == [b"34", b"89"]
    gate.revoke()
    assert [file and file.read() for file in blobs.open(rows)] == values
    assert gate.handed_out == handed_out + 2
    gate.revoke()
    assert handle.fsck(deep=True, run_on="local").findings == ()


def test_what_is_gone_or_denied_there_is_said(gate, table, client, bucket):
    handle, values, storage = table
    rows, blobs = row_ids(handle, storage), handle.blobs("payload")
    client.delete_object(Bucket=bucket, Key="else where/whole")
    with pytest.raises(NotFound, match=r"else%20where/whole(.|\n)*gone"):
        blobs.read([rows[0]])
    assert blobs.read(rows[1:]) == values[1:]
    gate.seconds = -1.0
    gate.revoke()
    with pytest.raises(PermissionDenied) as denied:
        blobs.read([rows[1]])
    assert "very-secret" not in str(denied.value)


def test_frozen_sets_have_etags(gate, table, client, bucket):
    handle, values, _storage = table
    handle.frozen.create("s")
    read = list(handle.frozen.batches("s", columns=["id", "payload"]))
    assert {row["id"]: row["payload"] for batch in read for row in batch.to_pylist()} == dict(enumerate(values))
    client.put_object(Bucket=bucket, Key="else where/part", Body=b"9876543210")
    with pytest.raises(Exception, match=r"else%20where/part(.|\n)*changed since the set was frozen"):
        list(handle.frozen.batches("s", columns=["id", "payload"]))
