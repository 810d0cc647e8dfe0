"""Changes of rows and columns whose process is killed at any moment: all or nothing, and a second try ends well."""

import signal
import time
from random import Random

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.processes import PATIENCE, processes
from support.row_changes import changing_table, rows_of, written

from lance_spark.columns.columns import add_filled_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.location import DatasetLocation
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import finish

pytestmark = pytest.mark.slow

KEYS = (1, 8, 14, 19, 25)
"""In each fragment some."""


def delete(location, branch):
    finish(written(location, branch, [(DELETE, {"id": key}) for key in KEYS]))


def update(location, branch):
    finish(written(location, branch, lambda rows: [(UPDATE, {**rows[key], "x": 500}) for key in KEYS]))


def merge(location, branch):
    def actions(rows):
        found = [(UPDATE, {**row, "x": 500}) for key, row in rows.items() if key in KEYS]
        return [*found, (DELETE, rows[2]), (INSERT, {"id": 100, "x": 500, "day": "new"})]

    finish(written(location, branch, actions))


def add_columns(location, branch):
    add_filled_columns(location, branch, _values(location, "y"), BackfillOptions())


def update_columns(location, branch):
    update_filled_columns(location, branch, _values(location, "x"), BackfillOptions())


def _values(location, name):
    def function(batch):
        return {name: [None if key is None else -key for key in batch["id"].to_pylist()]}

    return LocalValues(location, function, **{name: pa.int32()})


VERBS = {
    delete: lambda rows: [row for row in rows if row["id"] not in KEYS],
    update: lambda rows: [{**row, "x": 500} if row["id"] in KEYS else row for row in rows],
    merge: lambda rows: [
        *({**row, "x": 500} if row["id"] in KEYS else row for row in rows if row["id"] != 2),
        {"id": 100, "x": 500, "day": "new"},
    ],
    add_columns: lambda rows: [{**row, "y": None if row["id"] is None else -row["id"]} for row in rows],
    update_columns: lambda rows: [{**row, "x": None if row["id"] is None else -row["id"]} for row in rows],
}


def run(end, uri, branch, verb):
    end.send("begins")
    verb(DatasetLocation.at(uri), branch)
    end.send("ended")


def killed_after(seconds, location, branch, verb):
    """Whether it was killed before it had ended."""
    context = processes()
    ours, theirs = context.Pipe()
    process = context.Process(target=run, args=(theirs, location.uri, branch, verb))
    process.start()
    assert ours.poll(PATIENCE)
    assert ours.recv() == "begins"
    time.sleep(seconds)
    process.kill()
    process.join(PATIENCE)
    theirs.close()
    try:
        ended = ours.poll(0) and ours.recv() == "ended"
    except EOFError:  # nothing more came
        ended = False
    return process.exitcode == -signal.SIGKILL and not ended


def state(location, branch):
    lance.dataset(location.branch_uri(branch)).validate()
    return sorted(rows_of(location, branch), key=lambda row: (row["id"] is None, row["id"]))


@pytest.mark.parametrize("moments", [2, pytest.param(40, marks=pytest.mark.when(day=0))])
@pytest.mark.parametrize("verb", VERBS)
def test_it_is_there_whole_or_not_at_all(tmp_path, verb, moments):
    chance, wanted = Random(f"{verb.__name__} {moments}"), VERBS[verb]
    started = time.perf_counter()
    verb(changing_table(str(tmp_path / "measured.lance"), "exp", stable=True), "exp")
    whole = time.perf_counter() - started
    interrupted = 0
    for number in range(moments):
        branch, stable = ("exp", True) if number % 2 else (None, False)
        location = changing_table(str(tmp_path / f"{number}.lance"), branch, stable)
        before = state(location, branch)
        after = sorted(wanted(before), key=lambda row: (row["id"] is None, row["id"]))
        interrupted += killed_after(chance.uniform(0, whole), location, branch, verb)
        found = state(location, branch)
        assert found in (before, after)
        if found == before:
            verb(location, branch)
            assert state(location, branch) == after
        assert len(lance.dataset(location.branch_uri(branch)).to_table()) == len(after)
    assert interrupted or moments < 10
