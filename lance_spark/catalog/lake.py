"""Branches and tags of a whole catalog: creating, finding and deleting them, and which tables they need.

Creating one costs two requests for each table: a listing for its newest version, and a tag that keeps that version
from every cleanup. The rows with the versions go to a branch of ``__manifest``, whose metadata says last that the ref
is complete: one whose creation was killed can only be deleted. On a branch of the lake, the first change of a table
creates a branch of the table, and then notes it in the table's row.
"""

from __future__ import annotations

import difflib
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import cast

import pyarrow as pa

from lance_spark import errors, hints
from lance_spark.catalog import lake_v1, manifest_commits
from lance_spark.catalog.directories import list_root
from lance_spark.catalog.entry_rules import (
    LOCATION,
    METADATA,
    Edit,
    Entry,
    RowFilter,
    Rows,
    changed_rows,
    check_same,
    find_table,
    new_rows,
    refusal,
    v1_directory,
)
from lance_spark.catalog.lake_rules import (
    BRANCH,
    KEY,
    PUBLISHED,
    TAG,
    LakeRef,
    Pin,
    branch_of,
    check_new_ref,
    check_ref,
    decode_ref,
    is_audit_name,
    name_of,
    ref_class,
)
from lance_spark.catalog.lookup import check_same_table, list_tables
from lance_spark.catalog.manifest_commits import CatalogVersion, newest
from lance_spark.catalog.marks import hide
from lance_spark.catalog.name_rules import (
    MANIFEST,
    TABLE,
    Catalog,
    Identifier,
    Mode,
    Name,
    check_inside,
    is_inside,
    split_name,
)
from lance_spark.catalog.published import Moment, at_published
from lance_spark.core import ref_names
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import DEFAULT_UNDO_WINDOW, RefChange, kept_branches
from lance_spark.core.ref_files import BRANCHES, TAGS, ref_file, tag_file
from lance_spark.core.refs import Beginning, Branch, PinnedVersion
from lance_spark.refs.refs import check_may_remove, create_branch_at, keep_aside, remove_branch
from lance_spark.storage import files, refs
from lance_spark.storage.datasets import find_latest, locate_typed, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.resolving import NamedTable
from lance_spark.storage.small_files import write_below
from lance_spark.storage.spelling import same_on_disk
from lance_spark.storage.versions import newest_manifest

_LOOKS, _PAUSE = 50, 0.1
"""How often to look for a branch that another process is creating, and seconds between: its requests take so long."""
_AT_ONCE = 64
"""How many tables are pinned at once: a store answers each request after tens of milliseconds."""


def catalog_of(table: NamedTable) -> Catalog:
    """The catalog that contains a table. Raises InvalidOption for an unknown mode, NotFound for an unknown ref."""
    catalog = Catalog(table.root, cast("Mode", table.mode or "compatibility"))
    return catalog if table.ref is None else at_ref(catalog, *table.ref)


def at_ref(catalog: Catalog, kind: str, name: str) -> Catalog:
    """The catalog on a branch, as it was when a tag was created, or as of its last complete publish.

    Raises NotFound, with near names, InvalidName.
    """
    if kind == PUBLISHED:
        return at_published(catalog)
    check_ref(kind, name)
    whole = replace(catalog, ref=None)
    ref = _find(whole, kind, name)
    if ref is None:
        raise _missing(whole, kind, name)
    if not ref.ready:
        raise errors.NotFound(
            f"{kind.capitalize()} '{name}' of the lake {catalog.uri} is incomplete: it is being created or deleted, or "
            "that was killed.",
            hint=_way_out(ref),
        )
    return replace(catalog, ref=ref)


def _way_out(ref: LakeRef) -> hints.Hint:
    delete, restore = hints.delete_lake_ref(ref.kind, ref.name), hints.restore_lake_ref(ref.kind, ref.name)
    if ref.base:
        return hints.of("If no job is at it, delete it again: ", delete, ". To have it back: ", restore, ".")
    return hints.of("If no job is at it, delete it: ", delete, ". Then create it again.")


def _find(catalog: Catalog, kind: str, name: str) -> LakeRef | None:
    if not catalog.reads_manifest:
        return lake_v1.find_on_tables(catalog, kind, name)
    made = refs.read_branch(catalog.manifest, branch_of(kind, name))
    return None if made is None else read_ref(catalog, kind, name, made)


