"""What all jobs share: their command lines, what they print, and errors as a line and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any, get_args

from lance_spark.core.options import storage_from
from lance_spark.engine.session_spark import LOG_LEVELS, RunOn
from lance_spark.errors import LanceSparkError
from lance_spark.storage.small_files import write_report


def run(arguments: argparse.Namespace, work: Callable[[argparse.Namespace], int]) -> int:
    """Do the work of a job; returns its exit code, or that of the error that it raises."""
    try:
        return work(arguments)
    except LanceSparkError as error:
        print(f"error: {error.told('shell')}", file=sys.stderr)
        return error.exit_code


def say(what: str) -> None:
    """Print progress."""
    print(what, file=sys.stderr, flush=True)


def show(arguments: argparse.Namespace, report: Any) -> None:
    """Print a report, and write it to the file of ``--report``."""
    print(report)
    if arguments.report:
        write_report(arguments.report, report.to_json(), storage_from(arguments.storage))


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """The command line of a job, whose help begins with the docstring of its file."""
    return argparse.ArgumentParser(
        prog=f"{name}.py",
        description=description,
        epilog=f"From an installed package, without jobs/: python -m lance_spark.jobs.{name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "uri": {"metavar": "URI", "nargs": "?", "help": "the dataset: a path or a URI"},
    "--catalog": {"metavar": "ROOT", "help": "instead of a dataset: all tables of the catalog there"},
    "--catalog-mode": {
        "choices": ("v1", "v2", "compatibility"),
        "default": "compatibility",
        "help": "what counts as a table there: directories, rows of __manifest, or both (default)",
    },
    "--report": {"metavar": "FILE", "help": "write the report as JSON"},
    "--parallelism": {"type": int, "metavar": "N", "help": "tasks side by side (default: the cores)"},
    "--storage": {"action": "append", "default": [], "metavar": "KEY=VALUE", "help": "a storage option"},
    "--run-on": {
        "choices": get_args(RunOn),
        "default": "auto",
        "help": "auto (default): threads of this process for little work, else Spark; local or spark: always that one",
    },
    "--local": {"dest": "run_on", "action": "store_const", "const": "local", "help": "the same as --run-on local"},
    "--log-level": {
        "choices": LOG_LEVELS,
        "default": "ERROR",
        "type": str.upper,
        "metavar": "LEVEL",
        "help": "show Spark's own messages from this level on, e.g. INFO (default ERROR)",
    },
}
"""The arguments that several jobs have."""
HOW = ("--storage", "--run-on", "--local", "--log-level")
"""Those that say how a job runs."""


def add(group: Any, *names: str) -> None:
    """Add some of :data:`ARGUMENTS` to a command line or a group of one."""
    for name in names:
        group.add_argument(name, **ARGUMENTS[name])
