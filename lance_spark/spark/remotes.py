"""``table.remotes``: what a dataset gets from another place with the same history, and gives to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_spark.actions.glance import look_at_remotes
from lance_spark.actions.merge.merge import MergeOptions
from lance_spark.actions.sync.fetch import FetchOptions, fetch
from lance_spark.actions.sync.pull import pull
from lance_spark.actions.sync.push import PushOptions, push
from lance_spark.actions.sync.tracking_branches import Remote
from lance_spark.actions.sync.write_guards import ORIGIN, known_remotes
from lance_spark.actions.target import dataset_at
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.options.text import names_of
from lance_spark.refs.model import RefSpec
from lance_spark.refs.names import branch_or_none
from lance_spark.show.card import Card, Shown
from lance_spark.spark.caches import refreshing
from lance_spark.spark.engines import Progressing, engine_of
from lance_spark.spark.refs import moving_branch
from lance_spark.spark.session import check_places
from lance_spark.store import refs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_spark.actions.sync.result import FetchResult, PullResult, PushResult


@dataclass(frozen=True, repr=False)
class Remotes(Shown):
    """The remotes of a dataset. A remote is named by its URI, or by the name under which it was fetched before.

    Branch ``b`` of remote ``origin`` is followed by the local branch ``origin/b``, which only a fetch writes to. A
    remote that needs storage options of its own is made with :meth:`at`.
    """

    location: DatasetLocation
    spark: SparkSession | None
    ref: RefSpec

    def list(self) -> dict[str, str]:
        """URIs of the remotes that were fetched from, by name."""
        return known_remotes(refs.read_refs(self.location))

    def at(self, uri: str, name: str | None = None, storage_options: Mapping[str, str] | None = None) -> Remote:
        """The remote at a URI. Without a name it is the one under which it was fetched before, or origin.

        Raises InvalidOption for a name that belongs to another URI. Without storage options it is opened with those of
        this table.
        """
        check_places(self.spark, uri)
        options = self.location.storage_options if storage_options is None else storage_options
        location = dataset_at(uri, options)
        known = self.list()
        same = [other for other, there in known.items() if dataset_at(there, options).uri == location.uri]
        chosen = name or (same[0] if same else ORIGIN)
        if chosen in known and chosen not in same:
            raise InvalidOption(
                f"Remote '{chosen}' is {known[chosen]}, not {location.uri}.",
                hint="Give the new one another name: table.remotes.at(uri, name=...).",
            )
        return Remote(chosen, location)

    @refreshing
    def fetch(
        self, remote: str | Remote = ORIGIN, branches: str | Sequence[str] | None = None, dry_run: bool = False
    ) -> FetchResult:
        """Bring the branches that follow a remote's to what it has now; all, or those whose names are given.

        Metadata only: data files stay where they are. Raises NotFound, StorageFailure, Refused.
        """
        names = None if branches is None else [branch_or_none(branch) for branch in names_of(branches)]
        options = FetchOptions(branches=names, dry_run=dry_run)
        return fetch(self.location, self._remote(remote), engine_of(self.spark), options)

    @refreshing
    def pull(
        self,
        remote: str | Remote = ORIGIN,
        branch: str | None = None,
        message: str | None = None,
        ff_only: bool = False,
        dry_run: bool = False,
        *,
        progress: Progressing = None,
    ) -> PullResult:
        """Fetch a branch and merge it into this handle's, by default from the one of the same name.

        With ``dry_run`` it fetches, and does not merge. ``progress`` is told how far it is. Raises Conflict, Refused
        and NotFound, as fetch and merge do.
        """
        into = moving_branch(self.ref, "pull into")
        source = into if branch is None else branch_or_none(branch)
        options = MergeOptions(ff_only=ff_only, dry_run=dry_run, message=message)
        return pull(
            self.location, self._remote(remote), source, into, engine_of(self.spark, progress=progress), options
        )

    def push(
        self,
        remote: str | Remote = ORIGIN,
        branch: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        *,
        progress: Progressing = None,
    ) -> PushResult:
        """Give a remote what a branch has, by default this handle's, as one version; executors copy many files.

        What is not there yet, the branch or the whole dataset, is created. ``progress`` is told how far it is. Raises
        Refused where the remote has versions that the branch has not: pull first; then nothing was changed.
        """
        pushed = moving_branch(self.ref, "push") if branch is None else branch_or_none(branch)
        options = PushOptions(message=message, dry_run=dry_run)
        return push(self.location, self._remote(remote), pushed, engine_of(self.spark, progress=progress), options)

    def _card(self) -> Card:
        return look_at_remotes(type(self).__name__, self.location)

    def _remote(self, remote: str | Remote) -> Remote:
        if isinstance(remote, Remote):
            return remote
        known = self.list()
        if remote in known:
            return self.at(known[remote], remote)
        if "/" not in remote:  # a misspelt name must not become a dataset in the working directory
            raise NotFound(f"There is no remote '{remote}'.", hint="Give its URI; for a path here write ./NAME.")
        return self.at(remote)
