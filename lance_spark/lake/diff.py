"""What a branch of a lake changed: tables and namespaces by its rows, and the rows of each changed table."""

from __future__ import annotations

from lance_spark.catalog.entry_rules import Entry
from lance_spark.catalog.name_rules import Catalog
from lance_spark.catalog.publish_rules import EntryChange, JournalTable
from lance_spark.changes.diff import diff as diff_versions
from lance_spark.core.refs import PinnedVersion
from lance_spark.lake import manifest_rules
from lance_spark.lake.publish import read_branch, written_tables
from lance_spark.lake.report import CHANGED, DROPPED, NEW, PROPERTIES, RENAMED, LakeChange, LakeDiff
from lance_spark.merge.ancestry import Graph, only_base
from lance_spark.scan.fragment_reads import count_rows
from lance_spark.storage import files
from lance_spark.storage.datasets import find_latest, pin_latest


def diff(catalog: Catalog, name: str) -> LakeDiff:
    """What a branch changed since it began, or since its last publish. Changes nothing. Raises NotFound."""
    branch = read_branch(catalog, name)
    changes = {change.known.location or change.known.object_id: change for change in branch.changes}
    written = {table.location: table for table in written_tables(catalog, branch)}

    def of_row(change: EntryChange) -> LakeChange:
        before, after = change
        row = change.known
        if before is None:
            return LakeChange(str(row.identifier), NEW, _rows(catalog, row, written), 0, kind=row.object_type)
        if after is None:
            return LakeChange(str(row.identifier), DROPPED, 0, _rows_before(catalog, branch, row), kind=row.object_type)
        counts = _counts(catalog, written.get(row.location or ""))
        if before.object_id == after.object_id:
            changed = PROPERTIES if counts is None else CHANGED
            return LakeChange(str(after.identifier), changed, *(counts or (0, 0)), kind=row.object_type)
        added, removed = counts or (0, 0)
        return LakeChange(str(after.identifier), RENAMED, added, removed, str(before.identifier), row.object_type)

    def of_table(table: JournalTable) -> LakeChange | None:
        counts = _counts(catalog, table)
        return None if counts is None else LakeChange(table.name, CHANGED, *counts)

    found = files.each(catalog.root, of_row, changes.values())
    others = [table for place, table in written.items() if place not in changes]
    found += [change for change in files.each(catalog.root, of_table, others) if change is not None]
    return LakeDiff(name, tuple(sorted(found, key=lambda change: (change.kind, change.name))))


def _counts(catalog: Catalog, table: JournalTable | None) -> tuple[int, int] | None:
    """Rows added and removed since main last took the branch in; None if there is nothing new."""
    if table is None:
        return None
    location, graph = catalog.at(table.location), Graph(catalog.at(table.location))
    pin_latest(location, None)  # raises if the table was dropped on main by force
    base = graph.pin(only_base(graph, PinnedVersion(None, table.since), table.source))
    if graph.origin(base) == graph.origin(table.source):
        return None
    rows = diff_versions(location, base, table.source, counts_only=True).rows
    return rows.added, rows.deleted


def _rows(catalog: Catalog, row: Entry, written: dict[str, JournalTable]) -> int:
    """The rows of a table that the branch created."""
    if not row.is_table or not row.location:
        return 0
    location, table = catalog.at(row.location), written.get(row.location)
    pin = find_latest(location, None) if table is None else table.source
    return 0 if pin is None else count_rows(location, pin, None)


def _rows_before(catalog: Catalog, branch: manifest_rules.BranchRows, row: Entry) -> int:
    """The rows of a dropped table that the users of the branch saw at first."""
    known = next((each for each in branch.base if each.location == row.location), row)
    if not row.is_table or not row.location or known.pin is None or not known.pin.version:
        return 0
    return count_rows(catalog.at(row.location), PinnedVersion(None, known.pin.version), None)
