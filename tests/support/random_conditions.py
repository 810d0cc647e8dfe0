"""Random conditions in Spark's SQL on columns of every kind: comparisons, what is computed from columns, and both."""

from __future__ import annotations

import random
from collections.abc import Sequence

CONSTANTS = {
    "whole": ("-1", "0", "1", "2", "3", "20", "CAST(NULL AS INT)"),
    "text": ("'a'", "'A'", "'ab'", "'ab '", "' ab'", "''", "'ä'", "'😀'", "'😀a'", "'\uffff'", "'b'"),
    "date": (
        "DATE'1969-12-25'", "DATE'1970-01-01'", "DATE'1970-01-03'", "DATE'1582-10-04'", "DATE'1582-10-15'",
        "DATE'1500-02-28'", "CAST(NULL AS DATE)",
    ),
    "instant": (
        "TIMESTAMP'1970-01-01 00:00:00'", "TIMESTAMP'1969-12-31 22:00:00Z'", "TIMESTAMP'1970-01-01 10:26:40Z'",
        "TIMESTAMP'1969-12-31 07:20:00Z'", "TIMESTAMP'1582-10-10 00:00:00Z'", "TIMESTAMP'1500-01-01 00:00:00'",
        "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
    ),
    "clock": (
        "TIMESTAMP_NTZ'1970-01-01 00:00:00'", "TIMESTAMP_NTZ'1969-12-31 07:20:00'",
        "TIMESTAMP_NTZ'1970-01-01 10:26:40'",
        "TIMESTAMP_NTZ'1969-12-31 12:53:20'", "TIMESTAMP_NTZ'1500-01-01 00:00:00'",
    ),
    "decimal": ("0.25BD", "0.5BD", "1.50BD", "1BD", "0.750BD", "0.333BD", "-1BD", "99999999999BD"),
    "float": ("0.0D", "-0.0D", "1.5D", "double('NaN')", "-1.5D", "double('Infinity')", "0.1D", "float(0.1)"),
    "boolean": ("true", "false", "CAST(NULL AS BOOLEAN)"),
    "bytes": ("X'61'", "X''", "X'6100'", "X'FF'", "X'62'"),
}  # fmt: skip
ANY = (
    "{c} = {k}", "{k} = {c}", "{c} <> {k}", "{c} < {k}", "{c} <= {k}", "{c} > {k}", "{k} <= {c}", "NOT {c} = {k}",
    "NOT ({c} < {k})", "{c} IN ({k}, {l})", "{c} NOT IN ({k}, {l})", "{c} IN ({k}, NULL)", "{c} NOT IN ({k}, NULL)",
    "{c} <=> {k}", "NOT ({c} <=> {k})", "{c} <=> NULL", "{c} IS NULL", "{c} IS NOT NULL", "{c} BETWEEN {k} AND {l}",
    "{c} NOT BETWEEN {k} AND {l}", "coalesce({c}, {k}) = {l}", "if({c} IS NULL, {k}, {c}) <> {l}",
    "CASE WHEN {c} = {k} THEN v > 500 ELSE v < 300 END", "({c} = {k}) <=> NULL", "({c} > {k}) IS NOT TRUE",
    "({c} = {k}) = (v > 500)", "{c} = (SELECT max({c}) FROM a)", "{c} IN (SELECT {c} FROM a WHERE v % 5 = 1)",
    "nullif({c}, {k}) = {l}",
)  # fmt: skip
FORMS = {
    "whole": (
        "{c} + 1 = {k}", "{c} % 2 = 0", "CAST({c} AS STRING) = '1'", "{c} = 1.5", "{c} < 1.5", "{c} = 1.0",
        "{c} > '1'",
        "CAST({c} AS DOUBLE) >= 1", "abs({c}) = 1", "{c} = 3000000000", "{c} <> 3000000000", "-{c} = 1",
        "{c} BETWEEN 0.5 AND 2", "CAST({c} AS TINYINT) = 1", "CAST({c} AS BOOLEAN)", "{c} IN (1, 2.5)", "{c} <=> 2L",
        "lake.truncate_2({c}) = 0", "lake.bucket(4, {c}) = 1",
    ),
    "text": (
        "{c} LIKE 'a%'", "{c} LIKE 'a_'", "{c} LIKE '%b'", "startswith({c}, 'a')", "substring({c}, 1, 1) = 'a'",
        "left({c}, 1) = '😀'", "upper({c}) = 'A'", "trim({c}) = 'ab'", "rtrim({c}) <> 'ab'", "length({c}) = 2",
        "{c} || 'x' = 'ax'", "{c} LIKE '😀%'", "{c} RLIKE '^a'", "NOT {c} LIKE 'a%'", "{c} LIKE '%'", "{c} ILIKE 'A%'",
        "startswith({c}, '')", "{c} = CAST('ab' AS CHAR(4))", "lake.bucket(3, {c}) = 1", "ascii({c}) = 97",
    ),
    "date": (
        "year({c}) = 1970", "month({c}) = 12", "date_trunc('MONTH', {c}) = TIMESTAMP'1969-12-01 00:00:00'",
        "trunc({c}, 'YEAR') = DATE'1970-01-01'", "{c} = TIMESTAMP'1969-12-25 00:00:00'",
        "{c} > TIMESTAMP'1969-12-25 12:00:00'", "{c} < TIMESTAMP_NTZ'1969-12-25 00:00:01'",
        "CAST({c} AS TIMESTAMP) < TIMESTAMP'1970-01-01 00:00:00'", "CAST({c} AS STRING) = '1969-12-25'",
        "{c} = '1969-12-25'", "{c} <= '1970-01-01'", "{c} + 1 = DATE'1970-01-01'",
        "datediff({c}, DATE'1970-01-01') = 0",
        "dayofweek({c}) = 4", "extract(YEAR FROM {c}) IN (1500, 1582)", "date_add({c}, 1) > DATE'1970-01-01'",
        "last_day({c}) = DATE'1969-12-31'", "lake.years({c}) = 0", "unix_date({c}) = -1", "year({c}) < 1600",
    ),
    "instant": (
        "year({c}) = 1970", "date_trunc('DAY', {c}) = TIMESTAMP'1970-01-01 00:00:00'",
        "CAST({c} AS DATE) = DATE'1970-01-01'",
        "to_date({c}) IN (DATE'1970-01-01', DATE'1969-12-31')", "hour({c}) = 3", "{c} >= DATE'1970-01-01'",
        "{c} = '1970-01-01 00:00:00'", "{c} < TIMESTAMP_NTZ'1970-01-01 00:00:00'",
        "date({c}) BETWEEN DATE'1969-12-31' AND DATE'1970-01-01'",
        "CAST({c} AS STRING) LIKE '1970%'", "{c} < current_timestamp()", "date_format({c}, 'yyyy') = '1970'",
        "unix_micros({c}) > 0", "{c} + INTERVAL 1 DAY > TIMESTAMP'1970-01-01 00:00:00'", "year({c}) <> 1970",
        "CAST({c} AS TIMESTAMP_NTZ) = TIMESTAMP_NTZ'1970-01-01 00:00:00'", "lake.days({c}) = 0",
        "lake.hours({c}) < 0",
        "date_trunc('HOUR', {c}) <= TIMESTAMP'1970-01-01 00:00:00Z'", "month({c}) = 12 AND year({c}) = 1969",
        "CAST({c} AS DATE) < DATE'1969-12-31'", "CAST({c} AS DATE) > DATE'1969-12-31'", "CAST({c} AS LONG) = 0",
    ),
    "clock": (
        "year({c}) = 1970", "date_trunc('DAY', {c}) = TIMESTAMP'1970-01-01 00:00:00'",
        "CAST({c} AS DATE) = DATE'1970-01-01'",
        "hour({c}) = 3", "{c} >= DATE'1970-01-01'", "{c} = '1970-01-01 00:00:00'",
        "{c} < TIMESTAMP'1970-01-01 00:00:00Z'",
        "CAST({c} AS STRING) LIKE '1970%'", "to_date({c}) <> DATE'1970-01-01'", "lake.days({c}) = 0",
        "lake.hours({c}) < 0",
        "CAST({c} AS TIMESTAMP) > TIMESTAMP'1970-01-01 00:00:00'", "CAST({c} AS DATE) > DATE'1969-12-31'",
    ),
    "decimal": (
        "{c} = 1.5D", "{c} = 1", "{c} IN (0.25, 1)", "{c} > 1", "CAST({c} AS INT) = 1", "round({c}) = 1",
        "{c} < 99999999999",
        "CAST({c} AS DECIMAL(38, 18)) = 0.75", "{c} * 2 = 1.5", "{c} = '0.25'", "{c} BETWEEN 0.2 AND 0.7",
        "{c} <> 0.2500001",
        "CAST({c} AS STRING) LIKE '0.5%'", "CAST({c} AS DECIMAL(3, 1)) = 0.5", "-{c} < 0", "{c} <=> 0.5",
    ),
    "float": (
        "isnan({c})", "NOT isnan({c})", "{c} > 1", "{c} IN (0, double('NaN'))", "{c} = 0", "{c} <> 0",
        "{c} > float('1.2')",
        "CAST({c} AS STRING) = '-0.0'", "{c} <=> double('NaN')", "{c} <=> -0.0D", "{c} = 1.5BD", "-{c} = 0",
        "{c} + 0 = 0",
        "CAST({c} AS INT) = 1", "lake.bucket(4, {c}) = 0", "{c} NOT IN (0.0D, 1.5D)", "NOT ({c} >= 0)",
        "signum({c}) = 0",
    ),
    "boolean": (
        "{c}", "NOT {c}", "{c} = true", "{c} <> false", "CAST({c} AS INT) = 1", "{c} IS NOT TRUE", "{c} IS FALSE",
    ),
    "bytes": (
        "length({c}) = 1", "CAST({c} AS STRING) = 'a'", "hex({c}) = '61'", "{c} = 'a'", "startswith({c}, X'61')",
    ),
}  # fmt: skip
_KINDS = {
    "tinyint": "whole", "smallint": "whole", "int": "whole", "bigint": "whole", "date": "date", "timestamp": "instant",
    "timestamp_ntz": "clock", "float": "float", "double": "float", "boolean": "boolean", "binary": "bytes",
}  # fmt: skip


def kind_of(name: str) -> str:
    """The kind of a type, by Spark's ``simpleString`` of it."""
    word = name.partition("(")[0].partition(" ")[0]
    return _KINDS.get(word, "text" if word == "string" else word)


def condition(choose: random.Random, columns: Sequence[tuple[str, str]], depth: int = 0) -> str:
    """A condition on columns, each a name and a kind, of a relation named ``a``."""
    if depth < 3 and choose.random() < 0.3:
        left, right = (condition(choose, columns, depth + 1) for _ in range(2))
        joined = f"({left}) {choose.choice(['AND', 'OR'])} ({right})"
        return joined if choose.random() < 0.75 else f"NOT ({joined})"
    name, kind = choose.choice(columns)
    form = choose.choice(ANY if choose.random() < 0.5 else FORMS[kind])
    return form.format(c=name, k=choose.choice(CONSTANTS[kind]), l=choose.choice(CONSTANTS[kind]))