def _missing(catalog: Catalog, kind: str, name: str) -> errors.NotFound:
    other = BRANCH if kind == TAG else TAG
    if name in _names(catalog, other):
        return errors.NotFound(f"There is no {kind} of the lake '{name}'.", hint=f"It is a {other} of the lake.")
    return ref_names.missing(kind, name, _names(catalog, kind), "lake")


def list_refs(catalog: Catalog, kind: str, temporary: bool = False) -> list[LakeRef]:
    """The branches or tags of a catalog, by name, also incomplete ones; or the temporary ones of audits.

    Raises CorruptData for one that cannot be read.
    """
    catalog = replace(catalog, ref=None)
    if not catalog.reads_manifest:
        return [] if temporary else lake_v1.list_on_tables(catalog, kind)
    names = [name for name in _names(catalog, kind) if is_audit_name(name) == temporary]
    found = files.each(catalog.manifest, partial(read_ref, catalog, kind), names)
    return [ref for ref in found if ref is not None]


def create_ref(
    catalog: Catalog, kind: str, name: str, now: datetime, tables: Collection[Name] | None = None
) -> LakeRef:
    """Pin the newest version of every table of the catalog, or of those in ``tables``, which names namespaces too.

    A table that other jobs write meanwhile is pinned before or after their commit; of publishes it is the last complete
    one, in all tables. A failure leaves nothing behind; a crash leaves an incomplete ref, which can be deleted. In V1
    it is a ref of that name on each table. Raises InvalidName, AlreadyExists, StorageFailure, NotFound for an unknown
    table, Refused for a catalog of another mode without ``__manifest``, and Conflict if too much changed meanwhile.
    """
    moment = Moment.of(catalog, check_may_create(catalog, kind, name))
    if not catalog.reads_manifest:
        return lake_v1.create_on_tables(catalog, kind, name, now, tables, moment)
    newest_rows = pin_latest(catalog.manifest, None).version
    rows = PinnedVersion(None, moment.version(MANIFEST, catalog.manifest, newest_rows))
    _begin(catalog.manifest, branch_of(kind, name), rows)
    ref = ref_class(kind)(name, secrets.token_hex(4), now.replace(microsecond=0))
    try:
        return _filled(catalog, ref, tables, moment)
    except errors.LanceSparkError:
        with suppress(errors.LanceSparkError):  # the first error is more useful; the ref stays incomplete
            delete_ref(catalog, kind, name)
        raise


def _begin(manifest: DatasetLocation, branch: str, rows: PinnedVersion) -> None:
    """Create the branch of ``__manifest``, over the remains of one whose deletion was killed."""
    try:
        create_branch_at(manifest, branch, rows)
    except errors.AlreadyExists:
        if not refs.clear_deleted(manifest, branch):
            raise
        create_branch_at(manifest, branch, rows)


def check_may_create(catalog: Catalog, kind: str, name: str) -> str:
    """What is being done, for errors. Raises as :func:`create_ref`, and changes nothing."""
    check_new_ref(kind, name)
    doing = f"create {kind} '{name}' of the lake"
    check_whole(catalog, doing)
    if not catalog.reads_manifest:
        return doing
    if newest(catalog.manifest) is None:
        hint = hints.of("Migrate it first: ", hints.MIGRATE, ".")
        raise refusal(errors.Refused, doing, f"{catalog.uri} has no __manifest", hint)
    if _exists(catalog, kind, name):
        hint = hints.of("Take another name, or delete it first: ", hints.delete_lake_ref(kind, name), ".")
        raise refusal(errors.AlreadyExists, doing, "there is one of that name", hint)
    there = refs.taken_in_other_case(catalog.manifest, branch_of(kind, name))
    if there is not None:
        raise same_on_disk(kind, name, name_of(kind, there) or there)
    return doing


def check_whole(catalog: Catalog, doing: str) -> None:
    """Raise Refused on a branch or at a tag of the lake, for what concerns the catalog as a whole."""
    manifest_commits.check_may_change(catalog.manifest, doing)
    if catalog.ref is not None:
        raise refusal(
            errors.Refused,
            doing,
            f"the catalog is read at {catalog.ref.called}",
            hint="Use the catalog without a branch.",
        )


