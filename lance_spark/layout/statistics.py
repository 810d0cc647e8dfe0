"""Files of statistics beside a dataset: found for a version, and kept for its files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import LanceSparkError
from lance_spark.format.manifest import column_places
from lance_spark.layout.facts import FactFiles
from lance_spark.layout.measuring import Read
from lance_spark.layout.statistic_rules import (
    ColumnEstimate,
    Group,
    KnownGroups,
    Places,
    Sketched,
    countable,
    decoded_groups,
    encoded_groups,
    estimate_of,
    group_json,
    joined,
    joined_sketches,
    sketch_of,
)
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

_STATISTICS = FactFiles(".statistics", decoded_groups)
_MOST_FILES = 32
"""Files beyond which the next one joins them."""


class VersionStatistics(NamedTuple):
    """What is known of columns of a version."""

    columns: Mapping[str, ColumnEstimate]
    missing: frozenset[int]
    """Ids of the fragments that a measurement of these columns has to read."""
    without: Mapping[str, frozenset[int]]
    """The same by column, for one that tells distributions, too."""


def known_columns(location: DatasetLocation, pin: PinnedVersion, rows: Mapping[int, int]) -> tuple[str, ...]:
    """The columns of which something is known, in the order of the schema. ``rows`` are those of each fragment."""
    names = countable(open_pinned(location, pin).schema)
    return tuple(version_statistics(location, pin, names, rows).columns)


def version_statistics(
    location: DatasetLocation, pin: PinnedVersion, columns: Sequence[str], rows: Mapping[int, int]
) -> VersionStatistics:
    """What is known of a version's columns, by name; nothing, if files of statistics cannot be read.

    ``rows`` are the live rows of each fragment, by its id.
    """
    read = _read(location) if columns else {}
    if not columns:
        return VersionStatistics({}, frozenset(), {})
    if not read:
        return VersionStatistics({}, frozenset(rows), dict.fromkeys(columns, frozenset(rows)))
    place = location, pin, frozenset(read)
    with _lock:
        kept = dict(_kept.get(place, {}))
    new = [name for name in columns if name not in kept]
    if new:
        groups = _groups(read)
        known = KnownGroups(groups)
        for name, places in _places(location, pin, new, rows).items():
            measured = known.measured([each for _, each in places])
            place_of = {each.file: each.place for _, each in places}
            chosen = [(_column(groups[number], place_of), count) for number, count in measured.groups.items()]
            missing, without = (
                frozenset(places[at][0] for at in found) for found in (measured.missing, measured.without)
            )
            kept[name] = _Kept(estimate_of(chosen, sum(rows.values())), missing, without)
    if new and pin.stamp is not None:
        with _lock:
            _kept[place] = _kept.pop(place, {}) | kept
            while len(_kept) > _MOST:
                _kept.pop(next(iter(_kept)))
    found = {name: kept[name] for name in columns if name in kept}
    estimates = {name: each.estimate for name, each in found.items() if each.estimate is not None}
    missing = frozenset[int]().union(*(each.missing for each in found.values()))
    return VersionStatistics(estimates, missing, {name: each.without for name, each in found.items()})


class _Kept(NamedTuple):
    estimate: ColumnEstimate | None
    missing: frozenset[int]
    without: frozenset[int]


_MOST = 32
_kept: dict[tuple[DatasetLocation, PinnedVersion, frozenset[str]], dict[str, _Kept]] = {}
"""By version and files of statistics, what they tell of each column: every plan of a query asks for some."""
_lock = threading.Lock()


def has_statistics(location: DatasetLocation) -> bool:
    """Whether somebody has measured columns of any version."""
    return bool(_read(location))


def _read(location: DatasetLocation) -> Mapping[str, tuple[Group, ...]]:
    with suppress(LanceSparkError):
        return _STATISTICS.read(location)
    return {}


def _groups(read: Mapping[str, tuple[Group, ...]]) -> list[Group]:
    return [group for found in read.values() for group in found]


def _column(group: Group, place_of: Mapping[str | None, int]) -> Sketched:
    return next(group.columns[place_of[file]] for file in group.files if place_of.get(file) in group.columns)


def _places(
    location: DatasetLocation, pin: PinnedVersion, columns: Sequence[str], rows: Mapping[int, int]
) -> dict[str, list[tuple[int, Places]]]:
    """By column, for each fragment its id, its rows and where it has the column."""
    dataset = open_pinned(location, pin)
    with translated(location, "reading fragments"):
        ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}
        message = dataset._ds.serialized_manifest()
    wanted = {ids[name]: name for name in columns if name in ids}
    found: dict[str, list[tuple[int, Places]]] = {name: [] for name in wanted.values()}
    for fragment, places in column_places(message, wanted.keys()):
        for field, name in wanted.items():
            file, place = places.get(field, (None, -1))
            found[name].append((fragment, Places(rows.get(fragment, 0), file, place)))
    return found


def keep_statistics(location: DatasetLocation, groups: Sequence[Group]) -> None:
    """Write what was measured. Raises StorageFailure and others."""
    found = _STATISTICS.read(location)
    if len(found) < _MOST_FILES:
        _STATISTICS.write(location, encoded_groups(groups))
        return
    before = _groups(found)
    _STATISTICS.write(location, encoded_groups(joined([*before, *groups])))
    _STATISTICS.delete(location, found)  # only now that another file has what they say


_AT_ONCE = 8
"""Sketches of a column in memory before they are joined."""


def sketches_of(
    names: Sequence[str], histograms: frozenset[str], fragments: Read, ids: Mapping[str, int]
) -> Iterator[Any]:
    """Groups of the files of fragments, for :mod:`lance_spark.layout.measuring`; with distributions of some columns."""
    groups: list[Group] = []
    for entry, batches in fragments:
        found: dict[str, list[Sketched]] = {}
        for batch in batches:
            for name in names:
                held = found.setdefault(name, [])
                held.append(sketch_of(batch.column(name), name in histograms))
                if len(held) == _AT_ONCE:
                    held[:] = [joined_sketches(held)]
        known = {name: joined_sketches(held) for name, held in found.items()}
        groups.extend(_groups_of(entry, known, ids))
        if len(groups) >= _AT_ONCE:
            groups = joined(groups)
    return map(group_json, joined(groups))


def _groups_of(entry: Mapping[str, Any], found: Mapping[str, Sketched], ids: Mapping[str, int]) -> Iterator[Group]:
    """One group for each file of a fragment, pylance's JSON, that has some of the columns."""
    for file in entry["files"]:
        places = dict(zip(file["fields"], file["column_indices"], strict=False))
        names = {places[ids[name]]: name for name in found if places.get(ids[name], -1) >= 0}
        if names:
            yield Group((file["path"],), {place: found[name] for place, name in names.items()}, names)


