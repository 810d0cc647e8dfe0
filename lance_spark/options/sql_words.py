"""The words of a statement in SQL, as Spark tells them apart: names, texts, numbers, parameters. Comments are none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lance_spark.errors import InvalidOption
from lance_spark.options.text import path_segments

Args = Mapping[str, Any] | Sequence[Any] | None
"""Values of parameters: by name, or by position."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*(?:\n|$))
      | (?P<comment>/\*)
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<parameter>:[A-Za-z_]\w*|\?)
      | (?P<number>\d+(?:\.\d+)?(?!\w))
      | (?P<word>\w+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENTS = re.compile(r"/\*|\*/")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}
_UNITS = {"MINUTE": "minutes", "HOUR": "hours", "DAY": "days"}


@dataclass(frozen=True)
class Token:
    """A piece of a statement, without comments and spaces."""

    kind: str
    """``word``, ``name`` (in backticks), ``text``, ``number``, ``parameter`` or ``sign``."""
    value: str
    """What it stands for, without quotes."""
    start: int
    end: int


class Words:
    """The tokens of a statement, taken from the front."""

    def __init__(
        self, text: str, tokens: Sequence[Token], args: Args = None, used: int = 0, form: tuple[str, str] = ("", "")
    ) -> None:
        """``used`` parameters by position are in front; ``form`` is the statement's name and how it is written."""
        self.text, self.left, self.used = text, [*tokens], used
        self._args, self._form = args, form
        while self.left and self._is_sign(self.left[-1], ";"):
            self.left.pop()

    def take(self, *words: str) -> bool:
        """Take these words if they come next."""
        if not self.come(*words):
            return False
        del self.left[: len(words)]
        return True

    def need(self, *words: str) -> None:
        """Take these words. Raises InvalidOption."""
        if not self.take(*words):
            raise self.bad()

    def sign(self, sign: str) -> bool:
        """Take a sign if it comes next."""
        if not self.left or not self._is_sign(self.left[0], sign):
            return False
        self.left.pop(0)
        return True

    def end(self) -> None:
        """Raises InvalidOption if something is left."""
        if self.left:
            raise self.bad()

    def table(self) -> tuple[tuple[str, ...], bool] | None:
        """The parts of a table's name, and whether it is a path in quotes; None for what is neither."""
        if len(self.left) > 3 and self.left[0].value.upper() == "IDENTIFIER" and self._is_sign(self.left[1], "("):
            del self.left[:2]
            name = self.value()
            return (path_segments(str(name)), False) if name is not None and self.sign(")") else None
        if self.left and self.left[0].kind == "text":
            return (self.left.pop(0).value,), True
        parts = []
        while self.left and self.left[0].kind in ("word", "name"):
            parts.append(self.left.pop(0).value)
            if not self.sign("."):
                return tuple(parts), False
        return None

    def come(self, *words: str) -> bool:
        """Whether these words come next."""
        return [each.value.upper() for each in self.left[: len(words)] if each.kind == "word"] == [*words]

    def value(self) -> Any:
        """A number, a text or the value of a parameter; None for none of them. Raises InvalidOption."""
        if not self.left or self.left[0].kind not in ("number", "text", "parameter"):
            return None
        token = self.left.pop(0)
        return self._parameter(token.value) if token.kind == "parameter" else token.value

    def needed_value(self) -> str:
        """That, as text. Raises InvalidOption where there is none."""
        found = self.value()
        if found is None:
            raise self.bad()
        return str(found)

    def whole(self) -> int:
        """A whole number. Raises InvalidOption."""
        text = self.needed_value()
        if not (text.isascii() and text.isdigit()):
            raise InvalidOption(f"'{text}' is no whole number.", hint=self._hint())
        return int(text)

    def span(self) -> timedelta:
        """A number and a unit. Raises InvalidOption."""
        text = self.needed_value()
        unit = self.left.pop(0).value.upper().removesuffix("S") if self.left else ""
        try:
            return timedelta(**{_UNITS[unit]: float(text)})
        except (KeyError, ValueError, OverflowError):
            raise InvalidOption(f"'{text} {unit}' is no span of time.", hint=self._hint()) from None

    def ref_name(self) -> str:
        """The name of a branch or a tag, with or without quotes; ``exp/a`` needs none. Raises InvalidOption."""
        if self.left and self.left[0].kind in ("name", "text", "parameter"):
            return str(self.left.pop(0).value) if self.left[0].kind == "name" else self.needed_value()
        taken: list[Token] = []
        while self.left and (not taken or self.left[0].start == taken[-1].end):
            if self.left[0].kind not in ("word", "number") and self.left[0].value not in ("/", "-", "."):
                break
            taken.append(self.left.pop(0))
        if not taken:
            raise self.bad()
        return self.text[taken[0].start : taken[-1].end]

    def source(self, stops: Callable[[], bool]) -> tuple[str, int]:
        """The text up to where ``stops`` says so, and how many parameters by position were in front of it."""
        if not self.left or stops():
            raise self.bad()
        before, start, end = self.used, self.left[0].start, self.left[0].end
        while self.left and not stops():
            token = self.left.pop(0)
            end = token.end
            self.used += token.value == "?" and token.kind == "parameter"
        return self.text[start:end], before

    def bad(self) -> InvalidOption:
        """What to raise where something else was expected."""
        where = f"at '{self.text[self.left[0].start : self.left[0].end]}'" if self.left else "at its end"
        return InvalidOption(f"The statement {self._form[0]} cannot be read {where}.", hint=self._hint())

    def _hint(self) -> str:
        return f"Its form is: {self._form[1]}."

    def _parameter(self, name: str) -> Any:
        args = self._args
        if name == "?":
            self.used += 1
            if isinstance(args, Sequence) and self.used <= len(args):
                return self._plain(name, args[self.used - 1])
        elif isinstance(args, Mapping) and name[1:] in args:
            return self._plain(name, args[name[1:]])
        raise InvalidOption(f"Parameter {name} of the statement has no value.", hint="Give it in args=.")

    @staticmethod
    def _plain(name: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidOption(f"Parameter {name} of the statement is {value!r}.", hint="Give a number or a text.")
        return value

    @staticmethod
    def _is_sign(token: Token, sign: str) -> bool:
        return token.kind == "sign" and token.value == sign


def without_comments(text: str) -> str:
    """The text from its first word on. Comments in brackets may hold others."""
    rest = text.lstrip()
    while True:
        if rest.startswith("--"):
            rest = rest.partition("\n")[2].lstrip()
        elif rest.startswith("/*"):
            rest = rest[_end_of_comment(rest) :].lstrip()
        else:
            return rest


def tokens(text: str) -> list[Token]:
    """The words of a statement."""
    found: list[Token] = []
    at = 0
    while match := _TOKEN.match(text, at):
        kind = str(match.lastgroup)
        at = _end_of_comment(text, at) if kind == "comment" else match.end()
        if kind not in ("space", "comment"):
            said = _unquoted(kind, match[0])
            found.append(Token("text" if kind == "raw" else kind, said, match.start(), match.end()))
    return found


def _end_of_comment(text: str, at: int = 0) -> int:
    depth = 0
    for mark in _COMMENTS.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _unquoted(kind: str, said: str) -> str:
    if kind == "name":
        return said[1:-1].replace("``", "`")
    if kind == "raw":
        return said[2:-1]
    if kind == "text":
        inner = said[1:-1].replace(said[0] * 2, said[0])
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), inner, flags=re.DOTALL)
    return said
