"""The connection to a classic session's JVM: classes, small values, errors, and Spark's expressions as plain values."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import ref

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from lance_spark.engine.errors_spark import PYTHON, Spoken
from lance_spark.engine.lengths_spark import parsed_json
from lance_spark.errors import LanceSparkError
from lance_spark.jvm import names
from lance_spark.pushdown.aggregates import Aggregate
from lance_spark.pushdown.filters import Call, Cast, Column, Expression, Literal
from lance_spark.pushdown.order import SortKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_spark.core.location import DatasetLocation

_SCHEMAS = 256
"""Number of JVM schemas to keep: a query requests the same one several times."""


class Bridge:
    """One session's JVM, through py4j. Threads can share it.

    Looking up a class or a static method calls the JVM, so each is looked up once.
    """

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        self._sessions: tuple[Callable[[], SparkSession | None], ...] = (lambda: spark,)
        self._origin: Bridge | None = None
        context: Any = spark.sparkContext
        self.gateway: Any = context._gateway
        self.cores = max(1, int(context.defaultParallelism))
        self._jvm: Any = context._jvm
        ensure_callback_server_started(self.gateway)  # type: ignore[no-untyped-call]
        self.factory_arguments = self.relation_arguments = 0  # set when the session is examined
        self.no_row_changes: str | None = None
        """Why statements cannot change rows; None if they can."""
        self.maker: Any = None
        """The Java object that creates the handlers; None if the session lacks this package's Java classes."""
        self.batches = False
        self.writes_columns = False
        """Whether writes send rows of plain types to Python as columns."""
        self.feeds = False
        """Whether a scan can be a change feed, with a shuffle inside."""
        self.groups = self.groups_where_needed = False
        """Whether scans can tell Spark their keys; and whether Spark joins partitions of one key only where it must."""
        self.groups_soundly = False
        """Whether joins by keys have all rows with any of Spark's settings for them."""
        self.no_batches: str | None = None
        """Why Spark gets rows; None if it gets batches."""
        self.no_columns: str | None = None
        """Why writes send rows; None if they send columns."""
        self.plans_merges = False
        """Whether ``df.mergeInto`` exposes its plan (4.3)."""
        self.evolves = False
        """Whether Spark asks a table which of its columns a MERGE WITH SCHEMA EVOLUTION may change (4.3)."""
        self.caches_by_name = False
        """Whether Spark finds a table's cached data by the table's name (4.3), and not by its version."""
        self.names_of: Callable[[DatasetLocation], Sequence[str]] = lambda _: ()
        """The names that SQL has used for branches of a dataset, if the session has catalogs."""
        self.loader: Any = spark._jsparkSession.getClass().getClassLoader()
        self._found: dict[str, Any] = {}
        self._classes: dict[str, Any] = {}
        self._empty: dict[str, Any] = {}
        self._schemas: dict[str, Any] = {}
        self._interfaces: dict[tuple[str, ...], Any] = {}
        self._methods: dict[tuple[tuple[str, ...], str, int], Any] = {}

    @property
    def spark(self) -> SparkSession:
        alive = next((found for each in self._sessions if (found := each()) is not None), None)
        if alive is not None:
            return alive
        if self._origin is None:
            raise ReferenceError("The session is gone.")
        return self._origin.spark  # Python has dropped the session, and Java still plans with its catalogs

    @property
    def session(self) -> Any:
        return self.spark._jsparkSession

    def settings(self, names: Sequence[str]) -> list[str | None]:
        """The session's settings, or Spark's defaults; None for those that have neither."""
        conf = self.spark.conf._jconf
        if self.maker is not None:
            return list(json.loads(self.maker.settings(conf, json.dumps(names))))
        found = [conf.getOption(name) for name in names]
        return [str(each.get()) if each.isDefined() else None for each in found]

    def of(self, spark: SparkSession) -> Bridge:
        """The bridge of another session in the same JVM, which it does not keep alive.

        Java holds Python's catalogs: if these held the session, each streaming query would leave one behind.
        """
        made = copy.copy(self)
        made._sessions, made._origin = (ref(spark),), self
        return made

    def also(self, spark: SparkSession) -> None:
        """Take another Python object of the same JVM session."""
        self._sessions = (*(each for each in self._sessions if each() is not None), ref(spark))

    def load(self, name: str) -> Any:
        """A ``java.lang.Class`` by its name. Raises Py4JJavaError if there is none."""
        if name not in self._classes:
            self._classes[name] = self.call("java.lang.Class.forName", name, False, self.loader)
        return self._classes[name]

    def new(self, name: str, *arguments: Any) -> Any:
        return self.find(name)(*arguments)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a static method, by the names of its class and its own."""
        return self.find(name)(*arguments)

    def find(self, name: str) -> Any:
        """A class, a static method or a static field by its full name. ``Object$`` is Scala's object."""
        if name not in self._found:
            head, _, last = name.rpartition(".")
            member = getattr(self.find(head) if head else self._jvm, last)
            self._found[name] = getattr(member, "MODULE$") if last.endswith("$") else member
        return self._found[name]

    @cached_property
    def python_source(self) -> Any:
        """Makes Spark start this package's workers. Not looked up by a name, which the active session would resolve."""
        from pyspark.sql.udf import _wrap_function

        # Only the class's environment matters: the interpreter and its variables.
        return self.new(names.PYTHON_SOURCE, _wrap_function(self.spark.sparkContext, DataSource))

    def array(self, of: str, items: Sequence[Any]) -> Any:
        """A Java array of objects of a class."""
        array = self.call("java.lang.reflect.Array.newInstance", self.load(of), len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array

    def empty(self, of: str) -> Any:
        """An empty Java array of a class, made once."""
        if of not in self._empty:
            self._empty[of] = self.array(of, [])
        return self._empty[of]

    def interfaces(self, names: tuple[str, ...]) -> Any:
        """A ``Class[]`` of interfaces, made once."""
        if names not in self._interfaces:
            self._interfaces[names] = self.array("java.lang.Class", [self.load(name) for name in names])
        return self._interfaces[names]

    def map(self, values: Mapping[str, str]) -> Any:
        made = self.new("java.util.HashMap")
        for key, value in values.items():
            made.put(key, value)
        return made

    def options(self, values: Mapping[str, str]) -> Any:
        return self.new(names.OPTIONS, self.map(values))

    def seq(self, items: Sequence[Any]) -> Any:
        return self.call("scala.jdk.javaapi.CollectionConverters.asScala", [*items]).toSeq()

    def items(self, found: Any) -> list[Any]:
        return list(self.call("scala.jdk.javaapi.CollectionConverters.asJava", found))

    def thread(self) -> int:
        """The Java thread that runs this Python thread's calls, and calls back to it."""
        return int(self.call("java.lang.Thread.currentThread").getId())

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the session the active one of this thread: Spark's parser follows the active session's settings."""
        before = self.call(f"{names.SESSION}.getActiveSession")
        self.call(f"{names.SESSION}.setActiveSession", self.session)
        try:
            yield
        finally:
            if before.isDefined():
                self.call(f"{names.SESSION}.setActiveSession", before.get())
            else:
                self.call(f"{names.SESSION}.clearActiveSession")

    def option(self, value: Any) -> Any:
        """Scala's Option of a value, or of none."""
        return self.call("scala.Option.apply", value)

    def long(self, value: int) -> Any:
        return self.call("java.util.OptionalLong.of", value)

    def schema(self, schema: StructType) -> Any:
        """Spark's JVM schema for a Python one."""
        text = schema.json()
        made = self._schemas.get(text)
        if made is None:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            made = self._schemas[text] = self.call(f"{names.DATA_TYPE}.fromJson", text)
        return made

    def default_method(self, interfaces: tuple[str, ...], name: str, arguments: Sequence[Any]) -> Any:
        key = (interfaces, name, len(arguments))
        if key not in self._methods:
            self._methods[key] = [
                method
                for interface in interfaces
                for method in self.load(interface).getMethods()
                if method.getName() == name and method.getParameterCount() == len(arguments) and method.isDefault()
            ]
        methods = self._methods[key]
        if len(methods) < 2:
            return methods[0] if methods else None
        return next((method for method in methods if _takes(method, arguments)), None)


def propagate_exceptions(gateway: Any, enabled: bool) -> None:
    """Let Java get the exceptions of callbacks as objects, not as text, which would hide Spark's own."""
    gateway.callback_server_parameters.propagate_java_exceptions = enabled


def _takes(method: Any, arguments: Sequence[Any]) -> bool:
    return all(
        kind.isPrimitive() or argument is None or kind.isInstance(argument)
        for kind, argument in zip(method.getParameterTypes(), arguments, strict=True)
    )


@lru_cache(maxsize=256)
def parsed_schema(text: str) -> StructType:
    return parsed_json(text)


def from_java(schema: Any) -> StructType:
    return parsed_schema(schema.json())


# --- Python errors as Java errors, on their way through Spark's planner to the user


def java_error(exception: Any) -> Py4JJavaError:
    """The error to raise in a callback so that Java throws the exception."""
    return Py4JJavaError("", exception)


@contextmanager
def thrown(bridge: Bridge, spoken: Callable[[], Spoken] = lambda: PYTHON) -> Iterator[None]:
    """Make Java throw this package's errors as Spark's, with the text that the plain data source gives."""
    try:
        yield
    except LanceSparkError as error:
        raise java_error(spark_error(bridge, error, spoken=spoken())) from error
    except CapturedException as error:  # an exception of a call into Java, as PySpark converted it
        if error._origin is None:
            raise
        raise java_error(error._origin) from error


def spark_error(
    bridge: Bridge, error: LanceSparkError, kind: str = "java.lang.IllegalArgumentException", spoken: Spoken = PYTHON
) -> Any:
    """Spark's exception for this package's error: unchecked, because the methods of a scan declare none."""
    text = f"{type(error).__module__}.{type(error).__qualname__}: {error.told(*spoken)}"
    return bridge.new(kind, text)


# --- Values from Spark's planner as plain values: lists and texts that fit into JSON
# The readers need no JVM.
#
# ``java/Answers.java`` converts everything that Spark passes into one text; ``plain`` makes the same values if the
# session has no Java classes of this package, with one call after the other.

_FUNCTIONS = {"CountStar": "COUNT_STAR", "Count": "COUNT", "Sum": "SUM", "Min": "MIN", "Max": "MAX", "Avg": "AVG"}
_LITERALS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda value: value,
    "float": float,
    "decimal": Decimal,
    "bytes": base64.b64decode,
}
_CALLS = frozenset({"GeneralScalarExpression", "Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse"})
"""Classes fully described by their name and children."""


