"""Branches and tags: listing, creating, moving, deleting and renaming them, and changing their settings.

A ref comes in by name. What comes out is a value that describes it, or a refusal before anything was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lance_spark import hints
from lance_spark.core import refs as core_refs
from lance_spark.core.layout import KeyRange, Roots, read_manifest_name, versions_directory
from lance_spark.core.lifetimes import EXPIRE_AFTER, Lifetime, changed_metadata, only_lifetime, read_lifetime
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.records.tracking import handed_on, read_follows
from lance_spark.core.ref_files import BRANCHES, TAGS, ref_file
from lance_spark.core.ref_names import (
    check_branch_name,
    check_new_branch_name,
    check_new_tag_name,
    check_tag_name,
    is_merge_tag,
    is_own_tag,
    is_service_tag,
    is_stream_tag,
    lake_tag_of,
    missing,
    plan_tag,
)
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    LanceSparkError,
    NotFound,
    PermissionDenied,
    Refused,
    StorageFailure,
)
from lance_spark.log.listing_rules import BranchList, TagList, listed_branches, listed_tags
from lance_spark.refs import ref_rules
from lance_spark.refs.reflog import give_up_name, keep_deleted, recorded, tag_change
from lance_spark.storage import datasets, files, refs
from lance_spark.storage.commits import UNCHANGED, left_after, unchanged
from lance_spark.storage.datasets import find_latest, locate, open_latest
from lance_spark.storage.followers import check_own
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.refs import clear_unfinished, drop_attempt, drop_branch, drop_files, drop_ref
from lance_spark.storage.resolving import check_branch, resolve


def list_branches(location: DatasetLocation, everything: bool = False) -> BranchList:
    """Branches except for main, by name; ``everything`` includes the plans of frozen sets. Raises as ``list_tags``."""
    open_latest(location)
    branches, tags = files.each(location, partial(refs.list_ref_names, location), [BRANCHES, TAGS])
    return listed_branches(refs.read_branches(location, branches).branches, tags, everything)


def find_branch(location: DatasetLocation, name: str) -> core_refs.Branch | None:
    """One branch; None if it does not exist. Raises CorruptData."""
    return refs.read_branch(location, name)


def create_branch(location: DatasetLocation, name: str, source: core_refs.RefSpec) -> core_refs.Branch:
    """Create a branch at the version that the source names. Raises InvalidName, AlreadyExists, NotFound."""
    check_new_branch_name(name)
    return create_branch_at(location, name, resolve(location, source))


def create_branch_at(location: DatasetLocation, name: str, pin: core_refs.PinnedVersion) -> core_refs.Branch:
    """Create a branch at a version.

    Raises InvalidName or AlreadyExists. The latter is also raised if a deleted branch left its directory behind:
    pylance reports only an internal error there.
    """
    discarded = make_branch(location, name, pin)
    created = refs.read_branch(location, name)
    if created is None:
        raise AlreadyExists(f"Branch '{name}' was deleted while it was being created.", hint="Create it again.")
    return replace(created, discarded=discarded)


def make_branch(location: DatasetLocation, name: str, pin: core_refs.PinnedVersion) -> str | None:
    """Like :func:`create_branch_at`, for a caller that does not need the ref; returns ``Branch.discarded``."""
    check_new(location, name)
    remains = _make(location, name, pin)
    if remains is not None and _make(location, name, pin) is not None:
        raise Conflict(f"Other jobs keep creating branch '{name}'.", hint="Try again in a minute.")
    # Always lists anew: only what is in the directory now shows a second job.
    _check_one_start(location, name)
    return None if remains is None else remains.discarded


@dataclass(frozen=True)
class _Remains:
    """What was in the way of a new branch, and is gone now."""

    discarded: str | None
    """The newest version of a deleted branch that could have been restored; None for a killed creation."""


def _make(location: DatasetLocation, name: str, pin: core_refs.PinnedVersion) -> _Remains | None:
    """Create a branch; returns the remains of a killed creation or of a deletion instead, if they were in the way.

    pylance lists the directory, and creates no branch where versions are. So the remains need no listing beforehand.
    """
    try:
        refs.create_branch(location, name, pin)
    except PermissionDenied as denied:
        raise (denied.saying(_take_back(location, name, denied)) if denied.of_change else denied) from None
    except (AlreadyExists, Conflict, NotFound, StorageFailure):
        # The loser of a race to create a branch gets one of four errors, depending on how far the winner was.
        if refs.read_branch(location, name) is not None:
            _check_one_start(location, name)
            raise _made_meanwhile(f"Branch '{name}'") from None
        check_new(location, name)
        drop_attempt(location, name, pin.version)
        remains = _clear_remains(location, name)
        if remains is None:
            raise
        return remains
    return None


def _take_back(location: DatasetLocation, name: str, denied: PermissionDenied) -> str:
    """Remove what a denied creation left behind; returns the note for its error.

    If the ref file was denied, the first manifest was already written. It belongs to this process: pylance never
    overwrites a manifest, so no other process can have created the branch.
    """
    if denied.before_commit or refs.is_taken(location, name):
        return UNCHANGED
    files_of = f"files in {location.branch_uri(name)}"
    return left_after(lambda: drop_files(location, name), files_of, f"creating '{name}' again removes them")


def _check_one_start(location: DatasetLocation, name: str) -> None:
    """Raise Conflict if two jobs created the branch from different versions at the same time.

    pylance writes the first manifest before the ref file. Then both manifests lie in the branch's directory, and
    the branch created from version 1 shows the rows of version 2. The later job sees both and raises.
    """
    starts = refs.branch_starts(location, name)
    if len(starts) > 1:
        versions = " and ".join(str(version) for version in starts)
        raise Conflict(
            f"Branch '{name}' was created from version {versions} at the same time and holds both.",
            hint="Delete it and create it again.",
        )


def check_new(location: DatasetLocation, name: str) -> None:
    """Raise InvalidName, AlreadyExists or Refused unless a branch of that name can be created.

    Asks for the ref file by its name: pylance finds a ref whose directory is lost only once it has filled that again.
    """
    branch = refs.read_branch(location, name)
    ref_rules.check_create_branch(core_refs.RefTable({} if branch is None else {name: branch}, {}), name)
    refs.check_spelling(location, name)


def _clear_remains(location: DatasetLocation, name: str) -> _Remains | None:
    """Remove the remains of a killed creation of the branch, or of a deletion that was undoable; None for none.

    Creating a branch of that name discards the one that could be restored. Raises AlreadyExists for what may be
    something else.
    """
    names = files.list_names(location, versions_directory(name))
    if not names:
        return None
    if give_up_name(location, name):
        newest = max((found.version for each in names if (found := read_manifest_name(each)) is not None), default=0)
        return _Remains(f"{name}@{newest}")
    if clear_unfinished(location, name):
        return _Remains(None)
    raise AlreadyExists(
        f"The directory of branch '{name}' is still there, without its ref file.",
        hint="Another job may be creating it right now, or was killed at it: try again in a minute. If that does "
        f"not help, make sure that nothing needs {location.branch_uri(name)}, and remove it.",
    )


def delete_branch(location: DatasetLocation, name: str, force: bool = False) -> None:
    """Delete a branch and its own files. Raises NotFound, or Refused if something else needs it.

    ``force`` deletes one that has the changes of a branch of the lake: only its owner knows that this is over.
    """
    check_branch_name(name)
    table = refs.read_refs(location)
    check_branch_to_delete(location, table, name, force)
    with unchanged():
        _hand_on(location, table, name)
        drop_ref(location, name, partial(check_unneeded, location, table.branches[name], force))
    drop_files(location, name)


def _hand_on(location: DatasetLocation, table: core_refs.RefTable, name: str) -> None:
    """Let other branches keep what the ref of a branch to be deleted says about main."""
    for other, metadata in handed_on(table.branches, name).items():
        refs.replace_metadata(location, other, metadata)


def check_branch_to_delete(location: DatasetLocation, table: core_refs.RefTable, name: str, force: bool) -> None:
    """Raise NotFound, or Refused for a branch that something needs, or that is a ref of the lake."""
    if name in table.branches:
        ref_rules.check_no_lake_ref(location.uri, name, "deleted")
    ref_rules.check_delete_branch(table, name, force)


def check_may_remove(location: DatasetLocation, name: str) -> None:
    """Raise Refused if anything but a branch of the lake needs the branch, and NotFound if there is none."""
    ref_rules.check_delete_branch(refs.read_refs(location), name, force=True)


def remove_branch(location: DatasetLocation, name: str, purge: bool = False, force: bool = False) -> None:
    """Delete a branch so that it can be restored, or with ``purge`` for good.

    A branch that follows a remote's goes for good: the next fetch creates it again. Raises as :func:`delete_branch`.
    """
    check_branch_name(name)
    ref = refs.read_branch(location, name)
    newest = None if ref is None or force else find_latest(location, name)
    if newest is not None:
        check_nothing_waits(location, newest, "whoever deletes the branch deletes them")
    keeps = not purge and (ref is None or read_follows(ref) is None)
    (set_aside_branch if keeps else delete_branch)(location, name, force)


def set_aside_branch(location: DatasetLocation, name: str, force: bool = False) -> None:
    """Delete a branch but keep its files for a while, so that it can be restored; see ``refs.reflog``.

    Raises the errors of :func:`delete_branch`.
    """
    check_branch_name(name)
    table = refs.read_refs(location)
    check_branch_to_delete(location, table, name, force)
    _hand_on(location, table, name)
    if not keep_aside(location, name, partial(check_unneeded, location, table.branches[name], force)):
        raise missing("branch", name, table.branches)


def keep_aside(location: DatasetLocation, name: str, check: Callable[[], None] | None = None) -> bool:
    """Remove a branch's ref file and record it, with what restores it; False without a ref file.

    ``check`` is called as by :func:`drop_ref`. The caller has decided that the branch can go.
    """
    content = files.read(location, ref_file(BRANCHES, name))
    if content is None:
        return False
    if not files.list_names(location, versions_directory(name)):
        drop_branch(location, name, check)  # nothing of it could be restored
        return True
    with recorded(location, keep_deleted(location, name, content.decode())):
        drop_ref(location, name, check)
    return True


def check_unneeded(location: DatasetLocation, branch: core_refs.Branch, force: bool = False) -> None:
    """Raise Refused if something needs a branch whose ref file is already gone.

    Since the first check, another branch may have been created from it, or a tag of a merge by reference.
    """
    now = refs.read_ref_files(location)
    ref_rules.check_delete_branch(
        core_refs.RefTable({**now.branches, branch.name: branch}, now.tags), branch.name, force
    )


# --- Listing, creating, moving and deleting tags


def list_tags(location: DatasetLocation, everything: bool = False) -> TagList:
    """Tags, by name; ``everything`` includes those that clones, merges, streams, frozen sets and the lake need.

    Raises NotFound without a dataset, CorruptData for an unreadable one or an unreadable ref file.
    """
    open_latest(location)
    return listed_tags(refs.read_tags(location, refs.list_ref_names(location, TAGS)), everything)


def find_tag(location: DatasetLocation, name: str) -> core_refs.Tag | None:
    """One tag; None if it does not exist. Raises CorruptData."""
    return refs.read_tag(location, name)


def cloned_by(location: DatasetLocation, tag: str) -> str | None:
    """The URI of the clone that a tag protects; None if no note records it. Raises CorruptData."""
    from lance_spark.survey.survey import recorded_clones  # imports pyarrow, which would slow every command down

    return next((uri for record, uri in recorded_clones(location).items() if tag.startswith(record)), None)


def create_tag(location: DatasetLocation, name: str, target: core_refs.RefSpec) -> core_refs.Tag:
    """Create a tag. Raises InvalidName, AlreadyExists (tags never move silently) or NotFound for the target."""
    check_new_tag_name(name)
    ref_rules.check_create_tag(core_refs.RefTable({}, refs.read_tags(location, [name])), name)
    pin = resolve(location, target)
    create_tag_at(location, name, pin)
    return core_refs.Tag(name, pin.branch, pin.version)


def create_tag_at(location: DatasetLocation, name: str, pin: core_refs.PinnedVersion) -> None:
    """Create a tag of a name that was just looked up and is free. Raises Conflict if it has been taken meanwhile."""
    try:
        with unchanged():
            refs.create_tag(location, name, pin)
    except Conflict:
        raise _made_meanwhile(f"Tag '{name}'", Conflict) from None


def _made_meanwhile(what: str, error: type[LanceSparkError] = AlreadyExists) -> LanceSparkError:
    """A ref was free a moment ago, and is not now. pylance puts nothing of a caller's into a ref that it creates."""
    return error(
        f"{what} has just been created: by another job, or by this call, if the store's answer to it was lost.",
        hint="If no other job creates refs of that name, use it as it is; otherwise take another name.",
    )


