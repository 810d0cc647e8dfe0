"""The options that name a table by its catalog, and the tables of Spark's own that cannot be Lance's. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.core.options import folded, to_bool
from lance_spark.errors import InvalidOption, Refused

OWN_NAME = "lance_spark"
"""Name under which handles register the data source: ``lance`` might be the JVM connector's."""
CATALOG_OPTIONS = ("catalog", "catalog_mode", "catalog_branch", "catalog_tag", "catalog_published")
"""Options of reads and writes alike."""
_CATALOG = frozenset(map(folded, CATALOG_OPTIONS))


@dataclass(frozen=True)
class CatalogTable:
    """A table by its name. It might not exist."""

    root: str
    """Path or URI of the catalog's directory, as typed."""
    name: str
    mode: str | None = None
    """How to read the catalog; None for its default."""
    ref: tuple[str, str] | None = None
    """Kind (``branch``, ``tag`` or ``published``) and name of the ref of the whole catalog."""


def take_catalog(options: Mapping[str, str], call: str) -> tuple[CatalogTable | None, dict[str, str]]:
    """The table that options name by a catalog, and the other options; None for options without ``catalog``.

    ``call`` is ``load`` or ``save``, for errors. Raises InvalidOption for an empty catalog, a mode without a catalog,
    and a path instead of a table name.
    """
    rest = {key: value for key, value in options.items() if folded(key) not in _CATALOG}
    given = {folded(key): value for key, value in options.items() if folded(key) in _CATALOG}
    root, mode = given.get("catalog"), given.get("catalogmode")
    named = [(kind, given[f"catalog{kind}"]) for kind in ("branch", "tag") if f"catalog{kind}" in given]
    if to_bool("catalog_published", given.get("catalogpublished", "false")):
        named.append(("published", "true"))
    if len(named) > 1:
        both = " and ".join(f"'catalog_{kind}'" for kind, _ in named)
        raise InvalidOption(f"Options {both} exclude each other.", hint="Give one of them.")
    if root is None:
        for option in CATALOG_OPTIONS[1:]:
            if folded(option) in given:
                raise InvalidOption(
                    f"Option '{option}' says how to read a catalog, but no catalog is named.",
                    hint="Add option('catalog', ...).",
                )
        return None, rest
    if not root.strip():
        raise InvalidOption(
            "Option 'catalog' is empty.", hint="Give the catalog's directory: option('catalog', 's3://bucket/lake')."
        )
    name = rest.pop("path", None)
    if name is None:
        raise InvalidOption(f"No table of the catalog {root} was named.", hint=f"Give its name: {call}('ns1.flights').")
    if "/" in name or "\\" in name:
        raise InvalidOption(
            f"With option 'catalog', '{name}' must be the name of a table, but it is a path.",
            hint=f"Write {call}('ns1.flights'), or leave out 'catalog'.",
        )
    return CatalogTable(root, name, mode.strip().lower() if mode is not None else None, *named), rest


# --- Tables of Spark's own catalog, which cannot be Lance tables
# Spark does not pass their location to a Python data source. So ``CREATE TABLE t (a INT) USING lance`` would leave a
# name behind that can be neither read nor written.

_REGISTER = "lance_spark.register(spark, catalog='lake', root='s3://bucket/lake')"
LAKE = "lake"
_OF_A_TABLE = frozenset({"provider", "owner"})
"""Options that Spark adds when it creates a table, and only then."""


def refused_table(
    name: str = "t", statement: str = "CREATE TABLE {} (...)", first: str = "", catalog: str = ""
) -> Refused:
    """The error for a table of Spark's own catalog.

    ``name`` is the table's own name, ``statement`` the statement to type in a Lance catalog, and ``catalog`` one that
    the session has. ``first`` is the remedy without a catalog.
    """
    register = "" if catalog else f"register a catalog, {_REGISTER}, and "
    hint = f"{register}type {statement.format(f'{catalog or LAKE}.{name}')}."
    return Refused(
        "Spark's own catalog cannot keep Lance tables: it does not pass on where they are. No table was made.",
        hint=f"{first} For a name of its own, {hint}" if first else f"{hint[0].upper()}{hint[1:]}",
    )


def path_as_name(options: Mapping[str, str]) -> str:
    """The remedy for a table whose options hold its path, in a session where paths are names; otherwise ""."""
    path, branch = _place(options)
    ref = "" if branch is None else f"@{branch}"
    return "" if path is None else f"Its path is a name for CREATE TABLE, SELECT and INSERT: lance.`{path}{ref}`."


def path_as_view(options: Mapping[str, str]) -> str:
    """The remedy for such a table in any session."""
    path, branch = _place(options)
    more = "" if branch is None else f", branch '{branch}'"
    return "" if path is None else f"Read it by CREATE TEMPORARY VIEW t USING lance OPTIONS (path '{path}'{more})."


def _place(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    given = {key.lower(): value for key, value in options.items()}
    return given.get("location") or given.get("path"), given.get("branch")


def nothing_named(call: str) -> InvalidOption:
    """The error for a read (``load``) or write (``save``) without a path."""
    typed = "SELECT * FROM lake.t" if call == "load" else "df.write.saveAsTable('lake.t') or INSERT INTO lake.t"
    return InvalidOption(
        "No dataset was named.",
        hint=f"Give a path or a URI, e.g. {call}('s3://bucket/t.lance'). A table of Spark's own catalog has none: "
        f"drop it, register a catalog, {_REGISTER}, and type {typed}.",
    )


def check_named(options: Mapping[str, str], call: str) -> None:
    """Raise Refused for a table that Spark creates in its own catalog, and InvalidOption for several paths."""
    given = {key.lower(): value for key, value in options.items()}
    if given.keys() >= _OF_A_TABLE:
        raise refused_table(first=path_as_view(options))
    if "paths" in given:
        paths = json.loads(given["paths"])
        first, *others = (f"read.load({path!r})" for path in paths[:3])
        each = first + "".join(f".unionByName({other})" for other in others)
        raise InvalidOption(
            f"{call}() got {len(paths)} paths, but a read covers one dataset.",
            hint=f"With read = spark.read.format('lance'), combine them: {each}.",
        )
