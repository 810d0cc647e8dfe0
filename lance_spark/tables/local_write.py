"""Writes of Arrow rows from this process, without Spark: checked and committed as a write of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import FRAME_HINT, to_bool
from lance_spark.errors import InvalidOption, LanceSparkError, NotFound, SchemaMismatch
from lance_spark.format.evolution import why_not_widen
from lance_spark.format.schema import number_name
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.resolving import check_branch
from lance_spark.tables.write import begin, finish, give_up, plan_write
from lance_spark.write.data_files import read_target, write_rows
from lance_spark.write.plan_rules import WritePlan


class ArrowRows(NamedTuple):
    """Batches of one schema. Not a reader of pyarrow, which would turn an error of theirs into its own."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


After = Callable[[WritePlan], None]
"""What is done once a write is committed."""


def write_locally(
    options: Mapping[str, str], rows: ArrowRows, overwrite: bool, after: After | None = None
) -> int | None:
    """Write rows as one version; returns its number, None if there were no rows to append.

    ``options`` are those of a write in Spark, with ``path``. Raises what such a write raises; then nothing was changed.
    """
    job = begin(plan_write(options, rows.schema, overwrite))
    failures: list[LanceSparkError] = []
    try:
        fragments = write_rows(job, _watched(rows.batches, failures))
    except BaseException as problem:
        give_up(job, [])
        if failures and isinstance(problem, LanceSparkError):
            raise failures[0] from None  # pylance wraps it into its own text
        raise
    version = finish(job, fragments)
    if after is not None:
        after(job.plan)
    return version


def _watched(batches: Iterable[pa.RecordBatch], failures: list[LanceSparkError]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except LanceSparkError as problem:
        failures.append(problem)
        raise


def write_arrow(
    options: Mapping[str, str],
    rows: Any,
    overwrite: bool,
    location: DatasetLocation | None,
    branch: str | None = None,
    after: After | None = None,
) -> int | None:
    """Write rows of pandas or pyarrow to a dataset, in its types, or to a new table without a ``location``.

    Raises InvalidOption for rows of another kind.
    """
    reader = to_reader(rows)
    if reader is None:
        kind = type(rows)
        plain = {"list": "pa.Table.from_pylist(rows) makes a table. ", "dict": "pa.table(rows) makes a table. "}
        raise InvalidOption(
            f"A {kind.__name__} of {kind.__module__.partition('.')[0]} cannot be written.",
            hint=f"{plain.get(kind.__name__, '')}Give a table, batches or a reader of pyarrow, or a DataFrame of "
            f"pandas or Spark: {FRAME_HINT}",
        )
    if location is not None and not overwrite:
        start = None if _creates(options, location, branch) else branch
        fit = fitted(ArrowRows(reader.schema, reader), read_target(location, pin_latest(location, start)).schema)
        return write_locally(options, fit, overwrite, after)
    return write_locally(options, ArrowRows(reader.schema, reader), overwrite, after)


def _creates(options: Mapping[str, str], location: DatasetLocation, branch: str | None) -> bool:
    """Whether the write creates its branch, from main. Raises NotFound for a branch that nobody creates."""
    try:
        check_branch(location, branch)
    except NotFound:
        if to_bool("create_branch", options.get("create_branch", "false")):
            return True
        raise
    return False


def to_reader(rows: Any) -> pa.RecordBatchReader | None:
    """A reader of a pyarrow table, batch, list of batches or reader, or of a pandas DataFrame; None for anything else.

    The index of a pandas DataFrame is no column. Raises InvalidOption for values that Arrow cannot hold.
    """
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    if isinstance(rows, list) and rows and all(isinstance(each, pa.RecordBatch) for each in rows):
        return pa.RecordBatchReader.from_batches(rows[0].schema, rows)
    if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        try:
            rows = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeEncodeError) as problem:
            raise InvalidOption(f"The pandas DataFrame cannot become Arrow: {problem}") from None
    return rows.to_reader() if isinstance(rows, pa.Table) else None


def fitted(rows: ArrowRows, schema: pa.Schema) -> ArrowRows:
    """The rows with columns of the dataset's types, where no value changes; other columns stay as they are.

    Files and pandas have wider types than a table: a CSV file has no int32. Raises SchemaMismatch, as rows are read,
    for a value that does not fit.
    """
    fields = [_fitting(field, schema) for field in rows.schema]
    wanted = pa.schema(fields)
    return rows if wanted.equals(rows.schema) else ArrowRows(wanted, _cast(rows.batches, wanted))


def _fitting(field: pa.Field, schema: pa.Schema) -> pa.Field:
    at = schema.get_field_index(field.name)
    return field.with_type(schema.field(at).type) if at >= 0 and _alike(field.type, schema.field(at).type) else field


def _alike(given: pa.DataType, stored: pa.DataType) -> bool:
    """Whether values are of one kind: a text is no number, whatever it says."""
    if pa.types.is_null(given):
        return True
    given = given.value_type if pa.types.is_dictionary(given) else given
    return any(kind(given) and kind(stored) for kind in _KINDS)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


_KINDS = (_is_number, _is_text, _is_moment, pa.types.is_duration, pa.types.is_time)


def _cast(rows: Iterable[pa.RecordBatch], wanted: pa.Schema) -> Iterable[pa.RecordBatch]:
    for batch in rows:
        columns = []
        for column, field in zip(batch.columns, wanted, strict=True):
            try:
                columns.append(column.cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
                how = None
                if why_not_widen(field.type, column.type) is None:
                    widen = hints.widen_column(field.name, number_name(column.type))
                    how = hints.of("Give the column a wider type first: ", widen, ".")
                said = f"Column '{field.name}' does not fit {field.type}: {problem}"
                raise SchemaMismatch(said, hint=how) from None
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)
