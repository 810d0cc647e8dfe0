"""A table in memory, the changes that a side may make to it, and what a three-way merge of two of them must give. Pure.

Rows and columns are known by identities of their own, which no change takes from them: a row keeps its identity when
its key changes, and a column when it is renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Value = int | None
Cells = Mapping[str, Value]


class Clash(Exception):
    """Both sides changed one thing."""


class Inapplicable(Exception):
    """A change has nothing to work on: its column is gone, or its name taken."""


@dataclass(frozen=True)
class Column:
    """A column, or a field inside one."""

    path: str
    type: str = "int64"
    nullable: bool = True
    comment: str = ""
    key: bool = False
    reads: str = ""
    """The column that its values were computed from; the merge does not compare it."""


@dataclass(frozen=True)
class State:
    """A version of the table."""

    columns: Mapping[str, Column]
    rows: Mapping[object, Cells]
    settings: Mapping[str, str] = field(default_factory=dict)
    replaced: str = ""
    """Which overwrite made it."""
    filled: frozenset[str] = frozenset()
    """Columns whose values were written for all rows: that another side deleted some of them is no clash."""
    by_key: bool = False
    """Whether only keys tell which rows are the same: a row that is deleted and written again is an updated one."""

    def plain(self) -> list[dict[str, Value]]:
        """The rows as a reader sees them, in some order."""
        return [{column.path: row.get(key) for key, column in self.columns.items()} for row in self.rows.values()]

    def of(self, key: str) -> Column:
        """A column by its identity."""
        if key not in self.columns:
            raise Inapplicable(key)
        return self.columns[key]

    def cells(self, rows: Mapping[object, Cells]) -> State:
        """With other rows, or other values in them."""
        return replace(self, rows={**self.rows, **rows})

    def known_as(self, row: object, other: object) -> State:
        """With another identity of a row."""
        return replace(self, rows={other if key == row else key: cells for key, cells in self.rows.items()})

    def without(self, rows: set[object]) -> State:
        return replace(self, rows={key: row for key, row in self.rows.items() if key not in rows})

    def column(self, key: str, column: Column | None) -> State:
        """With another column under that identity; without one if None."""
        columns = {**self.columns, key: column} if column else {k: v for k, v in self.columns.items() if k != key}
        if len({each.path for each in columns.values()}) < len(columns):
            raise Inapplicable("a name is taken")
        rows = self.rows if column else {k: {c: v for c, v in r.items() if c != key} for k, r in self.rows.items()}
        return replace(self, columns=columns, rows=rows)


FIRST, SECOND = (1, 2, 3, 4), (11, 12, 13, 14)
"""The rows of the two fragments that the table begins with."""
PLAIN = ("id", "v", "w", "r", "q", "s.x", "s.y", "s.k")


def row_of(number: int, **others: Value) -> dict[str, Value]:
    """A row; values of ``v`` fall where numbers rise, so that sorting by it moves every row."""
    cells = {"id": number, "v": 1000 - 10 * number, "w": 100 * number, "r": number + 5000, "q": number + 6000}
    return {**cells, "s.x": number, "s.y": -number, "s.k": 7, **others}


BEGUN: dict[object, Cells] = {number: row_of(number) for number in (*FIRST, *SECOND)}


def begun(keyed: bool, by_key: bool = False) -> State:
    """What both sides begin with."""
    columns = {name: Column(name, nullable=name not in ("id", "r", "q")) for name in PLAIN}
    columns["id"] = replace(columns["id"], key=keyed)
    return State(columns, {**BEGUN}, by_key=by_key)


# --- What a side does


class Spec(NamedTuple):
    """One change: what kind, to which rows and columns, and which side's values it writes."""

    kind: str
    rows: int = 0
    """0, or 1 for other rows."""
    column: int = 0
    """0, or 1 for other columns."""
    side: str = "theirs"
    step: int = 0
    """Tells two changes of a side apart that are alike."""

    def __str__(self) -> str:
        others = [word for word, on in (("other rows", self.rows), ("other column", self.column)) if on]
        return ", ".join([self.kind, *others, *(["alike"] if self.side == "alike" else [])])

    @property
    def number(self) -> int:
        """Differs between the sides, unless both do the same."""
        return 2 if self.side == "ours" else 1

    @property
    def touched(self) -> tuple[int, int]:
        """Two rows, one in each fragment."""
        return ((1, 11), (2, 12))[self.rows]

    @property
    def new(self) -> int:
        """The key of a new row: the same on both sides, or one of each side."""
        return (100, 200 + self.number)[self.rows]

    @property
    def identity(self) -> object:
        """Of a new row: two writes of one key are two rows."""
        return self.kind, self.new, self.side, self.step

    def name(self, first: str, second: str) -> str:
        """One of two columns."""
        return (first, second)[self.column]


