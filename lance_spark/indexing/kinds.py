"""The kinds of indexes, which columns they fit, and the settings that each takes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.schema.projection import unknown_column
from lance_spark.show.near import meant

SCALAR, LIST, SUBSTRING, TEXT, VECTOR = "scalar", "list", "substring", "text", "vector"
METRICS = ("l2", "cosine", "dot")
"""Of vectors of floats."""
HAMMING = "hamming"
"""The metric of vectors of bytes, and of no others: how many bits differ."""
LANGUAGES = (
    *("Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian", "Italian"),
    *("Norwegian", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil", "Turkish"),
)
"""Whose words pylance can bring to their stems, as it spells them."""
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


@dataclass(frozen=True)
class Kind:
    """One kind of index."""

    name: str
    family: str
    settings: Mapping[str, type]

    @property
    def lance(self) -> str:
        """What pylance calls it when it builds one."""
        return self.name.upper()

    @property
    def is_vector(self) -> bool:
        """Whether it is searched for neighbours, and trained first."""
        return self.family == VECTOR

    @property
    def takes_bytes(self) -> bool:
        """Whether it can be made on vectors of bytes. Other kinds make fewer numbers of floats."""
        return self.name in ("ivf_flat", "ivf_hnsw_flat")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those that it can be made for."""
        return (*METRICS, HAMMING) if self.takes_bytes else METRICS if self.is_vector else ()

    def fits(self, type: pa.DataType) -> bool:
        """Whether it can be made on a column of that type."""
        return _FITS[self.family](type) or (self.takes_bytes and is_byte_vector(type))

    @property
    def is_staged(self) -> bool:
        """Whether pylance writes segments as parts, which no query reads before they are merged, if only with none."""
        return self.family == TEXT

    @property
    def mixes_up_updates(self) -> bool:
        """Whether pylance 14.0.2 finds rows by values that they had, where rows keep their ids and a segment was added.

        A row that was updated is in the new segment and, under the same id, with its old value in the old one.
        """
        return self.name in ("bitmap", "label_list", "inverted")

    @property
    def has_codebook(self) -> bool:
        """Whether vectors are stored as product quantization has them."""
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
_DESCRIBED: Mapping[str, Kind] = {name.replace("_", ""): kind for name, kind in KINDS.items()}


def find_kind(name: str) -> Kind:
    """The kind of a name, in any case. Raises InvalidOption with near names."""
    wanted = name.lower()
    kind = KINDS.get(_ALIASES.get(wanted, wanted))
    if kind is None:
        raise InvalidOption(f"There is no kind of index '{name}'.", hint=meant(name, KINDS))
    return kind


def described_kind(index_type: str) -> Kind | None:
    """The kind of what pylance describes as ``BTree`` or ``IVF_PQ``; None for one that this package does not build."""
    return _DESCRIBED.get(index_type.replace("_", "").lower())


def find_column(schema: pa.Schema, column: str) -> pa.Field:
    """A column by its name, or a field of structs by its path with dots. Raises NotFound with near names."""
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
    hint = f"What fits is {', '.join(fitting)}." if fitting else "No kind of index fits this type."
    raise SchemaMismatch(f"An index of kind '{kind.name}' cannot be made on column '{column}', {type}.", hint=hint)


def fitting_kinds(type: pa.DataType) -> list[str]:
    """The kinds of indexes that a column of that type can have."""
    return [name for name, kind in KINDS.items() if kind.fits(type)]


def settings_for(kind: Kind, column: str, type: pa.DataType, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an index of a column of that type: bytes have their own metric. Raises InvalidOption."""
    if not kind.is_vector:
        return {**settings}
    check_metric(column, type, settings.get("metric"))
    return {**settings, "metric": HAMMING} if is_byte_vector(type) else {**settings}


def check_metric(column: str, type: pa.DataType, metric: str | None) -> None:
    """Raise InvalidOption for a metric by which vectors of that type cannot be compared."""
    if metric is None or (metric == HAMMING) == is_byte_vector(type):
        return
    if metric == HAMMING:
        raise InvalidOption(
            f"The metric hamming compares bytes, and column '{column}' is {type}.",
            hint=f"Give one of {', '.join(METRICS)}.",
        )
    raise InvalidOption(
        f"Column '{column}' has vectors of bytes, which are compared by the metric hamming, not by {metric}.",
        hint="Leave metric out.",
    )


def check_settings(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, without those that are None. Raises InvalidOption."""
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
            settings[name] = _spelled(name, value)
    return settings


def _check_value(name: str, value: Any, expected: type) -> None:
    fits: bool = isinstance(value, expected) and not (expected is int and isinstance(value, bool))
    if not fits:
        raise InvalidOption(f"The setting '{name}' is {value!r}, and has to be of type {expected.__name__}.")
    if expected is int and value < 1:
        raise InvalidOption(f"The setting '{name}' is {value}, and has to be at least 1.")
    if name == "language" and value.capitalize() not in LANGUAGES:
        raise InvalidOption(f"There is no language '{value}'.", hint=meant(value, LANGUAGES))


def _spelled(name: str, value: Any) -> Any:
    return {"metric": str.lower, "language": str.capitalize}.get(name, lambda given: given)(value)


def settings_of(kind: Kind, details: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings that an index was made with, so that more rows are indexed in the same way.

    ``details`` is what pylance describes. None where an old writer did not say: guessing would give wrong answers.
    """
    if kind.family == TEXT:
        told = {name: details[name] for name in _TEXT if details.get(name) is not None}
        return told if told else None
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


def _is_text(type: pa.DataType) -> bool:
    return bool(pt.is_string(type) or pt.is_large_string(type))


def _is_texts(type: pa.DataType) -> bool:
    return _is_text(type) or ((pt.is_list(type) or pt.is_large_list(type)) and _is_text(type.value_type))


def is_byte_vector(type: pa.DataType) -> bool:
    """Whether a column of that type holds a vector of bytes in each row."""
    return bool(pt.is_fixed_size_list(type) and pt.is_uint8(type.value_type))


def _is_vector(type: pa.DataType) -> bool:
    return bool(pt.is_fixed_size_list(type) and (pt.is_float16(type.value_type) or pt.is_float32(type.value_type)))


_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    SCALAR: _is_scalar,
    LIST: _is_list,
    SUBSTRING: _is_text,
    TEXT: _is_texts,
    VECTOR: _is_vector,
}
