"""SQL statements as tokens and values, for statements that Spark's parser does not know. Comments are skipped."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from lance_spark.core.options import path_segments
from lance_spark.errors import InvalidOption, Refused
from lance_spark.layout.layout_rules import IDENTITY, LayoutChange, Transform, transform, whole_column

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
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""The last two stay as they are, for LIKE."""
_VERBS = ("UPDATE", "DELETE", "MERGE")
_ANY_VERB = re.compile(rf"\b({'|'.join(_VERBS)})\b", re.IGNORECASE)
_FORMAT = re.compile(r"\bTABLE\b.*\bUSING\b", re.IGNORECASE | re.DOTALL)
_ANALYZES = re.compile(r"ANALYZE\s+TABLES\s+(?:IN|FROM)\s+(\S+)\s", re.IGNORECASE)
_VIEWS = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?VIEW\b", re.IGNORECASE)
_OF_VIEWS = ("not support", "Unexpected table relation", "Cannot delete from table")
_WORD = re.compile(r"[A-Za-z]+")
_UNITS = {"MINUTE": "minutes", "HOUR": "hours", "DAY": "days"}


@dataclass(frozen=True)
class Token:
    """A piece of a statement, without comments and spaces."""

    kind: str
    """``word``, ``name`` (in backticks), ``text``, ``number``, ``parameter`` or ``sign``."""
    value: str
    """Its value, without quotes."""
    start: int
    end: int


class Words:
    """The tokens of a statement, taken from the front."""

    def __init__(
        self, text: str, tokens: Sequence[Token], args: Args = None, used: int = 0, form: tuple[str, str] = ("", "")
    ) -> None:
        """The first ``used`` positional parameters are already taken; ``form`` is the statement's name and syntax."""
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
        """The parts of a table's name, and whether it is a quoted path; None if it is neither."""
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

    def columns(self) -> tuple[str, ...]:
        """A list of columns, with dots within their names. Raises InvalidOption."""
        found: list[str] = []
        while not found or self.sign(","):
            column = self.table()
            if column is None:
                raise self.bad()
            found.append(".".join(column[0]))
        return tuple(found)

    def transform(self) -> Transform:
        """A column or a function of one, as in PARTITIONED BY. Raises InvalidOption; Refused for a nested field."""
        name = self._whole_column()
        if not self.sign("("):
            return Transform(IDENTITY, name)
        arguments: list[str | int] = []
        while not arguments or self.sign(","):
            is_number = bool(self.left) and self.left[0].kind in ("number", "parameter")
            arguments.append(self.whole() if is_number else self._whole_column())
        if not self.sign(")"):
            raise self.bad()
        return transform(name, arguments)

    def _whole_column(self) -> str:
        found = self.table()
        if found is None or found[1]:
            raise self.bad()
        return whole_column(found[0])

    def value(self) -> Any:
        """A number, a text or the value of a parameter; None for anything else. Raises InvalidOption."""
        if not self.left or self.left[0].kind not in ("number", "text", "parameter"):
            return None
        token = self.left.pop(0)
        return self._parameter(token.value) if token.kind == "parameter" else token.value

    def needed_value(self) -> str:
        """The same as text. Raises InvalidOption if there is none."""
        found = self.value()
        if found is None:
            raise self.bad()
        return str(found)

    def whole(self) -> int:
        """A whole number. Raises InvalidOption."""
        text = self.needed_value()
        if not (text.isascii() and text.isdigit()):
            raise InvalidOption(f"'{text}' is not a whole number.", hint=self._hint())
        return int(text)

    def span(self) -> timedelta:
        """A number and a unit. Raises InvalidOption."""
        text = self.needed_value()
        unit = self.left.pop(0).value.upper().removesuffix("S") if self.left else ""
        try:
            return timedelta(**{_UNITS[unit]: float(text)})
        except (KeyError, ValueError, OverflowError):
            raise InvalidOption(f"'{text} {unit}' is not a span of time.", hint=self._hint()) from None

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
        """The text up to the point where ``stops`` is true, and the number of positional parameters before it."""
        if not self.left or stops():
            raise self.bad()
        before, start, end = self.used, self.left[0].start, self.left[0].end
        while self.left and not stops():
            token = self.left.pop(0)
            end = token.end
            self.used += token.value == "?" and token.kind == "parameter"
        return self.text[start:end], before

    def bad(self) -> InvalidOption:
        """The error for an unexpected token."""
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


