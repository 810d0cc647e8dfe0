"""Values of policy files, with errors that name the key. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lance_spark.core.options import check_known
from lance_spark.errors import InvalidOption

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
