"""Files that go from one dataset to another."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.merge.snapshot import Root


@dataclass(frozen=True)
class Copy:
    """A file to copy into the root of ours."""

    source: Root
    path: str
    """Relative to the source's root, as the store has it."""
    target: str
    """Relative to the root of ours."""
    size: int = 0
    """Bytes, as recorded in the manifest; 0 for not recorded."""
    sidecars: bool = False
    """Whether to copy the directory of the same name as well, which holds blobs."""
