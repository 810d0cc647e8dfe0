"""Deleted branches and tags of a lake: restoring one, and forgetting what is too old for that.

A deletion leaves the rows of the ref, the branches of tables that have its changes, and new tables; it removes the tags
that kept the versions of all other tables. So a restore looks first whether all that is still there, changes nothing
if not, and pins the versions again. Until its last step the ref is incomplete: it cannot be read, only deleted or
restored again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from lance_spark import errors, hints
from lance_spark.catalog import directories, lake
from lance_spark.catalog.entry_rules import DEREGISTERED, Entry, is_dropped, read_mark, refusal, v1_name
from lance_spark.catalog.lake_rules import BRANCH, LakeRef, Pin, branch_of, check_ref
from lance_spark.catalog.name_rules import Catalog, is_inside
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import DEFAULT_UNDO_WINDOW, kept_branches
from lance_spark.core.ref_files import BRANCHES
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import moment_at
from lance_spark.refs.reflog import find_restorable, forget_branch, prune, restore_branch
from lance_spark.storage import files, refs
from lance_spark.storage.datasets import find_latest, pin_version

_SKEW = timedelta(days=1)
"""By how much clocks may differ."""
_SHOWN = 5


def restore_ref(catalog: Catalog, kind: str, name: str, dry_run: bool = False) -> LakeRef:
    """Restore a branch or tag that was deleted, or whose deletion was killed. Safe to repeat after a failure.

    Raises NotFound if none was deleted that can be restored, AlreadyExists if there is one of that name, and Refused
    with the tables of which something is gone, for a ref whose creation was killed, and in V1. Then nothing is changed.
    """
    check_ref(kind, name)
    doing = f"restore {kind} '{name}' of the lake"
    lake.check_whole(catalog, doing)
    if not catalog.reads_manifest:
        hint = hints.of("Restore it there: ", hints.restore_branch(name), ".")
        raise refusal(errors.Refused, doing, f"in a catalog of directories (V1) it is a {kind} of each table", hint)
    ref, exists = _deleted(catalog, kind, name, doing)
    pinned = [entry for entry in lake.rows_of_ref(catalog, kind, name).entries if entry.is_table and entry.pin]
    looked = files.each(catalog.root, partial(_what_is_gone, catalog, ref), pinned)
    gone = [f"{entry.identifier}: {why}" for entry, why in zip(pinned, looked, strict=True) if why]
    if gone:
        more = f", and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
        raise refusal(
            errors.Refused,
            doing,
            f"something is gone. {'; '.join(gone[:_SHOWN])}{more}",
            hint=hints.of(
                "The changes of the other tables can be restored one by one, as branches of the tables: ",
                hints.restore_branch(ref.table_branch),
                ".",
            ),
        )
    if dry_run:
        return ref
    if not exists:
        restore_branch(catalog.manifest, ref.branch)
    files.each(catalog.root, partial(_bring_back, catalog, ref), pinned)
    if kind == BRANCH:
        lake.set_base(catalog, ref, ref.base)
    return lake.complete(catalog, replace(ref, base=0), ref.tables)


def _deleted(catalog: Catalog, kind: str, name: str, doing: str) -> tuple[LakeRef, bool]:
    """The ref, and whether the branch of ``__manifest`` exists, as the deletion was killed."""
    exists = refs.read_branch(catalog.manifest, branch_of(kind, name)) is not None
    if not exists:
        try:
            find_restorable(catalog.manifest, branch_of(kind, name))
        except errors.NotFound:
            hint = hints.of(hints.LAKE_REFLOG, " lists what was deleted.")
            why = "no deletion of it that can be undone is recorded"
            raise refusal(errors.NotFound, doing, why, hint) from None
    ref = lake.read_ref(catalog, kind, name)
    if ref is not None and exists and ref.ready:
        raise refusal(errors.AlreadyExists, doing, "there is one of that name", "Only a deleted one can be restored.")
    if ref is None or not ref.base:
        hint = hints.of("Delete it, and create it again: ", hints.delete_lake_ref(kind, name), ".")
        raise refusal(errors.Refused, doing, "it was never complete", hint)
    return ref, exists


def _what_is_gone(catalog: Catalog, ref: LakeRef, entry: Entry) -> str:
    """Why a table cannot be had as the ref had it; "" if it can."""
    pin, path = entry.pin or Pin(), entry.location or ""
    if not is_inside(path):
        return ""
    location = catalog.at(path)
    try:
        if pin.new and find_latest(location, None) is None:
            return "it was created on the branch, and was collected since"
        if pin.version:
            stamp = pin_version(location, None, pin.version).stamp
            # A table that was created again in the directory of a dropped one has a version of that number, too.
            if v1_name(path) and stamp is not None and pin.branch is None and moment_at(stamp) > ref.created_at + _SKEW:
                return "another table is in its directory now"
        if pin.branch is not None and refs.read_branch(location, pin.branch) is None:
            find_restorable(location, pin.branch)
    except (errors.NotFound, errors.Refused, errors.AlreadyExists) as problem:
        return problem.message.removesuffix(".")
    return ""


def _bring_back(catalog: Catalog, ref: LakeRef, entry: Entry) -> None:
    pin, path = entry.pin or Pin(), entry.location or ""
    if not is_inside(path):
        return
    location = catalog.at(path)
    if pin.new:
        _unhide(location)
    if pin.version:
        lake.keep(location, ref.pin_tag, PinnedVersion(None, pin.version))
        pin_version(location, None, pin.version)  # a cleanup that began before removes it despite the tag
    if pin.branch is not None and refs.read_branch(location, pin.branch) is None:
        restore_branch(location, pin.branch)


def _unhide(location: DatasetLocation) -> None:
    """Take back the mark by which a deletion left a new table to the job for orphans."""
    content = directories.content_of(location, DEREGISTERED)
    if content is not None and is_dropped(read_mark(content)):
        directories.remove_if(location, DEREGISTERED, content)


def forget_old(catalog: Catalog, now: datetime, execute: bool, window: timedelta = DEFAULT_UNDO_WINDOW) -> list[str]:
    """Remove what is kept of branches and tags that were deleted too long ago to be restored; returns their names."""
    manifest, now_ns = catalog.manifest, int(now.timestamp() * 1e6) * 1000
    changes = refs.read_changes(manifest)
    if not changes:
        return []
    kept = kept_branches(changes, refs.list_ref_names(manifest, BRANCHES))
    old = [change for change in kept if not change.keeps(now_ns, window)]
    if execute:
        old = [change for change in old if forget_branch(manifest, change)]
        prune(manifest, now, window)
    return [change.name for change in old]
