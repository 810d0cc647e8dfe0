"""``t.add_columns(..., blobs=...)``: URIs that Spark computes become blobs that refer to objects elsewhere."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]


def by_sql(t, photos):
    t.add_columns({"photo": f"concat('{photos}/', id, '.jpg')"}, blobs="photo")


def by_function(t, photos):
    def named(batch):
        return {"photo": [f"{photos}/{n}.jpg" for n in batch["id"].to_pylist()]}

    t.add_columns_with(named, schema="photo string", blobs=["photo"])


def by_frame(t, photos):
    frame = t.spark.range(1, 6).selectExpr(
        "id",
        f"named_struct('uri', concat('{photos}/', id, '.jpg'), "
        "'position', CAST(NULL AS BIGINT), 'size', CAST(NULL AS BIGINT)) AS photo",
    )
    t.add_columns_from(frame, on="id", blobs="photo")


def by_marked_frame(t, photos):
    frame = t.spark.range(1, 6).selectExpr("id", f"concat('{photos}/', id, '.jpg') AS photo")
    t.add_columns_from(frame.withMetadata("photo", {"lance-encoding:blob": "true"}), on="id")


@pytest.mark.parametrize("add", [by_sql, by_function, by_frame, by_marked_frame])
def test_rows_that_are_there_refer_to_objects(spark, both_ways, tmp_path, add):
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(b"photo %d" % number)
    uri = str(tmp_path / "album.lance")
    lance.write_dataset(pa.table({"id": range(6)}), uri, max_rows_per_file=4, data_storage_version="2.2")
    lance.dataset(uri).delete("id IN (0, 3)")
    t = LanceTable.for_path(uri, spark=spark)
    add(t, tmp_path)
    rows = lance.dataset(uri).scanner(blob_handling="all_binary").to_table().to_pylist()
    assert rows == [{"id": n, "photo": b"photo %d" % n} for n in (1, 2, 4, 5)]
    shown = t.to_df(blob_handling="bytes").orderBy("id").collect()
    assert [(row.id, bytes(row.photo)) for row in shown] == [(row["id"], row["photo"]) for row in rows]
    assert lance.dataset(uri).version == 3
