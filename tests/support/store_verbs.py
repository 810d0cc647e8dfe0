"""Every verb on one small world of datasets and catalogs, what each is to change there, and what pylance finds there.

For the tests with a store that fails: a verb runs in a process of its own, without Spark.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import CleanupPolicy, LanceCatalog, LanceTable
from lance_spark.catalog.entry_rules import RowFilter
from lance_spark.catalog.manifest_commits import read_rows
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, LanceSparkError, StorageFailure
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import delete_where
from lance_spark.rows.rows import finish as finish_rows
from lance_spark.search.search import carry_out, prepare_search
from lance_spark.search.search_rules import parse_search
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate
from lance_spark.storage.files import delete
from lance_spark.storage.resolving import resolve
from lance_spark.streams.sink import commit_stream, plan_stream
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows
from support.row_changes import written

State = dict[str, Any]
"""By ``dataset branch``: its rows, columns and indexes; by ``dataset #tag``: branch and version; by ``lake table``."""
Row = tuple[int, int]
HIDDEN = ("clone-", "merged-", "stream-", "frozen", "origin/", "lake/", "lake-")
"""Refs that protect files for others, or that follow others."""
ENGINE = LocalRunner(2)
ALL_BUT_NEWEST = CleanupPolicy(retain_versions=1, commit_window=timedelta(0), error_if_tagged_old_versions=False)


def rows_of(ids: Any, x: int = 0) -> pa.Table:
    vectors = pa.array([[float(key), 0.0] for key in ids], pa.list_(pa.float32(), 2))
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array([x] * len(ids), pa.int32()), "v": vectors})


@dataclass(frozen=True)
class World:
    """The places below one root, through one way to the store."""

    root: str
    storage: dict[str, str]

    def uri(self, name: str) -> str:
        return f"{self.root}/{name}"

    def location(self, name: str) -> DatasetLocation:
        return locate(self.uri(name), self.storage)

    def table(self, name: str = "flights.lance", **ref: Any) -> LanceTable:
        return LanceTable.for_path(self.uri(name), self.storage, **ref)

    @property
    def lake(self) -> LanceCatalog:
        return LanceCatalog(self.uri("lake"), self.storage)

    @property
    def old_lake(self) -> LanceCatalog:
        return LanceCatalog(self.uri("old"), self.storage)

    def given(self, uri: str, **options: str) -> dict[str, str]:
        return {"path": uri, **{f"storage.{key}": value for key, value in self.storage.items()}, **options}

    def write(self, name: str, ids: Any, overwrite: bool = False, **options: str) -> None:
        table = rows_of(ids)
        job = begin(plan_write(self.given(self.uri(name), **options), table.schema, overwrite))
        finish(job, write_rows(job, table.to_batches()))


# --- The world: made once


def make(world: World) -> None:
    """Flights with branches, tags and old versions; a remote with its clone, each a step ahead; two catalogs."""
    world.write("flights.lance", range(10))
    world.write("flights.lance", range(10, 20))
    flights = world.table()
    for name, version in (("exp", 2), ("other", 2), ("spare", 1)):
        flights.branches.create(name, version=version)
    world.write("flights.lance", [30], branch="exp")
    world.write("flights.lance", [31], branch="exp")
    world.write("flights.lance", [40], branch="other")
    world.write("flights.lance", [90])
    lance.dataset(world.uri("flights.lance"), storage_options=world.storage).delete("id = 90")
    flights.tags.create("v1", version=1)
    flights.tags.create("brief", version=1, expire_after="1s")
    flights.branches.alter("other", owner="somebody")
    world.write("hurt.lance", range(5))
    world.table("hurt.lance").branches.create("lost")
    world.write("hurt.lance", [8], branch="lost")
    world.table("hurt.lance").tags.create("kept", branch="lost")
    delete(world.location("hurt.lance"), ["_refs/branches/lost.json"])
    world.write("origin.lance", range(5))
    world.table("origin.lance").branches.create("theirs")
    world.write("origin.lance", [50], branch="theirs")
    world.table("origin.lance").clone(world.uri("copy.lance"))
    world.write("copy.lance", [60])
    world.write("origin.lance", [51], branch="theirs")
    for name in ("a", "b", "d"):
        declared = world.lake.declare_table(name)
        lance.write_dataset(rows_of(range(3)), declared.location.uri, storage_options=world.storage)
        if name == "d":
            continue
        LanceTable(None, declared.location).branches.create("etl")
        etl = declared.location.branch_uri("etl")
        lance.write_dataset(rows_of([70]), etl, mode="append", storage_options=world.storage)
    lance.write_dataset(rows_of(range(3)), world.uri("old/t.lance"), storage_options=world.storage)


