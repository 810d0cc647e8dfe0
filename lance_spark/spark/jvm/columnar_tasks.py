"""What runs on executors where batches cross to Spark as batches. Nothing here reaches for the JVM.

The other side is ``java/Batches.java``, which made a socket and put its address behind the part. Batches go through the
socket; through Spark's own channel go three rows, which say that the worker is there, fill the channel's buffer, so
that the first one gets through, and at the end how many rows were sent. Errors take Spark's way.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from lance_spark.spark.failures import plainly
from lance_spark.spark.jvm.tasks import ScanTask, TaskPart
from lance_spark.spark.worker_socket import send_at_once

SIGNALS = StructType([StructField("rows", LongType(), False), StructField("filler", BinaryType(), False)])
"""The rows of Spark's own channel."""
_WIRE = pa.schema([pa.field("rows", pa.int64(), False), pa.field("filler", pa.binary(), False)])
_SECRET = 36
"""Characters before the address, by which the other side tells its worker from anybody else."""
BATCH_BYTES = 16 * 2**20
"""Bytes of a batch from which on it is divided: the JVM holds one for each task."""
_BUFFER = 65_536
_DECIMAL, _LONG_DIGITS = "lance_spark.decimal", 18
"""In a field's metadata, for ``Batches.java``; and how many digits a long has for certain."""


def send_part(task: ScanTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by Spark's worker with the part and the address in the only cell of the only batch."""
    send_at_once()
    for batch in batches:
        content = io.BytesIO(batch.column(0)[0].as_py())
        given: TaskPart = pickle.load(content)
        with _connected(content.read().decode()) as channel:
            yield _signal(0)
            yield _signal(0, int(os.environ.get("SPARK_BUFFER_SIZE", _BUFFER)) + 1)
            with plainly():
                rows = replace(task, scan=replace(task.scan, filter=given.scan_filter)).rows(given.part)
                sent = _send(channel, rows, task.output)
        if sent is None:
            return
        yield _signal(sent)


def _connected(address: str) -> socket.socket:
    secret, (kind, _, place) = address[:_SECRET], address[_SECRET:].partition(":")
    if kind == "unix":
        channel = socket.socket(socket.AF_UNIX)
        channel.connect(place)
    else:
        host, _, port = place.rpartition(" ")
        channel = socket.create_connection((host, int(port)))
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.sendall(secret.encode())
    return channel


def _send(channel: socket.socket, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> int | None:
    """The number of rows that were sent; None where nobody wants more of them, as of a query with a limit."""
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
    """Takes what is written in pieces as large as they come; small ones, such as headers, together."""

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

    Arrow has 16 bytes for each, of which these use eight, and the JVM would make objects of all 16.
    """
    return pa.schema([_narrow(field) for field in schema], schema.metadata)


def _narrow(field: pa.Field) -> pa.Field:
    kind = field.type
    if not pa.types.is_decimal128(kind) or kind.precision > _LONG_DIGITS:
        return field
    return pa.field(field.name, pa.int64(), field.nullable, {_DECIMAL: f"{kind.precision},{kind.scale}"})


def narrowed(batch: pa.RecordBatch, wire: pa.Schema) -> pa.RecordBatch:
    """The batch in that schema."""
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
    """The batch in pieces of so many bytes at most, as long as these have more than one row."""
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
    """The function as Spark's worker takes it: with the schema of what it returns."""
    shared = replace(task, scan=replace(task.scan, filter=None))
    pickled: bytes = cloudpickle.dumps((partial(send_part, shared), SIGNALS))  # type: ignore[no-untyped-call]
    return pickled
