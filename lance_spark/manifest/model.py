"""The content of a manifest, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class BasePath:
    """Another place that holds files of a version: the origin of a branch or clone, or a registered base."""

    path: str
    """URI exactly as the writer spelled it: it may be relative, or end with a slash."""
    is_dataset_root: bool
    """Whether it is laid out like a dataset (``data/``, ``_indices/``); else files lie directly in it."""


@dataclass(frozen=True)
class ManifestHead:
    """What a manifest says about its version, without the fragments."""

    version: int
    timestamp_ns: int
    """Commit time, nanoseconds since the epoch, UTC; 0 where it is absent."""
    reader_flags: int
    writer_flags: int
    branch: str | None
    """None for main."""
    transaction_file: str | None
    """Name below ``_transactions``; None where the version has no such file."""
    has_fragment_tree: bool
    """Whether fragments are kept outside of the manifest, where this package does not look."""
    bases: Mapping[int, BasePath]
    """By id. An id has a meaning within one manifest only."""


class NamedFile(NamedTuple):
    """One file, or one directory of an index, that a version names."""

    base: BasePath | None
    """None for the root that the manifest was opened from."""
    path: str
    """Relative to the base."""
