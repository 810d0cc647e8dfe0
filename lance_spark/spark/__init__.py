"""The public handles on tables and catalogs in PySpark, and ``register``, which makes Lance known to a session."""
