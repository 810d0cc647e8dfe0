"""Carries out a plan: copies its files, commits it to pylance, carries indexes; also versions of other datasets.

In: files with their places, old and new; then a plan, or a version of another dataset. Out: one version, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap

from lance_spark.core.layout import deletion_path
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine, Work
from lance_spark.errors import Conflict, CorruptData, LanceSparkError, NotCommittable, NotFound
from lance_spark.format.blobs import without_rows
from lance_spark.format.contents import REPLACED, Contents, Fragment, IndexSegment, renumbered_ids
from lance_spark.format.metadata import referred_bases
from lance_spark.format.row_ids import write_rewrites
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import (
    ACTION,
    ADDS_ONLY,
    BRINGING,
    BRINGS,
    MOVED,
    NULLS_OF,
    PREPARES,
    RECEIVE,
    REORDERED,
    REPLACES,
    Copy,
    Root,
    Snapshot,
    columns,
    write_computed,
)
from lance_spark.merge.assembly_rules import (
    Assembly,
    InPlacePolicy,
    ReplayPlan,
    SettingChange,
    in_steps,
    place,
    setting_changes,
)
from lance_spark.merge.cell_files import numbered
from lance_spark.merge.change_rules import (
    ColumnChanges,
    MergeChange,
    computed_by,
    match_fields,
    of_whole_columns,
    operation_for,
    strange_fields,
    trees,
)
from lance_spark.scan.fragment_reads import blob_columns, deleted_offsets
from lance_spark.storage import copying, small_files, versions
from lance_spark.storage.brought import recorded
from lance_spark.storage.commits import (
    authored,
    base_path,
    check_written,
    commit_on,
    fragment_json,
    fragments_from,
    open_newest,
)
from lance_spark.storage.credentials import options_now
from lance_spark.storage.datasets import find_latest, open_latest, open_pinned, pin_latest
from lance_spark.storage.failures import translated

if TYPE_CHECKING:
    import lance
    from lance.schema import LanceSchema


# --- Copies of files

LITTLE_COPY = 8 * 1024**2
"""Below this size, no check before the copy that the commit can succeed, as the commit checks it itself; nor afterwards
that the copies are still there, as no cleanup deletes files that are seconds old."""

CopyItem = tuple[DatasetLocation, Copy, DatasetLocation]
"""Where a file is, the file, and the place to copy it to."""
_COPIED = pa.schema([("bytes", pa.int64())])
_COPY = "copy"
_VERBS = {RECEIVE: "push"}
"""What users call an action, where that differs."""


def copy_files(plan: ReplayPlan, place: Callable[[str], DatasetLocation], engine: Engine) -> str | None:
    """Copy all files of the plan and their blobs; returns where the copy ran, None if there was nothing to copy.

    ``place`` opens a root by its URI. Raises NotFound for a missing file, StorageFailure, and Conflict if a cleanup
    deleted copies meanwhile.
    """
    copies = plan.copies
    if not copies:
        return None
    target = place(plan.ours.root.uri)
    sources = {copy.source: place(copy.source.uri) for copy in copies}
    items = [(sources[copy.source], copy, target) for copy in copies]
    action = plan.trace.action
    return copy_each(_VERBS.get(action, action), items, engine)


def copy_each(operation: str, items: Sequence[CopyItem], engine: Engine) -> str:
    """Copy files on the engine, for a verb that users know; returns where it ran. Raises like :func:`copy_files`."""
    work = Work(copies=len(items), copied_bytes=sum(copy.size for _, copy, _ in items))
    runner = engine.for_work(operation, work)
    runner.collect(_COPY, runner.flat_map(_COPY, items, copy_one, _COPIED))
    if work.copied_bytes > LITTLE_COPY:
        for target in {target for _, _, target in items}:
            check_written(target, None, [copy.target for _, copy, there in items if there == target])
    return runner.name


def copy_one(item: CopyItem) -> Iterator[pa.RecordBatch]:
    """Copy one file with its blobs; runs on executors."""
    source, copy, target = item
    size = copying.copy_placed(source, copy, target)
    yield pa.RecordBatch.from_pydict({"bytes": [size]}, schema=_COPIED)


# --- Commits


Json = dict[str, Any]
_SAME_ID = "two fragments with id"


def add_bases(location: DatasetLocation, branch: str | None, roots: Sequence[Root]) -> None:
    """Let a chain read files from other places. This makes a version without row changes."""
    dataset = open_latest(location, branch)
    with translated(location, "registering base paths"):
        dataset.add_bases([base_path(root) for root in roots])


def add_referred(location: DatasetLocation, branch: str, theirs: Snapshot) -> None:
    """Give a chain the base paths below which blobs of theirs refer to objects, under their numbers.

    A number that the chain has given to another place stays: a replay of such blobs is refused.
    """
    wanted = referred_bases(theirs)
    there = versions.read_snapshot(location, pin_latest(location, branch)).bases if wanted else {}
    missing = [base_path(root, key) for key, root in wanted.items() if key not in there]
    if missing:
        with translated(location, "registering base paths"):
            open_latest(location, branch).add_bases(missing)


def commit(location: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan, alone: bool = False) -> int:
    """Commit a plan whose files are copied; returns the number of the new version. ``alone``: only right after ours.

    Raises Conflict if pylance cannot combine the plan with a concurrent commit; nothing was committed, so plan again.
    """
    import lance

    # A commit right after ours looks at the newest version here: only what this process computes comes between the two.
    alone = alone or plan.excludes_others
    source = open_pinned(theirs, plan.sides.theirs.pin)
    returned = _fields_of_rows_that_come_back(location, theirs, plan)
    newest = open_newest(location, plan.ours.pin, alone=True) if alone else None
    ours = open_pinned(location, plan.ours.pin) if newest is None else newest
    operation = _operation(location, (ours, source), plan, alone)
    if isinstance(operation, lance.LanceOperation.Update):
        operation.fields_modified = sorted({*operation.fields_modified, *returned})
    properties = {**plan.trace.properties(plan.message), **_told(plan)}

    def make() -> int:
        with translate_id_conflict():
            return commit_on(location, plan.ours.pin, operation, properties, newest=newest).version

    if properties[BRINGS] != "true":
        return make()
    return recorded(location, plan.ours.pin, plan.trace.action, make, plan.trace.properties(None))


def commit_nulls(location: DatasetLocation, plan: ReplayPlan) -> None:
    """Commit only which fields of ours may be null, before the rest of a plan. Raises Conflict."""
    import lance

    newest = open_newest(location, plan.ours.pin, alone=True)
    schema = _composed(newest, newest, plan.ours, ColumnChanges(nullable=plan.nulls.fields))
    # Without a source it is no trace of a merge; the action alone lets it pass where only merges may.
    message = f"Columns that may be null, for: {plan.message}"
    properties = {ACTION: plan.trace.action, MESSAGE: message, **write_computed({})}
    if plan.trace.publish:
        properties[NULLS_OF] = plan.trace.publish
    commit_on(location, plan.ours.pin, lance.LanceOperation.Project(schema), properties, newest=newest)


def commit_settings(location: DatasetLocation, plan: ReplayPlan) -> int:
    """Commit the settings that ours takes over; returns the version. Raises Conflict.

    Before the rows, so that whoever writes rows meanwhile obeys the constraints that come; or alone, as the replay.
    """
    newest = open_newest(location, plan.ours.pin, alone=True)
    if plan.change or plan.only_settles:
        properties = {ACTION: plan.trace.action, MESSAGE: f"Settings, for: {plan.message}", PREPARES: "true"}
        properties |= {NULLS_OF: plan.trace.publish} if plan.trace.publish else {}
    else:
        properties = {**plan.trace.properties(plan.message), **_told(plan)}
    return commit_on(location, plan.ours.pin, _settings(plan.settings), properties, newest=newest).version


def _settings(change: SettingChange) -> lance.LanceOperation.UpdateConfig:
    import lance

    kinds = {"config_updates": change.config, "table_metadata_updates": change.metadata}
    updates = {kind: lance.LanceOperation.UpdateMap(updates=dict(values)) for kind, values in kinds.items() if values}
    return lance.LanceOperation.UpdateConfig(**updates)


def equal_settings(
    target: DatasetLocation, branch: str | None, theirs: Snapshot, properties: Mapping[str, str]
) -> None:
    """Give a chain the settings of a version, but for those of Lance itself. Raises Conflict."""
    head = _newest(target, branch)
    change = setting_changes(versions.read_contents(target, head), theirs.contents)
    if change:
        commit_on(target, head, _settings(change), properties)


def commit_record(location: DatasetLocation, plan: ReplayPlan) -> int:
    """Commit a version without changes that records what a plan with nothing to do took in, and how it was compacted.

    Returns its number. Raises Conflict.
    """
    import lance

    properties = {**plan.trace.properties(plan.message), **_told(plan)}
    return commit_on(location, plan.ours.pin, lance.LanceOperation.CreateIndex([], []), properties, _RETRIES).version


def commit_unchanged(location: DatasetLocation, head: PinnedVersion, properties: Mapping[str, str]) -> int:
    """Commit a version without changes, with which no plan made for an older version can be combined.

    Raises Conflict if another process committed rows since ``head``.
    """
    import lance

    dataset = open_pinned(location, head)
    with translated(location, "reading fragments"):
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        operation = lance.LanceOperation.Merge(fragments, dataset.lance_schema)
    return commit_on(location, head, operation, properties).version


def _told(plan: ReplayPlan) -> dict[str, str]:
    """What later merges need to know about the version and the operation does not record."""
    change, sides, rewrites = plan.change, plan.sides, write_rewrites(plan.rewrites)
    # Rows left out of a fragment are elsewhere in ours. A merge that cannot tell where must not count them as deleted.
    hidden = bool(change.followed.masks) and (plan.cells is not None or not rewrites)
    told = {
        MOVED: plan.moves_rows or hidden,
        BRINGS: plan.trace.action in BRINGING or sides.their_steps.brings,
        ADDS_ONLY: not (
            change.removed
            or change.replaced
            or change.followed.deletions
            or change.patches
            or sides.their_steps.changes_rows
        ),
        REPLACES: plan.replaces_all,
    }
    if plan.keeps_all_rows:
        told[REORDERED] = True  # saves a change feed of the copy from reading it all and finding nothing
    # A merged row gets cells in a file of its own. Nobody computed these, so that no later merge may leave them empty.
    columns = () if plan.cells is None else plan.cells.columns
    merged = {columns[at].name: () for patch in change.patches for at in patch.decided}
    merged |= {name: () for each in plan.lacking for name in each.columns}
    computed = write_computed({**merged, **computed_by(sides, is_ours=False).record})
    return {**{key: str(value).lower() for key, value in told.items()}, **rewrites, **computed}


@contextmanager
def translate_id_conflict() -> Iterator[None]:
    """Turns a fragment id that a concurrent commit took into a Conflict."""
    try:
        yield
    except LanceSparkError as problem:
        if _SAME_ID in str(problem):
            raise Conflict("A concurrent commit took the same fragment ids.", hint="Run it again.") from None
        raise


class _Fragments(NamedTuple):
    """The resulting fragments of ours, as pylance's JSON and by id."""

    added: list[Json]
    replaced: list[Json]
    removed: list[int]


