"""Columns of fragments through pylance: casts them, fills them with values, and commits the files.

Plans and batches of values come in; files, records of finished files, and versions come out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.columns.fill_rules import FILLED, FilledFile, FillOrder, RecordPlace, temporary_schema, without_values
from lance_spark.core.layout import BACKFILL
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, LanceSparkError, SchemaMismatch
from lance_spark.format import evolution
from lance_spark.format.blob_references import BlobReference, is_reference, reference_values, referred
from lance_spark.format.column_defaults import DEFAULT_KEY, constant_of
from lance_spark.format.contents import Contents
from lance_spark.format.evolution import AddColumn, AlterColumn, ColumnChange, DropColumn, Evolution, RenameColumn
from lance_spark.format.kept_types import KEPT, fit_column
from lance_spark.format.schema import ROW_ADDRESS, conform_column, row_width
from lance_spark.format.storable import is_fragile, safe
from lance_spark.format.transactions import MESSAGE
from lance_spark.scan.fragment_reads import Scan, ScanColumns, read_batches, take_rows
from lance_spark.scan.partition_rules import ScanPartition, batch_rows
from lance_spark.storage import files, small_files
from lance_spark.storage.commits import check_written, commit_on, fragments_from
from lance_spark.storage.copying import composed, without_dead_files
from lance_spark.storage.credentials import for_pylance, options_now
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.write.data_files import StableRowIds, cut_where

if TYPE_CHECKING:
    import lance
    from lance.fragment import LanceFragment
    from lance.schema import LanceField, LanceSchema


class RowQueue:
    """A queue over batches of any size: takes any number of rows, and fetches batches only when needed."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._left: pa.Table | None = None

    def take(self, count: int) -> pa.Table:
        """The next rows; fewer at the end."""
        while self._left is None or self._left.num_rows < count:
            batch = next(self._batches, None)
            if batch is None:
                break
            more = pa.Table.from_batches([batch])
            self._left = more if self._left is None else pa.concat_tables([self._left, more])
        if self._left is None:
            return pa.table({})
        taken, self._left = self._left.slice(0, count), self._left.slice(count)
        return taken


# --- Changing the columns of a version: schemas and casts, then one commit

CAST_FILES = pa.schema([("fragment", pa.int64()), ("file", pa.string()), ("ids", pa.string())])
"""A fragment; the file with its columns in their new types, as pylance's JSON; the ids that each column has in it."""
_TEMPORARY = "__cast_{}"


class CastItem(NamedTuple):
    """A fragment whose columns are rewritten; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    fragment: int
    casts: tuple[evolution.Widened, ...]


class CastFile(NamedTuple):
    file: str
    ids: str
    columns: tuple[evolution.Widened, ...]


def cast_fragment(item: CastItem) -> Iterator[pa.RecordBatch]:
    """CAST_FILES of one fragment. Raises CorruptData unless the new file has all rows, including deleted ones."""
    dataset = open_pinned(item.location, item.pin)
    names = [_TEMPORARY.format(count) for count in range(len(item.casts))]

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        return safe(pa.record_batch([_cast(batch.column(found.source), found) for found in item.casts], names))

    with translated(item.location, "writing columns in another type"):
        fragment = dataset.get_fragment(item.fragment)
        sources = [*dict.fromkeys(found.source for found in item.casts)]
        before = {file.path for file in fragment.metadata.files}
        written, schema = fragment.merge_columns(cast, columns=sources)
        if written.physical_rows != fragment.physical_rows:
            raise CorruptData(f"The new columns of fragment {item.fragment} have different rows.", hint="Run it again.")
    (file,) = [file for file in written.to_json()["files"] if file["path"] not in before]
    found = {"fragment": item.fragment, "file": json.dumps(file), "ids": json.dumps(_ids_of(schema, names))}
    yield pa.RecordBatch.from_pylist([found], CAST_FILES)


def _cast(column: pa.Array, wanted: evolution.Widened) -> pa.Array:
    if wanted.fill is not None:
        return pa.repeat(constant_of(wanted.fill, pa.field(wanted.target, wanted.type)), len(column))
    return evolution.remnant_of(column, wanted.type) if pt.is_struct(wanted.type) else column.cast(wanted.type)


def planned_schema(location: DatasetLocation, pin: PinnedVersion, contents: Contents, plan: Evolution) -> LanceSchema:
    """The columns of a version after planned changes, with their ids."""
    dataset = open_pinned(location, pin)
    with translated(location, "altering columns"):
        return composed(dataset.lance_schema, contents, lambda scratch: apply_steps(scratch, plan.steps))


def commit_columns(
    location: DatasetLocation,
    pin: PinnedVersion,
    schema: LanceSchema,
    plan: Evolution,
    cast_files: Mapping[int, CastFile],
    message: str | None = None,
) -> PinnedVersion:
    """Commit planned changes of a version; ``cast_files`` has the files of :func:`cast_fragment` by fragment.

    A new column that is null everywhere does not conflict with concurrent appends. Every other change does: rows
    written under the old columns would be misread. Raises Conflict; then nothing was committed.
    """
    import lance

    dataset = open_pinned(location, pin)
    with translated(location, "altering columns"):
        operation: Any = lance.LanceOperation.Project(schema)
        if plan.writes_fragments or cast_files:
            fragments = changed_fragments(dataset, schema, plan, cast_files)
            operation = lance.LanceOperation.Merge(fragments, schema, preserves_nullability=plan.only_adds)
    return commit_on(location, pin, operation, {**without_values(plan), **({MESSAGE: message} if message else {})})


def discard_files(location: DatasetLocation, branch: str | None, unused: Iterable[str]) -> None:
    """Delete data files, given as pylance's JSON, that were never committed."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    files.delete(root, _paths_of(unused))


