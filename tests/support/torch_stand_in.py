"""The few things of torch that our datasets are made of, for where torch is not installed: it takes gigabytes.

Its workers are real processes, spawned or forked as torch's are: what a dataset is in another process, which batches
which worker makes, and in which order a loop gets them is ours to be right. What tensors can do is torch's.
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from types import ModuleType
from typing import Any

HAS_TORCH = find_spec("torch") is not None
_MODULES = ("torch", "torch.utils", "torch.utils.data", "torch.utils.data._utils", "torch.utils.data._utils.collate")
COLLATE: dict[type, Any] = {}
"""torch.utils.data._utils.collate.default_collate_fn_map: who makes a batch of items of a type."""
_PREFETCHED = 2
"""Batches that a worker makes before the loop asks for them, as torch's workers do."""
_SECONDS = 120.0
"""For which a loop waits for a batch: a worker that hangs fails the test, not the run."""


class Dataset:
    """torch.utils.data.Dataset"""


class IterableDataset(Dataset):
    """torch.utils.data.IterableDataset"""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class WorkerInfo:
    """What torch.utils.data.get_worker_info tells in a worker."""

    id: int
    num_workers: int


class DataLoader:
    """torch.utils.data.DataLoader: batches that the dataset makes, or batches of its rows in order."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        num_workers: int = 0,
        multiprocessing_context: str | None = None,
    ) -> None:
        self._dataset, self._size, self._workers = dataset, batch_size, num_workers
        self._context = multiprocessing_context

    def __iter__(self) -> Iterator[Any]:
        if self._workers:
            yield from self._from_workers()
        else:
            yield from batches_of(self._dataset, self._size, WorkerInfo(0, 1))

    def _from_workers(self) -> Iterator[Any]:
        """What the workers make, one batch of each in turn; a worker that has no more is left out."""
        context: Any = multiprocessing.get_context(self._context)
        queues = [context.Queue(_PREFETCHED) for _ in range(self._workers)]
        processes = []
        for number, queue in enumerate(queues):
            given = pickle.dumps(self._dataset) if self._context == "spawn" else self._dataset
            info = WorkerInfo(number, self._workers)
            processes.append(context.Process(target=work, args=(given, self._size, info, queue), daemon=True))
        try:
            for process in processes:
                process.start()
            while queues:
                for queue in list(queues):
                    kind, value = queue.get(timeout=_SECONDS)
                    if kind == "batch":
                        yield value
                    elif kind == "error":
                        raise value
                    else:
                        queues.remove(queue)
        finally:
            for process in processes:
                process.terminate()
                process.join()


def batches_of(dataset: Any, size: int | None, info: WorkerInfo) -> Iterator[Any]:
    """The batches of one worker, or of the only process."""
    if size is None:
        yield from dataset
        return
    if isinstance(dataset, IterableDataset):
        items = iter(dataset)
        while some := list(islice(items, size)):
            yield COLLATE[type(some[0])](some, collate_fn_map=COLLATE)
        return
    for first in range(info.id * size, len(dataset), info.num_workers * size):
        rows = dataset.__getitems__(list(range(first, min(first + size, len(dataset)))))
        yield {name: [row[name] for row in rows] for name in rows[0]}


def work(given: Any, size: int | None, info: WorkerInfo, queue: Any) -> None:
    """A worker's process: ``given`` is the dataset as it was sent, or as the fork found it."""
    try:
        with installed(info):
            for batch in batches_of(pickle.loads(given) if isinstance(given, bytes) else given, size, info):
                queue.put(("batch", batch))
        queue.put(("end", None))
    except Exception as error:  # noqa: BLE001 - the loop raises it
        queue.put(("error", error))


@contextmanager
def installed(worker: WorkerInfo | None = None) -> Iterator[None]:
    """Let ``import torch`` find the stand-in for a while, unless there is torch.

    Only for a while: pyspark asks whether torch is there, and stumbles over a module without a spec.
    """
    if HAS_TORCH:
        yield
        return
    torch, utils, data, inner, collate = (ModuleType(name) for name in _MODULES)
    parts: dict[str, Any] = {"Dataset": Dataset, "IterableDataset": IterableDataset, "DataLoader": DataLoader}
    for name, part in parts.items():
        setattr(data, name, part)
    data.get_worker_info = lambda: worker  # type: ignore[attr-defined]
    torch.from_numpy = lambda array: array  # type: ignore[attr-defined]
    torch.utils, utils.data = utils, data  # type: ignore[attr-defined]
    collate.default_collate_fn_map = COLLATE  # type: ignore[attr-defined]
    sys.modules.update(dict(zip(_MODULES, (torch, utils, data, inner, collate), strict=True)))
    try:
        yield
    finally:
        for name in _MODULES:
            del sys.modules[name]
