"""The everything-at-once run from outside: it is started, and pylance reads what came of it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable
from datetime import timedelta

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.core.ref_names import READER_TAG, STREAM_TAG
from lance_spark.engine.local import LocalRunner
from support.processes import Job, Team
from support.storm import Place, digest, make, opened, policy, value_of
from support.storm_log import (
    OK,
    Entry,
    happened,
    history_problems,
    problems,
    read_logs,
    summary,
    taken_twice,
    unexpected,
)
from support.storm_upkeep import published_wrong, streamed_wrong
from support.storm_workers import WORKERS, Workers, warm_up, work

EVERYTHING = (
    "append",
    "delete",
    "compact",
    "create branch",
    "change branch",
    "merge",
    "drop branch",
    "create tag",
    "move tag",
    "delete tag",
    "read",
    "clean",
)

FACTS = (("compact", "fragments"), ("clean", "versions"), ("clean", "files"))
"""Of actions that may be done without effect, how many of what: more than none at least once."""


def run_storm(place: Place, team: Team, stable: bool, chosen: Workers = WORKERS) -> list[Entry]:
    """Let the workers loose until their time is over; what they say was done."""
    make(place, stable)
    workers = [(place, run, name, number) for number, (run, name) in enumerate(chosen, start=1)]
    team.prepare([Job(work, given, warm_up) for given in workers])
    team.go()
    time.sleep(place.seconds)
    team.outcomes()
    entries = read_logs(place.notes)
    print(summary(entries))
    return entries


def account(place: Place, things: Iterable[str] = EVERYTHING) -> None:
    """Every row is where the workers were told it is; all that is listed can be read; and everything took place."""
    entries = read_logs(place.notes)
    there, wrong = read_all(place)
    wrong += [*problems(entries, ids_of(place)), *history_problems(entries, there[None]), *unexpected(entries)[:20]]
    wrong += wrong_tags(place, entries) + wrong_branches(place, entries) + streamed_wrong(entries)
    wrong += published_wrong(place, entries) + taken_twice(entries)
    assert not wrong, "\n".join([*wrong, "", summary(entries)])
    assert_took_place(entries, things)


def clean_up(place: Place) -> None:
    """The cleanup for when no process writes any more."""
    alone = policy(commit_window=timedelta(0), delete_unverified=True)
    assert plan_cleanup(place.location, alone, LocalRunner(), time.time_ns()).apply().complete


def assert_took_place(entries: Iterable[Entry], things: Iterable[str]) -> None:
    """A run in which nothing happens proves nothing."""
    done = happened(entries)
    never: list[object] = [action for action in things if not done[action]]
    facts = {(entry.action, what) for entry in entries for what, count in entry.facts.items() if count}
    never += [what for what in FACTS if what not in facts]
    assert not never, (never, summary(entries))


def ids_of(place: Place, branch: str | None = None) -> list[int]:
    return list(opened(place, branch).to_table(columns=["id"])["id"].to_pylist())


def read_all(place: Place) -> tuple[dict[str | None, dict[int, array[int]]], list[str]]:
    """The rows of every version that pylance lists, by branch; and what could not be read, or reads wrong.

    As arrays of eight bytes: ten thousand versions with lists of as many ids took all memory of a machine.
    """
    ids_of_versions: dict[str | None, dict[int, array[int]]] = {}
    wrong = []
    for branch in [None, *opened(place).branches.list()]:
        ids_of_versions[branch] = {}
        for version in [entry["version"] for entry in opened(place, branch).versions()]:
            try:
                rows = opened(place, branch, version).to_table()
            except (OSError, ValueError, RuntimeError) as problem:
                wrong.append(f"{branch or 'main'}@{version} cannot be read: {problem}")
                continue
            ids = rows["id"].to_pylist()
            ids_of_versions[branch][version] = array("q", ids)
            if len(set(ids)) < len(ids) or rows["v"].to_pylist() != [value_of(key) for key in ids]:
                wrong.append(f"{branch or 'main'}@{version} has rows twice, or values that no writer wrote")
    return ids_of_versions, wrong


def wrong_tags(place: Place, entries: Iterable[Entry]) -> list[str]:
    """Tags that are not those that were made, or do not have the rows that their versions had."""
    expected: dict[str, Entry] = {}
    for entry in entries:
        if entry.outcome == OK and entry.action in ("create tag", "move tag"):
            expected[entry.facts["name"]] = entry
        elif entry.outcome == OK and entry.action == "delete tag":
            expected.pop(entry.facts["name"], None)
    wrong = []
    there = [name for name in opened(place).tags.list() if not name.startswith((STREAM_TAG, READER_TAG))]
    if set(there) != set(expected):
        wrong.append(f"tags {sorted(there)} are there, not {sorted(expected)}")
    for name in set(there) & set(expected):
        try:
            rows = digest(opened(place).checkout_version(name).to_table()["id"].to_pylist())
        except (OSError, ValueError, RuntimeError) as problem:
            wrong.append(f"tag {name} cannot be read: {problem}; {expected[name]}")
            continue
        if rows != expected[name].facts["rows"]:
            wrong.append(f"tag {name} has other rows than it had: {expected[name]}")
    return wrong


def wrong_branches(place: Place, entries: Iterable[Entry]) -> list[str]:
    """Branches that are not those that were left, or do not have the rows that they had."""
    expected = {entry.facts["name"]: entry.facts["rows"] for entry in entries if entry.action == "leave branch"}
    there = set(opened(place).branches.list())
    wrong = [] if there == set(expected) else [f"branches {sorted(there)} are there, not {sorted(expected)}"]
    for name in there & set(expected):
        if digest(ids_of(place, name)) != expected[name]:
            wrong.append(f"branch {name} has other rows than it had")
    return wrong
