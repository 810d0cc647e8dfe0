"""Reads an inventory file without Spark."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import csv, parquet

from lance_spark.errors import InvalidOption


def read_inventory(path: str) -> pa.Table:
    """A Parquet or CSV file as a table. Raises InvalidOption for one that cannot be read."""
    try:
        table: pa.Table = csv.read_csv(path) if path.endswith((".csv", ".csv.gz")) else parquet.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise InvalidOption(f"The inventory {path} cannot be read: {problem}") from None
    return table
