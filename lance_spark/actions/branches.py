"""Listing, creating and deleting branches."""

from __future__ import annotations

from lance_spark.actions.resolve import resolve
from lance_spark.errors import AlreadyExists
from lance_spark.location import DatasetLocation
from lance_spark.refs.edit import check_create_branch, check_delete_branch
from lance_spark.refs.model import Branch, RefSpec
from lance_spark.refs.names import check_branch_name
from lance_spark.store import files, refs


def list_branches(location: DatasetLocation) -> list[Branch]:
    """All branches but main, by name."""
    return sorted(refs.read_refs(location).branches.values(), key=lambda branch: branch.name)


def create_branch(location: DatasetLocation, name: str, source: RefSpec) -> Branch:
    """Create a branch at the version the source names.

    Raises InvalidName, AlreadyExists, or NotFound for the source; also AlreadyExists when a deleted branch left
    its directory behind, where pylance only reports an internal error.
    """
    check_create_branch(refs.read_refs(location), name)
    pin = resolve(location, source)
    if files.list_names(location, f"tree/{name}/_versions"):
        raise AlreadyExists(
            f"The directory of branch '{name}' is still there, without its ref file.",
            hint="Another job may be creating it right now. If not, it was left behind: remove "
            f"{location.branch_uri(name)} after checking that nothing needs it, or choose another name.",
        )
    refs.create_branch(location, name, pin)
    created = refs.read_branch(location, name)
    if created is None:
        raise AlreadyExists(f"Branch '{name}' was deleted while it was created.", hint="Create it again.")
    return created


def delete_branch(location: DatasetLocation, name: str) -> None:
    """Delete a branch and its own files. Raises NotFound, or Refused when something else needs it."""
    check_branch_name(name)
    check_delete_branch(refs.read_refs(location), name)
    refs.delete_branch(location, name)
