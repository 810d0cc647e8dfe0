"""Which functions of columns have one value in each fragment of a read, so that Spark need not shuffle by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidOption
from lance_spark.layout.fact_rules import Bounds, only_key
from lance_spark.layout.key_rules import Key
from lance_spark.layout.layout_rules import IDENTITY, TRUNCATE, TableLayout, Transform

GROUPING = "spark.lance.grouping"
"""Setting of a session: whether scans tell Spark their keys."""
AUTO, ALWAYS, NEVER = "auto", "always", "never"
_LONGEST_DECIMAL = 18
"""Digits of decimals that keys can have; longer ones are no keys for Spark."""


@dataclass(frozen=True)
class Grouping:
    """Functions of columns that have one value in each fragment."""

    transforms: tuple[Transform, ...]
    kinds: tuple[pa.DataType, ...]
    """The Arrow types of their values."""
    keys: Mapping[int, Key]
    """The values of each fragment of the read, by its id."""


def parse_grouping(text: str | None) -> str:
    """The value of the setting. Raises InvalidOption."""
    found = (text or AUTO).strip().lower()
    if found not in (AUTO, ALWAYS, NEVER):
        raise InvalidOption(
            f"{GROUPING} is {text!r}, which is none of {AUTO}, {ALWAYS} and {NEVER}.", hint=f"SET {GROUPING} = {AUTO}"
        )
    return found


def candidates(
    layout: TableLayout, stored: pa.Schema, output: Iterable[str], plain: Iterable[str]
) -> tuple[Transform, ...]:
    """The functions of the layout's key whose values Spark can have for a result with these columns.

    ``plain`` are the columns of which Spark compares values as their files do: a text with a collation, for example,
    equals others that have other bytes, and other buckets.
    """
    known = {*output}.intersection(plain)
    return tuple(
        each
        for each in layout.partition
        if each.column in known and key_type(each, stored.field(each.column).type) is not None
    )


def key_type(transform: Transform, kind: pa.DataType) -> pa.DataType | None:
    """The type of a function's values; None if files and Spark could tell them differently.

    Spark has instants in microseconds: two of nanoseconds that differ in a file are one value there.
    """
    if pt.is_timestamp(kind) and kind.unit != "us":
        return None
    if transform.name == TRUNCATE:
        return pa.int64() if pt.is_integer(kind) else pa.string()
    if transform.name != IDENTITY:
        return pa.int32()
    if pt.is_decimal128(kind) and kind.precision > _LONGEST_DECIMAL:
        return None
    return pa.string() if pt.is_large_string(kind) else kind


def grouping_of(
    transforms: Sequence[Transform],
    stored: pa.Schema,
    bounds: Mapping[int, Mapping[str, Bounds]],
    fragments: Sequence[int],
) -> Grouping | None:
    """The functions that have one value in each of these fragments; None if none has.

    One fragment without facts, or with several values, is enough for a function not to count: rows of one value would
    be in two places, and a join would miss some of them.
    """
    kinds = {each.column: stored.field(each.column).type for each in transforms}
    found: list[tuple[Transform, dict[int, Key]]] = []
    for each in transforms:
        keys = {fragment: only_key([each], bounds.get(fragment, {}), kinds) for fragment in fragments}
        known = {fragment: key for fragment, key in keys.items() if key is not None}
        if len(known) == len(keys):
            found.append((each, known))
    if not found or not fragments:
        return None
    types = [key_type(each, kinds[each.column]) for each, _ in found]
    return Grouping(
        tuple(each for each, _ in found),
        tuple(kind for kind in types if kind is not None),
        {fragment: tuple(value for _, keys in found for value in keys[fragment]) for fragment in fragments},
    )


def function_name(transform: Transform) -> str:
    """The name by which Spark looks the function up in a catalog, with one column as its argument.

    Spark joins by functions of a single argument, apart from the number of buckets.
    """
    return f"{TRUNCATE}_{transform.argument}" if transform.name == TRUNCATE else transform.name


def is_worthwhile(weights: Mapping[Key, float], split_size: int, cores: int, eager: bool) -> bool:
    """Whether one task for each key is fast enough, by the bytes that each key's rows have.

    A shuffle divides rows among all cores, a key does not. ``eager`` is a Spark that reads each key by one task even
    where nothing needs that.
    """
    most = split_size * (1 if eager else 8)
    return max(weights.values(), default=0.0) <= max(most, 2 * sum(weights.values()) / max(1, cores))
