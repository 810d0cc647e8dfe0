"""Every type of Spark with every parameter: values, what is stored, and the verbs by which they reach a table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lance_spark import LanceTable
from support.kinds import SPARK
from support.spark_settings import settings_of

SETTINGS = {"spark.sql.timeType.enabled": "true", "spark.sql.geospatial.enabled": "true"}
_POINT = "X'0101000000000000000000F03F0000000000000040'"


@dataclass(frozen=True)
class Kind:
    """A type, and two values of it in SQL; a third one is NULL."""

    sql: str
    one: str
    other: str
    stored: str
    """As docs/reference/types.md calls it."""
    ordered: bool = True
    """Whether Spark compares its values."""

    def values(self) -> list[str]:
        """In SQL, with the type."""
        return [f"CAST({value} AS {self.sql})" for value in (self.one, self.other, "NULL")]

    @property
    def collated(self) -> bool:
        return "COLLATE" in self.sql


def _interval(units: str, one: str, other: str) -> Kind:
    return Kind(f"INTERVAL {units}", f"INTERVAL '{one}' {units}", f"INTERVAL '-{other}' {units}", "duration[us]")


def _text(kind: str, one: str = "'Ab'", other: str = "'aB'") -> Kind:
    return Kind(kind, one, other, "string")


def _decimal(digits: int, scale: int) -> Kind:
    most = f"{'9' * (digits - scale) or '0'}.{'9' * scale}".rstrip(".")
    return Kind(f"DECIMAL({digits}, {scale})", f"{most}BD", "0BD", "decimal128")


KEPT = [
    _text("STRING COLLATE UTF8_LCASE"),
    _text("STRING COLLATE UNICODE"),
    _text("STRING COLLATE UNICODE_CI"),
    _text("STRING COLLATE UTF8_BINARY_RTRIM", "'Ab'", "'Ab '"),
    _text("STRING COLLATE UNICODE_CI_AI", "'zażółć'", "'ZAZOLC'"),
    _text("CHAR(3)", "'a'", "'abc'"),
    _text("VARCHAR(3)", "'a '", "'żół'"),
    _text("CHAR(4) COLLATE UTF8_LCASE", "'A'", "'a '"),
    _text("VARCHAR(4) COLLATE UNICODE_CI", "'A'", "'a'"),
    Kind("TIME(0)", "TIME'12:00:01'", "TIME'23:59:59'", "time64[ns]"),
    Kind("TIME(3)", "TIME'12:00:01.123'", "TIME'00:00:00'", "time64[ns]"),
    _interval("DAY", "3", "2"),
    _interval("DAY TO HOUR", "3 4", "2 1"),
    _interval("DAY TO MINUTE", "3 4:5", "2 1:0"),
    _interval("HOUR", "30", "1"),
    _interval("HOUR TO MINUTE", "30:1", "1:1"),
    _interval("HOUR TO SECOND", "30:1:1.5", "1:1:1"),
    _interval("MINUTE", "90", "1"),
    _interval("MINUTE TO SECOND", "90:1.000001", "1:1"),
    _interval("SECOND", "100.5", "1"),
    Kind("VARIANT", "parse_json('{\"a\": [1, null]}')", "parse_json('2')", "struct of value and metadata", False),
    Kind("GEOMETRY(4326)", f"ST_GeomFromWKB({_POINT}, 4326)", "NULL", "struct of srid and wkb", False),
    Kind("GEOGRAPHY(4326)", f"ST_GeogFromWKB({_POINT})", "NULL", "struct of srid and wkb", False),
]
"""Types that Arrow lacks."""
PLAIN = [
    Kind("BOOLEAN", "true", "false", "bool"),
    Kind("TINYINT", "-128", "127", "int8"),
    Kind("SMALLINT", "-32768", "32767", "int16"),
    Kind("INT", "-2147483648", "2147483647", "int32"),
    Kind("BIGINT", "-9223372036854775808", "9223372036854775807", "int64"),
    Kind("FLOAT", "'NaN'", "'-Infinity'", "float32"),
    Kind("DOUBLE", "'Infinity'", "-0.0D", "float64"),
    *(_decimal(*digits) for digits in ((1, 0), (9, 4), (18, 18), (19, 2), (38, 0), (38, 38))),
    _text("STRING", "''", "'żółć 🏳'"),
    Kind("BINARY", "X'00FF'", "X''", "binary"),
    Kind("DATE", "'0001-01-01'", "'9999-12-31'", "date32"),
    Kind("TIMESTAMP", "'2020-02-29 12:34:56.789012'", "'1901-12-13 20:45:51'", "timestamp[us, UTC]"),
    Kind("TIMESTAMP_NTZ", "'2020-02-29 12:34:56.789012'", "'1901-12-13 20:45:51'", "timestamp[us]"),
    Kind("TIME(6)", "TIME'12:00:01.123456'", "TIME'00:00:00'", "time64[ns]"),
    _interval("DAY TO SECOND", "3 4:5:6.000007", "2 1:0:0"),
    Kind("VOID", "NULL", "NULL", "null"),
]  # fmt: skip
"""Types that Arrow has as well."""
REFUSED = {
    "INTERVAL YEAR": "INTERVAL '1' YEAR",
    "INTERVAL MONTH": "INTERVAL '1' MONTH",
    "INTERVAL YEAR TO MONTH": "INTERVAL '1-1' YEAR TO MONTH",
    "MAP<VOID, VOID>": "map()",
    "ARRAY<INTERVAL MONTH>": "array(INTERVAL '1' MONTH)",
    "STRUCT<a: MAP<VOID, INT>>": "named_struct('a', CAST(map() AS MAP<VOID, INT>))",
}
"""Types that are refused at the door, with a value of each."""


def _within(outer: str, wrap: str, empty: str) -> Callable[[Kind], Kind]:
    def shaped(kind: Kind) -> Kind:
        first, second, none = kind.values()
        one, other = wrap.format(first), wrap.format(none) if empty == "null inside" else empty
        comparable = kind.ordered and not outer.startswith("MAP")
        return Kind(outer.format(kind.sql), one, other.format(second), kind.stored, comparable)

    return shaped


SHAPES: dict[str, Callable[[Kind], Kind]] = {
    "bare": lambda kind: kind,
    "in a struct": _within("STRUCT<x: {}, y: INT>", "named_struct('x', {}, 'y', 1)", "null inside"),
    "in an array": _within("ARRAY<{}>", "array({0}, NULL, {0})", "array()"),
    "in a map": _within("MAP<STRING, {}>", "map('k', {})", "map()"),
    "in a struct in an array": _within("ARRAY<STRUCT<x: {}>>", "array(named_struct('x', {}), NULL)", "array()"),
}


def known_kinds(spark: SparkSession) -> list[Kind]:
    """Those that this Spark has and shows: 4.0 lacks TIME and GEOMETRY, and collects no rows with a collation."""
    found = []
    for kind in (*KEPT, *PLAIN):
        if kind.sql == "VOID" and SPARK == "oldest":
            continue  # its Parquet has none
        with suppress(PySparkException):
            found += [kind] if spark.sql(f"SELECT {', '.join(kind.values())}").collect() else []
    return found


# --- A table with a column of each kind, and its twin in Parquet

_numbers = itertools.count()


@dataclass(frozen=True)
class Columns:
    """Columns c0, c1, ... of these kinds, and a view of the three rows that all tables consist of, in Parquet."""

    spark: SparkSession
    kinds: tuple[Kind, ...]
    view: str

    @classmethod
    def of(cls, spark: SparkSession, kinds: list[Kind], directory: Path) -> Columns:
        found = cls(spark, tuple(kinds), f"kinds_{next(_numbers)}")
        spark.sql(f"CREATE TABLE spark_catalog.default.{found.view} (v INT, {found.ddl}) USING parquet "
                  f"LOCATION '{directory / found.view}'")  # fmt: skip
        spark.sql(f"INSERT INTO spark_catalog.default.{found.view} VALUES {found.rows({0: 0, 1: 1, 2: 2})}")
        return found

    @property
    def names(self) -> list[str]:
        return [f"c{at}" for at in range(len(self.kinds))]

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind.sql}" for name, kind in zip(self.names, self.kinds, strict=True))

    def rows(self, model: dict[int, int]) -> str:
        """Rows in SQL: the id, and each column's value of that number."""
        values = [kind.values() for kind in self.kinds]
        return ", ".join(f"({row}, {', '.join(each[v] for each in values)})" for row, v in model.items())

    @cached_property
    def table(self) -> DataFrame:
        return self.spark.table(f"spark_catalog.default.{self.view}")

    @cached_property
    def expected(self) -> dict[int, tuple[Any, ...]]:
        """Parquet's values, by their number."""
        return {row.v: tuple(row)[1:] for row in self.table.collect()}

    def frame(self, model: dict[int, int]) -> DataFrame:
        """Rows of Parquet: ids, and the values that belong to them."""
        ids = self.spark.createDataFrame(list(model.items()), "id int, v int")
        return ids.join(self.table, "v").select("id", *self.names)

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE spark_catalog.default.{self.view}")


