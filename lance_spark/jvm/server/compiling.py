"""Compiles this package's Java classes for a Spark server, by the compiler in that Spark's own jars. Needs no JDK."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.resources import as_file, files
from typing import Any

from lance_spark.engine.lazy_spark import check_pyspark
from lance_spark.errors import Refused
from lance_spark.jvm import names

_COMPILER = "org.codehaus.janino.SimpleCompiler"
_FILES = ("Answers", "Batches", "Feed?", "Grouped?", "Writes?", "Helper", "Served?", "Extensions?")
"""In the order in which they need each other; one with a question mark may be missing where Spark lacks something."""
_GENERATED = (
    f"Catalog={names.STAGING_CATALOG},{names.PROCEDURE_CATALOG},{names.FUNCTION_CATALOG},{names.NAMESPACES}?",
    f"PathCatalog={names.STAGING_CATALOG},{names.PROCEDURE_CATALOG},{names.FUNCTION_CATALOG}?",
)
"""Classes for a jar of ``spark.jars``, whose methods depend on Spark's interfaces."""
BUILD = "lance_spark/build.properties"
"""What ``write_jar`` writes beside the classes."""
_WANTED = tuple(f"lance_spark/{name}.class" for name in ("Catalog", "PathCatalog", "Extensions", "Writes$Target"))


@cache
def digest() -> str:
    """Differs between packages with other Java files: a server and its client must have the same."""
    told = hashlib.sha256()
    for name in (*_FILES, "Compile"):
        told.update(_source(name).read_bytes())
    told.update(repr(_GENERATED).encode())
    return told.hexdigest()[:16]


def compiled_jar(spark_home: str) -> str:
    """The path of a jar of all classes, compiled once for a Spark and a user. Raises Refused, with the reason."""
    jars = os.path.join(spark_home, "jars")
    if not os.path.isdir(jars):
        raise Refused(f"{spark_home} has no directory 'jars'.")
    kept = os.path.join(_directory(), f"{digest()}-{_name_of(jars)}.jar")
    if not os.path.exists(kept):
        _compile(jars, kept)
    return kept


def write_jar(spark_home: str, target: str) -> None:
    """Write a jar of all classes for ``spark.jars``. It replaces an existing file. Raises Refused, with the reason."""
    kept = compiled_jar(spark_home)
    version = import_module("lance_spark").__version__
    told = f"digest={digest()}\nversion={version}\npython={_escaped(sys.executable)}\n"
    made = f"{target}.{os.getpid()}"
    try:
        with zipfile.ZipFile(kept) as jar:
            missing = sorted({*_WANTED} - {*jar.namelist()})
        if missing:
            raise Refused(f"{missing[0]} cannot be compiled for the Spark in {spark_home}: it lacks what that needs.")
        shutil.copy(kept, made)
        with zipfile.ZipFile(made, "a") as jar:
            jar.writestr(BUILD, told)
        os.replace(made, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(made)


def pyspark_home() -> str:
    """The home of the Spark that PySpark has with it. Raises NotInstalled."""
    check_pyspark()
    return str(import_module("pyspark.find_spark_home")._find_spark_home())


def _escaped(text: str) -> str:
    """A value as Java's Properties read it."""
    return "".join(c if c.isascii() and c not in "\\" else f"\\u{ord(c):04x}" for c in text)


def _compile(jars: str, target: str) -> None:
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as directory:
        paths = []
        for name in _FILES:
            path = os.path.join(directory, f"{name.rstrip('?')}.java")
            with as_file(_source(name)) as source:
                shutil.copy(source, path)
            paths.append(path + "?" * name.endswith("?"))
        made = os.path.join(directory, "made.jar")
        with as_file(_source("Compile")) as program:
            # Nothing here runs long enough for the better compiler of the JVM.
            java = [_java(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", os.path.join(jars, "*")]
            command = [*java, _COMPILER, str(program), "Compile", made, *paths, *_GENERATED]
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            told = (done.stderr or done.stdout).strip().splitlines() or ["no reason was given"]
            raise Refused(f"the Java classes could not be compiled: {told[0]}")
        os.replace(made, target)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not found or not os.path.exists(found):
        raise Refused("there is no program 'java' on the server's PATH, and JAVA_HOME has none.")
    return found


def _directory() -> str:
    """Of this user alone: others could put classes there."""
    path = os.path.join(tempfile.gettempdir(), f"lance-spark-{os.getuid() if hasattr(os, 'getuid') else 'jars'}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and os.stat(path).st_uid != os.getuid():
        raise Refused(f"{path} belongs to another user.")
    return path


def _name_of(jars: str) -> str:
    """Differs between Sparks."""
    found = sorted(name for name in os.listdir(jars) if name.startswith(("spark-", "scala-library", "janino")))
    return hashlib.sha256("\n".join([jars, *found]).encode()).hexdigest()[:16]


def _source(name: str) -> Any:
    file = f"{name.rstrip('?')}.java"
    own = files("lance_spark.jvm.server") / file
    return own if own.is_file() else files("lance_spark.jvm.java") / file
