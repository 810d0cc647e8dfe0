"""Check: whether everything that the versions of a Lance dataset name exists, for main, branches, tags and clones.

    spark-submit jobs/fsck.py s3://bucket/flights.lance             # manifests, files, sizes, refs, base paths
    spark-submit jobs/fsck.py s3://bucket/flights.lance --deep      # also inside files
    spark-submit jobs/fsck.py s3://bucket/flights.lance --repair    # also show what can be repaired; --execute does it
    spark-submit jobs/fsck.py s3://bucket/flights.lance --undo last # undo the last repair
    spark-submit jobs/fsck.py --catalog s3://bucket/lake            # every table, and the catalog itself

Changes nothing without --execute or --undo. Findings are printed as a table, and written as JSON with --report.

Exit codes: 0 sound, with at most warnings and notes, or everything was repaired; 20 something could not be reached, or
the store did not answer; 22 something is missing or damaged; 6 part of it was repaired, or only the catalog has
problems; 2 bad option; 3 a repair that is not allowed; 10 there is no dataset; 12 the dataset never stopped changing;
21 no permission.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone

from lance_spark.catalog.lookup import open_catalog
from lance_spark.core.declared import add_arguments, at, values
from lance_spark.core.options import storage_from
from lance_spark.core.show import WorkProgress
from lance_spark.engine.local import Engine
from lance_spark.engine.session_spark import JobSession, add_log_level, add_where, engine_for
from lance_spark.errors import InvalidOption, LanceSparkError
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.lake import fsck_catalog
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.report import CatalogFsckReport, FsckReport
from lance_spark.fsck.undo import undo
from lance_spark.storage.resolving import dataset_at
from lance_spark.storage.small_files import write_report

PARTLY_REPAIRED = 6


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        _check(arguments)
        if arguments.undo:
            print(undo(dataset_at(arguments.uri, storage_from(arguments.storage)), arguments.undo))
            return 0
        with JobSession("lance fsck", arguments.log_level, _say) as session:
            report = _run(arguments, engine_for(arguments.where, session, arguments.parallelism, _tell))
        print(report)
        if arguments.report:
            write_report(arguments.report, report.to_json(), storage_from(arguments.storage))
    except LanceSparkError as error:
        print(f"error: {error.told('shell')}", file=sys.stderr)
        return error.exit_code
    if isinstance(report, FsckReport):
        return report.exit_code_after_repair(PARTLY_REPAIRED)
    return report.exit_code


def _run(arguments: argparse.Namespace, engine: Engine) -> FsckReport | CatalogFsckReport:
    options = FsckOptions(**values(at(FsckOptions, "job"), vars(arguments)))
    storage = storage_from(arguments.storage)
    if arguments.catalog:
        return fsck_catalog(open_catalog(arguments.catalog, storage), options, engine, datetime.now(timezone.utc))
    location = dataset_at(arguments.uri, storage)
    if not arguments.repair:
        return fsck(location, options, engine, time.time_ns())
    repair = RepairOptions(arguments.on_main, dry_run=not arguments.execute)
    return fsck_and_repair(location, options, repair, engine, time.time_ns())


def _check(arguments: argparse.Namespace) -> None:
    """Raise InvalidOption for options that cannot be combined."""
    if (arguments.uri is None) == (arguments.catalog is None):
        raise InvalidOption("Name either a dataset or --catalog.", hint="Give one of them.")
    if arguments.catalog and (arguments.repair or arguments.undo or arguments.clones or arguments.clones_from):
        raise InvalidOption(
            "--repair, --undo, --clone and --clones-from are for one dataset.", hint="Repair tables one by one."
        )
    if (arguments.execute or arguments.on_main) and not arguments.repair:
        raise InvalidOption("--execute and --on-main need --repair.", hint="Without it, nothing is changed.")
    if arguments.undo and (arguments.repair or arguments.deep):
        raise InvalidOption("--undo cannot be combined with other options.", hint="It undoes a repair.")


def _tell(progress: WorkProgress) -> None:
    if not progress.done:
        _say(progress.stage)


def _say(stage: str) -> None:
    print(f"{stage} ...", file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="fsck.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("uri", metavar="URI", nargs="?", help="the dataset: a path or a URI")
    made.add_argument("--catalog", metavar="ROOT", help="instead of a dataset: all tables of the catalog there")
    add_arguments(made, at(FsckOptions, "job"))
    made.add_argument("--repair", action="store_true", help="show the repairs that are possible; all can be undone")
    made.add_argument("--execute", action="store_true", help="with --repair: do it")
    add_arguments(made, at(RepairOptions, "job"))
    made.add_argument("--undo", metavar="RECORD", help="undo the repair of that id, or the 'last' one")
    made.add_argument("--report", metavar="FILE", help="write the report as JSON")
    made.add_argument("--parallelism", type=int, metavar="N", help="tasks side by side (default: the cores)")
    made.add_argument("--storage", action="append", default=[], metavar="KEY=VALUE", help="a storage option")
    add_where(made)
    add_log_level(made)
    return made


if __name__ == "__main__":
    sys.exit(main())
