"""Publishing a branch of a lake: main of every table takes its changes in, or none does.

Everything slow happens before the journal is written: plans, copies of files, the audit. From then on the publish is
decided, and any process can end it from the journal alone: :func:`recover`. It goes forward, unless a table conflicts;
then it is taken back. The first verdict that is stored counts. Each step leaves a mark, so that it is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import NamedTuple, TypeVar
from uuid import uuid4

from lance_spark.catalog import directories, manifest_pylance
from lance_spark.catalog.entry_rules import SUFFIX, Entry, RowFilter
from lance_spark.catalog.overview import overview
from lance_spark.catalog.rules import MANIFEST, TABLE, Catalog, Name, identify_table
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, NotCommittable, NotFound, Refused
from lance_spark.format.transactions import MESSAGE
from lance_spark.lake import journal as journals
from lance_spark.lake import rules
from lance_spark.merge.merge import PreparedReplay
from lance_spark.merge.publish import (
    EvidenceGone,
    Published,
    TablePublish,
    TakenBack,
    check_evidence,
    look_at_publish,
    prepare_publish,
    publish_table,
    remember_publish,
    take_back_table,
)
from lance_spark.merge.pylance import commit_unchanged
from lance_spark.storage import refs
from lance_spark.storage.commits import attempts, find_noted, overtaken
from lance_spark.storage.datasets import find_latest, pin_latest

_THREADS = 32
"""Tables at a time. Each step of a table is mostly waiting for the store."""
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class LakeBranch:
    """A branch of a lake, as its rows tell."""

    name: str
    base: tuple[Entry, ...]
    """The rows with which it began."""
    rows: tuple[Entry, ...]
    """Its newest rows."""
    id: str = ""
    """Distinguishes it from an earlier branch of that name."""


class PublishPlan(NamedTuple):
    """A publish whose files are copied; main is unchanged."""

    journal: rules.Journal
    """Without a sequence number yet."""
    prepared: Mapping[str, PreparedReplay]
    """By directory of the table."""
    conflicts: tuple[rules.LakeConflict, ...]
    is_empty: bool = False
    """Whether main has everything already."""


class Finished(NamedTuple):
    """A publish with its outcome."""

    journal: rules.Journal
    outcome: rules.PublishOutcome


# --- Before the journal: main is unchanged


def branch_in_tables(catalog: Catalog, name: str, tables: Sequence[Name] | None = None) -> LakeBranch:
    """The branch of one name in many tables, as if it were one branch of the lake; None for all that have it.

    Raises NotFound for a table that does not have it, or if none has; Refused for a catalog without ``__manifest``.
    """
    if not catalog.reads_manifest or find_latest(catalog.manifest, None) is None:
        raise Refused(
            f"The catalog {catalog.uri} has no table __manifest, which a publish of several tables needs.",
            hint="Call migrate() first.",
        )
    items = [item for item in overview(catalog, recursive=True) if item.kind == TABLE and item.path]
    if tables is not None:
        wanted = {identify_table(table) for table in tables}
        missing = sorted(str(each) for each in wanted.difference(item.identifier for item in items))
        if missing:
            raise NotFound(f"There is no table '{missing[0]}' in {catalog.uri}.")
        items = [item for item in items if item.identifier in wanted]
    found = _each(lambda item: refs.read_branch(catalog.at(item.path or ""), name), items)
    lacking = [str(item.identifier) for item, ref in zip(items, found, strict=True) if ref is None]
    if lacking and (tables is not None or len(lacking) == len(items)):
        which = f"No table of {catalog.uri} has a" if tables is None else f"Table '{lacking[0]}' has no"
        raise NotFound(f"{which} branch '{name}'.")
    base = [Entry(item.identifier.object_id, TABLE, item.path) for item, ref in zip(items, found, strict=True) if ref]
    return LakeBranch(name, tuple(base), tuple(rules.with_branch(row, name) for row in base))


def plan_publish(
    catalog: Catalog, branch: LakeBranch, engine: Engine, message: str = "", dry_run: bool = False
) -> PublishPlan:
    """Prepare every table, and find the conflicts of all; with ``dry_run`` nothing is written.

    Raises Refused, NotFound, CorruptData.
    """
    changes, publish_id = rules.row_changes(branch.base, branch.rows), uuid4().hex[:8]
    head = find_latest(catalog.manifest, None)
    owned = [(row, own) for row in branch.rows if row.is_table and (own := rules.own_branch(row)).branch]
    tables = [found for found in _each(lambda each: _written(catalog, *each), owned) if found is not None]
    journal = rules.Journal(
        sequence=0,
        id=publish_id,
        branch=branch.name,
        branch_id=branch.id,
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tables=tuple(tables),
        rows=changes,
        dropped=_dropped(branch.base, changes),
        manifest_since=0 if head is None else head.version,
        message=message,
    )
    rows = manifest_pylance.read_rows(catalog.manifest, RowFilter(everything=True))
    unlisted, moved = _unlisted(catalog, journal), _moved(catalog, journal)
    decision = rules.decide(changes, rows, unlisted, journal.written, moved)
    conflicts = [*decision.conflicts]
    known = {conflict.name for conflict in conflicts}
    asked = [table for table in tables if table.name not in known]
    prepared: dict[str, PreparedReplay] = {}

    def prepare(table: rules.JournalTable) -> PreparedReplay | rules.LakeConflict:
        given = _of_table(catalog, journal, table)
        try:
            return look_at_publish(given) if dry_run else prepare_publish(given, engine)
        except (Conflict, NotCommittable) as clash:
            return rules.LakeConflict(table.name, clash.message)

    for table, found in zip(asked, _each(prepare, asked), strict=True):
        if isinstance(found, rules.LakeConflict):
            conflicts.append(found)
        elif not found.plan.is_up_to_date:
            prepared[table.location] = found
    kept = tuple(table for table in tables if table.location in prepared)
    journal = replace(journal, tables=kept)
    is_empty = not (kept or conflicts) and decision.edit.is_empty
    return PublishPlan(journal, prepared, tuple(sorted(conflicts)), is_empty)


def _written(catalog: Catalog, row: Entry, own: rules.OwnBranch) -> rules.JournalTable | None:
    """The table, if its branch has versions of its own."""
    location, name = catalog.at(row.location or ""), own.branch or ""
    ref, main = refs.read_branch(location, name), find_latest(location, None)
    if ref is None or main is None:
        raise NotFound(
            f"Branch '{name}' of table '{row.identifier}', which has its changes, does not exist in {location.uri}.",
            hint="Restore it, or drop the table on the branch of the lake.",
        )
    head = pin_latest(location, name)
    if head.version <= ref.parent_version:
        return None
    return rules.JournalTable(row.object_id, row.location or "", name, head.version, main.version)


def _of_table(catalog: Catalog, journal: rules.Journal, table: rules.JournalTable) -> TablePublish:
    message = journal.message or f"Publish {journal.subject}"
    return TablePublish(catalog.at(table.location), table.source, table.since, journal.id, message)


def _dropped(base: Iterable[Entry], changes: Sequence[rules.EntryChange]) -> dict[str, int]:
    """The pinned versions of dropped tables, by directory."""
    gone = {change.known.object_id for change in changes if change.after is None}
    pins = {row.location: rules.own_branch(row).version for row in base if row.object_id in gone}
    return {location: version for location, version in pins.items() if location and version}


def _unlisted(catalog: Catalog, journal: rules.Journal) -> list[str]:
    """Directories of the publish that are tables without a row, if there is no row."""
    if not catalog.reads_directories:
        return []
    places = {*journal.written, *(change.known.location for change in journal.rows)}
    named = [place for place in places if place and place.endswith(SUFFIX) and "/" not in place]
    return [place for place, found in directories.look(catalog.root, named).items() if found.is_table]


def _moved(catalog: Catalog, journal: rules.Journal) -> list[str]:
    """Directories of dropped tables that main wrote to since."""

    def look(place: str) -> PinnedVersion | None:
        return find_latest(catalog.at(place), None)

    heads = zip(journal.dropped.items(), _each(look, list(journal.dropped)), strict=True)
    return [place for (place, pinned), head in heads if head is not None and head.version > pinned]


def _each(ask: Callable[[_Given], _Found], items: Sequence[_Given]) -> list[_Found]:
    """The answers for all items, asked side by side. Raises the first error once all are answered."""
    if not items:
        return []
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        return [future.result() for future in [pool.submit(ask, item) for item in items]]


def publish(
    catalog: Catalog,
    read_branch: Callable[[], LakeBranch],
    engine: Engine,
    audit: Callable[[PublishPlan], bool] | None = None,
    message: str = "",
) -> Finished | None:
    """Publish the changes of a branch of the lake; None if main has them already.

    An unfinished publish is ended first. If another process publishes meanwhile, this one begins again.

    Raises Conflict, which names what clashes by table: then no table has changes, or not for longer. Raises Refused if
    the audit returns False.
    """
    for _ in attempts():
        recover(catalog, engine)
        last = max(journals.sequences(catalog.manifest), default=0)
        plan = plan_publish(catalog, read_branch(), engine, message)
        rules.check(plan.conflicts)
        if plan.is_empty:
            return None
        if audit is not None and not audit(plan):
            raise Refused("The audit failed; nothing was published.")
        journal = replace(plan.journal, sequence=last + 1)
        if journals.write_journal(catalog.manifest, journal):
            outcome = finish(catalog, journal, engine, plan.prepared)
            rules.check_published(journal, outcome)
            return Finished(journal, outcome)
    raise overtaken(None)


# --- After the journal: any process can end the publish, and several may do so at the same time


def latest(catalog: Catalog, limit: int) -> list[tuple[rules.Journal, rules.PublishOutcome | None]]:
    """The newest publishes, newest first, with their outcomes; None for one that is unfinished."""
    manifest = catalog.manifest

    def read(sequence: int) -> tuple[rules.Journal, rules.PublishOutcome | None]:
        return journals.read_journal(manifest, sequence), journals.read_outcome(manifest, sequence)

    return _each(read, journals.sequences(manifest)[:limit])


def recover(catalog: Catalog, engine: Engine) -> Finished | None:
    """End the publish that another process began and did not end; None if there is none.

    Raises the errors of the store, and CorruptData for a damaged journal. Then the publish stays unfinished.
    """
    last = max(journals.sequences(catalog.manifest), default=0)
    if not last or journals.read_outcome(catalog.manifest, last) is not None:
        return None
    journal = journals.read_journal(catalog.manifest, last)
    return Finished(journal, finish(catalog, journal, engine))


def finish(
    catalog: Catalog, journal: rules.Journal, engine: Engine, prepared: Mapping[str, PreparedReplay] | None = None
) -> rules.PublishOutcome:
    """Bring a publish forward, or take it back, to its outcome."""
    verdict = journals.read_verdict(catalog.manifest, journal.sequence)
    done = _Done()
    if verdict is None:
        done = _forward(catalog, journal, engine, prepared or {})
        wanted = rules.TAKEN_BACK if done.conflicts else rules.PUBLISHED
        own = rules.PublishVerdict(journal.id, wanted, done.conflicts)
        verdict = journals.decide(catalog.manifest, journal.sequence, own)
    if verdict.outcome == rules.TAKEN_BACK:
        done = _take_back(catalog, journal, engine)
    else:
        if done.conflicts or not done.tables:
            done = _forward(catalog, journal, engine, {})  # finds the marks of what was done
        _each(lambda each: _remember(_of_table(catalog, journal, each[0]), each[1]), done.tables)
    tables = tuple(rules.TableOutcome(table.location, *version) for table, version in done.tables)
    manifest = None if done.manifest is None else rules.TableOutcome(MANIFEST, *done.manifest)
    conflicts = (*verdict.conflicts, *done.conflicts)
    outcome = rules.PublishOutcome(journal.sequence, journal.id, verdict.outcome, tables, manifest, conflicts)
    return journals.write_outcome(catalog.manifest, outcome)


def _remember(table: TablePublish, published: Published) -> None:
    with suppress(NotFound):  # dropped since
        remember_publish(table, published)


class _Done(NamedTuple):
    tables: tuple[tuple[rules.JournalTable, Published], ...] = ()
    manifest: Published | None = None
    conflicts: tuple[rules.LakeConflict, ...] = ()


def _forward(catalog: Catalog, journal: rules.Journal, engine: Engine, prepared: Mapping[str, PreparedReplay]) -> _Done:
    """Publish all tables side by side, then the rows; with what prevents it."""

    def one(table: rules.JournalTable) -> Published | rules.LakeConflict:
        try:
            return publish_table(_of_table(catalog, journal, table), engine, prepared.get(table.location))
        except (Conflict, NotCommittable, NotFound, EvidenceGone) as clash:
            return rules.LakeConflict(table.name, clash.message)

    found = list(zip(journal.tables, _each(one, journal.tables), strict=True))
    tables = tuple((table, each) for table, each in found if isinstance(each, Published))
    conflicts = tuple(each for _, each in found if isinstance(each, rules.LakeConflict))
    if conflicts:
        return _Done(tables, None, conflicts)
    try:
        return _Done(tables, _publish_rows(catalog, journal))
    except (Conflict, NotFound, EvidenceGone) as clash:
        return _Done(tables, None, (rules.LakeConflict(MANIFEST, clash.message),))


def _take_back(catalog: Catalog, journal: rules.Journal, engine: Engine) -> _Done:
    """Take the rows and all tables back; with what later commits keep from being taken back."""
    left: list[rules.LakeConflict] = []

    def one(table: rules.JournalTable) -> Published:
        try:
            return take_back_table(_of_table(catalog, journal, table), engine)
        except NotFound:  # dropped meanwhile
            return Published(table.since, table.since)
        except (Conflict, NotCommittable, EvidenceGone) as clash:
            left.append(rules.LakeConflict(table.name, f"{rules.LEFT}: {clash.message}"))
            return Published(table.since, table.since)

    manifest = None
    if journal.rows:
        try:
            manifest = _take_rows_back(catalog, journal)
        except (Conflict, EvidenceGone) as clash:
            left.append(rules.LakeConflict(MANIFEST, f"{rules.LEFT}: {clash.message}"))
    tables = tuple(zip(journal.tables, _each(one, journal.tables), strict=True))
    return _Done(tables, manifest, tuple(sorted(left)))


# --- The rows of ``__manifest``: the message of a commit is its mark


class _Marked(Exception):
    """The commit that was about to be made exists."""


def _publish_rows(catalog: Catalog, journal: rules.Journal) -> Published | None:
    """Change main's rows once; None if that changes nothing. Raises Conflict, TakenBack."""
    if not journal.rows:
        return None

    def look() -> None:
        if _mark(catalog, journal, _backwards(journal)) is not None:
            raise TakenBack(f"The publish of {journal.subject} was taken back.")
        if _mark(catalog, journal, _forwards(journal)) is not None:
            raise _Marked

    _change_rows(catalog, journal, _forwards(journal), look)
    return _around(_mark(catalog, journal, _forwards(journal)))


