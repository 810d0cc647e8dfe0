"""Frozen sets: freezes and unfreezes them, reads their rows in order, and compares two of them.

A spec or a name comes in. Rows are hashed, sorted and read where the engine runs; plans, frames and diffs come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version as version_of
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.ref_files import BRANCHES, TAGS
from lance_spark.core.ref_names import plan_branch, plan_tag
from lance_spark.core.refs import Branch, PinnedVersion, RefTable, Tag
from lance_spark.core.table_options import ReadOptions
from lance_spark.engine.local import Engine, Frame, Runner, Work
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, InvalidOption, NotFound, Refused
from lance_spark.format.blobs import BLOB_BYTES
from lance_spark.format.operations import key_columns
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, conform, row_width, unknown_column
from lance_spark.frozen import draw_rules, set_plans
from lance_spark.refs.ref_rules import check_delete_branch
from lance_spark.refs.refs import create_branch_at, delete_branch
from lance_spark.scan import fragment_reads
from lance_spark.scan.blob_reads import referring_columns
from lance_spark.scan.partition_rules import BATCH_ROWS, batch_rows
from lance_spark.scan.read import PinnedRead, plan_read, read_schema
from lance_spark.storage import refs
from lance_spark.storage.datasets import pin_latest, pin_version
from lance_spark.storage.versions import read_contents, read_snapshot

PLACE = (pa.field("_split", pa.string(), nullable=False), pa.field("_position", pa.int64(), nullable=False))
"""The columns that ``with_position`` adds."""
_TASK_BYTES = 32 * 2**20
_TAKEN = 8_192
"""Maximum rows per lookup: more gain nothing."""
_PLAN_ROWS = 250_000
"""How many rows of a plan one task compares."""


@dataclass(frozen=True)
class FrozenReading:
    """Everything tasks need to read rows of a set. ``schema`` is the output, with ``_split`` and ``_position`` last."""

    location: DatasetLocation
    plan: PinnedVersion
    source: PinnedVersion
    names: tuple[str, ...]
    schema: pa.Schema
    batch_size: int

    @property
    def with_position(self) -> bool:
        """Whether each row has its split and its position."""
        return len(self.schema) > len(self.names)


def list_frozen(location: DatasetLocation) -> list[draw_rules.Lineage]:
    """All frozen sets of a dataset, by name, except those whose plan is lost: ``needed_plan`` and fsck report them."""
    prefix = plan_tag("")
    found = []
    for tag in refs.list_ref_names(location, TAGS):
        with suppress(NotFound):
            plan = find_plan(location, tag.removeprefix(prefix)) if tag.startswith(prefix) else None
            if plan is not None and plan.lineage.name == tag.removeprefix(prefix):
                found.append(plan.lineage)
    return found


def needed_plan(location: DatasetLocation, name: str) -> FrozenPlan:
    """The plan of a set whose source is unchanged. Raises NotFound, Conflict if the source was replaced."""
    plan = find_plan(location, name)
    if plan is None:
        pin_latest(location, None)  # a wrong path gets its own error
        raise NotFound(f"There is no frozen set '{name}' in {location.uri}.", hint=_others(location, name))
    source = plan.lineage.source
    if pin_version(location, source.branch, source.version) != source:
        raise Conflict(
            f"Version {source}, from which the frozen set '{name}' takes its rows, is not the one that was frozen.",
            hint="Its branch or the dataset was deleted and created again: t.frozen.delete(...), then create it again.",
        )
    return plan


def _others(location: DatasetLocation, name: str) -> str:
    """A hint for a missing set: in a clone, the plan of the remote's set; otherwise the sets of the dataset."""
    fetched = [branch for branch in refs.list_ref_names(location, BRANCHES) if branch.endswith(f"/{plan_branch(name)}")]
    if fetched:
        return (
            f"'{fetched[0]}' is the plan of a remote's set: to create it here, repeat its call of t.frozen.create(...)."
        )
    known = ", ".join(f"'{lineage.name}'" for lineage in list_frozen(location)) or "none"
    return f"Existing sets: {known}."


