"""Blobs by reference: objects elsewhere, whole or a range of their bytes, as descriptions of blobs and rows name them.

A description has the object's URI; or, with the number of a base path in place of a file's number, the path below it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.location import is_within
from lance_spark.errors import CorruptData, SchemaMismatch
from lance_spark.format.blobs import BLOB_KEY
from lance_spark.format.schema import is_string

DESCRIPTION = frozenset({"kind", "position", "size", "blob_id"})
"""Fields that descriptions of blobs have since file format 2.2."""
AT_URI = 3
"""The kind of a description that refers to an object elsewhere."""
_STORES = frozenset({"s3", "gs", "az", "abfss"})
_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "gcs": "gs"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?=:)")


class BlobReference(NamedTuple):
    """Bytes of an object elsewhere."""

    address: str
    """An absolute local path, or a URI without a query."""
    position: int = 0
    size: int = 0
    """0: the whole object."""


class Referring(NamedTuple):
    """How many blobs of a version refer to objects elsewhere."""

    blobs: int = 0
    whole: int = 0
    """How many of these are whole objects: their sizes are in no table."""
    bytes: int = 0
    """Of the others, which are ranges."""

    def and_in(self, descriptions: pa.StructArray) -> Referring:
        """With those among descriptions of blobs."""
        if not {field.name for field in descriptions.type} >= DESCRIPTION:
            return self
        kinds, sizes = descriptions.field("kind"), descriptions.field("size")
        there = pc.and_(descriptions.is_valid(), pc.fill_null(pc.equal(kinds, pa.scalar(AT_URI, kinds.type)), False))
        found = sizes.filter(there).cast(pa.int64())
        whole = pc.sum(pc.equal(found, 0)).as_py() or 0
        return Referring(self.blobs + len(found), self.whole + whole, self.bytes + (pc.sum(found).as_py() or 0))


def reference_of(description: Mapping[str, Any] | None, bases: Mapping[int, str]) -> BlobReference | None:
    """What a description refers to; None for a blob in the table's own files, and for none at all.

    ``bases`` has the URIs of the version's base paths by their ids. Raises CorruptData for one that is not there.
    """
    if description is None or description.get("kind") != AT_URI:
        return None
    address, why_not = address_of(description["blob_id"], description["blob_uri"], bases)
    if why_not:
        raise CorruptData(f"The blob at {address} cannot be read: {why_not}")
    return BlobReference(address, int(description["position"]), int(description["size"]))


def address_of(base: int, uri: str, bases: Mapping[int, str]) -> tuple[str, str]:
    """The address of an object, without anything that may be secret; and why it cannot be reached from here, or ""."""
    if base:
        if base not in bases:
            return uri, f"The version has no base path {base}, below which it is."
        root = bases[base].rstrip("/")
        return f"{root}/{quote(uri) if '://' in root else uri}", ""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return unquote(parts.path), ""
    host = parts.netloc if parts.scheme in ("abfss", "az") else parts.netloc.rpartition("@")[2]
    known = parts.scheme in _STORES
    return f"{parts.scheme}://{host}{parts.path}", "" if known else f"Objects at {parts.scheme}: are not looked for."


# --- Rows that are written: a column of URIs in place of bytes

_FORMS = {"uri": is_string, "position": pt.is_integer, "size": pt.is_integer}


def refers(kind: pa.DataType) -> bool:
    """Whether values of a type refer to blobs: texts that are URIs, or structs of uri, position and size."""
    if not pt.is_struct(kind):
        return is_string(kind)
    names = [field.name for field in kind]
    return sorted(names) == sorted(_FORMS) and all(_FORMS[field.name](field.type) for field in kind)


def referred(column: pa.Array, name: str, table: str) -> list[BlobReference | None]:
    """What the rows of a column refer to, with URIs for addresses, spelled as pylance stores them.

    ``table`` is the URI of the table that is written. Raises SchemaMismatch for what is no reference.
    """
    known: dict[str, str] = {}
    found: list[BlobReference | None] = []
    for value in column.to_pylist():
        uri, position, size = _parts(value)
        if uri is None:
            if position is not None or size is not None:
                raise _refused(name, "a range without a URI", "Give a URI, or null for a row without a blob.")
            found.append(None)
            continue
        if uri not in known:
            known[uri] = written_uri(uri, name, table)
        if (position is None) != (size is None) or (position or 0) < 0 or (size is not None and size < 1):
            said = f"the range position={position}, size={size}"
            raise _refused(name, said, "Give both, from 0 and from 1; or null for both: the whole object.")
        found.append(BlobReference(known[uri], position or 0, size or 0))
    return found


def as_columns(found: Sequence[BlobReference | None]) -> dict[str, pa.Array]:
    """References in the form in which pylance takes them: a whole object has neither position nor size."""
    ranges = [None if one is None or not one.size else one for one in found]
    return {
        "uri": pa.array([one and one.address for one in found], pa.string()),
        "position": pa.array([None if one is None else one.position for one in ranges], pa.uint64()),
        "size": pa.array([None if one is None else one.size for one in ranges], pa.uint64()),
    }


def is_reference(field: pa.Field) -> bool:
    """Whether a field that is marked as a blob has references in place of bytes."""
    return (field.metadata or {}).get(BLOB_KEY.encode()) == b"true" and refers(field.type)


def reference_values(found: Sequence[BlobReference | None], field: pa.Field) -> pa.Array:
    """References as values of a field of the extension type. Raises SchemaMismatch for ranges that it cannot hold."""
    storage, parts = field.type.storage_type, as_columns(found)
    if parts["size"].null_count < len(found) and storage.get_field_index("size") < 0:
        raise SchemaMismatch(
            f"Column '{field.name}' stores whole objects only, not ranges of them: it was made from marked bytes.",
            hint="Write to a new table.",
        )
    inner = [parts[child.name] if child.name in parts else pa.nulls(len(found), child.type) for child in storage]
    values = pa.StructArray.from_arrays(inner, fields=list(storage), mask=parts["uri"].is_null())
    return pa.ExtensionArray.from_storage(field.type, values)


def opened(reference: BlobReference | None) -> BlobReference | None:
    """A reference with a URI as :func:`reference_of` has it."""
    return None if reference is None else reference._replace(address=address_of(0, reference.address, {})[0])


def _parts(value: Mapping[str, Any] | str | None) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return value["uri"], value["position"], value["size"]
    return value, None, None


def written_uri(text: str, name: str, table: str) -> str:
    """A URI of an object, spelled as pylance stores it. Raises SchemaMismatch for one that would lead nowhere."""
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[0].lower() == "file":
        path = text if scheme is None else unquote(re.sub(r"^//(localhost)?(?=/)", "", text[scheme.end() + 1 :]))
        if not path.startswith("/") or path.endswith("/"):
            raise _refused(name, f"'{text}', which is not an absolute path of a file", "Give a path or URI in full.")
        _check_outside(path, name, table)
        return f"file://{quote(path)}"
    kind = _ALIASES.get(scheme[0].lower(), scheme[0].lower())
    rest = text[scheme.end() :]
    bucket, _, key = rest.removeprefix("://").partition("/")
    shown = f"{kind}://{bucket.rpartition('@')[2]}/{key.partition('?')[0]}"
    if kind not in _STORES:
        raise _refused(
            name, f"'{shown}', and Lance reads no objects at {kind}:", "Put them into a store, or write bytes."
        )
    if kind in ("s3", "gs") and "@" in bucket:
        raise _refused(
            name, f"'{shown}' with a user", "Give credentials as storage options, as in blobs.aws_access_key_id."
        )
    if not rest.startswith("://") or not bucket or not key or key.endswith("/"):
        raise _refused(name, f"'{shown}', which names no object", "Write s3://bucket/key.")
    if "?" in key or "#" in key:
        raise _refused(name, f"'{shown}' with a query", "Write %3F and %23 if the key has these characters.")
    uri = f"{kind}://{bucket}/{quote(unquote(key))}"
    _check_outside(uri, name, table)
    return uri


def _check_outside(address: str, name: str, table: str) -> None:
    if is_within(unquote(address), unquote(table)) if "://" in table else is_within(address, table):
        hint = "A cleanup would remove it. Keep such objects elsewhere, or write their bytes."
        raise _refused(name, f"'{address}', which is inside of the table itself", hint)


def _refused(name: str, said: str, hint: str) -> SchemaMismatch:
    return SchemaMismatch(f"Blob column '{name}' refers to {said}.", hint=hint)
