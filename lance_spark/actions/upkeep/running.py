"""The report of a maintenance while it runs: what was done is told as well by a run that is killed or out of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from lance_spark.errors import LanceSparkError
from lance_spark.upkeep.records import TableRecord
from lance_spark.upkeep.report import MaintenanceReport

_QUICK = 0.5
"""Seconds that a telling may take without a pause after it."""
_SHARE = 10
"""So many times as long as a slow telling took, none follows: a page of 50,000 tables is not written for each."""


class RunningReport:
    """Tells the report after each table; threads share one."""

    def __init__(
        self, report: Callable[[Sequence[TableRecord]], MaintenanceReport], tell: Callable[[MaintenanceReport], object]
    ) -> None:
        """``report`` makes the report of some records. The first one, of no table, is told at once."""
        self._report, self._tell = report, tell
        self._lock = threading.Lock()
        self._ended: list[TableRecord] = []
        self._next = 0.0
        self._told()

    def add(self, record: TableRecord) -> None:
        """Tell how a table ended. That a store fails meanwhile is no error: the last report says what is wrong."""
        with self._lock:
            self._ended.append(record)
            if time.monotonic() >= self._next:
                self._told()

    def _told(self) -> None:
        began = time.monotonic()
        with suppress(LanceSparkError):
            self._tell(self._report(sorted(self._ended, key=lambda record: record.name)))
        took = time.monotonic() - began
        self._next = began + took + _SHARE * took if took > _QUICK else began