def _operation(
    location: DatasetLocation, sides: tuple[lance.LanceDataset, lance.LanceDataset], plan: ReplayPlan, alone: bool
) -> Any:
    import lance

    ours, theirs = sides
    schema, renumbered = _schema(ours, theirs, plan)
    live = plan.ours.live if schema is None else frozenset(entry.id for entry in copying.flattened(schema))
    strange = strange_fields(live, plan.sides.theirs.live, renumbered)
    strange |= plan.sides.spare_ids - live - renumbered.keys()
    fields = {**renumbered, **dict.fromkeys(strange, REPLACED)}
    changes = _changed(location, sides, plan, Assembly.of(plan.sides, plan.change, plan.placed, fields))
    changes = _with_written(changes, plan, ours, schema or ours.lance_schema)
    changes = changes._replace(added=_in_use(changes.added, live), replaced=_in_use(changes.replaced, live))
    if schema is not None and plan.nulls.fields:
        return lance.LanceOperation.Project(schema)
    if schema is not None and operation_for(plan.change, plan.ours) == "Overwrite":
        return lance.LanceOperation.Overwrite(schema, fragments_from(changes.added))
    if schema is not None:
        return _merge(ours, schema, plan, changes)
    if alone or not (changes.replaced or changes.removed):
        # pylance combines changes of different fragments: two merges of one branch at once would add its rows twice,
        # and two pushes would both get through. So each records the same fragment as changed, unless it is anyway.
        if (first := next(plan.ours.contents.fragments(), None)) is None:
            return _merge(ours, ours.lance_schema, plan, changes)
        if first.id not in {*changes.removed, *(entry["id"] for entry in changes.replaced)}:
            changes = changes._replace(replaced=[*changes.replaced, fragment_json(ours, first)])
    return lance.LanceOperation.Update(
        removed_fragment_ids=changes.removed,
        updated_fragments=fragments_from(changes.replaced),
        new_fragments=fragments_from(changes.added),
        fields_modified=_fields_modified(plan),
    )


