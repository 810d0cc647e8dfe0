"""Arrays of nested types in memory as pyarrow, Spark and pylance itself hand them over: cut, shifted, with garbage."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

TEXT, FLAG, NUMBER = pa.string(), pa.bool_(), pa.int64()
LEAVES = {"int": NUMBER, "bool": FLAG, "text": TEXT, "decimal": pa.decimal128(10, 2)}
WRAPS = {
    "struct": lambda kind: pa.struct([("f", kind), ("n", NUMBER)]),
    "list": pa.list_,
    "map": lambda kind: pa.map_(TEXT, kind),
}


def nested_types() -> dict[str, pa.DataType]:
    """Every leaf in every type, and in every type in every type; vectors; and some deeper ones."""
    found = {}
    for leaf, kind in LEAVES.items():
        found[leaf] = kind
        for outer, wrap in WRAPS.items():
            found[f"{outer} of {leaf}"] = wrap(kind)
            for middle, inner in WRAPS.items():
                found[f"{outer} of {middle} of {leaf}"] = wrap(inner(kind))
    for outer, wrap in WRAPS.items():
        found[f"{outer} of vector"] = wrap(pa.list_(pa.float32(), 2))
        found[f"struct of struct of {outer} of struct of bool"] = WRAPS["struct"](
            WRAPS["struct"](wrap(WRAPS["struct"](FLAG)))
        )
    return found


def value(kind: pa.DataType, chance: random.Random, nulls: float) -> Any:
    """A value of the type; a null, here and inside, with that probability."""
    if chance.random() < nulls:
        return None
    if pt.is_struct(kind):
        return {field.name: value(field.type, chance, nulls) for field in kind}
    if pt.is_map(kind):
        keys = chance.sample("abcdef", chance.randrange(4))
        return [(key, value(kind.item_type, chance, nulls)) for key in keys]
    if pt.is_fixed_size_list(kind):
        return [value(kind.value_type, chance, nulls) for _ in range(kind.list_size)]
    if pt.is_list(kind):
        return [value(kind.value_type, chance, nulls) for _ in range(chance.randrange(4))]
    if pt.is_boolean(kind):
        return chance.random() < 0.5
    if pt.is_string(kind):
        return "x" * chance.randrange(4)
    if pt.is_decimal(kind):
        return Decimal(chance.randrange(10_000)).scaleb(-2)
    return float(chance.randrange(100)) if pt.is_floating(kind) else chance.randrange(100)


def array(kind: pa.DataType, rows: int, nulls: float, seed: int = 1) -> pa.Array:
    """Values of the type."""
    chance = random.Random(seed)
    return pa.array([value(kind, chance, nulls) for _ in range(rows)], kind)


def layouts(kind: pa.DataType, rows: int, nulls: float) -> dict[str, list[pa.Array]]:
    """Arrays of the type by what is odd about their memory; each is one column, in chunks."""
    whole = array(kind, rows, nulls)
    mask = pa.array([number % 3 == 0 for number in range(rows)])
    found = {
        "whole": [whole],
        "without its first rows": [whole.slice(3)],
        "without its last rows": [whole.slice(0, rows - 5)],
        "out of the middle": [whole.slice(11, rows - 20)],
        "in chunks": [whole.slice(start, 7) for start in range(0, rows, 7)],
        "nulls only": [pa.nulls(rows, kind)],
        "an empty chunk": [whole.slice(3, 0), whole.slice(3)],
    }
    if pt.is_struct(kind):
        children = [array(field.type, rows + 4, nulls, 2).slice(2, rows) for field in kind]
        found["of cut children"] = [pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)]
    if pt.is_list(kind):
        inside = array(kind.value_type, 3 * rows, nulls, 2)
        ends = pa.array(range(0, 2 * rows + 1, 2), pa.int32())
        late = pa.array(range(5, 2 * rows + 6, 2), pa.int32())
        found["that begins late"] = [pa.ListArray.from_arrays(late, inside, type=kind)]
        found["of cut elements"] = [pa.ListArray.from_arrays(ends, inside.slice(9), type=kind)]
        found["with elements of nulls"] = [pa.ListArray.from_arrays(ends, inside, type=kind, mask=mask)]
    return found
