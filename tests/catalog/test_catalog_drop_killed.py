"""A drop that is killed at any moment leaves the table whole, or a remainder that is told, counted and collected."""

import os
import signal
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest
from support.catalogs import ids_of, make_table, tables
from support.local_datasets import numbers
from support.processes import PATIENCE, processes

from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.removing import collect_orphans, drop_table, plan_orphans

CHANGES = ("os.remove", "os.rmdir", "os.rename")
MODES = {"v1": "t", "v2": "t", "compatibility": "t", "compatibility, in a namespace": "ns.t"}
AT = [at if at in (2, 9, 11) else pytest.param(at, marks=pytest.mark.when(day=0)) for at in range(25)]


def die_at(number, uri, mode, name):
    """Drop the table, and end at that change of the disk."""
    left = number

    def count(event, _arguments):
        nonlocal left
        if event in CHANGES:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    drop_table(open_catalog(uri, mode=mode), name)


def killed(uri, mode, name, number):
    process = processes().Process(target=die_at, args=(number, uri, mode, name))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def made(uri, mode, name):
    catalog = open_catalog(uri, mode=mode)
    if "." in name:
        create_namespace(catalog, "ns")
    declared = make_table(catalog, name)
    lance.write_dataset(numbers(2, 9), declared.location.uri, mode="append")
    return catalog


def check_after(catalog, name):
    """The table is whole, or its name is free and what is left of it is found and goes."""
    namespace = name.rpartition(".")[0]
    if tables(catalog, namespace):
        assert ids_of(catalog, name) == [0, 1, 2, 9, 10]
        drop_table(catalog, name)
    now = datetime.now(timezone.utc)
    plan = plan_orphans(catalog, now, timedelta(0))
    assert {orphan.kind for orphan in plan.kept} <= {"dataset"}  # whole: another tool may have deregistered it
    collect_orphans(plan_orphans(catalog, now, timedelta(0), datasets=True))
    left = [path for path in Path(catalog.uri).rglob("*") if path.is_file() and "__manifest" not in path.parts]
    assert left == []
    assert not tables(catalog, namespace)
    make_table(catalog, name)
    assert ids_of(catalog, name) == [0, 1, 2]


@pytest.mark.parametrize("case", MODES)
@pytest.mark.parametrize("number", AT)
def test_a_drop_that_is_killed_leaves_nothing_for_ever(tmp_path, case, number):
    mode, name = case.partition(",")[0], MODES[case]
    catalog = made(str(tmp_path), mode, name)
    if killed(str(tmp_path), mode, name, number):
        check_after(catalog, name)
    else:
        assert not tables(catalog, name.rpartition(".")[0])
