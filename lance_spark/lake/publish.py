"""Publishing a branch of a lake: main of every table takes its changes in, or none does.

Everything slow happens before the journal is written: plans, copies of files, the audit. From then on the publish is
decided, and any process can end it from the journal alone: :func:`recover`. It goes forward, unless a table conflicts;
then it is taken back. The first verdict that is stored counts. Each step leaves a mark, so that it is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import uuid4

from lance_spark import hints
from lance_spark.catalog import directories, manifest_commits, services
from lance_spark.catalog import journal as journals
from lance_spark.catalog.entry_rules import SUFFIX, Edit, Entry, RowFilter, refusal, v1_directory
from lance_spark.catalog.lake import at_ref, base_of, set_base, table_branch
from lance_spark.catalog.lake_rules import BRANCH, LakeRef, Pin, pin_tag_of
from lance_spark.catalog.lookup import is_replaced, list_tables
from lance_spark.catalog.marks import hide, is_named
from lance_spark.catalog.name_rules import (
    MANIFEST,
    TABLE,
    Catalog,
    Identifier,
    Name,
    from_object_id,
    identify_table,
    is_inside,
)
from lance_spark.catalog.overview import overview
from lance_spark.catalog.publish_rules import (
    PUBLISHED,
    TAKEN_BACK,
    AuditRecord,
    EntryChange,
    Journal,
    JournalTable,
    LakeConflict,
    PublishOutcome,
    PublishVerdict,
    TableOutcome,
    audit_id,
)
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.services import JOURNAL
from lance_spark.core.texts import one_line
from lance_spark.engine.local import Engine
from lance_spark.errors import (
    Conflict,
    CorruptData,
    LanceSparkError,
    NotCommittable,
    NotFound,
    Refused,
)
from lance_spark.format.manifest import UnknownFormat
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import PUBLISH_ID
from lance_spark.lake import manifest_rules
from lance_spark.merge.merge import PreparedReplay
from lance_spark.merge.option_rules import Prefer, PublishOptions, check_audit
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
from lance_spark.merge.replay_commits import commit_unchanged
from lance_spark.storage import refs
from lance_spark.storage.commits import attempts, author, find_noted, overtaken, protected_branches
from lance_spark.storage.datasets import find_latest, pin_latest
from lance_spark.storage.versions import newest_first, read_transactions
from lance_spark.survey.survey import recorded_clones

_THREADS = 32
"""Tables at a time. Each step of a table is mostly waiting for the store."""
_LONGEST_REASON = 500
"""Characters of what an audit said that are recorded."""
_SKEW = timedelta(days=1)
"""By how much clocks may differ."""
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


class PublishPlan(NamedTuple):
    """A publish whose files are copied; main is unchanged."""

    journal: Journal
    """Without a sequence number yet."""
    prepared: Mapping[str, PreparedReplay]
    """By directory of the table."""
    conflicts: tuple[LakeConflict, ...]
    is_empty: bool = False
    """Whether main has everything already."""

    @property
    def dropped(self) -> dict[str, tuple[str, ...]]:
        """Columns that main loses, by directory of the table."""
        return {place: each.plan.summary().columns_dropped for place, each in self.prepared.items()}


class Finished(NamedTuple):
    journal: Journal
    outcome: PublishOutcome
    dropped: Mapping[str, tuple[str, ...]] = {}
    """Columns that main loses, by directory of the table, if this process made the plan."""


# --- Before the journal: main is unchanged


def check_manifest(catalog: Catalog) -> None:
    """Raise Refused for a catalog without ``__manifest``."""
    if not catalog.reads_manifest or find_latest(catalog.manifest, None) is None:
        raise Refused(
            f"The catalog {catalog.uri} has no table __manifest, which this needs.",
            hint=hints.of("Migrate it first: ", hints.MIGRATE, "."),
        )


def branch_in_lake(catalog: Catalog, name: str) -> manifest_rules.BranchRows:
    """A branch of the lake. A table that it created gets its branch now, so that main is main's after the publish.

    Raises NotFound, and Refused for a new table without data.
    """
    check_manifest(catalog)
    there = at_ref(catalog, BRANCH, name)
    branch = _branch_rows(catalog, there)
    doing = f"publish branch '{name}' of the lake"
    if there.ref is not None:
        set_base(catalog, there.ref, branch.base_version)  # so that no cleanup removes it
    new = [row for row in branch.rows if row.is_table and row.pin is not None and row.pin.new and not row.pin.branch]
    for row in new:
        if find_latest(catalog.at(row.location or ""), None) is None:
            raise refusal(
                Refused,
                doing,
                f"its new table '{row.identifier}' has no data",
                hint="A job is writing it, or was killed at it: wait, or drop the table on the branch.",
            )
        table_branch(there, row.identifier, doing)
    return _branch_rows(catalog, there) if new else branch


def read_branch(catalog: Catalog, name: str) -> manifest_rules.BranchRows:
    """A branch of the lake, as it is now. Raises NotFound."""
    check_manifest(catalog)
    return _branch_rows(catalog, at_ref(catalog, BRANCH, name))


def _branch_rows(catalog: Catalog, there: Catalog) -> manifest_rules.BranchRows:
    assert there.ref is not None
    own = _own_journals(catalog, there.ref)
    begins = _base(catalog, there.ref, own)
    base = manifest_commits.rows_at(there.manifest, begins).entries
    version, rows = manifest_commits.newest_rows(there.manifest)
    publishes = frozenset(journal.id for journal in own)
    return manifest_rules.BranchRows(there.ref.name, base, rows.entries, there.ref.id, version, begins, publishes)


def _own_journals(catalog: Catalog, ref: LakeRef) -> list[Journal]:
    """The journals of a branch's publishes, newest first."""
    begun, own = ref.created_at - _SKEW, []
    known = journals.sequences(catalog.journal)
    for start in range(0, len(known), _THREADS):
        read = _each(lambda sequence: journals.read_journal(catalog.journal, sequence), known[start : start + _THREADS])
        own += [journal for journal in read if journal.branch_id == ref.id]
        if read[-1].moment < begun:
            break
    return own