def check_written_files(location: DatasetLocation, branch: str | None, written: Iterable[str]) -> None:
    """Raise Conflict if data files, given as pylance's JSON, were deleted before the commit that names them."""
    check_written(location, branch, _paths_of(written))


def _paths_of(data_files: Iterable[str]) -> list[str]:
    return [f"data/{json.loads(file)['path']}" for file in data_files]


def changed_fragments(
    dataset: lance.LanceDataset, schema: LanceSchema, plan: Evolution, cast_files: Mapping[int, CastFile]
) -> list[Any]:
    """All fragments of a version: with their new files, and without files that hold only dropped columns."""
    if plan.only_adds:
        return [fragment.metadata for fragment in dataset.get_fragments()]
    live = _live_ids(schema)
    columns = {column.name(): column for column in schema.fields()}
    found = []
    for fragment in dataset.get_fragments():
        known = fragment.metadata.to_json()
        if plan.casts or fragment.fragment_id in cast_files:
            written = cast_files[fragment.fragment_id]
            ids = [_pruned_ids(columns[found.target], found.type) for found in written.columns]
            known = {**known, "files": [*known["files"], _numbered(written, ids)]}
        found.append(without_dead_files(known, live))
    return fragments_from(found)


def _pruned_ids(field: LanceField, kind: pa.DataType) -> list[int]:
    """The id of a field, and of all fields inside it that the type has."""
    if not pt.is_struct(kind):
        return preorder(field)
    types = {child.name: child.type for child in kind}
    inner = [child for child in field.children() if child.name() in types]
    return [field.id(), *(key for child in inner for key in _pruned_ids(child, types[child.name()]))]


def _live_ids(schema: LanceSchema) -> frozenset[int]:
    return frozenset(key for column in schema.fields() for key in preorder(column))


def apply_steps(scratch: lance.LanceDataset, steps: Sequence[ColumnChange]) -> None:
    """Apply the changes of a plan to a dataset without rows."""
    for step in steps:
        path = ".".join(step.path)
        if isinstance(step, AddColumn):
            scratch.add_columns(pa.schema([evolution.nested(step.path, evolution.new_field(step))]))
        elif isinstance(step, DropColumn):
            scratch.drop_columns([path])
        elif isinstance(step, RenameColumn):
            scratch.alter_columns({"path": path, "name": step.name})
        else:
            _alter(scratch, path, step)


def _alter(scratch: lance.LanceDataset, path: str, step: AlterColumn) -> None:
    wanted = {"data_type": step.type, "nullable": step.nullable}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    if wanted:
        scratch.alter_columns({"path": path, **wanted})
    if step.comment is not None:
        scratch.update_field_metadata({path: {evolution.COMMENT: step.comment or None}})
    if step.kept is not None:
        scratch.update_field_metadata({path: {key: step.kept.get(key) for key in KEPT}})
    if step.default is not None:
        scratch.update_field_metadata({path: {DEFAULT_KEY: step.default.strip() or None}})