def rival(world: World) -> None:
    """What somebody else does, behind the back of a store that lists late."""
    flights = world.table()
    world.write("flights.lance", [99])
    world.write("flights.lance", [98], branch="exp")
    flights.branches.create("rival", version=3)
    flights.tags.create("rival", version=2)
    table = world.lake.describe_table("a").location
    lance.write_dataset(rows_of([97]), table.uri, mode="append", storage_options=world.storage)


# --- The state, by pylance


def look(world: World, places: Sequence[str]) -> State:
    """What is at these places, read by pylance from scratch; every version that is listed is read as well."""
    found: State = {}
    for name in places:
        if name.endswith(".lance"):
            found |= _dataset(world, name, world.uri(name)) if _exists(world, world.uri(name)) else {}
        elif _exists(world, world.uri(f"{name}/__manifest")):
            found |= _lake(world, name)
    return found


def _lake(world: World, name: str) -> State:
    lake = LanceCatalog(world.uri(name), world.storage)
    found: State = {}
    for row in read_rows(lake.catalog.manifest, RowFilter(everything=True)).entries:
        found[f"{name} {row.object_id}"] = True
        if row.is_table:
            found |= _dataset(world, f"{name} {row.object_id}", f"{lake.catalog.uri}/{row.location}")
    refs = [*lake.tags.list(), *lake.branches.list()]
    return found | {f"{name} ref {ref.name}": True for ref in refs if ref.ready}


def _exists(world: World, uri: str) -> bool:
    try:
        lance.dataset(uri, storage_options=world.storage)
    except ValueError:
        return False
    return True


def _dataset(world: World, name: str, uri: str) -> State:
    dataset = lance.dataset(uri, storage_options=world.storage)
    found: State = {}
    for branch in (None, *dataset.branches.list()):
        head = dataset if branch is None else dataset.checkout_version((branch, None))
        numbers = [entry["version"] for entry in head.versions()]
        for version in numbers:
            head.checkout_version(version if branch is None else (branch, version)).to_table()
        if not str(branch).startswith(HIDDEN):
            found[f"{name} {branch or 'main'}"] = contents(head)
            found[f"{name} {branch or 'main'} indexes"] = sorted(index.name for index in head.describe_indices())
    for tag, entry in dataset.tags.list().items():
        head = dataset.checkout_version(tag)
        head.to_table()
        if not tag.startswith(HIDDEN):
            found[f"{name} #{tag}"] = (entry["branch"], entry["version"])
    return found


def contents(dataset: lance.LanceDataset) -> tuple[tuple[str, ...], list[Row]]:
    """The columns, and the rows by id."""
    table = dataset.to_table()
    assert table["v"].to_pylist() == [[float(key), 0.0] for key in table["id"].to_pylist()]
    x = table["x" if "x" in table.column_names else "y"].to_pylist() if table.num_columns > 2 else [0] * len(table)
    return tuple(table.column_names), sorted(zip(table["id"].to_pylist(), x, strict=True))


# --- The verbs

