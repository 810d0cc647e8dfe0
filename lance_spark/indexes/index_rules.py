"""Indexes as values: kinds, settings and the columns they fit, coverage of rows, build plans and training. Pure.

Requests and descriptions of existing segments come in; plans, results and cards come out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from lance_spark import hints
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import Card, Grid, Shown, ShownInOneLine
from lance_spark.core.texts import counted, meant, readable
from lance_spark.core.words import OF_AN_INDEX
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.format.contents import Fragment, IndexRecord
from lance_spark.format.metadata import Segment
from lance_spark.format.schema import unknown_column

SCALAR, LIST, SUBSTRING, TEXT, VECTOR = "scalar", "list", "substring", "text", "vector"
METRICS = ("l2", "cosine", "dot")
HAMMING = "hamming"
"""The only metric for vectors of bytes: the number of bits that differ."""
LANGUAGES = (
    *("Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian", "Italian"),
    *("Norwegian", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil", "Turkish"),
)
"""Languages that pylance can stem, as it spells them."""
_VECTOR: Mapping[str, type] = {"metric": str, "num_partitions": int, "sample_rate": int, "max_iters": int}
_HNSW: Mapping[str, type] = {"m": int, "ef_construction": int}
_PQ: Mapping[str, type] = {"num_sub_vectors": int, "num_bits": int}
_TEXT: Mapping[str, type] = {
    "with_position": bool,
    "base_tokenizer": str,
    "language": str,
    "max_token_length": int,
    "lower_case": bool,
    "stem": bool,
    "remove_stop_words": bool,
    "custom_stop_words": list,
    "ascii_folding": bool,
    "min_ngram_length": int,
    "max_ngram_length": int,
    "prefix_only": bool,
}
_ANY: Mapping[str, type] = {"num_segments": int}
SETTINGS: Mapping[str, type] = {**_VECTOR, **_HNSW, **_PQ, **_TEXT, **_ANY}


@dataclass(frozen=True)
class Kind:
    name: str
    family: str
    settings: Mapping[str, type]

    @property
    def lance(self) -> str:
        """The name by which pylance builds an index of this kind."""
        return self.name.upper()

    @property
    def is_vector(self) -> bool:
        """Whether it finds nearest neighbors, and is trained first."""
        return self.family == VECTOR

    @property
    def leaves_cores_idle(self) -> bool:
        """Whether pylance builds a segment on one core for long: a million texts take 2.5 s on one of two."""
        return self.name == "inverted"

    @property
    def takes_bytes(self) -> bool:
        """Whether it supports vectors of bytes. Other kinds compress floats to fewer numbers."""
        return self.name in ("ivf_flat", "ivf_hnsw_flat")

    @property
    def metrics(self) -> tuple[str, ...]:
        return (*METRICS, HAMMING) if self.takes_bytes else METRICS if self.is_vector else ()

    def fits(self, type: pa.DataType) -> bool:
        return _FITS[self.family](type) or (self.takes_bytes and is_byte_vector(type))

    @property
    def is_staged(self) -> bool:
        """Whether pylance writes segments as parts, which no query reads before a merge, even of only one."""
        return self.family == TEXT

    @property
    def mixes_up_updates(self) -> bool:
        """Whether pylance 14.0.2 finds rows by former values, if rows keep their ids and a segment was added.

        An updated row is in the new segment and also, under the same id, with its old value in the old one.
        """
        return self.name in ("bitmap", "label_list", "inverted")

    @property
    def has_codebook(self) -> bool:
        """Whether vectors are stored with product quantization."""
        return self.name.endswith("_pq")


_KINDS = (
    *(Kind(name, SCALAR, {}) for name in ("btree", "bitmap", "zonemap", "bloomfilter")),
    Kind("label_list", LIST, {}),
    Kind("ngram", SUBSTRING, {}),
    Kind("inverted", TEXT, _TEXT),
    Kind("ivf_flat", VECTOR, _VECTOR),
    Kind("ivf_sq", VECTOR, _VECTOR),
    Kind("ivf_pq", VECTOR, {**_VECTOR, **_PQ}),
    Kind("ivf_rq", VECTOR, {**_VECTOR, "num_bits": int}),
    Kind("ivf_hnsw_flat", VECTOR, {**_VECTOR, **_HNSW}),
    Kind("ivf_hnsw_sq", VECTOR, {**_VECTOR, **_HNSW}),
    Kind("ivf_hnsw_pq", VECTOR, {**_VECTOR, **_HNSW, **_PQ}),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
_ALIASES = {"fts": "inverted"}
_OF_PYLANCE = ("rtree", "minhashlsh", "json", "fm")
"""Kinds that only pylance builds."""
_DESCRIBED: Mapping[str, Kind] = {name.replace("_", ""): kind for name, kind in KINDS.items()}


def setting_help(name: str) -> str:
    """What says which kinds of index have a setting, for one that is typed."""
    kinds = [kind.name for kind in _KINDS if name in kind.settings]
    words = ", with commas in between" if SETTINGS[name] is list else ""
    return f"a setting of {', '.join(kinds) if kinds else 'any kind'}{words}"


def find_kind(name: str) -> Kind:
    """The kind of that name, in any case. Raises InvalidOption with similar names."""
    wanted = name.lower()
    kind = KINDS.get(_ALIASES.get(wanted, wanted))
    if kind is None and wanted.replace("_", "") in _OF_PYLANCE:
        raise InvalidOption(
            f"This package cannot build or extend an index of kind '{name}'.",
            hint=f"pylance can: dataset.create_scalar_index(column, '{name.upper()}'). It is kept, and queries use it.",
        )
    if kind is None:
        raise InvalidOption(f"There is no kind of index '{name}'.", hint=meant(name, KINDS))
    return kind


def described_kind(index_type: str) -> Kind | None:
    """The kind that pylance describes as ``BTree`` or ``IVF_PQ``; None for one that this package does not build."""
    return _DESCRIBED.get(index_type.replace("_", "").lower())


def find_column(schema: pa.Schema, column: str) -> pa.Field:
    """A column by its name, or a field of structs by its dotted path. Raises NotFound with similar names."""
    at = schema.get_field_index(column)
    if at >= 0:
        return schema.field(at)
    head, *rest = column.split(".")
    at = schema.get_field_index(head)
    if at < 0:
        raise unknown_column(column, schema.names)
    field = schema.field(at)
    for name in rest:
        if not pt.is_struct(field.type) or field.type.get_field_index(name) < 0:
            raise NotFound(f"There is no column '{column}'.", hint=f"Column '{head}' is {schema.field(at).type}.")
        field = field.type.field(name)
    return field


def check_type(kind: Kind, column: str, type: pa.DataType) -> None:
    """Raise SchemaMismatch, with the kinds that fit, for a column that the kind cannot index."""
    if kind.fits(type):
        return
    fitting = fitting_kinds(type)
    if kind.is_vector and is_number_list(type):
        raise SchemaMismatch(
            f"Column '{column}' is {type}: vectors need a length, which its lists do not have.", hint=lengthen(column)
        )
    hint = f"These kinds fit: {', '.join(fitting)}." if fitting else "No kind of index fits this type."
    raise SchemaMismatch(f"An index of kind '{kind.name}' does not fit column '{column}', {type}.", hint=hint)


def lengthen(column: str) -> hints.Hint:
    """What makes vectors of lists of numbers."""
    return hints.of("If all lists have the same length, such as 384: ", hints.as_vectors(column), ".")


def fitting_kinds(type: pa.DataType) -> list[str]:
    """The kinds of indexes that a column of that type can have."""
    return [name for name, kind in KINDS.items() if kind.fits(type)]


def settings_for(kind: Kind, column: str, type: pa.DataType, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an index on a column of that type: bytes have their own metric. Raises InvalidOption."""
    if not kind.is_vector:
        return {**settings}
    check_metric(column, type, settings.get("metric"))
    return {**settings, "metric": HAMMING} if is_byte_vector(type) else {**settings}


