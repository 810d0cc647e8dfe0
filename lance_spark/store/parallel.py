"""Many small requests at once, where a store answers each only after tens of milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lance_spark.location import DatasetLocation

THREADS = 16
"""How many requests of one task are under way at once."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(location: DatasetLocation, ask: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """The answer for each of the items, in their order.

    One after the other on a local disk: there, starting a thread takes longer than the answer.
    """
    requests = list(items)
    if location.is_local or len(requests) < 2:
        return [ask(request) for request in requests]
    with ThreadPoolExecutor(min(THREADS, len(requests))) as pool:
        return list(pool.map(ask, requests))
