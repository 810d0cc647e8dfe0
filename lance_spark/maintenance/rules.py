"""What a maintenance does to each table and branch: rules by pattern, in the words of the verbs they are for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from lance_spark.cleanup.rules import CleanupPolicy, policy_of
from lance_spark.core.options import Section, from_span, read_toml
from lance_spark.core.reflog import DEFAULT_UNDO_WINDOW
from lance_spark.core.refs import MAIN
from lance_spark.core.show import counted, few, readable
from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.maintenance.expiry_rules import ExpiryOptions
from lance_spark.optimize.order_rules import Ordering, ordering_of

FSCK, COMPACTION, INDEXES, EXPIRY, CLEANUP = "fsck", "compaction", "indexes", "expiry", "cleanup"
STEPS = (FSCK, COMPACTION, INDEXES, EXPIRY, CLEANUP)
"""In the order in which they are done to a table. A check comes first: nothing is deleted from a damaged table. Refs
expire before the cleanup, which takes what only they needed. Compaction and indexes come before it, too: what they
replace goes as soon as the policy lets it."""
OF_BRANCHES = frozenset({COMPACTION, INDEXES})
"""Steps that are done to each branch; the others are done to the whole table."""
DESTRUCTIVE = frozenset({EXPIRY, CLEANUP})
"""Steps that delete."""


@dataclass(frozen=True)
class CompactionRule:
    """When a branch is compacted, and how."""

    target_rows: int = 1_000_000
    """Rows that a fragment should have."""
    small_fragments: int = 8
    """A branch is compacted when at least so many of its fragments would be rewritten."""
    own_only: bool = True
    """False: also fragments that a branch or a clone inherited, which copies them."""
    sort_by: tuple[str, ...] = ()
    """Columns that rows are sorted by; none keeps the order that they have."""
    zorder: tuple[str, ...] = ()
    """Or columns of a z-order."""

    @property
    def order(self) -> Ordering | None:
        """The order that rows get."""
        return ordering_of(self.sort_by or None, self.zorder or None)

    def __post_init__(self) -> None:
        _ = self.order  # raises for two of them
        for name in ("target_rows", "small_fragments"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"compaction.{name} must be 1 or more.")


@dataclass(frozen=True)
class IndexRule:
    """When the indexes of a branch are brought up to date."""

    stale_rows: int = 1
    """An index is when it lacks at least so many rows."""
    stale_percent: int = 0
    """And when these are at least so many per cent of all rows."""

    def __post_init__(self) -> None:
        if self.stale_rows < 1:
            raise InvalidOption("indexes.stale_rows must be 1 or more.")
        if not 0 <= self.stale_percent <= 100:
            raise InvalidOption("indexes.stale_percent must be from 0 to 100.")


@dataclass(frozen=True)
class FsckRule:
    """How often a table is checked."""

    every: timedelta = timedelta(days=7)
    deep: bool = False
    """Whether files are opened."""


@dataclass(frozen=True)
class BranchRules:
    """What one branch needs."""

    skip: frozenset[str]
    compaction: CompactionRule
    indexes: IndexRule


@dataclass(frozen=True)
class Layer:
    """What a policy says at one place: for everything, for tables of a pattern, or for branches of one."""

    skip: frozenset[str] = frozenset()
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, the fields of its rule that are given."""
    branches: Mapping[str, Layer] = field(default_factory=dict)

    def for_branch(self, branch: str | None) -> tuple[Layer, ...]:
        """The layer, and the first of its branches' that matches."""
        found = _first(self.branches, branch or MAIN)
        return (self,) if found is None else (self, found)


@dataclass(frozen=True)
class TablePolicy:
    """What is done to one table."""

    layers: tuple[Layer, ...]
    """Each says more than the one before."""
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)

    @property
    def skip(self) -> frozenset[str]:
        """Steps that are left out for the whole table."""
        return frozenset().union(*(layer.skip for layer in self.layers))

    @property
    def fsck(self) -> FsckRule:
        """How often it is checked."""
        return FsckRule(**_merged(self.layers, FSCK))

    @property
    def expiry(self) -> ExpiryOptions:
        """How refs expire.

        A longer ``undo_window`` of the cleanup counts here too, unless the policy says another one: what cleanups keep
        so that it can be restored must not expire before.
        """
        window = max(DEFAULT_UNDO_WINDOW, self.cleanup.undo_window)
        return ExpiryOptions(**{"undo_window": window, **_merged(self.layers, EXPIRY)})

    @property
    def kept_for_undo(self) -> CleanupPolicy:
        """The cleanup policy; a longer ``undo_window`` of the expiry counts there too."""
        given = _merged(self.layers, EXPIRY).get("undo_window", timedelta(0))
        return replace(self.cleanup, undo_window=max(given, self.cleanup.undo_window))

    def for_branch(self, branch: str | None) -> BranchRules:
        """What a branch needs (None for main)."""
        layers = tuple(each for layer in self.layers for each in layer.for_branch(branch))
        return BranchRules(
            frozenset().union(*(layer.skip for layer in layers)),
            CompactionRule(**_merged(layers, COMPACTION)),
            IndexRule(**_merged(layers, INDEXES)),
        )


