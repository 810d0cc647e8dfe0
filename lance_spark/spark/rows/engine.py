"""One engine for all changes of rows: executors write, the driver commits one version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.result import ChangeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class RowChange:
    """A change of rows of a branch, as its producer describes it."""

    location: DatasetLocation
    branch: str | None
    """None for main."""
    verb: str
    """What a user called; see lance_spark.rows.model. A "delete" has no updates and inserts in its frames."""
    actions: Callable[[PinnedVersion], DataFrame]
    """The action frame of a version, see lance_spark.rows.model. It is called again for each retry."""
    meets: Callable[[PinnedVersion, Sequence[int]], bool] | None = None
    """Whether the change would have deleted, updated or matched rows of fragments that were added meanwhile. None if
    it never would."""
    inserts_by_key: bool = False
    """Whether rows that others only append have to be looked at as well, as a merge that inserts must."""
    key: tuple[str, ...] = ()
    """Columns that tell rows apart, for errors."""


def change_rows(
    spark: SparkSession, change: RowChange, message: str | None = None, retries: int = 0
) -> ChangeResult:
    """Compute a change of rows on executors, and commit it as one version.

    Commits made meanwhile are kept. Where they changed the same rows the result is a Conflict, or the change is
    computed again on the newest version, up to ``retries`` times. Raises Refused where two source rows change one
    row, SchemaMismatch, NotFound and Conflict; then nothing was changed. Only after a StorageFailure of the commit it
    is not certain whether it happened.
    """
    raise NotImplementedError
