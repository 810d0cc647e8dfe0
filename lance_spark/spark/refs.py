"""``table.branches``, ``table.tags``, ``table.remotes``, ``expire_refs``, ``reflog``; and what all handles share."""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.ref_expressions import from_handle
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import Branch, PinnedVersion, RefSpec, Tag
from lance_spark.core.show import Card, Shown
from lance_spark.core.table_options import parse_ref
from lance_spark.core.texts import meant, to_span
from lance_spark.core.words import (
    ASKED_OF_COLLECTIONS,
    ASKED_OF_REMOTES,
    CALLS_OF_BRANCHES,
    OF_BRANCHES,
    OF_REMOTES,
    OF_TAGS,
    Hinting,
)
from lance_spark.engine.session_spark import Progressing, check_places, engine_of, is_connect, session_or_none
from lance_spark.errors import Conflict, InvalidOption, NotFound, Refused, StorageFailure
from lance_spark.log.log import look_at_branches, look_at_remotes, look_at_tags
from lance_spark.maintenance.expiry import RefExpiryPlan, plan_expiry
from lance_spark.maintenance.expiry_rules import ExpiryOptions
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import CELLS, MergeOptions
from lance_spark.refs import refs as ref_actions
from lance_spark.refs.reflog import DEFAULT_COUNT, list_changes, restore_branch, restore_tag
from lance_spark.refs.refs import alter_branch, alter_tag, check_settings
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import PushOptions, push
from lance_spark.remotes.report import FetchResult, PullResult, PushedTag, PushResult
from lance_spark.remotes.reset import check_reset
from lance_spark.remotes.reset import reset as reset_to_remote
from lance_spark.remotes.tags import push_tag
from lance_spark.session.caches import refreshing
from lance_spark.spark import at_server_rules
from lance_spark.spark.at_server_rules import instead_of
from lance_spark.storage import refs
from lance_spark.storage.commits import unchanged
from lance_spark.storage.followers import ORIGIN, known_remotes
from lance_spark.storage.resolving import dataset_at
from lance_spark.storage.resolving import resolve as resolve_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self, Unpack

    from lance_spark.core.lifetimes import BranchSettings, Lifetime, TagSettings
    from lance_spark.core.records.reflog import RefLog
    from lance_spark.merge.report import MergeResult

Item = TypeVar("Item")
Kind = TypeVar("Kind", bound=type)
Answer = TypeVar("Answer")


# --- Handles of a client of Spark Connect without access to the store: what its server does, and what to type there


def is_served(spark: SparkSession | None) -> bool:
    """Whether a process beside the session's server reads natively, with the access that it has."""
    session = session_or_none(spark)
    if session is None or not is_connect(session):
        return False
    from lance_spark.connect import client

    return client.current(session) is not None


def here_or_there(spark: SparkSession | None, here: Callable[[], Answer], there: Callable[[], Answer]) -> Answer:
    """What this process reads itself; what the server reads, if the store does not answer a client that is served."""
    try:
        return here()
    except StorageFailure:
        if not is_served(spark):
            raise
        return there()


def tells(verbs: Mapping[str, str]) -> Callable[[Kind], Kind]:
    """A class whose verbs say what to type at the server, if the store does not answer a client of Spark Connect."""

    def telling(kind: Kind) -> Kind:
        for name, statement in verbs.items():
            found = inspect.getattr_static(kind, name)
            if isinstance(found, property):
                assert found.fget is not None
                setattr(kind, name, property(_telling(found.fget, statement)))
            elif inspect.isfunction(found):
                setattr(kind, name, _telling(found, statement))
        return kind

    return telling


def _telling(verb: Callable[..., Any], statement: str) -> Callable[..., Any]:
    @wraps(verb)
    def told(handle: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return verb(handle, *args, **kwargs)
        except StorageFailure as failure:
            given = vars(handle).get("spark", vars(handle).get("_spark"))
            session = session_or_none(given)
            if session is not None and is_connect(session) and not _of_server(failure):
                failure.hint = instead_of(statement)
            raise

    return told


def _of_server(failure: StorageFailure) -> bool:
    """Whether the server itself could not do it: then the error is one of PySpark's as well."""
    from pyspark.errors import PySparkException

    return isinstance(failure, PySparkException)


# --- ``table.branches`` and ``table.tags``


class Collection(ABC, Generic[Item]):
    """Things with names: iterate over them, ask for their number, whether there is one of a name, and for that one.

    Each of these reads the store again, because others may have changed it. The order is that of ``list()``.
    """

    _kind: ClassVar[str]
    """One of them, in errors."""

    def _named(self) -> Mapping[str, Item]:
        return {each.name: each for each in self.list()}  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._named().values())

    def __len__(self) -> int:
        return len(self._named())

    def __contains__(self, name: object) -> bool:
        return name in self._named()

    def __getitem__(self, name: str) -> Item:
        """The thing of that name. Raises NotFound."""
        named = self._named()
        if name not in named:
            raise NotFound(f"There is no {self._kind} '{name}'.", hint=meant(str(name), list(named)))
        return named[name]


