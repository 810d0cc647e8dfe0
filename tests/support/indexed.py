"""Datasets to index, and what questions answer with and without indexes."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_spark.engine.local import LocalRunner

DIMENSION = 16
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "btree": ("id", {}),
    "bitmap": ("k", {}),
    "zonemap": ("id", {}),
    "bloomfilter": ("id", {}),
    "label_list": ("tags", {}),
    "ngram": ("text", {}),
    "inverted": ("text", {"with_position": True, "stem": False}),
    "ivf_flat": ("v", {"num_partitions": 4}),
    "ivf_sq": ("v", {"num_partitions": 4, "metric": "cosine"}),
    "ivf_pq": ("v", {"num_partitions": 4, "num_sub_vectors": 8}),
    "ivf_rq": ("v", {"num_partitions": 4}),
    "ivf_hnsw_flat": ("v", {"num_partitions": 2}),
    "ivf_hnsw_sq": ("v", {"num_partitions": 2, "m": 12}),
    "ivf_hnsw_pq": ("v", {"num_partitions": 2, "num_sub_vectors": 8}),
}
"""A column for each kind of index, and settings."""
_FILTERS = {
    "id": ("id = 7", "id BETWEEN 590 AND 1215", "id = 700 OR id = 1499", "id >= 1490"),
    "k": ("k = 3", "k IN (1, 5)", "k IS NULL"),
    "tags": ("array_has_any(tags, ['t1', 't4'])", "array_has_all(tags, ['t2', 'even'])"),
    "text": ("contains(text, 'word17')", "contains(text, 'ord3')"),
}


class Executors(LocalRunner):
    """Runs here, but as if on four executors."""

    name = "executors"

    def __init__(self) -> None:
        super().__init__(4)

    def for_work(self, operation: str, work: Any) -> Executors:  # noqa: ARG002 - the same for all
        return self


def some(first: int, count: int) -> pa.Table:
    """Rows of all types, the same for each id."""
    span = range(first, first + count)
    vectors = np.stack([np.random.default_rng(at).standard_normal(DIMENSION) for at in span]).astype("f4")
    return pa.table(
        {
            "id": pa.array(span, pa.int64()),
            "k": pa.array([None if at % 11 == 0 else at % 7 for at in span], pa.int64()),
            "tags": pa.array([[f"t{at % 5}", "even" if at % 2 == 0 else "odd"] for at in span]),
            "text": [f"word{at % 50} of the number{at}" for at in span],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION),
        }
    )


def questions(column: str) -> list[str]:
    """Filters that an index on the column may answer."""
    return list(_FILTERS[column])


def filtered(uri: str, where: str, version: int | None = None) -> tuple[list[int], list[int]]:
    """The ids that a filter finds with indexes and without them, as pylance reads."""
    dataset = lance.dataset(uri, version=version)
    found = (
        dataset.scanner(filter=where, columns=["id"], use_scalar_index=use).to_table()["id"].to_pylist()
        for use in (True, False)
    )
    with_index, without = map(sorted, found)
    return with_index, without


def searched(uri: str, words: str) -> set[int]:
    """The ids that full text search finds."""
    return {*lance.dataset(uri).scanner(full_text_query=words, columns=["id"]).to_table()["id"].to_pylist()}


def recall(uri: str, metric: str = "l2", k: int = 10, **search: Any) -> float:
    """The share of the true neighbours that the index finds, for 20 vectors that are not in the table."""
    dataset = lance.dataset(uri)
    rng = np.random.default_rng(1_000_003)
    hits = 0
    for _ in range(20):
        query = rng.standard_normal(DIMENSION).astype("f4")
        asked = {"column": "v", "q": query, "k": k, "metric": metric}
        true, found = (
            {*dataset.scanner(columns=["id"], nearest={**asked, **how}).to_table()["id"].to_pylist()}
            for how in ({"use_index": False}, {"nprobes": 64, **search})
        )
        assert len(true) == len(found) == k
        hits += len(true & found)
    return hits / (20 * k)
