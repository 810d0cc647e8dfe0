"""Exists so that Spark finds the ``lance`` data source by itself after ``pip install``.

Spark imports every top-level module named ``pyspark_*`` and takes its ``DefaultSource``. Use ``lance_spark``.
"""

from lance_spark.datasource.datasource import LanceDataSource as DefaultSource

__all__ = ["DefaultSource"]
