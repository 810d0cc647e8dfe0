"""A manifest file: its layout (specification, "Table Layout"), its protobuf messages, its head and its file names.

Every message is preceded by its length. The last 16 bytes are the position of the manifest message, the version of the
layout, and ``LANC``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from lance_spark.core.layout import deletion_path, stored_name, transaction_path
from lance_spark.errors import CorruptData, Refused

_FOOTER = struct.Struct("<qhh4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"


class Span(NamedTuple):
    """A byte range of a file, from ``start`` to before ``end``."""

    start: int
    end: int


def manifest_span(content: bytes) -> Span:
    """The byte range of the manifest message.

    Raises CorruptData for a file that is empty, cut off, has other bytes at its end, or is not a manifest.
    """
    size = len(content)
    if size < _FOOTER.size + _LENGTH.size:
        raise CorruptData(f"The manifest is cut off: it has {size} bytes.")
    position, _, _, magic = _FOOTER.unpack_from(content, size - _FOOTER.size)
    if magic != _MAGIC:
        raise CorruptData(f"The manifest is cut off or damaged: it ends in {magic!r}, not in {_MAGIC!r}.")
    last = size - _FOOTER.size
    if not 0 <= position <= last - _LENGTH.size:
        raise CorruptData(f"The manifest is cut off or damaged: its footer points to byte {position} of {size}.")
    span = _span_at(content, position)
    if span.end != last:
        raise CorruptData(f"The manifest is cut off or damaged: its message ends at byte {span.end}, not at {last}.")
    return span


def section_span(content: bytes, position: int, message: Span) -> Span:
    """The byte range of the section at a position. Raises CorruptData if it is not in front of the manifest message."""
    last = message.start - _LENGTH.size
    if position <= last - _LENGTH.size:
        span = _span_at(content, position)
        if span.end <= last:
            return span
    raise CorruptData(f"The manifest is damaged: its index section at byte {position} does not end before {last}.")


def _span_at(content: bytes, position: int) -> Span:
    start = position + _LENGTH.size
    (length,) = _LENGTH.unpack_from(content, position)
    return Span(start, start + length)


# --- The protobuf messages of a manifest, with only the fields that are needed
# The parser skips undeclared fields (statistics, encodings). The same bytes are read through several views, because
# the cost is not in parsing but in making Python objects:
#
# - ``Head`` has everything except the fragments.
# - ``Files`` declares the repeated field of fragments as a single one. Protobuf merges a single message that occurs
#   many times, so this one has the files of all fragments in one list and no object per fragment.
# - ``Deletions`` has fragments one by one, with the parts of deletion files' names; ``Sizes`` with the rows and bytes
#   of each.
# - ``Whole`` has columns and settings, ``OneFragment`` all of one fragment, ``IndexRecords`` all of every index.
#
# The descriptors have their own pool: the default pool refuses a second definition of a name. They are made on first
# use: importing protobuf takes a fifth of a second, and the tasks of a write decode nothing.

NO_BASE = -1
"""Value of an absent base id, as 0 is a valid id. Needs the default values of proto2."""

_PACKAGE = "lance_spark.manifest"
_BASE_ID = "base id"
_SCALARS = {
    "bool": "TYPE_BOOL",
    "bytes": "TYPE_BYTES",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "string": "TYPE_STRING",
    "uint64": "TYPE_UINT64",
    _BASE_ID: "TYPE_INT64",
}
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Timestamp": {1: ("seconds", "int64"), 2: ("nanos", "int32")},
    "BasePath": {1: ("id", "uint64"), 3: ("is_dataset_root", "bool"), 4: ("path", "string")},
    "Head": {
        3: ("version", "uint64"),
        6: ("index_section", "uint64"),
        7: ("timestamp", "Timestamp"),
        9: ("reader_flags", "uint64"),
        10: ("writer_flags", "uint64"),
        12: ("transaction_file", "string"),
        18: ("base_paths", "BasePath*"),
        20: ("branch", "string"),
        22: ("fragment_tree", "bytes"),
    },
    "DataFile": {1: ("path", "string"), 7: ("base_id", _BASE_ID)},
    "DataOverlayFile": {1: ("data_file", "DataFile")},
    "ExternalFile": {1: ("path", "string")},
    # Not declared as an enum: proto2 reads an unknown member as the first one, and so as another file.
    "DeletionFile": {
        1: ("file_type", "uint64"),
        2: ("read_version", "uint64"),
        3: ("id", "uint64"),
        7: ("base_id", _BASE_ID),
    },
    "AllFragments": {
        2: ("files", "DataFile*"),
        3: ("deletion_files", "DeletionFile*"),
        6: ("row_ids", "ExternalFile*"),
        8: ("updated_at_versions", "ExternalFile*"),
        10: ("created_at_versions", "ExternalFile*"),
        11: ("overlays", "DataOverlayFile*"),
    },
    "Files": {2: ("fragments", "AllFragments")},
    "DataFragment": {1: ("id", "uint64"), 3: ("deletion_file", "DeletionFile")},
    "Deletions": {2: ("fragments", "DataFragment*")},
    # The files of one fragment as a single message, as in Files: their sizes in one list.
    "FileSizes": {6: ("sizes", "uint64*")},
    "DeletedRows": {4: ("num_deleted_rows", "uint64")},
    "FragmentSizes": {
        1: ("id", "uint64"),
        2: ("files", "FileSizes"),
        3: ("deletion_file", "DeletedRows"),
        4: ("physical_rows", "uint64"),
    },
    "Sizes": {2: ("fragments", "FragmentSizes*")},
    # Where each column of each fragment is: in which file, and at which place in it.
    "ColumnFile": {1: ("path", "string"), 2: ("fields", "int32#"), 3: ("places", "int32#")},
    "ColumnFragment": {1: ("id", "uint64"), 2: ("files", "ColumnFile*"), 11: ("overlays", "bytes*")},
    "ColumnFiles": {2: ("fragments", "ColumnFragment*")},
    "Uuid": {1: ("uuid", "bytes")},
    "IndexMetadata": {1: ("uuid", "Uuid"), 9: ("base_id", _BASE_ID)},
    "IndexSection": {1: ("indices", "IndexMetadata*")},
    "Entry": {1: ("key", "string"), 2: ("value", "string")},
    "BytesEntry": {1: ("key", "string"), 2: ("value", "bytes")},
    "SchemaField": {
        2: ("name", "string"),
        3: ("id", "int32"),
        4: ("parent_id", "int32"),
        5: ("logical_type", "string"),
        6: ("nullable", "bool"),
        10: ("metadata", "BytesEntry*"),
    },
    "DataFormat": {2: ("version", "string")},
    "Whole": {
        1: ("fields", "SchemaField*"),
        2: ("fragments", "bytes*"),
        5: ("schema_metadata", "BytesEntry*"),
        6: ("index_section", "uint64"),
        11: ("max_fragment_id", "uint64"),
        14: ("next_row_id", "uint64"),
        15: ("data_format", "DataFormat"),
        16: ("config", "Entry*"),
        19: ("table_metadata", "Entry*"),
        21: ("old_transaction_section", "uint64"),
        23: ("transaction_section", "uint64"),
    },
    "WholeDataFile": {
        1: ("path", "string"),
        2: ("fields", "int32#"),
        6: ("file_size_bytes", "uint64"),
        7: ("base_id", _BASE_ID),
    },
    "WholeDeletionFile": {
        1: ("file_type", "uint64"),
        2: ("read_version", "uint64"),
        3: ("id", "uint64"),
        4: ("num_deleted_rows", "uint64"),
        7: ("base_id", _BASE_ID),
    },
    "WholeFragment": {
        1: ("id", "uint64"),
        2: ("files", "WholeDataFile*"),
        3: ("deletion_file", "WholeDeletionFile"),
        4: ("physical_rows", "uint64"),
        5: ("row_ids", "bytes"),
        11: ("overlays", "bytes*"),
    },
    "OneFragment": {2: ("fragments", "WholeFragment*")},
    "IndexDetails": {1: ("type_url", "string"), 2: ("value", "bytes")},
    "IndexFile": {1: ("path", "string"), 2: ("size_bytes", "uint64")},
    "IndexRecord": {
        1: ("uuid", "Uuid"),
        2: ("fields", "int32#"),
        3: ("name", "string"),
        4: ("dataset_version", "uint64"),
        5: ("fragment_bitmap", "bytes"),
        6: ("index_details", "IndexDetails"),
        7: ("index_version", "int32"),
        8: ("created_at", "uint64"),
        9: ("base_id", _BASE_ID),
        10: ("files", "IndexFile*"),
        11: ("covering_fields", "int32#"),
    },
    "IndexRecords": {1: ("indices", "IndexRecord*")},
    # Where the files of a version are, and nothing else: what a private clone changes.
    "PlacedFile": {7: ("base_id", _BASE_ID)},
    "PlacedOverlay": {1: ("data_file", "PlacedFile")},
    "PlacedFragment": {
        2: ("files", "PlacedFile*"),
        3: ("deletion_file", "PlacedFile"),
        6: ("row_ids", "ExternalFile"),
        8: ("updated_at_versions", "ExternalFile"),
        10: ("created_at_versions", "ExternalFile"),
        11: ("overlays", "PlacedOverlay*"),
    },
    "Placed": {
        2: ("fragments", "PlacedFragment*"),
        3: ("version", "uint64"),
        6: ("index_section", "uint64"),
        9: ("reader_flags", "uint64"),
        10: ("writer_flags", "uint64"),
        12: ("transaction_file", "string"),
        18: ("base_paths", "BasePath*"),
        20: ("branch", "string"),
        21: ("old_transaction_section", "uint64"),
        23: ("transaction_section", "uint64"),
    },
    "PlacedIndex": {1: ("uuid", "Uuid"), 9: ("base_id", _BASE_ID)},
    "PlacedIndexes": {1: ("indices", "PlacedIndex*")},
    "MemWalDetails": {9: ("compacted", "MemWalCompacted*")},
    "MemWalCompacted": {1: ("shard", "Uuid"), 2: ("generation", "uint64")},
    "MemWalShard": {3: ("replayed", "uint64"), 8: ("tables", "MemWalTable*"), 11: ("shard", "Uuid")},
    "MemWalTable": {1: ("generation", "uint64"), 2: ("path", "string"), 4: ("rows", "uint64")},
    "EncodedArray": {1: ("narrow", "Offsets"), 2: ("wide", "Offsets"), 3: ("whole", "Offsets")},
    "Offsets": {1: ("base", "uint64"), 2: ("values", "bytes")},
    "RowIdRange": {1: ("start", "uint64"), 2: ("end", "uint64"), 3: ("holes", "EncodedArray")},
    "RowIdBitmap": {1: ("start", "uint64"), 2: ("end", "uint64"), 3: ("bitmap", "bytes")},
    "RowIdSegment": {
        1: ("range", "RowIdRange"),
        2: ("range_with_holes", "RowIdRange"),
        3: ("range_with_bitmap", "RowIdBitmap"),
        4: ("sorted_array", "EncodedArray"),
        5: ("array", "EncodedArray"),
    },
    "RowIdSequence": {1: ("segments", "RowIdSegment*")},
    "Clone": {4: ("ref_path", "string")},
    "RewriteGroup": {1: ("old", "WholeFragment*"), 2: ("new", "WholeFragment*")},
    "Append": {1: ("fragments", "WholeFragment*")},
    "Rewrite": {3: ("groups", "RewriteGroup*")},
    "Transaction": {
        1: ("read_version", "uint64"),
        2: ("uuid", "string"),
        4: ("properties", "Entry*"),
        **{number: (f"operation_{number}", "bytes") for number in range(100, 116)},
    },
}
"""Fields by number: name and type; a star means repeated, a # repeated and packed."""


