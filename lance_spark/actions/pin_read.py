"""From the options of a read to one pinned version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lance_spark.actions.read import PinnedRead
from lance_spark.actions.resolve import resolve
from lance_spark.actions.target import Target, take_target
from lance_spark.location import DatasetLocation
from lance_spark.options.read import ReadOptions, parse_read_options


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
    from lance_spark.actions.catalog.opening import catalog_of  # a read by a path does not wait for catalogs
    from lance_spark.actions.catalog.reading import open_table

    return PinnedRead(*open_table(catalog_of(place), place.name, parsed.ref), parsed)


def _at_ref(target: Target, options: ReadOptions) -> tuple[DatasetLocation, ReadOptions]:
    """The dataset of a path with ``@``, as SQL reads it. Raises InvalidOption for a ref there and in the options."""
    from lance_spark.actions.path_refs import settle
    from lance_spark.refs.typed import TypedRef

    settled = settle(target, TypedRef(version=options.ref.version, as_of=options.ref.as_of))
    return settled.location, options if settled.spec is None else replace(options, ref=settled.spec)
