"""Imports of files: their rows as one version of a branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import SchemaMismatch
from lance_spark.storage.datasets import pin_latest
from lance_spark.tables.local_write import ArrowRows, fitted, write_locally
from lance_spark.workspace.importing import read_rows
from lance_spark.write.data_files import read_target


@dataclass(frozen=True)
class Imported:
    rows: int
    version: int | None
    """None if nothing was written."""


def import_files(
    location: DatasetLocation,
    branch: str | None,
    sources: Sequence[DatasetLocation],
    options: Mapping[str, str],
    overwrite: bool,
    dry_run: bool,
) -> Imported:
    """Write the rows of files to a branch as one version; ``options`` are those of a write in Spark.

    A dry run reads the files, and so finds values that do not fit. Raises NotFound, InvalidOption, SchemaMismatch for
    files with different columns, and as a write.
    """
    schema = read_target(location, pin_latest(location, branch)).schema
    rows = _Files(sources, pa.schema([]) if overwrite else schema)
    given = ArrowRows(rows.schema, rows.batches())
    fit = given if overwrite else fitted(given, schema)
    if dry_run:
        for _ in fit.batches:
            pass
        return Imported(rows.count[0], None)
    version = write_locally(options, fit, overwrite)
    return Imported(rows.count[0], version)


@dataclass
class _Files:
    """The rows of several files with the same columns."""

    sources: Sequence[DatasetLocation]
    known: pa.Schema
    count: list[int] = field(default_factory=lambda: [0])

    @property
    def schema(self) -> pa.Schema:
        return read_rows(self.sources[0], self.known)[0]

    def batches(self) -> Iterator[pa.RecordBatch]:
        first = self.schema
        for source in self.sources:
            schema, rows = read_rows(source, self.known)
            if schema.names != first.names:
                has, first_has = ", ".join(schema.names), ", ".join(first.names)
                raise SchemaMismatch(f"{source.uri} has the columns {has}, but the first file {first_has}.")
            for batch in rows:
                self.count[0] += batch.num_rows
                yield batch.cast(first) if batch.schema != first else batch