def parse(view: str, content: bytes) -> Any:
    """A message of one of the views. Raises CorruptData for other bytes."""
    from google.protobuf.message import DecodeError

    try:
        return _classes()[view].FromString(content)
    except (DecodeError, UnicodeDecodeError) as problem:
        raise CorruptData(f"The manifest is damaged: {problem}.") from None


def message(view: str) -> Any:
    return _classes()[view]()


def text(value: str | bytes) -> str:
    """The value of a string field. Raises CorruptData if it is not UTF-8, for which protobuf returns bytes."""
    if isinstance(value, str):
        return value
    raise CorruptData(f"The manifest is damaged: {value!r} is not UTF-8.")


@cache
def _classes() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, (name, kind) in fields.items():
            described.field.append(_field(descriptor_pb2.FieldDescriptorProto, number, name, kind))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message}"))
        for message in _MESSAGES
    }


def _field(made: Any, number: int, name: str, kind: str) -> Any:
    repeated = kind.endswith(("*", "#"))
    field = made(name=name, number=number, label=made.LABEL_REPEATED if repeated else made.LABEL_OPTIONAL)
    field.options.packed = kind.endswith("#")
    kind = kind.rstrip("*#")
    if kind in _SCALARS:
        field.type = getattr(made, _SCALARS[kind])
    else:
        field.type, field.type_name = made.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    if kind == _BASE_ID:
        field.default_value = str(NO_BASE)
    return field


