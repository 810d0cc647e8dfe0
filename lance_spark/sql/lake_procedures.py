"""Procedures for a whole lake: its branches, tags and publishes, and the migration of a catalog; and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_spark.catalog.lake import check_whole, delete_ref, list_refs
from lance_spark.catalog.lake_rules import BRANCH, TAG, LakeRef
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.name_rules import TABLE, Catalog
from lance_spark.core.declared import typed_at
from lance_spark.core.show import fields_of
from lance_spark.lake import branches, publish
from lance_spark.lake.publish import branch_in_tables
from lance_spark.lake.report import Publish, report
from lance_spark.merge.option_rules import MergeOptions, PublishOptions
from lance_spark.sql.declaring import Context, Parameter, Rows, parameters_of, procedure, table_of

_REF_COLUMNS = table_of("name STRING, tables BIGINT, created_at TIMESTAMP, ready BOOLEAN")
_BRANCH_COLUMNS = pa.schema([*_REF_COLUMNS, *table_of("expire_after STRING, owner STRING, protected BOOLEAN")])
_BRANCH_NAME = Parameter("name", "STRING", "the name of the branch of the whole lake", required=True)
_TAG_NAME = Parameter("name", "STRING", "the name of the tag of the whole lake", required=True)
_DRY_RUN = Parameter("dry_run", "BOOLEAN", "whether to change nothing, and only show what would happen", default=False)
_MESSAGE = Parameter("message", "STRING", "a message for the log of each table and of the publish")


def _ref_row(ref: LakeRef) -> dict[str, Any]:
    return fields_of(ref, *_REF_COLUMNS.names)


def _branch_row(ref: LakeRef) -> dict[str, Any]:
    settings = ref.lifetime.as_record()
    return _ref_row(ref) | {name: settings[name] for name in ("expire_after", "owner", "protected")}


# --- Branches


@procedure(
    "create_lake_branch",
    _BRANCH_COLUMNS,
    _BRANCH_NAME,
    Parameter("tables", "ARRAY<STRING>", "the tables and namespaces that it covers; by default all"),
    Parameter("expire_after", "STRING", "a span such as '30d', after which it may be deleted"),
    Parameter("owner", "STRING", "who is responsible for it"),
    Parameter("protected", "BOOLEAN", "whether it cannot be deleted"),
)
def _create_lake_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Branch every table of the catalog, or some; it copies nothing. ``register(..., branch=)`` is a catalog on it."""
    settings: Any = {key: given[key] for key in ("expire_after", "owner", "protected") if given[key] is not None}
    catalog = context.need_catalog("create a branch of the lake")
    yield _branch_row(branches.create_branch(catalog, given["name"], context.engine, given["tables"], settings))


@procedure(
    "drop_lake_branch",
    "name STRING",
    _BRANCH_NAME,
    Parameter("purge", "BOOLEAN", "whether to delete the files of its changes at once, for good", default=False),
)
def _drop_lake_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Delete a branch of the whole lake, with its changes that were not merged; their files stay for a week."""
    catalog = context.need_catalog("delete a branch of the lake")
    branches.delete_branch(catalog, given["name"], context.engine, given["purge"])
    yield {"name": given["name"]}


@procedure("list_lake_branches", _BRANCH_COLUMNS)
def _list_lake_branches(context: Context, _given: Mapping[str, Any]) -> Rows:
    """List the branches of the whole lake; one that is not ready is incomplete, and can only be deleted."""
    return _branches(context.need_catalog("list branches of the lake"))


@procedure(
    "diff_lake",
    "name STRING, kind STRING, change STRING, rows_added BIGINT, rows_removed BIGINT, name_before STRING",
    _BRANCH_NAME,
)
def _diff_lake(context: Context, given: Mapping[str, Any]) -> Rows:
    """What a branch of the whole lake changed since it began, or since its last merge, by table and namespace."""
    catalog = context.need_catalog("compare a branch of the lake")
    for each in branches.diff_branch(catalog, given["name"], context.engine).changes:
        told = fields_of(each, "name", "kind", "change")
        rows = fields_of(each, "rows_added", "rows_removed") if each.kind == TABLE else {}
        yield {**told, **rows, "name_before": each.before or None}


# --- Publishing

(_PREFER,) = parameters_of(MergeOptions, "prefer")

_PUBLISH_COLUMNS = table_of(
    "branch STRING, state STRING, table STRING, change STRING, version_before BIGINT, version_after BIGINT, "
    "conflict STRING, id STRING"
)


def _rows_of(done: Publish) -> Iterator[dict[str, Any]]:
    """A row for each table with new rows, for each change of the catalog, and for each conflict; at least one."""
    shared = {"branch": done.branch, "state": done.state, "id": done.id or None}
    rows: list[dict[str, Any]] = [
        {"table": each.name, "change": each.change, "version_before": each.before, "version_after": each.after}
        for each in done.tables
    ]
    for key, texts in (("change", done.others), ("conflict", done.conflicts)):
        rows += [dict(zip(("table", key), text.split(": ", 1), strict=True)) for text in texts]
    yield from ({**shared, **row} for row in rows or [{}])


@procedure("merge_lake_branch", _PUBLISH_COLUMNS, _BRANCH_NAME, _MESSAGE, _DRY_RUN, _PREFER)
def _merge_lake_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Merge a branch of the whole lake into main: all its tables, or none. A dry run names conflicts by table."""
    catalog = context.need_catalog("merge a branch of the lake")
    options = PublishOptions.of(typed_at("sql", MergeOptions, given))
    return _rows_of(branches.merge_branch(catalog, given["name"], context.engine, options).report)