def check_metric(column: str, type: pa.DataType, metric: str | None) -> None:
    """Raise InvalidOption for a metric that cannot compare vectors of that type."""
    if metric is None or (metric == HAMMING) == is_byte_vector(type):
        return
    if metric == HAMMING:
        raise InvalidOption(
            f"The metric hamming compares bytes, but column '{column}' is {type}.",
            hint=f"Give one of {', '.join(METRICS)}.",
        )
    raise InvalidOption(
        f"Column '{column}' has vectors of bytes, which need the metric hamming, not {metric}.",
        hint="Omit metric.",
    )


def check_settings(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings, without those that are None. Raises InvalidOption."""
    known = {**kind.settings, **_ANY}
    settings: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidOption(
                f"An index of kind '{kind.name}' has no setting '{name}'.", hint=meant(name, known, "It takes")
            )
        if value is not None:
            _check_value(name, value, known[name])
            if name == "metric" and value.lower() not in kind.metrics:
                raise InvalidOption(
                    f"An index of kind '{kind.name}' has no metric '{value}'.",
                    hint=meant(value, kind.metrics, "It takes"),
                )
            settings[name] = _SPELLED[name](value) if name in _SPELLED else value
    return settings


def _check_value(name: str, value: Any, expected: type) -> None:
    fits: bool = isinstance(value, expected) and not (expected is int and isinstance(value, bool))
    if not fits:
        raise InvalidOption(f"The setting '{name}' must be of type {expected.__name__}, not {value!r}.")
    if expected is int and value < 1:
        raise InvalidOption(f"The setting '{name}' must be at least 1, not {value}.")
    if name == "language" and value.capitalize() not in LANGUAGES:
        raise InvalidOption(f"There is no language '{value}'.", hint=meant(value, LANGUAGES))


_SPELLED: Mapping[str, Callable[[str], str]] = {"metric": str.lower, "language": str.capitalize}


def settings_of(kind: Kind, details: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings that an index was built with, so that more rows are indexed in the same way.

    ``details`` is pylance's description. None if an old writer did not record them: guessing would give wrong answers.
    """
    if kind.family == TEXT:
        return _text_settings(details) or None
    if not kind.is_vector:
        return {}
    metric = str(details.get("metric_type", "")).lower()
    if metric not in kind.metrics:
        return None
    hnsw, compression = details.get("hnsw") or {}, details.get("compression") or {}
    told = {
        "metric": metric,
        "m": hnsw.get("max_connections"),
        "ef_construction": hnsw.get("construction_ef"),
        "num_sub_vectors": compression.get("num_sub_vectors"),
        "num_bits": compression.get("num_bits"),
    }
    return {name: value for name, value in told.items() if value is not None and name in kind.settings}


_CODE = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
"""How pylance's analyzer of program code splits words. This package does not offer it, but extends such an index."""
_BLOCK_SIZE = 128


def _text_settings(details: Mapping[str, Any]) -> dict[str, Any]:
    """Empty for an index that is not known, or whose documents are not texts or rows: JSON, elements of a list."""
    if details.get("lance_tokenizer") not in (None, "text") or details.get("document_granularity") not in (None, "row"):
        return {}
    told = {name: details[name] for name in _TEXT if details.get(name) is not None}
    if details.get("block_size") not in (None, _BLOCK_SIZE):
        told["block_size"] = details["block_size"]
    if told.get("base_tokenizer") == "code":
        del told["base_tokenizer"]
        told |= {"analyzer": "code", **{name: details[name] for name in _CODE if details.get(name) is not None}}
    return told


def _is_scalar(type: pa.DataType) -> bool:
    checks = (
        pt.is_boolean,
        pt.is_integer,
        pt.is_floating,
        pt.is_string,
        pt.is_large_string,
        pt.is_binary,
        pt.is_large_binary,
        pt.is_fixed_size_binary,
        pt.is_decimal,
        pt.is_temporal,
    )
    return any(check(type) for check in checks)


def _is_list(type: pa.DataType) -> bool:
    return (pt.is_list(type) or pt.is_large_list(type)) and _is_scalar(type.value_type)


def is_number_list(type: pa.DataType) -> bool:
    """Whether a column of that type holds lists of floats of any length, as Spark writes an array by default."""
    return bool((pt.is_list(type) or pt.is_large_list(type)) and pt.is_floating(type.value_type))


def is_text(type: pa.DataType) -> bool:
    """Whether a column of that type holds one text per row."""
    return bool(pt.is_string(type) or pt.is_large_string(type))


def _is_texts(type: pa.DataType) -> bool:
    return is_text(type) or ((pt.is_list(type) or pt.is_large_list(type)) and is_text(type.value_type))


def is_byte_vector(type: pa.DataType) -> bool:
    """Whether a column of that type holds a vector of bytes in each row."""
    return bool(pt.is_fixed_size_list(type) and pt.is_uint8(type.value_type))


def _is_vector(type: pa.DataType) -> bool:
    return bool(pt.is_fixed_size_list(type) and (pt.is_float16(type.value_type) or pt.is_float32(type.value_type)))


_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    SCALAR: _is_scalar,
    LIST: _is_list,
    SUBSTRING: is_text,
    TEXT: _is_texts,
    VECTOR: _is_vector,
}


