"""Catalogs as values: names of tables and namespaces, what they describe, cards, and names of views. Pure.

Checks all names, because pylance 14.0.2 checks none: ``../evil`` escaped the catalog's directory, ``a$b`` landed in a
namespace, and a quote in a name changed the query.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args
from urllib.parse import quote

from lance_spark.catalog.lake_rules import LakePublished, LakeRef, ManifestAtPublish, ManifestAtRef, why_frozen
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_names import LAKE_TABLE
from lance_spark.core.services import JOURNAL, Service, check_directory, service_of, without_service
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.texts import counted, quoted_name
from lance_spark.core.words import OF_TABLE_INFO
from lance_spark.errors import CorruptData, InvalidName, InvalidOption, Refused

DELIMITER = "$"
"""Separates the parts of an object's id."""
TABLE, NAMESPACE = "table", "namespace"
_LONGEST = 255
"""Maximum bytes of a directory's name on most file systems."""
_HASH = 9
"""Bytes of ``<hash>_`` before the id in the name of a table's directory."""
_PLAIN = re.compile(r"[^\s.`]+")


class Identifier(NamedTuple):
    """The name of a namespace or table: its parts, outermost first. Without parts it is the root namespace."""

    parts: tuple[str, ...]

    @property
    def object_id(self) -> str:
        """The id in the catalog: ``ns1$ns2$table``."""
        return DELIMITER.join(self.parts)

    @property
    def name(self) -> str:
        """The last part; empty for the root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> Identifier:
        return Identifier(self.parts[:-1])

    @property
    def is_root(self) -> bool:
        return not self.parts

    @property
    def in_root(self) -> bool:
        """Whether it is directly in the root namespace, the only one in V1."""
        return len(self.parts) == 1

    def child(self, name: str) -> Identifier:
        return Identifier((*self.parts, name))

    def __str__(self) -> str:
        """As people type it, with backticks around parts that need them."""
        return ".".join(part if _PLAIN.fullmatch(part) else quoted_name(part) for part in self.parts)


ROOT = Identifier(())
Name = str | Sequence[str] | Identifier
"""``"ns1.ns2.flights"``, with backticks around a part that contains a dot; or a sequence of the parts."""


def identify_table(name: Name) -> Identifier:
    """The table that a name means. Raises InvalidName, with the broken rule, for an invalid table name."""
    identifier = split_name(name)
    _rule(not identifier.is_root, TABLE, "", "it cannot be empty")
    _check_parts(identifier, TABLE)
    return identifier


def identify_namespace(name: Name) -> Identifier:
    """The namespace that a name means; the root for an empty one. Raises InvalidName."""
    identifier = split_name(name)
    _check_parts(identifier, NAMESPACE)
    return identifier


def check_new(identifier: Identifier, kind: str) -> None:
    """Raise InvalidName for names that other tools created but that nothing new should have."""
    shown = str(identifier)
    for part in identifier.parts:
        _rule(not any(quote in part for quote in "'\"`"), kind, shown, "it cannot contain quotes")
        _rule("?" not in part, kind, shown, "pylance cannot keep a path with '?' in one place")
        _rule(part == part.strip(), kind, shown, "it cannot start or end with a blank")
    length = _HASH + len(identifier.object_id.encode())
    _rule(
        length <= _LONGEST,
        kind,
        f"{identifier.name[:30]}...",
        f"with its namespaces it would need a directory name of {length} bytes, at most {_LONGEST} fit",
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
    """The parts of a name, unchecked: the last one may still contain a ref."""
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
    """Text split at its dots, as in Spark SQL: text between backticks is one part; ```` `` ```` in it is a backtick."""
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
    shown = repr(str(identifier))[1:-1]
    for part in identifier.parts:
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


# --- A catalog, its tables and its namespaces as values

Mode = Literal["v1", "v2", "compatibility"]
MANIFEST = LAKE_TABLE
"""Directory of the table that holds the catalog."""
_PATH_CHARACTERS = "/-._~!$&'()*+,;=:@"


@dataclass(frozen=True)
class Catalog:
    """A directory of tables. Can be pickled, holds no open handle, and never shows a storage option's value."""

    root: DatasetLocation
    """The catalog's directory."""
    mode: Mode = "compatibility"
    """``v1``: directories only; ``v2``: ``__manifest`` only; ``compatibility``: ``__manifest``, then directories."""
    ref: LakeRef | None = None
    """The branch or tag of the lake; None for main. There, outside of V1, a directory without a row is not a table.

    A reader of complete publishes reads main, with its directories."""

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise InvalidOption(
                f"{self.mode!r} is not a mode of a catalog.", hint=f"Choose one of {', '.join(get_args(Mode))}."
            )

    @property
    def uri(self) -> str:
        return self.root.uri

    @property
    def service(self) -> Service | None:
        """The service that has the names; None for a directory. A service has no ``__manifest``, and no refs."""
        return service_of(dict(self.root.options))

    def check_directory(self) -> None:
        """Raise Refused for a service's catalog."""
        check_directory(self.root)

    @property
    def reads_manifest(self) -> bool:
        """Whether tables are looked up in ``__manifest``."""
        return self.mode != "v1"

    @property
    def has_manifest(self) -> bool:
        """Whether ``__manifest`` has more than names: refs of the lake, publishes, and itself to be kept small."""
        return self.reads_manifest and self.service is None

    @property
    def has_journal(self) -> bool:
        """Whether publishes can be recorded."""
        service = self.service
        return self.reads_manifest and (service is None or service.journal is not None)

    @property
    def reads_directories(self) -> bool:
        """Whether directories named ``<name>.lance`` are tables without a row."""
        is_main = self.service is None and (self.ref is None or isinstance(self.ref, LakePublished))
        return self.mode == "v1" or (self.mode == "compatibility" and is_main)

    @property
    def manifest(self) -> DatasetLocation:
        """Where ``__manifest`` is, or the branch of it that the ref is. Raises Refused for a service's catalog."""
        self.check_directory()
        whole, ref = DatasetLocation(f"{self.root.uri}/{MANIFEST}", self.root.options), self.ref
        if ref is None:
            return whole
        if isinstance(ref, LakePublished):
            return ManifestAtPublish(whole.uri, whole.options, reader=ref)
        return ManifestAtRef(
            whole.branch_uri(ref.branch),
            whole.options,
            kind=ref.kind,
            name=ref.name,
            id=ref.id,
            why_frozen=why_frozen(ref, self.reads_manifest),
            catalog=self.uri,
        )

    @property
    def journal(self) -> DatasetLocation:
        """Below which publishes are recorded: ``__manifest``, or what a service's property names. Raises Refused."""
        service = self.service
        if service is None:
            return self.manifest
        where = service.journal
        if where is None:
            raise Refused(
                f"The catalog {self.uri} is a service, which has no __manifest: publishes need a journal.",
                hint=f"Name a directory for it, the same in every job, as the property '{JOURNAL}' of the catalog.",
            )
        return DatasetLocation.at(where, {**service.storage, **without_service(dict(self.root.options))})

    def at(self, path: str) -> DatasetLocation:
        """The location of a directory below the root. Raises CorruptData for a path that leads outside.

        A service's catalog has no root: Refused.
        """
        if self.service is not None:
            raise Refused(f"The catalog {self.uri} is a service: it has no directory, so '{path}' is nowhere in it.")
        check_inside(path)
        spelled = path if self.root.is_local else quote(path, safe=_PATH_CHARACTERS)
        return DatasetLocation(f"{self.root.uri}/{spelled}", self.root.options)


