"""Whether a change to branches or tags may happen: refusals with a way out, before storage is touched."""

from __future__ import annotations

from lance_spark.errors import AlreadyExists, Refused
from lance_spark.refs.model import RefTable
from lance_spark.refs.names import (
    MAIN,
    check_new_branch_name,
    check_new_tag_name,
    is_dataset_directory,
    is_merge_tag,
    is_own_tag,
    plan_branch,
    plan_tag,
)
from lance_spark.refs.resolve import missing


def check_create_branch(refs: RefTable, name: str) -> None:
    """Raise InvalidName or AlreadyExists unless a branch of that name may be created."""
    check_new_branch_name(name)
    if name in refs.branches:
        raise AlreadyExists(
            f"Branch '{name}' already exists.",
            hint="To write to it, leave create_branch out; to start again, delete it first.",
        )


def check_delete_branch(refs: RefTable, name: str) -> None:
    """Raise NotFound, or Refused when another branch or a tag needs the branch.

    A branch's name is the path of its directory. pylance 14.0.2 deletes ``a`` while ``a/b`` exists but leaves the
    files of ``a`` for ever: no cleanup takes them, and creating ``a`` again fails with an internal error. So nested
    branches must go first. See https://github.com/lance-format/lance/issues/7185 on names that are bound to paths.
    """
    if name not in refs.branches:
        raise missing("branch", name, refs.branches)
    if name.startswith(MAIN + "/"):
        raise Refused(
            f"Branch '{name}' cannot be deleted: pylance would delete the whole dataset with it.",
            hint=f"Delete its ref file and the directory tree/{name} by hand.",
        )
    for other in refs.branches:
        if name.startswith(other + "/") and is_dataset_directory(name[len(other) + 1 :].partition("/")[0]):
            raise Refused(
                f"Branch '{name}' cannot be deleted: its directory lies among the files of branch '{other}'.",
                hint="Delete its ref file and its own files by hand.",
            )
    if refs.branches[name].lifetime.protected:
        raise Refused(
            f"Branch '{name}' cannot be deleted: it is protected.",
            hint=f"If it has to go: lance-git branch --alter {name} --no-protected, or branches.alter('{name}', "
            "protected=False).",
        )
    children = sorted(branch.name for branch in refs.branches.values() if branch.parent_branch == name)
    if children:
        sets = [child.removeprefix(plan_branch("")) for child in children if child.startswith(plan_branch(""))]
        raise Refused(
            f"Branch '{name}' cannot be deleted: {_names(children)} was created from it and reads its files.",
            hint=f"Delete {_names(children)} first." + (f" {_unfreeze(sets[0])}" if sets else ""),
        )
    _check_tags(refs, name)
    nested = sorted(other for other in refs.branches if other.startswith(name + "/"))
    if nested:
        raise Refused(
            f"Branch '{name}' cannot be deleted: its directory also holds branch {_names(nested)}, "
            "so its files would be left behind.",
            hint=f"Delete {_names(nested)} first.",
        )


def _check_tags(refs: RefTable, name: str) -> None:
    """Raise Refused when a tag is on one of the branch's versions."""
    tags = sorted(tag.name for tag in refs.tags.values() if tag.branch == name)
    for tag in tags:
        if _is_of_plan(refs, tag):
            set_name = tag.removeprefix(plan_tag(""))
            raise Refused(
                f"Branch '{name}' cannot be deleted: it is the plan of the frozen set '{set_name}'.",
                hint=_unfreeze(set_name),
            )
    merged = [tag for tag in tags if is_merge_tag(tag)]
    if merged:
        raise Refused(
            f"Branch '{name}' cannot be deleted: it was merged by reference, so another branch reads its files.",
            hint=f"Delete tag {_names(merged)} once no version reads them any more: see `show`, base paths.",
        )
    clones = [tag for tag in tags if is_own_tag(tag)]
    if clones:
        raise Refused(
            f"Branch '{name}' cannot be deleted: {len(clones)} tags say that clones read its files, such as "
            f"{_names(clones[:1])}.",
            hint="Delete those tags once the clones are gone, or do not need the branch any more.",
        )
    if tags:
        raise Refused(
            f"Branch '{name}' cannot be deleted: tag {_names(tags)} points at it.",
            hint=f"Delete or move tag {_names(tags)} first.",
        )


def check_create_tag(refs: RefTable, name: str) -> None:
    """Raise InvalidName or AlreadyExists unless a tag of that name may be created: tags never move silently."""
    check_new_tag_name(name)
    if name in refs.tags:
        raise AlreadyExists(
            f"Tag '{name}' already exists, at version {refs.tags[name].version}.",
            hint="Use tags.move() to point it at another version.",
        )


def check_existing_tag(refs: RefTable, name: str) -> None:
    """Raise NotFound unless the tag exists."""
    if name not in refs.tags:
        raise missing("tag", name, refs.tags)


def check_tag_stays(refs: RefTable, name: str, to_move: bool) -> None:
    """Raise Refused for a tag that a frozen set is found by: the set would be lost, or have other rows for pylance.

    Without the tag of its rows a set is read all the same, so that one may go.
    """
    if _is_of_plan(refs, name):
        set_name = name.removeprefix(plan_tag(""))
    elif to_move and _is_of_plan(refs, plan_tag(name)):
        set_name = name
    else:
        return
    raise Refused(f"The tag '{name}' belongs to the frozen set '{set_name}'.", hint=_unfreeze(set_name))


def _is_of_plan(refs: RefTable, name: str) -> bool:
    """Whether a tag is that of the plan of a frozen set."""
    tag, set_name = refs.tags.get(name), name.removeprefix(plan_tag(""))
    return tag is not None and set_name != name and tag.branch == plan_branch(set_name)


def _unfreeze(name: str) -> str:
    return f"t.unfreeze('{name}') deletes the frozen set '{name}'; its rows stay where they are."


def _names(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
