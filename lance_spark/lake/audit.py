"""The lake as it will be after a publish, for an audit: a temporary branch of the lake, which only looks.

In: a plan whose files are copied. Out: a catalog in which the published tables have their merged rows; all others
follow main. A table whose main has not moved is read at the branch itself. For one that has, the branch is merged into
a temporary branch of the table, which begins with main's newest version.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import RowFilter, Rows
from lance_spark.catalog.lake import complete, delete_ref, fill, list_refs
from lance_spark.catalog.lake_rules import BRANCH, LakeBranch, LakeRef, Pin, audit_name
from lance_spark.catalog.name_rules import Catalog
from lance_spark.catalog.publish_rules import Journal, JournalTable
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.lake import manifest_rules
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions, Prefer
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage import refs
from lance_spark.storage.datasets import pin_latest

LONGEST = timedelta(days=1)
"""What an audit leaves behind if its process is killed is removed after that time."""


@contextmanager
def merged_lake(
    catalog: Catalog, journal: Journal, change: manifest_rules.PublishRows, engine: Engine
) -> Iterator[Catalog]:
    """The catalog as it will be, until the block ends. Raises Conflict if a table cannot be merged."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    ref = LakeBranch(audit_name(journal.id), secrets.token_hex(4), now, temporary=True)
    doing = f"look at the lake after {change.doing}"
    create_branch_at(catalog.manifest, ref.branch, pin_latest(catalog.manifest, None))
    try:
        complete(catalog, ref, 0, ready=False)
        rows = manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True))
        after = _edited(rows, change)
        pins: dict[str, Pin] = {}
        for table in journal.tables:
            pin = _merged(catalog, ref, table, journal.prefer, engine)
            pins |= {entry.object_id: pin for entry in after.at(table.location)}
        fill(catalog, ref, after, pins, doing)
        done = complete(catalog, ref, len(pins))
        yield replace(catalog, ref=done)
    finally:
        delete_ref(catalog, BRANCH, ref.name, purge=True)


def _edited(rows: Rows, change: manifest_rules.PublishRows) -> Rows:
    edit = change.edit(rows)
    kept = rows.table.filter(pa.compute.invert(rows.has(edit.remove)))
    return Rows(kept if edit.add is None else pa.concat_tables([kept, edit.add]))


def _merged(catalog: Catalog, ref: LakeRef, table: JournalTable, prefer: str, engine: Engine) -> Pin:
    """The version that has main's rows and those of the branch."""
    location = catalog.at(table.location)
    made, head = refs.read_branch(location, table.branch), pin_latest(location, None)
    if made is not None and made.fork == PinnedVersion(None, head.version):
        return Pin(table.version, table.branch)
    create_branch_at(location, ref.table_branch, head)
    merge(location, table.source, ref.table_branch, MergeOptions(prefer=replace(Prefer.of(prefer), many=True)), engine)
    return Pin(pin_latest(location, ref.table_branch).version, ref.table_branch)


def leftovers(catalog: Catalog, now: datetime, longest: timedelta = LONGEST) -> tuple[str, ...]:
    """The names of what killed audits left behind. ``longest`` is how long one that goes on may take."""
    found = list_refs(catalog, BRANCH, temporary=True)
    return tuple(ref.name for ref in found if ref.created_at < now - longest)


def sweep(catalog: Catalog, now: datetime, longest: timedelta = LONGEST) -> tuple[str, ...]:
    """Remove what killed audits left behind; returns the names."""
    old = leftovers(catalog, now, longest)
    for name in old:
        delete_ref(catalog, BRANCH, name, purge=True)
    return old
