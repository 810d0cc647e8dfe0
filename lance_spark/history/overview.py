"""A table, its branches, tags and remotes at a glance, as cards. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lance_spark.refs.listing import SHOWN, branch_grid, more, tag_grid
from lance_spark.refs.model import Branch, PinnedVersion, RefSpec, Tag, VersionInfo
from lance_spark.refs.names import MAIN, is_plan, is_service_tag
from lance_spark.show.card import Card, Grid
from lance_spark.show.words import counted, few, moment, readable

_COLUMNS = 6
"""How many names of columns are shown."""


@dataclass(frozen=True)
class TableGlance:
    """A version of a table as its manifest has it."""

    pin: PinnedVersion
    info: VersionInfo
    columns: tuple[str, ...]

    def number(self, name: str) -> int | None:
        """A number of pylance's summary; None where it has none."""
        text = self.info.metadata.get(name, "")
        return int(text) if text.isdecimal() else None


def unknown_card(what: str, uri: str, why: str, ref: RefSpec | None = None) -> Card:
    """What is known without the store; ``why`` is what it said."""
    where = "" if ref is None else _asked(ref)
    summary = "; ".join(part for part in (f"at {where}" if where else "", why) if part)
    return Card(what, uri, summary, (("at", where), ("unknown", why)))


def table_card(what: str, uri: str, ref: RefSpec, seen: TableGlance) -> Card:
    """A table at a ref."""
    follows = "" if _stands_still(ref) else ", the newest version"
    rows, size = seen.number("total_rows"), _size(seen)
    facts = (
        ("at", f"{seen.pin}{follows}"),
        ("committed", moment(seen.info.timestamp)),
        ("rows", "" if rows is None else f"{rows:,}"),
        ("size", size),
        ("columns", f"{len(seen.columns):,}: {few(seen.columns, _COLUMNS)}" if seen.columns else ""),
    )
    parts = (f"at {seen.pin}", "" if rows is None else counted(rows, "row"), size.partition(" in ")[0])
    return Card(what, uri, ", ".join(part for part in parts if part), facts)


def _size(seen: TableGlance) -> str:
    size, files = seen.number("total_files_size"), seen.number("total_data_files")
    if size is None or files is None:
        return ""
    deletions = seen.number("total_deletion_files")
    also = f" and {counted(deletions, 'deletion file')}" if deletions else ""
    return f"{readable(size)} in {counted(files, 'data file')}{also}"


def _stands_still(ref: RefSpec) -> bool:
    return ref.tag is not None or ref.version is not None or ref.as_of is not None


def _asked(ref: RefSpec) -> str:
    """The ref as the user named it."""
    if ref.tag is not None:
        return f"tag {ref.tag}"
    branch = ref.branch or MAIN
    if ref.as_of is not None:
        return f"{branch} as of {moment(ref.as_of)}"
    return f"the newest version of {branch}" if ref.version is None else f"{branch}@{ref.version}"


@dataclass(frozen=True)
class RefNames:
    """The branches or tags of a dataset: how many there are, and some of them."""

    listed: Sequence[str]
    """Without those that this package made for itself."""
    own: int = 0
    """How many it made for itself."""

    @classmethod
    def of_branches(cls, branches: Sequence[str], tags: Sequence[str]) -> RefNames:
        """Branches; the tags say which of them are plans of frozen sets."""
        known = set(tags)
        return cls._of(branches, lambda name: is_plan(name, known))

    @classmethod
    def of_tags(cls, tags: Sequence[str]) -> RefNames:
        """Tags."""
        known = set(tags)
        return cls._of(tags, lambda name: is_service_tag(name, known))

    @classmethod
    def _of(cls, names: Sequence[str], is_own: Callable[[str], bool]) -> RefNames:
        listed = tuple(name for name in names if not is_own(name))
        return cls(listed, len(names) - len(listed))

    @property
    def shown(self) -> tuple[str, ...]:
        """Those that are looked at."""
        return tuple(self.listed[:SHOWN])


def branches_card(what: str, uri: str, listed: RefNames, branches: Sequence[Branch]) -> Card:
    """All branches except for main; only the branches that are shown were read."""
    count = len(listed.listed)
    summary = f"{MAIN} and {counted(count, 'branch', 'branches')}" if count else f"{MAIN} only"
    summary += f", and {listed.own:,} of frozen sets" if listed.own else ""
    return Card(f"{what} of", uri, summary, grids=(branch_grid(branches),), notes=more(count, len(listed.shown)))


def tags_card(what: str, uri: str, listed: RefNames, tags: Sequence[Tag]) -> Card:
    """All tags; those that are shown were read."""
    count = len(listed.listed)
    also = f", and {listed.own:,} that clones, merges, streams and frozen sets need" if listed.own else ""
    notes = more(count, len(listed.shown))
    return Card(f"{what} of", uri, f"{counted(count, 'tag')}{also}", grids=(tag_grid(tags),), notes=notes)


def remotes_card(what: str, uri: str, known: Mapping[str, str]) -> Card:
    """The remotes that were fetched from, by name."""
    grid = Grid(("remote", "uri"), tuple(known.items()))
    summary = ", ".join(known) or "none was fetched from yet"
    return Card(f"{what} of", uri, summary, grids=(grid,))
