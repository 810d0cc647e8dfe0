"""``python -m benchmarks.search``: searches by vector and text, and the nearest join, beside pylance in one process."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks import report
from benchmarks.data import HOME
from benchmarks.measure import Answer, Case, Result, Target, run
from benchmarks.one_core import on_one_core
from benchmarks.peers import session
from lance_spark import LanceTable

WIDTH = 128
CHUNK = 50_000
CLUSTERS = 1_000
QUERIES = 1_000
WORDS = 20_000
NEW = 20
"""One row of so many came after the index, in the second table."""
INDEXED, GROWN = "indexed", "grown"
_JOIN = (
    Target("1.6 x pylance in one process", "pylance", 1.6),
    Target("1.6 x pylance with one executor's core", "pylance_one_core", 1.6),
)
Vectors = npt.NDArray[np.float32]


def main() -> None:
    arguments = _arguments()
    facts = {**report.machine(), "rows": arguments.rows, "rounds": arguments.rounds}
    uri = prepare(arguments.rows)
    spark = session()
    results: list[Result] = []
    for name, case in cases(spark, uri):
        if not arguments.only or any(part in name for part in arguments.only):
            results.append(run(name, case, arguments.rounds))
            print(report.table(results[-1:]), flush=True)
    print(f"\n{report.headline(facts)}\n\n{report.table(results)}\n")
    report.save(arguments.json, facts, results)
    print(f"all rounds: {arguments.json}")


def prepare(rows: int) -> str:
    """Vectors in clusters, and texts, in main; an IVF_PQ and a text index; branch ``grown`` has rows without index."""
    home = HOME / f"search-{rows}"
    uri = str(home / "searched.lance")
    if (home / "done").exists():
        return uri
    home.mkdir(parents=True, exist_ok=True)
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        lance.write_dataset(_rows(first, count), uri, mode="append" if first else "create")
    table = LanceTable.for_path(uri)
    table.indexes.create("v", kind="ivf_pq", num_partitions=max(2, rows // 4_000), num_sub_vectors=16, sample_rate=64)
    table.indexes.create("text", kind="inverted")
    table.branches.create(GROWN)
    grown = lance.dataset(uri).checkout_version((GROWN, None))
    lance.write_dataset(_rows(rows, max(1, rows // NEW)), grown, mode="append")
    (home / "done").touch()
    return uri


def cases(spark: SparkSession, uri: str) -> Iterator[tuple[str, Case]]:
    """Each question: asked of ours, where it chooses and on executors, and of pylance in one process."""
    queries = _vectors(-1, QUERIES)
    frame = spark.createDataFrame([(vector.tolist(),) for vector in queries], "q array<float>").repartition(1).cache()
    frame.count()
    approximate: dict[str, Any] = {"nprobes": 20, "refine_factor": 5}
    flat: dict[str, Any] = {"use_index": False}
    for branch, shown in ((None, ""), (GROWN, ", 5 % of the rows without index")):
        table = LanceTable.for_path(uri, spark=spark).checkout(branch=branch or "main")
        dataset = _opened(uri, branch)
        yield f"10 nearest, IVF_PQ{shown}", _one(table, dataset, queries[0], approximate)
        if branch is None:
            yield "10 nearest, no index", _one(table, dataset, queries[0], flat)
            yield "two words", _words(table, dataset)
        yield f"nearest join of 1,000, IVF_PQ{shown}", _join(table, (uri, branch), frame, queries, approximate)
        if branch is None:
            yield "nearest join of 1,000, no index", _join(table, (uri, branch), frame, queries, flat)


def _one(table: LanceTable, dataset: lance.LanceDataset, query: Vectors, options: dict[str, Any]) -> Case:
    asked = {"column": "v", "q": query, "k": 10, **options}

    def ours(run_on: str) -> Answer:
        return _measures(table.search(query, column="v", k=10, columns=["id"], run_on=run_on, **options), "_distance")

    return Case(
        {
            "ours": lambda: ours("auto"),
            "ours on executors": lambda: ours("spark"),
            "pylance": lambda: _nearest(dataset, asked),
        }
    )


def _words(table: LanceTable, dataset: lance.LanceDataset) -> Case:
    words = "word7 word150"

    def ours(run_on: str) -> Answer:
        return _measures(table.search(text=words, column="text", k=10, columns=["id"], run_on=run_on), "_score")

    def alone() -> Answer:
        found = dataset.scanner(columns=["id", "_score"], full_text_query=words, limit=10).to_table()
        return _told(found, "_score")

    return Case({"ours": lambda: ours("auto"), "ours on executors": lambda: ours("spark"), "pylance": alone})


def _join(
    table: LanceTable, name: tuple[str, str | None], frame: DataFrame, queries: Vectors, options: dict[str, Any]
) -> Case:
    asked = {"column": "v", "q": queries, "k": 10, **options}
    joined = frame.transform(table.nearest_join("q", column="v", k=10, columns=["id"], **options))
    return Case(
        {
            "ours": lambda: _measures(joined.select("id", "_distance"), "_distance"),
            "pylance": partial(_nearest_of, *name, asked),
            "pylance_one_core": partial(on_one_core, _nearest_of, *name, asked),
        },
        _JOIN,
    )


def _nearest(dataset: lance.LanceDataset, asked: dict[str, Any]) -> Answer:
    return _told(dataset.scanner(columns=["id", "_distance"], nearest=asked).to_table())


def _nearest_of(uri: str, branch: str | None, asked: dict[str, Any]) -> Answer:
    return _nearest(_opened(uri, branch), asked)


@cache
def _opened(uri: str, branch: str | None) -> lance.LanceDataset:
    """Kept, with the index that it has read: the peers keep theirs too."""
    dataset = lance.dataset(uri)
    return dataset if branch is None else dataset.checkout_version((branch, None))


def _measures(frame: DataFrame, name: str) -> Answer:
    return _told(frame.toArrow(), name)


def _told(table: pa.Table, name: str = "_distance") -> Answer:
    return [table.num_rows, float(np.sort(table[name].to_numpy()).sum(dtype="f8"))]


def _rows(first: int, count: int) -> pa.Table:
    numbers = np.random.default_rng(first + 1)
    words = (WORDS * numbers.random((count, 8)) ** 3).astype(int)
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "text": [" ".join(f"word{word}" for word in row) for row in words],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(_vectors(first, count).reshape(-1)), WIDTH),
        }
    )


def _vectors(first: int, count: int) -> Vectors:
    """Around centers that are the same for all: embeddings are not spread evenly."""
    centers = np.random.default_rng(0).standard_normal((CLUSTERS, WIDTH), dtype="f4")
    numbers = np.random.default_rng(first + 2)
    around: Vectors = centers[numbers.integers(0, CLUSTERS, count)]
    return around + 0.4 * numbers.standard_normal((count, WIDTH), dtype="f4")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of 128 numbers and 8 words (default 1,000,000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="cases with NAME in the name")
    parser.add_argument("--json", type=Path, default=HOME / "search.json", metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
