"""Whether a statement may commit on top of what others committed since it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lance_spark.core.isolation import ISOLATION, SERIALIZABLE, isolation_level
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict, InvalidOption
from lance_spark.format.transactions import Transaction
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.versions import read_transactions
from lance_spark.write.isolation_rules import changing, replacing, undone
from lance_spark.write.plan_rules import WriteJob

AGAIN = "Run it again. If it reads a DataFrame that was made before, make that again first."


def is_serializable(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether a table's property, as of a version, demands that its statements be serializable.

    A value that is no level counts: somebody asked for more than the default.
    """
    value = open_pinned(location, pin).metadata.get(ISOLATION)
    try:
        return isolation_level(value) == SERIALIZABLE
    except InvalidOption:
        return True


def check_columns(location: DatasetLocation, before: PinnedVersion, now: PinnedVersion) -> None:
    """Raise Conflict if an overwrite that was planned with one version would take back the columns of another one."""
    change = undone(open_pinned(location, before).schema, open_pinned(location, now).schema)
    if change is not None:
        raise Conflict(
            f"Since version {before} of {location.uri}, with which the overwrite was planned, {change}; the overwrite "
            "would take that back. Nothing was changed.",
            hint="Run it again.",
        )


def gone(location: DatasetLocation, pin: PinnedVersion) -> Conflict:
    """The error if what others committed since a version is unknown."""
    return Conflict(
        f"Version {pin} of {location.uri}, which the statement read, was cleaned up, so what was committed since is "
        "unknown. Nothing was changed.",
        hint=AGAIN,
    )


@dataclass
class Since:
    """The commits of others on a branch since a statement began. Each is looked at once, however often it retries."""

    location: DatasetLocation
    start: PinnedVersion
    """The version with which it began."""
    _known: dict[int, Transaction | None] = field(default_factory=dict)

    def check_rows(self, head: PinnedVersion) -> None:
        """Raise Conflict if rows or columns changed, or may have."""
        versions = self._look(head)
        changed = changing(self._known, versions)
        if changed is not None:
            raise Conflict(
                f"Version {self._shown(changed)} of {self.location.uri} was committed since version {self.start} was "
                "read, and changed rows or columns that the statement did not see. Nothing was changed.",
                hint=AGAIN,
            )

    def check_overwrite(self, head: PinnedVersion) -> None:
        """Raise Conflict if somebody replaced the whole table, or changed columns."""
        versions = self._look(head)
        replaced = replacing(self._known, versions)
        if replaced is not None:
            raise Conflict(
                f"Version {self._shown(replaced)} of {self.location.uri}, a concurrent commit since version "
                f"{self.start}, replaced the whole table too. Nothing was changed.",
                hint=AGAIN,
            )
        if versions:
            check_columns(self.location, self.start, head)

    def _look(self, head: PinnedVersion) -> Sequence[int]:
        versions = range(self.start.version + 1, head.version + 1)
        unknown = [version for version in versions if version not in self._known]
        found: Mapping[int, Transaction | None] = (
            read_transactions(self.location, head.branch, unknown) if unknown else {}
        )
        if len(found) < len(unknown):
            raise gone(self.location, PinnedVersion(head.branch, min(set(unknown) - found.keys())))
        self._known.update(found)
        return versions

    def _shown(self, version: int) -> str:
        made = self._known[version]
        return f"{PinnedVersion(self.start.branch, version)} ({'unknown' if made is None else made.operation})"


def checks_rows(job: WriteJob, head: PinnedVersion) -> bool:
    """Whether a write must not go on top of rows that it did not see.

    An overwrite of rows that come from its target always: it would take back what it did not read. Where that is
    unknown, and for appends, the level decides.
    """
    plan = job.plan
    overwrites = plan.mode == "overwrite"
    if plan.options.isolation_level is not None:
        return plan.options.isolation_level == SERIALIZABLE or bool(overwrites and plan.reads)
    if overwrites and plan.reads:
        return True
    may_read = plan.reads is None if overwrites else bool(plan.reads)
    return may_read and is_serializable(plan.location, head)
