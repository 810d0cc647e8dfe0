"""Policies of a maintenance, records of its steps, the memory between runs, and priorities. Pure.

In: a policy from TOML or a dictionary, and what was planned or done. Out: the rules for each table and branch, the
order of tables, and the reasons why a step must wait.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from lance_spark.cleanup.retention_rules import CleanupPolicy, policy_of
from lance_spark.core.declared import at, file_values, option
from lance_spark.core.patterns import unused
from lance_spark.core.policy_files import Section, read_toml
from lance_spark.core.records.reflog import DEFAULT_UNDO_WINDOW
from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import counted, few, from_span, readable
from lance_spark.core.words import CALLS_OF_MAINTENANCE, HintingType
from lance_spark.errors import CorruptData, InvalidOption, NotFound, PermissionDenied
from lance_spark.maintenance.expiry_rules import ExpiryOptions
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.order_rules import Ordering, ordering_of

FSCK, COMPACTION, INDEXES, EXPIRY, CLEANUP = "fsck", "compaction", "indexes", "expiry", "cleanup"
STEPS = (FSCK, COMPACTION, INDEXES, EXPIRY, CLEANUP)
"""In execution order. The check comes first: nothing is deleted from a damaged table. Refs expire before the cleanup,
which then removes what only they needed. Compaction and indexes also come before it: the files that they replace are
deleted as soon as the policy allows."""
OF_BRANCHES = frozenset({COMPACTION, INDEXES})
"""Steps that run on each branch; the others run on the whole table."""
DESTRUCTIVE = frozenset({EXPIRY, CLEANUP})


@dataclass(frozen=True)
class CompactionRule(OptimizeOptions):
    """When to compact a branch, and how. No columns to sort by, in a refinement, mean that rows keep their order."""

    small_fragments: int = option(
        8, "compact a branch when at least this many of its fragments would be rewritten", places=("file",)
    )

    @property
    def order(self) -> Ordering | None:
        return ordering_of(self.sort_by or None, self.zorder or None)

    def __post_init__(self) -> None:
        for name in ("target_rows", "small_fragments"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"compaction.{name} must be 1 or more.")
        super().__post_init__()


@dataclass(frozen=True)
class IndexRule:
    """When to update the indexes of a branch."""

    stale_rows: int = option(1, "update an index when it lacks at least this many rows")
    stale_percent: int = option(0, "and when these are at least this percentage of all rows")

    def __post_init__(self) -> None:
        if self.stale_rows < 1:
            raise InvalidOption("indexes.stale_rows must be 1 or more.")
        if not 0 <= self.stale_percent <= 100:
            raise InvalidOption("indexes.stale_percent must be from 0 to 100.")


@dataclass(frozen=True)
class FsckRule:
    """How often to check a table."""

    every: timedelta = option(timedelta(days=7), "how often a table is checked")
    deep: bool = option(False, "whether the check opens files")


@dataclass(frozen=True)
class BranchRules:
    skip: frozenset[str]
    compaction: CompactionRule
    indexes: IndexRule


@dataclass(frozen=True)
class Layer:
    """One level of a policy: for everything, for tables of a pattern, or for branches of a pattern."""

    skip: frozenset[str] = frozenset()
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The given fields of rules, by step."""
    branches: Mapping[str, Layer] = field(default_factory=dict)

    def for_branch(self, branch: str | None) -> tuple[Layer, ...]:
        """The layer, and the first matching layer of its branches."""
        found = _first(self.branches, branch or MAIN)
        return (self,) if found is None else (self, found)


