"""Compaction and sorting: rewrites fragments of a branch without changing its rows."""
