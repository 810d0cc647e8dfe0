"""What a process of a race does to a catalog, and what there must be afterwards. Used on local disk and on S3."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import lance
import pyarrow as pa

from lance_spark.catalog.doctor import examine
from lance_spark.catalog.lookup import create_namespace, describe_table, list_namespaces, list_tables, locate_table
from lance_spark.catalog.name_rules import Catalog, Declaration
from lance_spark.catalog.removing import collect_orphans, drop_namespace, drop_table, plan_orphans, rename_table
from lance_spark.catalog.tables import confirm, declare_table, deregister_table, register_table, withdraw
from lance_spark.errors import LanceSparkError
from lance_spark.storage.failures import translated

Outcome = tuple[str, Any]
"""``ok`` and what came of it, or the name of an error of ours and its text."""


def attempt(catalog: Catalog, what: str, *given: Any) -> Outcome:
    """One operation, with its outcome."""
    try:
        return "ok", OPERATIONS[what](catalog, *given)
    except LanceSparkError as problem:
        return type(problem).__name__, problem.message


def create(catalog: Catalog, name: str, value: int) -> int:
    """A table whose only row says which writer made it."""
    declared = declare_table(catalog, name)
    try:
        write(catalog, declared, pa.table({"id": pa.array([value], pa.int64())}))
    except BaseException:
        withdraw(catalog, declared)
        raise
    confirm(catalog, declared)
    return value


def write(catalog: Catalog, declared: Declaration, table: pa.Table) -> None:
    """Files first, then the commit, as a Spark job does it."""
    uri, options = declared.location.uri, catalog.root.storage_options or None
    with translated(declared.location, "writing"):
        files = lance.fragment.write_fragments(table, uri, schema=table.schema, mode="create", storage_options=options)
        confirm(catalog, declared)
        operation = lance.LanceOperation.Overwrite(table.schema, files)
        lance.LanceDataset.commit(uri, operation, storage_options=options, max_retries=0)


def declare_and_withdraw(catalog: Catalog, name: str) -> bool:
    return withdraw(catalog, declare_table(catalog, name))


def rename(catalog: Catalog, old: str, new: str) -> str:
    rename_table(catalog, old, new)  # what a job commits to the old place in this very moment is left behind
    return new


OPERATIONS: dict[str, Callable[..., Any]] = {
    "declare": lambda catalog, name: declare_table(catalog, name).path,
    "reserve": lambda catalog, name: declare_table(replace(catalog, mode="v1"), name).path,
    "create": create,
    "drop": lambda catalog, name: bool(drop_table(catalog, name)),
    "rename": rename,
    "withdraw": declare_and_withdraw,
    "deregister": lambda catalog, name: deregister_table(catalog, name).path,
    "register": lambda catalog, name, path: register_table(catalog, name, path).path,
    "create_namespace": lambda catalog, name: create_namespace(catalog, name),
    "drop_namespace": lambda catalog, name, cascade=False: len(drop_namespace(catalog, name, cascade)),
}


def wander(catalog: Catalog, names: list[str], member: int, seed: int, steps: int) -> list[tuple[str, Outcome]]:
    """Creates, drops and renames tables of a few names, in any order."""
    chance = random.Random(f"{seed} {member}")
    done = []
    for step in range(steps):
        what = chance.choice(["create", "create", "drop", "rename", "withdraw"])
        name = chance.choice(names)
        given: tuple[Any, ...] = (name,)
        if what == "create":
            given = (name, 1000 * seed + 100 * member + step)
        elif what == "rename":
            given = (name, chance.choice([other for other in names if other != name]))
        done.append((f"{what} {given}", attempt(catalog, what, *given)))
    return done


def value_of(catalog: Catalog, name: Any) -> int:
    """The writer that made a table, read by pylance."""
    location = locate_table(catalog, name)
    (value,) = (
        lance.dataset(location.uri, storage_options=location.storage_options or None).to_table()["id"].to_pylist()
    )
    return int(value)


def soon() -> datetime:
    """A moment at which everything there is now is older than a day."""
    return datetime.now(timezone.utc) + timedelta(days=2)


def assert_sound(catalog: Catalog) -> dict[str, int]:
    """No id and no directory twice, every table can be read, the collector left no remainder; the writer of each."""
    tables = [str(identifier) for identifier in list_tables(catalog, recursive=True)]
    assert max(Counter(tables).values(), default=1) == 1
    spaces = {str(identifier) for identifier in list_namespaces(catalog, recursive=True)}
    assert spaces.isdisjoint(tables)
    written = [name for name in tables if not describe_table(catalog, name).declared]
    values = {name: value_of(catalog, name) for name in written}
    if catalog.reads_manifest and list_namespaces(catalog).identifiers + list_tables(catalog).identifiers:
        collected = collect_orphans(plan_orphans(catalog, soon(), datasets=True))
        assert not collected.failed, collected
        allowed = ("missing index", "not registered")
        wrong = [finding for finding in examine(catalog, soon()) if finding.kind not in allowed]
        assert not wrong, wrong
    assert {name: value_of(catalog, name) for name in written} == values
    return values
