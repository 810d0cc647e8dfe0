"""Two verbs at once on one branch: the first has read, planned and written its files when the second one commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
from lance.optimize import Compaction

from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.session_spark import engine_of
from lance_spark.errors import Conflict
from lance_spark.format.evolution import AddColumn
from lance_spark.indexes.index_rules import IndexRequest
from lance_spark.indexes.indexes import create_index
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.restore import restore
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import delete_where, finish
from lance_spark.storage.datasets import pin_latest
from lance_spark.streams.sink import commit_stream
from lance_spark.tables import write as tables
from support.local_datasets import prepare
from support.row_changes import SCHEMA, some, written
from support.stream_queries import Query

BOTH, CONFLICT, AGAIN = "both", "conflict", "again"
"""Both count, as if one had run after the other; the first ends with a Conflict; the first commits, plans or computes
again, and both count."""
_ENGINE = engine_of(None, run_on="local")
Run = Callable[[], object]


def isolated_table(uri: str) -> DatasetLocation:
    """Ids 0 to 9, and 10 to 19 in a second version and fragment. Branch ``exp`` has id 500 as well."""
    lance.write_dataset(some(range(10)), uri)
    lance.write_dataset(some(range(10, 20), x=1), uri, mode="append")
    location = DatasetLocation.at(uri)
    create_branch(location, "exp", RefSpec())
    lance.write_dataset(some([500]), location.branch_uri("exp"), mode="append")
    return location


def _number(second: bool) -> int:
    """Each verb has rows of its own for the one that comes second: no pair touches the same row."""
    return 10 if second else 0


def _rows(location: DatasetLocation, actions: Any, meets: Callable[[int], bool]) -> Run:
    def met(pin: PinnedVersion, fragments: Any) -> bool:
        dataset = lance.dataset(location.branch_uri(pin.branch), version=pin.version)
        found = dataset.scanner(fragments=[dataset.get_fragment(key) for key in fragments]).to_table()
        return any(meets(row) for row in found["id"].to_pylist())

    change = written(location, None, actions, met)
    return lambda: finish(change)


def _append(location: DatasetLocation, at: int) -> Run:
    job, fragments = prepare(location.uri, some([100 + at]))
    return lambda: tables.finish(job, fragments)


def _overwrite(location: DatasetLocation, at: int) -> Run:
    job, fragments = prepare(location.uri, some([200 + at]), overwrite=True, overwrite_schema="false")
    return lambda: tables.finish(job, fragments)


def _overwrite_itself(location: DatasetLocation, at: int) -> Run:
    version = pin_latest(location, None).version
    job, fragments = prepare(location.uri, some([210 + at]), overwrite=True, validate_from_version=version)
    return lambda: tables.finish(job, fragments)


def _replace(location: DatasetLocation, at: int) -> Run:
    rows = some([220 + at]).append_column("more", pa.array(["x"]))
    job, fragments = prepare(location.uri, rows, overwrite=True)
    return lambda: tables.finish(job, fragments)


def _delete(location: DatasetLocation, at: int) -> Run:
    return lambda: delete_where(location, None, f"id = {1 + at}", _ENGINE)


def _update(location: DatasetLocation, at: int) -> Run:
    key = 2 + at
    return _rows(location, [(UPDATE, {"id": key, "x": 50, "day": "new"})], lambda found: found == key)


def _merge_rows(location: DatasetLocation, at: int) -> Run:
    key, new = 3 + at, 300 + at
    actions = [(UPDATE, {"id": key, "x": 60, "day": "new"}), (INSERT, {"id": new, "x": 60, "day": "new"})]
    return _rows(location, actions, lambda found: found in (key, new))


def _overwrite_part(location: DatasetLocation, at: int) -> Run:
    key = 4 + at
    actions = [(DELETE, {"id": key}), (INSERT, {"id": key, "x": 70, "day": "new"})]
    return _rows(location, actions, lambda found: found == key)


def _alter(location: DatasetLocation, at: int) -> Run:
    return lambda: alter_columns(location, None, [AddColumn((f"z{at}",), pa.int32())], _ENGINE)


def _optimize(location: DatasetLocation, _at: int) -> Run:
    return lambda: optimize(location, None, OptimizeOptions(), _ENGINE)


def _index(location: DatasetLocation, at: int) -> Run:
    return lambda: create_index(location, None, IndexRequest("x" if at else "id"), _ENGINE)


def _restore(location: DatasetLocation, _at: int) -> Run:
    return lambda: restore(location, PinnedVersion(None, 1), _ENGINE)


def _merge_branch(location: DatasetLocation, _at: int) -> Run:
    return lambda: merge(location, pin_latest(location, "exp"), None, MergeOptions(), _ENGINE)


def _stream(location: DatasetLocation, at: int) -> Run:
    query = Query(location.uri, Path(f"{location.uri}.checkpoint{at}"))
    stream, fragments = query.write(some([400 + at]))
    return lambda: commit_stream(stream, fragments, 0)


VERBS: dict[str, Callable[[DatasetLocation, int], Run]] = {
    "append": _append,
    "delete": _delete,
    "update": _update,
    "row merge": _merge_rows,
    "overwrite": _overwrite,
    "overwrite of what it reads": _overwrite_itself,
    "overwrite of a part": _overwrite_part,
    "replace": _replace,
    "alter": _alter,
    "optimize": _optimize,
    "index": _index,
    "restore": _restore,
    "branch merge": _merge_branch,
    "stream batch": _stream,
}


class _Commits:
    """pylance's commits to the table; before the first one, the second verb runs."""

    def __init__(self, uri: str, event: Run) -> None:
        self.uri, self.pending, self.own, self.inside = uri, [event], 0, False
        self._real, self._restore = lance.LanceDataset.commit, lance.LanceDataset.restore
        self._compact = Compaction.commit

    def commit(self, base: Any, *given: Any, **named: Any) -> Any:
        if str(getattr(base, "uri", base)).rstrip("/") == self.uri:
            self._before()
        return self._real(base, *given, **named)

    def restore(self, dataset: Any) -> Any:
        self._before()
        return self._restore(dataset)

    def compact(self, *given: Any) -> Any:
        self._before()
        return self._compact(*given)

    def _before(self) -> None:
        if self.inside:
            return
        self.own += 1
        if self.pending:
            self.inside = True
            self.pending.pop()()
            self.inside = False