# --- Indexes as values: requests, descriptions and results


@dataclass(frozen=True)
class IndexRequest:
    column: str
    kind: str = "btree"
    name: str | None = None
    replace: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    message: str | None = None

    @property
    def index_name(self) -> str:
        return self.name or f"{self.column}_idx"


@dataclass(frozen=True, repr=False)
class IndexInfo(ShownInOneLine):
    _words = OF_AN_INDEX
    name: str
    columns: tuple[str, ...]
    kind: str
    """The name for creating one: ``btree``, ``ivf_pq``, ..."""
    rows_covered: int
    rows_uncovered: int
    """Rows that queries scan one by one, with the same answer."""
    segments: int
    inherited_segments: int
    """How many of these have their files in another branch or dataset."""
    bytes: int

    @property
    def percent(self) -> float:
        """The share of rows that are covered, from 0 to 100; 100 if there are no rows."""
        rows = self.rows_covered + self.rows_uncovered
        return 100.0 if not rows else 100.0 * self.rows_covered / rows

    def __str__(self) -> str:
        """``id_idx: btree on id, 1,000 of 1,500 rows (66.6%), 2 segments, 12.0 KiB``."""
        rows = f"{self.rows_covered:,} of {counted(self.rows_covered + self.rows_uncovered, 'row')}"
        # Rounded down: 100.0% must mean that nothing is left.
        share = int(self.percent * 10) / 10
        return (
            f"{self.name}: {self.kind} on {', '.join(self.columns)}, {rows} ({share:.1f}%), "
            f"{counted(self.segments, 'segment')}, {readable(self.bytes)}"
        )

    def _facts(self) -> tuple[tuple[str, str], ...]:
        inherited = f", {self.inherited_segments:,} of them inherited" if self.inherited_segments else ""
        return (
            ("name", self.name),
            ("kind", self.kind),
            ("columns", ", ".join(self.columns)),
            ("rows covered", f"{self.rows_covered:,}"),
            ("rows not covered", f"{self.rows_uncovered:,}"),
            ("segments", f"{self.segments:,}{inherited}"),
            ("size", readable(self.bytes)),
        )


