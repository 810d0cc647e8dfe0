"""``LanceTable``: a dataset at a ref, for everything that is not a DataFrame.

It mirrors pylance's verbs and runs them in the calling process. This also holds on Spark Connect, where that process
needs its own access to the store. Spark runs DataFrames (``to_df``, ``versions``, ``write``), a filtered
``count_rows``, and copies and cleanups that are too large for the threads of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.changes.diff import diff
from lance_spark.cleanup import auto
from lance_spark.cleanup.retention_rules import DEFAULT_COMMIT_WINDOW, of_branches
from lance_spark.clones import clone
from lance_spark.clones.relocate import relocate
from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.progress import to_tell
from lance_spark.core.ref_expressions import from_handle, is_range
from lance_spark.core.refs import MAIN, RefSpec
from lance_spark.core.show import Card, Shown
from lance_spark.core.storage_options import PREFIX
from lance_spark.core.table_options import ReadOptions
from lance_spark.core.words import ASKED_OF_TABLES, CALLS_OF_TABLES, OF_TABLES, Hinting, HintingType
from lance_spark.engine.session_spark import (
    START_ONE,
    Progressing,
    check_path,
    check_places,
    dataset_of,
    engine_of,
    needed_session,
    session_or_none,
)
from lance_spark.engine.types_spark import to_spark
from lance_spark.errors import InvalidOption, Refused, WrongArguments
from lance_spark.format.schema import ROW_ID
from lance_spark.log.log import HISTORY, history, look_at_table, recent, shown_diff
from lance_spark.merge import merge
from lance_spark.merge.option_rules import CELLS, MergeOptions
from lance_spark.merge.restore import restore
from lance_spark.merge.transaction import transaction
from lance_spark.remotes.clone import clone as following_clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.fetch_rules import CloneKind, CloneOptions, is_deep
from lance_spark.scan import fragment_reads
from lance_spark.scan.blob_reads import Blobs
from lance_spark.scan.read import PinnedRead, read_schema
from lance_spark.session.caches import refresh, refreshing
from lance_spark.spark import at_server_rules, maintenance
from lance_spark.spark.columns import ColumnVerbs
from lance_spark.spark.constraints import Constraints
from lance_spark.spark.frozen import FrozenSets
from lance_spark.spark.layout import LayoutVerbs
from lance_spark.spark.maintenance import Indexes, OptimizeVerb, UpkeepVerbs
from lance_spark.spark.refs import here_or_there, spec_of, tells
from lance_spark.spark.registering import capabilities, register_handle
from lance_spark.spark.rows import ChangeFeed, RowVerbs
from lance_spark.spark.search import Columns, Searching
from lance_spark.spark.streams import Streams
from lance_spark.storage import datasets
from lance_spark.storage.followers import ORIGIN
from lance_spark.storage.resolving import resolve as resolve_ref
from lance_spark.storage.resolving import resolve_range

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lance_spark.cleanup.cleanup import CleanupPlan
    from lance_spark.cleanup.retention_rules import CleanupPolicy
    from lance_spark.clones.base_rules import Relocation
    from lance_spark.engine.session_spark import RunOn
    from lance_spark.log.print_rules import History, TableDiff
    from lance_spark.merge.report import MergeResult
    from lance_spark.session.narrow_query import Query
    from lance_spark.ui.server import Browsing

_OPEN = "LanceTable.for_path(path)"
Audit = Callable[["LanceTable"], bool]
"""Checks the resulting table; False, or an exception, prevents its publication."""


@tells(at_server_rules.TABLE)
@dataclass(frozen=True, repr=False)
class LanceTable(
    RowVerbs,
    ColumnVerbs,
    ChangeFeed,
    Searching,
    OptimizeVerb,
    UpkeepVerbs,
    Shown,
    Hinting,
    metaclass=HintingType,
):
    """A dataset at a ref. At a branch the handle follows the branch; at a tag, version or moment it is pinned."""

    _words, _calls, _asked = OF_TABLES, CALLS_OF_TABLES, ASKED_OF_TABLES
    _item = "t.head(columns=['{}']), or t.to_df()"

    def __post_init__(self) -> None:
        given: object = self.location
        if not isinstance(given, DatasetLocation):
            hint = f"LanceTable.for_path({given!r}, spark=spark)" if isinstance(given, str) else _OPEN
            raise WrongArguments("LanceTable(...) is for this package; users open a table by its path.", hint=hint)

    @staticmethod
    def for_path(
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        branch: str | None = None,
        tag: str | None = None,
        version: int | None = None,
        as_of: str | datetime | None = None,
        spark: SparkSession | None = None,
    ) -> LanceTable:
        """The dataset at a path or URI, at the newest version of main or at a ref as in :meth:`checkout`.

        ``spark`` is the session, by default the active one, if there is one. Without a session everything works except
        for DataFrames, which raise Refused. Raises NotFound if there is no such dataset or ref, InvalidOption for two
        refs at once, and for a relative path on Spark Connect.
        """
        check_path(uri, "LanceTable.for_path(uri, spark=spark)")
        location = dataset_of(spark, uri, storage_options)
        table = LanceTable(spark, location)
        here_or_there(spark, lambda: datasets.open_latest(location), lambda: None)
        refs = (branch, tag, version, as_of)
        return table if refs == (None,) * 4 else table.checkout(*refs)

    @property
    def indexes(self) -> Indexes:
        """The indexes at this handle's ref."""
        return Indexes(self.spark, self.location, self.ref)

    @property
    def layout(self) -> LayoutVerbs:
        """The partitions and the clustering of this table, and changes of them."""
        return LayoutVerbs(self.spark, self.location, self.ref)

    @property
    def constraints(self) -> Constraints:
        """The conditions that every row of this table satisfies, and changes of them."""
        return Constraints(self.spark, self.location, self.ref)

    @property
    def frozen(self) -> FrozenSets:
        """Frozen training sets: create, read, delete, compare them."""
        return FrozenSets(self.spark, self.location, self.ref)

    @property
    def streams(self) -> Streams:
        """Structured streaming into this table: upserts of batches, and going on after lost progress."""
        return Streams(self.spark, self.location, self.ref)

    @property
    def branch(self) -> str:
        """Name of this handle's branch."""
        return self._pin().branch or MAIN

    @property
    def version(self) -> int:
        """The version to which this handle currently points."""
        return self._pin().version

    @property
    def schema(self) -> StructType:
        """The schema, in Spark's types."""
        return here_or_there(self.spark, self._schema_here, lambda: self.to_df().schema)

    def _schema_here(self) -> StructType:
        read = PinnedRead(self.location, self._pin(), ReadOptions())
        return to_spark(read_schema(read))

    def checkout(
        self,
        branch: str | None = None,
        tag: str | None = None,
        version: int | None = None,
        as_of: str | datetime | None = None,
    ) -> LanceTable:
        """The same dataset at another ref; the arguments are the read options of these names.

        A version or a moment without a branch is one of this handle's branch. A tag, a version and a moment are
        resolved now. Raises InvalidOption for two refs at once, NotFound.
        """
        spec = from_handle(self.ref, spec_of(branch=branch, tag=tag, version=version, as_of=as_of), branch is not None)
        ref = here_or_there(self.spark, lambda: self._resolved(spec), lambda: spec)
        return LanceTable(self.spark, self.location, ref)

    def _resolved(self, spec: RefSpec) -> RefSpec:
        pin = resolve_ref(self.location, spec)
        moving = spec.tag is None and spec.version is None and spec.as_of is None
        return spec if moving else RefSpec(pin.branch, version=pin.version)

    def to_df(self, columns: Columns = None, filter: str | None = None, **options: object) -> DataFrame:
        """A DataFrame of the version to which this handle currently points; later commits never change it.

        ``options`` are the other read options: limit, with_row_id, with_row_address, batch_size, split_size,
        blob_handling.
        """
        spark = needed_session(self.spark, f"{START_ONE} Without Spark, pylance reads: lance.dataset(uri).to_table().")
        register_handle(spark)
        given: dict[str, object] = {**options, **self._read_at()}
        if columns is not None:
            given["columns"] = ",".join(names_of(columns))
        if filter is not None:
            given["filter"] = filter
        given |= {PREFIX + key: secret for key, secret in self.location.options}
        texts = {key: str(value) for key, value in given.items()}
        reader = spark.read.format(OWN_NAME).options(**texts)
        if hasattr(reader, "follows"):
            reader.follows = self.ref.is_branch
        return reader.load(self.location.uri)

    def _read_at(self) -> dict[str, object]:
        """The options of a read at this handle's version; of its ref, if only the server can find the version."""
        pin = here_or_there(self.spark, self._pin, lambda: None)
        if pin is not None:
            return {"branch": pin.branch or MAIN, "version": pin.version}
        at, ref = self.ref.as_of, self.ref
        given = {"branch": ref.branch, "tag": ref.tag, "version": ref.version, "as_of": at and at.isoformat()}
        return {name: value for name, value in given.items() if value is not None}

    def query(self, query: Query) -> DataFrame:
        """``query(self.to_df())``, reading only the columns and rows that the query needs, on every kind of session.

        If Spark plans into Lance (see ``capabilities``), that happens anyway. Elsewhere, for example on Spark Connect,
        the function is called two or three times: over DataFrames without rows, to find out what the query needs, then
        over a read of just that, or of everything if Spark's plan does not tell. So it must only build a DataFrame,
        without running or storing anything. The DataFrame stays at the version to which this handle currently points.
        """
        spark = needed_session(self.spark, START_ONE)
        from lance_spark.session.narrow_query import needs, read_options, with_all_columns

        register_handle(spark)
        if capabilities(spark).native:
            return query(self.to_df())
        pin = self._pin()
        pinned = LanceTable(spark, self.location, RefSpec(pin.branch, version=pin.version))
        own, seen = read_schema(PinnedRead(self.location, pin, ReadOptions())), pinned.schema
        found = needs(spark, query, seen, own)
        return query(with_all_columns(pinned.to_df(**read_options(found, seen)), found, seen))  # type: ignore[arg-type]

    def count_rows(self, filter: str | None = None) -> int:
        """Number of rows: from metadata in milliseconds without a filter, by a Spark job with one.

        Without a session, this process counts.
        """
        if filter is None or session_or_none(self.spark) is None:
            return here_or_there(
                self.spark,
                lambda: fragment_reads.count_rows(self.location, self._pin(), filter),
                lambda: self.to_df().count(),
            )
        return self.to_df(columns=[ROW_ID], filter=filter).count()

    def head(self, count: int = 5, columns: Columns = None) -> pa.Table:
        """The first rows as a pyarrow table, read by this process: ``t.head().to_pandas()`` shows them in a notebook.

        Rows have no order of their own. Raises NotFound for a column that does not exist.
        """
        if count < 0:
            raise InvalidOption(f"{count} rows cannot be read.", hint="Give 0 or more.")
        names = None if columns is None else names_of(columns)
        return here_or_there(
            self.spark,
            lambda: fragment_reads.head(self.location, self._pin(), count, names),
            lambda: self.to_df(names).limit(count).toArrow(),
        )

    def blobs(self, column: str) -> Blobs:
        """The blobs of a column at this handle's version: bytes, ranges and files, also on executors.

        It can be pickled, so that functions of Spark read blobs where they run, by the ``_rowid`` of their rows. Raises
        NotFound for an unknown column, InvalidOption for one without blobs.
        """
        return Blobs.of(self.location, self._pin(), column)

    def diff(self, ref: str, rows: bool = False, limit: int = 20) -> TableDiff:
        """The differences from another ref to this handle, or of a range ``A..B``, as ``lance-git diff`` shows them.

        ``ref`` is ``main``, ``exp@7``, ``main~2`` or a tag. With ``rows``, compares rows by the table's key where files
        differ, and has ``limit`` examples of each kind. Raises NotFound, InvalidOption.
        """
        pin = self._pin()
        before, after = resolve_range(self.location, ref if is_range(ref) else f"{ref}..{pin}", pin.branch)
        return shown_diff(diff(self.location, before, after, rows, limit))

    def log(self, count: int | None = 30, stat: bool = False, all: bool = False) -> History:
        """The newest versions, as ``lance-git log --graph`` shows them; in a notebook the graph is drawn.

        Shows versions of this handle's branch, of its parents before its fork, and those that merges took in; with
        ``all`` those of all branches. ``stat`` shows what each added and removed. Raises NotFound, CorruptData.
        """
        if count is not None and count < 0:
            raise InvalidOption(f"{count} versions cannot be listed.", hint="t.log(10), or t.log(None) for all.")
        return recent(self.location, self._pin(), count, stat, "all" if all else "merged")

    def history(self, limit: int | None = None) -> DataFrame:
        """The versions of this handle's branch, newest first, and past its fork those of its parents.

        Columns: ``version bigint, timestamp timestamp, operation string, operationParameters map<string,string>,
        message string, branch string, rows bigint, rows_added bigint, rows_removed bigint, tags array<string>,
        userName string``. ``limit`` is the number of versions. Raises NotFound, CorruptData, and Refused without a
        session.
        """
        spark = needed_session(self.spark, f"{START_ONE} Without Spark, t.log() lists versions.")
        rows = pa.Table.from_pylist(list(history(self.location, self._pin(), limit)), schema=HISTORY)
        return maintenance.data_frame(spark, rows)

    def versions(self) -> DataFrame:
        """The branch's history: ``version bigint, timestamp timestamp, metadata map<string,string>``."""
        spark = needed_session(self.spark, f"{START_ONE} Without Spark, lance-git log lists versions.")
        history = datasets.list_versions(self.location, self._pin().branch)
        rows = [(entry.version, entry.timestamp, dict(entry.metadata)) for entry in history]
        return spark.createDataFrame(rows, "version bigint, timestamp timestamp, metadata map<string,string>")

    @refreshing
    def restore(self, version: int | None = None) -> LanceTable:
        """Make a version of this handle's branch the newest again, as a new version; returns the branch's handle.

        By default the version of the handle itself, such as ``t.checkout(tag="v1").restore()``. Raises NotFound, and
        Conflict, with the versions it covered, if another commit came in between.
        """
        own = self._begun("restore")
        at = own if version is None else own.checkout(branch=own.branch, version=version)
        pin = restore(self.location, at._pin(), engine_of(self.spark))
        return LanceTable(self.spark, self.location, RefSpec(pin.branch))

    @refreshing
    def cherry_pick(
        self,
        branch: str,
        version: int,
        message: str | None = None,
        dry_run: bool = False,
        conflicts: str = CELLS,
        *,
        on: str | Sequence[str] = (),
        prefer: str | Mapping[str, str] | None = None,
        resolve: Callable[[Any], Any] | None = None,
    ) -> MergeResult:
        """Apply the changes of one version of another branch to this handle's branch, as one commit.

        Rows that both sides changed are merged cell by cell; with ``conflicts="rows"`` they are a conflict. ``on``,
        ``prefer`` and ``resolve`` are those of a merge; *theirs* is the picked version. Raises Conflict, Refused and
        NotFound; then nothing was changed.
        """
        options = MergeOptions(
            message=message, dry_run=dry_run, conflicts=conflicts, on=names_of(on), prefer=prefer, resolve=resolve
        )
        picked = resolve_ref(self.location, spec_of(branch=branch, version=version))
        into = self._moving_branch("cherry-pick to")
        return merge.cherry_pick(self.location, picked, into, engine_of(self.spark), options)

    @refreshing
    def revert(
        self,
        version: int,
        message: str | None = None,
        dry_run: bool = False,
        *,
        on: str | Sequence[str] = (),
        prefer: str | Mapping[str, str] | None = None,
        resolve: Callable[[Any], Any] | None = None,
    ) -> MergeResult:
        """Undo the changes of one version of this handle's branch, in a new commit.

        With ``prefer="theirs"`` rows that changed again since are as before that version, with ``"ours"`` they stay.
        Raises like cherry_pick.
        """
        options = MergeOptions(message=message, dry_run=dry_run, on=names_of(on), prefer=prefer, resolve=resolve)
        branch = self._moving_branch("revert on")
        pin = resolve_ref(self.location, spec_of(branch=branch, version=version))
        return merge.revert(self.location, pin, branch, engine_of(self.spark), options)

    @contextmanager
    def transaction(
        self,
        message: str | None = None,
        audit: Audit | None = None,
        conflicts: str = CELLS,
        *,
        on: str | Sequence[str] = (),
        prefer: str | Mapping[str, str] | None = None,
        resolve: Callable[[Any], Any] | None = None,
    ) -> Iterator[LanceTable]:
        """Everything written through the handle of the ``with`` block becomes one version, or nothing.

        ``on``, ``prefer`` and ``resolve`` are those of a merge, if another commit changed the same rows meanwhile;
        *theirs* is the block.

        It is a handle on a temporary branch, which is merged at the end of the block and deleted in any case. After an
        exception, or if ``audit`` returns False for that handle (Refused), nothing is published.
        """
        check = None if audit is None else lambda ref: audit(replace(self, ref=ref))
        target, engine = self._begun("write to").ref, engine_of(self.spark)
        options = MergeOptions(message=message, conflicts=conflicts, on=names_of(on), prefer=prefer, resolve=resolve)
        with transaction(self.location, target, engine, check, options) as ref:
            yield replace(self, ref=ref)
        refresh(session_or_none(self.spark), self.location)

    def clone(
        self,
        target_uri: str,
        kind: CloneKind = "shallow",
        storage_options: Mapping[str, str] | None = None,
        *,
        follow: bool = True,
        single_branch: bool = False,
        record: bool = True,
        progress: Progressing = None,
    ) -> LanceTable:
        """A new dataset, in any store: ``shallow`` shares the files, which tags protect here; ``deep`` copies them.

        It follows this dataset, its remote ``origin`` (see :attr:`remotes`): it has main, all branches as
        ``origin/...``, or with ``single_branch`` only main and this handle's, and the returned handle is on this
        handle's branch. With ``follow=False`` it has only main, at this handle's version, as clones of pylance and
        Delta have; this dataset records a shallow one by a tag and a note, so that no cleanup breaks it, unless
        ``record=False``.

        To finish a killed clone, repeat the call. ``progress`` is called with the progress. Raises AlreadyExists for
        another dataset at the target, InvalidOption for another kind, Refused for ``record=False`` in another store.
        """
        target, pin = self._target(target_uri, storage_options), self._pin()
        deep = is_deep(kind)
        if not record and (follow or target.store != self.location.store):
            raise Refused("A clone that follows, or in another store, is always recorded.", hint="Omit record=False.")
        # A shallow clone in another store needs records of the files that it reads: only one that follows has them.
        if follow or not (deep or target.store == self.location.store):
            options = CloneOptions(deep=deep, single_branch=single_branch or not follow)
            engine = engine_of(self.spark, progress=progress)
            following_clone(Remote(ORIGIN, self.location), pin, target, engine, options)
            return LanceTable(self.spark, target, RefSpec(pin.branch))
        if deep:
            clone.deep_clone(self.location, pin, target, to_tell(progress))
        else:
            clone.shallow_clone(self.location, pin, target, record)
        return LanceTable(self.spark, target)

    def relocate(self, old: str | None = None, new: str | None = None, dry_run: bool = False) -> Relocation:
        """Let main and every branch read from here after the dataset was moved or copied.

        Repairs a base path if all files that are read from it are also here. ``old`` is the former place of files,
        ``new`` their current one, if that is not this dataset. Each branch gets up to three versions. Raises
        NotFound if nothing is read from ``old``, Refused if ``new`` lacks files, Conflict.
        """
        check_places(self.spark, *(place for place in (old, new) if place is not None))
        return relocate(self.location, old, new, dry_run)

    def cleanup(
        self,
        policy: CleanupPolicy | None = None,
        branches: Sequence[str] | str = (),
        inventory: DataFrame | pa.Table | None = None,
        run_on: RunOn = "auto",
    ) -> CleanupPlan:
        """The files that a cleanup of the whole dataset, main and all branches, would delete; ``apply()`` deletes them.

        ``t.cleanup(CleanupPolicy(older_than=timedelta(days=7))).apply()``; without a policy, 14 days.
        With ``branches``, names or patterns, only files that these branches alone own: see
        ``CleanupPolicy.only_branches``. It runs on threads of this process if that is quick, else on Spark; ``run_on``
        forces "spark" or "local". ``inventory`` has the columns path, size and last_modified, and replaces the listing
        of the store, except for manifests. Raises Refused, CorruptData, NotFound or StorageFailure if evidence is
        missing.
        """
        return maintenance.plan(self.spark, self.location, of_branches(policy, branches), run_on, inventory)

    def open_cleanup_plan(self, directory: str, run_on: RunOn = "auto") -> CleanupPlan:
        """A plan that was stored with ``plan.store(...)`` or ``--plan-dir``."""
        return maintenance.stored(self.spark, self.location, directory, run_on)

    def enable_auto_cleanup(
        self,
        interval: int,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        commit_window: timedelta = DEFAULT_COMMIT_WINDOW,
    ) -> None:
        """Let pylance clean this branch itself after every ``interval``-th version, whichever process commits it.

        Raises Refused if its hook would lose data: versions within the commit window, branches created through another
        spelling of the URI, and clones.
        """
        auto.enable_auto_cleanup(
            self.location, self._begun("configure")._pin().branch, interval, older_than, retain_versions, commit_window
        )

    def disable_auto_cleanup(self) -> None:
        """Disable automatic cleanup for this branch."""
        auto.disable_auto_cleanup(self.location, self._begun("configure")._pin().branch)

    def browse(
        self,
        *,
        allow_merge: bool = False,
        reports: Sequence[str] | str = (),
        port: int = 0,
        open_browser: bool = True,
    ) -> Browsing:
        """Pages about this dataset, served by this process at its loopback; returns their address, and ``close()``.

        They show the graph of versions, differences row by row, which branch changed a row, and reviews of merges, and
        change nothing; with ``allow_merge`` a review has a button. ``reports`` are stored reports of checks and
        maintenance, or directories of them: paths or URIs. Whoever has the address can read the data. Needs the extra
        ``ui``. Raises NotInstalled, and Refused for a ``port`` that is taken.
        """
        from lance_spark.ui.server import browse

        named = names_of(reports)
        return browse(self.location, allow_merge=allow_merge, reports=named, port=port, open_browser=open_browser)

    def _card(self) -> Card:
        return look_at_table(type(self).__name__, self.location, self.ref)

    def _target(self, uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
        return dataset_of(
            self.spark, uri, self.location.storage_options if storage_options is None else storage_options
        )
