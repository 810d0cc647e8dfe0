"""Options that are declared once, as fields of a dataclass.

The field has the option's name, type and default; :func:`option` adds its help and how it is spelled elsewhere. From
that come the arguments of jobs and commands, the keys of policy files, the parameters of SQL procedures, the options of
Spark's data source, and the table in the documentation. What is typed becomes a value here as well, and errors name the
option as it was typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from lance_spark.core.options import folded, to_bool, to_bytes, to_choice, to_int, to_moment
from lance_spark.core.policy_files import Section
from lance_spark.core.texts import from_span, readable, to_span
from lance_spark.errors import InvalidOption

Place = Literal["file", "job", "shell", "sql", "source"]
PLACES: tuple[Place, ...] = ("file", "job", "shell", "sql")
"""Where an option can be given, besides Python: a policy file, a job's arguments, the shell, and SQL. Those of the data
source, which are all texts, are given nowhere else."""
_DECLARED = "lance_spark.option"
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Spelling:
    """How an option is written outside of Python."""

    help: str
    flag: str | None = None
    """On a command line, without dashes; by default the field's name."""
    short: str | None = None
    """The letter of a second, short flag in the shell."""
    key: str | None = None
    """In a policy file, in SQL and for the data source; by default the field's name."""
    aliases: Sequence[str] = ()
    parse: Callable[[str, str], object] | None = None
    """Parses the key and the given text into the value, if the field's type does not say how."""
    choices: Mapping[str, object] | None = None
    """Words, and the values that they stand for."""
    switch_off: str | None = None
    """The help of a flag that sets a field to false which is true by default."""
    metavar: str | None = None
    """Placeholder for the value in a command's help; by default a word for its type."""
    places: Sequence[Place] = PLACES


def option(default: Any, help: str, **spelled: Any) -> Any:
    """A dataclass field that is an option. ``spelled`` are the fields of :class:`Spelling`."""
    metadata = {_DECLARED: Spelling(help, **spelled)}
    if isinstance(default, dict | list | set):
        raise TypeError(f"an option's default is immutable, and not {default!r}")
    return field(default=default, metadata=metadata)


def source_option(default: Any, help: str, **spelled: Any) -> Any:
    return option(default, help, places=("source",), **spelled)


@dataclass(frozen=True)
class Declared:
    name: str
    kind: Literal["span", "number", "numbers", "flag", "texts", "text", "choice", "moment"]
    default: Any
    spelling: Spelling

    @property
    def key(self) -> str:
        """The name in a policy file, in SQL and for the data source."""
        return self.spelling.key or self.name

    @property
    def flag(self) -> str:
        return "--" + (self.spelling.flag or self.key).replace("_", "-")

    @property
    def help(self) -> str:
        """The help, with the default where there is one to show."""
        shown = self._shown_default()
        return f"{self.spelling.help} (default {shown})" if shown else self.spelling.help

    @property
    def flag_help(self) -> str:
        return self.spelling.switch_off or self.help

    @property
    def metavar(self) -> str | None:
        """The placeholder for the value in a command's help."""
        kinds = {"span": "SPAN", "number": "N", "numbers": "N", "texts": "NAME", "text": "TEXT"}
        return self.spelling.metavar or kinds.get(self.kind)

    @property
    def repeats(self) -> bool:
        """Whether the option can be given several times on a command line."""
        return self.kind in ("texts", "numbers")

    def argument(self) -> dict[str, Any]:
        """Arguments of ``argparse``'s ``add_argument`` beside the flag. What is not given is None or empty."""
        if self.kind == "flag":
            return {"dest": self.name, "action": "store_true", "help": self.flag_help}
        made: dict[str, Any] = {"dest": self.name, "help": self.flag_help}
        if self.kind == "choice":
            return {**made, "choices": tuple(self.spelling.choices or ())}
        if self.kind in ("number", "numbers"):
            made["type"] = int
        if self.repeats:
            made |= {"action": "append", "default": [], "help": f"{self.flag_help}; repeatable"}
        return {**made, "metavar": self.metavar}

    def value(self, given: Any, typed: str) -> Any:
        """The field's value for what was typed under a name. Raises InvalidOption."""
        if self.spelling.parse is not None:
            return self.spelling.parse(typed, given)
        if self.kind == "span":
            return to_span(typed, given)
        if self.kind == "choice":
            choices = self.spelling.choices or {}
            return choices[to_choice(typed, given, tuple(choices))]
        if self.kind == "moment":
            return to_moment(typed, given)
        if self.kind == "number":
            return to_int(typed, given, 1) if isinstance(given, str) else given
        if self.kind == "flag":
            given = to_bool(typed, given) if isinstance(given, str) else given
            return bool(given) and not (self.spelling.switch_off and typed.startswith("--"))
        if self.kind == "numbers":
            return frozenset(to_int(typed, str(number), 1) for number in _several(given))
        return tuple(_several(given)) if self.kind == "texts" else given

    def read(self, section: Section) -> Any:
        """The field's value in a policy file. Raises InvalidOption."""
        if self.kind == "choice":
            choices = self.spelling.choices or {}
            return choices[section.choice(self.key, tuple(choices))]
        if self.repeats:
            return section.texts(self.key) if self.kind == "texts" else section.numbers(self.key)
        given = section.typed(self.key, *_IN_FILES[self.kind])
        return to_span(section.place + self.key, given) if self.kind == "span" else given

    def _shown_default(self) -> str:
        if isinstance(self.default, timedelta):
            return from_span(self.default)
        if self.kind == "choice":
            return next((word for word, value in (self.spelling.choices or {}).items() if value == self.default), "")
        if self.spelling.parse is to_bytes and self.default is not None:
            return readable(self.default)
        return "" if self.default in (None, False, ()) else str(self.default).lower()


