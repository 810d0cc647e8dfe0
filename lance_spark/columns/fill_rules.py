"""Columns with values, as values: estimates, options and results of a fill, types, and keys of finished files. Pure.

Arguments and schemas come in. The keys identify files that a resumed call can use again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from types import CodeType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.options import is_frame, names_of
from lance_spark.core.progress import WorkProgress, check_progress
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import ShownInOneLine
from lance_spark.core.texts import counted, meant, quoted_name, readable
from lance_spark.errors import InvalidOption, Refused, SchemaMismatch
from lance_spark.format.blob_references import is_reference
from lance_spark.format.blobs import BLOB_KEY, holds_blobs
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.evolution import COMMENT, Evolution
from lance_spark.format.kept_types import kept_of
from lance_spark.format.schema import unknown_column, why_not
from lance_spark.format.versions import write_computed

SQL, FUNCTION, FRAME = "a dict of SQL", "a function", "a DataFrame"
"""What values come from. Each has verbs of its own."""
_ENDINGS = {SQL: "", FUNCTION: "_with", FRAME: "_from"}
_ARGUMENTS = {
    SQL: '({"speed": "distance / air_time"})',
    FUNCTION: '(function, schema="emb array<float>")',
    FRAME: '(df, on="flight_id")',
}
_OF_ONE_KIND = {"schema": FUNCTION, "columns": FUNCTION, "batch_size": FUNCTION, "on": FRAME}


@dataclass(frozen=True)
class Asked:
    """The arguments of one of the verbs that define values. Raises InvalidOption for values of another kind."""

    kind: str
    """SQL, FUNCTION or FRAME."""
    values: Any
    """A dict of SQL, a function or its class, or a DataFrame."""
    on: str | Sequence[str] | None = None
    schema: Any = None
    """DDL, a StructType or an Arrow schema; for an update also a list of columns."""
    columns: str | Sequence[str] | None = None
    vector: Mapping[str, int] | None = None
    existing: bool = False
    where: str | None = None
    """Which rows get values, in SQL; the others keep theirs. None for all."""
    blobs: str | Sequence[str] = ()
    """New columns whose values are URIs of objects elsewhere, to which their blobs refer."""

    def __post_init__(self) -> None:
        given = _kind_of(self.values)
        if given == self.kind:
            return
        kind, package = type(self.values).__name__, type(self.values).__module__.partition(".")[0]
        use = f"Use {self.call_of(given or self.kind)}."
        if given is None and hasattr(self.values, "columns"):
            given = f"a {kind} of {package}"
            use = f"Use df = spark.createDataFrame(...), then {self.call_of(FRAME)}."
        raise InvalidOption(f"{self.verb} takes {self.kind}, not {given or f'a value of type {kind}'}.", hint=use)

    @property
    def verb(self) -> str:
        """The name of the verb, such as ``add_columns_with``."""
        return self._verb_of(self.kind)

    def call_of(self, kind: str) -> str:
        """A call of the verb for another kind of values."""
        return f"t.{self._verb_of(kind)}{_ARGUMENTS[kind]}"

    def _verb_of(self, kind: str) -> str:
        return ("update_columns" if self.existing else "add_columns") + _ENDINGS[kind]


def _kind_of(values: Any) -> str | None:
    if isinstance(values, Mapping):
        return SQL
    if is_frame(values):
        return FRAME
    return FUNCTION if callable(values) else None


def set_where(values: dict[str, str], where: str | None) -> dict[str, str]:
    """SQL that gives every row a value: rows for which the condition is not true keep theirs."""
    if where is None:
        return dict(values)
    return {name: f"CASE WHEN ({where}) THEN ({text}) ELSE {quoted_name(name)} END" for name, text in values.items()}


def without_values(plan: Evolution) -> dict[str, str]:
    """Says about columns that have one value everywhere, null or a default, that they were computed from nothing."""
    return write_computed({step.path[0]: () for step in plan.steps}) if plan.adds_constants else {}


# --- Files, progress and result of a backfill

FILLED = pa.schema(
    [("fragment", pa.int64()), ("file", pa.string()), ("ids", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())]
)
"""Rows of FilledFile, as tasks return them."""
_TEMPORARY = "__fill_{}"
"""Name prefix of columns in a file that is not committed yet: no table has a column of that name."""


class FilledFile(NamedTuple):
    """A data file with all rows of the new columns of one fragment. It is invisible until the commit."""

    fragment: int
    file: str
    """As pylance's JSON, with field ids of its own."""
    ids: str
    """JSON: its ids for each column, the column's first, then those of the fields inside, depth first."""
    rows: int
    """Physical rows, including deleted ones."""
    bytes: int


