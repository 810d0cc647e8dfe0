"""Builds the segments of one index on an engine; what was built for one attempt serves the next one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from lance_spark.actions.denied import left_after
from lance_spark.actions.indexes.look import Look
from lance_spark.backfill.keys import field_ids
from lance_spark.errors import LanceSparkError, PermissionDenied, may_have_happened
from lance_spark.indexing.coverage import merge_groups, task_count, task_groups
from lance_spark.indexing.kinds import find_column, find_kind
from lance_spark.indexing.training import plan_training
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.snapshot import columns
from lance_spark.runner.interface import Engine, Runner
from lance_spark.runner.local import LOCAL
from lance_spark.runner.work import Work
from lance_spark.store.index_build import BUILT, SegmentOrder, build_segment, merge_built, train, unpack
from lance_spark.store.index_commit import delete_segments, discard_segments

OPERATION = "index"


class _Built(NamedTuple):
    segment: Any
    """As pylance describes it."""
    fragments: tuple[Fragment, ...]
    """The fragments as they were when they were indexed."""
    ids: frozenset[int]
    """Ids of the fields of the column, then."""


class SegmentBuilder:
    """The segments of one call. A segment serves as long as its fragments have the values that it was built from."""

    def __init__(self, location: DatasetLocation, branch: str | None, engine: Engine) -> None:
        self._location = location
        self._branch = branch
        self._engine = engine
        self._made: list[_Built] = []
        self._written: set[str] = set()
        self._order: SegmentOrder | None = None
        self.ran_on = ""

    def segments(self, look: Look, order: SegmentOrder, wanted: Collection[int]) -> list[Any]:
        """Segments for fragments of a version, as pylance describes them; those that are not there yet are built."""
        ids = self._ids(look, order.column)
        self._made = [
            built
            for built in self._made
            if self._fits(built, look, ids) and all(fragment.id in wanted for fragment in built.fragments)
        ]
        have = {fragment.id for built in self._made for fragment in built.fragments}
        rest = {fragment.id: fragment for fragment in look.contents.fragments() if fragment.id in {*wanted} - have}
        if rest:
            for segment in self._build(look, order, [*rest.values()]):
                covered = tuple(rest[key] for key in sorted(segment.fragment_ids))
                self._made.append(_Built(segment, covered, ids))
        return [built.segment for built in self._made]

    def still_fit(self, look: Look, column: str) -> bool:
        """Whether all that was built is as right for a later version."""
        ids = self._ids(look, column)
        return all(self._fits(built, look, ids) for built in self._made)

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """Delete what was built and not committed, unless the commit may have happened although it seemed to fail."""
        try:
            yield
        except LanceSparkError as failure:
            if isinstance(failure, PermissionDenied) and failure.before_commit:
                undo = partial(delete_segments, self._location, self._branch, self._written)
                raise failure.saying(left_after(undo, "files of the index")) from None
            if not may_have_happened(failure):
                discard_segments(self._location, self._branch, self._written)
            raise

    def done(self) -> None:
        """Delete the segments that were merged into others, or that did not serve."""
        used = {str(built.segment.uuid) for built in self._made}
        discard_segments(self._location, self._branch, self._written - used)
        self._written.clear()

    def _build(self, look: Look, order: SegmentOrder, fragments: Sequence[Fragment]) -> list[Any]:
        rows = {fragment.id: look.rows[fragment.id] for fragment in fragments}
        work = Work(copies=len(rows), copied_bytes=sum(fragment.size for fragment in fragments))
        runner = self._engine.for_work(OPERATION, work)
        self.ran_on = runner.name
        order = self._trained(look, order, rows)
        asked = order.settings.get("num_segments")
        # Here pylance uses all cores by itself, for one segment at a time.
        side_by_side = 1 if runner.name == LOCAL else runner.parallelism
        groups = task_groups(rows, rows, task_count(rows, rows, side_by_side, asked))
        places = merge_groups(len(groups), asked)
        whole = len(places) == len(groups)
        built = self._run(runner, "build segments", groups, partial(build_segment, order, whole=whole))
        if not whole:
            parts = [tuple(built[at] for at in place) for place in places]
            ready = [] if find_kind(order.kind).is_staged else [part[0] for part in parts if len(part) == 1]
            left = [part for part in parts if part[0] not in ready]
            built = ready + self._run(runner, "merge segments", left, partial(merge_built, order))
        return [unpack(segment) for segment in built]

    def _run(self, runner: Runner, stage: str, items: Sequence[Any], function: Any) -> list[bytes]:
        frame = runner.flat_map(stage, items, function, BUILT)
        built: list[bytes] = runner.collect(stage, frame)["segment"].to_pylist()
        self._written |= {str(unpack(segment).uuid) for segment in built}
        return built

    def _trained(self, look: Look, order: SegmentOrder, rows: dict[int, int]) -> SegmentOrder:
        kind = find_kind(order.kind)
        if not kind.is_vector:
            return order
        if self._order is None:
            dimension = find_column(look.schema, order.column).type.list_size
            training = plan_training(kind, order.settings, dimension, sum(rows.values()))
            self._order = order._replace(model=train(order, training, rows))
        return order._replace(model=self._order.model)

    def _fits(self, built: _Built, look: Look, ids: frozenset[int]) -> bool:
        now = {fragment.id: fragment for fragment in look.contents.fragments()}
        return built.ids == ids and all(
            fragment.id in now
            and columns(now[fragment.id], ids) == columns(fragment, ids)
            and now[fragment.id].row_ids == fragment.row_ids
            for fragment in built.fragments
        )

    def _ids(self, look: Look, column: str) -> frozenset[int]:
        schema = look.schema
        top = column if schema.get_field_index(column) >= 0 else column.split(".")[0]
        return frozenset(field_ids(look.contents.fields, (top,)).get(top, ()))
