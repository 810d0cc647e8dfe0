"""Frozen sets as values: specs and lineages, hashes, the order of a plan, and the differences of two sets. Pure."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate, pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.core.ref_names import check_new_branch_name, check_new_tag_name, plan_branch, plan_tag
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.words import OF_A_FROZEN_SET
from lance_spark.errors import CorruptData, InvalidOption, NotFound, Refused

LINEAGE = "lance_spark.frozen"
"""Key in the metadata of a plan's schema: the lineage, as JSON."""
ALGORITHM = 1
"""The definition of hashes and orders that a plan was made with. Any change of it needs another number."""
WHOLE = "all"
"""The only split of a set without splits."""
PLAN_SCHEMA = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("row_offset", pa.int64(), nullable=False),
    ]
)
"""Columns of a plan: split, position in it from 0, ``_rowid`` at the source version, and the index for pylance's
``take``: the row's number among the live rows of that version."""
_NUMBERS: tuple[Any, ...] = (Real, Decimal)
_LIKE_THIS = "Give names and fractions, as in {'train': 0.9, 'val': 0.1}."
_NEARLY = Fraction(1, 10**9)
"""Gap that decimals such as 0.333333333333 may leave; the last split takes it."""


@dataclass(frozen=True)
class FreezeSpec:
    """The definition of a set. Two equal specs, at one version, yield the same plan everywhere."""

    name: str
    filter: str | None
    splits: tuple[tuple[str, str], ...]
    """Name and fraction, in the given order: hashes are cut in this order."""
    by: tuple[str, ...]
    seed: int
    code: str | None = None
    """The user's own label for the code that made the set; it does not change the plan."""


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
        raise InvalidOption(f"The name of a set must be text, not {name!r}.")
    check_new_tag_name(name)
    check_new_tag_name(plan_tag(name))
    check_new_branch_name(plan_branch(name))
    for said, value in (("filter", filter), ("code", code)):
        if not isinstance(value, str | None):
            raise InvalidOption(f"{said}= must be text, not {value!r}.")
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
    """Numpy numbers are accepted."""
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise InvalidOption(f"The seed must be a whole number, not {given!r}.")
    return int(given)


def _splits(given: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping):
        raise InvalidOption(f"split={given!r} names no fractions.", hint=_LIKE_THIS)
    fractions = []
    for name, share in given.items():
        if not isinstance(name, str) or not name or name.strip() != name:
            raise InvalidOption(f"{name!r} is not a valid name of a split.", hint=_LIKE_THIS)
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
    """For each split, its last 64-bit hash, in exact arithmetic."""
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
    """The origin of a frozen set. Everything that the dataset itself does not record is in ``spec``."""

    _words = OF_A_FROZEN_SET

    spec: FreezeSpec
    uri: str
    """The dataset, as it was spelled when the set was made."""
    source: PinnedVersion
    """The version whose rows the set has."""
    identity: str
    """Distinguishes the source's branch from a later one of the same name; "" for main."""
    stable_row_ids: bool
    sizes: tuple[SplitSize, ...]
    software: str
    """Versions of lance_spark and pylance that made it."""
    algorithm: int = ALGORITHM
    tagged_before: bool = False
    """Whether the version already had the tag of that name: then it stays when the set is deleted."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def rows(self) -> int:
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
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Lineage:
        """From the stored text. Raises CorruptData."""
        try:
            return read_as(Lineage, decode_json(text))
        except UNREADABLE as problem:
            raise CorruptData(f"The lineage of a frozen set cannot be read: {problem}.") from None

    def differences(self, spec: FreezeSpec, source: PinnedVersion, identity: str) -> tuple[str, ...]:
        """The arguments of another call that differ from this set's; empty if it would yield the same plan."""
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
            "algorithm": self.algorithm,
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


# --- Filters that are not repeatable, because of the clock or of chance

