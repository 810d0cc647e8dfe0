"""Every error this package raises on purpose, grouped by how the caller should react.

    LanceSparkError            1
    ├── InvalidOption          2   the input is wrong; nothing was touched (also ValueError)
    │   ├── InvalidName        2   a branch or tag name breaks a rule of the specification
    │   ├── NoSuchName         2   a method of another library, which has another name here (also AttributeError)
    │   └── WrongArguments     2   a verb got arguments that it does not take (also TypeError)
    ├── Refused                3   legal, but it would lose data or strand files
    │   └── NotCommittable     3   a change that cannot be one commit; smaller steps might work
    ├── NotInstalled           4   an optional package is missing, such as PySpark (also ModuleNotFoundError)
    ├── SchemaMismatch         5   columns or types do not fit (also ValueError)
    ├── NotFound              10   the store answered: the object does not exist (also LookupError)
    ├── AlreadyExists         11   the name is taken
    ├── Conflict              12   another process committed first; a retry can help
    ├── StorageFailure        20   the store did not answer; says nothing about existence
    │   ├── PermissionDenied  21   the store answered: not allowed
    │   ├── StorageFull       23   the disk or the quota has no room left
    │   └── ReportFailure     24   everything is done, but its report could not be written
    └── CorruptData           22   the store answered with bytes that are not a Lance dataset

"Absent" (NotFound) and "unreachable" (StorageFailure) are never converted into one another: a caller that reads a
network fault as "does not exist" creates a second dataset over the first.

The number is the exit code that jobs and command lines return.
"""

from __future__ import annotations

from typing import Any

from lance_spark.hints import Language, said


class LanceSparkError(Exception):
    """Root of the tree: a message that states the problem and, if possible, a hint that states the remedy."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The message, then the Python hint on its own line."""
        return self.told("python")

    def told(self, language: Language, catalog: str | None = None, table: str | None = None) -> str:
        """Message and hint for a user of that language; see :mod:`lance_spark.hints`."""
        return f"{self.message}\n  hint: {said(self.hint, language, catalog, table)}" if self.hint else self.message


class LanceSparkWarning(UserWarning):
    """The answer is right, but something about the data is worth knowing."""


class InvalidOption(LanceSparkError, ValueError):
    """An option or argument is unknown, malformed or contradicts another one."""

    exit_code = 2


class InvalidName(InvalidOption):
    """A branch or tag name breaks a rule of the branch and tag specification."""


class NoSuchName(InvalidOption, AttributeError):
    """An object has no attribute of that name; the hint says what does the same here."""


class WrongArguments(InvalidOption, TypeError):
    """A verb got an argument that it does not take, or one of another kind, or too few; the hint is a call."""


class Refused(LanceSparkError):
    """The operation is well-formed but would lose data, strand files or write to something immutable."""

    exit_code = 3


class NotCommittable(Refused):
    """A change from another version cannot be one commit here.

    pylance has no operation for it, or the versions that define the change are gone. A caller with a fallback, such as
    one version at a time, catches this error only; other refusals propagate.
    """


class NotInstalled(LanceSparkError, ModuleNotFoundError):
    """An optional package is not installed: PySpark, or torch. Nothing was changed."""

    exit_code = 4

    @staticmethod
    def spark(module: str | None, otherwise: str = "") -> NotInstalled:
        """The error of what needs Spark, if this module of it was not found; ``otherwise`` ends the hint."""
        hint = (
            "pip install 'lance-spark[spark]', or 'lance-spark[connect]' for a client of Spark Connect without Java; "
            "on a cluster with its own Spark, run it with spark-submit."
        )
        return NotInstalled(f"This needs Spark, and Python finds no module '{module}'.", hint + otherwise)


class SchemaMismatch(LanceSparkError, ValueError):
    """A column is missing, unknown, or has a type or value that the other side cannot hold exactly."""

    exit_code = 5


class NotFound(LanceSparkError, LookupError):
    """The store was reached, and the dataset, branch, tag, version or column does not exist."""

    exit_code = 10


class AlreadyExists(LanceSparkError):
    """A dataset, branch or tag of that name already exists."""

    exit_code = 11


class Conflict(LanceSparkError):
    """A concurrent commit cannot be combined with this one; this commit changed nothing."""

    exit_code = 12
    conflicts: tuple[Any, ...] = ()
    """Of a merge or another replay: what clashes, each a ``MergeConflict`` with the rows that both sides changed."""


class StorageFailure(LanceSparkError):
    """The store could not be reached or failed; whether the object exists is unknown."""

    exit_code = 20


class PermissionDenied(StorageFailure):
    """The store refused access with the credentials given."""

    exit_code = 21
    missing: str | None = None
    """The missing permission and its place, ``s3:PutObject on s3://bucket/x.lance/_refs/tags/``; None if the store did
    not report it."""
    before_commit = False
    """Whether the files or the manifest of a version could not be written: that version was never committed."""
    of_change = False
    """Whether a write or delete was denied, rather than a read."""

    def saying(self, outcome: str) -> PermissionDenied:
        """The same error plus the outcome of the operation; only the first outcome is kept."""
        if self._outcome:
            return self
        made = self.reworded(f"{self.message} {outcome}", self.hint)
        made._outcome = True
        return made

    def reworded(self, message: str, hint: str | None) -> PermissionDenied:
        """The same denial with another message."""
        made = PermissionDenied(message, hint)
        made.missing, made.before_commit, made.of_change = self.missing, self.before_commit, self.of_change
        return made

    _outcome = False


class StorageFull(StorageFailure):
    """The disk is full, or the quota on it is used up."""

    exit_code = 23


class ReportFailure(StorageFailure):
    """A job did its work, and its report, metrics or memory could not be written."""

    exit_code = 24


def may_have_happened(failure: LanceSparkError) -> bool:
    """Whether a failed operation might still have been committed: perhaps only the answer to its request was lost."""
    denied = isinstance(failure, PermissionDenied) and failure.before_commit
    return isinstance(failure, StorageFailure) and not denied


class CorruptData(LanceSparkError):
    """A manifest, reference or data file was read but cannot be understood."""

    exit_code = 22
