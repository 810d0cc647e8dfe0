"""Searches as DataFrames: here and on executors, of a branch, beside pylance; the join, near duplicates and SQL."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from support.indexed import DIMENSION, some
from support.searches import by_pylance, pairs

from lance_spark import LanceCatalog, LanceTable, register_search
from lance_spark.errors import InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.search import search_rules

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.15)]
QUERIES = np.random.default_rng(1_000_003).standard_normal((5, DIMENSION)).astype("f4")
QUERY = QUERIES[0]


@pytest.fixture(scope="module")
def branched(tmp_path_factory):
    """A branch with a segment of its own beside the inherited one, and rows that no index covers."""
    uri = str(tmp_path_factory.mktemp("searches") / "table.lance")
    lance.write_dataset(some(0, 900), uri, max_rows_per_file=300)
    t = LanceTable.for_path(uri)
    t.indexes.create("v", kind="ivf_flat", num_partitions=2)
    t.indexes.create("text", kind="inverted", with_position=True)
    t.branches.create("exp")
    append(uri, 900, 100)
    t.checkout(branch="exp").indexes.optimize()
    assert t.checkout(branch="exp").indexes.stats("v").index.inherited_segments == 1
    append(uri, 1000, 100)
    return uri


def head(uri):
    return lance.dataset(uri).checkout_version(("exp", None))


def append(uri, first, count):
    lance.write_dataset(some(first, count), head(uri), mode="append", max_rows_per_file=100)


def table(spark, uri):
    return LanceTable.for_path(uri, spark=spark).checkout(branch="exp")


@pytest.mark.parametrize("run_on", [pytest.param("local", marks=pytest.mark.when(day=0)), "spark", "auto"])
def test_a_search_is_a_dataframe_of_the_nearest_rows_in_their_order(spark, branched, run_on, monkeypatch):
    monkeypatch.setattr(search_rules, "FLAT_BYTES", 100)
    monkeypatch.setattr(search_rules, "SEGMENT_BYTES", 1)
    asked = {"k": 7, "filter": "k = 2", "columns": ["id", "v", "_rowid", "tags"], "run_on": run_on}
    # Of both partitions: a task with too few rows in the first one looks into the other one, pylance may not.
    looked = {"nprobes": 2, "refine_factor": 2}
    frame = table(spark, branched).search(QUERY, column="v", **looked, **asked)
    assert frame.schema["v"].metadata == {"arrow.fixed-size-list.size": DIMENSION}
    assert frame.schema.simpleString() == (
        "struct<id:bigint,v:array<float>,_rowid:bigint,tags:array<string>,_distance:float>"
    )
    rows = [(row["id"], row["_distance"]) for row in frame.collect()]
    expected = by_pylance(head(branched), QUERY, k=7, filter="k = 2", prefilter=True, **looked)
    assert rows == expected
    assert any(key >= 900 for key, _ in rows)
    assert frame.where("id >= 900").count() == sum(key >= 900 for key, _ in rows)


def test_more_equal_rows_than_can_be_paired_are_refused(spark, uri):
    lance.write_dataset(pa.table({"id": range(30), "text": ["all the same"] * 30}), uri)
    t = LanceTable.for_path(uri, spark=spark)
    first = t.near_duplicates("text", columns=["id"], copies="first", max_group=10)
    assert sorted((row["left"]["id"], row["right"]["id"]) for row in first.collect()) == [
        (0, at) for at in range(1, 30)
    ]
    with pytest.raises(InvalidOption, match="no option 'copis'"):
        t.near_duplicates("text", copis="first")
    with pytest.raises(PythonException, match=r"may all be alike(.|\n)*copies='first'"):
        t.near_duplicates("text", max_group=10).collect()


@pytest.mark.parametrize("run_on", ["local", "spark"])
def test_text_and_both(spark, branched, run_on):
    t = table(spark, branched)
    found = t.search(text="number950 word7", column="text", k=5, columns="id", run_on=run_on).collect()
    assert [row["_score"] for row in found] == sorted((row["_score"] for row in found), reverse=True)
    assert found[0]["id"] == 950
    both = t.search(QUERY, "number950 word7", k=5, columns=["id"], text_column="text", rerank="rrf", run_on=run_on)
    assert both.columns == ["id", "_distance", "_score", "_relevance_score"]
    assert [row["_relevance_score"] for row in both.collect()] == sorted(
        (row["_relevance_score"] for row in both.collect()), reverse=True
    )


def test_a_dataframe_stays_at_its_version(spark, uri):
    lance.write_dataset(some(0, 300), uri)
    t = LanceTable.for_path(uri, spark=spark)
    local, there = (t.search(QUERY, k=3, columns=["id"], run_on=run_on) for run_on in ("local", "spark"))
    joined = queries(spark).where("who = 0").transform(t.nearest_join("query_emb", k=3, columns=["id"]))
    expected = [key for key, _ in by_pylance(lance.dataset(uri), QUERY, k=3)]
    lance.dataset(uri).delete("true")
    assert [[row["id"] for row in frame.collect()] for frame in (local, there, joined)] == [expected] * 3
    assert t.search(QUERY, k=3, columns=["id"]).isEmpty()


def queries(spark):
    rows = [(who, [float(each) for each in vector]) for who, vector in enumerate(QUERIES)]
    return spark.createDataFrame([*rows, (99, None)], "who int, query_emb array<float>")


@pytest.mark.parametrize("options", [{}, {"filter": "k = 2", "tasks": 3, "prefix": "found_"}], ids=str)
def test_a_join_finds_what_pylance_finds(spark, branched, options):
    prefix = options.get("prefix", "")
    t = table(spark, branched)
    join = t.nearest_join("query_emb", column="v", k=4, columns=["id", "k"], nprobes=2, **options)
    frame = queries(spark).transform(join)
    assert frame.columns == ["who", "query_emb", f"{prefix}id", f"{prefix}k", "_distance"]
    found = sorted((row["who"], row["_distance"], row[f"{prefix}id"]) for row in frame.collect())
    asked = {"k": 4, "filter": options.get("filter"), "prefilter": True, "nprobes": 2}
    expected = [
        (who, distance, key)
        for who, vector in enumerate(QUERIES)
        for key, distance in by_pylance(head(branched), vector, **asked)
    ]
    assert found == sorted(expected)


def test_what_cannot_be_joined_is_said_at_once(spark, branched):
    t, given = table(spark, branched), queries(spark)
    with pytest.raises(InvalidOption, match="Both sides have a column 'id'"):
        given.withColumnRenamed("who", "id").transform(t.nearest_join("query_emb", k=2))
    with pytest.raises(NotFound, match="no column 'query'"):
        given.transform(t.nearest_join("query", k=2, columns=["id"]))
    with pytest.raises(SchemaMismatch, match="does not hold vectors"):
        given.transform(t.nearest_join("who", k=2, columns=["id"]))
    short = given.withMetadata("query_emb", {"arrow.fixed-size-list.size": 3})
    with pytest.raises(SchemaMismatch, match="vectors of 3 numbers, but 'v' of 16"):
        short.transform(t.nearest_join("query_emb", k=2, columns=["id"]))
    for wrong in ({"k": 0}, {"tasks": 0}, {"nprobs": 3}, {"phrase": "x"}):
        with pytest.raises(InvalidOption):
            t.nearest_join("query_emb", **wrong)
    with pytest.raises(InvalidOption, match="given by its name, not as Column"):
        t.nearest_join(given["query_emb"])
    with pytest.raises(InvalidOption, match="given by its name, not as int"):
        t.near_duplicates(5)
    for wrong in ({"columns": 5}, {"filter": 5}, {"filter": " "}):
        with pytest.raises(InvalidOption, match=r"columns must be .*not 5|filter (must be|is empty)"):
            t.near_duplicates("text", **wrong)
    with pytest.raises(PythonException, match="A query has 2 numbers"):
        spark.sql("SELECT array(1.0D, 2.0D) AS q").transform(t.nearest_join("q", columns=["id"])).collect()


def test_bytes_and_several_vectors_a_row(spark, uri):
    """Bytes come out as smallint, as Spark has no unsigned numbers."""
    rng = np.random.default_rng(5)
    hashes = rng.integers(0, 256, (60, 4), dtype=np.uint8)
    pages = [rng.standard_normal((1 + at % 3, 2)).astype("f4") for at in range(60)]
    schema = pa.schema([("id", pa.int64()), ("h", pa.list_(pa.uint8(), 4)), ("m", pa.list_(pa.list_(pa.float32(), 2)))])
    rows = pa.table([list(range(60)), hashes.tolist(), [page.tolist() for page in pages]], schema=schema)
    lance.write_dataset(rows.slice(0, 50), uri, max_rows_per_file=20)
    t = LanceTable.for_path(uri, spark=spark)
    t.indexes.create("h", kind="ivf_flat", num_partitions=2)
    lance.write_dataset(rows.slice(50), uri, mode="append")
    bits = np.unpackbits(hashes ^ hashes[55], axis=1).sum(axis=1)
    order = [(int(at), float(bits[at])) for at in np.argsort(bits, kind="stable")]
    t = LanceTable.for_path(uri, spark=spark)
    frame = t.search(hashes[55], column="h", k=60, nprobes=8, columns=["id", "h"], run_on="spark")
    assert frame.schema["h"].dataType.simpleString() == "array<smallint>"
    assert [(row["id"], row["_distance"]) for row in frame.collect()] == order
    assert frame.first()["h"] == hashes[55].tolist()
    queries = spark.createDataFrame([(1, hashes[55].tolist())], "who int, q array<int>")
    joined = queries.transform(t.nearest_join("q", column="h", k=60, nprobes=8, columns=["id"]))
    assert sorted((row["_distance"], row["id"]) for row in joined.collect()) == sorted((d, at) for at, d in order)
    query = rng.standard_normal((2, 2)).astype("f4")
    cosine = [
        float((1 - (query @ page.T) / np.outer(*(np.linalg.norm(part, axis=1) for part in (query, page)))).min(1).sum())
        for page in pages
    ]
    near = t.search(query, column="m", metric="cosine", k=5, columns="id", run_on="spark").collect()
    assert [row["id"] for row in near] == np.argsort(cosine)[:5].tolist()
    assert [row["_distance"] for row in near] == pytest.approx(sorted(cosine)[:5], rel=1e-4, abs=1e-5)


def test_near_duplicates_are_pairs_with_what_they_have_in_common(spark, uri):
    texts = ["one two three four five", "ONE two, three four five!", "one two three four six", "other", None, "other"]
    lance.write_dataset(pa.table({"id": range(6), "text": texts}), uri, max_rows_per_file=2)
    found = LanceTable.for_path(uri, spark=spark).near_duplicates("text", threshold=0.5, columns=["id"])
    assert found.selectExpr("left.id", "right.id", "_similarity").orderBy("left._rowid", "right._rowid").collect() == [
        (0, 1, 1.0),
        (0, 2, 0.5),
        (1, 2, 0.5),
        (3, 5, 1.0),
    ]


def test_sql_has_a_table_function(spark, branched, tmp_path):
    catalog = LanceCatalog(str(tmp_path / "lake"))
    lance.write_dataset(some(0, 50), str(tmp_path / "lake" / "t.lance"))
    register_search(spark, catalogs={"mylake": catalog})
    words = spark.sql("SELECT id, text FROM lance_search('mylake.t', text => 'number7', column => 'text')")
    assert [tuple(row) for row in words.collect()] == [(7, "word7 of the number7")]
    queries(spark).createOrReplaceTempView("search_queries")
    each = spark.sql(
        f"SELECT who, f.id, f._distance FROM search_queries q, "
        f"LATERAL lance_search('{branched}@exp', vector => q.query_emb, k => 2) f ORDER BY who, f._distance"
    )
    assert [tuple(row) for row in each.collect()] == [
        (who, *hit) for who, vector in enumerate(QUERIES) for hit in by_pylance(head(branched), vector, k=2)
    ]
    spark.catalog.dropTempView("search_queries")
    with pytest.raises(AnalysisException, match="no branch or tag 'nope'") as caught:
        spark.sql(f"SELECT * FROM lance_search('{branched}@nope', text => 'x')")
    assert "Traceback" not in str(caught.value)


def test_a_handle_without_spark_says_what_searches(branched, monkeypatch):
    from lance_spark.spark import search

    def without(_given, hint):
        raise Refused("There is no Spark session in this process.", hint=hint)

    monkeypatch.setattr(search, "needed_session", without)
    t = LanceTable.for_path(branched)
    for call in (lambda: t.search(QUERY), lambda: t.nearest_join("q"), lambda: t.near_duplicates("text")):
        with pytest.raises(Refused, match="no Spark session") as refused:
            call()
        assert "pylance searches" in refused.value.hint
    assert (
        len(pairs(head(branched).scanner(columns=["id"], nearest={"column": "v", "q": QUERY, "k": 2}).to_table())) == 2
    )
