"""Makes a Python shell as new for the next page: with the names, the session and the directory that it began with."""

from __future__ import annotations

import os
import sys
from typing import Any

_BEGAN: dict[str, Any] = {}


def begin(names: dict[str, Any]) -> None:
    """Remember what a shell has when it starts, and let it ask with prompts that nothing else prints."""
    sys.ps1 = sys.ps2 = "\x1e"
    _BEGAN.update(names)


def again(names: dict[str, Any]) -> None:
    """Forget what a page did to the shell and to its session."""
    from lance_spark import capabilities, unregister

    for name in names.keys() - _BEGAN.keys():
        del names[name]
    names.update(_BEGAN)
    spark = names["spark"]
    for query in spark.streams.active:
        query.stop()
    if capabilities(spark).native:
        unregister(spark)
    spark.catalog.clearCache()
    spark.catalog.setCurrentCatalog("spark_catalog")
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
    os.chdir(os.environ["PWD"])


def with_torch() -> None:
    """Import what needs torch, which a stand-in serves where torch is not installed: it takes gigabytes."""
    from support.torch_stand_in import installed

    with installed():
        import lance_spark.training.torch  # noqa: F401
