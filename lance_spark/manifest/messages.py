"""The protobuf messages of a manifest, with only those fields that are of use here.

What is not declared (statistics, encodings) is skipped by the parser. The same bytes are read through
several views, because what costs time is not parsing but making Python objects:

- ``Head`` has everything but the fragments.
- ``Files`` declares the repeated field of fragments as a single one. Protobuf merges a single message that occurs
  many times, so this one has the files of all fragments in one list and no object per fragment.
- ``Deletions`` has fragments one by one, with what the names of deletion files are made of; ``Sizes`` with how many
  rows and bytes each has.
- ``Whole`` has columns and settings, ``OneFragment`` all of one fragment, ``IndexRecords`` all of every index.

The descriptors have their own pool: the default pool refuses a second definition of a name. They are made on first use:
protobuf takes a fifth of a second to import, and the tasks of a write decode nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lance_spark.errors import CorruptData

NO_BASE = -1
"""Value of an absent base id: 0 is an id like any other. Needs the default values of proto2."""

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
    "WholeIndex": {
        1: ("uuid", "Uuid"),
        2: ("fields", "int32#"),
        3: ("name", "string"),
        5: ("fragment_bitmap", "bytes"),
        6: ("index_details", "IndexDetails"),
        9: ("base_id", _BASE_ID),
    },
    "Indexes": {1: ("indices", "WholeIndex*")},
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
    """A message of one of the views. Raises CorruptData for bytes that are no such message."""
    from google.protobuf.message import DecodeError

    try:
        return _classes()[view].FromString(content)
    except (DecodeError, UnicodeDecodeError) as problem:
        raise CorruptData(f"The manifest is damaged: {problem}.") from None


def message(view: str) -> Any:
    """An empty message of one of the views."""
    return _classes()[view]()


def text(value: str | bytes) -> str:
    """The value of a string field. Raises CorruptData if it is not UTF-8: protobuf hands that out as bytes."""
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
