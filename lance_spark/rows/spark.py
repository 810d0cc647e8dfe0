"""Changes of rows on Spark: an action frame says which rows change, executors write files, the driver commits.

Conditions, values and DataFrames come in as users write them. One version comes out, or an error and no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql import types as st
from pyspark.sql.types import StructType

from lance_spark.columns.columns import update_filled_columns
from lance_spark.columns.fill_rules import (
    SQL,
    Asked,
    BackfillOptions,
    ComputedColumns,
)
from lance_spark.columns.spark import SqlValues, values_of
from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.storage_options import PREFIX
from lance_spark.core.table_options import ReadOptions, WriteOptions
from lance_spark.core.texts import quoted_name
from lance_spark.engine.session_spark import SparkRunner
from lance_spark.engine.types_spark import quoted, to_arrow, to_spark, wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import Conflict, InvalidOption, LanceSparkError, SchemaMismatch
from lance_spark.format.blobs import BLOB_KEY
from lance_spark.format.schema import ROW_ADDRESS, conform, row_width
from lance_spark.indexes.index_segments import describe_segments
from lance_spark.rows import action_rules
from lance_spark.rows.action_rules import (
    ChangeResult,
    Prepared,
    UpdateSize,
    columns_are_cheaper,
    columns_may_be_cheaper,
)
from lance_spark.rows.row_files import delete_offsets, write_parts
from lance_spark.rows.rows import Finish, check_unambiguous, finish, new_terms
from lance_spark.scan.fragment_reads import Scan, ScanColumns, fragment_sizes, read_batches, stored_schema
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.scan.read import PinnedRead, blob_names, read_schema
from lance_spark.session.narrow_query import needs, probe, read_options, with_all_columns
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_writable
from lance_spark.write.data_files import PartsJob, kept_columns, read_target
from lance_spark.write.plan_rules import WriteJob, WritePlan, append_schema, check_names, filled


@dataclass(frozen=True)
class TargetRows:
    """The rows of a table that may change, as DataFrames with their addresses."""

    spark: SparkSession
    location: DatasetLocation

    def schema(self, pin: PinnedVersion) -> StructType:
        """The table's columns in Spark's types, without the row's address."""
        read = self._read(pin)
        return to_spark(read_schema(read))

    def kept(self, pin: PinnedVersion, sets: frozenset[str] | None) -> frozenset[str]:
        """The columns that updates leave as they are, and that action frames may omit."""
        return frozenset(kept_columns(stored_schema(self.location, pin), sets))

    def select(self, pin: PinnedVersion, query: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """A query over all rows of a version, reading only the columns it needs; ``_rowaddr`` is a column.

        The function may be called several times, like that of ``LanceTable.query``. The session belongs to a handle or
        to a statement in SQL, which registered its own name of the format.
        """
        from lance_spark.jvm.detection import connected

        if self.spark in connected:
            return query(self._load(pin, {"with_row_address": True}))
        read = self._read(pin, with_row_address=True)
        own = read_schema(read)
        seen = to_spark(own)
        found = needs(self.spark, query, seen, own)
        options = read_options(found, seen)
        columns = options.pop("columns", None)
        if isinstance(columns, list):
            # The address can be named only without a qualifier.
            named = [name for name in columns if name.strip("`") != ROW_ADDRESS]
            options["columns"] = ",".join([*named, ROW_ADDRESS])
        else:
            options["with_row_address"] = True
        return query(with_all_columns(self._load(pin, options), found, seen))

    def needed(self, pin: PinnedVersion, query: Callable[[DataFrame], DataFrame]) -> list[str] | None:
        """The columns that a query needs; None if Spark's plan does not tell, or if one of them holds blobs."""
        read = self._read(pin, with_row_address=True)
        own = read_schema(read)
        found = needs(self.spark, query, to_spark(own), own).columns
        if found is None or not blob_names(read).isdisjoint(found):
            return None
        return [name for name in found if name != ROW_ADDRESS]

    def fragments(self, pin: PinnedVersion, fragments: Sequence[int]) -> DataFrame:
        read = self._read(pin, with_row_address=True)
        own = read_schema(read)
        schema = to_spark(own)
        wire = wire_schema(schema)
        names = tuple(name for name in own.names if name != ROW_ADDRESS)
        columns = ScanColumns(names, with_row_address=True)
        if read.options.blob_handling == "bytes":
            columns = replace(columns, blobs="all_binary")
        scan = Scan(self.location, pin, columns)

        def rows(fragment: int) -> Iterator[pa.RecordBatch]:
            for batch in read_batches(scan, ScanPartition((fragment,))):
                yield conform(batch, wire)

        return SparkRunner(self.spark, "read").flat_map("read new rows", list(fragments), rows, wire)

    def _read(self, pin: PinnedVersion, with_row_address: bool = False) -> PinnedRead:
        plain = PinnedRead(self.location, pin, ReadOptions())
        handling = "bytes" if blob_names(plain) else "descriptions"
        options = ReadOptions(with_row_address=with_row_address, blob_handling=handling)  # type: ignore[arg-type]
        return PinnedRead(self.location, pin, options)

    def _load(self, pin: PinnedVersion, options: dict[str, object]) -> DataFrame:
        read = self._read(pin)
        given = {**options, "branch": pin.branch or MAIN, "version": pin.version}
        given["blob_handling"] = read.options.blob_handling
        reader = self.spark.read.format(OWN_NAME)
        for key, value in given.items():
            reader = reader.option(key, str(value))
        for key, secret in self.location.options:
            reader = reader.option(PREFIX + key, secret)
        return reader.load(self.location.uri)


# --- The engine for all changes of rows: executors write, the driver commits one version

_ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_FEW_FRAGMENTS = 64
_FEW_TASKS = 4


@dataclass(frozen=True)
class RowChange:
    """A change of rows of a branch, as its producer describes it."""

    location: DatasetLocation
    branch: str | None
    """None for main."""
    verb: str
    """The verb the user called; see `rows/action_rules.py`. The frames of a "delete" have no updates or inserts."""
    actions: Callable[[PinnedVersion], DataFrame]
    """The action frame of a version, see lance_spark.rows.action_rules. Each retry calls it again."""
    meets: Callable[[PinnedVersion, Sequence[int]], bool] | None = None
    """Whether the change would have deleted, updated or matched rows of fragments that were added meanwhile. None if
    it never would."""
    inserts_by_key: bool = False
    """Whether to check rows that others merely appended. A merge that inserts must."""
    key: tuple[str, ...] = ()
    """Columns that identify rows, for errors."""
    predicate: str = ""
    """The condition of a delete, for readers of the history."""
    sets: frozenset[str] | None = None
    """Columns that updates may change. Updated rows keep all others except blobs: the action frame's values for these
    do not matter, and a frame without inserts may omit them. None if the frame has all columns."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the version beyond those of every change of rows."""
    check: Callable[[], None] | None = None
    """Called before each attempt to commit; raises to abort the change."""
    is_divided: Callable[[DataFrame], bool] | None = None
    """Whether a frame's rows come divided by the key of the table's layout: then they are written where they are."""


def change_rows(spark: SparkSession, change: RowChange, message: str | None = None, retries: int = 0) -> ChangeResult:
    """Compute a change of rows on executors, and commit it as one version.

    Concurrent commits are kept. If they changed the same rows, the change is recomputed on the newest version, up to
    ``retries`` times, and then raises Conflict. Raises Refused if two source rows change one row, SchemaMismatch,
    NotFound and Conflict; then nothing was changed. Only after a StorageFailure of the commit is the outcome unknown.
    """
    check_writable(change.location, change.branch)
    for _ in range(retries):
        with suppress(Conflict):
            return _attempt(spark, change, message)
    return _attempt(spark, change, message)


def _attempt(spark: SparkSession, change: RowChange, message: str | None) -> ChangeResult:
    start = pin_latest(change.location, change.branch)
    found = _prepare(spark, change, start)
    if found.is_empty and found.twice is None:
        return ChangeResult(start)
    check_unambiguous(change.location, start, found, change.key)
    terms = new_terms(change.verb, change.meets is not None, change.predicate, message)
    terms = terms._replace(properties=change.properties)
    return finish(Finish(change.location, start, found, terms, change.meets, change.inserts_by_key, change.check))


def _prepare(spark: SparkSession, change: RowChange, start: PinnedVersion) -> Prepared:
    """Write all files, in one job. The driver gets one small row per fragment."""
    runner = SparkRunner(spark, change.verb)
    location, frame = change.location, change.actions(start)
    target = read_target(location, start)
    schema, kept = target.schema, kept_columns(target.schema, change.sets)
    fills: dict[str, pa.Scalar] = {}
    if change.verb == action_rules.DELETING:
        frame = frame.select(action_rules.OPERATION, ROW_ADDRESS)
    else:
        given = to_arrow(frame.drop(action_rules.OPERATION, ROW_ADDRESS).schema)
        check_names(given, new=False)
        left_out = {name for name in kept if name not in given.names}
        wanted = pa.schema([field for field in schema if field.name not in left_out])
        schema, fills = filled(wanted, append_schema(wanted, given), datetime.now(timezone.utc))
        if change.is_divided is None or not change.is_divided(frame):
            # Spark sizes tasks by the session's advisory size, however many rows there are: no tiny files.
            frame = frame.hint("rebalance", action_rules.OPERATION)
        frame = frame.sortWithinPartitions(action_rules.OPERATION, ROW_ADDRESS)
    plan = WritePlan(location, WriteOptions(branch=change.branch), "append", schema, start, fills=fills)
    write = partial(write_parts, PartsJob(WriteJob(plan, start), target, kept))
    parts = runner.map("write rows", frame, write, action_rules.PARTS)
    fragments = len(fragment_sizes(location, start))
    tasks = min(fragments, _FEW_TASKS if fragments <= _FEW_FRAGMENTS else 2 * runner.parallelism)

    def delete(table: pa.Table) -> pa.Table:
        with plainly():
            return delete_offsets(location, start, table.cast(action_rules.PARTS))

    grouped = parts.repartition(max(1, tasks), "fragment").groupBy("fragment")
    outcomes = grouped.applyInArrow(delete, to_spark(action_rules.OUTCOMES))
    with _tasks_of(spark, _share(target.schema, schema.names, kept)):
        return action_rules.prepared(runner.collect("delete rows", outcomes).to_pylist(), action_rules.UPDATE)


def _share(schema: pa.Schema, given: Sequence[str], kept: Sequence[str]) -> float:
    """The part of a written row that comes with the frame."""
    whole = row_width(field for field in schema if field.name in {*given, *kept})
    return row_width(field for field in schema if field.name in given) / whole if whole else 1.0


@contextmanager
def _tasks_of(spark: SparkSession, share: float) -> Iterator[None]:
    """Let Spark make more tasks if only a part of each row comes with the frame."""
    size = spark.conf.get(_ADVISORY, None)
    if share >= 1:
        yield
        return
    with suppress(PySparkException):  # if users cannot change settings, there are fewer tasks
        spark.conf.set(_ADVISORY, str(action_rules.advisory_size(size, share)))
    try:
        yield
    finally:
        with suppress(PySparkException):
            spark.conf.unset(_ADVISORY) if size is None else spark.conf.set(_ADVISORY, size)


# --- The action frames of delete, update and replace

if TYPE_CHECKING:
    Condition = str | Column

Place = tuple[DatasetLocation, "str | None"]
"""A dataset, and the branch to change, None for main."""
_OUTSIDE = (
    "lance_spark.errors.Refused: A row to be written does not satisfy the condition, so the same overwrite "
    "would not replace it again.\n  hint: Filter the DataFrame by the condition, or widen the condition; "
    "nothing was changed.\n"
)


def deletion(spark: SparkSession, place: Place, where: Condition) -> RowChange:
    """Delete the rows for which a condition is true."""
    check_condition(where)
    location, branch = place
    rows = TargetRows(spark, location)

    def actions(pin: PinnedVersion) -> DataFrame:
        return rows.select(pin, lambda target: _deleted(target, where))

    return RowChange(location, branch, action_rules.DELETING, actions, _meeting(rows, where), predicate=str(where))


def update(
    spark: SparkSession, place: Place, values: Mapping[str, object], where: Condition | None = None
) -> RowChange:
    """Set columns of the rows for which a condition is true, or of all rows."""
    if where is not None:
        check_condition(where)
    if not values:
        raise InvalidOption("The update sets no column.", hint="Give one: update({'column': 'expression'}).")
    location, branch = place
    rows = TargetRows(spark, location)
    # Without a condition, whole rows are read at once; for few rows, the writer reads the other columns itself.
    sets = None if where is None else frozenset(values)

    def actions(pin: PinnedVersion) -> DataFrame:
        fields = {field.name: field for field in rows.schema(pin)}
        action_rules.check_columns(list(values), list(fields))

        def query(target: DataFrame) -> DataFrame:
            found = _matching(target, where)
            new = assigned(found, {name: expression(value) for name, value in values.items()}, fields)
            named = [name for name in fields if name in new or name not in rows.kept(pin, sets)]
            columns = [new.get(name, quoted(name)).alias(name) for name in named]
            return found.select(F.lit(action_rules.UPDATE).alias(action_rules.OPERATION), F.col(ROW_ADDRESS), *columns)

        return rows.select(pin, query)

    return RowChange(location, branch, action_rules.UPDATING, actions, _meeting(rows, where), sets=sets)


def replacement(spark: SparkSession, place: Place, frame: DataFrame, where: Condition) -> RowChange:
    """Replace the rows for which a condition is true with those of a DataFrame, which must satisfy it."""
    check_condition(where)
    location, branch = place
    rows = TargetRows(spark, location)
    checked = F.when(F.coalesce(expression(where), F.lit(False)), F.lit(action_rules.INSERT)).otherwise(
        F.raise_error(F.lit(_OUTSIDE)).cast("int")
    )
    address = F.lit(None).cast("bigint").alias(ROW_ADDRESS)
    new = frame.alias(action_rules.TARGET).select(
        checked.alias(action_rules.OPERATION), address, *(quoted(name) for name in frame.columns)
    )

    def actions(pin: PinnedVersion) -> DataFrame:
        old = rows.select(pin, lambda target: _deleted(target, where))
        nothing = [F.lit(None).alias(name) for name in frame.columns]
        return old.select("*", *nothing).union(new)

    return RowChange(location, branch, action_rules.REPLACING, actions, _meeting(rows, where))


def _deleted(target: DataFrame, where: Condition) -> DataFrame:
    return _matching(target, where).select(F.lit(action_rules.DELETE).alias(action_rules.OPERATION), F.col(ROW_ADDRESS))


def _matching(target: DataFrame, where: Condition | None) -> DataFrame:
    named = target.alias(action_rules.TARGET)
    return named if where is None else named.where(expression(where))


def _meeting(rows: TargetRows, where: Condition | None) -> Callable[[PinnedVersion, Sequence[int]], bool]:
    def meets(pin: PinnedVersion, fragments: Sequence[int]) -> bool:
        return not _matching(rows.fragments(pin, fragments), where).isEmpty()

    return meets


def check_condition(where: object) -> None:
    """Raises InvalidOption for anything but SQL and a Column.

    A None out of a dict of settings, or a comparison that Python has made (``id != 5``, of its own ``id``), would
    delete all rows.
    """
    hint = "Give one such as id > 5; for all rows: 'true'."
    if isinstance(where, str) and not where.strip():
        raise InvalidOption("The condition is empty.", hint=hint)
    if not isinstance(where, str | Column):
        raise InvalidOption(f"A condition is SQL as a text, or a Column, and not {where!r:.60}.", hint=hint)


# --- Values for columns, as SQL assigns them: cast to the column's type, or an error for those that do not fit

_FAMILIES: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.NumericType,),
    (st.BooleanType,),
    (st.DateType, st.TimestampType, st.TimestampNTZType),
    (st.StringType, st.BinaryType),
    (st.DayTimeIntervalType,),
)


