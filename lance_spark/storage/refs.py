"""Branches and tags: read from their ref files, changed through pylance, removed, and recorded when they change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from lance_spark.core import refs as core_refs
from lance_spark.core.layout import VERSIONS, KeyRange, branch_root, read_manifest_name, versions_directory
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import LOG, RefChange, decode, encode
from lance_spark.core.ref_files import (
    BRANCHES,
    MAIN_FILE,
    TAGS,
    main_file,
    parse_branch,
    parse_main,
    parse_tag,
    ref_file,
    ref_name,
)
from lance_spark.core.ref_names import is_dataset_directory, missing
from lance_spark.errors import LanceSparkError
from lance_spark.format.manifest import decode_head
from lance_spark.storage import files
from lance_spark.storage.credentials import dataset_at, options_now
from lance_spark.storage.datasets import open_for_refs, open_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.others import check_ours
from lance_spark.storage.spelling import found_as, is_misspelled, same_on_disk, spelling_of
from lance_spark.storage.versions import find_manifest, version_numbers

if TYPE_CHECKING:
    import lance

_Ref = TypeVar("_Ref")


def read_refs(location: DatasetLocation) -> core_refs.RefTable:
    """All branches and tags. Raises NotFound without a dataset, CorruptData for an unreadable ref file."""
    open_latest(location)
    return read_ref_files(location)


def read_ref_files(location: DatasetLocation) -> core_refs.RefTable:
    """All branches and tags, without checking that a dataset exists. Raises CorruptData."""
    branches, tags = files.each(location, partial(list_ref_names, location), [BRANCHES, TAGS])
    return core_refs.RefTable(_each(location, read_branch, branches), read_tags(location, tags))


def read_branches(location: DatasetLocation, names: Sequence[str] | None = None) -> core_refs.RefTable:
    """All branches or some, without the tags, which can be many. Does not check that a dataset exists."""
    chosen = list_ref_names(location, BRANCHES) if names is None else names
    return core_refs.RefTable(_each(location, read_branch, chosen), {})


def read_tags(location: DatasetLocation, names: Sequence[str]) -> dict[str, core_refs.Tag]:
    """Some tags, by name; missing ones are omitted."""
    return _each(location, read_tag, names)


def _each(
    location: DatasetLocation, read: Callable[[DatasetLocation, str], _Ref | None], names: Sequence[str]
) -> dict[str, _Ref]:
    contents = files.each(location, partial(read, location), names)
    # A ref that vanished between the listing and the read was deleted.
    return {name: ref for name, ref in zip(names, contents, strict=True) if ref is not None}


def list_ref_names(location: DatasetLocation, directory: str) -> list[str]:
    """Names of all branches or all tags; ``directory`` is BRANCHES or TAGS."""
    names = (ref_name(path) for path in files.list_names(location, directory))
    return sorted(name for name in names if name is not None)


class BranchReader:
    """The branches of a dataset, each read when it is first asked for, and listed when others than those are."""

    def __init__(self, location: DatasetLocation, table: core_refs.RefTable | None = None) -> None:
        """With a ``table``, these are its branches, and nothing is read."""
        self._location = location
        self._read: dict[str, core_refs.Branch | None] = {}
        self._by_identity: dict[str, core_refs.Branch] = {}
        self._names: list[str] | None = None
        self._has_all = table is not None
        if table is not None:
            self._names = list(table.branches)
            self._note(table.branches)

    def find(self, name: str) -> core_refs.Branch | None:
        """One branch; None if it does not exist."""
        if name not in self._read and not self._has_all:
            self._note({name: read_branch(self._location, name)})
        return self._read.get(name)

    def of_identity(self, identity: str) -> core_refs.Branch | None:
        """The branch with an identity; None if it does not exist. Reads all if none of those read so far has it."""
        if identity not in self._by_identity:
            self.all()
        return self._by_identity.get(identity)

    def some(self, wanted: Callable[[str], bool]) -> list[core_refs.Branch]:
        names = [name for name in self.names if wanted(name)]
        unread = [name for name in names if name not in self._read]
        self._note({**dict.fromkeys(unread), **_each(self._location, read_branch, unread)})
        return [branch for name in names if (branch := self._read[name]) is not None]

    def all(self) -> list[core_refs.Branch]:
        if self._has_all:
            return [branch for branch in self._read.values() if branch is not None]
        found = self.some(bool)
        self._has_all = True
        return found

    @property
    def names(self) -> list[str]:
        if self._names is None:
            self._names = list_ref_names(self._location, BRANCHES)
        return self._names

    def table(self) -> core_refs.RefTable:
        """All branches, without tags."""
        return core_refs.RefTable({branch.name: branch for branch in self.all()}, {})

    def _note(self, read: Mapping[str, core_refs.Branch | None]) -> None:
        self._read |= read
        self._by_identity |= {branch.identity: branch for branch in read.values() if branch is not None}


def read_branch(location: DatasetLocation, name: str) -> core_refs.Branch | None:
    """One branch; None if it does not exist."""
    content = _read_ref(location, ref_file(BRANCHES, name))
    return None if content is None else parse_branch(name, content)


def read_tag(location: DatasetLocation, name: str) -> core_refs.Tag | None:
    """One tag; None if it does not exist."""
    content = _read_ref(location, ref_file(TAGS, name))
    return None if content is None else parse_tag(name, content)


def _read_ref(location: DatasetLocation, path: str) -> bytes | None:
    """A ref file; None for that of a name in another case: a tag on ``EXP`` would name a branch that nobody lists."""
    content = files.read(location, path)
    return None if content is not None and is_misspelled(location, path) else content


def create_branch(location: DatasetLocation, name: str, source: core_refs.PinnedVersion) -> None:
    """Create a branch at a version: its first manifest, then its ref file."""
    check_ours(location, f"create branch '{name}'")
    dataset = open_for_refs(location)
    with translated(location, f"creating branch '{name}'"):
        dataset.create_branch(name, source.reference, storage_options=options_now(location) or None)


def is_taken(location: DatasetLocation, name: str) -> bool:
    """Whether the files in the directory of a name are a branch's: of that name or, on some disks, in another case."""
    if files.read(location, ref_file(BRANCHES, name)) is not None:
        return True
    root = branch_root(name).rstrip("/")
    return any(root in pair and pair[1] != root for pair in spelling_of(location).branches.items())


