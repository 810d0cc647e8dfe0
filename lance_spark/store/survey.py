"""Takes a survey of a repository: its refs, its chains and the names of their manifests. No manifest is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.cleanup.survey import Chain, Survey, VersionFile, join
from lance_spark.errors import CorruptData, NotFound
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import branch_root, read_manifest_name, versions_directory
from lance_spark.location import DatasetLocation
from lance_spark.refs.lifetime import read_lifetime
from lance_spark.refs.model import RefTable
from lance_spark.refs.names import is_dataset_directory
from lance_spark.refs.parse import BRANCHES, TAGS, parse_branch, parse_tag, ref_name
from lance_spark.store import files, refs
from lance_spark.store.filesystem import entries
from lance_spark.store.listing import list_range
from lance_spark.store.parallel import each
from lance_spark.store.quarantined import read_quarantined
from lance_spark.store.reflog import read_changes
from lance_spark.store.uri import locate, locate_typed

CLONES = "_clones"
"""Directory below the dataset's root where clones made by this package are recorded."""
RECORD = ".json"
"""How the names of those records end. Other files are being written, or were when their writer was killed."""
_FUTURE = 2**52
"""Microseconds, a time in the future. If a store does not tell the time of a manifest, its age is not guessed: it
counts as younger than any run, so its version stays."""


def survey(location: DatasetLocation, clones: Sequence[str] = (), clones_from: Sequence[str] = ()) -> Survey:
    """The dataset and its clones as they are now. ``clones`` and ``clones_from`` are URIs, see CleanupPolicy.

    Refs are read before versions: a branch that is made in between has a directory, at worst without a ref.
    Raises NotFound for a declared clone that is missing, CorruptData for a ref file that cannot be read.
    """
    first: list[Callable[[DatasetLocation], Any]] = [
        refs.read_ref_files,
        refs.read_main,
        recorded_clones,
        branch_directories,
        read_changes,
        read_quarantined,
    ]
    table, main, recorded, directories, changes, quarantined = each(location, lambda read: read(location), first)
    table = replace(table, main=read_lifetime(main))
    known = _First(table, recorded, frozenset(table.branches), directories)
    return replace(_survey(location, known, clones, clones_from), changes=changes, quarantined=quarantined)


class DamagedRef(NamedTuple):
    """A ref file, or a note of a clone, that cannot be understood."""

    path: str
    """Relative to the dataset."""
    content: bytes
    reason: str

    @property
    def branch(self) -> str | None:
        """The branch whose ref file it is; None for another file."""
        return ref_name(self.path) if self.path.startswith(f"{BRANCHES}/") else None

    @property
    def tag(self) -> str | None:
        """The tag whose ref file it is; None for another file."""
        return ref_name(self.path) if self.path.startswith(f"{TAGS}/") else None


def lenient_survey(
    location: DatasetLocation, clones: Sequence[str] = (), clones_from: Sequence[str] = ()
) -> tuple[Survey, tuple[DamagedRef, ...]]:
    """As :func:`survey`, without the refs that cannot be understood, which are named; their branches have chains."""
    damaged: list[DamagedRef] = []
    found: dict[str, dict[str, Any]] = {}
    for directory, parse in ((BRANCHES, parse_branch), (TAGS, parse_tag), (CLONES, _parse_record)):
        names = [name for name in files.list_names(location, directory) if name.endswith(RECORD)]
        contents = each(location, partial(files.read, location), [f"{directory}/{name}" for name in names])
        found[directory] = {}
        for file, content in zip(names, contents, strict=True):
            name = ref_name(file) or file
            if content is None:
                continue  # deleted meanwhile
            try:
                found[directory][name] = parse(name, content)
            except CorruptData as problem:
                damaged.append(DamagedRef(f"{directory}/{file}", content, problem.message))
    named = frozenset(found[BRANCHES]) | {one.branch for one in damaged if one.branch is not None}
    table = RefTable(found[BRANCHES], found[TAGS])
    known = _First(table, found[CLONES], named, branch_directories(location))
    return _survey(location, known, clones, clones_from), tuple(damaged)


class _First(NamedTuple):
    """What was read before versions are listed."""

    table: RefTable
    recorded: Mapping[str, str]
    named: frozenset[str]
    """Branches that have a ref file, whatever is in it."""
    directories: Sequence[str]
    """Branches that have a directory with versions."""


def _survey(location: DatasetLocation, known: _First, clones: Sequence[str], clones_from: Sequence[str]) -> Survey:
    options = location.storage_options
    declared = [locate_typed(uri, options) for uri in clones]
    for root in clones_from:
        declared += datasets_below(locate_typed(root, options))
    for clone in declared:
        if not files.list_names(clone, "_versions"):
            raise NotFound(f"There is no Lance dataset at {clone.uri}, which was given as a clone.")
    others = _with_clones_of_clones(location, declared, known.recorded)
    repositories = (location, *others)
    chains = list(_chains(location, 0, known.named, known.directories))
    for index, clone in enumerate(others, start=1):
        named = set(refs.list_ref_names(clone, BRANCHES))
        chains += _chains(clone, index, named, branch_directories(clone))
    return Survey(repositories, tuple(chains), known.table, known.recorded)