def _base(catalog: Catalog, ref: LakeRef, own: Sequence[Journal]) -> int:
    """The version of a branch's rows from which changes count.

    A helper that slept between two requests may have set the tag back behind a later publish: the journals know better.
    With the tag alone, the next publish would make the changes of that later one again, whatever main did since.
    """
    version = base_of(catalog, ref).version
    for journal in own:
        if journal.branch_version > version:
            outcome = journals.read_outcome(catalog.journal, journal.sequence)
            if outcome is not None and outcome.is_published:
                return journal.branch_version
    return version


def branch_in_tables(catalog: Catalog, name: str, tables: Sequence[Name] | None = None) -> manifest_rules.BranchRows:
    """The branch of one name in many tables, as if it were one branch of the lake; None for all that have it.

    Raises NotFound for a table that does not have it, or if none has; Refused for a directory without ``__manifest``.
    """
    entries = _of_service(catalog, tables, name) if catalog.service is not None else _of_rows(catalog, tables)
    found = _each(lambda row: refs.read_branch(located(catalog, row), name), entries)
    lacking = [str(row.identifier) for row, ref in zip(entries, found, strict=True) if ref is None]
    if lacking and (tables is not None or len(lacking) == len(entries)):
        which = f"No table of {catalog.uri} has a" if tables is None else f"Table '{lacking[0]}' has no"
        raise NotFound(f"{which} branch '{name}'.")
    base = [row for row, ref in zip(entries, found, strict=True) if ref]
    return manifest_rules.BranchRows(name, tuple(base), tuple(row.pinning(Pin(branch=name)) for row in base))


def _of_rows(catalog: Catalog, tables: Sequence[Name] | None) -> list[Entry]:
    check_manifest(catalog)
    items = [item for item in overview(catalog, recursive=True) if item.kind == TABLE and item.path]
    if tables is not None:
        wanted = {identify_table(table) for table in tables}
        missing = sorted(str(each) for each in wanted.difference(item.identifier for item in items))
        if missing:
            raise NotFound(f"There is no table '{missing[0]}' in {catalog.uri}.")
        items = [item for item in items if item.identifier in wanted]
    return [Entry(item.identifier.object_id, TABLE, item.path) for item in items]


