"""Searches for near duplicates: a request against a version, checked before any task starts."""

from __future__ import annotations

from lance_spark.actions.read import PinnedRead, ReadPlan, plan_read, read_schema
from lance_spark.actions.search import found_schema
from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.location import DatasetLocation
from lance_spark.options.read import ReadOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID, unknown_column
from lance_spark.searching.binding import is_plain_text, shown_columns
from lance_spark.searching.minhash import Signer
from lance_spark.store.datasets import open_pinned
from lance_spark.store.scanning import Scan, ScanColumns, check_filter
from lance_spark.store.search_duplicates import DuplicatesWork


def prepare_duplicates(
    location: DatasetLocation,
    pin: PinnedVersion,
    asked: tuple[str, tuple[str, ...], str | None],
    signer: Signer,
    threshold: float,
) -> DuplicatesWork:
    """Check what is asked for: the column, what is shown of rows, and a filter.

    Raises NotFound, SchemaMismatch and InvalidOption.
    """
    column, columns, where = asked
    schema = open_pinned(location, pin).schema
    if schema.get_field_index(column) < 0:
        raise unknown_column(column, schema.names)
    if not is_plain_text(schema.field(column).type):
        raise SchemaMismatch(f"Column '{column}' is {schema.field(column).type}, and holds no text.")
    if where is not None:
        check_filter(Scan(location, pin, ScanColumns(()), where))
    if ROW_ADDRESS in columns:
        raise InvalidOption(f"{ROW_ADDRESS} is not told of pairs.", hint=f"{ROW_ID} is, always.")
    names = tuple(name for name in shown_columns(schema, columns, ()) if name != ROW_ID)
    row = found_schema(schema, (ROW_ID, *names), ())
    return DuplicatesWork(location, pin, column, where, names, signer, threshold, row)


def plan_texts(work: DuplicatesWork, cores: int) -> ReadPlan:
    """How the texts are read."""
    read = PinnedRead(
        work.location, work.pin, ReadOptions(columns=(f"`{work.column}`",), filter=work.filter, with_row_id=True)
    )
    return plan_read(read, read_schema(read), cores)
