"""Data files through pylance: uncommitted rows on executors, then one commit, or their deletion, on the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import WriteOptions
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    LanceSparkError,
    NotCommittable,
    NotFound,
    SchemaMismatch,
)
from lance_spark.format.blob_references import opened, reference_values, referred, refers
from lance_spark.format.blobs import (
    BLOB_KEY,
    holds_blobs,
    holds_bytes,
    is_blob_extension,
    plain_bytes,
    stored_as,
    wrapped,
)
from lance_spark.format.kept_types import fit
from lance_spark.format.row_ids import read_row_ids
from lance_spark.format.schema import conform, row_width
from lance_spark.format.storable import ROWS_PER_FILE, check_new_types, check_values, format_numbers, safe_batches
from lance_spark.format.transactions import MESSAGE
from lance_spark.layout.declaring import declare, fits, look, read_layout
from lance_spark.layout.fact_rules import Collector, watched
from lance_spark.layout.facts import recorded
from lance_spark.layout.key_rules import cut, runs
from lance_spark.layout.layout_rules import NO_LAYOUT, TableLayout, declared_by
from lance_spark.layout.layout_rules import check as check_layout
from lance_spark.scan.fragment_reads import Scan, ScanColumns, fragment_sizes, take_rows
from lance_spark.scan.partition_rules import batch_rows_of
from lance_spark.storage import files, objects
from lance_spark.storage.commits import (
    attempts,
    authored,
    check_nothing_missing,
    check_still_there,
    check_unprotected,
    check_written,
    commit_once,
    create_dataset,
    data_paths,
    overtaken,
    overwrite_without_rows,
    own_properties,
    seen_whole,
)
from lance_spark.storage.credentials import for_commit, for_pylance
from lance_spark.storage.datasets import base_of_commit, open_latest, open_pinned, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.followers import check_writable
from lance_spark.write.constraint_rules import Check, declared
from lance_spark.write.constraints import check_batch, check_none_new, check_none_since, checks_at, with_columns
from lance_spark.write.isolation import Since, checks_rows
from lance_spark.write.plan_rules import WriteJob, WritePlan, WriteTarget, check_names, check_replaces

if TYPE_CHECKING:
    import lance
    from lance.fragment import FragmentMetadata
    from lance.schema import LanceField

_BLOB_TYPE_SINCE = (2, 2)
"""First file format whose blobs are an extension type; in older formats they are marked bytes."""
_INGESTED = 16
"""Rows whose objects are read at once, if their bytes are stored in place of their URIs."""


def read_target(location: DatasetLocation, pin: PinnedVersion) -> WriteTarget:
    """The properties that an existing version fixes for new files."""
    dataset = open_pinned(location, pin)
    with translated(location, "reading the schema"):
        return WriteTarget(dataset.schema, str(dataset.data_storage_version), bool(dataset.has_stable_row_ids))


def storage_schema(schema: pa.Schema, data_storage_version: str | None) -> pa.Schema:
    """The schema with marked blob columns in the file format's storage form. Raises SchemaMismatch for other types."""
    import lance

    check_new_types(schema, data_storage_version)
    _check_marked(schema, data_storage_version)
    if format_numbers(data_storage_version) < _BLOB_TYPE_SINCE:
        return schema
    fields = [stored_as(field, lambda blob: lance.blob_field(blob.name, nullable=blob.nullable)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _check_marked(schema: pa.Schema, data_storage_version: str | None) -> None:
    """Raise SchemaMismatch for a column that is marked as one of blobs and has neither their bytes nor their URIs."""
    for field in schema:
        if (field.metadata or {}).get(BLOB_KEY.encode()) != b"true" or holds_bytes(field.type):
            continue
        if not refers(field.type):
            raise SchemaMismatch(
                f"Column '{field.name}' is marked as blobs, and is {field.type}.",
                hint="Blobs are bytes, URIs of objects elsewhere, or structs of uri, position and size.",
            )
        if format_numbers(data_storage_version) < _BLOB_TYPE_SINCE:
            raise SchemaMismatch(
                f"Column '{field.name}' has URIs of objects elsewhere, which files of format {data_storage_version} "
                "do not store.",
                hint="Use data_storage_version 2.2 or later.",
            )


HELD_BYTES = 128 * 2**20
"""Bytes of rows that a task holds to divide them, if they do not come in the order of the table's layout."""


Order = Literal["free", "kept", "by key"]
"""Whether a task may write its rows in any order, has to keep theirs, or has sorted them by the layout's key itself."""


def write_rows(job: WriteJob, batches: Iterable[pa.RecordBatch], order: Order = "free") -> list[str]:
    """Write one task's rows as uncommitted data files; returns the fragments' metadata as JSON.

    Where the table has a layout, each file holds rows of one partition, and facts about its files come with the
    metadata, see :func:`lance_spark.layout.facts.recorded`. Rows that have to keep their order are not divided, unless
    they come by key. pylance deletes its files if the stream fails halfway. No rows, no file.
    """
    plan = job.plan
    start = None if job.start is None else open_pinned(plan.location, job.start)
    version = plan.options.files.data_storage_version if start is None else str(start.data_storage_version)
    checks: tuple[Check, ...] = ()
    if start is not None and job.start is not None and order != "by key":  # optimizing: rows that are there already
        schema = plan.schema if plan.mode == "overwrite" else with_columns(plan.schema, start.schema)
        checks = checks_at(plan.location, job.start, schema)
    rows = _ConformedBatches(batches, plan, version, checks)
    layout = plan.layout
    if layout is None:
        layout = NO_LAYOUT if job.start is None else read_layout(plan.location, job.start)
    if not fits(layout, plan.schema):
        return [json.dumps(entry) for entry in _write_run(job, start, rows, rows)]
    ids = _written_ids(job, start)
    written: list[dict[str, Any]] = []
    try:
        for run in _divided(layout, rows, order):
            collector = Collector(watched(layout), NO_LAYOUT if order == "kept" else layout)
            made = _write_run(job, start, rows, collector.watch(run))
            collector.give(made, ids)
            written += made
    except BaseException:
        discard(plan, [json.dumps(entry) for entry in written])
        raise
    return [json.dumps(entry) for entry in written]


def _divided(layout: TableLayout, rows: Iterable[pa.RecordBatch], order: Order) -> Iterable[Iterable[pa.RecordBatch]]:
    if order == "kept":
        return (rows,)
    return cut(layout, rows) if order == "by key" else runs(layout, rows, HELD_BYTES)


def _written_ids(job: WriteJob, start: lance.LanceDataset | None) -> dict[str, int]:
    """The ids that new files have for the columns: those of the dataset, or those of a schema by itself."""
    from lance.schema import LanceSchema

    plan = job.plan
    own = start is not None and plan.evolution is None and plan.mode == "append"
    schema = start.lance_schema if own and start is not None else LanceSchema.from_pyarrow(plan.schema)
    return {field.name(): field.id() for field in schema.fields()}


def _write_run(
    job: WriteJob, start: lance.LanceDataset | None, rows: _ConformedBatches, batches: Iterable[pa.RecordBatch]
) -> list[dict[str, Any]]:
    """Write some of the rows; returns the fragments as pylance's JSON. No rows, no file."""
    plan, left = job.plan, iter(batches)
    first = next(left, None)
    if first is None:
        return []
    most = plan.options.files.max_rows_per_file or ROWS_PER_FILE
    reader = pa.RecordBatchReader.from_batches(plan.schema, safe_batches(chain((first,), left), most))
    try:
        with translated(plan.location, "writing data files"):
            fragments = _write_fragments(job, reader, start)
    except AlreadyExists as error:
        raise _created_elsewhere(plan) from error
    except LanceSparkError as error:
        # pylance wraps the stream's exception into its own text; the original is clearer.
        raise rows.failure or error from None
    return [fragment.to_json() for fragment in fragments]


def _created_elsewhere(plan: WritePlan) -> Conflict:
    return Conflict(f"Another job created the dataset at {plan.location.uri} first.", hint="Run it again.")


def _write_fragments(
    job: WriteJob, reader: pa.RecordBatchReader, start: lance.LanceDataset | None
) -> Sequence[FragmentMetadata]:
    from lance.fragment import write_fragments

    plan, options = job.plan, job.plan.options.files
    most = options.max_bytes_per_file
    arguments: dict[str, Any] = {} if most is None else {"max_bytes_per_file": most}
    mode, version = str(plan.mode), options.data_storage_version
    if plan.evolution is not None and start is not None:
        # As if for a new table, because this one lacks the columns: the commit assigns the table's fields to them.
        mode, version = "overwrite", str(start.data_storage_version)
    written: Sequence[FragmentMetadata] = write_fragments(
        reader,
        # The starting version, so that all tasks use its field ids even if a commit comes in between.
        plan.location.uri if start is None else start,
        schema=plan.schema,
        mode=mode,
        data_storage_version=version,
        **for_pylance(plan.location),
        # Without this, a URI that is below none of the table's base paths would be refused. They are checked before.
        allow_external_blob_outside_bases=any(map(is_blob_extension, plan.schema)),
        max_rows_per_file=options.max_rows_per_file or ROWS_PER_FILE,
        **arguments,
    )
    return written


class _ConformedBatches(Iterator[pa.RecordBatch]):
    """Non-empty batches converted to the stored schema, whose rows break no constraint; remembers a failure."""

    def __init__(
        self, batches: Iterable[pa.RecordBatch], plan: WritePlan, version: str | None, checks: Sequence[Check] = ()
    ) -> None:
        self._plan, self._version, self._checks = plan, version, checks
        self._blobs = [field.name for field in plan.schema if is_blob_extension(field)]
        self._batches = self._in_pieces(batches) if self._ingests else iter(batches)
        self.failure: LanceSparkError | None = None

    @property
    def _ingests(self) -> bool:
        return bool(self._blobs) and self._plan.options.external_blob_mode == "ingest"

    def _in_pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Few rows at a time: all of their objects are in memory at once."""
        for batch in batches:
            for start in range(0, batch.num_rows, _INGESTED):
                yield batch.slice(start, _INGESTED)

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        while not batch.num_rows:
            batch = next(self._batches)
        try:
            for name, value in self._plan.fills.items():
                if batch.schema.get_field_index(name) < 0:
                    batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
            plain = pa.schema([self._plain(field, batch.column(field.name).type) for field in self._plan.schema])
            rows = fit(conform(batch, plain), plain)
            check_values(rows, self._version)
            check_batch(self._plan.location, self._checks, rows)
            return self._wrap_blobs(rows)
        except LanceSparkError as failure:
            self.failure = failure
            raise

    def _plain(self, field: pa.Field, given: pa.DataType) -> pa.Field:
        referring = field.name in self._blobs and refers(given)
        return pa.field(field.name, given, field.nullable) if referring else plain_bytes(field)

    def _wrap_blobs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            self._referring(column, field)
            if field.name in self._blobs and refers(column.type)
            else wrapped(column, field)
            for field, column in zip(self._plan.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._plan.schema)

    def _referring(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """References as values of the column: as they are, or with the bytes of their objects."""
        found = referred(column, field.name, self._plan.location.uri)
        if self._ingests:
            read = objects.read_many(self._plan.location, [opened(one) for one in found])
            return wrapped(pa.array(read, pa.large_binary()), field)
        return reference_values(found, field)


# --- Kept values of rewritten rows: unchanged columns and stable row ids; runs on executors

Addresses = npt.NDArray[np.int64]


class PartsJob(NamedTuple):
    """The inputs of a task that writes the rows of an action frame."""

    write: WriteJob
    """With the columns of the frame."""
    target: WriteTarget
    kept: tuple[str, ...] = ()
    """Columns whose values updated rows keep; they are read from the table."""


def kept_columns(schema: pa.Schema, sets: frozenset[str] | None) -> tuple[str, ...]:
    """The columns that a partial update leaves unchanged. Blobs must be passed as bytes."""
    return tuple(
        field.name for field in schema if sets is not None and field.name not in sets and not holds_blobs(field)
    )


def cut_where(
    batches: Iterable[pa.RecordBatch], values: Callable[[pa.RecordBatch], npt.NDArray[Any]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows, cut wherever one of a batch's whole numbers changes; each piece with its number."""
    for batch in batches:
        numbers = values(batch)
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(cuts):
            if end > start:
                yield int(numbers[start]), batch.slice(start, end - start)


class KeptColumns:
    """Adds the unchanged columns to rewritten rows."""

    def __init__(self, task: PartsJob, row_ids: StableRowIds | None) -> None:
        given = task.write.plan.schema.names
        names = [name for name in task.target.schema.names if name in given or name in task.kept]
        schema = pa.schema([task.target.schema.field(name) for name in names], metadata=task.target.schema.metadata)
        self.job = replace(task.write, plan=replace(task.write.plan, schema=schema))
        self._names = task.kept
        self._row_ids = row_ids
        start = task.write.start
        sizes = () if start is None else fragment_sizes(task.write.plan.location, start)
        self._most = batch_rows_of(row_width(schema), sizes)

    def completed(
        self, rows: Iterable[tuple[pa.RecordBatch, Addresses]], addresses: list[Addresses]
    ) -> Iterator[pa.RecordBatch]:
        """The rows with all of their columns; their addresses are appended to the list."""
        for batch, own in rows:
            addresses.append(own)
            if not self._names:
                yield batch
                continue
            for start in range(0, batch.num_rows, self._most):
                part = batch.slice(start, self._most)
                yield self._with_kept(part, own[start : start + self._most])

    def _with_kept(self, batch: pa.RecordBatch, addresses: Addresses) -> pa.RecordBatch:
        """Raises CorruptData for an address without a row."""
        plan, start = self.job.plan, self.job.start
        assert start is not None
        ids = addresses if self._row_ids is None else self._row_ids.at(addresses)
        values, places = np.unique(ids, return_inverse=True)
        scan = Scan(plan.location, start, ScanColumns(self._names))
        taken = pa.Table.from_batches(take_rows(scan, values.tolist()))
        if taken.num_rows != len(values):
            raise not_live(plan.location, start, int(addresses[0]) >> 32)
        (old,) = taken.take(pa.array(places)).combine_chunks().to_batches()
        known = {name: old.column(name) for name in self._names}
        columns = [known[name] if name in known else batch.column(name) for name in plan.schema.names]
        return pa.RecordBatch.from_arrays(columns, plan.schema.names)


class StableRowIds:
    """Stable row ids of the table's rows, by their addresses."""

    def __init__(self, location: DatasetLocation, pin: PinnedVersion) -> None:
        self._location, self._pin = location, pin
        self._known: dict[int, npt.NDArray[np.int64]] = {}

    def give(self, written: list[dict[str, Any]], addresses: Addresses) -> None:
        """Let rewritten rows, in this order, keep their row ids."""
        if len(np.unique(addresses)) < len(addresses):
            return  # a row would change twice: the whole change is refused
        with_row_ids(self._location, written, self.at(addresses))

    def at(self, addresses: Addresses) -> npt.NDArray[np.int64]:
        ids = np.empty(len(addresses), np.int64)
        fragments = addresses >> 32
        for key in np.unique(fragments).tolist():
            mask = fragments == key
            ids[mask] = self._of(key)[addresses[mask] & 0xFFFFFFFF]
        return ids

    def _of(self, fragment: int) -> npt.NDArray[np.int64]:
        if fragment not in self._known:
            found = open_pinned(self._location, self._pin).get_fragment(fragment).metadata.to_json()["row_id_meta"]
            inline = next((value for key, value in (found or {}).items() if key.lower() == "inline"), None)
            if inline is None:
                raise NotCommittable(
                    "The row ids of the table are in separate files, which this release cannot read.",
                    hint="Compact the table first.",
                )
            self._known[fragment] = np.array(read_row_ids(bytes(inline)), np.int64)
        return self._known[fragment]


def with_row_ids(location: DatasetLocation, written: list[dict[str, Any]], ids: Addresses) -> None:
    """Give the rows of new fragments, as pylance's JSON, these stable row ids, in order."""
    from lance.fragment import FragmentMetadata, RowIdSequence

    start = 0
    for entry in written:
        end = start + entry["physical_rows"]
        with translated(location, "writing row ids"):
            metadata = FragmentMetadata.from_json(json.dumps(entry))
            metadata.row_id_meta = RowIdSequence(ids[start:end].tolist()).to_inline_metadata()
            entry.update(metadata.to_json())
        start = end


def not_live(location: DatasetLocation, pin: PinnedVersion, fragment: int) -> LanceSparkError:
    """The error for addresses without a live row."""
    return CorruptData(
        f"Fragment {fragment} of version {pin} of {location.uri} lacks rows to be changed; nothing was changed.",
        hint="Addresses of rows belong to one version: read them from the version that you change.",
    )


# --- Committing written files as one version, through pylance, or deleting them; runs on the driver


def commit(job: WriteJob, fragments: Sequence[str]) -> int:
    """Commit all fragments as one version and return its number.

    An append goes on top of what others committed since the job started, if pylance's rules allow it; an overwrite, if
    they did not replace the table or change its columns, or any row if it read the table. If not, this raises Conflict,
    and nothing was committed. After any other error the commit may or may not have happened.
    """
    check(job, fragments)
    plan, start = job.plan, job.start
    if start is None or (plan.mode == "append" and plan.reads is not True and plan.options.isolation_level is None):
        return commit_checked(job, fragments)
    since = Since(plan.location, plan.since or start)
    if plan.mode == "append":
        head = pin_latest(plan.location, start.branch)
        if checks_rows(job, head):
            since.check_rows(head)
        return commit_checked(job, fragments)
    properties = {**own_properties(plan.options.commit_message), **(job.properties or {})}
    for left in attempts():
        head = pin_latest(plan.location, start.branch)
        since.check_overwrite(head)
        check_none_since(plan.location, start, head)
        if checks_rows(job, head):
            since.check_rows(head)
        # With properties, pylance commits as the version after ``head`` or not at all: nobody slips in between.
        again = partial(_committed_after, replace(job, start=head, properties=properties), fragments)
        made = commit_once(plan.location, head, properties, left, again)
        if made is not None:
            return made.version
    raise overtaken(start.branch)


def _committed_after(job: WriteJob, fragments: Sequence[str]) -> PinnedVersion:
    return PinnedVersion(job.plan.options.branch, commit_checked(job, fragments))


def check(job: WriteJob, fragments: Sequence[str]) -> None:
    """Raise Conflict if commits since the job started, or a cleanup, rule out committing its files."""
    plan = job.plan
    if job.start is None:
        return
    for version in {job.start, plan.since or job.start}:
        check_still_there(plan.location, version)
    check_written(plan.location, job.start.branch, data_paths(fragments))
    if plan.mode == "append":
        _check_same_columns(plan, job.start)
    else:
        check_nothing_missing(plan.location, plan.since or job.start)
    check_unprotected(plan.location, job.start.branch)


def commit_checked(job: WriteJob, fragments: Sequence[str]) -> int:
    """Like commit, for a caller that has checked the job."""
    import lance
    from lance.dataset import Transaction
    from lance.fragment import FragmentMetadata

    plan = job.plan
    metadata = [FragmentMetadata.from_json(fragment) for fragment in recorded(plan.location, fragments)]
    operation = (
        lance.LanceOperation.Append(metadata)
        if plan.mode == "append"
        else lance.LanceOperation.Overwrite(plan.schema, metadata)
    )
    message = {MESSAGE: plan.options.commit_message} if plan.options.commit_message else {}
    said = authored({**(job.properties or {}), **message})
    read = 0 if job.start is None else job.start.version
    arguments: dict[str, Any] = {} if job.start is not None and not job.properties else {"max_retries": 0}
    seen = nullcontext() if job.start is None else seen_whole(plan.location, job.start)
    try:
        with seen, translated(plan.location, "committing"):
            if plan.mode == "create" and not metadata and plan.options.files.data_storage_version is not None:
                return create_dataset(  # a commit can take a chosen file format only from fragments
                    plan.location,
                    plan.schema,
                    data_storage_version=plan.options.files.data_storage_version,
                    enable_stable_row_ids=bool(plan.options.enable_stable_row_ids),
                    transaction_properties=said,
                )
            branch = plan.options.branch
            dataset = lance.LanceDataset.commit(
                plan.location.branch_uri(branch) if job.start is None else base_of_commit(plan.location, branch),
                Transaction(read, operation, transaction_properties=said),
                **for_commit(plan.location),
                enable_stable_row_ids=plan.options.enable_stable_row_ids,
                **arguments,
            )
    except (AlreadyExists, NotFound) as error:
        if plan.mode != "create":
            raise
        # The loser of a race to create a dataset gets "already exists", or that version 0 was not found.
        raise _created_elsewhere(plan) from error
    return int(dataset.version)


def _check_same_columns(plan: WritePlan, start: PinnedVersion) -> None:
    """Raise Conflict if a written column was altered or dropped since the job started, or a constraint added.

    pylance combines an append with a concurrent change of a column's type, but then the appended values read as null:
    the files name the field by its old id.
    """
    before, newest = open_pinned(plan.location, start).lance_schema, open_latest(plan.location, start.branch)
    check_none_new(plan.location, start, declared(newest.config()))
    now = {field.name(): field for field in newest.lance_schema.fields()}
    for field in before.fields():
        name = field.name()
        if plan.schema.get_field_index(name) >= 0 and (name not in now or _ids(now[name]) != _ids(field)):
            raise Conflict(
                f"Column '{name}' of {plan.location.uri} was altered or dropped since the job started.",
                hint="Run it again.",
            )


def _ids(field: LanceField) -> tuple[Any, ...]:
    """A field's id and name, with those of its nested fields."""
    return (field.id(), field.name(), tuple(_ids(child) for child in field.children()))


def discard(plan: WritePlan, fragments: Iterable[str]) -> None:
    """Delete the files of uncommitted fragments, with their blob sidecars."""
    root = DatasetLocation(plan.location.branch_uri(plan.options.branch), plan.location.options)
    for path in data_paths(fragments):
        files.delete(root, (path, path.removesuffix(".lance")))


# --- Datasets and versions with columns but no rows


def write_without_rows(
    location: DatasetLocation, branch: str | None, schema: pa.Schema, options: WriteOptions, new: bool
) -> None:
    """Create a dataset; or give a branch (None for main) other columns and no rows, as one version.

    Raises SchemaMismatch; AlreadyExists if a ``new`` dataset exists; and otherwise NotFound, Conflict, and Refused for
    another file format or other row ids.
    """
    check_names(schema, new=True)
    if new:
        version = options.files.data_storage_version
        settings = {"data_storage_version": version, "enable_stable_row_ids": bool(options.enable_stable_row_ids)}
        layout = option_layout(options, schema)
        create_dataset(location, storage_schema(schema, version), **settings)
        if layout:
            declare(location, branch, layout)
        return
    check_writable(location, branch)
    start = pin_latest(location, branch)
    target = read_target(location, start)
    check_replaces(target, options)
    stored = storage_schema(schema, target.data_storage_version)
    layout, now = option_layout(options, stored), look(location, start)[0]
    checks_at(location, start, stored)  # refuses columns that lack one that a constraint names
    overwrite_without_rows(location, start, stored, options.commit_message)
    if layout is not None and layout.settings() != now.settings():
        declare(location, branch, layout)


def option_layout(options: WriteOptions, schema: pa.Schema) -> TableLayout | None:
    """The layout that options declare; None if they declare none. Raises InvalidOption."""
    layout = declared_by(options.partition_by, options.cluster_by)
    if layout:
        check_layout(layout, schema)
    return layout
