"""Surveys of a dataset: its refs, chains, manifests' names, clones, and files beside a manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.core import layout
from lance_spark.core.lifetimes import read_lifetime
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.finding_codes import MANIFEST_CODES
from lance_spark.core.records.repair_record import RECORD as REPAIR_RECORD
from lance_spark.core.records.repair_record import Quarantine, read_record
from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.ref_files import BRANCHES, TAGS, parse_branch, parse_tag, ref_name
from lance_spark.core.ref_names import is_dataset_directory
from lance_spark.core.refs import PinnedVersion, RefTable
from lance_spark.errors import Conflict, CorruptData, NotFound
from lance_spark.format.metadata import BLOB, INDEX, Beside, FileRow, beside, data_directory
from lance_spark.format.versions import Root
from lance_spark.storage import files, refs, versions
from lance_spark.storage.datasets import locate, locate_typed, open_latest
from lance_spark.storage.files import each, entries
from lance_spark.storage.listing import list_range
from lance_spark.storage.refs import read_changes
from lance_spark.storage.spelling import spelling_of
from lance_spark.survey import chain_rules

CLONES = "_clones"
"""Directory below the dataset's root where clones made by this package are recorded."""
RECORD = ".json"
"""Suffix of those records. Other files are being written, or their writer was killed."""
_FUTURE = 2**52
"""Microseconds, a time in the future. If a store does not report the time of a manifest, its age is not guessed: it
counts as younger than any run, so its version stays."""


def survey(
    location: DatasetLocation, clones: Sequence[str] = (), clones_from: Sequence[str] = ()
) -> chain_rules.Survey:
    """The dataset and its clones now. ``clones`` and ``clones_from`` are URIs, see CleanupPolicy.

    Refs are read before versions: a branch created in between has a directory, at worst without a ref. Raises NotFound
    for a declared clone that is missing, CorruptData for an unreadable ref file.
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
    """An unreadable ref file, or note of a clone."""

    path: str
    """Relative to the dataset."""
    content: bytes
    reason: str

    @property
    def branch(self) -> str | None:
        """The branch of the ref file; None for any other file."""
        return ref_name(self.path) if self.path.startswith(f"{BRANCHES}/") else None

    @property
    def tag(self) -> str | None:
        """The tag of the ref file; None for any other file."""
        return ref_name(self.path) if self.path.startswith(f"{TAGS}/") else None


def lenient_survey(
    location: DatasetLocation, clones: Sequence[str] = (), clones_from: Sequence[str] = ()
) -> tuple[chain_rules.Survey, tuple[DamagedRef, ...]]:
    """Like :func:`survey`, but lists unreadable refs instead of failing; their branches have chains."""
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
    """The facts read before versions are listed."""

    table: RefTable
    recorded: Mapping[str, str]
    named: frozenset[str]
    """Branches with a ref file, whatever its content."""
    directories: Sequence[str]
    """Branches that have a directory with versions."""


def _survey(
    location: DatasetLocation, known: _First, clones: Sequence[str], clones_from: Sequence[str]
) -> chain_rules.Survey:
    options = location.storage_options
    declared = [locate_typed(uri, options) for uri in clones]
    for root in clones_from:
        declared += datasets_below(locate_typed(root, options))
    for clone in declared:
        if not files.list_names(clone, "_versions"):
            raise NotFound(f"There is no Lance dataset at {clone.uri}, which was declared as a clone.")
    others = _with_clones_of_clones(location, declared, known.recorded)
    repositories = (location, *others)
    chains = list(_chains(location, 0, known.named, known.directories))
    for index, clone in enumerate(others, start=1):
        named = set(refs.list_ref_names(clone, BRANCHES))
        chains += _chains(clone, index, named, branch_directories(clone))
    return chain_rules.Survey(repositories, tuple(chains), known.table, known.recorded)


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
    """The clones that this package made of a dataset: tag on the cloned version, and the clone's URI."""
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
        return str(decode_json(content)["uri"])
    except (ValueError, KeyError, TypeError):
        raise CorruptData(
            f"{CLONES}/{name}{RECORD} of {dataset} cannot be read, so its clone cannot be protected.",
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
            encoded = locate(f"{root.uri}/{directory}").uri[len(root.uri) + 1 :]
            datasets.append(DatasetLocation(f"{root.uri}/{encoded}".rstrip("/"), root.options))
        else:
            pending += [chain_rules.join(directory, name) for name in names]
    return datasets


def _chains(
    repository: DatasetLocation, index: int, named: Collection[str], directories: Collection[str]
) -> Iterator[chain_rules.Chain]:
    """Main and the branches that have a ref (``named``), a directory with versions, or both."""
    branches = sorted({*named, *directories})
    listed = each(repository, partial(_version_files, repository), [None, *branches])
    for branch, listing in zip([None, *branches], listed, strict=True):
        has_ref = branch is None or branch in named
        if listing.manifests or has_ref:
            yield _chain(index, branch, has_ref, listing)


def _chain(repository: int, branch: str | None, has_ref: bool, listing: _Listed) -> chain_rules.Chain:
    ordered = sorted(listing.manifests, key=lambda entry: entry[1].version)
    return chain_rules.Chain(
        repository=repository,
        root=layout.branch_root(branch).rstrip("/"),
        branch=branch,
        has_ref=has_ref,
        versions=tuple(manifest for detached, manifest in ordered if not detached),
        detached=tuple(manifest for detached, manifest in ordered if detached),
        noted=listing.noted,
    )


class _Listed(NamedTuple):
    manifests: list[tuple[bool, chain_rules.VersionFile]]
    """(whether it is detached, manifest), in no particular order."""
    noted: int


def _version_files(repository: DatasetLocation, branch: str | None) -> _Listed:
    directory = f"{layout.versions_directory(branch)}/"
    hint = _hint(repository, directory)  # before the listing: a commit in between is not a contradiction
    manifests = []
    for batch in list_range(repository, layout.KeyRange(directory, f"{directory[:-1]}0")):
        times = batch["last_modified"].cast(pa.int64()).to_pylist()
        for path, size, at in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), times, strict=True):
            name = path[len(directory) :]
            read = layout.read_manifest_name(name)
            if read is not None and path.startswith(directory):
                modified = (_FUTURE if at is None else at) * 1000
                manifests.append((read.detached, chain_rules.VersionFile(read.version, name, size, modified)))
    return _Listed(manifests, hint)


