"""The fragment records of a manifest as bytes, and which of them differ from those of another manifest.

Neighbouring versions share nearly all records. If the bytes are equal from a place where a record begins in both, the
records are equal too and need not be parsed: only what differs becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.manifest.framing import Span

_FRAGMENT = 0x12
"""Tag of field 2, fragments, with a length."""
_ID = 0x08
"""Tag of field 1, the id, inside of a fragment."""
_CONTINUES = 0x80
"""Set in all bytes of a number but the last."""
_LONGEST_STRIDE = 1024
"""Records compared at once; half of them are compared again where a difference is narrowed down."""
_VARINT, _FIXED_64, _SIZED, _FIXED_32 = 0, 1, 2, 5
"""Wire types; the low three bits of a tag."""


@dataclass(frozen=True)
class FragmentRun:
    """The first unbroken run of fragment records in a manifest."""

    content: bytes
    """The whole file."""
    start: int
    """Where in it the first record begins."""
    bounds: Sequence[int]
    """Where records begin, and at last where they end, counted from ``start``."""

    @property
    def end(self) -> int:
        """Where in the file the last record ends."""
        return self.start + self.bounds[-1]

    def records(self, first: int = 0, last: int = -1) -> bytes:
        """The bytes from one of the bounds, by index, to another one."""
        return self.content[self.start + self.bounds[first] : self.start + self.bounds[last]]


NO_FRAGMENTS = FragmentRun(b"", 0, (0,))


@dataclass(frozen=True)
class RunChange:
    """How the records of one manifest became those of another."""

    run: FragmentRun
    """The records of the other manifest."""
    removed: bytes
    """Records of the one, one after the other: a part of a manifest message."""
    added: bytes
    """Records of the other. All further records are in both manifests, equally often."""

    @property
    def is_large(self) -> bool:
        """Whether it is less work to parse the other run as a whole than what was added and removed."""
        return len(self.added) + len(self.removed) > self.run.bounds[-1]


def compare(old: FragmentRun, content: bytes, message: Span) -> RunChange:
    """What changed between a run and the one in the manifest message of another file.

    Writers keep fragments in the order of their ids, so both runs are walked like sorted lists. Ids only say where
    to look for equal bytes: in a run with another order more records count as changed, never fewer.
    """
    start = here = _first_fragment(content, message)
    bounds, removed, added = [0], [], []
    index, last = 0, len(old.bounds) - 1
    while index < last and (after := _record_end(content, here, message.end)):
        mine, theirs = old.records(index, index + 1), content[here:after]
        if mine == theirs:
            reached = _equal_until(old, index, content, Span(here, message.end))
            _append_shifted(bounds, old.bounds[index : reached + 1])
            index = reached
        else:
            old_id, new_id = _fragment_id(old.content, old.start + old.bounds[index]), _fragment_id(content, here)
            if old_id <= new_id:
                removed.append(mine)
                index += 1
            if new_id <= old_id:
                added.append(theirs)
                bounds.append(after - start)
        here = start + bounds[-1]
    removed.append(old.records(index))
    _append_records(bounds, content, Span(start, message.end))
    added.append(content[here : start + bounds[-1]])
    return RunChange(FragmentRun(content, start, bounds), b"".join(removed), b"".join(added))


def _equal_until(old: FragmentRun, index: int, content: bytes, span: Span) -> int:
    """The last bound of ``old`` up to which its bytes, from bound ``index`` on, are those at the begin of a span.

    Strides grow while bytes are equal, and shrink at the first difference.
    """
    theirs, here, last = memoryview(old.content), span.start, len(old.bounds) - 1
    stride, growing = 1, True
    while stride and index < last:
        ahead = min(index + stride, last)
        piece = theirs[old.start + old.bounds[index] : old.start + old.bounds[ahead]]
        if content.startswith(piece, here, span.end):
            index, here = ahead, here + len(piece)
        else:
            growing = False
        stride = min(2 * stride, _LONGEST_STRIDE) if growing else stride // 2
    return index


def _append_shifted(bounds: list[int], others: Sequence[int]) -> None:
    """Append the bounds of records that follow, copied from another run; the first of them is there already."""
    shift = bounds.pop() - others[0]
    bounds += [bound + shift for bound in others] if shift else others


def _append_records(bounds: list[int], content: bytes, span: Span) -> None:
    """Append the bounds of all further records. ``span`` begins with the run."""
    start, end = span
    here = start + bounds[-1]
    # Not by _record_end: two calls for each record of a first version would double the time.
    while here < end and content[here] == _FRAGMENT:
        length = content[here + 1]
        if length < _CONTINUES:
            here += 2 + length
        else:
            length, payload = _varint(content, here + 1)
            here = payload + length
        if here > end:
            break
        bounds.append(here - start)


def _first_fragment(content: bytes, message: Span) -> int:
    """Where the first fragment record begins; the end of the message, or a field that cannot be skipped, if none."""
    here = message.start
    while here < message.end and content[here] != _FRAGMENT:
        after = field_end(content, here)
        if after is None or after > message.end:
            break
        here = after
    return here


def field_end(content: bytes, here: int) -> int | None:
    """Where the field that begins here ends; None for a wire type that manifests do not have."""
    tag, here = _varint(content, here)
    kind = tag & 7
    if kind == _VARINT:
        return _varint(content, here)[1]
    if kind == _SIZED:
        length, here = _varint(content, here)
        return here + length
    return {_FIXED_64: here + 8, _FIXED_32: here + 4}.get(kind)


def _record_end(content: bytes, here: int, end: int) -> int | None:
    """Where the fragment record that begins here ends; None if there is none, or it exceeds the message."""
    if here >= end or content[here] != _FRAGMENT:
        return None
    length, payload = _varint(content, here + 1)
    after = payload + length
    return after if after <= end else None


def _fragment_id(content: bytes, here: int) -> int:
    """Id of the fragment whose record begins here, if it comes first, as writers put it; else 0."""
    _, payload = _varint(content, here + 1)
    return _varint(content, payload + 1)[0] if content[payload] == _ID else 0


def _varint(content: bytes, here: int) -> tuple[int, int]:
    """A number of variable length, and where it ends. Always ends: the last byte of every manifest is a letter."""
    value = content[here]
    here += 1
    if value < _CONTINUES:
        return value, here
    value -= _CONTINUES
    shift = 7
    while True:
        byte = content[here]
        here += 1
        value |= (byte & 0x7F) << shift
        if byte < _CONTINUES:
            return value, here
        shift += 7
