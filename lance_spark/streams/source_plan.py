"""How far the next batch goes: by what versions give, and by the limits of a batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lance_spark.streams.source_offsets import StreamPlace


class PartSize(NamedTuple):
    """One part of what a version gives. A part is never divided among batches."""

    files: int
    """Fragments to read."""
    size: int
    """Bytes to read, about."""


class VersionSize(NamedTuple):
    """What a version gives."""

    version: int
    parts: Sequence[PartSize] = ()
    blocked: bool = False
    """Whether the stream cannot go through this version."""


@dataclass(frozen=True)
class Limits:
    """How much one batch reads at most; None for as much as there is. The first part is always read."""

    files: int | None = None
    size: int | None = None
    """Bytes."""
    versions: int | None = None
    """Versions that give rows."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(limit is not None for limit in (self.files, self.size, self.versions))


NO_LIMITS = Limits()


def next_place(start: StreamPlace, versions: Iterable[VersionSize], limits: Limits) -> StreamPlace:
    """Where the batch ends that begins at ``start``. ``versions`` follow one another, the one of the start first.

    No further version is taken than is needed. The batch ends before a version that is blocked: it is the start itself
    if that version is the first one.
    """
    here = start
    files = size = taken = 0
    for entry in versions:
        if entry.blocked:
            return here
        parts = entry.parts[here.file :]
        if parts and limits.versions is not None and taken >= limits.versions:
            return here
        for part in parts:
            full = (limits.files is not None and files + part.files > limits.files) or (
                limits.size is not None and size + part.size > limits.size
            )
            if full and files:
                return here
            files, size = files + part.files, size + part.size
            here = StreamPlace(here.version, here.file + 1)
        taken += bool(parts)
        here = StreamPlace(entry.version + 1)
    return here