@dataclass(frozen=True)
class TablePolicy:
    layers: tuple[Layer, ...]
    """Each refines the one before."""
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)

    @property
    def skip(self) -> frozenset[str]:
        """Steps that are left out for the whole table."""
        return frozenset().union(*(layer.skip for layer in self.layers))

    @property
    def fsck(self) -> FsckRule:
        return FsckRule(**_merged(self.layers, FSCK))

    @property
    def expiry(self) -> ExpiryOptions:
        """How refs expire.

        A longer ``undo_window`` of the cleanup also applies here unless the policy sets another one: files that
        cleanups keep for a restore must not expire earlier.
        """
        window = max(DEFAULT_UNDO_WINDOW, self.cleanup.undo_window)
        return ExpiryOptions(**{"undo_window": window, **_merged(self.layers, EXPIRY)})

    @property
    def kept_for_undo(self) -> CleanupPolicy:
        """The cleanup policy; a longer ``undo_window`` of the expiry also applies here."""
        given = _merged(self.layers, EXPIRY).get("undo_window", timedelta(0))
        return replace(self.cleanup, undo_window=max(given, self.cleanup.undo_window))

    def for_branch(self, branch: str | None) -> BranchRules:
        layers = tuple(each for layer in self.layers for each in layer.for_branch(branch))
        return BranchRules(
            frozenset().union(*(layer.skip for layer in layers)),
            CompactionRule(**_merged(layers, COMPACTION)),
            IndexRule(**_merged(layers, INDEXES)),
        )


@dataclass(frozen=True)
class MaintenancePolicy(metaclass=HintingType):
    """The policy for the tables of a lake; :func:`lance_spark.maintenance.policy_rules.maintenance_policy` makes it."""

    _calls = CALLS_OF_MAINTENANCE

    everywhere: Layer = field(default_factory=Layer)
    cleanup: CleanupPolicy = field(default_factory=CleanupPolicy)
    tables: Mapping[str, tuple[Layer, CleanupPolicy | None]] = field(default_factory=dict)
    """By name or pattern, first match wins: the refinements, and the cleanup policy that includes them."""

    def for_table(self, name: str) -> TablePolicy:
        found = _first(self.tables, name)
        if found is None:
            return TablePolicy((self.everywhere,), self.cleanup)
        layer, cleanup = found
        return TablePolicy((self.everywhere, layer), cleanup or self.cleanup)


def check_tables(policy: MaintenancePolicy, tables: Collection[str]) -> tuple[str, ...]:
    """Notes on the patterns of a policy that match none of a catalog's tables.

    Raises NotFound for a name that matches none: a misspelled one would leave its table to the common rules, and an
    archive would be cleaned.
    """
    notes = []
    for each in unused(policy.tables, tables):
        said = f"'{each.text}' in the policy's tables {each.why('table')}"
        if not each.is_pattern:
            raise NotFound(f"{said}. Nothing was done.", hint=each.way_out(tables))
        notes.append(said)
    return tuple(notes)


def check_only_table(policy: MaintenancePolicy, name: str) -> tuple[str, ...]:
    """The same for a single dataset, which goes by the name of its directory; other tables of a policy are elsewhere.

    Raises NotFound if the policy has the dataset's name only inside of a namespace.
    """
    if not policy.tables or _first(policy.tables, name) is not None:
        return ()
    inside = next((text for text in policy.tables if text.rpartition(".")[2].strip("`") == name), None)
    if inside is not None:
        raise NotFound(
            f"The policy has rules for table '{inside}', but a single dataset goes by the name of its directory, "
            f"'{name}', and would not get them. Nothing was done.",
            hint=f"Name the catalog, with --table '{inside}'; or give the policy a table '{name}'.",
        )
    return (f"no table of the policy matches '{name}'; the common rules applied",)


def unused_branches(policy: MaintenancePolicy, branches: Mapping[str, Collection[str]]) -> list[str]:
    """Notes on rules for branches that apply to none, given the branches of each table."""
    everywhere = {name for names in branches.values() for name in names}
    layers = [("", policy.everywhere, policy.cleanup, everywhere)]
    for text, (layer, cleanup) in policy.tables.items():
        mine = {name for table, names in branches.items() if fnmatchcase(table, text) for name in names}
        layers += [(f" of '{text}'", layer, cleanup or CleanupPolicy(), mine)] if mine else []
    return [
        f"the policy's rule for branch '{each.text}'{kind}{where} {each.why('branch')}"
        for where, layer, cleanup, names in layers
        for kind, texts in (("", layer.branches), (f" in '{CLEANUP}'", cleanup.branches))
        for each in unused(texts, names)
    ]


def _first(patterns: Mapping[str, Any], name: str) -> Any:
    return next((value for pattern, value in patterns.items() if fnmatchcase(name, pattern)), None)


