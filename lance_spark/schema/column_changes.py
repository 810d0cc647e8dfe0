"""Changes of columns that users ask for, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from lance_spark.schema.names import is_column_name

COMMENT = "comment"
"""Key of a column's comment in its metadata, as in Spark's."""
Path = tuple[str, ...]
"""Name of a column, or of a field inside one, from the outside in."""


@dataclass(frozen=True)
class AddColumn:
    """A new column, null in all rows that are there."""

    path: Path
    type: pa.DataType
    nullable: bool = True
    comment: str | None = None
    position: str | None = None
    """Where it should stand, in the words of SQL; refused, as pylance puts it at the end."""


@dataclass(frozen=True)
class DropColumn:
    """A column goes. Its values stay in the files until these are written anew."""

    path: Path
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """A column gets another name; values and indexes stay."""

    path: Path
    name: str


@dataclass(frozen=True)
class AlterColumn:
    """Other properties for a column; None leaves one as it is."""

    path: Path
    type: pa.DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    """An empty one is removed."""
    position: str | None = None


ColumnChange = AddColumn | DropColumn | RenameColumn | AlterColumn


def comment_of(column: pa.Field) -> str | None:
    """A column's comment."""
    found = (column.metadata or {}).get(COMMENT.encode())
    return None if found is None else found.decode(errors="replace")


def shown(path: Path) -> str:
    """A path as people type it."""
    return ".".join(part if is_column_name(part) else f"`{part}`" for part in path)


def nested(path: Path, column: pa.Field) -> pa.Field:
    """A field inside of structs, as a column of its own that holds nothing else."""
    return reduce(lambda inner, name: pa.field(name, pa.struct([inner])), reversed(path[:-1]), column)


def new_field(change: AddColumn) -> pa.Field:
    """The field that a change adds."""
    metadata = {COMMENT: change.comment} if change.comment else None
    return pa.field(change.path[-1], change.type, metadata=metadata)
