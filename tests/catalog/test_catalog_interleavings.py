"""One operation in the middle of another one, at every step: what those did who were told so, and nothing else.

A step is a marker that is read, made or removed, files that are copied or erased, or a commit to ``__manifest``. Before
each of them somebody else's whole operation happens. Afterwards the catalog has to be as if those that were told "ok"
had been done one after the other, in one of the orders, and those that failed had not been done at all.
"""

import shutil
from contextlib import contextmanager
from functools import partial
from itertools import count, permutations

import lance
import pyarrow as pa
import pytest
from support.catalog_work import assert_sound, attempt
from support.catalogs import namespaces, tables

from lance_spark.catalog import directories, manifest_commits, removing
from lance_spark.catalog import tables as declaring
from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.tables import declare_table, deregister_table

STEPS = (
    (directories, "put_new"),
    (directories, "remove"),
    (directories, "remove_if"),
    (directories, "replace"),
    (directories, "content_of"),
    (removing, "copy_new_files"),
    (removing, "erase"),
    (declaring, "look_at"),
    (manifest_commits, "_write"),
)
OPERATIONS = {
    "create": ("create", "a", 1),
    "create the new name": ("create", "b", 2),
    "withdraw": ("withdraw", "a"),
    "drop": ("drop", "a"),
    "rename": ("rename", "a", "b"),
    "rename into a namespace": ("rename", "a", "ns.a"),
    "deregister": ("deregister", "a"),
    "register": ("register", "a", "a.lance"),
}
PARTS = {
    "create": (("reserve", "a"), ("declare", "a"), OPERATIONS["create"]),
    "withdraw": (("reserve", "a"), ("declare", "a")),
}
"""What others may have seen of an operation that failed."""
FAILURES = {"NotFound", "AlreadyExists", "Conflict"}


def rows_of(value):
    return pa.table({"id": pa.array([value], pa.int64())})


def nothing(_):
    pass


def declared(catalog):
    declare_table(catalog, "a")


def written(catalog):
    lance.write_dataset(rows_of(7), declare_table(catalog, "a").location.uri)


def of_v1(catalog):
    lance.write_dataset(rows_of(7), f"{catalog.uri}/a.lance")


def deregistered(catalog):
    written(catalog)
    deregister_table(catalog, "a")


MAKE, TAKE = ("create", "withdraw"), ("drop", "rename", "deregister", "register")
CASES = (
    (nothing, MAKE, (*MAKE, *TAKE)),
    (declared, TAKE, ("create", *TAKE)),
    (written, ("drop", "rename", "rename into a namespace"), ("create the new name", "drop", "rename", "deregister")),
    (of_v1, TAKE, TAKE),
    (deregistered, ("drop", "register"), ("create", "drop", "register")),
)
"""What there is before, which operation is interrupted, and which one comes in between. All that can meet does."""


@pytest.fixture(scope="module")
def fresh(request, tmp_path_factory):
    """A function that gives a catalog in the same state each time."""
    root = tmp_path_factory.mktemp("catalogs")
    first = open_catalog(str(root / "first"))
    create_namespace(first, "ns")
    request.param(first)
    numbers = count()

    def again():
        target = root / str(next(numbers))
        shutil.copytree(first.uri, target)
        return open_catalog(str(target))

    yield again
    shutil.rmtree(root)


def state(catalog):
    """What everybody sees: tables with who made them, and names that are kept by a deregistered table."""
    values = assert_sound(catalog)
    seen = {name: values.get(name, "declared") for name in tables(catalog, recursive=True)}
    assert namespaces(catalog, recursive=True) == ["ns"]
    return seen


@contextmanager
def interrupted(monkeypatch, step, act):
    """Before the given step another process acts; gives its outcome in a list, which is empty without such a step."""
    counted, outcomes, busy = count(), [], []

    def hooked(function):
        def call(*given, **named):
            if not busy and next(counted) == step:
                busy.append(True)
                outcomes.append(act())
            return function(*given, **named)

        return call

    with monkeypatch.context() as patch:
        for module, name in STEPS:
            patch.setattr(module, name, hooked(getattr(module, name)))
        yield outcomes


def expected(fresh, done):
    """The states after some operations, in each order in which all of them succeed."""
    states = []
    for order in permutations(done):
        catalog = fresh()
        if all(attempt(catalog, *given)[0] == "ok" for given in order):
            states.append(state(catalog))
    return states


@pytest.mark.when(day=0.07)
@pytest.mark.parametrize(
    ("fresh", "first", "second"),
    [
        pytest.param(start, first, second, id=f"{start.__name__}-{first}-{second}")
        for start, firsts, seconds in CASES
        for first in firsts
        for second in seconds
    ],
    indirect=["fresh"],
)
def test_two_operations_end_as_if_one_came_after_the_other(fresh, monkeypatch, first, second):
    monkeypatch.setattr(manifest_commits, "index_if_possible", lambda _: None)  # it takes longer than all the rest
    ours, theirs = OPERATIONS[first], OPERATIONS[second]
    known = {}
    for step in count():
        catalog = fresh()
        between = partial(attempt, catalog, *theirs)
        with interrupted(monkeypatch, step, between) as outcomes:
            result = attempt(catalog, *ours)
        if not outcomes:
            return
        outcomes.append(result)
        assert {kind for kind, _ in outcomes} <= {"ok", *FAILURES}, (step, outcomes)
        done = tuple(
            given
            for given, (kind, what) in zip((theirs, ours), outcomes, strict=True)
            if kind == "ok" and what is not False
        )
        if done not in known:
            known[done] = expected(fresh, done)
            if ours not in done:  # the others may have seen what was taken back later
                known[done] += [found for part in PARTS.get(first, ()) for found in expected(fresh, (part, *done))]
        assert state(catalog) in known[done], (step, outcomes)