@tells(at_server_rules.BRANCHES)
@dataclass(frozen=True, repr=False)
class Branches(Shown, Hinting, Collection[Branch]):
    """The branches of a dataset except for main: ``for branch in t.branches``, ``"exp" in t.branches``."""

    _kind, _typed = "branch", "t.branches"
    _words, _calls, _asked = OF_BRANCHES, CALLS_OF_BRANCHES, ASKED_OF_COLLECTIONS
    location: DatasetLocation
    spark: SparkSession | None
    ref: RefSpec = field(default_factory=RefSpec)
    """The handle's: verbs act on its branch, and start from its version."""

    def list(self, all: bool = False) -> list[Branch]:
        """The branches except for main, by name; with ``all`` also the plans of frozen sets, and those of the lake."""
        return ref_actions.list_branches(self.location, all)

    def create(
        self,
        name: str,
        branch: str | None = None,
        tag: str | None = None,
        version: int | None = None,
        **settings: Unpack[BranchSettings],
    ) -> Branch:
        """Create a branch from a branch, tag or version; by default from the version of the handle.

        A ``version`` without a branch is one of the handle's branch. ``settings`` are those of :meth:`alter`. Raises
        InvalidName with the broken rule, AlreadyExists, NotFound.
        """
        check_settings(settings)
        spec = start_of(self.location, self.ref, branch=branch, tag=tag, version=version)
        made = ref_actions.create_branch(self.location, name, spec)
        if not settings:
            return made
        alter_branch(self.location, name, settings)
        return ref_actions.find_branch(self.location, name) or made

    def alter(self, name: str, unset: str | Sequence[str] = (), **settings: Unpack[BranchSettings]) -> Lifetime:
        """Change a branch's lifetime, owner and protection; returns the resulting settings. "main" is valid.

        ``expire_after`` is a span (``"30d"``, a timedelta) from the newest version to when
        :meth:`LanceTable.expire_refs` deletes the branch; ``retain_versions`` how many versions every cleanup keeps;
        ``owner`` a text. A ``protected`` branch accepts only merges and upkeep, and cannot be deleted. Omitted settings
        stay; ``unset`` removes settings by name. Raises InvalidOption, NotFound, and Refused for main, which cannot
        expire.
        """
        with unchanged():
            return alter_branch(self.location, branch_or_none(name), settings, unset)

    def delete(self, name: str, purge: bool = False, force: bool = False) -> None:
        """Delete a branch. Refused while another branch or a tag needs it, or it is protected.

        Its files stay until :meth:`LanceTable.expire_refs` deletes them, a week later by default. Until then
        :meth:`restore` restores the branch. With ``purge`` they are deleted at once, for good. A branch that follows a
        remote's is always deleted at once: the next fetch creates it again. ``force`` deletes a branch ``lake/...``,
        with the changes that a branch of the whole lake made, in case that is gone.
        """
        ref_actions.remove_branch(self.location, name, purge, force)

    def restore(self, name: str) -> Branch:
        """Restore a branch that was deleted with its files kept.

        Raises AlreadyExists if it exists, NotFound if nothing of it is left, Refused if files that it reads are gone.
        """
        restore_branch(self.location, name)
        found = ref_actions.find_branch(self.location, name)
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
        conflicts: str = CELLS,
        on: str | Sequence[str] = (),
        *,
        prefer: str | Mapping[str, str] | None = None,
        resolve: Callable[[Any], Any] | None = None,
        progress: Progressing = None,
    ) -> MergeResult:
        """Merge a branch into the handle's, or into another one, as one version; executors copy many files.

        ``name`` may also name a version of it: ``"exp@7"`` merges what the branch had then.

        Rows that both sides changed are merged cell by cell, if they can be matched: by stable row ids, by the table's
        key, or by the columns ``on``. With ``conflicts="rows"`` they are a conflict.

        ``prefer`` settles what both sides changed, and nothing else: ``"ours"`` (this branch), ``"theirs"`` (the merged
        one), or by column, ``{"price": "theirs", "*": "ours"}``. A row that one side deleted goes with ``"*"``.

        ``resolve`` decides about the rest: a function that gets a ``pyarrow.Table`` of these rows with the columns
        ``_row``, those of the key, and the structs ``base``, ``ours`` and ``theirs``, null in a version that does not
        have the row. It returns a row for each, as a ``pyarrow.Table``, a pandas DataFrame or a list of dicts: ``_row``
        or the key, the columns to set, and ``_delete`` (bool) if rows may go; columns left out merge as they do
        otherwise. It runs in this process, in a dry run too, and again after a concurrent commit. InvalidOption is
        raised for rows that are missing, unknown or twice, and for values that do not fit.

        Only files that the branch itself wrote are copied. With ``reference`` none are, and the branch cannot be
        deleted. ``progress`` is a function that is called with the progress. Raises Conflict, with the conflicting
        parts, Refused and NotFound; then nothing was changed.
        """
        options = MergeOptions(ff_only, reference, message, dry_run, conflicts, names_of(on), prefer, resolve)
        branch, at, version = name.rpartition("@")
        spec = spec_of(branch=branch, version=int(version)) if at and version.isdecimal() else spec_of(branch=name)
        source = resolve_ref(self.location, spec)
        engine = engine_of(self.spark, progress=progress)
        target = changing_branch(self.location, self.ref, "merge into") if into is None else branch_or_none(into)
        return merge(self.location, source, target, options, engine)

    def _card(self) -> Card:
        return look_at_branches(type(self).__name__, self.location)


