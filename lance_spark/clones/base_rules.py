"""Base paths that still lead to a dataset's former place: which they are, and what to change. Pure.

A branch names its parent's files by the absolute URI that the parent had when the branch was created. After ``cp -r``
the branch silently reads the old place, and after ``mv`` it breaks. Files are identified by name: pylance's names are
unique, so a file of the same name and size is the same file, wherever it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lance_spark.core.layout import is_generated, stored_name
from lance_spark.core.location import is_within
from lance_spark.core.refs import MAIN
from lance_spark.core.show import Card, Grid, Line, Recorded, ShownInLines, said_of_places, table_lines
from lance_spark.core.texts import counted
from lance_spark.errors import CorruptData
from lance_spark.format.contents import Contents, DataFile, DeletionFile, Fragment, IndexRecord
from lance_spark.format.manifest import BasePath
from lance_spark.format.versions import Root

OK = "ok"
OLD = "old place"
"""All files are also here: this is a former place of the dataset, or the user named it."""
RELATIVE = "relative"
"""A path relative to the reader's current directory; all files are here."""
MISPLACED = "misplaced index"
"""An existing place, but the version looks there for an index that is in the branch itself."""
UNUSED = "unused"
FOREIGN = "elsewhere"
"""Another existing place: a clone reads from its source like this."""
UNCLEAR = "unclear"
"""Files of these names and sizes are here, but pylance did not generate the names: other files may have them."""
INCOMPLETE = "incomplete"
"""Only some of the files are here."""
ABSENT = "absent"
UNREACHABLE = "unreachable"
"""The store did not answer: nothing is known."""
_MOVED = frozenset({OLD, RELATIVE})
"""States of base paths whose files are read from their target."""
_PROBLEMS = frozenset({UNCLEAR, INCOMPLETE, ABSENT, UNREACHABLE})


class Needed(NamedTuple):
    """A file that a version reads from a base path."""

    path: str
    """Relative to the base, as in a listing. With a trailing slash: any file in that directory."""
    size: int
    """Bytes; 0 if the writer did not record the size."""


@dataclass(frozen=True)
class BaseUse:
    """What one version reads from one of its base paths."""

    key: int
    path: str
    """As the writer spelled it."""
    is_dataset: bool
    files: tuple[Needed, ...] = ()
    """Data and deletion files."""
    indexes: tuple[IndexRecord, ...] = ()
    generated: bool = True
    """Whether pylance generated the names of all data files, so that no two files share a name."""

    def without(self, indexes: Collection[str]) -> BaseUse:
        """The same use without some index segments, given by id."""
        return replace(self, indexes=tuple(index for index in self.indexes if index.uuid not in indexes))

    @property
    def probes(self) -> tuple[Needed, ...]:
        """The files that show whether a place is the right one."""
        return self.files or tuple(file for index in self.indexes for file in index_files(index, self.is_dataset))

    @property
    def is_relative(self) -> bool:
        """Whether the path is relative to the reader's current directory."""
        return "://" not in self.path and not self.path.startswith(("/", "file:"))


def base_uses(contents: Contents, indexes: Collection[IndexRecord]) -> dict[int, BaseUse]:
    """What a version reads from its base paths, by base id. Raises CorruptData for an unknown base."""
    bases = contents.head.bases
    files: dict[int, dict[Needed, None]] = {key: {} for key in bases}
    named_by_hand: set[int] = set()
    for fragment in contents.fragments():
        for key, needed in _named(fragment, bases):
            files[key][needed] = None
        named_by_hand |= {
            file.base_id for file in fragment.files if file.base_id is not None and not is_generated(file.path)
        }
    return {
        key: BaseUse(
            key=key,
            path=base.path,
            is_dataset=base.is_dataset_root,
            files=tuple(files[key]),
            indexes=tuple(index for index in indexes if index.base_id == key),
            generated=key not in named_by_hand,
        )
        for key, base in sorted(bases.items())
    }


