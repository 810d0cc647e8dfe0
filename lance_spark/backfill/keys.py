"""What tells one computation from another one, and one state of a fragment from another one. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from hashlib import sha256
from types import CodeType
from typing import Any

import pyarrow as pa

from lance_spark.manifest.contents import Field, Fragment


def call_key(identity: str, schema: pa.Schema, tag: str) -> str:
    """Names all records of one call: what is computed, for which columns of which types."""
    columns = [(field.name, str(field.type)) for field in schema]
    return _digest([identity, columns, tag])


def fragment_key(fragment: Fragment, inputs: Collection[int]) -> str:
    """Names the record of a fragment: its rows, the deleted ones, and the files of the fields that are read.

    A row that was deleted has no value in the file. So a fragment with other deletions is another one.
    """
    return _digest([fragment.id, fragment.physical_rows, _sources(fragment, inputs), fragment.deletion])


def same_sources(before: Fragment, now: Fragment, inputs: Collection[int]) -> bool:
    """Whether a fragment still has the rows, deleted ones included, and the values that were read."""
    return (before.id, before.physical_rows, _sources(before, inputs)) == (
        now.id,
        now.physical_rows,
        _sources(now, inputs),
    )


def field_ids(fields: Iterable[Field], columns: Collection[str]) -> dict[str, tuple[int, ...]]:
    """The ids of top-level columns, each followed by those of the fields inside it."""
    owners: dict[int, str] = {}
    found: dict[str, tuple[int, ...]] = {}
    for field in fields:
        owner = field.name if field.parent_id < 0 else owners.get(field.parent_id)
        if owner is not None and owner in columns:
            owners[field.id] = owner
            found[owner] = (*found.get(owner, ()), field.id)
    return found


def function_identity(function: Any) -> str:
    """What a function is, as far as its name, its own code and the plain values it uses tell.

    What it calls in other modules, and a model that it loads, are not seen.
    """
    kind = function if isinstance(function, type) or hasattr(function, "__qualname__") else type(function)
    name = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', repr(kind))}"
    state = {} if isinstance(function, type) else getattr(function, "__dict__", {})
    parts = [_function(each) for each in _functions_of(function)]
    return _digest([name, parts, {key: _plain(value) for key, value in sorted(state.items())}])


def _functions_of(function: Any) -> list[Any]:
    if hasattr(function, "__code__"):
        return [function]
    kind = function if isinstance(function, type) else type(function)
    return [method for _, method in sorted(vars(kind).items()) if hasattr(method, "__code__")]


def _function(function: Any) -> list[Any]:
    code = function.__code__
    names = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    cells = [_plain(cell.cell_contents) for cell in function.__closure__ or () if _is_set(cell)]
    return [_code(code), cells, {name: _plain(value) for name, value in names.items()}, _plain(function.__defaults__)]


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that gets its value later
        return False


def _code(code: CodeType) -> list[Any]:
    """Code without what depends on where it stands: no file, no line numbers."""
    constants = [_code(each) if isinstance(each, CodeType) else _plain(each) for each in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names), list(code.co_varnames)]


def _plain(value: Any) -> Any:
    """A value as text that is the same in every process; of what has no such text, only the type."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, CodeType):
        return _code(value)
    return _code(value.__code__) if hasattr(value, "__code__") else type(value).__qualname__


def _sources(fragment: Fragment, inputs: Collection[int]) -> list[Any]:
    read = [(file.path, file.base_id, sorted(set(file.fields) & set(inputs))) for file in fragment.files]
    return sorted(([path, base, fields] for path, base, fields in read if fields), key=str)


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, default=str).encode()).hexdigest()[:32]
