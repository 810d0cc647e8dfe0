"""Indexes: list, create, optimize, drop."""
