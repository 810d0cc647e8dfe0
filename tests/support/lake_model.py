"""What a lake and its branches must hold, as plain dicts. Three-way merges of names, properties and rows."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

Values = dict[str, str]


@dataclass
class Table:
    """A table as one branch, tag or main has it."""

    name: str
    rows: set[int] | None
    """None while it is only declared."""
    properties: Values = field(default_factory=dict)


@dataclass
class World:
    """The tables, by an identity that outlives renames, and the namespaces with their properties."""

    tables: dict[int, Table] = field(default_factory=dict)
    spaces: dict[str, Values] = field(default_factory=dict)

    def named(self, name: str) -> int | None:
        return next((key for key, table in self.tables.items() if table.name == name), None)

    def takes(self, name: str) -> bool:
        """Whether something new can have that name."""
        space = name.rpartition(".")[0]
        return self.named(name) is None and name not in self.spaces and (not space or space in self.spaces)

    def is_empty(self, space: str) -> bool:
        return not any(table.name.startswith(f"{space}.") for table in self.tables.values())

    def seen(self) -> tuple[dict[str, tuple[list[int] | None, Values]], dict[str, Values]]:
        """As readers see it."""
        tables = {
            table.name: (None if table.rows is None else sorted(table.rows), table.properties)
            for table in self.tables.values()
        }
        return tables, self.spaces


@dataclass
class Branch:
    """A branch of the lake."""

    world: World
    base: World
    """With which it began, or what it had at its last merge."""
    known: dict[int, int] = field(default_factory=dict)
    """Main's version of each covered table, as far as the branch knows its rows."""
    follows: set[int] = field(default_factory=set)
    """Tables that it does not cover."""
    new: set[int] = field(default_factory=set)
    """Tables that it created."""

    def covers(self, key: int) -> bool:
        return key in self.world.tables and key not in self.follows


class Clash(Exception):
    """The merge is a conflict; the argument says of which table."""


def values_merged(base: Values, mine: Values, main: Values, name: str) -> Values:
    merged = dict(main)
    for key in {*base, *mine}:
        before, here, there = base.get(key), mine.get(key), main.get(key)
        if here in (before, there):
            continue
        if there != before:
            raise Clash(name)
        merged.pop(key, None)
        if here is not None:
            merged[key] = here
    return merged


def merged(branch: Branch, main: World, versions: dict[int, int]) -> World:
    """Main with what the branch changed since its base. ``versions`` are main's newest. Raises Clash."""
    base, mine = branch.base, branch.world
    result = World(deepcopy(main.tables), deepcopy(main.spaces))
    for key in {*base.tables, *mine.tables}:
        table = table_merged(branch, key, main.tables.get(key), versions.get(key, 0))
        result.tables.pop(key, None)
        if table is not None:
            result.tables[key] = table
    for space in {*base.spaces, *mine.spaces}:
        values = space_merged(space, base.spaces.get(space), mine.spaces.get(space), main.spaces.get(space))
        result.spaces.pop(space, None)
        if values is not None:
            result.spaces[space] = values
    names = [table.name for table in result.tables.values()]
    for name in names:
        space = name.rpartition(".")[0]
        if names.count(name) > 1 or name in result.spaces or (space and space not in result.spaces):
            raise Clash(name)
    return result


def table_merged(branch: Branch, key: int, there: Table | None, version: int) -> Table | None:
    """One table after the merge; ``there`` is main's, of that version. None if it is gone. Raises Clash."""
    before, here = branch.base.tables.get(key), branch.world.tables.get(key)
    if before is None:
        return deepcopy(here) if there is None else there
    same_row = (before.name, before.properties)
    if here is None:
        moved = version > branch.known.get(key, 0)
        if there is not None and ((there.name, there.properties) != same_row or moved):
            raise Clash(before.name)
        return None
    if there is None:
        if (here.name, here.properties) != same_row or changed_rows(branch, key):
            raise Clash(here.name)
        return None
    return both(branch, key, before, here, there)


def space_merged(space: str, before: Values | None, here: Values | None, there: Values | None) -> Values | None:
    """The properties of a namespace after the merge; None if it is gone. Raises Clash."""
    if here == before:
        return there
    if here is None:
        if there is not None and there != before:
            raise Clash(space)
        return None
    if there is None and before is not None:
        raise Clash(space)
    return values_merged(before or {}, here, there or {}, space)


def both(branch: Branch, key: int, before: Table, here: Table, there: Table) -> Table:
    if here.name not in (before.name, there.name) and there.name != before.name:
        raise Clash(before.name)
    name = here.name if here.name != before.name else there.name
    rows = there.rows
    if changed_rows(branch, key):
        old = branch.base.tables[key].rows or set()
        new = here.rows or set()
        rows = ((there.rows or set()) - (old - new)) | (new - old)
    return Table(name, rows, values_merged(before.properties, here.properties, there.properties, before.name))


def changed_rows(branch: Branch, key: int) -> bool:
    return branch.covers(key) and branch.world.tables[key].rows != branch.base.tables[key].rows