class RecordPlace(NamedTuple):
    """Where tasks record finished files, so that repeating the same call does not compute them again."""

    call: str
    keys: Mapping[int, str]
    """The name of each fragment's record."""


class FillOrder(NamedTuple):
    records: RecordPlace | None = None
    keep: bool = False
    """Whether existing values stay, and only nulls get new ones."""


class ComputedColumns(Protocol):
    @property
    def schema(self) -> pa.Schema:
        """The columns, as they are stored."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """The table's columns that they are computed from."""
        ...

    @property
    def reads(self) -> tuple[str, ...] | None:
        """All columns of the table that the values depend on; None if that is unknown."""
        ...

    @property
    def identity(self) -> str | None:
        """Distinguishes this computation from others; None if nothing can."""
        ...

    @property
    def at_once(self) -> bool:
        """Whether one job computes all fragments: a join should not run again and again."""
        ...

    @property
    def parallelism(self) -> int: ...

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        """Files for fragments of a version, one each, checked to hold all rows."""
        ...


@dataclass(frozen=True)
class BackfillProgress(WorkProgress):
    rows: int = 0
    bytes: int = 0
    columns: tuple[str, ...] = ()

    @property
    def fragments(self) -> int:
        return self.total

    def __str__(self) -> str:
        return (
            f"{self.stage}: {self.done:,} of {counted(self.fragments, 'fragment')}, "
            f"{counted(self.rows, 'row')}, {readable(self.bytes)}"
        )


@dataclass(frozen=True, repr=False)
class BackfillResult(ShownInOneLine):
    """The result of a backfill; prints as one line."""

    version: PinnedVersion
    """The new version; the newest one if there was nothing to do."""
    columns: tuple[str, ...]
    fragments: int
    """How many fragments got values."""
    resumed: int
    """How many of these an earlier call had computed."""
    rows: int
    """Physical rows of these fragments."""
    bytes: int
    """Size of the new files."""

    def __str__(self) -> str:
        again = f" ({self.resumed} computed before)" if self.resumed else ""
        return (
            f"{', '.join(self.columns)} of {self.version.branch or MAIN}@{self.version.version}: "
            f"{counted(self.fragments, 'fragment')}{again}, {counted(self.rows, 'row')}, {readable(self.bytes)}"
        )

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("columns", ", ".join(self.columns)),
            ("fragments", f"{self.fragments:,}"),
            ("computed before", f"{self.resumed:,}" if self.resumed else ""),
            ("rows", f"{self.rows:,}"),
            ("written", readable(self.bytes)),
        )


def temporary(column: int) -> str:
    """A column's name in its file, by its place."""
    return _TEMPORARY.format(column)


def temporary_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as files have them: any value may be null; metadata belongs to the table's column."""
    return pa.schema([pa.field(temporary(place), field.type) for place, field in enumerate(schema)])


# --- The options of the verbs that compute values

FILL, NULL = "fill", "null"