_STRING, _NAME, _COMMENT = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""", r"`(?:[^`]|``)*`", r"--[^\n]*|/\*.*?\*/"
_PARTS = re.compile(f"(?P<string>{_STRING})|(?P<name>{_NAME})|(?P<comment>{_COMMENT})", re.DOTALL)
_QUOTED_CALL, _QUOTED = re.compile(r"`(\w+)`(?=\s*\()"), re.compile(_NAME)
_CALLED = re.compile(r"\b(now|today|random|rand|uuid)\s*\(", re.IGNORECASE)
_NAMED = re.compile(r"\b(current_date|current_time|current_timestamp)\b", re.IGNORECASE)
_CHANCE = frozenset({"random", "rand", "uuid"})


def check_repeatable(filter: str) -> None:
    """Raise InvalidOption for a filter that depends on the time or on chance: each task would see different rows."""
    plain = _plain(filter)
    found = _CALLED.search(plain) or _NAMED.search(plain)
    if found is None:
        return
    name = found[1].lower()
    if name in _CHANCE:
        hint = "For a part of the rows, use a split, as in {'train': 0.1, 'rest': 0.9}."
    else:
        hint = "Write the time itself, as in day < date '2026-11-01'; a column of that name goes in backticks."
    raise InvalidOption(f"The filter {filter!r} selects different rows each time, because of '{name}'.", hint=hint)


def _plain(filter: str) -> str:
    """Without strings, quoted columns and comments: a quoted name may be that of a function, before a comment."""
    parts = _PARTS.sub(lambda part: {"string": "''", "name": part[0], "comment": " "}[part.lastgroup or ""], filter)
    return _QUOTED.sub("''", _QUOTED_CALL.sub(r"\1", parts))


# --- The hashes of a frozen set
# They define a lasting format: the same call yields the same rows everywhere, for good.
#
# Two hashes of 64 bits, unsigned:
#
# - of a row: ``mix(mix(id + k0) ^ k1)``, where ``id`` is ``_rowid``, additions wrap, ``mix`` is the last step of
#   SplitMix64, and k0 and k1 are the two halves, little-endian, of ``blake2b("lance_spark.freeze/1/PURPOSE/SEED")`` of
#   16 bytes. PURPOSE is ``order``, or ``split`` for rows without a group; SEED is decimal.
# - of a group: ``blake2b`` of 8 bytes, little-endian, of the canonical bytes of its values one after the other, keyed
#   with ``blake2b("lance_spark.freeze/1/group/SEED")`` of 16 bytes.
#
# The canonical bytes of a value are a letter, the length of the rest (4 bytes, little-endian), and the value: one value
# has the same bytes in every type that holds it exactly, whatever its width, unit or encoding.

Hashes = npt.NDArray[np.uint64]
_NAMESPACE = "lance_spark.freeze/1"
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def hash_row_ids(ids: Hashes, seed: int, purpose: str) -> Hashes:
    """The hashes of rows. They are distinct for distinct rows, since each step can be reversed."""
    secret = blake2b(f"{_NAMESPACE}/{purpose}/{seed}".encode(), digest_size=16).digest()
    first, second = np.frombuffer(secret, "<u8").astype(np.uint64)
    return _mixed(_mixed(ids + first) ^ second)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


def hash_groups(columns: Sequence[pa.Array], seed: int) -> Hashes:
    """The hashes of groups, from the values of their columns in each row; none of the values is null."""
    secret = blake2b(f"{_NAMESPACE}/group/{seed}".encode(), digest_size=16).digest()
    if len(columns) == 1:
        values = pc.dictionary_encode(_plain_key(columns[0]))
        hashes = [_hash(key, secret) for key in canonical_bytes(values.dictionary)]
        return np.array(hashes, np.uint64)[np.asarray(values.indices, np.int64)]
    each = [canonical_bytes(column) for column in columns]
    return np.array([_hash(b"".join(keys), secret) for keys in zip(*each, strict=True)], np.uint64)


def _hash(key: bytes, secret: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8, key=secret).digest(), "little")


def check_key_type(name: str, kind: pa.DataType) -> None:
    """Raise InvalidOption for a column whose values have no canonical bytes."""
    try:
        canonical_bytes(pa.array([], kind))
    except (InvalidOption, pa.ArrowException, NotImplementedError):
        raise InvalidOption(
            f"Column '{name}' is {kind} and cannot be used to group rows.",
            hint="Group by numbers, text, bytes, booleans, dates or times.",
        ) from None


def canonical_bytes(values: pa.Array) -> list[bytes]:
    """The bytes of each value. Raises InvalidOption for a type that has none."""
    values = _plain_key(values)
    kind = values.type
    if pt.is_boolean(kind):
        return [_told(b"t", b"\1" if value else b"\0") for value in values.to_pylist()]
    if pt.is_integer(kind):
        return [_told(b"i", b"%d" % value) for value in values.to_pylist()]
    if pt.is_floating(kind):
        return [_told(b"f", _float(value)) for value in values.cast(pa.float64()).to_pylist()]
    if pt.is_decimal(kind):
        return [_told(b"n", _decimal(value)) for value in values.to_pylist()]
    if pt.is_string(kind) or pt.is_large_string(kind):
        return [_told(b"s", value.encode()) for value in values.to_pylist()]
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return [_told(b"b", value) for value in values.to_pylist()]
    return _temporal(values)


def _plain_key(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if str(values.type) in ("string_view", "binary_view"):
        values = values.cast(pa.large_string() if str(values.type) == "string_view" else pa.large_binary())
    return values


def _temporal(values: pa.Array) -> list[bytes]:
    kind = values.type
    if pt.is_date32(kind):
        return _counted(b"d", values.cast(pa.int32()), 1)
    if pt.is_date64(kind):
        return _counted(b"d", values.cast(pa.date32()).cast(pa.int32()), 1)
    if pt.is_timestamp(kind):
        letter = b"T" if kind.tz is None else b"Z"
        return _counted(letter, values.cast(pa.int64()), _NANOSECONDS[kind.unit])
    if pt.is_time(kind):
        width = pa.int32() if pt.is_time32(kind) else pa.int64()
        return _counted(b"h", values.cast(width), _NANOSECONDS[kind.unit])
    if pt.is_duration(kind):
        return _counted(b"u", values.cast(pa.int64()), _NANOSECONDS[kind.unit])
    raise InvalidOption(f"Rows cannot be grouped by values of type {kind}.")


def _counted(letter: bytes, values: pa.Array, factor: int) -> list[bytes]:
    return [_told(letter, b"%d" % (value * factor)) for value in values.to_pylist()]


def _told(letter: bytes, value: bytes) -> bytes:
    return letter + len(value).to_bytes(4, "little") + value


def _float(value: float) -> bytes:
    """All zeros are one value, and all NaNs are one value."""
    return struct.pack(">d", float("nan") if value != value else value + 0.0)


def _decimal(value: Decimal) -> bytes:
    """Without trailing zeros: 1.50 and 1.5 are one value, in exact digits."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return b"0e0"
    return f"{'-' if sign else ''}{kept}e{int(exponent) + len(text) - len(kept)}".encode()


