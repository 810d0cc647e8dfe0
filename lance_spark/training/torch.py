"""Frozen sets as torch datasets: by position, or as a stream of batches that can resume. Requires torch."""

from __future__ import annotations

import pickle
import pickletools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.calls import making
from lance_spark.core.show import Card, Shown
from lance_spark.core.words import ASKED_OF_TRAINING, CALLS_OF_TRAINING, OF_TRAINING, Hinting, HintingType
from lance_spark.errors import InvalidOption, NotInstalled, Refused, WrongArguments
from lance_spark.training.reading import Convert, FrozenSplit, Order, Progress, Shard, Worker, open_split

try:
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
except ModuleNotFoundError as missing:
    raise NotInstalled(
        f"This needs torch, and Python finds no module '{missing.name}'.", hint="pip install 'lance-spark[torch]'"
    ) from missing

try:
    from torch.utils.data._utils.collate import default_collate_fn_map
except ImportError:  # of an older torch: then it says itself that it cannot stack batches
    default_collate_fn_map = {}

_LARGEST = 2**63 - 1
_MAKE_BATCHES = frozenset({"batch_size", "batch_sampler", "drop_last", "sampler", "shuffle"})
_LEAVE_OUT = "Leave such rows out when freezing, leave the column out, or pass convert=, a function of the rows."


def to_tensors(rows: pa.Table) -> dict[str, Any]:
    """Columns by name: tensors of numbers, booleans and vectors of them, lists of everything else.

    Missing floating-point numbers are NaN. Raises Refused for other missing numbers, which a tensor cannot represent.
    """
    return {name: _to_tensor(name, rows[name].combine_chunks()) for name in rows.schema.names}


def _to_tensor(name: str, column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):  # combining a column without chunks keeps it chunked
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    vector = pt.is_fixed_size_list(kind)
    element = kind.value_type if vector else kind
    if not (pt.is_integer(element) or pt.is_floating(element) or pt.is_boolean(element)):
        return column.to_pylist()
    if vector and column.null_count:
        raise _missing(name)
    values = column.flatten() if vector else column
    if values.null_count:
        if not pt.is_floating(element):
            raise _missing(name)
        values = pc.fill_null(values, float("nan"))
    array = np.array(values.to_numpy(zero_copy_only=False), copy=True)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # not every torch supports larger unsigned numbers
        if array.size and array.max() > _LARGEST:
            raise Refused(f"Column '{name}' has {array.max()}, which a tensor cannot represent.", hint=_LEAVE_OUT)
        array = array.astype(np.int64)
    return torch.from_numpy(array.reshape(len(column), kind.list_size) if vector else array)


class TrainingBatch(dict[str, Any]):
    """The columns of a batch by name. A DataLoader that makes batches of them is told that they are batches already."""


def _refuse_batches_of_batches(_batch: Sequence[TrainingBatch], **_maps: Any) -> Any:
    raise InvalidOption(
        "The items of FrozenBatches are batches, and the DataLoader makes batches of them once more.",
        hint="Give it batch_size=None and the size to Batching(size), or use batches.loader(num_workers=...).",
    )


# What torch asks first when it collates items of a type. Otherwise full batches come out stacked, with one dimension
# too many, and the last, shorter one ends the epoch in an error about sizes of tensors.
default_collate_fn_map[TrainingBatch] = _refuse_batches_of_batches


def _missing(name: str) -> Refused:
    return Refused(f"Column '{name}' has missing values, which a tensor cannot represent.", hint=_LEAVE_OUT)


def check_sent(**functions: object) -> None:
    """Raise InvalidOption for one that cannot be sent to spawned workers; None is sent.

    A function of a notebook, or inside of another one, has no file from which a worker could import it: the worker
    would die with "Can't get attribute". So would one that is made of such a function, such as a partial.
    """
    typed = not hasattr(sys.modules["__main__"], "__file__")
    for word, function in functions.items():
        try:
            sent = pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError):
            sent = None
        if sent is None or (typed and any(named == "__main__" for _, named, _ in pickletools.genops(sent))):
            raise InvalidOption(
                f"Workers cannot import {word}={getattr(function, '__qualname__', repr(function))}: "
                "it is not a function of a file.",
                hint="Put it into a module and import it from there, or use no workers: loader().",
            )


