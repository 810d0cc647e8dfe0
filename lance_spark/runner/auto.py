"""The engine to take where none was chosen: the smallest that does the work well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lance_spark.runner.interface import Engine, Runner
from lance_spark.runner.work import Work
from lance_spark.show.progress import Tell


@dataclass(frozen=True)
class AutoEngine:
    """One engine for little work, another one beyond."""

    small: Engine
    large: Callable[[], Engine]
    """Asked when there is work for it and not before: a cluster takes long to start."""

    @property
    def tell(self) -> Tell:
        """As the small one does."""
        return self.small.tell

    def for_work(self, operation: str, work: Work) -> Runner:
        """The runner of one of them; see Work.is_little."""
        chosen = self.small if work.is_little else self.large()
        return chosen.for_work(operation, work)