@dataclass(frozen=True)
class SegmentInfo:
    """One segment of an index: the result of one build."""

    uuid: str
    rows: int
    """How many of the current rows it covers."""
    fragments: tuple[int, ...]
    bytes: int
    inherited: bool
    created_at: datetime | None


@dataclass(frozen=True, repr=False)
class IndexStats(Shown):
    index: IndexInfo
    settings: Mapping[str, Any]
    """The settings it was built with, in pylance's words."""
    segments: tuple[SegmentInfo, ...]

    def __str__(self) -> str:
        lines = [str(self.index)]
        lines += [f"  {name} = {value}" for name, value in self.settings.items()]
        for segment in self.segments:
            where = ", inherited" if segment.inherited else ""
            lines.append(f"  {segment.uuid}: {counted(segment.rows, 'row')}, {readable(segment.bytes)}{where}")
        return "\n".join(lines)

    def _card(self) -> Card:
        settings = tuple((name, str(value)) for name, value in self.settings.items())
        rows = tuple(
            (
                each.uuid,
                f"{each.rows:,}",
                readable(each.bytes),
                "another branch (inherited)" if each.inherited else "this branch",
            )
            for each in self.segments
        )
        grids = (
            Grid(("setting", "value"), settings),
            Grid(("segment", "rows", "size", "built on"), rows, frozenset({1, 2})),
        )
        return Card(type(self).__name__, self.index.name, str(self.index), self.index._facts()[1:], grids)


