"""Commits a planned replay through pylance: one version, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lance_spark.errors import Conflict, CorruptData, LanceSparkError, NotCommittable
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Field
from lance_spark.merge.assembly import REPLACED, Assembly
from lance_spark.merge.columns import ColumnChanges, match_fields, strange_fields
from lance_spark.merge.operations import operation_for
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.rewrites import write_rewrites
from lance_spark.merge.snapshot import Root, Snapshot, columns
from lance_spark.merge.trace import ADDS_ONLY, BRINGING, BRINGS, MOVED, REORDERED, REPLACES
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_latest, open_pinned
from lance_spark.store.deletions import deleted_offsets
from lance_spark.store.failures import translated
from lance_spark.store.fragment_json import base_path, fragment_json, fragments_from
from lance_spark.store.masks import write_mask
from lance_spark.store.schema_scratch import composed, without_dead_files

if TYPE_CHECKING:
    import lance
    from lance.schema import LanceField, LanceSchema

Json = dict[str, Any]
_SAME_ID = "two fragments with id"


def add_bases(location: DatasetLocation, branch: str | None, roots: Sequence[Root]) -> None:
    """Let a chain read files from other places. This makes a version in which no row changes."""
    dataset = open_latest(location, branch)
    with translated(location, "registering base paths"):
        dataset.add_bases([base_path(root) for root in roots])


def commit(location: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan) -> int:
    """Commit a plan whose files are copied, and return the new version's number.

    Raises Conflict when pylance cannot combine the plan with a concurrent commit; then nothing was committed, and the
    plan has to be made again. Raises NotCommittable for a change that would leave a wrong index.
    """
    import lance

    ours = open_pinned(location, plan.ours.pin)
    returned = _fields_of_rows_that_come_back(location, theirs, plan)
    operation = _operation(location, (ours, open_pinned(theirs, plan.sides.theirs.pin)), plan)
    if returned and plan.ours.contents.indexes and isinstance(operation, lance.LanceOperation.Merge):
        raise NotCommittable(
            "Columns were changed, and rows that were deleted come back: with both at once, indexes would miss those "
            "rows.",
            hint="Drop the indexes first, or take over the versions before the columns changed first.",
        )
    if isinstance(operation, lance.LanceOperation.Update):
        operation.fields_modified = sorted({*operation.fields_modified, *returned})
    properties = {**plan.trace.properties(plan.message), **_told(plan)}
    with translate_id_conflict():
        return commit_on(location, plan.ours.pin, operation, properties).version


def _told(plan: ReplayPlan) -> dict[str, str]:
    """What later merges have to know of the version, as the operation does not say it."""
    change, sides, rewrites = plan.change, plan.sides, write_rewrites(plan.rewrites)
    # Rows that a fragment comes without are elsewhere in ours. Who is not told where must not take them for deleted.
    hidden = bool(change.followed.masks) and not rewrites
    told = {
        MOVED: plan.moves_rows or hidden,
        BRINGS: plan.trace.action in BRINGING or sides.their_steps.brings,
        ADDS_ONLY: not (
            change.removed or change.replaced or change.followed.deletions or sides.their_steps.changes_rows
        ),
        REPLACES: plan.replaces_all,
    }
    if plan.keeps_all_rows:
        told[REORDERED] = True  # so that a change feed of the copy does not read it all, to find nothing
    return {**{key: str(value).lower() for key, value in told.items()}, **rewrites}


@contextmanager
def translate_id_conflict() -> Iterator[None]:
    """An id that a concurrent commit took meanwhile is a conflict as well."""
    try:
        yield
    except LanceSparkError as problem:
        if _SAME_ID in str(problem):
            raise Conflict("A concurrent commit took the same fragment ids.", hint="Run it again.") from None
        raise


class _Fragments(NamedTuple):
    """What becomes of fragments of ours, as pylance's JSON and by their ids."""

    added: list[Json]
    replaced: list[Json]
    removed: list[int]