@dataclass(frozen=True)
class BackfillOptions:
    incremental: bool = False
    """Whether the column is added first, null everywhere, and its values follow group by group."""
    new_rows: str = FILL
    """Fragments that others append while values are computed: "fill" them, or leave them "null"."""
    resume: bool | str = True
    """Whether files that an earlier, killed call of the same kind finished are used. A text must also match: the
    version of a model, or a name for a DataFrame's rows, which cannot be compared otherwise."""
    batch_size: int | None = None
    """How many rows a function gets at once."""
    progress: Callable[[BackfillProgress], object] | None = None
    """Called with the progress each time a group of fragments is finished."""
    message: str | None = None

    @property
    def tag(self) -> str:
        """The text given as ``resume``; empty for none."""
        return self.resume if isinstance(self.resume, str) else ""


def parse_backfill_options(given: Mapping[str, Any], asked: Asked) -> BackfillOptions:
    """The options from keyword arguments. Raises InvalidOption for an unknown name or an invalid value."""
    lacking = {"incremental"} if asked.existing else set()
    lacking |= {name for name, kind in _OF_ONE_KIND.items() if kind != asked.kind}
    known = [field.name for field in fields(BackfillOptions) if field.name not in lacking]
    for name in given:
        if name in _OF_ONE_KIND and name in lacking:
            use = f"Leave it out, or use {asked.call_of(_OF_ONE_KIND[name])}."
            raise InvalidOption(f"{asked.verb} has no {name}=, because it takes {asked.kind}.", hint=use)
        if name not in known:
            raise InvalidOption(f"There is no option '{name}' here.", hint=meant(name, known))
    options = BackfillOptions(**given)
    if options.new_rows not in (FILL, NULL):
        raise InvalidOption(f"new_rows must be '{FILL}' or '{NULL}', not {options.new_rows!r}.")
    if options.batch_size is not None and options.batch_size < 1:
        raise InvalidOption(f"batch_size must be a number of rows, at least 1, not {options.batch_size!r}.")
    if not isinstance(options.resume, bool | str):
        raise InvalidOption(f"resume must be True, False or a text, not {options.resume!r}.")
    check_progress(options.progress)
    return options


# --- The columns of a backfill: from typed to stored

_WORD = re.compile(r"`(?:[^`]|``)*`|\w+")
_EVERY = re.compile(r"[(,.]\s*\*")
"""``struct(*)``, ``hash(a, *)`` or ``t.*``: in a product, something precedes the star."""


def new_columns(
    schema: pa.Schema, vector: Mapping[str, int] | None, blobs: str | Sequence[str] = (), incremental: bool = False
) -> pa.Schema:
    """The new columns as they are stored: any value may be null, and arrays named in ``vector`` have that length.

    One named in ``blobs``, or marked as blobs, has references and keeps its type and the mark. Raises InvalidOption for
    a vector that is not an array of numbers, SchemaMismatch for a column without a type, Refused for bytes of blobs.
    """
    for name in names_of(blobs):
        if schema.get_field_index(name) < 0:
            raise InvalidOption(f"blobs names '{name}', which is not one of the new columns.")
        at = schema.get_field_index(name)
        schema = schema.set(at, schema.field(at).with_metadata({**(schema.field(at).metadata or {}), BLOB_KEY: "true"}))
    if any(map(is_reference, schema)) and (len(schema) > 1 or incremental):
        raise Refused(
            "A column of blobs by reference is added alone, and in one version. Nothing was changed.",
            hint="Add other columns by a call of their own, and leave incremental out.",
        )
    for name in vector or {}:
        if schema.get_field_index(name) < 0:
            raise InvalidOption(f"vector names '{name}', which is not one of the new columns.")
    if not schema.names:
        raise InvalidOption("No column was named.", hint='For example add_columns({"gain": "dep_delay - arr_delay"}).')
    return pa.schema([_stored(field, (vector or {}).get(field.name)) for field in schema])