def _with_clones_of_clones(
    location: DatasetLocation, declared: Iterable[DatasetLocation], recorded: Mapping[str, str]
) -> list[DatasetLocation]:
    """The declared clones, those recorded clones that exist, and in turn the clones recorded in any of them."""
    clones: dict[str, DatasetLocation] = {clone.uri: clone for clone in declared}
    pending = [*clones.values(), *(locate(uri, location.storage_options) for uri in recorded.values())]
    seen = {location.uri}
    while pending:
        clone = pending.pop()
        if clone.uri in seen:
            continue
        seen.add(clone.uri)
        if clone.uri in clones or files.list_names(clone, "_versions"):
            clones[clone.uri] = clone
            pending += [locate(uri, location.storage_options) for uri in recorded_clones(clone).values()]
    return [clone for uri, clone in clones.items() if uri != location.uri]


def recorded_clones(location: DatasetLocation) -> dict[str, str]:
    """The clones this package made of a dataset: tag on the cloned version, and the clone's URI."""
    recorded = {}
    for name in files.list_names(location, CLONES):
        if not name.endswith(RECORD):
            continue
        content = files.read(location, f"{CLONES}/{name}")
        if content is None:
            continue
        record = name.removesuffix(RECORD)
        recorded[record] = _parse_record(record, content, location.uri)
    return recorded


def _parse_record(name: str, content: bytes, dataset: str = "the dataset") -> str:
    try:
        return str(json.loads(content)["uri"])
    except (ValueError, KeyError, TypeError):
        raise CorruptData(
            f"{CLONES}/{name}{RECORD} of {dataset} cannot be read, so the clone it names cannot be protected.",
            hint="Nothing was deleted. Restore the file, or remove it if the clone is gone.",
        ) from None


def datasets_below(root: DatasetLocation) -> list[DatasetLocation]:
    """Every dataset below a directory, and the directory itself if it is one."""
    datasets = []
    pending = [""]
    while pending:
        directory = pending.pop()
        names = _directories(root, directory)
        if "_versions" in names:
            datasets.append(DatasetLocation(f"{root.uri}/{_encoded(root, directory)}".rstrip("/"), root.options))
        else:
            pending += [join(directory, name) for name in names]
    return datasets


def _encoded(root: DatasetLocation, directory: str) -> str:
    return locate(f"{root.uri}/{directory}").uri[len(root.uri) + 1 :]


def _chains(
    repository: DatasetLocation, index: int, named: Collection[str], directories: Collection[str]
) -> Iterator[Chain]:
    """Main and the branches that have a ref (``named``), a directory with versions, or both."""
    branches = sorted({*named, *directories})
    listed = each(repository, partial(_version_files, repository), [None, *branches])
    for branch, listing in zip([None, *branches], listed, strict=True):
        has_ref = branch is None or branch in named
        if listing.manifests or has_ref:
            yield _chain(index, branch, has_ref, listing)


def _chain(repository: int, branch: str | None, has_ref: bool, listing: _Listed) -> Chain:
    ordered = sorted(listing.manifests, key=lambda entry: entry[1].version)
    return Chain(
        repository=repository,
        root=branch_root(branch).rstrip("/"),
        branch=branch,
        has_ref=has_ref,
        versions=tuple(manifest for detached, manifest in ordered if not detached),
        detached=tuple(manifest for detached, manifest in ordered if detached),
        noted=listing.noted,
    )


class _Listed(NamedTuple):
    """The manifests of one chain."""

    manifests: list[tuple[bool, VersionFile]]
    """(whether it is detached, manifest), in no particular order."""
    noted: int


def _version_files(repository: DatasetLocation, branch: str | None) -> _Listed:
    directory = f"{versions_directory(branch)}/"
    hint = _hint(repository, directory)  # before the listing: a commit in between is no contradiction
    manifests = []
    for batch in list_range(repository, KeyRange(directory, f"{directory[:-1]}0")):
        times = batch["last_modified"].cast(pa.int64()).to_pylist()
        for path, size, time in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), times, strict=True):
            name = path[len(directory) :]
            read = read_manifest_name(name)
            if read is not None and path.startswith(directory):
                modified = (_FUTURE if time is None else time) * 1000
                manifests.append((read.detached, VersionFile(read.version, name, size, modified)))
    return _Listed(manifests, hint)


def _hint(repository: DatasetLocation, directory: str) -> int:
    """The newest version that pylance noted down, which it does on local disks; 0 for none."""
    if not repository.is_local:
        return 0
    content = files.read(repository, f"{directory}latest_version_hint.json")
    try:
        return int(json.loads(content)["version"]) if content is not None else 0
    except (ValueError, KeyError, TypeError):
        return 0  # half written: such a hint promises nothing


def branch_directories(repository: DatasetLocation) -> list[str]:
    """Branches that have a directory with versions below ``tree/``, with or without a ref."""
    branches = []
    pending = ["tree"]
    while pending:
        listed = each(repository, partial(_directories, repository), pending)
        below = []
        for directory, names in zip(pending, listed, strict=True):
            if "_versions" in names and directory != "tree":
                branches.append(directory.removeprefix("tree/"))
            below += [f"{directory}/{name}" for name in names if directory == "tree" or not is_dataset_directory(name)]
        pending = below
    return branches


def _directories(repository: DatasetLocation, directory: str) -> list[str]:
    """Names of the directories in a directory; empty where there is none."""
    return [name for name, is_directory in entries(repository, directory) if is_directory]
