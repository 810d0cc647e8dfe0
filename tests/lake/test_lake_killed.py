"""A publisher that gets SIGKILL before any of its changes: readers and the next process find all of it, or nothing."""

import os
import signal

import pytest
from support.branched_lakes import Mortal, delete_row, make_lake, state, write
from support.kinds import NIGHT
from support.processes import processes

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.errors import Conflict

OLD = [0, 1, 2]
TABLES = ("a", "ns.b", "ns.c")
BEFORE = dict.fromkeys(TABLES, OLD)
STEPS = range(1, 200) if NIGHT else (3, 10, 16, 200)


class Killed(Mortal):
    """The process gets SIGKILL, as from a scheduler or for want of memory."""

    def step(self) -> None:
        self.changes += 1
        if self.changes == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def publish(root: str, at: int, conflicting: bool) -> None:
    """Merge branch 'etl'; ``conflicting``: main replaces a changed table once the publish is decided."""
    lake = LanceCatalog(root)
    write_journal = journals.write_journal

    def interfered(*given):
        done = write_journal(*given)
        write(lake, "ns.c", 50, overwrite=True)
        return done

    if conflicting:
        journals.write_journal = interfered
    with Killed(root, at).living():
        try:
            lake.branches.merge("etl")
        except Conflict:
            assert conflicting
        os._exit(7)


@pytest.mark.when(day={"conflicting": [True]})
@pytest.mark.parametrize("conflicting", [False, True])
def test_killed_before_any_change_all_or_nothing_is_published(tmp_path, conflicting):
    for at in STEPS:
        lake = make_lake(f"{tmp_path}/{at}", TABLES)
        lake.branches.create("etl")
        etl = lake.checkout(branch="etl")
        write(etl, "a", 10)
        delete_row(etl, "ns.c", 2)
        write(etl, "ns.new", 9)
        etl.drop_table("ns.b")
        after = {"a": [*OLD, 10], "ns.c": [0, 1], "ns.new": [9]}
        early = lake.checkout(published=True)
        process = processes().Process(target=publish, args=(lake.catalog.uri, at, conflicting))
        process.start()
        process.join(60)
        assert process.exitcode in (7, -signal.SIGKILL), process.exitcode
        late = lake.checkout(published=True)
        seen = state(late)
        interfered = state(lake)["ns.c"] == [50]
        main = {**BEFORE, "ns.c": [50]} if interfered else BEFORE
        assert seen in (main, after)
        assert state(early) == main
        ended = lake.recover()
        assert ended is None or ended.state == ("taken back" if interfered else "published")
        assert state(lake) in ((main,) if interfered else (main, after))
        assert state(late) == seen
        assert lake.recover() is None
        if not interfered:
            lake.branches.merge("etl")
            assert state(lake) == after
        if process.exitcode == 7:
            break
    assert process.exitcode == 7, "the last one lived"
