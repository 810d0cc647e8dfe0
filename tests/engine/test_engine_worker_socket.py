"""What a worker of Spark's says and hears is not held back."""

import socket

import pytest

from lance_spark.engine import workers_spark

pytestmark = pytest.mark.pure

SECRET = "PYTHON_WORKER_FACTORY_SECRET"


@pytest.fixture
def channel():
    door = socket.create_server(("127.0.0.1", 0))
    with door, socket.create_connection(door.getsockname()) as made, door.accept()[0]:
        yield made


def at_once(channel):
    return channel.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.skipif(workers_spark._QUICKACK is None, reason="Linux only")
def test_in_a_worker_of_sparks_what_is_sent_goes_at_once(channel, monkeypatch):
    assert not at_once(channel)
    monkeypatch.setenv(SECRET, "of this test")
    workers_spark.send_at_once()
    assert at_once(channel)
    channel.sendall(b"still open")


def test_elsewhere_sockets_are_left_alone(channel, monkeypatch):
    monkeypatch.delenv(SECRET, raising=False)
    workers_spark.send_at_once()
    assert not at_once(channel)


def test_a_system_without_the_option_is_left_alone(channel, monkeypatch):
    monkeypatch.setenv(SECRET, "of this test")
    monkeypatch.setattr(workers_spark, "_QUICKACK", None)
    workers_spark.send_at_once()
    assert not at_once(channel)