def may_change_rows(text: str) -> bool:
    """Whether this might be an UPDATE, a DELETE or a MERGE. Only then is it parsed here, before Spark parses it."""
    rest = without_comments(text)
    first = _WORD.match(rest)
    if first is None:
        return False
    word = first[0].upper()
    return word in _VERBS or (word == "WITH" and _ANY_VERB.search(rest) is not None)


def may_make_tables(text: str) -> bool:
    """Whether this might be a CREATE or REPLACE TABLE with a format. Only then is it parsed here."""
    rest = without_comments(text)
    first = _WORD.match(rest)
    return first is not None and first[0].upper() in ("CREATE", "REPLACE") and _FORMAT.search(rest) is not None


def analyzed_namespace(text: str) -> str | None:
    """The namespace of an ANALYZE TABLES, in SQL; None for every other statement."""
    found = _ANALYZES.match(without_comments(text))
    return None if found is None else found[1]


def view_to_create(text: str) -> tuple[str, ...] | None:
    """The parts of the name of a CREATE VIEW that is no temporary one; None for every other statement."""
    rest = without_comments(text)
    if _VIEWS.match(rest) is None:
        return None
    words = Words(rest, tokens(rest))
    words.need("CREATE")
    words.take("OR", "REPLACE")
    words.need("VIEW")
    words.take("IF", "NOT", "EXISTS")
    try:
        found = words.table()
    except InvalidOption:  # a parameter that names it: Spark's own error is clear enough
        return None
    return None if found is None else found[0]


def may_be_refused(text: str) -> bool:
    """Whether a statement has to be checked before Spark gets it."""
    return may_make_tables(text) or analyzed_namespace(text) is not None or view_to_create(text) is not None


def refused_view(view: str, problem: object) -> Refused | None:
    """In place of Spark's error for a change of rows of a view; None for another error.

    Spark claims that the table cannot do it, or that Spark has a bug.
    """
    if not any(words in str(problem) for words in _OF_VIEWS):
        return None
    return Refused(
        f"Cannot change rows of {view}: it is a view. Nothing was changed.", hint="Name the table that the view reads."
    )


def without_comments(text: str) -> str:
    """The text from its first word on. Bracketed comments can be nested."""
    rest = text.lstrip()
    while True:
        if rest.startswith("--"):
            rest = rest.partition("\n")[2].lstrip()
        elif rest.startswith("/*"):
            rest = rest[_end_of_comment(rest) :].lstrip()
        else:
            return rest


def tokens(text: str) -> list[Token]:
    """The tokens of a statement."""
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
        return _ESCAPE.sub(_escaped, inner)
    return said


def _escaped(found: re.Match[str]) -> str:
    """What Spark reads for an escape."""
    code = int(found[1] or found[2] or "0", 16) or int(found[3] or "0", 8)
    if found[4] is None and code <= sys.maxunicode:
        return chr(code)
    return _ESCAPES.get(found[4], found[4]) if found[4] else found[0][1:]


# --- Maintenance statements in Delta's and Iceberg's syntax
# From text to values.
#
# Spark's own parser knows none of them. Whether a table belongs to this package is unknown here, so there are two
# steps: ``opened`` finds the table of a statement, and leaves everything else to Spark; ``parse`` strictly reads the
# rest.

