"""The verbs of a table that compact it, and make it depend on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lance_spark.actions.flatten import flatten
from lance_spark.actions.optimize import optimize
from lance_spark.compaction.model import OptimizeOptions
from lance_spark.compaction.ordering import ordering_of
from lance_spark.location import DatasetLocation
from lance_spark.spark.engines import engine_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_spark.compaction.flattening import FlattenResult
    from lance_spark.compaction.model import OptimizeProgress, OptimizeResult


class OptimizeVerb:
    """Compaction of the handle's branch."""

    spark: SparkSession | None
    location: DatasetLocation

    def optimize(  # noqa: PLR0913 - eight words of which most calls take one
        self,
        target_rows: int = 1_000_000,
        where: str | None = None,
        own_only: bool | None = None,
        sort_by: Sequence[str] | str | None = None,
        partial_progress: int = 10,
        dry_run: bool = False,
        *,
        zorder: Sequence[str] | str | None = None,
        progress: Callable[[OptimizeProgress], object] | None = None,
    ) -> OptimizeResult:
        """Rewrite small fragments, and those with many deleted rows, into fragments of ``target_rows`` rows.

        No row changes, rows keep their order, and indexes follow. ``where`` (Lance SQL) takes only fragments with a row
        that it is true for. A branch or shallow clone leaves alone what it inherited; ``own_only=False`` copies that,
        too, and the indexes on it. There are at most ``partial_progress`` commits; each rewrites the indexes that cover
        its fragments. Whoever was killed calls it again. ``dry_run`` only plans: see ``plan`` of the result.
        ``progress`` is a function that is told how far it is after each commit.

        ``sort_by`` and ``zorder`` give the rows another order, by columns or along a z-curve through several of them,
        in one commit. Fragments whose order is good are left alone. Stable row ids stay. Indexes on columns that do not
        follow are named in ``uncovered`` of the result, which says in ``depth`` how much the order helps.

        Commits made meanwhile are kept. Fragments that they changed are planned again once, then named in the result's
        ``conflicts``. Raises InvalidOption, Refused at a tag or version, Conflict, StorageFailure.
        """
        order = ordering_of(sort_by, zorder)
        options = OptimizeOptions(target_rows, where, own_only, partial_progress, dry_run, order, progress)
        return optimize(self.location, self._moving_branch("optimize"), options, engine_of(self.spark))

    def flatten(self) -> FlattenResult:
        """Copy all files that the branch or clone reads in other places, so that its newest version depends on none.

        No row changes; older versions still read what they did. Raises Refused at a tag or version, and for files that
        were named by hand, CorruptData, Conflict, StorageFailure.
        """
        return flatten(self.location, self._moving_branch("flatten"), engine_of(self.spark))

    def _moving_branch(self, what: str) -> str | None:
        """The handle's own."""
        raise NotImplementedError
