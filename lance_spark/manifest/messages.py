"""The protobuf messages of a manifest, with only those fields that tell what files it names.

What is not declared (schema, statistics, configuration) is skipped by the parser. The same bytes are read through
several views, because what costs time is not parsing but making Python objects:

- ``Head`` has everything but the fragments.
- ``Files`` declares the repeated field of fragments as a single one. Protobuf merges a single message that occurs
  many times, so this one has the files of all fragments in one list and no object per fragment.
- ``Deletions`` has fragments one by one, with what the names of deletion files are made of.

The descriptors live in a pool of their own: the default one refuses a second definition of a name.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from lance_spark.errors import CorruptData

NO_BASE = -1
"""Value of an absent base id: 0 is an id like any other. Needs the default values of proto2."""

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "lance_spark.manifest"
_BASE_ID = "base id"
_SCALARS: dict[str, int] = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint64": _Field.TYPE_UINT64,
    _BASE_ID: _Field.TYPE_INT64,
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
    # The type is no enum here: proto2 takes an unknown member for the first one, and so for another file.
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
    "Uuid": {1: ("uuid", "bytes")},
    "IndexMetadata": {1: ("uuid", "Uuid"), 9: ("base_id", _BASE_ID)},
    "IndexSection": {1: ("indices", "IndexMetadata*")},
}
"""Fields by number: name and type; a star means repeated."""


def parse(view: str, content: bytes) -> Any:
    """A message of one of the views. Raises CorruptData for bytes that are no such message."""
    try:
        return _CLASSES[view].FromString(content)
    except (DecodeError, UnicodeDecodeError) as problem:
        raise CorruptData(f"The manifest is damaged: {problem}.") from None


def text(value: str | bytes) -> str:
    """The value of a string field. Raises CorruptData if it is not UTF-8: protobuf hands that out as bytes."""
    if isinstance(value, str):
        return value
    raise CorruptData(f"The manifest is damaged: {value!r} is not UTF-8.")


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, (name, kind) in fields.items():
            described.field.append(_field(number, name, kind))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message}"))
        for message in _MESSAGES
    }


def _field(number: int, name: str, kind: str) -> Any:
    repeated = kind.endswith("*")
    field = _Field(name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind.rstrip('*')}"
    if kind == _BASE_ID:
        field.default_value = str(NO_BASE)
    return field


_CLASSES = _classes()