def _merged(layers: Iterable[Layer], step: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer.given.get(step, {}))
    return merged


# --- A policy from TOML, or from a dictionary with the same keys
# Every key is checked.

_RULES: Mapping[str, type] = {
    FSCK: FsckRule,
    COMPACTION: CompactionRule,
    INDEXES: IndexRule,
    EXPIRY: ExpiryOptions,
}
"""By step, what declares the keys of its section. The section of the cleanup is a cleanup policy."""
_POLICY = "the maintenance policy"
_OF_CLEANUP = frozenset({*(each.key for each in at(CleanupPolicy, "file")), "tags"})
"""Keys of a policy for a cleanup alone."""


def parse_maintenance(text: str) -> MaintenancePolicy:
    """Parse the policy in a TOML file; conf/maintenance-policy.toml shows all keys.

    Raises InvalidOption, which names the key, for invalid TOML, an unknown key or a bad value.
    """
    return maintenance_policy(read_toml(text))


def maintenance_policy(given: Mapping[str, Any]) -> MaintenancePolicy:
    """The policy from a dictionary with the keys of the file. Raises InvalidOption."""
    file = Section(given, _POLICY)
    known = ("skip", *STEPS, "branches", "tables")
    alien = next((key for key in given if key not in known and key in _OF_CLEANUP), None)
    if alien is not None:
        raise InvalidOption(
            f"'{alien}' is a setting of a cleanup, not of all of a maintenance.", hint="Put it below [cleanup]."
        )
    file.check(known)
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
    # The table's own keys replace the common ones; missing keys are the same as for all tables.
    whole = policy_of({**cleanup.given, **own.given}, own.place) if own.given else None
    return _layer(section, STEPS), whole


def _layer(section: Section, steps: tuple[str, ...]) -> Layer:
    given = {step: _rule(section.section(step), step) for step in steps if step in _RULES and step in section}
    branches = section.section("branches")
    return Layer(
        _skipped(section, steps), given, {name: _branch(branches.section(name), name) for name in branches.given}
    )


def _branch(section: Section, pattern: str) -> Layer:
    steps = tuple(step for step in STEPS if step in OF_BRANCHES)
    section.check(("skip", *steps), f"branch '{pattern}' in ")
    return _layer(section, steps)


def _rule(section: Section, step: str) -> dict[str, Any]:
    options = at(_RULES[step], "file")
    section.check(tuple(each.key for each in options), f"section '{section.place[:-1]}' in ")
    return file_values(options, section)


def _skipped(section: Section, steps: tuple[str, ...]) -> frozenset[str]:
    names = section.texts("skip") if "skip" in section else ()
    for name in names:
        if name not in steps:
            raise InvalidOption(
                f"'{section.place}skip' in {_POLICY} names the step '{name}'.", hint=f"There are {', '.join(steps)}."
            )
    return frozenset(names)


def _try_out(policy: MaintenancePolicy) -> None:
    """Raise InvalidOption for invalid values before any table is changed."""
    for layer in (None, *(table for table, _ in policy.tables.values())):
        rules = TablePolicy((policy.everywhere,) if layer is None else (policy.everywhere, layer))
        _ = rules.fsck, rules.expiry
        for each in rules.layers:
            for branch in ("*", *each.branches):
                rules.for_branch(branch)


# --- Records: the plan or result of each step

WOULD, DONE, NOTHING, LEFT, STOPPED, FAILED = "would", "done", "nothing", "left", "stopped", "failed"
STATES = (DONE, WOULD, NOTHING, LEFT, STOPPED, FAILED)
"""Done; to be done; nothing to do; left for next time; blocked by a finding; failed."""
LOOK = "look"
"""In place of a step: there was no time to examine the table."""
_FEW = 5
"""Number of refs that are named."""
_STATES: Mapping[str, str] = {
    DONE: "",
    NOTHING: "",
    LEFT: "left for next time",
    STOPPED: "not done",
    FAILED: "failed",
}
_PLANNED: Mapping[str, str] = {
    FSCK: "would check",
    COMPACTION: "would compact",
    INDEXES: "would index",
    EXPIRY: "would expire refs",
    CLEANUP: "would delete",
}
_DAMAGED = "damaged"
"""In place of "not done" for a check: it was done, and what it found stops other steps."""