def _beside(location: DatasetLocation, name: str) -> core_refs.RefTable:
    """A tag, with what the rules look at besides: the tag on the plan of a frozen set of that name.

    Without such a tag, all refs, for a hint with near names. Raises NotFound without a dataset.
    """
    tags = refs.read_tags(location, [name, plan_tag(name)])
    return core_refs.RefTable({}, tags) if name in tags else refs.read_refs(location)


def gone_clone(location: DatasetLocation, name: str) -> str | None:
    """The URI of the clone that is recorded under a name and does not exist; None if it exists, or for other names.

    Raises StorageFailure if its place cannot be read: what cannot be reached is not gone.
    """
    from lance_spark.survey.survey import recorded_clones

    uri = recorded_clones(location).get(name) if is_own_tag(name) else None
    if uri is None or files.list_names(locate(uri, location.storage_options), "_versions"):
        return None
    return uri


def check_tag_to_delete(location: DatasetLocation, name: str, force: bool) -> core_refs.RefTable:
    """The tag, if it can be deleted. Raises NotFound and Refused; with ``force`` only for a frozen set's tag."""
    check_tag_name(name)
    table = _beside(location, name)
    clone = cloned_by(location, name) if is_own_tag(name) and not is_merge_tag(name) else None
    ref_rules.check_delete_tag(table, name, force, clone)
    return table