def _of_service(catalog: Catalog, tables: Sequence[Name] | None, branch: str) -> list[Entry]:
    """The tables of a service, with their URIs in place of directories."""
    doing = f"publish branch '{branch}'"
    wanted = list_tables(catalog, recursive=True) if tables is None else {identify_table(table) for table in tables}

    def look(table: Identifier) -> Entry:
        told = services.find(catalog, table, doing)
        told.check_versions(doing)
        return Entry(table.object_id, TABLE, told.location.uri)

    return _each(look, sorted(wanted))


def located(catalog: Catalog, table: JournalTable | Entry) -> DatasetLocation:
    """Where a table of a publish is, and what opens it.

    A publish that has begun is about that dataset, also once its name was given away: a table of a service is opened
    with what the service hands out while it is there, and else at the place that the journal has.
    """
    place = table.location or ""
    if catalog.service is None:
        return catalog.at(place)
    with suppress(NotFound):
        there = services.find(catalog, from_object_id(table.object_id), "publish").location
        if there.uri == place:
            return there
    return services.elsewhere(catalog, place)


def plan_publish(
    catalog: Catalog, branch: manifest_rules.BranchRows, engine: Engine, options: PublishOptions | None = None
) -> PublishPlan:
    """Prepare every table, and find the conflicts of all; for a dry run nothing is written.

    Raises Refused, NotFound, CorruptData.
    """
    options = options or PublishOptions()
    changes, publish_id = branch.changes, uuid4().hex[:8]
    head = None if catalog.service is not None else find_latest(catalog.manifest, None)
    tables = written_tables(catalog, branch)
    journal = Journal(
        sequence=0,
        id=publish_id,
        branch=branch.name,
        branch_id=branch.id,
        branch_version=branch.version,
        made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tables=tuple(tables),
        rows=changes,
        dropped=_dropped(catalog, branch, changes),
        manifest_since=0 if head is None else head.version,
        message=options.message or "",
        prefer=options.prefer.text,
        mode=catalog.mode,
        catalog="" if catalog.service is None else catalog.uri,
    )
    decision = _decision(catalog, journal)
    conflicts = [*decision.conflicts, *_needed(catalog, changes)]
    known = {conflict.name for conflict in conflicts}
    asked = [table for table in tables if table.name not in known]
    prepared: dict[str, PreparedReplay] = {}

    def prepare(table: JournalTable) -> PreparedReplay | LakeConflict:
        given = _of_table(catalog, journal, table)
        try:
            return look_at_publish(given) if options.dry_run else prepare_publish(given, engine)
        except (Conflict, NotCommittable) as clash:
            return LakeConflict(table.name, manifest_rules.reason(clash))

    for table, found in zip(asked, _each(prepare, asked), strict=True):
        if isinstance(found, LakeConflict):
            conflicts.append(found)
        elif not found.plan.is_up_to_date:
            prepared[table.location] = found
    kept = tuple(table for table in tables if table.location in prepared)
    journal = replace(journal, tables=kept)
    is_empty = not (kept or conflicts) and decision.edit.is_empty
    return PublishPlan(journal, prepared, tuple(sorted(conflicts)), is_empty)


def _decision(catalog: Catalog, journal: Journal) -> manifest_rules.LakeDecision:
    """What becomes of the catalog's rows. A service has none, and each of its tables was just found."""
    if catalog.service is not None:
        return manifest_rules.LakeDecision(Edit(), ())
    rows = manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True))
    unlisted, moved = _unlisted(catalog, journal), _moved(catalog, journal)
    return manifest_rules.decide(journal.rows, rows, unlisted, journal.written, moved)


