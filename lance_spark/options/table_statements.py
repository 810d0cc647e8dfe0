"""Statements of SQL that look after a table, in the words of Delta's and Iceberg's users. From text to values.

Spark's own parser knows none of them. Whether a table is ours is not known here, so this goes in two steps: ``opened``
finds which table a statement is about, and leaves everything else to Spark; ``parse`` reads the rest and is strict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from lance_spark.errors import InvalidOption
from lance_spark.options.sql_words import Args, Token, Words, tokens, without_comments

Verb = Literal["DESCRIBE HISTORY", "OPTIMIZE", "VACUUM", "RESTORE", "ALTER TABLE"]
_FIRST = re.compile(r"(DESC|DESCRIBE|OPTIMIZE|VACUUM|RESTORE|ALTER)\b", re.IGNORECASE)
_FORMS: Mapping[Verb, str] = {
    "DESCRIBE HISTORY": "DESCRIBE HISTORY table [LIMIT n]",
    "OPTIMIZE": "OPTIMIZE table [WHERE condition] [ZORDER BY (column, ...)]",
    "VACUUM": "VACUUM table [RETAIN n HOURS] [DRY RUN]",
    "RESTORE": "RESTORE TABLE table TO VERSION AS OF n, or TO TIMESTAMP AS OF '2026-01-31 12:00:00'",
    "ALTER TABLE": "ALTER TABLE table CREATE [OR REPLACE] BRANCH or TAG [IF NOT EXISTS] name [AS OF VERSION n] "
    "[RETAIN n DAYS], or DROP BRANCH or TAG [IF EXISTS] name; a branch may end WITH SNAPSHOT RETENTION n SNAPSHOTS",
}

_ALTERS = [
    (*what, kind)
    for what in (("CREATE",), ("CREATE", "OR", "REPLACE"), ("REPLACE",), ("DROP",))
    for kind in ("BRANCH", "TAG")
]


@dataclass(frozen=True)
class Opening:
    """A statement of which only the table is known."""

    verb: Verb
    table: tuple[str, ...]
    """The parts of its name; a path alone, where ``is_path``."""
    text: str
    rest: tuple[Token, ...]
    """What is behind the table's name."""
    is_path: bool = False
    used: int = 0
    """How many parameters by position are in front of the rest."""


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
    """How many parameters by position are in front of the condition."""
    zorder: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vacuum:
    """``VACUUM``."""

    older_than: timedelta | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Restore:
    """``RESTORE``, to one of both."""

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
    """``IF EXISTS`` of a drop, ``IF NOT EXISTS`` of a create: nothing is done where there is nothing to do."""
    version: str | None = None
    expire_after: timedelta | None = None
    retain_versions: int | None = None


Statement: TypeAlias = DescribeHistory | Optimize | Vacuum | Restore | AlterRef


def opened(text: str, args: Args = None) -> Opening | None:
    """The table that such a statement is about; None for every other statement."""
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
    """The whole statement. Raises InvalidOption, with the statement's form, for what cannot be read."""
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
    zorder: list[str] = []
    if words.take("WHERE"):
        where, used = words.source(lambda: words.come("ZORDER", "BY"))
    if words.take("ZORDER", "BY"):
        bracket = words.sign("(")
        while not zorder or words.sign(","):
            column = words.table()
            if column is None:
                raise words.bad()
            zorder.append(".".join(column[0]))
        if bracket and not words.sign(")"):
            raise words.bad()
    return Optimize(where, used, tuple(zorder))


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


def _alter(words: Words) -> AlterRef:
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


_READERS: Mapping[Verb, Callable[[Words], Statement]] = {
    "DESCRIBE HISTORY": _history,
    "OPTIMIZE": _optimize,
    "VACUUM": _vacuum,
    "RESTORE": _restore,
    "ALTER TABLE": _alter,
}
