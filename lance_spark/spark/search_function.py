"""Search in SQL: a table function, in Python, that a session registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from lance_spark.catalog.lookup import read_name
from lance_spark.catalog.name_rules import Catalog, split_name
from lance_spark.core.calls import answering
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.search.search import here, prepare_search
from lance_spark.search.search_rules import SearchRequest, parse_join, parse_search
from lance_spark.search.search_tasks import SearchWork
from lance_spark.search.vector_rules import QueryVector, as_vector
from lance_spark.spark.catalog import LanceCatalog
from lance_spark.storage.resolving import read_path, resolve

_PER_ROW = ("vector",)
"""The argument that may differ in each row of a lateral join."""


@dataclass
class AnalyzedSearch(AnalyzeResult):
    """A search whose version is pinned by its analysis."""

    schema: StructType
    work: SearchWork | None = None
    field: pa.Field | None = None
    """The column of vectors, if each row brings one."""


@dataclass(frozen=True)
class Tables:
    """Resolves names to tables."""

    catalogs: Mapping[str, Catalog]
    storage_options: Mapping[str, str]

    def find(self, name: str) -> tuple[DatasetLocation, PinnedVersion]:
        """A table of a catalog, or a path, either with a ref after ``@``. Raises NotFound and similar errors."""
        head, dot, rest = name.partition(".")
        if dot and head in self.catalogs:
            read = read_name(self.catalogs[head], split_name(rest))
            return read.location, resolve(read.location, read.spec)
        try:
            path = read_path(name, self.storage_options)
        except NotFound as missing:
            if "/" in name or not dot or rest.partition("@")[0].endswith("lance"):
                raise  # A path, possibly with a ref; the error already says what is missing.
            known = f"There are {', '.join(sorted(self.catalogs))}" if self.catalogs else "There is none"
            raise NotFound(
                f"There is no catalog '{head}' here, and no Lance dataset at {name}.",
                hint=f"{known}: register_search(spark, catalogs={{'{head}': LanceCatalog(...)}}); or give a path.",
            ) from missing
        return path.location, resolve(path.location, path.spec)


@answering
def register_search(
    spark: SparkSession,
    name: str = "lance_search",
    catalogs: Mapping[str, LanceCatalog] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Register a table function for searches in a session, including Spark Connect.

    ``SELECT * FROM lance_search('s3://bucket/t.lance@exp', text => 'late storm', k => 20)``. The first argument is a
    path, or a table of one of ``catalogs`` by their names; catalogs that ``register`` created with a root are known
    already. A ref may follow after ``@``. The others are the arguments of ``LanceTable.search``, by name, and are
    constants; only ``vector`` may come from each row of a lateral join. One task searches.
    """
    given = {name: each.catalog for name, each in (catalogs or {}).items()}
    tables = Tables({**_registered(spark), **given}, dict(storage_options or {}))
    spark.udtf.register(name, udtf(search_function(tables)))  # type: ignore[arg-type]


def search_function(tables: Tables) -> type:
    """The function over these tables."""

    class LanceSearch:
        @staticmethod
        def analyze(table: AnalyzeArgument, **given: AnalyzeArgument) -> AnalyzedSearch:
            with plainly("sql"):
                return analyze_search(tables, table, given)

        def __init__(self, analyzed: AnalyzedSearch) -> None:
            self._analyzed = analyzed

        def eval(self, table: str, **given: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002 - it is known already
            with plainly("sql"):
                yield from _rows(self._analyzed, given.get("vector"))

    return LanceSearch


def analyze_search(tables: Tables, table: AnalyzeArgument, given: Mapping[str, AnalyzeArgument]) -> AnalyzedSearch:
    """Check a call. Raises the errors of ``LanceTable.search``."""
    if not isinstance(table.value, str) or not table.value.strip():
        raise InvalidOption(
            "The table of a search must be its name or path, as a constant text.",
            hint="lance_search('s3://bucket/t.lance@exp', text => 'late storm', k => 20)",
        )
    for name, argument in given.items():
        if argument.isTable or not (argument.isConstantExpression or name in _PER_ROW):
            raise InvalidOption(f"'{name}' of a search must be a constant.", hint="Only vector may come from rows.")
    constants = {name: _plain(argument.value) for name, argument in given.items() if argument.isConstantExpression}
    per_row = "vector" in given and not given["vector"].isConstantExpression
    request = _request(constants, per_row)
    prepared = prepare_search(*tables.find(table.value), request)
    shown = to_spark(prepared.schema)
    work = replace(prepared.work, wire=wire_schema(shown), rescored=False)
    return AnalyzedSearch(StructType(shown.fields), work=work, field=prepared.field if per_row else None)


def _request(given: Mapping[str, Any], per_row: bool) -> SearchRequest:
    options = dict(given)
    column, k, where = options.pop("column", None), options.pop("k", 10), options.pop("filter", None)
    columns = options.pop("columns", None)
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    vector, text = options.pop("vector", None), options.pop("text", None)
    if not per_row:
        return parse_search(vector, text, column, (k, where, columns), options)
    if text is not None:
        raise InvalidOption("A search by text and vector takes a constant vector.", hint="Omit one of them.")
    return parse_join(column, (k, where, columns), options)


def _rows(analyzed: AnalyzedSearch, vector: Any) -> Iterator[tuple[Any, ...]]:
    work = analyzed.work
    assert work is not None
    if analyzed.field is not None:
        if vector is None:
            return
        values = as_vector(_plain(vector), analyzed.field)
        work = replace(work, query=QueryVector.of(values))
    for batch in here(work):
        maps = [place for place, field in enumerate(batch.schema) if str(field.type).startswith("map<")]
        columns = [column.to_pylist() for column in batch.columns]
        for place in maps:
            columns[place] = [None if value is None else dict(value) for value in columns[place]]
        yield from zip(*columns, strict=True)


def _plain(value: Any) -> Any:
    """A SQL constant; numbers with a point arrive as decimals."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def _registered(spark: SparkSession) -> dict[str, Catalog]:
    from lance_spark.native import session

    room = session.current(spark)
    known = {} if room is None else room.catalogs
    return {name: found.catalog for name, found in known.items() if hasattr(found, "catalog")}
