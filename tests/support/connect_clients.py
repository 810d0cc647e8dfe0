"""A server of Spark Connect in the JVM of the tests' session, and its clients in this process."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_spark import unregister


@contextmanager
def connect_server(spark: SparkSession) -> Iterator[str]:
    """The address of the server."""
    jvm: Any = spark.sparkContext._jvm
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = spark.sparkContext._jsc.sc()
    # Whose settings are those of the context at its first use: with isolation, its tasks would lack this package's jar.
    spark._jsparkSession.sessionState()
    isolation = "spark.sql.artifact.isolation"  # as the program that starts a server sets it
    settings = {f"{isolation}.enabled": "true", f"{isolation}.alwaysApplyClassloader": "true"}
    for name, value in {**settings, "spark.connect.grpc.binding.port": str(port)}.items():
        context.conf().set(name, value)
    service = getattr(getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(context)
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        for name in settings:
            context.conf().remove(name)
        service.stop(jvm.scala.Option.apply(None), jvm.scala.Option.apply(None))


@contextmanager
def client(address: str, release: bool = True) -> Iterator[Any]:
    """A session of its own. A server that is dead by the end must not be asked to release it: the client would wait."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    session = RemoteSession.builder.remote(address).create()
    try:
        yield session
    finally:
        if release:
            session.client.release_session()
        session.client.close()


def another_session(spark: SparkSession) -> SparkSession:
    """A session beside it, with settings of its own."""
    if not hasattr(spark, "newSession"):
        pytest.skip("a client of Spark Connect 4.0 makes no session from another one")
    return spark.newSession()


@contextmanager
def connected_session(spark: SparkSession) -> Iterator[Any]:
    """A client that stands for the tests' session, as in a process that has no other one."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    with connect_server(spark) as address, pytest.MonkeyPatch.context() as process, client(address) as session:
        process.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # pyspark.sql.functions make columns of the client
        process.setattr(RemoteSession, "_default_session", session)
        process.setattr(RemoteSession._active_session, "session", session, raising=False)
        session.conf.set("spark.sql.timeType.enabled", "true")  # without it Spark Connect returns no TIME
        yield session
        unregister(session)


def helper_process(spark: SparkSession) -> Any:
    """Java's object of the process beside the server."""
    jvm: Any = spark.sparkContext._jvm
    return jvm.java.lang.System.getProperties()["lance_spark.helper"]["process"]


def end_workers(spark: SparkSession) -> None:
    """End Spark's Python workers of sessions of Spark Connect, none of which must be at work.

    Spark keeps a daemon of 50 MB for each session that ran Python in a task, also when the session is gone.
    """
    server = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            command, given = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            of_session = re.search(rb"\0SPARK_JOB_ARTIFACT_UUID=(?!default)", given)
            if parent == server and b"pyspark.daemon" in command and of_session:
                os.kill(int(process.name), signal.SIGTERM)


def eventually(what: Callable[[], Any], seconds: float = 120) -> Any:
    """The first answer that is neither an error of Spark nor empty."""
    from pyspark.errors import PySparkException

    end = time.monotonic() + seconds
    while True:
        try:
            found = what()
            if found or time.monotonic() > end:
                return found
        except PySparkException:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)
