"""(e): ``python -m benchmarks.cleanup_large FILES VERSIONS``: a Spark job on many files; prints what it took as JSON.

In a process of its own, whose memory nothing else has used before, and with executors in others again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks.cleanup_cases import KEEP_LATEST
from benchmarks.cleanup_data import AGED, add_orphans, file_count, history
from benchmarks.measure import Case, Result, Target

_FRAGMENTS = 10
_MASTER = "local-cluster[2,1,1024]"
_LIMIT_MIB = 1024
"""Of the driver: this process and its JVM together."""


def large(files: int, versions: int) -> Result:
    """Measured once, in another process."""
    name = f"(e) {files:,} files, {versions:,} versions, aged"
    target = Target("finishes", who="ours_on_Spark")
    result = Result(name, Case({"ours_on_Spark": tuple}, (target,)))
    command = [sys.executable, "-m", "benchmarks.cleanup_large", str(files), str(versions)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        result.problems["ours_on_Spark"] = f"exit code {done.returncode}"
        return result
    told = json.loads(done.stdout.splitlines()[-1])
    result.seconds["ours_on_Spark"] = [told.pop("seconds")]
    result.details["ours_on_Spark"] = told
    return result


def _clean(files: int, versions: int) -> dict[str, Any]:
    from lance_spark.cleanup.cleanup import plan_cleanup
    from lance_spark.engine.session_spark import SparkEngine
    from lance_spark.storage.datasets import locate

    dataset = history(_FRAGMENTS, versions)
    with dataset.copy() as uri:
        add_orphans(uri, files - file_count(uri), AGED)
        before = file_count(uri)
        spark = _session()
        spark.range(1000).mapInArrow(lambda batches: batches, "id long").count()
        stages: list[tuple[float, str]] = []
        engine = SparkEngine(lambda: spark, tell=lambda step: stages.append((time.perf_counter(), step.stage)))
        started = time.perf_counter()
        report = plan_cleanup(locate(uri), KEEP_LATEST, engine, time.time_ns()).apply()
        ended = time.perf_counter()
        driver, jvm = _peak_mib(os.getpid()), _peak_mib(_jvm_pid(spark))
        spark.stop()
        dataset.check(uri)
        return {
            "seconds": ended - started,
            "files": before,
            "removed": before - file_count(uri),
            "complete": report.complete,
            "driver_mib": {"python": driver, "jvm": jvm},
            "driver_below_1_gib": driver + jvm < _LIMIT_MIB,
            "stages": _durations(started, stages, ended),
        }


def _session() -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(_MASTER).appName("lance_spark cleanup benchmark")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
    }
    return builder.config(map=settings).getOrCreate()


def _jvm_pid(spark: Any) -> int:
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def _peak_mib(pid: int) -> int:
    """The most memory a process had so far."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def _durations(started: float, stages: list[tuple[float, str]], ended: float) -> list[tuple[str, float]]:
    """Seconds from the moment a stage was announced to the next one: Spark begins when results are asked for."""
    begun = [(started, "survey"), *stages]
    ends = [moment for moment, _ in stages] + [ended]
    return [(stage, round(end - moment, 2)) for (moment, stage), end in zip(begun, ends, strict=True)]


if __name__ == "__main__":
    print(json.dumps(_clean(int(sys.argv[1]), int(sys.argv[2]))))
