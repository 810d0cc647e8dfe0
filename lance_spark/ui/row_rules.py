"""One row on every branch: how it is asked for, whose values differ, and which version made them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.texts import counted
from lance_spark.errors import InvalidOption
from lance_spark.format.operations import LogEntry
from lance_spark.format.schema import is_string
from lance_spark.pushdown.filters import literal
from lance_spark.ui.cell_rules import Pair, equal, pairs

MOST_ROWS = 5
"""Rows with one value of a column that are shown: the column is meant to be a key."""
_REWRITES = frozenset({"Rewrite", "CreateIndex", "UpdateConfig", "ReserveFragments", "UpdateBases"})
"""Operations that change no value of a row."""

Row = Mapping[str, Any]
Rows = tuple[Row, ...]
"""The rows of a version that have the value; none if it does not have the row."""


def askable(schema: pa.Schema) -> tuple[str, ...]:
    """The columns by which a row can be asked for."""
    return tuple(field.name for field in schema if "`" not in field.name and _is_simple(field.type))


def askable_in(schemas: Iterable[pa.Schema]) -> tuple[str, ...]:
    """The columns of any of these by which a row can be asked for, those of the first one first."""
    return tuple(dict.fromkeys(name for schema in schemas for name in askable(schema)))


def check_asked(schemas: Sequence[pa.Schema], column: str, text: str) -> None:
    """Raise InvalidOption unless one of these has the column, and the text is a value of it there."""
    refused: InvalidOption | None = None
    for schema in [schema for schema in schemas if column in askable(schema)]:
        try:
            condition(schema, column, text)
            return
        except InvalidOption as problem:
            refused = refused or problem
    raise refused or _not_askable(askable_in(schemas), column)


def _not_askable(names: Sequence[str], column: str) -> InvalidOption:
    return InvalidOption(
        f"A row cannot be looked up by column '{column}'.",
        hint=f"Choose one of {', '.join(names[:20])}." if names else "The table has no column of a simple type.",
    )


def first_choice(schema: pa.Schema, key: Sequence[str]) -> str:
    """The column that the form begins with: the table's key, one that is called so, or the first one; "" for none."""
    names = askable(schema)
    return next(iter([*(name for name in key if name in names), likely(schema), *names]), "") or next(iter(names), "")


def telling(schema: pa.Schema, key: Sequence[str]) -> str:
    """The column that tells rows apart: the table's key, or one that is called so; "" for none, or for several."""
    if key:
        return key[0] if len(key) == 1 and key[0] in askable(schema) else ""
    return likely(schema)


def likely(schema: pa.Schema) -> str:
    """A column that is called like a key: where rows cannot be matched otherwise, a page tries it; "" for none."""
    found = [name for name in askable(schema) if name.lower() in ("id", "key", "uuid")]
    return next(iter([*found, *(name for name in askable(schema) if name.lower().endswith("_id"))]), "")


def condition(schema: pa.Schema, column: str, text: str) -> str:
    """The predicate ``column = text`` in pylance's words. Raises InvalidOption for another column or type."""
    names = askable(schema)
    if column not in names:
        raise _not_askable(names, column)
    kind = schema.field(column).type
    kind = kind.value_type if pt.is_dictionary(kind) else kind
    try:
        said = literal(_value(kind, text.strip() if not is_string(kind) else text), kind)
    except (ValueError, ArithmeticError, InvalidOperation):
        said = None
    if not isinstance(said, str):
        raise InvalidOption(f"'{text[:200]}' is not a value of column '{column}', which is {kind}.")
    return f"`{column}` = {said}"


def _is_simple(kind: pa.DataType) -> bool:
    kind = kind.value_type if pt.is_dictionary(kind) else kind
    tests = (is_string, pt.is_integer, pt.is_floating, pt.is_boolean, pt.is_decimal128, pt.is_date32, pt.is_timestamp)
    return any(test(kind) for test in tests)


def _value(kind: pa.DataType, text: str) -> Any:
    """The constant in Spark's internal form, which predicates are built from."""
    if pt.is_boolean(kind):
        return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else int("no")
    if pt.is_integer(kind):
        return int(text.replace("_", "").replace(",", ""))
    if pt.is_floating(kind):
        return float(text)
    if pt.is_decimal(kind):
        return Decimal(text)
    if pt.is_date32(kind):
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if pt.is_timestamp(kind):
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        gone = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return (gone.days * 86_400 + gone.seconds) * 10**6 + gone.microseconds
    return text


# --- Which version made the row what it is


ADDED, DELETED, CHANGED, BEGAN, ENDED = "added", "deleted", "changed", "began", "ended"
"""What a version did to a row; the last two of a value, which a row has since then, or no row has any longer."""
_SAID = {
    ADDED: "added it",
    DELETED: "deleted it",
    CHANGED: "changed it",
    BEGAN: "set a row to this value",
    ENDED: "took this value from a row",
}


def what_happened(entry: LogEntry, before: Rows, after: Rows, is_key: bool) -> str:
    """What a version did to the rows with a value of a column, which is the key or any other one.

    A row that is found by another column than its key may have been there before, with another value: only an append
    surely added it, and only a deletion surely deleted it.
    """
    if before and after:
        return CHANGED
    if not before:
        return ADDED if is_key or entry.operation == "Append" or not entry.parents else BEGAN
    return DELETED if is_key or entry.operation == "Delete" else ENDED


@dataclass(frozen=True)
class RowMaker:
    """A version that gave a row the values it has."""

    entry: LogEntry
    kind: str = CHANGED
    """``added``, ``deleted``, ``changed``, ``began`` or ``ended``."""

    @property
    def said(self) -> str:
        return _SAID[self.kind]


