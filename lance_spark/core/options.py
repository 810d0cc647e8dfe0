"""Options from text to values, for reads, writes, storage, policy files and catalogs.

Every error names the option, the value and the expected form.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from lance_spark.core.irreversible import is_forever
from lance_spark.errors import InvalidOption, Refused

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])i?)?b?", re.IGNORECASE)
_LARGEST = 2**63 - 1
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def folded(name: str) -> str:
    """An option's name without regard to case and underscores: ``mergeSchema`` and ``merge_schema`` are one option."""
    return name.lower().replace("_", "")


def check_known(
    given: Iterable[str],
    known: Collection[str],
    where: str,
    also: Collection[str] = (),
    of_streams: Collection[str] = (),
) -> None:
    """Raise InvalidOption for the first unknown option, naming the nearest known one.

    ``also`` are options that were removed beforehand: misspelled, they end up here. ``of_streams`` are options that
    only a stream takes.
    """
    for name in given:
        if folded(name) in {folded(key) for key in known}:
            continue
        whole = {*known, *also}
        spelled = {folded(key): key for key in reversed((*known, *also, *of_streams))}  # an option before its aliases
        if folded(name) in {folded(key) for key in of_streams}:
            raise InvalidOption(
                f"Option '{spelled[folded(name)]}' is for streams.",
                hint="Leave it out, or use spark.readStream or df.writeStream.",
            )
        may = {key: spelling for key, spelling in spelled.items() if not is_forever(spelling)}
        near = difflib.get_close_matches(folded(name), may, n=1, cutoff=0.5)
        hint = f"Did you mean '{spelled[near[0]]}'?" if near else f"Known options: {', '.join(sorted(whole))}."
        raise InvalidOption(f"Unknown option '{name}' for {where} a Lance dataset.", hint=hint)


def to_bool(option: str, value: str) -> bool:
    """True or false, from the words that Spark users type."""
    word = value.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise _bad(option, value, "true or false")


def to_int(option: str, value: str, minimum: int = 0) -> int:
    """A whole number not below the minimum."""
    try:
        number = int(value.strip())
    except ValueError:
        raise _bad(option, value, "a whole number") from None
    if not minimum <= number <= _LARGEST:
        raise _bad(option, value, f"a whole number of at least {minimum}, below 2^63")
    return number


def to_bytes(option: str, value: str) -> int:
    """A positive number of bytes: ``134217728``, ``128m``, ``128MiB`` (powers of 1024, as in Spark)."""
    match = _SIZE.fullmatch(value.strip())
    size = int(Decimal(match[1]) * _UNITS[(match[2] or "").lower()]) if match else 0
    if not 1 <= size <= _LARGEST:
        raise _bad(option, value, "a size such as 128MiB or 134217728")
    return size


def to_moment(option: str, value: str) -> datetime:
    """An instant in UTC from an ISO 8601 timestamp; without an offset it is UTC."""
    text = value.strip()
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("z", "Z")) else text)
        return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise _bad(option, value, "an ISO 8601 timestamp such as 2026-01-31T23:59:59+00:00") from None


def has_offset(moment: str) -> bool:
    """Whether an ISO 8601 timestamp says how far it is from UTC; False for any other text."""
    text = moment.strip()
    try:
        return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("z", "Z")) else text).tzinfo is not None
    except ValueError:
        return False


def to_choice(option: str, value: str, choices: Collection[str]) -> str:
    word = value.strip().lower()
    if word not in choices:
        raise _bad(option, value, " or ".join(sorted(choices)))
    return word


def to_columns(option: str, value: str) -> tuple[str, ...]:
    """Column paths from a comma-separated list; backticks quote a name that contains a comma or a dot."""
    paths = tuple(part.strip() for part in _split(value, ","))
    if not all(paths) or value.count("`") % 2:
        raise _bad(option, value, "a comma-separated list such as id,person.name")
    return paths


def names_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names given as a list, or one name as text, which would otherwise be split into its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def is_frame(value: object) -> bool:
    """Whether it is a DataFrame of Spark, classic or Connect."""
    # Of its class: on Connect, the columns of the DataFrame itself cost a request.
    return hasattr(type(value), "sparkSession") and hasattr(type(value), "columns")


FRAME_HINT = "df = spark.createDataFrame(...) makes one."


