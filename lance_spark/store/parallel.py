"""Many small requests at once, where a store answers each only after tens of milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lance_spark.location import DatasetLocation

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_THREADS = 16


def each(location: DatasetLocation, ask: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """What is answered for each of the items, in their order.

    One after the other on a local disk: handing a request to a thread takes longer there than the answer.
    """
    wanted = list(items)
    if location.is_local or len(wanted) < 2:
        return [ask(item) for item in wanted]
    with ThreadPoolExecutor(min(_THREADS, len(wanted))) as pool:
        return list(pool.map(ask, wanted))