def _named(fragment: Fragment, bases: Mapping[int, BasePath]) -> Iterator[tuple[int, Needed]]:
    for file in fragment.files:
        base = _base(file, bases)
        if base is not None and file.base_id is not None:
            directory = "data/" if base.is_dataset_root else ""
            yield file.base_id, Needed(directory + stored_name(file.path), file.size)
    deletion = fragment.deletion
    if deletion is not None and deletion.base_id is not None and _base(deletion, bases) is not None:
        yield deletion.base_id, Needed(deletion.path_for(fragment.id), 0)


def _base(file: DataFile | DeletionFile, bases: Mapping[int, BasePath]) -> BasePath | None:
    if file.base_id is None:
        return None
    if file.base_id not in bases:
        raise CorruptData(f"The manifest is damaged: a file is in base {file.base_id}, which is not listed.")
    return bases[file.base_id]


def index_files(index: IndexRecord, is_dataset: bool) -> tuple[Needed, ...]:
    directory = f"_indices/{index.uuid}/" if is_dataset else f"{index.uuid}/"
    return tuple(Needed(directory + path, size) for path, size in index.needed)


def directories(files: Collection[Needed]) -> list[str]:
    """The directories to list to find files; "" for the whole place."""
    names = {file.path.partition("/")[0] if "/" in file.path else "" for file in files}
    return [""] if "" in names else sorted(names)


def missing(files: Collection[Needed], listed: Mapping[str, int | None]) -> list[str]:
    """The files that a listing (path to bytes) lacks or shows in another size."""
    return [file.path for file in files if not _is_listed(file, listed)]


def _is_listed(file: Needed, listed: Mapping[str, int | None]) -> bool:
    if file.path.endswith("/"):
        return any(path.startswith(file.path) for path in listed)
    return file.path in listed and (not file.size or listed[file.path] in (None, file.size))


def likely_places(path: str, is_dataset: bool) -> list[str]:
    """Where in this dataset a base path's counterpart may be, relative to its root: the longest path first.

    ``/old/t/tree/exp`` may be ``tree/exp`` here; ``/old/t`` may be the root itself, which is "".
    """
    rest = path.partition("://")[2] if "://" in path else path.removeprefix("file:")
    parts = [part for part in rest.split("/") if part not in ("", ".", "..")]
    places = ["/".join(parts[start:]) for start in range(len(parts))]
    return [*places, ""] if is_dataset else places


def moved(uri: str, old: str, new: str) -> str | None:
    """The counterpart in ``new`` of a URI in ``old``; None for a URI elsewhere."""
    return new + uri[len(old) :] if is_within(uri, old) else None


@dataclass(frozen=True)
class BaseState:
    """A base path of the newest version of a branch, and where it leads."""

    branch: str | None
    key: int
    path: str
    """As in the manifest."""
    state: str
    files: int = 0
    """Data and deletion files that the version reads there."""
    indexes: tuple[str, ...] = ()
    """Names of indexes that it reads there."""
    target: Root | None = None
    """The current place of the files."""
    missing: tuple[str, ...] = ()
    """Files missing from the target, if there is one."""
    broken: tuple[str, ...] = ()
    """Ids of index segments missing from the target: they are dropped."""
    home: tuple[str, ...] = ()
    """Ids of index segments that are in the branch itself.

    When pylance 14.0.2 compacts a branch, it rewrites inherited indexes into the branch but still looks for them in the
    parent: every query with such an index fails.
    """

    @property
    def moves(self) -> bool:
        """Whether its files are read from its target after a repair."""
        return self.state in _MOVED and self.target is not None

    @property
    def is_repaired(self) -> bool:
        """Whether something about it is wrong that can be repaired."""
        return self.moves or bool(self.home)

    @property
    def is_problem(self) -> bool:
        """Whether something about it is wrong that cannot be repaired."""
        return self.state in _PROBLEMS

    def as_record(self) -> dict[str, Any]:
        return {
            "branch": self.branch or MAIN,
            "path": self.path,
            "state": self.state,
            "files": self.files,
            "indexes": list(self.indexes),
            "to": self.target.uri if self.moves and self.target is not None else None,
            "missing": list(self.missing),
        }


