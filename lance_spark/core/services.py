"""Catalog services as values: which one, its settings, and how both travel as storage options."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus, urlsplit

from lance_spark.core.location import DatasetLocation, is_relative
from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.ref_names import LAKE_TABLE
from lance_spark.errors import InvalidOption, Refused

OWN = "dir"
"""The directory catalog: this package's own, with or without that word."""
IMPL, PROPERTIES = "catalog_impl", "catalog_properties_secret"
"""Storage options of a service's catalog. Spark and this package hide values whose keys say that they are secret."""
PROVIDER = "token_provider"
"""Storage option that says who hands out the others, and renews them."""
_SERVICE = "service:"
"""Begins the provider of a table that a service has."""
_KEEPER = "service-of-versions:"
"""The same of a table whose versions the service keeps: each commit to main is a question to it."""
_IMPL = re.compile(r"[A-Za-z][\w.+-]*")
_SHOWN = ("uri", "endpoint", "root", "region", "catalog_id")
"""Properties that say where a service is; everything else may be a secret."""
_HEADERS = ("headers.", "header.")
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"), re.compile(r"[\x20-\x7e\t]*")
_SHORTEST_WORD = 8
"""Characters of a part of a property that is hidden by itself."""
JOURNAL = "publish_journal"
"""Property that names a directory for the journal of publishes. Nobody but this package knows it."""


