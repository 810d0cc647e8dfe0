"""What a table declares about where its rows go: transforms of columns by which fragments are divided, and an order.

Two texts in the table's configuration hold it, so that every writer keeps it and a person can read it:
``lance_spark.partition_by`` is ``days(ts), bucket(8, id)``, and ``lance_spark.cluster_by`` is ``carrier, origin`` or
``zorder(lat, lon)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.table_properties import LAYOUT
from lance_spark.core.texts import quoted_name
from lance_spark.errors import InvalidOption, NotFound, Refused

PARTITION_BY, CLUSTER_BY = SETTINGS = LAYOUT
"""Keys of the table's configuration."""
IDENTITY, BUCKET, TRUNCATE = "identity", "bucket", "truncate"
TIMES = ("years", "months", "days", "hours")
_SYNONYMS = {
    **{name: name for name in (IDENTITY, BUCKET, TRUNCATE, *TIMES)},
    **{name[:-1]: name for name in TIMES},
    "date": "days",
    "date_hour": "hours",
}
MOST_BUCKETS = 1024
"""The JVM connector takes no more either."""
_CURVE = "zorder"
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[^\W\d]\w*|\d+|[(),])")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Transform:
    """One part of a partition's key: a function of one column."""

    name: str
    """``identity``, ``bucket``, ``truncate``, or one of TIMES."""
    column: str
    argument: int | None = None
    """The number of buckets, or the width of a truncation."""

    def __str__(self) -> str:
        """As in SQL: ``bucket(8, id)``."""
        if self.name == IDENTITY:
            return quoted(self.column)
        given = [] if self.argument is None else [str(self.argument)]
        return f"{self.name}({', '.join([*given, quoted(self.column)])})"


@dataclass(frozen=True)
class TableLayout:
    """The layout of a table; one without any part declares nothing."""

    partition: tuple[Transform, ...] = ()
    cluster: tuple[str, ...] = ()
    curve: bool = False
    """Whether rows are clustered along a z-curve; otherwise they are sorted by the columns."""
    foreign: bool = False
    """Whether the JVM connector declared it: then it is obeyed, and not changed."""

    def __bool__(self) -> bool:
        return bool(self.partition or self.cluster)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(each.column for each in self.partition), *self.cluster]))

    @property
    def partition_text(self) -> str:
        """``days(ts), bucket(8, id)``."""
        return ", ".join(map(str, self.partition))

    @property
    def cluster_text(self) -> str:
        """``a, b``, or ``zorder(a, b)``."""
        listed = ", ".join(map(quoted, self.cluster))
        return f"{_CURVE}({listed})" if self.curve and listed else listed

    def __str__(self) -> str:
        """As in SQL: ``PARTITIONED BY (days(ts)) CLUSTER BY (a, b)``."""
        parts = [f"PARTITIONED BY ({self.partition_text})"] if self.partition else []
        return " ".join([*parts, *([f"CLUSTER BY ({self.cluster_text})"] if self.cluster else [])]) or "none"

    def settings(self) -> dict[str, str | None]:
        """The texts for the table's configuration, None for what is not declared."""
        return {PARTITION_BY: self.partition_text or None, CLUSTER_BY: self.cluster_text or None}

    def with_settings(self, changes: Mapping[str, str | None]) -> TableLayout:
        """The layout after a change of such texts; None lets go of one. Raises InvalidOption."""
        return declared({key: text for key, text in {**self.settings(), **changes}.items() if text is not None})


NO_LAYOUT = TableLayout()


def quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted_name(name)


def declared(settings: Mapping[str, str]) -> TableLayout:
    """The layout that a table's configuration declares. Raises InvalidOption for a text that is none."""
    return parse(settings.get(PARTITION_BY), settings.get(CLUSTER_BY))


def declared_by(partition_by: str | None, cluster_by: str | None) -> TableLayout | None:
    """The layout of two options of a write; None if neither is given. Raises InvalidOption."""
    return None if partition_by is None and cluster_by is None else parse(partition_by, cluster_by)


def parse(partition_by: str | None, cluster_by: str | None) -> TableLayout:
    """The layout of two texts. Raises InvalidOption."""
    transforms = tuple(transform(*each) for each in _calls("partition_by", partition_by or ""))
    clusters = _calls("cluster_by", cluster_by or "")
    curve = len(clusters) == 1 and clusters[0][0] == _CURVE
    if curve:
        columns = [str(each) for each in clusters[0][1]]
    else:
        columns = [str(each[1][0]) for each in clusters if each[0] is None]
        if len(columns) < len(clusters):
            raise InvalidOption(
                f"cluster_by is {cluster_by!r}, but a table is clustered by columns.",
                hint="For example 'carrier, origin', or 'zorder(lat, lon)'; buckets and days are for partition_by.",
            )
    return TableLayout(transforms, tuple(columns), curve)


