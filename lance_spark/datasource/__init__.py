"""The data source behind ``spark.read.format("lance")`` and ``df.write.format("lance")``."""