@contextmanager
def every_type(spark: SparkSession, directory: Path) -> Iterator[Columns]:
    """A column of every type, in a session that has all of them."""
    with settings_of(spark, SETTINGS):
        made = Columns.of(spark, known_kinds(spark), directory)
        yield made
        made.drop()


# --- The verbs. Each makes a table at a place, and returns the number of the value that each id has in the end

Model = dict[int, int]
FIRST: Model = {1: 0, 2: 1, 3: 2, 4: 0}


@dataclass(frozen=True)
class Place:
    """Where a verb makes its table: a name in SQL, and the path that it has."""

    columns: Columns
    name: str
    path: str
    scratch: Path

    @property
    def handle(self) -> LanceTable:
        return LanceTable.for_path(self.path)

    def sql(self, text: str) -> None:
        self.columns.spark.sql(text.format(t=self.name))

    def save(self, model: Model, mode: str = "append") -> None:
        self.columns.frame(model).coalesce(1).write.format("lance").mode(mode).save(self.path)

    def load(self) -> DataFrame:
        return self.columns.spark.read.format("lance").load(self.path)


def _inserted(place: Place) -> Model:
    place.sql(f"CREATE TABLE {{t}} (id INT, {place.columns.ddl})")
    place.columns.spark.sql(f"INSERT INTO {place.name} VALUES {place.columns.rows(FIRST)}")
    return FIRST


