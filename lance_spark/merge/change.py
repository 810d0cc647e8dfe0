"""What a merge compares, and the result: the two sides, and the change that ours has to take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lance_spark.manifest.contents import Field, Fragment
from lance_spark.merge.columns import ColumnChanges
from lance_spark.merge.rewrites import Rewrite
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.steps import Steps


@dataclass(frozen=True)
class MergeConflict:
    """Something both sides changed in ways that cannot be combined."""

    reason: str
    ours: str = ""
    """Versions of ours that may have done it."""
    theirs: str = ""
    fragments: tuple[int, ...] = ()
    """Ids of fragments in ours."""
    rows: tuple[str, ...] = ()
    """Examples of rows, by the table's key, if it has one."""

    def __str__(self) -> str:
        """One sentence."""
        where = f" (fragment {', '.join(map(str, self.fragments[:5]))})" if self.fragments else ""
        who = f": {self.ours} against {self.theirs}" if self.ours and self.theirs else ""
        return f"{self.reason}{where}{who}"


@dataclass(frozen=True)
class Replacement:
    """A fragment of ours that gets something of theirs."""

    base: Fragment
    ours: Fragment
    theirs: Fragment
    files: bool
    """Whether theirs wrote columns."""
    deletion: bool
    """Whether theirs deleted rows."""
    both_deleted: bool = False
    """Whether ours deleted rows as well. Then they have to be other rows."""


@dataclass(frozen=True)
class Kinship:
    """What the history says of rows that ours may have, where a single version is picked or reverted.

    As it stands it is that of a merge: the base is all that both sides have in common.
    """

    shares: bool = False
    """Whether ours took in versions that theirs has and the base has not."""
    has_base: bool = True
    """Whether ours took in the base."""
    earlier: Steps = field(default_factory=lambda: Steps(None))
    """The versions before the base that ours did not take in."""


@dataclass(frozen=True)
class Sides:
    """What is compared. ``base_ours`` and ``base_theirs`` are one version, as the chain of each side has it."""

    base_ours: Snapshot
    ours: Snapshot
    base_theirs: Snapshot
    theirs: Snapshot
    our_steps: Steps
    their_steps: Steps
    kinship: Kinship = field(default_factory=Kinship)
    numbering: Snapshot | None = None
    """A version with the rows of the base under their ids in theirs; None if both sides number rows alike, up to the
    base's next row id."""

    @property
    def is_fast_forward(self) -> bool:
        """Whether ours is the base: its result is theirs, and nothing can conflict."""
        return _is_same_version(self.ours, self.base_ours)

    @property
    def is_up_to_date(self) -> bool:
        """Whether theirs is the base: there is nothing to take."""
        return _is_same_version(self.theirs, self.base_theirs)

    @property
    def is_backwards(self) -> bool:
        """Whether theirs is older than the base, as in a revert."""
        base, theirs = self.base_theirs.pin, self.theirs.pin
        return base.branch == theirs.branch and theirs.version < base.version

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """All compactions that are known, of either side."""
        return (*self.our_steps.rewrites, *self.their_steps.rewrites, *self.kinship.earlier.rewrites)

    @property
    def fields(self) -> tuple[tuple[Field, ...], tuple[Field, ...], tuple[Field, ...]]:
        """The columns of the base, of ours and of theirs."""
        return self.base_theirs.contents.fields, self.ours.contents.fields, self.theirs.contents.fields

    def conflict(self, reason: str, fragments: Iterable[int] = (), rows: tuple[str, ...] = ()) -> MergeConflict:
        """A conflict, with the versions of both sides that may have made it."""
        ours, theirs = self.our_steps.described(), self.their_steps.described()
        return MergeConflict(reason, ours, theirs, tuple(sorted(fragments)), rows)


def _is_same_version(one: Snapshot, other: Snapshot) -> bool:
    return one.pin.reference == other.pin.reference and one.root == other.root


class BasePair(NamedTuple):
    """A fragment of the base that theirs changed, compacted or removed."""

    before: Fragment
    """As the chain of theirs has it."""
    base: Fragment
    """As the chain of ours has it."""
    after: Fragment | None
    """In theirs; None if no fragment there has its files."""


@dataclass(frozen=True)
class Contest:
    """Fragments that both sides changed and one of them compacted: their rows have to be looked for one by one."""

    pairs: tuple[BasePair, ...]
    tied: tuple[Fragment, ...]
    """New fragments of theirs that may have rows of them."""
    ours: tuple[Fragment, ...]
    """Fragments of ours that may have them."""
    theirs: tuple[Fragment, ...]
    rewrites: tuple[Rewrite, ...]


@dataclass(frozen=True)
class Followed:
    """What a contest came to."""

    deletions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to delete in fragments of ours, by id."""
    masks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """All rows that new fragments come without, by their ids in theirs: ours has these rows already."""
    row_ids: Mapping[int, int] = field(default_factory=dict)
    """Stable ids of rows in ours, by those in theirs."""
    dead: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Deleted rows of other new fragments, by id in theirs, where stable ids depend on it."""


@dataclass(frozen=True)
class MergeChange:
    """What ours has to take. Where files go is decided later."""

    added: tuple[Fragment, ...] = ()
    """Of theirs."""
    replaced: tuple[Replacement, ...] = ()
    removed: tuple[tuple[Fragment, Fragment], ...] = ()
    """(in the base of theirs, in ours)."""
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    columns_of_theirs: bool = False
    """Whether the result has the columns of theirs, as they are."""
    conflicts: tuple[MergeConflict, ...] = ()
    notes: tuple[str, ...] = ()
    contest: Contest | None = None
    """What is to be decided row by row."""
    followed: Followed = field(default_factory=Followed)

    def __bool__(self) -> bool:
        """Whether ours would become another version."""
        rows = self.added or self.replaced or self.removed or self.followed.deletions
        return bool(rows or self.columns or self.columns_of_theirs)