# --- The content of a manifest, as plain values


@dataclass(frozen=True)
class BasePath:
    """Another place that holds files of a version: the origin of a branch or clone, or a registered base."""

    path: str
    """URI exactly as the writer spelled it: possibly relative, or with a trailing slash."""
    is_dataset_root: bool
    """Whether it has a dataset's layout (``data/``, ``_indices/``); otherwise files lie directly in it."""


@dataclass(frozen=True)
class ManifestHead:
    version: int
    timestamp_ns: int
    """Commit time, nanoseconds since the epoch, UTC; 0 if absent."""
    reader_flags: int
    writer_flags: int
    branch: str | None
    """None for main."""
    transaction_file: str | None
    """Name below ``_transactions``; None if the version has no such file."""
    has_fragment_tree: bool
    """Whether fragments are outside the manifest, where this package does not look."""
    bases: Mapping[int, BasePath]
    """By id. An id is valid within one manifest only."""


class NamedFile(NamedTuple):
    """One file, or one directory of an index, that a version names."""

    base: BasePath | None
    """None for the root that the manifest was opened from."""
    path: str
    """Relative to the base."""


# --- Feature flags of versions whose files this package can find completely

_EITHER_WORD = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 2048
"""Deletion files, stable row ids, new data format, config, base paths, no transaction file, overlays, covering
columns of an index, spilled row lineage."""
_BOTH_WORDS = 256 | 1024 | 16384
"""Mixed versions of data files, tagged fragment reuse, managed blobs: readers' and writers' flags must agree."""
_STABLE_FIELD_IDS = 32768
_READER = _EITHER_WORD | _BOTH_WORDS
_WRITER = _READER | _STABLE_FIELD_IDS
_HINT = "Use a release of lance_spark that can read this version."