@dataclass(frozen=True, repr=False)
class IndexResult(ShownInOneLine):
    """The result for one index; prints as one line."""

    version: PinnedVersion
    """The new version; the newest one if there was nothing to do."""
    name: str
    kind: str
    rows: int = 0
    """How many rows were indexed."""
    segments: int = 0
    """How many segments were added."""
    replaced: int = 0
    """How many segments they replaced."""
    bytes: int = 0
    ran_on: str = ""
    """"local" or "spark"; empty if nothing was built."""
    left: str = ""
    """Why rows stay uncovered, if any do."""

    @property
    def changed(self) -> bool:
        return bool(self.segments or self.replaced)

    def __str__(self) -> str:
        """``exp@7: id_idx (btree), 1,000 rows in 2 segments, 12.0 KiB, built on spark``."""
        told = "nothing was built" if self.left else "nothing to index"
        if self.segments:
            told = f"{counted(self.rows, 'row')} in {counted(self.segments, 'segment')}, {readable(self.bytes)}"
            told += f", built on {self.ran_on}"
        elif self.replaced:
            told = f"{counted(self.replaced, 'segment')} dropped"
        return f"{self.version}: {self.name} ({self.kind}), {told}{f'; {self.left}' if self.left else ''}"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("index", f"{self.name} ({self.kind})"),
            ("rows indexed", f"{self.rows:,}"),
            ("segments added", f"{self.segments:,}"),
            ("segments replaced", f"{self.replaced:,}" if self.replaced else ""),
            ("size", readable(self.bytes) if self.segments else ""),
            ("built on", self.ran_on),
            ("not covered", self.left),
        )


# --- The rows that segments cover, and plans for builds

_INTERNAL = "__"
"""Prefix of the names that pylance reserves for its own indexes."""
MOST_SEGMENTS = 8
"""Target size of a segment. Each query searches every segment."""
ROWS_PER_TASK = 100_000
"""Minimum rows for a task of its own."""
Rows = Mapping[int, int]
"""Live rows by fragment."""


class BuildPlan(NamedTuple):
    fragments: frozenset[int]
    removed: frozenset[str] = frozenset()
    """Ids of segments that the new ones replace, or that no longer cover any row."""


def by_name(segments: Iterable[Segment]) -> dict[str, list[Segment]]:
    """The segments of each index, by name; without pylance's own indexes."""
    found: dict[str, list[Segment]] = {}
    for segment in sorted(segments, key=lambda each: (each.name, each.uuid)):
        if not segment.name.startswith(_INTERNAL):
            found.setdefault(segment.name, []).append(segment)
    return found


def find_index(indexes: Mapping[str, Sequence[Segment]], name: str) -> str:
    """The name of an index, given its name, or its column if that has exactly one index. Raises NotFound."""
    if name in indexes:
        return name
    on_column = [found for found, segments in indexes.items() if list(segments[0].columns) == [name]]
    if len(on_column) == 1:
        return on_column[0]
    if on_column:
        raise InvalidOption(f"Column '{name}' has {len(on_column)} indexes.", hint=f"Name one: {', '.join(on_column)}.")
    hint = (
        f"There are {', '.join(indexes)}."
        if indexes
        else hints.of("The table has none; ", hints.create_index(), " creates one.")
    )
    raise NotFound(f"There is no index '{name}'.", hint=hint)


def covered(segments: Iterable[Segment]) -> frozenset[int]:
    """The fragments that segments cover; some may be gone."""
    return frozenset().union(*(segment.fragments for segment in segments))


def maybe_rewritten(fragments: Iterable[Fragment], known: frozenset[int], ids: Collection[int]) -> frozenset[int]:
    """Fragments outside of ``known``, the covered ones, whose values of a column may have been covered before.

    Whoever fills a column anew writes other files for the same fragments, which a segment then no longer covers; but it
    still has their rows, with the former values. Once another segment covers these fragments, pylance 14.0.2 finds them
    by both. ``ids`` are the field ids of the column. New fragments have all columns in one file, and higher ids.
    """
    newest = max(known, default=-1)
    return frozenset(
        each.id
        for each in fragments
        if each.id not in known and (each.id < newest or not each.files or not {*ids} & {*each.files[0].fields})
    )