def may_change_rows(entry: LogEntry) -> bool:
    """Whether a version can have changed a row, by what the log tells of it."""
    if entry.operation in _REWRITES:
        return False
    stat = entry.stat
    if stat is None or stat.rows_added is None:
        return True
    return bool(stat.rows_added or stat.rows_removed or stat.files_added or stat.files_removed)


def same_rows(one: Rows, other: Rows) -> bool:
    """Whether two versions have the same rows, in any order. A column that only one of them has counts if not null."""
    if len(one) != len(other):
        return False
    return all(_same(a, b) for a, b in zip(_sorted(one), _sorted(other), strict=True))


def _same(one: Row, other: Row) -> bool:
    return all(equal(one.get(name), other.get(name)) for name in {**one, **other})


def _sorted(rows: Rows) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items(), key=lambda item: item[0])))


# --- What the page shows


@dataclass(frozen=True)
class RowOnBranch:
    branch: str
    tip: PinnedVersion
    state: str
    """``same``, ``changed``, ``added``, ``gone``: compared with main; ``here`` for main itself, ``absent`` if it has no
    such row, either; ``unknown`` if the branch could not be read."""
    own: bool = False
    """Whether a version of this branch itself made the row what it is; otherwise it is as the branch began with it."""
    fork: PinnedVersion | None = None
    """The version that the branch was made from."""
    change: RowMaker | None = None
    """The version of this branch that made it so; None if there is none, or it is further back than was looked."""
    rows: tuple[tuple[Pair, ...], ...] = ()
    problem: str = ""
    """Why it could not be read."""
    is_key: bool = True
    """Whether the row was asked for by its key: otherwise, a branch without the value may have the row."""

    @property
    def differs(self) -> bool:
        return self.state in ("changed", "added", "gone")

    @property
    def said(self) -> str:
        differing = sum(pair.changed for pair in self.rows[0]) if self.rows else 0
        cells = f"{counted(differing, 'cell')} differ{'s' if differing == 1 else ''} from {MAIN}"
        value = "" if self.is_key else "this value "
        return {
            "here": "has the row",
            "absent": "has no such row",
            "same": f"the same as on {MAIN}",
            "changed": cells if differing else f"other rows than on {MAIN}",
            "added": f"{value}not on {MAIN}",
            "gone": f"{value}not here, but on {MAIN}",
            "unknown": "could not be read",
        }[self.state]

    @property
    def why(self) -> str:
        """Who made it so, in words, if no version of this branch did."""
        if self.own or self.state in ("absent", "unknown"):
            return ""
        if self.fork is None:
            return "not changed in the versions that were looked at"
        return f"not changed here since the branch was made from {self.fork}"


@dataclass(frozen=True)
class RowPage:
    """A row on all branches, the ones that differ from main first."""

    column: str
    value: str
    names: tuple[str, ...]
    """The columns, in the order of the cells."""
    branches: tuple[RowOnBranch, ...]
    askable: tuple[str, ...] = ()
    """Columns by which another row can be looked up."""
    more_branches: int = 0
    """How many branches were not looked at."""
    more_rows: bool = False
    """Whether a version has more rows with the value than are shown."""
    asked: tuple[str, str] | None = None
    """The column and value that were asked for, if they led to the one row that is shown by its key."""
    key: str = ""
    """The column that tells rows apart, if ``column`` is another one; "" if it is that, or there is none."""
    candidates: tuple[str, ...] = ()
    """Values of ``key`` in the rows that have the value: each is a row of its own."""

    @property
    def is_key(self) -> bool:
        """Whether the row is asked for by what tells rows apart."""
        return all(branch.is_key for branch in self.branches)

    @property
    def changed_by(self) -> tuple[RowOnBranch, ...]:
        """The branches that changed it themselves, without main."""
        return tuple(branch for branch in self.branches if branch.own and branch.branch != MAIN)

    @property
    def on_main(self) -> RowMaker | None:
        """The version that made it what it is on main."""
        return next((branch.change for branch in self.branches if branch.branch == MAIN), None)

    @property
    def unsigned(self) -> bool:
        """Whether a version that is named does not say who made it."""
        makers = [self.on_main, *(branch.change for branch in self.changed_by)]
        return any(maker is not None and not maker.entry.author for maker in makers)

    @property
    def found(self) -> bool:
        """Whether any branch has, or had, the row."""
        return any(branch.state not in ("absent", "unknown") for branch in self.branches)

    @property
    def answer(self) -> str:
        if not self.found:
            return f"No branch has a row with {self.column} = {self.value}."
        names = [branch.branch for branch in self.changed_by]
        if not names:
            return "No branch changed this row." if self.is_key else "No branch changed rows with this value."
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        what = "this row" if self.is_key else "rows with this value"
        return f"{'Branch' if len(names) == 1 else 'Branches'} {listed} changed {what}."


def state_of(mine: Rows, main: Rows) -> str:
    """How the rows of a branch compare with main's."""
    if not mine and not main:
        return "absent"
    if not main:
        return "added"
    if not mine:
        return "gone"
    return "same" if same_rows(mine, main) else "changed"


def shown_rows(mine: Rows, main: Rows, names: Sequence[str]) -> tuple[tuple[Pair, ...], ...]:
    """The rows of a branch with what differs from main's marked; those of main if the branch deleted them."""
    if len(mine) == 1 and len(main) == 1:
        return (pairs(main[0], mine[0], names),)
    return tuple(pairs(None, row, names) for row in mine or main)


def column_order(rows: Iterable[Row], column: str, first: Iterable[str] = ()) -> tuple[str, ...]:
    """The columns of all rows: the one asked for, then those in ``first``, then the others."""
    return tuple(dict.fromkeys([column, *first, *(name for row in rows for name in row)]))
