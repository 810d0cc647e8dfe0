"""Settings of a table in a replay, each merged three-way: constraints, the layout, properties. Pure.

What only theirs changed is taken over, what both changed alike is settled, and what both changed differently is a
conflict, unless a preference decides. Settings of Lance itself stay: some of them delete versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lance_spark.errors import InvalidOption
from lance_spark.format.contents import Contents
from lance_spark.layout.layout_rules import CLUSTER_BY, PARTITION_BY, declared
from lance_spark.merge.change_rules import Sides
from lance_spark.merge.conflict_rules import ResultField
from lance_spark.merge.option_rules import THEIRS, Prefer

BOTH_SET = "both sides changed setting"
NO_COLUMN = "names a column that the result does not have"
_OF_LANCE = "lance."
_MEM_WAL = "__lance_mem_wal"
"""The index that declares the layout of the JVM connector."""
Values = Mapping[str, "str | None"]
"""By key; None removes it."""


@dataclass(frozen=True)
class SettingChange:
    """What ours takes over, and what prevents it."""

    config: Values = field(default_factory=dict)
    metadata: Values = field(default_factory=dict)
    """Of the table: its properties, where no catalog keeps them."""
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Keys that theirs changed and ours does not take over."""

    def __bool__(self) -> bool:
        return bool(self.config or self.metadata)

    def notes(self) -> Iterator[str]:
        taken = sorted({*self.config, *self.metadata})
        if taken:
            yield f"settings are taken over: {', '.join(taken)}"
        if self.left:
            yield f"settings are not taken over: {', '.join(self.left)}"

    def on(self, config: Mapping[str, str]) -> dict[str, str]:
        """The configuration after it."""
        after: dict[str, str | None] = {**config, **self.config}
        return {key: value for key, value in after.items() if value is not None}


@dataclass(frozen=True)
class Merged:
    """One kind of settings, merged."""

    taken: Values
    conflicts: tuple[str, ...] = ()
    """Keys."""


def merged(base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], prefer: Prefer) -> Merged:
    """What ours takes from theirs, key by key."""
    taken: dict[str, str | None] = {}
    conflicts = []
    for key in sorted(base.keys() | ours.keys() | theirs.keys()):
        before, mine, other = (side.get(key) for side in (base, ours, theirs))
        if other in (before, mine):
            continue
        side = THEIRS if mine == before else prefer.side(key)
        if side is None:
            conflicts.append(key)
        elif side == THEIRS:
            taken[key] = other
    return Merged(taken, tuple(conflicts))


def merge_settings(sides: Sides, prefer: Prefer, fields: tuple[ResultField, ...]) -> SettingChange:
    """The settings of theirs that ours takes; ``fields`` are those of the result."""
    base, ours, theirs = sides.base_theirs.contents, sides.ours.contents, sides.theirs.contents
    if theirs.config == base.config and theirs.table_metadata == base.table_metadata:
        return SettingChange()
    config = merged(base.config, ours.config, theirs.config, prefer)
    metadata = merged(base.table_metadata, ours.table_metadata, theirs.table_metadata, prefer)
    stay = {key for key in (*config.taken, *config.conflicts) if key.startswith(_OF_LANCE) or _is_foreign(key, ours)}
    told = [_told(key, ours.config, theirs.config) for key in config.conflicts if key not in stay]
    told += [_told(key, ours.table_metadata, theirs.table_metadata) for key in metadata.conflicts]
    found = {key: value for key, value in config.taken.items() if key not in stay}
    change = SettingChange(found, metadata.taken, tuple(told), tuple(sorted(stay)))
    return SettingChange(found, metadata.taken, (*told, *_misfit(change, ours, fields)), change.left)


def _is_foreign(key: str, ours: Contents) -> bool:
    return key == PARTITION_BY and any(segment.name == _MEM_WAL for segment in ours.indexes)


def _told(key: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    mine, other = (repr(side[key]) if key in side else "none" for side in (ours, theirs))
    return f"{BOTH_SET} '{key}': {mine} in ours, {other} in theirs"


def _misfit(change: SettingChange, ours: Contents, fields: tuple[ResultField, ...]) -> Iterator[str]:
    """A layout that comes from theirs, and names a column that is dropped or has another name in the result."""
    if not {PARTITION_BY, CLUSTER_BY} & change.config.keys():
        return
    try:
        layout = declared(change.on(ours.config))
    except InvalidOption as unreadable:
        yield f"the layout of theirs cannot be read: {unreadable.message}"
        return
    known = {entry.path[0] for entry in fields if len(entry.path) == 1}
    for name in layout.columns:
        if name not in known:
            yield f"the layout {layout} {NO_COLUMN}: '{name}'"