Step = Callable[[State, Spec], State]


def _append(state: State, spec: Spec) -> State:
    """A row with a NULL in the column, or, elsewhere, one without."""
    row = row_of(spec.new, **{"v": spec.number, **({} if spec.rows else {spec.name("v", "w"): None})})
    return _new(state, spec, row)


def _new(state: State, spec: Spec, row: dict[str, Value]) -> State:
    cells = {key: row.get(key) for key in state.columns}
    if any(cells[key] is None and not column.nullable for key, column in state.columns.items()):
        raise Inapplicable("NOT NULL")
    keys = {of["id"] for of in state.rows.values()}
    if state.columns["id"].key and cells["id"] in keys:
        raise Inapplicable("the key is there")
    return state.cells({spec.identity: cells})


def _delete(state: State, spec: Spec) -> State:
    if not set(spec.touched) & state.rows.keys():
        raise Inapplicable("no rows")
    return state.without({*spec.touched})


def _update(state: State, spec: Spec) -> State:
    key = spec.name("v", "w")
    state.of(key)
    found = [row for row in spec.touched if row in state.rows]
    if not found:
        raise Inapplicable("no rows")
    return state.cells({row: {**state.rows[row], key: 70 + spec.number} for row in found})


def _upsert(state: State, spec: Spec) -> State:
    """All columns of a row, and a new row."""
    first = spec.touched[0]
    if first not in state.rows or spec.new in {row["id"] for row in state.rows.values()}:
        raise Inapplicable("no row to change, or none to insert")
    state = _new(state, spec, row_of(spec.new, v=spec.number))
    return state.cells({first: {**state.rows[first], "v": 80 + spec.number}})


def _part(state: State, spec: Spec) -> State:
    """The rows of a part go, and others come."""
    found = _new(_delete(state, spec), spec, row_of(spec.touched[0], v=spec.number))
    return found.known_as(spec.identity, spec.touched[0]) if state.by_key else found


def _overwrite(state: State, spec: Spec) -> State:
    return replace(
        _new(replace(state, rows={}), spec, row_of(spec.new, v=spec.number)), replaced=f"{spec.side} {spec.step}"
    )


def _add(values: Callable[[Cells, Spec], Value], reads: bool = False, nullable: bool = True) -> Step:
    def add(state: State, spec: Spec) -> State:
        key, source = spec.name("+c", "+d"), spec.name("v", "w")
        if key in state.columns or (reads and source not in state.columns):
            raise Inapplicable(key)
        kind = state.columns[source].type if reads else "int64"
        added = Column(key[1:], kind, nullable=nullable, reads=source if reads else "")
        if values is not _nothing:
            state = replace(state, filled=state.filled | {key})
        return state.column(key, added).cells({n: {**row, key: values(row, spec)} for n, row in state.rows.items()})

    return add


def _nothing(_: Cells, __: Spec) -> Value:
    return None


def _plus(row: Cells, spec: Spec) -> Value:
    value = row[spec.name("v", "w")]
    return None if value is None else value + 1


def _fill(state: State, spec: Spec) -> State:
    key = spec.name("v", "w")
    state.of(key)
    state = replace(state, filled=state.filled | {key})
    return state.cells({n: {**row, key: (row["id"] or 0) + 7000 * spec.number} for n, row in state.rows.items()})


def _drop(first: str, second: str) -> Step:
    def drop(state: State, spec: Spec) -> State:
        state.of(spec.name(first, second))
        return state.column(spec.name(first, second), None)

    return drop


def _alter(first: str, second: str, to: Callable[[Column, Spec], Column]) -> Step:
    def alter(state: State, spec: Spec) -> State:
        key = spec.name(first, second)
        column = to(state.of(key), spec)
        if column == state.columns[key]:
            raise Inapplicable("so already")
        if not column.nullable and any(row.get(key) is None for row in state.rows.values()):
            raise Inapplicable("NULL")
        keys = [row["id"] for row in state.rows.values()]
        if column.key and len({*keys}) < len(keys):
            raise Inapplicable("not unique")
        return state.column(key, column)

    return alter


