"""Dropping a table: its name is free in one commit, then its files go."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lance_spark.actions.catalog.deregistration_marks import hide, shown_again_on_failure
from lance_spark.actions.catalog.lookup import Found, find_table, look_again
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import hashed_directory, hashed_id, v1_name
from lance_spark.catalog.model import Catalog, Removed, is_inside
from lance_spark.catalog.names import Name, from_object_id, identify_table
from lance_spark.catalog.tables import RemoveTable
from lance_spark.errors import LanceSparkError, NotFound, Refused
from lance_spark.store.catalog import manifest
from lance_spark.store.catalog.erasing import erase
from lance_spark.store.parallel import THREADS
from lance_spark.store.survey import recorded_clones


def drop_table(catalog: Catalog, name: Name, force: bool = False) -> Removed:
    """Drop a table and its files; in V1, and of what is a directory only, also one that is deregistered.

    Of several that drop it at once, one does, and the others get NotFound. Files that another row names stay. Raises
    Refused if clones read its files, unless ``force``.
    """
    identifier = identify_table(name)
    doing = f"drop table '{identifier}'"
    found = find_table(catalog, identifier, doing, deregistered=True)
    if not force:
        check_unused(catalog, [found.path], doing)
    if found.path is not None and shows_in_v1(catalog, found.path):
        return _drop_directory(catalog, found, found.path, doing)
    edit = manifest.apply(catalog.manifest, RemoveTable(identifier, found.path))
    kept = found.path in edit.shared or not is_inside(found.path)
    if found.path is not None and not kept:
        erase_table(catalog, found.path)
    return Removed(identifier, found.path, found.properties, kept)


def shows_in_v1(catalog: Catalog, directory: str) -> bool:
    """Whether a directory is a table by its name once no row names it, unless it is marked."""
    return catalog.reads_directories and "/" not in directory and v1_name(directory) is not None


def _drop_directory(catalog: Catalog, found: Found, directory: str, doing: str) -> Removed:
    """First it is marked as deregistered: V1 does not see it any more, and nobody takes its directory for free."""
    hidden = hide(catalog, directory, "drop")
    if not hidden.mine and was_deregistered(found):  # an old mark tells nobody that it is being dropped
        hidden = hidden.taken_over()
    with shown_again_on_failure(hidden, found.entry is not None):
        found = look_again(catalog, found, doing)
    if found.entry is not None:
        with shown_again_on_failure(hidden, had_row=True):
            edit = manifest.apply(catalog.manifest, RemoveTable(found.identifier, found.path))
        if directory in edit.shared:
            hidden.take_back()
            return Removed(found.identifier, directory, found.properties, data_kept=True)
    elif hidden.is_alone():
        hidden.discard()  # a table that was declared, deregistered, and then withdrawn
        raise _too_late(doing)
    elif not hidden.mine:
        raise _too_late(doing)
    if not erase_table(catalog, directory) and found.entry is None:
        raise _too_late(doing)
    return Removed(found.identifier, directory, found.properties, data_kept=False)


def _too_late(doing: str) -> LanceSparkError:
    return refusal(NotFound, doing, "somebody else dropped or deregistered it in this moment")


def was_deregistered(found: Found) -> bool:
    """Whether a directory had the mark when it was looked at."""
    return found.state is not None and found.state.deregistered


def erase_table(catalog: Catalog, directory: str) -> bool:
    """Delete the files of a table that nothing names any more; False if somebody else was faster."""
    parent, slash, name = directory.rpartition("/")
    aside = directory
    if hashed_id(name) is None:
        aside = parent + slash + hashed_directory(from_object_id(name), secrets.randbits(32))
    return erase(catalog.root, catalog.at(directory), directory, aside)


def check_unused(catalog: Catalog, directories: Iterable[str | None], doing: str) -> None:
    """Raise Refused if a clone reads the files of one of the tables."""
    locations = [catalog.at(directory) for directory in directories if directory is not None and is_inside(directory)]
    with ThreadPoolExecutor(THREADS) as pool:
        for location, clones in zip(locations, pool.map(recorded_clones, locations), strict=True):
            if clones:
                raise refusal(
                    Refused,
                    doing,
                    f"{location.uri} is read by the clone {min(clones.values())}",
                    hint="Drop the clone first, or say force.",
                )