def move_tag(location: DatasetLocation, name: str, target: core_refs.RefSpec) -> None:
    """Point an existing tag at another version. Raises NotFound for the tag or the target, Refused for one in use.

    Its former position is recorded, see ``refs.reflog``. A move to the same version is not: a restore would go back
    to that version.
    """
    check_tag_name(name)
    table = _beside(location, name)
    ref_rules.check_move_tag(table, name)
    pin = resolve(location, target)
    if table.tags[name].target.reference == pin.reference:
        refs.move_tag(location, name, pin)  # even at the same version: the tag is rewritten and expires later
        return
    with recorded(location, tag_change(location, name, table.tags[name], pin)):
        refs.move_tag(location, name, pin)


def delete_tag(location: DatasetLocation, name: str, force: bool = False) -> None:
    """Delete a tag. Raises NotFound, and Refused for one that something relies on; see :func:`check_tag_to_delete`.

    With ``force`` and the name of a clone that is gone, everything goes that protects versions for it. The former
    position of any other tag is recorded, see ``refs.reflog``.
    """
    if force and gone_clone(location, name) is not None:
        from lance_spark.survey.clone_records import release

        release(location, name)
        return
    table = check_tag_to_delete(location, name, force)
    if is_own_tag(name):
        refs.delete_tag(location, name)
        return
    with recorded(location, tag_change(location, name, table.tags[name], None)):
        refs.delete_tag(location, name)


