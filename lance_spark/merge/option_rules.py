"""The options of a branch merge, and its audit's answer. Light: a command shows them without loading what merges."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lance_spark.core.declared import Place, option
from lance_spark.errors import InvalidOption, Refused

_PLACES: tuple[Place, ...] = ("shell", "sql")
CELLS, ROWS = "cells", "rows"


def checked(conflicts: str) -> str:
    """What may conflict: cells or rows. Raises InvalidOption for anything else."""
    if conflicts not in (CELLS, ROWS):
        raise InvalidOption(f"conflicts must be '{CELLS}' or '{ROWS}', not {conflicts!r}.")
    return conflicts


Side = Literal["ours", "theirs"]
OURS: Side = "ours"
THEIRS: Side = "theirs"
EVERY = "*"
"""In a preference by column: all columns that it does not name, and rows that one side deleted or both added."""


@dataclass(frozen=True)
class Prefer:
    """Whose value is taken where both sides changed the same row or cell. Nothing else follows it."""

    columns: tuple[tuple[str, Side], ...] = ()
    """By column; a column without an entry goes with the rest."""
    rest: Side | None = None
    """None: what is not named stays a conflict."""
    many: bool = field(default=False, compare=False)
    """Whether it is for many tables, of which some may lack a column that it names."""

    @classmethod
    def of(cls, given: object, typed: str = "prefer") -> Prefer:
        """What a text or a mapping says: ``"theirs"``, ``"price=theirs, *=ours"``, ``{"price": "theirs"}``.

        Raises InvalidOption.
        """
        if isinstance(given, Prefer):
            return given
        if given is None or given == "":
            return cls()
        pairs = [*_pairs(given, typed)]
        if len({name for name, _ in pairs}) < len(pairs):
            raise InvalidOption(f"{typed} names a column twice.")
        for _, side in pairs:
            if side not in (OURS, THEIRS):
                raise InvalidOption(
                    f"{typed} must say '{OURS}' or '{THEIRS}', not {side!r}.",
                    hint="'theirs' is the side that is merged, 'ours' the branch that it is merged into. By column: "
                    "'price=theirs, *=ours'.",
                )
        chosen: dict[str, Side] = {name: OURS if side == OURS else THEIRS for name, side in pairs}
        rest = chosen.pop(EVERY, None)
        return cls(tuple(chosen.items()), rest)

    def __bool__(self) -> bool:
        return bool(self.columns or self.rest)

    def side(self, *names: str | None) -> Side | None:
        """The side of a column, by any of its names; None if it stays a conflict."""
        known = dict(self.columns)
        return next((known[name] for name in names if name is not None and name in known), self.rest)

    @property
    def text(self) -> str:
        if not self.columns:
            return self.rest or ""
        rest = [(EVERY, self.rest)] if self.rest else []
        return ", ".join(f"{name}={side}" for name, side in (*self.columns, *rest))


def _pairs(given: object, typed: str) -> Iterable[tuple[str, object]]:
    if isinstance(given, Mapping):
        return [(str(name), side) for name, side in given.items()]
    if isinstance(given, str):
        parts = [part.strip().rpartition("=") for part in given.split(",") if part.strip()]
        return [(name.strip() if equals else EVERY, side.strip().lower()) for name, equals, side in parts]
    raise InvalidOption(f"{typed} must be '{OURS}', '{THEIRS}', or say one of them by column, not {given!r}.")


def _preferred(typed: str, given: object) -> Prefer:
    return Prefer.of(given, typed)


SHAPE = (
    "It gets one pyarrow.Table of the contested rows, with '_row', the key, and the structs base, ours and theirs, and "
    "returns rows with '_row' and the columns to set: def resolve(rows): return [{'_row': row['_row'], 'label': "
    "row['ours']['label']} for row in rows.to_pylist()]"
)
"""What a function for ``resolve`` is."""


def check_resolve(resolve: object) -> None:
    """Raise InvalidOption for anything but a function of one argument; None is for none."""
    if resolve is None:
        return
    if isinstance(resolve, Mapping) or not callable(resolve):
        by_column = isinstance(resolve, Mapping) and all(side in (OURS, THEIRS) for side in resolve.values())
        one = f"prefer={dict(resolve)!r}" if by_column else "prefer='theirs' or prefer='ours'"  # type: ignore[call-overload]
        raise InvalidOption(
            f"resolve must be one function of all contested rows, not {_kind(resolve)}.",
            hint=f"{SHAPE}. To take a side without a function: {one}.",
        )
    try:
        inspect.signature(resolve).bind(None)
    except TypeError as problem:
        raise InvalidOption(
            f"The function for resolve cannot be called with one argument: {problem}.", hint=f"{SHAPE}."
        ) from None
    except ValueError:  # of a builtin, which does not say what it takes
        return


def _kind(given: object) -> str:
    return f"a dict of {', '.join(map(repr, given))}" if isinstance(given, Mapping) else repr(given)


@dataclass(frozen=True)
class MergeOptions:
    """How to merge. A cherry-pick and a revert take some of these, and a pull all but ``reference``."""

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

    prefer: Prefer | str | Mapping[str, str] | None = option(
        None,
        "whose value is taken where both sides changed a row or cell: ours or theirs; by column: price=theirs,*=ours",
        short="X",
        metavar="SIDE",
        parse=_preferred,
        places=_PLACES,
    )
    resolve: Callable[[Any], Any] | None = None
    """A function of the rows that nothing else settles, in Python only: see ``LanceTable.branches.merge``."""
    audited: bool = False
    """Whether an audit let the changes pass; the new version says so."""
    ours: bool = option(False, "the same as -X ours: where both sides changed a row, ours wins", places=("shell",))
    theirs: bool = option(
        False, "the same as -X theirs: where both sides changed a row, theirs wins", places=("shell",)
    )

    def __post_init__(self) -> None:
        """Raises InvalidOption."""
        checked(self.conflicts)
        check_resolve(self.resolve)
        chosen = Prefer.of(self.prefer)
        if sum((bool(chosen), self.ours, self.theirs)) > 1:
            raise InvalidOption(
                "Only one of prefer, ours and theirs can be given.", hint="Give one of -X, --ours, --theirs."
            )

    @property
    def preferred(self) -> Prefer:
        if self.ours or self.theirs:
            return Prefer(rest=OURS if self.ours else THEIRS)
        return Prefer.of(self.prefer)


PREFERENCE = ("prefer", "ours", "theirs")
"""The names of the options that say whose value is taken."""


@dataclass(frozen=True)
class PublishOptions:
    message: str | None = None
    dry_run: bool = False
    prefer: Prefer = field(default_factory=Prefer)
    """Whose value is taken where main and the branch changed the same row or cell, in every table."""

    def __post_init__(self) -> None:
        """Raises InvalidOption for a preference that the journal of the publish could not keep."""
        if Prefer.of(self.prefer.text) != self.prefer:
            raise InvalidOption("A preference for many tables cannot name a column with a comma in its name.")

    @classmethod
    def of(cls, options: MergeOptions) -> PublishOptions:
        """Those of a merge that count."""
        return cls(options.message, options.dry_run, options.preferred)


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
