"""Looks one row up on every branch, and walks back to the version that made it what it is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_names import branch_or_none, is_service_branch, missing
from lance_spark.core.refs import MAIN, PinnedVersion, RefTable
from lance_spark.errors import CorruptData, InvalidOption, LanceSparkError, NotFound
from lance_spark.format.operations import LogEntry, key_columns
from lance_spark.format.python_values import python_rows
from lance_spark.log.log import log
from lance_spark.scan.fragment_reads import head, schema_of
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.files import THREADS, each
from lance_spark.storage.refs import read_refs
from lance_spark.storage.resolving import resolve_expression
from lance_spark.storage.versions import read_contents
from lance_spark.ui import row_rules
from lance_spark.ui.cell_rules import Pair, equal
from lance_spark.ui.page_rules import pin_text
from lance_spark.ui.row_rules import Row, RowMaker, RowOnBranch, RowPage, Rows

_BRANCHES = 40
"""Branches that are looked at."""
_FIRST, _VERSIONS = 20, 400
"""Versions of a branch that are walked back, at first and at most."""


def find_row(location: DatasetLocation, column: str, text: str, only: Sequence[str] = ()) -> RowPage:
    """The row with a value on main and on every branch, or on some; each with the version that made it so.

    Raises InvalidOption for a column or a value that cannot be asked for, NotFound, StorageFailure.
    """
    main = pin_latest(location, None)
    refs = read_refs(location)
    names = [name for name in sorted(refs.branches) if not is_service_branch(name, refs.tags) or name in only]
    for name in only:
        if name != MAIN and name not in refs.branches:
            raise missing("branch", name, [MAIN, *names])
    chosen = [name for name in names if not only or name in only][:_BRANCHES]
    schema = schema_of(location, main)
    tips: list[tuple[str, PinnedVersion | LanceSparkError]] = [(MAIN, main)]
    tips += each(location, lambda name: (name, _tip(location, refs, name)), chosen)
    schemas = [schema, *(found for found in _schemas(location, [tip for _, tip in tips[1:]]) if found is not None)]
    row_rules.check_asked(schemas, column, text)
    key = row_rules.telling(schema, key_columns(read_contents(location, main).fields))
    search = _Search(location, column, text, column == key)
    candidates = () if not key or column == key else search.values_of(key, [tip for _, tip in tips])
    if len(candidates) == 1:
        # By another column, a change of its value looks like the end of one row and the beginning of another.
        with suppress(InvalidOption):  # a key that cannot be typed
            return replace(find_row(location, key, candidates[0], only), asked=(column, text))
    found = [_on_branch(search, refs, name, tip) for name, tip in tips]
    found.sort(key=lambda one: (not one.own or one.branch == MAIN, one.branch != MAIN, not one.differs, one.branch))
    more = len(names) - len(chosen) if not only else 0
    cells, asked = tuple(search.with_cells(found)), row_rules.askable_in(schemas)
    shown = search.names(found)
    choice = RowPage(column, text, shown, cells, asked, more, search.more, candidates=candidates)
    return replace(choice, key=key) if candidates else choice


def _schemas(location: DatasetLocation, tips: Sequence[PinnedVersion | LanceSparkError]) -> list[pa.Schema | None]:
    """The schemas of these versions; None for one that cannot be read."""

    def look(tip: PinnedVersion | LanceSparkError) -> pa.Schema | None:
        with suppress(CorruptData, NotFound):
            return None if isinstance(tip, LanceSparkError) else schema_of(location, tip)
        return None

    return list(each(location, look, tips))


def columns_of_branches(location: DatasetLocation) -> dict[str, tuple[str, ...]]:
    """The columns that only branches have and a row can be looked up by, each with its branches.

    Raises NotFound, CorruptData, StorageFailure. A branch that cannot be read has none.
    """
    refs = read_refs(location)
    names = [name for name in sorted(refs.branches) if not is_service_branch(name, refs.tags)][:_BRANCHES]
    tips = list(each(location, lambda name: _tip(location, refs, name), names))
    known = set(schema_of(location, pin_latest(location, None)).names)
    found: dict[str, tuple[str, ...]] = {}
    for name, schema in zip(names, _schemas(location, tips), strict=True):
        for column in () if schema is None else row_rules.askable(schema):
            if column not in known:
                found[column] = (*found.get(column, ()), name)
    return found


def _tip(location: DatasetLocation, refs: RefTable, name: str) -> PinnedVersion | LanceSparkError:
    """The newest version of a branch, or why there is none: one damaged branch must not hide the others."""
    try:
        return pin_latest(location, refs.branches[name].name)
    except LanceSparkError as problem:
        return problem


def _on_branch(search: _Search, refs: RefTable, name: str, tip: PinnedVersion | LanceSparkError) -> RowOnBranch:
    branch = branch_or_none(name)
    if isinstance(tip, LanceSparkError):
        return RowOnBranch(name, PinnedVersion(branch, 0), "unknown", problem=tip.message, is_key=search.is_key)
    fork = None if branch is None else refs.branches[branch].fork
    try:
        mine = search.at(tip)
        if branch is None:
            search.main = mine
            change = search.made_by(tip, 0)
            state = "here" if mine else "absent"
            return RowOnBranch(name, tip, state, change is not None, change=change, is_key=search.is_key)
        state = row_rules.state_of(mine, search.main)
        if fork is not None and search.is_as_at(fork, branch, mine):
            return RowOnBranch(name, tip, state, fork=fork, is_key=search.is_key)
        change = search.made_by(tip, 0 if fork is None else fork.version)
        return RowOnBranch(name, tip, state, True, fork, change, is_key=search.is_key)
    except (CorruptData, NotFound) as problem:
        if branch is None:
            raise
        return RowOnBranch(name, tip, "unknown", problem=problem.message, is_key=search.is_key)


@dataclass
class _Search:
    """One row, read at each version once."""

    location: DatasetLocation
    column: str
    text: str
    is_key: bool = True
    main: Rows = ()
    """The rows of main."""
    more: bool = False
    _read: dict[PinnedVersion, Rows] = field(default_factory=dict)

    def at(self, pin: PinnedVersion) -> Rows:
        pin = PinnedVersion(pin.branch, pin.version)
        if pin not in self._read:
            self._read[pin] = self._rows(pin)
        return self._read[pin]

    def _rows(self, pin: PinnedVersion) -> Rows:
        schema = schema_of(self.location, pin)
        if self.column not in schema.names:
            return ()
        try:
            # Each version has its own type: a branch may have changed that of the column, or given its name to another.
            condition = row_rules.condition(schema, self.column, self.text)
        except InvalidOption:
            return ()
        rows: Sequence[Row] = python_rows(head(self.location, pin, row_rules.MOST_ROWS + 1, None, condition))
        self.more = self.more or len(rows) > row_rules.MOST_ROWS
        return tuple(rows[: row_rules.MOST_ROWS])

    def values_of(self, key: str, tips: Sequence[PinnedVersion | LanceSparkError]) -> tuple[str, ...]:
        """The values of another column in the rows of these versions. One that cannot be read has none."""
        found: dict[str, None] = {}
        for tip in tips:
            with suppress(CorruptData, NotFound):
                rows = () if isinstance(tip, LanceSparkError) else self.at(tip)
                found |= dict.fromkeys(str(row[key]) for row in rows if row.get(key) is not None)
        return tuple(found)

    def is_as_at(self, fork: PinnedVersion, branch: str, mine: Rows) -> bool:
        """Whether the rows are those that a branch began with; its first version is a copy of its fork."""
        try:
            return row_rules.same_rows(mine, self.at(PinnedVersion(branch, fork.version)))
        except NotFound:  # a cleanup removed it
            return False

    def made_by(self, tip: PinnedVersion, after: int) -> RowMaker | None:
        """The version, later than ``after``, since which the row is as it is now."""
        for count in (_FIRST, _VERSIONS):
            for entry, before, now in self.changes(tip, count):
                own = entry.branch == tip.branch and entry.version > after
                kind = row_rules.what_happened(entry, before, now, self.is_key)
                return RowMaker(entry, kind) if own else None
        return None

    def changes(self, tip: PinnedVersion, most: int) -> Iterator[tuple[LogEntry, Rows, Rows]]:
        """The versions that changed the row, newest first, with the rows before and after."""
        every = log(self.location, tip.branch, tip, most, stat=True)
        complete = len(every) < most
        entries = [entry for entry in every if row_rules.may_change_rows(entry)]
        # Before the oldest of these, the rows are those of any version between it and the next: it need not be one of
        # them. Otherwise a change beneath which nothing but settings changed for long would be missed.
        beneath = every[every.index(entries[-1]) + 1 :][:1] if entries else ()
        for start in range(0, len(entries), THREADS):
            # One more than is compared: the version before the last one of the block.
            block = [*entries, *beneath][start : start + THREADS + 1]
            if not self.location.is_local:
                each(self.location, self.at, [entry.pin for entry in block])
            for entry, older in zip(entries[start : start + THREADS], [*block[1:], None], strict=False):
                if older is None and (not complete or entry.parents):
                    return  # older versions were not looked at, or are gone
                before = () if older is None else self.at(older.pin)
                if not row_rules.same_rows(before, self.at(entry.pin)):
                    yield entry, before, self.at(entry.pin)

    def names(self, found: Sequence[RowOnBranch]) -> tuple[str, ...]:
        """The columns of the rows, those that differ between branches first."""
        rows = [*self.main, *(row for one in found if one.state != "unknown" for row in self.at(one.tip))]
        differing = [
            name for row in rows[1:] for name in row if name not in rows[0] or not equal(rows[0][name], row[name])
        ]
        return row_rules.column_order(rows, self.column, differing)

    def with_cells(self, found: Sequence[RowOnBranch]) -> Iterator[RowOnBranch]:
        names = self.names(found)
        for one in found:
            mine = () if one.state == "unknown" else self.at(one.tip)
            yield replace(one, rows=row_rules.shown_rows(mine, () if one.branch == MAIN else self.main, names))


@dataclass(frozen=True)
class RowVersion:
    """A version that changed a row, with the row before and after."""

    entry: LogEntry
    rows: tuple[tuple[Pair, ...], ...]
    kind: str
    """``added``, ``deleted``, ``changed``, ``began`` or ``ended``."""

    @property
    def mark(self) -> str:
        """``added``, ``deleted`` or ``changed``, for the eye."""
        return self.kind if self.kind in (row_rules.ADDED, row_rules.DELETED) else row_rules.CHANGED


@dataclass(frozen=True)
class RowStory:
    """How a row came to be what it is on one branch, newest change first."""

    head: str
    names: tuple[str, ...]
    changes: tuple[RowVersion, ...]

    @property
    def signed(self) -> bool:
        """Whether all of its versions say who made them."""
        return all(one.entry.author for one in self.changes)


def tell_row(location: DatasetLocation, ref: str, column: str, text: str, most: int = 50) -> RowStory:
    """All versions of a ref's branch, up to the ref, that changed a row. Raises as :func:`find_row`."""
    tip = resolve_expression(location, ref, None)
    schema = schema_of(location, tip)
    key = row_rules.telling(schema, key_columns(read_contents(location, tip).fields))
    row_rules.check_asked([schema], column, text)
    search = _Search(location, column, text, column == key)
    told = list(islice(search.changes(tip, _VERSIONS), most))
    names = row_rules.column_order([row for _, before, after in told for row in (*before, *after)], column)
    changes = []
    for entry, before, after in told:
        kind = row_rules.what_happened(entry, before, after, search.is_key)
        changes.append(RowVersion(entry, row_rules.shown_rows(after, before, names), kind))
    return RowStory(pin_text(tip), names, tuple(changes))
