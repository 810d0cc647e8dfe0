"""Listing, creating and deleting branches."""

from __future__ import annotations

from functools import partial

from lance_spark.actions.denied import UNCHANGED, left_after, unchanged
from lance_spark.actions.reflog import give_up_name, keep_deleted, recorded
from lance_spark.actions.resolve import resolve
from lance_spark.errors import AlreadyExists, Conflict, NotFound, PermissionDenied, StorageFailure
from lance_spark.layout.names import versions_directory
from lance_spark.location import DatasetLocation
from lance_spark.refs.edit import check_create_branch, check_delete_branch
from lance_spark.refs.listing import BranchList, listed_branches
from lance_spark.refs.model import Branch, PinnedVersion, RefSpec, RefTable
from lance_spark.refs.names import check_branch_name, check_new_branch_name
from lance_spark.refs.parse import BRANCHES, ref_file
from lance_spark.refs.resolve import missing
from lance_spark.store import files, refs
from lance_spark.store.dropping import drop_files, drop_ref
from lance_spark.store.unfinished import clear_unfinished


def list_branches(location: DatasetLocation, everything: bool = False) -> BranchList:
    """Branches except for main, by name; ``everything`` includes the plans of frozen sets."""
    return listed_branches(refs.read_refs(location), everything)


def find_branch(location: DatasetLocation, name: str) -> Branch | None:
    """One branch; None where it does not exist. Raises CorruptData."""
    return refs.read_branch(location, name)


def create_branch(location: DatasetLocation, name: str, source: RefSpec) -> Branch:
    """Create a branch at the version the source names. Raises InvalidName, AlreadyExists, NotFound."""
    check_new_branch_name(name)
    return create_branch_at(location, name, resolve(location, source))


def create_branch_at(location: DatasetLocation, name: str, pin: PinnedVersion) -> Branch:
    """Create a branch at a version.

    Raises InvalidName or AlreadyExists; the latter also when a deleted branch left its directory behind, where
    pylance only reports an internal error.
    """
    _check_free(location, name)
    try:
        refs.create_branch(location, name, pin)
    except PermissionDenied as denied:
        raise (denied.saying(_take_back(location, name, denied)) if denied.of_change else denied) from None
    except (AlreadyExists, Conflict, NotFound, StorageFailure):
        # Whoever loses the race to create a branch is told one of four things, by how far the winner was.
        if refs.read_branch(location, name) is not None:
            _check_one_start(location, name)
        _check_free(location, name)
        raise
    created = refs.read_branch(location, name)
    if created is None:
        raise AlreadyExists(f"Branch '{name}' was deleted while it was created.", hint="Create it again.")
    _check_one_start(location, name)
    return created


def _take_back(location: DatasetLocation, name: str, denied: PermissionDenied) -> str:
    """Remove what a creation made that was denied; returns what is to be said of it.

    Where the ref file was refused, the first manifest was written. It is this process's own, as pylance writes no
    manifest over another one: nobody else can have made the branch.
    """
    if denied.before_commit or refs.read_branch(location, name) is not None:
        return UNCHANGED
    files_of = f"files in {location.branch_uri(name)}"
    return left_after(lambda: drop_files(location, name), files_of, f"whoever creates '{name}' next clears them")


def _check_one_start(location: DatasetLocation, name: str) -> None:
    """Raise Conflict when two jobs created the branch from different versions at the same time.

    pylance writes the first manifest before the ref file. Then both manifests lie in the branch's directory, and
    the branch made from version 1 shows the rows of version 2. Whoever comes last sees both and says so.
    """
    starts = refs.branch_starts(location, name)
    if len(starts) > 1:
        versions = " and ".join(str(version) for version in starts)
        raise Conflict(
            f"Branch '{name}' was created from version {versions} at the same time and holds both.",
            hint="Delete it and create it again.",
        )


def check_new(location: DatasetLocation, name: str) -> None:
    """Raise InvalidName or AlreadyExists unless a branch of that name may be created."""
    branch = refs.read_branch(location, name)
    check_create_branch(RefTable({} if branch is None else {name: branch}, {}), name)


def _check_free(location: DatasetLocation, name: str) -> None:
    """As check_new. Also removes what a killed creation of the branch left behind, or a deletion that was undoable.

    Whoever makes a branch of the same name gives up what can be restored, as before there was anything to restore.
    """
    check_new(location, name)
    left = bool(files.list_names(location, versions_directory(name)))
    if left and not give_up_name(location, name) and not clear_unfinished(location, name):
        raise AlreadyExists(
            f"The directory of branch '{name}' is still there, without its ref file.",
            hint="Another job may be creating it right now, or was killed at that: try again in a minute. If that does "
            f"not help, remove {location.branch_uri(name)} after checking that nothing needs it.",
        )


def delete_branch(location: DatasetLocation, name: str) -> None:
    """Delete a branch and its own files. Raises NotFound, or Refused when something else needs it."""
    check_branch_name(name)
    table = refs.read_refs(location)
    check_delete_branch(table, name)
    with unchanged():
        drop_ref(location, name, partial(check_unneeded, location, table.branches[name]))
    drop_files(location, name)


def set_aside_branch(location: DatasetLocation, name: str) -> None:
    """Delete a branch so that it can be restored for a while: its files stay, see ``actions.reflog``.

    Raises as :func:`delete_branch`.
    """
    check_branch_name(name)
    table = refs.read_refs(location)
    check_delete_branch(table, name)
    content = files.read(location, ref_file(BRANCHES, name))
    if content is None:
        raise missing("branch", name, table.branches)
    with recorded(location, keep_deleted(location, name, content.decode())):
        drop_ref(location, name, partial(check_unneeded, location, table.branches[name]))


def check_unneeded(location: DatasetLocation, branch: Branch) -> None:
    """Raise Refused when something needs a branch, whose ref file is gone by now.

    Another branch made from it, or a tag of a merge by reference, may have come since the first look.
    """
    now = refs.read_ref_files(location)
    check_delete_branch(RefTable({**now.branches, branch.name: branch}, now.tags), branch.name)
