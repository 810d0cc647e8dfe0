"""The options of a branch merge, and its audit's answer. Light: a command shows them without loading what merges."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.core.declared import Place, option
from lance_spark.errors import InvalidOption, Refused

_PLACES: tuple[Place, ...] = ("shell", "sql")
CELLS, ROWS = "cells", "rows"


def checked(conflicts: str) -> str:
    """What may conflict: cells or rows. Raises InvalidOption for anything else."""
    if conflicts not in (CELLS, ROWS):
        raise InvalidOption(f"conflicts must be '{CELLS}' or '{ROWS}', not {conflicts!r}.")
    return conflicts


@dataclass(frozen=True)
class MergeOptions:
    """How to merge. A cherry-pick and a revert also take the last two, and a pull all but ``reference``."""

    ff_only: bool = option(
        False,
        "refuse anything but a fast-forward: the branch that gets the changes must have none of its own",
        places=_PLACES,
    )
    reference: bool = option(
        False,
        "copy no data: read the other branch's files where they are; then it cannot be deleted",
        places=_PLACES,
    )
    message: str | None = option(None, "a message of the new version, for the log", short="m", places=_PLACES)
    dry_run: bool = option(False, "only show what would happen", short="n", places=_PLACES)
    conflicts: str = option(
        CELLS,
        "what conflicts: cells that both sides changed, or rows, whichever of their columns changed",
        choices={CELLS: CELLS, ROWS: ROWS},
        places=_PLACES,
    )
    on: tuple[str, ...] = option(
        (),
        "a column by which changed rows are matched if they have no stable ids; by default the table's key",
        places=_PLACES,
    )

    def __post_init__(self) -> None:
        """Raises InvalidOption."""
        checked(self.conflicts)


def check_audit(answer: object) -> None:
    """Raise Refused unless the audit let the changes pass. None is the answer of a function without ``return``."""
    if answer is None:
        raise Refused(
            "The audit returned None instead of True; nothing was published.",
            hint="Return True from it if the changes may be published.",
        )
    kind = type(answer)
    if kind is not bool and (kind.__module__, kind.__name__) not in _NUMPY_BOOLS:
        raise Refused(
            f"The audit returned {_named(kind)} instead of True or False; nothing was published.",
            hint="Return a comparison from it, such as df.count() == 0.",
        )
    if not answer:
        raise Refused("The audit failed; nothing was published.")


_NUMPY_BOOLS = (("numpy", "bool"), ("numpy", "bool_"))


def _named(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"