Verb = Literal["DESCRIBE HISTORY", "OPTIMIZE", "VACUUM", "RESTORE", "ALTER TABLE", "ANALYZE TABLE"]
_FIRST = re.compile(r"(DESC|DESCRIBE|OPTIMIZE|VACUUM|RESTORE|ALTER|ANALYZE)\b", re.IGNORECASE)
_FORMS: Mapping[Verb, str] = {
    "DESCRIBE HISTORY": "DESCRIBE HISTORY table [LIMIT n]",
    "OPTIMIZE": "OPTIMIZE table [WHERE condition] [ZORDER BY (column, ...)]",
    "VACUUM": "VACUUM table [RETAIN n HOURS] [DRY RUN]",
    "RESTORE": "RESTORE TABLE table TO VERSION AS OF n, or TO TIMESTAMP AS OF '2026-01-31 12:00:00'",
    "ALTER TABLE": "ALTER TABLE table CREATE [OR REPLACE] BRANCH or TAG [IF NOT EXISTS] name [AS OF VERSION n] "
    "[RETAIN n DAYS], or DROP BRANCH or TAG [IF EXISTS] name; a branch may end WITH SNAPSHOT RETENTION n SNAPSHOTS; "
    "PARTITIONED BY (days(ts), bucket(8, id)), or NONE; ADD or DROP PARTITION FIELD bucket(8, id), "
    "REPLACE PARTITION FIELD days(ts) WITH hours(ts); WRITE ORDERED BY column, ..., or WRITE UNORDERED",
    "ANALYZE TABLE": "ANALYZE TABLE table COMPUTE STATISTICS [NOSCAN, or FOR COLUMNS column, ..., or FOR ALL COLUMNS]",
}
_SORTS = "ALTER TABLE t CLUSTER BY (a, b)"

_ALTERS = [
    (*what, kind)
    for what in (("CREATE",), ("CREATE", "OR", "REPLACE"), ("REPLACE",), ("DROP",))
    for kind in ("BRANCH", "TAG")
] + [("PARTITIONED", "BY"), *((what, "PARTITION", "FIELD") for what in ("ADD", "DROP", "REPLACE")), ("WRITE",)]


@dataclass(frozen=True)
class Opening:
    """A statement with only its table parsed."""

    verb: Verb
    table: tuple[str, ...]
    """The parts of its name; a single path if ``is_path``."""
    text: str
    rest: tuple[Token, ...]
    """The text after the table's name."""
    is_path: bool = False
    used: int = 0
    """Number of positional parameters before the rest."""


@dataclass(frozen=True)
class DescribeHistory:
    """``DESCRIBE HISTORY``."""

    limit: int | None = None


@dataclass(frozen=True)
class Optimize:
    """``OPTIMIZE``."""

    where: str | None = None
    """The condition, in Spark's SQL."""
    used: int = 0
    """Number of positional parameters before the condition."""
    zorder: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vacuum:
    """``VACUUM``."""

    older_than: timedelta | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Restore:
    """``RESTORE``, to one of the two."""

    version: str | None = None
    """A number, or any other ref, as text."""
    moment: str | None = None
    """An expression in Spark's SQL."""
    used: int = 0


@dataclass(frozen=True)
class AlterRef:
    """``ALTER TABLE ... CREATE``, ``REPLACE`` or ``DROP``, of a branch or a tag."""

    what: Literal["CREATE", "CREATE OR REPLACE", "REPLACE", "DROP"]
    tag: bool
    name: str
    if_exists: bool = False
    """``IF EXISTS`` of a drop, ``IF NOT EXISTS`` of a create: do nothing if there is nothing to do."""
    version: str | None = None
    expire_after: timedelta | None = None
    retain_versions: int | None = None


@dataclass(frozen=True)
class Analyze:
    """``ANALYZE TABLE``."""

    columns: tuple[str, ...] | None = ()
    """The columns to measure; None for all."""


Statement: TypeAlias = DescribeHistory | Optimize | Vacuum | Restore | AlterRef | LayoutChange | Analyze