# --- Committing files with values of whole columns, new or existing

Json = dict[str, Any]
_REPLACED = -2
"""Replaces a column in a file if another file of the fragment has that column now."""


def commit_added(
    location: DatasetLocation,
    pin: PinnedVersion,
    contents: Contents,
    plan: Evolution,
    filled: Mapping[int, FilledFile],
    properties: Mapping[str, str],
) -> PinnedVersion:
    """Commit new columns together with their values; fragments without a file have nulls.

    All in one version: half-filled columns are never visible. Any commit since ``pin`` raises Conflict, since the
    operation names all fragments; concurrent appends are not disturbed. After a Conflict nothing was committed.
    """
    import lance

    dataset = open_pinned(location, pin)
    names = [step.path[0] for step in plan.steps]
    with translated(location, "adding columns"):
        schema = composed(dataset.lance_schema, contents, lambda scratch: apply_steps(scratch, plan.steps))
        ids = _ids_of(schema, names)
        fragments = []
        for fragment in dataset.get_fragments():
            known: Json = fragment.metadata.to_json()
            file = filled.get(fragment.fragment_id)
            if file is not None:
                known = {**known, "files": [*known["files"], _numbered(file, ids)]}
            fragments.append(known)
        operation = lance.LanceOperation.Merge(fragments_from(fragments), schema, preserves_nullability=True)
    return commit_on(location, pin, operation, properties)


def commit_replaced(
    location: DatasetLocation,
    pin: PinnedVersion,
    names: Sequence[str],
    filled: Mapping[int, FilledFile],
    properties: Mapping[str, str],
) -> PinnedVersion:
    """Commit other values for columns in the fragments that have a file.

    Indexes on the columns no longer cover these fragments: until the indexes are updated, queries scan the files.
    Raises Conflict for changes of these fragments since ``pin``; then nothing was committed.
    """
    import lance
    from pyroaring import BitMap

    dataset = open_pinned(location, pin)
    schema = dataset.lance_schema
    ids = _ids_of(schema, names)
    gone = {key for column in ids for key in column}
    live = _live_ids(schema)
    with translated(location, "updating columns"):
        updated, offsets = [], {}
        for number, file in filled.items():
            known: Json = dataset.get_fragment(number).metadata.to_json()
            kept = [
                {**each, "fields": [_REPLACED if key in gone else key for key in each["fields"]]}
                for each in known["files"]
            ]
            known = {**known, "files": [*kept, _numbered(file, ids)]}
            updated.append(without_dead_files(known, live))
            offsets[number] = BitMap(range(file.rows)).serialize()
        operation = lance.LanceOperation.Update(
            updated_fragments=fragments_from(updated),
            fields_modified=sorted(gone),
            update_mode="rewrite_columns",
            updated_fragment_offsets=offsets if dataset.has_stable_row_ids else None,
        )
    return commit_on(location, pin, operation, properties)


def _ids_of(schema: LanceSchema, names: Sequence[str]) -> list[list[int]]:
    columns = {column.name(): preorder(column) for column in schema.fields()}
    return [columns[name] for name in names]


def _numbered(filled: FilledFile | CastFile, ids: Sequence[Sequence[int]]) -> Json:
    """The file, with its columns named by their ids in the table."""
    known = {
        own: key
        for column, final in zip(json.loads(filled.ids), ids, strict=True)
        for own, key in zip(column, final[: len(column)], strict=True)  # of a blob's parts, no file names the ids
    }
    file: Json = json.loads(filled.file)
    return {**file, "fields": [known[key] for key in file["fields"]]}


# --- Writing the values of new columns into files of their own, by fragment; runs on executors

_DOING = "writing the values of new columns"


class FillJob(NamedTuple):
    location: DatasetLocation
    pin: PinnedVersion
    schema: pa.Schema
    """The columns, as they are stored."""
    order: FillOrder