@dataclass(frozen=True)
class MaintenancePolicy:
    """What is done to the tables of a lake; :func:`lance_spark.maintenance.rules.maintenance_policy` makes it."""

    everywhere: Layer = field(default_factory=Layer)
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)
    tables: Mapping[str, tuple[Layer, CleanupPolicy | None]] = field(default_factory=dict)
    """By name or pattern, the first that matches: what it says more, and the cleanup policy with its words in it."""

    def for_table(self, name: str) -> TablePolicy:
        """What is done to a table of that name."""
        found = _first(self.tables, name)
        if found is None:
            return TablePolicy((self.everywhere,), self.cleanup)
        layer, cleanup = found
        return TablePolicy((self.everywhere, layer), cleanup or self.cleanup)


def _first(patterns: Mapping[str, Any], name: str) -> Any:
    return next((value for pattern, value in patterns.items() if fnmatchcase(name, pattern)), None)


def _merged(layers: Iterable[Layer], step: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer.given.get(step, {}))
    return merged


# --- A maintenance policy from TOML, or from the same words as a dictionary
# Every key is checked.

_KEYS: Mapping[str, Mapping[str, str]] = {
    FSCK: {"every": "span", "deep": "flag"},
    COMPACTION: {
        "target_rows": "number",
        "small_fragments": "number",
        "own_only": "flag",
        "sort_by": "texts",
        "zorder": "texts",
    },
    INDEXES: {"stale_rows": "number", "stale_percent": "number"},
    EXPIRY: {"warn": "span", "undo_window": "span", "force": "flag"},
}
"""By step, the keys of its section and how they are read. The section of the cleanup is a cleanup policy."""
_POLICY = "the maintenance policy"


def parse_maintenance(text: str) -> MaintenancePolicy:
    """The policy that a TOML file describes; conf/maintenance-policy.toml shows all keys.

    Raises InvalidOption, naming the key, for text that is not TOML, an unknown key or a bad value.
    """
    return maintenance_policy(read_toml(text))


def maintenance_policy(given: Mapping[str, Any]) -> MaintenancePolicy:
    """The policy that a dictionary describes, in the words of the file. Raises InvalidOption."""
    file = Section(given, _POLICY)
    file.check(("skip", *STEPS, "branches", "tables"))
    tables = file.section("tables")
    policy = MaintenancePolicy(
        _layer(file, STEPS),
        policy_of(file.section(CLEANUP).given, f"{CLEANUP}."),
        {pattern: _table(tables.section(pattern), pattern, file.section(CLEANUP)) for pattern in tables.given},
    )
    _try_out(policy)
    return policy


def _table(section: Section, pattern: str, cleanup: Section) -> tuple[Layer, Any]:
    section.check(("skip", *STEPS, "branches"), f"table '{pattern}' in ")
    own = section.section(CLEANUP)
    # Words of its own replace the common ones; what it does not say is as for all tables.
    whole = policy_of({**cleanup.given, **own.given}, own.place) if own.given else None
    return _layer(section, STEPS), whole


def _layer(section: Section, steps: tuple[str, ...]) -> Layer:
    given = {step: _rule(section.section(step), step) for step in steps if step in _KEYS and step in section}
    branches = section.section("branches")
    return Layer(
        _skipped(section, steps), given, {name: _branch(branches.section(name), name) for name in branches.given}
    )


def _branch(section: Section, pattern: str) -> Layer:
    steps = tuple(step for step in STEPS if step in OF_BRANCHES)
    section.check(("skip", *steps), f"branch '{pattern}' in ")
    return _layer(section, steps)


def _rule(section: Section, step: str) -> dict[str, Any]:
    section.check(tuple(_KEYS[step]), f"section '{section.place[:-1]}' in ")
    return {name: getattr(section, how)(name) for name, how in _KEYS[step].items() if name in section}