def opened(text: str, args: Args = None) -> Opening | None:
    """The table of such a statement; None for every other statement."""
    text = without_comments(text)
    if _FIRST.match(text) is None:
        return None
    words = Words(text, tokens(text), args)
    verb = _verb(words)
    if verb is None:
        return None
    try:
        table = words.table()
    except InvalidOption:  # a name that is a parameter without a value
        return None
    if table is None or (verb == "ALTER TABLE" and not any(words.come(*each) for each in _ALTERS)):
        return None
    parts, is_path = table
    return Opening(verb, parts, text, tuple(words.left), is_path, words.used)


def parse(opening: Opening, args: Args = None) -> Statement:
    """The whole statement. Raises InvalidOption, with the statement's form, for a syntax error."""
    words = Words(opening.text, opening.rest, args, opening.used, (opening.verb, _FORMS[opening.verb]))
    read: Callable[[Words], Statement] = _READERS[opening.verb]
    found = read(words)
    words.end()
    return found


def _verb(words: Words) -> Verb | None:
    if words.take("DESC", "HISTORY") or words.take("DESCRIBE", "HISTORY"):
        return "DESCRIBE HISTORY"
    if words.take("ALTER", "TABLE"):
        return "ALTER TABLE"
    if words.take("ANALYZE", "TABLE"):
        return "ANALYZE TABLE"
    if words.take("OPTIMIZE"):
        return "OPTIMIZE"
    if words.take("VACUUM"):
        return "VACUUM"
    if words.take("RESTORE", "TABLE") or words.take("RESTORE"):
        return "RESTORE"
    return None


def _history(words: Words) -> DescribeHistory:
    return DescribeHistory(words.whole() if words.take("LIMIT") else None)


def _optimize(words: Words) -> Optimize:
    where, used = None, 0
    zorder: tuple[str, ...] = ()
    if words.take("WHERE"):
        where, used = words.source(lambda: words.come("ZORDER", "BY"))
    if words.take("ZORDER", "BY"):
        bracket = words.sign("(")
        zorder = words.columns()
        if bracket and not words.sign(")"):
            raise words.bad()
    return Optimize(where, used, zorder)


def _vacuum(words: Words) -> Vacuum:
    older_than, dry_run = None, False
    while words.left:
        if words.take("RETAIN"):
            older_than = words.span()
        elif words.take("DRY", "RUN"):
            dry_run = True
        elif not words.take("FULL"):
            raise words.bad()
    return Vacuum(older_than, dry_run)


def _restore(words: Words) -> Restore:
    words.take("TO")
    words.take("FOR")
    if words.take("VERSION", "AS", "OF") or words.take("SYSTEM_VERSION", "AS", "OF"):
        return Restore(version=words.needed_value())
    if not (words.take("TIMESTAMP", "AS", "OF") or words.take("SYSTEM_TIME", "AS", "OF")):
        raise words.bad()
    moment, used = words.source(lambda: False)
    return Restore(moment=moment, used=used)


def _alter(words: Words) -> AlterRef | LayoutChange:
    if words.take("PARTITIONED", "BY"):
        return LayoutChange("PARTITIONED BY", () if words.take("NONE") else _in_brackets(words))
    for action in ("ADD", "DROP", "REPLACE"):
        if words.take(action, "PARTITION", "FIELD"):
            return _alter_field(words, action)
    return _alter_order(words) if words.take("WRITE") else _alter_ref(words)


def _in_brackets(words: Words) -> tuple[Transform, ...]:
    fields: list[Transform] = []
    if words.sign("("):
        while not fields or words.sign(","):
            fields.append(words.transform())
    if not fields or not words.sign(")"):
        raise words.bad()
    return tuple(fields)


def _alter_field(words: Words, action: Literal["ADD", "DROP", "REPLACE"]) -> LayoutChange:
    fields = [words.transform()]
    if action == "REPLACE":
        words.need("WITH")
        fields.append(words.transform())
    if action != "DROP" and words.take("AS"):
        raise Refused(
            f"Partition field {fields[-1]} cannot have another name. Nothing was changed.",
            hint="Leave AS out: DROP and REPLACE PARTITION FIELD name a field as it is written here.",
        )
    return LayoutChange(action, tuple(fields))


