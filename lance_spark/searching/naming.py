"""Which column is meant where none was named. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.errors import InvalidOption, SchemaMismatch


def the_only(names: Sequence[str], what: str) -> str:
    """The one column that holds what is searched. Raises SchemaMismatch for none, InvalidOption for several."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise SchemaMismatch(f"There is no column with {what} to search in.")
    raise InvalidOption(
        f"{len(names)} columns hold {what}: {', '.join(names)}.", hint=f"Name one: column='{names[0]}'."
    )


def those(what: str, names: Sequence[str]) -> str:
    """A hint: the columns that hold it."""
    return f"{what} in {', '.join(names)}." if names else "There is no such column."
