"""Cleanup policies, and the verdict on every version: it stays, for a reason, or it is removed. Pure.

In: a policy, from Python or TOML, and a survey of the dataset. Out: which versions of each chain stay, and why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args

from lance_spark import hints
from lance_spark.core import refs
from lance_spark.core.declared import at, declared, file_values, option
from lance_spark.core.lifetimes import Lifetime
from lance_spark.core.options import names_of
from lance_spark.core.patterns import unused
from lance_spark.core.policy_files import Section, read_toml
from lance_spark.core.records.reflog import DEFAULT_UNDO_WINDOW
from lance_spark.core.records.tracking import merged_versions
from lance_spark.core.ref_names import is_frozen_tag, is_lake_tag, is_own_tag, is_stream_tag, missing
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import counted, to_span
from lance_spark.core.words import CALLS_OF_POLICIES, HintingType
from lance_spark.errors import InvalidOption, Refused
from lance_spark.survey.chain_rules import Chain, Survey, VersionFile, first_unread

DEFAULT_OLDER_THAN = timedelta(days=14)
DEFAULT_UNVERIFIED_AGE = timedelta(days=7)
DEFAULT_COMMIT_WINDOW = timedelta(days=1)

OnTagged = Literal["error", "keep"]


def _take_spans(rule: object, *names: str) -> None:
    """Spans as policy files spell them are spans. Raises InvalidOption for anything else."""
    for name in names:
        given = getattr(rule, name)
        if isinstance(given, str):
            object.__setattr__(rule, name, to_span(name, given))
        elif given is not None and not isinstance(given, timedelta):
            raise InvalidOption(f"{name} is {given!r}.", hint="Give a timedelta, or a text such as '36h' or '14d'.")
        elif given is not None and given < timedelta(0):
            raise InvalidOption(f"{name} cannot be negative.", hint="Give an age, such as timedelta(days=14) or '14d'.")


@dataclass(frozen=True)
class VersionRule:
    """Which versions of one branch are removed. All given conditions must hold (specification "Version Cleanup")."""

    older_than: timedelta | None = None
    """Versions committed longer ago than this; zero means every version."""
    before_version: int | None = None
    retain_versions: int | None = None
    """All but this many of the newest versions."""
    versions: frozenset[int] | None = None
    """Exactly these; numbers that do not exist are ignored."""

    def __post_init__(self) -> None:
        _take_spans(self, "older_than")
        if self.before_version is not None and self.before_version < 1:
            raise InvalidOption("before_version must be 1 or more.")
        if self.retain_versions is not None and self.retain_versions < 1:
            raise InvalidOption("retain_versions must be 1 or more.", hint="The newest version always stays.")
        if self.versions is not None and not self.versions:
            raise InvalidOption("versions is empty.", hint="Name the versions to remove, or leave the option out.")

    @property
    def is_empty(self) -> bool:
        return (self.older_than, self.before_version, self.retain_versions, self.versions) == (None, None, None, None)

    @property
    def names_numbers(self) -> bool:
        """Whether it selects versions by number, which makes sense on a single branch only."""
        return self.before_version is not None or self.versions is not None


@dataclass(frozen=True)
class CleanupPolicy(metaclass=HintingType):
    """What may be removed from a dataset: versions of main and all branches, and files that no version names.

    ``older_than``, ``before_version``, ``retain_versions`` and ``versions`` are those of :class:`VersionRule` and mean
    the same as in pylance. If none of them is given, versions older than 14 days are removed. ``before_version`` and
    ``versions`` apply to main alone, as the same number is another version on each branch. For a branch, add a rule to
    ``branches``. Spans are also taken as text, such as "36h".
    """

    _calls = CALLS_OF_POLICIES

    older_than: timedelta | None = option(
        None, "versions committed longer ago than this, such as 36h; 14d if no other condition is given"
    )
    before_version: int | None = option(None, "versions with a lower number, on main")
    retain_versions: int | None = option(None, "all but the N newest versions of each branch")
    versions: frozenset[int] | None = option(None, "exactly these versions, on main", flag="version")
    commit_window: timedelta = option(
        DEFAULT_COMMIT_WINDOW,
        "versions this young stay, and the one before them; at least the longest job that commits to the dataset",
    )
    """Versions committed within this span stay, and the one before them, regardless of the rules. Make it at least as
    long as the longest job that commits to the dataset. Lance detects conflicts from the versions that were committed
    since a job began. It misses a conflict with a version that was removed meanwhile: rows that this version deleted
    come back. Use zero only while no other job commits."""
    undo_window: timedelta = option(
        DEFAULT_UNDO_WINDOW, "how long moved and deleted tags and deleted branches can be restored; 0s gives that up"
    )
    """How long a version stays after its tag was moved or deleted, or after a branch made from it was deleted with its
    files kept, so that the tag or branch can be restored. Zero disables this."""
    delete_unverified: bool = option(
        False, "delete files that no version names at any age; only safe while no job writes"
    )
    unverified_age: timedelta = option(
        DEFAULT_UNVERIFIED_AGE, "the age at which files that no version names are deleted; at least the longest job"
    )
    error_if_tagged_old_versions: bool = option(
        True,
        "if a version that would be deleted is tagged: refuse to run, or keep the version",
        key="on_tagged",
        choices={"error": True, "keep": False},
    )
    keep_fork_versions: bool = option(
        True,
        "keep the versions that branches were made from, which merging them needs",
        flag="drop-fork-versions",
        switch_off="delete the versions that branches were made from if nothing else keeps them",
    )
    clones: tuple[str, ...] = option(
        (), "a shallow clone that is not recorded; what it needs stays", flag="clone", metavar="URI"
    )
    clones_from: tuple[str, ...] = option((), "a directory; all datasets below it are taken for clones", metavar="URI")
    known_bases: tuple[str, ...] = option(
        (),
        "a base path that may lead nowhere, with all below it; any other stops the run",
        flag="known-base",
        metavar="URI",
    )
    branches: Mapping[str, VersionRule] = field(default_factory=dict)
    """Rules for branches by name or pattern (``exp/*``). The first match replaces the rule above. An empty rule also
    means 14 days."""
    only_branches: Sequence[str] = option(
        (),
        "clean only this branch, or those of a pattern, and write nowhere else",
        flag="branch",
        key="branches",
        places=("job", "shell", "sql"),
    )
    """Names or patterns (``exp/*``) of the only branches to clean; empty for the whole dataset. Then nothing outside
    the directories of these branches is deleted or written. Everything else is still read: all versions, tags and
    clones decide what may be removed."""
    tags: Mapping[str, OnTagged] = field(default_factory=dict)
    """The effect of a tag of that name or pattern on a version to be removed: ``error`` or ``keep``."""

    def __post_init__(self) -> None:
        _take_spans(self, "older_than", "commit_window", "undo_window", "unverified_age")
        for name in ("clones", "clones_from", "known_bases"):
            object.__setattr__(self, name, names_of(getattr(self, name)))
        if self.versions is not None:
            object.__setattr__(self, "versions", frozenset(self.versions))
        if isinstance(self.only_branches, str):
            object.__setattr__(self, "only_branches", (self.only_branches,))
        object.__setattr__(self, "only_branches", tuple(self.only_branches))
        for pattern, choice in self.tags.items():
            if choice not in get_args(OnTagged):
                raise InvalidOption(f"The rule for tags '{pattern}' is {choice!r}.", hint="Use 'error' or 'keep'.")
        self._rule()  # raises for invalid values

    def rule_for(self, branch: str | None) -> VersionRule | None:
        """The rule for a branch (None for main); None if nothing is removed."""
        if not self.takes(branch):
            return None
        for pattern, rule in self.branches.items():
            if fnmatchcase(branch or MAIN, pattern):
                return _or_default(rule)
        rule = self._rule()
        if branch is None or not rule.names_numbers:
            return rule
        return None

    def takes(self, branch: str | None) -> bool:
        """Whether a branch (None for main) is cleaned at all."""
        return not self.only_branches or any(fnmatchcase(branch or MAIN, pattern) for pattern in self.only_branches)

    def on_tagged(self, tag: str) -> OnTagged:
        """The effect of a tag on a version to be removed."""
        for pattern, choice in self.tags.items():
            if fnmatchcase(tag, pattern):
                return choice
        return "error" if self.error_if_tagged_old_versions else "keep"

    def _rule(self) -> VersionRule:
        return _or_default(VersionRule(self.older_than, self.before_version, self.retain_versions, self.versions))


def of_branches(policy: CleanupPolicy | None, branches: Sequence[str] | str) -> CleanupPolicy:
    """The policy (None for the default) limited to these branches, if any are given; one string is one branch."""
    base = CleanupPolicy() if policy is None else policy
    if not isinstance(base, CleanupPolicy):
        raise InvalidOption(
            f"A cleanup takes a CleanupPolicy, not {base!r}.",
            hint="For example CleanupPolicy(older_than=timedelta(days=7)).",
        )
    return replace(base, only_branches=branches) if branches else base


def _or_default(rule: VersionRule) -> VersionRule:
    # No condition at all would hold for every version.
    return replace(rule, older_than=DEFAULT_OLDER_THAN) if rule.is_empty else rule


# --- Policies from TOML
# Every key is checked: a misspelled key would silently mean the default.

_RULE = ("older_than", "before_version", "retain_versions", "versions")


_OF_MAINTENANCE = frozenset({"skip", "fsck", "compaction", "indexes", "expiry", "cleanup", "tables"})
"""Sections of a maintenance's policy, one of which is the policy of a cleanup."""


def parse_policy(text: str) -> CleanupPolicy:
    """Parse the policy in a TOML file; conf/cleanup-policy.toml shows all keys.

    Raises InvalidOption, which names the key, for invalid TOML, an unknown key or a bad value.
    """
    return policy_of(read_toml(text))


def policy_of(given: Mapping[str, Any], place: str = "") -> CleanupPolicy:
    """The policy in the tables of a TOML file. ``place`` is the name of the table with a trailing dot."""
    policy = Section(given, "the cleanup policy", place)
    options = at(CleanupPolicy, "file")
    known = {*(each.key for each in options), "branches", "tags"}
    alien = next((key for key in given if not place and key in _OF_MAINTENANCE and key not in known), None)
    if alien is not None:
        raise InvalidOption(
            f"'{alien}' belongs to the policy of a maintenance, and this one is for a cleanup alone.",
            hint="Write what is below [cleanup] there at the top of a file of its own, or run the maintenance.",
        )
    policy.check(known)
    values = file_values(options, policy)
    branches, tags = policy.section("branches"), policy.section("tags")
    values["branches"] = {pattern: _branch_rule(branches, pattern) for pattern in branches.given}
    values["tags"] = {pattern: tags.choice(pattern, get_args(OnTagged)) for pattern in tags.given}
    return CleanupPolicy(**values)


def _branch_rule(branches: Section, pattern: str) -> VersionRule:
    rule = branches.section(pattern)
    rule.check(_RULE, f"branch '{pattern}' in ")
    return VersionRule(**file_values((each for each in declared(CleanupPolicy) if each.name in _RULE), rule))


# --- Verdicts: which versions stay, and why
# Pure. The order of checks is that of the specification.

CLOCK_MARGIN = timedelta(hours=1)
"""How far the clock of a store may lag behind that of a writer."""
_NANOSECONDS = 1_000
"""Per microsecond."""
LATEST, TAGGED, READ, FORK, MERGED, JOB, RETAINED, UNDO, BY_POLICY, CLONE, DETACHED, NO_REF = (
    "latest",
    "tagged",
    "a stream has yet to read it",
    "fork of a branch",
    "base of the next merge",
    "a job under way may need it",
    "retained by its branch",
    "may be restored",
    "by the policy",
    "of a clone",
    "detached",
    "branch without a ref",
)

Ages = Mapping[int, Mapping[int, int]]
"""Commit time (nanoseconds since the epoch, from the manifest) by chain and position."""


@dataclass(frozen=True)
class Verdict:
    """Which versions of one chain stay, by position."""

    kept: tuple[bool, ...]
    reasons: Mapping[str, int]
    """How many versions stay, by reason."""

    @property
    def removed(self) -> tuple[int, ...]:
        """Positions of the versions to remove, ascending."""
        return tuple(position for position, kept in enumerate(self.kept) if not kept)


@dataclass(frozen=True)
class RunClock:
    """The time when a run began, by the clock of its machine."""

    now_ns: int

    def before(self, age: timedelta) -> int:
        """That long ago, in nanoseconds since the epoch; at least 0, as Arrow's integers may not hold earlier times."""
        return max(0, self.now_ns - nanoseconds(age))

    def surely_before(self, age: timedelta) -> int:
        """Like :meth:`before`, with a margin: files from before then exceed the age, whatever the clocks show."""
        return max(0, self.before(age) - nanoseconds(CLOCK_MARGIN))


def nanoseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * _NANOSECONDS


def positions_of_unknown_age(survey: Survey, policy: CleanupPolicy, clock: RunClock) -> dict[int, list[int]]:
    """By chain, the versions whose manifest must be read to decide about them.

    A manifest is written after its recorded time. So if its file is old enough, with a margin for different clocks, it
    need not be read. The same holds for a version that stays by the rest of the rule.
    """
    unknown = {}
    for index, chain in survey.owned():
        rule = policy.rule_for(chain.branch)
        if rule is None or not chain.has_ref:
            continue
        times, eligible = _Times.of(rule, policy.commit_window, clock), set(_eligible(survey, chain, rule))
        open_ages = [at for at, manifest in enumerate(chain.versions) if times.leave_open(manifest, at in eligible)]
        if eligible and open_ages:
            unknown[index] = open_ages
    return unknown


def proofs_since(policy: CleanupPolicy, clock: RunClock) -> float:
    """Nanoseconds since the epoch: newer removed manifests are read, as they may prove that a young file is unused.

    A file is older than every manifest that names it. So a removed manifest that is old enough names only files that
    are deleted anyway.
    """
    return math.inf if policy.delete_unverified else clock.surely_before(policy.unverified_age)


@dataclass(frozen=True)
class _Times:
    """Ages of versions by the times of their manifest files. Each pair is (surely older, younger) than a limit."""

    rule: tuple[float, float]
    window: tuple[float, float]

    @staticmethod
    def of(rule: VersionRule, window: timedelta, clock: RunClock) -> _Times:
        aged = (math.inf, math.inf) if rule.older_than is None else (clock.surely_before(rule.older_than), math.inf)
        windowed = (clock.surely_before(window), clock.before(window)) if window else (math.inf, math.inf)
        return _Times(aged, windowed)

    def leave_open(self, manifest: VersionFile, is_eligible: bool) -> bool:
        """Whether a manifest must be read to decide about its version, or about the one before it."""
        if self.window[0] <= manifest.modified_ns < self.window[1]:
            return True
        return is_eligible and self.rule[0] <= manifest.modified_ns < min(self.rule[1], self.window[1])


def branches_in_quarantine(survey: Survey, now_ns: int, window: timedelta) -> frozenset[str | None]:
    """Branches with a manifest that a repair quarantined and that can still be put back.

    An unreadable manifest does not show which files it needs. A backup of it would still need them.
    """
    return frozenset(one.branch for one in survey.quarantined if now_ns - one.at_ns < nanoseconds(window))


def judge(survey: Survey, policy: CleanupPolicy, clock: RunClock, ages: Ages) -> list[Verdict]:
    """The verdict on every version of every chain, in the order of ``survey.chains``.

    ``ages`` has all versions that ``positions_of_unknown_age`` names. Raises Refused if a version to be removed has a
    tag and the policy treats that as an error.
    """
    verdicts = []
    tagged_old: list[refs.Tag] = []
    named = _Named.of(survey, former_refs(survey, clock.now_ns, policy.undo_window))
    repaired = branches_in_quarantine(survey, clock.now_ns, policy.undo_window)
    for index, chain in enumerate(survey.chains):
        known = ages.get(index, {})
        old = _old(survey, chain, policy, clock, known)
        needed = _needed_by_jobs(chain, policy.commit_window, clock, known)
        tagged_old += _tags_that_forbid(survey, policy, chain, old - needed)
        verdict = _verdict(survey, policy, chain, old, needed, named)
        whole = not chain.repository and chain.branch in repaired
        verdicts.append(_with_all_kept(verdict) if whole else verdict)
    if tagged_old:
        names = ", ".join(f"'{tag.name}' ({tag.branch or 'main'}@{tag.version})" for tag in tagged_old[:10])
        match = "matches" if len(tagged_old) == 1 else "match"
        raise Refused(
            f"{counted(len(tagged_old), 'tagged version')} {match} the cleanup policy: {names}.",
            hint=hints.of("Keep them (", hints.KEEP_TAGGED, "), or delete the tags first."),
        )
    return verdicts


def _old(survey: Survey, chain: Chain, policy: CleanupPolicy, clock: RunClock, ages: Mapping[int, int]) -> set[int]:
    """Positions that match the policy, even if something else keeps them."""
    rule = policy.rule_for(chain.branch)
    if chain.repository or rule is None or not chain.has_ref:
        return set()
    # Files newer than the start of the run stay, including manifests: the report must not list their versions as
    # removed.
    eligible = [
        position for position in _eligible(survey, chain, rule) if chain.versions[position].modified_ns < clock.now_ns
    ]
    if rule.older_than is None:
        return set(eligible)
    cutoff, times = clock.before(rule.older_than), _Times.of(rule, policy.commit_window, clock)
    return {
        position
        for position in eligible
        if position in ages or not times.leave_open(chain.versions[position], is_eligible=True)
        if ages.get(position, chain.versions[position].modified_ns) < cutoff
    }


def _needed_by_jobs(chain: Chain, window: timedelta, clock: RunClock, ages: Mapping[int, int]) -> set[int]:
    """Positions from the version that was the newest when the commit window began.

    A running job may have started with that version, and learns of conflicts from the versions after it. A manifest
    file within the window counts even if its recorded time is older: its writer's clock may have been behind.
    """
    if not window:
        return set()
    cutoff, certain = clock.before(window), clock.surely_before(window)
    for position, manifest in enumerate(chain.versions):
        unsure = ages.get(position, cutoff) if manifest.modified_ns >= certain else 0
        if max(manifest.modified_ns, unsure) >= cutoff:
            return set(range(max(0, position - 1), len(chain.versions)))
    return set()


def _eligible(survey: Survey, chain: Chain, rule: VersionRule) -> Sequence[int]:
    """Positions that match a rule apart from the age; never the latest version, nor those that the ref retains."""
    retained = max(rule.retain_versions or 1, retained_by_ref(survey, chain))
    return [
        position
        for position in range(len(chain.versions) - retained)
        if (rule.before_version is None or chain.versions[position].version < rule.before_version)
        and (rule.versions is None or chain.versions[position].version in rule.versions)
    ]


def retained_by_ref(survey: Survey, chain: Chain) -> int:
    """How many of its newest versions the ref of a branch retains: no policy removes more than that allows.

    All of them, if the ref's setting is unreadable: then it is unknown which may be removed.
    """
    branch = survey.refs.branches.get(chain.branch or "")
    lifetime = survey.refs.main if chain.branch is None else Lifetime() if branch is None else branch.lifetime
    return len(chain.versions) if "retain_versions" in lifetime.unreadable else lifetime.retain_versions or 0


def _tags_that_forbid(survey: Survey, policy: CleanupPolicy, chain: Chain, old: set[int]) -> Iterator[refs.Tag]:
    if chain.repository:
        return
    positions = {manifest.version: position for position, manifest in enumerate(chain.versions)}
    for tag in survey.refs.tags_on.get(chain.branch, ()):
        if positions.get(tag.version) not in old:
            continue
        if (
            tag.name not in survey.recorded_clones
            and not is_own_tag(tag.name)
            and not is_frozen_tag(tag.name, survey.refs.tags)
            and not is_stream_tag(tag.name)
            and not is_lake_tag(tag.name)
            and policy.on_tagged(tag.name) == "error"
        ):
            yield tag


class _Named(NamedTuple):
    """What names versions of any chain, looked up once for all chains."""

    former: refs.RefTable
    merged: Mapping[str, Sequence[tuple[int, refs.Branch]]]
    unread: Mapping[str | None, int]

    @classmethod
    def of(cls, survey: Survey, former: refs.RefTable) -> _Named:
        merged = merged_versions([*survey.refs.branches.values(), *former.branches.values()])
        return cls(former, merged, first_unread(survey.refs))


def _pinned(survey: Survey, policy: CleanupPolicy, chain: Chain, named: _Named) -> dict[int, str]:
    """Why versions stay at any age, by position."""
    positions = {manifest.version: position for position, manifest in enumerate(chain.versions)}
    reasons = {positions[version]: UNDO for version in former_versions(named.former, chain) if version in positions}
    if policy.keep_fork_versions:
        for table in (survey.refs, named.former):
            for branch in table.created_from.get(chain.branch, ()):
                if branch.parent_version in positions:
                    reasons[positions[branch.parent_version]] = FORK
        for version, _ in merge_bases(survey, chain, named.merged):
            if version in positions:
                reasons.setdefault(positions[version], MERGED)
    tags = [tag for tag in survey.refs.tags_on.get(chain.branch, ()) if tag.version in positions]
    reasons.update(dict.fromkeys((positions[tag.version] for tag in tags), TAGGED))
    # A stream compares each version with the one before it.
    reader = named.unread.get(chain.branch)
    unread = () if reader is None else (at for version, at in positions.items() if version >= reader)
    reasons = {**dict.fromkeys(unread, READ), **reasons}
    if chain.versions:
        reasons[len(chain.versions) - 1] = LATEST
    return reasons


def former_refs(survey: Survey, now_ns: int, window: timedelta) -> refs.RefTable:
    """Former branches and tags that can be restored, by the ids of the records that describe them."""
    kept = [change for change in survey.changes if change.keeps(now_ns, window)]
    tags = {
        change.id: refs.Tag(change.name, change.before.target.branch, change.before.target.version)
        for change in kept
        if change.before is not None
    }
    branches = {change.id: change.branch for change in kept}
    return refs.RefTable({key: branch for key, branch in branches.items() if branch is not None}, tags)


def former_versions(former: refs.RefTable, chain: Chain) -> set[int]:
    """Versions of a chain that had tags, or that branches were created from."""
    tagged = {tag.version for tag in former.tags_on.get(chain.branch, ())}
    return tagged | {branch.parent_version for branch in former.created_from.get(chain.branch, ())}


def oldest_base(survey: Survey, chain: Chain, verdict: Verdict) -> int:
    """The lowest version of a chain with which a merge may compare: it stays, or a branch begins with a copy of it."""
    stay = [manifest.version for manifest, kept in zip(chain.versions, verdict.kept, strict=False) if kept]
    forks = [branch.parent_version for branch in survey.refs.created_from.get(chain.branch, ())]
    former = (change.branch for change in survey.changes if change.branch is not None)
    forks += [branch.parent_version for branch in former if branch.parent_branch == chain.branch]
    own = survey.refs.branches.get(chain.branch or "")
    return min([*stay, *forks, *([] if own is None else [own.parent_version])], default=0)


def merge_bases(
    survey: Survey, chain: Chain, merged: Mapping[str, Sequence[tuple[int, refs.Branch]]]
) -> Sequence[tuple[int, refs.Branch]]:
    """The versions of a chain that ``merged`` has, from ``tracking.merged_versions``."""
    branch = survey.refs.branches.get(chain.branch or "")
    identity = "" if branch is None else branch.identity
    return merged.get(identity, ()) if chain.branch is None or identity else ()


def _verdict(
    survey: Survey, policy: CleanupPolicy, chain: Chain, old: set[int], needed: set[int], named: _Named
) -> Verdict:
    pinned = {} if chain.repository else {**dict.fromkeys(old & needed, JOB), **_pinned(survey, policy, chain, named)}
    default = CLONE if chain.repository else BY_POLICY if chain.has_ref else NO_REF
    by_ref = 0 if chain.repository or not chain.has_ref else retained_by_ref(survey, chain)
    reasons = [
        pinned.get(position)
        or (RETAINED if position >= len(chain.versions) - by_ref else None if position in old else default)
        for position in range(len(chain.versions))
    ] + [CLONE if chain.repository else DETACHED] * len(chain.detached)
    counts = Counter(reason for reason in reasons if reason is not None)
    return Verdict(tuple(reason is not None for reason in reasons), dict(counts))


def _with_all_kept(verdict: Verdict) -> Verdict:
    removed = len(verdict.removed)
    reasons = Counter(verdict.reasons) + Counter({UNDO: removed})
    return Verdict((True,) * len(verdict.kept), dict(reasons))


def removed_paths(survey: Survey, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Paths of the manifests to remove, by chain, then ascending by version."""
    for index, chain in survey.owned():
        yield from (chain.path(chain.files[position]) for position in verdicts[index].removed)


def version_counts(
    survey: Survey, verdicts: Sequence[Verdict], branches: Collection[str] = ()
) -> dict[str, dict[str, int]]:
    """By branch (all, or those of ``branches``): how many versions are removed, and why the others stay."""
    return {
        chain.name: {"removed": len(verdicts[index].removed), **verdicts[index].reasons}
        for index, chain in survey.owned()
        if not branches or chain.name in branches
    }


def chosen_chains(survey: Survey, policy: CleanupPolicy) -> dict[int, Chain]:
    """The chains of the dataset to clean, by index; all of them unless the policy names branches.

    Raises NotFound for a name or pattern that matches no branch.
    """
    if not policy.only_branches:
        return dict(survey.owned())
    chosen = {index: chain for index, chain in survey.owned() if chain.has_ref and policy.takes(chain.branch)}
    names = [chain.name for chain in chosen.values()]
    for pattern in policy.only_branches:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise missing("branch", pattern, [MAIN, *survey.refs.branches])
    return chosen


def unused_rules(survey: Survey, policy: CleanupPolicy) -> Iterator[str]:
    """Warnings about rules for branches and tags that apply to none: what a misspelled one was to keep goes."""
    branches = [chain.name for _, chain in survey.owned()]
    for kind, texts, names in (("branch", policy.branches, branches), ("tag", policy.tags, [*survey.refs.tags])):
        for each in unused(texts, names):
            yield f"The policy's rule for {kind} '{each.text}' {each.why(kind)}."
