"""The bytes of blobs: whole, in ranges, or as files.

pylance reads those in the table's own files, and those in objects elsewhere unless these have storage options of their
own, which it does not know.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import InvalidOption
from lance_spark.format.blob_references import AT_URI, BlobReference, Referring, reference_of
from lance_spark.format.blobs import descriptions_in, holds_blobs, is_blob, is_blob_extension
from lance_spark.format.schema import ROW_ADDRESS, unknown_column
from lance_spark.storage import objects
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.storage.versions import read_snapshot

Range = tuple[int, int, int]
"""A row id, the first byte counted in the blob, and a number of bytes."""


def read_blobs(
    location: DatasetLocation, pin: PinnedVersion, column: str, row_ids: Sequence[int]
) -> list[bytes | None]:
    """The bytes of the blobs of these rows, in order; None for a row without one. Raises NotFound, CorruptData."""
    if not objects.has_own_options(location):
        dataset = open_pinned(location, pin)
        with translated(location, f"reading blobs of column '{column}'"):
            return [value for _, value in dataset.read_blobs(column, ids=list(row_ids), preserve_order=True)]
    return _resolved(
        location, column, row_ids, references(location, pin, column, row_ids), _inside(location, pin, "ids")
    )


def references(
    location: DatasetLocation, pin: PinnedVersion, column: str, row_ids: Sequence[int]
) -> list[BlobReference | None]:
    """What the blobs of these rows refer to elsewhere, in order; None for all others."""
    dataset = open_pinned(location, pin)
    if not is_blob_extension(dataset.schema.field(column)):
        return [None] * len(row_ids)
    with translated(location, f"reading descriptions of blobs of column '{column}'"):
        found = dataset._take_rows(list(row_ids), columns=[column])[column]
    return _references(location, pin, found.to_pylist())


def _references(
    location: DatasetLocation, pin: PinnedVersion, descriptions: Sequence[Any]
) -> list[BlobReference | None]:
    below_base = any(one is not None and one.get("kind") == AT_URI and one["blob_id"] for one in descriptions)
    bases = read_snapshot(location, pin).bases if below_base else {}
    by_id = {number: base.uri for number, base in bases.items() if number}
    return [reference_of(one, by_id) for one in descriptions]


_Inside = Callable[[str, list[int]], list[bytes | None]]


def _inside(location: DatasetLocation, pin: PinnedVersion, selector: str) -> _Inside:
    """Reads blobs of the table's own files, by row ids or addresses."""

    def read(column: str, rows: list[int]) -> list[bytes | None]:
        dataset = open_pinned(location, pin)
        with translated(location, f"reading blobs of column '{column}'"):
            return [value for _, value in dataset.read_blobs(column, **{selector: rows}, preserve_order=True)]

    return read


def _resolved(
    location: DatasetLocation, column: str, rows: Sequence[int], found: Sequence[BlobReference | None], inside: _Inside
) -> list[bytes | None]:
    values = objects.read_many(location, found)
    own = [place for place, reference in enumerate(found) if reference is None]
    for place, value in zip(own, inside(column, [rows[place] for place in own]) if own else (), strict=True):
        values[place] = value
    return values


def count_references(location: DatasetLocation, pin: PinnedVersion) -> Referring:
    """How many blobs of a version, at any depth, refer to objects elsewhere. Reads descriptions, and no blobs."""
    dataset, found = open_pinned(location, pin), Referring()
    names = [field.name for field in dataset.schema if holds_blobs(field)]
    if names:
        with translated(location, "reading descriptions of blobs"):
            for batch in dataset.scanner(columns=names, blob_handling="blobs_descriptions").to_batches():
                for description in (each for column in batch.columns for each in descriptions_in(column)):
                    found = found.and_in(description)
    return found


# --- Scans that return bytes


def referring_columns(location: DatasetLocation, pin: PinnedVersion) -> tuple[str, ...]:
    """The columns whose blobs may refer to objects elsewhere: those of pylance's type for blobs."""
    return tuple(field.name for field in open_pinned(location, pin).schema if is_blob_extension(field))


def elsewhere(location: DatasetLocation, pin: PinnedVersion, names: Sequence[str]) -> list[str]:
    """The columns among these that pylance cannot read as bytes, since objects elsewhere have options of their own."""
    own = referring_columns(location, pin) if objects.has_own_options(location) else ()
    return [name for name in names if name in own]