# --- From rows to a plan: one hash decides the split of a row, another one its place in the split

NO_GROUP = -1
"""Replaces a split if a value to group by is null."""
DRAWN = pa.schema(
    [
        pa.field("split", pa.int16(), nullable=False),
        pa.field("place", pa.int64(), nullable=False),
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("row_offset", pa.int64(), nullable=False),
    ]
)
"""Rows as tasks report them. ``place`` is the hash that orders them, shifted to signed numbers in the same order."""
COUNTS = pa.schema([pa.field("split", pa.int16()), pa.field("rows", pa.int64())])
SLICE_COUNTS = pa.schema([pa.field("slice", pa.int64()), pa.field("rows", pa.int64())])
PIECES = pa.schema([pa.field("part", pa.int64()), pa.field("rows", pa.binary())])
"""Rows of a partition that belong to one slice: its number, then the columns of _PACKED, each as 8 bytes."""
_PACKED = ("place", "row_id", "row_offset")
_DIVIDED = 1_000_000
"""How many rows are divided at once."""
_SIGN = np.uint64(1 << 63)
_BITS = 2**64


def draw(groups: Sequence[pa.Array], row_ids: Hashes, offsets: npt.NDArray[np.int64], spec: FreezeSpec) -> pa.Table:
    """The rows of one batch, with the hashes that decide their split and their place in it."""
    ends = np.array(thresholds(spec.splits), np.uint64)
    null = np.zeros(len(row_ids), bool)
    for column in groups:
        null |= pc.is_null(column).to_numpy(zero_copy_only=False)
    if not groups:
        hashes = hash_row_ids(row_ids, spec.seed, "split")
    else:
        hashes = np.zeros(len(row_ids), np.uint64)
        known = pa.array(~null)
        if not null.all():
            hashes[~null] = hash_groups([column.filter(known) for column in groups], spec.seed)
    splits = np.searchsorted(ends, hashes, side="left").astype(np.int16)
    splits[null] = NO_GROUP
    places = (hash_row_ids(row_ids, spec.seed, "order") ^ _SIGN).view(np.int64)
    return pa.table([splits, places, row_ids.astype(np.int64), offsets], schema=DRAWN)