@dataclass(frozen=True)
class StepRecord:
    step: str
    branch: str | None = None
    """Name of the branch; None for a step of the whole table."""
    state: str = WOULD
    why: str = ""
    """What is planned or done, or why not."""
    fragments: int = 0
    """Fragments that are to be, or were, rewritten."""
    rows: int = 0
    """Rows that are to be, or were, indexed."""
    refs: int = 0
    files: int = 0
    """Files that are to be, or were, deleted."""
    freed: int = 0
    """Bytes that are to be, or were, freed."""
    written: int = 0
    """Bytes that are to be, or were, written."""
    error: str = ""
    hint: str = ""
    """What to do about an error or damage."""
    exit_code: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """``compaction of exp/a``."""
        return self.step if self.branch is None else f"{self.step} of {self.branch}"

    def undone(self, state: str, why: str = "") -> StepRecord:
        """The record of a step that was planned but not done."""
        return StepRecord(self.step, self.branch, state, why or self.why)

    def failed(self, error: str, hint: str, exit_code: int) -> StepRecord:
        """The record of a step that was planned and failed."""
        return StepRecord(self.step, self.branch, FAILED, self.why, error=error, hint=hint, exit_code=exit_code)

    @property
    def bad(self) -> bool:
        return self.state in (FAILED, STOPPED)

    def text(self) -> str:
        """The text for a table of steps."""
        state = _PLANNED.get(self.step, WOULD) if self.state == WOULD else _STATES[self.state]
        state = _DAMAGED if (self.step, self.state) == (FSCK, STOPPED) else state
        return ": ".join(part for part in (state, self.error or self.why) if part)

    @property
    def problem(self) -> str:
        """What went wrong, and what to do; for a step that needs attention."""
        said = f"{self.name}: {self.error or self.why}"
        return f"{said}{'' if said.endswith(('.', '?', '!')) else '.'} {self.hint}" if self.hint else said


@dataclass(frozen=True)
class KindSize:
    """Bytes of one kind of file in a table."""

    owned: int
    """Bytes before the cleanup."""
    freed: int
    """Bytes that the cleanup frees or freed."""


