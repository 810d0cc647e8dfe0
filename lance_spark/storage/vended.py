"""What providers of storage options handed out to this process, until it expires or a store refuses it."""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum

from lance_spark.core.location import DatasetLocation
from lance_spark.core.services import PROVIDER, Vended, is_secret
from lance_spark.errors import LanceSparkError

_known: dict[str, Vended] = {}
_refused: dict[str, int] = {}
_secrets: deque[str] = deque(maxlen=256)
_early: dict[str, float] = {}
replaced: dict[DatasetLocation, LanceSparkError] = {}
"""Tables whose names mean others now, which commits have found out."""
_lock = threading.Lock()
_YOUNG = 5.0
"""Seconds for which a key that lacks a right is not asked for again: a revocation of rights is seen a little later."""
_LARGEST_SKEW = 900.0
"""Seconds by which clocks can differ: with more, S3 refuses every request (RequestTimeTooSkewed)."""


class Refusal(Enum):
    """Why a store refused a request."""

    EXPIRED = "expired"
    KEY = "key"
    """The key is none, or none any more."""
    RIGHTS = "rights"
    """Rights are missing. That is also how the revocation of a role's sessions looks."""


def known(provider: str) -> Vended | None:
    """What a provider handed out last, expired or not."""
    with _lock:
        return _known.get(provider)


def keep(provider: str, vended: Vended) -> None:
    """From now on it is what the provider handed out, and no error shows its secrets."""
    with _lock:
        _known[provider] = vended
        _secrets.extend(
            value for key, value in vended.options if is_secret(key) and len(value) > 3 and value not in _secrets
        )


def provider_of(location: DatasetLocation) -> str | None:
    """Who hands out what opens a location; None if nobody does."""
    return dict(location.options).get(PROVIDER)


def early(provider: str) -> float:
    """By how many seconds stores have refused keys of a provider before their time: a clock is off by as much."""
    with _lock:
        return _early.get(provider, 0.0)


def refused(location: DatasetLocation, now: float, refusal: Refusal, used: Vended | None = None) -> bool:
    """Drop what opened a location, since its store refused it; returns whether another attempt makes sense.

    ``now`` is the time of :attr:`Vended.fetched`, ``used`` what the request was made with, if that is known: of many
    threads that are refused at one moment, only the first drops it, or each would ask for another one.
    """
    provider = provider_of(location)
    if provider is None:
        return False
    with _lock:
        known = _known.get(provider)
        if known is None or (used is not None and known is not used):
            return True
        if refusal is Refusal.RIGHTS and now - known.fetched < _YOUNG:
            return False  # whoever lacks a right lacks it with the next key, too
        left = 0.0 if known.lifetime is None else known.lifetime - (now - known.fetched)
        if refusal is Refusal.EXPIRED and 0 < left <= _LARGEST_SKEW:
            _early[provider] = _early.get(provider, 0.0) + left
        _refused[provider] = _refused.get(provider, 0) + 1
        del _known[provider]
        return True


def times_refused(location: DatasetLocation) -> int:
    """How often that happened: a handle from before cannot be used again."""
    provider = provider_of(location)
    return 0 if provider is None else _refused.get(provider, 0)


def secrets() -> tuple[str, ...]:
    """The secrets among what was handed out lately."""
    with _lock:
        return tuple(_secrets)
