"""Procedures as values, with their arguments and context: branches, tags, merges, restore, clone, migration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from lance_spark.catalog.lookup import locate_table
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.rules import Catalog
from lance_spark.core.declared import at, typed_at
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import parse_version_text
from lance_spark.core.refs import MAIN, PinnedVersion, RefSpec, branch_or_none
from lance_spark.core.show import meant
from lance_spark.engine.local import Engine
from lance_spark.errors import InvalidOption, Refused
from lance_spark.merge import merge as single_version
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.report import MergeResult
from lance_spark.merge.restore import restore_version
from lance_spark.refs import refs
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.rules import CloneOptions
from lance_spark.storage.commits import ORIGIN
from lance_spark.storage.datasets import open_latest
from lance_spark.storage.resolving import dataset_at, find_spec, resolve

SqlType = Literal["STRING", "BIGINT", "BOOLEAN"]
_TYPES: Mapping[str, type] = {"STRING": str, "BIGINT": int, "BOOLEAN": bool}


@dataclass(frozen=True)
class Parameter:
    """One parameter. An optional one is None, or its default, if it is not given."""

    name: str
    type: SqlType
    doc: str
    required: bool = False
    default: str | int | bool | None = None


def parameters_of(kind: type, *names: str) -> tuple[Parameter, ...]:
    """The options, or some, that a dataclass declares for SQL. Lists are texts with commas in between."""
    types: Mapping[str, SqlType] = {"number": "BIGINT", "flag": "BOOLEAN"}
    return tuple(
        Parameter(
            each.key, types.get(each.kind, "STRING"), each.help, default=each.default if each.kind in types else None
        )
        for each in at(kind, "sql", *names)
    )


@dataclass(frozen=True)
class Context:
    """Where a procedure runs: in a catalog, or without one, if tables are named by their paths."""

    engine: Engine
    catalog: Catalog | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def table(self, name: str) -> DatasetLocation:
        """The location of a table. Raises NotFound, InvalidName, InvalidOption."""
        if self.catalog is not None:
            return locate_table(self.catalog, name)
        location = dataset_at(name, self.storage_options)
        open_latest(location)
        return location

    def place(self, uri: str) -> DatasetLocation:
        """The location for a new dataset, by path or URI, in the same store or with credentials of the process."""
        options = self.storage_options if self.catalog is None else self.catalog.root.storage_options
        return dataset_at(uri, options)

    def need_catalog(self, doing: str) -> Catalog:
        """The catalog. Raises Refused if tables are named by their paths."""
        if self.catalog is None:
            raise Refused(f"Cannot {doing}: these tables are in no catalog.", hint="Call it in a catalog with a root.")
        return self.catalog


def spec_of(location: DatasetLocation, ref: str) -> RefSpec:
    """The branch, tag or version in an argument. Raises NotFound with near names, InvalidOption, Refused."""
    return find_spec(location, parse_version_text(ref))


def pin_of(location: DatasetLocation, ref: str) -> PinnedVersion:
    """The version of an argument, now. Raises as :func:`spec_of`, and NotFound for the version."""
    return resolve(location, spec_of(location, ref))


Rows = Iterable[Mapping[str, Any]]
_COLUMN_TYPES = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "ARRAY<STRING>": pa.list_(pa.string()),
}


def table_of(columns: str) -> pa.Schema:
    """The schema of a procedure's rows, with columns as SQL declares them: ``name STRING, version BIGINT``."""
    return pa.schema([(name, _COLUMN_TYPES[type_]) for name, type_ in map(str.split, columns.split(","))])