def _with_written(changes: _Fragments, plan: ReplayPlan, ours: lance.LanceDataset, schema: LanceSchema) -> _Fragments:
    """The fragments with the files of merged rows and of defaults. Older files lose the columns that are in these."""
    ids = {tree[0].name: [entry.id for entry in tree] for tree in trees(copying.flattened(schema)).values()}
    known = () if plan.cells is None else plan.cells.columns
    added, replaced = [*changes.added], [*changes.replaced]
    written = [
        (each.of_ours, each.home, plan.patched[each.of_ours, each.home.id], [known[at].name for at in each.columns])
        for each in plan.change.patches
    ]
    written += [
        (each.of_ours, each.fragment, plan.filled[each.of_ours, each.fragment.id], [*each.columns])
        for each in plan.lacking_files
    ]
    for of_ours, home, file, names in written:
        wanted = [ids[name] for name in names]
        gone = {key for column in wanted for key in column}
        new = numbered(file, wanted)
        if of_ours:
            before = next((entry for entry in replaced if entry["id"] == home.id), None)
            if before is not None:
                replaced.remove(before)
            replaced.append(_with_file(before or fragment_json(ours, home), new, gone))
            continue
        at = [fragment.id for fragment in plan.change.added].index(home.id)
        added[at] = _with_file(added[at], new, gone)
    return changes._replace(added=added, replaced=replaced)


def _with_file(fragment: Json, new: Json, gone: set[int]) -> Json:
    kept = [
        {**file, "fields": [REPLACED if key in gone else key for key in file["fields"]]} for file in fragment["files"]
    ]
    return {**fragment, "files": [*kept, new]}