def expression(given: object) -> Column:
    """A Column; text is parsed as SQL, and any other value is a constant.

    Raises InvalidOption for a value that Spark has no type for.
    """
    if isinstance(given, str):
        return F.expr(given)
    try:
        return F.lit(Decimal(given) if type(given) is int and abs(given) >= 2**63 else given)
    except (AttributeError, TypeError, ValueError, PySparkException):
        raise InvalidOption(
            f"A column cannot have the value {given!r:.60}.",
            hint="Give SQL as a text (\"'new'\" is the text new), a Column, a number, a date, bytes or None.",
        ) from None


def assigned(
    rows: DataFrame,
    values: Mapping[str, Column],
    fields: Mapping[str, st.StructField],
    known: Mapping[str, st.DataType] = MappingProxyType({}),
) -> dict[str, Column]:
    """The values, in the types of the columns that they are for; Spark is asked for types that are not ``known``.

    Numbers, strings and times are cast, and a value that the type cannot hold ends the job with an error. Values of
    other types follow the rules of appending. Raises SchemaMismatch for types that can never be cast.
    """
    asked = [name for name in values if name not in known]
    types = dict(known)
    if asked:
        found = rows.select(*(values[name].alias(f"c{at}") for at, name in enumerate(asked))).schema
        types |= {name: field.dataType for name, field in zip(asked, found, strict=True)}
    return {name: _fitted(value, types[name], fields[name]) for name, value in values.items()}


