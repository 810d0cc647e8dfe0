"""Rows of Parquet, Arrow, CSV and JSON files, for imports without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import csv, ipc, json, parquet

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.storage.files import open_filesystem, reachable, whole_path

_CSV, _TSV, _JSON = (".csv", ".csv.gz"), (".tsv", ".tsv.gz"), (".json", ".jsonl", ".ndjson")
_KNOWN = "Give a Parquet, Arrow (Feather), CSV (.csv, .tsv, also .gz) or JSON file (an object a line)."


def read_rows(source: DatasetLocation, schema: pa.Schema) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns and the rows of a file; texts are read with the types of the dataset's ``schema`` where it has them.

    The file is read while the rows are taken. Raises NotFound, StorageFailure, and InvalidOption for anything else.
    """
    path = whole_path(source, "")
    if source.is_local and os.path.isdir(path):
        raise InvalidOption(f"{path} is a directory.", hint=_KNOWN)
    try:
        with reachable(source):
            file = open_filesystem(source).open(path, "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"There is no file {source.uri}.", hint=_KNOWN) from None
    try:
        found, rows = _opened(file, path, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError) as problem:
        raise _unreadable(path, problem) from None
    return found, _rows(path, file, rows)


def _rows(path: str, file: Any, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with file:
        while True:
            try:
                batch = next(rows, None)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
                raise _unreadable(path, problem) from None
            if batch is None:
                return
            yield batch


def _unreadable(path: str, problem: Exception) -> InvalidOption:
    return InvalidOption(f"{path} cannot be read: {problem}", hint=_KNOWN)


def _opened(file: Any, path: str, schema: pa.Schema) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    magic, name = file.read(6), path.lower()
    file.seek(0)
    if magic.startswith(b"PAR1"):
        found = parquet.ParquetFile(file)
        return found.schema_arrow.remove_metadata(), found.iter_batches()
    if magic.startswith(b"ARROW1"):
        opened = ipc.open_file(file)
        return opened.schema, (opened.get_batch(at) for at in range(opened.num_record_batches))
    if name.endswith((*_CSV, *_TSV)):
        stream = pa.CompressedInputStream(file, "gzip") if name.endswith(".gz") else file
        types = csv.ConvertOptions(column_types={field.name: field.type for field in schema if _is_text(field.type)})
        split = csv.ParseOptions(delimiter="\t" if name.endswith(_TSV) else ",")
        reader = csv.open_csv(stream, parse_options=split, convert_options=types)
        return reader.schema, iter(reader)
    if name.endswith(_JSON):
        known = json.ParseOptions(explicit_schema=schema) if len(schema) else None
        table = json.read_json(file, parse_options=known)
        given = [column for column in table.column_names if column not in schema.names or _has_values(table, column)]
        table = table.select(given)
        return table.schema, iter(table.to_batches())
    raise InvalidOption(f"{path} is not a readable table.", hint=_KNOWN)


def _is_text(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind) and not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind)


def _has_values(table: pa.Table, column: str) -> bool:
    return bool(table[column].null_count < table.num_rows or table.num_rows == 0)