# --- Settings of branches and tags: lifetime, owner, protection

Settings = Mapping[str, object]


def check_settings(settings: Settings, tag: bool = False) -> None:
    """Raise InvalidOption for settings that a new branch or tag cannot have."""
    changed_metadata({}, settings, tag=tag)


def branch_lifetime(location: DatasetLocation, branch: str | None) -> Lifetime:
    """The recorded settings of a branch (None for main). Raises NotFound, CorruptData."""
    check_branch(location, branch)
    return read_lifetime(refs.read_metadata(location, branch) or {})


def alter_branch(
    location: DatasetLocation,
    branch: str | None,
    settings: Settings,
    unset: str | Sequence[str] = (),
    dry_run: bool = False,
) -> Lifetime:
    """Set and remove settings of a branch (None for main); returns all its settings after that.

    Raises InvalidOption, NotFound, and Refused for main, which cannot expire, and for a branch that follows a remote's.
    """
    open_latest(location)
    check_branch(location, branch)
    check_own(location, branch)
    before = refs.read_metadata(location, branch) or {}
    after = changed_metadata(before, settings, names_of(unset))
    if branch is None and EXPIRE_AFTER in after:
        raise Refused(
            f"Branch '{core_refs.MAIN}' cannot expire: it is the dataset.",
            hint="You can set retain_versions, owner and protected.",
        )
    if after == before or dry_run:
        return read_lifetime(after)
    if branch is None:
        refs.replace_main(location, after)
    else:
        refs.replace_metadata(location, branch, after)
    return read_lifetime(after)


