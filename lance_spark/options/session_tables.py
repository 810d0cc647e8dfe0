"""Tables of Spark's own catalog: Spark does not tell a data source in Python where they are, so they cannot be Lance's.

``CREATE TABLE t (a INT) USING lance`` would leave a name behind that can be neither read nor written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lance_spark.errors import InvalidOption, Refused

_REGISTER = "lance_spark.register(spark, catalog='lake', root='s3://bucket/lake')"
LAKE = "lake"
_OF_A_TABLE = frozenset({"provider", "owner"})
"""What Spark says beside the options where it makes a table, and nowhere else."""


def refused_table(
    name: str = "t", statement: str = "CREATE TABLE {} (...)", first: str = "", catalog: str = ""
) -> Refused:
    """What to raise for a table of Spark's own catalog.

    ``name`` is the table's own name, ``statement`` what to type for it in a catalog of ours, and ``catalog`` one that
    the session has. ``first`` is what to do without one.
    """
    register = "" if catalog else f"register a catalog, {_REGISTER}, and "
    hint = f"{register}type {statement.format(f'{catalog or LAKE}.{name}')}."
    return Refused(
        "Spark's own catalog cannot keep Lance tables: it does not tell where they are. No table was made.",
        hint=f"{first} For a name of its own, {hint}" if first else f"{hint[0].upper()}{hint[1:]}",
    )


def path_as_name(options: Mapping[str, str]) -> str:
    """What to do with a table whose options say where it is, in a session where paths are names; else nothing."""
    path, branch = _place(options)
    ref = "" if branch is None else f"@{branch}"
    return "" if path is None else f"Its path is a name for CREATE TABLE, SELECT and INSERT: lance.`{path}{ref}`."


def path_as_view(options: Mapping[str, str]) -> str:
    """What to do with such a table in any session."""
    path, branch = _place(options)
    more = "" if branch is None else f", branch '{branch}'"
    return "" if path is None else f"Read it by CREATE TEMPORARY VIEW t USING lance OPTIONS (path '{path}'{more})."


def _place(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    given = {key.lower(): value for key, value in options.items()}
    return given.get("location") or given.get("path"), given.get("branch")


def nothing_named(call: str) -> InvalidOption:
    """What to raise for a read (``load``) or write (``save``) without a path."""
    typed = "SELECT * FROM lake.t" if call == "load" else "df.write.saveAsTable('lake.t') or INSERT INTO lake.t"
    return InvalidOption(
        "No dataset was named.",
        hint=f"Give a path or a URI, e.g. {call}('s3://bucket/t.lance'). A table of Spark's own catalog has none: "
        f"drop it, register a catalog, {_REGISTER}, and type {typed}.",
    )


def check_named(options: Mapping[str, str], call: str) -> None:
    """Raise Refused for a table that Spark makes in its own catalog, and InvalidOption for several paths."""
    given = {key.lower(): value for key, value in options.items()}
    if given.keys() >= _OF_A_TABLE:
        raise refused_table(first=path_as_view(options))
    if "paths" in given:
        paths = json.loads(given["paths"])
        first, *others = (f"read.load({path!r})" for path in paths[:3])
        each = first + "".join(f".unionByName({other})" for other in others)
        raise InvalidOption(
            f"{call}() was given {len(paths)} paths, and a read is of one dataset.",
            hint=f"With read = spark.read.format('lance') put them together: {each}.",
        )
