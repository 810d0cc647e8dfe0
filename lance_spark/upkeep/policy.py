"""What a maintenance does to each table and branch: rules by pattern, in the words of the verbs they are for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.compaction.ordering import Ordering, ordering_of
from lance_spark.errors import InvalidOption
from lance_spark.refs.expiry_plan import ExpiryOptions
from lance_spark.refs.names import MAIN
from lance_spark.refs.reflog import DEFAULT_UNDO_WINDOW

FSCK, COMPACTION, INDEXES, EXPIRY, CLEANUP = "fsck", "compaction", "indexes", "expiry", "cleanup"
STEPS = (FSCK, COMPACTION, INDEXES, EXPIRY, CLEANUP)
"""In the order in which they are done to a table. A check comes first: nothing is deleted from a damaged table. Refs
expire before the cleanup, which takes what only they needed. Compaction and indexes come before it, too: what they
replace goes as soon as the policy lets it."""
OF_BRANCHES = frozenset({COMPACTION, INDEXES})
"""Steps that are done to each branch; the others are done to the whole table."""
DESTRUCTIVE = frozenset({EXPIRY, CLEANUP})
"""Steps that delete."""


@dataclass(frozen=True)
class CompactionRule:
    """When a branch is compacted, and how."""

    target_rows: int = 1_000_000
    """Rows that a fragment should have."""
    small_fragments: int = 8
    """A branch is compacted when at least so many of its fragments would be rewritten."""
    own_only: bool = True
    """False: also fragments that a branch or a clone inherited, which copies them."""
    sort_by: tuple[str, ...] = ()
    """Columns that rows are sorted by; none keeps the order that they have."""
    zorder: tuple[str, ...] = ()
    """Or columns of a z-order."""

    @property
    def order(self) -> Ordering | None:
        """The order that rows get."""
        return ordering_of(self.sort_by or None, self.zorder or None)

    def __post_init__(self) -> None:
        _ = self.order  # raises for two of them
        for name in ("target_rows", "small_fragments"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"compaction.{name} must be 1 or more.")


@dataclass(frozen=True)
class IndexRule:
    """When the indexes of a branch are brought up to date."""

    stale_rows: int = 1
    """An index is when it lacks at least so many rows."""
    stale_percent: int = 0
    """And when these are at least so many per cent of all rows."""

    def __post_init__(self) -> None:
        if self.stale_rows < 1:
            raise InvalidOption("indexes.stale_rows must be 1 or more.")
        if not 0 <= self.stale_percent <= 100:
            raise InvalidOption("indexes.stale_percent must be from 0 to 100.")


@dataclass(frozen=True)
class FsckRule:
    """How often a table is checked."""

    every: timedelta = timedelta(days=7)
    deep: bool = False
    """Whether files are opened."""


@dataclass(frozen=True)
class BranchRules:
    """What one branch needs."""

    skip: frozenset[str]
    compaction: CompactionRule
    indexes: IndexRule


@dataclass(frozen=True)
class Layer:
    """What a policy says at one place: for everything, for tables of a pattern, or for branches of one."""

    skip: frozenset[str] = frozenset()
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, the fields of its rule that are given."""
    branches: Mapping[str, Layer] = field(default_factory=dict)

    def for_branch(self, branch: str | None) -> tuple[Layer, ...]:
        """The layer, and the first of its branches' that matches."""
        found = _first(self.branches, branch or MAIN)
        return (self,) if found is None else (self, found)


@dataclass(frozen=True)
class TablePolicy:
    """What is done to one table."""

    layers: tuple[Layer, ...]
    """Each says more than the one before."""
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)

    @property
    def skip(self) -> frozenset[str]:
        """Steps that are left out for the whole table."""
        return frozenset().union(*(layer.skip for layer in self.layers))

    @property
    def fsck(self) -> FsckRule:
        """How often it is checked."""
        return FsckRule(**_merged(self.layers, FSCK))

    @property
    def expiry(self) -> ExpiryOptions:
        """How refs expire.

        A longer ``undo_window`` of the cleanup counts here too, unless the policy says another one: what cleanups keep
        so that it can be restored must not expire before.
        """
        window = max(DEFAULT_UNDO_WINDOW, self.cleanup.undo_window)
        return ExpiryOptions(**{"undo_window": window, **_merged(self.layers, EXPIRY)})

    @property
    def kept_for_undo(self) -> CleanupPolicy:
        """The cleanup policy; a longer ``undo_window`` of the expiry counts there too."""
        given = _merged(self.layers, EXPIRY).get("undo_window", timedelta(0))
        return replace(self.cleanup, undo_window=max(given, self.cleanup.undo_window))

    def for_branch(self, branch: str | None) -> BranchRules:
        """What a branch needs (None for main)."""
        layers = tuple(each for layer in self.layers for each in layer.for_branch(branch))
        return BranchRules(
            frozenset().union(*(layer.skip for layer in layers)),
            CompactionRule(**_merged(layers, COMPACTION)),
            IndexRule(**_merged(layers, INDEXES)),
        )


@dataclass(frozen=True)
class MaintenancePolicy:
    """What is done to the tables of a lake; :func:`lance_spark.upkeep.policy_file.maintenance_policy` makes it."""

    everywhere: Layer = field(default_factory=Layer)
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)
    tables: Mapping[str, tuple[Layer, CleanupPolicy | None]] = field(default_factory=dict)
    """By name or pattern, the first that matches: what it says more, and the cleanup policy with its words in it."""

    def for_table(self, name: str) -> TablePolicy:
        """What is done to a table of that name."""
        found = _first(self.tables, name)
        if found is None:
            return TablePolicy((self.everywhere,), self.cleanup)
        layer, cleanup = found
        return TablePolicy((self.everywhere, layer), cleanup or self.cleanup)


def _first(patterns: Mapping[str, Any], name: str) -> Any:
    return next((value for pattern, value in patterns.items() if fnmatchcase(name, pattern)), None)


def _merged(layers: Iterable[Layer], step: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer.given.get(step, {}))
    return merged