def _skipped(section: Section, steps: tuple[str, ...]) -> frozenset[str]:
    names = section.texts("skip") if "skip" in section else ()
    for name in names:
        if name not in steps:
            raise InvalidOption(
                f"'{section.place}skip' in {_POLICY} names the step '{name}'.", hint=f"There are {', '.join(steps)}."
            )
    return frozenset(names)


def _try_out(policy: MaintenancePolicy) -> None:
    """Raise InvalidOption for values that cannot be, before anything is done to any table."""
    for layer in (None, *(table for table, _ in policy.tables.values())):
        rules = TablePolicy((policy.everywhere,) if layer is None else (policy.everywhere, layer))
        _ = rules.fsck, rules.expiry
        for each in rules.layers:
            for branch in ("*", *each.branches):
                rules.for_branch(branch)


# --- What is to be done to a table, and what became of it: one record a step

WOULD, DONE, NOTHING, LEFT, STOPPED, FAILED = "would", "done", "nothing", "left", "stopped", "failed"
STATES = (DONE, WOULD, NOTHING, LEFT, STOPPED, FAILED)
"""Done; to be done; nothing to do; left for the next time; kept from being done by a finding; it went wrong."""
LOOK = "look"
"""In the place of a step: there was no time to look at the table."""
_FEW = 5
"""Refs that are named."""
_STATES: Mapping[str, str] = {
    WOULD: "would",
    DONE: "",
    NOTHING: "",
    LEFT: "left for next time",
    STOPPED: "stopped",
    FAILED: "failed",
}