def groups_of(
    entries: Sequence[Mapping[str, Any]], known: Mapping[str, Sketched], ids: Mapping[str, int]
) -> list[Group]:
    """Groups of new fragments, pylance's JSON, which together hold rows of which this is known."""
    found: dict[tuple[tuple[int, str, bool], ...], Group] = {}
    for each in (group for entry in entries for group in _groups_of(entry, known, ids)):
        before = found.get(each.shape)
        found[each.shape] = each if before is None else replace(before, files=(*before.files, *each.files))
    return list(found.values())


def sources_of(
    location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int], rows: Mapping[int, int]
) -> dict[str, Sketched]:
    """What is known of the columns of some fragments, all of whose files have statistics."""
    groups = _groups(_read(location))
    if not groups:
        return {}
    names = countable(open_pinned(location, pin).schema)
    known, found = KnownGroups(groups), {}
    some = {key: rows.get(key, 0) for key in fragments}
    for name, places in _places(location, pin, names, rows).items():
        here = [place for key, place in places if key in some]
        measured = known.measured(here)
        place_of = {place.file: place.place for place in here}
        if here and sum(measured.groups.values()) == sum(some.values()) and measured.groups:
            parts = [_column(groups[number], place_of) for number in measured.groups]
            found[name] = joined_sketches(parts)
    return found
