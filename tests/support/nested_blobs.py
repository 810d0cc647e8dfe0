"""Blobs inside structs and lists: tables that pylance makes, and verbs that change and copy their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.format.blobs import holds_blobs, plain_bytes, wrapped

LARGE = b"x" * 100_000
"""So large that format 2.2 stores it in a file beside the data file."""
EVERYTHING_OLD = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))
Rows = dict[int, tuple[int, Any]]
"""By id: n, and s, which holds a blob."""


@dataclass(frozen=True)
class Shape:
    """Where the blob is."""

    kind: Callable[[pa.Field], pa.DataType]
    value: Callable[[bytes | None], Any]
    formats: tuple[str, ...] = ("2.1", "2.2")


def _struct(blob: pa.Field) -> pa.DataType:
    return pa.struct([blob, pa.field("q", pa.int32())])


def _list(blob: pa.Field) -> pa.DataType:
    return pa.list_(blob.with_name("item"))


SHAPES = {
    "in a struct": Shape(_struct, lambda blob: {"b": blob, "q": 1}),
    "in a struct in a struct": Shape(
        lambda blob: pa.struct([("i", _struct(blob)), ("z", pa.int32())]),
        lambda blob: {"i": None if blob is None else {"b": blob, "q": 1}, "z": 2},
    ),
    "in a list": Shape(_list, lambda blob: [blob, b"more", None], ("2.2",)),
    "in a list in a struct": Shape(
        lambda blob: pa.struct([("l", _list(blob)), ("q", pa.int32())]), lambda blob: {"l": [blob], "q": 1}, ("2.2",)
    ),
    "in a struct in a list": Shape(
        lambda blob: pa.list_(_struct(blob)), lambda blob: [{"b": blob, "q": 1}, None], ("2.2",)
    ),
}
KINDS = [(shape, version) for shape, found in SHAPES.items() for version in found.formats]
IN_STRUCTS = [(shape, version) for shape, version in KINDS if "list" not in shape]
"""Those that new tables may have."""


@dataclass(frozen=True)
class Nested:
    """A table with ids 1 to 4: a small blob, none, no value at all, and a large blob."""

    spark: SparkSession
    uri: str
    shape: str
    version: str

    @property
    def schema(self) -> pa.Schema:
        blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        made = lance.blob_field("b") if self.version == "2.2" else blob
        kind = SHAPES[self.shape].kind(made)
        return pa.schema([("id", pa.int32()), ("n", pa.int32()), ("s", kind)])

    @property
    def rows(self) -> Rows:
        value = SHAPES[self.shape].value
        return {1: (0, value(b"small")), 2: (0, value(None)), 3: (0, None), 4: (0, value(LARGE))}

    def make(self) -> Nested:
        plain = pa.schema([plain_bytes(field) for field in self.schema])
        rows = [{"id": key, "n": n, "s": s} for key, (n, s) in self.rows.items()]
        columns = pa.Table.from_pylist(rows, plain).combine_chunks()
        made = [wrapped(column.chunk(0), field) for column, field in zip(columns.columns, self.schema, strict=True)]
        lance.write_dataset(pa.table(made, schema=self.schema), self.uri, data_storage_version=self.version)
        return self

    @property
    def table(self) -> LanceTable:
        return LanceTable.for_path(self.uri)

    def load(self) -> DataFrame:
        return self.spark.read.format("lance").option("blob_handling", "bytes").load(self.uri)

    def shifted(self, by: int, n: int = 0) -> DataFrame:
        """The rows with other ids and another n."""
        return self.load().selectExpr(f"id + {by} AS id", f"{n} AS n", "s")

    def at(self, uri: str) -> Nested:
        return replace(self, uri=uri)

    def check(self, expected: Rows) -> None:
        """The rows, as pylance reads them; s still holds blobs, and fsck finds every file."""
        found = lance.dataset(self.uri)
        rows = found.to_table(columns=["id", "n", "s"], blob_handling="all_binary").to_pylist()
        assert {row["id"]: (row["n"], row["s"]) for row in rows} == expected
        assert holds_blobs(found.schema.field("s"))
        report = self.table.fsck(deep=True)
        assert report.sound, report


def _n(rows: Rows, **changed: int) -> Rows:
    return {key: (changed.get(f"_{key}", n), s) for key, (n, s) in rows.items()}


def _moved(rows: Rows, by: int, n: int = 0) -> Rows:
    return {key + by: (n, s) for key, (_, s) in rows.items()}


# --- The verbs of Python. Each changes the table, or copies it; yields the place and the rows that it then has

Outcome = Iterator[tuple[Nested, Rows]]


def _saved(made: Nested, scratch: Path) -> Outcome:
    copy = made.at(str(scratch / "copy.lance"))
    writer = made.load().coalesce(1).write.format("lance").option("data_storage_version", made.version)
    writer.mode("append").save(copy.uri)
    yield copy, made.rows
    made.load().where("id < 3").write.format("lance").mode("overwrite").save(copy.uri)
    yield copy, {key: made.rows[key] for key in (1, 2)}


def _updated(made: Nested, scratch: Path) -> Outcome:
    made.table.update({"n": "5"}, where="id IN (1, 4)")
    yield made, _n(made.rows, _1=5, _4=5)
    made.table.update({"n": "6"})
    yield made, {key: (6, s) for key, (_, s) in made.rows.items()}


def _merged(made: Nested, scratch: Path) -> Outcome:
    merge = made.table.merge(made.shifted(2, n=7), on="id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    expected = {**made.rows, **_moved(made.rows, 2, 7)}
    yield made, expected
    source = made.spark.sql("SELECT 1 AS id, 9 AS n")
    made.table.merge(source, on="id").when_matched_update_all().execute()
    yield made, _n(expected, _1=9)


def _part_overwritten(made: Nested, scratch: Path) -> Outcome:
    made.table.overwrite(made.shifted(0, n=3).where("id > 2"), where="id > 2")
    yield made, _n(made.rows, _3=3, _4=3)


def _optimized(made: Nested, scratch: Path) -> Outcome:
    made.table.write(made.shifted(4))
    made.table.optimize()
    yield made, {**made.rows, **_moved(made.rows, 4)}


def _backfilled(made: Nested, scratch: Path) -> Outcome:
    made.table.add_columns({"m": "n + 1"})
    made.table.update({"m": "7"}, where="id = 4")
    yield made, made.rows


def _branch_merged(made: Nested, scratch: Path) -> Outcome:
    made.table.branches.create("exp")
    branch = made.table.checkout(branch="exp")
    branch.write(made.shifted(4))
    branch.update({"n": "1"}, where="id = 1")
    made.table.write(made.shifted(8))
    made.table.update({"n": "2"}, where="id = 4")
    made.table.branches.merge("exp")
    expected = _n({**made.rows, **_moved(made.rows, 4), **_moved(made.rows, 8)}, _1=1, _4=2)
    yield made, expected
    made.table.branches.delete("exp")
    made.table.cleanup(EVERYTHING_OLD).apply()
    yield made, expected


def _cloned(made: Nested, scratch: Path) -> Outcome:
    made.table.clone(str(scratch / "clone.lance"), "deep")
    yield made.at(str(scratch / "clone.lance")), made.rows


def _streamed(made: Nested, scratch: Path) -> Outcome:
    reader = made.spark.readStream.format("lance").option("starting_version", "1").option("blob_handling", "bytes")
    writer = reader.load(made.uri).writeStream.format("lance").option("checkpointLocation", str(scratch / "checkpoint"))
    writer = writer.option("data_storage_version", made.version).option("path", str(scratch / "stream.lance"))
    writer.trigger(availableNow=True).start().awaitTermination()
    yield made.at(str(scratch / "stream.lance")), made.rows


IN_PYTHON: dict[str, Callable[[Nested, Path], Outcome]] = {
    "save": _saved,
    "update": _updated,
    "merge": _merged,
    "overwrite of a part": _part_overwritten,
    "optimize": _optimized,
    "backfill": _backfilled,
    "branch merge": _branch_merged,
    "deep clone": _cloned,
    "stream": _streamed,
}
NEW_TABLES = {"save", "stream"}
"""Verbs that make a table of Spark's columns."""


