"""The race on a lake from outside: it is started, publishers are killed, and pylance reads what came of it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from multiprocessing.process import BaseProcess
from pathlib import Path

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.catalog.doctor import examine
from lance_spark.catalog.doctor_rules import LEFTOVER
from lance_spark.catalog.leftovers import find_leftovers
from lance_spark.catalog.publish_rules import Journal, PublishOutcome
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, LanceSparkError
from lance_spark.lake.manifest_rules import LEFT
from lance_spark.maintenance.maintain import UpkeepOptions, maintain
from lance_spark.maintenance.policy_rules import maintenance_policy
from lance_spark.maintenance.report import MaintenanceReport
from lance_spark.merge.conflict_rules import TAKEN_BEFORE
from support import lake_race
from support.processes import PATIENCE, Job, Team, processes
from support.storm import Place, value_of
from support.storm_log import OK, UNKNOWN, Entry, read_logs, summary

FIRST_RUN = lake_race.PUBLISHERS[0] * 1_000_000_000


def run_race(place: Place, team: Team, longest: float) -> int:
    """Let all loose until the time is over, and kill publishers meanwhile; returns how many.

    ``longest`` is how many seconds after the beginning of a publish one is killed, at the most.
    """
    Path(place.notes, "jobs").mkdir(parents=True)
    lake_race.make_lake(place)
    team.prepare(
        [
            Job(lake_race.work, (place, run, name, 1 + at), lake_race.warm_up)
            for at, (run, name) in enumerate(lake_race.WORKERS)
        ]
    )
    team.go()
    began = time.time()
    killed = _kill_publishers(place, longest)
    team.outcomes()
    print(f"{time.time() - began:.1f} s, {killed} killed")
    return killed


def _kill_publishers(place: Place, longest: float) -> int:
    chance, end = random.Random(place.seed), time.time() + place.seconds
    generations = dict.fromkeys(lake_race.PUBLISHERS, 0)
    running = {number: _start(place, number, 0, end) for number in lake_race.PUBLISHERS}
    killed = 0
    while not killed or time.time() < end:
        number = chance.choice(lake_race.PUBLISHERS)
        time.sleep(chance.uniform(0, longest))
        _wait_for_publish(place, number)
        time.sleep(chance.uniform(0, longest))
        process = running[number]
        if killed and chance.random() < 0.3:  # one that stands still may go on when others have ended its publish
            _signal(process, signal.SIGSTOP)
            time.sleep(chance.uniform(0, longest))
            _signal(process, signal.SIGCONT)
            continue
        process.kill()
        process.join(PATIENCE)
        if process.exitcode != -signal.SIGKILL:  # it had done all it was to do
            break
        killed += 1
        time.sleep(chance.choice([0, longest / 2]))  # another one may find what this one left
        generations[number] += 1
        running[number] = _start(place, number, generations[number], end)
    for process in running.values():
        process.join(PATIENCE)
        assert process.exitcode == 0
    return killed


def _signal(process: BaseProcess, what: signal.Signals) -> None:
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, what)


def _start(place: Place, number: int, generation: int, end: float) -> BaseProcess:
    process = processes().Process(target=lake_race.publish, args=(place, number, generation, end), daemon=True)
    process.start()
    return process


def _wait_for_publish(place: Place, number: int) -> None:
    note, end = Path(place.notes, "jobs", f"publisher-{number}"), time.time() + 5
    while not note.exists() and time.time() < end:
        time.sleep(0.005)


@dataclass(frozen=True)
class Lake:
    """What there is at the end."""

    place: Place
    entries: tuple[Entry, ...]
    publishes: tuple[tuple[Journal, PublishOutcome | None], ...]
    tables: dict[str, DatasetLocation]
    rows: dict[str, dict[int, int]]
    """Of main, by table: the value beside each id."""
    listed: frozenset[str]
    """The tables of the catalog."""


def account(place: Place) -> None:
    """Ends what is unfinished; then every row is where it must be, and every publish wholly there or not at all."""
    lake = lake_race.catalog_of(place)
    while lake.recover() is not None:
        continue
    wrong: list[str] = []
    tables = lake_race.locations(place)
    rows = {name: _read(location, name, wrong) for name, location in tables.items()}
    manifest = lake.catalog.manifest
    numbers = sorted(journals.sequences(manifest))
    publishes = [(journals.read_journal(manifest, each), journals.read_outcome(manifest, each)) for each in numbers]
    entries = tuple(read_logs(place.notes))
    found = Lake(place, entries, tuple(publishes), tables, rows, frozenset(lake.list_tables(recursive=True)))
    outcomes = Counter("unfinished" if outcome is None else outcome.outcome for _, outcome in publishes)
    helped = sum(bool(entry.facts) for entry in lake_race.told(entries, "recover"))
    print(f"{summary(entries)}\npublishes: {dict(outcomes)}, ended by others: {helped}")
    wrong += [f"publishes {numbers} are stored"] if numbers != [*range(1, len(numbers) + 1)] else []
    for check in (_outcomes, _appended, _runs, _claims, _shared, _hot, _tags, _moments, _unexpected):
        wrong += check(found)
    assert not wrong, "\n".join([*wrong, "", summary(entries)])
    _use(found)
    _tidy_up(found)


def _read(location: DatasetLocation, name: str, wrong: list[str]) -> dict[int, int]:
    """The rows of main's newest version; every listed version of every branch can be read, and is whole."""
    rows: dict[int, int] = {}
    for branch in [*lake_race.opened(location).branches.list(), None]:
        for version in sorted(entry["version"] for entry in lake_race.opened(location, branch).versions()):
            where = f"{name}, {branch or 'main'}@{version}"
            try:
                table = lake_race.opened(location, branch, version).to_table()
            except (OSError, ValueError, RuntimeError) as problem:
                wrong.append(f"{where} cannot be read: {problem}")
                continue
            ids, values = table["id"].to_pylist(), table["v"].to_pylist()
            rows = dict(zip(ids, values, strict=True))
            if len(rows) < len(ids):
                wrong.append(f"{where} has rows twice: {[key for key, n in Counter(ids).items() if n > 1][:10]}")
            if any(value != value_of(key) for key, value in rows.items() if key not in lake_race.HOT):
                wrong.append(f"{where} has values that nobody wrote")
            halves = [first for first, count in _runs_in(rows).items() if count != lake_race.ROWS]
            if halves or not {*lake_race.HOT, *lake_race.COLD} <= set(rows):
                wrong.append(f"{where} has half of the runs {halves}, or lacks rows of the beginning")
    return rows


