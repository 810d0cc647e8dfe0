"""From what was typed for a ref to one version of a dataset. Reads only the refs that are named."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.actions.resolve import check_branch
from lance_spark.errors import InvalidName, InvalidOption, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.expressions import (
    HEAD,
    Kind,
    RefExpression,
    RefRange,
    explicit_spelling,
    parse_expression,
    parse_range,
)
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN, branch_or_none, check_branch_name, check_tag_name
from lance_spark.refs.parse import BRANCHES, TAGS
from lance_spark.refs.resolve import missing, missing_version
from lance_spark.store import datasets, refs


@dataclass(frozen=True)
class KnownRef:
    """What a name stands for."""

    kind: Kind
    name: str
    """``main`` for the main branch."""
    branch: str | None
    """Branch to look for versions on; None for main."""
    version: int | None
    """The version a tag points at; None for a branch, which follows its newest."""


def resolve_expression(
    location: DatasetLocation, expression: RefExpression | str, current: str | None
) -> PinnedVersion:
    """The version that was typed, right now. ``current`` is the branch that HEAD means, None for main.

    Raises InvalidOption for what is no ref, NotFound with near names, and Refused for a name that is both a branch
    and a tag.
    """
    typed = parse_expression(expression) if isinstance(expression, str) else expression
    ref = find_ref(location, typed, current)
    if ref.kind == "tag" and typed.version is not None:
        raise InvalidOption(
            f"'{typed}': a tag is one version, so it takes no '@'.",
            hint=f"Tag '{ref.name}' is at {PinnedVersion(ref.branch, ref.version or 0)}.",
        )
    version = typed.version if ref.version is None else ref.version
    if typed.back:
        return _steps_back(location, ref.branch, version, typed)
    if version is None:
        return datasets.pin_latest(location, ref.branch)
    return datasets.pin_version(location, ref.branch, version)


def resolve_range(
    location: DatasetLocation, typed: RefRange | str, current: str | None
) -> tuple[PinnedVersion, PinnedVersion]:
    """The two versions of ``A..B``; see :func:`resolve_expression`."""
    pair = parse_range(typed) if isinstance(typed, str) else typed
    return resolve_expression(location, pair.start, current), resolve_expression(location, pair.end, current)


def find_ref(location: DatasetLocation, expression: RefExpression | str, current: str | None) -> KnownRef:
    """The branch or tag that was named, without its ``@`` and ``~``.

    Raises NotFound with near names, and Refused for a name that is both.
    """
    typed = parse_expression(expression) if isinstance(expression, str) else expression
    if typed.name is None:
        return KnownRef("branch", current or MAIN, _current(location, current), None)
    explicit = typed.explicit
    if explicit is not None:
        ref = _find(location, *explicit)
        if ref is not None:
            return ref
    choices = [ref for kind in ("branch", "tag") if (ref := _find(location, kind, typed.name)) is not None]
    if len(choices) == 2:
        raise Refused(
            f"'{typed.name}' is both a branch and a tag.",
            hint=f"Write {explicit_spelling('branch', typed.name)} for the branch, "
            f"{explicit_spelling('tag', typed.name)} for the tag.",
        )
    return choices[0] if choices else _absent(location, typed.name, explicit)


def _current(location: DatasetLocation, current: str | None) -> str | None:
    try:
        check_branch(location, current)
    except NotFound as absent:
        raise NotFound(f"The current branch '{current}' is not there.", hint=absent.hint) from None
    return current


def _find(location: DatasetLocation, kind: Kind, name: str) -> KnownRef | None:
    """The branch or tag of that name; None where there is none, or where the name could belong to none."""
    try:
        if kind == "tag":
            check_tag_name(name)
        elif name != MAIN:
            check_branch_name(name)
    except InvalidName:
        return None
    if kind == "tag":
        tag = refs.read_tag(location, name)
        return None if tag is None else KnownRef("tag", name, tag.branch, tag.version)
    known = name == MAIN or refs.read_branch(location, name) is not None
    return KnownRef("branch", name, branch_or_none(name), None) if known else None


def _absent(location: DatasetLocation, name: str, explicit: tuple[Kind, str] | None) -> KnownRef:
    """Raise the error for a name that nothing has: it breaks a rule, there is no dataset, or what is near."""
    datasets.open_latest(location)
    branches = [MAIN, *refs.list_ref_names(location, BRANCHES)]
    tags = refs.list_ref_names(location, TAGS)
    if explicit is not None:
        kind, short = explicit
        raise missing(kind, short, branches if kind == "branch" else tags)
    if name.isdigit():
        raise NotFound(f"There is no branch or tag '{name}'.", hint=f"For version {name} write @{name}.")
    if name.lower() == HEAD.lower():
        raise NotFound(f"There is no branch or tag '{name}'.", hint="The current branch is HEAD, in capitals.")
    check_branch_name(name)
    raise missing("branch or tag", name, {*branches, *tags})


def _steps_back(
    location: DatasetLocation, branch: str | None, version: int | None, typed: RefExpression
) -> PinnedVersion:
    """The version some steps before one on its own branch; numbers of versions that were cleaned up do not count.

    It does not go on in the branch below: whoever restores ``exp~3`` should never change main.
    """
    known = datasets.list_version_numbers(location, branch)
    start = known[-1] if version is None else version
    if start not in known:
        raise missing_version(start, branch, known)
    position = known.index(start) - typed.back
    if position >= 0:
        return datasets.pin_version(location, branch, known[position])
    raise NotFound(
        f"'{typed}' goes back {typed.back} versions, but branch '{branch or MAIN}' has {known.index(start)} before "
        f"version {start}.",
        hint=_where_it_began(location, branch, known[0]),
    )


def _where_it_began(location: DatasetLocation, branch: str | None, oldest: int) -> str:
    made = None if branch is None else refs.read_branch(location, branch)
    if made is None:
        return f"Its oldest version is {oldest}."
    fork = PinnedVersion(made.parent_branch, made.parent_version)
    return f"Its oldest version is {oldest}; it was made from {fork}, so write {fork}~1 for what was before that."
