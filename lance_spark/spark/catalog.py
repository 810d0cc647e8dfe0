"""``LanceCatalog``: a directory of tables, by name; also writes to them, views on them, and their upkeep."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from lance_spark.catalog import lookup, migrate, removing, tables
from lance_spark.catalog.lake import at_ref, check_whole
from lance_spark.catalog.lake_rules import BRANCH, PUBLISHED, TAG
from lance_spark.catalog.lookup import (
    describe_table,
    find_open_table,
    list_tables,
    open_catalog,
    open_service,
    table_exists,
)
from lance_spark.catalog.migrate import Migration
from lance_spark.catalog.name_rules import (
    Catalog,
    Mode,
    Name,
    NamespaceInfo,
    Page,
    Removed,
    TableInfo,
    identify_table,
    view_names,
)
from lance_spark.catalog.overview import look_at_catalog
from lance_spark.catalog.publish_rules import Journal
from lance_spark.catalog.removing import Renamed
from lance_spark.core.options import is_frame, names_of
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import MAIN, RefSpec
from lance_spark.core.show import Card, Shown
from lance_spark.core.storage_options import PREFIX
from lance_spark.core.texts import quoted_name
from lance_spark.core.words import ASKED_OF_CATALOGS, CALLS_OF_CATALOGS, OF_CATALOGS, Hinting, HintingType
from lance_spark.disk_usage.disk_usage import catalog_storage
from lance_spark.disk_usage.report import CatalogStorage
from lance_spark.engine.session_spark import RunOn, check_path, check_places, engine_of, needed_session, session_or_none
from lance_spark.engine.workers_spark import own_error
from lance_spark.errors import AlreadyExists, InvalidOption, WrongArguments
from lance_spark.lake import branches
from lance_spark.lake import publish as publishing
from lance_spark.lake.reflog import lake_reflog
from lance_spark.lake.report import Publish, report
from lance_spark.maintenance.spark import MaintenancePlan, Policy, plan_of_catalog
from lance_spark.merge.option_rules import Prefer, PublishOptions
from lance_spark.spark import at_server_rules
from lance_spark.spark.lake import LakeBranches, LakeTags, published
from lance_spark.spark.maintenance import data_frame
from lance_spark.spark.refs import spec_of, tells
from lance_spark.spark.registering import writer_to
from lance_spark.spark.table import LanceTable
from lance_spark.tables.local_write import write_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.core.records.reflog import RefLog
    from lance_spark.ui.server import Browsing

SaveMode = Literal["errorifexists", "error", "ignore", "append", "overwrite"]


@tells(at_server_rules.CATALOG)
class LanceCatalog(Shown, Hinting, metaclass=HintingType):
    """Tables and nested namespaces in one directory (Lance's directory namespace, V1 and V2).

    A name is ``"ns1.ns2.flights"``, with backticks around a part that contains a dot, or a list of its parts. Namespace
    ``""`` is the root. No request is sent before the first call.

    It runs in the calling process. Spark is needed for ``write_table``, ``register_views``, and by handles of
    ``table``; by default it is the active one, if there is one. It is pickled without the session: on an
    executor it can still locate tables. Its text never shows storage options.
    """

    _words, _calls, _asked, _typed = OF_CATALOGS, CALLS_OF_CATALOGS, ASKED_OF_CATALOGS, "lake"
    _item = "lake.table('{}')"

    def __init__(
        self,
        root: str,
        storage_options: Mapping[str, str] | None = None,
        mode: Mode = "compatibility",
        *,
        spark: SparkSession | None = None,
    ) -> None:
        """``mode`` is ``v1`` (directories only), ``v2`` (``__manifest`` only) or both. Raises InvalidOption.

        A relative ``root`` on Spark Connect also raises it: the server would look for it elsewhere.
        """
        check_path(root, "LanceCatalog(root, spark=spark)")
        check_places(spark, root)
        self.catalog: Catalog = open_catalog(root, storage_options, mode)
        self._spark = spark

    @classmethod
    def connect(
        cls,
        impl: str,
        properties: Mapping[str, object] | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        spark: SparkSession | None = None,
    ) -> LanceCatalog:
        """The catalog of a service: ``LanceCatalog.connect("rest", {"uri": "https://catalog.example"})``.

        ``impl`` is ``rest``, ``glue``, ``hive2``, ``hive3``, ``unity``, ``polaris``, ``iceberg``, the full name of a
        class of ``lance_namespace``, or ``dir`` for a directory with the property ``root``. All but ``rest`` and
        ``dir`` need the extra ``catalogs``. ``storage_options`` are for the stores of its tables, besides those that
        the service hands out, which are renewed before they expire. A service has no branches of a whole lake; what it
        lacks is refused. Its tables can be published together if the property ``publish_journal`` names a directory
        that records it. Raises InvalidOption. Sends no request.
        """
        opened = open_service(impl, properties, storage_options)
        return cls(opened.uri, dict(opened.root.options), opened.mode, spark=spark)

    def __repr__(self) -> str:
        ref = f", {self.catalog.ref.typed}" if self.catalog.ref is not None else ""
        if self.catalog.service is not None:
            return f"LanceCatalog({self.catalog.uri!r})"
        return f"LanceCatalog({self.catalog.uri!r}, mode={self.catalog.mode!r}{ref})"

    @property
    def tags(self) -> LakeTags:
        """The tags of the whole lake: one version of each table under a name."""
        return LakeTags(self.catalog, self._spark)

    @property
    def branches(self) -> LakeBranches[LanceCatalog]:
        """The branches of the whole lake: create, change, compare, merge and delete them."""
        return LakeBranches(self)

    def checkout(self, branch: str | None = None, tag: str | None = None, published: bool = False) -> LanceCatalog:
        """The lake on a branch, as it was when a tag was created, or as of its last publish; "main" is the lake itself.

        On a branch, every table is at the version that the branch began with, or has the branch's own changes; whatever
        is written, created, dropped or renamed there happens on the branch only. At a tag nothing can be changed.

        With ``published``, it is main without the publishes after the last one that is complete now: all tables are
        before a later publish, whether that runs, failed or ended meanwhile. Other commits are seen as on main when a
        table is opened. Nothing can be changed, and nothing is kept from cleanups: check out again for the next
        publish.

        Raises InvalidOption for several or none, and NotFound, with near names, also for a branch or a tag whose
        creation was interrupted.
        """
        known = ((BRANCH, branch), (TAG, tag), (PUBLISHED, "true" if published else None))
        given = [(kind, name) for kind, name in known if name is not None]
        if len(given) != 1:
            raise InvalidOption("Name a branch or a tag of the lake.", hint="lake.checkout(branch='etl/nightly')")
        return self._on(replace(self.catalog, ref=None) if branch == MAIN else at_ref(self.catalog, *given[0]))

    def _on(self, catalog: Catalog) -> LanceCatalog:
        there = copy(self)
        there.catalog = catalog
        return there

    def browse(
        self,
        *,
        allow_merge: bool = False,
        audit: Callable[[LanceCatalog], bool] | None = None,
        reports: Sequence[str] | str = (),
        port: int = 0,
        open_browser: bool = True,
    ) -> Browsing:
        """Pages about the lake and its tables: see :meth:`LanceTable.browse`, also for the other arguments.

        ``audit`` is that of ``lake.branches.merge``, for the button that ``allow_merge`` adds: it gets the lake as
        it will be, and nothing is merged if it returns False. Raises NotInstalled, and Refused for a ``port`` that is
        taken.
        """
        from lance_spark.ui.server import browse

        check = None if audit is None else lambda merged: audit(self._on(merged))
        whole = replace(self.catalog, ref=None)
        return browse(
            whole,
            allow_merge=allow_merge,
            audit=check,
            reports=names_of(reports),
            port=port,
            open_browser=open_browser,
        )

    def _card(self) -> Card:
        return look_at_catalog(type(self).__name__, self.catalog)

    def __getstate__(self) -> dict[str, Any]:
        return {"catalog": self.catalog, "_spark": None}

    @property
    def spark(self) -> SparkSession:
        """The session it was created with, or the active one. Raises Refused if there is none, as on executors."""
        if self._spark is None:
            self._spark = needed_session(None, "describe_table(name).location locates a table without a session.")
        return self._spark

    def create_namespace(self, name: Name, properties: Mapping[str, str] | None = None, exist_ok: bool = False) -> bool:
        """Create a namespace; False if it exists and ``exist_ok``: then it keeps its properties.

        Raises InvalidName, AlreadyExists (also for a table of that name), NotFound for a missing parent.
        """
        return lookup.create_namespace(self.catalog, name, properties, exist_ok)

    def namespace_exists(self, name: Name) -> bool:
        """Whether the namespace exists."""
        return lookup.namespace_exists(self.catalog, name)

    def describe_namespace(self, name: Name = "") -> NamespaceInfo:
        """A namespace's properties, or those of the root. Raises NotFound."""
        return lookup.describe_namespace(self.catalog, name)

    def alter_namespace(
        self, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
    ) -> NamespaceInfo:
        """Set and remove properties of a namespace, or of the root. Raises NotFound."""
        return tables.alter_namespace(self.catalog, name, put, unset)

    def drop_namespace(self, name: Name, cascade: bool = False, force: bool = False) -> tuple[Removed, ...]:
        """Drop a namespace, and with ``cascade`` everything in it; returns the dropped tables.

        Raises NotFound, and Refused for one that is not empty and, without ``force``, if clones read a table in it or
        a tag of the lake pins one.
        """
        return removing.drop_namespace(self.catalog, name, cascade, force)

    def list_namespaces(
        self, parent: Name = "", recursive: bool = False, limit: int | None = None, after: Name | None = None
    ) -> list[str]:
        """Names of the namespaces in a namespace, or also of nested ones; pages as in :meth:`list_tables`."""
        return _names(lookup.list_namespaces(self.catalog, parent, recursive, limit, _token(after)))

    def list_tables(
        self, namespace: Name = "", recursive: bool = False, limit: int | None = None, after: Name | None = None
    ) -> list[str]:
        """Names of the tables in a namespace, or also of those in nested namespaces.

        To read page by page, give a ``limit``, and the last name of the previous page as ``after``. Raises NotFound.
        """
        return _names(lookup.list_tables(self.catalog, namespace, recursive, limit, _token(after)))

    def table_exists(self, name: Name) -> bool:
        """Whether the table exists, with data or only declared."""
        return lookup.table_exists(self.catalog, name)

    def describe_table(self, name: Name) -> TableInfo:
        """A table's location and properties. Raises NotFound."""
        return lookup.describe_table(self.catalog, name)

    def alter_table(
        self, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
    ) -> TableInfo:
        """Set and remove properties of a table. Raises NotFound, Refused for a table that is only a directory."""
        return tables.alter_table(self.catalog, name, put, unset)

    def table(
        self,
        name: Name,
        branch: str | None = None,
        tag: str | None = None,
        version: int | None = None,
        as_of: str | datetime | None = None,
    ) -> LanceTable:
        """A handle on a table, at a ref as in :meth:`LanceTable.checkout`.

        It stays with the directory: a rename does not disturb it, unless the table is in the root and its directory
        moves. Raises NotFound for an unknown table and for one that has no data yet.
        """
        typed = (branch, tag, version, as_of)
        asked = RefSpec() if self.catalog.ref is None or typed == (None,) * 4 else spec_of(*typed)
        location, spec = find_open_table(self.catalog, name, asked)
        handle = LanceTable(self._spark, location, spec)
        if self.catalog.ref is not None:
            return handle
        return handle if typed == (None,) * 4 else handle.checkout(*typed)

    def write_table(self, frame: object, name: Name, mode: SaveMode = "errorifexists", **options: object) -> None:
        """Write a DataFrame as one version; executors write, the driver commits.

        Also a DataFrame of pandas, or a table, batches or a reader of pyarrow: this process writes those.

        ``mode`` is errorifexists, ignore, append or overwrite; ``options`` are those of the data source, such as branch
        and create_branch. A new table is declared, written and committed; a failure releases its name. If several jobs
        create it at once, one succeeds. Raises AlreadyExists, Conflict, SchemaMismatch, and NotFound for a missing
        namespace.
        """
        if isinstance(frame, str):
            order = "lake.write_table takes the rows first, then the name."
            raise WrongArguments(order, hint=f"lake.write_table(df, {frame!r})")
        catalog, table = self.catalog, identify_table(name)
        if mode not in get_args(SaveMode):
            raise InvalidOption(f"{mode!r} is not a save mode.", hint=f"Choose one of {', '.join(get_args(SaveMode))}.")
        if mode == "ignore" and table_exists(catalog, table):
            return
        new = mode not in ("append", "overwrite")
        settings = {PREFIX + key: value for key, value in catalog.root.options}
        settings |= {key: str(value) for key, value in options.items()}
        settings |= {"catalog": catalog.uri, "catalog_mode": catalog.mode, **({"create_table": "true"} if new else {})}
        settings |= {} if catalog.ref is None else catalog.ref.option
        if is_frame(frame):
            self._write_frame(cast("DataFrame", frame), str(table), mode, settings)
            return
        there = not new and mode == "append" and table_exists(catalog, table)
        info = describe_table(catalog, table) if there and catalog.ref is None else None
        place = None if info is None or info.declared else info.location  # a declared table has no types yet
        branch = branch_or_none(settings.get("branch"))
        try:
            write_arrow({**settings, "path": str(table)}, frame, mode == "overwrite", place, branch)
        except AlreadyExists:
            if mode != "ignore":
                raise

    def _write_frame(self, frame: DataFrame, table: str, mode: SaveMode, settings: dict[str, str]) -> None:
        from pyspark.errors import PySparkException

        writer = writer_to(table, frame, "overwrite" if mode == "overwrite" else "append", settings)
        try:
            writer.save(table)
        except PySparkException as problem:
            known = own_error(str(problem))
            if mode == "ignore" and isinstance(known, AlreadyExists):
                return
            raise known or problem from None

    def declare_table(self, name: Name, properties: Mapping[str, str] | None = None) -> TableInfo:
        """Take a name, with properties, for a table that gets its data later: by an append, or by another tool.

        Raises AlreadyExists, NotFound for a missing namespace.
        """
        tables.declare_table(self.catalog, name, properties)
        return self.describe_table(name)

    def rename_table(self, old: Name, new: Name) -> Renamed:
        """Give a table another name, possibly in another namespace. Its data, properties and versions stay.

        Raises NotFound, AlreadyExists, and Refused for a table whose directory must move although branches or clones
        read it.
        """
        return removing.rename_table(self.catalog, old, new)

    def move_table(self, name: Name, namespace: Name) -> Renamed:
        """Move a table to another namespace, under its own name. Raises the errors of :meth:`rename_table`."""
        return removing.move_table(self.catalog, name, namespace)

    def register_table(
        self, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
    ) -> TableInfo:
        """Register a directory of the catalog that holds a table under a name.

        ``location`` is relative to the root, or a full URI. It can be omitted if only one directory matches. Raises
        NotFound, AlreadyExists, InvalidOption.
        """
        return tables.register_table(self.catalog, name, location, properties)

    def deregister_table(self, name: Name) -> Removed:
        """Take a table out of the catalog and keep its data; the result has what is needed to register it again."""
        return tables.deregister_table(self.catalog, name)

    def drop_table(self, name: Name, force: bool = False) -> Removed:
        """Drop a table and its files.

        Raises NotFound, and Refused, without ``force``, if clones read its files or a tag of the lake pins it.
        """
        return removing.drop_table(self.catalog, name, force)

    def register_views(
        self, spark: SparkSession | None = None, namespace: Name = "", recursive: bool = True, prefix: str = ""
    ) -> list[str]:
        """Create a temporary view of each table in a namespace, for queries in SQL; returns the views' names.

        ``ns1.ns2.flights`` becomes the view ``ns1_ns2_flights``, with the prefix in front of it. A view stays at the
        version that is the newest now; the next call replaces it. Tables without data are left out; each other one
        takes some 0.1 s. Raises Refused for two tables with the same view; then no view was created.
        """
        session, frames = spark or self.spark, {}
        # All tables are opened before the first view is created, so that a damaged one leaves the views unchanged.
        for table, view in view_names(list_tables(self.catalog, namespace, recursive), prefix).items():
            described = describe_table(self.catalog, table)
            if not described.declared:
                at = self.table(table)
                frames[view] = LanceTable(session, at.location, at.ref).to_df()
        for view, frame in frames.items():
            frame.createOrReplaceTempView(quoted_name(view))
        return list(frames)

    def migrate(self, dry_run: bool = False) -> Migration:
        """Give every table that is only a directory (V1) a row in ``__manifest`` (V2), in one commit.

        With ``dry_run`` nothing is changed. Afterwards the catalog can be opened with mode ``v2``.
        """
        self._check_whole("migrate the catalog")
        return migrate.migrate(self.catalog, dry_run)

    def publish(
        self,
        branch: str,
        tables: Sequence[Name] | None = None,
        audit: Callable[[dict[str, LanceTable]], bool] | None = None,
        message: str | None = None,
        dry_run: bool = False,
        run_on: RunOn = "auto",
        *,
        prefer: str | Mapping[str, str] | None = None,
    ) -> Publish:
        """Merge the branches of one name of many tables into their mains: all of them, or none.

        ``tables`` are those that take part; by default all that have such a branch. Files are copied first. Then
        ``audit`` gets a handle of each changed table at the version that is merged, by name; if it returns False,
        nothing is published. The commits follow, side by side: only between the first and the last of them can a reader
        see some tables new and some old. If the process dies in between, the next ``publish``, or ``recover``, ends the
        work.

        ``prefer`` is that of a merge, for every table. With ``dry_run`` nothing is written; the result names conflicts
        by table. Raises Conflict, which names them too, and Refused for a failed audit; then no table has the changes.
        Raises NotFound for a missing branch. For a branch of the whole lake, use ``branches.merge``.
        """
        catalog = self.catalog

        def check(journal: Journal, passes: Callable[[dict[str, LanceTable]], bool]) -> bool:
            pinned = ((table.name, publishing.located(catalog, table), table.source) for table in journal.tables)
            return passes(
                {
                    name: LanceTable(self._spark, location, RefSpec(branch=pin.branch, version=pin.version))
                    for name, location, pin in pinned
                }
            )

        options = PublishOptions(message, dry_run, Prefer.of(prefer))
        execution = engine_of(self._spark, run_on), None if audit is None else partial(check, passes=audit)
        look = partial(publishing.branch_in_tables, catalog, branch, tables)
        return published(self, branches.publish(catalog, branch, look, execution, options))

    def recover(self, run_on: RunOn = "auto") -> Publish | None:
        """End a publish whose process died: all its tables get the changes, or none. None if there is none.

        Any number of processes may call it at the same time. Raises CorruptData, StorageFailure and PermissionDenied;
        then the publish stays unfinished.
        """
        found = branches.recover(self.catalog, engine_of(self._spark, run_on))
        return None if found is None else published(self, found)

    def reflog(self, ref: str | None = None) -> RefLog:
        """What happened to the branches and tags of the lake, or to those of one name, newest first.

        When they were created, merged, deleted and restored. Deletions are known for as long as they can be undone.
        Raises NotFound for a name that none has or had, and Refused on a branch or at a tag.
        """
        return lake_reflog(self.catalog, ref)

    def publishes(self, limit: int = 20) -> list[Publish]:
        """The latest publishes, newest first."""
        return [report(*found) for found in publishing.latest(self.catalog, limit)]

    @contextmanager
    def transaction(
        self,
        name: str,
        audit: Callable[[LanceCatalog], bool] | None = None,
        tables: Sequence[Name] | None = None,
        message: str | None = None,
    ) -> Iterator[LanceCatalog]:
        """Everything written through the catalog of the ``with`` block reaches main together, or not at all.

        It is on a temporary branch of the lake, ``name`` with a suffix, which is merged at the end of the block and
        deleted in any case. After an exception, or if ``audit`` returns False for the merged lake (Refused), nothing is
        published. ``tables`` are the tables and namespaces that it covers, by default all. Raises Conflict if main
        changed in a way that cannot be combined.
        """
        branch = f"{name}-{secrets.token_hex(4)}"
        self.branches.create(branch, tables)
        try:
            yield self.checkout(branch=branch)
            self.branches.merge(branch, audit, message or name)
        finally:
            self.branches.delete(branch, purge=True)

    def clone(self, root: str, branch: str | None = None) -> LanceCatalog:
        """A new catalog in the same store; its tables are shallow clones of those here, or on a branch of the lake.

        Each table has only main, at the version that it has here; its files are shared, and every cleanup here keeps
        them. Namespaces and properties are copied. The clone appears with all tables, or not at all: after a crash,
        repeat the call. Raises AlreadyExists if there is something in that catalog, Refused for another store, NotFound
        for an unknown branch.
        """
        self.catalog.check_directory()
        source = self.catalog if branch is None else self.checkout(branch=branch).catalog
        check_places(self._spark, root)
        made = LanceCatalog(root, dict(self.catalog.root.options), spark=self._spark)
        branches.clone_lake(source, made.catalog, engine_of(self._spark))
        return made

    def storage(self, namespace: Name = "", run_on: RunOn = "auto") -> CatalogStorage:
        """The size of each table: one row per table, the largest first; or of those in a namespace and below it.

        If there are many tables, or a large one, executors look at them. A table that cannot be read is a row
        with its error. Raises NotFound, StorageFailure.
        """
        self._check_whole("add up the storage of all versions")
        session = session_or_none(self._spark)
        report = catalog_storage(self.catalog, engine_of(session, run_on), namespace)
        return report if session is None else replace(report, frame=partial(data_frame, session))

    def _check_whole(self, doing: str) -> None:
        if self.catalog.service is None:
            check_whole(self.catalog, doing)

    def maintain(
        self, policy: Policy | None = None, limit: str | timedelta | None = None, run_on: RunOn = "auto"
    ) -> MaintenancePlan:
        """The maintenance plan for all tables; ``apply()`` does it, side by side, and the catalog last.

        Its steps are check, compaction, indexes, expiry of refs and cleanup. ``policy`` is a
        :class:`MaintenancePolicy`, or the contents of a policy file as a dictionary. No step begins after ``limit``,
        such as ``"2h"``; with it the most valuable table comes first. Failures are listed in the report. Raises
        InvalidOption, NotFound, StorageFailure.
        """
        self._check_whole("maintain the tables")
        return plan_of_catalog(self._spark, self.catalog, policy, run_on, limit)


def _names(page: Page) -> list[str]:
    return [str(identifier) for identifier in page]


def _token(after: Name | None) -> str | None:
    return None if after is None else identify_table(after).object_id