@dataclass(frozen=True)
class Procedure:
    """A procedure: its name, parameters, result and function."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    columns: pa.Schema
    """Schema of its rows."""
    run: Callable[[Context, Mapping[str, Any]], Rows]
    """Gets a value for every parameter."""

    def call(self, context: Context, arguments: Mapping[str, Any]) -> pa.Table:
        """Run it; returns its rows.

        Raises InvalidOption for an unknown or missing argument or one of another type, and the errors of the action.
        """
        return pa.Table.from_pylist(list(self.run(context, self.bind(arguments))), schema=self.columns)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every parameter. Names are case-insensitive, as in SQL. Raises InvalidOption."""
        known = {parameter.name: parameter for parameter in self.parameters}
        given: dict[str, Any] = {}
        for key, value in arguments.items():
            name = key.lower()
            if name not in known:
                raise InvalidOption(
                    f"Procedure {self.name} has no parameter '{key}'.", hint=meant(name, known, "It takes")
                )
            if name in given:
                raise InvalidOption(f"Argument '{name}' of procedure {self.name} is given twice.")
            given[name] = value
        return {name: self._value(parameter, given.get(name)) for name, parameter in known.items()}

    def _value(self, parameter: Parameter, value: Any) -> Any:
        if value is None:
            if parameter.required:
                raise InvalidOption(
                    f"Procedure {self.name} needs the argument '{parameter.name}'.", hint=f"It is {parameter.doc}."
                )
            return parameter.default
        expected = _TYPES[parameter.type]
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise InvalidOption(
                f"Argument '{parameter.name}' of procedure {self.name} is {value!r}, but it must be {parameter.type}."
            )
        return value


TABLE = Parameter("table", "STRING", "the table's name, such as 'ns1.flights'", required=True)
REFS = "a branch, a tag, 'exp@7' or a version of main"


# --- Procedures for branches

_NAME = Parameter("name", "STRING", "the branch's name", required=True)


