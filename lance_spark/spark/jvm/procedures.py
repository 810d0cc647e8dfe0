"""Procedures, for ``CALL``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.actions.procedures.registry import PROCEDURES, find_procedure
from lance_spark.errors import NotFound
from lance_spark.spark.engines import engine_of
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.failures import Spoken
from lance_spark.spark.jvm.identifiers import identifier, parts_of
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.rows import RowsScan

if TYPE_CHECKING:
    from lance_spark.actions.procedures.procedure import Parameter, Procedure
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Places

NAMESPACE = "system"
"""In which all procedures are."""
_TYPES = {"STRING": "string", "BIGINT": "long", "BOOLEAN": "boolean"}
_GETTERS = {"STRING": "getString", "BIGINT": "getLong", "BOOLEAN": "getBoolean"}


class Procedures(Implementation):
    """The part of a catalog that is Spark's ``ProcedureCatalog``."""

    _places: Places
    _name: str

    def load_procedure(self, ident: Any) -> Any:
        """The procedure of a name; in place of one that is not there, one that says so."""
        try:
            return NativeProcedure(self.bridge, _procedure(parts_of(ident)), self._places, self._name).java()
        except NotFound as missing:
            return MissingProcedure(self.bridge, missing).java()

    def list_procedures(self, namespace: Any) -> Any:
        """All procedures, in their namespace."""
        listed = PROCEDURES if [*namespace] in ([], [NAMESPACE]) else ()
        return self.bridge.array(names.IDENTIFIER, [identifier(self.bridge, (NAMESPACE, name)) for name in listed])


def _procedure(parts: list[str]) -> Procedure:
    *namespace, name = parts
    if [part.lower() for part in namespace] != [NAMESPACE]:
        raise NotFound(
            f"There is no procedure {'.'.join(parts)}.",
            hint=f"Procedures are in the namespace '{NAMESPACE}': CALL ... .{NAMESPACE}.create_branch(...).",
        )
    return find_procedure(name)


class MissingProcedure(Implementation):
    """Spark's ``UnboundProcedure`` for a name that is none. Spark shows no error of the look-up, but this one's."""

    interfaces: ClassVar = (names.UNBOUND_PROCEDURE,)

    def __init__(self, bridge: Bridge, missing: NotFound) -> None:
        super().__init__(bridge)
        self._missing = missing

    def name(self) -> str:
        """Shown nowhere."""
        return ""

    def bind(self, _types: Any) -> Any:
        """Raises NotFound."""
        raise self._missing


class NativeProcedure(Implementation):
    """Spark's ``UnboundProcedure`` and ``BoundProcedure``: what there is to bind to takes any arguments."""

    interfaces: ClassVar = (names.UNBOUND_PROCEDURE, names.BOUND_PROCEDURE)

    def __init__(self, bridge: Bridge, procedure: Procedure, places: Places, catalog: str) -> None:
        super().__init__(bridge)
        self._procedure, self._places, self._catalog = procedure, places, catalog
        self._table: str | None = None

    def spoken(self) -> Spoken:
        """A CALL, and the table that it names."""
        return Spoken("sql", self._catalog, self._table)

    def name(self) -> str:
        """Its name."""
        return self._procedure.name

    def description(self) -> str:
        """What it does."""
        return self._procedure.doc

    def bind(self, _types: Any) -> Any:
        """Itself."""
        return self.java()

    def is_deterministic(self) -> bool:
        """No: the next call finds other branches and versions."""
        return False

    def parameters(self) -> Any:
        """Spark casts arguments to their types, and fills in defaults."""
        return self.bridge.array(names.PROCEDURE_PARAMETER, [self._parameter(p) for p in self._procedure.parameters])

    def _parameter(self, given: Parameter) -> Any:
        kind = self.bridge.call(f"{names.DATA_TYPE}.fromJson", json.dumps(_TYPES[given.type]))
        built = self.bridge.call(f"{names.PROCEDURE_PARAMETER}.in", given.name, kind).comment(given.doc)
        return (built if given.required else built.defaultValue(_sql(given.default))).build()

    def call(self, row: Any) -> Any:
        """Carry it out; an iterator of one scan, with its rows."""
        arguments = {
            parameter.name: None if row.isNullAt(at) else getattr(row, _GETTERS[parameter.type])(at)
            for at, parameter in enumerate(self._procedure.parameters)
        }
        self._table = arguments.get("table")
        context = self._places.context(engine_of(self.bridge.spark))
        answer = self._procedure.call(context, arguments)
        results = self.bridge.new("java.util.ArrayList")
        results.add(RowsScan(self.bridge, self._procedure.name, answer.schema, answer.to_batches).java())
        return results.iterator()


def _sql(value: str | int | bool | None) -> str:
    """A constant as SQL has it."""
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
