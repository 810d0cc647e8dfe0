"""What a frozen set is: the call that makes it, and the lineage that is kept with its plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.freezing.filters import check_repeatable
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import check_new_branch_name, check_new_tag_name, plan_branch, plan_tag
from lance_spark.show.card import Card, Grid, Shown

LINEAGE = "lance_spark.frozen"
"""Key in the metadata of a plan's schema: the lineage, as JSON."""
ALGORITHM = 1
"""Which definition of hashes and orders a plan was made by. A change of any of them needs another number."""
WHOLE = "all"
"""The one split of a set that is not split."""
PLAN_SCHEMA = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("row_offset", pa.int64(), nullable=False),
    ]
)
"""Columns of a plan: split, position in it from 0, ``_rowid`` at the source version, and the index that pylance's
``take`` knows: the row's number among the live rows of that version."""
_NUMBERS: tuple[Any, ...] = (Real, Decimal)
_LIKE_THIS = "Give names and fractions, as in {'train': 0.9, 'val': 0.1}."
_NEARLY = Fraction(1, 10**9)
"""What decimals such as 0.333333333333 may leave open; the last split takes it."""


@dataclass(frozen=True)
class FreezeSpec:
    """What was asked for. Two calls that are equal here, at one version, give the same plan everywhere."""

    name: str
    filter: str | None
    splits: tuple[tuple[str, str], ...]
    """Name and fraction, in the order that was given: hashes are cut in this order."""
    by: tuple[str, ...]
    seed: int
    code: str | None = None
    """The user's own word for the code that made the set; it does not change the plan."""


def make_spec(
    name: str,
    filter: str | None = None,
    split: Mapping[str, float] | None = None,
    by: str | Sequence[str] | None = None,
    seed: int = 0,
    code: str | None = None,
) -> FreezeSpec:
    """The spec of a call. Raises InvalidName and InvalidOption."""
    if not isinstance(name, str):
        raise InvalidOption(f"The name of a set is text, not {name!r}.")
    check_new_tag_name(name)
    check_new_tag_name(plan_tag(name))
    check_new_branch_name(plan_branch(name))
    for said, value in (("filter", filter), ("code", code)):
        if not isinstance(value, str | None):
            raise InvalidOption(f"{said}= is text, not {value!r}.")
    if filter:
        check_repeatable(filter)
    columns = _columns(by)
    if len({*columns}) < len(columns):
        raise InvalidOption(f"A column is named twice in by={list(columns)!r}.")
    return FreezeSpec(name, filter or None, _splits({WHOLE: 1} if split is None else split), columns, _seed(seed), code)


def _columns(by: Any) -> tuple[str, ...]:
    if by is None or isinstance(by, str):
        return () if by is None else (by,)
    if not isinstance(by, Sequence) or not all(isinstance(name, str) for name in by):
        raise InvalidOption(f"by={by!r} names no columns.", hint="Give a name, or several in a list.")
    return tuple(by)


def _seed(given: Any) -> int:
    """Numbers of numpy are numbers as well."""
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise InvalidOption(f"The seed is a whole number, not {given!r}.")
    return int(given)


def _splits(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping):
        raise InvalidOption(f"split={given!r} names no fractions.", hint=_LIKE_THIS)
    fractions = []
    for name, share in given.items():
        if not isinstance(name, str) or not name or name.strip() != name:
            raise InvalidOption(f"{name!r} is no name of a split.", hint=_LIKE_THIS)
        if isinstance(share, bool) or not isinstance(share, _NUMBERS) or not 0 < share <= 1:
            raise InvalidOption(
                f"Split '{name}' cannot have the fraction {share!r}.", hint="Give a number above 0, up to 1."
            )
        fractions.append((name, str(share)))
    whole = sum((Fraction(share) for _, share in fractions), Fraction())
    if abs(whole - 1) > _NEARLY:
        raise InvalidOption(
            f"The fractions of the splits add up to {float(whole):g}, not to 1.",
            hint="Give rows that are not used a split of their own, as in {'train': 0.09, 'val': 0.01, 'rest': 0.9}.",
        )
    return tuple(fractions)