@tells(at_server_rules.TAGS)
@dataclass(frozen=True, repr=False)
class Tags(Shown, Hinting, Collection[Tag]):
    """The tags of a dataset: ``for tag in t.tags``, ``"v1" in t.tags``, ``t.tags["v1"].version``."""

    _kind, _typed, _words, _asked = "tag", "t.tags", OF_TAGS, ASKED_OF_COLLECTIONS
    location: DatasetLocation
    ref: RefSpec = field(default_factory=RefSpec)
    """The handle's: verbs start from its version."""

    def list(self, all: bool = False) -> list[Tag]:
        """The tags, by name; with ``all`` also those that clones, merges, streams, frozen sets and the lake need."""
        return ref_actions.list_tags(self.location, all)

    def create(
        self, name: str, branch: str | None = None, version: int | None = None, **settings: Unpack[TagSettings]
    ) -> Tag:
        """Tag a version; by default that of the handle, or the newest of the ``branch``.

        A ``version`` without a branch is one of the handle's branch. ``settings`` are those of :meth:`alter`. Raises
        InvalidName with the broken rule, NotFound, and AlreadyExists: tags never move silently.
        """
        check_settings(settings, tag=True)
        spec = start_of(self.location, self.ref, branch=branch, version=version)
        made = ref_actions.create_tag(self.location, name, spec)
        if not settings:
            return made
        alter_tag(self.location, name, settings)
        return ref_actions.find_tag(self.location, name) or made

    def alter(self, name: str, unset: str | Sequence[str] = (), **settings: Unpack[TagSettings]) -> Lifetime:
        """Change a tag's lifetime and owner; returns the resulting settings.

        ``expire_after`` is a span (``"30d"``, a timedelta) after the tag was created or moved, ``owner`` a text.
        Omitted settings stay; ``unset`` removes settings by name. Raises InvalidOption, NotFound and Refused.
        """
        with unchanged():
            return alter_tag(self.location, name, settings, unset)

    def move(self, name: str, branch: str | None = None, version: int | None = None) -> None:
        """Point an existing tag at another version, chosen as by :meth:`create`.

        Raises NotFound, and Refused for a tag that something relies on.
        """
        ref_actions.move_tag(self.location, name, start_of(self.location, self.ref, branch=branch, version=version))

    def delete(self, name: str, force: bool = False) -> None:
        """Delete a tag. Raises NotFound, and Refused for a tag of a frozen set: ``t.frozen.delete`` does it.

        Also refuses tags that clones, merges and streams need, unless ``force`` confirms that these are over.
        """
        ref_actions.delete_tag(self.location, name, force)

    def restore(self, name: str) -> None:
        """Put a tag back where it was before it was last moved or deleted.

        Raises NotFound if there is no record or the version is gone, AlreadyExists for a deleted tag that was created
        again, and Refused for one that something else moved since.
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
    if branch is not None and not isinstance(branch, str):
        raise InvalidOption(
            f"A branch has a name, and {branch!r} is not one.", hint=f"For a version: version={branch!r}."
        )
    moment = as_of if isinstance(as_of, str) or as_of is None else as_of.isoformat()
    given = {"branch": branch_or_none(branch), "tag": tag, "version": version, "asOf": moment}
    return parse_ref({name: str(value) for name, value in given.items() if value is not None})


def moving_branch(ref: RefSpec, what: str) -> str | None:
    """The branch, None for main. Raises Refused for a pinned handle; ``what`` completes "Cannot ... this handle"."""
    if (ref.tag, ref.version, ref.as_of) != (None, None, None):
        raise Refused(
            f"Cannot {what} this handle: it is pinned to a tag or version.",
            hint="Use the handle of a branch: checkout(branch=...).",
        )
    return ref.branch


def changing_branch(location: DatasetLocation, ref: RefSpec, what: str) -> str | None:
    """:func:`moving_branch`; on a branch of the lake, the first change of a table creates the table's branch."""
    if ref.begins is None:
        return moving_branch(ref, what)
    from lance_spark.catalog.lake import begin_table_branch  # a table by its path does not wait for catalogs

    return begin_table_branch(location, ref.begins)


