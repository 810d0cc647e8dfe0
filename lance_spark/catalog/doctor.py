"""Examines a catalog, and repairs the problems whose repair is reversible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from lance_spark.catalog import directories, manifest_commits
from lance_spark.catalog.directories import list_root, look
from lance_spark.catalog.doctor_rules import (
    DEAD_ROW,
    HIDDEN,
    LEFTOVER,
    MISSING_INDEX,
    MISSING_KEY,
    MISSING_PARENT,
    ORPHAN,
    STRAY_ROW,
    AddNamespaces,
    Finding,
    RemoveRows,
    dead_rows,
    directory_findings,
    row_findings,
    table_findings,
)
from lance_spark.catalog.entry_rules import DEREGISTERED, SUFFIX, Entry, RowFilter, read_mark
from lance_spark.catalog.leftovers import Leftover, find_leftovers
from lance_spark.catalog.manifest_commits import newest, older_columns, read_rows
from lance_spark.catalog.name_rules import DELIMITER, Catalog, is_inside
from lance_spark.catalog.removing import DEFAULT_AGE, INTERRUPTED, Orphan, find_orphans
from lance_spark.storage import files


def examine(catalog: Catalog, now: datetime, older_than: timedelta = DEFAULT_AGE) -> tuple[Finding, ...]:
    """All problems, sorted. Changes nothing; leaves out directories younger than a day."""
    findings: list[Finding] = []
    entries: Sequence[Entry] = ()
    snapshot = newest(catalog.manifest) if catalog.reads_manifest else None
    directories, plain = list_root(catalog.root)
    if snapshot is not None:
        entries = read_rows(catalog.manifest, RowFilter(everything=True)).entries
        findings += row_findings(entries)
        findings += dead_rows(entries, _have_files(catalog, entries, directories))
        findings += table_findings(snapshot.schema, manifest_commits.index_names(snapshot), older_columns(snapshot))
        for orphan in find_orphans(catalog):
            if orphan.newest <= now - older_than:
                findings.append(_orphan(orphan))
        findings += [_left(each) for each in find_leftovers(catalog, now, older_than)]
    states = look(catalog.root, [directory for directory in directories if directory.endswith(SUFFIX)])
    findings += directory_findings(entries, states, plain, catalog.reads_directories)
    return tuple(sorted(set(findings)))


def _orphan(orphan: Orphan) -> Finding:
    if orphan.kind == INTERRUPTED:
        return Finding(HIDDEN, orphan.directory, "A rename was interrupted: it is marked as deregistered.")
    text = f"No row names it ({orphan.kind}, {orphan.files} files, {orphan.bytes:,} bytes)."
    return Finding(ORPHAN, orphan.directory, text)


def _left(each: Leftover) -> Finding:
    size = f"{each.files} files, {each.bytes:,} bytes"
    if not each.branch:
        return Finding(
            LEFTOVER, each.place, f"A process died while it wrote this file ({size}); maintenance removes it."
        )
    if each.sure:
        why = f"A process died while it made or deleted branch '{each.branch}'"
        return Finding(LEFTOVER, each.place, f"{why} ({size}); maintenance removes the rest.")
    return Finding(LEFTOVER, each.place, f"Branch '{each.branch}' was complete and has lost its ref ({size}).")


def _have_files(catalog: Catalog, entries: Iterable[Entry], directories: Sequence[str]) -> dict[str, bool]:
    """Whether each table's directory has files; leaves out directories outside the root."""
    locations = {entry.location for entry in entries if entry.is_table and entry.location and is_inside(entry.location)}
    direct = {location for location in locations if "/" not in location}
    there = direct & set(directories)
    have_files = dict.fromkeys(direct - there, False)
    have_files |= {location: state.has_files for location, state in look(catalog.root, sorted(there)).items()}
    nested = sorted(locations - direct)
    found = files.each(catalog.root, lambda path: bool(files.entries(catalog.root, path)), nested)
    return have_files | dict(zip(nested, found, strict=True))


def mend(catalog: Catalog, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Repair the findings that can be repaired; returns them. Each is checked again first, so old findings do no harm.

    Removes dead rows and rows of versions of dropped tables, creates missing namespaces and indexes, removes marks
    that hide a registered table from V1, and marks the primary key.
    """
    chosen = [finding for finding in findings if finding.mendable]
    entries = read_rows(catalog.manifest, RowFilter(everything=True)).entries if chosen else ()
    still = {*row_findings(entries), *dead_rows(entries, _have_files(catalog, entries, list_root(catalog.root)[0]))}
    problems = {(finding.kind, finding.subject) for finding in still if finding.kind in (DEAD_ROW, STRAY_ROW)}
    wanted = {finding.subject for finding in chosen if (finding.kind, finding.subject) in problems}
    rows = [entry for entry in entries if entry.object_id in wanted]
    if rows:
        manifest_commits.apply(catalog.manifest, RemoveRows(tuple(rows)))
    parents = {finding.subject.rpartition(DELIMITER)[0] for finding in chosen if finding.kind == MISSING_PARENT}
    if parents:
        manifest_commits.apply(catalog.manifest, AddNamespaces(_with_ancestors(parents)))
    for finding in chosen:
        if finding.kind == HIDDEN and _is_hidden(catalog, finding.subject, entries):
            directories.remove(catalog.at(finding.subject), DEREGISTERED)
    if any(finding.kind == MISSING_KEY for finding in chosen):
        manifest_commits.upgrade(catalog.manifest)
    if any(finding.kind in (MISSING_INDEX, MISSING_KEY) for finding in chosen):
        manifest_commits.ensure_indexes(catalog.manifest)
    return tuple(chosen)


def _is_hidden(catalog: Catalog, directory: str, entries: Iterable[Entry]) -> bool:
    mark = read_mark(directories.content_of(catalog.at(directory), DEREGISTERED))
    return any(entry.location == directory for entry in entries) or (mark is not None and mark.why == "rename")


def _with_ancestors(object_ids: Iterable[str]) -> tuple[str, ...]:
    ancestors = set()
    for object_id in object_ids:
        parts = object_id.split(DELIMITER)
        ancestors |= {DELIMITER.join(parts[:count]) for count in range(1, len(parts) + 1)}
    return tuple(sorted(ancestors))