def plan_reading(
    location: DatasetLocation, plan: FrozenPlan, columns: str | Sequence[str] | None = None, with_position: bool = False
) -> FrozenReading:
    """How to read rows of a set: whole columns, by default all; and ``_rowid``, if named. Blobs are read as bytes.

    Raises NotFound, and InvalidOption for columns that clash.
    """
    source = plan.lineage.source
    stored = fragment_reads.schema_of(location, source)
    blobs = fragment_reads.blob_columns(location, source)
    names = tuple(stored.names) if columns is None else names_of(columns)
    if not names or len({*names}) < len(names):
        raise InvalidOption(f"columns={list(names)!r} names no columns, or a column twice.")
    known = {field.name: field for field in stored} | {name: pa.field(name, pa.large_binary()) for name in blobs}
    known.setdefault(ROW_ID, pa.field(ROW_ID, pa.int64()))
    for name in names:
        if name not in known:
            raise unknown_column(name, stored.names)
    if with_position and (taken := [field.name for field in PLACE if field.name in names]):
        raise InvalidOption(f"The table has a column '{taken[0]}'.", hint="Leave it out with columns=[...].")
    shown = fragment_reads.schema_of(
        location,
        source,
        fragment_reads.ScanColumns(tuple(name for name in names if name != ROW_ID), blobs="all_binary"),
    )
    fields = [known[name] if name == ROW_ID else shown.field(name) for name in names]
    width = row_width(fields) + BLOB_BYTES * len(blobs.intersection(names))
    schema = pa.schema([*fields, *(PLACE if with_position else ())])
    return FrozenReading(location, plan.pin, source, names, schema, min(_TAKEN, batch_rows(width)))


def tasks_of(reading: FrozenReading, first: int, rows: int) -> list[tuple[int, int]]:
    """Ranges of the plan, in its order, one for each task: limited in bytes, whole batches."""
    size = max(1, int(_TASK_BYTES / max(1.0, row_width(reading.schema)) / reading.batch_size)) * reading.batch_size
    return [(start, min(size, first + rows - start)) for start in range(first, first + rows, size)]