def _fitted(value: Column, given: st.DataType, field: st.StructField) -> Column:
    wanted = field.dataType
    if given == wanted:
        return value
    if isinstance(given, st.NullType):
        return value.cast(wanted)
    if field.metadata.get(BLOB_KEY) and not isinstance(given, st.BinaryType):
        raise SchemaMismatch(  # as text, a URI would become the bytes of the blob
            f"Column '{field.name}' holds blobs; a value of type {given.simpleString()} cannot become one here.",
            hint="Give bytes. Rows that a DataFrame appends, mode('append'), may have URIs of objects elsewhere.",
        )
    mine, other = _family(given), _family(wanted)
    if mine is None or other is None:
        return value
    if mine != other and st.StringType not in (*mine, *other):
        raise SchemaMismatch(
            f"Column '{field.name}' is {wanted.simpleString()}; a value of type {given.simpleString()} cannot be "
            "cast to it.",
            hint="Give an expression of the column's type.",
        )
    fitted = value.try_cast(wanted)
    said = f"lance_spark.errors.SchemaMismatch: Column '{field.name}' of type {wanted.simpleString()} cannot hold "
    hint = "\n  hint: Change or leave out such values; nothing was changed.\n"
    failure = F.raise_error(F.concat(F.lit(said), value.cast("string"), F.lit(f".{hint}")))
    return F.coalesce(fitted, F.when(value.isNotNull(), failure.cast(wanted)))


