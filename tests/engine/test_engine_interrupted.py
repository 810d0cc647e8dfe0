"""Ctrl-C while a verb works in this process: the main thread gets the signal, and nothing is committed after it."""

import gc
import os
import signal

import pytest
from support.merge_datasets import add, forked, head

from lance_spark import LanceTable


@pytest.fixture
def table(tmp_path):
    """30 rows on main in three fragments, and on branch 'exp' five more."""
    uri = forked(str(tmp_path / "flights.lance"))
    add(uri, 30, 35, "exp")
    return LanceTable.for_path(uri)


@pytest.fixture(autouse=True)
def python_takes_the_signal():
    """Python's own handler, and no garbage collection: an exception inside a callback of the collector (the test
    libraries have one) is printed and lost, and a Spark session that has ended leaves a handler that fails."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)


def everything(table):
    """The versions of main and exp, and all refs, with those that lists leave out."""
    versions = [[each["version"] for each in head(table.location.uri, branch).versions()] for branch in (None, "exp")]
    dataset = head(table.location.uri)
    return versions, sorted(dataset.branches.list()), sorted(dataset.tags.list())


def written(tx):
    add(tx.location.uri, 40, 45, tx.ref.branch)


def interrupted_transaction(table):
    with table.transaction() as tx:
        written(tx)
        press_ctrl_c()


def interrupted_audit(table):
    with table.transaction(audit=press_ctrl_c) as tx:
        written(tx)


VERBS = {
    "merge": lambda table: table.branches.merge("exp", progress=press_ctrl_c),
    "optimize": lambda table: table.optimize(sort_by="v", progress=press_ctrl_c),
    "transaction": interrupted_transaction,
    "audit": interrupted_audit,
}


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_committed_after_an_interrupt(table, verb):
    before = everything(table)
    with pytest.raises(KeyboardInterrupt):
        VERBS[verb](table)
    assert everything(table) == before
