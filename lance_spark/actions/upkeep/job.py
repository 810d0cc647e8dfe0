"""What all tables of one maintenance share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from lance_spark.errors import InvalidOption, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Engine
from lance_spark.show.words import counted, few
from lance_spark.upkeep.memory import Memory
from lance_spark.upkeep.policy import STEPS, MaintenancePolicy
from lance_spark.upkeep.records import TableRecord
from lance_spark.upkeep.report import MaintenanceReport

_FEW = 5
"""Tables that an error names."""


@dataclass(frozen=True)
class Selection:
    """Which steps and tables are wanted, beside what the policy says."""

    only: frozenset[str] = frozenset()
    """Steps; none stands for all."""
    skip: frozenset[str] = frozenset()
    """Steps that are left out."""
    tables: tuple[str, ...] = ()
    """Names or patterns of tables; none stands for all."""
    not_tables: tuple[str, ...] = ()
    """Those that are left out."""

    def __post_init__(self) -> None:
        for step in sorted(self.only | self.skip):
            if step not in STEPS:
                raise InvalidOption(f"There is no step '{step}'.", hint=f"There are {', '.join(STEPS)}.")

    @property
    def steps(self) -> frozenset[str]:
        """The steps that are wanted."""
        return (self.only or frozenset(STEPS)) - self.skip

    def check(self, tables: Sequence[str]) -> None:
        """Raise NotFound if there are tables and none of them is wanted: a job with a misspelled name does nothing."""
        if tables and not any(map(self.has, tables)):
            raise NotFound(
                f"No table is wanted of the {counted(len(tables), 'table')} there.",
                hint=f"There are {few(sorted(tables), _FEW)}.",
            )

    def has(self, table: str) -> bool:
        """Whether a table is wanted."""
        if any(fnmatchcase(table, pattern) for pattern in self.not_tables):
            return False
        return not self.tables or any(fnmatchcase(table, pattern) for pattern in self.tables)


@dataclass(frozen=True)
class UpkeepOptions:
    """How a maintenance is done."""

    policy: MaintenancePolicy = field(default_factory=MaintenancePolicy)
    execute: bool = False
    selection: Selection = field(default_factory=Selection)
    memory: Memory = field(default_factory=Memory)
    side_by_side: int = 4
    """Tables that are worked on at a time."""
    time_left: Callable[[], bool] | None = None
    """Whether another step may begin; None if time does not matter. With it the most valuable table is first."""
    time_to_plan: Callable[[], bool] | None = None
    """Whether another table may be planned; None if time does not matter. It has to be over sooner: a lake that takes
    longer to look at than there is time would never be worked on."""
    max_deletes_per_second: float | None = None
    """Over all tables together."""
    say: Callable[[str], object] = str
    """Is told what becomes of each table."""
    ended: Callable[[TableRecord], object] = bool
    """Is given the record of each table as soon as it has ended, by several threads; not in a dry run."""
    progress: Callable[[MaintenanceReport], object] | None = None
    """Is given the report as it stands, marked as unfinished, when the tables are known and then after each of them."""

    def __post_init__(self) -> None:
        if self.side_by_side < 1:
            raise InvalidOption("At least one table has to be worked on at a time.")

    @property
    def estimates(self) -> bool:
        """Whether the cleanup is planned before it is done, which lists all files once more."""
        return not self.execute or self.time_left is not None


@dataclass(frozen=True)
class Job:
    """One maintenance."""

    options: UpkeepOptions
    engine: Engine
    now_ns: int
    """When it began, nanoseconds since the epoch; ages are counted by it."""
    clones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By table, URIs of other tables that read its files."""
    bases: frozenset[str] = frozenset()
    """Places that any of the tables read files from, beside their own."""
    held_back: str = ""
    """Why nothing may be deleted from any table."""
    told: Callable[[TableRecord], object] = bool
    """Is given the last record of each table, by several threads; in a dry run as well."""


@dataclass(frozen=True)
class UpkeepTable:
    """A table to look after."""

    name: str
    location: DatasetLocation