def _needed(catalog: Catalog, changes: Sequence[EntryChange]) -> list[LakeConflict]:
    """Conflicts of dropped tables that clones read, or that have protected branches."""

    def look(row: Entry) -> LakeConflict | None:
        location = catalog.at(row.location or "")
        clones = recorded_clones(location)
        if clones:
            return LakeConflict(str(row.identifier), f"dropped, but the clone {min(clones.values())} reads it")
        names = protected_branches(location)
        why = f"dropped, but its branch '{names[0]}' is protected" if names else ""
        return LakeConflict(str(row.identifier), why) if names else None

    dropped = [change.known for change in changes if change.after is None and change.known.is_table]
    return [found for found in _each(look, dropped) if found is not None]


def written_tables(catalog: Catalog, branch: manifest_rules.BranchRows) -> list[JournalTable]:
    """The tables whose branches have versions of their own."""
    owned = [row for row in branch.rows if row.is_table and row.pin is not None and row.pin.branch]
    return [found for found in _each(lambda row: _written(catalog, row), owned) if found is not None]


def _written(catalog: Catalog, row: Entry) -> JournalTable | None:
    """The table, if its branch has versions of its own."""
    assert row.pin is not None
    location, name = located(catalog, row), row.pin.branch or ""
    ref, main = refs.read_branch(location, name), find_latest(location, None)
    if main is None:  # dropped by force
        return JournalTable(row.object_id, row.location or "", name, 0, 0)
    if ref is None:
        raise NotFound(
            f"Branch '{name}' of table '{row.identifier}', which has its changes, does not exist in {location.uri}.",
            hint="Restore it, or drop the table on the branch of the lake.",
        )
    head = pin_latest(location, name)
    if head.version <= ref.parent_version:
        return None
    return JournalTable(row.object_id, row.location or "", name, head.version, main.version)


def _of_table(catalog: Catalog, journal: Journal, table: JournalTable) -> TablePublish:
    message = journal.message or f"Publish {journal.subject}"
    prefer = Prefer.of(journal.prefer)
    return TablePublish(located(catalog, table), table.source, table.since, journal.id, message, prefer)


def _dropped(catalog: Catalog, branch: manifest_rules.BranchRows, changes: Sequence[EntryChange]) -> dict[str, int]:
    """Main's versions of dropped tables that the users of the branch knew, by directory."""
    gone = {change.known.object_id for change in changes if change.after is None}
    pins = {row.location: row.pin for row in branch.base if row.object_id in gone and row.pin is not None}
    own = branch.publishes if any(pin.branch for pin in pins.values()) else ()
    return {place: _known(catalog.at(place), pin.version, own) for place, pin in pins.items() if place}


def _known(location: DatasetLocation, pinned: int, own: Collection[str]) -> int:
    """The last one of main's versions that only publishes of the branch made since."""
    if own:
        newer = [version for version, _ in newest_first(location, None, above=pinned)]
        made = read_transactions(location, None, newer)
        while (found := made.get(pinned + 1)) is not None and found.properties.get(PUBLISH_ID) in own:
            pinned += 1
    return pinned


def _unlisted(catalog: Catalog, journal: Journal) -> list[str]:
    """Directories of the publish that are tables without a row, if there is no row."""
    if not catalog.reads_directories:
        return []
    places = {*journal.written, *(change.known.location for change in journal.rows)}
    places |= {v1_directory(row.identifier) for _, row in journal.rows if row is not None and row.identifier.in_root}
    named = [place for place in places if place and place.endswith(SUFFIX) and "/" not in place]
    return [place for place, found in directories.look(catalog.root, named).items() if found.is_table]


def _moved(catalog: Catalog, journal: Journal) -> list[str]:
    """Directories of dropped tables that main wrote to since, or that belong to other tables now."""
    tag = pin_tag_of(journal.branch, journal.branch_id) if journal.branch_id else None

    def look(dropped: tuple[str, int]) -> bool:
        place, pinned = dropped
        head = find_latest(catalog.at(place), None)
        if head is None:
            return False
        return head.version > pinned or (tag is not None and is_replaced(catalog, tag, place))

    found = zip(journal.dropped, _each(look, list(journal.dropped.items())), strict=True)
    return [place for place, moved in found if moved]


