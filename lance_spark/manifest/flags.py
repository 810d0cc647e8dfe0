"""Feature flags: which versions this package understands well enough to find all files that they name."""

from __future__ import annotations

from lance_spark.errors import Refused
from lance_spark.manifest.model import ManifestHead

_EITHER_WORD = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 2048
"""Deletion files, stable row ids, new data format, config, base paths, no transaction file, overlays, covering
columns of an index, spilled row lineage."""
_BOTH_WORDS = 256 | 1024 | 16384
"""Mixed versions of data files, tagged fragment reuse, managed blobs: readers' and writers' flags must agree."""
_STABLE_FIELD_IDS = 32768
_READER = _EITHER_WORD | _BOTH_WORDS
_WRITER = _READER | _STABLE_FIELD_IDS
_HINT = "Use a release of lance_spark that knows how this version is written."


def check_flags(head: ManifestHead) -> None:
    """Whether a version uses only what this package understands: the flags that pylance 14.0.2 accepts.

    Raises Refused, naming version and flag. A version that is not understood seems to need fewer files than it does.
    """
    if head.has_fragment_tree:
        raise Refused(f"Version {head.version} keeps its fragments in a tree outside of the manifest.", hint=_HINT)
    for word, flags, known in (("reader", head.reader_flags, _READER), ("writer", head.writer_flags, _WRITER)):
        if flags & ~known:
            raise Refused(f"Version {head.version} has the unknown {word} flag {_lowest(flags & ~known)}.", hint=_HINT)
    unpaired = (head.reader_flags ^ head.writer_flags) & _BOTH_WORDS
    if unpaired:
        raise Refused(
            f"Version {head.version} has the flag {_lowest(unpaired)} only for readers or only for writers.", hint=_HINT
        )


def _lowest(flags: int) -> int:
    return flags & -flags