def find_to_delete(catalog: Catalog, kind: str, name: str) -> LakeRef | None:
    """The ref of that name, complete or not; None if its rows are lost. Raises as :func:`delete_ref`."""
    check_ref(kind, name)
    doing = f"delete {kind} '{name}' of the lake"
    check_whole(catalog, doing)
    if not catalog.reads_manifest:
        found = lake_v1.find_on_tables(catalog, kind, name)
        if found is None:
            raise _missing(catalog, kind, name)
        return found
    names = _names(catalog, kind)
    if name not in names:
        raise _missing(catalog, kind, name)
    nested = [other for other in names if other.startswith(f"{name}/")]
    if nested:
        raise refusal(
            errors.Refused,
            doing,
            f"its directory also holds that of '{nested[0]}'",
            hint=hints.of("Delete that first: ", hints.delete_lake_ref(kind, nested[0]), "."),
        )
    return read_ref(catalog, kind, name)


def delete_ref(catalog: Catalog, kind: str, name: str, purge: bool = False) -> None:
    """Delete a branch or tag; versions that only it kept are up to the next cleanup. Safe to repeat after a failure.

    Its rows and the branches of tables that have its changes are kept for a while, so that it can be restored; with
    ``purge`` they are deleted at once. Tables that only it has are collected as orphans after that time. Raises
    InvalidName, NotFound, and Refused for a catalog that is itself read at a ref, and for a protected branch.
    """
    ref = find_to_delete(catalog, kind, name)
    if not catalog.reads_manifest:
        lake_v1.delete_on_tables(catalog, kind, name, purge)
        return
    base = 0
    if ref is not None and ref.id:
        entries = _ever_known(catalog, ref)
        changed = {entry.location or "" for entry in entries if entry.pin and entry.pin.branch}
        _check_may_go(catalog, ref, changed)
        base = ref.base or (_base_to_note(catalog, ref) if ref.ready and not ref.temporary else 0)
        # First of all it becomes incomplete: a reader must not find it once its versions are no longer kept.
        _note(catalog, replace(ref, ready=False, base=base))
        pinned = set(changed)
        if not (ref.temporary and ref.ready):  # then it pins nothing: an audit is short
            pinned |= {entry.location for entry in entries if entry.location} | _directories_in_root(catalog, ref)
        unpin = partial(_unpin, catalog, ref, purge, changed)
        files.each(catalog.root, unpin, sorted(pinned), _AT_ONCE)
        _leave_new_tables(catalog, ref, entries)
        files.delete(catalog.manifest, [ref_file(TAGS, ref.pin_tag)])
    if purge or not base:
        refs.drop_branch(catalog.manifest, branch_of(kind, name))
    else:
        keep_aside(catalog.manifest, branch_of(kind, name))


def _base_to_note(catalog: Catalog, ref: LakeRef) -> int:
    """What a restore needs once the tag that says it is gone."""
    if ref.kind == TAG:
        return pin_latest(catalog.manifest, ref.branch).version
    return base_of(catalog, ref).version


def _ever_known(catalog: Catalog, ref: LakeRef) -> list[Entry]:
    """Rows of all tables in which a ref may have left something; also of those that were dropped on the branch."""
    rows = list(_rows(catalog, ref, RowFilter(everything=True)).entries)
    if ref.kind == BRANCH and not ref.temporary:
        with suppress(errors.CorruptData, errors.NotFound):  # killed before it had rows of its own
            rows += manifest_commits.rows_at(_at(catalog, ref.kind, ref.name), base_of(catalog, ref).version).entries
    return [row for row in rows if row.is_table]


def _directories_in_root(catalog: Catalog, ref: LakeRef) -> set[str]:
    """Directories that rows of a ref may not name, but that may have pins or branches of it.

    An incomplete ref may lack the rows of tables that are only directories. A table may have been dropped on a branch
    after its last merge, and created after the one before.
    """
    if ref.kind == TAG and ref.ready:
        return set()
    return {directory for directory in list_root(catalog.root)[0] if directory != MANIFEST}


