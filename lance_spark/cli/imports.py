"""Keeps pandas out of the process of a command.

pylance needs pyarrow's datasets, and with them pyarrow imports pandas wherever that is installed: most of a second, for
a module that no verb uses.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _NoPandas(MetaPathFinder):
    """Reports that there is no pandas, which pyarrow and pylance do not need."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        """None for all other modules, which other finders find. Raises ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("This command does without pandas.", name=fullname)


def without_pandas() -> None:
    """Keep this process from importing pandas, unless pandas is loaded already."""
    sys.meta_path.insert(0, _NoPandas())