@procedure(
    "publish_branch",
    _PUBLISH_COLUMNS,
    Parameter("branch", "STRING", "the name of a branch that several tables have", required=True),
    Parameter("tables", "ARRAY<STRING>", "the tables that take part; by default all that have it"),
    _MESSAGE,
    _DRY_RUN,
    _PREFER,
)
def _publish_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Merge the branches of one name of many tables into their mains: all of them, or none."""
    catalog, branch = context.need_catalog("publish branches of tables"), given["branch"]
    execution = context.engine, None
    options = PublishOptions.of(typed_at("sql", MergeOptions, given))
    look = lambda: branch_in_tables(catalog, branch, given["tables"])  # noqa: E731
    return _rows_of(branches.publish(catalog, branch, look, execution, options).report)


@procedure("recover", _PUBLISH_COLUMNS)
def _recover(context: Context, _given: Mapping[str, Any]) -> Rows:
    """End a publish whose process died: all its tables get the changes, or none. No row if there is none."""
    done = branches.recover(context.need_catalog("end a publish"), context.engine)
    return () if done is None else _rows_of(done.report)


_PUBLISHES_COLUMNS = table_of(
    "id STRING, branch STRING, state STRING, created_at TIMESTAMP, message STRING, tables ARRAY<STRING>, "
    "changes ARRAY<STRING>, conflicts ARRAY<STRING>"
)
_ALL = 1_000_000


@procedure(
    "list_publishes", _PUBLISHES_COLUMNS, Parameter("limit", "BIGINT", "how many, from the newest on", default=20)
)
def _list_publishes(context: Context, given: Mapping[str, Any]) -> Rows:
    """List the latest publishes, newest first, with the tables that got new rows and the other changes."""
    return _publishes(context.need_catalog("list publishes"), given["limit"])


def _publishes(catalog: Catalog, limit: int = _ALL) -> Iterator[dict[str, Any]]:
    for done in (report(*found) for found in publish.latest(replace(catalog, ref=None), limit)):
        yield {
            "id": done.id,
            "branch": done.branch,
            "state": done.state,
            "created_at": datetime.fromisoformat(done.made),
            "message": done.message or None,
            "tables": [table.name for table in done.tables],
            "changes": [*done.others],
            "conflicts": [*done.conflicts],
        }


# --- Tags


@procedure("tag_lake", _REF_COLUMNS, _TAG_NAME)
@procedure("create_lake_tag", _REF_COLUMNS, _TAG_NAME)
def _create_lake_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Tag the newest version of every table of the catalog under one name; every cleanup keeps them."""
    catalog = context.need_catalog("create a tag of the lake")
    yield _ref_row(branches.create_tag(catalog, given["name"], context.engine))


@procedure("drop_lake_tag", "name STRING", _TAG_NAME)
def _drop_lake_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Delete a tag of the whole lake, also an incomplete one."""
    delete_ref(context.need_catalog("delete a tag of the lake"), TAG, given["name"])
    yield {"name": given["name"]}


@procedure("list_lake_tags", _REF_COLUMNS)
def _list_lake_tags(context: Context, _given: Mapping[str, Any]) -> Rows:
    """List the tags of the whole lake; one that is not ready is incomplete, and can only be deleted."""
    return _tags(context.need_catalog("list tags of the lake"))


def _branches(catalog: Catalog) -> Iterator[dict[str, Any]]:
    yield from map(_branch_row, list_refs(catalog, BRANCH))


def _tags(catalog: Catalog) -> Iterator[dict[str, Any]]:
    yield from map(_ref_row, list_refs(catalog, TAG))


# --- The same as tables: ``SELECT * FROM lake.system.branches``


@dataclass(frozen=True)
class SystemTable:
    """A table of a catalog that says something about it as a whole."""

    columns: pa.Schema
    _rows: Callable[[Catalog], Iterator[Mapping[str, Any]]]

    def read(self, catalog: Catalog) -> Iterator[pa.RecordBatch]:
        """Its rows. Raises the errors of the store."""
        yield from pa.Table.from_pylist([*self._rows(catalog)], schema=self.columns).to_batches()


SYSTEM_TABLES: Mapping[str, SystemTable] = {
    "branches": SystemTable(_BRANCH_COLUMNS, _branches),
    "tags": SystemTable(_REF_COLUMNS, _tags),
    "publishes": SystemTable(_PUBLISHES_COLUMNS, _publishes),
}
"""By name, in the namespace of procedures."""


# --- The procedure that migrates a V1 catalog to V2


@procedure(
    "migrate",
    "table STRING, state STRING, reason STRING",
    Parameter("dry_run", "BOOLEAN", "whether to change nothing, and only show the planned changes", default=False),
)
def _migrate(context: Context, given: Mapping[str, Any]) -> Rows:
    """Record all tables that are only directories (V1) in the catalog (V2), in one commit."""
    catalog = context.need_catalog("migrate")
    check_whole(catalog, "migrate the catalog")
    done = migrate(catalog, given["dry_run"])
    for name in done.tables:
        yield {"table": str(name), "state": done.state}
    for skipped in done.skipped:
        yield {"table": skipped.directory, "state": "skipped", "reason": skipped.why}
