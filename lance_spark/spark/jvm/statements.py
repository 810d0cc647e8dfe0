"""Statements that change rows, as far as their text tells. No JVM in it."""

from __future__ import annotations

import re

from lance_spark.options.sql_words import without_comments

_VERBS = ("UPDATE", "DELETE", "MERGE")
_ANY_VERB = re.compile(rf"\b({'|'.join(_VERBS)})\b", re.IGNORECASE)
_FORMAT = re.compile(r"\bTABLE\b.*\bUSING\b", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")


def may_change_rows(text: str) -> bool:
    """Whether this may be an UPDATE, a DELETE or a MERGE. Only then is it parsed here, before Spark does it."""
    rest = without_comments(text)
    first = _WORD.match(rest)
    if first is None:
        return False
    word = first[0].upper()
    return word in _VERBS or (word == "WITH" and _ANY_VERB.search(rest) is not None)


def may_make_tables(text: str) -> bool:
    """Whether this may be a CREATE or REPLACE TABLE with a format. Only then is it parsed here."""
    rest = without_comments(text)
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
