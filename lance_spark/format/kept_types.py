"""Types of Spark that Arrow lacks: a column's metadata keeps their names, and its values stay plain Arrow.

Everybody else reads plain values. Here the name gives the type back, decides which values it can hold, and keeps Lance,
which compares bytes, from answering where Spark compares otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import SchemaMismatch
from lance_spark.format.schema import is_list, is_string, map_entries

TYPE_KEY = "lance_spark.type"
"""Field metadata: Spark's name of the type, such as ``time(0)``, ``interval day`` or ``string collate UTF8_LCASE``."""
LENGTH_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""Field metadata: ``char(n)`` or ``varchar(n)``, under Spark's own key. Spark has it at columns, for everything inside;
here each field has its own, so that fields inside can be added, renamed and dropped."""
KEPT = (TYPE_KEY, LENGTH_KEY)
Kept = Mapping[str, str]
"""The part of a field's metadata that keeps its type."""


def kept_of(field: pa.Field) -> dict[str, str]:
    """What a field's metadata says about its type; empty if Arrow's type says everything."""
    given = field.metadata or {}
    return {key: given[key.encode()].decode(errors="replace") for key in KEPT if key.encode() in given}


def is_plain(field: pa.Field) -> bool:
    """Whether Lance and Arrow compare, sort and group its values as Spark does: not, say, those with a collation."""
    return not kept_of(field)


# --- Types of Spark in Arrow's terms

_TIME = re.compile(r"time\((\d)\)")
_INTERVAL = re.compile(r"interval (?:\w+ to )?(day|hour|minute|second)")
_LENGTH = re.compile(r"(char|varchar)\((\d+)\)")
_PAIRS = {"variant": ("value", "metadata"), "geometry": ("srid", "wkb"), "geography": ("srid", "wkb")}
"""Types whose values are two fields in Arrow, as Spark passes them to Python."""


def belongs(name: str, kind: pa.DataType) -> bool:
    """Whether a kept name can be that of an Arrow type: another writer may have changed the one without the other."""
    word = re.split(r"[ (]", name, maxsplit=1)[0]
    if word in _PAIRS:
        return bool(pt.is_struct(kind)) and [field.name for field in kind] == [*_PAIRS[word]]
    applies: Callable[[pa.DataType], bool] | None = {
        "string": is_string,
        "time": pt.is_time,
        "interval": pt.is_duration,
    }.get(word)
    return applies is not None and bool(applies(kind))


def why_not_kept(old: Kept, new: Kept) -> str | None:
    """The reason why a column of one kept type cannot become the other; None if every value stays valid."""
    mine, other = _length(old), _length(new)
    if other is not None and other != mine and (mine is None or other[0] == "char" or other[1] < mine[1]):
        return "values could be too long"
    for finest in (_digits, _ends):
        if finest(new.get(TYPE_KEY)) < finest(old.get(TYPE_KEY)):
            return "values could be lost"
    return None


def _length(kept: Kept) -> tuple[str, int] | None:
    found = _LENGTH.match(kept.get(LENGTH_KEY, ""))
    return None if found is None else (found[1], int(found[2]))


def _digits(name: str | None) -> int:
    found = _TIME.fullmatch(name or "")
    return 6 if found is None else int(found[1])


def _ends(name: str | None) -> int:
    found = _INTERVAL.fullmatch(name or "")
    return 3 if found is None else ("day", "hour", "minute", "second").index(found[1])


# --- Values that a kept type can hold

