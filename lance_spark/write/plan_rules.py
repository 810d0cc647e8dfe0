"""The plan of a write, and whether a DataFrame fits the dataset, from schemas alone."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.table_options import WriteOptions
from lance_spark.errors import Conflict, Refused, SchemaMismatch
from lance_spark.format.blob_references import refers
from lance_spark.format.blobs import holds_blobs, holds_bytes, is_blob, is_blob_extension, plain_bytes
from lance_spark.format.column_defaults import default_of, defaults_for
from lance_spark.format.evolution import (
    COMMENT,
    AddColumn,
    AlterColumn,
    ColumnChange,
    Evolution,
    plan_evolution,
    shown,
    why_not_widen,
)
from lance_spark.format.kept_types import kept_of
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, RULES, is_column_name, why_not
from lance_spark.layout.layout_rules import TableLayout

Mode = Literal["create", "append", "overwrite"]
_STEPS = {"create": "create", "append": "append to {} of", "overwrite": "overwrite {} of"}


@dataclass(frozen=True)
class WriteTarget:
    """The properties that the starting version fixes for new files."""

    schema: pa.Schema
    data_storage_version: str
    stable_row_ids: bool


class Claim(Protocol):
    """The name of a table in a catalog, which a write holds until the table has its first rows.

    Or a table on a branch of the lake, whose first change creates the table's branch.
    """

    @property
    def location(self) -> DatasetLocation | None:
        """Where the table is; None until a service has said where a new one goes."""

    @property
    def start(self) -> PinnedVersion | None:
        """The version that a new branch of the table begins with; None if the write creates no branch in this way."""

    def begin_branch(self) -> PinnedVersion:
        """Create that branch; returns the version of it with which the write starts."""

    def take(self) -> Claim | None:
        """Begin: declare the table, unless it is already declared. None if nothing can be held."""

    def confirm(self) -> None:
        """Raise Conflict if another process dropped, renamed or deregistered the table since."""

    def check_place(self) -> None:
        """Raise Conflict if a catalog service says now that the table of that name is elsewhere."""

    def withdraw(self) -> None:
        """Release the name, if this write declared it."""


@dataclass(frozen=True)
class WritePlan:
    """A checked write. Nothing has happened yet: it can be printed, pickled, and executed later or never."""

    location: DatasetLocation
    options: WriteOptions
    mode: Mode
    schema: pa.Schema
    """Schema of the stored rows: the dataset's own types on append, the DataFrame's otherwise."""
    start: PinnedVersion | None
    """The version that the write starts from; None if it creates the dataset."""
    claim: Claim | None = None
    """The catalog table that gets its first rows, or its branch on a branch of the lake; None for other writes."""
    evolution: Evolution | None = None
    """The columns that an append adds or widens; None if the dataset's columns already fit the rows."""
    since: PinnedVersion | None = None
    """The version with which its statement was planned, or which it read; None if that is ``start``."""
    layout: TableLayout | None = None
    """The layout that the write declares, and obeys; None for that of the version that it starts from."""
    partitions: TableLayout | None = None
    """The layout whose partitions the new rows replace, with those that they are in; None for all other writes."""
    reads: bool | None = None
    """Whether the rows come from the branch that is written to; None if unknown."""
    auto_compact: int | None = None
    """How many small fragments an append may leave before it compacts them; None if it never does."""
    fills: Mapping[str, pa.Scalar] = dataclasses.field(default_factory=dict)
    """The values of columns that the rows lack and that have a default."""
    named: Claim | None = None
    """The catalog table that has rows already; None for a path."""

    @property
    def replaces_some(self) -> bool:
        """Whether new rows replace some of the others, in one version: those of a condition, or of partitions."""
        return self.partitions is not None or (self.options.replaces is not None and self.start is not None)

    @property
    def creates_branch(self) -> bool:
        """Whether the branch is new, so that a failed job deletes it."""
        return self.options.create_from is not None

    def __str__(self) -> str:
        branch = self.options.branch or MAIN
        steps = [f"create branch '{branch}' at {self.start}"] if self.creates_branch else []
        if self.claim is not None:
            new_branch = f"create branch '{branch}', unless it exists"
            steps.append("declare the table in its catalog" if self.claim.start is None else new_branch)
        steps += [f"{_STEPS[self.mode].format(branch)} {self.location.uri}"]
        if self.evolution is not None:
            steps.append("change columns " + ", ".join(shown(step.path) for step in self.evolution.steps))
        if self.layout:
            steps.append(f"declare the layout {self.layout}")
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema)
        return "\n".join([*steps, f"columns: {columns}"])


