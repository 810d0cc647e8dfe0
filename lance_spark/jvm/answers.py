"""Answers that Python knows before Spark calls, and their transfer to the JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import LongType, StructType

from lance_spark.jvm import names

if TYPE_CHECKING:
    from lance_spark.jvm.bridge import Bridge
    from lance_spark.pushdown.order import Statistics


@dataclass(frozen=True)
class RowBytes:
    """Rows as bytes of Spark's ``UnsafeRow``."""

    fields: int
    contents: Sequence[bytes]


@dataclass(frozen=True)
class Factory:
    """The factory of readers on executors: the function for Spark's worker, pickled, and the schema of its results."""

    function: bytes
    schema: StructType
    unix: bool | None
    """Whether batches use a socket of the file system, or of the loopback interface; None for rows."""


@dataclass(frozen=True)
class Answer:
    """One answer, of a kind that ``java/Answers.java`` knows."""

    kind: str
    value: Any = None


def text(value: str) -> Answer:
    return Answer("text", value)


def flag(value: bool) -> Answer:
    return Answer("flag", value)


def schema(value: StructType) -> Answer:
    """Spark's ``StructType``."""
    return Answer("schema", value)


def statistics(value: Statistics) -> Answer:
    """Spark's ``Statistics``."""
    return Answer("statistics", (value.bytes, value.rows, [[*astuple(each)] for each in value.columns]))


def references(columns: Sequence[str]) -> Answer:
    """Spark's ``NamedReference[]`` of columns."""
    return Answer("references", [*columns])


def capabilities(supported: Sequence[str]) -> Answer:
    """Spark's permitted operations on a table, by names of its ``TableCapability``."""
    return Answer("capabilities", [*supported])


def row_columns(columns: Sequence[str]) -> Answer:
    """Spark's ``MetadataColumn[]``: numeric columns of each row."""
    return Answer("row columns", [*columns])


def columnar(supported: bool) -> Answer:
    return Answer("columnar", supported)


def partitions(pickled: Sequence[bytes]) -> Answer:
    """Spark's ``InputPartition[]`` of its Python data sources."""
    return Answer("partitions", [*pickled])


def grouped_partitions(pickled: Sequence[bytes], keys: RowBytes) -> Answer:
    return Answer("grouped partitions", (keys.fields, tuple(zip(pickled, keys.contents, strict=True))))


def grouping(functions: Sequence[tuple[str, str, int]], count: int) -> Answer:
    """Spark's ``KeyGroupedPartitioning`` of that many partitions: names of functions, columns, numbers of buckets."""
    return Answer("grouping", ([*functions], count))


NO_TRANSFORMS = Answer("no transforms")
"""Spark's ``Transform[]`` of a table without a layout."""
PYTHON_METRICS = Answer("python metrics")
"""The metrics of Spark's Python data sources."""


def for_java(answer: Answer, content: bytearray) -> Any:
    """The answer as JSON. Bytes are appended to the content, and represented by their offset and length."""

    def placed(data: bytes) -> list[int]:
        content.extend(data)
        return [len(content) - len(data), len(data)]

    value = answer.value
    if isinstance(value, StructType):
        value = value.json()
    elif isinstance(value, RowBytes):
        value = [value.fields, [placed(each) for each in value.contents]]
    elif isinstance(value, Factory):
        value = [placed(value.function), value.schema.json(), value.unix]
    elif answer.kind == "partitions":
        value = [placed(each) for each in value]
    elif answer.kind == "grouped partitions":
        value = [value[0], [[placed(part), placed(key)] for part, key in value[1]]]
    return [answer.kind, value]


def in_java(bridge: Bridge, answer: Answer, known: Callable[..., Any]) -> Any:
    """The answer as a Java object, made step by step. ``known`` makes implementations of interfaces."""
    make = _MAKERS.get(answer.kind)
    return answer.value if make is None else make(bridge, answer.value, known)


def _references(bridge: Bridge, columns: Sequence[str], _: Any) -> Any:
    found = [bridge.call(f"{names.FIELD_REFERENCE}.apply", bridge.seq([name])) for name in columns]
    return bridge.array(names.NAMED_REFERENCE, found)


