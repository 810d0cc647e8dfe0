"""Branches of a lake from beginning to end, for Python, SQL and the shell: create, publish and delete one.

In: a catalog, and what to do. Out: the branch, or a report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import NamedTuple

from lance_spark.catalog import lake
from lance_spark.catalog.lake_rules import BRANCH, TAG, LakeRef
from lance_spark.catalog.name_rules import Catalog, Name
from lance_spark.catalog.publish_rules import Journal
from lance_spark.core.lifetimes import BranchSettings, Lifetime
from lance_spark.engine.local import Engine
from lance_spark.lake import publish as publishing
from lance_spark.lake.audit import merged_lake
from lance_spark.lake.clone import clone
from lance_spark.lake.diff import diff
from lance_spark.lake.manifest_rules import BranchRows
from lance_spark.lake.report import UP_TO_DATE, LakeDiff, Publish, report, report_plan
from lance_spark.merge.option_rules import PublishOptions
from lance_spark.refs.refs import alter_branch as alter_table_branch
from lance_spark.refs.refs import check_settings
from lance_spark.storage.commits import unchanged


def create_branch(
    catalog: Catalog,
    name: str,
    engine: Engine,
    tables: Collection[Name] | None = None,
    settings: BranchSettings | None = None,
) -> LakeRef:
    """An unfinished publish is ended first.

    Raises InvalidName, AlreadyExists, NotFound for an unknown table, InvalidOption, and Refused.
    """
    wanted = settings or {}
    check_settings(wanted)
    made = _create_ref(catalog, BRANCH, name, engine, tables)
    return replace(made, lifetime=alter_branch(catalog, name, wanted)) if wanted else made


def create_tag(catalog: Catalog, name: str, engine: Engine) -> LakeRef:
    """An unfinished publish is ended first. Raises InvalidName, AlreadyExists, and Refused."""
    return _create_ref(catalog, TAG, name, engine)


def _create_ref(
    catalog: Catalog, kind: str, name: str, engine: Engine, tables: Collection[Name] | None = None
) -> LakeRef:
    lake.check_whole(catalog, f"create {kind} '{name}' of the lake")
    publishing.end_unfinished(catalog, engine)
    return lake.create_ref(catalog, kind, name, datetime.now(timezone.utc), tables)


def diff_branch(catalog: Catalog, name: str, engine: Engine) -> LakeDiff:
    """What a branch changed since main last took it in. An unfinished publish is ended first. Raises NotFound."""
    lake.check_whole(catalog, "compare a branch of the lake")
    publishing.check_manifest(catalog)
    publishing.end_unfinished(catalog, engine)
    return diff(catalog, name)


def clone_lake(catalog: Catalog, target: Catalog, engine: Engine) -> int:
    """:func:`lance_spark.lake.clone.clone`. An unfinished publish is ended first."""
    publishing.end_unfinished(catalog, engine)
    return clone(catalog, target)


def alter_branch(
    catalog: Catalog, name: str, settings: BranchSettings, unset: str | Collection[str] = (), dry_run: bool = False
) -> Lifetime:
    """Change a branch's lifetime, owner and protection; returns its settings. Raises InvalidOption and NotFound."""
    lake.check_whole(catalog, f"alter branch '{name}' of the lake")
    publishing.check_manifest(catalog)
    lake.at_ref(catalog, BRANCH, name)
    with unchanged():
        gone = unset if isinstance(unset, str) else [*unset]
        return alter_table_branch(catalog.manifest, name, settings, gone, dry_run)


def delete_branch(catalog: Catalog, name: str, engine: Engine, purge: bool = False) -> None:
    """An unfinished publish is ended first. Raises NotFound, and Refused for a protected branch."""
    lake.check_whole(catalog, f"delete branch '{name}' of the lake")
    if catalog.reads_manifest:
        publishing.recover(catalog, engine)
    lake.delete_ref(catalog, BRANCH, name, purge)


class PublishReport(NamedTuple):
    """The report, and the directories of the tables that main has changes of."""

    report: Publish
    changed: tuple[str, ...] = ()


def merge_branch(
    catalog: Catalog,
    name: str,
    engine: Engine,
    options: PublishOptions,
    audit: Callable[[Catalog], bool] | None = None,
) -> PublishReport:
    """Merge a branch into main. ``audit`` gets the whole lake as it will be. Raises Conflict, Refused, NotFound."""

    def check(journal: Journal, passes: Callable[[Catalog], bool]) -> bool:
        with merged_lake(catalog, journal, publishing.rows_change(catalog, journal), engine) as merged:
            return passes(merged)

    execution = engine, None if audit is None else partial(check, passes=audit)
    return publish(catalog, name, lambda: publishing.branch_in_lake(catalog, name), execution, options)


def publish(
    catalog: Catalog,
    branch: str,
    look: Callable[[], BranchRows],
    execution: tuple[Engine, Callable[[Journal], bool] | None],
    options: PublishOptions,
) -> PublishReport:
    """Publish what ``look`` reads; ``execution`` has the engine and any audit. Raises as :func:`merge_branch`."""
    _check_journal(catalog, "publish a branch")
    engine, audit = execution
    if options.dry_run:
        publishing.end_unfinished(catalog, engine)  # as the run will: half of it looks like a conflict
        plan = publishing.plan_publish(catalog, look(), engine, options)
        return PublishReport(
            Publish(branch, UP_TO_DATE) if plan.is_empty else report_plan(plan.journal, plan.conflicts, plan.dropped)
        )
    # Without an audit none must be recorded: a review would say that one passed.
    check = None if audit is None else lambda plan: audit(plan.journal)
    found = publishing.publish(catalog, look, engine, check, options)
    return PublishReport(Publish(branch, UP_TO_DATE)) if found is None else finished(found)


def _check_journal(catalog: Catalog, doing: str) -> None:
    """Raise Refused where publishes have no journal, and on a branch or at a tag of the lake."""
    if catalog.service is None:
        lake.check_whole(catalog, doing)
    else:
        _ = catalog.journal


def recover(catalog: Catalog, engine: Engine) -> PublishReport | None:
    """End a publish whose process died; None if there is none. Raises CorruptData and the errors of the store."""
    _check_journal(catalog, "recover")
    found = publishing.recover(catalog, engine)
    return None if found is None else finished(found)


def finished(found: publishing.Finished) -> PublishReport:
    return PublishReport(report(*found), tuple(table.location for table in found.journal.tables))
