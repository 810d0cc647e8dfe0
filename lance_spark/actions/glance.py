"""Looks at a table, its branches, tags and remotes to show them. A few requests for metadata; nothing here raises.

Debuggers print values, too, and so do tracebacks: where the store does not answer, the card says why.
"""

from __future__ import annotations

from collections.abc import Callable

from lance_spark.actions.resolve import resolve
from lance_spark.actions.sync.write_guards import known_remotes
from lance_spark.errors import LanceSparkError
from lance_spark.history.overview import (
    RefNames,
    TableGlance,
    branches_card,
    remotes_card,
    table_card,
    tags_card,
    unknown_card,
)
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import RefSpec
from lance_spark.refs.parse import BRANCHES, TAGS
from lance_spark.show.card import Card
from lance_spark.store import datasets, refs, scanning

_LONGEST_WHY = 120
_MOST_REFS = 200
"""Ref files that are read to find remotes: a dataset may have thousands, and each is a request."""


def look_at_table(what: str, location: DatasetLocation, ref: RefSpec) -> Card:
    """A table at a ref. A moment is not looked up: that reads the manifests of the whole history."""

    def look() -> Card:
        pin = resolve(location, ref)
        names = tuple(scanning.schema_of(location, pin).names)
        return table_card(what, location.uri, ref, TableGlance(pin, datasets.summarise(location, pin), names))

    if ref.as_of is not None:
        return unknown_card(what, location.uri, "the version was not looked up", ref)
    return or_why(look, lambda why: unknown_card(what, location.uri, why, ref))


def look_at_branches(what: str, location: DatasetLocation) -> Card:
    """All names of branches, and some of them in full."""

    def look() -> Card:
        datasets.open_latest(location)
        names = RefNames.of_branches(refs.list_ref_names(location, BRANCHES), refs.list_ref_names(location, TAGS))
        branches = refs.read_branches(location, names.shown).branches
        return branches_card(what, location.uri, names, tuple(branches.values()))

    return or_why(look, lambda why: unknown_card(what, location.uri, why))


def look_at_tags(what: str, location: DatasetLocation) -> Card:
    """All names of tags, and some of them in full."""

    def look() -> Card:
        datasets.open_latest(location)
        names = RefNames.of_tags(refs.list_ref_names(location, TAGS))
        return tags_card(what, location.uri, names, tuple(refs.read_tags(location, names.shown).values()))

    return or_why(look, lambda why: unknown_card(what, location.uri, why))


def look_at_remotes(what: str, location: DatasetLocation) -> Card:
    """The remotes that branches follow."""

    def look() -> Card:
        datasets.open_latest(location)
        # What follows a remote's branch is named after both.
        names = [name for name in refs.list_ref_names(location, BRANCHES) if "/" in name]
        return remotes_card(what, location.uri, known_remotes(refs.read_branches(location, names[:_MOST_REFS])))

    return or_why(look, lambda why: unknown_card(what, location.uri, why))


def or_why(look: Callable[[], Card], otherwise: Callable[[str], Card]) -> Card:
    """What was seen, or a card with what the store said instead."""
    try:
        return look()
    except (LanceSparkError, OSError, RuntimeError, ValueError) as problem:
        why = problem.message if isinstance(problem, LanceSparkError) else str(problem)
        return otherwise(why if len(why) <= _LONGEST_WHY else f"{why[: _LONGEST_WHY - 3]}...")