@contextmanager
def _watched(commits: _Commits) -> Iterator[None]:
    def restore(dataset: Any) -> Any:
        return commits.restore(dataset)

    with (
        patch.object(lance.LanceDataset, "commit", staticmethod(commits.commit)),
        patch.object(lance.LanceDataset, "restore", restore),
        patch.object(Compaction, "commit", staticmethod(commits.compact)),
    ):
        yield


def race(location: DatasetLocation, first: str, second: str) -> tuple[str, Conflict | None]:
    """What becomes of the first verb if the second one commits right before it does."""
    event = VERBS[second](location, _number(second=True))
    run = VERBS[first](location, _number(second=False))
    commits = _Commits(location.uri, event)
    with _watched(commits):
        try:
            run()
        except Conflict as conflict:
            return CONFLICT, conflict
    assert not commits.pending, "the first verb committed nothing"
    return (AGAIN if commits.own > 1 else BOTH), None


State = tuple[frozenset[int], frozenset[str]]
"""Ids, and columns beyond those of every table."""
START: State = (frozenset(range(20)), frozenset())


def applied(verb: str, second: bool, state: State) -> State:
    """A verb in a model: the state after it."""
    (ids, columns), at = state, _number(second)
    added = {"append": 100, "row merge": 300, "stream batch": 400}
    if verb in added:
        return ids | {added[verb] + at}, columns
    if verb == "delete":
        return ids - {1 + at}, columns
    if verb == "alter":
        return ids, columns | {f"z{at}"}
    if verb == "branch merge":
        return ids | {500}, columns
    replaced = {"overwrite": 200, "overwrite of what it reads": 210, "replace": 220}
    if verb in replaced:
        return frozenset({replaced[verb] + at}), frozenset({"more"}) if verb == "replace" else columns
    return (frozenset(range(10)), frozenset()) if verb == "restore" else (ids, columns)


def effects(location: DatasetLocation) -> State:
    """What is in the table now; pylance can read it, and no row is there twice."""
    dataset = lance.dataset(location.uri)
    dataset.validate()
    found = dataset.to_table()["id"].to_pylist()
    assert len(found) == len(set(found))
    return frozenset(found), frozenset(dataset.schema.names) - frozenset(SCHEMA.names)
