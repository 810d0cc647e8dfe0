"""Which files a branch or clone has to copy to depend on no other place, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark import hints
from lance_spark.errors import Refused
from lance_spark.layout.names import is_generated, stored_name
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.copies import Copy
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.show.card import ShownInOneLine
from lance_spark.show.words import counted, readable


@dataclass(frozen=True, repr=False)
class FlattenResult(ShownInOneLine):
    """What a flattening copied; prints as one line."""

    version: PinnedVersion
    """The newest version, which names no file in another place."""
    files: int = 0
    """Data and deletion files that were copied, or were there from an attempt that was killed."""
    bytes: int = 0
    """Size of the data files, as far as their writers recorded it."""
    indexes: tuple[str, ...] = ()
    """Names of indexes that were copied."""

    def __str__(self) -> str:
        """``exp@9: 12 files copied, 3.4 MiB; indexes: emb_idx``."""
        if not (self.files or self.indexes):
            return f"{self.version}: depends on no other place"
        told = f"{self.version}: {counted(self.files, 'file')} copied, {readable(self.bytes)}"
        return f"{told}; indexes: {', '.join(self.indexes)}" if self.indexes else told

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("copied", f"{counted(self.files, 'file')}, {readable(self.bytes)}"),
            ("indexes", ", ".join(self.indexes)),
        )


def reads_elsewhere(fragment: Fragment) -> bool:
    """Whether a fragment has a file in another place."""
    deletion = fragment.deletion
    return any(file.base_id is not None for file in fragment.files) or (
        deletion is not None and deletion.base_id is not None
    )


def inherited_copies(snapshot: Snapshot, sidecars: bool) -> tuple[Copy, ...]:
    """The data and deletion files in other places. ``sidecars``: the table has blobs beside its data files.

    Raises Refused for a file that was named by hand: another one may have the same name.
    """
    copies: dict[str, Copy] = {}
    for fragment in snapshot.contents.fragments():
        for file in fragment.files:
            if file.base_id is None:
                continue
            if not is_generated(file.path):
                raise Refused(
                    f"The data file {file.path} was named by hand: a copy could take the place of another file.",
                    hint=hints.of(hints.optimize(own_only=False), " writes its rows anew."),
                )
            root, name = snapshot.root_of(file), stored_name(file.path)
            path = f"data/{name}" if root.is_dataset else name
            copies[file.path] = Copy(root, path, f"data/{name}", file.size, sidecars)
        if fragment.deletion is not None and fragment.deletion.base_id is not None:
            path = fragment.deletion.path_for(fragment.id)
            copies[path] = Copy(snapshot.root_of(fragment.deletion), path, path)
    return tuple(copies.values())
