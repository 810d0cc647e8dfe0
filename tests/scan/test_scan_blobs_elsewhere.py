"""Blobs whose bytes are in objects elsewhere: whole, in ranges and as files, in this process and where it is sent."""

import io
import pickle

import lance
import pytest
from support.referring import made_objects, mixed, refer

from lance_spark import LanceTable
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.scan.blob_reads import Blobs
from lance_spark.scan.fragment_reads import Scan, ScanColumns, read_batches
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.storage.datasets import locate, pin_latest

OWN = {"blobs.aws_region": "eu-central-1"}
"""Any option with that prefix: objects on a disk need none, but are no longer read by pylance."""


@pytest.fixture(params=[{}, OWN], ids=["by pylance", "apart"])
def storage(request):
    return request.param


@pytest.fixture
def elsewhere(tmp_path):
    return made_objects(tmp_path / "else where")


@pytest.fixture
def table(tmp_path, elsewhere, storage):
    uri = str(tmp_path / "t.lance")
    blobs, values = mixed(elsewhere.as_uri())
    refer(uri, blobs[:3])
    refer(uri, blobs[3:], first=3)
    return LanceTable.for_path(uri, storage), values


def row_ids(table):
    return lance.dataset(table.location.uri).to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()


def scanned(table, **columns):
    location = table.location
    pin = pin_latest(location, None)
    chosen = ScanColumns(("payload", "id"), blobs="all_binary", **columns)
    return list(read_batches(Scan(location, pin, chosen), ScanPartition((0, 1))))


def test_scans_have_the_bytes(table):
    batches = scanned(table[0])
    assert [value for batch in batches for value in batch["payload"].to_pylist()] == table[1]
    assert {tuple(batch.schema.names) for batch in batches} == {("payload", "id")}
    assert set(scanned(table[0], with_row_address=True)[0].schema.names) == {"payload", "id", "_rowaddr"}


def test_bytes_of_some_rows_are_read_in_any_order_and_process(table):
    handle, values = table
    rows, blobs = row_ids(handle), pickle.loads(pickle.dumps(handle.blobs("payload")))
    order = [7, 0, 3, 1, 6, 2]
    assert blobs.read([rows[place] for place in order]) == [values[place] for place in order]
    assert blobs.read([]) == []


def test_ranges_count_in_the_blob_and_end_with_it(table):
    handle, _ = table
    rows, blobs = row_ids(handle), handle.blobs("payload")
    asked = [(rows[0], 2, 3), (rows[1], 1, 2), (rows[1], 3, 100), (rows[3], 0, 5), (rows[2], 2, 2), (rows[7], 9, 1)]
    assert blobs.read_ranges(asked) == [b"234", b"34", b"56", None, b"li", b""]
    assert blobs.read_ranges([(rows[0], 10, 5), (rows[0], 0, 0)]) == [b"", b""]
    with pytest.raises(InvalidOption, match="are no range"):
        blobs.read_ranges([(rows[0], -1, 5)])


def test_files_are_read_and_sought_in(table):
    handle, values = table
    files = handle.blobs("payload").open(row_ids(handle))
    assert [file and file.read() for file in files] == values
    for place, last in ((0, b"89"), (1, b"56"), (2, b"ne")):
        file = files[place]
        file.seek(-2, io.SEEK_END)
        assert (file.read(), file.read(1)) == (last, b"")
        file.seek(1)
        assert (file.read(1), file.tell()) == (values[place][1:2], 2)


def test_an_object_that_is_gone_or_cut_off_is_an_error_of_its_row(table, elsewhere):
    handle, values = table
    rows, blobs = row_ids(handle), handle.blobs("payload")
    (elsewhere / "whole").unlink()
    with pytest.raises(NotFound, match="whole"):
        blobs.read([rows[0]])
    with pytest.raises(NotFound, match="whole"):
        scanned(handle)
    assert blobs.read(rows[1:]) == values[1:]


def test_a_range_of_an_object_that_became_shorter_is_an_error(tmp_path, elsewhere):
    uri = str(tmp_path / "t.lance")
    refer(uri, mixed(elsewhere.as_uri())[0])
    handle = LanceTable.for_path(uri, OWN)
    rows, blobs = row_ids(handle), handle.blobs("payload")
    (elsewhere / "part").write_bytes(b"01234567")
    assert blobs.read([rows[1]]) == [b"23456"]
    with pytest.raises(CorruptData, match=r"ends before the range(.|\n)*bytes 6 to 10"):
        blobs.read([rows[7]])


def test_only_columns_of_blobs_have_any(table):
    with pytest.raises(InvalidOption, match="holds no blobs"):
        table[0].blobs("id")
    with pytest.raises(NotFound, match="'payload'"):
        table[0].blobs("payloads")


def test_objects_below_a_base_path_are_read_there(tmp_path, elsewhere, storage):
    uri = str(tmp_path / "based.lance")
    base = lance.DatasetBasePath(str(elsewhere), "objects", is_dataset_root=False, id=7)
    refer(uri, [str(elsewhere / "whole")], initial_bases=[base], mode="create", allow_external_blob_outside_bases=False)
    handle = LanceTable.for_path(uri, storage)
    assert handle.blobs("payload").read(row_ids(handle)) == [b"0123456789"]
    assert scanned_of(handle) == [b"0123456789"]


def scanned_of(handle):
    pin = pin_latest(handle.location, None)
    scan = Scan(handle.location, pin, ScanColumns(("payload",), blobs="all_binary"))
    return [value for batch in read_batches(scan, ScanPartition((0,))) for value in batch["payload"].to_pylist()]


def test_their_storage_options_are_never_shown_or_given_to_the_table():
    location = locate("/t.lance", {"blobs.aws_secret_access_key": "very-secret", "aws_region": "r"})
    assert "very-secret" not in repr(location) + repr(Blobs(location, None, "payload"))
    from lance_spark.storage.credentials import options_now
    from lance_spark.storage.objects import place_of

    assert options_now(location) == {"aws_region": "r"}
    assert place_of(location, "s3://b/k") == DatasetLocation.at("s3://b/k", {"aws_secret_access_key": "very-secret"})
    assert place_of(locate("/t.lance", {"aws_region": "r"}), "s3://b/k").storage_options == {"aws_region": "r"}
