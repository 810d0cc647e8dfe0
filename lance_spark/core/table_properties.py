"""Properties of a table that decide what writers do. They stand in the table's metadata, branch by branch. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lance_spark import hints
from lance_spark.core.isolation import ISOLATION, isolation_level
from lance_spark.errors import InvalidOption

AUTO_COMPACT = "auto_compact"
_AUTO_COMPACT = (AUTO_COMPACT, "delta.autoOptimize.autoCompact")
"""Spellings, the last one Delta's."""
OPTIMIZE_WRITE = ("optimize_write", "delta.autoOptimize.optimizeWrite")
"""Spellings, the last one Delta's."""
LAYOUT = ("lance_spark.partition_by", "lance_spark.cluster_by")
"""Keys of the table's configuration that declare its layout."""
_MANY = 50
"""Small fragments that ``true`` waits for, as in Delta."""


def obeyed(put: Mapping[str, str], unset: Collection[str] = ()) -> dict[str, str | None]:
    """What the metadata has to say after a change of a table's properties; None for what goes.

    Raises InvalidOption for a value that means nothing.
    """
    layout = next((key for key in (*put, *unset) if key in LAYOUT), None)
    if layout is not None:
        raise InvalidOption(
            f"'{layout}' is no property: it is a part of the layout of each branch. Nothing was changed.",
            hint=hints.of("Declare it: ", hints.change_layout(), "; for a new table, PARTITIONED BY or CLUSTER BY."),
        )
    told: dict[str, str | None] = {key: None for key in (ISOLATION, *_AUTO_COMPACT, *OPTIMIZE_WRITE) if key in unset}
    if ISOLATION in put:
        told[ISOLATION] = isolation_level(put[ISOLATION])
    for key in _AUTO_COMPACT:
        if key in put:
            _fragments(key, put[key])
            told[key] = put[key]
    for key in OPTIMIZE_WRITE:
        if key in put:
            if put[key].strip().lower() not in ("true", "false"):
                raise InvalidOption(f"'{key}' is {put[key]!r}, but it must be true or false.")
            told[key] = put[key]
    return told


def optimize_write(metadata: Mapping[str, str]) -> bool:
    """Whether Spark divides the rows of a write evenly, into files of a good size, before tasks write them."""
    found = next((metadata[key] for key in OPTIMIZE_WRITE if key in metadata), "false")
    return found.strip().lower() == "true"


def auto_compact(metadata: Mapping[str, str]) -> int | None:
    """How many small fragments a write may leave before it compacts them; None if it never does.

    A value that another tool wrote and that means nothing is none.
    """
    for key in _AUTO_COMPACT:
        if key in metadata:
            try:
                return _fragments(key, metadata[key])
            except InvalidOption:
                return None
    return None


def _fragments(key: str, value: str) -> int | None:
    word = value.strip().lower()
    if word in ("true", "auto"):
        return _MANY
    if word == "false":
        return None
    if word.isascii() and word.isdigit() and int(word) > 1:
        return int(word)
    raise InvalidOption(
        f"'{key}' is {value!r}, but it must be true, false, or a number of small fragments of at least 2.",
        hint=f"true compacts {_MANY} small fragments.",
    )
