"""Values of policy files, with errors that name the key. A misspelt key would silently mean the default."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lance_spark.errors import InvalidOption
from lance_spark.options.text import check_known, to_span

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises InvalidOption for text that is none."""
    try:
        given: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidOption(f"The policy file is no TOML: {problem}.") from None
    return given


@dataclass(frozen=True)
class Section:
    """A table of a policy, which knows its place for errors."""

    given: Mapping[str, Any]
    policy: str
    """Which policy it is of, such as "the cleanup policy"."""
    place: str = ""
    """Its own name with a dot behind it; empty for the file."""

    def check(self, known: Collection[str], what: str = "") -> None:
        """Raise InvalidOption for a key that is none of these."""
        check_known(self.given, known, f"{what}{self.policy} of")

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def span(self, name: str) -> timedelta:
        """A span of time."""
        return to_span(self.place + name, self.typed(name, str, 'a span such as "14d"'))

    def flag(self, name: str) -> bool:
        """True or false."""
        value: bool = self.typed(name, bool, "true or false")
        return value

    def number(self, name: str) -> int:
        """A whole number."""
        value: int = self.typed(name, int, "a number")
        return value

    def text(self, name: str) -> str:
        """A text."""
        value: str = self.typed(name, str, "a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, or one."""
        if isinstance(self.given[name], str):
            return (self.text(name),)
        return tuple(
            self._typed(name, text, str, "a list of texts") for text in self.typed(name, list, "a list of texts")
        )

    def numbers(self, name: str) -> frozenset[int]:
        """A list of whole numbers."""
        return frozenset(
            self._typed(name, number, int, "a list of numbers") for number in self.typed(name, list, "a list")
        )

    def choice(self, name: str, choices: Collection[str]) -> str:
        """One of a few words."""
        value = self.given[name]
        if value in choices:
            return str(value)
        raise self._bad(name, value, " or ".join(f'"{each}"' for each in choices))

    def section(self, name: str) -> Section:
        """A table in it; empty where it is not given."""
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
