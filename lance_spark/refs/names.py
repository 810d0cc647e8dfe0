"""Legal names of branches and tags, rule by rule (specification "Branch Name" and "Tag Name")."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from urllib.parse import quote

from lance_spark.errors import InvalidName

MAIN = "main"
"""Name of the main branch wherever a user types or reads one; pylance and this package hold it as None."""

_DATASET_DIRECTORIES = frozenset({"data", "tree"})
_TRANSACTION = re.compile(r"transaction-[0-9a-f]{32}")
_ALIKE = 5
"""Letters that a name has in common with ``clone-...``, so that such a tag is what was meant."""
_MERGE_TAG, _CLONE_TAG = re.compile(r"merged-[0-9a-f]{16}"), re.compile(r"clone-[0-9a-f]{16}(?:-.+)?")
STREAM_TAG, READER_TAG = "stream-", "reader-"
"""What the tags of streaming queries begin with: of those that write to a branch, and of those that read from one."""
_LONGEST = 211
"""Characters a name may take once escaped: with a longer one pylance 14.0.2 makes the branch's directory on a local
disk, fails to write the ref file, and the name can never be used again."""


def branch_or_none(name: str | None) -> str | None:
    """The branch as pylance knows it: None for main. Refuses a name that no branch can have."""
    if name is None or name == MAIN:
        return None
    check_branch_name(name)
    return name


def check_branch_name(name: str) -> None:
    """Raise InvalidName, naming the broken rule, unless the specification allows the branch name."""
    segments = name.split("/")
    _rule(bool(name), "branch", name, "it cannot be empty")
    _rule(not name.startswith("/") and not name.endswith("/"), "branch", name, "it cannot start or end with '/'")
    _rule("//" not in name, "branch", name, "it cannot contain '//'")
    _rule(".." not in name and "\\" not in name, "branch", name, "it cannot contain '..' or '\\'")
    _rule(
        all(_allowed(segment) for segment in segments),
        "branch",
        name,
        "segments between '/' may contain only letters, digits, '.', '-' and '_'",
    )
    _rule("." not in segments, "branch", name, "a segment cannot be '.'")
    _rule(not name.endswith(".lock"), "branch", name, "it cannot end with '.lock'")
    _rule(name != MAIN, "branch", name, "'main' is reserved for the main branch")


def check_new_branch_name(name: str) -> None:
    """As check_branch_name, and refuse a name whose directory would lie inside another branch's own files.

    Branch ``a/data`` lives in ``tree/a/data``, which is where branch ``a`` keeps its data files: deleting one
    would delete the other's. And deleting ``main/x`` makes pylance 14.0.2 delete the whole dataset. The
    specification does not forbid them, so only creation does.
    """
    check_branch_name(name)
    _rule(not name.startswith(MAIN + "/"), "branch", name, "deleting a branch below 'main/' deletes the dataset")
    _check_length("branch", name)
    for segment in name.split("/")[1:]:
        _rule(
            not is_dataset_directory(segment),
            "branch",
            name,
            f"after the first '/', '{segment}' would collide with a dataset's own directories",
        )


def is_dataset_directory(segment: str) -> bool:
    """Whether a dataset, and so each branch, may keep its own files in a directory of that name."""
    return segment in _DATASET_DIRECTORIES or segment.startswith("_")


def check_tag_name(name: str) -> None:
    """Raise InvalidName, naming the broken rule, unless the specification allows the tag name."""
    _rule(bool(name), "tag", name, "it cannot be empty")
    _rule(_allowed(name), "tag", name, "it may contain only letters, digits, '.', '-' and '_' (no '/')")
    _rule(not name.startswith(".") and not name.endswith("."), "tag", name, "it cannot start or end with '.'")
    _rule(not name.endswith(".lock"), "tag", name, "it cannot end with '.lock'")
    _rule(".." not in name, "tag", name, "it cannot contain '..'")


def check_new_tag_name(name: str) -> None:
    """As check_tag_name, and refuse letters outside ASCII.

    pylance 14.0.2 escapes such a name twice and then cannot list any tag of the dataset: one tag 'é' makes
    every other tag unreadable.
    """
    check_tag_name(name)
    _check_length("tag", name)
    _rule(name.isascii(), "tag", name, "letters outside ASCII make pylance unable to list any tag")


def plan_branch(name: str) -> str:
    """The branch that holds the plan of a frozen set."""
    return f"frozen/{name}"


def plan_tag(name: str) -> str:
    """The tag of the version that is the plan of a frozen set. While it is not there, there is no such set."""
    return f"frozen-{name}"


def is_plan(branch: str, tags: Container[str]) -> bool:
    """Whether a branch holds the plan of a frozen set."""
    set_name = branch.removeprefix(plan_branch(""))
    return set_name != branch and plan_tag(set_name) in tags


def is_frozen_tag(name: str, tags: Container[str]) -> bool:
    """Whether a tag belongs to a frozen set: that of its rows, which has the set's name, or that of its plan."""
    set_name = name.removeprefix(plan_tag(""))
    return plan_tag(name) in tags or (set_name != name and set_name in tags)


def is_merge_tag(name: str) -> bool:
    """Whether a merge by reference made the tag: another branch reads the files of the tagged version."""
    return _MERGE_TAG.fullmatch(name) is not None


def is_own_tag(name: str) -> bool:
    """Whether this package made the tag to protect what a clone or another branch reads."""
    return is_merge_tag(name) or _CLONE_TAG.fullmatch(name) is not None


def is_stream_tag(name: str) -> bool:
    """Whether a streaming query may rely on a tag, going by its name."""
    return name.startswith((STREAM_TAG, READER_TAG))


def is_service_tag(name: str, tags: Container[str] = ()) -> bool:
    """Whether a tag is there for a clone, a merge, a stream or, among ``tags``, the plan of a frozen set.

    Lists and hints leave such tags out: nobody who looks for a release wants to read hashes.
    """
    set_name = name.removeprefix(plan_tag(""))
    return is_own_tag(name) or is_stream_tag(name) or (set_name != name and set_name in tags)


def may_be_meant(typed: str, names: Iterable[str]) -> list[str]:
    """The branches and tags that somebody may have meant by a name: those of this package only if it begins alike."""
    known = set(names)
    return sorted(
        name
        for name in known
        if not (is_service_tag(name, known) or name.startswith(plan_branch("")) or _TRANSACTION.fullmatch(name))
        or typed[:_ALIKE] == name[:_ALIKE]
    )


def _check_length(kind: str, name: str) -> None:
    # Escaped twice, as pylance does with the temporary file that it renames to the ref file.
    length = len(quote(quote(name, safe=""), safe=""))
    _rule(length <= _LONGEST, kind, name, f"its ref file would need a name of {length} characters, {_LONGEST} fit")


def _allowed(segment: str) -> bool:
    return all(character.isalnum() or character in ".-_" for character in segment)


def _rule(holds: bool, kind: str, name: str, rule: str) -> None:
    if not holds:
        raise InvalidName(f"'{name}' is not a valid {kind} name: {rule}.")
