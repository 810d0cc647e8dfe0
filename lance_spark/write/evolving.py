"""Appends that bring columns along: which columns are added and which types widened, so that the rows fit. Pure."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import Conflict, Refused
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.column_changes import COMMENT, AddColumn, AlterColumn, ColumnChange
from lance_spark.schema.evolution import Evolution, plan_evolution
from lance_spark.schema.widening import why_not_widen


def plan_merged(dataset: pa.Schema, frame: pa.Schema) -> Evolution | None:
    """What has to change for the columns of a DataFrame; None if nothing has to.

    New columns come last, in the DataFrame's order, and may be null. A type is widened if every stored value stays what
    it is; other types are for ``append_schema`` to judge. Raises AlreadyExists for names that differ in case only,
    InvalidName, and Refused for a new column of blobs.
    """
    plan = plan_evolution(dataset, [change for field in frame if (change := _change(dataset, field)) is not None])
    return plan if plan.steps else None


def plan_again(now: pa.Schema, rows: pa.Schema) -> Evolution:
    """What has to change in a version for rows that were written already, in exactly these types.

    Raises Conflict if another process gave a column another type since, or added one that may not be null.
    """
    for field in now:
        at = rows.get_field_index(field.name)
        same = at >= 0 and rows.field(at).type == field.type
        if at < 0 and not field.nullable:
            raise Conflict(f"Column '{field.name}' was added since the job started, and rows need it.", "Run it again.")
        if at >= 0 and not same and why_not_widen(field.type, rows.field(at).type) is not None:
            raise Conflict(f"Column '{field.name}' became {field.type} since the job started.", hint="Run it again.")
    plan = plan_merged(now, rows)
    return Evolution(now) if plan is None else plan


def _change(dataset: pa.Schema, field: pa.Field) -> ColumnChange | None:
    at = dataset.get_field_index(field.name)
    if at >= 0:
        stored = dataset.field(at).type
        widened = stored != field.type and why_not_widen(stored, field.type) is None
        return AlterColumn((field.name,), type=field.type) if widened else None
    if is_blob(field):
        raise Refused(
            f"merge_schema cannot add column '{field.name}': it holds blobs.",
            hint="Write the rows to a new table that has the column.",
        )
    comment = (field.metadata or {}).get(COMMENT.encode())
    return AddColumn((field.name,), field.type, comment=None if comment is None else comment.decode())