def check_spelling(location: DatasetLocation, name: str) -> None:
    """Raise Refused if the disk takes the directory of a new branch, or one above it, for that of another branch."""
    there = taken_in_other_case(location, name)
    if there is not None:
        raise same_on_disk("branch", name, there)


def taken_in_other_case(location: DatasetLocation, name: str) -> str | None:
    """A branch that is there, or the beginning of one, for which the disk takes a new branch; None elsewhere.

    ``exp`` would be ``Exp``, and ``feature/b`` would lie in ``tree/Feature``, where no listing shows it as its own.
    """
    root = branch_root(name).rstrip("/")
    for path in (ref_file(BRANCHES, name), root):
        found = found_as(location, path)
        if found is not None:
            there = ref_name(found) or found + root[len(found) :]
            return there.removeprefix("tree/")
    other = spelling_of(location).of(root)  # the directory is spelled as this name, and is the other branch's
    return None if other == root else other.removeprefix("tree/")


def branch_starts(location: DatasetLocation, name: str) -> list[int]:
    """The versions of a new branch that were copied from another branch; there must be only one."""
    import lance

    versions = version_numbers(location, name)
    if len(versions) < 2:
        return versions
    starts = []
    for version in versions:
        with translated(location, f"checking branch '{name}'"):
            dataset = dataset_at(location, location.branch_uri(name), version=version)
            if isinstance(dataset.read_transaction(version).operation, lance.LanceOperation.Clone):
                starts.append(version)
    return starts


