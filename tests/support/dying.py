"""Lets a program of several processes die at one line of the code: the environment says at which, and how often.

Spark commits a stream's batches in processes of Python that it makes anew for each batch, so nobody outside of them can
stop them between two steps. tests/daemons/sitecustomize.py prepares every process for it. Nothing is imported for it.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import GeneratorType, ModuleType
from typing import Any

AT, TIMES, HITS = "DIES_AT", "DIES_AT_TIME", "DIES_AFTER_HITS_IN"
"""``module:function:before`` or ``:after``; the how-manieth time; a file with one byte for each time so far."""


def install() -> None:
    """Prepare this process, if the environment says so."""
    if AT in os.environ:
        module, function, when = os.environ[AT].split(":")
        sys.meta_path.insert(0, _Watched(module, function, when))


def function_at(place: str) -> Any:
    """The function that a place names. Raises AttributeError and ImportError."""
    module, function, when = place.split(":")
    assert when in ("before", "after")
    return functools.reduce(getattr, function.split("."), importlib.import_module(module))


class _Watched:
    """Changes one function of a module when that is loaded, before anybody else imports the function from there."""

    def __init__(self, module: str, function: str, when: str) -> None:
        self._module, self._function, self._when = module, function, when

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin, self._change)
        return spec

    def _change(self, module: ModuleType) -> None:
        *owners, name = self._function.split(".")
        owner = functools.reduce(getattr, owners, module)
        setattr(owner, name, _dying(getattr(owner, name), self._when))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, change: Callable[[ModuleType], None]) -> None:
        super().__init__(name, path)
        self._change = change

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self._change(module)


def _dying(function: Callable[..., Any], when: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        if when == "before":
            _hit()
            return function(*given, **named)
        result = function(*given, **named)
        if isinstance(result, GeneratorType):
            return _to_its_end(result)
        _hit()
        return result

    return called


def _to_its_end(values: Iterator[Any]) -> Iterator[Any]:
    yield from values
    _hit()


def _hit() -> None:
    hits = os.open(os.environ[HITS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(hits, b".")
    if os.fstat(hits).st_size >= int(os.environ[TIMES]):
        die()


def die() -> None:
    """Kill the process that everything began with and its JVM, and then this one with its siblings."""
    os.killpg(os.getsid(0), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def environment(place: str, times: int, hits: Path) -> dict[str, str]:
    """What to add to the environment of the process to begin with, which has to begin a session of processes."""
    return {AT: place, TIMES: str(times), HITS: str(hits)}
