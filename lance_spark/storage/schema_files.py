"""Reads the columns for a new dataset from a file or table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import csv, ipc, parquet

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.storage.datasets import open_latest
from lance_spark.storage.files import entries, open_filesystem, reachable, whole_path

_CSV = (".csv", ".csv.gz", ".tsv")
_KNOWN = "Give a Parquet, Arrow (Feather) or CSV file, or a Lance dataset."


def read_schema_of(source: DatasetLocation) -> pa.Schema:
    """The columns of a Parquet, Arrow, Feather or CSV file, of a directory of Parquet files, or of a Lance dataset.

    Reads a footer, or the first block of a CSV file. CSV columns without any value become text. Raises NotFound,
    StorageFailure, and InvalidOption for anything else.
    """
    with reachable(source):
        directory = bool(open_filesystem(source).isdir(whole_path(source, "")))
    inside = dict(entries(source, "")) if directory else {}
    if "_versions" in inside:
        schema: pa.Schema = open_latest(source).schema
        return schema
    part = next((name for name in sorted(inside) if name.endswith(".parquet")), None)
    if directory and part is None:
        raise InvalidOption(f"The directory {source.uri} contains no table.", hint=_KNOWN)
    return _plain(_read(source, part or ""))


def _read(source: DatasetLocation, part: str) -> pa.Schema:
    path = whole_path(source, part)
    try:
        with reachable(source), open_filesystem(source).open(path, "rb") as file:
            return _schema_in(file, path, source.is_local)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {source.uri}.", hint=_KNOWN) from None


def _schema_in(file: Any, path: str, local: bool) -> pa.Schema:
    magic = file.read(6)
    file.seek(0)
    try:
        if magic.startswith(b"PAR1"):
            return parquet.read_schema(file)
        if magic.startswith(b"ARROW1"):
            return ipc.open_file(file).schema
        if magic.startswith(b"\xff\xff\xff\xff"):
            return ipc.open_stream(file).schema
        if path.lower().endswith(_CSV):
            return _csv_schema(file, path)
    except pa.ArrowInvalid as problem:
        raise InvalidOption(f"{path} cannot be read: {problem}", hint=_KNOWN) from None
    except OSError as problem:
        if not local:
            raise  # the store failed, which does not mean that the file is invalid
        raise InvalidOption(f"{path} cannot be read: {problem}", hint=_KNOWN) from None
    raise InvalidOption(f"{path} is not a readable table.", hint=_KNOWN)


def _csv_schema(file: Any, path: str) -> pa.Schema:
    stream = pa.CompressedInputStream(file, "gzip") if path.lower().endswith(".gz") else file
    tabs = csv.ParseOptions(delimiter="\t" if path.lower().endswith(".tsv") else ",")
    schema = csv.open_csv(stream, parse_options=tabs).schema
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema]
    return pa.schema(fields)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The metadata without the notes of pandas or Spark, which describe the file rather than the data."""
    return pa.schema([field.with_metadata(_kept(field)) for field in schema])


def _kept(field: pa.Field) -> dict[bytes, bytes] | None:
    kept = {key: value for key, value in (field.metadata or {}).items() if not key.startswith(b"PARQUET:")}
    return kept or None
