"""``t.expire_refs()`` and ``t.reflog()``: refs that have come to their end, and what they pointed at before."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lance_spark.actions.expiry import carry_out, plan_expiry
from lance_spark.actions.reflog import DEFAULT_COUNT, list_changes
from lance_spark.options.text import to_span
from lance_spark.refs.expiry_plan import ExpiryOptions

if TYPE_CHECKING:
    from lance_spark.location import DatasetLocation
    from lance_spark.refs.expiry_plan import ExpiryPlan, ExpiryReport
    from lance_spark.refs.reflog import RefLog


class RefVerbs:
    """Verbs of a table about the life of its refs."""

    location: DatasetLocation

    def expire_refs(
        self, dry_run: bool = True, force: bool = False, warn: str | timedelta = "7d"
    ) -> ExpiryPlan | ExpiryReport:
        """Delete branches and tags whose ``expire_after`` is over; by default only say what would happen.

        A ref is warned of first: the end and the warning period ``warn`` must both be over. Branches with changes that
        neither main nor their parent has stay, unless ``force``; so do protected ones, and what another ref or a clone
        needs. Returns the plan, or with ``dry_run=False`` a report that has the plan. Raises InvalidOption, CorruptData
        for a ref that cannot be understood, and StorageFailure.
        """
        now = datetime.now(timezone.utc)
        span = warn if isinstance(warn, timedelta) else to_span("warn", warn)
        plan = plan_expiry(self.location, now, ExpiryOptions(span, force=force))
        return plan if dry_run else carry_out(self.location, plan, now)

    def reflog(self, ref: str | None = None, count: int | None = DEFAULT_COUNT) -> RefLog:
        """What a branch or tag pointed at before: versions, moves, deletions; without a name, all recorded changes.

        ``count`` is how many versions of a branch are listed, the newest; None for all. Tags and deleted branches are
        known as far back as this package recorded their changes. Raises NotFound, CorruptData.
        """
        return list_changes(self.location, ref, count)