def _each(ask: Callable[[_Given], _Found], items: Sequence[_Given]) -> list[_Found]:
    """The answers for all items, asked side by side. Raises the first error once all are answered."""
    if not items:
        return []
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        return [future.result() for future in [pool.submit(ask, item) for item in items]]


def publish(
    catalog: Catalog,
    read_branch: Callable[[], manifest_rules.BranchRows],
    engine: Engine,
    audit: Callable[[PublishPlan], bool] | None = None,
    options: PublishOptions | None = None,
) -> Finished | None:
    """Publish the changes of a branch of the lake; None if main has them already.

    An unfinished publish is ended first. If another process publishes meanwhile, this one begins again.

    Raises Conflict, which names what clashes by table: then no table has changes, or not for longer. Raises Refused if
    the audit returns False.
    """
    for _ in attempts():
        recover(catalog, engine)
        last = max(journals.sequences(catalog.journal), default=0)
        plan = plan_publish(catalog, read_branch(), engine, options)
        manifest_rules.check(plan.conflicts, plan.journal.prefer)
        if plan.is_empty:
            return None
        if audit is not None and not _passes(catalog, plan, partial(audit, plan), last):
            continue
        journal = replace(plan.journal, sequence=last + 1)
        if journals.write_journal(catalog.journal, journal):
            outcome = finish(catalog, journal, engine, plan.prepared)
            manifest_rules.check_published(journal, outcome)
            return Finished(journal, outcome, plan.dropped)
    raise overtaken(None)


def _passes(catalog: Catalog, plan: PublishPlan, audit: Callable[[], bool], last: int) -> bool:
    """Whether an audit passed; False if it has to be repeated, as another publish began: it may have seen half of that.

    What it said is recorded for whoever reviews the merge. Raises Refused, and what the audit raises.
    """
    try:
        check_audit(audit())
    except Exception as failure:
        if max(journals.sequences(catalog.journal), default=0) == last:
            said = failure.message if isinstance(failure, LanceSparkError) else f"{type(failure).__name__}: {failure}"
            _record(catalog, plan.journal, one_line(said)[:_LONGEST_REASON])
            raise
        return False
    _record(catalog, plan.journal)
    return True


def _record(catalog: Catalog, journal: Journal, failure: str = "") -> None:
    """Record what an audit said. A store that refuses this must not hide the answer, which is told or carried out."""
    made = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with suppress(LanceSparkError):
        recorded = audit_id(journal.branch, journal.branch_id)
        journals.write_audit(catalog.journal, recorded, AuditRecord.of(journal, made, failure, author()))


def last_audit(catalog: Catalog, journal: Journal) -> AuditRecord | None:
    """What the last audit of a branch of the lake said; None without one. Raises CorruptData, StorageFailure."""
    return journals.read_audit(catalog.journal, audit_id(journal.branch, journal.branch_id))


def last_audit_of_tables(catalog: Catalog, branch: str) -> AuditRecord | None:
    """What the last audit of a publish of the tables' branches of a name said; None without one. Raises as before."""
    return journals.read_audit(catalog.journal, audit_id(branch, "")) if catalog.has_journal else None


# --- After the journal: any process can end the publish, and several may do so at the same time


def latest(catalog: Catalog, limit: int) -> list[tuple[Journal, PublishOutcome | None]]:
    """The newest publishes, newest first, with their outcomes; None for one that is unfinished."""
    place = catalog.journal

    def read(sequence: int) -> tuple[Journal, PublishOutcome | None]:
        return journals.read_journal(place, sequence), journals.read_outcome(place, sequence)

    return _each(read, journals.sequences(place)[:limit])


def recover(catalog: Catalog, engine: Engine) -> Finished | None:
    """End the publish that another process began and did not end; None if there is none.

    Raises the errors of the store, and CorruptData for a damaged journal. Then the publish stays unfinished.
    """
    last = max(journals.sequences(catalog.journal), default=0)
    if not last or journals.read_outcome(catalog.journal, last) is not None:
        return None
    journal = journals.read_journal(catalog.journal, last)
    if journal.catalog and journal.catalog != catalog.uri:
        raise refusal(
            Refused,
            f"end a publish of {catalog.uri}",
            f"the journal has an unfinished publish of the catalog {journal.catalog}",
            hint=f"Spell the catalog alike everywhere, and give each catalog a {JOURNAL} of its own.",
        )
    return Finished(journal, finish(catalog, journal, engine))


