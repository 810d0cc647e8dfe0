"""``table.branches`` and ``table.tags``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_spark.actions import branches as branch_actions
from lance_spark.actions import tags as tag_actions
from lance_spark.actions.denied import unchanged
from lance_spark.actions.glance import look_at_branches, look_at_tags
from lance_spark.actions.lifetimes import alter_branch, alter_tag, check_settings
from lance_spark.actions.merge.merge import MergeOptions, merge
from lance_spark.actions.reflog import restore_branch, restore_tag
from lance_spark.actions.resolve import resolve
from lance_spark.errors import Conflict, Refused
from lance_spark.location import DatasetLocation
from lance_spark.options.read import parse_ref
from lance_spark.refs.model import Branch, RefSpec, Tag
from lance_spark.refs.names import branch_or_none
from lance_spark.show.card import Card, Shown
from lance_spark.spark.caches import refreshing
from lance_spark.spark.engines import Progressing, engine_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from lance_spark.merge.result import MergeResult
    from lance_spark.refs.lifetime import BranchSettings, Lifetime, TagSettings


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