class UnknownFormat(Refused):
    """A newer release may read the version."""


def check_flags(head: ManifestHead) -> None:
    """Check that a version uses only features that this package knows: the flags that pylance 14.0.2 accepts.

    Raises UnknownFormat, naming version and flag. Unchecked, a version would seem to need fewer files than it does, and
    a cleanup would delete the others.
    """
    if head.has_fragment_tree:
        raise UnknownFormat(f"Version {head.version} keeps its fragments in a tree outside the manifest.", hint=_HINT)
    for word, flags, known in (("reader", head.reader_flags, _READER), ("writer", head.writer_flags, _WRITER)):
        if flags & ~known:
            raise UnknownFormat(
                f"Version {head.version} has the unknown {word} flag {_lowest(flags & ~known)}.", hint=_HINT
            )
    unpaired = (head.reader_flags ^ head.writer_flags) & _BOTH_WORDS
    if unpaired:
        raise UnknownFormat(
            f"Version {head.version} has the flag {_lowest(unpaired)} only for readers or only for writers.", hint=_HINT
        )


def _lowest(flags: int) -> int:
    return flags & -flags


# --- The file names of a version, below a root, as in the specification

_UUID_BYTES = 16

Bases = Mapping[int, BasePath]


def fragment_files(content: bytes, bases: Bases) -> list[NamedFile]:
    """Data, overlay, row id and deletion files of all fragments in (a part of) a manifest message.

    A file is listed once for each time it is named. Raises CorruptData for a file without a name, in an unknown base,
    or of an unknown type.
    """
    fragments = parse("Files", content).fragments
    named = _data_files(fragments.files, bases)
    named += _data_files((overlay.data_file for overlay in fragments.overlays), bases)
    for external in (fragments.row_ids, fragments.updated_at_versions, fragments.created_at_versions):
        named += [NamedFile(None, _named(file.path)) for file in external]
    if fragments.deletion_files:
        named += _deletion_files(content, bases)
    return named


def index_directories(section: bytes, bases: Bases) -> list[NamedFile]:
    """Directories of all indexes in an index section. Raises CorruptData for a wrong id or an unknown base."""
    places = _places(bases, "_indices/")
    named = []
    for index in parse("IndexSection", section).indices:
        identifier = index.uuid.uuid
        if len(identifier) != _UUID_BYTES:
            raise CorruptData(f"The manifest is damaged: an index id has {len(identifier)} bytes, not 16.")
        base, prefix = _place(places, index.base_id)
        named.append(NamedFile(base, f"{prefix}{UUID(bytes=identifier)}"))
    return named


