"""How much there is to do, and whether threads of this process are enough for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Work:
    """The size of a task, as it is known before anything of it runs. What is not part of the task is 0."""

    tables: int = 0
    """Whole datasets, each of which is looked at by itself."""
    manifests: int = 0
    """Manifests to read: a request each."""
    manifest_bytes: int = 0
    files: int = 0
    """Files to list, to decide about or to delete: a thousand or so with one request."""
    copies: int = 0
    """Files to copy: a request each, and often all of their bytes."""
    copied_bytes: int = 0
    read_bytes: int = 0
    """Bytes of rows and indexes to look at."""

    @property
    def is_little(self) -> bool:
        """Whether threads of this process do it as fast as a cluster; see LITTLE."""
        return all(getattr(self, field.name) <= getattr(LITTLE, field.name) for field in fields(self))


LITTLE = Work(
    tables=50,
    manifests=5_000,
    manifest_bytes=1024**3,
    files=200_000,
    copies=256,
    copied_bytes=256 * 1024**2,
    read_bytes=512 * 1024**2,
)
"""The most that local threads get where no engine was chosen. Each of these takes them some five to ten seconds,
which is what Spark needs for its first small jobs; and the files take them some 100 MB of memory."""
