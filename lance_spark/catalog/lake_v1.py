"""Branches and tags of a catalog of directories (V1): refs of one name on each of its tables.

There is no table ``__manifest`` that could say what belongs together: a ref of the lake covers the tables that have it.
New, dropped and renamed tables, and merges of all tables at once, cannot be had without that table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone

from lance_spark import errors, hints
from lance_spark.catalog.entry_rules import refusal, v1_directory
from lance_spark.catalog.lake_rules import TAG, LakeRef, ref_class
from lance_spark.catalog.lookup import list_tables, locate_table
from lance_spark.catalog.name_rules import Catalog, Identifier, Name, identify_table
from lance_spark.catalog.published import Moment
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_names import is_service_tag, lake_branch_of
from lance_spark.core.refs import Branch, PinnedVersion, Tag
from lance_spark.refs.refs import create_branch_at, create_tag_at, delete_tag, remove_branch
from lance_spark.storage import files, refs
from lance_spark.storage.datasets import find_latest


def create_on_tables(
    catalog: Catalog, kind: str, name: str, now: datetime, tables: Collection[Name] | None, moment: Moment
) -> LakeRef:
    """Create the ref on each table that has data, or on those in ``tables``; after a failure on none of them.

    Raises AlreadyExists if a table has it, NotFound for an unknown table, Refused if none has data.
    """
    doing = moment.doing
    names = [*list_tables(catalog)] if tables is None else [identify_table(each) for each in tables]
    places = [locate_table(catalog, each) for each in names] if tables is not None else _places(catalog, names)
    taken = [place for place, there in zip(places, _found(catalog, kind, name, places), strict=True) if there]
    if taken:
        hint = hints.of("Take another name, or delete it first: ", hints.delete_lake_ref(kind, name), ".")
        raise refusal(errors.AlreadyExists, doing, f"{taken[0].uri} has one of that name", hint)
    heads = files.each(catalog.root, lambda place: find_latest(place, None), places)
    paths = map(v1_directory, names)
    found = {path: (place, head) for path, place, head in zip(paths, places, heads, strict=True) if head is not None}
    # Whoever opens the same catalog with its __manifest may publish.
    seen = moment.versions({path: (place, head.version) for path, (place, head) in found.items()})
    targets = [(place, replace(head, version=seen[path], stamp=None)) for path, (place, head) in found.items()]
    if not targets:
        hint = hints.of("Write a table first. Namespaces and what is in them need __manifest: ", hints.MIGRATE, ".")
        raise refusal(errors.Refused, doing, f"no table in {catalog.uri} has data", hint)
    made: list[DatasetLocation] = []

    def create(each: tuple[DatasetLocation, PinnedVersion]) -> None:
        (create_tag_at if kind == TAG else create_branch_at)(each[0], name, each[1])
        made.append(each[0])

    try:
        files.each(catalog.root, create, targets)
    except errors.LanceSparkError:
        with suppress(errors.LanceSparkError):  # the first error is more useful
            _delete(catalog, kind, name, made, purge=True)
        raise
    return ref_class(kind)(name, "", now.replace(microsecond=0), len(targets), ready=True)


def find_on_tables(catalog: Catalog, kind: str, name: str) -> LakeRef | None:
    found = [ref for ref in _found(catalog, kind, name, _places(catalog)) if ref is not None]
    return _summary(kind, name, found) if found else None


def list_on_tables(catalog: Catalog, kind: str) -> list[LakeRef]:
    """The refs that any table has, by name."""
    by_name: dict[str, list[Branch | Tag]] = {}
    for table in files.each(catalog.root, refs.read_refs, _places(catalog)):
        known = table.tags if kind == TAG else table.branches
        for name, ref in known.items():
            if not (is_service_tag(name, table.tags) if kind == TAG else lake_branch_of(name)):
                by_name.setdefault(name, []).append(ref)
    return [_summary(kind, name, found) for name, found in sorted(by_name.items())]


def delete_on_tables(catalog: Catalog, kind: str, name: str, purge: bool) -> None:
    """Delete the ref of each table that has it. Raises Refused if something needs one."""
    places = _places(catalog)
    found = _found(catalog, kind, name, places)
    _delete(catalog, kind, name, [place for place, ref in zip(places, found, strict=True) if ref is not None], purge)


def _delete(catalog: Catalog, kind: str, name: str, places: list[DatasetLocation], purge: bool) -> None:
    def delete(place: DatasetLocation) -> None:
        if kind == TAG:
            delete_tag(place, name)
        else:
            remove_branch(place, name, purge)

    files.each(catalog.root, delete, places)


def _places(catalog: Catalog, names: Iterable[Identifier] | None = None) -> list[DatasetLocation]:
    return [catalog.at(v1_directory(table)) for table in (list_tables(catalog) if names is None else names)]


def _found(
    catalog: Catalog, kind: str, name: str, places: list[DatasetLocation]
) -> list[Branch | None] | list[Tag | None]:
    if kind == TAG:
        return files.each(catalog.root, lambda place: refs.read_tag(place, name), places)
    return files.each(catalog.root, lambda place: refs.read_branch(place, name), places)


def _summary(kind: str, name: str, found: list[Branch | Tag] | list[Branch] | list[Tag]) -> LakeRef:
    times = [ref.created_at for ref in found if ref.created_at is not None]
    made = max(times, default=datetime.fromtimestamp(0, timezone.utc))
    return ref_class(kind)(name, "", made.replace(microsecond=0), len(found), ready=True)