def _operation(
    location: DatasetLocation, sides: tuple[lance.LanceDataset, lance.LanceDataset], plan: ReplayPlan
) -> Any:
    import lance

    ours, theirs = sides
    schema, renumbered = _schema(ours, theirs, plan)
    live = plan.ours.live if schema is None else frozenset(entry.id for entry in flattened(schema))
    fields = {**renumbered, **dict.fromkeys(strange_fields(live, plan.sides.theirs.live, renumbered), REPLACED)}
    changes = _changed(location, sides, plan, Assembly.of(plan.sides, plan.change, plan.placed, fields))
    changes = changes._replace(added=_in_use(changes.added, live), replaced=_in_use(changes.replaced, live))
    if schema is not None and operation_for(plan.change, plan.ours) == "Overwrite":
        return lance.LanceOperation.Overwrite(schema, fragments_from(changes.added))
    if schema is not None:
        return _merge(ours, schema, plan, changes)
    if not changes.replaced and not changes.removed:
        # pylance combines concurrent appends: two merges of the same branch at once would add its rows twice. So an
        # unchanged fragment is recorded as changed, which makes the second merge a conflict.
        untouched = next(plan.ours.contents.fragments(), None)
        if untouched is None:
            return _merge(ours, ours.lance_schema, plan, changes)
        changes = changes._replace(replaced=[fragment_json(ours, untouched)])
    return lance.LanceOperation.Update(
        removed_fragment_ids=changes.removed,
        updated_fragments=fragments_from(changes.replaced),
        new_fragments=fragments_from(changes.added),
        fields_modified=_fields_modified(plan),
    )


def _changed(
    location: DatasetLocation,
    sides: tuple[lance.LanceDataset, lance.LanceDataset],
    plan: ReplayPlan,
    assembly: Assembly,
) -> _Fragments:
    """The fragments of a plan. pylance writes deletion files for rows that are deleted in fragments of ours."""
    ours, theirs = sides
    change = plan.change
    added = []
    for fragment in change.added:
        entry = assembly.added(fragment, fragment_json(theirs, fragment))
        if fragment.id in change.followed.masks:
            entry["deletion_file"] = write_mask(
                location, plan.ours.pin, entry["id"], change.followed.masks[fragment.id]
            )
        added.append(entry)
    left: dict[int, Json | None] = {fragment.id: None for _, fragment in change.removed}
    left |= {key: _with_deleted(ours, key, rows) for key, rows in change.followed.deletions.items()}
    for replacement in change.replaced:
        key = replacement.ours.id
        mine: Any = fragment_json(ours, replacement.ours)
        if replacement.both_deleted:
            mine = _with_deleted(ours, key, plan.deletions[key])
        if mine is not None:
            mine = assembly.replaced(replacement, mine, fragment_json(theirs, replacement.theirs))
        left[key] = mine
    removed = [key for key, entry in left.items() if entry is None]
    return _Fragments(added, [entry for entry in left.values() if entry is not None], removed)


def _merge(ours: lance.LanceDataset, schema: LanceSchema, plan: ReplayPlan, changes: _Fragments) -> Any:
    """With another schema, pylance wants the complete list of fragments."""
    import lance

    free = plan.ours.contents.max_fragment_id + 1
    for count, entry in enumerate(changes.added):
        entry["id"] = entry["id"] or free + count
    changed = {entry["id"]: entry for entry in changes.replaced}
    live = frozenset(entry.id for entry in flattened(schema))
    final = []
    for fragment in ours.get_fragments():
        known: Json | None = changed.get(fragment.fragment_id)
        if known is None and any(live.isdisjoint(file.fields) for file in fragment.metadata.files):
            known = without_dead_files(fragment.metadata.to_json(), live)
        final.append(fragment.metadata if known is None else fragments_from([known])[0])
    return lance.LanceOperation.Merge([*final, *fragments_from(changes.added)], schema)


def _in_use(fragments: list[Json], live: frozenset[int]) -> list[Json]:
    return [without_dead_files(found, live) for found in fragments]


