"""A version's transaction: the operation, and the properties that its writer added.

pylance 14.0.2 puts a copy of the transaction in front of the manifest message, so no fragments need to be read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lance_spark.errors import CorruptData
from lance_spark.format.contents import Fragment, fragment_of
from lance_spark.format.manifest import Span, manifest_span, parse, section_span, text

_OPERATIONS = {
    100: "Append",
    101: "Delete",
    102: "Overwrite",
    103: "CreateIndex",
    104: "Rewrite",
    105: "Merge",
    106: "Restore",
    107: "ReserveFragments",
    108: "Update",
    109: "Project",
    110: "UpdateConfig",
    111: "DataReplacement",
    112: "UpdateMemWalState",
    113: "Clone",
    114: "UpdateBases",
    115: "DataOverlay",
}
UNKNOWN = "Unknown"
"""Operation of an unknown transaction."""
MESSAGE = "__lance_commit_message"
"""Property that holds pylance's commit message."""
AUTHOR = "lance_spark.author"
"""Property that says who made a version, as text: Lance has none of its own."""


class Rewritten(NamedTuple):
    """Fragments that a compaction rewrote. Their live rows follow one another in the new ones, in this order."""

    old: tuple[int, ...]
    """Ids."""
    new: tuple[str, ...]
    """Their data files, one per fragment; the commit assigns the new fragments' ids."""
    before: tuple[Fragment, ...] = ()
    """The old fragments, with the rows deleted at that time."""
    after: tuple[Fragment, ...] = ()


@dataclass(frozen=True)
class Transaction:
    read_version: int
    uuid: str
    operation: str
    """pylance's name of the operation, e.g. ``Append``; ``Unknown`` for one that this package does not know."""
    properties: Mapping[str, str] = field(default_factory=dict)
    cloned_from: str | None = None
    """For a Clone: the source dataset, as its writer spelled it."""
    rewritten: tuple[Rewritten, ...] = ()
    """For a Rewrite: which fragments replaced which."""
    appended: tuple[str, ...] = ()
    """For an Append: names of its data files."""

    @property
    def message(self) -> str | None:
        return self.properties.get(MESSAGE)

    @property
    def author(self) -> str | None:
        """Who made the version; None if its writer did not say."""
        return self.properties.get(AUTHOR)


def inline_transaction(content: bytes) -> Transaction | None:
    """The transaction inside a manifest file; None if its writer kept the transaction only in ``_transactions``.

    Raises CorruptData for bytes that are not a manifest.
    """
    span = manifest_span(content)
    guess = _last_section(content, span.start)
    if guess is not None:
        transaction = _transaction_at(content, guess, span)
        # Bytes that the first writers put in front of the message can look like a section, but have no uuid.
        if transaction is not None and transaction.uuid:
            return transaction
    whole = parse("Whole", content[span.start : span.end])
    for name in ("transaction_section", "old_transaction_section"):
        if whole.HasField(name):
            section = section_span(content, int(getattr(whole, name)), span)
            return decode_transaction(content[section.start : section.end])
    return None


def decode_transaction(content: bytes) -> Transaction:
    """A transaction from its message, as in files of ``_transactions``. Raises CorruptData."""
    transaction = parse("Transaction", content)
    named = [name for number, name in _OPERATIONS.items() if transaction.HasField(f"operation_{number}")]
    return Transaction(
        read_version=transaction.read_version,
        uuid=text(transaction.uuid),
        operation=named[0] if named else UNKNOWN,
        properties={text(entry.key): text(entry.value) for entry in transaction.properties},
        # A branch also begins with a Clone: of its own dataset.
        cloned_from=text(parse("Clone", transaction.operation_113).ref_path) if named[:1] == ["Clone"] else None,
        rewritten=_rewritten(transaction) if named[:1] == ["Rewrite"] else (),
        appended=_appended(transaction) if named[:1] == ["Append"] else (),
    )


def _appended(transaction: Any) -> tuple[str, ...]:
    fragments = parse("Append", transaction.operation_100).fragments
    return tuple(text(file.path) for fragment in fragments for file in fragment.files)


def _rewritten(transaction: Any) -> tuple[Rewritten, ...]:
    groups = parse("Rewrite", transaction.operation_104).groups
    return tuple(
        Rewritten(
            tuple(int(fragment.id) for fragment in group.old),
            tuple(text(file.path) for fragment in group.new for file in fragment.files),
            tuple(map(fragment_of, group.old)),
            tuple(map(fragment_of, group.new)),
        )
        for group in groups
    )


def _transaction_at(content: bytes, position: int, message: Span) -> Transaction | None:
    section = section_span(content, position, message)
    try:
        return decode_transaction(content[section.start : section.end])
    except CorruptData:
        return None  # the transaction is elsewhere; the manifest message says where


def _last_section(content: bytes, message: int) -> int | None:
    """Start of the last section in front of the message, if nothing but sections is there.

    Sections follow one another, the indexes first. The message names their positions after its fragments, so it is
    parsed only if the sections cannot be found without it: a file of the legacy format begins with other bytes.
    """
    end = message - 4
    last = None
    here = 0
    while here + 4 <= end:
        last = here
        here += 4 + struct.unpack_from("<I", content, here)[0]
    return last if here == end else None