class TagWriter:
    """Changes tags of a dataset, which is opened once, for the first change."""

    def __init__(self, location: DatasetLocation) -> None:
        self.location = location

    @cached_property
    def _dataset(self) -> lance.LanceDataset:
        check_ours(self.location, "change tags")
        return open_for_refs(self.location)

    def _of(self, name: str) -> lance.LanceDataset:
        """The dataset. Raises NotFound if the disk finds a tag of that name only in another case."""
        if is_misspelled(self.location, ref_file(TAGS, name)):
            raise missing("tag", name, list_ref_names(self.location, TAGS))
        return self._dataset

    def create(self, name: str, target: core_refs.PinnedVersion) -> None:
        """Create a tag at a version. Raises Refused if the disk takes its name for that of another tag."""
        found = found_as(self.location, ref_file(TAGS, name))
        if found is not None:
            raise same_on_disk("tag", name, ref_name(found) or found)
        dataset = self._dataset
        with translated(self.location, f"creating tag '{name}'"):
            dataset.tags.create(name, target.reference)

    def move(self, name: str, target: core_refs.PinnedVersion) -> None:
        dataset = self._of(name)
        with translated(self.location, f"moving tag '{name}'"):
            dataset.tags.update(name, target.reference)

    def delete(self, name: str) -> None:
        dataset = self._of(name)
        with translated(self.location, f"deleting tag '{name}'"):
            dataset.tags.delete(name)


def create_tag(location: DatasetLocation, name: str, target: core_refs.PinnedVersion) -> None:
    TagWriter(location).create(name, target)


def move_tag(location: DatasetLocation, name: str, target: core_refs.PinnedVersion) -> None:
    TagWriter(location).move(name, target)


def delete_tag(location: DatasetLocation, name: str) -> None:
    TagWriter(location).delete(name)


def read_main(location: DatasetLocation) -> dict[str, str]:
    """The metadata of main; empty if none was set. Raises CorruptData."""
    content = files.read(location, MAIN_FILE)
    return {} if content is None else parse_main(content)


def replace_main(location: DatasetLocation, metadata: Mapping[str, str]) -> None:
    from lance_spark.storage.small_files import write_below  # imports pyarrow, which commands do not wait for

    write_below(location, MAIN_FILE, main_file(metadata))


def read_metadata(location: DatasetLocation, branch: str | None) -> dict[str, str] | None:
    """The metadata of a branch (None for main); None if it does not exist. Raises CorruptData."""
    if branch is None:
        return read_main(location)
    found = read_branch(location, branch)
    return None if found is None else dict(found.metadata)


def replace_tag_metadata(location: DatasetLocation, tag: str, metadata: Mapping[str, str]) -> None:
    check_ours(location, f"change the metadata of tag '{tag}'")
    dataset = open_for_refs(location)
    with translated(location, f"changing the metadata of tag '{tag}'"):
        dataset.tags.replace_metadata(tag, dict(metadata))


def replace_metadata(location: DatasetLocation, branch: str, metadata: Mapping[str, str]) -> None:
    check_ours(location, f"change the metadata of branch '{branch}'")
    dataset = open_for_refs(location)
    with translated(location, f"changing the metadata of branch '{branch}'"):
        dataset.branches.replace_metadata(branch, dict(metadata))


# --- Removing a branch: its ref file, then its own files, manifests first
# Not through pylance. Before and after removing a branch's ref file, pylance reads those of all other branches. It
# fails if one of them disappears at that time: either nothing was removed, or the branch's directory stays without a
# ref, and the name cannot be used again. With the last listed branch below ``exp/``, pylance also removes the whole
# directory ``tree/exp``, even if another job is creating the branch ``exp/new``, whose manifest comes first.


