"""The only code that says ``pyspark``."""
