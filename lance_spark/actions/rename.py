"""Renaming a branch, where that can be done without moving anything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lance_spark import hints
from lance_spark.actions.branches import check_unneeded, create_branch_at
from lance_spark.errors import AlreadyExists, Conflict, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.edit import check_delete_branch
from lance_spark.refs.lifetime import only_lifetime
from lance_spark.refs.model import Branch, PinnedVersion
from lance_spark.refs.names import MAIN, check_branch_name, check_new_branch_name
from lance_spark.store import datasets, refs
from lance_spark.store.dropping import drop_branch


def check_rename(location: DatasetLocation, old: str, new: str) -> Branch:
    """The branch to rename. Raises NotFound, InvalidName, AlreadyExists, and Refused where a rename is not safe.

    A branch's files lie below ``tree/<name>``, and the manifests of the branch, of its children and of clones name
    that path. pylance cannot move them. A branch without versions of its own has nothing there that anything
    could name, so it can be made again under another name.
    """
    if old == MAIN:
        raise Refused(
            "Branch 'main' cannot be renamed.",
            hint=hints.of("Create a branch from it: ", hints.create_branch("NAME", MAIN), "."),
        )
    check_branch_name(old)
    check_new_branch_name(new)
    table = refs.read_refs(location)
    try:
        check_delete_branch(table, old)
    except Refused as problem:
        raise Refused(problem.message.replace("cannot be deleted", "cannot be renamed"), hint=problem.hint) from None
    if new in table.branches:
        raise AlreadyExists(f"Branch '{new}' already exists.", hint="Choose another name, or delete it first.")
    branch = table.branches[old]
    if not only_lifetime(branch.metadata):
        raise Refused(
            f"Branch '{old}' cannot be renamed: its ref file holds metadata, which would be lost.",
            hint=_otherwise(old, new),
        )
    _check_untouched(location, old, new)
    _fork(location, branch, new)
    return branch


def rename_branch(location: DatasetLocation, old: str, new: str) -> Branch:
    """Make the branch again under a new name and delete the old one; returns the new branch.

    Raises as :func:`check_rename`; Conflict when another process wrote to the old branch meanwhile; then nothing has
    changed. An interrupted rename leaves both names, with the same rows.
    """
    branch = check_rename(location, old, new)
    created = create_branch_at(location, new, _fork(location, branch, new))
    if branch.metadata:
        refs.replace_metadata(location, new, branch.metadata)
        created = replace(created, metadata=branch.metadata)
    try:
        _check_untouched(location, old, new)
        check_delete_branch(refs.read_refs(location), old)
        drop_branch(location, old, partial(check_unneeded, location, branch))
    except (Refused, NotFound) as problem:
        drop_branch(location, new)
        raise Conflict(
            f"Branch '{old}' was changed while it was renamed, and keeps its name: {problem.message}",
            hint=problem.hint,
        ) from None
    return created


def _check_untouched(location: DatasetLocation, old: str, new: str) -> None:
    own = datasets.list_version_numbers(location, old)
    if len(own) > 1:
        raise Refused(
            f"Branch '{old}' cannot be renamed: {len(own) - 1} of its versions were written to it, and their files "
            f"lie below tree/{old}.",
            hint=_otherwise(old, new),
        )


def _fork(location: DatasetLocation, branch: Branch, new: str) -> PinnedVersion:
    """The version the branch was made from, from which the new one is made as well."""
    try:
        return datasets.pin_version(location, branch.parent_branch, branch.parent_version)
    except NotFound:
        fork = PinnedVersion(branch.parent_branch, branch.parent_version)
        raise Refused(
            f"Branch '{branch.name}' cannot be renamed: {fork}, from which it was made, was cleaned up.",
            hint=_otherwise(branch.name, new),
        ) from None


def _otherwise(old: str, new: str) -> str:
    return f"Make a branch on top of it: lance-git branch {new} {old}. Both names then stay."
