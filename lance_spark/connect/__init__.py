"""A client of Spark Connect lets a process beside the server do what needs Spark's JVM."""

from lance_spark.engine.lazy_spark import check_pyspark

check_pyspark()
