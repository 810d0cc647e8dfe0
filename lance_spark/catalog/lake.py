"""Tags of a whole catalog: creating, finding and deleting them, and which tables they need.

Creating one costs two requests for each table: a listing for its newest version, and a tag that keeps that version
from every cleanup. The rows with the versions go to a branch of ``__manifest``, whose metadata says last that the tag
is complete: a tag whose creation was killed can only be deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar, cast

import pyarrow as pa

from lance_spark import errors, hints
from lance_spark.catalog import manifest_pylance
from lance_spark.catalog.directories import list_root
from lance_spark.catalog.entry_rules import (
    LOCATION,
    METADATA,
    Entry,
    RowFilter,
    Rows,
    changed_rows,
    decode_metadata,
    encode_properties,
    new_rows,
    refusal,
    v1_directory,
)
from lance_spark.catalog.lake_rules import (
    KEY,
    TAGS,
    LakeTag,
    Pin,
    branch_of,
    check_lake_tag,
    check_new_lake_tag,
    decode_tag,
    tag_file,
)
from lance_spark.catalog.lookup import list_tables
from lance_spark.catalog.manifest_pylance import CatalogVersion, newest
from lance_spark.catalog.rules import MANIFEST, TABLE, Catalog, Mode, is_inside
from lance_spark.core import refs as core_refs
from lance_spark.core.layout import VERSIONS, KeyRange, read_manifest_name, sorts_newest_first
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.hints import of
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage import files, refs
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.listing import list_sizes
from lance_spark.storage.resolving import NamedTable
from lance_spark.storage.small_files import write_below

_AT_ONCE = 64
"""How many tables are pinned at once: a store answers each request after tens of milliseconds."""
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def catalog_of(table: NamedTable) -> Catalog:
    """The catalog that contains a table. Raises InvalidOption for an unknown mode, NotFound for an unknown tag."""
    catalog = Catalog(table.root, cast("Mode", table.mode or "compatibility"))
    return catalog if table.tag is None else at_tag(catalog, table.tag)


def at_tag(catalog: Catalog, name: str) -> Catalog:
    """The catalog as it was when a tag was created; read only. Raises NotFound, with near names, InvalidName."""
    check_lake_tag(name)
    whole = replace(catalog, tag=None)
    tag = _read(whole, name) if _exists(whole, name) else None
    if tag is None or not tag.ready:
        known = list_lake_tags(whole)
        if tag is not None or any(each.name == name for each in known):
            raise errors.NotFound(
                f"Tag '{name}' of the lake {catalog.uri} is incomplete: it is being created or deleted, or that was "
                "killed.",
                hint=of("If no job is at it, delete it: ", hints.delete_lake_tag(name), ". Then create it again."),
            )
        raise core_refs.missing("tag of the lake", name, [each.name for each in known])
    return replace(catalog, tag=tag)


def list_lake_tags(catalog: Catalog) -> list[LakeTag]:
    """The tags of a catalog, by name, also incomplete ones. Raises CorruptData for one that cannot be read."""
    catalog = replace(catalog, tag=None)
    names = _names(catalog)
    found = files.each(catalog.manifest, partial(_read, catalog), names)
    return [tag for tag in found if tag is not None]


def create_lake_tag(catalog: Catalog, name: str, now: datetime) -> LakeTag:
    """Pin the newest version of every table of the catalog, under a name.

    A table that other jobs write meanwhile is pinned before or after their commit. A failure leaves nothing behind; a
    crash leaves an incomplete tag, which can be deleted. Raises InvalidName, AlreadyExists, StorageFailure, and Refused
    in V1 and for a catalog without ``__manifest``.
    """
    doing = check_may_create(catalog, name)
    create_branch_at(catalog.manifest, branch_of(name), pin_latest(catalog.manifest, None))
    tag = LakeTag(name, secrets.token_hex(4), now.replace(microsecond=0))
    try:
        return _filled(catalog, tag, now, doing)
    except errors.LanceSparkError:
        with suppress(errors.LanceSparkError):  # the first error is more useful; the tag stays incomplete
            delete_lake_tag(catalog, name)
        raise


def check_may_create(catalog: Catalog, name: str) -> str:
    """What is being done, for errors. Raises as :func:`create_lake_tag`, and changes nothing."""
    check_new_lake_tag(name)
    doing = f"create tag '{name}' of the lake"
    manifest_pylance.check_may_change(catalog.manifest, doing)
    if not catalog.reads_manifest or newest(catalog.manifest) is None:
        hint = of("Migrate it first: ", hints.MIGRATE, ".")
        raise refusal(errors.Refused, doing, f"{catalog.uri} has no __manifest", hint)
    if _exists(catalog, name):
        hint = of("Take another name, or delete it first: ", hints.delete_lake_tag(name), ".")
        raise refusal(errors.AlreadyExists, doing, "there is one of that name", hint)
    return doing


def find_to_delete(catalog: Catalog, name: str) -> LakeTag | None:
    """The tag of that name, complete or not; None if its rows are lost. Raises as :func:`delete_lake_tag`."""
    check_lake_tag(name)
    manifest_pylance.check_may_change(catalog.manifest, f"delete tag '{name}' of the lake")
    if not _exists(catalog, name):
        raise core_refs.missing("tag of the lake", name, [each.removeprefix(TAGS) for each in _names(catalog)])
    return _read(catalog, name)


def delete_lake_tag(catalog: Catalog, name: str) -> None:
    """Delete a tag; versions that only it kept are up to the next cleanup. Safe to repeat after a failure.

    Raises InvalidName, NotFound, and Refused for a catalog that is itself read at a tag.
    """
    tag = find_to_delete(catalog, name)
    if tag is not None and tag.id:
        # First of all it becomes incomplete: a reader must not find it once its versions are no longer kept.
        _note(catalog, replace(tag, ready=False))
        pinned = _directories(_rows(catalog, name, RowFilter(everything=True)))
        if not tag.ready:  # its rows may lack the tables that are only directories
            pinned |= {directory for directory in list_root(catalog.root)[0] if directory != MANIFEST}
        _each(partial(_unpin, catalog, tag), pinned)
    refs.drop_branch(catalog.manifest, branch_of(name))


# --- What tags need


def check_unpinned(
    catalog: Catalog,
    directories: Iterable[str | None],
    doing: str,
    hint: str = "Delete the tag first, or use force.",
) -> None:
    """Raise Refused if a tag pins a version of a table in one of the directories."""
    wanted = tuple(directory for directory in directories if directory is not None)
    for branch in _names(catalog) if wanted else ():
        name = branch.removeprefix(TAGS)
        rows = _rows(catalog, name, RowFilter(locations=wanted))
        pinned = [entry for entry in rows.entries if entry.is_table and entry.pin is not None]
        if pinned:
            raise refusal(
                errors.Refused,
                doing,
                f"tag '{name}' of the lake pins '{pinned[0].identifier}'",
                hint,
            )


def directories_of_tags(catalog: Catalog) -> frozenset[str]:
    """All directories that rows of tags name. Raises if a tag cannot be read: its tables must not look unneeded."""
    whole = replace(catalog, tag=None)
    found: set[str] = set()
    for branch in _names(whole):
        found |= _directories(_rows(whole, branch.removeprefix(TAGS), RowFilter(everything=True)))
    return frozenset(found)


def _directories(rows: Rows) -> frozenset[str]:
    return frozenset(path for path in rows.table[LOCATION].to_pylist() if path)


# --- The branch of ``__manifest``


def _names(catalog: Catalog) -> list[str]:
    """The branches of ``__manifest`` that are tags; none without one."""
    if not catalog.reads_manifest:
        return []
    names = refs.list_ref_names(catalog.manifest, core_refs.BRANCHES)
    return [name for name in names if name.startswith(TAGS)]


def _exists(catalog: Catalog, name: str) -> bool:
    return catalog.reads_manifest and refs.read_branch(catalog.manifest, branch_of(name)) is not None


def _branch(catalog: Catalog, name: str) -> DatasetLocation:
    """Where the rows of a tag are, complete or not."""
    return DatasetLocation(catalog.manifest.branch_uri(branch_of(name)), catalog.manifest.options)


def _newest(catalog: Catalog, name: str) -> CatalogVersion:
    found = newest(_branch(catalog, name))
    if found is None:
        raise errors.CorruptData(
            f"Tag '{name}' of the lake {catalog.uri} has lost its rows.", hint="Delete it, and create it again."
        )
    return found


def _read(catalog: Catalog, name: str) -> LakeTag | None:
    """A tag of the list; None if it vanished. One without a note was killed at the beginning of its creation."""
    name = name.removeprefix(TAGS)
    found = newest(_branch(catalog, name))
    if found is None:
        return None
    with translated(found.manifest, "reading a tag of the lake"):
        noted = found.dataset.metadata.get(KEY)
    if noted is None:
        made = refs.read_branch(catalog.manifest, branch_of(name))
        return None if made is None else LakeTag(name, "", made.created_at)
    return decode_tag(noted, name)


def _rows(catalog: Catalog, name: str, needed: RowFilter) -> Rows:
    return manifest_pylance.read_rows(_branch(catalog, name), needed)


def _note(catalog: Catalog, tag: LakeTag) -> None:
    snapshot = _newest(catalog, tag.name)
    with translated(snapshot.manifest, "noting the state of a tag of the lake"):
        snapshot.dataset.update_metadata({KEY: tag.encode()})


# --- Filling a new tag


def _filled(catalog: Catalog, tag: LakeTag, now: datetime, doing: str) -> LakeTag:
    """The id is noted first: with it, a deletion finds the pins that a killed creation left."""
    _note(catalog, tag)
    rows = _with_directories(catalog, _rows(catalog, tag.name, RowFilter(everything=True)))
    paths = sorted({entry.location for entry in rows.entries if entry.is_table and entry.location})
    versions = _each(partial(_pinned, catalog, tag, now), [path for path in paths if is_inside(path)])
    pins = {path: Pin(version) for path, version in versions.items() if version is not None}
    manifest_pylance.replace_rows(_newest(catalog, tag.name), _with_pins(rows, pins), doing)
    done = tag.finished(len(pins))
    _note(catalog, done)
    return done


def _with_directories(catalog: Catalog, rows: Rows) -> Rows:
    """The rows, and one for each table that is only a directory: what is one later must not count as one then."""
    if not catalog.reads_directories:
        return rows
    known = {entry.object_id for entry in rows.entries}
    others = [table for table in list_tables(catalog) if table.object_id not in known]
    entries = [Entry(table.object_id, TABLE, v1_directory(table)) for table in others]
    return Rows(pa.concat_tables([rows.table, new_rows(rows.table.schema, entries)])) if entries else rows


def _with_pins(rows: Rows, pins: Mapping[str, Pin]) -> pa.Table:
    values = []
    for entry in rows.entries:
        pin = pins.get(entry.location or "") if entry.is_table else None
        metadata = entry.metadata
        if pin is not None:
            metadata = encode_properties({**decode_metadata(metadata, entry.object_id), KEY: pin.encode()})
        values.append(metadata)
    return changed_rows(rows.table, METADATA, values)


def _pinned(catalog: Catalog, tag: LakeTag, now: datetime, path: str) -> int | None:
    """Keep the newest version of a table; returns it, None for a table without data.

    No cleanup removes the newest version. One that became older a moment ago is kept by ours for the time of a commit
    (a day by default), and by pylance's for two weeks.
    """
    location = catalog.at(path)
    found = newest_manifest(location)
    if found is None:
        return None
    version, size = found
    write_below(
        location, core_refs.ref_file(core_refs.TAGS, tag.pin_tag), tag_file(PinnedVersion(None, version), size, now)
    )
    return version


def _unpin(catalog: Catalog, tag: LakeTag, path: str) -> None:
    if is_inside(path):
        files.delete(catalog.at(path), [core_refs.ref_file(core_refs.TAGS, tag.pin_tag)])


def newest_manifest(location: DatasetLocation) -> tuple[int, int] | None:
    """The newest version of main and the bytes of its manifest; None without data. One request on S3."""
    newest_one: tuple[int, int] | None = None
    for path, size in list_sizes(location, KeyRange.below(VERSIONS)):
        name = read_manifest_name(path.rpartition("/")[2])
        if name is None or name.detached:
            continue
        newest_one = max(newest_one or (0, 0), (name.version, size))
        if location.uri.startswith("s3://") and sorts_newest_first(path.rpartition("/")[2]):
            break
    return newest_one


def _each(do: Callable[[_Item], _Answer], items: Collection[_Item]) -> dict[_Item, _Answer]:
    """What ``do`` returns for each item, many at once."""
    given = list(items)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(given, pool.map(do, given), strict=True))
