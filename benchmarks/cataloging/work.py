"""What is measured: each operation of ours, and pylance's where it has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from lance_namespace import DeclareTableRequest, DescribeTableRequest, ListTablesRequest

from benchmarks.cataloging.data import NAMESPACE, name_of
from benchmarks.measure import Case, Target, Work
from lance_spark.catalog.lookup import list_tables, locate_table
from lance_spark.catalog.name_rules import Catalog
from lance_spark.catalog.removing import rename_table
from lance_spark.catalog.tables import declare_table

LEVEL = Target("at least level with pylance", "pylance", 1.0)
FIVE_TIMES = Target("5 times faster than pylance", "pylance", 5.0)
IN_A_ROW = 13
"""Changes that are measured together: every twelfth of ours rewrites the whole table, and this has one of them."""

LOOKS = 50
"""Look-ups that are measured together: one takes a millisecond, which other programs may double."""


def listing(ours: Catalog, theirs: Any, target: Target | None) -> Case:
    """All names of the root."""

    def pylance() -> list[int]:
        return [len(theirs.list_tables(ListTablesRequest(id=[])).tables)]

    return _case({"ours": lambda: [len(list_tables(ours))], "pylance": pylance}, target)


def page(ours: Catalog, theirs: Any) -> Case:
    """The first ten names."""

    def pylance() -> list[int]:
        return [len(theirs.list_tables(ListTablesRequest(id=[], limit=10)).tables)]

    return _case({"ours": lambda: [len(list_tables(ours, limit=10))], "pylance": pylance}, None)


def look_up(ours: Catalog, theirs: Any, tables: int, times: int = LOOKS) -> Case:
    """Where some tables are; others each time."""

    def work(find: Callable[[str], object]) -> Work:
        names = (name_of(number * 7919 % tables) for number in count())

        def run() -> list[int]:
            return [sum(1 for _ in range(times) if find(next(names)))]

        return run

    def pylance(name: str) -> object:
        return theirs.describe_table(DescribeTableRequest(id=[name])).location

    return _case({"ours": work(lambda name: locate_table(ours, name)), "pylance": work(pylance)}, LEVEL)


def create(ours: Catalog, theirs: dict[str, Any], times: int = IN_A_ROW) -> Case:
    """Take new names in a namespace."""

    def work(make: Callable[[str], object]) -> Work:
        numbers = count()

        def run() -> list[int]:
            for _ in range(times):
                make(f"new{next(numbers)}")
            return [times]

        return run

    peers = {who: work(partial(_declare_theirs, each)) for who, each in theirs.items()}
    return _case({"ours": work(lambda name: declare_table(ours, f"{NAMESPACE}.{name}")), **peers}, None)


def _declare_theirs(catalog: Any, name: str) -> object:
    return catalog.declare_table(DeclareTableRequest(id=[NAMESPACE, name]))


def rename(ours: Catalog, times: int = IN_A_ROW) -> Case:
    """Rename tables, and put them into a namespace. pylance cannot."""
    numbers = count()

    def run() -> list[int]:
        for _ in range(times):
            number = next(numbers)
            rename_table(ours, name_of(number), f"{NAMESPACE}.r{number}")
        return [times]

    return _case({"ours": run}, None)


def _case(work: dict[str, Work], target: Target | None) -> Case:
    return Case(work, () if target is None else (target,))
