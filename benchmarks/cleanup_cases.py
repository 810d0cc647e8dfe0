"""What is measured of cleanups, and what the project promises for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import lance
from pyspark.sql import SparkSession

from benchmarks import cleanup_data
from benchmarks.cleanup_data import Dataset, branch_uri
from benchmarks.cleanup_measure import Clean, Scenario
from benchmarks.cleanup_s3 import Store, storage_options
from benchmarks.measure import Target
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import Engine
from lance_spark.engine.session_spark import engine_of
from lance_spark.storage.datasets import locate

KEEP_LATEST = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0), error_if_tagged_old_versions=False)
"""Nothing writes while it is measured."""


def histories(dataset: Dataset, spark: SparkSession | None) -> Scenario:
    """(a) and (b): a long history on a local disk."""
    stale = cleanup_data.stale_files(str(dataset.pristine))
    work: dict[str, Clean] = {"ours": ours, "reference": reference, "floor": lambda uri: floor(uri, stale)}
    local, on_spark = (20, 5) if dataset.age else (2, 2)
    targets = [_faster(local)]
    if spark is not None:
        work = {"ours": ours, "ours_on_Spark": lambda uri: ours_on_spark(spark, uri), **work}
        targets.append(_faster(on_spark, "ours_on_Spark"))
    return Scenario(dataset.copy, dataset.check, cleanup_data.file_count, work, tuple(targets))


def lineages(dataset: Dataset, branches: list[str]) -> Scenario:
    """(c): one pass of ours beside the reference's, which knows one branch at a time."""
    work: dict[str, Clean] = {"ours": ours, "reference": lambda uri: reference_until_quiet(uri, branches)}
    return Scenario(dataset.copy, dataset.check, cleanup_data.file_count, work)


def on_s3(dataset: Dataset, store: Store) -> Scenario:
    """(d): where each request takes its time."""
    slow, direct = storage_options(store.slow), storage_options(store.direct)

    def counted(clean: Callable[[str, dict[str, str]], object]) -> Clean:
        def cleaned(uri: str) -> dict[str, Any]:
            store.requests()
            clean(uri, slow)
            return {"requests": store.requests()}

        return cleaned

    return Scenario(
        copy=lambda: store.copy(dataset.pristine),
        check=lambda uri: dataset.check(uri, direct),
        files=store.files,
        work={"ours": counted(ours), "reference": counted(reference)},
        targets=(_faster(4),),
    )


def _faster(factor: float, who: str = "ours") -> Target:
    name = who.replace("_", " ")
    return Target(f"{name}: at least {factor:g} x faster than the reference", "reference", factor, who=who)


def ours(uri: str, storage: dict[str, str] | None = None, engine: Engine | None = None) -> dict[str, Any]:
    """Plan and apply, where it is done by default unless told otherwise."""
    plan = plan_cleanup(locate(uri, storage or {}), KEEP_LATEST, engine or engine_of(None), time.time_ns())
    try:
        report = plan.apply()
    finally:
        plan.runner.release()
    if not report.complete:
        raise AssertionError(report.summary())
    return {"passes": 1, "ran_on": report.ran_on}


def ours_on_spark(spark: SparkSession, uri: str) -> dict[str, Any]:
    return ours(uri, None, engine_of(spark, "spark"))


def reference(uri: str, storage: dict[str, str] | None = None) -> dict[str, Any]:
    """pylance's own cleanup of one chain; tells how many files it says it removed."""
    stats = lance.dataset(uri, storage_options=storage).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=False, error_if_tagged_old_versions=False
    )
    if stats.failed_deletes:
        raise AssertionError(str(stats))
    return {"passes": 1, "bytes": stats.bytes_removed}


def reference_until_quiet(uri: str, branches: list[str]) -> dict[str, Any]:
    """From leaves to roots, then main, and again until a pass removes nothing."""
    passes = 0
    while True:
        passes += 1
        removed = sum(reference(branch_uri(uri, name))["bytes"] for name in [*reversed(branches), ""])
        if not removed:
            return {"passes": passes}


def floor(uri: str, stale: frozenset[str]) -> None:
    """What no cleanup can avoid: see and stat every file, remove the stale ones."""
    gone = [path for path, _ in _scan(uri, "") if path in stale]
    for path in gone:
        os.unlink(f"{uri}/{path}")


def _scan(root: str, directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(f"{root}/{directory}") as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _scan(root, f"{directory}{entry.name}/")
            else:
                yield f"{directory}{entry.name}", entry.stat()