def _data_files(files: Iterable[Any], bases: Bases) -> list[NamedFile]:
    places = _places(bases, "data/")
    named = []
    for file in files:
        base, prefix = _place(places, file.base_id)
        named.append(NamedFile(base, prefix + stored_name(_named(file.path))))
    return named


def _deletion_files(content: bytes, bases: Bases) -> list[NamedFile]:
    # A base without a "_deletions" directory cannot hold these files; pylance also refuses such a manifest.
    places = _places({key: base for key, base in bases.items() if base.is_dataset_root}, "")
    named = []
    for fragment in parse("Deletions", content).fragments:
        if not fragment.HasField("deletion_file"):
            continue
        file = fragment.deletion_file
        path = deletion_path(fragment.id, file.read_version, file.id, file.file_type)
        named.append(NamedFile(_place(places, file.base_id)[0], path))
    return named


def _places(bases: Bases, directory: str) -> dict[int, tuple[BasePath | None, str]]:
    """Base and directory below it, by base id."""
    places: dict[int, tuple[BasePath | None, str]] = {NO_BASE: (None, directory)}
    for key, base in bases.items():
        places[key] = (base, directory if base.is_dataset_root else "")
    return places


def _place(places: Mapping[int, tuple[BasePath | None, str]], base_id: int) -> tuple[BasePath | None, str]:
    try:
        return places[base_id]
    except KeyError:
        raise CorruptData(f"The manifest is damaged: a file is in base {base_id}, which cannot hold files.") from None


def _named(path: str | bytes) -> str:
    if not path:
        raise CorruptData("The manifest is damaged: a file in it has no name.")
    return text(path)


# --- Recorded rows and bytes of each fragment, for planning reads

RecordedSize: TypeAlias = "tuple[int, int | None, int | None, int]"
"""One fragment: its id; the rows in its data files, including deleted ones; its number of deleted rows; the bytes of
its data files. None if the writer did not record the number; a file without a size counts as 0.

A plain tuple, because there can be 100,000 of them, and each is discarded at once.
"""


def recorded_sizes(message: bytes) -> Iterator[RecordedSize]:
    """One entry per fragment of a manifest message, in order. Raises CorruptData for bytes that are not a manifest."""
    for fragment in parse("Sizes", message).fragments:
        # Checked first: most fragments have no deletion file, and reading an absent message creates an object.
        deleted = (fragment.deletion_file.num_deleted_rows or None) if fragment.HasField("deletion_file") else 0
        yield fragment.id, fragment.physical_rows or None, deleted, sum(fragment.files.sizes)


# --- Where the columns of each fragment are

ColumnPlace: TypeAlias = "tuple[str, int]"
"""The name of a data file, and the column's place in it."""


def column_places(message: bytes, fields: Collection[int]) -> Iterator[tuple[int, dict[int, ColumnPlace]]]:
    """One entry per fragment of a manifest message, in order: its id, and the places of these fields, by field id.

    A field is missing if no file has it, if its writer did not record the place, or if overlays may replace values.
    """
    for fragment in parse("ColumnFiles", message).fragments:
        found: dict[int, ColumnPlace] = {}
        if not len(fragment.overlays):
            for file in fragment.files:
                if len(file.places) == len(file.fields):
                    path = text(file.path)
                    found |= {
                        field: (path, place)
                        for field, place in zip(file.fields, file.places, strict=True)
                        if field in fields and place >= 0
                    }
        yield fragment.id, found


# --- The manifest of a private clone

_BASE_PATHS = 16
"""The flag of versions whose files are in several places."""
_OWN = ("transaction_file", "branch", "old_transaction_section", "transaction_section", "index_section")
"""What a clone does not share with its source: these would be looked for below the clone."""


class PrivateManifest(NamedTuple):
    """The manifest of a private clone, and what it needs beside it."""

    content: bytes
    files: tuple[str, ...]
    """Paths of small files, relative to the root, that a manifest can only name in its own directory."""


