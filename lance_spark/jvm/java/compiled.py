"""Compiles this directory's Java files, once per JVM, and passes the classes to the session and to every executor."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import threading
import zipfile
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from lance_spark.errors import Refused
from lance_spark.jvm.attached import attached

if TYPE_CHECKING:
    from lance_spark.jvm.bridge import Bridge

_PACKAGE = "lance_spark"
_MAKER = "Answers$Maker"
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_MORE = ("Feed", "Grouped", "Writes")
"""Use more of Spark than the other sources do: a Spark that lacks it only loses columnar writes, SQL's CHANGES, or
joins without a shuffle."""
_lock = threading.Lock()
_files: dict[str, str] = {}


@cache
def sources() -> dict[str, str]:
    """The Java files, by the names of their classes."""
    found = sorted(files("lance_spark.jvm.java").iterdir(), key=lambda file: file.name)
    return {file.name[:-5]: file.read_text("utf-8") for file in found if file.name.endswith(".java")}


def maker(bridge: Bridge) -> Any:
    """The Java object that creates all others. Raises Refused, with the reason, if it is unavailable."""
    if not sources():
        raise Refused("the Java files of this package are not installed.")
    try:
        with _lock:  # of two sessions that start at the same time, the second one finds the first one's classes
            if bridge.gateway not in attached:
                _add(bridge)
            loader = _loader(bridge)
            for name in sources():
                if name not in _MORE:
                    bridge.call("java.lang.Class.forName", f"{_PACKAGE}.{name}", True, loader)
            made = bridge.call("java.lang.Class.forName", f"{_PACKAGE}.{_MAKER}", True, loader)
            return made.getConstructors()[0].newInstance(bridge.array("java.lang.Object", []))
    except (Py4JError, PySparkException, OSError, TypeError) as problem:  # TypeError: py4j's for a missing class
        told = problem.java_exception.toString() if isinstance(problem, Py4JJavaError) else str(problem)
        raise Refused(f"its Java classes are unavailable: {told.splitlines()[0]}") from problem


def for_tasks(bridge: Bridge) -> None:
    """Give tasks of the session the classes. With isolated artifacts, they have those of their own session only.

    A session that is made from another one has no artifacts at first. Raises Py4JError.
    """
    if bridge.maker is None or bridge.gateway in attached:
        return
    with _lock:
        artifacts = bridge.session.artifactManager()
        if artifacts.state() is not None and _jar() not in artifacts.getAddedJars().mkString(" "):
            bridge.session.addArtifact(_file(bridge))


def can_write(bridge: Bridge) -> bool:
    """Whether the classes of columnar writes were compiled, beside those that ``maker`` needs."""
    return _has(bridge, "Writes$Target")


def can_feed(bridge: Bridge) -> bool:
    """Whether the class of a change feed's rows was compiled, beside those that ``maker`` needs."""
    return _has(bridge, "Feed")


def can_group(bridge: Bridge) -> bool:
    """Whether the classes of keys and their functions were compiled, beside those that ``maker`` needs."""
    return _has(bridge, "Grouped$Part")


def _has(bridge: Bridge, name: str) -> bool:
    try:
        bridge.call("java.lang.Class.forName", f"{_PACKAGE}.{name}", True, _loader(bridge))
    except Py4JError:
        return False
    return True


def _loader(bridge: Bridge) -> Any:
    return attached.get(bridge.gateway) or bridge.session.sharedState().jarClassLoader()


def compiled(bridge: Bridge) -> dict[str, bytes]:
    """The bytes of all classes, by their full names. Raises Py4JError if a class does not compile that scans need."""
    made: dict[str, bytes] = {}
    loader = bridge.loader
    for file, text in sources().items():  # each may use the classes of earlier files
        compiler = bridge.new(_COMPILER)
        compiler.setTargetVersion(8)
        compiler.setParentClassLoader(loader)
        try:
            compiler.cook(text)
        except Py4JError:
            if file not in _MORE:
                raise
            continue
        loader = compiler.getClassLoader()
        codes = compiler.getBytecodes()
        made |= {str(name): bytes(codes[name]) for name in codes}
    return made


def _add(bridge: Bridge) -> None:
    """Add the classes to the JVM's class loader, and to every executor, including later ones."""
    if _jar() not in bridge.session.sparkContext().listJars().mkString(" "):
        bridge.session.sessionState().resourceLoader().addJar(_file(bridge))


def _file(bridge: Bridge) -> str:
    """The path of the jar. It stays as long as this process, because executors fetch it from here."""
    name = _jar()
    if name not in _files:
        directory = tempfile.mkdtemp(prefix="lance-spark-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        path = os.path.join(directory, name)
        with zipfile.ZipFile(path, "w") as jar:
            for each, code in compiled(bridge).items():
                jar.writestr(each.replace(".", "/") + ".class", code)
        _files[name] = path
    return _files[name]


def _jar() -> str:
    return f"{_PACKAGE}-{_digest()}.jar"


@cache
def _digest() -> str:
    return hashlib.sha256(repr(sorted(sources().items())).encode()).hexdigest()[:16]