def info(segments: Sequence[Segment], rows: Rows) -> IndexInfo:
    """The description of one index of a version with these rows."""
    first, known = segments[0], covered(segments)
    kind = described_kind(first.index_type)
    inside = sum(count for fragment, count in rows.items() if fragment in known)
    return IndexInfo(
        name=first.name,
        columns=tuple(first.columns),
        kind=kind.name if kind else first.index_type.lower(),
        rows_covered=inside,
        rows_uncovered=sum(rows.values()) - inside,
        segments=len(segments),
        inherited_segments=sum(segment.inherited for segment in segments),
        bytes=sum(segment.size_bytes or 0 for segment in segments),
    )


def plan_create(request: IndexRequest, kind: str, there: Sequence[Segment], rows: Rows) -> BuildPlan:
    """The plan for a new index; ``there`` are the segments of the existing index of that name.

    An inherited index is kept: only rows that it does not cover are indexed. Raises AlreadyExists for any other
    existing index, and for one of another kind or on another column, unless it is to be replaced.
    """
    if request.replace or not there:
        return BuildPlan(_filled(rows), frozenset(segment.uuid for segment in there))
    have = described_kind(there[0].index_type)
    same = have is not None and have.name == kind and list(there[0].columns) == [request.column]
    if not same or not any(segment.inherited for segment in there):
        raise AlreadyExists(
            f"Index '{there[0].name}' already exists: {there[0].index_type} on {', '.join(there[0].columns)}.",
            hint=hints.of(
                hints.OPTIMIZE_INDEXES,
                " adds new rows to it; ",
                hints.REPLACE,
                " rebuilds it; or give another name.",
            ),
        )
    return BuildPlan(_filled(rows) - covered(there))


def plan_optimize(there: Sequence[Segment], rows: Rows) -> BuildPlan:
    """The rows that an index lacks, built together with those of its own segments that are no larger.

    So each row is rebuilt only a few times, however often this runs, and segments stay few. Inherited segments are
    never read. Segments that no longer cover any row are removed.
    """
    empty = {segment.uuid for segment in there if not segment.fragments & _filled(rows)}
    lacking = _filled(rows) - covered(there)
    if not lacking:
        return BuildPlan(frozenset(), frozenset(empty))
    folded: set[str] = set()
    building = set(lacking)
    own = [segment for segment in there if not segment.inherited and segment.uuid not in empty]
    for segment in sorted(own, key=lambda each: (_count(each.fragments, rows), each.uuid)):
        if _count(segment.fragments, rows) > _count(building, rows):
            break
        folded.add(segment.uuid)
        building |= segment.fragments & _filled(rows)
    return BuildPlan(frozenset(building), frozenset(empty | folded))


def whole(plan: BuildPlan, there: Sequence[Segment], rows: Rows) -> BuildPlan:
    """Turns a plan that adds a segment to an index into one that rebuilds the index."""
    return BuildPlan(_filled(rows), frozenset(segment.uuid for segment in there)) if plan.fragments else plan