def is_inside(path: str | None) -> bool:
    """Whether a row's location is a path below the root; anything outside is never touched."""
    if not path:
        return False
    try:
        check_inside(path)
    except CorruptData:
        return False
    return True


def check_inside(path: str) -> None:
    """Raise CorruptData unless a row's location is a relative path that stays below the root."""
    parts = path.split("/")
    if "://" in path or "\\" in path or "\0" in path or not {"", ".", ".."}.isdisjoint(parts) or parts[0] == MANIFEST:
        raise CorruptData(
            f"'{path}' in the catalog's __manifest is not a path of a table below its root.",
            hint="Another tool wrote it. Nothing was read from it.",
        )


@dataclass(frozen=True, repr=False)
class TableInfo(Shown):
    _words = OF_TABLE_INFO
    identifier: Identifier
    location: DatasetLocation
    path: str
    """Its directory, relative to the catalog's root; in a service's catalog, the whole URI."""
    properties: dict[str, str]
    registered: bool
    """Whether it has a row in ``__manifest``; otherwise it is only a directory."""
    declared: bool | None = None
    """Whether it has no data yet, only a name; None if that was not looked up."""

    def _card(self) -> Card:
        state = "declared, without data" if self.declared else ""
        registered = "yes" if self.registered else "no, a directory only"
        of_service = self.path == self.location.uri
        facts = (("location", self.location.uri), ("in __manifest", "" if of_service else registered), ("state", state))
        summary = ", ".join(part for part in (f"in {self.location.uri}", state) if part)
        return Card(type(self).__name__, str(self.identifier), summary, facts, (_properties(self.properties),))


