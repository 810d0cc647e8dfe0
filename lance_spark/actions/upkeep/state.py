"""The file of what runs remember, written while a run goes on: a killed one has not checked its tables for nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from lance_spark.errors import LanceSparkError
from lance_spark.store.small_files import read_report, write_report
from lance_spark.upkeep.memory import Memory, read_memory, remember
from lance_spark.upkeep.records import TableRecord

_PAUSE = 60
"""Seconds between two writes. The file names all tables of a lake: written for each of 50,000 it would cost hours."""


class StateFile:
    """What runs remember of tables, by path or URI; threads share one."""

    def __init__(self, path: str, storage: Mapping[str, str], now_ns: int) -> None:
        """``now_ns`` is when the run began, nanoseconds since the epoch: checks count from then."""
        self._path, self._storage, self._now_ns = path, storage, now_ns
        self._lock = threading.Lock()
        self._ended: list[TableRecord] = []
        self._next = time.monotonic() + _PAUSE

    def load(self) -> Memory:
        """What the last run left; nothing where there is no file. Raises CorruptData, StorageFailure."""
        text = read_report(self._path, self._storage)
        return Memory() if text is None else read_memory(text)

    def add(self, record: TableRecord) -> None:
        """Remember how a table ended; it is written with the next write. A store that fails meanwhile is no error."""
        with self._lock:
            self._ended.append(record)
            if time.monotonic() < self._next:
                return
            try:
                self._write()
            except LanceSparkError:
                self._next = time.monotonic() + _PAUSE  # the write at the end says what is wrong

    def close(self) -> None:
        """Write what was not written yet. Raises CorruptData, StorageFailure."""
        with self._lock:
            if self._ended:
                self._write()

    def _write(self) -> None:
        """On top of what is there by now: another run, of other tables, may have written meanwhile."""
        memory = remember(self.load(), self._ended, self._now_ns)
        write_report(self._path, memory.to_json(), self._storage)
        self._ended.clear()
        self._next = time.monotonic() + _PAUSE