def _create(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    made = refs.create_branch(location, given["name"], spec_of(location, given["from"]))
    yield {"name": made.name, "parent_branch": made.parent_branch or MAIN, "parent_version": made.parent_version}


def _drop(context: Context, given: Mapping[str, Any]) -> Rows:
    refs.delete_branch(context.table(given["table"]), given["name"])
    yield {"name": given["name"]}


CREATE_BRANCH = Procedure(
    "create_branch",
    "Create a branch.",
    (TABLE, _NAME, Parameter("from", "STRING", f"where it starts: {REFS}", default=MAIN)),
    table_of("name STRING, parent_branch STRING, parent_version BIGINT"),
    _create,
)
DROP_BRANCH = Procedure(
    "drop_branch",
    "Delete a branch and its own files for good. Refused while another branch or a tag needs it.",
    (TABLE, _NAME),
    table_of("name STRING"),
    _drop,
)


# --- Procedures for tags

_TAG_NAME = Parameter("name", "STRING", "the tag's name", required=True)


def _create_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    pin = pin_of(location, given["ref"])
    refs.create_tag(location, given["name"], RefSpec(branch=pin.branch, version=pin.version))
    yield {"name": given["name"], "branch": pin.branch or MAIN, "version": pin.version}


def _drop_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    refs.delete_tag(context.table(given["table"]), given["name"], given["force"])
    yield {"name": given["name"]}


CREATE_TAG = Procedure(
    "create_tag",
    "Tag a version; an existing tag is never moved.",
    (TABLE, _TAG_NAME, Parameter("ref", "STRING", f"what to tag: {REFS}", default=MAIN)),
    table_of("name STRING, branch STRING, version BIGINT"),
    _create_tag,
)
_FORCE = Parameter("force", "BOOLEAN", "whether to delete a tag that a clone, merge or stream needs", default=False)
DROP_TAG = Procedure("drop_tag", "Delete a tag.", (TABLE, _TAG_NAME, _FORCE), table_of("name STRING"), _drop_tag)


# --- Procedures that move changes between branches, or undo them

_COLUMNS = table_of(
    "action STRING, into STRING, source STRING, base STRING, version BIGINT, fast_forward BOOLEAN, "
    "up_to_date BOOLEAN, dry_run BOOLEAN, rows_added BIGINT, rows_deleted BIGINT, "
    "fragments_changed BIGINT, columns_added ARRAY<STRING>, columns_dropped ARRAY<STRING>, "
    "conflicts ARRAY<STRING>, indexes_carried ARRAY<STRING>, indexes_missing ARRAY<STRING>, "
    "notes ARRAY<STRING>"
)
_REPLAYING = parameters_of(MergeOptions, "message", "dry_run")
_INTO = Parameter("into", "STRING", "the branch that gets the changes", default=MAIN)


def _row(result: MergeResult) -> dict[str, Any]:
    found = {**result.as_record(), "conflicts": [str(conflict) for conflict in result.conflicts]}
    return {name: found[name] for name in _COLUMNS.names}


def _merge(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    source = resolve(location, RefSpec(branch=branch_or_none(given["branch"])))
    options = typed_at("sql", MergeOptions, given)
    yield _row(merge(location, source, branch_or_none(given["into"]), options, context.engine))


def _cherry_pick(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    into, picked = branch_or_none(given["into"]), pin_of(location, given["ref"])
    done = single_version.cherry_pick(location, picked, into, context.engine, given["message"], given["dry_run"])
    yield _row(done)


def _revert(context: Context, given: Mapping[str, Any]) -> Rows:
    location, branch = context.table(given["table"]), branch_or_none(given["branch"])
    pin = resolve(location, RefSpec(branch=branch, version=given["version"]))
    yield _row(single_version.revert(location, pin, branch, context.engine, given["message"], given["dry_run"]))


MERGE_BRANCH = Procedure(
    "merge_branch",
    "Merge a branch into another one, as one version.",
    (
        TABLE,
        Parameter("branch", "STRING", "the branch to merge", required=True),
        _INTO,
        *parameters_of(MergeOptions),
    ),
    _COLUMNS,
    _merge,
)
CHERRY_PICK = Procedure(
    "cherry_pick",
    "Commit the changes of one version of another branch to a branch.",
    (TABLE, Parameter("ref", "STRING", "the version, such as 'exp@7'", required=True), _INTO, *_REPLAYING),
    _COLUMNS,
    _cherry_pick,
)
REVERT = Procedure(
    "revert",
    "Commit the inverse of one of a branch's versions to that branch.",
    (
        TABLE,
        Parameter("version", "BIGINT", "the version to undo", required=True),
        Parameter("branch", "STRING", "the branch it is on", default=MAIN),
        *_REPLAYING,
    ),
    _COLUMNS,
    _revert,
)


# --- The procedure that restores an older version


def _restore(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    return restore_rows(location, pin_of(location, given["ref"]), context.engine)


def restore_rows(location: DatasetLocation, pin: PinnedVersion, engine: Engine) -> Rows:
    """The result of a restore. Raises as ``restore_version``."""
    done = restore_version(location, pin, engine)
    yield {
        "branch": pin.branch or MAIN,
        "restored_version": pin.version,
        "version": done.version.version,
        "indexes_lacking": list(done.indexes_lacking),
    }


RESTORE = Procedure(
    "restore",
    "Make an older version the newest one of its branch again, as a new version.",
    (TABLE, Parameter("ref", "STRING", "the version: a tag, 'exp@7' or a version of main", required=True)),
    table_of("branch STRING, restored_version BIGINT, version BIGINT, indexes_lacking ARRAY<STRING>"),
    _restore,
)


# --- The procedure that clones a table

_CLONE_COLUMNS = table_of(
    "source STRING, target STRING, branch STRING, version BIGINT, source_version STRING, "
    "rows BIGINT, files BIGINT, bytes BIGINT, deep BOOLEAN, dry_run BOOLEAN"
)


def _clone(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    options = typed_at("sql", CloneOptions, given)
    pin, target = pin_of(location, given["ref"]), context.place(given["target"])
    done = clone(Remote(ORIGIN, location), pin, target, context.engine, options)
    yield {name: getattr(done, name) for name in _CLONE_COLUMNS.names}


CLONE = Procedure(
    "clone",
    "Create a dataset that follows a table, as its remote 'origin'.",
    (
        TABLE,
        Parameter("target", "STRING", "the path or URI of the new dataset", required=True),
        Parameter("ref", "STRING", f"the version that its branch starts with: {REFS}", default=MAIN),
        *parameters_of(CloneOptions),
    ),
    _CLONE_COLUMNS,
    _clone,
)


# --- The procedure that migrates a V1 catalog to V2


def _migrate(context: Context, given: Mapping[str, Any]) -> Rows:
    done = migrate(context.need_catalog("migrate"), given["dry_run"])
    for name in done.tables:
        yield {"table": str(name), "state": done.state}
    for skipped in done.skipped:
        yield {"table": skipped.directory, "state": "skipped", "reason": skipped.why}


MIGRATE = Procedure(
    "migrate",
    "Record all tables that are only directories (V1) in the catalog (V2), in one commit.",
    (Parameter("dry_run", "BOOLEAN", "whether to change nothing, and only show the planned changes", default=False),),
    table_of("table STRING, state STRING, reason STRING"),
    _migrate,
)
