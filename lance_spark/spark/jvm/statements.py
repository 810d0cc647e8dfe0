"""Statements that change rows, as far as their text tells. No JVM in it."""

from __future__ import annotations

import re

_COMMENTS = re.compile(r"/\*|\*/")
_VERBS = ("UPDATE", "DELETE", "MERGE")
_ANY_VERB = re.compile(rf"\b({'|'.join(_VERBS)})\b", re.IGNORECASE)
_FORMAT = re.compile(r"\bTABLE\b.*\bUSING\b", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")


def may_change_rows(text: str) -> bool:
    """Whether this may be an UPDATE, a DELETE or a MERGE. Only then is it parsed here, before Spark does it."""
    rest = _without_comments(text)
    first = _WORD.match(rest)
    if first is None:
        return False
    word = first[0].upper()
    return word in _VERBS or (word == "WITH" and _ANY_VERB.search(rest) is not None)


def may_make_tables(text: str) -> bool:
    """Whether this may be a CREATE or REPLACE TABLE with a format. Only then is it parsed here."""
    rest = _without_comments(text)
    first = _WORD.match(rest)
    return first is not None and first[0].upper() in ("CREATE", "REPLACE") and _FORMAT.search(rest) is not None


def with_all_rows(merge: str) -> str | None:
    """A MERGE that only inserts, so that Spark plans it as any other one; it does the same.

    None where it has an end that nothing can be put behind.
    """
    text = merge.strip()
    if ";" in text[:-1]:
        return None  # a comment may follow
    return text.rstrip(";") + "\nWHEN NOT MATCHED BY SOURCE AND false THEN DELETE"


def _without_comments(text: str) -> str:
    """The text from its first word on. Comments in brackets may hold others."""
    rest = text.lstrip()
    while True:
        if rest.startswith("--"):
            rest = rest.partition("\n")[2].lstrip()
        elif rest.startswith("/*"):
            rest = rest[_end_of_comment(rest) :].lstrip()
        else:
            return rest


def _end_of_comment(text: str) -> int:
    depth = 0
    for mark in _COMMENTS.finditer(text):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)
