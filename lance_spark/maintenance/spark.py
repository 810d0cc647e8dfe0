"""Maintenance from Python, for a table and for a catalog, and a Spark session that threads share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from lance_spark.core.show import Card, Shown
from lance_spark.core.texts import to_span
from lance_spark.core.words import ASKED_OF_PLANS, OF_PLANS
from lance_spark.engine.session_spark import engine_for, engine_of, session_or_none
from lance_spark.maintenance.maintain import Selection, UpkeepOptions, maintain_catalog, maintain_dataset
from lance_spark.maintenance.policy_rules import MaintenancePolicy, maintenance_policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_spark.catalog.name_rules import Catalog
    from lance_spark.core.location import DatasetLocation
    from lance_spark.engine.local import Engine
    from lance_spark.engine.session_spark import RunOn
    from lance_spark.maintenance.report import MaintenanceReport

Policy = MaintenancePolicy | Mapping[str, Any]
"""A policy, or a dictionary with the keys of a policy file."""


@dataclass(frozen=True, repr=False)
class MaintenancePlan(Shown):
    """What a maintenance would do, as it looks when the plan is first shown. Prints as its report.

    A plan that is only applied does not look at every table twice.
    """

    _words, _asked = OF_PLANS, ASKED_OF_PLANS

    _run: Callable[[bool], MaintenanceReport]
    """Does it, or only looks what there is to do."""

    @cached_property
    def _planned(self) -> MaintenanceReport:
        return self._run(False)

    def report(self) -> MaintenanceReport:
        """The report of a dry run. Raises NotFound, StorageFailure."""
        return self._planned

    def apply(self) -> MaintenanceReport:
        """Run the maintenance. Each step looks again at what there is to do, because others may have committed."""
        return self._run(True)

    def _card(self) -> Card:
        return self._planned._card()


def plan_of_table(
    spark: SparkSession | None, location: DatasetLocation, policy: Policy | None, run_on: RunOn
) -> MaintenancePlan:
    chosen, engine = policy_of(policy), engine_of(session_or_none(spark), run_on)

    def run(execute: bool) -> MaintenanceReport:
        return maintain_dataset(location, UpkeepOptions(chosen, execute), engine, time.time_ns())

    return MaintenancePlan(run)


def plan_of_catalog(
    spark: SparkSession | None,
    catalog: Catalog,
    policy: Policy | None,
    run_on: RunOn,
    limit: str | timedelta | None,
) -> MaintenancePlan:
    chosen, engine = policy_of(policy), engine_of(session_or_none(spark), run_on)
    span = limit if limit is None or isinstance(limit, timedelta) else to_span("for", limit)

    def run(execute: bool) -> MaintenanceReport:
        options = UpkeepOptions(chosen, execute, Selection(), **clocks(span))
        return maintain_catalog(catalog, options, engine, time.time_ns())

    return MaintenancePlan(run)


def policy_of(policy: Policy | None) -> MaintenancePolicy:
    """The policy. Raises InvalidOption for a dictionary with unknown keys."""
    if policy is None:
        return MaintenancePolicy()
    return policy if isinstance(policy, MaintenancePolicy) else maintenance_policy(policy)


class Clocks(TypedDict, total=False):
    time_left: Callable[[], bool]
    time_to_plan: Callable[[], bool]


def clocks(limit: str | timedelta | None) -> Clocks:
    """Time limits for a span that begins now, half of which may be spent on plans. Raises InvalidOption."""
    if limit is None:
        return {}
    span = to_span("for", limit) if isinstance(limit, str) else limit
    now = time.monotonic()
    half, end = now + span.total_seconds() / 2, now + span.total_seconds()
    return {"time_left": lambda: time.monotonic() < end, "time_to_plan": lambda: time.monotonic() < half}


def shared_engine(run_on: RunOn, session: Callable[[], SparkSession], parallelism: int | None = None) -> Engine:
    """The engine of a job whose threads share a session.

    A thread does not see the active session of another one. It would mistake the existing session for its own and stop
    it at the end.
    """
    active, lock = session_or_none(None), threading.Lock()

    def shared() -> SparkSession:
        with lock:
            return session() if active is None else active

    return engine_for(run_on, shared, parallelism)