def start_of(
    location: DatasetLocation,
    ref: RefSpec,
    branch: str | None = None,
    tag: str | None = None,
    version: int | None = None,
) -> RefSpec:
    """Where a new ref of a handle starts: at what was named, as the handle sees it; else at the handle's version."""
    spec = from_handle(ref, spec_of(branch=branch, tag=tag, version=version), branch is not None)
    if spec.begins is None:
        return spec
    pin = resolve_ref(location, spec)  # a branch of the lake reads main until the table is changed there
    return RefSpec(branch=pin.branch, version=pin.version)


@dataclass(frozen=True, repr=False)
class Handle(Hinting):
    """What the verbs of a table are about: a dataset at a ref."""

    _typed = "t"

    spark: SparkSession | None
    """None for a handle in a process without Spark; verbs that need a session use the active one, if there is one."""
    location: DatasetLocation
    ref: RefSpec = field(default_factory=RefSpec)

    def _pin(self) -> PinnedVersion:
        return resolve_ref(self.location, self.ref)

    def _moving_branch(self, what: str) -> str | None:
        return changing_branch(self.location, self.ref, what)

    def _begun(self, what: str) -> Self:
        """The handle itself; on a branch of the lake, on the table's branch, which exists from now on."""
        return self if self.ref.begins is None else replace(self, ref=RefSpec(branch=self._moving_branch(what)))


# --- ``t.branches``, ``t.tags``, ``t.remotes``; ``t.expire_refs()`` and ``t.reflog()``


class RefVerbs(Handle):
    """A table's branches, tags and remotes, and verbs for the lifetime of its refs."""

    @property
    def branches(self) -> Branches:
        """The dataset's branches."""
        return Branches(self.location, self.spark, self.ref)

    @property
    def tags(self) -> Tags:
        """The dataset's tags."""
        return Tags(self.location, self.ref)

    @property
    def remotes(self) -> Remotes:
        """Other places with the same history: fetch, pull, push."""
        return Remotes(self.spark, self.location, self.ref)

    def expire_refs(self, force: bool = False, warn: str | timedelta = "7d") -> RefExpiryPlan:
        """The branches and tags whose ``expire_after`` is over; ``apply()`` deletes them.

        A ref gets a warning first: its end and the warning period ``warn`` must both be over. Branches whose changes
        are, or may be, missing from main and their parent stay, unless ``force``; so do protected ones, and refs that
        another ref or a clone needs. Raises InvalidOption, CorruptData for a ref that cannot be decoded, and
        StorageFailure.
        """
        span = warn if isinstance(warn, timedelta) else to_span("warn", warn)
        plan = plan_expiry(self.location, datetime.now(timezone.utc), ExpiryOptions(span, force=force))
        return RefExpiryPlan(plan.dataset, plan.now, plan.entries, plan.options, location=self.location)

    def reflog(self, ref: str | None = None, count: int | None = DEFAULT_COUNT) -> RefLog:
        """What a branch or tag pointed at before: versions, moves, deletions; without a name, all recorded changes.

        ``count`` limits the listed versions of a branch to the newest; None lists all. Tags and deleted branches are
        known only as far back as this package recorded their changes. Raises NotFound, CorruptData.
        """
        return list_changes(self.location, ref, count)


# --- ``table.remotes``: exchanging versions with other places that have the same history


