"""The way into the JVM of one classic session: its classes, arrays and small values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from lance_spark.spark.jvm import names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_spark.location import DatasetLocation

_SCHEMAS = 256
"""Schemas of the JVM that are kept: a query asks for the same one several times."""


class Bridge:
    """What is reached through py4j of one session. Threads may share it.

    Looking up a class or a static method asks the JVM, so each is asked for once.
    """

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        self.spark = spark
        context: Any = spark.sparkContext
        self.gateway: Any = context._gateway
        self.session: Any = spark._jsparkSession
        self.cores = max(1, int(context.defaultParallelism))
        self._jvm: Any = context._jvm
        ensure_callback_server_started(self.gateway)  # type: ignore[no-untyped-call]
        self.factory_arguments = self.relation_arguments = 0  # set when the session is looked at
        self.no_row_changes: str | None = None
        """Why statements cannot change rows; None where they can."""
        self.maker: Any = None
        """The object of Java that makes those that answer for Python; None where the session has no classes of ours."""
        self.batches = False
        """Whether scans hand over batches."""
        self.no_batches: str | None = None
        """Why Spark gets rows; None where it gets batches."""
        self.plans_merges = False
        """Whether ``df.mergeInto`` tells its plan (4.3)."""
        self.caches_by_name = False
        """Whether Spark finds what is cached of a table by the table's name (4.3), and not by its version."""
        self.names_of: Callable[[DatasetLocation], Sequence[str]] = lambda _: ()
        """The names by which SQL has asked for branches of a dataset, where the session has catalogs."""
        self.loader: Any = self.session.getClass().getClassLoader()
        self._found: dict[str, Any] = {}
        self._classes: dict[str, Any] = {}
        self._empty: dict[str, Any] = {}
        self._schemas: dict[str, Any] = {}
        self._interfaces: dict[tuple[str, ...], Any] = {}
        self._methods: dict[tuple[tuple[str, ...], str, int], Any] = {}

    def load(self, name: str) -> Any:
        """A ``java.lang.Class`` by its name. Raises Py4JJavaError where there is none."""
        if name not in self._classes:
            self._classes[name] = self.call("java.lang.Class.forName", name, False, self.loader)
        return self._classes[name]

    def new(self, name: str, *arguments: Any) -> Any:
        """A new object of a class."""
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
        """What makes Spark start our workers. It is not looked up by a name: that is one of the active session."""
        from pyspark.sql.udf import _wrap_function

        # Of the class only where it runs matters, the interpreter and its environment.
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
        """A ``java.util.Map``."""
        made = self.new("java.util.HashMap")
        for key, value in values.items():
            made.put(key, value)
        return made

    def options(self, values: Mapping[str, str]) -> Any:
        """Spark's case-insensitive map of options."""
        return self.new(names.OPTIONS, self.map(values))

    def seq(self, items: Sequence[Any]) -> Any:
        """Scala's Seq."""
        return self.call("scala.jdk.javaapi.CollectionConverters.asScala", [*items]).toSeq()

    def items(self, found: Any) -> list[Any]:
        """What is in a Seq of Scala's."""
        return list(self.call("scala.jdk.javaapi.CollectionConverters.asJava", found))

    def thread(self) -> int:
        """Java's thread that runs what this thread of Python asks for, and also what calls it back from there."""
        return int(self.call("java.lang.Thread.currentThread").getId())

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the session be the active one of this thread, whose settings Spark's parser follows."""
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
        """A ``java.util.OptionalLong``."""
        return self.call("java.util.OptionalLong.of", value)

    def schema(self, schema: StructType) -> Any:
        """Spark's schema in the JVM, for one of Python."""
        text = schema.json()
        made = self._schemas.get(text)
        if made is None:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            made = self._schemas[text] = self.call(f"{names.DATA_TYPE}.fromJson", text)
        return made

    def default_method(self, interfaces: tuple[str, ...], name: str, arguments: Sequence[Any]) -> Any:
        """The default method of that name that takes the arguments; None where there is none."""
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
    """Let Java get the exceptions of callbacks as such, not as text, from which nothing of Spark's can be told."""
    gateway.callback_server_parameters.propagate_java_exceptions = enabled


def _takes(method: Any, arguments: Sequence[Any]) -> bool:
    return all(
        kind.isPrimitive() or argument is None or kind.isInstance(argument)
        for kind, argument in zip(method.getParameterTypes(), arguments, strict=True)
    )


@lru_cache(maxsize=256)
def parsed_schema(text: str) -> StructType:
    """Python's schema for the JSON of one."""
    return StructType.fromJson(json.loads(text))


def from_java(schema: Any) -> StructType:
    """Python's schema for one in the JVM."""
    return parsed_schema(schema.json())