def _rename(column: Column, spec: Spec) -> Column:
    return replace(column, path=f"{column.path}_{spec.number}")


def _cast(column: Column, _: Spec) -> Column:
    """pylance leaves the comment behind."""
    return replace(column, type="int32", comment="")


def _nested(state: State, spec: Spec) -> State:
    key = spec.name("+s.z", "+s.zz")
    if key in state.columns:
        raise Inapplicable(key)
    return state.column(key, Column(key[1:])).cells({n: {**row, key: None} for n, row in state.rows.items()})


def _setting(state: State, spec: Spec) -> State:
    return replace(state, settings={**state.settings, spec.name("one", "two"): str(spec.number)})


def _same(state: State, spec: Spec) -> State:
    return state


def _index(state: State, spec: Spec) -> State:
    state.of(spec.name("v", "w"))
    return state


@dataclass(frozen=True)
class Kind:
    """What a change does, and whether it can be made to other rows or other columns."""

    step: Step
    rows: bool = False
    columns: bool = False
    before: Step | None = None
    """A commit before it."""


KINDS: dict[str, Kind] = {
    "nothing": Kind(_same),
    "append": Kind(_append, rows=True, columns=True),
    "delete": Kind(_delete, rows=True),
    "update": Kind(_update, rows=True, columns=True),
    "update in place": Kind(_update, rows=True, columns=True),
    "upsert": Kind(_upsert, rows=True),
    "overwrite a part": Kind(_part, rows=True),
    "overwrite": Kind(_overwrite, rows=True),
    "add empty": Kind(_add(_nothing), columns=True),
    "add constant": Kind(_add(lambda _, spec: spec.number), columns=True),
    "add computed": Kind(_add(_plus, reads=True), columns=True),
    "add NOT NULL": Kind(_add(lambda _, spec: spec.number, nullable=False), columns=True),
    "fill": Kind(_fill, columns=True),
    "drop": Kind(_drop("v", "w"), columns=True),
    "rename": Kind(_alter("v", "w", _rename), columns=True),
    "cast": Kind(_alter("v", "w", _cast), columns=True),
    "set NOT NULL": Kind(_alter("v", "w", lambda column, _: replace(column, nullable=False)), columns=True),
    "allow NULL": Kind(_alter("r", "q", lambda column, _: replace(column, nullable=True)), columns=True),
    "comment": Kind(_alter("v", "w", lambda column, spec: replace(column, comment=f"{spec.number}")), columns=True),
    "declare a key": Kind(_alter("id", "id", lambda column, _: replace(column, key=True))),
    "add a field": Kind(_nested, columns=True),
    "drop a field": Kind(_drop("s.x", "s.y"), columns=True),
    "rename a field": Kind(_alter("s.x", "s.y", _rename), columns=True),
    "index": Kind(_index, columns=True),
    "compact": Kind(_same),
    "sort": Kind(_index, columns=True),
    "restore": Kind(_same, before=_delete),
    "configure": Kind(_setting, columns=True),
}


def history(state: State, spec: Spec) -> list[State]:
    """The versions that a change makes, the one before it first. Raises Inapplicable."""
    kind = KINDS[spec.kind]
    between = [state] if kind.before is None else [state, kind.before(state, spec)]
    return [*between, kind.step(state, spec)]


def meetings(theirs: str, ours: str) -> Iterator[tuple[Spec, Spec]]:
    """Every way in which two kinds of changes may meet: the same rows and columns, others, or the very same change."""
    both = KINDS[theirs], KINDS[ours]
    for rows in range(1 + all(kind.rows for kind in both)):
        for column in range(1 + all(kind.columns for kind in both)):
            yield Spec(theirs), Spec(ours, rows, column, "ours")
    if theirs == ours:
        yield Spec(theirs), Spec(ours, side="alike")


# --- What a merge of two versions must give


def merged(base: State, ours: State, theirs: State, prefer: str = "") -> State:
    """Ours with what theirs changed, cell by cell; ``prefer`` is the side that wins rows and cells. Raises Clash."""
    _check_replaced(base, ours, theirs)
    columns = {}
    for key in [*base.columns, *ours.columns, *theirs.columns]:
        column = _column(base, ours, theirs, key)
        if column is not None:
            columns[key] = column
    if len({column.path for column in columns.values()}) < len(columns):
        raise Clash("two columns of one name")
    rows: dict[object, Cells] = {}
    for number in {**base.rows, **ours.rows, **theirs.rows}:
        row = _row(columns, (base, ours, theirs), number, prefer)
        if row is not None:
            rows[number] = row
    if prefer:
        rows = _one_of_each_key(columns, rows, base, theirs if prefer == "theirs" else ours)
    result = State(columns, rows, ours.settings, ours.replaced or theirs.replaced, by_key=ours.by_key)
    _check_rows(result)
    return result


