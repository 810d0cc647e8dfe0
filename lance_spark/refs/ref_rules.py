"""Checks whether a change to branches or tags is allowed, before storage is touched. Each refusal has a hint. Pure."""

from __future__ import annotations

from lance_spark import hints
from lance_spark.core.ref_names import (
    LAKE_TABLE,
    LAKE_TAGS,
    check_new_branch_name,
    check_new_tag_name,
    is_dataset_directory,
    is_lake_tag,
    is_merge_tag,
    is_own_tag,
    is_service_tag,
    is_stream_tag,
    lake_branch_of,
    lake_tag_of,
    missing,
    plan_branch,
    plan_tag,
)
from lance_spark.core.refs import MAIN, RefTable
from lance_spark.core.texts import counted
from lance_spark.errors import AlreadyExists, Refused


def check_create_branch(refs: RefTable, name: str) -> None:
    """Raise InvalidName or AlreadyExists unless a branch of that name can be created."""
    check_new_branch_name(name)
    if name in refs.branches:
        raise AlreadyExists(
            f"Branch '{name}' already exists.",
            hint=hints.of("To start again, delete it first: ", hints.delete_branch(name), "."),
        )


def check_delete_branch(refs: RefTable, name: str, force: bool = False) -> None:
    """Raise NotFound, or Refused if another branch, a tag, or without ``force`` a branch of the lake needs the branch.

    A branch's name is the path of its directory. pylance 14.0.2 deletes ``a`` while ``a/b`` exists but leaves the
    files of ``a`` behind forever: no cleanup removes them, and creating ``a`` again fails with an internal error. So
    nested branches must be deleted first. See https://github.com/lance-format/lance/issues/7185 on names tied to paths.
    """
    if name not in refs.branches:
        raise missing("branch", name, refs.branches)
    if name.startswith(MAIN + "/"):
        raise Refused(
            f"Branch '{name}' cannot be deleted: pylance would delete the whole dataset with it.",
            hint=f"Delete its ref file and the directory tree/{name} by hand.",
        )
    for other in (name[:at] for at, letter in enumerate(name) if letter == "/"):
        if other in refs.branches and is_dataset_directory(name[len(other) + 1 :].partition("/")[0]):
            raise Refused(
                f"Branch '{name}' cannot be deleted: its directory lies among the files of branch '{other}'.",
                hint="Delete its ref file and its own files by hand.",
            )
    lake_branch = None if force else lake_branch_of(name)
    if lake_branch is not None:
        raise Refused(
            f"Branch '{name}' cannot be deleted: it has the changes that branch '{lake_branch}' of the lake made.",
            hint=hints.of(
                "Delete that: ",
                hints.delete_lake_ref("branch", lake_branch),
                ". If it is gone already: ",
                hints.delete_branch(name, force=True),
                ".",
            ),
        )
    if refs.branches[name].lifetime.protected:
        raise Refused(
            f"Branch '{name}' cannot be deleted: it is protected.",
            hint=hints.of("To delete it anyway: ", hints.unprotect_branch(name), "."),
        )
    children = sorted(branch.name for branch in refs.created_from.get(name, ()))
    if children:
        sets = [child.removeprefix(plan_branch("")) for child in children if child.startswith(plan_branch(""))]
        raise Refused(
            f"Branch '{name}' cannot be deleted: {_names(children)} was created from it and reads its files.",
            hint=hints.of(f"Delete {_names(children)} first.", *([" ", _unfreeze(sets[0])] if sets else [])),
        )
    _check_tags(refs, name)
    nested = refs.branches_below(name)
    if nested:
        raise Refused(
            f"Branch '{name}' cannot be deleted: its directory also holds branch {_names(nested)}, "
            "so its files would be left behind.",
            hint=f"Delete {_names(nested)} first.",
        )


def _check_tags(refs: RefTable, name: str) -> None:
    """Raise Refused if a tag points at one of the branch's versions."""
    tags = sorted(tag.name for tag in refs.tags_on.get(name, ()))
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
            hint=hints.of("Once no version reads them: ", hints.delete_tag(merged[0], force=True), "."),
        )
    clones = [tag for tag in tags if is_own_tag(tag)]
    if clones:
        raise Refused(
            f"Branch '{name}' cannot be deleted, as clones read its files: so "
            f"{counted(len(clones), 'tag says', 'tags say')}, such as {_names(clones[:1])}.",
            hint=hints.of(
                "Once the clones are gone, or no longer need the branch: ",
                hints.delete_tag(clones[0], force=True),
                "." if len(clones) == 1 else ", and so on.",
            ),
        )
    if tags:
        raise Refused(
            f"Branch '{name}' cannot be deleted: tag {_names(tags)} points at it.",
            hint=f"Delete or move tag {_names(tags)} first.",
        )


