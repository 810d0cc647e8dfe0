"""A proxy before a server of Spark Connect, which refuses calls, or drops them midway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import grpc

_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_OF_TRANSPORT = ("user-agent", "grpc-", ":")

Fate = Callable[["Call"], Iterator[bytes]]
"""What becomes of a call: gives its responses, or ends it."""


class Call:
    """One call of a client, whose messages stay bytes. Any call may be one of streams, in both directions."""

    def __init__(self, channel: grpc.Channel, method: str, requests: Iterator[bytes], context: Any) -> None:
        self.requests = requests
        self._channel, self._method, self._context = channel, method, context

    def passed_on(self, requests: Iterator[bytes] | None = None) -> Iterator[bytes]:
        """The server's responses, to these requests or the client's; its errors are the client's."""
        told = [pair for pair in self._context.invocation_metadata() if not pair[0].startswith(_OF_TRANSPORT)]
        answering: Any = self._channel.stream_stream(self._method)(requests or self.requests, metadata=told)
        self._context.add_callback(answering.cancel)
        try:
            yield from answering
        except grpc.RpcError as error:
            self._context.set_trailing_metadata(answering.trailing_metadata() or ())
            self.end(error.code(), error.details() or "")

    def end(self, code: grpc.StatusCode, why: str) -> None:
        """End it with an error."""
        self._context.abort(code, why)


def refused(code: grpc.StatusCode) -> Fate:
    """Of a platform that does not let its users do that."""

    def fate(call: Call) -> Iterator[bytes]:
        call.end(code, "not here")
        yield b""

    return fate


def dropped_midway(code: grpc.StatusCode) -> Fate:
    """The server has the first request, and its stream ends there."""

    def fate(call: Call) -> Iterator[bytes]:
        first = [*islice(call.requests, 1)]

        def broken() -> Iterator[bytes]:
            yield from first
            raise ConnectionError

        try:
            for _ in call.passed_on(broken()):
                pass
        finally:
            call.end(code, "the stream was dropped")
        yield b""

    return fate


def dropped_at_the_end(code: grpc.StatusCode) -> Fate:
    """The server has done what was asked, and the client does not learn it."""

    def fate(call: Call) -> Iterator[bytes]:
        for _ in call.passed_on():
            pass
        call.end(code, "the stream was dropped")
        yield b""

    return fate


class Proxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes on all calls but those that have another fate: by the name of the call, one for each time."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.fates: dict[str, Iterator[Fate]] = {}
        self.asked: list[str] = []
        self.url = ""
        self._channel = channel

    def service(self, details: Any) -> Any:
        """How gRPC answers a call."""
        name = details.method.rpartition("/")[2]
        self.asked.append(name)
        fate = next(self.fates.get(name, iter(())), Call.passed_on)

        def answered(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            return fate(Call(self._channel, details.method, requests, context))

        return grpc.stream_stream_rpc_method_handler(answered)


@contextmanager
def proxy(address: str) -> Iterator[Proxy]:
    """One that listens on loopback, before the server of an address."""
    with (
        grpc.insecure_channel(address.removeprefix("sc://"), _UNLIMITED) as channel,
        ThreadPoolExecutor(32) as threads,
    ):
        made, server = Proxy(channel), grpc.server(threads, options=_UNLIMITED)
        server.add_generic_rpc_handlers((made,))
        made.url = f"sc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield made
        finally:
            server.stop(1).wait()
