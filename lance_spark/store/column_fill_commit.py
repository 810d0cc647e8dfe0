"""Commits files with the values of whole columns: new columns with their files, or other values for columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.backfill.model import FilledFile
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.evolution import Evolution
from lance_spark.store import files
from lance_spark.store.column_commit import apply_steps
from lance_spark.store.column_files import preorder
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.fragment_json import fragments_from
from lance_spark.store.schema_scratch import composed, without_dead_files

if TYPE_CHECKING:
    from lance.schema import LanceSchema

Json = dict[str, Any]
_REPLACED = -2
"""Stands in a file for a column that another file of the fragment has now."""


def commit_added(
    location: DatasetLocation,
    pin: PinnedVersion,
    contents: Contents,
    plan: Evolution,
    filled: Mapping[int, FilledFile],
    properties: Mapping[str, str],
) -> PinnedVersion:
    """Commit new columns together with their values; fragments without a file have nulls.

    One version: nobody sees the columns half full. Any commit since ``pin`` is a Conflict, as the operation names all
    fragments; appends that are under way go on. Then nothing was committed.
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

    Indexes on the columns forget these fragments: queries look into the files until the indexes are brought up to
    date. Raises Conflict for changes of these fragments since ``pin``; then nothing was committed.
    """
    import lance
    from pyroaring import BitMap

    dataset = open_pinned(location, pin)
    schema = dataset.lance_schema
    ids = _ids_of(schema, names)
    gone = {key for column in ids for key in column}
    live = frozenset(key for column in schema.fields() for key in preorder(column))
    with translated(location, "updating columns"):
        updated, offsets = [], {}
        for number, file in filled.items():
            known: Json = dataset.get_fragment(number).metadata.to_json()
            kept = [{**each, "fields": [_left(key, gone) for key in each["fields"]]} for each in known["files"]]
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


def discard_filled(location: DatasetLocation, branch: str | None, unused: Sequence[FilledFile]) -> None:
    """Delete files that were never committed."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    files.delete(root, [f"data/{json.loads(each.file)['path']}" for each in unused])


def _ids_of(schema: LanceSchema, names: Sequence[str]) -> list[list[int]]:
    columns = {column.name(): preorder(column) for column in schema.fields()}
    return [columns[name] for name in names]


def _numbered(filled: FilledFile, ids: Sequence[Sequence[int]]) -> Json:
    """The file, naming its columns by the ids they have in the table."""
    known = {
        own: key
        for column, final in zip(json.loads(filled.ids), ids, strict=True)
        for own, key in zip(column, final, strict=True)
    }
    file: Json = json.loads(filled.file)
    return {**file, "fields": [known[key] for key in file["fields"]]}


def _left(key: int, gone: set[int]) -> int:
    return _REPLACED if key in gone else key
