"""Compiles this package's Java classes for a Spark server, by the compiler in that Spark's own jars. Needs no JDK."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.resources import as_file, files
from typing import Any

from lance_spark.errors import Refused

_COMPILER = "org.codehaus.janino.SimpleCompiler"
_FILES = ("Answers", "Batches", "Writes?", "Helper")
"""In the order in which they need each other; one with a question mark may be missing where Spark lacks something."""


@cache
def digest() -> str:
    """Differs between packages with other Java files: a server and its client must have the same."""
    told = hashlib.sha256()
    for name in (*_FILES, "Compile"):
        told.update(_source(name).read_bytes())
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
            command = [*java, _COMPILER, str(program), "Compile", made, *paths]
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
    names = sorted(name for name in os.listdir(jars) if name.startswith(("spark-", "scala-library", "janino")))
    return hashlib.sha256("\n".join([jars, *names]).encode()).hexdigest()[:16]


def _source(name: str) -> Any:
    file = f"{name.rstrip('?')}.java"
    own = files("lance_spark.jvm.server") / file
    return own if own.is_file() else files("lance_spark.jvm.java") / file