def of_parts(parts: Iterable[tuple[str, Sequence[str | int]]]) -> TableLayout:
    """The layout of Spark's transforms: the name and the arguments of each. Raises InvalidOption."""
    partition: list[Transform] = []
    cluster: list[str] = []
    curve = False
    for name, arguments in parts:
        if name.lower() in ("cluster_by", _CURVE):
            cluster += [str(each) for each in arguments]
            curve = curve or name.lower() == _CURVE
        else:
            partition.append(transform(name, list(arguments)))
    return TableLayout(tuple(partition), tuple(cluster), curve)


def _calls(option: str, text: str) -> list[tuple[str | None, list[str | int]]]:
    """The items of a list: a name alone, as (None, [name]), or a call with its arguments."""
    tokens = _tokens(option, text)
    found: list[tuple[str | None, list[str | int]]] = []
    at = 0
    while at < len(tokens):
        if found:
            if tokens[at] != ",":
                raise _unreadable(option, text)
            at += 1
        name = tokens[at] if at < len(tokens) else ","
        if name in ("(", ")", ",") or name.isdigit():
            raise _unreadable(option, text)
        at += 1
        if at < len(tokens) and tokens[at] == "(":
            end = next((place for place in range(at, len(tokens)) if tokens[place] == ")"), None)
            inner = tokens[at + 1 : end] if end is not None else []
            if end is None or not inner or any(each != "," for each in inner[1::2]) or len(inner) % 2 == 0:
                raise _unreadable(option, text)
            arguments: list[str | int] = [int(each) if each.isdigit() else _name(each) for each in inner[::2]]
            found.append((_name(name).lower(), arguments))
            at = end + 1
        else:
            found.append((None, [_name(name)]))
    return found


