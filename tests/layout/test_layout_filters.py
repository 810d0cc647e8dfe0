"""Which files a filter rules out by what is known of them: never one with a row that matches."""

import random as randoms
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.layout.fact_rules import (
    Bounds,
    as_json,
    bounds_of,
    decoded,
    encoded,
    from_json,
    only_key,
    sealed,
    together,
)
from lance_spark.layout.filter_rules import is_surely_true, may_be_true, parse_filter
from lance_spark.layout.layout_rules import parse

pytestmark = pytest.mark.pure
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("b", pa.bool_()),
        ("m", pa.decimal128(10, 2)),
        ("i8", pa.int8()),
        ("i32", pa.int32()),
        ("u", pa.large_string()),
        ("sec", pa.timestamp("s", "UTC")),
        ("ms", pa.timestamp("ms")),
        ("ns", pa.timestamp("ns")),
        ("wide", pa.decimal128(38, 10)),
    ]
)
BUCKETS = dict.fromkeys(("id", "s", "d", "ts", "f", "g", "b", "i8", "i32", "u", "sec", "ms", "ns"), (4,))
UNITS = {"sec": ("Second", 7_200), "ms": ("Millisecond", 7_200_001), "ns": ("Nanosecond", 7_200_000_000_001)}
LETTERS = ["", " ", "a", "a ", "ab", "\u00e4", "\uffff", "\U0001f600", "\U0001f600a"]
OPERATORS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def made(name, number):
    """A value of a column, and its constant in Lance's SQL."""
    if name in ("id", "i8", "i32"):
        return number, str(number)
    if name in (*UNITS, "u", "wide"):
        return made_of_others(name, number)
    if name == "s":
        return f"k'{number:03}", f"'k''{number:03}'"
    if name == "d":
        return date(1970, 1, 1) + timedelta(number), f"CAST({number} AS DATE)"
    if name == "ts":
        at = EPOCH + timedelta(hours=number)
        return at, f"arrow_cast({number * 3_600_000_000}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    if name == "f" and number == -1:
        return -0.0, "CAST('-0.0' AS DOUBLE)"
    if name == "f":
        return number / 7, f"CAST('{number / 7!r}' AS DOUBLE)"
    if name == "g":
        value = pa.scalar(number / 7, pa.float32()).as_py()
        return value, f"CAST('{number / 7:.6g}' AS FLOAT)" if number == 0 else f"CAST('{value!r}' AS FLOAT)"
    if name == "b":
        return number % 2 == 0, "true" if number % 2 == 0 else "false"
    return Decimal(number) / 4, f"CAST('{Decimal(number) / 4:f}' AS DECIMAL(10,2))"


def made_of_others(name, number):
    if name in UNITS:
        unit, step = UNITS[name]
        zone = 'Some("UTC")' if name == "sec" else "None"
        at = pa.scalar(number * step, pa.int64()).cast(SCHEMA.field(name).type)
        return at, f"arrow_cast({number * step}, 'Timestamp({unit}, {zone})')"
    if name == "u":
        value = LETTERS[number % len(LETTERS)] * (1 + number % 2)
        return value, f"'{value}'"
    value = number * Decimal("1000000000000.25")
    return value, f"CAST('{value:f}' AS DECIMAL(38,10))"


def random_rows(random):
    low, width = random.randrange(-40, 40), random.choice([0, 1, 5, 30])
    count = random.randrange(1, 12)
    return pa.table(
        {
            field.name: pa.array(
                [
                    None if random.random() < 0.1 else made(field.name, low + random.randrange(width + 1))[0]
                    for _ in range(count)
                ],
                field.type,
            )
            for field in SCHEMA
        }
    )