def drop_branch(location: DatasetLocation, name: str, check: Callable[[], None] | None = None) -> None:
    """Remove a branch's ref file and its own files; those of branches below it stay. Safe to repeat.

    lance_spark.refs.ref_rules decides whether it can be removed. ``check`` is called once the ref file is gone, when no
    branch or tag can be created from the branch anymore; if it raises, the ref file is restored.

    Raises PermissionDenied if the ref file cannot be removed, and StorageFailure if files of the branch could not be
    removed; by then, the ref file is gone.
    """
    drop_ref(location, name, check)
    drop_files(location, name)


def drop_files(location: DatasetLocation, name: str) -> None:
    """Remove a branch's own files once its ref file is gone; those of branches below it stay. Safe to repeat.

    Raises StorageFailure if files could not be removed.
    """
    from lance_spark.storage.deleting import (  # slow to import
        BATCH,
        delete_batch,
        deletion_failure,
        remove_empty_directories,
    )

    if is_misspelled(location, ref_file(BRANCHES, name)):
        return  # the directory is that of a branch in another case
    # The listing is complete before the first deletion: files of a new branch of that name must stay.
    paths = iter(_own_files(location, name))
    directories: set[str] = set()
    ends = []
    while batch := list(islice(paths, BATCH)):
        directories |= {above for path in batch for above in _directories(path, branch_root(name).rstrip("/"))}
        ends.append(delete_batch(location, batch))
    what = f"Branch '{name}' of {location.uri} is deleted, but {{}} of its own could not be removed"
    hint = f"Remove {location.branch_uri(name)} once the cause is fixed."
    failure = deletion_failure(what, ends, hint)
    if failure is not None:
        raise failure
    remove_empty_directories(location, sorted(directories))


def drop_ref(location: DatasetLocation, name: str, check: Callable[[], None] | None = None) -> None:
    """Remove a branch's ref file and nothing else; ``check`` as for :func:`drop_branch`."""
    check_ours(location, f"delete branch '{name}'")
    path = ref_file(BRANCHES, name)
    content = _read_ref(location, path)
    if content is None:
        return
    files.delete(location, [path])
    if check is None:
        return
    try:
        check()
    except LanceSparkError:
        from lance_spark.storage.small_files import write_below

        write_below(location, path, content)
        raise


def _own_files(location: DatasetLocation, name: str) -> list[str]:
    """Manifests first: a version without its data must not be openable.

    Before them goes the note of the newest version, with which a listing that lacks it looks incomplete to cleanups.
    The newest manifest is the last one: it says that a branch of a lake is being deleted, and without it the older ones
    say that the branch is complete, so that nobody may remove what a killed deletion left.
    """
    from lance_spark.storage.listing import list_paths

    root = branch_root(name)
    own = (
        path
        for path in list_paths(location, KeyRange.below(root.rstrip("/")))
        if path.startswith(root) and is_dataset_directory(path[len(root) :].partition("/")[0])
    )
    versions = f"{versions_directory(name)}/"

    def order(path: str) -> tuple[bool, int]:
        manifest = read_manifest_name(path.removeprefix(versions)) if path.startswith(versions) else None
        return not path.startswith(versions), -1 if manifest is None else manifest.version

    return sorted(own, key=order)


def _directories(path: str, top: str) -> Iterator[str]:
    """The directories that enclose a file, down to the branch's own."""
    above = path.rpartition("/")[0]
    while above.startswith(f"{top}/"):
        yield above
        above = above.rpartition("/")[0]
    yield top


# --- Leftovers of a killed creation of a branch: its first manifest, without a ref file

GRACE = 60
"""Seconds in which another process might still write the ref file: it takes a few requests."""


def clear_unfinished(location: DatasetLocation, name: str) -> bool:
    """Remove the leftovers of a killed creation of a branch without a ref file; False if they might be something else.

    Leftovers are one manifest and transactions, which hold nothing that the branch's parent lacks. Anything else might
    be data of a deleted branch, and anything younger than :data:`GRACE` a branch of another job; both stay.
    """
    root, own = branch_root(name), _old_files(location, name)
    if own is None or any(path.partition("/")[0] not in (VERSIONS, "_transactions") for path in own):
        return False
    if sum(path.endswith(".manifest") for path in own) > 1:
        return False
    # The manifest goes first: without it, the rest does not look like a branch if this process is also killed.
    files.delete(location, [root + path for path in sorted(own, reverse=True)])
    return True


