"""What a verb says that was denied: that nothing was changed, or what is left and who takes it away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lance_spark.errors import LanceSparkError, PermissionDenied

UNCHANGED = "Nothing was changed."


@contextmanager
def unchanged() -> Iterator[None]:
    """One change, before which nothing was changed: if it is denied, the error says that nothing was.

    Not where something could not be read: that may have been after the change.
    """
    try:
        yield
    except PermissionDenied as denied:
        raise (denied.saying(UNCHANGED) if denied.of_change else denied) from None


def left_after(undo: Callable[[], object], what: str, until: str = "a cleanup takes them") -> str:
    """Take back what was done before a step that was denied; returns what the error is to say of it.

    ``what`` names what stays if not even that is allowed, such as "files that were written", and ``until`` who takes it
    then. It has to be something that no version names.
    """
    try:
        undo()
    except LanceSparkError as failure:
        missing = failure.missing if isinstance(failure, PermissionDenied) else None
        why = failure.message if missing is None else f"{missing} is missing"
        return f"No version, branch or tag was changed, but {what} are left, as {why}: {until}."
    return UNCHANGED