def _take_rows_back(catalog: Catalog, journal: rules.Journal) -> Published | None:
    """Undo the change of main's rows, or exclude that it is ever made. Raises Conflict if others changed them since."""

    def look() -> None:
        if _mark(catalog, journal, _backwards(journal)) is not None:
            raise _Marked

    for left in attempts():
        head = pin_latest(catalog.manifest, None)
        if _mark(catalog, journal, _forwards(journal)) is not None:
            _change_rows(catalog, journal, _backwards(journal), look)
        mark = _mark(catalog, journal, _backwards(journal))
        if mark is not None:
            return _around(mark)
        try:
            commit_unchanged(catalog.manifest, head, {MESSAGE: _backwards(journal)})
        except Conflict:
            if not left:
                raise
    raise overtaken(None)


def _change_rows(catalog: Catalog, journal: rules.Journal, doing: str, look: Callable[[], None]) -> None:
    back = doing == _backwards(journal)
    change = rules.PublishRows(
        doing=doing,
        changes=tuple(each.inverse for each in journal.rows) if back else journal.rows,
        unlisted=lambda: _unlisted(catalog, journal),
        moved=lambda: [] if back else _moved(catalog, journal),
        written={} if back else journal.written,
    )
    try:
        look()
        manifest_pylance.apply(catalog.manifest, change, look)
    except _Marked:
        return
    except Conflict:
        try:
            look()  # another process may have made it since: then the clash is with itself
        except _Marked:
            return
        raise


def _forwards(journal: rules.Journal) -> str:
    return f"publish {journal.subject}"


def _backwards(journal: rules.Journal) -> str:
    return f"take back {journal.subject}"


def _mark(catalog: Catalog, journal: rules.Journal, message: str) -> int | None:
    """The version of ``__manifest`` with that message, since the publish was decided."""
    since = PinnedVersion(None, journal.manifest_since)
    found = find_noted(catalog.manifest, since, MESSAGE, message)
    if found is None:
        check_evidence(catalog.manifest, journal.manifest_since, journal.id)
    return None if found is None else found.version


def _around(version: int | None) -> Published | None:
    return None if version is None else Published(version - 1, version)