def fill_fragment(job: FillJob, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """FILLED of one fragment, whose live rows get the values of ``batches``, in order.

    The columns are matched by place. Raises SchemaMismatch if the number of values is not the fragment's number of
    rows, or for values that do not fit; CorruptData if the file lacks rows.
    """
    with translated(job.location, _DOING):
        fragment = open_pinned(job.location, job.pin).get_fragment(number)
        if fragment is None:
            raise CorruptData(f"pylance does not find fragment {number} of {job.pin}.")
        if job.order.keep and {*job.schema.names} <= {*fragment.schema.names}:
            batches = keeping(job.location, job.pin, number, batches, job.schema)
        rows = _Values(batches, job.schema, number, fragment.count_rows())
    made = _write_references if any(map(is_reference, job.schema)) else _write
    written = made(job, fragment, rows)
    check_whole(job.location, job.pin.branch, written)
    if job.order.records is not None:
        write_record(job.location, job.pin.branch, job.order.records, written)
    yield pa.RecordBatch.from_pylist([written._asdict()], FILLED)


def fill_fragments(job: FillJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """FILLED of all fragments with rows in ``batches``: ordered row addresses in the first column, then values."""
    for number, rows in by_fragment(batches):
        yield from fill_fragment(job, number, map(_without_addresses, rows))


def by_fragment(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """The rows of each fragment, to be read before those of the next one.

    Raises SchemaMismatch if they do not follow the order of their addresses.
    """
    pieces = cut_where(batches, lambda batch: batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False) >> 32)
    for number, parts in groupby(pieces, key=lambda part: part[0]):
        yield number, _in_order(number, (part for _, part in parts))


def _write_references(job: FillJob, fragment: LanceFragment, rows: _Values) -> FilledFile:
    """The file of a column of blobs that refer to objects elsewhere, with nulls for deleted rows.

    As if for a new table: pylance's way to add columns refuses objects that are below none of the base paths.
    """
    import lance
    from lance.fragment import write_fragments

    (given,) = job.schema
    physical = fragment.physical_rows
    gaps = np.empty(0, np.int64)
    if fragment.count_rows() < physical:
        addresses = fragment.scanner(columns=[], with_row_address=True).to_table()[ROW_ADDRESS].to_numpy()
        gaps = np.setdiff1d(np.arange(physical), (addresses & 0xFFFFFFFF).astype(np.int64), assume_unique=True)
    schema = pa.schema([lance.blob_field(given.name)])
    dataset = open_pinned(job.location, job.pin)
    try:
        with translated(job.location, _DOING):
            written = write_fragments(
                pa.RecordBatchReader.from_batches(schema, _referring(rows, gaps, schema, given.name, job.location.uri)),
                dataset,
                schema=schema,
                mode="overwrite",
                data_storage_version=str(dataset.data_storage_version),
                max_rows_per_file=physical,
                allow_external_blob_outside_bases=True,
                **for_pylance(job.location),
            )
    except LanceSparkError as problem:
        raise rows.failure or problem from None
    rows.check_end()
    if len(written) != 1 or written[0].physical_rows != physical:
        raise CorruptData(
            f"The new column of fragment {fragment.fragment_id} has different rows.", hint="Run it again."
        )
    (file,) = written[0].to_json()["files"]
    size = int(file["file_size_bytes"] or 0)
    return FilledFile(fragment.fragment_id, json.dumps(file), json.dumps([file["fields"]]), physical, size)


def _referring(
    rows: _Values, gaps: npt.NDArray[np.int64], schema: pa.Schema, name: str, table: str
) -> Iterator[pa.RecordBatch]:
    """References of live rows as blobs, with nulls at the places of deleted ones."""
    place, next_gap = 0, 0
    for batch in rows:
        found: list[BlobReference | None] = []
        try:
            references = referred(batch.column(0), name, table)
        except LanceSparkError as failure:
            rows.failure = failure
            raise
        for reference in references:
            while next_gap < len(gaps) and gaps[next_gap] == place:
                found.append(None)
                place, next_gap = place + 1, next_gap + 1
            found.append(reference)
            place += 1
        yield pa.RecordBatch.from_arrays([reference_values(found, schema.field(0))], schema=schema)
    rest = len(gaps) - next_gap
    if rest:
        yield pa.RecordBatch.from_arrays([reference_values([None] * rest, schema.field(0))], schema=schema)


def _write(job: FillJob, fragment: LanceFragment, rows: _Values) -> FilledFile:
    """The file; pylance puts in blanks for deleted rows."""
    location = job.location
    before = {file.path for file in fragment.metadata.files}
    try:
        with translated(location, _DOING):
            size = batch_rows(row_width(rows.schema))
            batches = _in_blocks(rows, _block_rows(fragment, rows.schema, size))
            reader = pa.RecordBatchReader.from_batches(rows.schema, batches)
            made, schema = fragment.merge_columns(reader, batch_size=size)
    except LanceSparkError as problem:
        # pylance wraps the stream's error into its own text; the original is clearer.
        raise rows.failure or problem from None
    rows.check_end()
    (file,) = [entry for entry in made.to_json()["files"] if entry["path"] not in before]
    columns = {entry.name(): preorder(entry) for entry in schema.fields()}
    ids = [columns[name] for name in rows.schema.names]
    size = int(file["file_size_bytes"] or 0)
    return FilledFile(fragment.fragment_id, json.dumps(file), json.dumps(ids), fragment.physical_rows, size)


def _in_blocks(rows: _Values, counts: Iterable[int] | None) -> Iterator[pa.RecordBatch]:
    """The values in batches of these numbers of rows, in memory that pylance encodes rightly."""
    if counts is None:
        yield from map(safe, rows)
        return
    queue = RowQueue(rows)
    for most in (*counts, 1):  # the last one lets the values find out that there are too many
        if most:
            yield from map(safe, queue.take(most).combine_chunks().to_batches())


def _block_rows(fragment: LanceFragment, schema: pa.Schema, size: int) -> list[int] | None:
    """The numbers of live rows in each ``size`` rows of a fragment; None if it does not matter for these columns.

    pylance goes through the fragment in such steps, and cuts larger batches of values, which its encoder does not
    survive for every type.
    """
    if not any(is_fragile(field.type) for field in schema):
        return None
    physical = fragment.physical_rows
    if fragment.count_rows() == physical:
        return [min(size, physical - start) for start in range(0, physical, size)]
    addresses = fragment.scanner(columns=[], with_row_address=True).to_table()["_rowaddr"].to_numpy()
    counts: list[int] = np.bincount((addresses & 0xFFFFFFFF).astype(np.int64) // size).tolist()
    return counts


def check_whole(location: DatasetLocation, branch: str | None, written: FilledFile) -> None:
    """Raise CorruptData unless a file holds all physical rows: pylance commits a shorter one, but cannot read it."""
    from lance.file import LanceFileReader

    path = f"{location.branch_uri(branch)}/data/{json.loads(written.file)['path']}"
    with translated(location, "reading the file of new columns"):
        rows = LanceFileReader(path, storage_options=options_now(location)).num_rows()
    if rows != written.rows:
        raise CorruptData(
            f"The file with new columns of fragment {written.fragment} has {rows} of {written.rows} rows.",
            hint="Run it again.",
        )


def preorder(field: LanceField) -> list[int]:
    """The id of a field, and of all fields inside it."""
    return [field.id(), *(key for child in field.children() for key in preorder(child))]


class _Values(Iterator[pa.RecordBatch]):
    """Values converted to the stored types, and counted; keeps the error for its caller."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, fragment: int, rows: int) -> None:
        self.schema = temporary_schema(schema)
        self._stored = schema
        self._columns = ", ".join(f"'{name}'" for name in schema.names)
        self._batches = iter(batches)
        self._fragment = fragment
        self._rows = rows
        self._seen = 0
        self.failure: Exception | None = None

    def __next__(self) -> pa.RecordBatch:
        try:
            batch = next(self._batches)
            while not batch.num_rows:
                batch = next(self._batches)
            self._seen += batch.num_rows
            if self._seen > self._rows:
                self._wrong_count("more than ")
            both = zip(self._stored, batch.columns, strict=True)
            columns = [fit_column(conform_column(column, field), field) for field, column in both]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        except StopIteration:
            self.check_end()
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            raise

    def check_end(self) -> None:
        if self._seen != self._rows:
            self._wrong_count("")

    def _wrong_count(self, more: str) -> None:
        least = self._rows if more else self._seen
        self.failure = SchemaMismatch(
            f"Fragment {self._fragment} has {self._rows} rows, but got {more}{least} values for {self._columns}.",
            hint="Give each row one value: a row's value must not depend on how rows are grouped. For "
            "values that do, make a DataFrame with a key: add_columns_from(df, on=key).",
        )
        raise self.failure


def _in_order(number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, after a check of their addresses. Raises SchemaMismatch for a row that is repeated or out of order."""
    last = -1
    for batch in batches:
        addresses: Any = batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False)
        if addresses[0] <= last or (np.diff(addresses) <= 0).any():
            raise SchemaMismatch(
                f"The values for fragment {number} are not in the order of its rows.",
                hint="Give each row one value, by an expression over its own columns; otherwise make a DataFrame "
                "with a key: add_columns_from(df, on=key).",
            )
        last = addresses[-1]
        yield batch


def _without_addresses(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index(ROW_ADDRESS)
    return batch.select([name for at, name in enumerate(batch.schema.names) if at != place])


# --- Records of files that a backfill finished, from which the same call resumes after a kill
# They lie in ``_backfill`` below the branch, in a directory for each call. A cleanup treats them as leftovers of jobs:
# it removes old ones, and the files they name, which no version references.

_SUFFIX = ".json"
USED_FOR = 3 * 24 * 3600
"""How many seconds a record is valid: less than the days after which cleanups delete files that no version names."""


def write_record(location: DatasetLocation, branch: str | None, place: RecordPlace, written: FilledFile) -> None:
    content = {**written._asdict(), "written": time.time()}
    small_files.write_file(
        _directory(location, branch, place.call), place.keys[written.fragment] + _SUFFIX, json.dumps(content).encode()
    )


def read_records(location: DatasetLocation, branch: str | None, place: RecordPlace) -> Mapping[int, FilledFile]:
    """The files of fragments that an earlier call finished; an unreadable record counts as unfinished."""
    directory = _directory(location, branch, place.call)
    there = frozenset(files.list_names(directory, ""))
    names = {key: name + _SUFFIX for key, name in place.keys.items() if name + _SUFFIX in there}
    found = {}
    for fragment, content in zip(names, files.read_many(directory, list(names.values())), strict=True):
        record = None if content is None else _read(content)
        if record is not None and record.fragment == fragment:
            found[fragment] = record
    return found


def forget_records(location: DatasetLocation, branch: str | None, call: str) -> None:
    """Remove the records of a call: its files are committed, or will not be used."""
    files.delete(DatasetLocation(location.branch_uri(branch), location.options), [f"{BACKFILL}/{call}"])


def _directory(location: DatasetLocation, branch: str | None, call: str) -> DatasetLocation:
    return DatasetLocation(f"{location.branch_uri(branch)}/{BACKFILL}/{call}", location.options)


def _read(content: bytes) -> FilledFile | None:
    try:
        record = json.loads(content)
        age = time.time() - record.pop("written")
        return FilledFile(**record) if age < USED_FOR else None
    except (ValueError, TypeError, KeyError):
        return None


# --- Partly filled columns: fragments that lack values, and existing values that stay


def with_nulls(
    location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int], names: Sequence[str]
) -> frozenset[int]:
    """The fragments in which a row has a null in one of the columns."""
    dataset = open_pinned(location, pin)
    predicate = " OR ".join(f"`{name}` IS NULL" for name in names)
    with translated(location, "looking for rows without values"):
        return frozenset(number for number in fragments if dataset.get_fragment(number).count_rows(predicate))


def keeping(
    location: DatasetLocation, pin: PinnedVersion, fragment: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Computed values of a fragment, replacing only nulls; ``batches`` have the columns of the schema."""
    stored = RowQueue(read_batches(Scan(location, pin, ScanColumns(tuple(schema.names))), ScanPartition((fragment,))))
    for batch in batches:
        there = stored.take(batch.num_rows)
        if there.num_rows < batch.num_rows:
            yield batch  # more values than rows: reported where they are counted
            continue
        columns = []
        for place, field in enumerate(schema):
            known = there.column(place).combine_chunks().cast(field.type)
            columns.append(pc.if_else(known.is_null(), batch.column(place).cast(field.type), known))
        yield pa.RecordBatch.from_arrays(columns, schema.names)


# --- Running a user's function over the rows of a fragment; on executors

ColumnFunction = Callable[[pa.RecordBatch], Any]
"""From a batch of rows to a batch or table of new columns, or a dict of arrays by name."""

_made: dict[type, ColumnFunction] = {}
"""The objects of classes that were given as functions: one for each worker, with the model that it loaded."""


class FunctionItem(NamedTuple):
    job: FillJob
    fragment: int
    columns: tuple[str, ...]
    batch_size: int


def fill_by_function(function: ColumnFunction | type, item: FunctionItem) -> Iterator[pa.RecordBatch]:
    """FILLED of one fragment. Raises SchemaMismatch for invalid return values."""
    job = item.job
    scan = Scan(job.location, job.pin, ScanColumns(item.columns), batch_size=item.batch_size)
    call = callable_of(function)
    rows = read_batches(scan, ScanPartition((item.fragment,)))
    return fill_fragment(job, item.fragment, (called(call, batch, item) for batch in rows))


def callable_of(function: ColumnFunction | type) -> ColumnFunction:
    """The function to call; for a class, this process's one object of it."""
    if not isinstance(function, type):
        return function
    if function not in _made:
        _made[function] = function()
    return _made[function]


def called(function: ColumnFunction, batch: pa.RecordBatch, item: FunctionItem) -> pa.RecordBatch:
    """The function's result for a batch, in the order of the columns. Raises SchemaMismatch."""
    schema = item.job.schema
    found = returned_columns(function(batch), schema)
    for name, column in zip(schema.names, found, strict=True):
        if len(column) != batch.num_rows:
            raise SchemaMismatch(
                f"The function returned {len(column)} values of '{name}' for {batch.num_rows} rows of fragment "
                f"{item.fragment}.",
                hint="Return one value for each row of the batch, in order; None if a row has no value.",
            )
    return pa.RecordBatch.from_arrays(found, schema.names)


def returned_columns(returned: Any, schema: pa.Schema) -> list[pa.Array]:
    """A function's result, as arrays in the order of the columns. Raises SchemaMismatch."""
    if isinstance(returned, pa.RecordBatch | pa.Table):
        columns: Mapping[str, Any] = {name: returned.column(name) for name in returned.schema.names}
    elif isinstance(returned, Mapping):
        columns = returned
    else:
        raise SchemaMismatch(
            f"The function returned {type(returned).__name__}.",
            hint="Return a pyarrow.RecordBatch or Table, or a dict of arrays by column.",
        )
    if {*columns} != {*schema.names}:
        raise SchemaMismatch(
            f"The function returned the columns {_listed(columns)}, but the schema has {_listed(schema.names)}.",
            hint="Return exactly the columns of the schema.",
        )
    return [_array(columns[field.name], field) for field in schema]


def _array(values: Any, field: pa.Field) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        return values
    try:
        if isinstance(values, np.ndarray) and values.ndim == 2 and pt.is_fixed_size_list(field.type):
            flat = pa.array(np.ascontiguousarray(values).reshape(-1), field.type.value_type)
            if values.shape[1] == field.type.list_size:
                return pa.FixedSizeListArray.from_arrays(flat, field.type.list_size)
            raise SchemaMismatch(
                f"The function returned vectors of {values.shape[1]} elements for '{field.name}', which has "
                f"{field.type.list_size}."
            )
        if isinstance(values, np.ndarray) and values.ndim == 2:
            return pa.array(list(values), field.type)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise SchemaMismatch(
            f"The function returned values for '{field.name}' that are not {field.type}: {problem}."
        ) from None


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


# --- Values of a function for the rows that meet a condition; the others keep theirs
# Runs on executors.

CHOSEN = "__chosen"
"""Column of the rows of a version: whether the condition is true."""


class _Chosen(NamedTuple):
    mask: npt.NDArray[np.bool_]
    """One entry for each live row of a fragment, in order."""
    addresses: npt.NDArray[np.int64]


def fill_chosen(
    function: ColumnFunction | type, make: Callable[[int], FunctionItem], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """FILLED of all fragments with rows in ``batches``, which hold ordered addresses and CHOSEN.

    ``make`` returns the work for a fragment. The function gets only the chosen rows. Raises SchemaMismatch for invalid
    return values.
    """
    call = callable_of(function)
    for number, rows in by_fragment(batches):
        item = make(number)
        yield from fill_fragment(item.job, number, _values(call, item, _chosen(rows)))


def _chosen(rows: Iterable[pa.RecordBatch]) -> _Chosen:
    masks, found = [], []
    for batch in rows:
        mask: Any = batch.column(CHOSEN).to_numpy(zero_copy_only=False)
        masks.append(mask.astype(bool))
        found.append(batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False)[masks[-1]])
    return _Chosen(np.concatenate(masks), np.concatenate(found))


def _values(call: ColumnFunction, item: FunctionItem, chosen: _Chosen) -> Iterator[pa.RecordBatch]:
    """The values of all live rows of a fragment: the stored ones, with new ones in their places."""
    schema = item.job.schema
    scan = Scan(item.job.location, item.job.pin, ScanColumns(tuple(schema.names)))
    new = RowQueue(_new_values(call, item, chosen.addresses))
    first = 0
    for old in read_batches(scan, ScanPartition((item.fragment,))):
        mask = chosen.mask[first : first + old.num_rows]
        first += old.num_rows
        if len(mask) < old.num_rows:
            break
        yield _put(old, mask, new.take(int(mask.sum())), schema) if mask.any() else old
    if first != len(chosen.mask):
        raise CorruptData(f"The condition was not computed for every row of fragment {item.fragment}.")


def _new_values(call: ColumnFunction, item: FunctionItem, addresses: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    job = item.job
    scan = Scan(job.location, job.pin, ScanColumns(item.columns))
    stable = open_pinned(job.location, job.pin).has_stable_row_ids
    ids = StableRowIds(job.location, job.pin).at(addresses) if stable else addresses
    for start in range(0, len(ids), item.batch_size):
        wanted = ids[start : start + item.batch_size].tolist()
        rows = pa.Table.from_batches(take_rows(scan, wanted)).combine_chunks()
        if rows.num_rows != len(wanted):
            raise CorruptData(f"{len(wanted) - rows.num_rows} rows of fragment {item.fragment} cannot be read.")
        (batch,) = rows.to_batches()
        values = called(call, batch, item)
        columns = [conform_column(column, field) for field, column in zip(job.schema, values.columns, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, job.schema.names)


def _put(old: pa.RecordBatch, mask: npt.NDArray[np.bool_], new: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    places = np.arange(len(mask))
    places[mask] = len(mask) + np.arange(new.num_rows)
    columns = []
    for place, field in enumerate(schema):
        both = [old.column(place).cast(field.type), *new.column(place).chunks]
        columns.append(pa.concat_arrays(both).take(pa.array(places)))
    return pa.RecordBatch.from_arrays(columns, schema.names)


# --- New rows together with the new columns that they bring


def commit_evolved(
    location: DatasetLocation,
    pin: PinnedVersion,
    contents: Contents,
    plan: Evolution,
    cast_files: Mapping[int, CastFile],
    rows: EvolvedRows,
) -> PinnedVersion:
    """Commit rows, and the columns of ``plan``, as one version that follows ``pin``.

    ``cast_files`` is the same as for ``commit_columns``. Any commit since ``pin`` raises Conflict; then nothing was
    committed.
    """
    import lance

    dataset = open_pinned(location, pin)
    with translated(location, "adding rows and columns"):
        schema = dataset.lance_schema
        if plan.steps:
            schema = composed(schema, contents, lambda scratch: apply_steps(scratch, plan.steps))
        new = [*rows.numbered(schema, contents.max_fragment_id + 1)]
        known = changed_fragments(dataset, schema, plan, cast_files)
        operation = lance.LanceOperation.Merge(
            [*known, *fragments_from(new)], schema, preserves_nullability=plan.only_adds
        )
    return commit_on(location, pin, operation, {**rows.properties, **without_values(plan)})


class EvolvedRows:
    """Fragments that tasks wrote as if for a new table, with pylance's field numbers from 0."""

    def __init__(self, schema: pa.Schema, fragments: Sequence[str], properties: Mapping[str, str]) -> None:
        """``schema`` is that of the rows; ``fragments`` are pylance's JSON."""
        self.schema, self.fragments, self.properties = schema, fragments, properties

    def numbered(self, schema: LanceSchema, first: int) -> Iterator[Json]:
        """The fragments with ids from ``first`` on, and with the table's field ids."""
        columns = {column.name(): preorder(column) for column in schema.fields()}
        ids = dict(zip(count(), [key for name in self.schema.names for key in columns[name]]))
        for place, text in enumerate(self.fragments):
            fragment: Json = json.loads(text)
            files = [{**file, "fields": [ids[key] for key in file["fields"]]} for file in fragment["files"]]
            yield {**fragment, "id": first + place, "files": files}
