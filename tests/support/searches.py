"""Searches as actions carry them out, in this process and in parts, beside pylance and beside a model."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner, Runner
from lance_spark.search.search import PreparedSearch, carry_out, prepare_join, prepare_search
from lance_spark.search.search_rules import parse_join, parse_search
from lance_spark.search.search_tasks import JoinWork, join_nearest
from lance_spark.storage.resolving import dataset_at, resolve
from support.indexed import Executors

HERE, PARTS = LocalRunner(), Executors()


def prepared(
    uri: str,
    vector: Any = None,
    text: Any = None,
    column: Any = None,
    branch: str | None = None,
    **asked: Any,
) -> PreparedSearch:
    """A search of a branch, by the arguments of LanceTable.search."""
    k, where, columns = asked.pop("k", 10), asked.pop("filter", None), asked.pop("columns", ["id"])
    location = dataset_at(uri, None)
    request = parse_search(vector, text, column, (k, where, columns), asked)
    return prepare_search(location, resolve(location, RefSpec(branch=branch)), request)


def search(uri: str, *what: Any, runner: Runner = HERE, **asked: Any) -> pa.Table:
    """What a search finds."""
    found = prepared(uri, *what, **asked)
    table: pa.Table = carry_out(found, found.schema, runner)
    return table


def join(uri: str, queries: pa.Table, column: str, branch: str | None = None, **asked: Any) -> pa.Table:
    """The rows of a join, as a task finds them."""
    k, where, found_in = asked.pop("k", 10), asked.pop("filter", None), asked.pop("found_in", None)
    columns = asked.pop("columns", ["id"])
    location = dataset_at(uri, None)
    request = parse_join(found_in, (k, where, columns), asked)
    found = prepare_join(location, resolve(location, RefSpec(branch=branch)), request)
    assert found.field is not None
    work = JoinWork(found.work, column, found.field, found.flat, (*columns, "_distance"))
    schema = pa.schema([*queries.schema, *found.schema])
    return pa.Table.from_batches(join_nearest(work, iter(queries.to_batches())), schema)


def pairs(table: pa.Table, measure: str = "_distance") -> list[tuple[int, float]]:
    """Ids and measures, in order."""
    return list(zip(table["id"].to_pylist(), table[measure].to_pylist(), strict=True))


def by_pylance(dataset: lance.LanceDataset, vector: Any, k: int = 10, **asked: Any) -> list[tuple[int, float]]:
    """What pylance alone finds."""
    where = {name: asked.pop(name) for name in ("filter", "prefilter", "fast_search") if name in asked}
    nearest = {"column": "v", "q": np.asarray(vector, "f4"), "k": k, **asked}
    return pairs(dataset.scanner(columns=["id", "_distance"], nearest=nearest, **where).to_table())


def brute_force(vectors: dict[int, Any], query: Any, k: int) -> list[int]:
    """The ids of the nearest vectors, by numpy."""
    ids = np.array(list(vectors))
    distances = ((np.stack(list(vectors.values())) - query) ** 2).sum(axis=1)
    return [int(each) for each in ids[np.argsort(distances, kind="stable")[:k]]]