def _capabilities(bridge: Bridge, supported: Sequence[str], _: Any) -> Any:
    found = bridge.new("java.util.HashSet")
    for name in supported:
        found.add(bridge.find(f"{names.CAPABILITY}.{name}"))
    return found


def _row_columns(bridge: Bridge, columns: Sequence[str], known: Callable[..., Any]) -> Any:
    kind = bridge.call(f"{names.DATA_TYPE}.fromJson", LongType().json())
    made = [
        known(
            bridge,
            names.METADATA_COLUMN,
            {"name": text(name), "dataType": Answer("java", kind), "isNullable": flag(False)},
        ).java()
        for name in columns
    ]
    return bridge.array(names.METADATA_COLUMN, made)


def _statistics(bridge: Bridge, value: tuple[int, int, list[Any]], known: Callable[..., Any]) -> Any:
    size, rows = (Answer("java", bridge.long(each)) for each in value[:2])
    answers = {"sizeInBytes": size, "numRows": rows}
    if value[2]:
        columns = bridge.new("java.util.HashMap")
        for name, *facts in value[2]:
            reference = bridge.call(f"{names.FIELD_REFERENCE}.apply", bridge.seq([name]))
            columns.put(reference, _column_statistics(bridge, facts, known))
        answers["columnStats"] = Answer("java", columns)
    return known(bridge, names.STATISTICS, answers).java()


_ENDS = {
    "flag": "java.lang.Boolean.valueOf",
    "int": "java.lang.Integer.valueOf",
    "long": "java.lang.Long.valueOf",
    "double": "java.lang.Double.valueOf",
    "decimal": f"{names.DECIMAL}.apply",
}


def _column_statistics(bridge: Bridge, facts: Sequence[Any], known: Callable[..., Any]) -> Any:
    *numbers, form, low, high, _, _ = facts  # histograms need classes in Java: one of Python's is asked for each bin
    lengths = dict(zip(("distinctCount", "nullCount", "avgLen", "maxLen"), numbers, strict=True))
    answers = {name: Answer("java", bridge.long(number)) for name, number in lengths.items()}
    if low is not None:
        for name, end in (("min", low), ("max", high)):
            made = bridge.call(_ENDS[form], end)
            answers[name] = Answer("java", bridge.call("java.util.Optional.of", made))
    return known(bridge, names.COLUMN_STATISTICS, answers).java()


def _rows(bridge: Bridge, value: RowBytes, _: Any) -> Any:
    made = []
    for content in value.contents:
        row = bridge.new(names.UNSAFE_ROW, value.fields)
        row.pointTo(content, len(content))
        made.append(row)
    return bridge.array(names.INTERNAL_ROW, made)


def _partitions(bridge: Bridge, pickled: Sequence[bytes], _: Any) -> Any:
    made = [bridge.new(names.PYTHON_PARTITION, index, part) for index, part in enumerate(pickled)]
    return bridge.array(names.INPUT_PARTITION, made)


def _factory(bridge: Bridge, value: Factory, _: Any) -> Any:
    artifacts = bridge.call(f"{names.ARTIFACTS}.getCurrentJobArtifactState")
    job = bridge.option(artifacts.get().uuid() if artifacts.isDefined() else None)
    given = [bridge.python_source, value.function, bridge.schema(value.schema), job]
    if bridge.factory_arguments > len(given):
        given.append(bridge.option(None))  # a session whose workers' logs are kept: for Spark's own sources
    return bridge.new(names.PYTHON_READER_FACTORY, *given)


_MAKERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "schema": lambda bridge, value, _: bridge.schema(value),
    "columnar": lambda bridge, value, _: bridge.find(
        f"{names.SCAN}.ColumnarSupportMode.{'SUPPORTED' if value else 'UNSUPPORTED'}"
    ),
    "python metrics": lambda bridge, _, __: bridge.python_source.createPythonMetrics(),
    "references": _references,
    "capabilities": _capabilities,
    "row columns": _row_columns,
    "no transforms": lambda bridge, _, __: bridge.array(names.TRANSFORM, []),
    "statistics": _statistics,
    "rows": _rows,
    "partitions": _partitions,
    "factory": _factory,
}
