"""From the options of a read to one pinned version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import folded
from lance_spark.core.ref_expressions import TypedRef
from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import ReadOptions, parse_read_options
from lance_spark.scan.read import PinnedRead
from lance_spark.storage.resolving import Target, resolve, settle, take_target


def pin_read(options: Mapping[str, str]) -> PinnedRead:
    """Parse the options and resolve the ref, once.

    Raises InvalidOption for bad options and NotFound for a missing table, dataset, branch, tag or version.
    """
    target = take_target(options, "load")
    parsed, place = parse_read_options(target.options), target.place
    if isinstance(place, DatasetLocation):
        if target.typed:
            place, parsed = _at_ref(target, parsed)
        return PinnedRead(place, resolve(place, parsed.ref), parsed)
    from lance_spark.catalog.lake import catalog_of  # imported late: a read by path does not wait for catalogs
    from lance_spark.catalog.lookup import open_table

    return PinnedRead(*open_table(catalog_of(place), place.name, parsed.ref), parsed)


def is_newest(options: Mapping[str, str], ref: RefSpec) -> bool:
    """Whether a read with these options and this ref means the newest version of a branch, not one for itself."""
    given = {folded(key) for key in options}
    return ref.is_branch and given.isdisjoint({"catalogtag", "catalogpublished"})


def followed(options: Mapping[str, str], read: PinnedRead) -> PinnedRead:
    """What a stream follows: on a branch of the lake the table's own branch, which exists from now on, never main.

    ``options`` are those of :func:`pin_read`. Raises Refused at a tag of the lake, and NotFound.
    """
    place = take_target(options, "load").place
    if isinstance(place, DatasetLocation) or place.ref is None:
        return read
    from lance_spark.catalog.lake import begin_table_branch, catalog_of
    from lance_spark.catalog.lookup import find_open_table
    from lance_spark.catalog.manifest_commits import check_may_change

    catalog = catalog_of(place)
    check_may_change(catalog.manifest, f"follow table '{place.name}'")
    location, spec = find_open_table(catalog, place.name, read.options.ref)
    if spec.begins is None:
        return read
    return replace(read, pin=resolve(location, RefSpec(branch=begin_table_branch(location, spec.begins))))


def _at_ref(target: Target, options: ReadOptions) -> tuple[DatasetLocation, ReadOptions]:
    """The dataset of a path with ``@``, as in SQL. Raises InvalidOption for a ref both there and in the options."""
    settled = settle(target, TypedRef(version=options.ref.version, as_of=options.ref.as_of))
    return settled.location, options if settled.spec is None else replace(options, ref=settled.spec)
