"""Lance datasets in PySpark: any branch, tag or version, with nothing but pip.

``register``, ``LanceDataSource``, ``LanceTable``, ``LanceCatalog`` and ``CleanupPolicy`` are the entry points;
``lance_spark.errors`` defines the errors that they raise. They are imported on first use, so that importing the
package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_spark.cleanup.rules import CleanupPolicy, VersionRule
    from lance_spark.datasource.datasource import LanceDataSource
    from lance_spark.maintenance.rules import MaintenancePolicy
    from lance_spark.spark.catalog import LanceCatalog
    from lance_spark.spark.registering import capabilities, register, unregister
    from lance_spark.spark.search_function import register_search
    from lance_spark.spark.table import LanceTable

__version__ = "0.1.0"
__all__ = [
    "CleanupPolicy",
    "LanceCatalog",
    "LanceDataSource",
    "LanceTable",
    "MaintenancePolicy",
    "VersionRule",
    "capabilities",
    "register",
    "register_search",
    "unregister",
]

_HOMES = {
    "CleanupPolicy": "lance_spark.cleanup.rules",
    "VersionRule": "lance_spark.cleanup.rules",
    "LanceCatalog": "lance_spark.spark.catalog",
    "LanceDataSource": "lance_spark.datasource.datasource",
    "LanceTable": "lance_spark.spark.table",
    "MaintenancePolicy": "lance_spark.maintenance.rules",
    "capabilities": "lance_spark.spark.registering",
    "register": "lance_spark.spark.registering",
    "register_search": "lance_spark.spark.search_function",
    "unregister": "lance_spark.spark.registering",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "errors":
        return import_module("lance_spark.errors")
    raise AttributeError(f"module 'lance_spark' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "errors"]