@tells(at_server_rules.REMOTES)
@dataclass(frozen=True, repr=False)
class Remotes(Handle, Shown, Collection[Remote]):
    """The remotes of a dataset: iterating gives those that it was ever fetched from.

    A remote is identified by its URI, or by the name under which it was fetched before.

    Branch ``b`` of remote ``origin`` is followed by the local branch ``origin/b``, which only a fetch writes to. For a
    remote that needs storage options of its own, use :meth:`at`.
    """

    _kind, _typed, _words, _asked = "remote", "t.remotes", OF_REMOTES, ASKED_OF_REMOTES

    def list(self) -> dict[str, str]:
        """URIs of the remotes that were ever fetched from, by name."""
        return known_remotes(refs.read_refs(self.location))

    def _named(self) -> Mapping[str, Remote]:
        return {name: self.at(uri, name) for name, uri in self.list().items()}

    def at(self, uri: str, name: str | None = None, storage_options: Mapping[str, str] | None = None) -> Remote:
        """The remote at a URI. The default name is the one under which it was fetched before, or origin.

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
        self,
        remote: str | Remote = ORIGIN,
        branches: str | Sequence[str] | None = None,
        dry_run: bool = False,
        allow_unrelated_histories: bool = False,
    ) -> FetchResult:
        """Update the branches that follow a remote's to its current state; all, or those with the given names.

        Metadata only: data files stay where they are. Raises NotFound, StorageFailure, and Refused, such as for another
        dataset that took the remote's place, unless ``allow_unrelated_histories``.
        """
        names = None if branches is None else [branch_or_none(branch) for branch in names_of(branches)]
        options = FetchOptions(names, dry_run=dry_run, allow_unrelated_histories=allow_unrelated_histories)
        return fetch(self.location, self._remote(remote), engine_of(self.spark), options)

    @refreshing
    def pull(  # noqa: PLR0913 - git's words, of which most calls take one
        self,
        remote: str | Remote = ORIGIN,
        branch: str | None = None,
        message: str | None = None,
        ff_only: bool = False,
        dry_run: bool = False,
        conflicts: str = CELLS,
        on: str | Sequence[str] = (),
        *,
        reset: bool = False,
        prefer: str | Mapping[str, str] | None = None,
        resolve: Callable[[Any], Any] | None = None,
        progress: Progressing = None,
    ) -> PullResult:
        """Fetch a branch and merge it into this handle's, by default from the one of the same name.

        With ``reset``, this handle's branch becomes what the remote's is, whatever prevents a merge; its own rows that
        the remote lacks are put on a branch, ``kept`` of the result.

        With ``dry_run`` it only fetches, without merging. ``conflicts``, ``on``, ``prefer`` and
        ``resolve`` are those of a merge.
        ``progress`` is called with the progress. Raises Conflict, Refused and NotFound, like fetch and merge.
        """
        into = self._moving_branch("pull into")
        source = into if branch is None else branch_or_none(branch)
        engine = engine_of(self.spark, progress=progress)
        if reset:
            check_reset(ff_only, message)
            return reset_to_remote(self.location, self._remote(remote), source, into, engine, dry_run)
        options = MergeOptions(ff_only, False, message, dry_run, conflicts, names_of(on), prefer, resolve)
        return pull(self.location, self._remote(remote), source, into, engine, options)

    def push(
        self,
        remote: str | Remote = ORIGIN,
        branch: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        *,
        progress: Progressing = None,
    ) -> PushResult:
        """Send a branch's changes, by default this handle's, to a remote, as one version; executors copy many files.

        A missing branch, or the whole dataset if it is missing, is created. ``progress`` is called with the progress.
        Raises Refused if the remote has versions that the branch does not have: pull first; then nothing was changed.
        """
        pushed = self._moving_branch("push") if branch is None else branch_or_none(branch)
        options = PushOptions(message=message, dry_run=dry_run)
        return push(self.location, self._remote(remote), pushed, engine_of(self.spark, progress=progress), options)

    def push_tag(self, name: str, remote: str | Remote = ORIGIN, dry_run: bool = False) -> PushedTag:
        """Put a tag on the version of a remote that has the same rows. Never moves a tag there.

        Raises NotFound, AlreadyExists if the remote has the name on another version, and Refused if it is unknown which
        of its versions has the same rows: push the branch first.
        """
        return push_tag(self.location, self._remote(remote), name, engine_of(self.spark), dry_run)

    def _card(self) -> Card:
        return look_at_remotes(type(self).__name__, self.location)

    def _remote(self, remote: str | Remote) -> Remote:
        if isinstance(remote, Remote):
            return remote
        known = self.list()
        if remote in known:
            return self.at(known[remote], remote)
        if "/" not in remote:  # a misspelled name must not become a dataset in the working directory
            raise NotFound(f"There is no remote '{remote}'.", hint="Give its URI; for a path here write ./NAME.")
        return self.at(remote)
