"""The session of a job: it starts when it is needed, and is stopped where it was started."""

import pytest
from support.spark_fixtures import none_active

from lance_spark.engine.session_spark import JobSession


class Session:
    def __init__(self):
        self.stopped = 0

    def stop(self):
        self.stopped += 1


@pytest.fixture
def world(monkeypatch):
    """No session is active; builders note down what they are told, and start one that does nothing."""
    from pyspark.sql import SparkSession

    monkeypatch.delenv("CONTAINER_ID", raising=False)
    started = []

    def start(builder):
        started.append((Session(), dict(builder._options)))
        return started[-1][0]

    monkeypatch.setattr(SparkSession, "active", staticmethod(none_active))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", start)
    return started


def test_nothing_starts_that_nobody_asks_for(world):
    with JobSession("lance cleanup"):
        pass
    assert world == []


def test_it_starts_once_quietly_and_stops_at_the_end(world):
    said = []
    with JobSession("lance cleanup", say=said.append) as session:
        assert session() is session()
        ((started, options),) = world
        assert started.stopped == 0
    assert (started.stopped, said) == (1, ["start Spark"])
    assert (options["spark.log.level"], options["spark.app.name"]) == ("ERROR", "lance cleanup")
    session.stop()
    assert started.stopped == 1


def test_an_error_stops_it_as_well(world):
    def fail():
        with JobSession("lance cleanup", "INFO") as session:
            session()
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    ((started, options),) = world
    assert (started.stopped, options["spark.log.level"]) == (1, "INFO")


def test_a_session_that_was_there_is_used_and_goes_on(world, monkeypatch):
    from pyspark.sql import SparkSession

    there = Session()
    monkeypatch.setattr(SparkSession, "active", staticmethod(lambda: there))
    with JobSession("lance cleanup") as session:
        assert session() is there
    assert (there.stopped, world) == (0, [])


def test_in_a_container_of_yarn_it_starts_at_once(world, monkeypatch):
    """YARN calls a driver failed that ends without ever having made a session."""
    monkeypatch.setenv("CONTAINER_ID", "container_1")
    with JobSession("lance cleanup"):
        ((started, _),) = world
    assert started.stopped == 1