def _leave_new_tables(catalog: Catalog, ref: LakeRef, entries: Iterable[Entry]) -> None:
    """Tables that only a deleted branch has are left to the job for orphans, which spares what a row names by then."""
    new = {entry.location or "" for entry in entries if entry.pin and entry.pin.new}
    if not new or ref.temporary:
        return
    main = manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True))
    with suppress(errors.CorruptData, errors.NotFound):  # of another ref, which might name them: then they stay
        for path in sorted(filter(is_inside, new - _directories(main) - directories_of_refs(catalog, ref.branch))):
            hide(catalog, path, "drop")


def _check_may_go(catalog: Catalog, ref: LakeRef, changed: Collection[str]) -> None:
    """Raise Refused for a protected branch, or if something needs the branch of a table that has its changes."""
    doing = f"delete {ref.kind} '{ref.name}' of the lake"
    found = refs.read_branch(catalog.manifest, ref.branch)
    if found is not None and found.lifetime.protected:
        raise refusal(
            errors.Refused,
            doing,
            "it is protected",
            hint=hints.of("Lift its protection first: ", hints.unprotect_lake_branch(ref.name), "."),
        )

    def check(path: str) -> None:
        with suppress(errors.NotFound):  # deleted by an attempt that was killed; in an audit, there may be none
            try:
                check_may_remove(catalog.at(path), ref.table_branch)
            except errors.Refused as refused:
                needed = refused.message.removesuffix(".")
                why = f"its branch of the table in {catalog.at(path).uri} is needed. {needed}"
                raise refusal(errors.Refused, doing, why, hint=refused.hint) from None

    files.each(catalog.root, check, [path for path in changed if is_inside(path)])


# --- Tables on a branch of the lake


def begin_table_branch(location: DatasetLocation, begins: Beginning) -> str:
    """:func:`table_branch` for a handle, which knows its branch of the lake by name."""
    root = locate_typed(begins.catalog, location.storage_options)
    catalog = at_ref(Catalog(root, "v2"), BRANCH, begins.lake_branch)
    doing = f"change table '{Identifier(begins.table)}'"
    if catalog.ref is None or catalog.ref.id != begins.lake_id:
        raise refusal(
            errors.NotFound,
            doing,
            f"branch '{begins.lake_branch}' of the lake was deleted, and created again, since it was checked out",
            hint="Check it out again.",
        )
    return table_branch(catalog, Identifier(begins.table), doing)


def table_branch(catalog: Catalog, identifier: Identifier, doing: str) -> str:
    """The branch of a table that has the changes made on a branch of the lake; the first call creates it.

    A table that the branch of the lake does not cover joins it with its newest version. If several processes make the
    first change, they share the branch. Raises NotFound, and Refused for a table without data.
    """
    ref = catalog.ref
    assert ref is not None
    manifest_commits.check_may_change(catalog.manifest, doing)
    rows = manifest_commits.read_rows(catalog.manifest, RowFilter(ids=(identifier.object_id,)))
    entry = find_table(rows, identifier, doing)
    pin = entry.pin or Pin()
    if pin.branch is not None:
        return pin.branch
    path = entry.location or ""
    check_inside(path)
    location = catalog.at(path)
    if pin.version:
        check_same_table(catalog, ref, path, doing)
    else:
        pin = _joined(catalog, identifier, location, entry, doing)
        if pin.branch is not None:
            return pin.branch
    made = _created(location, ref.table_branch, PinnedVersion(None, pin.version))
    noted = Pin(made.parent_version, made.name, pin.new)
    manifest_commits.apply(catalog.manifest, NotePin(identifier, path, noted, doing))
    return made.name


