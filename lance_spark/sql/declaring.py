"""What a procedure is: a value with its arguments and context; and how one is declared, and found by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from lance_spark.catalog.lake import begin_table_branch, check_whole
from lance_spark.catalog.lookup import find_open_table, locate_table, read_name
from lance_spark.catalog.manifest_commits import check_may_change
from lance_spark.catalog.name_rules import Catalog, identify_table
from lance_spark.core.declared import at
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import MARK, from_handle, parse_version_text
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.core.services import without_service
from lance_spark.core.texts import meant
from lance_spark.engine.local import Engine
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.storage.resolving import dataset_at, find_spec, read_path, resolve

SqlType = Literal["STRING", "BIGINT", "BOOLEAN", "ARRAY<STRING>"]

_TYPES: Mapping[str, type] = {"STRING": str, "BIGINT": int, "BOOLEAN": bool, "ARRAY<STRING>": list}


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

    @property
    def is_at_lake_ref(self) -> bool:
        """Whether the catalog is on a branch or at a tag of the lake."""
        return self.catalog is not None and self.catalog.ref is not None

    def table(self, name: str) -> DatasetLocation:
        """The location of a whole table, with all its branches. Raises NotFound, InvalidName, InvalidOption.

        Raises Refused for a name with a ref, and in a catalog on a branch or at a tag of the lake, which has one
        version of each table.
        """
        if self.catalog is not None and self.catalog.service is None:  # which has no refs of the lake
            check_whole(self.catalog, f"call a procedure for all branches of table '{name}'")
        location, spec = self._named(name)
        if spec != RefSpec():
            raise Refused(
                f"The procedure is about the whole table, and '{name}' names a ref of it.",
                hint=f"Leave out the '{MARK}' and what follows it.",
            )
        return location

    def to_change(self, name: str, branch: str | None) -> tuple[DatasetLocation, str | None]:
        """A table and its branch (None for main) to change: the one that was given, or that of the name, or main.

        On a branch of the lake it is that of the table there, which exists from now on; naming another one raises
        Refused, as does everything at a tag. Raises NotFound, InvalidName, InvalidOption, and Refused for a name with a
        tag or a version.
        """
        on_lake = self._on_lake(name, branch)
        if on_lake is not None:
            location, spec = on_lake
            return location, spec.branch if spec.begins is None else begin_table_branch(location, spec.begins)
        location, named = self._named(name)
        if branch is not None:
            return location, branch_or_none(branch)
        if named != RefSpec(branch=named.branch):
            raise Refused(f"'{name}' names a version, which never changes.", hint="Name a branch instead.")
        return location, named.branch

    def to_read(self, name: str, ref: str | None) -> tuple[DatasetLocation, PinnedVersion]:
        """A table and its version: the ref that was given, or that of the name, or main.

        A version alone is one of the branch in the name. On a branch of the lake, it is what that has of the table.
        Raises as :meth:`to_change`, and NotFound for a missing ref, with near names.
        """
        on_lake = self._on_lake(name, ref)
        if on_lake is not None:
            location, spec = on_lake
            return location, resolve(location, spec)
        location, named = self._named(name)
        spec = named if ref is None else spec_of(location, ref)
        if ref is not None and parse_version_text(ref).expression is None:
            spec = from_handle(named, spec, names_branch=False)
        return location, resolve(location, spec)

    def _named(self, name: str) -> tuple[DatasetLocation, RefSpec]:
        """The table of a name or path, and the ref in it."""
        if self.catalog is None:
            at = read_path(name, self.storage_options)
            return at.location, at.spec
        if MARK not in name:
            return locate_table(self.catalog, name), RefSpec()
        found = read_name(self.catalog, identify_table(name).parts)
        return found.location, found.spec

    def _on_lake(self, name: str, ref: str | None) -> tuple[DatasetLocation, RefSpec] | None:
        """What a branch of the lake has of a table, or a version of that; None in any other catalog.

        Raises Refused if another ref was named.
        """
        if self.catalog is None or self.catalog.ref is None:
            return None
        check_may_change(self.catalog.manifest, f"call a procedure for table '{name}'")
        version = None if ref is None else parse_version_text(ref).version
        spec = RefSpec(branch=ref) if version is None else RefSpec(version=version)
        return find_open_table(self.catalog, name, spec)

    def place(self, uri: str) -> DatasetLocation:
        """The location for a new dataset, by path or URI, in the same store or with credentials of the process."""
        root = None if self.catalog is None else self.catalog.root
        options = self.storage_options if root is None else without_service(root.storage_options)
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


PROCEDURES: dict[str, Procedure] = {}
"""All procedures by name, in the order of the documentation."""
Run = Callable[[Context, Mapping[str, Any]], Rows]


def procedure(name: str, columns: str | pa.Schema, *parameters: Parameter) -> Callable[[Run], Run]:
    """Declare a procedure. The function's docstring is its description; ``columns`` are those of its rows."""

    def declare(run: Run) -> Run:
        schema = table_of(columns) if isinstance(columns, str) else columns
        PROCEDURES[name] = Procedure(name, run.__doc__ or "", parameters, schema, run)
        return run

    return declare


def find_procedure(name: str) -> Procedure:
    """The procedure of that name, ignoring case. Raises NotFound with near names."""
    found = PROCEDURES.get(name.lower())
    if found is None:
        raise NotFound(f"There is no procedure {name}.", hint=meant(name, sorted(PROCEDURES)))
    return found


TABLE = Parameter("table", "STRING", "the table's name, such as 'ns1.flights'", required=True)
REFS = "a branch, a tag, 'exp@7' or a version of the table's branch"
BY_DEFAULT = "by default what the table's name says, as in 'flights@exp', else main, or what the branch of the lake has"
