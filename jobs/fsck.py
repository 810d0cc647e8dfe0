"""Check: whether everything that the versions of a Lance dataset name is there, on main, branches, tags and clones.

    spark-submit jobs/fsck.py s3://bucket/flights.lance             # manifests, files, sizes, refs, base paths
    spark-submit jobs/fsck.py s3://bucket/flights.lance --deep      # also inside of files

Nothing is changed. Findings are printed as a table, and written as JSON with --report.

Exit codes: 0 sound, with warnings and notes at most; 20 something could not be reached, or the store did not answer; 22
something is missing or damaged; 2 bad option; 10 there is no dataset; 12 the dataset never stopped changing; 21 no
permission.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import get_args

from lance_spark.actions.fsck.fsck import FsckOptions, fsck
from lance_spark.actions.target import dataset_at
from lance_spark.errors import LanceSparkError
from lance_spark.options.storage import storage_from
from lance_spark.spark.engines import Where, engine_for
from lance_spark.spark.session import JobSession, add_log_level
from lance_spark.store.plans import write_report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    arguments = parser().parse_args(argv)
    try:
        with JobSession("lance fsck", arguments.log_level, _say) as session:
            location = dataset_at(arguments.uri, storage_from(arguments.storage))
            options = FsckOptions(arguments.deep, tuple(arguments.clone), tuple(arguments.clones_from))
            engine = engine_for(arguments.where, session, arguments.parallelism, _say)
            report = fsck(location, options, engine, time.time_ns())
        print(report)
        if arguments.report:
            write_report(arguments.report, report.to_json(), storage_from(arguments.storage))
    except LanceSparkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return report.exit_code


def _say(stage: str) -> None:
    print(f"{stage} ...", file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="fsck.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("uri", metavar="URI", help="the dataset: a path or a URI")
    made.add_argument("--deep", action="store_true", help="open files: footers, rows, deletions, indexes, row ids")
    made.add_argument("--clone", action="append", default=[], metavar="URI", help="a shallow clone (repeatable)")
    made.add_argument("--clones-from", action="append", default=[], metavar="URI", help="all datasets below it")
    made.add_argument("--report", metavar="FILE", help="write the report as JSON")
    made.add_argument("--parallelism", type=int, metavar="N", help="tasks side by side (default: the cores)")
    made.add_argument("--storage", action="append", default=[], metavar="KEY=VALUE", help="a storage option")
    made.add_argument(
        "--where",
        choices=get_args(Where),
        default="auto",
        help="on threads of this process while that is quick, else on Spark (auto, the default); or always on one",
    )
    add_log_level(made)
    return made


if __name__ == "__main__":
    sys.exit(main())
