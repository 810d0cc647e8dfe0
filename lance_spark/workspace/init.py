"""A new dataset, with the columns of a file or of another table; or one that is there, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import csv, ipc, parquet

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.scan.fragment_reads import column_names
from lance_spark.storage.commits import create_dataset
from lance_spark.storage.datasets import find_latest, locate_typed, open_latest
from lance_spark.storage.files import ask, entries, open_filesystem, reachable, whole_path
from lance_spark.storage.resolving import dataset_at
from lance_spark.workspace.workspace_files import dataset_around
from lance_spark.write.plan_rules import check_names


@dataclass(frozen=True)
class InitPlan:
    columns: tuple[str, ...]
    """Names of the columns that the dataset has, or would have."""
    create: pa.Schema | None
    """The columns of the dataset to create; None if one exists, which stays as it is."""


def init_location(uri: str, storage_options: Mapping[str, str]) -> DatasetLocation:
    """The place of the dataset, existing or not. Raises Refused for a place inside another dataset's directory.

    ``init .`` in ``flights.lance/data`` is a mistake: it would put a second dataset among the first one's files.
    """
    location = locate_typed(uri, storage_options)
    around = dataset_around(location.uri) if location.is_local else None
    if around is not None and around.uri != location.uri:
        raise Refused(
            f"{location.uri} is inside the dataset {around.uri}.",
            hint=f"For that dataset: lance-git init {around.uri}. Create a new one elsewhere.",
        )
    return dataset_at(uri, storage_options)


def plan_init(location: DatasetLocation, source: DatasetLocation | None) -> InitPlan:
    """The plan of an init. A new dataset has the columns of the source, or none without a source.

    Raises AlreadyExists for a source if the dataset exists, and what :func:`read_schema_of` raises.
    """
    pin = find_latest(location, None)
    if pin is not None and source is not None:
        raise AlreadyExists(
            f"There is a dataset at {location.uri} already, and it has its own columns.",
            hint="Leave --from out for a workspace, or choose another place for a new dataset.",
        )
    if pin is not None:
        return InitPlan(column_names(location, pin), None)
    schema = pa.schema([]) if source is None else _columns_of(source)
    return InitPlan(tuple(schema.names), schema)


def _columns_of(source: DatasetLocation) -> pa.Schema:
    schema = read_schema_of(source)
    try:
        check_names(schema, new=True)
    except SchemaMismatch as problem:
        raise SchemaMismatch(f"{source.uri}: {problem.message}", hint="Rename or drop the column there.") from None
    return schema


def init_dataset(location: DatasetLocation, plan: InitPlan) -> None:
    """Create the dataset without rows, unless it exists. Raises AlreadyExists if another process was first."""
    if plan.create is not None:
        create_dataset(location, plan.create)


# --- The columns of a file or table

_CSV = (".csv", ".csv.gz", ".tsv")
_KNOWN = "Give a Parquet, Arrow (Feather) or CSV file, or a Lance dataset."


def read_schema_of(source: DatasetLocation) -> pa.Schema:
    """The columns of a Parquet, Arrow, Feather or CSV file, of a directory of Parquet files, or of a Lance dataset.

    Reads a footer, or the first block of a CSV file. CSV columns without any value become text. Raises NotFound,
    StorageFailure, and InvalidOption for anything else.
    """
    with reachable(source):
        directory = bool(ask(source, lambda store: store.isdir(whole_path(source, ""))))
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
