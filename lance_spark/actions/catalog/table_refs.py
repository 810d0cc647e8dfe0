"""From a table's name with a ref in it to a table and a ref that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.actions.catalog.lookup import Found, find_table, located
from lance_spark.actions.typed_refs import find_spec
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.names import Identifier, Name, split_name
from lance_spark.catalog.table_refs import MARK, Reading, metadata_reading, readings, spelled
from lance_spark.errors import InvalidName, LanceSparkError, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import RefSpec
from lance_spark.refs.typed import DEFAULT, TypedRef, combine


@dataclass(frozen=True)
class NamedRef:
    """A table of a catalog at a ref, and maybe one of its metadata tables."""

    table: Identifier
    location: DatasetLocation
    spec: RefSpec
    """A branch, which moves; or a tag, version or moment. It was there when the name was read."""
    metadata_table: str | None = None


def read_name(catalog: Catalog, name: Name, travel: TypedRef = DEFAULT) -> NamedRef:
    """What a name means: a table, a table at a ref, or a metadata table of either.

    ``travel`` is what stands behind ``VERSION AS OF`` or ``TIMESTAMP AS OF``. A table that is called just so comes
    before a metadata table. Raises NotFound with near names, InvalidName, InvalidOption, and Refused where a name means
    both a table and a ref of another one.
    """
    identifier = split_name(name)
    try:
        return _table_at(catalog, identifier, travel)
    except (NotFound, InvalidName) as missing:  # no namespace can be called as a table at a ref is
        inside = metadata_reading(identifier)
        if inside is None:
            raise
        return _metadata_table(catalog, inside, travel, missing)


def _metadata_table(
    catalog: Catalog, inside: tuple[Identifier, str], travel: TypedRef, missing: LanceSparkError
) -> NamedRef:
    table, metadata_table = inside
    try:
        found = _table_at(catalog, table, travel)
    except NotFound as absent:
        raise (absent if MARK in table.name else missing) from None
    return NamedRef(found.table, found.location, found.spec, metadata_table)


def _table_at(catalog: Catalog, identifier: Identifier, travel: TypedRef) -> NamedRef:
    """The one reading of a name that holds."""
    ways = readings(identifier)
    doing = f"open table '{identifier}'"
    if len(ways) == 1:
        return _at(catalog, ways[0], find_table(catalog, ways[0].table, doing), travel)
    held: list[NamedRef] = []
    problem: LanceSparkError | None = None
    for reading in ways:
        try:
            found = find_table(catalog, reading.table, doing)
        except NotFound:
            continue
        try:
            held.append(_at(catalog, reading, found, travel))
        except NotFound as absent:
            problem = problem or absent
    if len(held) > 1:
        raise _ambiguous(identifier, held)
    if held:
        return held[0]
    raise problem or refusal(NotFound, doing, "there is no such table", _hint(ways, identifier))


def _at(catalog: Catalog, reading: Reading, found: Found, travel: TypedRef) -> NamedRef:
    location = located(catalog, found)
    return NamedRef(reading.table, location, find_spec(location, combine(reading.ref, travel)))


def _ambiguous(identifier: Identifier, held: list[NamedRef]) -> LanceSparkError:
    shown = " and ".join(f"table '{found.table}'" for found in sorted(held, key=lambda found: found.table.name))
    ways = [spelled(identifier, "main")]
    for found in held:
        if found.table != identifier:
            ref = identifier.name[len(found.table.name) + 1 :]
            ways.append(spelled(found.table, f"{'heads' if found.spec.tag is None else 'tags'}/{ref}"))
    return refusal(Refused, f"open '{identifier}'", f"it means {shown} at a ref as well", f"Write {' or '.join(ways)}.")


def _hint(ways: Sequence[Reading], identifier: Identifier) -> str:
    names = " or ".join(f"'{reading.table}'" for reading in ways if reading.table != identifier)
    return f"A ref may follow '{MARK}', but there is no table {names}."
