"""Where the commands begin. Nothing is imported before it has to be: a Ctrl-C while modules load is no traceback."""

from __future__ import annotations

import sys
from importlib import import_module


def lance_git() -> int:
    """Run ``lance-git``; returns the exit code."""
    return _run("lance_spark.cli.main")


def lance_catalog() -> int:
    """Run ``lance-catalog``; returns the exit code."""
    return _run("lance_spark.cli.catalog.main")


def _run(module: str) -> int:
    try:
        main = import_module(module).main
    except KeyboardInterrupt:
        sys.stderr.write("error: Interrupted.\n")
        return 130
    code: int = main()
    return code
