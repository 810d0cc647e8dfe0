"""From the options of a read to one pinned version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import TypedRef
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


def _at_ref(target: Target, options: ReadOptions) -> tuple[DatasetLocation, ReadOptions]:
    """The dataset of a path with ``@``, as in SQL. Raises InvalidOption for a ref both there and in the options."""
    settled = settle(target, TypedRef(version=options.ref.version, as_of=options.ref.as_of))
    return settled.location, options if settled.spec is None else replace(options, ref=settled.spec)