@dataclass(frozen=True)
class Service:
    """A catalog service. Can be pickled, holds no connection, and never shows a property's value."""

    impl: str
    """The alias, or the full name of a class, that ``lance_namespace.connect`` knows."""
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @staticmethod
    def of(impl: str, properties: Mapping[str, object] | None = None) -> Service:
        """A service by what people type. Raises InvalidOption for what cannot be one."""
        if not _IMPL.fullmatch(impl):
            raise InvalidOption(
                "The implementation of a catalog has no such name.",
                hint="Give 'rest', 'glue', 'hive2', 'hive3', 'unity', 'polaris', 'dir', or the full name of a class.",
            )
        return Service(impl, tuple(sorted((str(key), _text(value)) for key, value in (properties or {}).items())))

    @property
    def uri(self) -> str:
        """What people see of it: ``rest://catalog.example:8080/v1``."""
        given = dict(self.properties)
        where = next((given[key] for key in _SHOWN if given.get(key)), "")
        if "://" in where:
            parts = urlsplit(where)
            where = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"{self.impl}://{where}".rstrip("/") if where else f"{self.impl}://"

    @property
    def storage(self) -> dict[str, str]:
        """The storage options among its properties, for tables whose answer has none."""
        return {key.removeprefix("storage."): value for key, value in self.properties if key.startswith("storage.")}

    @property
    def journal(self) -> str | None:
        """The directory in which publishes of its tables are recorded. Raises InvalidOption for a relative one."""
        where = dict(self.properties).get(JOURNAL, "").rstrip("/")
        if where and is_relative(where):
            raise InvalidOption(f"The {JOURNAL} of a catalog is an absolute path or a URI.")
        return where or None

    @property
    def for_others(self) -> dict[str, str]:
        """The properties that its own client is given."""
        return {key: value for key, value in self.properties if key != JOURNAL}

    @property
    def headers(self) -> dict[str, str]:
        """The headers among its properties. Raises InvalidOption, without the value, for one that HTTP cannot send."""
        found = {}
        for key, value in self.properties:
            prefix = next((each for each in _HEADERS if key.startswith(each)), None)
            if prefix is not None:
                sent = value.strip()  # of a key that was read from a file, the last line has an end
                if not _HEADER_VALUE.fullmatch(sent) or not _HEADER_NAME.fullmatch(key[len(prefix) :]):
                    raise InvalidOption(
                        f"The property '{key}' of the catalog {self.uri} cannot be sent as a header.",
                        hint="A header is one line of ASCII characters.",
                    )
                found[key[len(prefix) :]] = sent
        return found

    def root(self, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
        """What takes the place of a directory catalog's root: it says where, and its options say how."""
        packed = {IMPL: self.impl, PROPERTIES: json.dumps(dict(self.properties))}
        return DatasetLocation.at(self.uri, {**(storage_options or {}), **packed})

    def provider(self, table: Sequence[str], uri: str, managed: bool = False) -> str:
        """The provider of storage options of one of its tables, as a storage option's value.

        ``uri`` is where the service said that the table is: a table of the same name elsewhere is another one.
        ``managed`` is whether the service keeps the versions of the table, too.
        """
        begins = _KEEPER if managed else _SERVICE
        return begins + json.dumps([self.impl, dict(self.properties), list(table), uri])

    def clean(self, text: str) -> str:
        """A text without the values of its properties that may be secrets, in whichever form a server repeats them."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return re.sub(r"(?<=://)[^/\s@]+@", "***@", text)

    def _secrets(self) -> Iterator[str]:
        for key, value in self.properties:
            if key not in (*_SHOWN, JOURNAL):
                # Of "Bearer abc", many servers repeat only the second word.
                words = [word for word in value.split() if len(word) >= _SHORTEST_WORD]
                for said in {value, value.strip(), *words} if len(value.strip()) > 3 else ():
                    yield from {said, quote(said, safe=""), quote_plus(said)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_secret(key: str) -> bool:
    """Whether the value of a storage option may be a secret, by its key."""
    return re.search(r"key|secret|token|password|credential|sas", key, re.I) is not None


def service_of(options: Mapping[str, str]) -> Service | None:
    """The service in the options of a catalog's root; None for a directory."""
    if IMPL not in options:
        return None
    properties = _decoded(options.get(PROPERTIES, "{}"))
    if not isinstance(properties, dict):
        raise _unreadable()
    return Service.of(options[IMPL], properties)


def check_directory(location: DatasetLocation) -> None:
    """Raise Refused for what takes the place of a service's root: it is no directory."""
    if any(key == IMPL for key, _ in location.options):
        raise Refused(
            f"The catalog {location.uri} is a service, which has no {LAKE_TABLE}: branches and tags of the whole lake, "
            "clones of it and migration need one. Nothing was changed.",
            hint="Tables of it have branches and tags of their own, and everything else that a table has.",
        )


def without_service(options: Mapping[str, str]) -> dict[str, str]:
    """The storage options of a catalog's root that are for its tables."""
    return {key: value for key, value in options.items() if key not in (IMPL, PROPERTIES)}


@dataclass(frozen=True)
class ServedTable:
    """A table that a service has, as a provider of storage options names it."""

    service: Service
    table: tuple[str, ...]
    uri: str | None
    """Where the service said that it is; None in what 1.0.0 stored."""
    managed: bool
    """Whether the service keeps its versions."""


def table_of(provider: str) -> ServedTable | None:
    """The table of a provider; None for a provider that people wrote themselves."""
    begins = next((each for each in (_SERVICE, _KEEPER) if provider.startswith(each)), None)
    if begins is None:
        return None
    found = _decoded(provider[len(begins) :])
    if not isinstance(found, list) or len(found) not in (3, 4) or not isinstance(found[1], dict):
        raise _unreadable()
    uri = str(found[3]) if len(found) > 3 else None
    table = tuple(str(part) for part in found[2])
    return ServedTable(Service.of(str(found[0]), found[1]), table, uri, begins == _KEEPER)


def keeps_versions(location: DatasetLocation) -> bool:
    """Whether a catalog service keeps the versions of a table, and commits go through it."""
    return any(key == PROVIDER and value.startswith(_KEEPER) for key, value in location.options)


def _decoded(text: str) -> object:
    try:
        return decode_json(text)
    except ValueError:
        raise _unreadable() from None


def _unreadable() -> InvalidOption:
    return InvalidOption(
        "The properties of a catalog service cannot be read.",
        hint="Give them as properties={...}, or as --property KEY=VALUE.",
    )


EXPIRES = "expires_at_millis"
"""Storage option with the moment, in milliseconds since 1970, after which the others are refused."""


def _spelled(key: str) -> str:
    """The other storage options are read in upper case as well, by pylance and here."""
    return EXPIRES if key.lower() == EXPIRES else key


@dataclass(frozen=True)
class Vended:
    """Storage options that a provider handed out."""

    options: tuple[tuple[str, str], ...] = field(repr=False)
    fetched: float
    """When, in seconds of a clock that only goes forward."""
    lifetime: float | None = None
    """Seconds from then on; None if they do not expire."""

    @staticmethod
    def of(options: Mapping[str, object], wall: float, fetched: float, early: float = 0.0) -> Vended:
        """What a provider answered; ``wall`` is the time of day in seconds. Raises InvalidOption.

        ``early`` is by how many seconds stores have refused others before their time. pylance is told, too.
        """
        given = {_spelled(str(key)): str(value) for key, value in options.items() if value is not None}
        text = given.get(EXPIRES)
        if text is None:
            return Vended(tuple(sorted(given.items())), fetched)
        if not text.strip().isdigit():
            raise InvalidOption(f"'{EXPIRES}' of the storage options is not a number of milliseconds since 1970.")
        until = int(text) - round(early * 1000)
        return Vended(tuple(sorted({**given, EXPIRES: str(until)}.items())), fetched, until / 1000 - wall)

    def is_due(self, now: float) -> bool:
        """Whether they should be renewed: after four fifths of their lifetime, or 5 minutes before its end.

        Someone whose clock is off may find them expired already: then they are used once, and the store decides.
        """
        if self.lifetime is None:
            return False
        margin = min(300.0, self.lifetime / 5)
        return now - self.fetched >= max(self.lifetime - margin, 1.0)

    def is_over(self, now: float) -> bool:
        return self.lifetime is not None and now - self.fetched >= self.lifetime
