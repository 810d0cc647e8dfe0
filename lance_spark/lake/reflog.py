"""The history of branches and tags of a lake: created, published, deleted, restored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lance_spark.catalog import lake
from lance_spark.catalog.lake_rules import BRANCH, TAG, is_audit_name, name_of
from lance_spark.catalog.name_rules import Catalog
from lance_spark.core.records import reflog
from lance_spark.core.records.reflog import DONE, RefChange, RefLog
from lance_spark.core.ref_names import missing
from lance_spark.lake.publish import check_manifest, latest
from lance_spark.storage import refs

CREATED = "created"
_PUBLISHES = 1_000
"""How many of the newest publishes are read."""


def lake_reflog(catalog: Catalog, name: str | None = None) -> RefLog:
    """What happened to the branches and tags of a lake, or to those of one name, newest first.

    Deletions and restores are known as long as they can be undone. Raises NotFound for a name that no ref has or had,
    and Refused for a catalog without ``__manifest``, or at a ref.
    """
    lake.check_whole(catalog, "list what happened to branches of the lake")
    check_manifest(catalog)
    found = [*_recorded(catalog), *_existing(catalog), *_published(catalog)]
    changes = {(each.kind, each.name, each.action, each.at, each.id): each for each in found}.values()
    if name is not None and all(change.name != name for change in changes):
        raise missing("branch or tag", name, {change.name for change in changes}, "lake")
    own = [change for change in changes if name in (None, change.name)]
    return RefLog(catalog.uri, name, tuple(sorted(own, key=lambda change: change.at, reverse=True)))


def _recorded(catalog: Catalog) -> Iterator[RefChange]:
    """Deletions and restores; a deleted ref was created, too."""
    for change in refs.read_changes(catalog.manifest):
        kind = TAG if name_of(TAG, change.name) is not None else BRANCH
        name = name_of(kind, change.name) or change.name
        if change.kind != reflog.BRANCH or is_audit_name(name):
            continue
        yield replace(change, kind=kind, name=name, head=None)
        if change.branch is not None:
            yield RefChange("", change.branch.created_at, kind, name, CREATED, state=DONE)


def _existing(catalog: Catalog) -> Iterator[RefChange]:
    for kind in (BRANCH, TAG):
        for ref in lake.list_refs(catalog, kind):
            state = DONE if ref.ready or ref.base else reflog.BEGUN
            yield RefChange("", ref.created_at, kind, ref.name, CREATED, state=state)


def _published(catalog: Catalog) -> Iterator[RefChange]:
    for journal, outcome in latest(catalog, _PUBLISHES):
        if journal.branch_id:
            what = "merged" if outcome is None or outcome.is_published else "taken back"
            state = reflog.BEGUN if outcome is None else DONE
            yield RefChange(journal.id, journal.moment, BRANCH, journal.branch, what, state=state)
