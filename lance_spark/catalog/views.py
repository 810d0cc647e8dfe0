"""What the temporary views of a catalog's tables are called."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.catalog.names import Identifier
from lance_spark.errors import Refused

BETWEEN = "_"
"""Between the parts of a table's name: Spark takes a dot in a view's name for the end of a database's."""


def view_names(tables: Iterable[Identifier], prefix: str = "") -> dict[Identifier, str]:
    """The view of each table: ``ns1.ns2.flights`` is ``ns1_ns2_flights``, with the prefix in front of it.

    Raises Refused, naming both, for two tables whose views would be one. Spark does not tell upper from lower case.
    """
    names: dict[Identifier, str] = {}
    taken: dict[str, Identifier] = {}
    for table in tables:
        name = prefix + BETWEEN.join(table.parts)
        other = taken.setdefault(name.casefold(), table)
        if other != table:
            raise Refused(
                f"Tables '{other}' and '{table}' would both be view '{name}'.",
                hint="Register the views of one namespace after the other, with a prefix each.",
            )
        names[table] = name
    return names


def quoted_view(name: str) -> str:
    """The name as SQL takes it, whatever is in it."""
    return "`{}`".format(name.replace("`", "``"))
