"""A column of URIs that is added to rows that are there: blobs that refer to objects elsewhere."""

from functools import partial

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues

from lance_spark import LanceTable
from lance_spark.columns.columns import add_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions, new_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import AlreadyExists, InvalidOption, LanceSparkError, Refused, SchemaMismatch

pytestmark = pytest.mark.when(spark="newest")
RANGE = pa.struct([("uri", pa.string()), ("position", pa.int64()), ("size", pa.int64())])
NONE = 5
"""The row without a blob."""


@pytest.fixture
def photos(tmp_path):
    directory = tmp_path / "photos"
    directory.mkdir()
    for number in range(10):
        (directory / f"{number} ü.jpg").write_bytes(b"photo %d" % number)
    return directory


@pytest.fixture
def album(tmp_path):
    """Two fragments, in each of which rows are gone; and a branch."""
    uri = str(tmp_path / "album.lance")
    lance.write_dataset(pa.table({"id": range(6)}), uri, data_storage_version="2.2")
    lance.write_dataset(pa.table({"id": range(6, 10)}), uri, mode="append")
    lance.dataset(uri).delete("id IN (0, 3, 9)")
    lance.dataset(uri).create_branch("exp")
    return DatasetLocation.at(uri)


def values_of(album, function, kind=pa.string(), **given):  # noqa: B008 - a type
    values = LocalValues(album, function)
    values.schema = new_columns(pa.schema([("photo", kind)]), None, "photo", **given)
    return values


def uris(photos, batch):
    return {"photo": [None if n == NONE else str(photos / f"{n} ü.jpg") for n in batch["id"].to_pylist()]}


def ranges(photos, batch):
    """Of even rows a part, of odd ones the whole object."""
    rows = [
        {"uri": f"file://{photos}/{n}%20ü.jpg"} | ({"position": 6, "size": 1} if n % 2 == 0 else {})
        for n in batch["id"].to_pylist()
    ]
    return {
        "photo": pa.array(
            [None if n == NONE else row for n, row in zip(batch["id"].to_pylist(), rows, strict=True)], RANGE
        )
    }


def added(values, branch=None, **options):
    return add_filled_columns(values.location, branch, values, BackfillOptions(**options))


def read(uri):
    rows = lance.dataset(uri).scanner(blob_handling="all_binary").to_table().to_pylist()
    return {row["id"]: row["photo"] for row in rows}


def expected(part=lambda _, photo: photo):
    return {n: None if n == NONE else part(n, b"photo %d" % n) for n in (1, 2, 4, 5, 6, 7, 8)}


@pytest.mark.parametrize("branch", [None, "exp"])
@pytest.mark.parametrize("form", ["uris", "ranges"])
def test_rows_that_are_there_refer_to_objects(album, photos, branch, form):
    before = lance.dataset(album.branch_uri(branch)).version
    function, kind = (uris, pa.string()) if form == "uris" else (ranges, RANGE)
    added(values_of(album, partial(function, photos), kind), branch)
    uri = album.branch_uri(branch)
    wanted = expected() if form == "uris" else expected(lambda n, photo: photo[6:7] if n % 2 == 0 else photo)
    assert read(uri) == wanted
    assert lance.dataset(uri).version == before + 1
    lance.dataset(uri).validate()
    described = lance.dataset(uri).to_table(filter="id = 1")["photo"].to_pylist()[0]
    assert (described["kind"], described["blob_uri"]) == (3, f"file://{photos}/1%20%C3%BC.jpg")
    report = LanceTable.for_path(album.uri, branch=branch).fsck(deep=True)
    assert report.exit_code == 0


@pytest.mark.when(day=0)
def test_they_live_on_through_everything_that_happens_to_rows(album, photos):
    added(values_of(album, partial(uris, photos)))
    t = LanceTable.for_path(album.uri)
    dataset = lance.dataset(album.uri)
    dataset.delete("id = 1")
    lance.write_dataset(pa.table({"id": [20]}), album.uri, mode="append")
    t.optimize(run_on="local")
    wanted = {**expected(), 20: None}
    del wanted[1]
    assert read(album.uri) == wanted
    blobs = t.blobs("photo")
    rows = lance.dataset(album.uri).scanner(columns=["id"], with_row_id=True).to_table().to_pylist()
    by_id = {row["id"]: row["_rowid"] for row in rows}
    assert blobs.read([by_id[2], by_id[NONE], by_id[20]]) == [b"photo 2", None, None]
    assert t.storage().elsewhere
    (photos / "2 ü.jpg").unlink()
    assert t.fsck(deep=True).exit_code != 0


@pytest.mark.when(day=0)
def test_what_others_append_meanwhile_refers_too(album, photos):
    values = values_of(album, partial(uris, photos))
    values.meanwhile = lambda: lance.write_dataset(pa.table({"id": [3]}), album.uri, mode="append")
    added(values)
    assert read(album.uri) == {**expected(), 3: b"photo 3"}


@pytest.mark.when(day=0)
@pytest.mark.parametrize(
    "uri",
    ["photos/1.jpg", "https://x/1.jpg", "s3://me:hush@b/1", "s3://b/1?token=hush", "{table}/data/x.lance", "dir/"],
)
def test_what_leads_nowhere_is_refused_and_leaves_nothing(album, uri):
    text = uri.format(table=album.uri)
    before = {path.name for path in lance_files(album)}
    with pytest.raises(SchemaMismatch) as problem:
        added(values_of(album, lambda batch: {"photo": [text] * batch.num_rows}))
    assert "hush" not in f"{problem.value} {problem.value.hint}"
    assert lance.dataset(album.uri).schema.names == ["id"]
    assert {path.name for path in lance_files(album)} == before


def lance_files(album):
    from pathlib import Path

    return list((Path(album.uri) / "data").iterdir())


def test_what_cannot_be_added_is_refused(album, photos, tmp_path):
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    marked = pa.field("p", pa.string(), metadata={"lance-encoding:blob": "true"})
    for schema, given, expected_error in (
        ([blob], {}, Refused),
        ([pa.field("p", pa.string()), pa.field("n", pa.int64())], {"blobs": "p"}, Refused),
        ([marked, pa.field("n", pa.int64())], {}, Refused),
        ([marked], {"incremental": True}, Refused),
        ([pa.field("p", pa.string())], {"blobs": ["q"]}, InvalidOption),
        ([pa.field("p", pa.int64())], {"blobs": "p"}, LanceSparkError),
    ):
        with pytest.raises(expected_error):
            new_columns(pa.schema(schema), None, **given)
    old = DatasetLocation.at(str(tmp_path / "old.lance"))
    lance.write_dataset(pa.table({"id": [1]}), old.uri, data_storage_version="2.1")
    with pytest.raises(SchemaMismatch, match=r"2\.2"):
        added(values_of(old, partial(uris, photos)))
    added(values_of(album, partial(uris, photos)))
    with pytest.raises(AlreadyExists):
        added(values_of(album, partial(uris, photos)))