def _joined(catalog: Catalog, identifier: Identifier, location: DatasetLocation, entry: Entry, doing: str) -> Pin:
    """What the row pins once the table is covered. Several processes at once agree in it on one version.

    Each would otherwise create the branch from its own newest version, and pylance would make one branch of both.
    """
    ref = catalog.ref
    assert ref is not None
    new, path = entry.pin is not None and entry.pin.new, entry.location or ""
    moment = Moment.of(catalog, doing)
    newest_main = _newest_of(location, entry, doing)
    if not new and moment.version(path, location, newest_main.version) < newest_main.version:
        # The branch would have rows that may be taken back, and its next table none of that publish.
        hint = hints.of("Run it again when that has ended. If its process died: ", hints.RECOVER, ".")
        raise refusal(errors.Conflict, doing, "a publish that has not ended yet has changed it", hint)
    keep(location, ref.pin_tag, newest_main)
    note = NotePin(identifier, path, Pin(newest_main.version, None, new), doing)
    manifest_commits.apply(catalog.manifest, note)
    pin = find_table(manifest_commits.read_rows(catalog.manifest, note.needs), identifier, doing).pin or note.pin
    keep(location, ref.pin_tag, PinnedVersion(None, pin.version))
    return pin


def keep(location: DatasetLocation, tag: str, version: PinnedVersion) -> None:
    """Keep a version from every cleanup. A tag at another one is of a process that lost, or that was killed."""
    known = refs.read_tag(location, tag)
    with suppress(errors.AlreadyExists, errors.Conflict):
        if known is None:
            refs.create_tag(location, tag, version)
        elif known.target != version:
            refs.move_tag(location, tag, version)


def _created(location: DatasetLocation, name: str, start: PinnedVersion) -> Branch:
    """A branch at a version; of several processes one creates it. pylance writes its ref some time after its files."""
    for left in reversed(range(_LOOKS)):
        try:
            return refs.read_branch(location, name) or create_branch_at(location, name, start)
        except (errors.AlreadyExists, errors.Conflict):
            if not left:
                raise
        time.sleep(_PAUSE)
    raise AssertionError("the last look returns or raises")


def _newest_of(location: DatasetLocation, entry: Entry, doing: str) -> PinnedVersion:
    found = find_latest(location, None)
    if found is None or (entry.pin is not None and not entry.pin.new):
        raise refusal(
            errors.Refused,
            doing,
            "it had no data when the branch of the lake was created",
            hint="Write its first rows to main, and create the branch after that.",
        )
    return found


