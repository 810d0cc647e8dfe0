"""Names of branches and tags: which are legal, which this package gives itself, and which was meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from urllib.parse import quote

from lance_spark.core.refs import MAIN
from lance_spark.errors import InvalidName, NotFound

_DATASET_DIRECTORIES = frozenset({"data", "tree"})
_TRANSACTION = re.compile(r"transaction-[0-9a-f]{32}")
_ALIKE = 5
"""Shared leading letters that show that a tag named ``clone-...`` was meant."""
_MERGE_TAG, _CLONE_TAG = re.compile(r"merged-[0-9a-f]{16}"), re.compile(r"clone-[0-9a-f]{16}(?:-.+)?")
_LAKE_TAG = re.compile(r"lake-(.+)-[0-9a-f]{8}")
LAKE_BRANCH = "lake/"
"""Prefix of a table's branches that have the changes made on a branch of the whole lake."""
LAKE_TABLE, LAKE_TAGS = "__manifest", "tags/"
"""A catalog's own table, whose branches are branches and tags of the lake; and the prefix of those that are tags."""
_LAKE_BRANCH = re.compile(LAKE_BRANCH + r"(.+)-[0-9a-f]{8}")
STREAM_TAG, READER_TAG = "stream-", "reader-"
"""Prefixes of streaming queries' tags: of queries that write to a branch, and of those that read from one."""
_LONGEST = 211
"""Maximum length of an escaped name. For a longer one, pylance 14.0.2 creates the branch's directory on a local disk
but fails to write the ref file, and the name can never be used again."""


def branch_or_none(name: str | None) -> str | None:
    """The branch in pylance's form: None for main. Refuses a name that no branch can have."""
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
    """Like check_branch_name, but also refuse a name whose directory would lie inside another branch's own files.

    Branch ``a/data`` lives in ``tree/a/data``, where branch ``a`` keeps its data files: deleting one would delete the
    other's. And deleting ``main/x`` makes pylance 14.0.2 delete the whole dataset. The specification allows these
    names, so only creation refuses them.
    """
    check_branch_name(name)
    _rule(name != "HEAD", "branch", name, "HEAD means the newest version of the current branch")
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
    """Whether a dataset, and so each branch, can keep its own files in a directory of that name."""
    return segment in _DATASET_DIRECTORIES or segment.startswith("_")


def check_tag_name(name: str) -> None:
    """Raise InvalidName, naming the broken rule, unless the specification allows the tag name."""
    _rule(bool(name), "tag", name, "it cannot be empty")
    _rule(_allowed(name), "tag", name, "it may contain only letters, digits, '.', '-' and '_' (no '/')")
    _rule(not name.startswith(".") and not name.endswith("."), "tag", name, "it cannot start or end with '.'")
    _rule(not name.endswith(".lock"), "tag", name, "it cannot end with '.lock'")
    _rule(".." not in name, "tag", name, "it cannot contain '..'")


def check_new_tag_name(name: str) -> None:
    """Like check_tag_name, but also refuse ``HEAD`` and ``main``, and letters outside ASCII.

    pylance 14.0.2 escapes such a name twice, and then cannot list any tag: one tag 'é' makes all others unreadable.
    """
    check_tag_name(name)
    _rule(name != "HEAD", "tag", name, "HEAD means the newest version of the current branch")
    _rule(name != MAIN, "tag", name, "'main' is the main branch")
    _check_length("tag", name)
    _rule(name.isascii(), "tag", name, "letters outside ASCII make pylance unable to list any tag")


def plan_branch(name: str) -> str:
    return f"frozen/{name}"


def plan_tag(name: str) -> str:
    """The tag on the plan of a frozen set. Without the tag, the set does not exist."""
    return f"frozen-{name}"


def is_plan(branch: str, tags: Container[str]) -> bool:
    """Whether a branch holds the plan of a frozen set."""
    set_name = branch.removeprefix(plan_branch(""))
    return set_name != branch and plan_tag(set_name) in tags


def is_service_branch(branch: str, tags: Container[str] = ()) -> bool:
    """Whether a branch serves a branch of the lake or, among ``tags``, is the plan of a frozen set: lists omit it."""
    return is_plan(branch, tags) or lake_branch_of(branch) is not None


def is_frozen_tag(name: str, tags: Container[str]) -> bool:
    """Whether a tag belongs to a frozen set: on its rows, with the set's name, or on its plan."""
    set_name = name.removeprefix(plan_tag(""))
    return plan_tag(name) in tags or (set_name != name and set_name in tags)


def is_merge_tag(name: str) -> bool:
    """Whether a branch merge by reference made the tag: another branch reads the files of the tagged version."""
    return _MERGE_TAG.fullmatch(name) is not None


