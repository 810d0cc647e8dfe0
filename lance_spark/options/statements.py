"""What a session says of statements in SQL that change rows: UPDATE, DELETE and MERGE take no options themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidOption

COMMIT_MESSAGE, RETRIES = "spark.lance.commit.message", "spark.lance.retries"
SETTINGS = (COMMIT_MESSAGE, RETRIES)
"""Settings of a session, as ``SET`` and ``spark.conf`` know them."""


@dataclass(frozen=True)
class StatementOptions:
    """How statements are committed."""

    message: str | None = None
    retries: int = 0
    """How often a change is computed again after a conflict."""


def parse_statement_options(given: Mapping[str, str | None]) -> StatementOptions:
    """The options from settings by their names, None for one that is not set. Raises InvalidOption."""
    retries = (given.get(RETRIES) or "0").strip()
    if not (retries.isascii() and retries.isdigit()):
        raise InvalidOption(f"{RETRIES} is {retries!r}, and no whole number.", hint=f"SET {RETRIES} = 3")
    return StatementOptions((given.get(COMMIT_MESSAGE) or "").strip() or None, int(retries))