@dataclass(frozen=True)
class NotePin:
    """The row of a table says what a branch of the lake has of it, unless it says so already."""

    identifier: Identifier
    location: str
    pin: Pin
    doing: str

    @property
    def needs(self) -> RowFilter:
        return RowFilter(ids=(self.identifier.object_id,))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, Conflict for a table that was created again."""
        entry = find_table(rows, self.identifier, self.doing)
        check_same(entry, self.location, self.doing)
        known = entry.pin
        if known is not None and (known.branch is not None or (known.version and self.pin.branch is None)):
            return Edit(before=(entry,))
        noted = changed_rows(rows.only([entry.object_id]), METADATA, [entry.pinning(self.pin).metadata])
        return Edit(remove=(entry.object_id,), add=noted, before=(entry,))


# --- What refs need


def check_unpinned(
    catalog: Catalog,
    directories: Iterable[str | None],
    doing: str,
    hint: str = "Delete the {kind} first, or use force.",
) -> None:
    """Raise Refused if a branch or tag pins a version of a table in one of the directories."""
    for kind, name, entry in _pinning(catalog, directories):
        why = f"{kind} '{name}' of the lake pins '{entry.identifier}'"
        raise refusal(errors.Refused, doing, why, hint.format(kind=kind))


def pinned_directories(catalog: Catalog, directories: Iterable[str | None]) -> frozenset[str]:
    """Those of some directories that hold a table of which a branch or tag pins a version, complete or not.

    Look once their rows are gone, right before files are deleted: whoever creates a ref writes its pins first, and then
    looks whether the rows are still there. So one of the two sees the other.
    """
    return frozenset(entry.location or "" for _, _, entry in _pinning(catalog, directories))


def _pinning(catalog: Catalog, directories: Iterable[str | None]) -> list[tuple[str, str, Entry]]:
    """(kind, name, row) of each pin of a table in one of the directories."""
    wanted = tuple(directory for directory in directories if directory is not None)
    known = _all_names(replace(catalog, ref=None)) if wanted else []

    def look(each: tuple[str, str]) -> list[tuple[str, str, Entry]]:
        rows = _rows_of(catalog, *each, RowFilter(locations=wanted))
        return [(*each, entry) for entry in rows.entries if entry.is_table and entry.pin and entry.pin.has_data]

    return [found for several in files.each(catalog.root, look, known) for found in several]


def directories_of_refs(catalog: Catalog, besides: str | None = None) -> frozenset[str]:
    """All directories that rows of branches and tags name; ``besides`` is a branch of ``__manifest`` to leave out.

    Those of deleted ones count for as long as they can be restored. Raises if one cannot be read: its tables must not
    look unneeded.
    """
    whole = replace(catalog, ref=None)
    kept = [(change.name, True) for change in set_aside(whole)]
    branches = [(branch_of(*each), False) for each in _all_names(whole)] + kept

    def look(each: tuple[str, bool]) -> frozenset[str]:
        branch, deleted = each
        at = DatasetLocation(whole.manifest.branch_uri(branch), whole.manifest.options)
        if deleted and newest(at) is None:
            return frozenset()
        return _directories(manifest_commits.read_rows(at, RowFilter(everything=True)))

    found = files.each(catalog.root, look, [each for each in branches if each[0] != besides])
    return frozenset().union(*found)


def set_aside(catalog: Catalog) -> list[RefChange]:
    """The deletions of branches and tags of the lake that can still be undone, as far as their records tell."""
    if not catalog.reads_manifest:
        return []
    changes = refs.read_changes(catalog.manifest)
    there = refs.list_ref_names(catalog.manifest, BRANCHES) if changes else []
    now = time.time_ns()
    return [change for change in kept_branches(changes, there) if change.keeps(now, DEFAULT_UNDO_WINDOW)]


def _directories(rows: Rows) -> frozenset[str]:
    return frozenset(path for path in rows.table[LOCATION].to_pylist() if path)


# --- The branch of ``__manifest``


def _all_names(catalog: Catalog) -> list[tuple[str, str]]:
    """(kind, name) of all refs of the lake; none without ``__manifest``."""
    names = refs.list_ref_names(catalog.manifest, BRANCHES) if catalog.reads_manifest else []
    return [(kind, name) for kind in (BRANCH, TAG) for each in names if (name := name_of(kind, each)) is not None]


def _names(catalog: Catalog, kind: str) -> list[str]:
    if not catalog.reads_manifest:
        return [ref.name for ref in lake_v1.list_on_tables(catalog, kind)]
    return [name for each, name in _all_names(catalog) if each == kind]


def _exists(catalog: Catalog, kind: str, name: str) -> bool:
    return catalog.reads_manifest and refs.read_branch(catalog.manifest, branch_of(kind, name)) is not None


def _newest(catalog: Catalog, kind: str, name: str) -> CatalogVersion:
    found = newest(_at(catalog, kind, name))
    if found is None:
        raise errors.CorruptData(
            f"{kind.capitalize()} '{name}' of the lake {catalog.uri} has lost its rows.",
            hint="Delete it, and create it again.",
        )
    return found


def _at(catalog: Catalog, kind: str, name: str) -> DatasetLocation:
    """Where the rows of a ref are, complete or not."""
    manifest = replace(catalog, ref=None).manifest
    return DatasetLocation(manifest.branch_uri(branch_of(kind, name)), manifest.options)


def read_ref(catalog: Catalog, kind: str, name: str, made: Branch | None = None) -> LakeRef | None:
    """A ref of the list; None if it vanished. One without a note was killed at the beginning of its creation.

    A branch of ``__manifest`` that another tool made has no note either: it counts as one of those. ``made`` has the
    settings of a branch, if they are known.
    """
    found = newest(_at(catalog, kind, name))
    if found is None:
        return None
    with translated(found.manifest, f"reading a {kind} of the lake"):
        noted = found.dataset.metadata.get(KEY)
    if made is None and (noted is None or kind == BRANCH):
        made = refs.read_branch(catalog.manifest, branch_of(kind, name))
    if noted is None:
        return None if made is None else ref_class(kind)(name, "", made.created_at)
    ref = decode_ref(kind, noted, name)
    return ref if ref is None or made is None else replace(ref, lifetime=made.lifetime)


def _rows(catalog: Catalog, ref: LakeRef, needed: RowFilter) -> Rows:
    return _rows_of(catalog, ref.kind, ref.name, needed)


def rows_of_ref(catalog: Catalog, kind: str, name: str) -> Rows:
    """All rows of a ref, also of one that is incomplete, or deleted with its rows kept."""
    return _rows_of(catalog, kind, name, RowFilter(everything=True))


def _rows_of(catalog: Catalog, kind: str, name: str, needed: RowFilter) -> Rows:
    return manifest_commits.read_rows(_at(catalog, kind, name), needed)


def _note(catalog: Catalog, ref: LakeRef) -> None:
    snapshot = _newest(catalog, ref.kind, ref.name)
    with translated(snapshot.manifest, f"noting the state of a {ref.kind} of the lake"):
        snapshot.dataset.update_metadata({KEY: ref.encode()})


# --- Filling a new ref


def _filled(catalog: Catalog, ref: LakeRef, tables: Collection[Name] | None, moment: Moment) -> LakeRef:
    """The id is noted first: with it, a deletion finds the pins that a killed creation left."""
    complete(catalog, ref, 0, ready=False)
    rows = _with_directories(catalog, _rows(catalog, ref, RowFilter(everything=True)))
    covered = _covered(rows, tables, moment.doing)
    paths = sorted({entry.location or "" for entry in covered if is_inside(entry.location)})
    newest = files.each(catalog.root, partial(_pinned, catalog, ref), paths, _AT_ONCE)
    heads = {path: (catalog.at(path), version) for path, version in zip(paths, newest, strict=True) if version}
    versions = _of_moment(ref, moment, heads)
    pins = {entry.object_id: Pin(versions.get(entry.location or "", 0)) for entry in covered}
    fill(catalog, ref, rows, pins, moment.doing)
    _check_still_tables(catalog, [entry for entry in covered if entry.location in versions], moment.doing)
    return complete(catalog, ref, len(versions))


def _of_moment(ref: LakeRef, moment: Moment, heads: Mapping[str, tuple[DatasetLocation, int]]) -> Mapping[str, int]:
    """The versions that a new ref has; the pins of tables that a later publish has changed go back behind it."""
    versions = moment.versions(heads)
    back = {path: version for path, version in versions.items() if version < heads[path][1]}
    for path, version in back.items():
        keep(heads[path][0], ref.pin_tag, PinnedVersion(None, version))
    if back:  # a cleanup that began before may not have seen their pins: then this raises
        moment.versions({path: heads[path] for path in back})
    return versions


def _check_still_tables(catalog: Catalog, pinned: Collection[Entry], doing: str) -> None:
    """Raise Conflict if a table was dropped, or its directory moved, before others could see that it is pinned."""
    there = _directories(manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True)))
    missing = [entry for entry in pinned if entry.location not in there]
    if missing and catalog.reads_directories:
        by_name = {v1_directory(table) for table in list_tables(catalog) if table.in_root}
        missing = [entry for entry in missing if entry.location not in by_name]
    if missing:
        why = f"table '{missing[0].identifier}' has since been dropped or renamed"
        raise refusal(errors.Conflict, doing, why, hint="Run it again.")


def complete(catalog: Catalog, ref: LakeRef, tables: int, ready: bool = True) -> LakeRef:
    """Say in the metadata of the branch of ``__manifest`` which ref it is, and last of all that it is complete."""
    done = replace(ref, tables=tables, ready=ready)
    _note(catalog, done)
    return done


def fill(catalog: Catalog, ref: LakeRef, rows: Rows, pins: Mapping[str, Pin], doing: str) -> None:
    """Give a ref its first rows, with pins by id; a branch also remembers the version of its rows."""
    manifest_commits.replace_rows(_newest(catalog, ref.kind, ref.name), _with_pins(rows, pins), doing)
    if ref.kind == BRANCH and not ref.temporary:
        set_base(catalog, ref, pin_latest(catalog.manifest, ref.branch).version)


def set_base(catalog: Catalog, ref: LakeRef, version: int) -> None:
    """Changes of a branch count from its rows at that version, which a tag keeps from every cleanup."""
    known = refs.read_tag(catalog.manifest, ref.pin_tag)
    target = PinnedVersion(ref.branch, version)
    if known is None:
        refs.create_tag(catalog.manifest, ref.pin_tag, target)
    elif known.version < version:
        refs.move_tag(catalog.manifest, ref.pin_tag, target)


def base_of(catalog: Catalog, ref: LakeRef) -> PinnedVersion:
    """The version of ``__manifest`` from which changes of a branch of the lake count. Raises CorruptData."""
    tag = refs.read_tag(catalog.manifest, ref.pin_tag)
    if tag is None or tag.branch != ref.branch:
        raise errors.CorruptData(
            f"Branch '{ref.name}' of the lake {catalog.uri} has lost tag '{ref.pin_tag}' of {MANIFEST}, with the "
            "version at which it began.",
            hint="Its tables still have their changes: merge the branches of the tables, and delete it.",
        )
    return tag.target


def _covered(rows: Rows, tables: Collection[Name] | None, doing: str) -> list[Entry]:
    entries = [entry for entry in rows.entries if entry.is_table]
    if tables is None:
        return entries
    wanted = {split_name(name): False for name in ([tables] if isinstance(tables, str) else tables)}
    chosen = []
    for entry in entries:
        parts = entry.identifier.parts
        names = [Identifier(parts[:count]) for count in range(len(parts) + 1)]
        inside = [name for name in names if name in wanted]
        wanted |= dict.fromkeys(inside, True)
        chosen += [entry] if inside else []
    known = {entry.identifier for entry in rows.entries if entry.is_namespace}
    missing = [str(name) for name, found in wanted.items() if not found and name not in known]
    if missing:
        near = difflib.get_close_matches(missing[0], [str(entry.identifier) for entry in rows.entries], n=3)
        hint = f"Similar names in the catalog: {', '.join(near)}." if near else None
        raise refusal(errors.NotFound, doing, f"there is no table or namespace '{missing[0]}'", hint)
    return chosen


def _with_directories(catalog: Catalog, rows: Rows) -> Rows:
    """The rows, and one for each table that is only a directory: what is one later must not count as one then."""
    if not catalog.reads_directories:
        return rows
    known = {entry.object_id for entry in rows.entries}
    others = [table for table in list_tables(catalog) if table.object_id not in known]
    entries = [Entry(table.object_id, TABLE, v1_directory(table)) for table in others]
    return Rows(pa.concat_tables([rows.table, new_rows(rows.table.schema, entries)])) if entries else rows


def _with_pins(rows: Rows, pins: Mapping[str, Pin]) -> pa.Table:
    """The rows; the metadata of other rows stays as it was written."""
    values = [
        entry.pinning(pins[entry.object_id]).metadata if entry.is_table and entry.object_id in pins else entry.metadata
        for entry in rows.entries
    ]
    return changed_rows(rows.table, METADATA, values)


def _pinned(catalog: Catalog, ref: LakeRef, path: str) -> int | None:
    """Keep the newest version of a table; returns it, None for a table without data.

    No cleanup removes the newest version. One that became older a moment ago is kept by ours for the time of a commit
    (a day by default), and by pylance's for two weeks.
    """
    location = catalog.at(path)
    found = newest_manifest(location)
    if found is None:
        return None
    version, size = found
    content = tag_file(PinnedVersion(None, version), size, ref.created_at)
    try:
        write_below(location, ref_file(TAGS, ref.pin_tag), content)
    except errors.NotFound:
        why = f"The table in {location.uri} was dropped while {ref.called} of the lake was created."
        raise errors.Conflict(why, hint="Run it again.") from None
    return version


def _unpin(catalog: Catalog, ref: LakeRef, purge: bool, changed: Collection[str], path: str) -> None:
    """The branch of a table goes first: as long as it exists, so does the version from which it began."""
    if not is_inside(path):
        return
    location = catalog.at(path)
    # A process that was killed at the first change may have created the branch without noting it.
    if ref.kind == BRANCH and (path in changed or refs.read_branch(location, ref.table_branch) is not None):
        with suppress(errors.NotFound):
            remove_branch(location, ref.table_branch, purge, force=True)
    if ref.kind == BRANCH and purge and not ref.ready:  # what a killed deletion left; nobody else has that id
        refs.drop_files(location, ref.table_branch)
    files.delete(location, [ref_file(TAGS, ref.pin_tag)])