def random_condition(random, rows, depth=0):
    """A condition's SQL, and which of the rows it is true for."""
    if depth < 3 and random.random() < 0.5:
        (one, left), (two, right) = (random_condition(random, rows, depth + 1) for _ in range(2))
        if random.random() < 0.5:
            return f"({one}) AND ({two})", pc.and_kleene(left, right)
        return f"({one}) OR ({two})", pc.or_kleene(left, right)
    field = random.choice(list(SCHEMA))
    column = rows[field.name].combine_chunks()
    name = f"`{field.name}`" if random.random() < 0.5 else field.name
    kind = random.randrange(5)
    if kind == 0:
        return f"{name} IS NULL", pc.is_null(column)
    if kind == 1:
        return f"{name} IS NOT NULL", pc.is_valid(column)
    value, text = made(field.name, random.randrange(-50, 80))
    constant = pa.scalar(value, field.type)
    if kind == 2:
        other, listed = made(field.name, random.randrange(-50, 80))
        found = pc.or_kleene(pc.equal(column, constant), pc.equal(column, pa.scalar(other, field.type)))
        return f"{name} IN ({text}, {listed})", found
    operator = random.choice([*OPERATORS])
    if kind == 3 and random.random() < 0.5:
        return f"NOT {name} {operator} {text}", pc.invert(OPERATORS[operator](column, constant))
    return f"{name} {operator} {text}", OPERATORS[operator](column, constant)


@pytest.mark.parametrize("seed", range(40))
def test_no_file_with_a_row_that_matches_is_ruled_out(seed):
    random = randoms.Random(seed)
    ruled_out = sure = 0
    for _ in range(60):
        rows = random_rows(random)
        sql, true = random_condition(random, rows)
        bounds = {
            field.name: from_json(as_json(found))
            for field in SCHEMA
            if random.random() < 0.9
            and (found := bounds_of(rows[field.name].combine_chunks(), BUCKETS.get(field.name, ()))) is not None
        }
        condition = parse_filter(sql, SCHEMA, BUCKETS)
        possible = may_be_true(condition, bounds)
        assert possible or not pc.any(true).as_py(), (sql, rows.to_pylist())
        if is_surely_true(condition, bounds):
            assert pc.all(pc.fill_null(true, False)).as_py(), (sql, rows.to_pylist())
            sure += 1
        ruled_out += not possible
    assert ruled_out > 3
    assert sure


AT_3 = {"id": Bounds(3, 3, False, ((4, 3),))}
UNKNOWN = [
    "CASE WHEN true AND id = 5 AND true THEN false ELSE true END",
    "NOT id = 5",
    "id = 5 OR length(s) = 1",
    "id = 5.5",
    "id = '5'",
    "id + 2 = 5",
    "id = 5 IS NOT TRUE",
    "(id = 5) = false",
    "id = 99999999999999999999",
    "d = '2024-1-1'",
    "ts > timestamp '2024-01-01 00:00:00'",
    "f > 1",
    "other = 5",
    "id = 5 -- or not",
    "coalesce(id, 5) = 5",
    "id = (5",
]


@pytest.mark.parametrize("sql", UNKNOWN)
def test_of_what_is_not_understood_nothing_is_assumed(sql):
    assert may_be_true(parse_filter(sql, SCHEMA, BUCKETS), AT_3)


@pytest.mark.parametrize(
    ("sql", "possible"),
    [
        ("id = 5", False),
        ("5 = id", False),
        ("id <> 3", False),
        ("id BETWEEN 4 AND 9 AND length(s) > 3", False),
        ("id BETWEEN 2 AND 3", True),
        ("id IN (4, 5) AND (s = 'a' OR s = 'b')", False),
        ("id IN (3, 5)", True),
        ("id IS NULL", False),
        ("s = 'x'", True),
        ("id < -3", False),
    ],
)
def test_a_file_that_holds_threes_is_ruled_out_by_what_three_does_not_match(sql, possible):
    assert may_be_true(parse_filter(sql, SCHEMA, BUCKETS), AT_3) is possible