def alter_tag(
    location: DatasetLocation, tag: str, settings: Settings, unset: str | Sequence[str] = (), dry_run: bool = False
) -> Lifetime:
    """Set and remove settings of a tag; returns all its settings after that.

    Raises InvalidOption, NotFound, and Refused for a tag that a frozen set, a clone, a merge or a stream relies on.
    """
    table = _beside(location, tag)
    known = table.tags.get(tag)
    if known is None:
        raise missing("tag", tag, table.tags)
    after = changed_metadata(known.metadata, settings, names_of(unset), tag=True)
    if EXPIRE_AFTER in after and after.get(EXPIRE_AFTER) != known.metadata.get(EXPIRE_AFTER):
        ref_rules.check_tag_stays(table, tag)
        _check_no_service(tag)
    if after != known.metadata and not dry_run:
        refs.replace_tag_metadata(location, tag, after)
    return read_lifetime(after)


def _check_no_service(tag: str) -> None:
    """Raise Refused for a tag that must stay as long as something else exists, whatever its age."""
    if is_stream_tag(tag):
        raise Refused(
            f"Tag '{tag}' cannot expire: a streaming query continues from it.",
            hint=hints.of("Once that query is over: ", hints.delete_tag(tag, force=True), "."),
        )
    if (lake_tag := lake_tag_of(tag)) is not None:
        raise Refused(
            f"Tag '{tag}' cannot expire: tag or branch '{lake_tag}' of the lake pins this version.",
            hint=hints.of("Delete that: ", hints.delete_lake_ref("tag", lake_tag), "."),
        )
    if is_service_tag(tag):
        raise Refused(
            f"Tag '{tag}' cannot expire: it protects what a clone or another branch reads, as long as that exists.",
            hint="Delete the clone or the branch; or delete the tag once nothing needs it.",
        )


# --- Renaming branches


def check_rename(location: DatasetLocation, old: str, new: str) -> core_refs.Branch:
    """The branch to rename. Raises NotFound, InvalidName, AlreadyExists, and Refused if a rename is not safe.

    A branch's files lie below ``tree/<name>``, and the manifests of the branch, its children and clones name
    that path. pylance cannot move them. A branch without versions of its own has nothing there that a manifest
    could name, so it can be created again under another name.
    """
    if old == core_refs.MAIN:
        raise Refused(
            "Branch 'main' cannot be renamed.",
            hint=hints.of("Create a branch from it: ", hints.create_branch("NAME", core_refs.MAIN), "."),
        )
    check_branch_name(old)
    check_new_branch_name(new)
    table = refs.read_refs(location)
    if old in table.branches:
        ref_rules.check_no_lake_ref(location.uri, old, "renamed")
    try:
        ref_rules.check_delete_branch(table, old)
    except Refused as problem:
        raise Refused(problem.message.replace("cannot be deleted", "cannot be renamed"), hint=problem.hint) from None
    if new in table.branches:
        raise AlreadyExists(f"Branch '{new}' already exists.", hint="Choose another name, or delete it first.")
    refs.check_spelling(location, new)
    branch = table.branches[old]
    if not only_lifetime(branch.metadata):
        raise Refused(
            f"Branch '{old}' cannot be renamed: its ref file holds metadata, which would be lost.",
            hint=_otherwise(old, new),
        )
    _check_untouched(location, old, new)
    newest = datasets.pin_latest(location, old)
    check_nothing_waits(location, newest, "they lie below the old name, and would go with it")
    _fork(location, branch, new)
    return branch