def check_create_tag(refs: RefTable, name: str) -> None:
    """Raise InvalidName or AlreadyExists unless a tag of that name can be created: tags never move silently."""
    check_new_tag_name(name)
    if name in refs.tags:
        raise AlreadyExists(
            f"Tag '{name}' already exists, at version {refs.tags[name].version}.",
            hint=hints.of("To point it at another version: ", hints.move_tag(name), "."),
        )


def check_no_lake_ref(dataset: str, name: str, verb: str) -> None:
    """Raise Refused for a branch of a catalog's own table ``__manifest``, which is a branch or a tag of the lake."""
    if not is_catalog_table(dataset):
        return
    kind = "tag" if name.startswith(LAKE_TAGS) else "branch"
    lake_ref = name.removeprefix(LAKE_TAGS)
    raise Refused(
        f"Branch '{name}' cannot be {verb}: in a catalog's own table it is {kind} '{lake_ref}' of the lake, and the "
        "tables would keep what it pins.",
        hint=hints.of("Delete it as such: ", hints.delete_lake_ref(kind, lake_ref), "."),
    )


def is_catalog_table(dataset: str) -> bool:
    """Whether a dataset, by its URI, is the table ``__manifest`` of a catalog."""
    return dataset.rpartition("/")[2] == LAKE_TABLE


def check_existing_tag(refs: RefTable, name: str) -> None:
    """Raise NotFound unless the tag exists."""
    if name not in refs.tags:
        raise missing("tag", name, refs.tags)


def frozen_set_of(refs: RefTable, name: str) -> str | None:
    """The frozen set that a tag belongs to, whether it marks the set's rows or its plan."""
    if _is_of_plan(refs, name):
        return name.removeprefix(plan_tag(""))
    return name if _is_of_plan(refs, plan_tag(name)) else None


def check_tag_stays(refs: RefTable, name: str) -> None:
    """Raise Refused for a tag of a frozen set. Changing it would lose the set or its rows, or give it other rows."""
    set_name = frozen_set_of(refs, name)
    if set_name is not None:
        raise Refused(
            f"Tag '{name}' was not changed: it belongs to the frozen set '{set_name}'.", hint=_unfreeze(set_name)
        )


def check_delete_tag(refs: RefTable, name: str, force: bool, clone: str | None = None) -> None:
    """Raise NotFound, or Refused for a tag that something relies on; see :func:`check_tag_stays`.

    ``force`` deletes the tags of clones, merges, streams and tags of the lake: only their owners know that these are
    over. ``clone`` is the URI of the clone that the tag protects, if a note records it.
    """
    check_existing_tag(refs, name)
    check_tag_stays(refs, name)
    if force or not is_service_tag(name):
        return
    way = hints.delete_tag(name, force=True)
    if is_stream_tag(name):
        raise Refused(
            f"Tag '{name}' was not deleted: a streaming query continues from it.",
            hint=hints.of("Once that query is over: ", way, "."),
        )
    if is_merge_tag(name):
        raise Refused(
            f"Tag '{name}' was not deleted: since a merge by reference, another branch reads what it protects.",
            hint=hints.of("Once no version reads that: ", way, "."),
        )
    if (lake_tag := lake_tag_of(name)) is not None:
        raise Refused(
            f"Tag '{name}' was not deleted: tag or branch '{lake_tag}' of the lake pins this version.",
            hint=hints.of(
                "Delete that: ", hints.delete_lake_ref("tag", lake_tag), ". If it is gone already: ", way, "."
            ),
        )
    raise Refused(
        f"Tag '{name}' protects what {'a clone' if clone is None else f'the clone at {clone}'} needs of "
        f"{refs.tags[name].target}.",
        hint=hints.of("If that clone is gone for good: ", way, "."),
    )


def check_move_tag(refs: RefTable, name: str) -> None:
    """Raise NotFound, or Refused for a tag whose current position something relies on."""
    check_existing_tag(refs, name)
    check_tag_stays(refs, name)
    if is_service_tag(name):
        kinds = ((is_stream_tag, "a streaming query"), (is_merge_tag, "a merge"), (is_lake_tag, "a ref of the lake"))
        whose = next((who for is_of, who in kinds if is_of(name)), "a clone")
        raise Refused(
            f"Tag '{name}' was not moved: {whose} needs it where it is.",
            hint=hints.of("Make another tag: ", hints.create_tag("NAME"), "."),
        )


def _is_of_plan(refs: RefTable, name: str) -> bool:
    """Whether a tag belongs to the plan of a frozen set."""
    tag, set_name = refs.tags.get(name), name.removeprefix(plan_tag(""))
    return tag is not None and set_name != name and tag.branch == plan_branch(set_name)


def _unfreeze(name: str) -> str:
    return hints.of(hints.unfreeze(name), f" deletes the frozen set '{name}'; its rows stay where they are.")


def _names(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
