"""Tables whose catalog keeps their versions, in every kind of session: DataFrames, handles, streams, or a refusal."""

import pickle
from collections import Counter

import lance
import lance_namespace
import pytest
from pyspark.errors import StreamingQueryException
from support.managed_versions import managed_versions

from lance_spark import LanceCatalog
from lance_spark.errors import LanceSparkError, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]


@pytest.fixture
def kept(tmp_path, spark):
    with managed_versions(tmp_path / "lake", True) as (catalog, properties):
        catalog.lake = LanceCatalog.connect("rest", properties, spark=spark)
        catalog.client = lance_namespace.connect("rest", properties)
        yield catalog


def rows(kept):
    """As pylance's client reads them, through the catalog."""
    found = lance.dataset(namespace_client=kept.client, table_id=["t"]).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def numbers(spark, first, end):
    return spark.range(first, end).selectExpr("id", "CAST(id % 3 AS INT) AS v")


def written_through_the_catalog(kept):
    """Whether each version was asked for: none was put into the directory past the catalog."""
    files = list((kept.directory / "t" / "_versions").glob("*.manifest"))
    return len(files) == len(kept.versions["t"]) == kept.asked["table/version/create"] - kept.refused


def test_writes_of_dataframes_and_handles(spark, both_ways, kept):
    kept.lake.write_table(numbers(spark, 0, 6), "t")
    kept.lake.write_table(numbers(spark, 6, 8), "t", "append")
    assert rows(kept) == [(n, n % 3) for n in range(8)]
    t = kept.lake.table("t")
    t.update({"v": "v + 10"}, where="id = 1")
    t.delete("id = 2")
    t.merge(
        numbers(spark, 7, 9).selectExpr("id", "-1 AS v"), on="id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(kept) == [(0, 0), (1, 11), (3, 0), (4, 1), (5, 2), (6, 0), (7, -1), (8, -1)]
    t.add_columns({"twice": "id * 2"})
    t.alter_columns(comments={"v": "of three"})
    t.indexes.create("id", "BTREE")
    t.optimize()
    frame = t.to_df()
    assert sorted(map(tuple, frame.select("id", "v").collect())) == [row[:2] for row in rows(kept)]
    assert frame.where("twice = 14").count() == 1
    assert Counter(row["_change_type"] for row in t.changes(1, 2, images="none").collect())["insert"] == 2
    assert t.checkout(version=1).to_df().count() == 6
    kept.lake.write_table(numbers(spark, 0, 2), "t", "overwrite")
    assert rows(kept) == [(0, 0), (1, 1)]
    assert written_through_the_catalog(kept)


def test_a_stream_reads_them(spark, both_ways, kept, tmp_path):
    kept.lake.write_table(numbers(spark, 0, 4), "t")
    seen = tmp_path / "seen"
    seen.mkdir()

    def go_on():
        reader = spark.readStream.format("lance").option("query_id", "q").option("catalog", kept.lake.catalog.uri)
        reader = reader.options(**{f"storage.{key}": value for key, value in kept.lake.catalog.root.options})
        writer = (
            reader.load("t").writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        )
        writer.foreachBatch(
            lambda rows, n: (seen / f"{n:09}").write_bytes(pickle.dumps(rows.collect()))
        ).start().awaitTermination()
        return sorted(row.id for each in seen.iterdir() for row in pickle.loads(each.read_bytes()))

    assert go_on() == [0, 1, 2, 3]
    kept.lake.write_table(numbers(spark, 4, 6), "t", "append")
    assert go_on() == [0, 1, 2, 3, 4, 5]
    assert not (kept.directory / "t" / "_refs").exists()
    assert written_through_the_catalog(kept)


def test_a_stream_into_them_is_refused_by_its_name(spark, both_ways, kept, tmp_path):
    kept.lake.write_table(numbers(spark, 0, 4), "t")
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(0 AS INT) AS v")
    for name in ("t", "u"):
        settings = {"catalog": kept.lake.catalog.uri, "path": name, "checkpointLocation": str(tmp_path / name)}
        settings |= {f"storage.{key}": value for key, value in kept.lake.catalog.root.options}
        writer = stream.writeStream.format("lance").options(**settings).trigger(availableNow=True)
        with pytest.raises(
            (StreamingQueryException, LanceSparkError), match=r"(?s)write a stream to it.*managed_versioning"
        ):
            writer.start().awaitTermination()
    assert list(kept.versions["t"]) == [1]
    assert "u" not in kept.versions
    with pytest.raises(Refused, match="create branch"):
        kept.lake.write_table(numbers(spark, 0, 4), "t", "append", branch="exp", create_branch=True)
