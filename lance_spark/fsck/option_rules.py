"""The options of a check and of a repair. Light: a command shows them without loading what checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lance_spark.cleanup.retention_rules import DEFAULT_UNVERIFIED_AGE
from lance_spark.core.declared import Place, option
from lance_spark.errors import InvalidOption

_PLACES: tuple[Place, ...] = ("job", "shell", "sql")


@dataclass(frozen=True)
class FsckOptions:
    deep: bool = option(False, "open files: footers, numbers of rows, deletions, indexes, row ids", places=_PLACES)
    clones: tuple[str, ...] = option(
        (), "a clone that is not recorded; what it reads here must exist", flag="clone", metavar="URI", places=_PLACES
    )
    clones_from: tuple[str, ...] = option(
        (), "a directory; all datasets below it count as clones", metavar="URI", places=_PLACES
    )
    left_after: timedelta = DEFAULT_UNVERIFIED_AGE
    """Files that no version names are noted from this age on."""


@dataclass(frozen=True)
class RepairOptions:
    on_main: bool = option(False, "let a repair commit to branches themselves, including main", places=_PLACES)
    dry_run: bool = option(False, "only show the repairs", places=_PLACES)


def check_combination(given: Mapping[str, Any]) -> None:
    """Raise InvalidOption for options of a command line that cannot be combined."""
    if given["undo"] is not None:
        if given["repair"] or given["deep"]:
            raise InvalidOption("--undo cannot be combined with other options.", hint="It undoes a repair.")
    elif not given["repair"] and (given["dry_run"] or given["on_main"]):
        raise InvalidOption("--dry-run and --on-main need --repair.", hint="Without it, nothing is changed.")