def _hint(repository: DatasetLocation, directory: str) -> int:
    """The newest version that pylance recorded, which it does on local disks; 0 for none."""
    if not repository.is_local:
        return 0
    content = files.read(repository, f"{directory}latest_version_hint.json")
    try:
        return int(decode_json(content)["version"]) if content is not None else 0
    except (ValueError, KeyError, TypeError):
        return 0  # half written: such a hint promises nothing


def branch_directories(repository: DatasetLocation) -> list[str]:
    """Branches that have a directory with versions below ``tree/``, with or without a ref."""
    branches, spelling = [], spelling_of(repository)
    pending = ["tree"]
    while pending:
        listed = each(repository, partial(_directories, repository), pending)
        below = []
        for directory, names in zip(pending, listed, strict=True):
            if "_versions" in names and directory != "tree":
                branches.append(spelling.of(directory).removeprefix("tree/"))
            below += [f"{directory}/{name}" for name in names if directory == "tree" or not is_dataset_directory(name)]
        pending = below
    return branches


def _directories(repository: DatasetLocation, directory: str) -> list[str]:
    """Names of the directories in a directory; empty if it does not exist."""
    return [name for name, is_directory in entries(repository, directory) if is_directory]


# --- Manifests that repairs moved away


def read_quarantined(location: DatasetLocation) -> tuple[chain_rules.Quarantined, ...]:
    """The manifests that repairs moved away, except those that exist under another name.

    Raises CorruptData for an unreadable record.
    """
    paths = [f"{layout.QUARANTINE}/{name}/{REPAIR_RECORD}" for name in files.list_names(location, layout.QUARANTINE)]
    contents = files.read_many(location, paths) if paths else []
    return tuple(
        chain_rules.Quarantined(step.branch, int(datetime.fromisoformat(record.made).timestamp()) * 10**9)
        for record in (read_record(content) for content in contents if content is not None)  # others were undone
        for step in record.steps
        if isinstance(step, Quarantine) and step.why in MANIFEST_CODES
    )


# --- Repeated surveys until one is consistent: a changing dataset is not a corrupt one
# Branches come and go during a survey. So a contradiction leads to another look, and is an error only if it persists.

ATTEMPTS = 8
Taking = Callable[[DatasetLocation, Sequence[str], Sequence[str]], chain_rules.Survey]
_PAUSE = 0.02
"""Seconds before the second look, twice as long before each further one."""


def take_survey(location: DatasetLocation, clones: tuple[str, ...], clones_from: tuple[str, ...]) -> chain_rules.Survey:
    """The dataset now, with everything that its refs promise.

    Raises CorruptData for a contradiction in two consecutive surveys, Conflict for a dataset that never stops changing,
    NotFound.
    """
    taken, lasting = look_at(location, clones, clones_from)
    if lasting:
        raise lasting[0].error()
    return taken


def look_at(
    location: DatasetLocation, clones: tuple[str, ...], clones_from: tuple[str, ...], take: Taking | None = None
) -> tuple[chain_rules.Survey, list[chain_rules.Contradiction]]:
    """The dataset now, and the contradictions that two consecutive surveys show.

    ``take`` takes a survey in another way. Raises CorruptData for an unreadable ref file, Conflict and NotFound like
    take_survey.
    """
    before: list[chain_rules.Contradiction] = []
    for attempt in range(ATTEMPTS):
        taken = (take or survey)(location, clones, clones_from)
        if not any(chain.versions for _, chain in taken.owned()):
            open_latest(location)  # distinguishes a missing dataset from an empty listing
        now = chain_rules.contradictions(taken)
        lasting = [contradiction for contradiction in now if contradiction in before]
        if lasting or not now:
            return taken, lasting
        before = now
        time.sleep(_PAUSE * 2**attempt)
    raise Conflict(
        f"Branches and tags of {location.uri} changed during each of {ATTEMPTS} attempts to read them; nothing was "
        f"deleted. The last time: {before[0].message}",
        hint="Run it again when fewer branches are being created and deleted.",
    )


