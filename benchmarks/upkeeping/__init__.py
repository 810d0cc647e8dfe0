"""Upkeep of a table: one module per part of ``python -m benchmarks.upkeep``."""
