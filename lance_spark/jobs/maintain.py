"""Maintenance: keeps the tables of a lake fast, small and sound, on main and on every branch.

    spark-submit jobs/maintain.py s3://lake --policy policy.toml                      # what would be done, and why
    spark-submit jobs/maintain.py s3://lake --policy policy.toml --execute            # do it
    spark-submit jobs/maintain.py s3://lake/flights.lance --execute --for 2h          # one table, for two hours

Each table is checked when that is due and compacted, its indexes are updated, expired refs are deleted, and then old
versions and files that nothing needs. If a check finds damage, nothing is deleted from that table. One table never
stops another.

--report, --html and --metrics are written after each table, so that an interrupted job still shows what it did. Until
the end, they are marked as unfinished.

With --for, the most valuable tables come first, and steps without enough time are left for the next run. --state
remembers them, and when each table was checked.

Exit codes: 0 done, even if steps were left for lack of time; 6 a step failed, or a check found damage; 2 bad option; 10
not found; 20 the store did not answer; 21 no permission; another code if all tables ended with that error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

from lance_spark.catalog.lookup import open_catalog
from lance_spark.core.options import storage_from
from lance_spark.engine.session_spark import JobSession
from lance_spark.errors import InvalidOption
from lance_spark.jobs.job import HOW, add, command_line, run, say
from lance_spark.maintenance.maintain import Selection, StateFile, UpkeepOptions, maintain
from lance_spark.maintenance.report import MaintenanceReport, to_html, to_prometheus
from lance_spark.maintenance.rules import STEPS, MaintenancePolicy, Memory, parse_maintenance
from lance_spark.maintenance.spark import clocks, shared_engine
from lance_spark.storage.resolving import dataset_at
from lance_spark.storage.small_files import read_report, write_report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    return run(parser().parse_args(argv), _main)


def _main(arguments: argparse.Namespace) -> int:
    with JobSession("lance maintenance", arguments.log_level, say) as session:
        now_ns = time.time_ns()
        state = StateFile(arguments.state, storage_from(arguments.storage), now_ns) if arguments.state else None
        report = _run(arguments, session, now_ns, state)
    print(report)
    _write(arguments, report)
    return report.exit_code


def _run(arguments: argparse.Namespace, session: JobSession, now_ns: int, state: StateFile | None) -> MaintenanceReport:
    """Plan, and carry out, according to the arguments."""
    storage = storage_from(arguments.storage)
    dataset_at(arguments.uri, storage)  # not the directory of a branch
    catalog = open_catalog(arguments.uri, storage, arguments.catalog_mode)
    engine = shared_engine(arguments.run_on, session, arguments.parallelism)
    try:
        return maintain(catalog, _options(arguments, state), engine, now_ns)
    finally:
        if state is not None:
            state.close()


def _options(arguments: argparse.Namespace, state: StateFile | None) -> UpkeepOptions:
    """The options in the arguments."""
    return UpkeepOptions(
        policy=_policy(arguments),
        execute=arguments.execute,
        selection=Selection(
            frozenset(arguments.only), frozenset(arguments.skip), tuple(arguments.table), tuple(arguments.skip_table)
        ),
        memory=Memory() if state is None else state.load(),
        side_by_side=arguments.tables_at_once,
        **clocks(arguments.time),
        max_deletes_per_second=arguments.max_deletes_per_second,
        say=say,
        ended=bool if state is None else state.add,
        progress=partial(_write, arguments),
    )


def _write(arguments: argparse.Namespace, report: MaintenanceReport) -> None:
    """Write the requested files."""
    storage = storage_from(arguments.storage)
    forms = {arguments.report: MaintenanceReport.to_json, arguments.html: to_html, arguments.metrics: to_prometheus}
    for path, form in forms.items():
        if path:
            write_report(path, form(report), storage)


def _policy(arguments: argparse.Namespace) -> MaintenancePolicy:
    if not arguments.policy:
        return MaintenancePolicy()
    text = read_report(arguments.policy, storage_from(arguments.storage))
    if text is None:
        raise InvalidOption(f"There is no policy file {arguments.policy}.", hint="Give its path or URI.")
    return parse_maintenance(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_line("maintain", __doc__)
    made.add_argument("uri", metavar="ROOT|URI", help="a catalog's directory, or a dataset: a path or a URI")
    add(made, "--catalog-mode")
    what = made.add_argument_group("what to do")
    what.add_argument(
        "--policy", metavar="FILE", help="a policy as TOML, its path or URI: rules by step, table and branch"
    )
    what.add_argument("--execute", action="store_true", help="carry it out; without it, only show what would be done")
    what.add_argument("--only", choices=STEPS, action="append", default=[], help="only this step (repeatable)")
    what.add_argument("--skip", choices=STEPS, action="append", default=[], help="not this step (repeatable)")
    what.add_argument(
        "--table", metavar="PATTERN", action="append", default=[], help="only tables with that name (repeatable)"
    )
    what.add_argument("--skip-table", metavar="PATTERN", action="append", default=[], help="not these (repeatable)")
    what.add_argument(
        "--for", metavar="SPAN", dest="time", help="start no step after this time, e.g. 2h; most valuable first"
    )
    told = made.add_argument_group("what to write")
    told.add_argument("--report", metavar="FILE", help="the report as JSON")
    told.add_argument("--html", metavar="FILE", help="the report as one page, with a chart of bytes by kind")
    told.add_argument("--metrics", metavar="FILE", help="metrics for Prometheus' textfile collector: a name in .prom")
    told.add_argument("--state", metavar="FILE", help="the memory between runs: the last checks, and steps left over")
    how = made.add_argument_group("how")
    how.add_argument("--tables-at-once", type=int, default=4, metavar="N", help="tables side by side (default 4)")
    how.add_argument("--parallelism", type=int, metavar="N", help="tasks side by side in one step (default: the cores)")
    how.add_argument("--max-deletes-per-second", type=float, metavar="N", help="over all tables together")
    add(how, *HOW)
    return made


if __name__ == "__main__":
    sys.exit(main())
