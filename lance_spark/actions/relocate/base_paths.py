"""Looks where base paths lead: here, to where the dataset was before, to another place, or nowhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lance_spark.errors import StorageFailure
from lance_spark.location import DatasetLocation, is_within
from lance_spark.merge.snapshot import Root
from lance_spark.relocate.repair import (
    ABSENT,
    FOREIGN,
    INCOMPLETE,
    MISPLACED,
    OK,
    OLD,
    RELATIVE,
    UNCLEAR,
    UNREACHABLE,
    UNUSED,
    BaseState,
    BaseUse,
    Needed,
    directories,
    index_files,
    likely_places,
    missing,
    moved,
)
from lance_spark.store import files
from lance_spark.store.relocate_commit import Head, canonical, list_sizes
from lance_spark.store.scanning import blob_columns
from lance_spark.store.uri import locate


@dataclass(frozen=True)
class Move:
    """What the user said: the files that were at one root are at another root now."""

    old: str
    new: str


class BasePathResolver:
    """Looks where base paths lead. Listings are kept: files may be added meanwhile, but never change."""

    def __init__(self, location: DatasetLocation, move: Move | None) -> None:
        self._location = location
        self._move = move
        self._listed: dict[tuple[str, str], dict[str, int | None]] = {}
        self._there: dict[str, str] = {}

    def forget(self) -> None:
        """Look again."""
        self._listed.clear()

    def look(self, head: Head) -> tuple[BaseState, ...]:
        """Where every base path of a version leads."""
        return tuple(self._with_home(head, use) for use in head.uses.values())

    def _with_home(self, head: Head, use: BaseUse) -> BaseState:
        home = Root(self._location.branch_uri(head.pin.branch))
        lying = [index.uuid for index in use.indexes if not self._missing(home, index_files(index, is_dataset=True))]
        base = replace(self._state(use.without(lying), _unused(head, use)), home=tuple(lying))
        if base.moves and base.target is not None and blob_columns(self._location, head.pin):
            base = self._with_blobs(use, base, base.target)
        return replace(base, state=MISPLACED) if lying and base.state in (OK, FOREIGN, UNUSED) else base

    def _with_blobs(self, use: BaseUse, base: BaseState, root: Root) -> BaseState:
        """Blobs lie beside data files, and no manifest names them: only the old place tells which there were."""
        old = canonical(use.path)
        try:
            there = {} if old is None else list_sizes(DatasetLocation(old, self._location.options), "data")
        except StorageFailure:
            return base  # whoever moved a dataset may no longer reach its old place
        stems = {file.path.removesuffix(".lance") for file in use.files}
        blobs = [Needed(path, size or 0) for path, size in there.items() if path.rpartition("/")[0] in stems]
        lost = self._missing(root, tuple(blobs)) if blobs else []
        return replace(base, state=INCOMPLETE, missing=tuple(lost)) if lost else base

    def look_again(self, head: Head, states: tuple[BaseState, ...], former: Collection[str]) -> tuple[BaseState, ...]:
        """The states, now that former roots of this dataset are known: what is below one belongs to this dataset."""
        return tuple(self._again(head.uses[base.key], base, former) for base in states)

    def _again(self, use: BaseUse, base: BaseState, former: Collection[str]) -> BaseState:
        uri = canonical(use.path)
        for old in former if uri is not None and base.state == FOREIGN else ():
            place = moved(uri or "", old, self._location.uri)
            if place is not None:
                return self._verified(use, base, Root(place, use.is_dataset))
        return base

    def _state(self, use: BaseUse, base: BaseState) -> BaseState:
        if not use.probes:
            return base
        uri = None if use.is_relative else canonical(use.path)
        if uri is not None and is_within(uri, self._location.uri):
            return replace(base, state=self._look_at(uri, OK))
        if self._move is not None and uri is not None:
            target = moved(uri, self._move.old, self._move.new)
            if target is not None:
                return self._verified(use, replace(base, state=OLD), Root(target, use.is_dataset))
        here = self._counterpart(use, base)
        if here is not None:
            return here
        there = canonical(use.path)
        return replace(base, state=UNREACHABLE if there is None else self._look_at(there, FOREIGN))

    def _counterpart(self, use: BaseUse, base: BaseState) -> BaseState | None:
        """The place in this dataset that has the files; None if none of them is here."""
        partly = None
        for place in likely_places((not use.is_relative and canonical(use.path)) or use.path, use.is_dataset):
            root = Root(f"{self._location.uri}/{place}".rstrip("/"), use.is_dataset)
            if self._has_none(root, use):
                continue
            state = OLD if use.generated else UNCLEAR
            here = self._verified(use, replace(base, state=RELATIVE if use.is_relative else state), root)
            if here.state != INCOMPLETE:
                return here
            if partly is None or len(here.missing) < len(partly.missing):
                partly = here
        return partly

    def _verified(self, use: BaseUse, base: BaseState, root: Root) -> BaseState:
        """The state, if every file is at the root; else INCOMPLETE. An index that is not there is given up."""
        lost = self._missing(root, use.probes)
        broken = {index.uuid for index in use.indexes if index.fragments is None}
        broken |= {index.uuid for index in use.indexes if self._missing(root, index_files(index, use.is_dataset))}
        state = INCOMPLETE if lost else base.state
        return replace(base, state=state, target=root, missing=tuple(lost), broken=tuple(sorted(broken)))

    def _has_none(self, root: Root, use: BaseUse) -> bool:
        """Whether none of the files of one directory are at a place; one listing is enough to rule a place out."""
        some = [file for file in use.probes if directories([file]) == directories(use.probes[:1])]
        return len(missing(some, self._list(root.uri, directories(some)[0]))) == len(some)

    def _missing(self, root: Root, needed: tuple[Needed, ...]) -> list[str]:
        listed: dict[str, int | None] = {}
        for directory in directories(needed):
            listed |= self._list(root.uri, directory)
        return missing(needed, listed)

    def _list(self, uri: str, directory: str) -> Mapping[str, int | None]:
        if (uri, directory) not in self._listed:
            self._listed[uri, directory] = list_sizes(DatasetLocation(uri, self._location.options), directory)
        return self._listed[uri, directory]

    def _look_at(self, uri: str, if_there: str) -> str:
        """Whether anything is at a place. A store that does not answer proves nothing."""
        if uri not in self._there:
            try:
                there = files.exists(locate(uri, self._location.storage_options))
                self._there[uri] = if_there if there else ABSENT
            except StorageFailure:
                self._there[uri] = UNREACHABLE
        return self._there[uri]


def _unused(head: Head, use: BaseUse) -> BaseState:
    return BaseState(
        branch=head.pin.branch,
        key=use.key,
        path=use.path,
        state=UNUSED,
        files=len(use.files),
        indexes=tuple(sorted({index.name for index in use.indexes if not index.is_internal})),
    )
