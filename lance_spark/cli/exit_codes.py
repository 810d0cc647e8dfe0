"""What the exit codes mean, for ``--help``. Those of errors are set in lance_spark.errors."""

from __future__ import annotations

INTERRUPTED = 130
NOT_DONE = 1
PARTLY_DONE = 6

EXIT_CODES = (
    (0, "done"),
    (NOT_DONE, "you said no, or something else went wrong"),
    (2, "what was typed is wrong; nothing was touched"),
    (3, "refused: it would lose data or strand files"),
    (5, "columns or types do not fit"),
    (10, "not found"),
    (11, "the name is taken"),
    (12, "another process committed first; nothing was committed"),
    (20, "the store did not answer"),
    (21, "the store denied access"),
    (22, "a file cannot be understood"),
    (INTERRUPTED, "interrupted"),
)


def exit_codes_text(partly: str) -> str:
    """The table as text; ``partly`` is what PARTLY_DONE means to the command."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in sorted([*EXIT_CODES, (PARTLY_DONE, partly)]))