def end_unfinished(catalog: Catalog, engine: Engine) -> None:
    """End an unfinished publish before something keeps or compares a moment of main, so that this is the present one.

    If that cannot be done, as with rights that are too narrow, nothing is lost: what follows takes the last complete
    moment, which lacks later commits to the tables of that publish.
    """
    with suppress(LanceSparkError):
        recover(replace(catalog, ref=None), engine)


def finish(
    catalog: Catalog, journal: Journal, engine: Engine, prepared: Mapping[str, PreparedReplay] | None = None
) -> PublishOutcome:
    """Bring a publish forward, or take it back, to its outcome."""
    catalog = replace(catalog, mode=journal.mode)
    verdict = journals.read_verdict(catalog.journal, journal.sequence)
    done = _Done()
    if verdict is None:
        done = _forward(catalog, journal, engine, prepared or {})
        wanted = TAKEN_BACK if done.conflicts else PUBLISHED
        own = PublishVerdict(journal.id, wanted, done.conflicts)
        verdict = journals.decide(catalog.journal, journal.sequence, own)
    if verdict.outcome == TAKEN_BACK:
        done = _take_back(catalog, journal, engine)
    else:
        if done.conflicts or not done.tables:
            done = _forward(catalog, journal, engine, {})  # finds the marks of what was done
        _each(lambda each: _remember(catalog, journal, *each), done.tables)
        _settle(catalog, journal)
    tables = tuple(TableOutcome(table.location, *version) for table, version in done.tables)
    manifest = None if done.manifest is None else TableOutcome(MANIFEST, *done.manifest)
    conflicts = (*verdict.conflicts, *done.conflicts)
    outcome = PublishOutcome(journal.sequence, journal.id, verdict.outcome, tables, manifest, conflicts)
    return journals.write_outcome(catalog.journal, outcome)


def _remember(catalog: Catalog, journal: Journal, table: JournalTable, published: Published) -> None:
    with suppress(NotFound):  # dropped since
        remember_publish(_of_table(catalog, journal, table), published)


def _settle(catalog: Catalog, journal: Journal) -> None:
    """The next publish of the branch begins with these rows; the job for orphans may remove dropped tables."""
    if not journal.branch_id:
        return
    with suppress(NotFound):  # the branch was deleted since
        ref = at_ref(catalog, BRANCH, journal.branch).ref
        if ref is not None and ref.id == journal.branch_id:
            set_base(catalog, ref, journal.branch_version)
    gone = [change.known.location for change in journal.rows if change.after is None and change.known.is_table]
    for path in gone:
        if is_inside(path) and not is_named(catalog, path or ""):
            hide(catalog, path or "", "drop")


class _Done(NamedTuple):
    tables: tuple[tuple[JournalTable, Published], ...] = ()
    manifest: Published | None = None
    conflicts: tuple[LakeConflict, ...] = ()


def _forward(catalog: Catalog, journal: Journal, engine: Engine, prepared: Mapping[str, PreparedReplay]) -> _Done:
    """Publish all tables side by side, then the rows; with what prevents it."""

    def one(table: JournalTable) -> Published | LakeConflict:
        try:
            return publish_table(_of_table(catalog, journal, table), engine, prepared.get(table.location))
        except (Conflict, NotFound, Refused, CorruptData) as clash:
            # An error that comes again each time must not keep the lake from ever publishing again.
            _check_known(clash)
            return LakeConflict(table.name, manifest_rules.reason(clash))

    found = list(zip(journal.tables, _each(one, journal.tables), strict=True))
    tables = tuple((table, each) for table, each in found if isinstance(each, Published))
    conflicts = tuple(each for _, each in found if isinstance(each, LakeConflict))
    if conflicts:
        return _Done(tables, None, conflicts)
    try:
        return _Done(tables, _publish_rows(catalog, journal))
    except (Conflict, NotFound, EvidenceGone) as clash:
        return _Done(tables, None, (LakeConflict(MANIFEST, clash.message),))