@dataclass(frozen=True)
class TableRecord:
    name: str
    uri: str
    steps: tuple[StepRecord, ...] = ()
    kinds: Mapping[str, KindSize] = field(default_factory=dict)
    """By kind of file; empty if the files were not listed."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """Findings of the check in this run, by severity; empty without a check."""
    told: tuple[str, ...] = ()
    """A few of the findings, worst first; and expired branches that stay."""
    left_before: int = 0
    """Number of previous runs in a row that left something undone."""
    branches: frozenset[str] = frozenset()
    """Names of its branches, with main; empty if they were not read."""
    error: str = ""
    """Why the table could not be maintained."""
    exit_code: int = 0

    @property
    def freed(self) -> int:
        """Bytes that are to be, or were, freed."""
        return sum(step.freed for step in self.steps)

    @property
    def owned(self) -> int:
        return sum(size.owned for size in self.kinds.values())

    @property
    def problems(self) -> list[str]:
        told = [self.error] if self.error else []
        return told + [step.problem for step in self.steps if step.bad]

    @property
    def complete(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems

    @property
    def left(self) -> list[StepRecord]:
        """Steps for which there was no time."""
        return [step for step in self.steps if step.state == LEFT]

    @property
    def state(self) -> str:
        if self.error:
            return FAILED
        states = {step.state for step in self.steps}
        return next((state for state in (FAILED, STOPPED, LEFT, WOULD, DONE) if state in states), NOTHING)


def compaction(branch: str | None, sources: int, tasks: int, written: int, least: int) -> StepRecord:
    name = branch or MAIN
    if sources < max(least, 1):
        why = f"{counted(sources, 'small fragment')}, fewer than {least:,}" if sources else "no small fragments"
        return StepRecord(COMPACTION, name, NOTHING, why)
    why = f"{counted(sources, 'fragment')} become about {tasks:,}, {readable(written)}"
    return StepRecord(COMPACTION, name, WOULD, why, fragments=sources, written=written)


def indexes(branch: str | None, stale: Mapping[str, int], rows: int, least: int, percent: int) -> StepRecord:
    """The plan for the indexes of a branch, given the rows that each lacks and the number of all rows."""
    lacking = {name: count for name, count in sorted(stale.items()) if count >= least and 100 * count >= percent * rows}
    if not lacking:
        total = sum(stale.values())
        why = f"{counted(total, 'row')} not in an index, too few" if total else "nothing is stale"
        return StepRecord(INDEXES, branch or MAIN, NOTHING, why)
    told = ", ".join(f"{name} lacks {counted(count, 'row')}" for name, count in lacking.items())
    return StepRecord(INDEXES, branch or MAIN, WOULD, told, rows=sum(lacking.values()))


def cleanup(versions: int, files: int, freed: int) -> StepRecord:
    if not files:
        return StepRecord(CLEANUP, None, NOTHING, "nothing to delete")
    why = f"{counted(versions, 'version')}, {counted(files, 'file')}, {readable(freed)}"
    return StepRecord(CLEANUP, None, WOULD, why, files=files, freed=freed)


def fsck(due: str) -> StepRecord:
    """The plan of a check; ``due`` is the reason for one, or empty."""
    return StepRecord(FSCK, None, WOULD if due else NOTHING, due or "checked not long ago")


def expiry(expired: Sequence[str], warned: Sequence[str]) -> StepRecord:
    """The plan of an expiry: which refs to delete, and which to warn about."""
    parts = [f"{few(expired, _FEW)} to delete"] if expired else []
    parts += [f"{few(warned, _FEW)} to warn of"] if warned else []
    if not parts:
        return StepRecord(EXPIRY, None, NOTHING, "no ref's time is over")
    return StepRecord(EXPIRY, None, WOULD, "; ".join(parts), refs=len(expired))


def as_json(record: TableRecord) -> dict[str, Any]:
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
    """The record of a table that was not examined."""
    return replace(record, steps=(StepRecord(LOOK, None, LEFT, "there was no time to look at it"),))


def nothing_freed(kinds: Mapping[str, KindSize]) -> dict[str, KindSize]:
    return {kind: KindSize(size.owned, 0) for kind, size in kinds.items()}


# --- Memory between runs

_FORMAT = 1
_NS = 10**9


@dataclass(frozen=True)
class Remembered:
    checked: int | None = None
    """When it was checked, in seconds since the epoch; None for never."""
    sound: bool = True
    """Whether that check found it sound."""
    left: int = 0
    """Number of runs in a row that left something undone."""


@dataclass(frozen=True)
class Memory:
    tables: Mapping[str, Remembered] = field(default_factory=dict)

    def of(self, uri: str) -> Remembered:
        return self.tables.get(uri, Remembered())

    def to_json(self) -> str:
        tables = {uri: asdict(each) for uri, each in sorted(self.tables.items())}
        return json.dumps({"format": _FORMAT, "tables": tables}, indent=1)


def read_memory(text: str) -> Memory:
    """Parse the memory of an earlier run. Raises CorruptData for invalid text."""
    try:
        told = decode_json(text)
        if told["format"] != _FORMAT:
            raise ValueError(f"format {told['format']!r}")
        stored = {uri: [each[name] for name in ("checked", "sound", "left")] for uri, each in told["tables"].items()}
        return Memory({uri: read_as(Remembered, each) for uri, each in stored.items()})
    except UNREADABLE as problem:
        raise CorruptData(
            f"The state of the last maintenance cannot be read: {problem}.",
            hint="Delete the file. Then every table is checked again; nothing else is lost.",
        ) from None


def check_due(remembered: Remembered, rule: FsckRule, now_ns: int) -> str:
    """Why a table must be checked now; "" if not yet. A damaged table stays due until it is sound."""
    if remembered.checked is None:
        return "never checked"
    if not remembered.sound:
        return "damaged the last time"
    age = timedelta(seconds=now_ns // _NS - remembered.checked)
    if age >= rule.every:
        return f"checked more than {from_span(rule.every)} ago" if rule.every else "every time"
    return ""


def remember(before: Memory, records: Iterable[TableRecord], now_ns: int) -> Memory:
    """The memory for the next run. Tables that this run did not examine keep theirs."""
    tables = dict(before.tables)
    for record in records:
        was = before.of(record.uri)
        check = next((step for step in record.steps if step.step == FSCK and step.state in (DONE, STOPPED)), None)
        left = was.left + 1 if record.left else 0
        # If a cleanup finds damage between two checks, the next run must check before refs expire.
        damaged = any(step.exit_code == CorruptData.exit_code for step in record.steps)
        if check is None:
            tables[record.uri] = Remembered(was.checked, was.sound and not damaged, left)
        else:
            tables[record.uri] = Remembered(now_ns // _NS, check.state == DONE and not damaged, left)
    return Memory(tables)


# --- Priorities of tables, and obstacles to steps

SMALL_FRAGMENT = 4 * 1024**2
"""Value of one small fragment less, in bytes freed: every reader saves a request, in which time a store sends about
this much."""
STALE_ROW = 1024
"""Value of one row that queries need not scan, in bytes freed."""
CHECK = 64 * 1024**2
"""Value of a check that is due: small by itself, but it allows the steps that delete."""
EXPIRED_REF = 16 * 1024**2
"""Value of one ref less, in addition to the bytes that the cleanup frees afterwards, which are unknown in advance."""
_MOST_DOUBLINGS = 30


def value_of(step: StepRecord) -> int:
    """The value of a planned step, in bytes freed."""
    if step.state != WOULD:
        return 0
    worth = step.freed + SMALL_FRAGMENT * step.fragments + STALE_ROW * step.rows + EXPIRED_REF * step.refs
    return worth + (CHECK if step.step == FSCK else 0)


def table_value(record: TableRecord) -> int:
    """The value of a table's steps. It doubles whenever something is left undone, so that nothing waits forever."""
    return sum(map(value_of, record.steps)) << min(record.left_before, _MOST_DOUBLINGS)


