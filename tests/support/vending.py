"""Keys that expire, a store that refuses them then, and those who hand them out."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping

import lance_spark
from support.faulty_store import FaultyStore, Request


class Gate:
    """Keys for a store behind a proxy, each good for some seconds."""

    def __init__(self, store: FaultyStore, seconds: float = 3600.0) -> None:
        self.store, self.seconds = store, seconds
        self.good: dict[str, float] = {}
        self.handed_out = 0
        self.refused = 0
        self.ahead = 0.0
        """By how many seconds the clock of those who get keys is behind."""
        self.away = False
        """Whether those who hand out keys do not answer."""
        self._lock = threading.Lock()
        store.rule = self._rule

    def key(self) -> dict[str, str]:
        """A new key, as storage options."""
        if self.away:
            raise ConnectionError(f"away, with very-secret-{self.handed_out}")
        with self._lock:
            self.handed_out += 1
            name = f"AKIAVENDED{self.handed_out:06}"
            until = time.time() + self.seconds
            self.good[name] = until
        return _options(name, self.store.endpoint, until + self.ahead)

    def revoke(self) -> None:
        """All keys handed out so far are refused from now on."""
        self.good.clear()

    def only(self, uses: int) -> None:
        """From now on each key is good for so many requests."""
        left: dict[str, int] = {}

        def rule(request: Request) -> str | None:
            with self._lock:
                left[request.access_key] = left.get(request.access_key, uses) - 1
                if left[request.access_key] < 0:
                    self.good.pop(request.access_key, None)
            return self._rule(request)

        self.store.rule = rule

    def at(self, moment: int, event: Callable[[], object]) -> None:
        """Let something happen right before that request, and each one after it."""
        requests = itertools.count(1)

        def rule(request: Request) -> str | None:
            if next(requests) >= moment:
                event()
            return self._rule(request)

        self.store.rule = rule

    def slowly(self, seconds: float) -> None:
        """From now on each answer takes so many seconds."""

        def rule(request: Request) -> str | None:
            told = self._rule(request)
            time.sleep(seconds)
            return told

        self.store.rule = rule

    def _rule(self, request: Request) -> str | None:
        if self.good.get(request.access_key, 0.0) > time.time():
            return None
        self.refused += 1
        return "400 ExpiredToken"


def _options(name: str, endpoint: str, until: float) -> dict[str, str]:
    return {
        "aws_access_key_id": name,
        "aws_secret_access_key": f"very-secret-{name}",
        "aws_session_token": f"token-of-{name}",
        "aws_endpoint": endpoint,
        "aws_region": "us-east-1",
        "allow_http": "true",
        "expires_at_millis": str(int(until * 1000)),
    }


GATE: list[Gate] = []
"""That of the test that runs."""
PROVIDER = f"{__name__}:hand_out"
OBJECT, CLASS = f"{__name__}:VENDOR", f"{__name__}:Vendor"


@lance_spark.storage_options_provider
def hand_out() -> Mapping[str, str]:
    return GATE[-1].key()


@lance_spark.storage_options_provider
class Vendor:
    """The same, as an object with one method."""

    def storage_options(self) -> Mapping[str, str]:
        return GATE[-1].key()


VENDOR = Vendor()


@lance_spark.storage_options_provider
def without_gate() -> Mapping[str, str]:
    """For processes that are spawned: the name of a key says which process has it, and until when it is good."""
    until = time.time() + 2.0
    return _options(f"AKIA{os.getpid()}UNTIL{until:.3f}", os.environ["VENDING_ENDPOINT"], until)


WITHOUT_GATE = f"{__name__}:without_gate"


def still_good(request: Request) -> str | None:
    """The rule of a store for these keys."""
    return None if float(request.access_key.partition("UNTIL")[2]) > time.time() else "400 ExpiredToken"