@dataclass(frozen=True)
class WriteJob:
    """A plan in execution: the inputs of executors and the final commit."""

    plan: WritePlan
    start: PinnedVersion | None
    """The version that the commit follows: that of the plan, or the first one of the new branch."""
    claim: Claim | None = None
    """The held name in a catalog; None for all other writes."""
    properties: Mapping[str, str] | None = None
    """Properties of the version, in addition to the commit message."""


def append_schema(dataset: pa.Schema, frame: pa.Schema) -> pa.Schema:
    """The dataset's fields that the DataFrame provides, in the dataset's order; columns match by name.

    Nullable columns, and those with a default, can be missing. Raises SchemaMismatch, naming the column, both types and
    the remedy, for an unknown column, a missing column that cannot be null, and a type that could lose values.
    """
    for name in frame.names:
        if dataset.get_field_index(name) < 0:
            raise _unknown(name, dataset)
    kept = []
    for field in dataset:
        index = frame.get_field_index(field.name)
        if index >= 0:
            _check_type(frame.field(index), field)
            kept.append(field)
        elif not field.nullable and default_of(field) is None:
            raise SchemaMismatch(
                f"Column '{field.name}' of type {field.type} is missing, and the dataset does not allow nulls in it.",
                hint=f"Add it: df.withColumn('{field.name}', ...).",
            )
    return pa.schema(kept, metadata=dataset.metadata)


def same_schema(dataset: pa.Schema, frame: pa.Schema) -> pa.Schema:
    """The dataset's fields, all of which the DataFrame provides. Raises SchemaMismatch as :func:`append_schema`."""
    kept = append_schema(dataset, frame)
    missing = [each.name for each in dataset if kept.get_field_index(each.name) < 0 and default_of(each) is None]
    if missing:
        raise SchemaMismatch(
            f"Column '{missing[0]}' is missing, and overwrite_schema=false keeps all columns of the dataset.",
            hint=f"Add it: df.withColumn('{missing[0]}', ...).",
        )
    return kept


def filled(dataset: pa.Schema, given: pa.Schema, now: datetime) -> tuple[pa.Schema, dict[str, pa.Scalar]]:
    """The columns that rows give and those with a default, in the dataset's order; the defaults of what rows lack."""
    fills = defaults_for(dataset, given.names, now)
    wanted = [each for each in dataset if each.name in fills or each.name in given.names]
    return pa.schema(wanted, given.metadata), fills


def check_names(frame: pa.Schema, new: bool) -> None:
    """Raise SchemaMismatch for a DataFrame without columns, whose rows would vanish, or with a duplicate name.

    pylance writes a struct with duplicate field names but cannot read it back. For a ``new`` schema, also raise for a
    column that pylance could not write, or not read back.
    """
    if not frame.names:
        raise SchemaMismatch("The DataFrame has no columns, so there is nothing to write.")
    if twice := _repeated(frame):
        raise SchemaMismatch(f"The DataFrame has two columns '{twice}'.", hint="Drop or rename one of them.")
    for name in frame.names if new else ():
        if not is_column_name(name):
            raise SchemaMismatch(
                f"A Lance dataset cannot have a column '{name}'.",
                hint=f"{RULES}: df.withColumnRenamed('{name}', ...) or df.drop(...).",
            )


