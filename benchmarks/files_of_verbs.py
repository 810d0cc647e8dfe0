"""``python -m benchmarks.files_of_verbs``: the files that run in the driver when a verb does, without shared rooms.

Each verb runs once before it is counted, so that what imports and the first use of a session need is not in it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import CleanupPolicy, LanceTable

ROOT = Path(lance_spark.__file__).parent
SHARED = {"core", "format", "storage", "engine", "survey", "layout", "scan", "write", "pushdown", "jvm", "session"}


def traced(call: Callable[[], object]) -> set[Path]:
    """The files of the package whose functions a call runs."""
    found = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {Path(name).relative_to(ROOT) for name in found if Path(name).is_relative_to(ROOT)}


def table_at(uri: str) -> LanceTable:
    """A new table of ten fragments, with vectors."""
    values = pa.array([float(number % 7) for number in range(4000)], pa.float32())
    columns = {"id": range(1000), "x": [1.5] * 1000, "v": pa.FixedSizeListArray.from_arrays(values, 4)}
    lance.write_dataset(pa.table(columns), uri, max_rows_per_file=100)
    return LanceTable.for_path(uri)


def merge_ready(table: LanceTable) -> LanceTable:
    table.branches.create("exp")
    table.checkout(branch="exp").update({"x": "x + 1"}, "id < 300")
    table.update({"x": "x * 2"}, "id > 700")
    return table


def cleaned(table: LanceTable) -> None:
    table.cleanup(CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))).apply()


VERBS: dict[str, Callable[[LanceTable], object]] = {
    "write": lambda table: table.write(pa.table({"id": [5000], "x": [2.5]}), mode="append"),
    "update": lambda table: table.update({"x": "x + 1"}, "id < 50"),
    "delete": lambda table: table.delete("id = 999"),
    "branch merge": lambda table: table.branches.merge("exp", on="id"),
    "search": lambda table: table.search([1.0, 2.0, 3.0, 4.0], k=3),
    "compaction": lambda table: table.optimize(),
    "cleanup": cleaned,
    "fsck": lambda table: table.fsck(),
}


def main() -> None:
    """Print a row for each verb."""
    SparkSession.builder.master("local[1]").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as directory:
        for verb, call in VERBS.items():
            tables = [table_at(f"{directory}/{verb}{number}.lance") for number in range(2)]
            first, second = map(merge_ready, tables) if "merge" in verb else tables
            call(first)
            own = {file for file in traced(partial(call, second)) if file.parts[0] not in SHARED}
            own = {file for file in own if len(file.parts) > 1}
            rooms = ", ".join(sorted({file.parts[0] for file in own}))
            print(f"| {verb} | {len(own)} | {rooms} |")
            if "--files" in sys.argv:
                print("   ", *sorted(map(str, own)))


if __name__ == "__main__":
    main()
