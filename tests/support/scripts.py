"""Scripts of the checkout that are not in a package, as modules: jobs, and what `make` calls."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def script(path: str) -> Any:
    """The module of a file such as "jobs/cleanup.py", executed anew. It finds its neighbours, as if it was started."""
    file = ROOT / path
    name = f"{file.stem}_script"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module
