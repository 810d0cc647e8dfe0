"""Maintenance: keeps the tables of a lake fast, small and sound, on main and on every branch.

    spark-submit jobs/maintain.py s3://lake --policy policy.toml                      # what would be done, and why
    spark-submit jobs/maintain.py s3://lake --policy policy.toml --execute            # do it
    spark-submit jobs/maintain.py s3://lake/flights.lance --execute --for 2h          # one table, for two hours
    spark-submit jobs/maintain.py --impl rest --property uri=https://... --execute    # every table of a catalog service

Each table is checked when that is due and compacted, its indexes are updated, expired refs are deleted, and then old
versions and files that nothing needs. If a check finds damage, nothing is deleted from that table. One table never
stops another.

--report, --html and --metrics are written after each table, so that an interrupted job still shows what it did. Until
the end, they are marked as unfinished.

With --for, the most valuable tables come first, and steps without enough time are left for the next run. --state
remembers them, and when each table was checked.

Exit codes: 0 done, even if steps were left for lack of time; 6 a step failed, or a check found damage; 2 bad option; 10
not found; 20 the store did not answer; 21 no permission; 24 done, but a report could not be written; another code if
all tables ended with that error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lance_spark.core.storage_options import storage_from
from lance_spark.core.texts import masked, moment_at
from lance_spark.engine.session_spark import JobSession
from lance_spark.errors import InvalidOption
from lance_spark.jobs.job import (
    CATALOG,
    HOW,
    add,
    check_distinct,
    command_line,
    delivered,
    first_try,
    named_catalog,
    policy_text,
    run,
    say,
)
from lance_spark.maintenance.maintain import Selection, StateFile, UpkeepOptions, maintain
from lance_spark.maintenance.policy_rules import STEPS, MaintenancePolicy, Memory, parse_maintenance
from lance_spark.maintenance.report import MaintenanceReport, to_html, to_prometheus
from lance_spark.maintenance.spark import clocks, shared_engine
from lance_spark.storage.resolving import dataset_at
from lance_spark.storage.small_files import is_stream, write_report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    return run(parser().parse_args(argv), _main)


def _main(arguments: argparse.Namespace) -> int:
    _check_outputs(arguments)
    with JobSession("lance maintenance", arguments.log_level, say) as session:
        now_ns = time.time_ns()
        state = StateFile(arguments.state, storage_from(arguments.storage), now_ns) if arguments.state else None
        options = _options(arguments, state)
        _try_outputs(arguments, options, now_ns)
        ends = [] if state is None else [state.close]
        try:
            report = _run(arguments, options, session, now_ns)
        except BaseException:
            delivered(0, *ends)
            raise
    print(report)
    return delivered(report.exit_code, *ends, *_writes(arguments, report).values())


def _run(arguments: argparse.Namespace, options: UpkeepOptions, session: JobSession, now_ns: int) -> MaintenanceReport:
    """Plan, and carry out, according to the arguments."""
    storage = storage_from(arguments.storage)
    if arguments.uri is not None:
        dataset_at(arguments.uri, storage)  # not the directory of a branch
    catalog = named_catalog(arguments, arguments.uri)
    if catalog is None:
        raise InvalidOption("Nothing was named.", hint="Give a catalog's directory, a dataset, or --impl.")
    engine = shared_engine(arguments.run_on, session, arguments.parallelism)
    return maintain(catalog, options, engine, now_ns)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise InvalidOption for two options with one file, and for metrics that a node exporter would not read."""
    check_distinct(arguments, "policy", "state", *_FORMS)
    if arguments.metrics and not (arguments.metrics.endswith(".prom") or is_stream(arguments.metrics)):
        hint = "The textfile collector of a node exporter reads no others."
        raise InvalidOption(f"--metrics {arguments.metrics} does not end in .prom.", hint=hint)


def _try_outputs(arguments: argparse.Namespace, options: UpkeepOptions, now_ns: int) -> None:
    """Write reports that are marked as unfinished: a bad place must end the job before its work."""
    named = masked(arguments.uri or arguments.impl or "")
    begun = MaintenanceReport(named, options.execute, (), started=moment_at(now_ns), expected=0)
    for name, form in _FORMS.items():
        path = getattr(arguments, name)
        if path and not is_stream(path):
            first_try(f"--{name}", path, form(begun), arguments)
    if arguments.state and options.execute:
        first_try("--state", arguments.state, options.memory.to_json(), arguments)


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
        progress=partial(_progress, arguments),
    )


_FORMS: Mapping[str, Callable[[MaintenanceReport], str]] = {
    "report": MaintenanceReport.to_json,
    "html": to_html,
    "metrics": to_prometheus,
}
"""By option, the form in which a report is written."""


def _writes(arguments: argparse.Namespace, report: MaintenanceReport) -> dict[str, Callable[[], None]]:
    """The writes of a report to the files that were named, by option."""
    storage, paths = storage_from(arguments.storage), vars(arguments)
    return {name: partial(_write, paths[name], form, report, storage) for name, form in _FORMS.items() if paths[name]}


def _write(
    path: str, form: Callable[[MaintenanceReport], str], report: MaintenanceReport, storage: Mapping[str, str]
) -> None:
    if report.finished or not is_stream(path):
        write_report(path, form(report), storage)


def _progress(arguments: argparse.Namespace, report: MaintenanceReport) -> None:
    for write in _writes(arguments, report).values():
        write()


def _policy(arguments: argparse.Namespace) -> MaintenancePolicy:
    if not arguments.policy:
        return MaintenancePolicy()
    text = policy_text(arguments.policy, storage_from(arguments.storage))
    return parse_maintenance(text)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_line("maintain", __doc__)
    named = "a catalog's directory, or a dataset: a path or a URI"
    made.add_argument("uri", metavar="ROOT|URI", nargs="?", default=argparse.SUPPRESS, help=named)
    made.add_argument("--catalog", dest="uri", metavar="ROOT", help="the same, as the other jobs spell it")
    add(made, *CATALOG)
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
