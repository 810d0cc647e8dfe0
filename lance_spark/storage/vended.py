"""What providers of storage options handed out to this process, until it expires or a store refuses it."""

from __future__ import annotations

import threading
from collections import deque

from lance_spark.core.location import DatasetLocation
from lance_spark.core.services import PROVIDER, Vended, is_secret

_known: dict[str, Vended] = {}
_refused: dict[str, int] = {}
_secrets: deque[str] = deque(maxlen=256)
_lock = threading.Lock()


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


def refused(location: DatasetLocation) -> bool:
    """Drop what opened a location: its store refused it, as after a revocation. False if nobody handed it out."""
    provider = dict(location.options).get(PROVIDER)
    if provider is None:
        return False
    with _lock:
        _refused[provider] = _refused.get(provider, 0) + 1
        return _known.pop(provider, None) is not None


def times_refused(location: DatasetLocation) -> int:
    """How often that happened: a handle from before cannot be used again."""
    provider = dict(location.options).get(PROVIDER)
    return 0 if provider is None else _refused.get(provider, 0)


def secrets() -> tuple[str, ...]:
    """The secrets among what was handed out lately."""
    with _lock:
        return tuple(_secrets)
