"""The options of ``add_columns`` and ``update_columns`` beside the values themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from lance_spark.backfill.model import BackfillProgress
from lance_spark.errors import InvalidOption
from lance_spark.show.near import meant
from lance_spark.show.progress import check_progress

FILL, NULL = "fill", "null"


@dataclass(frozen=True)
class BackfillOptions:
    """How values are computed and committed."""

    incremental: bool = False
    """Whether the column is there first, null everywhere, and its values come group by group."""
    new_rows: str = FILL
    """Fragments that others append while values are computed: "fill" them as well, or leave them "null"."""
    resume: bool | str = True
    """Whether files that an earlier, killed call of the same kind finished are used. A text is part of what has to be
    the same: the version of a model, or the name of a DataFrame's rows, which cannot be told otherwise."""
    batch_size: int | None = None
    """Rows that a function gets at once."""
    progress: Callable[[BackfillProgress], object] | None = None
    """Is told how far it is, each time a group of fragments is finished."""
    message: str | None = None
    """Of the commit."""

    @property
    def tag(self) -> str:
        """The text that ``resume`` is; empty for none."""
        return self.resume if isinstance(self.resume, str) else ""


def parse_backfill_options(given: Mapping[str, Any], incremental: bool = True) -> BackfillOptions:
    """The options from keyword arguments. Raises InvalidOption for an unknown name or a value that cannot be.

    ``incremental`` says whether the verb knows that option.
    """
    known = [field.name for field in fields(BackfillOptions) if incremental or field.name != "incremental"]
    for name in given:
        if name not in known:
            raise InvalidOption(f"There is no option '{name}' here.", hint=meant(name, known))
    options = BackfillOptions(**given)
    if options.new_rows not in (FILL, NULL):
        raise InvalidOption(f"new_rows is '{FILL}' or '{NULL}', not {options.new_rows!r}.")
    if options.batch_size is not None and options.batch_size < 1:
        raise InvalidOption(f"batch_size is a number of rows, at least 1, not {options.batch_size!r}.")
    if not isinstance(options.resume, bool | str):
        raise InvalidOption(f"resume is True, False or a text, not {options.resume!r}.")
    check_progress(options.progress)
    return options
