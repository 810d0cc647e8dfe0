"""Catalogs that settings of a Spark server name, for its SQL shells, JDBC and other languages.

Their Java class is in a jar that ``lance-catalog jar`` wrote. ``Extensions.java``, in the same jar, asks which
statements are for this package, and makes each of them the CALL of a procedure that is here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from lance_spark.catalog.lake_rules import PUBLISHED
from lance_spark.catalog.lookup import open_service
from lance_spark.core.storage_options import PREFIX, split_storage
from lance_spark.engine.errors_spark import Spoken
from lance_spark.errors import InvalidOption
from lance_spark.jvm import names
from lance_spark.jvm.attached import inside
from lance_spark.jvm.bridge import Bridge, java_error
from lance_spark.jvm.proxies import Implementation
from lance_spark.native.catalog import NativeCatalog
from lance_spark.native.hooks import catalog_of
from lance_spark.native.row_statements import RowStatement
from lance_spark.native.rows import RowsScan
from lance_spark.native.session import Room
from lance_spark.native.statements import is_about
from lance_spark.sql.statement_rules import may_change_rows, opened, view_to_create

_STATEMENT = "lance_spark_statement"
_REFS = ("branch", "tag", PUBLISHED)
_FORM = "root, branch, tag, published, storage.<key> for storage options, and impl with the properties of a service"


def serve(room: Room, name: str, options: Mapping[str, str], paths: bool) -> NativeCatalog:
    """The catalog of a name. Raises InvalidOption, NotFound."""
    options = options if paths else _of_service(options)
    rest, storage = split_storage(options)
    given = {key.lower(): value for key, value in rest.items()}
    root = given.pop("root", None)
    refs = [(kind, given.pop(kind)) for kind in _REFS if kind in given]
    refs = [(kind, ref) for kind, ref in refs if kind != PUBLISHED or ref.lower() == "true"]
    prefix = f"spark.sql.catalog.{name}"
    if given:
        raise InvalidOption(f"There is no setting {prefix}.{next(iter(given))}.", hint=f"The settings are {_FORM}.")
    if paths and (root is not None or refs):
        raise InvalidOption(f"{prefix} is of paths, and takes no root.", hint="Use the class lance_spark.Catalog.")
    if not paths and root is None:
        raise InvalidOption(f"{prefix}.root is not set.", hint=f"Set {prefix}.root to the directory of the lake.")
    if len(refs) > 1:
        raise InvalidOption(f"{prefix}.{refs[0][0]} and .{refs[1][0]} exclude each other.")
    catalog = room.make_catalog(name, root, storage, *refs)
    catalog.own_procedures[_STATEMENT] = partial(StatementProcedure, room)
    room.catalogs[name] = catalog
    return catalog


def _of_service(options: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a catalog; those with an implementation, in the form of a root and its storage options."""
    impl = next((value for key, value in options.items() if key.lower() == "impl"), None)
    if impl is None:
        return options
    properties = {key: value for key, value in options.items() if key.lower() not in ("impl", *_REFS)}
    opened = open_service(impl, properties)
    refs = {key: value for key, value in options.items() if key.lower() in _REFS}
    return {**refs, "root": opened.uri, **{PREFIX + key: value for key, value in opened.root.options}}


def understands(room: Room, text: str) -> bool:
    """Whether this package executes a statement."""
    opening = opened(text)
    if opening is not None:
        return is_about(room, opening)
    view = view_to_create(text)
    if view is not None:
        return catalog_of(room, [*view]) in room.catalogs  # and refuses it
    if not may_change_rows(text) or room.bridge.no_row_changes is not None:
        return False
    statement = RowStatement(room.bridge, text)
    target = statement.target
    if target is None or catalog_of(room, target) not in room.catalogs:
        return False
    if statement.evolves:
        return True  # its analysis adds columns
    with suppress(PySparkException):  # Spark tells its users what is wrong better than a procedure could
        return statement.analyze({}) is not None
    return False


class StatementProcedure(Implementation):
    """Spark's procedure that executes a statement, its only argument, in base64."""

    interfaces: ClassVar = (names.UNBOUND_PROCEDURE, names.BOUND_PROCEDURE)

    def __init__(self, room: Room) -> None:
        super().__init__(room.bridge)
        self._room = room

    def spoken(self) -> Spoken:
        return Spoken("sql")

    def name(self) -> str:
        return _STATEMENT

    def description(self) -> str:
        return "executes a statement that Spark does not execute for Lance tables"

    def bind(self, _types: Any) -> Any:
        return self.java()

    def is_deterministic(self) -> bool:
        return False

    def parameters(self) -> Any:
        kind = self.bridge.call(f"{names.DATA_TYPE}.fromJson", '"string"')
        given = self.bridge.call(f"{names.PROCEDURE_PARAMETER}.in", "statement", kind)
        return self.bridge.array(names.PROCEDURE_PARAMETER, [given.build()])

    def call(self, row: Any) -> Any:
        """Execute it; an iterator of one scan, with the rows of its result."""
        text = base64.b64decode(row.getString(0)).decode()
        with inside(self.bridge.gateway), _unchecked(self.bridge):
            table = self.bridge.spark.sql(text).toArrow()
        results = self.bridge.new("java.util.ArrayList")
        results.add(RowsScan(self.bridge, "statement", table.schema, table.to_batches).java())
        return results.iterator()


@contextmanager
def _unchecked(bridge: Bridge) -> Iterator[None]:
    """Make Java throw Spark's errors as unchecked ones: a procedure declares none, and Java would hide their texts."""
    try:
        yield
    except CapturedException as error:
        origin = error._origin
        if origin is None or bridge.load("java.lang.RuntimeException").isInstance(origin):
            raise
        raise java_error(bridge.new("java.lang.RuntimeException", origin.getMessage(), origin)) from error