def rename_branch(location: DatasetLocation, old: str, new: str) -> core_refs.Branch:
    """Create the branch again under a new name and delete the old one; returns the new branch.

    Raises the errors of :func:`check_rename`, and Conflict if another process wrote to the old branch meanwhile; then
    nothing has changed. An interrupted rename leaves both names, with the same rows.
    """
    branch = check_rename(location, old, new)
    created = create_branch_at(location, new, _fork(location, branch, new))
    if branch.metadata:
        refs.replace_metadata(location, new, branch.metadata)
        created = replace(created, metadata=branch.metadata)
    try:
        _check_untouched(location, old, new)
        ref_rules.check_delete_branch(refs.read_refs(location), old)
        drop_branch(location, old, partial(check_unneeded, location, branch))
    except (Refused, NotFound) as problem:
        drop_branch(location, new)
        raise Conflict(
            f"Branch '{old}' was changed during the rename and keeps its name: {problem.message}",
            hint=problem.hint,
        ) from None
    return created


def _check_untouched(location: DatasetLocation, old: str, new: str) -> None:
    own = datasets.list_version_numbers(location, old)
    if len(own) > 1:
        raise Refused(
            f"Branch '{old}' cannot be renamed: it has {len(own) - 1} versions of its own, and their files "
            f"lie below tree/{old}.",
            hint=_otherwise(old, new),
        )


def _fork(location: DatasetLocation, branch: core_refs.Branch, new: str) -> core_refs.PinnedVersion:
    """The version that the branch was created from; the new one is created from it."""
    try:
        return datasets.pin_version(location, branch.parent_branch, branch.parent_version)
    except NotFound:
        fork = core_refs.PinnedVersion(branch.parent_branch, branch.parent_version)
        raise Refused(
            f"Branch '{branch.name}' cannot be renamed: {fork}, from which it was created, was cleaned up.",
            hint=_otherwise(branch.name, new),
        ) from None


def _otherwise(old: str, new: str) -> str:
    return f"Create a branch on top of it: lance-git branch {new} {old}. Both names then stay."


# --- The branches' own versions, files and bytes, from one listing


@dataclass(frozen=True)
class OwnFiles:
    versions: tuple[int, ...] = ()
    """Numbers of its versions, ascending; the first is the one it was created with."""
    files: int = 0
    bytes: int = 0


def own_files(location: DatasetLocation, branches: Collection[str]) -> dict[str, OwnFiles]:
    """The own files of each of the branches, by name; main is not among them.

    ``branches`` are all branches of the dataset: the directory of ``a/b`` lies inside that of ``a``.
    """
    from lance_spark.storage.listing import list_range  # pulls in pyarrow, for which commands do not wait

    names = {f"tree/{name}": name for name in branches}
    owners = Roots(names)
    versions: dict[str, list[int]] = {name: [] for name in branches}
    files, sizes = dict.fromkeys(branches, 0), dict.fromkeys(branches, 0)
    for batch in list_range(location, KeyRange.below("tree")):
        for path, size in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True):
            root = owners.owner(path)
            if root not in names:
                continue  # left behind by a deleted branch
            name = names[root]
            files[name] += 1
            sizes[name] += size
            versions[name] += _version(path[len(root) + 1 :])
    return {name: OwnFiles(tuple(sorted(versions[name])), files[name], sizes[name]) for name in branches}


def _version(path: str) -> list[int]:
    directory, _, name = path.rpartition("/")
    read = read_manifest_name(name) if directory == "_versions" else None
    return [] if read is None or read.detached else [read.version]
