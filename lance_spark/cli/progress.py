"""What runs at the moment, in one line of the terminal: after some seconds, and wiped before anything else is said."""

from __future__ import annotations

import sys
import threading
import time

from lance_spark.show.progress import WorkProgress

_PATIENCE = 2.0
"""Seconds that nobody minds to wait. What is done by then shows nothing."""
_EVERY = 0.5
_WIDTH = 24


def bar_text(progress: WorkProgress, seconds: float) -> str:
    """``copy [#########---------------] 40 of 120, 12 s``."""
    if progress.total > 1:
        full = _WIDTH * min(progress.done, progress.total) // progress.total
        counts = f"{progress.done:,} of {progress.total:,}"
        return f"{progress.stage} [{'#' * full}{'-' * (_WIDTH - full)}] {counts}, {seconds:.0f} s"
    return f"{progress.stage} ... {seconds:.0f} s"


class ProgressBar:
    """A line on stderr, if that is a terminal. A thread draws it: one file may take minutes, with nothing to tell."""

    def __init__(self, patience: float = _PATIENCE, every: float = _EVERY) -> None:
        self._patience, self._every = patience, every
        self._lock = threading.Lock()
        self._now: WorkProgress | None = None
        self._began = 0.0
        self._drawn = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.hushed = False
        """Whether to show nothing, as programs read what is printed."""

    def tell(self, progress: WorkProgress) -> None:
        """What is done at the moment."""
        if self.hushed or not sys.stderr.isatty():
            return
        with self._lock:
            self._now = progress
            if self._thread is None:
                self._began, self._ended = time.monotonic(), threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._ended,), daemon=True)
                self._thread.start()

    def wipe(self) -> None:
        """Nothing runs any more, or something is going to be said."""
        with self._lock:
            thread, self._thread, self._now = self._thread, None, None
            self._ended.set()
            if self._drawn:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
                self._drawn = False
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, ended: threading.Event) -> None:
        wait = self._patience
        while not ended.wait(wait):
            with self._lock:
                if self._now is not None and not ended.is_set():
                    sys.stderr.write(f"\r\033[K{bar_text(self._now, time.monotonic() - self._began)}")
                    sys.stderr.flush()
                    self._drawn = True
            wait = self._every


BAR = ProgressBar()
"""The one of this process: there is one terminal."""
