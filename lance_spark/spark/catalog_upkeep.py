"""``catalog.storage()`` and ``catalog.maintain()``: what all tables take, and looking after them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lance_spark.actions.catalog.storage import catalog_storage
from lance_spark.spark.engines import engine_of
from lance_spark.spark.maintaining import maintain_tables_of
from lance_spark.spark.session import session_or_none
from lance_spark.spark.upkeep import data_frame

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import SparkSession

    from lance_spark.catalog.model import Catalog
    from lance_spark.catalog.names import Name
    from lance_spark.spark.engines import Where
    from lance_spark.spark.maintaining import Policy
    from lance_spark.upkeep.report import MaintenanceReport
    from lance_spark.usage.lake import CatalogStorage


class CatalogUpkeep:
    """Verbs of a catalog over all of its tables."""

    catalog: Catalog
    _spark: SparkSession | None

    def storage(self, namespace: Name = "", where: Where = "auto") -> CatalogStorage:
        """What each table takes: a row a table, the largest first; or those in a namespace and below it.

        Executors look at tables where there are many, or where one is large. A table that cannot be looked at is a row
        with its error. Raises NotFound, StorageFailure.
        """
        session = session_or_none(self._spark)  # threads of a pool have no active session
        report = catalog_storage(self.catalog, engine_of(session, where), namespace)
        return report if session is None else replace(report, frame=partial(data_frame, session))

    def maintain(
        self,
        policy: Policy | None = None,
        execute: bool = False,
        where: Where = "auto",
        limit: str | timedelta | None = None,
    ) -> MaintenanceReport:
        """Look after all tables side by side: check, compaction, indexes, expiry of refs, cleanup; then the catalog.

        ``policy`` is a :class:`MaintenancePolicy`, or the words of a policy file as a dictionary. Without ``execute``
        the report says what would be done. No step begins after ``limit``, such as ``"2h"``; then the most valuable
        table comes first. What goes wrong is in the report. Raises InvalidOption, NotFound, StorageFailure.
        """
        return maintain_tables_of(self._spark, self.catalog, policy, execute, where, limit)