def existing_columns(table: pa.Schema, given: pa.Schema) -> pa.Schema:
    """The table's columns of these names, as they are stored.

    Raises NotFound for a missing column, SchemaMismatch for values whose conversion could lose something.
    """
    found = []
    for field in given:
        at = table.get_field_index(field.name)
        if at < 0:
            raise unknown_column(field.name, table.names)
        stored = table.field(at)
        if holds_blobs(stored):
            raise Refused(
                f"Column '{field.name}' holds blobs and cannot be updated as a whole column. Nothing was changed.",
                hint="Append or overwrite rows, with bytes or with URIs; updates and merges take bytes.",
            )
        reason = why_not(field.type, stored.type)
        if reason:
            raise SchemaMismatch(
                f"The new values of column '{field.name}' are {field.type}, but the column is {stored.type}: {reason}.",
                hint=f"Cast them, or give the column a wider type: alter_columns({{'{field.name}': ...}}).",
            )
        found.append(stored)
    return pa.schema(found)


def check_read(table: pa.Schema, columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that a function reads; all but blobs if none are named. Raises NotFound."""
    if columns is None:
        return tuple(field.name for field in table if not holds_blobs(field))
    names = names_of(columns)
    for name in names:
        if table.get_field_index(name) < 0:
            raise unknown_column(name, table.names)
    return names


def columns_in(expressions: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns that SQL expressions may read: those whose names occur in them, or all if there is a ``*``.

    Never too few: a column cannot be read without its name. A word inside a string may name one too many.
    """
    text = " ".join(expressions)
    if _EVERY.search(text):
        return tuple(names)
    words = {(word[1:-1].replace("``", "`") if word[0] == "`" else word).lower() for word in _WORD.findall(text)}
    return tuple(name for name in names if name.lower() in words)


def _stored(field: pa.Field, length: int | None) -> pa.Field:
    kind = field.type
    if is_reference(field):
        return pa.field(field.name, kind, metadata={BLOB_KEY: "true"})
    if holds_blobs(field):
        raise Refused(
            f"Column '{field.name}' would hold bytes of blobs, which are written with whole rows. Nothing was changed.",
            hint="Write the rows with this column, marked as a blob, to another table, or overwrite this one, in "
            "data_storage_version 2.2. A column of URIs of objects elsewhere can be added: blobs='...'.",
        )
    if pt.is_null(kind):
        raise SchemaMismatch(f"Column '{field.name}' has no type.", hint="Cast it: CAST(NULL AS double).")
    if length is not None:
        if not (pt.is_list(kind) and length > 0):
            raise InvalidOption(f"'{field.name}' is {kind}: it cannot be a vector of {length!r} elements.")
        kind = pa.list_(kind.value_field, length)
    comment = (field.metadata or {}).get(COMMENT.encode())
    return pa.field(field.name, kind, metadata={**kept_of(field), **({COMMENT: comment} if comment else {})} or None)


# --- Keys of computations and of states of fragments


def call_key(identity: str, schema: pa.Schema, tag: str) -> str:
    """Names all records of one call: the computation, its columns and their types."""
    columns = [(field.name, str(field.type)) for field in schema]
    return _digest([identity, columns, tag])


def fragment_key(fragment: Fragment, inputs: Collection[int]) -> str:
    """Names the record of a fragment: its rows, the deleted ones, and the files of the fields that are read.

    A deleted row has no value in the file. So a fragment with other deletions gets another key.
    """
    return _digest([fragment.id, fragment.physical_rows, _sources(fragment, inputs), fragment.deletion])


def same_sources(before: Fragment, now: Fragment, inputs: Collection[int]) -> bool:
    """Whether a fragment still has the rows, including deleted ones, and the values that were read."""
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
    """The identity of a function: its name, its own code and the plain values it uses.

    Functions that it calls in other modules, and a model that it loads, are not covered.
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
    except ValueError:  # a name that is assigned later
        return False


def _code(code: CodeType) -> list[Any]:
    """Code without its location: no file, no line numbers."""
    constants = [_code(each) if isinstance(each, CodeType) else _plain(each) for each in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names), list(code.co_varnames)]


def _plain(value: Any) -> Any:
    """A value as text that is the same in every process; only the type if there is no such text."""
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
