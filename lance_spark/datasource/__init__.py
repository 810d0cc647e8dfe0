"""The data source behind ``spark.read.format("lance")`` and ``df.write.format("lance")``."""

from lance_spark.engine.lazy_spark import check_pyspark

check_pyspark()  # its files import PySpark, and would raise a bare ModuleNotFoundError