def is_own_tag(name: str) -> bool:
    """Whether this package made the tag to protect what a clone or another branch reads."""
    return is_merge_tag(name) or _CLONE_TAG.fullmatch(name) is not None


def is_stream_tag(name: str) -> bool:
    """Whether, by its name, a streaming query relies on a tag."""
    return name.startswith((STREAM_TAG, READER_TAG))


def is_lake_tag(name: str) -> bool:
    """Whether, by its name, a tag keeps the version that a tag or a branch of the whole lake pins."""
    return lake_tag_of(name) is not None


def lake_tag_of(name: str) -> str | None:
    """The ref of the whole lake for which a tag of a table keeps a version, by its name; None for other tags.

    A branch of the lake has dots where its name has slashes.
    """
    match = _LAKE_TAG.fullmatch(name)
    return None if match is None else match[1]


def lake_branch_of(name: str) -> str | None:
    """The branch of the whole lake whose changes a branch of a table has, by its name; None for other branches."""
    match = _LAKE_BRANCH.fullmatch(name)
    return None if match is None else match[1]


def lake_id_of(name: str) -> str | None:
    """The id of the ref of the whole lake that a branch or a tag of a table belongs to; None for others."""
    return name[-8:] if lake_tag_of(name) is not None or lake_branch_of(name) is not None else None


def is_service_tag(name: str, tags: Container[str] = ()) -> bool:
    """Whether a tag serves a clone, a merge, a stream, a tag of the lake or, among ``tags``, a frozen set's plan.

    Lists and hints omit such tags: their hashes would bury the releases.
    """
    set_name = name.removeprefix(plan_tag(""))
    made = is_own_tag(name) or is_stream_tag(name) or is_lake_tag(name)
    return made or (set_name != name and set_name in tags)


def may_be_meant(typed: str, names: Iterable[str]) -> list[str]:
    """The branches and tags that a name might stand for; this package's own only if it begins like one of them."""
    known = set(names)
    return sorted(
        name
        for name in known
        if not (
            is_service_tag(name, known)
            or is_service_branch(name)
            or name.startswith(plan_branch(""))
            or _TRANSACTION.fullmatch(name)
        )
        or typed[:_ALIKE] == name[:_ALIKE]
    )


def _check_length(kind: str, name: str) -> None:
    # Escaped twice, like the temporary file that pylance renames to the ref file.
    length = len(quote(quote(name, safe=""), safe=""))
    _rule(length <= _LONGEST, kind, name, f"its ref file would need a name of {length} characters, {_LONGEST} fit")


def _allowed(segment: str) -> bool:
    return all(character.isalnum() or character in ".-_" for character in segment)


def _rule(holds: bool, kind: str, name: str, rule: str) -> None:
    if not holds:
        raise InvalidName(f"'{name}' is not a valid {kind} name: {rule}.", hint=_valid_name(kind, name))


def _valid_name(kind: str, name: str) -> str:
    """A hint with a name like that one, if there is one that is valid."""
    check, others = (check_new_branch_name, r"[^\w./-]+") if kind == "branch" else (check_new_tag_name, r"[^\w.-]+")
    near = re.sub(r"\.(?=[./])|/(?=/)|(\.lock)+$", "", re.sub(others, "-", name)).strip("./-")
    if near != name and near:
        with suppress(InvalidName, RecursionError):
            check(near)
            return f"'{near}' is a valid name."
    return "Choose another name, such as 'exp/delays'." if kind == "branch" else "Choose another name, such as 'v1.0'."


def missing(kind: str, name: str, known: Iterable[str], owner: str = "dataset") -> NotFound:
    """A NotFound for a branch or tag of a dataset or a lake, suggesting the nearest known names."""
    names = may_be_meant(name, known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        hint = "Did you mean " + " or ".join(f"'{match}'" for match in near) + "?"
    elif names:
        shown = ", ".join(f"'{match}'" for match in names[:5])
        hint = f"The {owner} has {shown}{' and more' if len(names) > 5 else ''}."
    else:
        hint = f"The {owner} has no {kind} yet."
    of = "" if owner == "dataset" else f" of the {owner}"
    return NotFound(f"There is no {kind}{of} '{name}'.", hint=hint)


def missing_version(version: int, branch: str | None, known: Sequence[int]) -> NotFound:
    """A NotFound for a version number, suggesting the nearest existing ones."""
    near = sorted(sorted(known, key=lambda other: (abs(other - version), other))[:3])
    hint = f"Nearest versions: {', '.join(map(str, near))}." if near else None
    if hint and branch is not None and version < near[0]:
        hint = f"{hint} For an earlier one, name the branch that '{branch}' was created from."
    return NotFound(f"Branch '{branch or MAIN}' has no version {version}.", hint=hint)
