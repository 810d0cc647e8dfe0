"""Predicates of Spark, as filters of Lance, on tables with facts of columns of every kind: what they leave out or take
as a whole is what Lance finds in the rows."""

import math
import random
from decimal import Decimal

import lance
import pyarrow as pa
import pyarrow.types as pt
import pytest
from lance.fragment import LanceFragment
from support.kinds import NIGHT

from lance_spark.layout.pruning import judge
from lance_spark.pushdown.filters import Call, Cast, Column, Literal, conjunction, spark_name, translate
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

TEXTS = [
    "", " ", "a", "a ", "ab", "ä", "\uffff", "😀", "😀a", "it's", "a%", "a_b", "k\\", "-- x", "') OR ('",
]  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, -1.5, 0.1, math.inf, -math.inf, math.nan]
TICKS = [-1_000_000, 0, 1_000_000, 2_000_000, 86_400_000_000, -86_400_000_000, -12_000_000_000_000_000]
SOON = TICKS[:-1]  # nanoseconds reach no further than the year 1677
VALUES = {
    "id": (pa.int64(), [-(2**31), -1, 0, 1, 2, 3, 2**40]),
    "i8": (pa.int8(), [-128, -1, 0, 1, 2, 127]),
    "i32": (pa.int32(), [-(2**31), -1, 0, 1, 2, 2**31 - 1]),
    "s": (pa.string(), TEXTS),
    "u": (pa.large_string(), TEXTS),
    "d": (pa.date32(), [-200_000, -141_428, -141_427, -1, 0, 1, 20_000]),
    "ts": (pa.timestamp("us", "UTC"), TICKS),
    "n": (pa.timestamp("us"), TICKS),
    "sec": (pa.timestamp("s", "UTC"), TICKS),
    "ms": (pa.timestamp("ms"), TICKS),
    "ns": (pa.timestamp("ns"), SOON),
    "f": (pa.float64(), [*FLOATS, 1e300, 5e-324]),
    "g": (pa.float32(), [pa.scalar(each, pa.float32()).as_py() for each in FLOATS]),
    "b": (pa.bool_(), [True, False]),
    "m": (pa.decimal128(10, 2), [Decimal(text) for text in ("0.00", "1.50", "-0.01", "99999999.99", "0.25")]),
    "w": (pa.decimal128(38, 10), [Decimal(text) for text in ("0", "1.5", "-1E-10", "1234567890123456789012345678")]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
LAYOUTS = [
    "", "bucket(4, id)", "bucket(3, s)", "bucket(2, f)", "bucket(2, g)", "bucket(4, ns)", "bucket(4, ms)", "d", "ts",
    "i8", "bucket(2, sec)", "b", "m", "w", "days(ns)", "truncate(1, s)", "bucket(3, u)", "bucket(3, i8), bucket(3, n)",
]  # fmt: skip
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


def column_of(choose, kind, values):
    """Six rows with few values each, so that many files have only some of them."""
    few = choose.choices(values, k=choose.choice([1, 1, 2, 3]))
    made = [None if choose.random() < 0.12 else choose.choice(few) for _ in range(6)]
    if pt.is_timestamp(kind):
        return pa.array(made, pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)
    return pa.array(made, pa.int32()).cast(kind) if pt.is_date32(kind) else pa.array(made, kind)


def constant(choose, name):
    kind, values = VALUES[name]
    value = choose.choice(values)
    return Literal(value + choose.choice([0, 0, 1, -1, 500]) if pt.is_timestamp(kind) else value, spark_name(kind))


def predicate(choose, depth=0):
    if depth < 3 and choose.random() < 0.35:
        operator = choose.choice(["AND", "OR", "NOT"])
        return Call(operator, tuple(predicate(choose, depth + 1) for _ in range(1 if operator == "NOT" else 2)))
    name = choose.choice(SCHEMA.names)
    column, null = Column((name,)), Literal(None, spark_name(SCHEMA.field(name).type))
    kind = choose.randrange(8)
    if kind == 0:
        return Call(choose.choice(["IS_NULL", "IS_NOT_NULL"]), (column,))
    if kind == 1:
        listed = (constant(choose, name) if choose.random() < 0.9 else null for _ in range(choose.randrange(1, 4)))
        return Call("IN", (column, *listed))
    if kind == 2:
        return Call("<=>", (column, constant(choose, name) if choose.random() < 0.8 else null))
    if kind in (3, 4, 5) and name in ("s", "u"):
        return Call(choose.choice(["STARTS_WITH", "ENDS_WITH", "CONTAINS"]), (column, constant(choose, name)))
    if kind == 4 and name in ("i8", "i32"):
        wide = Literal(choose.choice([-1, 0, 1, 300, -300, 2**40]), "bigint")
        return Call(choose.choice(COMPARISONS), (Cast(column, "", "bigint"), wide))
    if kind == 5 and name == "g":
        wide = Literal(choose.choice([0.1, 0.0, -0.0, 1.5, math.nan]), "double")
        return Call(choose.choice(COMPARISONS), (Cast(column, "", "double"), wide))
    sides = (column, constant(choose, name))
    return Call(choose.choice(COMPARISONS), sides if choose.random() < 0.8 else sides[::-1])


@pytest.mark.parametrize("seed", range(60) if NIGHT else range(2))
def test_what_is_left_out_or_taken_as_a_whole_is_what_the_rows_say(uri, seed):
    choose = random.Random(seed)
    layout = choose.choice(LAYOUTS)
    options = {"path": uri, "cluster_by": ", ".join(SCHEMA.names), **({"partition_by": layout} if layout else {})}
    for _ in range(3):
        rows = pa.table([column_of(choose, *VALUES[name]) for name in SCHEMA.names], SCHEMA)
        job = begin(plan_write(options, SCHEMA, overwrite=False))
        finish(job, write_rows(job, rows.to_batches()))
    location, dataset = locate(uri), lance.dataset(uri)
    pin = pin_latest(location, None)
    left_out = whole = 0
    for _ in range(60):
        pushed = translate(predicate(choose), SCHEMA)
        sql = None if pushed is None else conjunction([pushed])
        if sql is None:
            continue
        judged = judge(location, pin, sql)
        for key in judged.excluded:
            assert LanceFragment.count_rows(dataset.get_fragment(key), sql) == 0, (layout, sql)
        for key in judged.whole:
            fragment = dataset.get_fragment(key)
            assert LanceFragment.count_rows(fragment, sql) == fragment.count_rows(), (layout, sql)
        left_out, whole = left_out + len(judged.excluded), whole + len(judged.whole)
    assert left_out > 20
    assert whole