def _with_deleted(dataset: lance.LanceDataset, key: int, offsets: Sequence[int]) -> dict[str, Any] | None:
    """The fragment with more rows deleted; pylance writes the deletion file. None if no row is left."""
    fragment = dataset.get_fragment(key)
    before = fragment.count_rows()
    left = fragment.delete_rows(list(offsets))
    result: dict[str, Any] | None = None if left is None else left.to_json()
    deletion = None if result is None else result["deletion_file"]
    after = 0 if result is None else fragment.physical_rows - (deletion["num_deleted_rows"] if deletion else 0)
    if before - after != len(offsets):
        raise CorruptData(f"Of {len(offsets)} rows to delete in fragment {key}, {before - after} are there.")
    return result


def _fields_modified(plan: ReplayPlan) -> list[int]:
    """Columns whose values change in fragments that stay: indexes must forget those fragments."""
    modified: set[int] = set()
    for replacement in plan.change.replaced:
        if replacement.files:
            live = plan.sides.theirs.live
            before, after = columns(replacement.ours, live), columns(replacement.theirs, live)
            modified |= {field for field, path in after.items() if before.get(field) != path}
    return sorted(modified)


def _fields_of_rows_that_come_back(location: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan) -> set[int]:
    """All columns, if rows come back in a fragment that stays; else none.

    An index that was made while a row was deleted does not know the row, and queries through it would never find the
    row. So all indexes must forget such fragments, also an index that another process is making now.
    """
    for replacement in plan.change.replaced:
        if replacement.deletion and not replacement.both_deleted and replacement.ours.deletion is not None:
            mine = deleted_offsets(location, plan.ours, replacement.ours).to_pylist()
            if not {*deleted_offsets(theirs, plan.sides.theirs, replacement.theirs).to_pylist()}.issuperset(mine):
                return {*plan.ours.live}
    return set()


def _schema(
    ours: lance.LanceDataset, theirs: lance.LanceDataset, plan: ReplayPlan
) -> tuple[LanceSchema | None, dict[int, int]]:
    """The new schema, or None if ours stays, and the field ids of theirs that differ in the result."""
    if plan.change.columns_of_theirs:
        return theirs.lance_schema, {}
    if not plan.change.columns:
        return None, {}
    schema = _composed(ours, theirs, plan.ours, plan.change.columns)
    new = {entry.id for entry in plan.sides.theirs.contents.fields} - plan.sides.base_theirs.live
    matched = match_fields(plan.sides.theirs.contents.fields, flattened(schema))
    return schema, {key: field for key, field in matched.items() if key in new}


def _composed(
    ours: lance.LanceDataset, theirs: lance.LanceDataset, snapshot: Snapshot, changes: ColumnChanges
) -> LanceSchema:
    """The schema of ours with the changes applied."""

    def alter(scratch: lance.LanceDataset) -> None:
        if changes.add:
            scratch.add_columns(pa.schema([theirs.schema.field(name) for name in changes.add]))
        altered: list[dict[str, Any]] = [{"path": old, "name": new} for old, new in changes.rename]
        altered += [{"path": name, "nullable": True} for name in changes.relax]
        for entry in altered:
            scratch.alter_columns(entry)
        comments = {name: {key: value.decode() for key, value in metadata} for name, metadata in changes.comment}
        if comments:
            scratch.update_field_metadata(comments, replace=True)
        if changes.drop:
            scratch.drop_columns([*changes.drop])

    return composed(ours.lance_schema, snapshot.contents, alter)


def flattened(schema: LanceSchema) -> list[Field]:
    """A schema of pylance as a manifest has it: parents first."""
    fields: list[Field] = []

    def walk(entry: LanceField, parent: int) -> None:
        fields.append(Field(entry.id(), parent, entry.name(), "", True, ()))
        for child in entry.children():
            walk(child, entry.id())

    for column in schema.fields():
        walk(column, -1)
    return fields
