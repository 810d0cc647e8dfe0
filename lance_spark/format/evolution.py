"""Changes of columns: the requests as plain values, and the checked plan of their steps. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.types as pt

from lance_spark import errors
from lance_spark.format.column_defaults import default_of, with_default
from lance_spark.format.contents import Field
from lance_spark.format.kept_types import KEPT, LENGTH_KEY, TYPE_KEY, Kept, kept_of, why_not_kept
from lance_spark.format.schema import RULES, is_column_name, why_not

COMMENT = "comment"
"""Key of a column's comment in its metadata, as in Spark's."""
Path = tuple[str, ...]
"""Name of a column, or of a field inside one, from the outside in."""


@dataclass(frozen=True)
class AddColumn:
    """A new column. In all existing rows it is null, or has the value that ``fill`` says."""

    path: Path
    type: pa.DataType
    nullable: bool = True
    comment: str | None = None
    position: str | None = None
    """Its requested position, in the words of SQL; refused, because pylance adds columns at the end."""
    kept: Kept = field(default_factory=dict, hash=False)
    """What keeps a type that Arrow lacks, see lance_spark.format.kept_types."""
    default: str | None = None
    """The SQL of the value of rows that are written without one, see lance_spark.format.column_defaults."""
    fill: str | None = None
    """The same, as a constant, of the rows that are there."""


@dataclass(frozen=True)
class DropColumn:
    """Drop a column. Its values stay in the files until those are rewritten."""

    path: Path
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """Rename a column; values and indexes stay."""

    path: Path
    name: str


@dataclass(frozen=True)
class AlterColumn:
    """Change properties of a column; None leaves one unchanged."""

    path: Path
    type: pa.DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    """An empty comment is removed."""
    position: str | None = None
    kept: Kept | None = field(default=None, hash=False)
    """With a type: what keeps it if Arrow lacks it, see lance_spark.format.kept_types; empty for one that Arrow has."""
    default: str | None = None
    """An empty default is removed. It is for rows that are written from now on."""


ColumnChange = AddColumn | DropColumn | RenameColumn | AlterColumn


def comment_of(column: pa.Field) -> str | None:
    found = (column.metadata or {}).get(COMMENT.encode())
    return None if found is None else found.decode(errors="replace")


def shown(path: Path) -> str:
    """A path as users type it."""
    return ".".join(part if is_column_name(part) else f"`{part}`" for part in path)


def nested(path: Path, column: pa.Field) -> pa.Field:
    """A field inside structs, as a column of its own that holds nothing else."""
    return reduce(lambda inner, name: pa.field(name, pa.struct([inner])), reversed(path[:-1]), column)


def new_field(change: AddColumn) -> pa.Field:
    metadata = {**change.kept, **({COMMENT: change.comment} if change.comment else {})}
    return with_default(pa.field(change.path[-1], change.type, metadata=metadata or None), change.default)


# --- Planning changes: (columns, changes) -> steps and the new columns, or an error
# Values are never touched: a new column is null in all rows, and a type can only become one that holds every value of
# the old one.


@dataclass(frozen=True)
class Widened:
    """A column whose values must be rewritten in another type; for a struct, see :func:`lost_structs`."""

    source: str
    target: str
    type: pa.DataType
    fill: str | None = None
    """The constant that all rows get, see lance_spark.format.column_defaults; None for the values of the source."""


@dataclass(frozen=True)
class Evolution:
    """Changes that can be made, and their result."""

    schema: pa.Schema
    steps: tuple[ColumnChange, ...] = ()
    """The effective changes, in order."""
    casts: tuple[Widened, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    """Existing columns: their old names by their new ones."""

    @property
    def only_adds(self) -> bool:
        """Whether it leaves everything existing unchanged, with nulls in what is new."""
        return all(isinstance(step, AddColumn) for step in self.steps) and not self.casts

    @property
    def adds_constants(self) -> bool:
        """Whether it leaves everything existing unchanged, with nulls or defaults in what is new."""
        return all(isinstance(step, AddColumn) for step in self.steps) and all(each.fill for each in self.casts)

    @property
    def new_fields(self) -> list[pa.Field]:
        """The columns that it adds; fields inside structs, as columns of their own that hold nothing else."""
        return [nested(step.path, new_field(step)) for step in self.steps if isinstance(step, AddColumn)]

    @property
    def adds(self) -> bool:
        return any(isinstance(step, AddColumn) for step in self.steps)

    @property
    def drops_fields(self) -> bool:
        """Whether it drops a field inside a struct."""
        return any(isinstance(step, DropColumn) and len(step.path) > 1 for step in self.steps)

    @property
    def writes_fragments(self) -> bool:
        """Whether fragments must be rewritten: with a new column, or one in another type."""
        return bool(self.casts) or self.adds


def plan_evolution(schema: pa.Schema, changes: Iterable[ColumnChange]) -> Evolution:
    """Check changes one after the other, each on the result of the previous ones.

    Raises NotFound for an unknown column, with near names; AlreadyExists for an existing one, ignoring case;
    InvalidName; SchemaMismatch for a type that could lose values; Refused for what pylance cannot do.
    """
    start = Evolution(schema, origins={name: name for name in schema.names})
    return reduce(_apply, changes, start)


def _apply(before: Evolution, change: ColumnChange) -> Evolution:
    if isinstance(change, AddColumn):
        return _add(before, change)
    if isinstance(change, DropColumn):
        return _drop(before, change)
    if isinstance(change, RenameColumn):
        return _rename(before, change)
    return _alter(before, change)


def _add(before: Evolution, change: AddColumn) -> Evolution:
    _check_position(change.path, change.position, "add")
    if not change.nullable:
        raise errors.Refused(
            f"Cannot add column '{shown(change.path)}' as NOT NULL: existing rows have no value for it.",
            hint="Add it without NOT NULL.",
        )
    siblings = _fields(before.schema, change.path[:-1], "add")
    _check_free(change.path, siblings, None)
    added = [*siblings, new_field(change)]
    schema = _replaced(before.schema, change.path[:-1], added)
    if change.default is None and change.fill is None:
        return _with(before, change, schema)
    if len(change.path) > 1:
        raise errors.Refused(
            f"Cannot add '{shown(change.path)}' with a default: it is inside another column.",
            hint="Leave DEFAULT out: existing rows get null.",
        )
    filled = Widened(next(iter(before.origins.values()), ""), change.path[0], change.type, change.fill)
    casts = before.casts if change.fill is None else (*before.casts, filled)
    return Evolution(schema, (*before.steps, change), casts, before.origins)


def _drop(before: Evolution, change: DropColumn) -> Evolution:
    try:
        siblings, index = _find(before.schema, change.path, "drop")
    except errors.NotFound:
        if change.if_exists:
            return before
        raise
    rest = [*siblings[:index], *siblings[index + 1 :]]
    if not rest:
        what = "a table" if len(change.path) == 1 else f"'{shown(change.path[:-1])}'"
        raise errors.Refused(f"Cannot drop column '{shown(change.path)}': it is the last one of {what}.")
    schema = _replaced(before.schema, change.path[:-1], rest)
    if len(change.path) > 1:
        return _with(before, change, schema)
    name = change.path[0]
    origins = {now: origin for now, origin in before.origins.items() if now != name}
    casts = tuple(cast for cast in before.casts if cast.target != name)
    return Evolution(schema, (*before.steps, change), casts, origins)


def _rename(before: Evolution, change: RenameColumn) -> Evolution:
    siblings, index = _find(before.schema, change.path, "rename")
    old = siblings[index]
    if change.name == old.name:
        return before
    _check_free((*change.path[:-1], change.name), siblings, old.name)
    fields = [*siblings[:index], old.with_name(change.name), *siblings[index + 1 :]]
    schema = _replaced(before.schema, change.path[:-1], fields)
    if len(change.path) > 1:
        return _with(before, change, schema)
    origins = {change.name if name == old.name else name: origin for name, origin in before.origins.items()}
    casts = tuple(
        Widened(cast.source, change.name if cast.target == old.name else cast.target, cast.type)
        for cast in before.casts
    )
    return Evolution(schema, (*before.steps, change), casts, origins)


def _alter(before: Evolution, change: AlterColumn) -> Evolution:
    _check_position(change.path, change.position, "move")
    siblings, index = _find(before.schema, change.path, "alter")
    old = siblings[index]
    kind = _new_type(change, old)
    nullable = _new_nullable(change, old)
    comment = change.comment if change.comment is not None and change.comment != (comment_of(old) or "") else None
    default = change.default if change.default is not None and change.default != (default_of(old) or "") else None
    if default is not None and len(change.path) > 1:
        raise errors.Refused(f"'{shown(change.path)}' cannot have a default: it is inside another column.")
    step = AlterColumn(change.path, kind, nullable, comment, kept=_new_kept(change, old), default=default)
    if step == AlterColumn(change.path):
        return before
    casts = before.casts
    if kind is not None:
        origin = before.origins.get(old.name) if len(change.path) == 1 else None
        if origin is None and len(change.path) > 1:
            raise errors.Refused(
                f"Cannot change the type of '{shown(change.path)}': it is inside another column.",
                hint="Add a column of the wider type, and write the values there.",
            )
        casts = tuple(cast for cast in casts if cast.target != old.name)
        casts += () if origin is None else (Widened(origin, old.name, kind),)
    fields = [*siblings[:index], _altered(old, step), *siblings[index + 1 :]]
    schema = _replaced(before.schema, change.path[:-1], fields)
    return Evolution(schema, (*before.steps, step), casts, before.origins)


def _new_type(change: AlterColumn, old: pa.Field) -> pa.DataType | None:
    if change.type is None or change.type == old.type:
        return None
    why = why_not_widen(old.type, change.type)
    if why is None:
        return change.type
    raise errors.SchemaMismatch(
        f"Column '{shown(change.path)}' cannot become {change.type} from {old.type}: {why}.",
        hint="An int can become bigint, a float double, a decimal one with more digits. For other types add a column.",
    )


def _new_kept(change: AlterColumn, old: pa.Field) -> Kept | None:
    """What keeps the new type, if it is another; None if that stays, or nobody said."""
    if change.type is None or change.kept is None or dict(change.kept) == kept_of(old):
        return None
    why = why_not_kept(kept_of(old), change.kept)
    if why is None:
        return change.kept
    raise errors.SchemaMismatch(
        f"Column '{shown(change.path)}' cannot become {_told(change.kept, change.type)} from "
        f"{_told(kept_of(old), old.type)}: {why}.",
        hint="VARCHAR can become longer, or STRING; TIME can get more digits. Otherwise add a column.",
    )


def _told(kept: Kept, kind: pa.DataType) -> str:
    return kept.get(LENGTH_KEY) or kept.get(TYPE_KEY) or str(kind)


def _new_nullable(change: AlterColumn, old: pa.Field) -> bool | None:
    if change.nullable is None or change.nullable == old.nullable:
        return None
    if change.nullable:
        return True
    raise errors.Refused(
        f"Cannot set column '{shown(change.path)}' to NOT NULL: existing or concurrent rows may hold nulls.",
        hint="Only DROP NOT NULL is possible. Copy the table to a new one that has the column as NOT NULL.",
    )


def _altered(old: pa.Field, step: AlterColumn) -> pa.Field:
    metadata = dict(old.metadata or {})
    if step.comment is not None:
        metadata.pop(COMMENT.encode(), None)
        metadata.update({COMMENT.encode(): step.comment.encode()} if step.comment else {})
    if step.kept is not None:
        metadata = {key: value for key, value in metadata.items() if key.decode() not in KEPT}
        metadata.update({key.encode(): value.encode() for key, value in step.kept.items()})
    kind = old.type if step.type is None else step.type
    nullable = old.nullable if step.nullable is None else step.nullable
    return with_default(pa.field(old.name, kind, nullable, metadata or None), step.default)


def _with(before: Evolution, change: ColumnChange, schema: pa.Schema) -> Evolution:
    return Evolution(schema, (*before.steps, change), before.casts, before.origins)


def _check_position(path: Path, position: str | None, verb: str) -> None:
    if position is not None:
        raise errors.Refused(
            f"Cannot {verb} column '{shown(path)}' {position}: columns of a Lance dataset keep their order.",
            hint="Leave FIRST or AFTER out, and name the columns in the desired order when reading.",
        )


def _check_free(path: Path, siblings: Sequence[pa.Field], own: str | None) -> None:
    """Raise AlreadyExists if a name is taken: Spark ignores the case of names."""
    name = path[-1]
    if not is_column_name(name):
        raise errors.InvalidName(f"A Lance dataset cannot have a column '{name}'.", hint=f"{RULES}.")
    taken = [other.name for other in siblings if other.name != own and other.name.lower() == name.lower()]
    if taken:
        there = shown((*path[:-1], taken[0]))
        raise errors.AlreadyExists(
            f"Column '{there}' already exists.",
            hint=None if taken[0] == name else "Spark treats names that differ only in case as the same.",
        )


def _find(schema: pa.Schema, path: Path, verb: str) -> tuple[list[pa.Field], int]:
    """The columns on the same level as a column, and its position among them."""
    siblings = _fields(schema, path[:-1], verb)
    names = [other.name for other in siblings]
    if not path or path[-1] not in names:
        raise _unknown(path, names, verb)
    return siblings, names.index(path[-1])


def _fields(schema: pa.Schema, path: Path, verb: str) -> list[pa.Field]:
    """The columns, or the fields of the struct at a path."""
    fields = list(schema)
    for depth, name in enumerate(path):
        found = next((other for other in fields if other.name == name), None)
        here = path[: depth + 1]
        if found is None:
            raise _unknown(here, [other.name for other in fields], verb)
        if not pt.is_struct(found.type):
            raise errors.Refused(
                f"Cannot {verb} a field inside column '{shown(here)}': it is {found.type}, not a struct.",
                hint="Fields inside lists and maps cannot be changed.",
            )
        fields = [found.type.field(position) for position in range(found.type.num_fields)]
    return fields


def _replaced(schema: pa.Schema, path: Path, fields: Sequence[pa.Field]) -> pa.Schema:
    """The schema with other columns, or with other fields in the struct at a path."""
    if not path:
        return pa.schema(fields, metadata=schema.metadata)

    def within(column: pa.Field, rest: Path) -> pa.Field:
        if not rest:
            return column.with_type(pa.struct(fields))
        inner = [column.type.field(position) for position in range(column.type.num_fields)]
        return column.with_type(pa.struct([within(each, rest[1:]) if each.name == rest[0] else each for each in inner]))

    columns = [within(column, path[1:]) if column.name == path[0] else column for column in schema]
    return pa.schema(columns, metadata=schema.metadata)


def _unknown(path: Path, names: Sequence[str], verb: str) -> errors.LanceSparkError:
    if not path:
        return errors.InvalidOption(f"No column to {verb} was named.")
    folded = [name for name in names if name.lower() == path[-1].lower()]
    near = folded or difflib.get_close_matches(path[-1], names, n=3, cutoff=0.5)
    listed = ", ".join(f"'{shown((*path[:-1], name))}'" for name in near or names[:5])
    hint = f"Did you mean {listed}?" if near else f"Columns: {listed}{' and more' if len(names) > 5 else ''}."
    return errors.NotFound(f"Cannot {verb} column '{shown(path)}': there is no such column.", hint=hint)


# --- Lossless changes of a stored column's type

_FAMILIES = (pt.is_integer, pt.is_floating, pt.is_decimal)


def why_not_widen(old: pa.DataType, new: pa.DataType) -> str | None:
    """The reason why a stored column of one type cannot become the other; None if every value stays the same.

    pylance casts within whole numbers, floating-point numbers and decimals, and not from one of these to another.
    """
    if not any(family(old) and family(new) for family in _FAMILIES):
        return "only a number can be widened, and only to a wider type of its own kind"
    # Appending can check each value; altering a column must not depend on all its values fitting.
    if pt.is_signed_integer(old) and pt.is_unsigned_integer(new):
        return "values could be lost"
    if not pt.is_decimal(old) and new.bit_width < old.bit_width:
        return "values could be lost"
    return why_not(old, new)


# --- Structs whose stored fields all go
# A file stores which structs are null with the fields inside them. If a change drops the last field of a struct that a
# file has, all of its structs would read as null. So another field of it gets nulls of its own there.


def lost_structs(
    before: Sequence[Field], after: Sequence[Field], schema: pa.Schema, stored: Collection[int]
) -> tuple[Widened, ...]:
    """What a fragment must get beside its files so that its structs keep their values when columns change.

    Columns by their old and new name, each with a type of only the fields to write: structs that keep what is null, and
    inside them one field that is null. ``before`` and ``after`` are the columns with the fields inside them, parents
    first; ``schema`` has their types after the change, and ``stored`` the ids in the fragment's files. Raises Refused
    for a struct inside a list or map, or one that is also renamed.
    """
    lost = _Lost.of(before, after, stored)
    columns = zip([entry for entry in after if entry.parent_id < 0], schema, strict=True)
    return tuple(
        Widened(lost.names[entry.id], entry.name, lost.remnant(entry, column.type))
        for entry, column in columns
        if lost.within(entry)
    )


def loses_structs(before: Sequence[Field], after: Sequence[Field], stored: Collection[int]) -> list[str]:
    """Names of columns of which a fragment with these ids in its files would need more; see :func:`lost_structs`."""
    lost = _Lost.of(before, after, stored)
    return [entry.name for entry in after if entry.parent_id < 0 and lost.within(entry)]


_Children = Mapping[int, Sequence[Field]]


@dataclass(frozen=True)
class _Lost:
    names: Mapping[int, str]
    """Of the fields before, by their ids."""
    before: _Children
    after: _Children
    stored: frozenset[int]

    @classmethod
    def of(cls, before: Sequence[Field], after: Sequence[Field], stored: Collection[int]) -> _Lost:
        """From the arguments of :func:`lost_structs`."""
        names = {entry.id: entry.name for entry in before}
        return cls(names, _children(before), _children(after), frozenset(stored))

    def within(self, entry: Field) -> bool:
        """Whether the field, or one inside it, is a struct that the files no longer tell anything about."""
        inner = self.after.get(entry.id, ())
        return bool(inner) and (self._is_lost(entry.id) or any(map(self.within, inner)))

    def _is_lost(self, key: int) -> bool:
        if key not in self.names:
            return False
        then, now = (self.stored.intersection(_subtree(fields, key)) for fields in (self.before, self.after))
        return bool(then) and not now

    def remnant(self, entry: Field, kind: pa.DataType) -> pa.DataType:
        """The type with only the fields to write."""
        if not pt.is_struct(kind) or (self.names[entry.id] != entry.name and entry.parent_id >= 0):
            raise errors.Refused(
                f"The change drops the last stored field of '{entry.name}', and would make its values null.",
                hint="Rename structs, and drop fields of structs, in two calls; fields inside lists and maps stay.",
            )
        inner = list(zip(self.after[entry.id], kind, strict=True))
        fields = [column.with_type(self.remnant(child, column.type)) for child, column in inner if self.within(child)]
        return pa.struct(fields or [inner[0][1].with_nullable(True)])


def _children(fields: Sequence[Field]) -> _Children:
    children: dict[int, list[Field]] = {}
    for entry in fields:
        children.setdefault(entry.parent_id, []).append(entry)
    return children


def _subtree(children: _Children, key: int) -> list[int]:
    return [key, *(inner for child in children.get(key, ()) for inner in _subtree(children, child.id))]


def remnant_of(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with only the fields of the type: inner structs with what is null in them, all other fields null."""
    names = {child.name for child in array.type}
    fields = [
        remnant_of(array.field(child.name), child.type)
        if child.name in names and pt.is_struct(child.type) and pt.is_struct(array.type.field(child.name).type)
        else pa.nulls(len(array), child.type)
        for child in kind
    ]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
