"""What a user wants to remove: which versions go, and how careful to be with files that no version names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Literal, get_args

from lance_spark.errors import InvalidOption
from lance_spark.options.text import names_of
from lance_spark.refs.names import MAIN
from lance_spark.refs.reflog import DEFAULT_UNDO_WINDOW

DEFAULT_OLDER_THAN = timedelta(days=14)
DEFAULT_UNVERIFIED_AGE = timedelta(days=7)
DEFAULT_COMMIT_WINDOW = timedelta(days=1)

OnTagged = Literal["error", "keep"]


@dataclass(frozen=True)
class VersionRule:
    """Which versions of one branch go. All that is given must hold (specification "Version Cleanup")."""

    older_than: timedelta | None = None
    """Versions that were committed longer ago than this; zero stands for every version."""
    before_version: int | None = None
    """Versions with a lower number."""
    retain_versions: int | None = None
    """All but this many of the newest versions."""
    versions: frozenset[int] | None = None
    """Exactly these; numbers that do not exist are ignored."""

    def __post_init__(self) -> None:
        if self.older_than is not None and self.older_than < timedelta(0):
            raise InvalidOption("older_than cannot be negative.", hint="Give the age of versions, e.g. 14d.")
        if self.before_version is not None and self.before_version < 1:
            raise InvalidOption("before_version must be 1 or more.")
        if self.retain_versions is not None and self.retain_versions < 1:
            raise InvalidOption("retain_versions must be 1 or more.", hint="The newest version always stays.")
        if self.versions is not None and not self.versions:
            raise InvalidOption("versions is empty.", hint="Name the versions to remove, or leave the option out.")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return (self.older_than, self.before_version, self.retain_versions, self.versions) == (None, None, None, None)

    @property
    def names_numbers(self) -> bool:
        """Whether it selects versions by number, which makes sense on one branch only."""
        return self.before_version is not None or self.versions is not None


@dataclass(frozen=True)
class CleanupPolicy:
    """What may be removed from a dataset: main, all branches, and files that no version names.

    ``older_than``, ``before_version``, ``retain_versions`` and ``versions`` are those of :class:`VersionRule` and mean
    what they mean to pylance. Versions older than 14 days go if none of them is given. ``before_version`` and
    ``versions`` apply to main alone, as the same number is another version on each branch. For a branch, add a rule to
    ``branches``.
    """

    older_than: timedelta | None = None
    before_version: int | None = None
    retain_versions: int | None = None
    versions: frozenset[int] | None = None
    commit_window: timedelta = DEFAULT_COMMIT_WINDOW
    """Versions committed within this span stay, and the one before them, whatever the rules say. Make it at least as
    long as the longest job that commits to the dataset. Lance finds conflicts by the versions that were committed since
    a job began. It misses a conflict with a version that was removed meanwhile: rows that this version deleted come
    back. Zero is for when no other job commits."""
    undo_window: timedelta = DEFAULT_UNDO_WINDOW
    """How long versions stay that a tag was on before it was moved or deleted, or that a branch was made from which was
    deleted with its files kept: so that they can be restored. Zero gives that up."""
    delete_unverified: bool = False
    """Delete files that no version names whatever their age. Only safe while no job writes."""
    unverified_age: timedelta = DEFAULT_UNVERIFIED_AGE
    """Age at which such files go otherwise. Make it at least as long as the longest job."""
    error_if_tagged_old_versions: bool = True
    """Refuse to run if a tag is on a version that would go; otherwise such versions stay."""
    keep_fork_versions: bool = True
    """Keep the version that each existing branch was made from, which merging the branch needs."""
    clones: tuple[str, ...] = ()
    """URIs of shallow clones; what they need of this dataset stays."""
    clones_from: tuple[str, ...] = ()
    """Directories; every dataset below them is taken for a clone."""
    known_bases: tuple[str, ...] = ()
    """Base paths of versions that may lead nowhere. Any other base path that leads nowhere stops the run."""
    branches: Mapping[str, VersionRule] = field(default_factory=dict)
    """Rules for branches by name or pattern (``exp/*``). The first one that matches replaces the rule above. An empty
    rule means 14 days as well."""
    only_branches: Sequence[str] = ()
    """Names or patterns (``exp/*``) of branches that alone are cleaned; all of the dataset if empty. Then nothing is
    deleted or written outside of the directories of these branches. All else is read all the same: what may go is
    decided by all versions, tags and clones."""
    tags: Mapping[str, OnTagged] = field(default_factory=dict)
    """What a tag of that name or pattern does to a version that would go: ``error`` or ``keep``."""

    def __post_init__(self) -> None:
        for name in ("clones", "clones_from", "known_bases"):
            object.__setattr__(self, name, names_of(getattr(self, name)))
        if self.versions is not None:
            object.__setattr__(self, "versions", frozenset(self.versions))
        if isinstance(self.only_branches, str):
            object.__setattr__(self, "only_branches", (self.only_branches,))
        object.__setattr__(self, "only_branches", tuple(self.only_branches))
        for name in ("unverified_age", "commit_window", "undo_window"):
            if getattr(self, name) < timedelta(0):
                raise InvalidOption(f"{name} cannot be negative.")
        for pattern, choice in self.tags.items():
            if choice not in get_args(OnTagged):
                raise InvalidOption(f"The rule for tags '{pattern}' is {choice!r}.", hint="Say 'error' or 'keep'.")
        self._rule()  # raises for values that cannot be

    def rule_for(self, branch: str | None) -> VersionRule | None:
        """The rule for a branch (None for main); None where nothing goes."""
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
        """What a tag does to a version that would go."""
        for pattern, choice in self.tags.items():
            if fnmatchcase(tag, pattern):
                return choice
        return "error" if self.error_if_tagged_old_versions else "keep"

    def _rule(self) -> VersionRule:
        return _or_default(VersionRule(self.older_than, self.before_version, self.retain_versions, self.versions))


def of_branches(policy: CleanupPolicy | None, branches: Sequence[str] | str) -> CleanupPolicy:
    """The policy (the default one for None) for these branches alone, if any are given; one string is one branch."""
    base = policy or CleanupPolicy()
    return replace(base, only_branches=branches) if branches else base


def _or_default(rule: VersionRule) -> VersionRule:
    # No condition at all would hold for every version.
    return replace(rule, older_than=DEFAULT_OLDER_THAN) if rule.is_empty else rule
