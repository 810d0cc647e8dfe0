"""Write, audit, publish, step by step: batches come in between all steps, and are compacted; a stream follows main."""

from collections import Counter

import lance
import pyarrow as pa
import pytest
from support import stream_queries, stream_sources

from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch, delete_branch
from lance_spark.storage.datasets import locate, pin_latest

ROWS = 4


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize("optimize_every", ["1", "2", "3"])
def test_main_has_whole_batches_once_and_so_has_who_follows_it(uri, tmp_path, stable, optimize_every):
    lance.write_dataset(pa.table({"id": [-1], "batch": [-1]}), uri, enable_stable_row_ids=stable)
    location, given = locate(uri), []
    options = {"branch": "ingest", "create_branch": "true", "optimize_every": optimize_every}
    sink = stream_queries.Query(uri, tmp_path / "c", **options)
    source = stream_sources.Query(uri, query_id="out", max_files_per_trigger=1)

    def batch():
        number = len(given)
        given.append(number)
        rows = range(ROWS * number, ROWS * number + ROWS)
        sink.batch(number, pa.table({"id": [*rows], "batch": [number] * ROWS}))

    batch()
    for hour in range(4):
        create_branch(location, "audited", RefSpec(branch="ingest"))
        published = len(given)
        batch()
        merge(location, pin_latest(location, "audited"), None, MergeOptions(), LocalRunner())
        batch()
        delete_branch(location, "audited")
        main = Counter(lance.dataset(uri).to_table()["batch"].to_pylist())
        assert main == {-1: 1} | dict.fromkeys(range(published), ROWS), hour
        source.restart().drain()
        assert stream_sources.ids(source.rows) == list(range(-1, ROWS * published))
