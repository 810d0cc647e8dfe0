"""Cleanup: removes old versions of a Lance dataset, and files that nothing needs, on main and all branches.

    spark-submit jobs/cleanup.py s3://bucket/flights.lance --older-than 14d            # what would be deleted, and why
    spark-submit jobs/cleanup.py s3://bucket/flights.lance --older-than 14d --execute  # delete it
    spark-submit jobs/cleanup.py --catalog s3://lake --older-than 14d --execute        # every table of a catalog
    spark-submit jobs/cleanup.py --impl rest --property uri=https://... --older-than 14d   # of a catalog service

Kept: the newest version of main and of every branch, every tagged version, the version that each branch was created
from, everything that the policy keeps, and what clones need. Files that no version names are deleted at an age of 7
days.

With --catalog, all tables are cleaned side by side, each a row of the report. A table that cannot be cleaned does not
stop the others, and the files that clones read are kept. Then the catalog's own table is cleaned, and directories that
no row names are deleted at an age of one day; of a catalog service, only the tables.

Exit codes: 0 done; 2 bad option; 3 refused, nothing was deleted; 6 some files could not be deleted, or some tables not
cleaned, and the next run finishes; 10 not found; 12 conflict; 20 the store did not answer; 21 no permission, be it only
to delete: the report names it; 22 a file cannot be read; 24 done, but the report could not be written.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from lance_spark.catalog.name_rules import Catalog
from lance_spark.cleanup.cleanup import CleanupPlan, open_plan, plan_cleanup
from lance_spark.cleanup.lake import clean_lake
from lance_spark.cleanup.many_tables import FleetOptions
from lance_spark.cleanup.report import PARTLY, CleanupReport, LakeReport
from lance_spark.cleanup.retention_rules import CleanupPolicy, parse_policy
from lance_spark.cleanup.stored_plans import read_inventory
from lance_spark.core.declared import add_arguments, at, values
from lance_spark.core.progress import WorkProgress
from lance_spark.core.storage_options import storage_from
from lance_spark.engine.local import Engine
from lance_spark.engine.session_spark import JobSession, RunOn, engine_for
from lance_spark.errors import InvalidOption
from lance_spark.jobs.job import (
    CATALOG,
    HOW,
    add,
    check_is_dataset,
    command_line,
    named_catalog,
    policy_text,
    run,
    show,
    try_report,
)
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import dataset_at

_FREE = ("parallelism", "run_on", "log_level")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    return run(parser().parse_args(argv), _main)


def _main(arguments: argparse.Namespace) -> int:
    try_report(arguments)
    with StageTimes() as times, JobSession("lance cleanup", arguments.log_level, times.say) as session:
        engine = engine_for(_run_on(arguments), session, arguments.parallelism, times.tell)
        catalog = named_catalog(arguments, arguments.catalog)
        report = _dataset(arguments, session, engine) if catalog is None else _catalog(arguments, catalog, engine)
        times.end()
    code = 0 if report.complete else report.exit_code or PARTLY
    return show(arguments, str(report), report.to_json(), code)


def _catalog(arguments: argparse.Namespace, catalog: Catalog, engine: Engine) -> LakeReport:
    """Clean all tables of a catalog."""
    flag = "--impl" if arguments.impl else "--catalog"
    if arguments.uri is not None:
        raise InvalidOption(f"A dataset and {flag} cannot be combined.", hint="Leave one of them out.")
    of_one_table = ("versions", "before_version", "only_branches", "plan_dir", "apply_plan", "inventory")
    _check_plain(arguments, of_one_table, flag)
    options = FleetOptions(
        _policy(arguments), arguments.execute, max_deletes_per_second=arguments.max_deletes_per_second
    )
    return clean_lake(catalog, options, engine, datetime.now(timezone.utc))


def _dataset(arguments: argparse.Namespace, session: JobSession, engine: Engine) -> CleanupReport:
    """Plan, store and apply, according to the arguments."""
    if arguments.uri is None:
        raise InvalidOption(
            "No dataset was named.", hint="Give its path or URI, or --catalog ROOT for all of a catalog."
        )
    _check_plain(arguments, ("catalog_mode",), "a single dataset")
    location = dataset_at(arguments.uri, storage_from(arguments.storage))
    check_is_dataset(location)
    if arguments.apply_plan:
        _check_alone(arguments)
        directory = locate(arguments.apply_plan, location.storage_options)
        plan = open_plan(location, directory, engine, time.time_ns())
        return plan.apply(arguments.max_deletes_per_second)
    plan = plan_cleanup(location, _policy(arguments), engine, time.time_ns(), _inventory(arguments, session))
    if arguments.plan_dir:
        plan = _stored(plan, arguments.plan_dir)
    return plan.apply(arguments.max_deletes_per_second) if arguments.execute else plan.report()


def _stored(plan: CleanupPlan, directory: str) -> CleanupPlan:
    stored = plan.store(directory)
    print(f"plan {plan.facts.id} is stored in {directory}; carry it out with --apply-plan {directory}")
    return stored


def _policy(arguments: argparse.Namespace) -> CleanupPolicy:
    """The policy of the file; options on the command line replace its values."""
    text = policy_text(arguments.policy, storage_from(arguments.storage)) if arguments.policy else ""
    base = parse_policy(text)
    return replace(base, **values(at(CleanupPolicy, "job"), vars(arguments), base))


def _check_alone(arguments: argparse.Namespace) -> None:
    """Raise InvalidOption for policy options with a stored plan: they would be ignored."""
    free = {"uri", "apply_plan", "execute", "report", "storage", "max_deletes_per_second", *_FREE}
    _check_plain(arguments, set(vars(arguments)) - free, "--apply-plan", hint="The plan has its own policy.")


def _check_plain(arguments: argparse.Namespace, names: Collection[str], beside: str, hint: str | None = None) -> None:
    """Raise InvalidOption for options that make no sense with another one."""
    plain = vars(parser().parse_args([]))
    flags = {each.name: each.flag for each in at(CleanupPolicy, "job")}
    for name, value in vars(arguments).items():
        if name in names and value != plain[name]:
            flag = flags.get(name, f"--{name.replace('_', '-')}")
            raise InvalidOption(f"{flag} cannot be combined with {beside}.", hint=hint)


def _inventory(arguments: argparse.Namespace, session: JobSession) -> Any:
    """A table of path, size and last_modified, from Parquet or CSV."""
    path = arguments.inventory
    if not path:
        return None
    if _run_on(arguments) == "local":
        return read_inventory(path)
    reader = session().read
    return reader.csv(path, header=True) if path.endswith((".csv", ".csv.gz")) else reader.parquet(path)


def _run_on(arguments: argparse.Namespace) -> RunOn:
    """An inventory may be too large for this process: Spark reads it, unless ``--run-on`` overrides that."""
    run_on: RunOn = arguments.run_on
    return "spark" if run_on == "auto" and arguments.inventory else run_on


class StageTimes:
    """Prints which stage runs, and how long each took."""

    def __init__(self) -> None:
        self._stage = ""
        self._since = time.monotonic()

    def __enter__(self) -> StageTimes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def say(self, stage: str) -> None:
        """Begin a stage, and end the one before."""
        if stage != self._stage:
            self.end()
            self._stage, self._since = stage, time.monotonic()

    def tell(self, progress: WorkProgress) -> None:
        """Report progress; only stages are printed."""
        self.say(progress.stage)

    def end(self) -> None:
        """End the last stage."""
        if self._stage:
            print(f"{self._stage:<22} {time.monotonic() - self._since:8.1f} s", file=sys.stderr, flush=True)
        self._stage = ""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_line("cleanup", __doc__)
    add(made, "uri", "--catalog", *CATALOG)
    which = made.add_argument_group("what is deleted; versions must meet all conditions that are given")
    add_arguments(which, at(CleanupPolicy, "job"))
    which.add_argument(
        "--policy", metavar="FILE", help="a policy as TOML, its path or URI: defaults, rules by branch and by tag"
    )
    how = made.add_argument_group("how")
    how.add_argument("--execute", action="store_true", help="delete; without it, only show what would be deleted")
    how.add_argument("--plan-dir", metavar="DIR", help="store the plan there")
    how.add_argument("--apply-plan", metavar="DIR", help="carry out a stored plan, after checking the dataset again")
    how.add_argument(
        "--inventory", metavar="FILE", help="path, size, last_modified as Parquet or CSV: lists only manifests"
    )
    add(how, "--report", "--parallelism")
    how.add_argument("--max-deletes-per-second", type=float, metavar="N", help="over all tasks together")
    add(how, *HOW)
    return made


if __name__ == "__main__":
    sys.exit(main())
