"""Lakes with branches, written to without Spark; what is left of deleted branches; and a process that dies."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
from lance.dataset import Tags

from lance_spark import LanceCatalog
from lance_spark.catalog import lake as lake_actions
from lance_spark.catalog.name_rules import identify_table
from lance_spark.cleanup.lake import clean_lake
from lance_spark.cleanup.many_tables import FleetOptions
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.lake import publish as publishing
from lance_spark.storage.resolving import resolve
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows
from lance_spark.write.plan_rules import WriteJob
from support.catalogs import raw
from support.cleanup_datasets import RUNNER, place
from support.killed import Killed

State = dict[str, list[int]]
"""The rows of each table, by its name."""


NONE = timedelta(0)
EVERYTHING = CleanupPolicy(
    older_than=NONE, commit_window=NONE, delete_unverified=True, error_if_tagged_old_versions=False
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def make_lake(root: str, tables: tuple[str, ...], mode: Any = "compatibility") -> LanceCatalog:
    """Each table with the rows 0, 1, 2."""
    lake = LanceCatalog(root, mode=mode)
    for name in tables:
        namespace = name.rpartition(".")[0]
        if namespace:
            lake.create_namespace(namespace, exist_ok=True)
        write(lake, name, 0, 1, 2)
    return lake


def begin_write(lake: LanceCatalog, name: str, *ids: int, overwrite: bool = False) -> tuple[WriteJob, list[str]]:
    """The same as :func:`begin_table`, of rows with these ids."""
    return begin_table(lake, name, rows(*ids), overwrite)


def begin_table(lake: LanceCatalog, name: str, table: pa.Table, overwrite: bool = False) -> tuple[WriteJob, list[str]]:
    """A job of Spark's writer up to its commit, on the branch of the lake that is checked out."""
    catalog = lake.catalog
    options = {"catalog": catalog.uri, "catalog_mode": catalog.mode, "path": name}
    if catalog.ref is not None:
        options[f"catalog_{catalog.ref.kind}"] = catalog.ref.name
    job = begin(plan_write(options, table.schema, overwrite))
    return job, write_rows(job, table.to_batches())


def write(lake: LanceCatalog, name: str, *ids: int, overwrite: bool = False) -> None:
    """Append rows, or replace all."""
    finish(*begin_write(lake, name, *ids, overwrite=overwrite))


def delete_row(lake: LanceCatalog, name: str, row: int) -> None:
    """By pylance, on main or on the table's branch, which our code begins."""
    uri, catalog, branch = lake.describe_table(name).location.uri, lake.catalog, None
    if catalog.ref is not None:
        branch = lake_actions.table_branch(catalog, identify_table(name), "delete rows")
    lance.dataset(place(uri, branch)).delete(f"id = {row}")


def opened(lake: LanceCatalog, name: str) -> lance.LanceDataset:
    """What a lake, a branch or a tag has of a table, opened by pylance."""
    handle = lake.table(name)
    pin = resolve(handle.location, handle.ref)
    return lance.dataset(place(handle.location.uri, pin.branch), version=pin.version)


def ids(lake: LanceCatalog, name: str) -> list[int]:
    return sorted(opened(lake, name).to_table()["id"].to_pylist())


def state(lake: LanceCatalog) -> State:
    """All tables with data."""
    names = lake.list_tables(recursive=True)
    return {name: ids(lake, name) for name in names if not lake.describe_table(name).declared}


def left_over(lake: LanceCatalog) -> set[str]:
    """Tags and branches of tables that belong to branches and tags of the lake, and their files.

    Who dies while a ref is written leaves a file that is not yet one, which no reader takes for a ref.
    """
    root = Path(lake.catalog.uri)
    found = {path for directory in root.iterdir() for path in directory.glob("_refs/*/*lake*")}
    found |= {path for path in root.glob("*/tree/lake/*") if any(file.is_file() for file in path.rglob("*"))}
    found = {path for path in found if "__manifest" not in path.parts and path.suffix != ".tmp"}
    return {str(path.relative_to(root)) for path in found}


def later(days: int = 9) -> datetime:
    return datetime.now(timezone.utc) + timedelta(days=days)


def clean_up(lake: LanceCatalog) -> None:
    """Ours and pylance's, which keep as little as they may."""
    report = clean_lake(lake.catalog, FleetOptions(EVERYTHING, True), RUNNER, later())
    assert report.complete, str(report)
    for name in lake.list_tables(recursive=True):
        if not lake.describe_table(name).declared:
            clean_by_pylance(lance.dataset(lake.describe_table(name).location.uri))
    clean_by_pylance(raw(lake.catalog))


def clean_by_pylance(dataset: lance.LanceDataset) -> None:
    dataset.cleanup_old_versions(older_than=NONE, delete_unverified=True, error_if_tagged_old_versions=False)


def grow_old(directory: str) -> None:
    """So that it cannot be what another process is at."""
    for path in Path(directory).rglob("*"):
        os.utime(path, (1, 1))


class Mortal:
    """A process that dies before its change number ``at`` of the files below a directory; 0 for one that lives.

    Dying before a change is dying after the one before it. Once it is dead, its other threads change nothing either.
    """

    def __init__(self, root: str, at: int = 0) -> None:
        self.root, self.at, self.changes = root, at, 0

    def step(self) -> None:
        self.changes += 1
        if self.at and self.changes >= self.at:
            raise Killed

    @contextmanager
    def living(self) -> Iterator[Mortal]:
        """Its changes are counted, in one thread, so that every run has the same steps."""
        owners = [(lance.LanceDataset, "create_branch"), (lance.LanceDataset, "update_metadata")]
        owners += [(Tags, name) for name in ("create", "update", "delete")]
        patches = [patch.object(owner, name, self._always(getattr(owner, name))) for owner, name in owners]
        commit = staticmethod(self._always(lance.LanceDataset.commit))
        patches += [patch.object(lance.LanceDataset, "commit", commit)]
        of_files = [(os, name) for name in ("replace", "link", "unlink", "remove", "rename", "open")]
        of_files += [(shutil, "rmtree")]
        patches += [patch.object(owner, name, self._below(getattr(owner, name))) for owner, name in of_files]
        patches += [patch.object(publishing, "_THREADS", 1), patch.object(lake_actions, "_AT_ONCE", 1)]
        for each in patches:
            each.start()
        try:
            yield self
        finally:
            for each in patches:
                each.stop()

    def _always(self, really: Any) -> Any:
        @functools.wraps(really)
        def changed(*given: Any, **named: Any) -> Any:
            self.step()
            return really(*given, **named)

        return changed

    def _below(self, really: Any) -> Any:
        @functools.wraps(really)
        def changed(path: Any, *given: Any, **named: Any) -> Any:
            reads = really is _OPEN and not given[0] & os.O_CREAT
            passing = str(path).endswith(".tmp")
            if str(path).startswith(self.root) and not reads and (really is _REPLACE or not passing):
                self.step()
            return really(path, *given, **named)

        return changed


_OPEN, _REPLACE = os.open, os.replace