def _check_known(problem: LanceSparkError) -> None:
    """Raise an error that a newer release would not get: that release ends the publish."""
    if isinstance(problem, UnknownFormat):
        raise problem


def _take_back(catalog: Catalog, journal: Journal, engine: Engine) -> _Done:
    """Take the rows and all tables back; with what later commits keep from being taken back."""
    left: list[LakeConflict] = []

    def one(table: JournalTable) -> Published:
        try:
            return take_back_table(_of_table(catalog, journal, table), engine)
        except NotFound:  # dropped meanwhile
            return Published(table.since, table.since)
        except (Conflict, Refused, CorruptData) as clash:
            _check_known(clash)
            left.append(LakeConflict(table.name, f"{manifest_rules.LEFT}: {clash.message}"))
            return Published(table.since, table.since)

    manifest = None
    if journal.rows:
        try:
            manifest = _take_rows_back(catalog, journal)
        except (Conflict, EvidenceGone) as clash:
            left.append(LakeConflict(MANIFEST, f"{manifest_rules.LEFT}: {clash.message}"))
    tables = tuple(zip(journal.tables, _each(one, journal.tables), strict=True))
    return _Done(tables, manifest, tuple(sorted(left)))


# --- The rows of ``__manifest``: the message of a commit is its mark


class _Marked(Exception):
    """The commit that was about to be made exists."""


def _publish_rows(catalog: Catalog, journal: Journal) -> Published | None:
    """Change main's rows once; None if that changes nothing. Raises Conflict, TakenBack."""
    if not journal.rows:
        return None

    def look() -> None:
        if _mark(catalog, journal, _backwards(journal)) is not None:
            raise TakenBack(f"The publish of {journal.subject} was taken back.")
        if _mark(catalog, journal, journal.forwards) is not None:
            raise _Marked

    _change_rows(catalog, journal, journal.forwards, look)
    return _around(_mark(catalog, journal, journal.forwards))


def _take_rows_back(catalog: Catalog, journal: Journal) -> Published | None:
    """Undo the change of main's rows, or exclude that it is ever made. Raises Conflict if others changed them since."""

    def look() -> None:
        if _mark(catalog, journal, _backwards(journal)) is not None:
            raise _Marked

    for left in attempts():
        head = pin_latest(catalog.manifest, None)
        if _mark(catalog, journal, journal.forwards) is not None:
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


def _change_rows(catalog: Catalog, journal: Journal, doing: str, look: Callable[[], None]) -> None:
    change = rows_change(catalog, journal, back=doing == _backwards(journal))
    try:
        look()
        manifest_commits.apply(catalog.manifest, change, look)
    except _Marked:
        return
    except Conflict:
        try:
            look()  # another process may have made it since: then the clash is with itself
        except _Marked:
            return
        raise


def rows_change(catalog: Catalog, journal: Journal, back: bool = False) -> manifest_rules.PublishRows:
    """How a publish changes main's rows, or changes them ``back``."""
    return manifest_rules.PublishRows(
        doing=_backwards(journal) if back else journal.forwards,
        changes=tuple(each.inverse for each in journal.rows) if back else journal.rows,
        unlisted=lambda: _unlisted(catalog, journal),
        moved=lambda: [] if back else _moved(catalog, journal),
        written={} if back else journal.written,
    )


def _backwards(journal: Journal) -> str:
    return f"take back {journal.subject}"


def _mark(catalog: Catalog, journal: Journal, message: str) -> int | None:
    """The version of ``__manifest`` with that message, since the publish was decided."""
    since = PinnedVersion(None, journal.manifest_since)
    found = find_noted(catalog.manifest, since, MESSAGE, message)
    if found is None:
        check_evidence(catalog.manifest, journal.manifest_since, journal.id)
    return None if found is None else found.version


def _around(version: int | None) -> Published | None:
    return None if version is None else Published(version - 1, version)
