"""Decodes one manifest as a whole: fragments, columns, indexes and settings of a version.

Fragments stay bytes until one is asked for. Two versions of a table share nearly all records byte by byte, so a
comparison of two versions with 100,000 fragments decodes only those that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from pyroaring import BitMap

from lance_spark.errors import CorruptData
from lance_spark.layout.names import deletion_path
from lance_spark.manifest.decode import head_of
from lance_spark.manifest.flags import check_flags
from lance_spark.manifest.fragments import NO_FRAGMENTS, compare, field_end
from lance_spark.manifest.framing import manifest_span, section_span
from lance_spark.manifest.messages import NO_BASE, parse, text
from lance_spark.manifest.model import ManifestHead

_FEW = 32
"""Up to so many names are searched in the bytes of all records, which is faster than decoding the records."""


class DataFile(NamedTuple):
    """One data file of a fragment."""

    path: str
    """Relative to the data directory of its base."""
    fields: tuple[int, ...]
    """Ids of the columns in it; -2 for one that another file has replaced."""
    size: int
    """Bytes; 0 where the writer did not record it."""
    base_id: int | None


class DeletionFile(NamedTuple):
    """The rows of a fragment that are deleted."""

    file_type: int
    """0 for Arrow, 1 for a bitmap."""
    read_version: int
    id: int
    rows: int
    """How many rows are deleted."""
    base_id: int | None

    def path_for(self, fragment: int) -> str:
        """Path below the root, for the fragment of that id. Raises CorruptData for an unknown type."""
        return deletion_path(fragment, self.read_version, self.id, self.file_type)


class Fragment(NamedTuple):
    """One fragment of a version."""

    id: int
    files: tuple[DataFile, ...]
    deletion: DeletionFile | None
    physical_rows: int
    """Rows in the data files, deleted ones among them."""
    row_ids: bytes
    """Stable row ids as the manifest has them; empty where there are none."""
    has_overlays: bool

    @property
    def rows(self) -> int:
        """Rows that are not deleted; see :attr:`Contents.counts_rows`."""
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
    """One index, or one segment of it."""

    name: str
    uuid: str
    fields: tuple[int, ...]
    """Ids of the columns it is on."""
    base_id: int | None
    fragments: frozenset[int] = frozenset()
    """Ids of the fragments whose rows it knows."""
    kind: tuple[str, tuple[bytes, ...]] = ("", ())
    """What it is, with its parameters: type of the message, and its fields in some order, as writers have none."""


class Contents:
    """Everything a version says about itself. Build it with :func:`decode_contents`."""

    def __init__(
        self, head: ManifestHead, whole: Any, records: Sequence[bytes], indexes: tuple[IndexSegment, ...]
    ) -> None:
        self.head = head
        self.indexes = indexes
        self._records = records
        self._whole = whole

    @property
    def fields(self) -> tuple[Field, ...]:
        """The schema, flattened depth first."""
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
        """The stable row id that the next row gets; 0 without stable row ids."""
        return int(self._whole.next_row_id)

    @property
    def max_fragment_id(self) -> int:
        """Highest fragment id ever used; -1 where there was none."""
        return int(self._whole.max_fragment_id) if self._whole.HasField("max_fragment_id") else -1

    @property
    def storage_version(self) -> str:
        """Version of the data file format, e.g. ``2.2``."""
        return text(self._whole.data_format.version)

    @property
    def counts_rows(self) -> bool:
        """Whether the writer recorded how many rows fragments have; the first writers did not, or got it wrong."""
        return bool(self.storage_version)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return bool(self.head.reader_flags & 2)

    @property
    def fragment_count(self) -> int:
        """How many fragments the version has."""
        return len(self._records)

    def fragments(self) -> Iterator[Fragment]:
        """All fragments, in the order of the manifest."""
        return (_fragment(record) for record in self._records)

    def fragments_with(self, paths: Collection[str]) -> list[Fragment]:
        """The fragments with one of these data files. For a few files, no other fragments are decoded."""
        records = self._records
        if len(paths) <= _FEW:
            names = [path.encode() for path in paths]
            records = [record for record in records if any(name in record for name in names)]
        fragments = (_fragment(record) for record in records)
        return [fragment for fragment in fragments if any(file.path in paths for file in fragment.files)]

    def fragments_without(self, other: Contents) -> list[Fragment]:
        """The fragments whose records are not, byte by byte, among those of another version."""
        return [_fragment(record) for record in self._records if record not in other._known]

    def fragments_shared(self, other: Contents) -> list[Fragment]:
        """The other ones: those whose records are among them."""
        return [_fragment(record) for record in self._records if record in other._known]

    @cached_property
    def _known(self) -> frozenset[bytes]:
        return frozenset(self._records)


def decode_contents(content: bytes) -> Contents:
    """Decode a manifest file.

    Raises CorruptData for bytes that are no manifest, Refused for a version that ``check_flags`` refuses.
    """
    span = manifest_span(content)
    run = compare(NO_FRAGMENTS, content, span).run
    records = [run.records(at, at + 1) for at in range(len(run.bounds) - 1)]
    rest = content[span.start : run.start] + content[run.end : span.end]
    whole = parse("Whole", rest)
    # Writers put all fragments into one run; any fragments after the run count as well.
    records += [b"\x12" + _length(len(record)) + record for record in whole.fragments]
    head = head_of(parse("Head", rest))
    check_flags(head)
    indexes: tuple[IndexSegment, ...] = ()
    if whole.HasField("index_section"):
        section = section_span(content, whole.index_section, span)
        indexes = tuple(_index(index) for index in parse("Indexes", content[section.start : section.end]).indices)
    return Contents(head, whole, records, indexes)


def _fragment(record: bytes) -> Fragment:
    return fragment_of(parse("OneFragment", record).fragments[0])


def fragment_of(fragment: Any) -> Fragment:
    """A fragment from its message."""
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
    """The fields of a message, sorted; all in one where they cannot be told apart."""
    found, here, ended = [], 0, message + b"\0"  # a number that is cut off ends there
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
    """A number as protobuf writes it."""
    written = bytearray()
    while size > 127:
        written.append(size & 127 | 128)
        size >>= 7
    return bytes([*written, size])