def check_frame(verb: str, df: object) -> None:
    """Raise InvalidOption for anything but a DataFrame of Spark."""
    if not is_frame(df):
        kind = type(df)
        what = f"{kind.__name__} of {kind.__module__.partition('.')[0]}"
        raise InvalidOption(f"{verb} takes a DataFrame of Spark, not a {what}.", hint=FRAME_HINT)


def path_segments(path: str) -> tuple[str, ...]:
    """The segments of a column path: ``a.b`` is ('a', 'b'), ```a.b``` is ('a.b',); double a backtick inside quotes."""
    return tuple(
        part[1:-1].replace("``", "`") if len(part) > 1 and part[0] == part[-1] == "`" else part
        for part in _split(path, ".")
    )


def _split(text: str, separator: str) -> list[str]:
    """Split at the separators outside backticks: those followed by an even number of backticks."""
    return re.split(rf"{re.escape(separator)}(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)


def _bad(option: str, value: str, expected: str) -> InvalidOption:
    hint = "The log shows the numbers of versions. A tag has a name: tag='v1'." if option == "version" else None
    return InvalidOption(f"Option '{option}' is '{value}', but it must be {expected}.", hint=hint)


# --- Storage options: one set, in pylance's spelling, for both pylance and fsspec

PREFIX = "storage."
"""Prefix of the storage options of a Spark read or write."""
OF_BLOBS = "blobs."
"""Prefix of storage options for objects elsewhere that blobs refer to, in place of the table's own."""
_SWITCHED_ON = frozenset({"1", "true", "on", "yes", "y"})
"""What pylance reads as true, ignoring case."""


def split_storage(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(everything else, storage options without their prefix, keys in lower case)."""
    rest: dict[str, str] = {}
    storage: dict[str, str] = {}
    for key, value in options.items():
        if key.lower().startswith(PREFIX):
            storage[key[len(PREFIX) :].lower()] = value
        else:
            rest[key] = value
    return rest, storage


def for_table(storage: Mapping[str, str]) -> dict[str, str]:
    """The storage options of a table's own files."""
    return {key: value for key, value in storage.items() if not key.lower().startswith(OF_BLOBS)}


def for_blobs(storage: Mapping[str, str]) -> dict[str, str]:
    """The storage options of objects elsewhere, without their prefix: none if they are those of the table."""
    own = len(OF_BLOBS)
    return {key[own:]: value for key, value in storage.items() if key.lower().startswith(OF_BLOBS)}


def settled_endpoint(storage: Mapping[str, str]) -> dict[str, str]:
    """The S3 storage options, changed so that an explicit endpoint wins over the environment's.

    pylance prefers AWS_ENDPOINT_URL_S3 from the environment even to an explicit ``aws_endpoint`` option; the data
    would go to the wrong store.
    """
    given = {key.lower(): value for key, value in storage.items()}
    if not {"aws_endpoint_url_s3", "endpoint_url_s3"}.isdisjoint(given):
        return dict(storage)
    names = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")
    endpoint = next((given[name] for name in names if name in given), None)
    return dict(storage) if endpoint is None else {**storage, "aws_endpoint_url_s3": endpoint}


def fsspec_options(scheme: str, storage: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for ``fsspec.filesystem(scheme)`` that mean the same as the storage options mean to pylance.

    Only S3 needs translating; for other schemes fsspec's own environment look-up applies. The environment applies
    if an option is absent, under the names that pylance reads.
    """
    if scheme != "s3":
        return {}
    look = _Lookup(storage, environment)
    client: dict[str, Any] = {}
    # pylance prefers the S3 endpoint to the one for all services, wherever each of them comes from.
    if endpoint := look("endpoint_url_s3") or look("endpoint", "endpoint_url"):
        client["endpoint_url"] = endpoint
    if region := look("region", "default_region"):
        client["region_name"] = region
    style = "virtual" if (look("virtual_hosted_style_request") or "").lower() in _SWITCHED_ON else "path"
    arguments: dict[str, Any] = {
        "key": look("access_key_id"),
        "secret": look("secret_access_key"),
        "token": look("session_token", "token"),
        "client_kwargs": client,
        "anon": (look("skip_signature") or "").lower() in _SWITCHED_ON,
    }
    if "endpoint_url" in client:
        arguments["config_kwargs"] = {"s3": {"addressing_style": style}}
    return {key: value for key, value in arguments.items() if value not in (None, {}, False)}


class _Lookup:
    """Finds an S3 setting under pylance's spellings: with and without ``aws_``, then in the environment."""

    def __init__(self, storage: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._storage = {key.lower(): value for key, value in storage.items()}
        self._environment = environment

    def __call__(self, *names: str) -> str | None:
        for name in names:
            for key in (f"aws_{name}", name):
                if key in self._storage:
                    return self._storage[key]
        for name in names:
            if value := self._environment.get(f"AWS_{name}".upper()):
                return value
        return None


def storage_from(pairs: Iterable[str]) -> dict[str, str]:
    """Storage options from ``KEY=VALUE``, with keys in lower case. Raises InvalidOption without the text: a secret."""
    return {key.lower(): value for key, value in pairs_of("--storage", pairs, "aws_region=eu-west-1").items()}


def pairs_of(flag: str, pairs: Iterable[str], example: str) -> dict[str, str]:
    """Values by key, from ``KEY=VALUE``. Raises InvalidOption."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{flag} takes KEY=VALUE.", hint=f"For example, {flag} {example}.")
        values[key] = value
    return values


# --- Values of policy files, with errors that name the key
# Unknown keys are errors: a misspelled key would silently mean the default.

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises InvalidOption for anything else."""
    try:
        given: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidOption(f"The policy file is not TOML: {problem}.") from None
    return given


@dataclass(frozen=True)
class Section:
    """A table of a policy file, with its place for errors."""

    given: Mapping[str, Any]
    policy: str
    """The policy it belongs to, such as "the cleanup policy"."""
    place: str = ""
    """Its own name followed by a dot; empty for the file."""

    def check(self, known: Collection[str], what: str = "") -> None:
        """Raise InvalidOption for an unknown key."""
        check_known(self.given, known, f"{what}{self.policy} of")

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def texts(self, name: str) -> tuple[str, ...]:
        if isinstance(self.given[name], str):
            return (self.given[name],)
        return tuple(
            self._typed(name, text, str, "a list of texts") for text in self.typed(name, list, "a list of texts")
        )

    def numbers(self, name: str) -> frozenset[int]:
        return frozenset(
            self._typed(name, number, int, "a list of numbers") for number in self.typed(name, list, "a list")
        )

    def choice(self, name: str, choices: Collection[str]) -> str:
        value = self.given[name]
        if value in choices:
            return str(value)
        raise self._bad(name, value, " or ".join(f'"{each}"' for each in choices))

    def section(self, name: str) -> Section:
        """A nested table; empty if it is missing."""
        return Section(
            self._typed(name, self.given.get(name, {}), dict, "a table"), self.policy, f"{self.place}{name}."
        )

    def typed(self, name: str, kind: type, example: str) -> Any:
        """A value of a type. Raises InvalidOption."""
        return self._typed(name, self.given[name], kind, example)

    def _typed(self, name: str, value: object, kind: type, example: str) -> Any:
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        raise self._bad(name, value, example)

    def _bad(self, name: str, value: object, example: str) -> InvalidOption:
        return InvalidOption(f"'{self.place}{name}' in {self.policy} is {value!r}.", hint=f"Write {example}.")


# --- The options that name a table by its catalog

OWN_NAME = "lance_spark"
"""Name under which handles register the data source: ``lance`` might be the JVM connector's."""
CATALOG_OPTIONS = ("catalog", "catalog_mode", "catalog_branch", "catalog_tag", "catalog_published")
"""Options of reads and writes alike."""
_CATALOG = frozenset(map(folded, CATALOG_OPTIONS))


@dataclass(frozen=True)
class CatalogTable:
    """A table by its name. It might not exist."""

    root: str
    """Path or URI of the catalog's directory, as typed."""
    name: str
    mode: str | None = None
    """How to read the catalog; None for its default."""
    ref: tuple[str, str] | None = None
    """Kind (``branch``, ``tag`` or ``published``) and name of the ref of the whole catalog."""


def take_catalog(options: Mapping[str, str], call: str) -> tuple[CatalogTable | None, dict[str, str]]:
    """The table that options name by a catalog, and the other options; None for options without ``catalog``.

    ``call`` is ``load`` or ``save``, for errors. Raises InvalidOption for an empty catalog, a mode without a catalog,
    and a path instead of a table name.
    """
    rest = {key: value for key, value in options.items() if folded(key) not in _CATALOG}
    given = {folded(key): value for key, value in options.items() if folded(key) in _CATALOG}
    root, mode = given.get("catalog"), given.get("catalogmode")
    named = [(kind, given[f"catalog{kind}"]) for kind in ("branch", "tag") if f"catalog{kind}" in given]
    if to_bool("catalog_published", given.get("catalogpublished", "false")):
        named.append(("published", "true"))
    if len(named) > 1:
        both = " and ".join(f"'catalog_{kind}'" for kind, _ in named)
        raise InvalidOption(f"Options {both} exclude each other.", hint="Give one of them.")
    if root is None:
        for option in CATALOG_OPTIONS[1:]:
            if folded(option) in given:
                raise InvalidOption(
                    f"Option '{option}' says how to read a catalog, but no catalog is named.",
                    hint="Add option('catalog', ...).",
                )
        return None, rest
    if not root.strip():
        raise InvalidOption(
            "Option 'catalog' is empty.", hint="Give the catalog's directory: option('catalog', 's3://bucket/lake')."
        )
    name = rest.pop("path", None)
    if name is None:
        raise InvalidOption(f"No table of the catalog {root} was named.", hint=f"Give its name: {call}('ns1.flights').")
    if "/" in name or "\\" in name:
        raise InvalidOption(
            f"With option 'catalog', '{name}' must be the name of a table, but it is a path.",
            hint=f"Write {call}('ns1.flights'), or leave out 'catalog'.",
        )
    return CatalogTable(root, name, mode.strip().lower() if mode is not None else None, *named), rest


# --- Tables of Spark's own catalog, which cannot be Lance tables
# Spark does not pass their location to a Python data source. So ``CREATE TABLE t (a INT) USING lance`` would leave a
# name behind that can be neither read nor written.

_REGISTER = "lance_spark.register(spark, catalog='lake', root='s3://bucket/lake')"
LAKE = "lake"
_OF_A_TABLE = frozenset({"provider", "owner"})
"""Options that Spark adds when it creates a table, and only then."""


def refused_table(
    name: str = "t", statement: str = "CREATE TABLE {} (...)", first: str = "", catalog: str = ""
) -> Refused:
    """The error for a table of Spark's own catalog.

    ``name`` is the table's own name, ``statement`` the statement to type in a Lance catalog, and ``catalog`` one that
    the session has. ``first`` is the remedy without a catalog.
    """
    register = "" if catalog else f"register a catalog, {_REGISTER}, and "
    hint = f"{register}type {statement.format(f'{catalog or LAKE}.{name}')}."
    return Refused(
        "Spark's own catalog cannot keep Lance tables: it does not pass on where they are. No table was made.",
        hint=f"{first} For a name of its own, {hint}" if first else f"{hint[0].upper()}{hint[1:]}",
    )


def path_as_name(options: Mapping[str, str]) -> str:
    """The remedy for a table whose options hold its path, in a session where paths are names; otherwise ""."""
    path, branch = _place(options)
    ref = "" if branch is None else f"@{branch}"
    return "" if path is None else f"Its path is a name for CREATE TABLE, SELECT and INSERT: lance.`{path}{ref}`."


def path_as_view(options: Mapping[str, str]) -> str:
    """The remedy for such a table in any session."""
    path, branch = _place(options)
    more = "" if branch is None else f", branch '{branch}'"
    return "" if path is None else f"Read it by CREATE TEMPORARY VIEW t USING lance OPTIONS (path '{path}'{more})."


def _place(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    given = {key.lower(): value for key, value in options.items()}
    return given.get("location") or given.get("path"), given.get("branch")


def nothing_named(call: str) -> InvalidOption:
    """The error for a read (``load``) or write (``save``) without a path."""
    typed = "SELECT * FROM lake.t" if call == "load" else "df.write.saveAsTable('lake.t') or INSERT INTO lake.t"
    return InvalidOption(
        "No dataset was named.",
        hint=f"Give a path or a URI, e.g. {call}('s3://bucket/t.lance'). A table of Spark's own catalog has none: "
        f"drop it, register a catalog, {_REGISTER}, and type {typed}.",
    )


def check_named(options: Mapping[str, str], call: str) -> None:
    """Raise Refused for a table that Spark creates in its own catalog, and InvalidOption for several paths."""
    given = {key.lower(): value for key, value in options.items()}
    if given.keys() >= _OF_A_TABLE:
        raise refused_table(first=path_as_view(options))
    if "paths" in given:
        paths = json.loads(given["paths"])
        first, *others = (f"read.load({path!r})" for path in paths[:3])
        each = first + "".join(f".unionByName({other})" for other in others)
        raise InvalidOption(
            f"{call}() got {len(paths)} paths, but a read covers one dataset.",
            hint=f"With read = spark.read.format('lance'), combine them: {each}.",
        )