def _changed(
    location: DatasetLocation,
    sides: tuple[lance.LanceDataset, lance.LanceDataset],
    plan: ReplayPlan,
    assembly: Assembly,
) -> _Fragments:
    """The fragments of a plan. For rows deleted in fragments of ours, pylance writes the deletion files."""
    ours, theirs = sides
    change = plan.change

    def from_theirs(fragment: Fragment) -> Json:
        found = fragment_json(theirs, fragment)
        if plan.sides.their_ids:
            for file in found["files"]:
                file["fields"] = [*renumbered_ids(file["fields"], plan.sides.their_ids)]
        return found

    added = []
    for fragment in change.added:
        entry = assembly.added(fragment, from_theirs(fragment))
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
            dead = change.followed.back.get(key)
            # Where a deletion file is written anew, theirs is not taken, and has no place in ours.
            taken = replacement if dead is None else replace(replacement, deletion=False)
            mine = assembly.replaced(taken, mine, from_theirs(replacement.theirs))
            if dead is not None:
                mine["deletion_file"] = write_mask(location, plan.ours.pin, key, dead) if dead else None
                mine = mine if len(dead) < replacement.ours.physical_rows else None
        left[key] = mine
    removed = [key for key, entry in left.items() if entry is None]
    return _Fragments(added, [entry for entry in left.values() if entry is not None], removed)


def _merge(ours: lance.LanceDataset, schema: LanceSchema, plan: ReplayPlan, changes: _Fragments) -> Any:
    """A changed schema, for which pylance requires the complete list of fragments."""
    import lance

    free = plan.ours.contents.max_fragment_id + 1
    for count, entry in enumerate(changes.added):
        entry["id"] = entry["id"] or free + count
    changed = {entry["id"]: entry for entry in changes.replaced}
    live = frozenset(entry.id for entry in copying.flattened(schema))
    final = []
    for fragment in ours.get_fragments():
        known: Json | None = changed.get(fragment.fragment_id)
        if known is None and any(live.isdisjoint(file.fields) for file in fragment.metadata.files):
            known = copying.without_dead_files(fragment.metadata.to_json(), live)
        final.append(fragment.metadata if known is None else fragments_from([known])[0])
    return lance.LanceOperation.Merge([*final, *fragments_from(changes.added)], schema)


def _in_use(fragments: list[Json], live: frozenset[int]) -> list[Json]:
    return [copying.without_dead_files(found, live) for found in fragments]


def _with_deleted(dataset: lance.LanceDataset, key: int, offsets: Sequence[int]) -> dict[str, Any] | None:
    """The fragment with more rows deleted; pylance writes the deletion file. None if no rows are left."""
    fragment = dataset.get_fragment(key)
    before = fragment.count_rows()
    left = fragment.delete_rows(list(offsets))
    result: dict[str, Any] | None = None if left is None else left.to_json()
    deletion = None if result is None else result["deletion_file"]
    after = 0 if result is None else fragment.physical_rows - (deletion["num_deleted_rows"] if deletion else 0)
    if before - after != len(offsets):
        raise CorruptData(f"Only {before - after} of {len(offsets)} rows to delete exist in fragment {key}.")
    return result


def _fields_modified(plan: ReplayPlan) -> list[int]:
    """Columns whose values change in fragments that stay: indexes must drop those fragments."""
    modified: set[int] = set()
    for replacement in plan.change.replaced:
        if replacement.files:
            live = plan.sides.theirs.live
            before, after = columns(replacement.ours, live), columns(replacement.theirs, live)
            modified |= {field for field, path in after.items() if before.get(field) != path}
    known = () if plan.cells is None else plan.cells.columns
    for patch in plan.change.patches:
        places = patch.columns if patch.of_ours else ()
        modified |= {key for at in places for key in known[at].fields if known[at].ours is not None}
    return sorted(of_whole_columns(modified, plan.ours.contents.fields))


def check_indexes(location: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan) -> None:
    """Raise NotCommittable for a change of columns that would leave a wrong index."""
    if plan.ours.contents.indexes and _fields_of_rows_that_come_back(location, theirs, plan):
        raise NotCommittable(
            "Columns were changed and deleted rows return; committed together, indexes would miss those rows.",
            hint="Drop the indexes first, or first take over the versions before the columns changed.",
        )
    # pylance compares the fields that data files name, and these are the elements of a list.
    unseen = {entry.parent_id for entry in plan.ours.contents.fields} & {*_fields_modified(plan)}
    stale = [segment.name for segment in plan.ours.contents.indexes if not unseen.isdisjoint(segment.fields)]
    if stale:
        raise NotCommittable(
            f"Columns were changed and lists got other values; committed together, index '{stale[0]}' would find rows "
            "by the values that they had.",
            hint=in_steps(plan.sides.theirs.pin, plan.sides.their_steps),
        )


