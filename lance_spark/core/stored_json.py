"""JSON in files and metadata, which another program or an accident may have changed."""

from __future__ import annotations

import json
from typing import Any


def decode_json(content: str | bytes) -> Any:
    """The value. Raises ValueError for everything that is not JSON, also if it is nested too deeply to be read."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