def most_valuable_first(records: Iterable[TableRecord]) -> list[TableRecord]:
    return sorted(records, key=lambda record: (-table_value(record), record.name))


def left_first(names: Mapping[str, str], memory: Memory) -> list[str]:
    """Names of tables in the order of examination, by their URIs: most often left undone first."""
    return sorted(names, key=lambda name: (-memory.of(names[name]).left, name))


def in_safe_order(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """The steps of a table in execution order; branches keep their order."""
    return sorted(steps, key=lambda step: STEPS.index(step.step))


def obstacle(step: StepRecord, before: Sequence[StepRecord], remembered: Remembered, held_back: str = "") -> str:
    """Why a step must not run after those ``before``; "" if it may.

    Deletion requires a sound table: the check in this run, or else the last one, must have found nothing. It is
    ``held_back`` while something that may need the files cannot be examined.
    """
    if step.step not in DESTRUCTIVE:
        return ""
    check = next((each for each in before if each.step == FSCK and each.state in (DONE, FAILED, STOPPED)), None)
    if check is None:
        return held_back if remembered.sound else "the last check found damage; run the check again after a repair"
    if check.state != DONE:
        return "the table could not be checked" if check.state == FAILED else "the check found damage"
    return held_back


def stopped(step: StepRecord, why: str, code: int) -> StepRecord:
    """The record of a step that was stopped by something that ended with an exit code.

    Only a missing permission is handed on: the run then ends with its code, as what waits for it needs nothing else.
    Damage is not: the memory would take the table of the step for a damaged one.
    """
    return replace(step.undone(STOPPED, why), exit_code=code if code == PermissionDenied.exit_code else 0)


def worth_again(step: StepRecord, before: Sequence[StepRecord]) -> bool:
    """Whether a step that had nothing to do in the plan may have something to do after those ``before``."""
    done = {(each.step, each.branch) for each in before if each.state == DONE}
    if step.step == INDEXES:
        return (COMPACTION, step.branch) in done  # rows in another order may be missing from indexes
    return step.step == CLEANUP and (EXPIRY, None) in done
