"""Spark's planner and SQL on Lance, in classic sessions: tables, scans, catalogs and statements through the JVM.

All of it is optional: if a Spark class is missing, or on Spark Connect, the plain data source gives the same answers.
"""

from lance_spark.engine.lazy_spark import check_pyspark, pyspark_module

check_pyspark()  # its files import PySpark, and would raise a bare ModuleNotFoundError
pyspark_module("py4j.protocol")  # which pyspark-client, a Spark Connect without Spark, does not bring