def _runs_in(rows: dict[int, int]) -> Counter[int]:
    """How many rows there are of each run."""
    return Counter(key // lake_race.RUN * lake_race.RUN for key in rows if key >= FIRST_RUN)


def _outcomes(lake: Lake) -> Iterator[str]:
    for journal, outcome in lake.publishes:
        if outcome is None:
            yield f"{journal.subject} has no outcome"
            continue
        if outcome.is_published and outcome.conflicts:
            yield f"{journal.subject} was not ended whole: {outcome.conflicts}"
        if outcome.id != journal.id or len(outcome.tables) != len(journal.tables):
            yield f"{journal.subject} has another outcome: {outcome}"


def _appended(lake: Lake) -> Iterator[str]:
    """What was appended to main is there once, in that table; what nobody wrote is not."""
    appends = lake_race.told(lake.entries, "append", "append to shared")
    known = {(entry.facts.get("table"), key) for entry in appends for key in entry.added}
    maybe = {key for entry in appends if entry.outcome == UNKNOWN for key in entry.added}
    for name, rows in lake.rows.items():
        foreign = (key for key in rows if lake_race.COLD[-1] < key < FIRST_RUN and (name, key) not in known)
        strange = sorted(set(foreign) - maybe)
        if strange:
            yield f"{name} has rows that nobody wrote to it: {strange[:10]}"
    for entry in lake_race.told(lake.entries, "append"):
        rows = lake.rows.get(entry.facts.get("table", ""), {})
        if entry.outcome == OK and not set(entry.added) <= set(rows):
            yield f"lost: {entry}"


def _left(journal: Journal, outcome: PublishOutcome | None) -> set[str]:
    """Tables in which rows of a publish were changed before it was taken back: it says that they could not be."""
    if outcome is None or outcome.is_published or journal.branch == lake_race.SHARED:
        return set()
    return {conflict.name for conflict in outcome.conflicts if conflict.reason.startswith(LEFT)}


def _runs(lake: Lake) -> Iterator[str]:
    """A run is in all tables of its publish if that was published, and in none if it was not, or never decided."""
    seen: set[int] = set()
    taken = {entry.facts.get("taken") for entry in lake_race.told(lake.entries, "take name")}
    for journal, outcome in lake.publishes:
        if journal.branch == lake_race.SHARED:
            continue
        first = int(journal.message)
        if outcome is not None and outcome.is_published:
            if first in seen:
                yield f"{journal.subject}, run {first}, was published twice"
            seen.add(first)
            names = {table.name for table in journal.tables}
            there = {name for name, rows in lake.rows.items() if set(lake_race.ids_of_run(first, name)) <= set(rows)}
            if there != names:
                yield f"{journal.subject}, run {first}, was published to {sorted(names)}, and is in {sorted(there)}"
        for change in journal.rows:
            name = str(change.known.identifier)
            published = outcome is not None and outcome.is_published
            if name != lake_race.SAME and (name in lake.listed) != (published or name in taken):
                yield f"{journal.subject}, {outcome.outcome if outcome else None}: new table {name} is wrong"
    for name, rows in lake.rows.items():
        left = {int(journal.message) for journal, outcome in lake.publishes if name in _left(journal, outcome)}
        strange = set(_runs_in(rows)) - seen - left
        if strange:
            yield f"{name} has the runs {sorted(strange)}, which were not published"


def _claims(lake: Lake) -> Iterator[str]:
    """What publishers were told is so."""
    published = {int(journal.message) for journal, outcome in lake.publishes if _counts(journal, outcome)}
    for entry in lake_race.told(lake.entries, "publish"):
        if entry.outcome == OK and (entry.facts.get("state") != "published" or entry.facts["first"] not in published):
            yield f"not so: {entry}"
    ids = {journal.id: outcome for journal, outcome in lake.publishes}
    for entry in lake_race.told(lake.entries, "publish", "publish shared", "recover"):
        outcome = ids.get(entry.facts.get("id") or "")
        if entry.outcome == OK and entry.facts.get("id") and (not outcome or outcome.outcome != entry.facts["state"]):
            yield f"not so: {entry}, but {outcome}"


def _counts(journal: Journal, outcome: PublishOutcome | None) -> bool:
    return journal.branch != lake_race.SHARED and outcome is not None and outcome.is_published


def _shared(lake: Lake) -> Iterator[str]:
    """Of the shared branch, main has what it had at its last published version, and no later row."""
    for name, rows in lake.rows.items():
        published = [journal for journal, outcome in lake.publishes if _of_shared(journal, outcome)]
        upto = max((_version_of(journal, name) for journal in published), default=0)
        for entry in lake_race.told(lake.entries, "append to shared"):
            if entry.facts.get("table") != name or entry.outcome != OK:
                continue
            expected = set(entry.added) if entry.facts["version"] <= upto else set()
            if set(entry.added) & set(rows) != expected:
                yield f"{name} takes part in the shared branch up to version {upto}, but: {entry}"


def _of_shared(journal: Journal, outcome: PublishOutcome | None) -> bool:
    return journal.branch == lake_race.SHARED and outcome is not None and outcome.is_published


def _version_of(journal: Journal, name: str) -> int:
    return max((table.source.version for table in journal.tables if table.name == name), default=0)


def _hot(lake: Lake) -> Iterator[str]:
    """Rows that several processes update have a value that one of them wrote, and no publish that was taken back."""
    published = {int(journal.message) for journal, outcome in lake.publishes if _counts(journal, outcome)}
    wrote = {entry.facts["stamp"] for entry in lake_race.told(lake.entries, "update") if entry.outcome == OK}
    for name, rows in lake.rows.items():
        left = {int(journal.message) for journal, outcome in lake.publishes if name in _left(journal, outcome)}
        for key in lake_race.HOT:
            if rows.get(key) not in {value_of(key), *published, *wrote, *left}:
                yield f"{name} has {rows.get(key)} in row {key}, which no publish and no update brought"


def _tags(lake: Lake) -> Iterator[str]:
    """Tags of the lake can be read."""
    there = lake_race.catalog_of(lake.place)
    for tag in there.tags.list():
        for name in lake_race.TABLES:
            try:
                table = there.checkout(tag=tag.name).table(name)
                lake_race.opened(table.location, None, table.ref.version).to_table()
            except (LanceSparkError, OSError, ValueError, RuntimeError) as problem:
                yield f"tag {tag.name}, {name}: {problem}"


def _moments(lake: Lake) -> Iterator[str]:
    """What was read as of a publish, or kept, has each publish in all of its tables or in none, and skips none."""
    decided = [
        (int(journal.message), journal, outcome)
        for journal, outcome in lake.publishes
        if journal.branch != lake_race.SHARED and outcome is not None
    ]
    for entry in lake_race.told(lake.entries, *lake_race.MOMENTS):
        runs = {name: set(firsts) for name, firsts in entry.facts.get("runs", {}).items()}
        there = set[int]().union(*runs.values())
        upto = entry.facts.get("sequence")
        if upto is None:  # the last publish of which it has anything: all before that are in it, too
            counting = (each for first, each, outcome in decided if first in there and outcome.is_published)
            upto = max((journal.sequence for journal in counting), default=0)
        for first, journal, outcome in decided if runs else ():
            found = {name for name, firsts in runs.items() if first in firsts}
            wanted = {table.name for table in journal.tables} if journal.sequence <= upto else set()
            if found != wanted if outcome.is_published else not found <= _left(journal, outcome):
                yield f"{entry} has run {first} of {journal.subject}, {outcome.outcome}, in {found}, not in {wanted}"
        if strange := there - {first for first, _, _ in decided}:
            yield f"{entry} has runs {sorted(strange)}, which were never decided"


def _unexpected(lake: Lake) -> list[str]:
    return [str(entry) for entry in lake.entries if entry.outcome == UNKNOWN][:20]


def _use(lake: Lake) -> None:
    """The lake can be used: what is left of the shared branch is published, and then it has all its rows."""
    try:
        lake_race.catalog_of(lake.place).publish(lake_race.SHARED)
    except Conflict as clash:
        if TAKEN_BEFORE not in clash.message:
            raise
        return  # the branch is older than a publish that was taken back, and cleanups removed the versions since
    for name, location in lake.tables.items():
        shared = [entry for entry in lake_race.told(lake.entries, "append to shared") if entry.outcome == OK]
        added = {key for entry in shared if entry.facts["table"] == name for key in entry.added}
        ids = lake_race.opened(location).to_table(columns=["id"])["id"].to_pylist()
        assert added <= set(ids)
        assert len(set(ids)) == len(ids)
    assert lake_race.catalog_of(lake.place).publish(lake_race.SHARED).state == "up to date"


SPANS = dict.fromkeys(("older_than", "commit_window", "undo_window", "unverified_age"), "0s")
AT_ONCE = maintenance_policy({"cleanup": {**SPANS, "delete_unverified": True}, "expiry": {"undo_window": "0s"}})


def _tidy_up(lake: Lake) -> None:
    """Maintenance leaves what refs need, which can be read, and nothing else; without refs nothing of them."""
    there, root = lake_race.catalog_of(lake.place), Path(lake.place.uri)
    rows = {name: lake_race.opened(location).count_rows() for name, location in lake.tables.items()}
    report = _maintained(there)
    assert report.exit_code == 0, str(report)
    wrong = [*_tags(lake), *(str(each) for each in find_leftovers(there.catalog, _later(), timedelta(0)))]
    for tag in there.tags.list():
        there.tags.delete(tag.name)
    for branch in there.branches.list():
        there.branches.delete(branch.name)
    _maintained(there)
    left = [path for path in root.glob("__manifest/tree/**/*") if path.is_file()]
    left += [path for path in root.rglob("*.tmp") if path.is_file()]
    left += [*root.glob("*/_refs/*/lake*"), *root.glob("*/tree/lake/*")]
    wrong += [f"left: {path.relative_to(root)}" for path in left]
    wrong += [str(each) for each in examine(there.catalog, _later()) if each.kind == LEFTOVER]
    assert not wrong, "\n".join(wrong)
    assert {name: lake_race.opened(location).count_rows() for name, location in lake.tables.items()} == rows


def _later() -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=5)


def _maintained(there: LanceCatalog) -> MaintenanceReport:
    now_ns = int(_later().timestamp() * 1e9)
    return maintain(there.catalog, UpkeepOptions(AT_ONCE, execute=True), lake_race.ENGINE, now_ns)
