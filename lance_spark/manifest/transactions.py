"""What a version's transaction says: the operation, and what the writer noted down with it.

pylance 14.0.2 puts a copy of the transaction in front of the manifest message, so it is read without the fragments.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.manifest.framing import manifest_span, section_span
from lance_spark.manifest.messages import parse, text

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
"""Operation of a transaction that this package does not know."""
MESSAGE = "lance.commit.message"
"""Property in which pylance keeps a commit message."""


@dataclass(frozen=True)
class Transaction:
    """One commit as its writer described it."""

    read_version: int
    uuid: str
    operation: str
    """pylance's name of the operation, e.g. ``Append``; ``Unknown`` for one that is newer than this package."""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str | None:
        """The commit message; None where there is none."""
        return self.properties.get(MESSAGE)


def inline_transaction(content: bytes) -> Transaction | None:
    """The transaction inside of a manifest file; None where its writer kept it in ``_transactions`` only.

    Raises CorruptData for bytes that are no manifest.
    """
    span = manifest_span(content)
    position = _position(content, span.start)
    if position is None:
        return None
    section = section_span(content, position, span)
    return decode_transaction(content[section.start : section.end])


def decode_transaction(content: bytes) -> Transaction:
    """A transaction from its message: what a file in ``_transactions`` holds. Raises CorruptData."""
    found = parse("Transaction", content)
    named = [name for number, name in _OPERATIONS.items() if found.HasField(f"operation_{number}")]
    return Transaction(
        read_version=found.read_version,
        uuid=text(found.uuid),
        operation=named[0] if named else UNKNOWN,
        properties={text(entry.key): text(entry.value) for entry in found.properties},
    )


def _position(content: bytes, message: int) -> int | None:
    """Where the section of the transaction begins.

    Sections stand one after the other in front of the message. The manifest names their places behind its fragments,
    so the message is parsed only where the sections do not tell themselves: a legacy file begins with other things.
    """
    end = message - 4
    places = []
    here = 0
    while here + 4 <= end:
        places.append(here)
        here += 4 + struct.unpack_from("<I", content, here)[0]
    if here == end and places:
        first = content[places[0] + 4]
        if len(places) == 2:
            return places[1]
        if len(places) == 1:
            return None if first == 0x0A else places[0]
    whole = parse("Whole", content[message:-16])
    for name in ("transaction_section", "old_transaction_section"):
        if whole.HasField(name):
            return int(getattr(whole, name))
    return None