@dataclass(frozen=True)
class StepRecord:
    """One step of one table, as it is planned or as it ended."""

    step: str
    branch: str | None = None
    """Name of the branch; None for a step of the whole table."""
    state: str = WOULD
    why: str = ""
    """What is or was to be done; or why not."""
    fragments: int = 0
    """Fragments that are or were rewritten."""
    rows: int = 0
    """Rows that are or were indexed."""
    refs: int = 0
    """Refs that expire or did."""
    files: int = 0
    """Files that go or went."""
    freed: int = 0
    """Bytes that go or went."""
    written: int = 0
    """Bytes that are about to be written, or were."""
    error: str = ""
    exit_code: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """``compaction of exp/a``."""
        return self.step if self.branch is None else f"{self.step} of {self.branch}"

    def undone(self, state: str, why: str = "", error: str = "", exit_code: int = 0) -> StepRecord:
        """The record of a step that was planned and not done."""
        return StepRecord(self.step, self.branch, state, why or self.why, error=error, exit_code=exit_code)

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at it."""
        return self.state in (FAILED, STOPPED)

    def text(self) -> str:
        """What a table of steps says of it."""
        return ": ".join(part for part in (_STATES[self.state], self.error or self.why) if part)


@dataclass(frozen=True)
class KindSize:
    """Bytes of one kind of file in a table."""

    owned: int
    """Before the cleanup."""
    freed: int
    """What the cleanup takes or took of them."""


@dataclass(frozen=True)
class TableRecord:
    """One table, as it is planned or as it ended."""

    name: str
    uri: str
    steps: tuple[StepRecord, ...] = ()
    kinds: Mapping[str, KindSize] = field(default_factory=dict)
    """By kind of file; empty where the files were not listed."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """Findings of the last check by severity, if there was one in this run."""
    told: tuple[str, ...] = ()
    """A few of them, the worst first; and branches that stay although their time is over."""
    left_before: int = 0
    """In how many runs before, one after the other, something was left."""
    error: str = ""
    """Why nothing could be done to it."""
    exit_code: int = 0

    @property
    def freed(self) -> int:
        """Bytes that go or went."""
        return sum(step.freed for step in self.steps)

    @property
    def owned(self) -> int:
        """Bytes of its files before."""
        return sum(size.owned for size in self.kinds.values())

    @property
    def problems(self) -> list[str]:
        """What went wrong, and what keeps steps from being done."""
        told = [self.error] if self.error else []
        return told + [f"{step.name}: {step.error or step.why}" for step in self.steps if step.bad]

    @property
    def complete(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems

    @property
    def left(self) -> list[StepRecord]:
        """Steps that time did not allow."""
        return [step for step in self.steps if step.state == LEFT]

    @property
    def state(self) -> str:
        """The table in a word."""
        if self.error:
            return FAILED
        states = {step.state for step in self.steps}
        return next((state for state in (FAILED, STOPPED, LEFT, WOULD, DONE) if state in states), NOTHING)


def compaction(
    branch: str | None, sources: int, tasks: int, written: int, least: int, state: str = WOULD
) -> StepRecord:
    """The plan of a compaction."""
    name = branch or MAIN
    if sources < max(least, 1):
        why = f"{counted(sources, 'small fragment')}, fewer than {least:,}" if sources else "no small fragments"
        return StepRecord(COMPACTION, name, NOTHING, why)
    why = f"{counted(sources, 'fragment')} become about {tasks:,}, {readable(written)}"
    return StepRecord(COMPACTION, name, state, why, fragments=sources, written=written)


def indexes(branch: str | None, stale: Mapping[str, int], rows: int, least: int, percent: int) -> StepRecord:
    """The plan for the indexes of a branch, by the rows that each lacks, of so many."""
    lacking = {name: count for name, count in sorted(stale.items()) if count >= least and 100 * count >= percent * rows}
    if not lacking:
        total = sum(stale.values())
        why = f"{counted(total, 'row')} not in an index, too few" if total else "nothing is stale"
        return StepRecord(INDEXES, branch or MAIN, NOTHING, why)
    told = ", ".join(f"{name} lacks {counted(count, 'row')}" for name, count in lacking.items())
    return StepRecord(INDEXES, branch or MAIN, WOULD, told, rows=sum(lacking.values()))


def cleanup(versions: int, files: int, freed: int) -> StepRecord:
    """The plan of a cleanup."""
    if not files:
        return StepRecord(CLEANUP, None, NOTHING, "nothing to delete")
    why = f"{counted(versions, 'version')}, {counted(files, 'file')}, {readable(freed)}"
    return StepRecord(CLEANUP, None, WOULD, why, files=files, freed=freed)


def fsck(due: str) -> StepRecord:
    """The plan of a check; ``due`` says why it is, or is empty."""
    return StepRecord(FSCK, None, WOULD if due else NOTHING, due or "checked not long ago")


def expiry(expired: Sequence[str], warned: Sequence[str]) -> StepRecord:
    """The plan of an expiry: which refs go, and which are warned of."""
    parts = [f"{few(expired, _FEW)} to delete"] if expired else []
    parts += [f"{few(warned, _FEW)} to warn of"] if warned else []
    if not parts:
        return StepRecord(EXPIRY, None, NOTHING, "no ref's time is over")
    return StepRecord(EXPIRY, None, WOULD, "; ".join(parts), refs=len(expired))


def as_json(record: TableRecord) -> dict[str, Any]:
    """Plain values."""
    return {
        "table": record.name,
        "uri": record.uri,
        "state": record.state,
        "freed_bytes": record.freed,
        "owned_bytes": record.owned,
        "kinds": {kind: {"owned_bytes": size.owned, "freed_bytes": size.freed} for kind, size in record.kinds.items()},
        "findings": dict(record.findings),
        "told": list(record.told),
        "left_before": record.left_before,
        "error": record.error,
        "exit_code": record.exit_code,
        "steps": [vars(step) for step in record.steps],
    }


def not_looked_at(record: TableRecord) -> TableRecord:
    """The record of a table that is left without a look."""
    return replace(record, steps=(StepRecord(LOOK, None, LEFT, "there was no time to look at it"),))


def nothing_freed(kinds: Mapping[str, KindSize]) -> dict[str, KindSize]:
    """What is owned, before anything of it is freed."""
    return {kind: KindSize(size.owned, 0) for kind, size in kinds.items()}


# --- What one run leaves for the next: when each table was checked, and what was left
# Pure.

_FORMAT = 1
_NS = 10**9


@dataclass(frozen=True)
class Remembered:
    """What is known of one table."""

    checked_s: int | None = None
    """When it was checked, seconds since the epoch; None for never."""
    sound: bool = True
    """Whether that check found no damage."""
    left: int = 0
    """In how many runs, one after the other, something was left."""


@dataclass(frozen=True)
class Memory:
    """What is known of all tables, by URI."""

    tables: Mapping[str, Remembered] = field(default_factory=dict)

    def of(self, uri: str) -> Remembered:
        """What is known of a table."""
        return self.tables.get(uri, Remembered())

    def to_json(self) -> str:
        """All of it."""
        tables = {
            uri: {"checked": each.checked_s, "sound": each.sound, "left": each.left}
            for uri, each in sorted(self.tables.items())
        }
        return json.dumps({"format": _FORMAT, "tables": tables}, indent=1)


def read_memory(text: str) -> Memory:
    """The memory of a run before. Raises CorruptData for what is none."""
    try:
        told = json.loads(text)
        if told["format"] != _FORMAT:
            raise ValueError(f"format {told['format']!r}")
        tables = {
            str(uri): Remembered(
                None if each["checked"] is None else int(each["checked"]), bool(each["sound"]), int(each["left"])
            )
            for uri, each in told["tables"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CorruptData(
            f"The state of the last maintenance cannot be understood: {problem}.",
            hint="Delete the file: then every table is checked again, and nothing else is lost.",
        ) from None
    return Memory(tables)


def check_due(remembered: Remembered, rule: FsckRule, now_ns: int) -> str:
    """Why a table has to be checked now; "" if not yet. A table that was damaged is until it is sound."""
    if remembered.checked_s is None:
        return "never checked"
    if not remembered.sound:
        return "damaged the last time"
    age = timedelta(seconds=now_ns // _NS - remembered.checked_s)
    if age >= rule.every:
        return f"checked more than {from_span(rule.every)} ago" if rule.every else "every time"
    return ""


def remember(before: Memory, records: Iterable[TableRecord], now_ns: int) -> Memory:
    """What the next run has to know. Tables that this run did not look at are remembered as they were."""
    tables = dict(before.tables)
    for record in records:
        was = before.of(record.uri)
        check = next((step for step in record.steps if step.step == FSCK and step.state in (DONE, STOPPED)), None)
        left = was.left + 1 if record.left else 0
        # A cleanup that stumbles over damage between two checks: the next run has to check, before refs expire.
        damaged = any(step.exit_code == CorruptData.exit_code for step in record.steps)
        if check is None:
            tables[record.uri] = Remembered(was.checked_s, was.sound and not damaged, left)
        else:
            tables[record.uri] = Remembered(now_ns // _NS, check.state == DONE and not damaged, left)
    return Memory(tables)


# --- Which table is worth most, what keeps a step from being done, and what the next run has to know
# Pure.

SMALL_FRAGMENT = 4 * 1024**2
"""What a small fragment less is worth, in bytes freed: whoever reads the table waits for a request less, in which a
store sends about so much."""
STALE_ROW = 1024
"""What a row that queries need not look at one by one is worth, in bytes freed."""
CHECK = 64 * 1024**2
"""What a check that is due is worth: a small one of its own, as it opens the way for what deletes."""
EXPIRED_REF = 16 * 1024**2
"""What a ref less is worth beside the bytes that the cleanup frees afterwards, which nobody knows before."""
_MOST_DOUBLINGS = 30


def value_of(step: StepRecord) -> int:
    """What a planned step is worth, in bytes freed."""
    if step.state != WOULD:
        return 0
    worth = step.freed + SMALL_FRAGMENT * step.fragments + STALE_ROW * step.rows + EXPIRED_REF * step.refs
    return worth + (CHECK if step.step == FSCK else 0)


def table_value(record: TableRecord) -> int:
    """What a table's steps are worth. It doubles each time that something is left: nothing waits for ever."""
    return sum(map(value_of, record.steps)) << min(record.left_before, _MOST_DOUBLINGS)


