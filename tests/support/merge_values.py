"""Versions of tables as plain values, for the pure tests of merges. Their manifests are real bytes, decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from pyroaring import BitMap

from lance_spark.core.refs import PinnedVersion
from lance_spark.format.contents import Contents, DataFile, DeletionFile, Field, Fragment, decode_contents
from lance_spark.format.manifest import message
from lance_spark.format.operations import Step, Steps
from lance_spark.format.versions import Root, Snapshot
from lance_spark.merge.change_rules import Sides
from support.manifest_bytes import field, manifest_file

ID, VALUE = Field(0, -1, "id", "int64", False, ()), Field(1, -1, "v", "int64", True, ())
FIELDS = (ID, VALUE)
HERE, THERE = Root("s3://b/t"), Root("s3://b/t/tree/exp")


def data_file(path: str, *fields: int, base: int | None = None, size: int = 100) -> DataFile:
    """A data file with some columns, ``id`` and ``v`` if none are given."""
    return DataFile(path, fields or (0, 1), size, base)


def deletion(rows: int, number: int = 1, base: int | None = None) -> DeletionFile:
    """A deletion file; another number has other rows."""
    return DeletionFile(0, 1, number, rows, base)


def fragment(
    number: int,
    *files: DataFile | str,
    deleted: DeletionFile | None = None,
    rows: int = 10,
    row_ids: bytes = b"",
) -> Fragment:
    """A fragment. Without files it has one that is named after its number."""
    named = [data_file(file) if isinstance(file, str) else file for file in files or (f"f{number}.lance",)]
    return Fragment(number, tuple(named), deleted, rows, row_ids, False)


def contents(
    fragments: Iterable[Fragment] = (),
    fields: Iterable[Field] = FIELDS,
    stable: bool = False,
    next_row_id: int = 0,
    indexes: Mapping[str, Sequence[Any]] | None = None,
    seconds: int = 0,
    **settings: Mapping[str, str],
) -> Contents:
    """A version. ``indexes`` are (UUID, ids of columns, ids of fragments) by name."""
    fragments = list(fragments)
    whole = message("Whole")
    for entry in fields:
        column = whole.fields.add(id=entry.id, parent_id=entry.parent_id, name=entry.name, logical_type=entry.type)
        column.nullable = entry.nullable
        for key, value in entry.metadata:
            column.metadata.add(key=key, value=value)
    for name, pairs in settings.items():
        for setting in pairs.items():
            getattr(whole, name).add(key=setting[0], value=setting[1])
    if fragments:
        whole.max_fragment_id = max(entry.id for entry in fragments)
    whole.next_row_id = next_row_id
    whole.data_format.version = "2.1"
    head = message("Head")
    head.version, head.timestamp.seconds = 1, seconds
    head.reader_flags = head.writer_flags = 2 if stable else 0
    body = b"".join(map(_record, fragments)) + whole.SerializeToString() + head.SerializeToString()
    return decode_contents(manifest_file(body, _indexes(indexes) if indexes else None))


def _record(entry: Fragment) -> bytes:
    written = message("WholeFragment")
    written.id, written.physical_rows, written.row_ids = entry.id, entry.physical_rows, entry.row_ids
    for file in entry.files:
        added = written.files.add(path=file.path, fields=file.fields, file_size_bytes=file.size)
        if file.base_id is not None:
            added.base_id = file.base_id
    if entry.deletion is not None:
        gone = written.deletion_file
        gone.file_type, gone.id, gone.num_deleted_rows = (
            entry.deletion.file_type,
            entry.deletion.id,
            entry.deletion.rows,
        )
        gone.read_version = entry.deletion.read_version
        if entry.deletion.base_id is not None:
            gone.base_id = entry.deletion.base_id
    return field(2, written.SerializeToString())


def _indexes(indexes: Mapping[str, Sequence[Any]]) -> bytes:
    section = message("IndexRecords")
    for name, (uuid, fields, fragments) in indexes.items():
        added = section.indices.add(name=name, fields=fields, fragment_bitmap=BitMap(fragments).serialize())
        added.uuid.uuid = UUID(uuid).bytes
    return bytes(section.SerializeToString())


def version(
    fragments: Iterable[Fragment] = (),
    number: int = 1,
    branch: str | None = None,
    bases: Mapping[int | None, Root] | None = None,
    **more: Any,
) -> Snapshot:
    """A version of main, or of the branch ``exp``."""
    roots = {None: HERE if branch is None else THERE, **(bases or {})}
    return Snapshot(PinnedVersion(branch, number), contents(fragments, **more), roots)


def steps(branch: str | None, *operations: str | Step, complete: bool = True) -> Steps:
    """The versions of a side after version 1, by their operations."""
    made = (Step(number, each) if isinstance(each, str) else each for number, each in enumerate(operations, 2))
    return Steps(branch, tuple(made), complete)


def sides(base: Snapshot, ours: Snapshot, theirs: Snapshot, our_steps: Steps, their_steps: Steps) -> Sides:
    """A comparison, in which both sides see the base in one chain."""
    return Sides(base, ours, base, theirs, our_steps, their_steps)