def check_gone(
    before: chain_rules.Survey,
    clones: tuple[str, ...],
    clones_from: tuple[str, ...],
    gone: Collection[chain_rules.Manifest],
) -> None:
    """Raise CorruptData if unreadable manifests are still listed, or were the newest of a branch.

    Others were deleted with their branch, or by another cleanup. Raises Conflict if a whole clone disappeared.
    """
    left = list(gone)
    for attempt in range(ATTEMPTS):
        if not left:
            return
        time.sleep(_PAUSE * 2**attempt if attempt else 0)
        now = survey(before.location, clones, clones_from)
        there = {repository.uri for repository in now.repositories}
        for manifest in left:
            if manifest.repository not in there:
                raise Conflict(
                    f"The clone at {manifest.repository} disappeared before its versions were read.",
                    hint="If it was moved, declare its new place as a clone; then run this again.",
                )
        left = chain_rules.not_explained(before, now, left)
    raise CorruptData(
        f"The manifest {left[0].path} of {left[0].repository} was listed and is gone.",
        hint="No file that it may name was deleted. Check the file system, or restore the manifest.",
    )


def confirm_newest(
    before: chain_rules.Survey,
    clones: tuple[str, ...],
    clones_from: tuple[str, ...],
    latest: Collection[chain_rules.Manifest],
) -> list[chain_rules.Manifest]:
    """The versions whose files a listing lacks and that are still the newest of their branches.

    Others were deleted with their branch, or by another cleanup: pylance might remove files before the manifest. So
    this waits for a version that still exists but is no longer the newest. Raises Conflict if it stays.
    """
    left = list(latest)
    for attempt in range(ATTEMPTS):
        time.sleep(_PAUSE * 2**attempt if attempt else 0)
        now = survey(before.location, clones, clones_from)
        left = chain_rules.of_branches(now, left)
        lasting = chain_rules.still_newest(now, left)
        if not left or (lasting and attempt):
            return lasting
    raise Conflict(
        f"Files of {left[0].path} of {left[0].repository} were not listed, and a newer version exists now: another "
        "cleanup may be removing this one.",
        hint="Nothing was deleted. Run it again once no other cleanup is running.",
    )


# --- Listings beside a manifest: sizes of deletion files, files of indexes, blobs


def deletion_sizes(location: DatasetLocation, found: Beside) -> dict[str, int]:
    """Bytes of the deletion files that a version names, by URI."""
    sizes = {}
    for root, paths in found.deletions.items():
        for path, size in listed_below(location, root, "_deletions/"):
            if size is not None and path in paths:
                sizes[f"{root.uri}/{path}"] = size
    return sizes


def index_files(location: DatasetLocation, found: Beside) -> Iterator[FileRow]:
    for (root, uuid), name in found.indexes.items():
        for path, size in listed_below(location, root, f"_indices/{uuid}/"):
            yield FileRow(INDEX, f"{root.uri}/{path}", size, index_name=name)


def blob_files(location: DatasetLocation, found: Beside) -> Iterator[FileRow]:
    """The blob files in directories beside data files."""
    for root, fragments in found.data.items():
        directory = data_directory(root)
        for path, size in listed_below(location, root, directory):
            stem, slash, _ = path.removeprefix(directory).rpartition("/")
            while slash and stem not in fragments:
                stem, slash, _ = stem.rpartition("/")
            if slash:
                yield FileRow(BLOB, f"{root.uri}/{path}", size, fragment_id=fragments[stem])


def missing_files(location: DatasetLocation, pin: PinnedVersion) -> list[str]:
    """URIs of missing data files, deletion files and indexes that a version names."""
    snapshot = versions.read_snapshot(location, pin)
    named = [
        (snapshot.root_of(file), f"{data_directory(snapshot.root_of(file))}{layout.stored_name(file.path)}")
        for fragment in snapshot.contents.fragments()
        for file in fragment.files
    ]
    found = beside(snapshot)
    named += [(root, path) for root, paths in found.deletions.items() for path in paths]
    named += [(root, f"_indices/{uuid}") for root, uuid in found.indexes]
    there = each(location, partial(_is_there, location), named)
    return [f"{root.uri}/{path}" for (root, path), exists in zip(named, there, strict=True) if not exists]


def _is_there(location: DatasetLocation, named: tuple[Root, str]) -> bool:
    root, path = named
    return files.exists(DatasetLocation(root.uri, location.options), path)


def listed_below(location: DatasetLocation, root: Root, directory: str) -> Iterator[tuple[str, int | None]]:
    """(path below the root, bytes) of the files in a directory, given with a trailing slash."""
    place = DatasetLocation(root.uri, location.options)
    part = layout.KeyRange.below(directory[:-1]) if directory else layout.KeyRange(None, None)
    for batch in list_range(place, part):
        yield from zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True)
