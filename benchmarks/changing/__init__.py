"""Changing rows and columns: one module per part of ``python -m benchmarks.rows``."""
