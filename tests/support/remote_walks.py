"""Random walks over a source, three clones and branches in each: whoever wrote a row alone changes it.

So nothing clashes, and at the end everybody has each row once, as its writer left it. Only where all versions that
could tell were cleaned up a pull may be refused; then it is reset, and what its clone had for itself no longer counts.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.merge.merge import cherry_pick, merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import push
from lance_spark.remotes.reset import reset
from lance_spark.storage.datasets import locate, pin_latest
from support.cleanup_datasets import place
from support.killed import Killed
from support.remote_datasets import tell_steps

SOURCE, CLONES = "s", ("a", "b", "c")
TAME = ("append", "append", "update", "delete", "compact", "pull", "pull", "push", "push", "branch", "merge", "merge")
WILD = (*TAME, "order", "clean", "pick", "kill", "kill")
_RUNNER = LocalRunner(1)
_ALL = CleanupPolicy(
    older_than=timedelta(0), commit_window=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
)
_UNKNOWN = ("no longer has any of its files", "picked, reverted or restored")
"""Conflicts of a merge where nothing can tell what is right."""
_SAME_ROWS = "both sides deleted or updated the same rows"


class Walk:
    """One walk."""

    def __init__(self, seed: int, moves: tuple[str, ...]) -> None:
        self.chance, self.moves = random.Random(seed), moves
        self.directory = tempfile.mkdtemp()
        self.rows: dict[int, tuple[tuple[str, str | None], int | None]] = {}
        """Who wrote a row, and its value; None for a deleted one."""
        self.loose: set[str] = set()
        """Datasets with rows that no longer count."""
        self.told: list[tuple[str, str, str | None]] = []
        stable = self.chance.random() < 0.5
        lance.write_dataset(self._new((SOURCE, None), 3), self.uri(SOURCE), enable_stable_row_ids=stable)
        self.remote = Remote("origin", locate(self.uri(SOURCE)))
        for name in CLONES:
            clone(self.remote, pin_latest(self.remote.location, None), locate(self.uri(name)), _RUNNER)

    def run(self, steps: int) -> None:
        """Walk, then bring everything together. Raises AssertionError with all that was done."""
        try:
            for _ in range(steps):
                name = self.chance.choice((SOURCE, *CLONES))
                branch = self.chance.choice(self.branches(name))
                move = self.chance.choice(self.moves)
                self.told.append((move, name, branch))
                getattr(self, f"_{move}")(name, branch)
                self.check(name)
            self._end()
        except Exception as problem:
            raise AssertionError(f"{self.told}: {type(problem).__name__}: {problem}") from problem
        finally:
            shutil.rmtree(self.directory)

    def uri(self, name: str, branch: str | None = None) -> str:
        return place(f"{self.directory}/{name}.lance", branch)

    def branches(self, name: str) -> list[str | None]:
        known = lance.dataset(self.uri(name)).branches.list()
        return [None, *(branch for branch in known if branch == "side")]

    def found(self, name: str, branch: str | None = None) -> list[tuple[int, int]]:
        rows = lance.dataset(self.uri(name, branch)).to_table().to_pylist()
        return sorted((row["id"], row["v"]) for row in rows)

    def check(self, name: str) -> None:
        """No row is there twice."""
        for branch in self.branches(name):
            ids = [number for number, _ in self.found(name, branch)]
            assert len(ids) == len(set(ids)), (name, branch, ids)

    def _new(self, writer: tuple[str, str | None], count: int) -> pa.Table:
        ids = range(len(self.rows), len(self.rows) + count)
        self.rows |= dict.fromkeys(ids, (writer, 0))
        return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([0] * count, pa.int64())})

    # --- Moves

    def _append(self, name: str, branch: str | None) -> None:
        lance.write_dataset(self._new((name, branch), self.chance.randint(1, 3)), self.uri(name, branch), mode="append")

    def _some(self, name: str, branch: str | None) -> list[int]:
        here = {number for number, _ in self.found(name, branch)}
        own = [number for number, (writer, _) in self.rows.items() if writer == (name, branch) and number in here]
        return self.chance.sample(own, self.chance.randint(1, len(own))) if own else []

    def _update(self, name: str, branch: str | None) -> None:
        if numbers := self._some(name, branch):
            value = self.chance.randint(1, 10**6)
            where = f"id IN ({', '.join(map(str, numbers))})"
            lance.dataset(self.uri(name, branch)).update({"v": str(value)}, where=where)
            self.rows |= dict.fromkeys(numbers, ((name, branch), value))

    def _delete(self, name: str, branch: str | None) -> None:
        if numbers := self._some(name, branch):
            lance.dataset(self.uri(name, branch)).delete(f"id IN ({', '.join(map(str, numbers))})")
            self.rows |= dict.fromkeys(numbers, ((name, branch), None))

    def _compact(self, name: str, branch: str | None) -> None:
        size = self.chance.choice((2, 4, 1000))
        lance.dataset(self.uri(name, branch)).optimize.compact_files(target_rows_per_fragment=size)

    def _order(self, name: str, branch: str | None) -> None:
        optimize(locate(self.uri(name)), branch, OptimizeOptions(sort_by=["v", "id"], own_only=False), _RUNNER)

    def _clean(self, name: str, _: str | None) -> None:
        time.sleep(0.002)
        plan_cleanup(locate(self.uri(name)), _ALL, _RUNNER, time.time_ns()).apply()

    def _branch(self, name: str, _: str | None) -> None:
        if len(self.branches(name)) == 1:
            create_branch_at(locate(self.uri(name)), "side", pin_latest(locate(self.uri(name)), None))

    def _merge(self, name: str, branch: str | None) -> None:
        for source, into in ((branch, None), (None, branch)) if branch else ():
            if self.chance.random() < 0.5:
                self._merge_into(name, source, into)

    def _merge_into(self, name: str, source: str | None, into: str | None) -> None:
        location = locate(self.uri(name))
        try:
            merge(location, pin_latest(location, source), into, MergeOptions(), _RUNNER)
        except Conflict as problem:
            if self.moves is TAME:
                raise
            if not any(told in str(problem) for told in _UNKNOWN):
                if _SAME_ROWS not in str(problem):
                    raise
                # A pick brought the change before: the hint leads out.
                merge(location, pin_latest(location, source), into, MergeOptions(on=("id",), prefer="theirs"), _RUNNER)
            self.loose.add(name)

    def _pick(self, name: str, branch: str | None) -> None:
        if branch is None:
            return
        location = locate(self.uri(name))
        source, into = self.chance.choice([(branch, None), (None, branch)])
        self.loose.add(name)
        try:
            cherry_pick(location, pin_latest(location, source), into, _RUNNER)
        except (Conflict, Refused):
            return

    def _pull(self, name: str, _: str | None = None) -> None:
        if name == SOURCE:
            return
        location = locate(self.uri(name))
        try:
            pull(location, self.remote, None, None, _RUNNER)
        except (Conflict, Refused) as problem:
            cleaned = any(move == "clean" for move, _, _ in self.told)
            if not cleaned or "reset=True" not in str(problem.hint):
                raise
            self._reset(name)

    def _reset(self, name: str) -> None:
        before = set(self.found(name))
        kept = reset(locate(self.uri(name)), self.remote, None, None, _RUNNER).kept
        self.loose.add(name)
        now = set(self.found(name))
        assert now == set(self.found(SOURCE))
        own = {(number, value) for number, value in before - now if self.rows[number] == ((name, None), value)}
        assert own <= set(self.found(name, kept) if kept else ()), (own, kept)

    def _push(self, name: str, _: str | None = None) -> None:
        if name != SOURCE:
            try:
                push(locate(self.uri(name)), self.remote, None, _RUNNER)
            except Refused as problem:
                if "not a fast-forward" not in str(problem):
                    raise

    def _kill(self, name: str, _: str | None) -> None:
        """A pull or a push ends in the middle."""
        last = self.chance.randrange(30)

        def stop(step: int) -> None:
            if step == last:
                raise Killed

        with pytest.MonkeyPatch.context() as patched:
            tell_steps(stop, patched.setattr)
            try:
                self.chance.choice((self._pull, self._push))(name)
            except Killed:
                return

    # --- The end

    def _end(self) -> None:
        for name in (SOURCE, *CLONES):
            for branch in self.branches(name)[1:]:
                self._merge_into(name, branch, None)
        heads: list[int] = []
        for _ in range(len(CLONES) + 1):
            heads = self._heads()
            for name in CLONES:
                self._pull(name)
                self._push(name)
            if heads == self._heads():
                break
        assert heads == self._heads(), "pulls and pushes never come to an end"
        everything = {place: self.found(place) for place in (SOURCE, *CLONES)}
        assert all(rows == everything[SOURCE] for rows in everything.values()), everything
        self.check(SOURCE)
        counted = {number: value for number, (writer, value) in self.rows.items() if writer[0] not in self.loose}
        there = {number: value for number, value in everything[SOURCE] if number in counted}
        assert there == {number: value for number, value in counted.items() if value is not None}

    def _heads(self) -> list[int]:
        return [int(lance.dataset(self.uri(name)).version) for name in (SOURCE, *CLONES)]
