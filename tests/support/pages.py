"""Pages of the documentation: their examples, and whether what came out of a shell is what a page says.

Every block of a page that is marked as ``python`` or ``bash`` is an example, unless the line above says
``<!-- not typed: why -->``. What it claims stands in two places:

- In a comment behind a statement: what it prints, if it is a ``print`` or the comment begins as a value does (a digit,
  a quote, a bracket, True, False, None, ``Row(``). All other comments are remarks. ``...`` at the end is anything.
- In a block without a language: the last lines that the example before it printed, or the error that it ended with. A
  line ``...`` stands for any lines.

No statement may fail that the page does not show to fail; a command that does says ``exit code 22`` in its comment.

Sizes, times and ids may differ, as may the width of columns. A page is typed in the directory ``/home/me``.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]

_FENCE = re.compile(r"^```(\w*)$")
_MARK = re.compile(r"^<!-- (.*) -->$")
_VALUE = re.compile(r"""-?\d|['"\[({]|(True|False|None)\b|[A-Z]\w+\(""")
_ERROR = re.compile(r'^(Traceback \(most recent call last\)|  File "<stdin>"|\[exit code \d+\])', re.MULTILINE)
_ANY_LINES = r"(?:.*\n)*?"
_DIFFERS = [
    (re.compile(r"\b\d{8}T\d{6}(\.\d+)?-[0-9a-f]{6,}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|[+-]\d\d:\d\d)?"), "MOMENT"),
    (re.compile(r"\bjust now\b|\b\d+ (second|minute|hour|day)s? ago\b"), "MOMENT"),
    (re.compile(r"\b[\d,.]+ (ms|s|min)\b"), "SPAN"),
    (re.compile(r"\b[\d,.]+ ([KMG]i)?B\b"), "SIZE"),
]


@dataclass(frozen=True)
class Example:
    """A block of a page that is typed, and what the page shows of its output."""

    language: str
    mark: str
    lines: tuple[str, ...]
    first_line: int
    shown: tuple[str, ...] | None = None

    @property
    def shell(self) -> str:
        """The kind of shell that it belongs to."""
        return "python" if self.mark == "without spark" else {"python": "pyspark"}.get(self.language, self.language)


@dataclass(frozen=True)
class Block:
    """Any block of a page, with the line above it."""

    language: str
    mark: str
    lines: tuple[str, ...]
    first_line: int


def blocks(text: str) -> Iterator[Block]:
    """The blocks between fences, in their order."""
    lines = text.splitlines()
    begin: int | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if begin is None:
            begin = number
            continue
        mark = _MARK.match(lines[begin - 1]) if begin else None
        opened = _FENCE.match(lines[begin])
        assert opened is not None
        yield Block(opened[1], mark[1] if mark else "", tuple(lines[begin + 1 : number]), begin + 2)
        begin = None


def examples(path: Path) -> list[Example]:
    """What is typed of a page."""
    found: list[Example] = []
    for block in blocks(path.read_text()):
        if block.mark.startswith("not typed: "):
            continue
        if block.language in ("python", "bash"):
            found.append(Example(block.language, block.mark, block.lines, block.first_line))
        elif not block.language and not block.mark:
            assert found, f"{path.name}:{block.first_line} shows the output of no example"
            assert found[-1].shown is None, f"{path.name}:{block.first_line} is the second output of one example"
            found[-1] = replace(found[-1], shown=block.lines)
    return found


def faults(example: Example, said: Sequence[str]) -> list[str]:
    """What differs between an example and what came out after each of its lines."""
    whole = "".join(said)
    found = [f"line {line}: it ends with\n{output}" for line, output in _errors(example, said)]
    if example.shown is not None and not (ends_as_shown(example.shown, whole) or fails_as_shown(example.shown, whole)):
        shown = "\n".join(example.shown)
        found.append(f"line {example.first_line}: it shows\n{shown}\nand there came\n{whole}")
    for line, claim, output in claims(example, said):
        if not matches(claim, output):
            found.append(f"line {line}: it says {claim}, and there came {output.strip() or 'nothing'}")
    return found


def _errors(example: Example, said: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines that ended with an error that the page does not tell of: by an exit code in the comment, or below."""
    last = max((end for end, *_ in _statements(example)), default=0)
    for number, output in enumerate(said, 1):
        error = _ERROR.search(output)
        if error is None:
            continue
        typed = example.lines[number - 1] if number <= len(example.lines) else ""
        shown = number >= last and example.shown is not None and fails_as_shown(example.shown, output)
        if not (shown or error[0].strip("[]") in typed.partition(" # ")[2]):
            yield example.first_line + number - 1, output


def claims(example: Example, said: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """The line of each statement with a claim, the claim, and what came out."""
    for last, following, comment, prints in _statements(example):
        if comment and (prints or _VALUE.match(comment)):
            yield example.first_line + last - 1, comment, "".join(said[last - 1 : following - 1])


def _statements(example: Example) -> Iterator[tuple[int, int, str, bool]]:
    """The last line of each statement, that of the next one, its comment, and whether it is a ``print``."""
    if example.language == "bash":
        for number, line in enumerate(example.lines, 1):
            comment = re.search(r"\S +# (.*)$", line)
            yield number, number + 1, comment[1] if comment else "", False
        return
    text = "\n".join(example.lines) + "\n"
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0]: token.string[1:].strip() for token in tokens if token.type == tokenize.COMMENT}
    nodes = ast.parse(text).body
    ends = [node.end_lineno or node.lineno for node in nodes] + [len(example.lines) + 2]
    for node, (last, following) in zip(nodes, pairwise(ends), strict=True):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.For | ast.With | ast.If | ast.Try | ast.While):
            yield last, following, comments.get(last, ""), _is_print(node)


def _is_print(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"


def matches(claim: str, output: str) -> bool:
    """Whether an output, all of it, is what a comment says."""
    wanted, found = alike(claim), alike(output.strip())
    return found.startswith(wanted.removesuffix("...")) if wanted.endswith("...") else found == wanted


def fails_as_shown(shown: Sequence[str], output: str) -> bool:
    """Whether a Python statement ended with the error that is shown, in lines of any length."""
    pieces = [re.escape(piece.strip()) for piece in alike(" ".join(shown)).split("...")]
    return "Traceback" in output and re.search(".*".join(pieces), alike(output)) is not None


def ends_as_shown(shown: Sequence[str], output: str) -> bool:
    """Whether the last lines of an output are those that are shown, except for what ``...`` stands for."""
    kept = [line for line in output.splitlines() if line.strip() and not line.startswith("[exit code ")]
    found = "".join(f"{alike(line)}\n" for line in kept)
    lines = [alike(line) for line in shown if line.strip()]
    pattern = "".join(_ANY_LINES if line == "..." else f"{_any_end(line)}\n" for line in lines)
    return re.search(rf"(?:\A|(?<=\n)){pattern}\Z", found) is not None


def _any_end(line: str) -> str:
    return f"{re.escape(line.removesuffix('...'))}.*" if line.endswith("...") else re.escape(line)


def alike(text: str) -> str:
    """A text without what may differ from one run to the next."""
    for pattern, name in _DIFFERS:
        text = pattern.sub(name, text)
    return " ".join(text.split())