def task_groups(fragments: Collection[int], rows: Rows, tasks: int) -> list[list[int]]:
    """Fragments for each task, adjacent ones together, with about the same number of rows in each group."""
    ordered = sorted(fragments)
    total = max(1, _count(ordered, rows))
    groups: dict[int, list[int]] = {}
    before = 0
    for fragment in ordered:
        middle = before + rows.get(fragment, 0) // 2
        groups.setdefault(min(tasks - 1, middle * tasks // total), []).append(fragment)
        before += rows.get(fragment, 0)
    return list(groups.values())


def task_count(fragments: Collection[int], rows: Rows, side_by_side: int, segments: int | None) -> int:
    """How many tasks build: as many as run side by side, as long as each has enough work."""
    worth = max(1, _count(fragments, rows) // ROWS_PER_TASK)
    return max(1, min(len(fragments), max(segments or 1, min(side_by_side, worth))))


def merge_groups(built: int, segments: int | None) -> list[range]:
    """Which of the segments that tasks built are merged into one, by their places."""
    most = min(built, segments or MOST_SEGMENTS)
    return [range(built * at // most, built * (at + 1) // most) for at in range(most)]


def _filled(rows: Rows) -> frozenset[int]:
    return frozenset(fragment for fragment, count in rows.items() if count)


def _count(fragments: Iterable[int], rows: Rows) -> int:
    return sum(rows.get(fragment, 0) for fragment in fragments)


def lost_coverage(
    before: Iterable[IndexRecord], old: Collection[int], after: Iterable[IndexRecord], new: Collection[int]
) -> tuple[str, ...]:
    """Names of the indexes that covered rows of old fragments, but not all of the new ones that have them now."""
    known: dict[str, set[int]] = {}
    for index in after:
        known.setdefault(index.name, set()).update(index.fragments or ())
    names = {index.name for index in before if not index.is_internal and not (index.fragments or set()).isdisjoint(old)}
    return tuple(sorted(name for name in names if not known.get(name, set()).issuperset(new)))


# --- Training a vector index

_SAMPLE_RATE = 256
_LEAST_RATE = 2
"""pylance refuses to train with fewer sampled rows per centroid."""
_MOST_PARTITIONS = 4096
_ITERATIONS = 50
_BITS = 8


class Training(NamedTuple):
    """The parameters for training a model. A sample has ``sample_rate`` rows for each centroid."""

    metric: str
    partitions: int
    sample_rate: int
    max_iters: int
    sub_vectors: int | None = None
    """Only for kinds with a codebook."""
    bits: int = _BITS
    codebook_rate: int = _SAMPLE_RATE


def least_rows(kind: Kind, settings: Mapping[str, Any]) -> int:
    """The fewest rows that can train a model of the kind."""
    if kind.has_codebook:
        return int(_LEAST_RATE * 2 ** settings.get("num_bits", _BITS))
    return _LEAST_RATE


class TooFewVectors(Refused):
    """There are too few vectors to train a model on."""


def plan_training(kind: Kind, settings: Mapping[str, Any], dimension: int, rows: int, what: str = "rows") -> Training:
    """The training plan. Raises InvalidOption for settings that do not fit the vectors, TooFewVectors."""
    least = least_rows(kind, settings)
    if rows < least:
        instead = "Use the kind 'ivf_flat', or no index" if kind.has_codebook else "Create none"
        raise TooFewVectors(
            f"An index of kind '{kind.name}' needs at least {least:,} {what} to train on, but there are {rows:,}.",
            hint=f"{instead}: so few rows are compared one by one.",
        )
    partitions = settings.get("num_partitions") or min(_MOST_PARTITIONS, max(1, round(math.sqrt(rows))))
    partitions = partitions if "num_partitions" in settings else min(partitions, rows // _LEAST_RATE)
    if partitions * _LEAST_RATE > rows:
        raise InvalidOption(
            f"There are {rows:,} {what}, too few for {partitions:,} partitions.",
            hint=f"Omit num_partitions, or give at most {rows // _LEAST_RATE:,}.",
        )
    wanted = max(_LEAST_RATE, settings.get("sample_rate", _SAMPLE_RATE))
    training = Training(
        metric=settings.get("metric", METRIC),
        partitions=partitions,
        sample_rate=min(wanted, rows // partitions),
        max_iters=settings.get("max_iters", _ITERATIONS),
        bits=settings.get("num_bits", _BITS if kind.has_codebook else 1),
    )
    if not kind.has_codebook:
        return training
    return training._replace(
        sub_vectors=_sub_vectors(settings.get("num_sub_vectors"), dimension),
        codebook_rate=min(wanted, rows // 2**training.bits),
    )


METRIC = "l2"


def _sub_vectors(given: int | None, dimension: int) -> int:
    if given is None:
        size = next((size for size in (16, 8) if dimension % size == 0), None)
        if size is not None:
            return dimension // size
    elif dimension % given == 0:
        return given
    raise InvalidOption(
        f"Vectors of length {dimension} cannot be cut into {given or 'sub-vectors of 16 or 8'} parts.",
        hint=f"Give num_sub_vectors, a divisor of {dimension}.",
    )


# --- The indexes of a version as a card

_HEADER = ("index", "kind", "columns", "rows covered", "rows not covered", "segments", "size")


def indexes_card(what: str, uri: str, version: str, indexes: Sequence[IndexInfo]) -> Card:
    rows = tuple(
        (
            index.name,
            index.kind,
            ", ".join(index.columns),
            f"{int(index.percent * 10) / 10:.1f}%",
            f"{index.rows_uncovered:,}",
            f"{index.segments:,}",
            readable(index.bytes),
        )
        for index in indexes
    )
    summary = f"{counted(len(indexes), 'index', 'indexes')} of {version}"
    return Card(what, uri, summary, grids=(Grid(_HEADER, rows, frozenset({3, 4, 5, 6})),))