def check_replaces(target: WriteTarget, options: WriteOptions) -> None:
    """Raise Refused for options that an existing dataset has already fixed.

    pylance accepts files of another format version and commits them next to the old ones; it silently ignores the
    stable row id option.
    """
    version = options.files.data_storage_version
    if version is not None and version != target.data_storage_version:
        raise Refused(
            f"The dataset stores its files in format {target.data_storage_version}; "
            f"data_storage_version={version} would mix two formats in it.",
            hint="Leave data_storage_version out, or write to a new path.",
        )
    if options.enable_stable_row_ids not in (None, target.stable_row_ids):
        state = "has" if target.stable_row_ids else "does not have"
        raise Refused(
            f"The dataset {state} stable row ids, and that cannot change after its creation.",
            hint="Leave enable_stable_row_ids out, or write to a new path.",
        )


_READ_BYTES = "Read blobs with option('blob_handling', 'bytes') before writing them."


def _check_type(given: pa.Field, stored: pa.Field) -> None:
    if is_blob(stored):
        referring = refers(given.type)
        takes = holds_bytes(given.type) or referring
        reason = None if takes else "a blob column takes bytes, or URIs of objects elsewhere"
        hint = _READ_BYTES
        if referring and not is_blob_extension(stored):
            reason = "blobs of its file format are bytes, not URIs of objects elsewhere"
            hint = "Write to a new table with data_storage_version 2.2, or read the objects and write their bytes."
    elif holds_blobs(stored):
        reason = why_not(given.type, plain_bytes(stored).type)
        hint = _READ_BYTES
    else:
        reason = why_not(given.type, stored.type)
        hint = f"Cast it: df.withColumn('{given.name}', col('{given.name}').cast(...))."
    if reason:
        raise SchemaMismatch(
            f"Column '{given.name}' is {given.type} in the DataFrame and {stored.type} in the dataset: {reason}.",
            hint=hint,
        )


def _repeated(fields: Iterable[pa.Field], path: str = "") -> str | None:
    """Path of the first column or field, at any depth, with the name of a sibling."""
    seen = set()
    for field in fields:
        if field.name in seen:
            return path + str(field.name)
        seen.add(field.name)
        children = [field.type.field(index) for index in range(field.type.num_fields)]
        if twice := _repeated(children, f"{path}{field.name}."):
            return twice
    return None


def _unknown(name: str, dataset: pa.Schema) -> SchemaMismatch:
    folded = [other for other in dataset.names if other.lower() == name.lower()]
    near = folded or difflib.get_close_matches(name, dataset.names, n=1, cutoff=0.6)
    if name in (ROW_ID, ROW_ADDRESS):
        hint = f"It comes from reading with row ids; drop it: df.drop('{name}')."
    elif near:
        hint = f"Did you mean '{near[0]}'? Rename it: df.withColumnRenamed('{name}', '{near[0]}')."
    else:
        hint = f"Drop it: df.drop('{name}'); or add it to the dataset: option('merge_schema', 'true')."
    return SchemaMismatch(f"The dataset has no column '{name}'.", hint=hint)


# --- Appends that add or widen columns so that the rows fit


def plan_merged(dataset: pa.Schema, frame: pa.Schema) -> Evolution | None:
    """The changes that a DataFrame's columns need; None if there are none.

    New columns come last, in the DataFrame's order, and are nullable. A type is widened if every stored value stays the
    same; ``append_schema`` checks other types. Raises AlreadyExists for names that differ only in case, InvalidName,
    and Refused for a new blob column.
    """
    plan = plan_evolution(dataset, [change for field in frame if (change := _change(dataset, field)) is not None])
    return plan if plan.steps else None


def plan_again(now: pa.Schema, rows: pa.Schema) -> Evolution:
    """The changes that a version needs for rows that were already written, with exactly these types.

    Raises Conflict if another process has since changed a column's type, or added a column that is not nullable.
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
    if holds_blobs(field):
        raise Refused(
            f"merge_schema cannot add column '{field.name}': it holds blobs.",
            hint="Write the rows to a new table that has the column.",
        )
    comment = (field.metadata or {}).get(COMMENT.encode())
    said = None if comment is None else comment.decode()
    return AddColumn((field.name,), field.type, comment=said, kept=kept_of(field))