def _alter_order(words: Words) -> LayoutChange:
    if words.take("UNORDERED"):
        return LayoutChange("CLUSTER BY")
    if words.come("DISTRIBUTED") or words.come("LOCALLY"):
        raise Refused(
            f"WRITE {words.left[0].value.upper()} cannot be declared by itself: rows of a table with partitions go to "
            "them anyway, and others are sorted across the whole write. Nothing was changed.",
            hint=f"{_SORTS} sorts the rows within each file.",
        )
    words.need("ORDERED", "BY")
    fields: list[Transform] = []
    while not fields or words.sign(","):
        fields.append(words.transform())
        words.take("ASC")
        if fields[-1].name != IDENTITY or words.come("DESC") or words.come("NULLS", "FIRST"):
            raise Refused(
                "Rows are sorted by columns, each ascending, with its nulls at the end, and in no other order. Nothing "
                "was changed.",
                hint=f"{_SORTS}; OPTIMIZE t ZORDER BY (a, b) sorts existing rows along a curve.",
            )
        words.take("NULLS", "LAST")
    return LayoutChange("CLUSTER BY", tuple(fields))


def _alter_ref(words: Words) -> AlterRef:
    what: Literal["CREATE", "CREATE OR REPLACE", "REPLACE", "DROP"] = "CREATE"
    if words.take("DROP"):
        what = "DROP"
    elif words.take("REPLACE"):
        what = "REPLACE"
    else:
        words.need("CREATE")
        what = "CREATE OR REPLACE" if words.take("OR", "REPLACE") else "CREATE"
    tag = words.take("TAG")
    if not tag:
        words.need("BRANCH")
    if what == "DROP":
        return AlterRef(what, tag, if_exists=words.take("IF", "EXISTS"), name=words.ref_name())
    if_exists = what == "CREATE" and words.take("IF", "NOT", "EXISTS")
    name = words.ref_name()
    version = words.needed_value() if words.take("AS", "OF", "VERSION") else None
    expire_after = words.span() if words.take("RETAIN") else None
    retain_versions = None
    if not tag and words.take("WITH", "SNAPSHOT", "RETENTION"):
        retain_versions = words.whole()
        words.need("SNAPSHOTS")
    return AlterRef(what, tag, name, if_exists, version, expire_after, retain_versions)


def _analyze(words: Words) -> Analyze:
    words.need("COMPUTE", "STATISTICS")
    if words.take("FOR", "ALL", "COLUMNS"):
        return Analyze(None)
    if not words.take("FOR", "COLUMNS"):
        words.take("NOSCAN")
        return Analyze()
    return Analyze(words.columns())


_READERS: Mapping[Verb, Callable[[Words], Statement]] = {
    "DESCRIBE HISTORY": _history,
    "OPTIMIZE": _optimize,
    "VACUUM": _vacuum,
    "RESTORE": _restore,
    "ALTER TABLE": _alter,
    "ANALYZE TABLE": _analyze,
}


# --- Session settings for row-changing statements: UPDATE, DELETE and MERGE have no option syntax

COMMIT_MESSAGE, RETRIES = "spark.lance.commit.message", "spark.lance.retries"
SETTINGS = (COMMIT_MESSAGE, RETRIES)
"""Settings of a session, for ``SET`` and ``spark.conf``."""


@dataclass(frozen=True)
class StatementOptions:
    """How to commit statements."""

    message: str | None = None
    retries: int = 0
    """How often to recompute a change after a conflict."""


def parse_statement_options(given: Mapping[str, str | None]) -> StatementOptions:
    """The options from settings by name, None for unset ones. Raises InvalidOption."""
    retries = (given.get(RETRIES) or "0").strip()
    if not (retries.isascii() and retries.isdigit()):
        raise InvalidOption(f"{RETRIES} is {retries!r}, which is not a whole number.", hint=f"SET {RETRIES} = 3")
    return StatementOptions((given.get(COMMIT_MESSAGE) or "").strip() or None, int(retries))
