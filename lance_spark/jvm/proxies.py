"""Java interfaces, implemented in Python.

py4j's own proxies forward every method, including default methods, of which each version of Spark has more. So the
proxy is one of ``java.lang.reflect``, and the interface's default method answers whatever the Python object does not
implement. The proxy's handler is ``java/Answers.java``, which also answers in Java what Python knows beforehand. If the
session has no Java classes of this package, the handler is the py4j proxy, and every call goes to Python.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

from lance_spark.engine.errors_spark import PYTHON, Spoken
from lance_spark.jvm import names
from lance_spark.jvm.answers import Answer, for_java, in_java
from lance_spark.jvm.bridge import Bridge, java_error, plain, thrown
from lance_spark.jvm.callers import note_caller

_numbers = itertools.count()
_kinds: dict[type, str] = {}


@dataclass(frozen=True)
class ChosenPredicates:
    """Spark's predicates, by index: those taken, and those that Spark must apply."""

    taken: tuple[int, ...]
    left: tuple[int, ...]


class Implementation:
    """A Python object that Java sees as an implementation of interfaces; ``pushLimit`` becomes ``push_limit``."""

    interfaces: ClassVar[tuple[str, ...]]
    """Full names of the Java interfaces."""
    told: ClassVar[frozenset[str]] = frozenset()
    """Java's names of the methods that get plain values, as from ``bridge.plain``, instead of Java's objects."""
    kept: ClassVar[frozenset[str]] = frozenset()
    """Java's names of methods without arguments whose answers are kept."""
    defaults: ClassVar[frozenset[str]] = frozenset()
    """Java's names of methods left to the interface, followed by a slash and the number of their arguments."""
    same: ClassVar[bool] = False
    """Whether all objects with the same text are equal. Otherwise each is equal only to itself."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self._number = next(_numbers) & 0x7FFFFFFF
        self._taken: list[Any] = []

    def answered(self) -> dict[str, Answer]:
        """Known answers of methods without arguments, by Java's names."""
        return {}

    @property
    def text(self) -> str | None:
        """The result of ``to_string``; None to compute it on demand."""
        return self.to_string()

    def equals(self, other: Any) -> bool:
        if self.same:
            return bool(other is not None and other.toString() == self.to_string())
        return bool(other is not None and other.hashCode() == self.hash_code())

    def hash_code(self) -> int:
        return hash(self.to_string()) & 0x7FFFFFFF if self.same else self._number

    def to_string(self) -> str:
        return type(self).__name__

    def spoken(self) -> Spoken:
        """The user's input language when Java calls this, if known: a scan can serve SQL or a DataFrame."""
        return PYTHON

    def java(self) -> Any:
        """The Java side. Java keeps the Python object alive as long as it holds a proxy of it."""
        bridge = self.bridge
        if bridge.maker is not None:
            content = bytearray()
            known = {name: for_java(answer, content) for name, answer in self.answered().items()}
            given = json.dumps({"text": self.text, "known": known})
            return bridge.maker.make(_Handler(self), self._kind(), given, bytes(content), bridge.python_source)
        handler = bridge.call("java.lang.reflect.Proxy.getInvocationHandler", _Handler(self))
        interfaces = bridge.interfaces(self.interfaces)
        return bridge.call("java.lang.reflect.Proxy.newProxyInstance", bridge.loader, interfaces, handler)

    @classmethod
    def _kind(cls) -> str:
        """The facts about the class that ``Answers.java`` needs."""
        if cls not in _kinds:
            methods = [name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))]
            asked = [re.sub(r"_(.)", lambda found: found[1].upper(), name) for name in methods]
            described = {name: getattr(cls, name) for name in ("interfaces", "told", "kept", "defaults", "same")}
            _kinds[cls] = json.dumps({"asked": asked, **described}, default=list)
        return _kinds[cls]

    def default(self, name: str, *arguments: Any) -> Any:
        """The result of the interface's default method of that name."""
        bridge = self.bridge
        method = bridge.default_method(self.interfaces, name, arguments)
        if method is None:
            message = f"{self.to_string()} has no {name}."
            raise java_error(bridge.new("java.lang.UnsupportedOperationException", message))
        given = bridge.array("java.lang.Object", arguments) if arguments else None
        return bridge.call("java.lang.reflect.InvocationHandler.invokeDefault", self.java(), method, given)


class Known(Implementation):
    """An implementation with all of its answers known."""

    def __init__(self, bridge: Bridge, interface: str, answers: dict[str, Any]) -> None:
        super().__init__(bridge)
        self.interfaces = (interface,)  # type: ignore[misc]
        self._answers = answers

    def answered(self) -> dict[str, Answer]:
        return self._answers


class _Handler:
    """py4j's target: any name is a method."""

    class Java:
        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]

    def __init__(self, target: Implementation) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._call, name)

    def apply(self, name: str, arguments: str) -> Any:
        """Called by ``Answers.java`` for methods that get plain values, as one text."""
        target = self._target
        note_caller(target.bridge.gateway)
        with thrown(target.bridge, target.spoken):
            answer = getattr(target, _python_name(name))(*json.loads(arguments))
        if isinstance(answer, ChosenPredicates):
            return json.dumps({"taken": answer.taken, "left": answer.left})
        return answer

    def _call(self, name: str, *arguments: Any) -> Any:
        target = self._target
        note_caller(target.bridge.gateway)
        with thrown(target.bridge, target.spoken):
            if target.bridge.maker is None and not arguments:
                known = target.answered()
                if name in known:
                    return in_java(target.bridge, known[name], Known)
                if name == "pushedPredicates":
                    return target.bridge.array(names.PREDICATE, target._taken)
            method = getattr(target, _python_name(name), None)
            if method is None or f"{name}/{len(arguments)}" in target.defaults:
                return target.default(name, *arguments)
            if name not in target.told:
                return method(*arguments)
            answer = method(*(plain(target.bridge, each) for each in arguments))
            if not isinstance(answer, ChosenPredicates):
                return answer
            target._taken = [arguments[0][at] for at in answer.taken]
            return target.bridge.array(names.PREDICATE, [arguments[0][at] for at in answer.left])


@cache
def _python_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
