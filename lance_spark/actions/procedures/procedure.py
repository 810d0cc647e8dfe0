"""What a procedure is, what it is called with, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from lance_spark.actions.catalog.lookup import locate_table
from lance_spark.actions.resolve import resolve
from lance_spark.actions.target import dataset_at
from lance_spark.actions.typed_refs import find_spec
from lance_spark.catalog.model import Catalog
from lance_spark.errors import InvalidOption, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.refs.typed import parse_version_text
from lance_spark.runner.interface import Engine
from lance_spark.show.near import meant
from lance_spark.store.datasets import open_latest

SqlType = Literal["STRING", "BIGINT", "BOOLEAN"]
_TYPES: Mapping[str, type] = {"STRING": str, "BIGINT": int, "BOOLEAN": bool}


@dataclass(frozen=True)
class Parameter:
    """One parameter. One that is not required is None, or its default, where it is not given."""

    name: str
    type: SqlType
    doc: str
    required: bool = False
    default: str | int | bool | None = None


@dataclass(frozen=True)
class Context:
    """Where a procedure runs: in a catalog, or, without one, where tables are named by their paths."""

    engine: Engine
    catalog: Catalog | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def table(self, name: str) -> DatasetLocation:
        """Where a table is. Raises NotFound, InvalidName, InvalidOption."""
        if self.catalog is not None:
            return locate_table(self.catalog, name)
        location = dataset_at(name, self.storage_options)
        open_latest(location)
        return location

    def place(self, uri: str) -> DatasetLocation:
        """Where something may be made, by its path or URI, in the same store or with credentials of the process."""
        options = self.storage_options if self.catalog is None else self.catalog.root.storage_options
        return dataset_at(uri, options)

    def need_catalog(self, doing: str) -> Catalog:
        """The catalog. Raises Refused where tables are named by their paths."""
        if self.catalog is None:
            raise Refused(f"Cannot {doing}: these tables are in no catalog.", hint="Call it in a catalog with a root.")
        return self.catalog


def spec_of(location: DatasetLocation, ref: str) -> RefSpec:
    """The branch, tag or version that an argument names. Raises NotFound with near names, InvalidOption, Refused."""
    return find_spec(location, parse_version_text(ref))


def pin_of(location: DatasetLocation, ref: str) -> PinnedVersion:
    """The version that an argument names, right now. Raises as :func:`spec_of`, and NotFound for the version."""
    return resolve(location, spec_of(location, ref))


Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Procedure:
    """A procedure: its name, what it takes, what it returns, and what carries it out."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    columns: pa.Schema
    """Of the rows that it returns."""
    run: Callable[[Context, Mapping[str, Any]], Rows]
    """Is given a value for every parameter."""

    def call(self, context: Context, arguments: Mapping[str, Any]) -> pa.Table:
        """Carry it out; returns its rows.

        Raises InvalidOption for an unknown or missing argument and one of another type, and what the action raises.
        """
        return pa.Table.from_pylist(list(self.run(context, self.bind(arguments))), schema=self.columns)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every parameter. Names are taken in any case, as in SQL. Raises InvalidOption."""
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
                f"Argument '{parameter.name}' of procedure {self.name} is {value!r}, and has to be {parameter.type}."
            )
        return value


TABLE = Parameter("table", "STRING", "the table's name, such as 'ns1.flights'", required=True)
DRY_RUN = Parameter("dry_run", "BOOLEAN", "whether to change nothing, and only say what would be done", default=False)
MESSAGE = Parameter("message", "STRING", "a message for the log")
REFS = "a branch, a tag, 'exp@7' or a version of main"