def with_bytes(
    location: DatasetLocation, pin: PinnedVersion, batch: pa.RecordBatch, names: Sequence[str]
) -> pa.RecordBatch:
    """The rows with bytes in place of the descriptions of these columns; they have their addresses."""
    rows, inside = batch[ROW_ADDRESS].to_pylist(), _inside(location, pin, "addresses")
    for name in names:
        found = _references(location, pin, batch[name].to_pylist())
        values = pa.array(_resolved(location, name, rows, found, inside), pa.large_binary())
        field = pa.field(name, pa.large_binary(), metadata={"ARROW:extension:metadata": ""})
        batch = batch.set_column(batch.schema.get_field_index(name), field, values)
    return batch


# --- Single blobs, in any process


@dataclass(frozen=True)
class Blobs:
    """The blobs of a column at a version: bytes, ranges, files. Can be pickled, and reads on executors too.

    Rows are named by their ``_rowid``, as ``t.to_df(with_row_id=True)`` and pylance have it.
    """

    location: DatasetLocation
    pin: PinnedVersion
    column: str

    @staticmethod
    def of(location: DatasetLocation, pin: PinnedVersion, column: str) -> Blobs:
        """Raises NotFound for an unknown column, InvalidOption for one without blobs."""
        schema = open_pinned(location, pin).schema
        if column not in schema.names:
            raise unknown_column(column, schema.names)
        if not is_blob(schema.field(column)):
            raise InvalidOption(f"Column '{column}' holds no blobs, but {schema.field(column).type}.")
        return Blobs(location, pin, column)

    def read(self, row_ids: Sequence[int]) -> list[bytes | None]:
        """The bytes of the blobs of these rows, in order; None for a row without one.

        Raises NotFound for an object that is gone, CorruptData for one that is shorter than a range.
        """
        return read_blobs(self.location, self.pin, self.column, list(row_ids))

    def read_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Parts of blobs, in order: each a row id, the first byte counted in the blob, and a number of bytes.

        None for a row without a blob. What lies behind a blob's end is cut off. Raises as :meth:`read`.
        """
        for row, first, size in ranges:
            if first < 0 or size < 0:
                raise InvalidOption(f"Row {row}: {size} bytes from {first} are no range.", hint="Give both from 0.")
        files = self.open(list(dict.fromkeys(row for row, _, _ in ranges)))
        by_row = dict(zip(dict.fromkeys(row for row, _, _ in ranges), files, strict=True))
        found = []
        for row, first, size in ranges:
            file = by_row[row]
            if file is not None:
                file.seek(first)
            found.append(None if file is None else file.read(size))
        return found

    def open(self, row_ids: Sequence[int]) -> list[io.BufferedIOBase | None]:
        """The blobs of these rows as files to read and to seek in, in order; None for a row without one.

        Bytes are read when they are asked for. Raises as :meth:`read`, then.
        """
        rows = list(row_ids)
        found = references(self.location, self.pin, self.column, rows) if objects.has_own_options(self.location) else []
        own = [place for place in range(len(rows)) if not found or found[place] is None]
        opened: list[io.BufferedIOBase | None] = [
            None if not found or one is None else io.BufferedReader(_ObjectFile(self.location, one)) for one in found
        ] or [None] * len(rows)
        if own:
            dataset = open_pinned(self.location, self.pin)
            with translated(self.location, f"opening blobs of column '{self.column}'"):
                taken = dataset.take_blobs(self.column, ids=[rows[place] for place in own])
            for place, file in zip(own, taken, strict=True):
                opened[place] = file
        return opened


class _ObjectFile(io.RawIOBase):
    """An object elsewhere, or a range of it, as a file."""

    def __init__(self, location: DatasetLocation, reference: BlobReference) -> None:
        super().__init__()
        self._location, self._reference, self._at = location, reference, 0
        self._size = reference.size or None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: 0}[whence]
        if whence == io.SEEK_END:
            start = self.size()
        self._at = max(0, start + offset)
        return self._at

    def size(self) -> int:
        if self._size is None:
            found = objects.look(self._location, self._reference.address)
            if found is None:
                objects.read(self._location, self._reference, 0, 1)  # raises the error
                return 0
            self._size = found.size
        return self._size

    def readinto(self, buffer: Any) -> int:
        content = objects.read(self._location, self._reference, self._at, len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
