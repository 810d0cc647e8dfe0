"""The code on executors: the rows of one partition, as rows or as batches. No JVM access."""

from __future__ import annotations

import io
import os
import pickle
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from lance_spark.engine.columns_spark import connected
from lance_spark.engine.workers_spark import plainly, send_at_once
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, conform
from lance_spark.jvm import answers
from lance_spark.jvm.answers import Answer, Factory, RowBytes, partitions
from lance_spark.pushdown.aggregates import AggregatePlan, aggregate
from lance_spark.pushdown.order import Sample, SortKey, first_rows, sample
from lance_spark.scan.fragment_reads import Scan, read_batches, take_rows
from lance_spark.scan.partition_rules import ScanPartition


@dataclass(frozen=True)
class ScanTask:
    """The common part of all partitions of a scan."""

    scan: Scan
    output: pa.Schema
    """The exact schema of the batches for Spark."""
    aggregate: AggregatePlan | None = None
    sample: Sample | None = None
    order: tuple[SortKey, ...] = ()
    first: int | None = None
    """Maximum rows of each partition: the first in the order, if there is one."""
    taken_late: bool = False
    """Whether to find the first rows in the order by their sort columns, and only then read them."""
    counted: bool = False
    """Whether Spark needs no column, only the number of rows: the one output column then holds nulls."""

    def rows(self, part: ScanPartition) -> Iterator[pa.RecordBatch]:
        if self.first is not None and not self.order and self.sample is None:
            part = replace(part, limit=self.first if part.limit is None else min(part.limit, self.first))
        batches: Iterable[pa.RecordBatch] = read_batches(self._first_scan, part) if part.fragment_ids else ()
        if self.sample is not None:
            batches = sample(self.sample, batches, ROW_ADDRESS)
        if self.aggregate is not None:
            batches = aggregate(self.aggregate, batches)
        if self.order and self.first is not None:
            batches = first_rows(self.order, self.first, batches)
            if self.taken_late:
                batches = self._whole_rows(batches)
        if self.counted:
            batches = (self._nulls(batch.num_rows) for batch in batches)
        for batch in batches:
            yield conform(batch, self.output)

    @property
    def _first_scan(self) -> Scan:
        if not self.taken_late:
            return self.scan
        names = tuple(dict.fromkeys(key.column for key in self.order))
        return replace(self.scan, columns=replace(self.scan.columns, names=names, with_row_id=True))

    def _whole_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        row_ids = [row_id for batch in batches for row_id in batch.column(ROW_ID).to_pylist()]
        return take_rows(self.scan, row_ids) if row_ids else ()

    def _nulls(self, count: int) -> pa.RecordBatch:
        # A batch without columns reaches Spark as one without rows.
        return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in self.output], schema=self.output)


@dataclass(frozen=True)
class TaskPart:
    """The input of one task, in the form that Spark sends."""

    part: ScanPartition
    scan_filter: str | None
    """The filter of the scan, including what became known while the query ran."""


