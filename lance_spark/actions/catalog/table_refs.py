"""From a table's name with a ref in it to a table of a catalog and a ref that are there."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.actions.catalog.lookup import find_table, located
from lance_spark.actions.typed_refs import Candidate, choose, find_spec
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.names import Identifier, Name, split_name
from lance_spark.catalog.table_refs import metadata_reading, readings
from lance_spark.errors import InvalidName, LanceSparkError, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import RefSpec
from lance_spark.refs.typed import DEFAULT, MARK, TypedRef


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
    inside = metadata_reading(identifier)
    if inside is not None and not catalog.reads_manifest:  # without namespaces it can mean nothing else
        return _metadata_table(catalog, inside, travel, None)
    try:
        return _table_at(catalog, identifier, travel)
    except (NotFound, InvalidName) as missing:  # no namespace can be called as a table at a ref is
        if inside is None:
            raise
        return _metadata_table(catalog, inside, travel, missing)


def _metadata_table(
    catalog: Catalog, inside: tuple[Identifier, str], travel: TypedRef, missing: LanceSparkError | None
) -> NamedRef:
    table, metadata_table = inside
    try:
        found = _table_at(catalog, table, travel)
    except NotFound as absent:
        raise (absent if missing is None or MARK in table.name else missing) from None
    return NamedRef(found.table, found.location, found.spec, metadata_table)


def _table_at(catalog: Catalog, identifier: Identifier, travel: TypedRef) -> NamedRef:
    """The one reading of a name that holds."""
    ways = readings(identifier)
    doing = f"open table '{identifier}'"
    if len(ways) == 1 and ways[0].ref.is_default:
        location = located(catalog, find_table(catalog, ways[0].table, doing))
        return NamedRef(ways[0].table, location, find_spec(location, travel))
    candidates = []
    for way in ways:
        try:
            found = find_table(catalog, way.table, doing)
        except NotFound:
            continue
        candidates.append(Candidate(way.table.name, located(catalog, found), way.ref))
    if not candidates:
        names = " or ".join(f"'{way.table}'" for way in ways if not way.ref.is_default)
        hint = f"A ref may follow '{MARK}', but there is no table {names}."
        raise refusal(NotFound, doing, "there is no such table", hint)
    chosen, spec = choose(identifier.name, candidates, travel)
    return NamedRef(identifier.parent.child(chosen.name), chosen.location, spec)
