"""``Catalog.listTables`` of the root of a catalog, for classic sessions and for those of Spark Connect."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from pyspark.errors import ParseException

from lance_spark.core.texts import quoted_name


def tables_of_root(own: Any, spark: Any, catalogs: Container[str], problem: ParseException, *given: Any) -> list[Any]:
    """The tables in place of Spark's error; raises that where it has another cause.

    Spark parses each table's namespace as SQL, but the name of a catalog's root is "". ``own`` is PySpark's
    ``Catalog``, ``given`` what ``listTables`` got, and ``catalogs`` are this package's.
    """
    namespace, pattern = given
    catalog = own.currentCatalog() if namespace is None else namespace.strip("`")
    if catalog not in catalogs or problem.getCondition() != "PARSE_EMPTY_STATEMENT":
        raise problem
    like = "" if pattern is None else " LIKE '" + pattern.replace("\\", "\\\\").replace("'", "\\'") + "'"
    found = spark.sql(f"SHOW TABLES IN {quoted_name(catalog)}{like}").collect()
    return [own.getTable(f"{quoted_name(catalog)}.{quoted_name(row.tableName)}") for row in found]