def read_part(task: ScanTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by Spark's worker with the pickled part in the only cell of the only batch."""
    send_at_once()
    for batch in batches:
        given: TaskPart = pickle.loads(batch.column(0)[0].as_py())
        with plainly():
            yield from replace(task, scan=replace(task.scan, filter=given.scan_filter)).rows(given.part)


def pickled_function(task: ScanTask, schema: StructType) -> bytes:
    """The function in the form of Spark's worker: with the schema of its result.

    The filter comes with the part, because Spark might create the function before it knows the runtime filters.
    """
    shared = replace(task, scan=replace(task.scan, filter=None))
    pickled: bytes = cloudpickle.dumps((partial(read_part, shared), schema))  # type: ignore[no-untyped-call]
    return pickled


# --- Batches that reach Spark as batches
# No JVM access.
#
# The other side is ``java/Batches.java``, which opened a socket and appended its address to the part. Batches go
# through the socket. Three rows go through Spark's own channel: one reports that the worker is there, one fills the
# channel's buffer so that the first one gets through, and the last one holds the number of rows sent. Errors go
# Spark's way.

SIGNALS = StructType([StructField("rows", LongType(), False), StructField("filler", BinaryType(), False)])
"""The rows of Spark's own channel."""
_WIRE = pa.schema([pa.field("rows", pa.int64(), False), pa.field("filler", pa.binary(), False)])
BATCH_BYTES = 16 * 2**20
"""Maximum bytes of a batch before it is divided: the JVM holds one for each task."""
_BUFFER = 65_536
_DECIMAL, _LONG_DIGITS = "lance_spark.decimal", 18
"""Key in a field's metadata, for ``Batches.java``; and the number of digits that a long always holds."""


def send_part(task: ScanTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by Spark's worker with the part and the address in the only cell of the only batch."""
    send_at_once()
    for batch in batches:
        content = io.BytesIO(batch.column(0)[0].as_py())
        given: TaskPart = pickle.load(content)
        with connected(content.read().decode()) as channel:
            yield _signal(0)
            yield _signal(0, int(os.environ.get("SPARK_BUFFER_SIZE", _BUFFER)) + 1)
            with plainly():
                rows = replace(task, scan=replace(task.scan, filter=given.scan_filter)).rows(given.part)
                sent = _send(channel, rows, task.output)
        if sent is None:
            return
        yield _signal(sent)


def _send(channel: socket.socket, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> int | None:
    """The number of rows sent; None if the reader stopped early, as in a query with a limit."""
    sink, sent = _Sink(channel), 0
    wire = narrow(schema)
    stream = pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), wire)
    for batch in batches:
        for piece in bounded(narrowed(batch, wire), BATCH_BYTES):
            try:
                stream.write_batch(piece)
                sink.flush()
            except (BrokenPipeError, ConnectionResetError):
                return None
            sent += piece.num_rows
    try:
        stream.close()  # only after all batches: it marks the end
        sink.flush()
    except (BrokenPipeError, ConnectionResetError):
        return None
    return sent


class _Sink:
    """Writes large pieces as they come, and collects small ones, such as headers."""

    closed = False

    def __init__(self, channel: socket.socket) -> None:
        self._channel, self._held = channel, bytearray()

    def write(self, data: bytes) -> None:
        if len(data) < _BUFFER:
            self._held += memoryview(data)
            if len(self._held) >= _BUFFER:
                self.flush()
        else:
            self.flush()
            self._channel.sendall(data)

    def flush(self) -> None:
        if self._held:
            self._channel.sendall(self._held)
            self._held = bytearray()

    def close(self) -> None:
        self.closed = True


def narrow(schema: pa.Schema) -> pa.Schema:
    """The schema with decimals of up to 18 digits as longs.

    Arrow has 16 bytes for each, of which these use eight, and the JVM would create objects from all 16.
    """
    return pa.schema([_narrow(field) for field in schema], schema.metadata)


def _narrow(field: pa.Field) -> pa.Field:
    kind = field.type
    if not pa.types.is_decimal128(kind) or kind.precision > _LONG_DIGITS:
        return field
    return pa.field(field.name, pa.int64(), field.nullable, {_DECIMAL: f"{kind.precision},{kind.scale}"})


def narrowed(batch: pa.RecordBatch, wire: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(wire):
        return batch
    columns = [
        column if column.type == field.type else _lower_halves(column)
        for column, field in zip(batch.columns, wire, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wire)


def _lower_halves(decimals: pa.Array) -> pa.Array:
    """The unscaled values of decimals that fit into longs. Arrow stores the lowest bytes first."""
    if len(decimals) == 0:
        return pa.array([], pa.int64())
    validity, data = decimals.buffers()
    halves = np.frombuffer(data, np.int64, 2 * (decimals.offset + len(decimals)))
    values = pa.py_buffer(np.ascontiguousarray(halves[::2]))
    return pa.Array.from_buffers(pa.int64(), len(decimals), [validity, values], offset=decimals.offset)


def bounded(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most that many bytes, as long as a piece has more than one row."""
    if batch.nbytes <= most or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from bounded(batch.slice(0, half), most)
    yield from bounded(batch.slice(half), most)


def _signal(rows: int, filler: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([rows], pa.int64()), pa.array([bytes(filler)], pa.binary())], schema=_WIRE
    )


def pickled_sender(task: ScanTask) -> bytes:
    """The function in the form of Spark's worker: with the schema of its result."""
    shared = replace(task, scan=replace(task.scan, filter=None))
    pickled: bytes = cloudpickle.dumps((partial(send_part, shared), SIGNALS))  # type: ignore[no-untyped-call]
    return pickled


# --- Running a planned scan with the executor side of Spark's own Python data sources

UNIX_SOCKETS = True
"""Whether batches go through sockets of the file system, which need a short enough name."""


def input_partitions(parts: tuple[ScanPartition, ...], scan_filter: str | None) -> Answer:
    return partitions([pickle.dumps(TaskPart(part, scan_filter)) for part in parts])


def grouped_partitions(parts: tuple[ScanPartition, ...], scan_filter: str | None, keys: RowBytes) -> Answer:
    pickled = [pickle.dumps(TaskPart(part, scan_filter)) for part in parts]
    return answers.grouped_partitions(pickled, keys)


def reader_factory(task: ScanTask, schema: StructType, batches: bool) -> Answer:
    """The factory of the readers on executors, of batches or of rows."""
    if batches:
        return Answer("factory", Factory(pickled_sender(task), SIGNALS, UNIX_SOCKETS))
    return Answer("factory", Factory(pickled_function(task, schema), schema, None))