def _family(kind: st.DataType) -> tuple[type[st.DataType], ...] | None:
    return next((family for family in _FAMILIES if isinstance(kind, family)), None)


# --- Updates of narrow columns of wide tables: files with only these columns, if that writes less than whole rows


@dataclass(frozen=True)
class NarrowUpdate:
    """An update in SQL that can be done column by column."""

    spark: SparkSession
    location: DatasetLocation
    branch: str | None
    values: Mapping[str, str]
    where: str | None

    def run(self, message: str | None) -> ChangeResult | None:
        """Run it if that writes less than whole rows would; None if whole rows should be written."""
        start = pin_latest(self.location, self.branch)
        size = self._size(start)
        if size is None or not columns_may_be_cheaper(size):
            return None
        options = BackfillOptions(resume=False, message=message)
        computed = self._computed(start, options)
        if computed is None:
            return None
        matched = self._matched(start)
        if not columns_are_cheaper(size, matched):
            return None
        result = update_filled_columns(self.location, self.branch, computed, options)
        read = PinnedVersion(self.branch, result.version.version - 1)
        if read.version != start.version:
            matched = self._matched(read)  # of the version for which the values were finally computed
        return ChangeResult(result.version, rows_updated=matched, files=result.fragments, bytes=result.bytes)

    def _size(self, start: PinnedVersion) -> UpdateSize | None:
        """None if columns are unsuitable: nested ones, and those whose index would have to be retrained."""
        schema = stored_schema(self.location, start)
        if any(schema.get_field_index(name) < 0 for name in self.values):
            return None
        fields = [schema.field(name) for name in self.values]
        if any(pt.is_nested(field.type) or field.metadata for field in fields):
            return None
        indexed = {name for segment in describe_segments(self.location, start) for name in segment.columns}
        if indexed & self.values.keys():
            return None
        fragments = fragment_sizes(self.location, start)
        rows = sum(fragment.live_rows for fragment in fragments)
        return UpdateSize(sum(fragment.stored_bytes for fragment in fragments), rows, row_width(fields))

    def _computed(self, start: PinnedVersion, options: BackfillOptions) -> ComputedColumns | None:
        """None for values that need a cast, or that Spark does not compute row by row; the other path reports why."""
        try:
            schema = TargetRows(self.spark, self.location).schema(start)
            rows = probe(self.spark, schema)
            for name, text in self.values.items():
                both = rows.select(F.expr(text), F.expr(f"CASE WHEN true THEN ({text}) ELSE {quoted_name(name)} END"))
                if not _fits(both, schema[name].dataType):
                    return None
            asked = Asked(SQL, self.values, existing=True, where=self.where)
            found = values_of(self.spark, self.location, start, asked, options)
            return replace(found, stated=True) if isinstance(found, SqlValues) else found
        except (LanceSparkError, PySparkException):
            return None

    def _matched(self, pin: PinnedVersion) -> int:
        where = self.where
        rows = TargetRows(self.spark, self.location)
        if where is None:
            return sum(fragment.live_rows for fragment in fragment_sizes(self.location, pin))

        (row,) = rows.select(pin, lambda target: target.where(where).agg(F.count("*"))).collect()
        return int(row[0])


def _fits(both: DataFrame, wanted: st.DataType) -> bool:
    given, joined = (field.dataType for field in both.schema)
    numbers = isinstance(given, st.NumericType) and isinstance(wanted, st.NumericType)
    return given == wanted or (numbers and joined == wanted)
