"""The few things of torch that our datasets are made of, for where torch is not installed: it takes gigabytes.

Workers, and what tensors can do, are tested with torch itself, where it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

HAS_TORCH = find_spec("torch") is not None


class Dataset:
    """torch.utils.data.Dataset"""


class IterableDataset(Dataset):
    """torch.utils.data.IterableDataset"""


class DataLoader:
    """torch.utils.data.DataLoader in this process: batches that the dataset makes, or batches of its rows in order."""

    def __init__(self, dataset: Any, batch_size: int | None = 1, num_workers: int = 0, **_: Any) -> None:
        assert num_workers == 0, "the stand-in has no workers"
        self._dataset, self._size = dataset, batch_size

    def __iter__(self) -> Iterator[Any]:
        if self._size is None:
            yield from self._dataset
            return
        for first in range(0, len(self._dataset), self._size):
            rows = self._dataset.__getitems__(list(range(first, min(first + self._size, len(self._dataset)))))
            yield {name: [row[name] for row in rows] for name in rows[0]}


@contextmanager
def installed() -> Iterator[None]:
    """Let ``import torch`` find the stand-in for a while, unless there is torch.

    Only for a while: pyspark asks whether torch is there, and stumbles over a module without a spec.
    """
    if HAS_TORCH:
        yield
        return
    torch, utils, data = (ModuleType(name) for name in ("torch", "torch.utils", "torch.utils.data"))
    parts: dict[str, Any] = {"Dataset": Dataset, "IterableDataset": IterableDataset, "DataLoader": DataLoader}
    for name, part in parts.items():
        setattr(data, name, part)
    data.get_worker_info = lambda: None  # type: ignore[attr-defined]
    torch.from_numpy = lambda array: array  # type: ignore[attr-defined]
    torch.utils, utils.data = utils, data  # type: ignore[attr-defined]
    modules = {"torch": torch, "torch.utils": utils, "torch.utils.data": data}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
