"""What works where neither PySpark nor pandas is installed, as one process: run it in an empty directory.

    python tests/support/without_spark.py           # hides both, as if pip had not installed them
    python tests/support/without_spark.py really    # in an environment that has neither

Prints one JSON object: what the verbs answered, and the errors of those that need Spark.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

HIDDEN = ("pyspark", "py4j", "pandas")


class Hiding(PathFinder):
    """Python's own finder, which does not find what is hidden."""

    @classmethod
    def find_spec(cls, fullname: str, *arguments: Any) -> ModuleSpec | None:
        """None for what is hidden."""
        return None if fullname in HIDDEN else super().find_spec(fullname, *arguments)


def hide() -> None:
    """From now on, in this process, as if what is hidden were not installed."""
    sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding


def printed(command: Callable[[list[str]], int], *arguments: str) -> str:
    """What a command prints. It must end with 0. ``-C`` leaves the directory, as the process is the command's own."""
    here = os.getcwd()
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = command([*arguments])
    os.chdir(here)
    assert code == 0, (arguments, code)
    return output.getvalue()


def commands() -> dict[str, Any]:
    """A story of both commands and two jobs."""
    import lance
    import pyarrow as pa

    from lance_spark.cli.catalog.main import main as catalog
    from lance_spark.cli.main import main as git
    from lance_spark.jobs import cleanup, fsck

    lance.write_dataset(pa.table({"id": [1, 2, 3]}), "lake/flights.lance")
    on = ("-C", "lake/flights.lance")
    printed(git, *on, "branch", "exp")
    at_exp = lance.dataset("lake/flights.lance").checkout_version(("exp", None))
    lance.write_dataset(pa.table({"id": [4]}), at_exp, mode="append")
    printed(git, *on, "merge", "exp")
    printed(git, "init", "new.lance", "--from", "lake/flights.lance")
    return {
        "log": [version["version"] for version in json.loads(printed(git, *on, "log", "--json"))["versions"]],
        "branches": printed(git, *on, "branch").split(),
        "new": lance.dataset("new.lance").schema.names,
        "tables": printed(catalog, "-C", "lake", "ls").split(),
        "cleanup": printed(cleanup.main, "lake/flights.lance", "--older-than", "1d", "--local"),
        "fsck": printed(fsck.main, "lake/flights.lance"),
    }


def handles() -> dict[str, Any]:
    """Handles without a session, and what they raise."""
    import lance_spark
    from lance_spark import LanceCatalog, LanceTable
    from lance_spark.errors import LanceSparkError
    from lance_spark.jobs import cleanup

    table, lake = LanceTable.for_path(uri="lake/flights.lance", spark=None), LanceCatalog(root="lake", spark=None)
    table.tags.create("v1")
    table.indexes.create("id")
    needs: dict[str, Callable[[], Any]] = {
        "to_df": lambda: table.to_df(),
        "query": lambda: table.query(lambda frame: frame),
        "schema": lambda: table.schema,
        "delete": lambda: table.delete("id = 1"),
        "update": lambda: table.update({"id": "id + 1"}),
        "add_columns": lambda: table.add_columns({"twice": "2 * id"}),
        "search": lambda: table.search(text="storm"),
        "versions": lambda: table.versions(),
        "views": lambda: lake.register_views(),
        "register": lambda: lance_spark.register(None),  # type: ignore[arg-type]
        "LanceDataSource": lambda: lance_spark.LanceDataSource,
        "register_search": lambda: lance_spark.register_search,
    }

    def raised(verb: Callable[[], Any]) -> list[Any]:
        try:
            verb()
        except LanceSparkError as error:
            return [type(error).__name__, error.exit_code, error.message, error.hint]
        return []

    with contextlib.redirect_stderr(io.StringIO()) as output:
        code = cleanup.main(["lake/flights.lance", "--inventory", "files.parquet"])
    return {
        "rows": table.count_rows("id > 1"),
        "tables": lake.list_tables(),
        "shown": repr(table),
        "errors": {name: raised(verb) for name, verb in needs.items()},
        "job": [code, output.getvalue()],
    }


if __name__ == "__main__":
    if sys.argv[1:] != ["really"]:
        hide()
    print(json.dumps({**commands(), **handles(), "loaded": sorted(set(HIDDEN) & set(sys.modules))}))