def most_valuable_first(records: Iterable[TableRecord]) -> list[TableRecord]:
    """In the order in which they are worked on; by name where they are worth the same."""
    return sorted(records, key=lambda record: (-table_value(record), record.name))


def left_first(names: Mapping[str, str], memory: Memory) -> list[str]:
    """Names of tables in the order in which they are looked at, by their URIs: what was left most often comes first."""
    return sorted(names, key=lambda name: (-memory.of(names[name]).left, name))


def in_safe_order(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """The steps of a table in the order in which they are done; branches in the order in which they come."""
    return sorted(steps, key=lambda step: STEPS.index(step.step))


def obstacle(step: StepRecord, before: Sequence[StepRecord], remembered: Remembered, held_back: str = "") -> str:
    """Why a step must not be done after those ``before``; "" if it may.

    What deletes waits for a sound table: a check in this run, or else the last one, must have found nothing. It is
    ``held_back`` while something that may need the files cannot be looked at.
    """
    if step.step not in DESTRUCTIVE:
        return ""
    check = next((each for each in before if each.step == FSCK and each.state in (DONE, FAILED, STOPPED)), None)
    if check is None:
        return held_back if remembered.sound else "the last check found damage; run the check again once it is repaired"
    if check.state != DONE:
        return "the table could not be checked" if check.state == FAILED else check.why
    return held_back


def worth_again(step: StepRecord, before: Sequence[StepRecord]) -> bool:
    """Whether a step for which the plan had nothing to do may have something to do after those ``before``."""
    done = {(each.step, each.branch) for each in before if each.state == DONE}
    if step.step == INDEXES:
        return (COMPACTION, step.branch) in done  # rows in another order are not in every index any more
    return step.step == CLEANUP and (EXPIRY, None) in done
