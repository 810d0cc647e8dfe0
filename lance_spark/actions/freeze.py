"""``freeze`` and ``unfreeze``: a set of rows of one version, split and in an order, that stays as it is.

The plan is a version of a branch of its own, ``frozen/NAME``: a branch is a dataset that every tool can read, keeps and
copies. It is made from the source version, which pylance and every cleanup keep for it. The tag ``frozen-NAME`` of the
plan comes after it, and says that there is such a set; the tag NAME of the source version comes last. Whoever is
killed in between calls ``freeze`` again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import version as version_of
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.actions.branches import create_branch_at, delete_branch
from lance_spark.actions.read import PinnedRead, ReadPlan, plan_read, read_schema
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused
from lance_spark.freezing.keys import check_key_type
from lance_spark.freezing.planning import COUNTS, DRAWN, NO_GROUP, PlanWriter, Slice, count_splits, rows_of, slices
from lance_spark.freezing.spec import FreezeSpec, Lineage, SplitSize
from lance_spark.location import DatasetLocation
from lance_spark.options.read import ReadOptions
from lance_spark.refs.model import Branch, PinnedVersion, Tag
from lance_spark.refs.names import plan_branch, plan_tag
from lance_spark.runner.interface import Engine, Frame, Runner
from lance_spark.runner.work import Work
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID, unknown_column
from lance_spark.schema.width import row_width
from lance_spark.store import refs, scanning
from lance_spark.store.datasets import pin_latest, pin_version
from lance_spark.store.fragment_sizes import fragment_sizes
from lance_spark.store.frozen_plan import commit_plan, has_stable_row_ids, read_lineage, write_part
from lance_spark.store.frozen_rows import DrawTask, draw_rows
from lance_spark.store.version_reader import read_snapshot

OPERATION = "freeze"
_AT_ONCE = 4_000_000
"""Rows of a plan that this process sorts at once: some 400 MB. Of a larger one it sorts slice after slice."""


class FrozenPlan(NamedTuple):
    """A plan, and what it is the plan of."""

    pin: PinnedVersion
    lineage: Lineage


def find_plan(location: DatasetLocation, name: str) -> FrozenPlan | None:
    """The plan of a frozen set; None where there is no such set. Raises NotFound if its version is gone."""
    tag = refs.read_tag(location, plan_tag(name))
    if tag is None:
        return None
    pin = pin_version(location, tag.branch, tag.version)
    lineage = read_lineage(location, pin)
    return None if lineage is None else FrozenPlan(pin, lineage)


def freeze(
    location: DatasetLocation, pin: PinnedVersion, spec: FreezeSpec, engine: Engine, at_once: int = _AT_ONCE
) -> Lineage:
    """Freeze rows of a version, as ``LanceTable.freeze`` says.

    Raises AlreadyExists, InvalidOption, NotFound and Refused; then nothing was made.
    """
    identity = _identity(location, pin)
    if (plan := find_plan(location, spec.name)) is not None:
        return _finished(location, plan, spec, pin, identity)
    _check_tags_free(location, spec.name, pin)
    frozen = _FrozenRows(location, pin, spec, engine, at_once)
    try:
        drawn = frozen.draw()
        sizes = frozen.count(drawn)
        branch = _ready_branch(location, spec.name, pin)
        parts = [part for rows in frozen.plan(drawn, sizes) for part in write_part(location, branch, rows)]
    finally:
        frozen.runner.release()
    # By its name: the package's own module leads to Spark, of which actions know nothing.
    software = f"lance_spark {import_module('lance_spark').__version__}, pylance {version_of('pylance')}"
    stable = has_stable_row_ids(location, pin)
    lineage = Lineage(spec, location.uri, pin, identity, stable, tuple(sizes), software)
    committed = commit_plan(location, branch, parts, lineage)
    # Another freeze of that name may have been faster: its plan counts then, and has to be the same.
    _tag(location, plan_tag(spec.name), committed)
    plan = find_plan(location, spec.name)
    if plan is None:
        raise AlreadyExists(f"The tag '{plan_tag(spec.name)}' is there, and is of no frozen set.", hint="Delete it.")
    return _finished(location, plan, spec, pin, identity)


def unfreeze(location: DatasetLocation, name: str) -> None:
    """Delete a frozen set: its tags and its plan. Raises NotFound, and Refused where something else needs its branch.

    The rows stay as long as another ref or the retention of versions keeps them. A call that was killed is finished by
    the same call.
    """
    plan, branch = find_plan(location, name), refs.read_branch(location, plan_branch(name))
    tag, record = refs.read_tag(location, name), refs.read_tag(location, plan_tag(name))
    if plan is None and (branch is None or record is not None):
        raise NotFound(f"There is no frozen set '{name}' in {location.uri}.", hint="t.frozen.list() names all.")
    source = plan.lineage.source if plan is not None else branch.fork if branch is not None else None
    if tag is not None and source is not None and _names(tag, source):
        refs.delete_tag(location, name)
    if record is not None:
        refs.delete_tag(location, plan_tag(name))
    if branch is not None:
        delete_branch(location, branch.name)


def _finished(
    location: DatasetLocation, plan: FrozenPlan, spec: FreezeSpec, pin: PinnedVersion, identity: str
) -> Lineage:
    """The set that is there, if it is the one that was asked for; its last tag, if that is missing."""
    others = plan.lineage.differences(spec, pin, identity)
    if others:
        raise AlreadyExists(
            f"There is a frozen set '{spec.name}' with another {', '.join(others)}: {plan.lineage.rows:,} rows of "
            f"{plan.lineage.source}.",
            hint=f"Choose another name, t.checkout(tag='{spec.name}') to freeze the same version, or t.unfreeze(...).",
        )
    tag = _tag(location, spec.name, pin)
    if not _names(tag, pin):
        raise _tag_taken(tag)
    return plan.lineage


def _tag(location: DatasetLocation, name: str, pin: PinnedVersion) -> Tag:
    """The tag of that name: of this version, unless it was there already."""
    tag = refs.read_tag(location, name)
    if tag is None:
        with suppress(AlreadyExists, Conflict):  # somebody else was faster
            refs.create_tag(location, name, pin)
        tag = refs.read_tag(location, name)
    if tag is None:
        raise Conflict(f"The tag '{name}' was deleted while the set was frozen.", hint="Run it again.")
    return tag


def _tag_taken(tag: Tag) -> AlreadyExists:
    return AlreadyExists(
        f"There is a tag '{tag.name}', of version {PinnedVersion(tag.branch, tag.version)}.",
        hint="Choose another name: a frozen set tags the version that its rows are of.",
    )


def _identity(location: DatasetLocation, pin: PinnedVersion) -> str:
    branch = None if pin.branch is None else refs.read_branch(location, pin.branch)
    return "" if branch is None else branch.identity


def _names(tag: Tag, pin: PinnedVersion) -> bool:
    return (tag.branch, tag.version) == (pin.branch, pin.version)


def _check_tags_free(location: DatasetLocation, name: str, pin: PinnedVersion) -> None:
    tag = refs.read_tag(location, name)
    if tag is not None and not _names(tag, pin):
        raise _tag_taken(tag)
    if refs.read_tag(location, plan_tag(name)) is not None:
        raise AlreadyExists(f"The tag '{plan_tag(name)}' is there, and is of no frozen set.", hint="Delete it.")


def _ready_branch(location: DatasetLocation, name: str, pin: PinnedVersion) -> str:
    """The branch for the plan, made from the source. One without a plan is what a killed call left behind."""
    branch = refs.read_branch(location, plan_branch(name))
    if branch is not None and not _is_left_over(location, branch):
        raise AlreadyExists(
            f"There is a branch '{branch.name}', which is not the plan of a frozen set.", hint="Choose another name."
        )
    if branch is not None and branch.fork != PinnedVersion(pin.branch, pin.version):
        delete_branch(location, branch.name)
        branch = None
    if branch is None:
        create_branch_at(location, plan_branch(name), pin)
    return plan_branch(name)


def _is_left_over(location: DatasetLocation, branch: Branch) -> bool:
    """Whether a branch has nothing of its own but plans."""
    newest = pin_latest(location, branch.name)
    return newest.version == branch.parent_version or read_lineage(location, newest) is not None


class _FrozenRows:
    """Rows on their way into a plan."""

    def __init__(
        self, location: DatasetLocation, pin: PinnedVersion, spec: FreezeSpec, engine: Engine, at_once: int
    ) -> None:
        read = _checked_read(location, pin, spec)
        fragments = fragment_sizes(location, pin)
        columns = read_schema(read)
        width = row_width([columns.field(name) for name in (*spec.by, ROW_ID, ROW_ADDRESS)])
        work = Work(copies=len(fragments), copied_bytes=int(sum(each.live_rows for each in fragments) * width))
        self.runner: Runner = engine.for_work(OPERATION, work)
        self._spec = spec
        self._at_once = at_once
        wanted = pa.schema([columns.field(name) for name in (*spec.by, ROW_ID, ROW_ADDRESS)])
        self._plan: ReadPlan = plan_read(read, wanted, self.runner.parallelism)

    def draw(self) -> Frame:
        """All rows that pass the filter, with their hashes."""
        scan = self._plan.scan
        fragments = fragment_sizes(scan.location, scan.pin)
        counts = accumulate((each.live_rows for each in fragments), initial=0)
        firsts = {each.fragment_id: first for each, first in zip(fragments, counts, strict=False)}
        snapshot = read_snapshot(scan.location, scan.pin)
        deletions = {fragment.id: snapshot.deletions_of(fragment) for fragment in snapshot.contents.fragments()}
        tasks = [
            DrawTask(part, {key: firsts[key] for key in part.fragment_ids},
                     {key: deletions[key] for key in part.fragment_ids})
            for part in self._plan.partitions
        ]  # fmt: skip
        frame = self.runner.flat_map("hash rows", tasks, partial(draw_rows, scan, self._spec), DRAWN)
        return self.runner.keep(frame)

    def count(self, drawn: Frame) -> list[SplitSize]:
        """Rows of each split. Raises Refused for rows without a group, and if there are no rows."""
        frame = self.runner.map("count rows", drawn, count_splits, COUNTS)
        found = self.runner.collect("count rows", frame).group_by("split").aggregate([("rows", "sum")])
        rows: dict[int, int] = dict(zip(found["split"].to_pylist(), found["rows_sum"].to_pylist(), strict=True))
        if NO_GROUP in rows:
            columns = " or ".join(f"'{name}'" for name in self._spec.by)
            known = " AND ".join(f"{name} IS NOT NULL" for name in self._spec.by)
            raise Refused(
                f"{rows[NO_GROUP]:,} rows have no {columns}: whether they belong to one group is not known.",
                hint=f"Leave them out with filter={known!r}, or give each a value.",
            )
        if not rows:
            raise Refused("There are no rows to freeze.", hint="Look at the filter with t.count_rows(filter).")
        splits = self._spec.splits
        return [SplitSize(name, share, rows.get(number, 0)) for number, (name, share) in enumerate(splits)]

    def plan(self, drawn: Frame, sizes: list[SplitSize]) -> Any:
        """The rows of the plan in its order, some at a time."""
        writer = PlanWriter([size.name for size in sizes])
        if sum(size.rows for size in sizes) <= self._at_once:
            drawn = self.runner.collect("collect the plan", drawn)
        for part in slices([size.rows for size in sizes], self._at_once):
            rows = writer.positioned(part, self._slice(drawn, part))
            if rows.num_rows:
                yield rows

    def _slice(self, drawn: Frame, part: Slice) -> pa.Table:
        if isinstance(drawn, pa.Table):
            return pa.Table.from_batches(rows_of(part, iter(drawn.to_batches())), drawn.schema)
        stage = f"collect split {part.split}"
        return self.runner.collect(stage, self.runner.map(stage, drawn, partial(rows_of, part), DRAWN))


def _checked_read(location: DatasetLocation, pin: PinnedVersion, spec: FreezeSpec) -> PinnedRead:
    """The read of the rows. Raises NotFound and InvalidOption for the columns to group by."""
    stored = scanning.stored_schema(location, pin)
    blobs = scanning.blob_columns(location, pin)
    for name in spec.by:
        if name not in stored.names:
            raise unknown_column(name, stored.names)
        if name in blobs:
            raise InvalidOption(f"Column '{name}' holds blobs, by which rows cannot be grouped.")
        check_key_type(name, stored.field(name).type)
    return PinnedRead(location, pin, ReadOptions(filter=spec.filter, with_row_id=True, with_row_address=True))