def expression(node: Any) -> Expression | None:
    """The expression; None for an unknown kind, or one that contains an unknown kind."""
    kind, *parts = node
    if kind == "column":
        return Column(tuple(parts[0]))
    if kind == "literal":
        form, value, name = parts
        return Literal(_LITERALS[form](value), name)
    if kind == "cast":
        argument = expression(parts[0])
        return None if argument is None else Cast(argument, parts[1], parts[2])
    if kind == "call":
        arguments = [expression(each) for each in parts[1]]
        known = [each for each in arguments if each is not None]
        return Call(parts[0], tuple(known)) if len(known) == len(arguments) else None
    return None


def columns(nodes: Any) -> list[Column] | None:
    """The columns; None if one of the expressions is something else."""
    found = [Column(tuple(node[1])) for node in nodes if node[0] == "column"]
    return found if len(found) == len(nodes) else None


def aggregates(nodes: Any) -> list[Aggregate] | None:
    """The aggregate functions; None if one of them is unknown."""
    translated = [_aggregate(*each) for each in nodes]
    known = [each for each in translated if each is not None]
    return known if len(known) == len(translated) else None


def _aggregate(name: str, over: Any, distinct: bool) -> Aggregate | None:
    function = _FUNCTIONS.get(name)
    if function is None or function == "COUNT_STAR":
        return None if function is None else Aggregate("COUNT_STAR")
    named = columns([over])
    return None if named is None else Aggregate(function, named[0], distinct)  # type: ignore[arg-type]