FLIGHTS, REMOTES = ("flights.lance", "new.lance"), ("origin.lance", "copy.lance", "new.lance")
Change = Callable[[State], State]
"""From the state before to what is different after it; None is what is gone."""
EXP, MAIN = "flights.lance exp", "flights.lance main"


@dataclass(frozen=True)
class Verb:
    """What a verb does, and what it is to change."""

    run: Callable[[World], Any]
    change: Change = lambda _: {}
    in_steps: bool = False
    """Whether it is several commits: what is interrupted may be there by half, and to repeat it ends it."""
    at: tuple[str, ...] = FLIGHTS
    """The places that it reads and writes: nothing else may change."""
    tells: bool = False
    """Whether what it returns is the same each time."""
    again: bool = True
    """Whether it can be done on top of itself, with the same end. Otherwise an error of ours says that it is done."""


def rows(before: State, name: str, plus: Any = (), minus: Any = (), x: Mapping[int, int] | None = None) -> State:
    """The rows of a branch with others."""
    columns, there = before[name]
    kept = [(key, (x or {}).get(key, value)) for key, value in there if key not in minus]
    return {name: (columns, sorted([*kept, *((key, 0) for key in plus)]))}


def renamed(before: State, old: str, new: str) -> State:
    """What begins with one name, under another one."""
    moved = {key: value for key, value in before.items() if key.startswith(old)}
    return {**dict.fromkeys(moved), **{new + key.removeprefix(old): value for key, value in moved.items()}}


def after(before: State, verb: str) -> State:
    """The state when a verb is done."""
    return {key: value for key, value in {**before, **VERBS[verb].change(before)}.items() if value is not None}


def _read(world: World) -> dict[str, Any]:
    t = world.table()
    found = {}
    for branch in t.branches.list():
        found[f"flights.lance {branch.name}"] = t.checkout(branch=branch.name).count_rows("id >= 0")
    return found


def _optimize(world: World) -> None:
    world.table().optimize(own_only=False)


def _change_rows(world: World) -> None:
    """Update one row, delete another, insert a third: a merge, as executors write it."""

    def actions(there: Mapping[int, Any]) -> list[tuple[int, dict[str, Any]]]:
        wanted = [(UPDATE, 11, 5), (DELETE, 12, 0), (INSERT, 80, 0)]
        return [
            (what, {"id": key, "x": x, "v": [float(key), 0.0]})
            for what, key, x in wanted
            if (key in there) == (what != INSERT)
        ]

    finish_rows(written(world.location("flights.lance"), "exp", actions))


def _search(world: World) -> list[int]:
    location = world.location("flights.lance")
    asked = parse_search([7.0, 0.0], None, "v", (1, None, ["id"]), {})
    found = prepare_search(location, resolve(location, RefSpec(branch="exp")), asked)
    return [int(key) for key in carry_out(found, found.schema, ENGINE)["id"].to_pylist()]


def _stream(world: World) -> None:
    one = rows_of([9_000])
    stream = plan_stream(world.given(world.uri("flights.lance"), branch="exp", query_id="q"), one.schema, False)
    commit_stream(stream, write_rows(stream.job, one.to_batches()), 0)


def _repair(world: World) -> None:
    options = RepairOptions(on_main=True)
    fsck_and_repair(world.location("hurt.lance"), FsckOptions(), options, ENGINE, time.time_ns())


def _expire(world: World) -> None:
    """A ref is warned of first."""
    for _ in range(2):
        world.table().expire_refs(warn=timedelta(0)).apply()


def _look(world: World) -> None:
    t = world.table()
    codes = [finding.code for finding in t.fsck().findings]
    assert not codes, codes
    t.log(all=True), t.reflog()


def _publish(world: World) -> None:
    found = world.lake.recover()
    if found is None or found.state != "published":
        world.lake.publish("etl")


