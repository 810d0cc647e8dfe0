"""Notes on branches about merges: which version was taken in, so that the next merge starts from there.

A version's trace says the same, but is gone once the version is cleaned up. The notes are in the metadata of the
branch's ref. So they go with the branch, and a cleanup finds there which versions the next merge compares with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lance_spark.merge.ancestry import Node
from lance_spark.refs.model import Branch
from lance_spark.sync.tracking import read_follows

PREFIX = "lance_spark.merged."
"""Keys of notes: followed by identity of the chain that took in and of the one that was taken in."""


@dataclass(frozen=True)
class MergeNote:
    """One chain took in a version of another chain."""

    into: str
    """Identity of the chain; "" for main."""
    at: int
    """The version that took it in."""
    source: Node


def merged_notes(branches: Iterable[Branch]) -> Iterator[MergeNote]:
    """All notes that can be read."""
    for branch in branches:
        for key, value in branch.metadata.items():
            note = _read(key, value)
            if note is not None:
                yield note
        follows = read_follows(branch)
        for edge in () if follows is None else follows.edges:
            yield MergeNote(edge.into, edge.at, edge.source)


def with_note(metadata: Mapping[str, str], note: MergeNote) -> dict[str, str]:
    """A branch's metadata with a note added; it replaces an older one about the same two chains."""
    key = f"{PREFIX}{note.into or 'main'}.{note.source.chain or 'main'}"
    return {**metadata, key: json.dumps({"at": note.at, "source": note.source.version})}


def _read(key: str, value: str) -> MergeNote | None:
    into, dot, source = key.removeprefix(PREFIX).partition(".")
    if not key.startswith(PREFIX) or not dot:
        return None
    try:
        note = json.loads(value)
        return MergeNote(_identity(into), int(note["at"]), Node(_identity(source), int(note["source"])))
    except (ValueError, KeyError, TypeError):
        return None  # the key of another tool


def _identity(name: str) -> str:
    return "" if name == "main" else name