def read_task(reading: FrozenReading, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    """The rows of a range of the plan, in order."""
    for planned in set_plans.read_range(reading.location, reading.plan, *task, reading.batch_size):
        yield from _rows(reading, pa.Table.from_batches([planned])).to_batches()


def read_rows(reading: FrozenReading, places: Sequence[int]) -> pa.Table:
    """The rows at some places of the plan, in the order of the places."""
    return _rows(reading, set_plans.read_places(reading.location, reading.plan, places))


def _rows(reading: FrozenReading, planned: pa.Table) -> pa.Table:
    stored, row_ids = [name for name in reading.names if name != ROW_ID], planned["row_id"]
    seen = set_plans.seen_objects(planned)
    rows = set_plans.take_frozen(reading.location, reading.source, stored, row_ids.to_pylist(), seen)
    if len(stored) < len(reading.names):
        rows = rows.append_column(ROW_ID, row_ids) if stored else pa.table({ROW_ID: row_ids})
    if reading.with_position:
        for field, name in zip(PLACE, ("split", "position"), strict=True):
            rows = rows.append_column(field, planned[name])
    batches = [conform(batch, reading.schema) for batch in rows.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, reading.schema)


@dataclass(frozen=True)
class _ComparedSet:
    """One set of a comparison, and how its rows are identified: by these columns, or else by their ids."""

    location: DatasetLocation
    plan: FrozenPlan
    key: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        local = pa.field("local", pa.binary() if self.key else pa.int64())
        return pa.schema([local, *draw_rules.ENTRIES])

    def frame(self, runner: Runner) -> Frame:
        rows = self.plan.lineage.rows
        tasks = [(first, min(_PLAN_ROWS, rows - first)) for first in range(0, rows, _PLAN_ROWS)]
        return runner.flat_map(f"read '{self.plan.lineage.name}'", tasks, partial(_entries, self), self.schema)


def _entries(side: _ComparedSet, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    for planned in set_plans.read_range(side.location, side.plan.pin, *task, _TAKEN if side.key else BATCH_ROWS):
        ids = planned["row_id"]
        local = pa.array(_keys(side, ids.to_pylist()), pa.binary()) if side.key else ids
        yield pa.record_batch([local, planned["split"], ids], schema=side.schema)


def _keys(side: _ComparedSet, row_ids: list[int]) -> list[bytes]:
    rows = set_plans.take_frozen(side.location, side.plan.lineage.source, list(side.key), row_ids).combine_chunks()
    columns = []
    for name in side.key:
        if rows[name].null_count:
            raise Refused(
                f"Rows of the frozen set '{side.plan.lineage.name}' have no '{name}', which is part of the key.",
                hint="Name columns in which every row has a value, as in key=['id'].",
            )
        columns.append(draw_rules.canonical_bytes(rows[name]))
    return [b"".join(parts) for parts in zip(*columns, strict=True)]


def diff_frozen(
    location: DatasetLocation, names: tuple[str, str], key: tuple[str, ...], engine: Engine
) -> draw_rules.FrozenDiff:
    """The differences between two sets; the runner computes the result's frame when it is used.

    Raises NotFound, InvalidOption for columns that cannot be a key, Refused if nothing identifies the rows of both.
    """
    before, after = (needed_plan(location, name) for name in names)
    key = _key(location, before, after, key)
    rows = before.lineage.rows + after.lineage.rows
    runner = engine.for_work("frozen diff", Work(copies=-(-rows // _PLAN_ROWS), copied_bytes=rows * 48))
    first, second = (_ComparedSet(location, plan, key).frame(runner) for plan in (before, after))
    matched = runner.match("compare rows", (first, second), draw_rules.compare, draw_rules.DIFFERENCES, rows)
    counted = runner.collect(
        "count differences", runner.map("count differences", matched, draw_rules.count, draw_rules.DIFFERENCE_COUNTS)
    )
    keys = ["change", "split_before", "split_after"]
    sums = counted.group_by(keys).aggregate([("rows", "sum")]).to_pylist()
    counts = {(row["change"], row["split_before"], row["split_after"]): row["rows_sum"] for row in sums}
    return draw_rules.FrozenDiff(
        *names, counts, runner.map("list differences", matched, draw_rules.changed, draw_rules.DIFFERENCES)
    )


def _key(location: DatasetLocation, before: FrozenPlan, after: FrozenPlan, given: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that identify rows; none if row ids do."""
    one, other = before.lineage, after.lineage
    line = (one.source.branch, one.identity) == (other.source.branch, other.identity)
    ids_tell = line and (one.source == other.source or (one.stable_row_ids and other.stable_row_ids))
    key = given or (() if ids_tell else key_columns(read_contents(location, other.source).fields))
    if not key and not ids_tell:
        raise Refused(
            f"Nothing identifies the same rows in {one.source} and {other.source}: there are no stable row ids "
            "on one branch, and the table has no key.",
            hint="Name the columns that identify rows, as in key=['id'].",
        )
    for side in (one, other):
        stored = fragment_reads.stored_schema(location, side.source)
        for name in key:
            if name not in stored.names:
                raise unknown_column(name, stored.names)
            draw_rules.check_key_type(name, stored.field(name).type)
    return key


# --- Drawing the rows of a set: hashed, counted, sorted and written where the engine runs
# Whatever the size of a plan, the calling process sees only counts and file names, nothing that grows with the rows.

OPERATION = "freeze"
AT_ONCE = 1_000_000
"""How many rows of a plan one task sorts and writes: some 100 MB."""

_Counting = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class DrawnRows:
    """All rows that pass the filter, with their hashes."""

    def __init__(self, read: PinnedRead, spec: draw_rules.FreezeSpec, runner: Runner, at_once: int) -> None:
        """``read`` comes from :func:`drawn_rows`. Raises Refused for rows without a group, or if there are no rows."""
        self._location, self._source, self._runner, self._at_once = read.location, read.pin, runner, at_once
        self._blobs = referring_columns(read.location, read.pin)
        self.schema = set_plans.plan_schema(self._blobs)
        self._frame = runner.keep(_draw(read, spec, runner))
        self.sizes = self._count(spec)

    def _count(self, spec: draw_rules.FreezeSpec) -> tuple[draw_rules.SplitSize, ...]:
        rows = self._sums("count rows", draw_rules.count_splits, draw_rules.COUNTS)
        if draw_rules.NO_GROUP in rows:
            columns = " or ".join(f"'{name}'" for name in spec.by)
            known = " AND ".join(f"{name if name.isidentifier() else f'`{name}`'} IS NOT NULL" for name in spec.by)
            raise Refused(
                f"{rows[draw_rules.NO_GROUP]:,} rows have no {columns}, so their group is unknown.",
                hint=f"Leave them out with filter={known!r}, or give each a value.",
            )
        if not rows:
            raise Refused("There are no rows to freeze.", hint="Check the filter with t.count_rows(filter).")
        return tuple(
            draw_rules.SplitSize(name, share, rows.get(number, 0)) for number, (name, share) in enumerate(spec.splits)
        )

    def write(self, branch: str) -> list[str]:
        """Write the plan to files of the branch; returns the fragments in its order, as JSON. Raises CorruptData."""
        layout = self._layout()
        runner = self._runner
        pieces = runner.map("divide rows", self._frame, partial(draw_rules.divide, layout), draw_rules.PIECES)
        job = set_plans.PlanJob(self._location, branch, layout, self._source, self._blobs)
        writer = partial(set_plans.write_slice, job)
        written = runner.gather("sort and write the plan", pieces, writer, set_plans.WRITTEN, len(layout.slices))
        found = runner.collect("sort and write the plan", written).sort_by("slice")
        rows = dict(zip(found["slice"].to_pylist(), found["rows"].to_pylist(), strict=True))
        if tuple(rows.get(number, 0) for number in range(len(layout.slices))) != layout.rows:
            raise CorruptData("The rows written are not those counted. No set was created.", hint="Run it again.")
        return [fragment for fragments in found["fragments"].to_pylist() for fragment in fragments]

    def _layout(self) -> draw_rules.Layout:
        sizes = [size.rows for size in self.sizes]
        layout = draw_rules.Layout(
            tuple(size.name for size in self.sizes), tuple(draw_rules.slices(sizes, self._at_once))
        )
        if len(layout.slices) == sum(rows > 0 for rows in sizes):
            return draw_rules.Layout(layout.splits, layout.slices, tuple(rows for rows in sizes if rows))
        rows = self._sums("count slices", partial(draw_rules.count_slices, layout), draw_rules.SLICE_COUNTS)
        return draw_rules.Layout(
            layout.splits, layout.slices, tuple(rows.get(number, 0) for number in range(len(layout.slices)))
        )

    def _sums(self, stage: str, counting: _Counting, schema: pa.Schema) -> dict[int, int]:
        """Rows by the first column of the results of ``counting`` for each partition."""
        key = schema.names[0]
        found = self._runner.collect(stage, self._runner.map(stage, self._frame, counting, schema))
        sums = found.group_by(key).aggregate([("rows", "sum")])
        return dict(zip(sums[key].to_pylist(), sums["rows_sum"].to_pylist(), strict=True))


@contextmanager
def drawn_rows(
    location: DatasetLocation, pin: PinnedVersion, spec: draw_rules.FreezeSpec, engine: Engine, at_once: int
) -> Iterator[DrawnRows]:
    """The rows of a set. Raises NotFound and InvalidOption for columns that cannot be read or grouped by; Refused."""
    read = _checked_read(location, pin, spec)
    fragments = fragment_reads.fragment_sizes(location, pin)
    width = row_width(_wanted(read, spec))
    work = Work(copies=len(fragments), copied_bytes=int(sum(each.live_rows for each in fragments) * width))
    runner = engine.for_work(OPERATION, work)
    try:
        yield DrawnRows(read, spec, runner, at_once)
    finally:
        runner.release()


def _checked_read(location: DatasetLocation, pin: PinnedVersion, spec: draw_rules.FreezeSpec) -> PinnedRead:
    """The read of the rows. Raises NotFound and InvalidOption for the columns to group by."""
    stored = fragment_reads.stored_schema(location, pin)
    blobs = fragment_reads.blob_columns(location, pin)
    for name in spec.by:
        if name not in stored.names:
            raise unknown_column(name, stored.names)
        if name in blobs:
            raise InvalidOption(f"Column '{name}' holds blobs and cannot be used to group rows.")
        draw_rules.check_key_type(name, stored.field(name).type)
    return PinnedRead(location, pin, ReadOptions(filter=spec.filter, with_row_id=True, with_row_address=True))


def _wanted(read: PinnedRead, spec: draw_rules.FreezeSpec) -> pa.Schema:
    columns = read_schema(read)
    return pa.schema([columns.field(name) for name in (*spec.by, ROW_ID, ROW_ADDRESS)])


def _draw(read: PinnedRead, spec: draw_rules.FreezeSpec, runner: Runner) -> Frame:
    plan = plan_read(read, _wanted(read, spec), runner.parallelism)
    scan = plan.scan
    fragments = fragment_reads.fragment_sizes(scan.location, scan.pin)
    counts = accumulate((each.live_rows for each in fragments), initial=0)
    firsts = {each.fragment_id: first for each, first in zip(fragments, counts, strict=False)}
    snapshot = read_snapshot(scan.location, scan.pin)
    deletions = {fragment.id: snapshot.deletions_of(fragment) for fragment in snapshot.contents.fragments()}
    tasks = [
        set_plans.DrawTask(part, {key: firsts[key] for key in part.fragment_ids},
                 {key: deletions[key] for key in part.fragment_ids})
        for part in plan.partitions
    ]  # fmt: skip
    return runner.flat_map("hash rows", tasks, partial(set_plans.draw_rows, scan, spec), draw_rules.DRAWN)


# --- ``freeze`` and ``unfreeze``
# The plan is a version of a branch of its own, ``frozen/NAME``: any tool can read, keep and copy a branch. It is
# created from the source version, which pylance and every cleanup keep because of it. The tag ``frozen-NAME`` on the
# plan comes next, and records that the set exists; the tag NAME on the source version comes last. A killed call leaves
# at most an unfinished set; calling ``freeze`` again finishes it.


class FrozenPlan(NamedTuple):
    """A plan, and the version from which it was made."""

    pin: PinnedVersion
    lineage: draw_rules.Lineage


def find_plan(location: DatasetLocation, name: str) -> FrozenPlan | None:
    """The plan of a frozen set; None if there is no such set. Raises NotFound if its version is gone."""
    tag = refs.read_tag(location, plan_tag(name))
    if tag is None:
        return None
    pin = pin_version(location, tag.branch, tag.version)
    lineage = set_plans.read_lineage(location, pin)
    return None if lineage is None else FrozenPlan(pin, lineage)


def freeze(
    location: DatasetLocation, pin: PinnedVersion, spec: draw_rules.FreezeSpec, engine: Engine, at_once: int = AT_ONCE
) -> draw_rules.Lineage:
    """Freeze rows of a version; see ``FrozenSets.create``.

    Raises AlreadyExists, InvalidOption, NotFound and Refused; then nothing was created.
    """
    identity = _identity(location, pin)
    if (plan := find_plan(location, spec.name)) is not None:
        return _finished(location, plan, spec, pin, identity)
    tagged = _check_tags_free(location, spec.name, pin)
    with drawn_rows(location, pin, spec, engine, at_once) as drawn:
        branch = _ready_branch(location, spec.name, pin)
        fragments = drawn.write(branch.name)
    # Imported by name: the package's root imports Spark, which this module must not depend on.
    software = f"lance_spark {import_module('lance_spark').__version__}, pylance {version_of('pylance')}"
    stable = set_plans.has_stable_row_ids(location, pin)
    lineage = draw_rules.Lineage(spec, location.uri, pin, identity, stable, drawn.sizes, software, tagged_before=tagged)
    _check_own(location, branch)
    committed = set_plans.commit_plan(location, branch.name, fragments, lineage, drawn.schema)
    _check_own(location, branch)
    # Another freeze of that name may have been faster: then its plan counts, and must be the same.
    _tag(location, plan_tag(spec.name), committed)
    # A deletion of the branch looks for the tag after removing the ref, so one of the two sees the other.
    with _tag_taken_back(location, spec.name):
        _check_own(location, branch)
    plan = find_plan(location, spec.name)
    if plan is None:
        raise AlreadyExists(f"The tag '{plan_tag(spec.name)}' exists but belongs to no frozen set.", hint="Delete it.")
    return _finished(location, plan, spec, pin, identity)


def unfreeze(location: DatasetLocation, name: str) -> None:
    """Delete a frozen set: its tags and its plan. Raises NotFound, and Refused if something else needs its branch.

    A tag NAME that existed before the set stays: it belongs to someone else. The rows stay as long as another ref or
    the retention of versions keeps them. To finish a killed call, call this again.
    """
    plan, branch = None, refs.read_branch(location, plan_branch(name))
    tag, record = refs.read_tag(location, name), refs.read_tag(location, plan_tag(name))
    with suppress(NotFound, CorruptData):
        plan = find_plan(location, name)
    lost = record is not None and record.branch == plan_branch(name)
    if plan is None and not lost and (branch is None or record is not None):
        raise NotFound(f"There is no frozen set '{name}' in {location.uri}.", hint="t.frozen.list() names all.")
    if branch is not None:  # before the first tag is deleted, so that no half of the set remains
        _check_unneeded(location, branch)
    source = plan.lineage.source if plan is not None else branch.fork if branch is not None else None
    kept = plan is not None and plan.lineage.tagged_before
    if tag is not None and source is not None and _names(tag, source) and not kept:
        refs.delete_tag(location, name)
    if record is not None:
        refs.delete_tag(location, plan_tag(name))
    if branch is not None:
        delete_branch(location, branch.name)


def _check_unneeded(location: DatasetLocation, plan: Branch) -> None:
    """Raise Refused if the branch of a plan must stay, apart from its own tag."""
    table = refs.read_refs(location)
    tags = {name: tag for name, tag in table.tags.items() if name != plan_tag(plan.name.removeprefix(plan_branch("")))}
    if plan.name in table.branches:
        check_delete_branch(RefTable(table.branches, tags), plan.name)


def _finished(
    location: DatasetLocation, plan: FrozenPlan, spec: draw_rules.FreezeSpec, pin: PinnedVersion, identity: str
) -> draw_rules.Lineage:
    """The existing set, if it matches the spec; adds its last tag if that is missing."""
    others = plan.lineage.differences(spec, pin, identity)
    if others:
        raise AlreadyExists(
            f"A frozen set '{spec.name}' exists with another {', '.join(others)}: {plan.lineage.rows:,} rows of "
            f"{plan.lineage.source}.",
            hint=f"Choose another name, t.checkout(tag='{spec.name}') to freeze that version, or t.frozen.delete(...).",
        )
    tag = _tag(location, spec.name, pin)
    if not _names(tag, pin):
        raise _tag_taken(tag)
    return plan.lineage


def _tag(location: DatasetLocation, name: str, pin: PinnedVersion) -> Tag:
    """The tag of that name: on this version, unless it already exists."""
    tag = refs.read_tag(location, name)
    if tag is None:
        with suppress(AlreadyExists, Conflict):  # another process was faster
            refs.create_tag(location, name, pin)
        tag = refs.read_tag(location, name)
    if tag is None:
        raise Conflict(f"The tag '{name}' was deleted while the set was frozen.", hint="Run it again.")
    return tag


def _tag_taken(tag: Tag) -> AlreadyExists:
    return AlreadyExists(
        f"A tag '{tag.name}' already exists, on version {PinnedVersion(tag.branch, tag.version)}.",
        hint="Choose another name: a frozen set creates a tag of its name on its source version.",
    )


def _identity(location: DatasetLocation, pin: PinnedVersion) -> str:
    branch = None if pin.branch is None else refs.read_branch(location, pin.branch)
    return "" if branch is None else branch.identity


def _names(tag: Tag, pin: PinnedVersion) -> bool:
    return (tag.branch, tag.version) == (pin.branch, pin.version)


def _check_own(location: DatasetLocation, branch: Branch) -> None:
    """Raise Conflict if the branch was deleted meanwhile: its files are gone, and a plan must not name them."""
    now = refs.read_branch(location, branch.name)
    if now is None or now.identity != branch.identity:
        raise Conflict(
            f"Branch '{branch.name}' was deleted by another call while the plan was written to it. No set was created.",
            hint="Run it again when no other call freezes or unfreezes that name.",
        )


@contextmanager
def _tag_taken_back(location: DatasetLocation, name: str) -> Iterator[None]:
    """Delete the tag of the plan after a Conflict, unless there is a plan: then the tag belongs to another call."""
    try:
        yield
    except Conflict:
        plan = None
        with suppress(NotFound):
            plan = find_plan(location, name)
        if plan is None:
            refs.delete_tag(location, plan_tag(name))
        raise


def _check_tags_free(location: DatasetLocation, name: str, pin: PinnedVersion) -> bool:
    """Whether the version already has the tag of that name. Raises AlreadyExists for tags of something else."""
    tag = refs.read_tag(location, name)
    if tag is not None and not _names(tag, pin):
        raise _tag_taken(tag)
    if refs.read_tag(location, plan_tag(name)) is not None:
        raise AlreadyExists(f"The tag '{plan_tag(name)}' exists but belongs to no frozen set.", hint="Delete it.")
    return tag is not None


def _ready_branch(location: DatasetLocation, name: str, pin: PinnedVersion) -> Branch:
    """The branch for the plan, created from the source. One without a plan is left over from a killed call."""
    branch = refs.read_branch(location, plan_branch(name))
    if branch is not None and not _is_left_over(location, branch):
        raise AlreadyExists(
            f"Branch '{branch.name}' exists and is not the plan of a frozen set.", hint="Choose another name."
        )
    if branch is not None and branch.fork != PinnedVersion(pin.branch, pin.version):
        delete_branch(location, branch.name)
        branch = None
    return branch or create_branch_at(location, plan_branch(name), pin)


def _is_left_over(location: DatasetLocation, branch: Branch) -> bool:
    """Whether a branch has nothing of its own but plans."""
    newest = pin_latest(location, branch.name)
    return newest.version == branch.parent_version or set_plans.read_lineage(location, newest) is not None
