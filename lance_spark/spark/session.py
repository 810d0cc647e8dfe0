"""The Spark session a job runs in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def job_session(name: str) -> SparkSession:
    """The session that spark-submit prepared, or a local one, with this interpreter for the Python workers.

    Without PYSPARK_PYTHON Spark starts whichever ``python3`` is first on the PATH, and the first query ends with
    "No module named 'lance'" although the driver has it.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    return SparkSession.builder.appName(name).getOrCreate()
