"""Lance datasets in PySpark: any branch, tag or version, with nothing but pip.

What is here is the public face; ``lance_spark.errors`` has the errors that it raises. Everything else is private.
Names are imported on first use, so that importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_spark.cleanup.retention_rules import CleanupPolicy, VersionRule
    from lance_spark.datasource.datasource import LanceDataSource
    from lance_spark.engine.progress_bar import progress_bar
    from lance_spark.maintenance.policy_rules import MaintenancePolicy
    from lance_spark.search.text_rules import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery
    from lance_spark.spark.catalog import LanceCatalog
    from lance_spark.spark.registering import capabilities, register, unregister
    from lance_spark.spark.search_function import register_search
    from lance_spark.spark.table import LanceTable
    from lance_spark.storage.credentials import storage_options_provider
    from lance_spark.training.torch import Batching as Batching
    from lance_spark.training.torch import FrozenBatches as FrozenBatches
    from lance_spark.training.torch import FrozenRows as FrozenRows

__version__ = "1.0.0"
__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "CleanupPolicy",
    "LanceCatalog",
    "LanceDataSource",
    "LanceTable",
    "MaintenancePolicy",
    "MatchQuery",
    "MultiMatchQuery",
    "PhraseQuery",
    "VersionRule",
    "capabilities",
    "progress_bar",
    "register",
    "register_search",
    "storage_options_provider",
    "unregister",
]
_HOMES = {
    "cleanup.retention_rules": ("CleanupPolicy", "VersionRule"),
    "datasource.datasource": ("LanceDataSource",),
    "engine.progress_bar": ("progress_bar",),
    "maintenance.policy_rules": ("MaintenancePolicy",),
    "search.text_rules": ("BooleanQuery", "BoostQuery", "MatchQuery", "MultiMatchQuery", "PhraseQuery"),
    "spark.catalog": ("LanceCatalog",),
    "spark.registering": ("capabilities", "register", "unregister"),
    "spark.search_function": ("register_search",),
    "spark.table": ("LanceTable",),
    "storage.credentials": ("storage_options_provider",),
    "training.torch": ("Batching", "FrozenBatches", "FrozenRows"),
}
"""The last ones need torch, so that ``from lance_spark import *`` leaves them out."""
_HOME_OF = {name: f"lance_spark.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        try:
            return getattr(import_module(_HOME_OF[name]), name)
        except ModuleNotFoundError as missing:
            if str(missing.name).partition(".")[0] not in ("pyspark", "py4j"):
                raise
            from lance_spark.errors import NotInstalled

            raise NotInstalled.spark(missing.name) from missing
    if name == "errors":
        return import_module("lance_spark.errors")
    from lance_spark.core.words import missing_in_package

    raise missing_in_package(name, sorted(_HOME_OF))


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "__version__", "errors"])
