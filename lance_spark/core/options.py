"""Options from text to values.

Every error names the option, the value and the expected form.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from lance_spark.core.irreversible import is_forever
from lance_spark.errors import InvalidOption

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
    """Names given as a list, or one name as text, which would otherwise be split into its letters.

    Raises InvalidOption for one that is no text and no path.
    """
    names: tuple[Any, ...] = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) and not hasattr(name, "__fspath__"):
            raise InvalidOption(f"{name!r:.60} is no name.", hint="A name is a text.")
    return names


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