def count_splits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows of a partition are in each split."""
    for batch in batches:
        splits, rows = np.unique(batch["split"].to_numpy(zero_copy_only=False), return_counts=True)
        yield pa.record_batch([pa.array(splits, pa.int16()), pa.array(rows, pa.int64())], schema=COUNTS)


class Slice(NamedTuple):
    """Rows of a plan that are sorted at once: those of one split whose places lie in a range, both ends included."""

    split: int
    first: int
    last: int


def slices(rows: Sequence[int], most: int) -> list[Slice]:
    """The slices of a plan in its order, each with about that many rows at most; places are spread evenly."""
    found: list[Slice] = []
    for split, count in enumerate(rows):
        parts = -(-count // most)
        bounds = [_BITS * part // parts - _BITS // 2 for part in range(parts + 1)] if parts else []
        found += [Slice(split, first, end - 1) for first, end in pairwise(bounds)]
    return found


@dataclass(frozen=True)
class Layout:
    """The slices of a plan and their row counts, from which a task derives the positions of its rows."""

    splits: tuple[str, ...]
    slices: tuple[Slice, ...]
    rows: tuple[int, ...] = ()

    def numbers(self, drawn: pa.Table) -> npt.NDArray[np.int64]:
        """The number of the slice that each row belongs to."""
        splits, places = (drawn[name].to_numpy() for name in ("split", "place"))
        found = np.empty(len(splits), np.int64)
        for split in np.unique(splits).tolist():
            own = splits == split
            ours = [number for number, part in enumerate(self.slices) if part.split == split]
            firsts = np.array([self.slices[number].first for number in ours], np.int64)
            found[own] = ours[0] + np.searchsorted(firsts, places[own], side="right") - 1
        return found

    def first_position(self, number: int) -> int:
        """The position in its split of the first row of a slice."""
        split = self.slices[number].split
        return sum(rows for part, rows in zip(self.slices[:number], self.rows, strict=False) if part.split == split)

    def ordered(self, number: int, drawn: pa.Table) -> pa.Table:
        """The rows of a slice as rows of the plan, in order."""
        order = pc.sort_indices(drawn, sort_keys=[("place", "ascending"), ("row_id", "ascending")])
        rows, first = drawn.take(order), self.first_position(number)
        return pa.table(
            [
                pa.repeat(self.splits[self.slices[number].split], rows.num_rows),
                np.arange(first, first + rows.num_rows, dtype=np.int64),
                rows["row_id"],
                rows["row_offset"],
            ],
            schema=PLAN_SCHEMA,
        )


def count_slices(layout: Layout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows of a partition are in each slice."""
    for batch in batches:
        numbers, rows = np.unique(layout.numbers(pa.Table.from_batches([batch])), return_counts=True)
        yield pa.record_batch([pa.array(numbers, pa.int64()), pa.array(rows, pa.int64())], schema=SLICE_COUNTS)


