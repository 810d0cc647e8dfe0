"""moto's server, whose conditional writes are atomic as those of a real store: python moto_store.py -H HOST -p PORT."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from threading import Lock
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

CHANGED = ("put_object", "_key_response_post")
"""Methods of moto's answers that look and store."""
_CONDITIONS = frozenset({"If-Match", "If-None-Match"})


def make_atomic() -> None:
    """moto looks whether a key exists, and then stores it: two writers could create one version, and one was lost."""
    creating = Lock()

    def alone(write: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(write)
        def written(self: Any, *given: Any, **named: Any) -> Any:
            with creating if any(name in self.headers for name in _CONDITIONS) else nullcontext():
                return write(self, *given, **named)

        return written

    for name in CHANGED:
        setattr(S3Response, name, alone(getattr(S3Response, name)))


if __name__ == "__main__":
    make_atomic()
    main()