def _altered(place: Place) -> Model:
    place.sql("CREATE TABLE {t} (id INT)")
    place.sql("INSERT INTO {t} VALUES (1), (2), (3), (4)")
    place.sql(f"ALTER TABLE {{t}} ADD COLUMNS ({place.columns.ddl})")
    return dict.fromkeys(FIRST, 2)


def _updated(place: Place) -> Model:
    _altered(place)
    values = [kind.values()[0] for kind in place.columns.kinds]
    sets = ", ".join(f"{name} = {value}" for name, value in zip(place.columns.names, values, strict=True))
    place.columns.spark.sql(f"UPDATE {place.name} SET {sets} WHERE id IN (1, 3)")
    return {1: 0, 2: 2, 3: 0, 4: 2}


def _merged(place: Place) -> Model:
    _inserted(place)
    place.columns.frame({1: 1, 5: 0}).createOrReplaceTempView("source_of_types")
    place.sql(
        "MERGE INTO {t} USING source_of_types s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    return {**FIRST, 1: 1, 5: 0}


def _overwritten(place: Place) -> Model:
    _inserted(place)
    place.columns.frame({7: 1, 8: 0}).createOrReplaceTempView("source_of_types")
    place.sql("INSERT OVERWRITE {t} SELECT * FROM source_of_types")
    return {7: 1, 8: 0}


def _selected(place: Place) -> Model:
    place.columns.frame(FIRST).createOrReplaceTempView("source_of_types")
    place.sql("CREATE TABLE {t} AS SELECT * FROM source_of_types")
    return FIRST


def _saved(place: Place) -> Model:
    place.save({1: 0, 2: 1})
    place.save({3: 2, 4: 0})
    return FIRST


def _handle_updates(place: Place) -> Model:
    _saved(place)
    values = {name: kind.values()[1] for name, kind in zip(place.columns.names, place.columns.kinds, strict=True)}
    place.handle.update(values, where="id = 1")
    return {**FIRST, 1: 1}


def _handle_merges(place: Place) -> Model:
    _saved(place)
    merge = place.handle.merge(place.columns.frame({1: 1, 5: 0}), on="id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    return {**FIRST, 1: 1, 5: 0}


def _part_overwritten(place: Place) -> Model:
    _saved(place)
    place.handle.overwrite(place.columns.frame({1: 1, 2: 2}), where="id < 3")
    return {**FIRST, 1: 1, 2: 2}


def _optimized(place: Place) -> Model:
    _saved(place)
    place.handle.optimize()
    return FIRST


def _ordered(place: Place) -> Model:
    _saved(place)
    place.handle.optimize(sort_by="id")
    return FIRST


def _backfilled(place: Place) -> Model:
    columns = place.columns
    kinds = {name: kind for name, kind in zip(columns.names, columns.kinds, strict=True) if kind.sql != "VOID"}
    columns.frame(FIRST).select("id").coalesce(1).write.format("lance").mode("append").save(place.path)
    place.handle.add_columns_from(columns.frame({1: 0, 2: 1, 4: 0}).select("id", *kinds), on="id")
    place.handle.update_columns({name: kind.values()[0] for name, kind in kinds.items()}, where="id = 3")
    return {1: 0, 2: 1, 3: 0, 4: 0}


def _branch_merged(place: Place) -> Model:
    _saved(place)
    place.handle.branches.create("exp")
    branch = place.handle.checkout(branch="exp")
    branch.write(place.columns.frame({5: 1}))
    place.handle.write(place.columns.frame({6: 0}))
    place.handle.branches.merge("exp")
    return {**FIRST, 5: 1, 6: 0}


def _cloned(place: Place) -> Model:
    source = Place(place.columns, "", str(place.scratch / "origin.lance"), place.scratch)
    _saved(source)
    source.handle.clone(place.path, "deep")
    return FIRST


def _streamed(place: Place) -> Model:
    source = Place(place.columns, "", str(place.scratch / "origin.lance"), place.scratch)
    _saved(source)
    spark = place.columns.spark
    stream = spark.readStream.format("lance").option("starting_version", "1").load(source.path)
    writer = stream.writeStream.format("lance").option("checkpointLocation", str(place.scratch / "checkpoint"))
    writer.option("path", place.path).trigger(availableNow=True).start().awaitTermination()
    return FIRST


IN_SQL: dict[str, Callable[[Place], Model]] = {
    "CREATE, INSERT VALUES": _inserted,
    "CTAS": _selected,
    "ALTER ADD": _altered,
    "UPDATE": _updated,
    "MERGE": _merged,
    "INSERT OVERWRITE": _overwritten,
}
"""Statements, which need a catalog."""
IN_PYTHON: dict[str, Callable[[Place], Model]] = {
    "save": _saved,
    "update": _handle_updates,
    "merge": _handle_merges,
    "overwrite of a part": _part_overwritten,
    "optimize": _optimized,
    "optimize with an order": _ordered,
    "backfill": _backfilled,
    "branch merge": _branch_merged,
    "deep clone": _cloned,
    "stream": _streamed,
}
"""Verbs of Python, in each way to read."""


def same_column(found: Any, wanted: Any) -> bool:
    """Whether two columns have the same type and metadata; a backfill may allow nulls where Parquet does not."""
    return bool(found.dataType == wanted.dataType and found.metadata == wanted.metadata)


def check(place: Place, model: Model) -> None:
    """The rows and the schema of the table against Parquet's."""
    columns = place.columns
    found = place.load()
    names = [name for name in columns.names if name in found.columns]
    wrong = [
        (name, found.schema[name], columns.table.schema[name])
        for name in names
        if not same_column(found.schema[name], columns.table.schema[name])
    ]
    assert wrong == []
    shown = {row.id: row for row in found.collect()}
    assert sorted(shown) == sorted(model)
    for at, name in enumerate(columns.names):
        if name in names:
            mine = {row: str(shown[row][name]) for row in model}
            assert mine == {row: str(columns.expected[v][at]) for row, v in model.items()}, columns.kinds[at]


# --- docs/reference/types.md


def page_table() -> list[str]:
    """The rows of the page's table about types."""
    kept = [f"| {kind.sql} | {kind.stored} | as itself |" for kind in (*PLAIN, *KEPT)]
    return [*kept, *(f"| {name} | none | refused |" for name in REFUSED)]
