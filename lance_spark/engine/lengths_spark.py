"""CHAR and VARCHAR: in Spark's schemas, where a column names them, and by field, as Lance's schemas have them.

Spark turns ``struct<a: char(3)>`` into a struct of strings, and keeps the text of the whole type at the column. Some of
its interfaces pass the types themselves, and PySpark's own then lack a collation.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from lance_spark.core.texts import quoted_name
from lance_spark.engine.lazy_spark import st
from lance_spark.format.kept_types import LENGTH_KEY

Lengths: TypeAlias = "str | dict[str, Lengths]"
"""``char(n)`` or ``varchar(n)`` of a string; those of a struct's fields by name, of a list's ``element``, of a map's
``key`` and ``value``. Empty for everything else."""
_CHAR = re.compile(r"(?:var)?char\(\d+\)(?: collate \w+)?")
_WORD = re.compile(r"\w+(?: collate \w+| to \w+| (?:day|hour|minute|second|year|month)(?: to \w+)?)?(?:\([^()]*\))?")
_COLLATIONS = "__COLLATIONS"
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def parsed_json(text: str) -> st.StructType:
    """PySpark's schema for the JSON of a JVM one; columns with CHAR or VARCHAR as Spark's tables have them."""
    given = json.loads(text)
    if "char(" in text:
        given["fields"] = [_as_strings(field) for field in given["fields"]]
    schema: st.StructType = st.StructType.fromJson(given)
    return schema


def _as_strings(field: dict[str, Any]) -> dict[str, Any]:
    kind, text, found = _replaced(field["type"], field["name"], field.get("metadata", {}).get(_COLLATIONS, {}))
    metadata = {**field.get("metadata", {}), LENGTH_KEY: text} if found else field.get("metadata", {})
    return {**field, "type": kind, "metadata": metadata}


def _replaced(kind: Any, path: str, collations: dict[str, str]) -> tuple[Any, str, bool]:
    """A type with strings in place of CHAR and VARCHAR, its text with them, and whether there are any."""
    if isinstance(kind, str):
        return _replaced_leaf(kind, collations.get(path))
    if kind["type"] == "struct":
        inner = [
            _replaced(each["type"], each["name"], each.get("metadata", {}).get(_COLLATIONS, {}))
            for each in kind["fields"]
        ]
        fields = [{**each, "type": made} for each, (made, _, _) in zip(kind["fields"], inner, strict=True)]
        text = struct_text([each["name"] for each in kind["fields"]], [text for _, text, _ in inner])
        return {**kind, "fields": fields}, text, any(found for _, _, found in inner)
    if kind["type"] == "array":
        made, text, found = _replaced(kind["elementType"], f"{path}.element", collations)
        return {**kind, "elementType": made}, f"array<{text}>", found
    if kind["type"] == "map":
        key, key_text, key_found = _replaced(kind["keyType"], f"{path}.key", collations)
        value, text, found = _replaced(kind["valueType"], f"{path}.value", collations)
        return {**kind, "keyType": key, "valueType": value}, f"map<{key_text},{text}>", key_found or found
    return kind, "binary", False


def _replaced_leaf(name: str, collation: str | None) -> tuple[str, str, bool]:
    word, _, own = name.partition(" collate ")
    found = _CHAR.fullmatch(word) is not None
    collated = own or (collation or "").rpartition(".")[2]
    suffix = f" collate {collated}" if collated else ""
    if found:
        return f"string collate {own}" if own else "string", f"{word}{suffix}", True
    from pyspark.sql.types import _parse_datatype_json_value

    return name, f"{word}{suffix}" if word == "string" else _parse_datatype_json_value(name).simpleString(), False


def struct_text(names: list[str], kinds: list[str]) -> str:
    """The text of a struct's type, which Spark's parser reads whatever the names are; Spark itself quotes none."""
    plain = (name if _PLAIN.fullmatch(name) else quoted_name(name) for name in names)
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in zip(plain, kinds, strict=True))}>"


def lengths_in(text: str, kind: st.DataType) -> Lengths | None:
    """The lengths in the text of a type; None if it is the text of another type."""
    try:
        found, end = _read(text, 0, kind)
    except ValueError:
        return None
    return found if end == len(text) else None


def _read(text: str, at: int, kind: st.DataType) -> tuple[Lengths, int]:
    if isinstance(kind, st.StructType):
        found: dict[str, Lengths] = {}
        at = _taken(text, at, "struct<")
        for number, field in enumerate(kind.fields):
            at = _taken(text, at, "," if number else "")
            quoted = quoted_name(field.name)
            at = _taken(text, at, quoted if text.startswith(quoted, at) else field.name)
            inner, at = _read(text, _taken(text, at, ":"), field.dataType)
            found.update({field.name: inner} if inner else {})
        return found, _taken(text, at, ">")
    if isinstance(kind, st.ArrayType):
        inner, at = _read(text, _taken(text, at, "array<"), kind.elementType)
        return ({"element": inner} if inner else {}), _taken(text, at, ">")
    if isinstance(kind, st.MapType):
        key, at = _read(text, _taken(text, at, "map<"), kind.keyType)
        value, at = _read(text, _taken(text, at, ","), kind.valueType)
        return {name: each for name, each in (("key", key), ("value", value)) if each}, _taken(text, at, ">")
    if isinstance(kind, st.StringType) and (char := _CHAR.match(text, at)) is not None:
        return char[0], char.end()
    word = _WORD.match(text, at)
    if word is None:
        raise ValueError(text)
    return {}, word.end()


def _taken(text: str, at: int, token: str) -> int:
    if not text.startswith(token, at):
        raise ValueError(text)
    return at + len(token)


def with_char_types(schema: st.StructType) -> st.StructType:
    """The schema with CHAR and VARCHAR as types of their own, which DESCRIBE and SHOW CREATE TABLE then name.

    PySpark's have no collation, and Spark cannot read the text that it makes of names with blanks: such columns stay as
    they are.
    """
    return st.StructType([_with_char_types(field) for field in schema.fields])


def _with_char_types(field: st.StructField) -> st.StructField:
    text = field.metadata.get(LENGTH_KEY)
    lengths = lengths_in(text, field.dataType) if isinstance(text, str) else None
    if not lengths or not isinstance(text, str) or "collate" in text or "`" in text:
        return field
    rest = {key: value for key, value in field.metadata.items() if key != LENGTH_KEY}
    return st.StructField(field.name, _char_types(field.dataType, lengths), field.nullable, rest)


def _char_types(kind: st.DataType, lengths: Lengths) -> st.DataType:
    if isinstance(lengths, str):
        word, _, length = lengths.rstrip(")").partition("(")
        return st.CharType(int(length)) if word == "char" else st.VarcharType(int(length))
    if isinstance(kind, st.StructType):
        inner = [_char_types(field.dataType, lengths.get(field.name, {})) for field in kind.fields]
        fields = zip(kind.fields, inner, strict=True)
        return st.StructType([st.StructField(each.name, made, each.nullable, each.metadata) for each, made in fields])
    if isinstance(kind, st.ArrayType):
        return st.ArrayType(_char_types(kind.elementType, lengths.get("element", {})), kind.containsNull)
    if isinstance(kind, st.MapType):
        key, value = (lengths.get(name, {}) for name in ("key", "value"))
        return st.MapType(_char_types(kind.keyType, key), _char_types(kind.valueType, value), kind.valueContainsNull)
    return kind
