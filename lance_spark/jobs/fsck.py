"""Check: whether everything that the versions of a Lance dataset name exists, for main, branches, tags and clones.

    spark-submit jobs/fsck.py s3://bucket/flights.lance             # manifests, files, sizes, refs, base paths
    spark-submit jobs/fsck.py s3://bucket/flights.lance --deep      # also inside files
    spark-submit jobs/fsck.py s3://bucket/flights.lance --repair    # also repair; with --dry-run only show it
    spark-submit jobs/fsck.py s3://bucket/flights.lance --undo last # undo the last repair
    spark-submit jobs/fsck.py --catalog s3://bucket/lake            # every table, and the catalog itself
    spark-submit jobs/fsck.py --impl rest --property uri=https://...    # every table of a catalog service

Changes nothing without --repair or --undo. Findings are printed as a table, and written as JSON with --report.

Exit codes: 0 sound, with at most warnings and notes, or everything was repaired; 20 something could not be reached, or
the store did not answer; 22 something is missing or damaged; 6 part of it was repaired, or only the catalog has
problems; 2 bad option; 3 a repair that is not allowed; 10 there is no dataset; 12 the dataset never stopped changing;
21 no permission; 24 done, but the report could not be written.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone

from lance_spark.core.declared import add_arguments, at, typed_at
from lance_spark.core.progress import WorkProgress
from lance_spark.core.storage_options import storage_from
from lance_spark.engine.local import Engine
from lance_spark.engine.session_spark import JobSession, engine_for
from lance_spark.errors import InvalidOption
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.lake import fsck_catalog
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions, check_combination
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.report import CatalogFsckReport, FsckReport
from lance_spark.fsck.undo import undo
from lance_spark.jobs.job import (
    HOW,
    add,
    check_is_dataset,
    command_line,
    named_catalog,
    run,
    say,
    show,
    try_report,
)
from lance_spark.storage.resolving import dataset_at

PARTLY_REPAIRED = 6


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    return run(parser().parse_args(argv), _main)


def _main(arguments: argparse.Namespace) -> int:
    _check(arguments)
    if arguments.undo:
        print(undo(dataset_at(arguments.uri, storage_from(arguments.storage)), arguments.undo))
        return 0
    try_report(arguments)
    with JobSession("lance fsck", arguments.log_level, _say) as session:
        report = _run(arguments, engine_for(arguments.run_on, session, arguments.parallelism, _tell))
    code = report.exit_code_after_repair(PARTLY_REPAIRED) if isinstance(report, FsckReport) else report.exit_code
    return show(arguments, str(report), report.to_json(), code)


def _run(arguments: argparse.Namespace, engine: Engine) -> FsckReport | CatalogFsckReport:
    options, storage = typed_at("job", FsckOptions, vars(arguments)), storage_from(arguments.storage)
    catalog = named_catalog(arguments, arguments.catalog)
    if catalog is not None:
        return fsck_catalog(catalog, options, engine, datetime.now(timezone.utc))
    location = dataset_at(arguments.uri, storage)
    check_is_dataset(location)
    if not arguments.repair:
        return fsck(location, options, engine, time.time_ns())
    repair = typed_at("job", RepairOptions, vars(arguments))
    return fsck_and_repair(location, options, repair, engine, time.time_ns())


def _check(arguments: argparse.Namespace) -> None:
    """Raise InvalidOption for options that cannot be combined."""
    if [arguments.uri, arguments.catalog, arguments.impl].count(None) != 2:
        raise InvalidOption("Name either a dataset, --catalog or --impl.", hint="Give one of them.")
    if arguments.uri is None and (arguments.repair or arguments.undo or arguments.clones or arguments.clones_from):
        raise InvalidOption(
            "--repair, --undo, --clone and --clones-from are for one dataset.", hint="Repair tables one by one."
        )
    check_combination(vars(arguments))


def _tell(progress: WorkProgress) -> None:
    if not progress.done:
        _say(progress.stage)


def _say(stage: str) -> None:
    say(f"{stage} ...")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_line("fsck", __doc__)
    add(made, "uri", "--catalog", "--impl", "--property")
    add_arguments(made, at(FsckOptions, "job"))
    made.add_argument("--repair", action="store_true", help="repair what can be repaired; all of it can be undone")
    add_arguments(made, at(RepairOptions, "job"))
    made.add_argument("--undo", metavar="RECORD", help="undo the repair of that id, or the 'last' one")
    add(made, "--report", "--parallelism", *HOW)
    return made


if __name__ == "__main__":
    sys.exit(main())