_SECONDS = {"day": 86_400, "hour": 3_600, "minute": 60}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch as it is stored: values of CHAR padded, and spaces cut off that a length leaves no room for.

    The batch already has the schema's types. Raises SchemaMismatch, naming the column, for a value that its kept type
    cannot hold: text longer than CHAR(n) or VARCHAR(n), a TIME or an INTERVAL with finer units than the type has.
    """
    if not any(_holds_kept(field) for field in schema):
        return batch
    columns = [fit_column(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def fit_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """One column of :func:`fit`."""
    return _fitted(column, field, field.name) if _holds_kept(field) else column


def _holds_kept(field: pa.Field) -> bool:
    return bool(kept_of(field)) or any(
        _holds_kept(field.type.field(index)) for index in range(getattr(field.type, "num_fields", 0))
    )


def _fitted(array: pa.Array, field: pa.Field, path: str) -> pa.Array:
    if pt.is_dictionary(array.type) or isinstance(array.type, pa.BaseExtensionType):
        return array
    if pt.is_struct(array.type):
        return _fitted_struct(array, field, path)
    if pt.is_map(array.type):
        return _fitted_map(array, field, path)
    if is_list(array.type):
        return _fitted_list(array, field, path)
    kept = kept_of(field)
    name = kept.get(TYPE_KEY)
    if name is not None and belongs(name, array.type):
        _check_units(array, name, path)
    length = _length(kept)
    return array if length is None or not is_string(array.type) else _fitted_text(array, length, path)


def _check_units(array: pa.Array, name: str, path: str) -> None:
    """Raise SchemaMismatch for a value with digits that the type does not have."""
    if pt.is_time(array.type):
        unit = _PER_SECOND[array.type.unit] // 10 ** min(_digits(name), len(str(_PER_SECOND[array.type.unit])) - 1)
    elif pt.is_duration(array.type):
        found = _INTERVAL.fullmatch(name)
        unit = _PER_SECOND[array.type.unit] * _SECONDS.get(found[1], 0) if found else 0
    else:
        return
    if unit <= 1:
        return
    raw = array.drop_null()
    numbers = raw.view(pa.int32() if raw.type.bit_width == 32 else pa.int64()).to_numpy(zero_copy_only=False)
    if np.any(numbers % unit):
        raise SchemaMismatch(
            f"Column '{path}' is {name}, and holds no value such as {raw[int(np.flatnonzero(numbers % unit)[0])]}.",
            hint=f"Cast it: CAST(... AS {name.upper()}), or write to a column of a finer type.",
        )


def _fitted_text(array: pa.Array, length: tuple[str, int], path: str) -> pa.Array:
    kind, most = length
    counts = pc.utf8_length(array)
    if pc.any(pc.greater(counts, most), min_count=0).as_py():
        # As Spark: spaces that do not fit are cut off, anything else is refused.
        found = pc.greater(pc.utf8_length(pc.utf8_rtrim(array, characters=" ")), most)
        if pc.any(found, min_count=0).as_py():
            longest = pc.max(pc.if_else(found, counts, 0)).as_py()
            raise SchemaMismatch(
                f"Column '{path}' is {kind}({most}), and a value has {longest} characters.",
                hint=f"Shorten such values, e.g. left(value, {most}), or make the column longer: "
                f"ALTER COLUMN {path} TYPE VARCHAR({longest}) or STRING.",
            )
        array = pc.if_else(pc.greater(counts, most), pc.utf8_slice_codeunits(array, 0, most), array)
    if kind == "char" and pc.any(pc.less(counts, most), min_count=0).as_py():
        array = pc.utf8_rpad(array, most, " ")
    return array


def _fitted_struct(array: pa.StructArray, field: pa.Field, path: str) -> pa.Array:
    valid = array.is_valid()
    children = [array.field(index) for index in range(array.type.num_fields)]
    wanted = [field.type.field(index) for index in range(field.type.num_fields)]
    fitted = []
    for child, inner in zip(children, wanted, strict=True):
        if not _holds_kept(inner):
            fitted.append(child)
            continue
        seen = child if not array.null_count else pc.if_else(valid, child, pa.scalar(None, child.type))
        made = _fitted(seen, inner, f"{path}.{inner.name}")
        fitted.append(child if made is seen else made)
    if _same(children, fitted):
        return array
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(fitted, fields=list(array.type), mask=mask)


def _fitted_list(array: pa.Array, field: pa.Field, path: str) -> pa.Array:
    values = array.flatten()
    made = _fitted(values, field.type.value_field, f"{path}.element")
    if made is values:
        return array
    if pt.is_fixed_size_list(array.type):
        raise SchemaMismatch(
            f"Column '{path}' is a vector of text.", hint="Write it as a list: remove the vector's length."
        )
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    large = pt.is_large_list(array.type)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64 if large else np.int32)
    make = pa.LargeListArray if large else pa.ListArray
    mask = array.is_null() if array.null_count else None
    return make.from_arrays(pa.array(offsets), made, type=array.type, mask=mask)


def _fitted_map(array: pa.MapArray, field: pa.Field, path: str) -> pa.Array:
    entries = map_entries(array)
    keys, items = entries.field(0), entries.field(1)
    fitted = [
        _fitted(keys, field.type.key_field, f"{path}.key"),
        _fitted(items, field.type.item_field, f"{path}.value"),
    ]
    if _same((keys, items), fitted):
        return array
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    starts = array.offsets.to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(starts), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(pa.array(offsets), *fitted, type=array.type, mask=mask)


def _same(before: Sequence[pa.Array], after: Sequence[pa.Array]) -> bool:
    return all(one is other for one, other in zip(before, after, strict=True))