def test_a_bucket_rules_out_values_of_others_within_its_bounds():
    bounds = {"id": Bounds(-100, 100, False, ((4, 3),))}
    kept = [value for value in range(40) if may_be_true(parse_filter(f"id = {value}", SCHEMA, BUCKETS), bounds)]
    assert 0 < len(kept) < 25


def test_names_that_differ_only_in_case_are_not_told_apart():
    schema = pa.schema([("id", pa.int64()), ("ID", pa.int64())])
    assert parse_filter("id = 5", schema, {}) is None


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (pa.array([1.0, float("nan")]), None),
        (pa.array(["a" * 65]), None),
        (pa.array([[1]]), None),
        (pa.array([None, None], pa.int32()), Bounds(None, None, True)),
        (pa.array(["b", None, "a"]), Bounds("a", "b", True)),
    ],
)
def test_bounds_are_told_or_not_at_all(values, known):
    assert bounds_of(values) == known


def test_damaged_facts_are_none():
    content = encoded({"f.lance": {"0": as_json(Bounds(1, 2, False))}})
    assert decoded(content) == {"f.lance": {0: Bounds(1, 2, False)}}
    for at in range(len(content)):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert decoded(changed) in ({}, decoded(content))
        assert decoded(content[:at]) == {}


def test_facts_of_a_later_version_are_none_and_more_in_a_file_is_no_matter():
    facts = {"f.lance": {"0": [*as_json(Bounds(1, 2, False)), "more"]}}
    assert decoded(sealed({"files": facts, "by": "another"})) == {"f.lance": {0: Bounds(1, 2, False)}}
    assert decoded(sealed({"files": facts, "version": 2})) == {}
    for wrong in ([1, 2], [1, 2, False, [[4]]], "facts", 7, [{"c": 1}, 2, False, []]):
        assert decoded(sealed({"files": {"f.lance": {"0": wrong}}})) == {}
    assert decoded(b"") == decoded(b"no facts at all") == {}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Bounds(1, 9, True, ((4, 3),)), Bounds(0, 8, False, ((8, 7),)), Bounds(1, 8, False, ((4, 3), (8, 7)))),
        (Bounds(1, 9, False, ((4, 3),)), Bounds(1, 9, False, ((4, 3),)), Bounds(1, 9, False, ((4, 3),))),
        (Bounds(None, None, True, ((4, 0),)), Bounds(1, 9, True), Bounds(None, None, True, ((4, 0),))),
    ],
)
def test_two_facts_of_the_same_values_are_both_true(one, other, both):
    assert one.narrowed(other) == both
    found = together([{"f": {0: one}, "g": {0: one}}, {}, {"f": {0: other, 1: one}, "h": {0: one}}])
    assert found == {"f": {0: both, 1: one}, "g": {0: one}, "h": {0: one}}


KINDS = {field.name: field.type for field in SCHEMA}
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("partition", "bounds", "key"),
    [
        ("id", {"id": Bounds(3, 3, False)}, (3,)),
        ("id", {"id": Bounds(3, 4, False)}, None),
        ("id", {"id": Bounds(3, 3, True)}, None),
        ("id", {"id": Bounds(None, None, True)}, (None,)),
        ("id", {}, None),
        ("bucket(4, id)", {"id": Bounds(0, 99, True, ((4, 0), (8, 4)))}, (0,)),
        ("bucket(4, id)", {"id": Bounds(0, 99, True, ((8, 4),))}, None),
        ("days(ts)", {"ts": Bounds(0, 23 * HOUR, False)}, (0,)),
        ("days(ts)", {"ts": Bounds(0, 24 * HOUR, False)}, None),
        ("days(ts)", {"ts": Bounds(-HOUR, -1, False)}, (-1,)),
        ("years(d), truncate(1, s)", {"d": Bounds(0, 364, False), "s": Bounds("ab", "az", False)}, (0, "a")),
    ],
)
def test_a_fragment_has_a_key_only_if_all_of_its_rows_surely_have_it(partition, bounds, key):
    assert only_key(parse(partition, None).partition, bounds, KINDS) == key
