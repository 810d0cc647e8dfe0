"""Java interfaces, implemented in Python.

py4j's own proxies forward every method, default methods included, of which each version of Spark has more. So the
proxy is one of ``java.lang.reflect``, whose handler is the py4j proxy: what the Python object does not implement is
answered by the interface's default method.
"""

from __future__ import annotations

import itertools
import re
from functools import cache, partial
from typing import Any, ClassVar

from lance_spark.spark.jvm.bridge import Bridge
from lance_spark.spark.jvm.failures import PYTHON, Spoken, java_error, thrown

_numbers = itertools.count()


class Implementation:
    """A Python object that Java sees as an implementation of interfaces. ``pushLimit`` is ``push_limit`` here."""

    interfaces: ClassVar[tuple[str, ...]]
    """Full names of the Java interfaces."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self._number = next(_numbers) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        """Java's equals. Each object is equal to itself only, unless it says otherwise."""
        return bool(other is not None and other.hashCode() == self.hash_code())

    def hash_code(self) -> int:
        """Java's hashCode."""
        return self._number

    def to_string(self) -> str:
        """Java's toString."""
        return type(self).__name__

    def spoken(self) -> Spoken:
        """What was typed when Java calls this, as far as it tells: a scan may be of SQL and of a DataFrame."""
        return PYTHON

    def java(self) -> Any:
        """The Java side. Java keeps the Python object alive as long as it holds a proxy of it."""
        bridge = self.bridge
        handler = bridge.call("java.lang.reflect.Proxy.getInvocationHandler", _Handler(self))
        interfaces = bridge.interfaces(self.interfaces)
        return bridge.call("java.lang.reflect.Proxy.newProxyInstance", bridge.loader, interfaces, handler)

    def default(self, name: str, *arguments: Any) -> Any:
        """What the interface's default method of that name says."""
        bridge = self.bridge
        method = bridge.default_method(self.interfaces, name, arguments)
        if method is None:
            message = f"{self.to_string()} has no {name}."
            raise java_error(bridge.new("java.lang.UnsupportedOperationException", message))
        given = bridge.array("java.lang.Object", arguments) if arguments else None
        return bridge.call("java.lang.reflect.InvocationHandler.invokeDefault", self.java(), method, given)


class _Handler:
    """What py4j calls: any name is a method."""

    class Java:
        implements: ClassVar[list[str]] = ["java.util.function.Supplier"]

    def __init__(self, target: Implementation) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._call, name)

    def _call(self, name: str, *arguments: Any) -> Any:
        target = self._target
        with thrown(target.bridge, target.spoken):
            method = getattr(target, _python_name(name), None)
            if method is not None:
                return method(*arguments)
            return target.default(name, *arguments)


@cache
def _python_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