def private_manifest(content: bytes, places: Mapping[int | None, str], without: Collection[str]) -> PrivateManifest:
    """The same version for another directory: every file stays where it is.

    ``places`` are the absolute URIs of the bases by id, and of the version's own root under None; ``without`` are the
    ids of index segments to leave out. What is not declared here (columns, statistics, settings) is kept as it is.
    pylance's shallow clone cannot leave the store of its source; this one can. Raises CorruptData.
    """
    span = manifest_span(content)
    placed = parse("Placed", content[span.start : span.end])
    own = max((base.id for base in placed.base_paths), default=0) + 1
    section = b""
    if placed.HasField("index_section"):
        at = section_span(content, placed.index_section, span)
        indexes = parse("PlacedIndexes", content[at.start : at.end])
        for each in [each for each in indexes.indices if str(UUID(bytes=each.uuid.uuid)) in without]:
            indexes.indices.remove(each)
        _place_in(own, indexes.indices)
        section = indexes.SerializeToString()
    files: set[str] = set()
    for fragment in placed.fragments:
        _place_in(own, [*fragment.files, *(overlay.data_file for overlay in fragment.overlays)])
        if fragment.HasField("deletion_file"):
            _place_in(own, [fragment.deletion_file])
        for name in ("row_ids", "updated_at_versions", "created_at_versions"):
            if fragment.HasField(name):
                files.add(_named(getattr(fragment, name).path))
    for base in placed.base_paths:
        base.path = places[base.id]
    root = placed.base_paths.add()
    root.id, root.path, root.is_dataset_root = own, places[None], True
    placed.reader_flags |= _BASE_PATHS
    placed.writer_flags |= _BASE_PATHS
    for name in _OWN:
        placed.ClearField(name)
    placed.index_section = 0
    message = placed.SerializeToString()
    before = _LENGTH.pack(len(section)) + section
    _, *layout = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)
    footer = _FOOTER.pack(len(before), *layout)
    return PrivateManifest(before + _LENGTH.pack(len(message)) + message + footer, tuple(sorted(files)))


def _place_in(base: int, files: Iterable[Any]) -> None:
    for file in files:
        if file.base_id == NO_BASE:
            file.base_id = base


# --- Decoding one manifest file on its own

_NANOSECONDS = 1_000_000_000


def decode_head(content: bytes) -> ManifestHead:
    """The head of a manifest; flags are not checked, and fragments are not read.

    Raises CorruptData for bytes that are not a manifest.
    """
    span = manifest_span(content)
    return head_of(parse("Head", content[span.start : span.end]))


def named_files(content: bytes) -> frozenset[NamedFile]:
    """Every file and index directory that a manifest names. Blobs beside a data file belong to it and are not named.

    Raises CorruptData for bytes that are not a manifest, UnknownFormat for a version that ``check_flags`` refuses.
    """
    span = manifest_span(content)
    message = content[span.start : span.end]
    head, others = head_and_others(content, span, message)
    return frozenset(others + fragment_files(message, head.bases))


def head_and_others(content: bytes, span: Span, message: bytes) -> tuple[ManifestHead, list[NamedFile]]:
    """The head, and the files outside the fragments: the transaction and the indexes.

    ``span`` is the byte range of the manifest message in the file. ``message`` is that message, with or without its
    fragments. Raises CorruptData, and UnknownFormat as ``check_flags`` does.
    """
    parsed = parse("Head", message)
    head = head_of(parsed)
    check_flags(head)
    others = [NamedFile(None, transaction_path(None, head.transaction_file))] if head.transaction_file else []
    if parsed.HasField("index_section"):
        section = section_span(content, parsed.index_section, span)
        others += index_directories(content[section.start : section.end], head.bases)
    return head, others


def head_of(parsed: Any) -> ManifestHead:
    """The head from a parsed ``Head``. Raises CorruptData if it has no version number."""
    if not parsed.version:
        raise CorruptData("The manifest is damaged: it has no version number.")
    return ManifestHead(
        version=parsed.version,
        timestamp_ns=parsed.timestamp.seconds * _NANOSECONDS + parsed.timestamp.nanos,
        reader_flags=parsed.reader_flags,
        writer_flags=parsed.writer_flags,
        branch=text(parsed.branch) or None,
        transaction_file=text(parsed.transaction_file) or None,
        has_fragment_tree=parsed.HasField("fragment_tree"),
        bases={base.id: BasePath(text(base.path), base.is_dataset_root) for base in parsed.base_paths},
    )