def _fields_of_rows_that_come_back(location: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan) -> set[int]:
    """All columns if rows return in a fragment that stays; otherwise none.

    An index made while a row was deleted does not contain it, and queries through that index would never find the row.
    So all indexes must drop such fragments, including an index that another process is making now.
    """
    for replacement in plan.change.replaced:
        if replacement.deletion and not replacement.both_deleted and replacement.ours.deletion is not None:
            mine = deleted_offsets(location, plan.ours, replacement.ours).to_pylist()
            left = plan.change.followed.back.get(replacement.ours.id)
            if left is None:
                left = deleted_offsets(theirs, plan.sides.theirs, replacement.theirs).to_pylist()
            if not {*left}.issuperset(mine):
                return {*plan.ours.live}
    return set()


def _schema(
    ours: lance.LanceDataset, theirs: lance.LanceDataset, plan: ReplayPlan
) -> tuple[LanceSchema | None, dict[int, int]]:
    """The new schema (None if ours stays) and the field ids of theirs that differ in the result."""
    if plan.change.columns_of_theirs:
        return theirs.lance_schema, {}
    if not plan.change.columns:
        return None, {}
    with translated(DatasetLocation(plan.ours.root.uri), "composing the columns of both sides"):
        schema = _composed(ours, theirs, plan.ours, plan.change.columns)
    new = {entry.id for entry in plan.sides.theirs.contents.fields} - plan.sides.base_theirs.live
    matched = match_fields(plan.sides.theirs.contents.fields, copying.flattened(schema))
    return schema, {key: field for key, field in matched.items() if key in new}


def _composed(
    ours: lance.LanceDataset, theirs: lance.LanceDataset, snapshot: Snapshot, changes: ColumnChanges
) -> LanceSchema:
    def alter(scratch: lance.LanceDataset) -> None:
        # A new column may have the name of one that goes, which goes last: until then nothing can get its id.
        going = {name: f"__going_{count}" for count, name in enumerate(changes.drop)}
        names = dict(changes.rename)
        _alter_inside(scratch, theirs, changes)
        altered: list[dict[str, Any]] = [{"path": old, "name": new} for old, new in (*going.items(), *changes.rename)]
        altered += [{"path": path, "nullable": nullable} for path, nullable in changes.nullable]
        for entry in altered:
            scratch.alter_columns(entry)
        added = [theirs.schema.field(name) for name in changes.add]
        if added:
            # pylance adds no column that cannot be null, even to a table without rows.
            scratch.add_columns(pa.schema([field.with_nullable(True) for field in added]))
        for field in added:
            if not field.nullable:
                scratch.alter_columns({"path": field.name, "nullable": False})
        comments = {name: {key: value.decode() for key, value in metadata} for name, metadata in changes.comment}
        if comments:
            scratch.update_field_metadata(comments, replace=True)
        inside = [f"{names.get(column, column)}.{rest}" for column, rest in _going_inside(changes)]
        if going or inside:
            scratch.drop_columns([*going.values(), *inside])

    return copying.composed(ours.lance_schema, snapshot.contents, alter)


def _alter_inside(scratch: lance.LanceDataset, theirs: lance.LanceDataset, changes: ColumnChanges) -> None:
    """Rename and add fields inside of structs; those that are dropped get other names first."""
    before = {new: old for old, new in changes.rename}
    for inner in changes.inner:
        renamed = [*inner.rename, *((path, f"{_GOING}{count}") for count, path in enumerate(inner.drop))]
        for path, name in sorted(renamed, key=lambda pair: -pair[0].count(".")):  # the innermost first
            scratch.alter_columns({"path": path, "name": name})
        for path in inner.add:
            column, *rest = path.split(".")
            field = _only(theirs.schema.field(column), rest)
            scratch.add_columns(pa.schema([field.with_name(before.get(column, column))]))


def _going_inside(changes: ColumnChanges) -> list[tuple[str, str]]:
    """(column of ours, path inside it) of dropped fields, by their new names."""
    found = []
    for inner in changes.inner:
        names = dict(inner.rename)
        for count, path in enumerate(inner.drop):
            parts = path.split(".")
            around = [names.get(".".join(parts[: at + 1]), parts[at]) for at in range(1, len(parts) - 1)]
            found.append((parts[0], ".".join([*around, f"{_GOING}{count}"])))
    return found


def _only(field: pa.Field, path: Sequence[str]) -> pa.Field:
    """A struct with only the field of that path in it."""
    if not path:
        return field
    return pa.field(field.name, pa.struct([_only(field.type.field(path[0]), path[1:])]))


_GOING = "__going_inside_"


# --- Versions of another dataset
# pylance's own shallow clone stays within one store and can only make a new dataset. So a chain first gets the columns
# without rows, then all fragments with the places of their files.

CopyAll = Callable[[Sequence[tuple[DatasetLocation, Copy, DatasetLocation]]], object]
"""Copies files, each from one place to another."""


def create(
    target: DatasetLocation,
    source: DatasetLocation,
    theirs: Snapshot,
    properties: Mapping[str, str],
    places: bool = True,
) -> None:
    """Create an empty dataset with columns and settings of a version; with ``places``, it may read the version's files.

    Completes an interrupted creation. Raises AlreadyExists, Conflict.
    """
    if find_latest(target, None) is None:
        _create(target, source, theirs, properties, places)
    # pylance gives the columns new ids, but files store values by the ids of the columns at the source.
    if versions.read_contents(target, _newest(target, None)).fields != theirs.contents.fields:
        truncate(target, None, source, theirs.pin, properties)
    equal_settings(target, None, theirs, properties)