def _named(refs: Any, name: str) -> None:
    """Create a ref of the lake; as its error says, delete first what a call that failed has left of it."""
    try:
        refs.create(name)
    except AlreadyExists:
        if any(ref.name == name and not ref.ready for ref in refs.list()):
            refs.delete(name)
            refs.create(name)
            return
        raise


def _clean(world: World) -> None:
    report = world.table().cleanup(ALL_BUT_NEWEST).apply()
    if not report.complete:
        raise StorageFailure("The cleanup is incomplete, as its report says.")


def _all_rows(before: State, name: str) -> list[int]:
    return [key for key, _ in before[name][1]]


VERBS: dict[str, Verb] = {
    "read": Verb(_read, tells=True),
    "search": Verb(_search, tells=True),
    "log, reflog, fsck": Verb(_look),
    "storage": Verb(lambda world: world.table().storage()),
    "append": Verb(
        lambda world: world.write("flights.lance", [7_000], branch="exp"),
        lambda before: rows(before, EXP, [7_000]),
        again=False,
    ),
    "append to main": Verb(
        lambda world: world.write("flights.lance", [7_000]), lambda before: rows(before, MAIN, [7_000]), again=False
    ),
    "create": Verb(
        lambda world: world.write("new.lance", [7_000]),
        lambda _: {"new.lance main": (("id", "x", "v"), [(7_000, 0)]), "new.lance main indexes": []},
        again=False,
    ),
    "overwrite": Verb(
        lambda world: world.write("flights.lance", [7_000], overwrite=True, branch="exp"),
        lambda before: rows(before, EXP, [7_000], _all_rows(before, EXP)),
    ),
    "delete rows": Verb(
        lambda world: delete_where(world.location("flights.lance"), "exp", "id < 5", ENGINE),
        lambda before: rows(before, EXP, minus=range(5)),
    ),
    "merge rows": Verb(_change_rows, lambda before: rows(before, EXP, [80], [12], {11: 5})),
    "rename a column": Verb(
        lambda world: world.table(branch="exp").rename_columns({"x": "y"}),
        lambda before: {EXP: (("id", "y", "v"), before[EXP][1])},
        again=False,
    ),
    "optimize": Verb(_optimize, in_steps=True),
    "create an index": Verb(
        lambda world: world.table().indexes.create("id"),
        lambda _: {f"{MAIN} indexes": ["id_idx"]},
        in_steps=True,
        again=False,
    ),
    "restore": Verb(
        lambda world: world.table().checkout(branch="exp", version=3).restore(),
        lambda before: rows(before, EXP, minus=[31, 98]),
    ),
    "create a branch": Verb(
        lambda world: world.table().branches.create("new", tag="v1"),
        lambda before: {"flights.lance new": before["flights.lance spare"], "flights.lance new indexes": []},
        again=False,
    ),
    "delete a branch": Verb(
        lambda world: world.table().branches.delete("spare"),
        lambda _: {"flights.lance spare": None, "flights.lance spare indexes": None},
        in_steps=True,
        again=False,
    ),
    "set a branch's owner": Verb(lambda world: world.table().branches.alter("exp", owner="me")),
    "create a tag": Verb(
        lambda world: world.table().tags.create("v2", version=2),
        lambda _: {"flights.lance #v2": (None, 2)},
        again=False,
    ),
    "move a tag": Verb(
        lambda world: world.table().tags.move("v1", version=2), lambda _: {"flights.lance #v1": (None, 2)}
    ),
    "delete a tag": Verb(
        lambda world: world.table().tags.delete("v1"), lambda _: {"flights.lance #v1": None}, in_steps=True, again=False
    ),
    "merge a branch": Verb(
        lambda world: world.table().branches.merge("other"), lambda before: rows(before, MAIN, [40])
    ),
    "cleanup": Verb(_clean, in_steps=True),
    "repair": Verb(
        _repair,
        lambda before: (
            rows({"hurt.lance lost": before["hurt.lance main"]}, "hurt.lance lost", [8])
            | {"hurt.lance lost indexes": []}
        ),
        in_steps=True,
        at=("hurt.lance",),
    ),
    "expire": Verb(_expire, lambda _: {"flights.lance #brief": None}, in_steps=True),
    "freeze a set": Verb(
        lambda world: world.table().frozen.create("set", seed=1),
        lambda before: {"flights.lance #set": (None, 5 if "flights.lance rival" in before else 4)},
        in_steps=True,
    ),
    "stream a batch": Verb(_stream, lambda before: rows(before, EXP, [9_000])),
    "clone": Verb(
        lambda world: world.table("origin.lance").clone(world.uri("new.lance")),
        lambda before: {
            "new.lance main": before["origin.lance main"],
            "new.lance main indexes": [],
        },
        in_steps=True,
        again=False,
        at=REMOTES,
    ),
    "fetch": Verb(lambda world: world.table("copy.lance").remotes.fetch(), in_steps=True, at=REMOTES),
    "push": Verb(
        lambda world: world.table("copy.lance").remotes.push(),
        lambda before: rows(before, "origin.lance main", [60]),
        in_steps=True,
        at=REMOTES,
    ),
    "create a namespace": Verb(
        lambda world: (world.lake.create_namespace("space", exist_ok=True)) or None,
        lambda _: {"lake space": True},
        at=("lake",),
    ),
    "rename a table": Verb(
        lambda world: world.lake.rename_table("d", "c"),
        lambda before: renamed(before, "lake d", "lake c"),
        in_steps=True,
        again=False,
        at=("lake",),
    ),
    "drop a table": Verb(
        lambda world: world.lake.drop_table("b"),
        lambda before: {key: None for key in before if key.startswith("lake b")},
        in_steps=True,
        again=False,
        at=("lake",),
    ),
    "tag the lake": Verb(
        lambda world: _named(world.lake.tags, "t"),
        lambda _: {"lake ref t": True},
        in_steps=True,
        again=False,
        at=("lake",),
    ),
    "branch the lake": Verb(
        lambda world: _named(world.lake.branches, "night"),
        lambda _: {"lake ref night": True},
        in_steps=True,
        again=False,
        at=("lake",),
    ),
    "publish": Verb(
        _publish,
        lambda before: {**rows(before, "lake a main", [70]), **rows(before, "lake b main", [70])},
        in_steps=True,
        at=("lake",),
    ),
    "migrate": Verb(
        lambda world: world.old_lake.migrate(),
        lambda _: {
            "old t": True,
            "old t main": (("id", "x", "v"), [(0, 0), (1, 0), (2, 0)]),
            "old t main indexes": [],
        },
        in_steps=True,
        at=("old",),
    ),
}


def patience(*_: object) -> None:
    """Wait for a store that is gone for seconds, not minutes."""
    from s3fs.core import S3FileSystem

    S3FileSystem.retries = 2


def attempt(_: object, world: World, verb: str) -> tuple[str, Any]:
    """``ok`` and what came of it; the name and text of an error of ours; or ``foreign`` and the traceback."""
    try:
        told = VERBS[verb].run(world)
        return "ok", told if VERBS[verb].tells else None
    except LanceSparkError as problem:
        return type(problem).__name__, str(problem)
    except BaseException:  # noqa: BLE001 - the test shows it
        return "foreign", traceback.format_exc()


def check_again(world: World, verb: str, wanted: State, is_done: bool) -> None:
    """On a sound store the verb ends what it began; if it was done, it may say so instead, or be done once more."""
    again, words = attempt(None, world, verb)
    if again != "ok" and "try again in a minute" in words:
        # A branch without a ref file may be one that another job creates right now. A minute later it is not.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(refs, "GRACE", 0)
            again, words = attempt(None, world, verb)
    if is_done and not VERBS[verb].again and again == "ok":
        return
    assert again == "ok" or (is_done and not VERBS[verb].again), words
    assert look(world, VERBS[verb].at) == wanted
