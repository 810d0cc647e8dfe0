"""Changes the columns of a version through pylance: schemas and casts, then one commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lance_spark.errors import CorruptData
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.column_changes import (
    COMMENT,
    AddColumn,
    AlterColumn,
    ColumnChange,
    DropColumn,
    RenameColumn,
    nested,
    new_field,
)
from lance_spark.schema.evolution import Evolution, Widened
from lance_spark.store import files
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.fragment_json import fragments_from
from lance_spark.store.schema_scratch import composed, without_dead_files

if TYPE_CHECKING:
    import lance
    from lance.schema import LanceSchema

CAST_FILES = pa.schema([("fragment", pa.int64()), ("file", pa.string())])
"""A fragment, and the file with its columns in their new types, as pylance's JSON."""
_TEMPORARY = "__cast_{}"


class CastItem(NamedTuple):
    """A fragment of which columns are written anew; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    fragment: int
    casts: tuple[Widened, ...]


def cast_fragment(item: CastItem) -> Iterator[pa.RecordBatch]:
    """CAST_FILES of one fragment. Raises CorruptData unless the new file has all rows, the deleted ones among them."""
    dataset = open_pinned(item.location, item.pin)

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(found.source).cast(found.type) for found in item.casts]
        return pa.record_batch(arrays, [_TEMPORARY.format(count) for count in range(len(arrays))])

    with translated(item.location, "writing columns in another type"):
        fragment = dataset.get_fragment(item.fragment)
        sources = [found.source for found in item.casts]
        before = {file.path for file in fragment.metadata.files}
        written, _ = fragment.merge_columns(cast, columns=sources)
        if written.physical_rows != fragment.physical_rows:
            raise CorruptData(f"Fragment {item.fragment} has other rows in its new columns.", hint="Run it again.")
    (file,) = [file for file in written.to_json()["files"] if file["path"] not in before]
    yield pa.record_batch([pa.array([item.fragment]), pa.array([json.dumps(file)])], CAST_FILES)


def commit_columns(
    location: DatasetLocation,
    pin: PinnedVersion,
    contents: Contents,
    plan: Evolution,
    cast_files: Mapping[int, str],
    message: str | None = None,
) -> PinnedVersion:
    """Commit planned changes of a version; ``cast_files`` has the files of :func:`cast_fragment` by fragment.

    A new column that is null everywhere conflicts with no append that is under way; every other change does: what is
    written under the old columns would be misread. Raises Conflict; then nothing was committed.
    """
    import lance

    dataset = open_pinned(location, pin)
    with translated(location, "altering columns"):
        schema = composed(dataset.lance_schema, contents, lambda scratch: apply_steps(scratch, plan.steps))
        operation: Any = lance.LanceOperation.Project(schema)
        if plan.writes_fragments:
            fragments = changed_fragments(dataset, schema, plan, cast_files)
            operation = lance.LanceOperation.Merge(fragments, schema, preserves_nullability=plan.only_adds)
    return commit_on(location, pin, operation, {MESSAGE: message} if message else None)


def discard_casts(location: DatasetLocation, branch: str | None, cast_files: Iterable[str]) -> None:
    """Delete files that were never committed."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    files.delete(root, [f"data/{json.loads(file)['path']}" for file in cast_files])


def changed_fragments(
    dataset: lance.LanceDataset, schema: LanceSchema, plan: Evolution, cast_files: Mapping[int, str]
) -> list[Any]:
    """All fragments of a version: with their new files, and without those that hold only dropped columns."""
    if plan.only_adds:
        return [fragment.metadata for fragment in dataset.get_fragments()]
    ids = {entry.name(): entry.id() for entry in schema.fields()}
    live = frozenset(_ids(schema))
    new_ids = [ids[cast.target] for cast in plan.casts]
    found = []
    for fragment in dataset.get_fragments():
        known = fragment.metadata.to_json()
        if plan.casts:
            file = {**json.loads(cast_files[fragment.fragment_id]), "fields": new_ids}
            known = {**known, "files": [*known["files"], file]}
        found.append(without_dead_files(known, live))
    return fragments_from(found)


def _ids(schema: LanceSchema) -> Iterator[int]:
    pending = [*schema.fields()]
    while pending:
        entry = pending.pop()
        yield entry.id()
        pending += entry.children()


def apply_steps(scratch: lance.LanceDataset, steps: Sequence[ColumnChange]) -> None:
    """Make the changes of a plan to a dataset without rows."""
    for step in steps:
        path = ".".join(step.path)
        if isinstance(step, AddColumn):
            scratch.add_columns(pa.schema([nested(step.path, new_field(step))]))
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
        scratch.update_field_metadata({path: {COMMENT: step.comment or None}})
