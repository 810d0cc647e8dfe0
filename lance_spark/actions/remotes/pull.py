"""Pull: fetch a branch of a remote, and merge it into one of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance_spark.actions.merge import MergeOptions, merge
from lance_spark.actions.remotes.fetch import FetchOptions, fetch
from lance_spark.actions.remotes.following import Remote
from lance_spark.actions.remotes.result import FetchResult
from lance_spark.location import DatasetLocation
from lance_spark.replay.plan import MergeResult
from lance_spark.replay.tracking import following_name
from lance_spark.store.datasets import pin_latest


@dataclass(frozen=True)
class PullResult:
    """What a pull brought."""

    fetched: FetchResult
    merged: MergeResult

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {"action": "pull", "fetch": self.fetched.as_record(), "merge": self.merged.as_record()}


def pull(
    local: DatasetLocation, remote: Remote, branch: str | None, into: str | None, options: MergeOptions | None = None
) -> PullResult:
    """Fetch one branch of a remote and merge it into a local one (None is main for both).

    With ``dry_run`` it fetches, which changes no branch of the user's, and does not merge. Raises as fetch and merge
    do.
    """
    wanted = options or MergeOptions()
    fetched = fetch(local, remote, FetchOptions(branches=[branch]))
    head = pin_latest(local, following_name(remote.name, branch))
    return PullResult(fetched, merge(local, head, into, wanted))