def _tokens(option: str, text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(option, text)
        tokens.append(match[1])
        at = match.end()
    return tokens


def whole_column(path: Sequence[str]) -> str:
    """The column of a name in parts. Raises Refused for a field inside of one."""
    if len(path) > 1:
        raise Refused(
            f"A table's layout cannot name {'.'.join(path)}, a field inside of a column.",
            hint="Name whole columns; copy the field into a column of its own.",
        )
    return path[0]


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token


def _unreadable(option: str, text: str) -> InvalidOption:
    hint = "For example 'days(ts), bucket(8, id)'." if option == "partition_by" else "For example 'carrier, origin'."
    return InvalidOption(f"{option} is {text!r}, which cannot be read.", hint=f"{hint} Put unusual names in backticks.")


def transform(name: str | None, arguments: list[str | int]) -> Transform:
    """Raises InvalidOption for an unknown function, or arguments that it does not take."""
    numbers = [each for each in arguments if isinstance(each, int)]
    columns = [each for each in arguments if isinstance(each, str)]
    known = _SYNONYMS.get((name or IDENTITY).lower())
    if known is None:
        raise InvalidOption(
            f"A table cannot be partitioned by {name}(...).",
            hint="Use a column, bucket(n, column), truncate(width, column), or years, months, days or hours of one.",
        )
    needs = 1 if known in (BUCKET, TRUNCATE) else 0
    if len(columns) != 1 or len(numbers) != needs:
        example = {BUCKET: "bucket(16, id)", TRUNCATE: "truncate(3, code)"}.get(known, f"{known}(ts)")
        raise InvalidOption(f"{known} takes {'a number and ' if needs else ''}one column.", hint=f"Write {example}.")
    number = numbers[0] if needs else None
    if number is not None and not 1 <= number <= (MOST_BUCKETS if known == BUCKET else 2**31 - 1):
        limit = f" to {MOST_BUCKETS}" if known == BUCKET else " or more"
        raise InvalidOption(f"The number in {known}({number}, {columns[0]}) must be 1{limit}.")
    return Transform(known, columns[0], number)


# --- Changes of a declared layout, as statements name them

Action: TypeAlias = Literal["PARTITIONED BY", "ADD", "DROP", "REPLACE", "CLUSTER BY"]


@dataclass(frozen=True)
class LayoutChange:
    """One change: a whole key, one field of it, or the order of rows."""

    action: Action
    """``ADD``, ``DROP`` and ``REPLACE`` are Iceberg's; the last one replaces the first field by the second."""
    fields: tuple[Transform, ...] = ()
    """For ``CLUSTER BY`` the columns themselves."""

    def on(self, layout: TableLayout, columns: Sequence[str]) -> TableLayout:
        """The layout after it. The case of columns does not matter. Raises InvalidOption, NotFound."""
        given = tuple(replace(each, column=_spelled(each.column, columns)) for each in self.fields)
        if self.action == "CLUSTER BY":
            return replace(layout, cluster=tuple(each.column for each in given), curve=False)
        if self.action == "PARTITIONED BY":
            return replace(layout, partition=given)
        fields = [*layout.partition]
        if self.action != "ADD" and given[0] not in fields:
            raise NotFound(
                f"The table is not partitioned by {given[0]}. Nothing was changed.",
                hint=f"Its partition fields: {layout.partition_text or 'none'}. Name one as it is written here.",
            )
        if self.action != "DROP" and given[-1] in fields:
            raise InvalidOption(f"The table is already partitioned by {given[-1]}. Nothing was changed.")
        at = len(fields) if self.action == "ADD" else fields.index(given[0])
        fields[at : at + 1] = given[len(given) - 1 :] if self.action != "DROP" else ()
        return replace(layout, partition=tuple(fields))


def _spelled(name: str, columns: Sequence[str]) -> str:
    alike = [each for each in columns if each.lower() == name.lower()]
    return alike[0] if name not in alike and len(alike) == 1 else name


# --- How Spark brings the rows of a write


@dataclass(frozen=True)
class Arrangement:
    """By hash of columns, or else by ranges of all of the order; sorted in each task. Empty for as they come."""

    by_hash: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    partitions: bool = False
    """Whether the table has partitions, of which an overwrite may replace single ones."""

    def __bool__(self) -> bool:
        return bool(self.by_hash or self.order)


AS_THEY_COME = Arrangement()
_SPREAD = 4
"""Columns whose hash divides rows evenly: one alone may have few values, and each costs time."""


def arrangement(layout: TableLayout, schema: pa.Schema, evenly: bool) -> Arrangement:
    """How Spark brings rows for a layout; for none, if they are to be divided evenly, by hash of some columns.

    By hash where columns themselves are the key of a partition, and by ranges of the columns where functions of them
    are, none of which decreases where its column grows. Buckets are divided by the tasks alone.
    """
    partition = [each for each in layout.partition if each.name != BUCKET]
    if not partition and (layout.partition or not layout.cluster or layout.curve):
        if not evenly or layout.partition:
            return Arrangement(partitions=bool(layout.partition))
        fit = [field.name for field in schema if any(test(field.type) for test in _CLUSTERED)]
        return Arrangement(tuple(fit[:_SPREAD]))
    columns = dict.fromkeys([*(each.column for each in partition), *(() if layout.curve else layout.cluster)])
    identity = all(each.name == IDENTITY for each in partition)
    by_hash = tuple(each.column for each in partition) if identity else ()
    return Arrangement(by_hash, tuple(columns), bool(layout.partition))


# --- Whether a layout fits the columns of a table

_WHOLE = (pt.is_int8, pt.is_int16, pt.is_int32, pt.is_int64)
_TEXT = (pt.is_string, pt.is_large_string)
_ORDERED = (*_WHOLE, *_TEXT, pt.is_boolean, pt.is_date32, pt.is_timestamp, pt.is_decimal128)
_CLUSTERED = (*_ORDERED, pt.is_float32, pt.is_float64)
_TAKES = {
    IDENTITY: _ORDERED,
    BUCKET: (*_WHOLE, *_TEXT, pt.is_boolean, pt.is_date32, pt.is_timestamp, pt.is_float32, pt.is_float64),
    TRUNCATE: (*_WHOLE, *_TEXT),
    "years": (pt.is_date32, pt.is_timestamp),
    "months": (pt.is_date32, pt.is_timestamp),
    "days": (pt.is_date32, pt.is_timestamp),
    "hours": (pt.is_timestamp,),
}


def misfit(layout: TableLayout, schema: pa.Schema) -> str | None:
    """Why a layout cannot be obeyed by a table with these columns; None if it can."""
    for each in layout.partition:
        reason = _column_misfit(schema, each.column, _TAKES[each.name], f"partitioned by {each}")
        if reason is not None:
            return reason
    for name in layout.cluster:
        reason = _column_misfit(schema, name, _CLUSTERED, "clustered by it")
        if reason is not None:
            return reason
    twice = [
        each for each in (*layout.partition, *layout.cluster) if (*layout.partition, *layout.cluster).count(each) > 1
    ]
    return f"it names {twice[0]} twice" if twice else None


def _column_misfit(schema: pa.Schema, name: str, takes: Sequence[object], what: str) -> str | None:
    at = schema.get_field_index(name)
    if at < 0:
        return f"there is no column '{name}'"
    kind = schema.field(at).type
    if not any(fits(kind) for fits in takes):  # type: ignore[operator]
        return f"a column of type {kind}, '{name}', cannot be {what}"
    return None


def check(layout: TableLayout, schema: pa.Schema) -> None:
    """Raise InvalidOption for a layout that a table with these columns cannot have."""
    reason = misfit(layout, schema)
    if reason is not None:
        raise InvalidOption(
            f"The table cannot have the layout {layout}: {reason}.", hint=f"Its columns are {', '.join(schema.names)}."
        )
