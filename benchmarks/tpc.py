"""The questions of TPC-H and TPC-DS, and TPC-DS's data: as DuckDB's extensions on PyPI carry them."""

from __future__ import annotations

import re
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import duckdb


def questions(benchmark: str) -> dict[int, str]:
    """The queries of ``tpch`` (22) or ``tpcds`` (99) by their number, as Spark spells names in quotes."""
    with closing(_database(benchmark)) as database:
        found = database.sql(f"SELECT query_nr, query FROM {benchmark}_queries()").fetchall()
    return {number: re.sub('"([^"]+)"', r"`\1`", text.strip().rstrip(";")) for number, text in found}


def make_tpcds(home: Path, scale: float) -> list[str]:
    """Write TPC-DS's tables as ``<home>/<name>.parquet``, and return their names."""
    with closing(_database("tpcds")) as database:
        database.execute("CALL dsdgen(sf = $scale)", {"scale": scale})
        names = [name for (name,) in database.sql("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
        for name in names:
            database.table(name).write_parquet(str(home / f"{name}.parquet"))
    return names


def _database(benchmark: str) -> duckdb.DuckDBPyConnection:
    """A database in memory that knows the benchmark. Loaded from the installed file: DuckDB would download it."""
    home = files(f"duckdb_extension_{benchmark}") / "extensions" / f"v{duckdb.__version__}"
    database = duckdb.connect()
    database.execute(f"LOAD '{home / benchmark}.duckdb_extension'")
    return database
