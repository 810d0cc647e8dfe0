"""Blob columns: how they are marked in a schema, and how bytes become one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

BLOB_KEY = "lance-encoding:blob"
"""Field metadata that marks a blob column, in Arrow and in Spark (the JVM connector's key)."""
BLOB_EXTENSION = "lance.blob.v2"
BLOB_BYTES = 256 * 2**10
"""Guess for the size of one blob, to keep batches of whole blobs small."""


def is_blob(field: pa.Field) -> bool:
    """Whether an Arrow field is a blob column: marked bytes (file format up to 2.1) or the blob extension type."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == BLOB_EXTENSION)
    metadata = field.metadata or {}
    return metadata.get(BLOB_KEY.encode(), b"").lower() == b"true" or (
        metadata.get(b"ARROW:extension:name") == BLOB_EXTENSION.encode()
    )


def is_blob_extension(field: pa.Field) -> bool:
    """Whether the field stores blobs through the extension type, which takes prepared values, not plain bytes."""
    return isinstance(field.type, pa.BaseExtensionType) and bool(field.type.extension_name == BLOB_EXTENSION)


def plain_bytes(field: pa.Field) -> pa.Field:
    """The field as its values are handed over: bytes."""
    return pa.field(field.name, pa.large_binary(), field.nullable)


def holds_bytes(kind: pa.DataType) -> bool:
    """Whether a type is plain bytes, as a value for a blob column must be."""
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_null(kind))
