"""What the workers of the everything-at-once run did, and the account that has to come out. Pure except for files.

Every row has an id of its own that is never used again. So it is known of each row at the end whether it must be there,
must not, or may, and which worker said so.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"
"""It happened; nothing happened; an error that leaves it open which of the two."""
COMMITS = ("append", "delete", "merge")
"""Actions of which each is one version of main."""
_EXAMPLES = 5


@dataclass(frozen=True)
class Entry:
    """One line of a worker's log: an action, and what the worker was told of it."""

    worker: str
    number: int
    action: str
    outcome: str
    added: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    """Kind of the error, then its text."""
    began: float = 0
    ended: float = 0

    @property
    def kind(self) -> str:
        return self.error.partition(":")[0]

    def __str__(self) -> str:
        rows = "".join(f" {word}{_shortened(ids)}" for word, ids in (("+", self.added), ("-", self.deleted)) if ids)
        what = f"{self.worker}#{self.number} {self.began:.3f}..{self.ended:.3f} {self.action} {self.outcome}"
        return f"{what}{rows} {self.facts} {self.error}".strip()


def _shortened(ids: Sequence[int]) -> str:
    return f"{list(ids)}" if len(ids) <= 12 else f"{list(ids[:12])} and {len(ids) - 12} more"


class Log:
    """A worker's log: a line is only ever added."""

    def __init__(self, directory: str, worker: str) -> None:
        self.worker = worker
        self._path = Path(directory, f"{worker}.jsonl")
        self._number = 0

    def add(self, action: str, outcome: str, began: float, **told: Any) -> Entry:
        self._number += 1
        entry = Entry(self.worker, self._number, action, outcome, began=began, ended=time.time(), **told)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry)) + "\n")
        return entry


def read_logs(directory: str) -> list[Entry]:
    """All lines of all workers, in the order of their ends."""
    entries = []
    for path in Path(directory).glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            told = json.loads(line)
            entries.append(Entry(**{**told, "added": tuple(told["added"]), "deleted": tuple(told["deleted"])}))
    return sorted(entries, key=lambda entry: entry.ended)


def happened(entries: Iterable[Entry]) -> Counter[str]:
    """How often each action was acknowledged."""
    return Counter(entry.action for entry in entries if entry.outcome == OK)


def summary(entries: Iterable[Entry]) -> str:
    """How often each action ended how, with the kinds of errors."""
    counts = Counter((entry.action, entry.outcome, entry.kind) for entry in entries)
    return "\n".join(f"{count:6} {' '.join(what)}".rstrip() for what, count in sorted(counts.items()))


def unexpected(entries: Iterable[Entry]) -> list[str]:
    """Errors of a kind that must not come only because other processes are at work."""
    return [str(entry) for entry in entries if entry.outcome == UNKNOWN]


def problems(entries: Iterable[Entry], rows: Iterable[int]) -> list[str]:
    """What is wrong with the rows that are there, given what the workers were told; empty if nothing is."""
    account = _Account(tuple(entries), Counter(rows))
    return [*account.wrong_rows(), *account.torn()]


def taken_twice(entries: Iterable[Entry]) -> list[str]:
    """Versions of main that two commits were told to be theirs: the store gave one number to two, and one is lost."""
    made: dict[int, list[Entry]] = {}
    for entry in entries:
        version, read = entry.facts.get("version"), entry.facts.get("read")
        if entry.outcome == OK and entry.action in COMMITS and isinstance(version, int) and version != read:
            made.setdefault(version, []).append(entry)
    twice = {version: two for version, two in made.items() if len(two) > 1}
    return [f"version {version} has two commits: {' and '.join(map(str, two))}" for version, two in twice.items()]


def history_problems(entries: Iterable[Entry], versions: Mapping[int, Collection[int]]) -> list[str]:
    """What is wrong with the rows of all versions of a branch: a change is seen whole, and no row comes back."""
    entries = tuple(entries)
    deleted = {key for entry in entries for key in entry.deleted}
    added = ((entry, {*entry.added} - deleted) for entry in entries)
    whole = [(entry, ids) for entry, ids in added if len(ids) > 1]
    wrong, seen, gone = [], set[int](), set[int]()
    for version, rows in sorted(versions.items()):
        there = set(rows)
        halves = [entry for entry, ids in whole if ids & there and not ids <= there]
        wrong += [f"version {version} has half of: {entry}" for entry in halves[:_EXAMPLES]]
        gone |= seen - there
        if there & gone:
            wrong.append(f"version {version} has rows that an earlier one had lost: {sorted(there & gone)[:20]}")
        seen |= there
    return wrong


@dataclass(frozen=True)
class _Account:
    entries: tuple[Entry, ...]
    there: Counter[int]

    def _ids(self, which: str, *outcomes: str) -> set[int]:
        return {key for entry in self.entries if entry.outcome in outcomes for key in getattr(entry, which)}

    def wrong_rows(self) -> Iterator[str]:
        added, gone = self._ids("added", OK), self._ids("deleted", OK)
        there = set(self.there)
        kinds = {
            "rows are there more than once": {key for key, count in self.there.items() if count > 1},
            "rows are there that no writer reported as added": there - self._ids("added", OK, UNKNOWN),
            "rows that were added are lost": added - gone - self._ids("deleted", UNKNOWN) - there,
            "rows that were deleted are back": there & gone,
        }
        for what, ids in kinds.items():
            if ids:
                yield f"{len(ids)} {what}:{self._examples(ids)}"

    def torn(self) -> Iterator[str]:
        """Operations of unknown outcome that happened by half."""
        gone = self._ids("deleted", OK)
        for entry in self.entries:
            if entry.outcome != UNKNOWN:
                continue
            others = {key for one in self.entries if one.outcome == UNKNOWN and one != entry for key in one.deleted}
            happened = {key in self.there for key in {*entry.added} - gone - others - {*entry.deleted}}
            old = {*entry.deleted} & self._ids("added", OK)
            happened |= {key not in self.there for key in old - gone - others}
            if len(happened) > 1:
                yield f"happened by half: {entry}"

    def _examples(self, ids: set[int]) -> str:
        lines = []
        for key in sorted(ids)[:_EXAMPLES]:
            lines += [f"\n  row {key}, {self.there[key]} times"]
            lines += [f"\n    {entry}" for entry in self.entries if key in entry.added or key in entry.deleted]
        return "".join(lines)
