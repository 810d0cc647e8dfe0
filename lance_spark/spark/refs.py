"""``table.branches`` and ``table.tags``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of, to_span
from lance_spark.core.refs import Branch, RefSpec, Tag, branch_or_none
from lance_spark.core.show import Card, Shown
from lance_spark.core.table_options import parse_ref
from lance_spark.engine.session_spark import Progressing, check_places, engine_of
from lance_spark.errors import Conflict, InvalidOption, NotFound, Refused
from lance_spark.log.log import look_at_branches, look_at_remotes, look_at_tags
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import ExpiryOptions
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs import refs as branch_actions
from lance_spark.refs import refs as tag_actions
from lance_spark.refs.reflog import DEFAULT_COUNT, list_changes, restore_branch, restore_tag
from lance_spark.refs.refs import alter_branch, alter_tag, check_settings
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import PushOptions, push
from lance_spark.session.caches import refreshing
from lance_spark.storage import refs
from lance_spark.storage.commits import ORIGIN, known_remotes, unchanged
from lance_spark.storage.resolving import dataset_at, resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from lance_spark.core.reflog import RefLog
    from lance_spark.core.refs import BranchSettings, Lifetime, TagSettings
    from lance_spark.maintenance.expiry_rules import ExpiryPlan, ExpiryReport
    from lance_spark.merge.report import MergeResult
    from lance_spark.remotes.report import FetchResult, PullResult, PushResult


@dataclass(frozen=True, repr=False)
class Branches(Shown):
    """The branches of a dataset."""

    location: DatasetLocation
    spark: SparkSession | None

    def list(self, all: bool = False) -> list[Branch]:
        """The branches except for main, by name; with ``all`` also the plans of frozen sets."""
        return branch_actions.list_branches(self.location, all)

    def create(
        self,
        name: str,
        branch: str | None = None,
        tag: str | None = None,
        version: int | None = None,
        **settings: Unpack[BranchSettings],
    ) -> Branch:
        """Create a branch from a branch, tag or version; from the newest version of main by default.

        ``settings`` are those of :meth:`alter`. Raises InvalidName with the broken rule, AlreadyExists, NotFound.
        """
        check_settings(settings)
        made = branch_actions.create_branch(self.location, name, spec_of(branch=branch, tag=tag, version=version))
        if not settings:
            return made
        alter_branch(self.location, name, settings)
        return branch_actions.find_branch(self.location, name) or made

    def alter(self, name: str, unset: str | Sequence[str] = (), **settings: Unpack[BranchSettings]) -> Lifetime:
        """Change how long a branch lives and who may write to it; returns what holds then. "main" is a name, too.

        ``expire_after`` is a span (``"30d"``, a timedelta) from the newest version to when
        :meth:`LanceTable.expire_refs` deletes the branch; ``retain_versions`` how many versions every cleanup keeps;
        ``owner`` a text. A ``protected`` branch takes merges and upkeep only, and is not deleted. What is left out
        stays; ``unset`` removes settings by name.
        Raises InvalidOption, NotFound, and Refused for main, which cannot expire.
        """
        with unchanged():
            return alter_branch(self.location, branch_or_none(name), settings, unset)

    def delete(self, name: str, keep_files: bool = False) -> None:
        """Delete a branch and its own files. Refused while another branch or a tag needs it, or it is protected.

        Its files go at once, and nothing can be restored, unlike after ``lance-git branch -d``. With ``keep_files``
        they stay until :meth:`LanceTable.expire_refs` takes them, a week later by default, and :meth:`restore` brings
        the branch back until then.
        """
        (branch_actions.set_aside_branch if keep_files else branch_actions.delete_branch)(self.location, name)

    def restore(self, name: str) -> Branch:
        """Bring back a branch that was deleted with its files kept.

        Raises AlreadyExists if it is there, NotFound if nothing of it is left, Refused if files that it reads are gone.
        """
        restore_branch(self.location, name)
        found = branch_actions.find_branch(self.location, name)
        if found is None:
            raise Conflict(f"Branch '{name}' was deleted again a moment ago.")
        return found

    @refreshing
    def merge(  # noqa: PLR0913 - git's words, of which most calls take one
        self,
        name: str,
        into: str | None = None,
        ff_only: bool = False,
        reference: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        *,
        progress: Progressing = None,
    ) -> MergeResult:
        """Merge a branch into another one (main by default), as one version; executors copy many files.

        Only files that the branch itself wrote are copied; with ``reference`` none is, and the branch cannot be
        deleted. ``progress`` is a function that is told how far it is. Raises Conflict, naming what clashes, Refused
        and NotFound; then nothing was changed.
        """
        options = MergeOptions(ff_only=ff_only, reference=reference, dry_run=dry_run, message=message)
        source = resolve(self.location, spec_of(branch=name))
        engine = engine_of(self.spark, progress=progress)
        return merge(self.location, source, branch_or_none(into), options, engine)

    def _card(self) -> Card:
        return look_at_branches(type(self).__name__, self.location)


@dataclass(frozen=True, repr=False)
class Tags(Shown):
    """The tags of a dataset."""

    location: DatasetLocation

    def list(self, all: bool = False) -> list[Tag]:
        """The tags, by name; with ``all`` also those that clones, merges, streams and frozen sets need."""
        return tag_actions.list_tags(self.location, all)

    def create(
        self, name: str, branch: str | None = None, version: int | None = None, **settings: Unpack[TagSettings]
    ) -> None:
        """Tag a version; the newest of the branch (main by default) where no version is given.

        ``settings`` are those of :meth:`alter`. Raises InvalidName with the broken rule, NotFound, and AlreadyExists:
        tags never move silently.
        """
        check_settings(settings, tag=True)
        tag_actions.create_tag(self.location, name, spec_of(branch=branch, version=version))
        if settings:
            alter_tag(self.location, name, settings)

    def alter(self, name: str, unset: str | Sequence[str] = (), **settings: Unpack[TagSettings]) -> Lifetime:
        """Change how long a tag lives; returns what holds then.

        ``expire_after`` is a span (``"30d"``, a timedelta) after the tag was made or moved, ``owner`` a text. What is
        left out stays; ``unset`` removes settings by name. Raises InvalidOption, NotFound and Refused.
        """
        with unchanged():
            return alter_tag(self.location, name, settings, unset)

    def move(self, name: str, branch: str | None = None, version: int | None = None) -> None:
        """Point an existing tag at another version. Raises NotFound, and Refused for one that something relies on."""
        tag_actions.move_tag(self.location, name, spec_of(branch=branch, version=version))

    def delete(self, name: str, force: bool = False) -> None:
        """Delete a tag. Raises NotFound, and Refused for a tag of a frozen set: :meth:`LanceTable.unfreeze` does that.

        Tags that clones, merges and streams need are refused as well, unless ``force`` says that these are over.
        """
        tag_actions.delete_tag(self.location, name, force)

    def restore(self, name: str) -> None:
        """Put a tag back to where it was before it was moved or deleted last.

        Raises NotFound if no record tells or the version is gone, AlreadyExists for a deleted tag that was made again,
        and Refused for one that something else moved since.
        """
        restore_tag(self.location, name)

    def _card(self) -> Card:
        return look_at_tags(type(self).__name__, self.location)


def spec_of(
    branch: str | None = None,
    tag: str | None = None,
    version: int | None = None,
    as_of: str | datetime | None = None,
) -> RefSpec:
    """Arguments as a spec, through the same checks as the options."""
    moment = as_of if isinstance(as_of, str) or as_of is None else as_of.isoformat()
    given = {"branch": branch_or_none(branch), "tag": tag, "version": version, "asOf": moment}
    return parse_ref({name: str(value) for name, value in given.items() if value is not None})


def moving_branch(ref: RefSpec, what: str) -> str | None:
    """The branch, None for main. Raises Refused for a handle that stands still; ``what`` could not be done then."""
    if (ref.tag, ref.version, ref.as_of) != (None, None, None):
        raise Refused(
            f"This handle stands at a tag or version: there is nothing to {what}.",
            hint="Use the handle of a branch: checkout(branch=...).",
        )
    return ref.branch


# --- ``t.expire_refs()`` and ``t.reflog()``: refs that have come to their end, and what they pointed at before


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


# --- ``table.remotes``: what a dataset gets from another place with the same history, and gives to it


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
