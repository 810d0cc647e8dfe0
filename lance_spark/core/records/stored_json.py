"""JSON in files and metadata, which another program or an accident may have changed.

``dataclasses.asdict`` is what a record looks like there; ``read_as`` makes the record from it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
"""What reading a record raises if it is damaged."""
_T = TypeVar("_T")


def decode_json(content: str | bytes) -> Any:
    """The value. Raises ValueError for everything that is not JSON, also if it is nested too deeply to be read."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_as(kind: type[_T], value: Any, *, lenient: bool = False) -> _T:
    """A dataclass or named tuple from its JSON value, by the types of its fields. Raises one of UNREADABLE.

    A field that is missing has its default. An unknown one is an error, as it may be what a newer release decides by;
    ``lenient`` leaves it out, where a number of the format tells of such changes.
    """
    types = _types(cast("Any", kind))
    given = dict(zip(types, value, strict=True)) if isinstance(value, list) else _checked(dict, value)
    if not lenient and not given.keys() <= types.keys():
        raise ValueError(f"unknown: {', '.join(sorted(given.keys() - types.keys()))}")
    read = {name: _read(types[name], each, lenient) for name, each in given.items() if name in types}
    return kind(**read)


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)} if is_dataclass(kind) else hints


def _read(kind: Any, value: Any, lenient: bool) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        return _read_one_of([part for part in parts if part is not NoneType], value, lenient)
    if origin is tuple:
        each = parts[:1] * len(value) if parts[-1] is ... else parts
        return tuple(_read(part, item, lenient) for part, item in zip(each, _checked(list, value), strict=True))
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return {name: _read(parts[1], item, lenient) for name, item in _checked(dict, value).items()}
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"{value!r} is none of {parts}")
        return value
    if kind is datetime:
        return datetime.fromisoformat(value).astimezone(timezone.utc)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return read_as(kind, value, lenient=lenient)
    return _checked(kind, value)


def _read_one_of(kinds: list[Any], value: Any, lenient: bool) -> Any:
    """By the field ``kind``, whose default says which of several classes a record is of."""
    if len(kinds) == 1:
        return _read(kinds[0], value, lenient)
    for kind in kinds:
        if any(each.name == "kind" and each.default == value["kind"] for each in fields(kind)):
            return _read(kind, value, lenient)
    raise ValueError(f"there is no '{value['kind']}'")


def _checked(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(f"{value!r} is not of type {kind.__name__}")
    return value
