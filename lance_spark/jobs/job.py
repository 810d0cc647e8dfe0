"""What all jobs share: their command lines, what they print, and errors as a line and an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, cast, get_args

from lance_spark.catalog.lookup import open_catalog, open_service
from lance_spark.catalog.name_rules import MANIFEST, Catalog, Mode
from lance_spark.core.location import DatasetLocation
from lance_spark.core.storage_options import pairs_of, storage_from
from lance_spark.engine.session_spark import LOG_LEVELS, RunOn
from lance_spark.errors import InvalidOption, LanceSparkError, NotFound, PermissionDenied, ReportFailure
from lance_spark.hints import quoted
from lance_spark.storage.files import entries
from lance_spark.storage.small_files import is_stream, read_report, write_report
from lance_spark.storage.versions import version_numbers


def run(arguments: argparse.Namespace, work: Callable[[argparse.Namespace], int]) -> int:
    """Do the work of a job; returns its exit code, or that of the error that it raises."""
    try:
        return work(arguments)
    except LanceSparkError as error:
        print(f"error: {error.told('shell')}", file=sys.stderr)
        return error.exit_code


def check_is_dataset(location: DatasetLocation) -> None:
    """Raise NotFound that names --catalog for the directory of a catalog, where a job was to get a dataset."""
    if version_numbers(location, None):
        return
    inside = entries(location, "")
    if any(each == MANIFEST or each.endswith(".lance") for each, is_directory in inside if is_directory):
        raise NotFound(
            f"{location.uri} is not a dataset; there are tables in it.",
            hint=f"For all of them, the place of a catalog has an option of its own: --catalog {quoted(location.uri)}",
        )


def named_catalog(arguments: argparse.Namespace, root: str | None) -> Catalog | None:
    """The catalog of ``--impl``, or the one in a directory; None if neither was named. Raises InvalidOption."""
    storage, mode = storage_from(arguments.storage), cast("Mode", getattr(arguments, "catalog_mode", _MODE))
    if arguments.impl is None:
        if arguments.property:
            raise InvalidOption("Properties belong to an implementation.", hint="Give --impl rest as well.")
        return None if root is None else open_catalog(root, storage, mode)
    if root is not None or mode != _MODE:
        raise InvalidOption(
            "--impl cannot be combined with a directory, or with what counts as a table there.",
            hint="Give the properties of the service: --property uri=https://catalog.example.",
        )
    return open_service(arguments.impl, pairs_of("--property", arguments.property, _PROPERTY), storage)


def policy_text(path: str, storage: Mapping[str, str]) -> str:
    """The text of a policy file, at a path or a URI. Raises InvalidOption if there is none."""
    text = read_report(path, storage)
    if text is None:
        raise InvalidOption(f"There is no policy file {path}.", hint="Give its path or URI.")
    return text


def say(what: str) -> None:
    """Print progress, in one write: tables that end at once would share a line."""
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


def try_report(arguments: argparse.Namespace) -> None:
    """Write to the file of ``--report`` that the job is not finished: a bad place must end it before its work.

    Raises the error of the write, which says that nothing was done.
    """
    check_distinct(arguments, "policy", "inventory", "report")
    if arguments.report and not is_stream(arguments.report):
        begun = json.dumps({"finished": False, "started": datetime.now(timezone.utc).isoformat(timespec="seconds")})
        first_try("--report", arguments.report, begun, arguments)


def check_distinct(arguments: argparse.Namespace, *names: str) -> None:
    """Raise InvalidOption for two options with one file: a report would take the place of a policy."""
    seen: dict[str, str] = {}
    for flag, path in ((f"--{name}", getattr(arguments, name, None)) for name in names):
        if path and seen.setdefault(path, flag) != flag:
            raise InvalidOption(f"{seen[path]} and {flag} name one file, {path}.", hint="Give each a file of its own.")


def first_try(flag: str, path: str, text: str, arguments: argparse.Namespace) -> None:
    """The first write to the place of an option. Raises the error of the write, which says that nothing was done."""
    try:
        write_report(path, text, storage_from(arguments.storage))
    except PermissionDenied as problem:
        raise problem.reworded(f"{flag}: {problem.message} Nothing was done.", problem.hint) from None
    except LanceSparkError as problem:
        raise type(problem)(f"{flag}: {problem.message} Nothing was done.", problem.hint) from None


def show(arguments: argparse.Namespace, report: str, document: str, code: int) -> int:
    """Print a report, and write its JSON to the file of ``--report``; returns the exit code.

    ``code`` is that of the work, and counts before that of a report that cannot be written.
    """
    print(report)
    if not arguments.report:
        return code
    whole = json.dumps({"finished": True, **json.loads(document)}, indent=2)
    return delivered(code, lambda: write_report(arguments.report, whole, storage_from(arguments.storage)))


def delivered(code: int, *writes: Callable[[], None]) -> int:
    """Carry out all of the last writes of a job, whose exit code was ``code``; returns the exit code."""
    for write in writes:
        try:
            write()
        except LanceSparkError as problem:
            failure = ReportFailure(f"The work is done, but its report could not be written: {problem.message}")
            print(f"error: {failure.told('shell')}", file=sys.stderr)
            code = code or failure.exit_code
    return code


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """The command line of a job, whose help begins with the docstring of its file."""
    return argparse.ArgumentParser(
        prog=f"{name}.py",
        description=description,
        epilog=f"From an installed package, without jobs/: python -m lance_spark.jobs.{name}",
        allow_abbrev=False,  # --ex must not be --execute
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


_MODE = "compatibility"
_PROPERTY = "uri=https://catalog.example"
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "uri": {"metavar": "URI", "nargs": "?", "help": "the dataset: a path or a URI"},
    "--catalog": {"metavar": "ROOT", "help": "instead of a dataset: all tables of the catalog there"},
    "--catalog-mode": {
        "choices": ("v1", "v2", "compatibility"),
        "default": _MODE,
        "help": "what counts as a table there: directories, rows of __manifest, or both (default)",
    },
    "--impl": {
        "metavar": "NAME",
        "help": "instead: all tables of a catalog service: rest, glue, hive2, hive3, unity, polaris, or a class",
    },
    "--property": {"action": "append", "default": [], "metavar": "KEY=VALUE", "help": "a property of that service"},
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
CATALOG = ("--catalog-mode", "--impl", "--property")
"""Those that say what a catalog is."""
HOW = ("--storage", "--run-on", "--local", "--log-level")
"""Those that say how a job runs."""


def add(group: Any, *names: str) -> None:
    """Add some of :data:`ARGUMENTS` to a command line or a group of one."""
    for name in names:
        group.add_argument(name, **ARGUMENTS[name])