def _create(
    target: DatasetLocation, source: DatasetLocation, snapshot: Snapshot, properties: Mapping[str, str], places: bool
) -> None:
    import lance

    theirs = open_pinned(source, snapshot.pin)
    referred = referred_bases(snapshot)
    roots = dict.fromkeys(snapshot.bases.values()) if places else {}
    others = [root for root in roots if root not in referred.values()]
    free = [number for number in range(1, len(others) + len(referred) + 1) if number not in referred]
    bases = referred | dict(zip(free, others, strict=False))
    with translated(target, "creating the dataset"):
        lance.write_dataset(
            without_rows(theirs.schema),
            target.uri,
            mode="create",
            storage_options=options_now(target),
            # A dataset cannot mix files of the first format with others.
            data_storage_version=theirs.data_storage_version,
            enable_stable_row_ids=snapshot.contents.has_stable_row_ids,
            initial_bases=[base_path(root, number) for number, root in bases.items()],
            transaction_properties=authored(properties),
        )


def truncate(
    target: DatasetLocation,
    branch: str | None,
    source: DatasetLocation,
    pin: PinnedVersion,
    properties: Mapping[str, str],
) -> None:
    """Remove all rows of a chain and give it a version's columns. Raises Conflict for a concurrent commit."""
    import lance

    operation = lance.LanceOperation.Overwrite(open_pinned(source, pin).lance_schema, [])
    commit_on(target, PinnedVersion(branch, open_latest(target, branch).version), operation, properties)


def populate(
    target: DatasetLocation,
    branch: str | None,
    source: DatasetLocation,
    theirs: Snapshot,
    properties: Mapping[str, str],
    copy: CopyAll | None = None,
) -> int:
    """Give a chain without rows all fragments of a version, in place; returns its newest version.

    With ``copy`` it copies the data files, except those that main has a copy of. Raises Conflict.
    """
    import lance

    ours = versions.read_snapshot(target, _newest(target, branch))
    if ours.contents.fragment_count:
        raise Conflict(f"Another process wrote to {target.branch_uri(branch)} at the same time.", hint="Run it again.")
    missing = [root for root in dict.fromkeys(theirs.bases.values()) if root not in ours.bases.values()]
    if missing and copy is None:
        add_bases(target, branch, missing)
        ours = versions.read_snapshot(target, _newest(target, branch))
    reference = InPlacePolicy(everything=True) if copy is None else InPlacePolicy(present=_files_of_main(target))
    added = _Transfer(target, source, ours, theirs).fragments(reference, copy)
    if not added:
        return ours.pin.version
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[], new_fragments=fragments_from(added), fields_modified=[]
    )
    with translate_id_conflict():
        return commit_on(target, ours.pin, operation, properties).version


def replace_all(
    target: DatasetLocation, ours: PinnedVersion, theirs: Snapshot, properties: Mapping[str, str], copy: CopyAll
) -> int:
    """Replace the columns and rows of a version by those of a version of another branch; returns the new version.

    Indexes go. Raises Conflict if ``ours`` is not the newest version; then nothing was changed.
    """
    import lance

    before = versions.read_snapshot(target, ours)
    missing = [root for root in dict.fromkeys(theirs.bases.values()) if root not in before.bases.values()]
    missing = [root for root in missing if not is_within(root.uri, target.uri)]
    if missing:
        add_bases(target, ours.branch, missing)
        raise Conflict(f"{ours} had to learn about other places first.", hint="Run it again.")
    newest = open_newest(target, ours, alone=True)
    added = _Transfer(target, target, before, theirs).fragments(InPlacePolicy(outside=target.uri), copy)
    operation = lance.LanceOperation.Overwrite(open_pinned(target, theirs.pin).lance_schema, fragments_from(added))
    return commit_on(target, ours, operation, properties, newest=newest).version


def _files_of_main(target: DatasetLocation) -> dict[tuple[str, int], Root]:
    """Data files in main's own directory, by name and size."""
    main = versions.read_snapshot(target, _newest(target, None))
    files = (file for fragment in main.contents.fragments() for file in fragment.files)
    return {(file.path, file.size): main.root for file in files if main.root_of(file) == main.root}