@dataclass(frozen=True, repr=False)
class NamespaceInfo(Shown):
    identifier: Identifier
    properties: dict[str, str]

    def _card(self) -> Card:
        name = "the root" if self.identifier.is_root else str(self.identifier)
        count = counted(len(self.properties), "property", "properties")
        return Card(type(self).__name__, name, count, grids=(_properties(self.properties),))


@dataclass(frozen=True)
class Page:
    """Part of a listing, in the order of the ids' bytes. Iterating yields identifiers."""

    object_ids: tuple[str, ...]
    """The ids in the catalog: ``ns1$ns2$table``."""
    next_token: str | None = None
    """The ``page_token`` of the next page; None at the end."""

    @property
    def identifiers(self) -> tuple[Identifier, ...]:
        return tuple(self)

    def __iter__(self) -> Iterator[Identifier]:
        return map(from_object_id, self.object_ids)

    def __len__(self) -> int:
        return len(self.object_ids)


@dataclass(frozen=True)
class Declaration:
    """A table's name that has been taken. Write the table next, or withdraw the declaration."""

    identifier: Identifier
    location: DatasetLocation
    path: str
    """The directory, relative to the catalog's root."""
    token: str
    """Distinguishes this declaration from any other one."""


@dataclass(frozen=True, repr=False)
class Removed(Shown):
    """A table that was dropped or deregistered."""

    identifier: Identifier
    path: str | None
    """Its directory, relative to the catalog's root, with which it can be registered again."""
    properties: dict[str, str]
    data_kept: bool
    """Whether its files still exist."""

    def _card(self) -> Card:
        kept = "its files still exist" if self.data_kept else "its files are gone"
        facts = (("directory", self.path or ""), ("data", kept))
        return Card(type(self).__name__, str(self.identifier), kept, facts, (_properties(self.properties),))


def _properties(properties: Mapping[str, str]) -> Grid:
    return Grid(("property", "value"), tuple(sorted(properties.items())))


# --- A catalog as a card

SHOWN = 20
"""How many names of each kind are shown."""


_MODES = {
    "v1": "tables are directories",
    "v2": "tables are rows of __manifest",
    "compatibility": "tables are rows of __manifest, or directories in the root without a row",
}


def catalog_card(what: str, catalog: Catalog, namespaces: Sequence[str], tables: Sequence[str], why: str = "") -> Card:
    """A catalog and the names in its root; ``why`` is the store's error if it did not list them."""
    named = (("namespace", name) for name in namespaces[:SHOWN]), (("table", name) for name in tables[:SHOWN])
    rows = tuple(row for kind in named for row in kind)
    notes = tuple(
        f"there are more than {SHOWN} {kind}: {call} has all"
        for kind, call, names in (
            ("namespaces", "list_namespaces()", namespaces),
            ("tables in the root", "list_tables()", tables),
        )
        if len(names) > SHOWN
    )
    mode = _MODES[catalog.mode if catalog.reads_directories else "v2"]
    ref = () if catalog.ref is None else ((catalog.ref.kind, catalog.ref.name or catalog.ref.called),)
    kind = f"mode {catalog.mode}" if catalog.service is None else f"service {catalog.service.impl}"
    how = ("mode", f"{catalog.mode}: {mode}") if catalog.service is None else ("service", catalog.service.impl)
    facts = (*ref, how, ("unknown", why))
    header = ("kind", "name in the root")
    return Card(what, catalog.uri, kind, facts, (Grid(header, rows),), notes)


# --- Names of the temporary views of a catalog's tables

BETWEEN = "_"
"""Separates the parts of a table's name: in a view's name, Spark takes a dot as the end of a database's name."""


def view_names(tables: Iterable[Identifier], prefix: str = "") -> dict[Identifier, str]:
    """The view of each table: ``ns1.ns2.flights`` is ``ns1_ns2_flights``, with the prefix in front of it.

    Raises Refused, naming both, for two tables with the same view. Spark ignores the case of names.
    """
    names: dict[Identifier, str] = {}
    taken: dict[str, Identifier] = {}
    for table in tables:
        name = prefix + BETWEEN.join(table.parts)
        other = taken.setdefault(name.casefold(), table)
        if other != table:
            raise Refused(
                f"Tables '{other}' and '{table}' would both get the view '{name}'.",
                hint="Register the views of one namespace at a time, each with its own prefix.",
            )
        names[table] = name
    return names