def former_roots(uri: str, states: Iterable[BaseState]) -> set[str]:
    """Former places of the dataset, according to base paths whose files are all here now."""
    roots = set()
    for state in states:
        if state.state == OLD and state.target is not None and is_within(state.target.uri, uri):
            path, rest = state.path.rstrip("/"), state.target.uri[len(uri) :]
            roots |= {path[: len(path) - len(rest)]} if path.endswith(rest) else set()
    return roots


@dataclass(frozen=True)
class Repair:
    new_roots: tuple[Root, ...] = ()
    """Places that the version does not know yet: they are registered first, and the rest is decided afterwards."""
    bases: Mapping[int, int | None] = field(default_factory=dict)
    """New base id by the old one; None for the root of the branch itself."""
    fragments: tuple[int, ...] = ()
    """Ids of the fragments that name files in an old base."""
    indexes: tuple[tuple[IndexRecord, int | None], ...] = ()
    """With their new base id."""
    dropped: tuple[IndexRecord, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new_roots or self.fragments or self.indexes or self.dropped)


def repair_of(
    contents: Contents,
    uses: Mapping[int, BaseUse],
    known: Mapping[Root, int | None],
    states: Collection[BaseState],
) -> Repair:
    """The changes that make a version read from the targets. ``known``: base ids by place, None for its own root."""
    targets = {state.key: state.target for state in states if state.moves and state.target is not None}
    targets = {key: root for key, root in targets.items() if uses[key].files or uses[key].indexes}
    new = tuple(dict.fromkeys(root for root in targets.values() if root not in known))
    if new:
        return Repair(new_roots=new)
    bases = {key: known[root] for key, root in targets.items()}
    home = {uuid for state in states for uuid in state.home}
    broken = {uuid for state in states for uuid in state.broken}
    inherited = [(index, bases.get(key, key)) for key, use in uses.items() for index in use.indexes]
    moved_home: list[tuple[IndexRecord, int | None]] = [(index, None) for index, _ in inherited if index.uuid in home]
    rest = [pair for pair in inherited if pair[0].uuid not in home and pair[0].base_id in bases]
    return Repair(
        bases=bases,
        fragments=tuple(fragment.id for fragment in contents.fragments() if _names_any(fragment, targets)),
        indexes=(*moved_home, *(pair for pair in rest if pair[0].uuid not in broken)),
        dropped=tuple(index for index, _ in rest if index.uuid in broken),
    )


def _names_any(fragment: Fragment, bases: Collection[int]) -> bool:
    deletion = fragment.deletion
    return any(file.base_id in bases for file in fragment.files) or (deletion is not None and deletion.base_id in bases)


# --- Results of a relocation, as values, lines and cards

_NOTHING_ELSEWHERE = "No branch has a base path: nothing is read from anywhere else."


@dataclass(frozen=True)
class Relocated(Recorded):
    """What was, or would be, done to one branch."""

    branch: str | None
    before: int
    """Its newest version before."""
    version: int | None
    """The newest version after it; None if nothing was done."""
    files: int
    """Files now read from their new place."""
    indexes: tuple[str, ...] = ()
    """Names of indexes now read from their new place."""
    dropped: tuple[str, ...] = ()
    """Names of indexes that lost segments."""
    older: int = 0
    """Versions that always read from the old place, as versions never change; including the newest one before."""
    tags: tuple[str, ...] = ()
    """Tags on those versions."""

    def as_record(self) -> dict[str, Any]:
        names = {"dropped": "indexes_missing", "older": "older_versions"}
        record = {names.get(name, name): value for name, value in super().as_record().items()}
        return {**record, "branch": self.branch or MAIN}

    def told(self, dry_run: bool) -> str:
        """One sentence about what was, or would be, done."""
        name = self.branch or MAIN
        indexes = f" and {counted(len(self.indexes), 'index', 'indexes')}" if self.indexes else ""
        be = "is" if self.files == 1 and not self.indexes else "are"
        read = f"{'would be' if dry_run else be} read from the new place"
        now = "" if self.version is None else f" ({name}@{self.version})"
        told = [f"{name}: {counted(self.files, 'file')}{indexes} {read}{now}"]
        told += [f"indexes to create again: {', '.join(self.dropped)}"] if self.dropped else []
        told += [f"{counted(self.older, 'older version')} can only be read with the old place"] if self.older else []
        told += [f"tags on those: {', '.join(self.tags)}"] if self.tags else []
        return "; ".join(told) + "."


