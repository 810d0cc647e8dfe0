"""Writes uncommitted data files through pylance; runs on executors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.align import align
from lance_spark.schema.blobs import BLOB_KEY, is_blob_extension, plain_bytes
from lance_spark.schema.conform import conform
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.write.plan import WriteJob, WriteTarget

if TYPE_CHECKING:
    import lance
    from lance.fragment import FragmentMetadata

_BLOB_TYPE_SINCE = (2, 2)
"""First file format whose blobs are an extension type; in older formats they are marked bytes."""


def read_target(location: DatasetLocation, pin: PinnedVersion) -> WriteTarget:
    """What an existing version fixes for new files."""
    dataset = open_pinned(location, pin)
    with translated(location, "reading the schema"):
        return WriteTarget(dataset.schema, str(dataset.data_storage_version), bool(dataset.has_stable_row_ids))


def storage_schema(schema: pa.Schema, data_storage_version: str | None) -> pa.Schema:
    """The schema with marked blob columns in the form the file format stores them."""
    import lance

    numbers = re.fullmatch(r"(\d+)\.(\d+)", data_storage_version or "")
    if numbers and (int(numbers[1]), int(numbers[2])) < _BLOB_TYPE_SINCE:
        return schema
    fields = [
        lance.blob_field(field.name, nullable=field.nullable)
        if (field.metadata or {}).get(BLOB_KEY.encode()) == b"true"
        else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def write_rows(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Write one task's rows as uncommitted data files; returns the fragments' metadata as JSON.

    pylance deletes what it wrote when the stream fails half-way. No rows, no file.
    """
    plan = job.plan
    rows = _ConformedBatches(batches, plan.schema)
    first = next(rows, None)
    if first is None:
        return []
    reader = pa.RecordBatchReader.from_batches(plan.schema, chain((first,), rows))
    try:
        with translated(plan.location, "writing data files"):
            fragments = _write_fragments(job, reader)
    except AlreadyExists as error:
        raise Conflict(
            f"Another job created the dataset at {plan.location.uri} first.", hint="Run it again."
        ) from error
    except LanceSparkError as error:
        # pylance wraps what the stream raised into its own text; the original says it better.
        raise rows.failure or error from None
    return [json.dumps(fragment.to_json()) for fragment in fragments]


def _write_fragments(job: WriteJob, reader: pa.RecordBatchReader) -> Sequence[FragmentMetadata]:
    from lance.fragment import write_fragments

    plan, options = job.plan, job.plan.options.files
    sizes = {"max_rows_per_file": options.max_rows_per_file, "max_bytes_per_file": options.max_bytes_per_file}
    arguments: dict[str, Any] = {key: value for key, value in sizes.items() if value is not None}
    destination = _destination(job)
    mode, version = str(plan.mode), options.data_storage_version
    if plan.evolution is not None and job.start is not None:
        # As if for a new table, as this one lacks the columns: the commit says which fields of the table they are.
        mode, version = "overwrite", str(open_pinned(plan.location, job.start).data_storage_version)
    written: Sequence[FragmentMetadata] = write_fragments(
        reader,
        destination,
        schema=plan.schema,
        mode=mode,
        data_storage_version=version,
        storage_options=plan.location.storage_options,
        **arguments,
    )
    return written


def _destination(job: WriteJob) -> lance.LanceDataset | str:
    """The version the job started from, so that all tasks use its field ids even if a commit comes between."""
    location = job.plan.location
    return location.uri if job.start is None else open_pinned(location, job.start)


class _ConformedBatches(Iterator[pa.RecordBatch]):
    """Non-empty batches brought to the stored schema; remembers what went wrong."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = iter(batches)
        self._schema = schema
        self._plain = pa.schema([plain_bytes(field) if is_blob_extension(field) else field for field in schema])
        self.failure: LanceSparkError | None = None

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        while not batch.num_rows:
            batch = next(self._batches)
        try:
            return self._wrap_blobs(align(conform(batch, self._plain)))
        except LanceSparkError as failure:
            self.failure = failure
            raise

    def _wrap_blobs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._plain.equals(self._schema):
            return batch
        import lance

        columns = [
            lance.blob_array(column.to_pylist()) if is_blob_extension(field) else column
            for field, column in zip(self._schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
