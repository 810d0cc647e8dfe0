"""``lake.branches`` and ``lake.tags``: branches and tags of a whole catalog, and publishing branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Some
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lance_spark.catalog import lake as lake_actions
from lance_spark.catalog.lake_rules import BRANCH, TAG, LakeRef
from lance_spark.catalog.name_rules import Catalog, Name
from lance_spark.core.location import DatasetLocation
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.texts import counted, moment
from lance_spark.core.words import ASKED_OF_COLLECTIONS, OF_LAKE_BRANCHES, Hinting
from lance_spark.engine.session_spark import RunOn, engine_of, session_or_none
from lance_spark.lake import branches
from lance_spark.lake.deleted import restore_ref
from lance_spark.lake.report import LakeDiff, Publish
from lance_spark.merge.option_rules import Prefer, PublishOptions
from lance_spark.session.caches import refresh
from lance_spark.spark import at_server_rules
from lance_spark.spark.refs import Collection, tells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self, Unpack

    from lance_spark.core.lifetimes import BranchSettings, Lifetime


class LakeHandle(Protocol):
    """A ``LanceCatalog``, as far as its branches need it."""

    catalog: Catalog
    _spark: SparkSession | None

    def _on(self, catalog: Catalog) -> Self:
        """The same on another branch."""


_Lake = TypeVar("_Lake", bound=LakeHandle)


def published(lake: LakeHandle, found: branches.PublishReport) -> Publish:
    """The report; the session reads the changed tables again."""
    for path in found.changed:
        of_service = lake.catalog.service is not None
        refresh(session_or_none(lake._spark), DatasetLocation.at(path) if of_service else lake.catalog.at(path))
    return found.report


@tells(at_server_rules.LAKE_TAGS)
@dataclass(frozen=True, repr=False)
class LakeTags(Shown, Hinting, Collection[LakeRef]):
    """The tags of a whole lake: ``for tag in lake.tags``, ``"2026-11-23" in lake.tags``."""

    _kind, _typed, _asked = "tag of the lake", "lake.tags", ASKED_OF_COLLECTIONS
    catalog: Catalog
    _spark: SparkSession | None = None

    def list(self) -> list[LakeRef]:
        """The tags, by name; also those whose creation or deletion was interrupted, which can only be deleted."""
        return lake_actions.list_refs(self.catalog, TAG)

    def create(self, name: str) -> LakeRef:
        """Pin the newest version of every table, under a name. It copies nothing.

        The pinned versions are kept by every cleanup, until the tag is deleted. The tables are looked at one after the
        other, many at once: a table that another job writes meanwhile is pinned before or after its commit. Publishes
        are in all tables or in none: an unfinished one is ended first, one that begins meanwhile is left out. Raises
        InvalidName, AlreadyExists, and Refused for a catalog without ``__manifest`` (V1), on a branch or at a tag.
        """
        return branches.create_tag(self.catalog, name, engine_of(self._spark))

    def delete(self, name: str) -> None:
        """Delete a tag. The next cleanup of a table removes a version that nothing else keeps. Raises NotFound."""
        lake_actions.delete_ref(self.catalog, TAG, name)

    def restore(self, name: str) -> LakeRef:
        """Restore a tag that was deleted within the last week, if all its versions still exist.

        Raises NotFound if none can be restored, AlreadyExists, and Refused with the tables of which a version is gone;
        then nothing was changed.
        """
        return restore_ref(self.catalog, TAG, name)

    def _card(self) -> Card:
        return _card(type(self).__name__, self.catalog, TAG, self.list())


@tells(at_server_rules.LAKE_BRANCHES)
@dataclass(frozen=True, repr=False)
class LakeBranches(Shown, Hinting, Collection[LakeRef], Generic[_Lake]):
    """The branches of a whole lake: ``for branch in lake.branches``, ``"etl/nightly" in lake.branches``."""

    _kind, _typed = "branch of the lake", "lake.branches"
    _words, _asked = OF_LAKE_BRANCHES, ASKED_OF_COLLECTIONS
    lake: _Lake

    def list(self) -> list[LakeRef]:
        """The branches except for main, by name; also those whose creation or deletion was interrupted."""
        return lake_actions.list_refs(self.lake.catalog, BRANCH)

    def create(self, name: str, tables: Some[Name] | None = None, **settings: Unpack[BranchSettings]) -> LakeRef:
        """Branch every table of the lake, or the ``tables`` and namespaces that are named. It copies nothing.

        Whoever reads the branch sees the versions that are the newest now; every cleanup keeps them until the branch is
        deleted. Tables outside of ``tables`` follow main until they are first changed on the branch. ``settings`` are
        those of :meth:`alter`. Raises InvalidName, AlreadyExists, NotFound for an unknown table, InvalidOption, and
        Refused for a catalog without ``__manifest`` (V1), on another branch or at a tag.
        """
        return branches.create_branch(self.lake.catalog, name, engine_of(self.lake._spark), tables, settings)

    def alter(self, name: str, unset: str | Sequence[str] = (), **settings: Unpack[BranchSettings]) -> Lifetime:
        """Change a branch's lifetime, owner and protection, as ``t.branches.alter`` does; returns its settings.

        Raises InvalidOption and NotFound.
        """
        return branches.alter_branch(self.lake.catalog, name, settings, unset)

    def diff(self, name: str) -> LakeDiff:
        """What the branch changed since it began, or since its last merge, by table: rows, columns, names.

        The numbers of rows are those of the manifests: rewritten rows count as removed and added. Raises NotFound.
        """
        return branches.diff_branch(self.lake.catalog, name, engine_of(self.lake._spark))

    def merge(
        self,
        name: str,
        audit: Callable[[_Lake], bool] | None = None,
        message: str | None = None,
        dry_run: bool = False,
        run_on: RunOn = "auto",
        *,
        prefer: str | Mapping[str, str] | None = None,
    ) -> Publish:
        """Merge a branch into main: all its tables, or none; with new, dropped and renamed tables, and properties.

        Files are copied first. Then ``audit`` gets the whole lake as it will be, with main's newest commits; if it
        returns False, nothing is published. The commits follow, side by side: only between the first and the last of
        them can a reader of main see some tables new and some old; ``checkout(published=True)`` never does. If the
        process dies in between, the next publish, or ``recover``, ends the work. The branch remains, and can be merged
        again with what is written to it later.

        ``prefer`` is that of a merge, for every table: whose value is taken where main and the branch changed the same.

        With ``dry_run`` nothing is written; the result names conflicts by table. Raises Conflict, which names them too,
        Refused for a failed audit and for a new table without data; then no table has the changes. Raises NotFound.
        """
        lake, options = self.lake, PublishOptions(message, dry_run, Prefer.of(prefer))
        check = None if audit is None else lambda merged: audit(lake._on(merged))
        return published(
            lake, branches.merge_branch(lake.catalog, name, engine_of(lake._spark, run_on), options, check)
        )

    def delete(self, name: str, purge: bool = False) -> None:
        """Delete a branch, with its changes that were not merged. Raises NotFound, and Refused if it is protected.

        Its rows and the branches of tables that have its changes are kept for a week, in which :meth:`restore` restores
        it; with ``purge`` they are deleted at once. An unfinished publish is ended first.
        """
        branches.delete_branch(self.lake.catalog, name, engine_of(self.lake._spark), purge)

    def restore(self, name: str) -> LakeRef:
        """Restore a branch that was deleted within the last week, with its changes.

        Versions of main that only it kept are up to cleanups since then. Raises NotFound if none can be restored,
        AlreadyExists, and Refused with the tables of which something is gone; then nothing was changed.
        """
        return restore_ref(self.lake.catalog, BRANCH, name)

    def _card(self) -> Card:
        return _card(type(self).__name__, self.lake.catalog, BRANCH, self.list())


def _card(what: str, catalog: Catalog, kind: str, refs: Sequence[LakeRef]) -> Card:
    counts = counted(len(refs), kind, "branches" if kind == BRANCH else "tags")
    header = (kind, "tables", "made", "settings")[: 4 if kind == BRANCH else 3]  # a tag has no settings
    rows = (
        (ref.name, f"{ref.tables:,}" if ref.ready else "incomplete", moment(ref.created_at), str(ref.lifetime))
        for ref in refs
    )
    return Card(what, catalog.uri, counts, grids=(Grid(header, tuple(row[: len(header)] for row in rows)),))
