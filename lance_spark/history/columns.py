"""How the columns of two versions differ, by the ids of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lance_spark.history.entries import StoredColumn
from lance_spark.manifest.contents import Field

ADDED, DROPPED, RENAMED, RETYPED, NULLABILITY = "added", "dropped", "renamed", "type changed", "nullability changed"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
"""Metadata of a field that is part of the table's key."""


@dataclass(frozen=True)
class ColumnChange:
    """One difference."""

    kind: str
    """ADDED, DROPPED, RENAMED, RETYPED or NULLABILITY."""
    column: str
    """Path of the column in the later version; of a dropped one in the earlier version."""
    before: str | None = None
    """Path, type or ``null`` / ``not null`` before; None for an added column."""
    after: str | None = None

    def as_record(self) -> dict[str, str | None]:
        """As JSON."""
        return dict(vars(self))


def columns(fields: Sequence[Field]) -> tuple[StoredColumn, ...]:
    """All fields with their whole paths, parents first."""
    paths: dict[int, str] = {}
    columns = []
    for field in fields:
        above = paths.get(field.parent_id)
        paths[field.id] = field.name if above is None else f"{above}.{field.name}"
        columns.append(StoredColumn(field.id, paths[field.id], field.type, field.nullable))
    return tuple(columns)


def compare_columns(before: Sequence[Field], after: Sequence[Field]) -> tuple[ColumnChange, ...]:
    """What changed, in the order of the later version; dropped columns come last.

    pylance gives a column another id when its type changes: one that is dropped and added under one name is that.
    """
    old, new = {column.id: column for column in columns(before)}, {column.id: column for column in columns(after)}
    dropped = {column.path: column for column in old.values() if column.id not in new}
    changes: list[ColumnChange] = []
    for column in new.values():
        earlier = old.get(column.id) or dropped.pop(column.path, None)
        if earlier is None:
            changes.append(ColumnChange(ADDED, column.path, None, column.type))
        else:
            changes += _differences(earlier, column)
    return (*changes, *(ColumnChange(DROPPED, column.path, column.type) for column in dropped.values()))


def _differences(before: StoredColumn, after: StoredColumn) -> Iterable[ColumnChange]:
    # A column inside a renamed one keeps its own name; only the end of the path is its own.
    if before.path.rpartition(".")[2] != after.path.rpartition(".")[2]:
        yield ColumnChange(RENAMED, after.path, before.path, after.path)
    if before.type != after.type or before.id != after.id:
        yield ColumnChange(RETYPED, after.path, before.type, after.type)
    if before.nullable != after.nullable:
        yield ColumnChange(NULLABILITY, after.path, _null(before), _null(after))


def _null(column: StoredColumn) -> str:
    return "null" if column.nullable else "not null"


def common_fields(before: Sequence[Field], after: Sequence[Field]) -> frozenset[int]:
    """Ids of fields that both versions have, with the same type: values of theirs can be compared."""
    types = {field.id: field.type for field in before}
    return frozenset(field.id for field in after if types.get(field.id) == field.type)


def common_columns(before: Sequence[Field], after: Sequence[Field]) -> tuple[tuple[str, str], ...]:
    """(name before, name after) of the columns whose values can be compared, all fields inside of them included."""
    shapes = _shapes(before)
    shapes_after = _shapes(after)
    return tuple(
        (shapes[key][0], shapes_after[key][0])
        for key in shapes_after
        if key in shapes and shapes[key][1] == shapes_after[key][1]
    )


def key_columns(fields: Sequence[Field]) -> tuple[str, ...]:
    """Names of the columns that are the table's key; empty where it has none."""
    return tuple(
        field.name
        for field in fields
        if field.parent_id == -1 and dict(field.metadata).get(PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes")
    )


def top_level(fields: Sequence[Field], ids: Iterable[int]) -> frozenset[str]:
    """Names of the columns that fields of these ids are, or lie in."""
    parents = {field.id: field.parent_id for field in fields}
    names = {field.id: field.name for field in fields}
    names_used = set()
    for field in ids:
        here = field
        while parents.get(here, -1) != -1:
            here = parents[here]
        if here in names:
            names_used.add(names[here])
    return frozenset(names_used)


def _shapes(fields: Sequence[Field]) -> dict[int, tuple[str, tuple[tuple[int, str, str], ...]]]:
    """Per column: its name, and ids, types and inner names of all that is in it."""
    owner: dict[int, int] = {}
    inner: dict[int, list[tuple[int, str, str]]] = {}
    names: dict[int, str] = {}
    for field in fields:
        owner[field.id] = owner.get(field.parent_id, field.id)
        if owner[field.id] == field.id:
            names[field.id] = field.name
        own_name = "" if owner[field.id] == field.id else field.name
        inner.setdefault(owner[field.id], []).append((field.id, field.type, own_name))
    return {key: (names[key], tuple(inner[key])) for key in names}
