"""Receives, in the Python worker of a write, the rows that Spark's JVM sends as columns.

The other side is ``jvm/java/Writes.java``. It opens a socket, and puts its address and the schema into the only row
that goes through Spark's own channel. The content has Arrow's layout in memory, so that batches need no copy. Nothing
here uses the JVM.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain

import pyarrow as pa

COLUMN = "lance_spark.columns"
"""The only column of Spark's own channel. Lance allows no dots in names, so no dataset has such a column."""
_SECRET = 36
"""Characters before the address, by which the other side recognizes its worker."""
_ALIGNED, _WORDS = 64, 4


def connected(address: str) -> socket.socket:
    """The worker's end of a socket that the JVM opened, after sending the secret."""
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


def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task: the batches that Spark passes on, or those that come through a socket."""
    first = next(batches, None)
    if first is None:
        return
    if first.schema.names != [COLUMN]:
        yield from chain((first,), batches)
        return
    cell = first.column(0)[0].as_py()
    end = 4 + struct.unpack_from("<i", cell)[0]
    schema = pa.ipc.read_schema(pa.py_buffer(cell[end:]))
    _exhaust(batches)
    with closing(connected(cell[4:end].decode())) as channel:
        yield from _received(channel, schema)


def _exhaust(batches: Iterable[pa.RecordBatch]) -> None:
    """Spark reuses a worker for another task only after it has read everything that was sent to it."""
    for _ in batches:
        pass


def _received(channel: socket.socket, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a connection. Raises EOFError if it ends before the number that stands for the end."""
    numbers = struct.Struct(f"<{_WORDS * len(schema)}q")
    while (rows := struct.unpack("<q", _read(channel, 8))[0]) >= 0:
        told = numbers.unpack(_read(channel, numbers.size))
        columns = [told[at : at + _WORDS] for at in range(0, len(told), _WORDS)]
        content = _read(channel, sum(_padded(length) for _, *lengths in columns for length in lengths))
        arrays, start = [], 0
        for kind, (nulls, *lengths) in zip(schema.types, columns, strict=True):
            parts = []
            for length in lengths:
                parts.append(content.slice(start, length) if length else None)
                start += _padded(length)
            arrays.append(_array(kind, rows, nulls, parts))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, rows: int, nulls: int, parts: list[pa.Buffer | None]) -> pa.Array:
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        parts = parts[:2]
    elif parts[2] is None:
        parts = [*parts[:2], pa.py_buffer(b"")]
    return pa.Array.from_buffers(kind, rows, parts, nulls)


def _padded(length: int) -> int:
    return -(-length // _ALIGNED) * _ALIGNED


def _read(channel: socket.socket, length: int) -> pa.Buffer:
    content = pa.allocate_buffer(length)
    left = memoryview(content)
    while left.nbytes:
        count = channel.recv_into(left)
        if not count:
            raise EOFError("Spark's task ended before all of its rows were sent.")
        left = left[count:]
    return content