def clear_deleted(location: DatasetLocation, name: str) -> bool:
    """Remove what a killed deletion left of a branch without a ref file, rows included; False if it may be another one.

    Only for branches that nobody restores. Anything younger than :data:`GRACE` may belong to a branch of another job.
    """
    if _old_files(location, name) is None or is_taken(location, name):
        return False
    drop_files(location, name)
    return True


def _old_files(location: DatasetLocation, name: str) -> list[str] | None:
    """A branch's own files, relative to its directory; None if one is younger than :data:`GRACE`."""
    from lance_spark.storage.listing import list_range  # imports pyarrow, which commands do not wait for

    root = branch_root(name)
    files_there: list[tuple[str, int | None]] = []
    for batch in list_range(location, KeyRange.below(root.rstrip("/"))):
        paths, times = batch["path"].to_pylist(), batch["last_modified"].cast("int64").to_pylist()
        files_there += [(path[len(root) :], moment) for path, moment in zip(paths, times, strict=True)]
    own = [(path, moment) for path, moment in files_there if is_dataset_directory(path.partition("/")[0])]
    oldest = (time.time() - GRACE) * 1_000_000
    if any(moment is None or moment > oldest for _, moment in own):
        return None
    return [path for path, _ in own]


def drop_attempt(location: DatasetLocation, name: str, version: int) -> None:
    """Remove the transactions that a failed attempt to create a branch just wrote into a directory with versions.

    They are young, and neither the version that the branch would have begun with nor the one after it names them.
    """
    from lance_spark.storage.listing import list_range

    directory = f"{branch_root(name)}_transactions"
    recent = (time.time() - GRACE) * 1_000_000
    found: dict[str, int] = {}
    for batch in list_range(location, KeyRange.below(directory)):
        paths, times = batch["path"].to_pylist(), batch["last_modified"].cast("int64").to_pylist()
        found |= {path: moment for path, moment in zip(paths, times, strict=True) if moment is not None}
    young = [path for path, moment in found.items() if moment > recent and path.startswith(f"{directory}/{version}-")]
    if young:
        manifests = [find_manifest(location, core_refs.PinnedVersion(name, at)) for at in (version, version + 1)]
        named = {decode_head(manifest).transaction_file for manifest in manifests if manifest is not None}
        files.delete(location, [path for path in young if path.removeprefix(f"{directory}/") not in named])


# --- Records of changed refs, one small file each

_SUFFIX = ".json"


def write_change(location: DatasetLocation, change: RefChange) -> None:
    """Write or rewrite a record; it is durable when this returns."""
    from lance_spark.storage.small_files import write_below  # imports pyarrow, which commands do not wait for

    write_below(location, f"{LOG}/{change.id}{_SUFFIX}", encode(change))


def read_change(location: DatasetLocation, name: str) -> RefChange | None:
    """One record; None if it is gone. Raises CorruptData."""
    content = files.read(location, f"{LOG}/{name}{_SUFFIX}")
    return None if content is None else decode(name, content)


def read_changes(location: DatasetLocation) -> tuple[RefChange, ...]:
    """All records, the oldest first. Raises CorruptData."""
    names = [name.removesuffix(_SUFFIX) for name in files.list_names(location, LOG) if name.endswith(_SUFFIX)]
    found = files.each(location, partial(read_change, location), sorted(names))
    return tuple(change for change in found if change is not None)


def remove_change(location: DatasetLocation, change: RefChange) -> None:
    """Remove a record; a missing one does not matter."""
    files.delete(location, [f"{LOG}/{change.id}{_SUFFIX}"])
