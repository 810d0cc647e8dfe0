"""A manifest's fragments as bytes, the decoding of a run of versions, and the full contents of one version.

Neighboring versions share nearly all records. If the bytes are equal from a place where a record begins in both, the
records are equal and need no parsing: only differences become Python objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from pyroaring import BitMap

from lance_spark.core.layout import deletion_path
from lance_spark.errors import CorruptData
from lance_spark.format.manifest import (
    NO_BASE,
    BasePath,
    ManifestHead,
    NamedFile,
    Span,
    check_flags,
    fragment_files,
    head_and_others,
    head_of,
    manifest_span,
    parse,
    section_span,
    text,
)

_FRAGMENT = 0x12
"""Tag of field 2, fragments, with a length."""
_ID = 0x08
"""Tag of field 1, the id, inside a fragment."""
_CONTINUES = 0x80
"""Bit set in all bytes of a number except the last."""
_LONGEST_STRIDE = 1024
"""Records compared at once; half of them are compared again to narrow down a difference."""
_VARINT, _FIXED_64, _SIZED, _FIXED_32 = 0, 1, 2, 5
"""Wire types; the low three bits of a tag."""


@dataclass(frozen=True)
class FragmentRun:
    """The first unbroken run of fragment records in a manifest."""

    content: bytes
    """The whole file."""
    start: int
    """Start of the first record in the file."""
    bounds: Sequence[int]
    """Starts of the records, then the end of the last one, relative to ``start``."""

    @property
    def end(self) -> int:
        """End of the last record in the file."""
        return self.start + self.bounds[-1]

    def records(self, first: int = 0, last: int = -1) -> bytes:
        """The bytes between two bounds, given by index."""
        return self.content[self.start + self.bounds[first] : self.start + self.bounds[last]]


NO_FRAGMENTS = FragmentRun(b"", 0, (0,))


@dataclass(frozen=True)
class RunChange:
    """How the records of one manifest became those of another."""

    run: FragmentRun
    """The records of the other manifest."""
    removed: bytes
    """Records only in the first manifest, concatenated: a part of a manifest message."""
    added: bytes
    """Records only in the other one. All remaining records are in both manifests, equally often."""

    @property
    def is_large(self) -> bool:
        """Whether parsing the other run as a whole costs less than parsing the additions and removals."""
        return len(self.added) + len(self.removed) > self.run.bounds[-1]


def compare(old: FragmentRun, content: bytes, message: Span) -> RunChange:
    """The difference between a run and the one in another file's manifest message.

    Writers keep fragments in the order of their ids, so both runs are walked like sorted lists. Ids only suggest where
    to look for equal bytes: in a run with another order, more records count as changed, never fewer.
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
    """The last bound of ``old`` up to which its bytes, from bound ``index`` on, equal the start of a span.

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
    """Append the bounds of subsequent records, copied from another run; the first of them is already there."""
    shift = bounds.pop() - others[0]
    bounds += [bound + shift for bound in others] if shift else others


def _append_records(bounds: list[int], content: bytes, span: Span) -> None:
    """Append the bounds of all remaining records. ``span`` begins with the run."""
    start, end = span
    here = start + bounds[-1]
    # Not through _record_end: two calls per record of a first version would double the time.
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
    """Start of the first fragment record; if none, the end of the message, or a field that cannot be skipped."""
    here = message.start
    while here < message.end and content[here] != _FRAGMENT:
        after = field_end(content, here)
        if after is None or after > message.end:
            break
        here = after
    return here


def field_end(content: bytes, here: int) -> int | None:
    """End of the field that begins here; None for a wire type that manifests do not have."""
    tag, here = _varint(content, here)
    kind = tag & 7
    if kind == _VARINT:
        return _varint(content, here)[1]
    if kind == _SIZED:
        length, here = _varint(content, here)
        return here + length
    return {_FIXED_64: here + 8, _FIXED_32: here + 4}.get(kind)


def _record_end(content: bytes, here: int, end: int) -> int | None:
    """End of the fragment record that begins here; None if there is none, or it exceeds the message."""
    if here >= end or content[here] != _FRAGMENT:
        return None
    length, payload = _varint(content, here + 1)
    after = payload + length
    return after if after <= end else None


def _fragment_id(content: bytes, here: int) -> int:
    """Id of the fragment whose record begins here, if it comes first, where writers put it; else 0."""
    _, payload = _varint(content, here + 1)
    return _varint(content, payload + 1)[0] if content[payload] == _ID else 0


def _varint(content: bytes, here: int) -> tuple[int, int]:
    """A number of variable length, and its end. Always ends: the last byte of every manifest is a letter."""
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


# --- Decoding a run of versions, each at the cost of its difference from the previous one


class RunDecoder:
    """Decodes a run of versions of one chain, in ascending order.

    Any other order gives the same results, only slower. Keeps the last manifest and the names of its files in memory.
    """

    def __init__(self) -> None:
        self._run: FragmentRun = NO_FRAGMENTS
        self._bases: Mapping[int, BasePath] = {}
        self._others: list[NamedFile] = []
        self._times_named: Counter[NamedFile] = Counter()

    def feed(self, content: bytes) -> tuple[ManifestHead, Collection[NamedFile], Collection[NamedFile]]:
        """The head of the next version, the files that only it names, and those that only the previous version names.

        All files of the first version are new. Raises CorruptData and Refused like ``named_files``; the decoder then
        keeps its state.
        """
        span = manifest_span(content)
        change = compare(self._run, content, span)
        # Fragments after the first run of fragments, if any, are in "others".
        rest = content[span.start : change.run.start] + content[change.run.end : span.end]
        head, others = head_and_others(content, span, rest)
        others += fragment_files(rest, head.bases)
        if head.bases != self._bases or change.is_large:
            added, removed = self._replace(others + fragment_files(change.run.records(), head.bases))
        else:
            difference = Counter(others + fragment_files(change.added, head.bases))
            difference.subtract(self._others + fragment_files(change.removed, self._bases))
            added, removed = self._apply(difference)
        self._run, self._bases, self._others = change.run, head.bases, others
        return head, added, removed

    def _replace(self, files: list[NamedFile]) -> tuple[Collection[NamedFile], Collection[NamedFile]]:
        """Start over with these files. Returns those that were not named before, and those that no longer are."""
        before, self._times_named = self._times_named, Counter(files)
        return self._times_named.keys() - before.keys(), before.keys() - self._times_named.keys()

    def _apply(self, difference: Mapping[NamedFile, int]) -> tuple[Collection[NamedFile], Collection[NamedFile]]:
        """Update the counts of names. Returns the files that were not named before, and those no longer named.

        Two fragments can name one file, which is in use until neither does.
        """
        added, removed = [], []
        for file, change in difference.items():
            if not change:
                continue
            before = self._times_named.get(file, 0)
            self._times_named[file] = before + change
            if not before:
                added.append(file)
            elif not before + change:
                removed.append(file)
                del self._times_named[file]
        return added, removed


# --- Every index of a version, with everything needed to register it again

_EXTERNAL_DETAILS = "details.binpb"
"""File for the content of a long fragment reuse index; pylance does not list it in the manifest."""


class IndexRecord(NamedTuple):
    name: str
    uuid: str
    fields: tuple[int, ...]
    """Ids of its columns."""
    dataset_version: int
    fragments: frozenset[int] | None
    """Ids of the fragments whose rows it covers; None if an old writer did not record them."""
    details: tuple[str, bytes] | None
    """Kind of the index and its parameters, in protobuf's form: type and message."""
    index_version: int
    created_at: int | None
    """Milliseconds since the epoch; None if the writer did not record it."""
    base_id: int | None
    files: tuple[tuple[str, int], ...] = ()
    """Path in the directory of the segment, and bytes. Empty if an old writer did not list them."""
    covering_fields: tuple[int, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Whether pylance made it for its own use."""
        return self.name.startswith("__")

    @property
    def needed(self) -> tuple[tuple[str, int], ...]:
        """Files that the index needs, with bytes, 0 for unknown; an empty path stands for any file.

        A fragment reuse index is in the manifest unless it is long.
        """
        if self.files or not self.is_internal:
            return self.files or (("", 0),)
        return ((_EXTERNAL_DETAILS, 0),) if self.details and _EXTERNAL_DETAILS.encode() in self.details[1] else ()


def decode_indexes(content: bytes) -> tuple[IndexRecord, ...]:
    """The indexes of a manifest file. Raises CorruptData for bytes that are not a manifest."""
    span = manifest_span(content)
    whole = parse("Head", content[span.start : span.end])
    if not whole.HasField("index_section"):
        return ()
    section = section_span(content, whole.index_section, span)
    return tuple(_record(index) for index in parse("IndexRecords", content[section.start : section.end]).indices)


def _record(index: Any) -> IndexRecord:
    if len(index.uuid.uuid) != 16:
        raise CorruptData("The manifest is damaged: an index has no id.")
    details = index.index_details if index.HasField("index_details") else None
    return IndexRecord(
        name=text(index.name),
        uuid=str(UUID(bytes=index.uuid.uuid)),
        fields=tuple(index.fields),
        dataset_version=index.dataset_version,
        fragments=frozenset(BitMap.deserialize(index.fragment_bitmap)) if index.HasField("fragment_bitmap") else None,
        details=None if details is None else (text(details.type_url), bytes(details.value)),
        index_version=index.index_version,
        created_at=index.created_at if index.HasField("created_at") else None,
        base_id=None if index.base_id == NO_BASE else index.base_id,
        files=tuple((text(file.path), file.size_bytes) for file in index.files),
        covering_fields=tuple(index.covering_fields),
    )


# --- One whole manifest: fragments, columns, indexes and settings of a version
# Fragments stay bytes until requested. Two versions of a table share nearly all records byte for byte, so comparing two
# versions with 100,000 fragments decodes only the differences.

_FEW = 32
"""Up to this many names are searched in the bytes of all records, which is faster than decoding the records."""


REPLACED = -2
"""Takes the place of a field id in a file's list: no column reads these values."""


class DataFile(NamedTuple):
    path: str
    """Relative to the data directory of its base."""
    fields: tuple[int, ...]
    """Ids of the columns in it; -2 for one that another file has replaced."""
    size: int
    """Bytes; 0 if the writer did not record it."""
    base_id: int | None


class DeletionFile(NamedTuple):
    file_type: int
    """0 for Arrow, 1 for a bitmap."""
    read_version: int
    id: int
    rows: int
    base_id: int | None

    def path_for(self, fragment: int) -> str:
        """Path below the root, for the fragment of that id. Raises CorruptData for an unknown type."""
        return deletion_path(fragment, self.read_version, self.id, self.file_type)


class Fragment(NamedTuple):
    id: int
    files: tuple[DataFile, ...]
    deletion: DeletionFile | None
    physical_rows: int
    """Rows in the data files, including deleted ones."""
    row_ids: bytes
    """Stable row ids in the manifest's encoding; empty if there are none."""
    has_overlays: bool

    @property
    def rows(self) -> int:
        """Rows without deleted ones; see :attr:`Contents.counts_rows`."""
        return self.physical_rows - (self.deletion.rows if self.deletion else 0)

    @property
    def size(self) -> int:
        """Bytes of its data files, as far as their writers recorded them."""
        return sum(file.size for file in self.files)


class Field(NamedTuple):
    """One column, or a field inside one; a schema is a list of them, parents first."""

    id: int
    parent_id: int
    """-1 for a column."""
    name: str
    type: str
    """Lance's name of the logical type."""
    nullable: bool
    metadata: tuple[tuple[str, bytes], ...]


class IndexSegment(NamedTuple):
    name: str
    uuid: str
    fields: tuple[int, ...]
    """Ids of its columns."""
    base_id: int | None
    fragments: frozenset[int] = frozenset()
    """Ids of the fragments whose rows it covers."""
    kind: tuple[str, tuple[bytes, ...]] = ("", ())
    """Its kind and parameters: type of the message, and its fields, sorted because writers have no fixed order."""


class Contents:
    """Everything that a version records about itself. Build it with :func:`decode_contents`."""

    def __init__(
        self,
        head: ManifestHead,
        whole: Any,
        records: Sequence[bytes],
        indexes: tuple[IndexSegment, ...],
        ids: Mapping[int, int] | None = None,
    ) -> None:
        self._ids = ids
        self.head = head
        self.indexes = indexes
        self._records = records
        self._whole = whole

    def renumbered(self, ids: Mapping[int, int]) -> Contents:
        """The same version with other field ids, given by those of all its columns."""
        return Contents(self.head, self._whole, self._records, self.indexes, ids)

    @property
    def fields(self) -> tuple[Field, ...]:
        stored = self._fields
        if self._ids is None:
            return stored
        ids = {-1: -1, **self._ids}
        return tuple(entry._replace(id=ids[entry.id], parent_id=ids[entry.parent_id]) for entry in stored)

    @property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(
            Field(
                field.id,
                field.parent_id,
                text(field.name),
                text(field.logical_type),
                field.nullable,
                tuple(sorted((text(entry.key), entry.value) for entry in field.metadata)),
            )
            for field in self._whole.fields
        )

    @property
    def config(self) -> dict[str, str]:
        """Configuration of the table, e.g. ``lance.auto_cleanup.interval``."""
        return {text(entry.key): text(entry.value) for entry in self._whole.config}

    @property
    def table_metadata(self) -> dict[str, str]:
        """Key-value pairs that users keep with the table."""
        return {text(entry.key): text(entry.value) for entry in self._whole.table_metadata}

    @property
    def schema_metadata(self) -> dict[str, bytes]:
        """Key-value pairs that are kept with the schema."""
        return {text(entry.key): entry.value for entry in self._whole.schema_metadata}

    @property
    def next_row_id(self) -> int:
        """The stable row id of the next new row; 0 without stable row ids."""
        return int(self._whole.next_row_id)

    @property
    def max_fragment_id(self) -> int:
        """Highest fragment id ever used; -1 if there was none."""
        return int(self._whole.max_fragment_id) if self._whole.HasField("max_fragment_id") else -1

    @property
    def storage_version(self) -> str:
        """Version of the data file format, e.g. ``2.2``."""
        return text(self._whole.data_format.version)

    @property
    def counts_rows(self) -> bool:
        """Whether the writer recorded how many rows fragments have; the first writers omitted it or got it wrong."""
        return bool(self.storage_version)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return bool(self.head.reader_flags & 2)

    @property
    def fragment_count(self) -> int:
        return len(self._records)

    def fragments(self) -> Iterator[Fragment]:
        """All fragments, in the order of the manifest."""
        return (self._fragment(record) for record in self._records)

    def _fragment(self, record: bytes) -> Fragment:
        found = _fragment(record)
        return found if self._ids is None else renumbered_fragment(found, self._ids)

    def fragments_with(self, paths: Collection[str]) -> list[Fragment]:
        """The fragments with one of these data files. For a few files, no other fragments are decoded."""
        records = self._records
        if len(paths) <= _FEW:
            names = [path.encode() for path in paths]
            records = [record for record in records if any(name in record for name in names)]
        fragments = (self._fragment(record) for record in records)
        return [fragment for fragment in fragments if any(file.path in paths for file in fragment.files)]

    def fragments_without(self, other: Contents) -> list[Fragment]:
        """The fragments whose records are not, byte by byte, among those of another version.

        All of them if field ids mean other columns there.
        """
        if self._ids != other._ids:
            return [*self.fragments()]
        return [self._fragment(record) for record in self._records if record not in other._known]

    def fragments_shared(self, other: Contents) -> list[Fragment]:
        """The fragments whose records are also in the other version."""
        return [self._fragment(record) for record in self._records if record in other._known]

    @cached_property
    def _known(self) -> frozenset[bytes]:
        return frozenset(self._records)


def decode_contents(content: bytes) -> Contents:
    """Decode a manifest file.

    Raises CorruptData for bytes that are not a manifest, Refused for a version that ``check_flags`` refuses.
    """
    span = manifest_span(content)
    run = compare(NO_FRAGMENTS, content, span).run
    records = [run.records(at, at + 1) for at in range(len(run.bounds) - 1)]
    rest = content[span.start : run.start] + content[run.end : span.end]
    whole = parse("Whole", rest)
    # Writers put all fragments into one run; fragments after the run also count.
    records += [b"\x12" + _length(len(record)) + record for record in whole.fragments]
    head = head_of(parse("Head", rest))
    check_flags(head)
    indexes: tuple[IndexSegment, ...] = ()
    if whole.HasField("index_section"):
        section = section_span(content, whole.index_section, span)
        indexes = tuple(_index(index) for index in parse("IndexRecords", content[section.start : section.end]).indices)
    return Contents(head, whole, records, indexes)


def _fragment(record: bytes) -> Fragment:
    return fragment_of(parse("OneFragment", record).fragments[0])


def renumbered_fragment(fragment: Fragment, ids: Mapping[int, int]) -> Fragment:
    """A fragment with other field ids; columns that have none are marked as replaced."""
    files = tuple(file._replace(fields=renumbered_ids(file.fields, ids)) for file in fragment.files)
    return fragment._replace(files=files)


def renumbered_ids(fields: Iterable[int], ids: Mapping[int, int]) -> tuple[int, ...]:
    """The field ids of a file in another numbering."""
    return tuple(ids.get(key, REPLACED) if key >= 0 else key for key in fields)


def fragment_of(fragment: Any) -> Fragment:
    deletion = fragment.deletion_file if fragment.HasField("deletion_file") else None
    return Fragment(
        id=fragment.id,
        files=tuple(
            DataFile(text(file.path), tuple(file.fields), file.file_size_bytes, _base(file.base_id))
            for file in fragment.files
        ),
        deletion=None
        if deletion is None
        else DeletionFile(
            deletion.file_type, deletion.read_version, deletion.id, deletion.num_deleted_rows, _base(deletion.base_id)
        ),
        physical_rows=fragment.physical_rows,
        row_ids=fragment.row_ids,
        has_overlays=bool(fragment.overlays),
    )


def _index(index: Any) -> IndexSegment:
    if len(index.uuid.uuid) != 16:
        raise CorruptData("The manifest is damaged: an index has no id.")
    return IndexSegment(
        name=text(index.name),
        uuid=str(UUID(bytes=index.uuid.uuid)),
        fields=tuple(index.fields),
        base_id=_base(index.base_id),
        fragments=frozenset(BitMap.deserialize(index.fragment_bitmap)) if index.fragment_bitmap else frozenset(),
        kind=(text(index.index_details.type_url), _fields(bytes(index.index_details.value))),
    )


def _fields(message: bytes) -> tuple[bytes, ...]:
    """The fields of a message, sorted; the whole message if they cannot be split."""
    found, here, ended = [], 0, message + b"\0"  # a truncated number ends there
    while here < len(message):
        after = field_end(ended, here)
        if after is None or after > len(message):
            return (message,)
        found.append(message[here:after])
        here = after
    return tuple(sorted(found))


def _base(base_id: int) -> int | None:
    return None if base_id == NO_BASE else base_id


def _length(size: int) -> bytes:
    written = bytearray()
    while size > 127:
        written.append(size & 127 | 128)
        size >>= 7
    return bytes([*written, size])