def divide(layout: Layout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PIECES: the rows of a partition by slice; many at once, to avoid tiny pieces."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _DIVIDED:
            yield _pieces(layout, pa.Table.from_batches(held))
            held = []
    if held:
        yield _pieces(layout, pa.Table.from_batches(held))


def _pieces(layout: Layout, drawn: pa.Table) -> pa.RecordBatch:
    numbers = layout.numbers(drawn)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    columns = np.stack([drawn[name].to_numpy() for name in _PACKED]).astype("<i8")[:, order]
    parts = np.split(columns, starts[1:], axis=1) if len(found) else []
    packed = [number.to_bytes(8, "little") + own.tobytes() for number, own in zip(found.tolist(), parts, strict=True)]
    return pa.record_batch([pa.array(found, pa.int64()), pa.array(packed, pa.binary())], schema=PIECES)


def unpack(pieces: Iterable[bytes], layout: Layout) -> tuple[int, pa.Table]:
    """The number of a slice, and its rows, from all of its pieces; there is at least one."""
    number, columns = 0, []
    for piece in pieces:
        number = int.from_bytes(piece[:8], "little")
        columns.append(np.frombuffer(piece, "<i8", offset=8).reshape(len(_PACKED), -1))
    known = dict(zip(_PACKED, np.concatenate(columns, axis=1).astype(np.int64), strict=True))
    split = np.full(len(known["place"]), layout.slices[number].split, np.int16)
    return number, pa.table([split, *(known[name] for name in _PACKED)], schema=DRAWN)


def live_offsets(physical: npt.NDArray[np.int64], deleted: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
    """The numbers of live rows among all live rows, from their offsets in a fragment whose first one has ``first``."""
    numbers: npt.NDArray[np.int64] = first + physical - np.searchsorted(deleted, physical)
    return numbers


# --- The differences of two frozen sets: rows that were added, removed, or moved to another split

ADDED, REMOVED, MOVED, KEPT = "added", "removed", "moved", "kept"
ENTRIES = (pa.field("split", pa.string()), pa.field("row_id", pa.int64()))
"""Columns of a row of a set besides ``local``, which identifies the same row in both sets."""
DIFFERENCES = pa.schema(
    [
        pa.field("change", pa.string()),
        pa.field("split_before", pa.string()),
        pa.field("split_after", pa.string()),
        pa.field("row_id_before", pa.int64()),
        pa.field("row_id_after", pa.int64()),
    ]
)
"""One row for each row of either set."""
DIFFERENCE_COUNTS = pa.schema(
    [("change", pa.string()), ("split_before", pa.string()), ("split_after", pa.string()), ("rows", pa.int64())]
)


def compare(before: pa.Table, after: pa.Table) -> pa.Table:
    """The rows of both sets, each once, with its change. Both tables have ``local`` and ENTRIES.

    Raises Refused if ``local`` is not unique.
    """
    for side in (before, after):
        if pc.count_distinct(side["local"]).as_py() < side.num_rows:
            raise Refused(
                "Several rows of a frozen set have the same key, so rows cannot be matched.",
                hint="Name columns that identify each row, as in key=['id'].",
            )
    names = ["split", "row_id"]
    joined = before.select(["local", *names]).join(
        after.select(["local", *names]), "local", join_type="full outer", left_suffix="_before", right_suffix="_after"
    )
    old, new = joined["split_before"], joined["split_after"]
    change = pc.if_else(
        pc.is_null(old), ADDED, pc.if_else(pc.is_null(new), REMOVED, pc.if_else(pc.equal(old, new), KEPT, MOVED))
    )
    return pa.table([change, old, new, joined["row_id_before"], joined["row_id_after"]], schema=DIFFERENCES)


def changed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Only rows that are not in the same split of both."""
    for batch in batches:
        yield batch.filter(pc.not_equal(batch["change"], KEPT))


def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows of a partition had which change."""
    for batch in batches:
        keys = ["change", "split_before", "split_after"]
        found = pa.Table.from_batches([batch]).group_by(keys).aggregate([([], "count_all")])
        columns = [found[key] for key in keys] + [found["count_all"]]
        yield from pa.table(columns, schema=DIFFERENCE_COUNTS).to_batches()


@dataclass(frozen=True, repr=False)
class FrozenDiff(Shown):
    before: str
    after: str
    counts: Mapping[tuple[str, str | None, str | None], int]
    """Row counts by change (added, removed, moved, kept), split before and split after."""
    frame: Any = field(default=None, compare=False)
    """The rows that were added, removed or moved: a DataFrame, or an Arrow table if there is no session. Columns:
    change, split_before, split_after, row_id_before, row_id_after (ids at the sets' own versions)."""

    def _sum(self, change: str) -> int:
        return sum(rows for (kind, _, _), rows in self.counts.items() if kind == change)

    @property
    def added(self) -> int:
        return self._sum(ADDED)

    @property
    def removed(self) -> int:
        return self._sum(REMOVED)

    @property
    def moved(self) -> int:
        """Rows of both sets that are in another split."""
        return self._sum(MOVED)

    @property
    def kept(self) -> int:
        """Rows that are in the same split of both sets."""
        return self._sum(KEPT)

    def _card(self) -> Card:
        summary = f"{self.added:,} added, {self.removed:,} removed, {self.moved:,} moved, {self.kept:,} kept"
        rows = tuple(
            (change, old or "", new or "", f"{rows:,}")
            for (change, old, new), rows in sorted(self.counts.items(), key=lambda item: tuple(map(str, item[0])))
        )
        grid = Grid(("change", "split before", "split after", "rows"), rows, frozenset({3}))
        return Card(type(self).__name__, f"{self.before} to {self.after}", summary, grids=(grid,))
