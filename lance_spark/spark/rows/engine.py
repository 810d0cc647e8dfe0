"""One engine for all changes of rows: executors write, the driver commits one version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException

from lance_spark.actions.change_rows import Finish, check_unambiguous, finish, new_terms
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.messages import OUTCOMES, PARTS, Prepared, prepared
from lance_spark.rows.model import DELETING, OPERATION, UPDATE
from lance_spark.rows.result import ChangeResult
from lance_spark.rows.sizes import advisory_size
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.schema.width import row_width
from lance_spark.spark.failures import plainly
from lance_spark.spark.runner import SparkRunner
from lance_spark.spark.types import to_arrow, to_spark
from lance_spark.store.datasets import pin_latest
from lance_spark.store.fragment_sizes import fragment_sizes
from lance_spark.store.row_files import delete_offsets, write_parts
from lance_spark.store.row_values import PartsJob, kept_columns
from lance_spark.store.writing import read_target
from lance_spark.write.plan import WriteJob, WritePlan, append_schema, check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    """What a user called; see lance_spark.rows.model. A "delete" has no updates and inserts in its frames."""
    actions: Callable[[PinnedVersion], DataFrame]
    """The action frame of a version, see lance_spark.rows.model. It is called again for each retry."""
    meets: Callable[[PinnedVersion, Sequence[int]], bool] | None = None
    """Whether the change would have deleted, updated or matched rows of fragments that were added meanwhile. None if
    it never would."""
    inserts_by_key: bool = False
    """Whether rows that others only append have to be looked at as well, as a merge that inserts must."""
    key: tuple[str, ...] = ()
    """Columns that tell rows apart, for errors."""
    predicate: str = ""
    """What a delete was asked for, for those who read the history."""
    sets: frozenset[str] | None = None
    """Columns that updates may change. Updated rows keep all others, blobs excepted: their values in the action frame
    do not matter, and a frame without inserts may leave them out. None if the frame has all columns."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What the version says beside what every change of rows says."""
    check: Callable[[], None] | None = None
    """Asked before each attempt to commit; raises what is to end the change."""


def change_rows(spark: SparkSession, change: RowChange, message: str | None = None, retries: int = 0) -> ChangeResult:
    """Compute a change of rows on executors, and commit it as one version.

    Commits made meanwhile are kept. Where they changed the same rows the result is a Conflict, or the change is
    computed again on the newest version, up to ``retries`` times. Raises Refused where two source rows change one
    row, SchemaMismatch, NotFound and Conflict; then nothing was changed. Only after a StorageFailure of the commit it
    is not certain whether it happened.
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
    """Write all files, in one job. The driver gets a small row for each fragment."""
    runner = SparkRunner(spark, change.verb)
    location, frame = change.location, change.actions(start)
    target = read_target(location, start)
    schema, kept = target.schema, kept_columns(target.schema, change.sets)
    if change.verb == DELETING:
        frame = frame.select(OPERATION, ROW_ADDRESS)
    else:
        given = to_arrow(frame.drop(OPERATION, ROW_ADDRESS).schema)
        check_names(given, new=False)
        left_out = {name for name in kept if name not in given.names}
        schema = append_schema(pa.schema([field for field in schema if field.name not in left_out]), given)
        # Spark makes tasks of the session's advisory size of however few or many rows there are: no tiny files.
        frame = frame.hint("rebalance", OPERATION).sortWithinPartitions(OPERATION, ROW_ADDRESS)
    plan = WritePlan(location, WriteOptions(branch=change.branch), "append", schema, start)
    write = partial(write_parts, PartsJob(WriteJob(plan, start), target, kept))
    parts = runner.map("write rows", frame, write, PARTS)
    fragments = len(fragment_sizes(location, start))
    tasks = min(fragments, _FEW_TASKS if fragments <= _FEW_FRAGMENTS else 2 * runner.parallelism)

    def delete(table: pa.Table) -> pa.Table:
        with plainly():
            return delete_offsets(location, start, table.cast(PARTS))

    grouped = parts.repartition(max(1, tasks), "fragment").groupBy("fragment")
    outcomes = grouped.applyInArrow(delete, to_spark(OUTCOMES))
    with _tasks_of(spark, _share(target.schema, schema.names, kept)):
        return prepared(runner.collect("delete rows", outcomes).to_pylist(), UPDATE)


def _share(schema: pa.Schema, given: Sequence[str], kept: Sequence[str]) -> float:
    """The part of a written row that comes with the frame."""
    whole = row_width(field for field in schema if field.name in {*given, *kept})
    return row_width(field for field in schema if field.name in given) / whole if whole else 1.0


@contextmanager
def _tasks_of(spark: SparkSession, share: float) -> Iterator[None]:
    """Let Spark make more tasks of rows of which only a part comes with the frame."""
    size = spark.conf.get(_ADVISORY, None)
    if share >= 1:
        yield
        return
    with suppress(PySparkException):  # where settings are not for users to change, there are fewer tasks
        spark.conf.set(_ADVISORY, str(advisory_size(size, share)))
    try:
        yield
    finally:
        with suppress(PySparkException):
            spark.conf.unset(_ADVISORY) if size is None else spark.conf.set(_ADVISORY, size)
