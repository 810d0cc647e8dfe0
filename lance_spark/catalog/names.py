"""Names of namespaces and tables: as people type them, as the catalog keeps them, and which are legal.

pylance 14.0.2 checks no name: ``../evil`` escaped the catalog's directory, ``a$b`` landed in a namespace, and a quote
in a name changed the query.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from lance_spark.errors import InvalidName

DELIMITER = "$"
"""Between the parts of an object's id."""
TABLE, NAMESPACE = "table", "namespace"
_LONGEST = 255
"""Bytes a directory's name may have, on most file systems."""
_HASH = 9
"""Bytes of ``<hash>_`` before the id, in the name of a table's directory."""
_PLAIN = re.compile(r"[^\s.`]+")


class Identifier(NamedTuple):
    """The name of a namespace or table: its parts, outermost first. Without parts it is the root namespace."""

    parts: tuple[str, ...]

    @property
    def object_id(self) -> str:
        """As the catalog keeps it: ``ns1$ns2$table``."""
        return DELIMITER.join(self.parts)

    @property
    def name(self) -> str:
        """The last part; empty for the root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> Identifier:
        """The namespace it is in."""
        return Identifier(self.parts[:-1])

    @property
    def is_root(self) -> bool:
        """Whether it is the root namespace."""
        return not self.parts

    @property
    def in_root(self) -> bool:
        """Whether it is directly in the root namespace: all that V1 knows."""
        return len(self.parts) == 1

    def child(self, name: str) -> Identifier:
        """What is called so in this namespace."""
        return Identifier((*self.parts, name))

    def __str__(self) -> str:
        """As people type it, with backticks around parts that need them."""
        return ".".join(
            part if _PLAIN.fullmatch(part) else "`{}`".format(part.replace("`", "``")) for part in self.parts
        )


ROOT = Identifier(())
Name = str | Sequence[str] | Identifier
"""``"ns1.ns2.flights"``, with backticks around a part that holds a dot; or the parts, one by one."""


def identify_table(name: Name) -> Identifier:
    """The table a name means. Raises InvalidName, naming the broken rule, for what can be the name of no table."""
    identifier = _identify(name)
    _rule(not identifier.is_root, TABLE, "", "it cannot be empty")
    _check_parts(identifier, TABLE)
    return identifier


def identify_namespace(name: Name) -> Identifier:
    """The namespace a name means; the root for an empty one. Raises InvalidName."""
    identifier = _identify(name)
    _check_parts(identifier, NAMESPACE)
    return identifier


def check_new(identifier: Identifier, kind: str) -> None:
    """Raise InvalidName for names that other tools made, and that nothing new should have."""
    for part in identifier.parts:
        shown = str(identifier)
        _rule(not any(quote in part for quote in "'\"`"), kind, shown, "it cannot contain quotes")
        _rule("?" not in part, kind, shown, "pylance cannot keep a path with '?' in one place")
        _rule(part == part.strip(), kind, shown, "it cannot start or end with a blank")
    length = _HASH + len(identifier.object_id.encode())
    _rule(
        length <= _LONGEST,
        kind,
        f"{identifier.name[:30]}...",
        f"with its namespaces it would need a directory name of {length} bytes, {_LONGEST} fit",
    )


def is_sound(object_id: str) -> bool:
    """Whether an id that another tool wrote could be the name of something new."""
    identifier = from_object_id(object_id)
    try:
        _check_parts(identifier, TABLE)
        check_new(identifier, TABLE)
    except InvalidName:
        return False
    return True


def from_object_id(object_id: str) -> Identifier:
    """The identifier of a row, unchecked."""
    return Identifier(tuple(object_id.split(DELIMITER)))


def split_name(name: Name) -> Identifier:
    """The parts of a name, unchecked: what the last one means, a ref in it maybe, is not known yet."""
    return _identify(name)


def _identify(name: Name) -> Identifier:
    if isinstance(name, Identifier):
        return name
    if isinstance(name, str):
        return Identifier(_split(name)) if name else ROOT
    parts = tuple(name)
    for part in parts:
        if not isinstance(part, str):
            raise InvalidName(f"{part!r} cannot be part of a name.", hint="Give text, e.g. ['ns1', 'flights'].")
    return Identifier(parts)


def _split(text: str) -> tuple[str, ...]:
    """Text at its dots, as Spark SQL does it: what is between backticks is one part, ```` `` ```` in it a backtick."""
    parts = []
    position = 0
    while True:
        if text.startswith("`", position):
            match = re.compile(r"`((?:[^`]|``)*)`").match(text, position)
            if match is None:
                raise InvalidName(f"A backtick is missing in the name {text!r}.")
            parts.append(match[1].replace("``", "`"))
            position = match.end()
        else:
            end = text.find(".", position)
            end = len(text) if end < 0 else end
            parts.append(text[position:end])
            position = end
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise InvalidName(f"A dot is missing after a backtick in the name {text!r}.")
        position += 1


def _check_parts(identifier: Identifier, kind: str) -> None:
    for part in identifier.parts:
        shown = repr(str(identifier))[1:-1]
        _rule(bool(part), kind, shown, "no part of it can be empty")
        _rule(DELIMITER not in part, kind, shown, f"it cannot contain '{DELIMITER}', which divides ids")
        _rule("/" not in part and "\\" not in part, kind, shown, "it cannot contain '/' or '\\'")
        _rule(part not in (".", ".."), kind, shown, "no part of it can be '.' or '..'")
        _rule(
            all(unicodedata.category(character) not in ("Cc", "Cs") for character in part),
            kind,
            shown,
            "it cannot contain control characters",
        )


def _rule(holds: bool, kind: str, shown: str, rule: str) -> None:
    if not holds:
        raise InvalidName(
            f"'{shown}' is not a valid {kind} name: {rule}.",
            hint="A dot divides namespaces; put a part that holds one in backticks." if "." in shown else None,
        )