@dataclass(frozen=True)
class _Transfer:
    """A version of one dataset that a branch of another takes over."""

    target: DatasetLocation
    source: DatasetLocation
    ours: Snapshot
    theirs: Snapshot

    def fragments(self, reference: InPlacePolicy, copy: CopyAll | None) -> list[dict[str, object]]:
        """All fragments of theirs as pylance's JSON, for a commit to ours; copies the files first."""
        change = MergeChange(added=tuple(self.theirs.contents.fragments()))
        ids = _ids(change, self.ours)
        sidecars = bool(blob_columns(self.source, self.theirs.pin))
        placed = place(change, self.ours, self.theirs, reference, sidecars)
        if copy is not None:
            data = [file for file in placed.copies if file.target.startswith("data/")]
            copy([(self._there(file.source), file, self._here) for file in data])
        # Deletion files last: while data files are copied for hours, a cleanup could delete them.
        for fragment in change.added:
            if ids[fragment.id] != fragment.id or not reference.everything:
                self._copy_deletion(fragment, ids[fragment.id])
        assembly = Assembly(self.theirs, placed.with_ids(ids), {})
        dataset = open_pinned(self.source, self.theirs.pin)
        return [assembly.added(fragment, fragment_json(dataset, fragment)) for fragment in change.added]

    def _copy_deletion(self, fragment: Fragment, new_id: int) -> None:
        """Copies a deletion file that needs another name: it is found by the id of its fragment."""
        if fragment.deletion is not None:
            there = self._there(self.theirs.root_of(fragment.deletion))
            before, after = (fragment.deletion.path_for(key) for key in (fragment.id, new_id))
            copying.copy_file(there, before, self._here, after)

    def _there(self, root: Root) -> DatasetLocation:
        """A place of the source's files, with the storage options of the dataset in the same store."""
        there = DatasetLocation(root.uri, self.source.options)
        return there if there.store == self.source.store else DatasetLocation(root.uri, self.target.options)

    @property
    def _here(self) -> DatasetLocation:
        return DatasetLocation(self.ours.root.uri, self.target.options)


def _ids(change: MergeChange, ours: Snapshot) -> dict[int, int]:
    """Fragments keep their ids, as names of deletion files begin with them and indexes know rows by them.

    pylance reads 0 as "no id" and assigns the next free one, unless the chain never had a fragment.
    """
    ids = {fragment.id: fragment.id for fragment in change.added}
    if 0 in ids and ours.contents.max_fragment_id >= 0:
        ids[0] = max(*ids, ours.contents.max_fragment_id) + 1
    return ids


def _newest(target: DatasetLocation, branch: str | None) -> PinnedVersion:
    return PinnedVersion(branch, int(open_latest(target, branch).version))


# --- Carrying indexes to another chain, where they stay valid

_RETRIES = 20
_INTERNAL = "__"
"""Prefix of the names of internal indexes."""


