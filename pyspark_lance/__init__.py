"""Lets Spark find the ``lance`` data source by itself after ``pip install``.

Spark imports every top-level module named ``pyspark_*`` and uses its ``DefaultSource``. Use ``lance_spark`` instead.
"""

from lance_spark.datasource.datasource import LanceDataSource as DefaultSource

__all__ = ["DefaultSource"]