@making
class FrozenRows(Hinting, Dataset):  # type: ignore[misc]
    """A split by position, for a DataLoader with a sampler of your own. An item is one row as a dict.

    Workers must be spawned: ``DataLoader(rows, num_workers=4, multiprocessing_context="spawn")``.
    """

    _words, _calls = OF_TRAINING, CALLS_OF_TRAINING

    def __init__(
        self,
        uri: str,
        name: str,
        split: str | None = None,
        columns: str | Sequence[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Raises NotFound, Conflict."""
        self._split: FrozenSplit = open_split(uri, name, split, columns, storage_options)

    def __len__(self) -> int:
        return self._split.rows

    def __getitem__(self, position: int) -> dict[str, Any]:
        given: object = position
        if isinstance(given, slice | str):
            hint = "rows[3], or columns=['id'] when it is made: FrozenRows(uri, name, split, columns)"
            raise WrongArguments(f"FrozenRows has a row by its position, not by {position!r}.", hint=hint)
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Several rows at once, as DataLoader requests them: one lookup per batch."""
        for position in map(index, positions):
            if not 0 <= position < len(self):
                raise IndexError(position)  # ends a loop over the rows, as Python expects
        rows: dict[str, Any] = to_tensors(self._split.read(positions))
        return [{name: values[number] for name, values in rows.items()} for number in range(len(positions))]


@dataclass(frozen=True)
class Batching(metaclass=HintingType):
    """How rows become batches: the batch size, the rank of this process, and the end of an epoch."""

    _calls = CALLS_OF_TRAINING

    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    """Leave out rows at the end that do not fill a batch on every rank. Training with several ranks needs it, because
    they wait for each other. Without it, the last batch of a rank may be short or missing."""
    reshuffle: bool = False
    """Epoch 0 is in the set's order. With this, every later epoch has an order of its own; otherwise the same one."""
    convert: Convert = field(default=to_tensors)
    """Converts the rows of a batch, an Arrow table. With workers, it must be a function of a module, to be pickled."""


@making
class FrozenBatches(Shown, IterableDataset):  # type: ignore[misc]
    """A split as a stream of batches: the same ones in the same order, whatever the number of workers.

    Iterate with ``loader(num_workers)``: it counts the batches that the training loop got, and so knows where to
    resume. To pass it to a DataLoader, use ``batch_size=None``, since batches are made here, and spawned workers.
    """

    _words, _calls, _asked, _typed = OF_TRAINING, CALLS_OF_TRAINING, ASKED_OF_TRAINING, "batches"

    def __init__(
        self,
        uri: str,
        name: str,
        batching: Batching,
        split: str | None = None,
        columns: str | Sequence[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Raises NotFound, Conflict, InvalidOption."""
        if not isinstance(batching, Batching):
            raise InvalidOption(f"Expected a Batching, got {batching!r}.", hint="Give one, as in Batching(256).")
        if not callable(batching.convert):
            raise InvalidOption(
                f"convert={batching.convert!r} is no function.", hint="Give one that takes a pyarrow.Table: a batch."
            )
        self._split: FrozenSplit = open_split(uri, name, split, columns, storage_options)
        shard = Shard(batching.rank, batching.world_size)
        seed = self._split.lineage.spec.seed
        self.order = Order(self._split.rows, batching.batch_size, shard, batching.drop_last, batching.reshuffle, seed)
        self._convert = batching.convert
        self._progress = Progress(name, split, self._split.fingerprint)

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        return self.order.batches

    def __iter__(self) -> Iterator[Any]:
        """The rest of the epoch. At its end the next epoch begins."""
        self._split.check_process()
        info = get_worker_info()
        worker = Worker() if info is None else Worker(info.id, info.num_workers)
        now, order = self._progress, self.order
        start, upcoming = order.batch_at(now.start), order.batch_at(now.position)
        for number in worker.numbers(start, upcoming, order.batches):
            batch = self._convert(self._split.read(order.batch(now.epoch, number).tolist()))
            self._progress = self._after(now, number + 1)
            yield TrainingBatch(batch) if type(batch) is dict else batch
        if self._progress.epoch == now.epoch:  # the last batch went to another worker
            self.set_epoch(now.epoch + 1)

    def __getstate__(self) -> dict[str, Any]:
        """What a spawned worker of any DataLoader gets. Raises InvalidOption, see check_sent."""
        self.check_sent()
        return dict(vars(self))

    def _card(self) -> Card:
        order, now = self.order, self._progress
        shard = order.shard
        facts = (
            ("set", now.set if now.split is None else f"{now.set}, split {now.split}"),
            ("rows", f"{self._split.rows:,}"),
            ("batches", f"{len(self):,} of {order.batch_size:,} rows"),
            ("rank", f"{shard.rank} of {shard.world_size}" if shard.world_size > 1 else ""),
            ("at", f"epoch {now.epoch}, position {now.position:,}"),
        )
        where = facts[0][1]
        return Card(type(self).__name__, where, f"{facts[1][1]} rows, {facts[2][1]}, at {facts[4][1]}", facts[1:])

    def set_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch."""
        self._progress = replace(self._progress, epoch=epoch, position=0, start=0)

    def _after(self, now: Progress, done: int) -> Progress:
        """The progress after the first batches of an epoch; at its end, the start of the next epoch."""
        if done >= len(self):
            return replace(now, epoch=now.epoch + 1, position=0, start=0)
        return replace(now, position=self.order.position_of(done))

    def check_sent(self) -> None:
        """Raise InvalidOption if ``convert`` cannot be sent to spawned workers."""
        check_sent(convert=self._convert)

    def advance(self, batches: int) -> None:
        """Advance by this rank's batches that the training loop got from workers; at the end, to the next epoch."""
        after = self._after(self._progress, self.order.batch_at(self._progress.position) + batches)
        self._progress = replace(after, start=after.position)

    def state_dict(self) -> dict[str, Any]:
        """The position of this process, without the progress of a plain DataLoader's workers: see ``loader``."""
        return self._progress.as_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved position; the number of workers or ranks and the batch size may differ.

        Raises InvalidOption, and Refused for a state of another set, or a position at which no batch begins.
        """
        resumed = self._progress.resumed(state)
        self.order.batch_at(resumed.position)
        if get_worker_info() is None:
            resumed = replace(resumed, start=resumed.position)
        self._progress = resumed

    def loader(self, num_workers: int = 0, **settings: Any) -> FrozenLoader:
        """Iterates in epochs, with spawned workers. ``settings`` are those of torch's DataLoader.

        Raises InvalidOption for a setting that controls batches: the dataset makes them.
        """
        for name in sorted(_MAKE_BATCHES.intersection(settings)):
            raise InvalidOption(
                f"'{name}' is not a setting of loader(...): the dataset makes the batches.",
                hint="Use Batching(batch_size, drop_last=..., reshuffle=...) instead.",
            )
        return FrozenLoader(self, num_workers, settings)


class FrozenLoader:
    """The batches of an epoch for each loop over it; ``state_dict`` counts delivered batches, not prefetched ones."""

    def __init__(self, batches: FrozenBatches, num_workers: int, settings: Mapping[str, Any]) -> None:
        """See FrozenBatches.loader."""
        self.batches = batches
        self._settings = dict(settings, num_workers=num_workers, batch_size=None)
        if num_workers:
            batches.check_sent()
            check_sent(**{name: settings.get(name) for name in ("collate_fn", "worker_init_fn")})
            self._settings.setdefault("multiprocessing_context", "spawn")

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        """The rest of the epoch; the next loop is the next epoch."""
        if not self._settings["num_workers"]:
            yield from DataLoader(self.batches, **self._settings)
            return
        epoch = self.batches.state_dict()["epoch"]
        for batch in DataLoader(self.batches, **self._settings):
            self.batches.advance(1)
            yield batch
        if self.batches.state_dict()["epoch"] == epoch:
            self.batches.set_epoch(epoch + 1)  # an epoch without a batch

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position, to be saved with the model."""
        return self.batches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume: the next loop begins with the batch after the last one that the saved loop got."""
        self.batches.load_state_dict(state)