def carry_indexes(
    ours: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan, version: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Indexes made on theirs since the base: (names carried over, names of those to create again on ours).

    An index knows rows by the ids of their fragments. It is carried over only if every fragment it covers has the same
    id, files and row ids in the committed version; any other index would return wrong rows. Theirs may have one more
    segment of an index that ours has: it joins the segments of ours. An index that ours dropped stays dropped.
    """
    new = _new_indexes(plan)
    if not new:
        return (), ()
    pin = PinnedVersion(plan.ours.pin.branch, version or plan.ours.pin.version)
    now = versions.read_contents(ours, pin)
    made = _made(theirs, plan)
    before = {segment.name for segment in plan.sides.base_theirs.contents.indexes}
    carried: list[str] = []
    missing: list[str] = []
    for name, segments in new.items():
        known = [segment for segment in now.indexes if segment.name == name]
        by_uuid = {segment.uuid: segment for segment in segments}
        descriptions = [made[uuid] for uuid in by_uuid if uuid in made]
        complete = len(descriptions) == len(segments)
        if known:
            complete, descriptions = True, _beside(plan, now, segments, made)
            if not descriptions and not _lacks(now, known, plan):
                continue
        elif name in before or not all(
            _is_valid(made[segment.uuid], segment, plan, now) for segment in segments if complete
        ):
            complete = False
        if complete and descriptions:
            for description in descriptions:
                _copy_directory(theirs, plan, by_uuid[str(description.uuid)], ours)
            (carried if _commit(ours, pin, descriptions) else missing).append(name)
        else:
            missing.append(name)
    return tuple(carried), tuple(missing)


def _new_indexes(plan: ReplayPlan) -> dict[str, list[IndexSegment]]:
    """Segments of theirs that are in neither the base nor ours, by index name."""
    known = {segment.uuid for side in (plan.sides.base_theirs, plan.ours) for segment in side.contents.indexes}
    new: dict[str, list[IndexSegment]] = {}
    for segment in plan.sides.theirs.contents.indexes:
        if segment.uuid not in known and not segment.name.startswith(_INTERNAL):
            new.setdefault(segment.name, []).append(segment)
    return new


def _beside(plan: ReplayPlan, now: Contents, segments: Iterable[IndexSegment], made: Mapping[str, Any]) -> list[Any]:
    """Descriptions of the segments that fit next to those that ours has of the same index.

    A segment is useful only if it covers fragments that no other segment covers. It must not contain rows of a fragment
    whose id belongs, or will belong, to another fragment in ours.
    """
    found = []
    taken: dict[str, set[int]] = {}
    for known in now.indexes:
        taken.setdefault(known.name, set()).update(known.fragments)
    kinds = {segment.name: (segment.fields, segment.kind) for segment in now.indexes}
    theirs = {entry.id: entry for entry in plan.sides.theirs.contents.fragments()}
    ours = {entry.id: entry for entry in now.fragments()}
    for segment in segments:
        index = made.get(segment.uuid)
        if index is None or index.base_id is not None or kinds[segment.name] != (segment.fields, segment.kind):
            continue
        others = taken[segment.name]
        covered = frozenset(index.fragment_ids)
        stored = of_whole_columns(index.fields, now.fields)
        same = {
            key
            for key in covered & segment.fragments & theirs.keys() & ours.keys()
            if _same_rows(ours[key], theirs[key], stored)
        }
        strange = {key for key in covered - same if key in ours or key > now.max_fragment_id}
        if same and not strange and others.isdisjoint(same) and _same_columns(index, plan, now):
            found.append(replace(index, fragment_ids=same))
            others |= same
    return found


def _lacks(now: Contents, known: Iterable[IndexSegment], plan: ReplayPlan) -> bool:
    """Whether no segment of ours covers rows that a segment of theirs covers."""
    covered = {key for segment in known for key in segment.fragments}
    added = {file.path for entry in plan.change.added for file in entry.files}
    return any(entry.id not in covered for entry in now.fragments_with(added))


def _made(theirs: DatasetLocation, plan: ReplayPlan) -> dict[str, Any]:
    """Descriptions by pylance of indexes made since the base, from the transactions that made them.

    Each is read on the branch that made it: on a branch created from that one, its version is missing, or the clone's.
    One that a cleanup deleted meanwhile is left out: the merge is committed, and an index can be created again.
    """
    made: dict[str, Any] = {}
    merged = plan.sides.theirs.pin
    for step in plan.sides.their_steps.all:
        if step.operation == "CreateIndex":
            pin = merged if step.branch == merged.branch else PinnedVersion(step.branch, step.version)
            with suppress(NotFound), translated(theirs, "reading a transaction"):
                transaction = open_pinned(theirs, pin).read_transaction(step.version)
                operation = None if transaction is None else transaction.operation
                made.update({str(index.uuid): index for index in getattr(operation, "new_indices", ())})
    return made


def _is_valid(index: Any, segment: IndexSegment, plan: ReplayPlan, now: Contents) -> bool:
    covered = frozenset(index.fragment_ids)
    theirs = {entry.id: entry for entry in plan.sides.theirs.contents.fragments() if entry.id in covered}
    ours = {entry.id: entry for entry in now.fragments() if entry.id in covered}
    stored = of_whole_columns(index.fields, now.fields)
    return (
        index.base_id is None
        and covered == segment.fragments  # pylance drops fragments whose values changed later
        and theirs.keys() == covered
        and _same_columns(index, plan, now)
        and all(key in ours and _same_rows(ours[key], fragment, stored) for key, fragment in theirs.items())
    )


def _same_columns(index: Any, plan: ReplayPlan, now: Contents) -> bool:
    fields = {entry.id: entry.name for entry in now.fields}
    names = {entry.id: entry.name for entry in plan.sides.theirs.contents.fields}
    same = all(plan.sides.their_ids.get(key, key) == key for key in index.fields)
    return same and all(fields.get(key) == names.get(key) for key in index.fields)


def _same_rows(ours: Fragment, theirs: Fragment, stored: frozenset[int]) -> bool:
    return columns(ours, stored) == columns(theirs, stored) and ours.row_ids == theirs.row_ids


def _copy_directory(theirs: DatasetLocation, plan: ReplayPlan, segment: IndexSegment, ours: DatasetLocation) -> None:
    root = plan.sides.theirs.bases[segment.base_id]
    source, target = DatasetLocation(root.uri, theirs.options), DatasetLocation(plan.ours.root.uri, ours.options)
    for path in copying.files_below(source, f"_indices/{segment.uuid}"):
        copying.copy_file(source, path, target, path)


def _commit(ours: DatasetLocation, pin: PinnedVersion, indexes: list[Any]) -> bool:
    """Whether ours has the index now. A concurrent commit wins: the index can be created again."""
    import lance

    try:
        commit_on(ours, pin, lance.LanceOperation.CreateIndex(indexes, []), retries=_RETRIES)
    except Conflict:
        return False
    return True


# --- Deletion files for fragments that leave some rows behind
# pylance writes such a file only for a fragment that is already in the dataset.

_BITMAP = 1


def write_mask(location: DatasetLocation, head: PinnedVersion, fragment: int, rows: Sequence[int]) -> dict[str, Any]:
    """Write the deletion file of a fragment of the next version; returns it as pylance's JSON.

    The name is a hash of the contents, so every attempt writes the same file.
    """
    content = BitMap(rows).serialize()
    number = int.from_bytes(sha256(content).digest()[:8], "big") >> 1
    branch = DatasetLocation(location.branch_uri(head.branch), location.options)
    small_files.write_below(branch, deletion_path(fragment, head.version, number, _BITMAP), content)
    return {
        "file_type": "bitmap",
        "read_version": head.version,
        "id": number,
        "num_deleted_rows": len(rows),
        "base_id": None,
    }