# --- Statements on the table ``lake.ns1.t``, which is a copy


def _selected(made: Nested) -> Rows:
    return made.rows


def _inserted(made: Nested) -> Rows:
    made.spark.sql("INSERT INTO lake.ns1.t SELECT id + 4, 0, s FROM nested")
    made.spark.sql("INSERT INTO lake.ns1.t VALUES (9, 9, NULL)")
    return {**made.rows, **_moved(made.rows, 4), 9: (9, None)}


def _set(made: Nested) -> Rows:
    made.spark.sql("UPDATE lake.ns1.t SET n = 5 WHERE id IN (1, 4)")
    made.spark.sql("UPDATE lake.ns1.t SET s = (SELECT first(s) FROM nested WHERE id = 4) WHERE id = 2")
    return {**_n(made.rows, _1=5, _4=5), 2: made.rows[4]}


def _merged_in_sql(made: Nested) -> Rows:
    made.spark.sql(
        "MERGE INTO lake.ns1.t USING (SELECT id + 2 AS id, 7 AS n, s FROM nested) c ON t.id = c.id "
        "WHEN MATCHED AND c.id = 3 THEN UPDATE SET n = c.n WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    return {**made.rows, **_moved(made.rows, 2, 7), 3: (7, None)}


def _replaced(made: Nested) -> Rows:
    made.spark.sql("INSERT OVERWRITE lake.ns1.t SELECT id, 1, s FROM nested WHERE id <> 2")
    return {key: (1, s) for key, (_, s) in made.rows.items() if key != 2}


def _altered(made: Nested) -> Rows:
    made.spark.sql("ALTER TABLE lake.ns1.t ADD COLUMN m INT")
    made.spark.sql("DELETE FROM lake.ns1.t WHERE id = 1")
    return {key: row for key, row in made.rows.items() if key != 1}


IN_SQL: dict[str, Callable[[Nested], Rows]] = {
    "CTAS": _selected,
    "INSERT": _inserted,
    "UPDATE": _set,
    "MERGE": _merged_in_sql,
    "INSERT OVERWRITE": _replaced,
    "ALTER ADD, DELETE": _altered,
}
