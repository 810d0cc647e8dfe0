"""The files of branches and tags (specification "Branch Metadata File Format" and "Tag File Format"). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, unquote
from uuid import NAMESPACE_OID, uuid5

from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, Tag
from lance_spark.errors import CorruptData

# pylance writes camelCase keys and rejects the snake_case ones that the published specification lists; one such file
# breaks its whole listing. This module reads both.

BRANCHES = "_refs/branches"
TAGS = "_refs/tags"
MAIN_FILE = "_refs/lance_spark/main.json"
"""Metadata of main, which has no ref file: like that of branches, an object with ``metadata``. The table's metadata
would not do: versions, branches and clones would inherit it, and a restore or an overwrite would undo it."""
_SUFFIX = ".json"
_UNEXPECTED = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, OSError)
"""Errors of decoding a value of the wrong kind, or a number that is not a time."""
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?([Zz]|[+-]\d\d:\d\d)")


def ref_file(directory: str, name: str) -> str:
    """Path of a ref file below the dataset root; ``/`` in the name is written ``%2F``."""
    return f"{directory}/{quote(name, safe='')}{_SUFFIX}"


def ref_name(path: str) -> str | None:
    """The branch or tag of a ref file; None for any other file."""
    name = path.rsplit("/", 1)[-1]
    return unquote(name[: -len(_SUFFIX)]) if name.endswith(_SUFFIX) else None


def parse_branch(name: str, content: bytes) -> Branch:
    """A branch from its ref file. Raises CorruptData, naming the branch, for unexpected content."""
    entry = _decode("branch", name, content)
    try:
        created = int(_either(entry, "createAt", "create_at"))
        return Branch(
            name=name,
            parent_branch=_text_or_none(_either(entry, "parentBranch", "parent_branch", default=None)),
            parent_version=int(_either(entry, "parentVersion", "parent_version")),
            created_at=datetime.fromtimestamp(created, timezone.utc),
            metadata=dict(entry.get("metadata") or {}),
            # That of an older writer's branch must differ from main's, and must not change with the ref.
            identity=_identity(entry.get("identifier")) or uuid5(NAMESPACE_OID, f"{created} {name}").hex,
        )
    except _UNEXPECTED as problem:
        raise _corrupt("branch", name, problem) from None


def parse_tag(name: str, content: bytes) -> Tag:
    """A tag from its ref file. Raises CorruptData, naming the tag, for unexpected content."""
    entry = _decode("tag", name, content)
    try:
        created = _either(entry, "createdAt", "created_at", default=None)
        made = None if created is None else _rfc3339(created)
        return Tag(
            name=name,
            branch=_text_or_none(entry.get("branch")),
            version=int(entry["version"]),
            created_at=made,
            metadata=dict(entry.get("metadata") or {}),
            changed_at=_changed_at(_either(entry, "updatedAt", "updated_at", default=None), made),
        )
    except _UNEXPECTED as problem:
        raise _corrupt("tag", name, problem) from None


def tag_file(target: PinnedVersion, size: int, now: datetime) -> bytes:
    """The ref file of a tag, with the fields that pylance writes; ``size`` is that of the manifest, bytes.

    Not through pylance, which sends several requests for each: a lake has thousands of tables.
    """
    stamp = now.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    content: dict[str, object] = {
        "branch": target.branch,
        "version": target.version,
        "createdAt": stamp,
        "updatedAt": stamp,
        "manifestSize": size,
        "metadata": {},
    }
    return json.dumps(content, indent=2).encode()


def _changed_at(updated: Any, made: datetime | None) -> datetime | None:
    """When a tag was last placed; None for an unreadable time, which matters only for tags that expire."""
    try:
        return made if updated is None else _rfc3339(updated)
    except _UNEXPECTED:
        return None


def parse_main(content: bytes) -> dict[str, str]:
    """The metadata of main. Raises CorruptData."""
    try:
        return {str(key): str(value) for key, value in _decode("branch", MAIN, content)["metadata"].items()}
    except _UNEXPECTED as problem:
        raise _corrupt("branch", MAIN, problem) from None


def main_file(metadata: Mapping[str, str]) -> bytes:
    return json.dumps({"metadata": dict(metadata)}, indent=2).encode()


_REQUIRED = object()


def _either(entry: Mapping[str, Any], camel: str, snake: str, default: Any = _REQUIRED) -> Any:
    for key in (camel, snake):
        if key in entry:
            return entry[key]
    if default is _REQUIRED:
        raise KeyError(camel)
    return default


def _identity(identifier: Any) -> str:
    """The branch's own id, the last in the list with its ancestors' ids; "" if it was created without an id.

    Beside version 0, pylance invents an id, a new one at each read, until the ref is changed.
    """
    version, unique = ((identifier or {}).get("version_mapping") or [[0, ""]])[-1]
    return str(unique) if version else ""


def _text_or_none(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _rfc3339(text: str) -> datetime:
    """An RFC 3339 time; pylance writes nanoseconds, and Python keeps microseconds."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an RFC 3339 time")
    seconds, fraction, offset = match.groups()
    offset = "+00:00" if offset in "Zz" else offset
    return datetime.fromisoformat(f"{seconds}.{(fraction or '').ljust(6, '0')}{offset}").astimezone(timezone.utc)


def _decode(kind: str, name: str, content: bytes) -> dict[str, Any]:
    try:
        entry = decode_json(content)
    except ValueError as problem:
        raise _corrupt(kind, name, problem) from None
    if not isinstance(entry, dict):
        raise _corrupt(kind, name, "not a JSON object")
    return entry


def _corrupt(kind: str, name: str, problem: object) -> CorruptData:
    reason = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
    return CorruptData(
        f"The ref file of {kind} '{name}' cannot be understood: {reason}.",
        hint="Restore the file, or delete it if the ref is not needed.",
    )