def thresholds(splits: Sequence[tuple[str, str]]) -> tuple[int, ...]:
    """For each split the last hash of 64 bits that falls into it, in exact arithmetic."""
    sums = accumulate(Fraction(share) for _, share in splits)
    ends = [int(total * 2**64) - 1 for total in sums]
    return (*(max(0, min(end, 2**64 - 1)) for end in ends[:-1]), 2**64 - 1)


@dataclass(frozen=True)
class SplitSize:
    """A split of a plan, and how many rows it has."""

    name: str
    fraction: str
    rows: int


@dataclass(frozen=True, repr=False)
class Lineage(Shown):
    """Where a frozen set comes from. Everything but what the dataset itself says is in ``spec``."""

    spec: FreezeSpec
    uri: str
    """The dataset, as it was spelled when the set was made."""
    source: PinnedVersion
    """The version whose rows the set has."""
    identity: str
    """Tells the source's branch from a later one of the same name; "" for main."""
    stable_row_ids: bool
    sizes: tuple[SplitSize, ...]
    software: str
    """Versions of lance_spark and pylance that made it."""
    algorithm: int = ALGORITHM
    tagged_before: bool = False
    """Whether the version had the tag of that name before: then it stays when the set is deleted."""

    @property
    def name(self) -> str:
        """The name of the set."""
        return self.spec.name

    @property
    def rows(self) -> int:
        """Rows of all splits."""
        return sum(size.rows for size in self.sizes)

    def range_of(self, split: str | None) -> tuple[int, int]:
        """First row in the plan and number of rows, of a split or of all. Raises NotFound."""
        if split is None:
            return 0, self.rows
        first = 0
        for size in self.sizes:
            if size.name == split:
                return first, size.rows
            first += size.rows
        names = ", ".join(f"'{size.name}'" for size in self.sizes)
        raise NotFound(f"The frozen set '{self.name}' has no split '{split}'.", hint=f"It has {names}.")

    def to_json(self) -> str:
        """As it is kept with the plan."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Lineage:
        """As it was kept. Raises CorruptData."""
        try:
            known: dict[str, Any] = json.loads(text)
            spec = known.pop("spec")
            splits = tuple((name, share) for name, share in spec.pop("splits"))
            sizes = tuple(SplitSize(**size) for size in known.pop("sizes"))
            return Lineage(
                spec=FreezeSpec(splits=splits, by=tuple(spec.pop("by")), **spec),
                source=PinnedVersion(**known.pop("source")),
                sizes=sizes,
                **known,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise CorruptData(f"The lineage of a frozen set cannot be read: {problem}.") from None

    def differences(self, spec: FreezeSpec, source: PinnedVersion, identity: str) -> tuple[str, ...]:
        """What another call asks for that this set was not made with; empty if it would be the same plan."""
        asked = replace(self, spec=replace(spec, code=None), source=source, identity=identity)._facts()
        return tuple(name for name, text in replace(self, spec=replace(self.spec, code=None))._facts().items()
                     if text != asked[name])  # fmt: skip

    def _facts(self) -> dict[str, object]:
        spec = self.spec
        return {
            "version": (self.source, self.identity),
            "filter": spec.filter,
            "splits": tuple((name, Fraction(share)) for name, share in spec.splits),
            "by": spec.by,
            "seed": spec.seed,
            "algorithm": ALGORITHM if self.algorithm == ALGORITHM else self.algorithm,
        }

    def _card(self) -> Card:
        spec = self.spec
        facts = (
            ("version", str(self.source)),
            ("filter", spec.filter or ""),
            ("by", ", ".join(spec.by)),
            ("seed", str(spec.seed)),
            ("code", spec.code or ""),
            ("made with", self.software),
        )
        rows = tuple((size.name, size.fraction, f"{size.rows:,}") for size in self.sizes)
        grid = Grid(("split", "fraction", "rows"), rows, frozenset({1, 2}))
        return Card("FrozenSet", spec.name, f"{self.rows:,} rows of {self.source}", facts, (grid,))
