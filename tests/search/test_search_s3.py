"""Searches of a branch on an object store, in this process and in parts."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StringType
from pyspark.sql.udtf import AnalyzeArgument
from support.indexed import DIMENSION, some
from support.searches import HERE, PARTS, by_pylance, pairs

from lance_spark import LanceTable
from lance_spark.core.refs import RefSpec
from lance_spark.search import search_rules
from lance_spark.search.duplicate_rules import Shingling, Signer, banding
from lance_spark.search.near_duplicates import pair_rows, sign_texts
from lance_spark.search.search import carry_out, plan_texts, prepare_duplicates, prepare_join, prepare_search
from lance_spark.search.search_rules import parse_join, parse_search
from lance_spark.search.search_tasks import JoinWork, join_nearest
from lance_spark.spark.search_function import Tables, search_function
from lance_spark.storage.resolving import dataset_at, resolve

pytestmark = pytest.mark.s3

IN_SQL = {"text": "number450", "column": "text", "columns": "id"}
QUERY = np.random.default_rng(1_000_003).standard_normal(DIMENSION).astype("f4")


def test_a_branchs_rows_are_found_with_and_without_index(bucket, storage, monkeypatch):
    monkeypatch.setattr(search_rules, "FLAT_BYTES", 100)
    uri = f"s3://{bucket}/searched.lance"
    lance.write_dataset(some(0, 400), uri, max_rows_per_file=200, storage_options=storage)
    t = LanceTable.for_path(uri, storage)
    t.indexes.create("v", kind="ivf_flat", num_partitions=2)
    t.indexes.create("text", kind="inverted")
    t.branches.create("exp")
    head = lance.dataset(uri, storage_options=storage).checkout_version(("exp", None))
    lance.write_dataset(some(400, 100), head, mode="append", max_rows_per_file=50, storage_options=storage)
    head = lance.dataset(uri, storage_options=storage).checkout_version(("exp", None))

    location = dataset_at(uri, storage)
    pin = resolve(location, RefSpec(branch="exp"))
    expected = by_pylance(head, QUERY, k=6, nprobes=2)
    found = prepare_search(location, pin, parse_search(QUERY, None, "v", (6, None, ["id"]), {"nprobes": 2}))
    for runner in (HERE, PARTS):
        assert pairs(carry_out(found, found.schema, runner)) == expected
    words = prepare_search(location, pin, parse_search(None, "number450", "text", (6, None, ["id"]), {}))
    assert carry_out(words, words.schema, PARTS)["id"].to_pylist() == [450]

    function = search_function(Tables({}, storage))
    told = {name: AnalyzeArgument(StringType(), value, False, True) for name, value in IN_SQL.items()}
    analyzed = function.analyze(AnalyzeArgument(StringType(), f"{uri}@exp", False, True), **told)
    assert [row[0] for row in function(analyzed).eval(f"{uri}@exp", **IN_SQL)] == [450]

    near = prepare_duplicates(location, pin, ("text", ("id",), "id >= 399"), Signer(Shingling(), banding(0.9)), 0.9)
    plan = plan_texts(near, 2)
    keys = pa.Table.from_batches([each for part in plan.partitions for each in sign_texts(near, plan.scan, part)])
    assert len({*keys["_rowid"].to_pylist()}) == 101
    assert list(pair_rows(near.pairing, keys.sort_by("key").to_batches())) == []

    joined = prepare_join(location, pin, parse_join("v", (6, None, ["id"]), {"nprobes": 2}))
    work = JoinWork(joined.work, "q", joined.field, joined.flat, ("id", "_distance"))
    queries = pa.record_batch({"q": pa.array([QUERY.tolist()], pa.list_(pa.float32()))})
    assert pairs(pa.Table.from_batches(join_nearest(work, iter([queries])))) == [
        (key, pytest.approx(distance)) for key, distance in expected
    ]
