"""Random queries over the table of ``native_tables``, as SQL with ``{t}`` for the table's name."""

from __future__ import annotations

import random

_CONSTANTS = {
    "k": ["0", "5", "33", "89", "1000"],
    "g": ["1", "3", "9"],
    "i8": ["-128", "0", "127", "200"],
    "u8": ["0", "128", "255", "-1"],
    "big": ["0", "1099511627776", "9007199254740993", "-1"],
    "f": ["0.0F", "float('NaN')", "1.5F", "0.1F", "float('-0.0')", "0.1D"],
    "d": ["0.0D", "double('NaN')", "1.5D", "double('Infinity')", "double('-0.0')", "0.1D"],
    "s": ["''", "'a'", "'it''s'", "'a%b'", "'A'", "'ab'"],
    "raw": ["X''", "X'61'", "X'FF'"],
    "dec": ["1.50", "1.5", "0.001", "99999999.99", "1"],
    "dt": ["DATE'1582-10-04'", "DATE'2013-01-01'", "DATE'0001-01-01'", "DATE'1969-12-31'"],
    "ts": ["TIMESTAMP'2020-10-25 01:30:00'", "TIMESTAMP'1969-12-31 23:59:59.999999'", "TIMESTAMP'1582-10-15 00:00:00'"],
    "ntz": ["TIMESTAMP_NTZ'2020-10-25 01:30:00'", "TIMESTAMP_NTZ'1970-01-01 00:00:00'"],
    "st.a": ["1", "3"],
    "st.b": ["'a'", "''"],
    "st.c.x": ["0.0D", "double('NaN')"],
    "Camel": ["'a'", "'A'"],
    "camel": ["'a'"],
    "`odd na'me`": ["1", "2"],
}
_PATTERNS = ("'a%'", "'%b'", "'%a%'", "'a_b'", "'a\\\\%b'", "''")
_TEXTS = ("s", "st.b", "Camel")
_SUMMED = ("g", "i8", "u8", "big", "dec", "st.a", "k")
_AVERAGED = ("g", "i8", "dec", "st.a")
_ORDERED = tuple(column for column in _CONSTANTS if column != "camel")
_GROUPED = ("g", "yes", "s", "d", "dt", "dec", "st.a", "f", "ts", "ntz", "raw", "u8")
_SHOWN = (*_ORDERED, "yes", "st", "list", "upper(s)", "st.c")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def predicate(chance: random.Random, depth: int = 2) -> str:
    """A condition."""
    if depth and chance.random() < 0.5:
        left, right = predicate(chance, depth - 1), predicate(chance, depth - 1)
        return chance.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
    column = chance.choice(list(_CONSTANTS))
    constant = chance.choice(_CONSTANTS[column])
    kind = chance.randrange(8)
    if kind == 0:
        return chance.choice([f"{column} IS NULL", f"{column} IS NOT NULL", "yes", "NOT yes", "st IS NULL"])
    if kind == 1:
        return f"{column} IN ({', '.join(chance.choices([*_CONSTANTS[column], 'NULL'], k=3))})"
    if kind == 2 and column in _TEXTS:
        return f"{column} LIKE {chance.choice(_PATTERNS)}"
    if kind == 3 and column in _TEXTS:
        return f"length({column}) > 1"
    if kind == 4 and column in ("k", "g", "big"):
        return f"{column} % 2 = 1"
    if kind == 5:
        return f"{column} BETWEEN {constant} AND {chance.choice(_CONSTANTS[column])}"
    return f"{column} {chance.choice(_COMPARISONS)} {constant}"


def where(chance: random.Random) -> str:
    """A WHERE clause, or none."""
    return f" WHERE {predicate(chance)}" if chance.random() < 0.75 else ""


def _aggregates(chance: random.Random) -> str:
    made = [
        "count(*)",
        f"count({chance.choice(_SHOWN)})",
        f"sum({chance.choice(_SUMMED)})",
        f"avg({chance.choice(_AVERAGED)})",
        f"min({chance.choice(_ORDERED)})",
        f"max({chance.choice(_ORDERED)})",
        f"count(DISTINCT {chance.choice(_GROUPED)})",
        f"sum(k) FILTER (WHERE {predicate(chance, 0)})",
    ]
    return ", ".join(chance.sample(made, chance.randint(1, 3)))


def query(seed: int) -> str:
    """One query whose rows are the same each time, in any order."""
    chance = random.Random(seed)
    kind = chance.randrange(9)
    columns = ", ".join(chance.sample(_SHOWN, chance.randint(1, 4)))
    if kind <= 1:
        return f"SELECT {columns} FROM {{t}}{where(chance)}"
    if kind == 2:
        return f"SELECT {_aggregates(chance)} FROM {{t}}{where(chance)}"
    if kind <= 4:
        groups = ", ".join(chance.sample(_GROUPED, chance.randint(1, 2)))
        return f"SELECT {groups}, {_aggregates(chance)} FROM {{t}}{where(chance)} GROUP BY {groups}"
    if kind == 5:
        order = f"{chance.choice(_ORDERED)} {chance.choice(['ASC', 'DESC'])} NULLS {chance.choice(['FIRST', 'LAST'])}"
        offset = chance.choice(["", " OFFSET 2"])
        return f"SELECT k, {columns} FROM {{t}}{where(chance)} ORDER BY {order}, k LIMIT {chance.randint(0, 9)}{offset}"
    if kind == 6:
        return f"SELECT count(*) FROM (SELECT {columns} FROM {{t}}{where(chance)} LIMIT {chance.randint(0, 50)})"
    if kind == 7:
        on = chance.choice(["a.g = b.g", "a.s = b.s AND a.g = b.g", "a.dt = b.dt"])
        side = f"(SELECT * FROM {{t}} WHERE {predicate(chance, 1)} AND k < 40)"
        how = chance.choice(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        return f"SELECT count(*), sum(a.k) FROM {{t}} a {how} {side} b ON {on}"
    inner = f"SELECT {chance.choice(['g', 'u8', 'i8'])} FROM {{t}}{where(chance)}"
    return f"SELECT k FROM {{t}} WHERE g {chance.choice(['IN', 'NOT IN'])} ({inner}) OR {predicate(chance, 1)}"