def _one_of_each_key(
    columns: Mapping[str, Column], rows: dict[object, Cells], base: State, preferred: State
) -> dict[object, Cells]:
    """Of new rows with one key, those of the preferred side."""
    keys = [key for key, column in columns.items() if column.key]
    if not keys:
        return rows
    wins = {tuple(rows[n].get(key) for key in keys) for n in rows if n in preferred.rows}
    return {
        n: row
        for n, row in rows.items()
        if n in preferred.rows or n in base.rows or tuple(row.get(key) for key in keys) not in wins
    }


def _check_replaced(base: State, ours: State, theirs: State) -> None:
    for side, other in ((ours, theirs), (theirs, ours)):
        if side.replaced != base.replaced and (other.rows, other.columns, other.replaced) != (
            base.rows,
            base.columns,
            base.replaced,
        ):
            raise Clash("one side replaced the whole table")


def check_back(base: State, ours: State, theirs: State) -> None:
    """Raise Clash for rows that come back although ours wrote a column while they were deleted."""
    if (theirs.rows.keys() - base.rows.keys()) & {*FIRST, *SECOND} and ours.filled - base.filled:
        raise Clash("rows come back without values")


def _check_rows(state: State) -> None:
    for key, column in state.columns.items():
        values = [row.get(key) for row in state.rows.values()]
        if not column.nullable and None in values:
            raise Clash(f"NULL in {column.path}")
        if column.key and len({*values}) < len(values):
            raise Clash("two rows of one key")


def _column(base: State, ours: State, theirs: State, key: str) -> Column | None:
    before, mine, other = (side.columns.get(key) for side in (base, ours, theirs))
    if before is None:
        if mine is None or other is None:
            return mine or other
        if replace(mine, reads="") != replace(other, reads=""):
            raise Clash("a column was added in two ways")
        return mine
    if mine is None or other is None:
        for there, side in ((mine, ours), (other, theirs)):
            if there is not None and (there != before or _has_written(base, side, key)):
                raise Clash("a column was dropped and changed")
        return None
    parts = {
        name: _either(getattr(before, name), getattr(mine, name), getattr(other, name))
        for name in ("path", "type", "nullable", "comment", "key")
    }
    return Column(**parts, reads=mine.reads)


def _has_written(base: State, side: State, key: str) -> bool:
    return any(side.rows[row].get(key) != base.rows[row].get(key) for row in side.rows.keys() & base.rows.keys())


def _row(
    columns: Mapping[str, Column], sides: tuple[State, State, State], key: object, prefer: str = ""
) -> Cells | None:
    base, ours, theirs = (side.rows.get(key) for side in sides)
    if base is None and ours is not None and theirs is not None:
        base = (
            BEGUN.get(key) if isinstance(key, int) else None
        )  # a pick of what brought a row back: both sides have it from the beginning
    if ours is None or theirs is None:
        there, side = (theirs, sides[2]) if ours is None else (ours, sides[1])
        if base is None:
            return None if there is None else {column: there.get(column) for column in columns}
        changed = set() if there is None else {c for c in base.keys() & there.keys() if there[c] != base[c]}
        if changed - side.filled and prefer:
            row = (theirs if prefer == "theirs" else ours) or {}
            return {column: row.get(column) for column in columns} if row else None
        if changed - side.filled:
            raise Clash("a row was deleted and changed")
        return None
    cells = {}
    for column, kind in columns.items():
        values = [{} if row is None else row for row in (base, ours, theirs)]
        cells[column] = _either(*(row.get(column) for row in values), prefer=prefer)
        if kind.reads and base is not None and (column in ours) != (column in theirs):
            reader = theirs if column in ours else ours
            if kind.reads in reader and reader[kind.reads] != base[kind.reads]:
                cells[column] = None
    return cells


def _either(base: Any, ours: Any, theirs: Any, *, prefer: str = "") -> Any:
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    if prefer:
        return theirs if prefer == "theirs" else ours
    raise Clash("both sides changed one thing")