def sort_key(over: Any, direction: str, nulls: str) -> SortKey | None:
    """A sort key; None if it is not a column of the table."""
    named = columns([over])
    if named is None or len(named[0].path) != 1:
        return None
    return SortKey(named[0].path[0], direction == "ASC", nulls == "NULLS FIRST")


def plain(bridge: Bridge, given: Any) -> Any:
    """The plain value of Spark's predicate, schema, aggregation, order or options."""
    if given is None or isinstance(given, bool | int | float | str):
        return given
    if bridge.maker is not None:
        return json.loads(bridge.maker.text(given))
    name = given.getClass().getSimpleName()
    if name.endswith("[]"):
        return [plain(bridge, each) for each in given]
    kind: Callable[[Bridge, Any], Any] = _KINDS.get(name, _other)
    return kind(bridge, given)


def _other(bridge: Bridge, given: Any) -> Any:
    if given.getClass().getSimpleName() in _CALLS:
        return ["call", given.name(), [plain(bridge, each) for each in given.children()]]
    return ["other"]


def _cast(bridge: Bridge, given: Any) -> Any:
    source = given.expressionDataType()
    name = "" if source is None else source.simpleString()
    return ["cast", plain(bridge, given.expression()), name, given.dataType().simpleString()]


def _aggregation(bridge: Bridge, given: Any) -> Any:
    functions = []
    for each in given.aggregateExpressions():
        name = each.getClass().getSimpleName()
        over = plain(bridge, each.column()) if name in _FUNCTIONS and name != "CountStar" else None
        functions.append([name, over, name in ("Count", "Sum", "Avg") and bool(each.isDistinct())])
    return [functions, plain(bridge, given.groupByExpressions())]


def _order(bridge: Bridge, given: Any) -> Any:
    return [plain(bridge, given.expression()), given.direction().toString(), given.nullOrdering().toString()]


def _literal(_: Bridge, given: Any) -> Any:
    value, name = given.value(), given.dataType().simpleString()
    if value is None or isinstance(value, bool | int | str):
        return ["literal", "plain", value, name]
    if isinstance(value, float):
        return ["literal", "float", value, name]
    if isinstance(value, bytes):
        return ["literal", "bytes", base64.b64encode(value).decode(), name]
    decimal = isinstance(value, Decimal) or value.getClass().getSimpleName() == "Decimal"
    return ["literal", "decimal" if decimal else "plain", str(value) if decimal else value.toString(), name]


def _identifier(_: Bridge, given: Any) -> Any:
    return [[*given.namespace(), given.name()], given.toString()]


_KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "FieldReference": lambda _, given: ["column", [*given.fieldNames()]],
    "LiteralValue": _literal,
    "Cast": _cast,
    "Aggregation": _aggregation,
    "SortValue": _order,
    "StructType": lambda _, given: given.json(),
    "CaseInsensitiveStringMap": lambda _, given: dict(given.asCaseSensitiveMap()),
    "IdentifierImpl": _identifier,
    "SampleMethod": lambda _, given: given.toString(),
}
