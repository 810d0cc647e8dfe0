"""Moves a table's directory: it is copied whole, the row goes over to the copy at once, then the old one goes."""

from __future__ import annotations

import secrets
from functools import partial

from lance_spark import hints
from lance_spark.actions.catalog.deregistration_marks import Hidden, hide, shown_again_on_failure
from lance_spark.actions.catalog.dropping import check_unused, erase_table
from lance_spark.actions.catalog.lookup import FoundTable, look_again
from lance_spark.catalog.changes import CatalogChange, Edit, refusal
from lance_spark.catalog.directory import INCOMPLETE, MARKERS, RESERVED, VERSIONS, hashed_directory, v1_directory
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.names import Identifier
from lance_spark.catalog.tables import AddTable, RenameTable
from lance_spark.errors import Conflict, LanceSparkError, NotFound, Refused, StorageFailure
from lance_spark.location import DatasetLocation, is_within
from lance_spark.refs.parse import BRANCHES
from lance_spark.store import files, refs, version_reader
from lance_spark.store.catalog import manifest, markers
from lance_spark.store.catalog.erasing import Stamps, copy_new_files, list_directory
from lance_spark.store.datasets import find_latest

_PASSES = 20
"""How often what others wrote in the meantime is copied, before it is given up."""


def move(catalog: Catalog, table: FoundTable, new: Identifier, doing: str) -> str | None:
    """Give a table in the root another name, and a directory ``<hash>_<id>`` (specification "Compatibility Mode", 4).

    A crash leaves the old table, or the new one, and a directory that the job for orphans collects. Returns the old
    directory if it was kept, because a job committed to it while the row went over; else None.
    """
    source, target = v1_directory(table.identifier), hashed_directory(new, secrets.randbits(32))
    check_movable(catalog, source, doing)
    token = markers.content_of(catalog.at(source), RESERVED)
    markers.put_new(catalog.at(target), INCOMPLETE, b"")
    try:
        known = _copied(catalog, source, target, {})
        hidden = hide(catalog, source, "rename", target)
        with shown_again_on_failure(hidden, table.entry is not None):
            table = look_again(catalog, table, doing)
        with shown_again_on_failure(hidden, table.entry is not None):
            _check_mine(table, hidden, doing)
            known = _copied(catalog, source, target, known)
            if token is not None:  # a table that has only been declared stays one
                markers.put_new(catalog.at(target), RESERVED, token)
            check = partial(_check_copy, hidden, known, token, doing)
            edit = manifest.apply(catalog.manifest, change_of_move(table, new, target), check)
    except StorageFailure:
        raise  # the row may have gone over
    except LanceSparkError:
        erase_table(catalog, target)
        raise
    markers.remove(catalog.at(target), INCOMPLETE)
    return _leave(catalog, hidden, known, edit)


def change_of_move(table: FoundTable, new: Identifier, target: str) -> CatalogChange:
    """The row goes over to the copy; a table that was a directory only gets one."""
    if table.entry is None:
        return AddTable(new, target, {}, "rename to", unique=True)
    return RenameTable(table.identifier, new, table.path or "", target)


def _copied(catalog: Catalog, source: str, target: str, known: Stamps) -> Stamps:
    """Copy until nothing new has come; returns all files."""
    for _ in range(_PASSES):
        try:
            files = copy_new_files(catalog.root, source, target, frozenset(known))
        except NotFound:  # a writer's temporary file; or the table is being dropped, which the commit will tell
            continue
        if any(_is_version(path) and files.get(path, stamp) != stamp for path, stamp in known.items()):
            raise Conflict(f"'{source}' was dropped and created again while it was copied.", hint="Run it again.")
        if files.keys() - MARKERS <= known.keys():
            return files
        known = files
    raise Conflict(f"'{source}' is written to, or deleted, while it is copied.", hint="Run it again later.")


def _is_version(path: str) -> bool:
    return path.startswith(f"{VERSIONS}/") and path.endswith(".manifest")


def _check_copy(hidden: Hidden, known: Stamps, token: bytes | None, doing: str) -> None:
    """Raise Conflict unless what was copied is the table that is there.

    Asked after the rows were read and before they are changed: a table that is dropped, withdrawn or created again
    has lost its row by then, or its mark. Without that an empty copy was given a row.
    """
    hidden.check(doing)
    if markers.content_of(hidden.location, RESERVED) != token:
        raise refusal(Conflict, doing, "another process withdrew it, or created it again", hint="Run it again.")
    if token is None and not known.keys() - MARKERS:
        raise refusal(NotFound, doing, f"there is no file in its directory '{hidden.directory}'")


def _check_mine(table: FoundTable, hidden: Hidden, doing: str) -> None:
    if table.entry is None and (not hidden.mine or hidden.is_alone()):
        raise refusal(NotFound, doing, "another process dropped or renamed it in the meantime")


def _leave(catalog: Catalog, hidden: Hidden, known: Stamps, edit: Edit) -> str | None:
    source = hidden.directory
    if source in edit.shared:
        return source
    if not hidden.mine:  # the process that made the mark may have removed it during the commit
        hide(catalog, source, "rename", hidden.mark.to)
    late = {path for path, _, _ in list_directory(catalog.at(source))} - known.keys() - MARKERS
    if any(path.startswith(f"{VERSIONS}/") for path in late):
        hidden.keep()
        return source
    erase_table(catalog, source)
    return None


def check_movable(catalog: Catalog, source: str, doing: str) -> None:
    """Raise Refused if anything names the files by where they are now: branches, clones, base paths."""
    location = catalog.at(source)
    check_unused(catalog, [source], doing)
    branches = refs.list_ref_names(location, BRANCHES)
    if branches or files.list_names(location, "tree") or _names_itself(location):
        raise refusal(
            Refused,
            doing,
            "its branches name its files by where they are now, and a table in the root moves when it is renamed",
            hint=hints.of(
                "Deregister it, move the directory while no job writes, then ",
                hints.RELOCATE,
                ", and register it; or open the catalog in V2 mode, where only the name changes.",
            ),
        )


def _names_itself(location: DatasetLocation) -> bool:
    pin = find_latest(location, None)
    if pin is None:
        return False
    bases = version_reader.read_contents(location, pin).head.bases.values()
    return any(is_within(base.path.removeprefix("file://"), location.uri) for base in bases)