@dataclass(frozen=True, repr=False)
class Relocation(ShownInLines):
    """Every base path of the newest versions, and what was, or would be, changed."""

    uri: str
    bases: tuple[BaseState, ...]
    branches: tuple[Relocated, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def lines(self) -> Iterator[Line]:
        """The base paths, their problems, and what was done to branches."""
        if not self.bases:
            yield said_of_places(_NOTHING_ELSEWHERE)
            return
        yield from self.base_lines()
        yield from (said_of_places(f"  {problem}") for problem in self._problems_told())
        yield from (said_of_places(branch.told(self.dry_run)) for branch in self.branches)
        if not self.branches:
            yield said_of_places("Nothing to do.")
        yield from (said_of_places(f"  note: {note}") for note in self.notes)

    def base_lines(self) -> list[Line]:
        grid = self._grid()
        bright = [row for row, base in enumerate(self.bases) if base in self.repaired]
        return table_lines(grid.header, grid.shown, grid.right, bright)

    def _grid(self) -> Grid:
        """The base paths: state, files, and the place they are read from afterwards."""
        rows = tuple(
            (
                base.branch or MAIN,
                base.path,
                base.state,
                f"{base.files:,}",
                base.target.uri if base in self.repaired and base.target is not None else "",
            )
            for base in self.bases
        )
        return Grid(("branch", "base path", "state", "files", "read from"), rows, right=frozenset({3}))

    def _problems_told(self) -> Iterator[str]:
        """Why base paths were left unchanged."""
        for base in self.problems:
            yield f"{base.branch or MAIN}: {base.path} is left alone: {_why(base)}"

    def _card(self) -> Card:
        if not self.bases:
            return Card(type(self).__name__, self.uri, _NOTHING_ELSEWHERE, notes=self.notes)
        did = "would be" if self.dry_run else "were"
        repaired = f"{len(self.repaired):,} of {len(self.bases):,} base paths {did} repaired"
        bad = f", {counted(len(self.problems), 'problem')}" if self.problems else ""
        notes = (*self._problems_told(), *(branch.told(self.dry_run) for branch in self.branches), *self.notes)
        return Card(type(self).__name__, self.uri, repaired + bad, grids=(self._grid(),), notes=notes)

    @property
    def repaired(self) -> tuple[BaseState, ...]:
        """Base paths with files that are, or would be, read from another place."""
        return tuple(base for base in self.bases if base.is_repaired)

    @property
    def problems(self) -> tuple[BaseState, ...]:
        """Base paths that lead nowhere or to an unknown place."""
        return tuple(base for base in self.bases if base.is_problem)

    def as_record(self) -> dict[str, Any]:
        return {
            "action": "relocate",
            "dataset": self.uri,
            "bases": [base.as_record() for base in self.bases],
            "branches": [branch.as_record() for branch in self.branches],
            "notes": list(self.notes),
            "dry_run": self.dry_run,
        }


def _why(base: BaseState) -> str:
    if base.state == "unclear":
        return "files of these names are here, but the names are not unique; if they are the same files, use --from"
    if base.target is None:
        return base.state
    few = ", ".join(base.missing[:3]) + (", ..." if len(base.missing) > 3 else "")
    return f"{len(base.missing)} of its files are not in {base.target.uri}: {few}"