@cache
def declared(*kinds: type) -> tuple[Declared, ...]:
    """The options of a dataclass, or of several, in the order of the fields."""
    return tuple(
        Declared(each.name, _kind(types[each.name], spelling), each.default, spelling)
        for kind, types in zip(kinds, map(get_type_hints, kinds), strict=True)
        for each in fields(kind)
        if (spelling := each.metadata.get(_DECLARED)) is not None and each.default is not MISSING
    )


def at(kind: type, place: Place, *names: str) -> tuple[Declared, ...]:
    """Those that can be given in one place: all, or some of them."""
    return tuple(each for each in declared(kind) if place in each.spelling.places and (not names or each.name in names))


def add_arguments(group: Any, options: Iterable[Declared]) -> None:
    """Add options to an ``argparse`` parser, or to a group of one."""
    for each in options:
        group.add_argument(each.flag, **each.argument())


def values(options: Iterable[Declared], given: Mapping[str, Any], base: object = None) -> dict[str, Any]:
    """The fields that were given, from what a command line parsed. Lists add to those of ``base``, flags only set."""
    found = {}
    for each in options:
        typed = given.get(each.name)
        if typed is None or typed is False or typed in ((), []):
            continue
        value = each.value(typed, each.flag)
        found[each.name] = (*getattr(base, each.name, ()), *value) if each.kind == "texts" else value
    return found


def typed_at(place: Place, kind: type[Kind], given: Mapping[str, Any], **more: Any) -> Kind:
    """A dataclass from what was typed on a command line or as arguments of a procedure, and from other fields."""
    found = (keyed_values if place == "sql" else values)(at(kind, place), given)
    return kind(**found, **more)


def keyed_values(options: Iterable[Declared], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that arguments of a procedure or options of the data source give, by their keys."""
    return {each.name: each.value(given[each.key], each.key) for each in options if given.get(each.key) is not None}


def by_key(options: Iterable[Declared], given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What was given for these options, by their keys, and the rest. Raises InvalidOption for a second spelling."""
    names = {folded(name): each.key for each in options for name in (each.key, *each.spelling.aliases)}
    own: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, value in given.items():
        key = names.get(folded(name))
        if key is None:
            rest[name] = value
        elif key in own:
            raise InvalidOption(f"Option '{key}' is given twice, once as '{name}'.", hint=f"Give only '{key}'.")
        else:
            own[key] = value
    return own, rest


def file_values(options: Iterable[Declared], section: Section) -> dict[str, Any]:
    """The fields that a table of a policy file gives."""
    return {each.name: each.read(section) for each in options if each.key in section}


_KINDS: Mapping[Any, str] = {
    timedelta: "span",
    int: "number",
    frozenset: "numbers",
    bool: "flag",
    tuple: "texts",
    Sequence: "texts",
    str: "text",
    datetime: "moment",
}
_IN_FILES: Mapping[str, tuple[type, str]] = {
    "span": (str, 'a span such as "14d"'),
    "number": (int, "a number"),
    "flag": (bool, "true or false"),
    "text": (str, "a text"),
}
"""What a value is in TOML, and how an error says so."""


def _kind(type_: Any, spelling: Spelling) -> Any:
    """By the field's type; ``None`` beside it only says that the option may be left out."""
    if spelling.choices is not None:
        return "choice"
    known = (_KINDS.get(get_origin(each) or each) for each in (type_, *get_args(type_)))
    return next(kind for kind in known if kind is not None)


def _several(given: Any) -> Iterator[Any]:
    """A list, or one text with commas in between, as SQL has it."""
    if isinstance(given, str):
        yield from (part.strip() for part in given.split(",") if part.strip())
    else:
        yield from given
