"""What a catalog is, and what it tells about tables and namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote

from lance_spark.catalog.names import Identifier, from_object_id
from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted

Mode = Literal["v1", "v2", "compatibility"]
MANIFEST = "__manifest"
"""Directory of the table that holds the catalog."""
_PATH_CHARACTERS = "/-._~!$&'()*+,;=:@"


@dataclass(frozen=True)
class Catalog:
    """A directory of tables. Pickles, holds no open handle, and never shows a storage option's value."""

    root: DatasetLocation
    """The catalog's directory."""
    mode: Mode = "compatibility"
    """``v1``: directories only; ``v2``: ``__manifest`` only; ``compatibility``: first the one, then the other."""

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise InvalidOption(
                f"{self.mode!r} is no mode of a catalog.", hint=f"Choose one of {', '.join(get_args(Mode))}."
            )

    @property
    def uri(self) -> str:
        """URI of the catalog's directory."""
        return self.root.uri

    @property
    def reads_manifest(self) -> bool:
        """Whether tables are looked up in ``__manifest``."""
        return self.mode != "v1"

    @property
    def reads_directories(self) -> bool:
        """Whether directories called ``<name>.lance`` are tables without being written down."""
        return self.mode != "v2"

    @property
    def manifest(self) -> DatasetLocation:
        """Where ``__manifest`` is."""
        return DatasetLocation(f"{self.root.uri}/{MANIFEST}", self.root.options)

    def at(self, path: str) -> DatasetLocation:
        """The location of a directory below the root. Raises CorruptData for a path that leads elsewhere."""
        check_inside(path)
        spelled = path if self.root.is_local else quote(path, safe=_PATH_CHARACTERS)
        return DatasetLocation(f"{self.root.uri}/{spelled}", self.root.options)


def is_inside(path: str | None) -> bool:
    """Whether a row's location is a path below the root; what is elsewhere is never touched."""
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
            f"'{path}' in the catalog's __manifest is no path of a table below its root.",
            hint="Another tool wrote it. Nothing was read from there.",
        )


@dataclass(frozen=True, repr=False)
class TableInfo(Shown):
    """A table, described."""

    identifier: Identifier
    location: DatasetLocation
    """Where its data is."""
    path: str
    """Its directory, relative to the catalog's root."""
    properties: dict[str, str]
    registered: bool
    """Whether it has a row in ``__manifest``; else it is only a directory."""
    declared: bool | None = None
    """Whether it has no data yet, only a name; None if it was not looked up."""

    def _card(self) -> Card:
        state = "declared, without data" if self.declared else ""
        registered = "yes" if self.registered else "no, a directory only"
        facts = (("location", self.location.uri), ("in __manifest", registered), ("state", state))
        summary = ", ".join(part for part in (f"in {self.location.uri}", state) if part)
        return Card(type(self).__name__, str(self.identifier), summary, facts, (_properties(self.properties),))


@dataclass(frozen=True, repr=False)
class NamespaceInfo(Shown):
    """A namespace, described."""

    identifier: Identifier
    properties: dict[str, str]

    def _card(self) -> Card:
        name = "the root" if self.identifier.is_root else str(self.identifier)
        count = counted(len(self.properties), "property", "properties")
        return Card(type(self).__name__, name, count, grids=(_properties(self.properties),))


@dataclass(frozen=True)
class Page:
    """Part of a listing, in the order of the ids' bytes. Iterating gives identifiers."""

    object_ids: tuple[str, ...]
    """As the catalog keeps them: ``ns1$ns2$table``."""
    next_token: str | None = None
    """Give it as ``page_token`` for what follows; None at the end."""

    @property
    def identifiers(self) -> tuple[Identifier, ...]:
        """The same as names."""
        return tuple(self)

    def __iter__(self) -> Iterator[Identifier]:
        return map(from_object_id, self.object_ids)

    def __len__(self) -> int:
        return len(self.object_ids)


@dataclass(frozen=True)
class Declaration:
    """A table's name, taken. What comes next is to write the table, or to withdraw."""

    identifier: Identifier
    location: DatasetLocation
    """Where the data belongs."""
    path: str
    """The directory, relative to the catalog's root."""
    token: str
    """Tells this declaration from any other one."""


@dataclass(frozen=True, repr=False)
class Removed(Shown):
    """A table that was dropped or deregistered."""

    identifier: Identifier
    path: str | None
    """Its directory, relative to the catalog's root, with which it can be registered again."""
    properties: dict[str, str]
    data_kept: bool
    """Whether its files are still there."""

    def _card(self) -> Card:
        kept = "its files are still there" if self.data_kept else "its files are gone"
        facts = (("directory", self.path or ""), ("data", kept))
        return Card(type(self).__name__, str(self.identifier), kept, facts, (_properties(self.properties),))


def _properties(properties: Mapping[str, str]) -> Grid:
    """Properties as a table."""
    return Grid(("property", "value"), tuple(sorted(properties.items())))
