"""From user input to a dataset and a pinned version: directories, workspaces, options, refs, paths with refs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn
from urllib.parse import unquote

from lance_spark import errors, hints
from lance_spark.core import refs as core_refs
from lance_spark.core.catalog_options import check_named, nothing_named, take_catalog
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import (
    DEFAULT,
    HEAD,
    MARK,
    METADATA_TABLES,
    Kind,
    RefExpression,
    RefRange,
    TypedRef,
    combine,
    explicit_spelling,
    parse_expression,
    parse_range,
    spec_of_branch,
    split_refs,
)
from lance_spark.core.ref_files import BRANCHES, TAGS
from lance_spark.core.ref_names import branch_or_none, check_branch_name, check_tag_name, missing, missing_version
from lance_spark.core.services import service_of, without_service
from lance_spark.core.storage_options import split_storage
from lance_spark.storage import datasets, refs
from lance_spark.storage.datasets import check_absolute, check_typed, find_latest, locate_typed, open_latest

_BRANCHES = "/tree/"


def is_directory(path: str) -> bool:
    """Whether a directory exists. An inaccessible one counts: reading it reports the reason."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def branch_of_directory(location: DatasetLocation) -> tuple[str, str] | None:
    """Root and name of the branch whose own directory, ``<root>/tree/<branch>``, this is; None for any other one.

    The root is a URI; the name is spelled as in the dataset's refs.
    """
    for root, name in branch_splits(location.uri):
        branch = name if location.is_local else unquote(name)
        if refs.read_branch(DatasetLocation(root, location.options), branch) is not None:
            return root, branch
    return None


def branch_splits(uri: str) -> Iterator[tuple[str, str]]:
    """Possible splits into the root of a dataset and the name of its branch, the shortest root first."""
    root, divider, name = uri.partition(_BRANCHES)
    while divider:
        yield root, name
        more, divider, name = name.partition(_BRANCHES)
        root = f"{root}{_BRANCHES}{more}"


# --- The entry of every read and write: the dataset that the options name, by a path or by a catalog


@dataclass(frozen=True)
class NamedTable:
    """A table of a catalog, by name. Plain values, so reading a path loads no catalog code."""

    root: DatasetLocation
    name: str
    mode: str | None = None
    """How to read the catalog, unchecked; None for its default."""
    ref: tuple[str, str] | None = None
    """Kind (``branch``, ``tag`` or ``published``) and name of the ref of the whole catalog; None for main."""


@dataclass(frozen=True)
class Target:
    """The place that the options of a read or a write name. It might not exist."""

    place: DatasetLocation | NamedTable
    options: dict[str, str]
    """The remaining options, for the read or the write itself."""
    typed: str = ""
    """The path as typed, if it might also name a ref, behind an ``@``."""


def take_target(options: Mapping[str, str], call: str) -> Target:
    """The place that ``path``, ``catalog`` and the storage options name.

    ``call`` is ``load`` or ``save``, for errors. Raises InvalidOption.
    """
    rest, storage = split_storage(options)
    check_named(rest, call)
    table, rest = take_catalog(rest, call)
    if table is not None:
        return Target(NamedTable(locate_catalog(table.root, storage), table.name, table.mode, table.ref), rest)
    path = rest.pop("path", None)
    if path is None:
        raise nothing_named(call)
    return Target(dataset_at(path, storage), rest, path if MARK in path else "")


def locate_catalog(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The root of a catalog; what takes its place if the options are those of a service. Raises InvalidOption."""
    service = service_of(storage_options or {})
    if service is None:
        return locate_typed(uri, storage_options)
    return service.root(without_service(storage_options or {}))


def check_target(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for options that name a dataset or a catalog by a relative path, on a server."""
    given = {key.lower(): value for key, value in options.items()}
    check_absolute(given.get("catalog") or given.get("path") or "/")


def dataset_at(uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
    """The dataset at a URI. Raises InvalidOption for a branch's own directory, ``<root>/tree/<branch>``.

    pylance opens it, but treats the branch as a separate dataset: a tag made there lands on main, and a branch made
    there in a place that nothing reads.
    """
    location = locate_typed(uri, storage_options)
    directory = branch_of_directory(location)
    if directory is not None:
        root, branch = directory
        raise errors.InvalidOption(
            f"{location.uri} is the directory of branch '{branch}'.",
            hint=hints.of(f"Use the dataset's root {root} and name the branch: ", hints.on_branch(root, branch), "."),
        )
    return location


# --- From a user's ref to one pinned version, reading only the refs that are needed


def resolve(location: DatasetLocation, spec: core_refs.RefSpec) -> core_refs.PinnedVersion:
    """The version that the spec names now. Raises NotFound, with near matches, if it does not exist."""
    if spec.begins is not None and not _has_begun(location, spec):
        begins = spec.begins.version
        return datasets.pin_version(location, None, begins) if begins else datasets.pin_latest(location, None)
    if spec.tag is not None:
        return resolve_tag(location, spec.tag)
    check_branch(location, spec.branch)
    if spec.as_of is not None:
        history = datasets.list_versions(location, spec.branch)
        return datasets.pin_version(location, spec.branch, core_refs.newest_at(history, spec.as_of, spec.branch))
    if spec.version is not None:
        return datasets.pin_version(location, spec.branch, spec.version)
    return datasets.pin_latest(location, spec.branch)


def _has_begun(location: DatasetLocation, spec: core_refs.RefSpec) -> bool:
    return spec.branch is not None and refs.read_branch(location, spec.branch) is not None


def resolve_tag(location: DatasetLocation, name: str) -> core_refs.PinnedVersion:
    """The version that a tag points at. Raises NotFound for an unknown tag, or if there is no dataset."""
    tag = refs.read_tag(location, name)
    if tag is None:
        datasets.open_latest(location)
        if name == core_refs.MAIN or name in refs.list_ref_names(location, BRANCHES):
            raise _of_other_kind("tag", name, "branch")
        raise missing("tag", name, refs.list_ref_names(location, TAGS))
    return datasets.pin_version(location, tag.branch, tag.version)


def check_branch(location: DatasetLocation, branch: str | None) -> None:
    """Raise NotFound unless the branch has a ref file.

    pylance itself checks out any directory below ``tree/``, including the remains of a deleted branch.
    """
    if branch is not None and refs.read_branch(location, branch) is None:
        _raise_missing(location, branch)


def _raise_missing(location: DatasetLocation, branch: str) -> NoReturn:
    datasets.open_latest(location)
    if branch in refs.list_ref_names(location, TAGS):
        raise _of_other_kind("branch", branch, "tag")
    raise missing("branch", branch, [core_refs.MAIN, *refs.list_ref_names(location, BRANCHES)])


def _of_other_kind(kind: str, name: str, is_a: str) -> errors.NotFound:
    plain = f"It is a {is_a}."
    hint = hints.Hint(f"It is a {is_a}: {is_a}={name!r}, or option('{is_a}', {name!r}).", plain, plain)
    return errors.NotFound(f"There is no {kind} '{name}'.", hint=hint)


# --- From a typed expression to one version of a dataset
# Reads only the named refs.


@dataclass(frozen=True)
class KnownRef:
    """The branch or tag that a name stands for."""

    kind: Kind
    name: str
    """``main`` for the main branch."""
    branch: str | None
    """Branch that holds the versions; None for main."""
    version: int | None
    """The version that a tag points at; None for a branch, which follows its newest."""


def resolve_expression(
    location: DatasetLocation, expression: RefExpression | str, current: str | None
) -> core_refs.PinnedVersion:
    """The version of an expression, now. ``current`` is the branch of HEAD, None for main.

    Raises InvalidOption for text that is not a ref, NotFound with near names, and Refused for a name that is both a
    branch and a tag.
    """
    typed = parse_expression(expression) if isinstance(expression, str) else expression
    ref = find_ref(location, typed, current)
    if ref.kind == "tag" and typed.version is not None:
        raise errors.InvalidOption(
            f"'{typed}': a tag is one version, so it takes no '@'.",
            hint=f"Tag '{ref.name}' is at {core_refs.PinnedVersion(ref.branch, ref.version or 0)}.",
        )
    version = typed.version if ref.version is None else ref.version
    if typed.back:
        return _steps_back(location, ref.branch, version, typed)
    if version is None:
        return datasets.pin_latest(location, ref.branch)
    return datasets.pin_version(location, ref.branch, version)


def resolve_range(
    location: DatasetLocation, typed: RefRange | str, current: str | None
) -> tuple[core_refs.PinnedVersion, core_refs.PinnedVersion]:
    """The two versions of ``A..B``; see :func:`resolve_expression`."""
    pair = parse_range(typed) if isinstance(typed, str) else typed
    return resolve_expression(location, pair.start, current), resolve_expression(location, pair.end, current)


def find_ref(location: DatasetLocation, expression: RefExpression | str, current: str | None) -> KnownRef:
    """The branch or tag of an expression, without its ``@`` and ``~``.

    Raises NotFound with near names, and Refused for a name that is both.
    """
    typed = parse_expression(expression) if isinstance(expression, str) else expression
    if typed.name is None:
        return KnownRef("branch", current or core_refs.MAIN, _current(location, current), None)
    explicit = typed.explicit
    if explicit is not None:
        ref = _find(location, *explicit)
        if ref is not None:
            return ref
    # pylance makes a tag 'main', too
    kinds: tuple[Kind, ...] = ("branch",) if typed.name == core_refs.MAIN else ("branch", "tag")
    choices = [ref for kind in kinds if (ref := _find(location, kind, typed.name)) is not None]
    if len(choices) == 2:
        raise errors.Refused(
            f"'{typed.name}' is both a branch and a tag.",
            hint=f"Write {explicit_spelling('branch', typed.name)} for the branch, "
            f"{explicit_spelling('tag', typed.name)} for the tag.",
        )
    return choices[0] if choices else _absent(location, typed.name, explicit)


def _current(location: DatasetLocation, current: str | None) -> str | None:
    try:
        check_branch(location, current)
    except errors.NotFound as absent:
        raise errors.NotFound(f"The current branch '{current}' does not exist.", hint=absent.hint) from None
    return current


def _find(location: DatasetLocation, kind: Kind, name: str) -> KnownRef | None:
    """The branch or tag of that name; None if there is none, or if neither can have that name."""
    try:
        if kind == "tag":
            check_tag_name(name)
        elif name != core_refs.MAIN:
            check_branch_name(name)
    except errors.InvalidName:
        return None
    if kind == "tag":
        tag = refs.read_tag(location, name)
        return None if tag is None else KnownRef("tag", name, tag.branch, tag.version)
    known = name == core_refs.MAIN or refs.read_branch(location, name) is not None
    return KnownRef("branch", name, branch_or_none(name), None) if known else None


def _absent(location: DatasetLocation, name: str, explicit: tuple[Kind, str] | None) -> KnownRef:
    """Raise the error for an unused name: it breaks a rule, there is no dataset, or similar names exist."""
    datasets.open_latest(location)
    branches = [core_refs.MAIN, *refs.list_ref_names(location, BRANCHES)]
    tags = refs.list_ref_names(location, TAGS)
    if explicit is not None:
        kind, short = explicit
        raise missing(kind, short, branches if kind == "branch" else tags)
    if name.isdigit():
        raise errors.NotFound(f"There is no branch or tag '{name}'.", hint=f"For version {name}, write @{name}.")
    if name.lower() == HEAD.lower():
        raise errors.NotFound(f"There is no branch or tag '{name}'.", hint="The current branch is HEAD, in capitals.")
    check_branch_name(name)
    raise missing("branch or tag", name, {*branches, *tags})


def _steps_back(
    location: DatasetLocation, branch: str | None, version: int | None, typed: RefExpression
) -> core_refs.PinnedVersion:
    """The version some steps before one on its own branch; versions that were cleaned up do not count.

    It does not continue into the parent branch: restoring ``exp~3`` must never change main.
    """
    known = datasets.list_version_numbers(location, branch)
    start = known[-1] if version is None else version
    if start not in known:
        raise missing_version(start, branch, known)
    position = known.index(start) - typed.back
    if position >= 0:
        return datasets.pin_version(location, branch, known[position])
    raise errors.NotFound(
        f"'{typed}' goes back {typed.back} versions, but branch '{branch or core_refs.MAIN}' has {known.index(start)} "
        f"before version {start}.",
        hint=_where_it_began(location, branch, known[0]),
    )


def _where_it_began(location: DatasetLocation, branch: str | None, oldest: int) -> str:
    made = None if branch is None else refs.read_branch(location, branch)
    if made is None:
        return f"Its oldest version is {oldest}."
    fork = core_refs.PinnedVersion(made.parent_branch, made.parent_version)
    return f"Its oldest version is {oldest}; it was made from {fork}, so write {fork}~1 for earlier versions."


# --- From a version in SQL, in a table's name or after it, to an existing spec


@dataclass(frozen=True)
class Candidate:
    """A table that a name might mean, and the rest of the name as a ref."""

    name: str
    """The part of the name that is the table's."""
    location: DatasetLocation
    ref: TypedRef = DEFAULT


def choose(typed: str, candidates: Sequence[Candidate], travel: TypedRef) -> tuple[Candidate, core_refs.RefSpec]:
    """The one candidate whose ref exists, and its spec; ``travel`` is what follows the name.

    Creating a table named ``flights@exp`` must not change what readers of branch ``exp`` get. So a name that means both
    raises Refused, with a spelling for each. Raises NotFound and the errors of :func:`find_spec`.
    """
    held: list[tuple[Candidate, core_refs.RefSpec]] = []
    absent: list[errors.NotFound] = []
    for candidate in candidates:
        try:
            held.append((candidate, find_spec(candidate.location, combine(candidate.ref, travel))))
        except errors.NotFound as error:
            absent.append(error)
    if len(held) > 1:
        raise _ambiguous(typed, held)
    if held:
        return held[0]
    raise absent[0] if absent else errors.NotFound(f"There is no table '{typed}'.")


def find_spec(location: DatasetLocation, typed: TypedRef) -> core_refs.RefSpec:
    """The typed branch, tag, version or moment. Its name is checked, its version is not.

    Raises NotFound with near names, InvalidOption for a version of a tag, and Refused for a name that is both a branch
    and a tag.
    """
    if typed.expression is None:
        return spec_of_branch(None, typed)
    found = find_ref(location, typed.expression, None)
    version = typed.expression.version if typed.version is None else typed.version
    if found.kind == "tag" and (version is not None or typed.as_of is not None):
        at = core_refs.PinnedVersion(found.branch, found.version or 0)
        raise errors.InvalidOption(
            f"Tag '{found.name}' is one version; it cannot take another one.", hint=f"It is at {at}."
        )
    if typed.expression.back:
        if typed.version is not None or typed.as_of is not None:
            raise errors.InvalidOption(f"'{typed.expression}' already chooses a version.", hint="Remove '~', or AS OF.")
        pin = resolve_expression(location, typed.expression, None)
        return core_refs.RefSpec(branch=pin.branch, version=pin.version)
    return (
        core_refs.RefSpec(tag=found.name)
        if found.kind == "tag"
        else spec_of_branch(branch_or_none(found.branch), typed)
    )


def _ambiguous(typed: str, held: Sequence[tuple[Candidate, core_refs.RefSpec]]) -> errors.Refused:
    ways = []
    for candidate, spec in held:
        ref = typed[len(candidate.name) + 1 :]
        ways.append(
            f"`{candidate.name}{MARK}{'tags' if spec.tag else 'heads'}/{ref}`" if ref else f"`{typed}{MARK}main`"
        )
    tables = " and ".join(f"'{candidate.name}'" for candidate, _ in held)
    return errors.Refused(
        f"'{typed}' can mean more than one table: {tables}, with the part behind '{MARK}' as a ref.",
        hint=f"Write {' or '.join(ways)}.",
    )


# --- From a path with a ref, ``s3://bucket/flights.lance@exp``, to an existing dataset and ref


@dataclass(frozen=True)
class PathRef:
    location: DatasetLocation
    spec: core_refs.RefSpec
    metadata_table: str | None = None


def read_path_name(
    parts: Sequence[str], storage_options: Mapping[str, str] | None = None, travel: TypedRef = DEFAULT
) -> PathRef:
    """The meaning of an SQL name whose first part is a path: the dataset, or one of its metadata tables.

    Raises NotFound for any other name, and as :func:`read_path`.
    """
    if len(parts) == 1:
        return read_path(parts[0], storage_options, travel)
    if len(parts) == 2 and parts[1].lower() in METADATA_TABLES:
        return replace(read_path(parts[0], storage_options, travel), metadata_table=parts[1].lower())
    raise errors.NotFound(
        f"There is no table {'.'.join(parts)}.",
        hint="Write the path as one part, in backticks, optionally followed by " + ", ".join(METADATA_TABLES) + ".",
    )


@dataclass(frozen=True)
class NamedPlace:
    """The dataset in the path of a read or write, and that path's ref; None for a path without a ref."""

    location: DatasetLocation
    spec: core_refs.RefSpec | None


def settle(target: Target, travel: TypedRef = DEFAULT) -> NamedPlace:
    """The meaning of a target's path. A path with ``@`` is that of a new dataset if none exists yet.

    Raises as :func:`read_path`: NotFound for a ref that a dataset does not have; and InvalidOption for a second ref in
    the options.
    """
    place = target.place
    if isinstance(place, NamedTable):
        raise AssertionError("a table of a catalog has no path")
    if not target.typed:
        return NamedPlace(place, None)
    storage = place.storage_options
    named = next((key for key in target.options if key.lower() in ("branch", "tag")), None)
    if named is not None and find_latest(place, None) is not None:
        return NamedPlace(place, None)  # handles name the branch of any dataset they point to
    try:
        found = read_path(target.typed, storage, travel)
    except errors.NotFound:
        if any(_is_dataset(path, storage) for path, _ in split_refs(target.typed)):
            raise
        return NamedPlace(place, None)
    if found.location == place:
        return NamedPlace(place, None)
    if named is not None:
        raise errors.InvalidOption(
            f"'{target.typed}' names a ref behind its '{MARK}', and so does option '{named}'.",
            hint="Leave one of them out.",
        )
    return NamedPlace(found.location, found.spec)


def _is_dataset(path: str, storage_options: Mapping[str, str]) -> bool:
    try:
        return find_latest(dataset_at(path, storage_options), None) is not None
    except errors.InvalidOption:
        return False


def read_path(text: str, storage_options: Mapping[str, str] | None = None, travel: TypedRef = DEFAULT) -> PathRef:
    """The meaning of a path or URI: a dataset, or one at a ref behind an ``@``. Directory names can contain ``@``.

    Raises NotFound, InvalidOption, and Refused if a path means both a dataset and a ref of another one.
    """
    ways = tuple(split_refs(text))
    if not ways:
        location = dataset_at(text, storage_options)
        open_latest(location)
        return PathRef(location, find_spec(location, travel))
    check_typed(text)  # first: the code below treats an InvalidOption as one reading of the text that does not fit
    candidates = []
    for path, ref in ((text, DEFAULT), *ways):
        try:
            location = dataset_at(path, storage_options)
        except errors.InvalidOption:
            continue
        if find_latest(location, None) is not None:
            candidates.append(Candidate(path, location, ref))
    if not candidates:
        raise errors.NotFound(
            f"There is no Lance dataset at {text}.", hint="A ref may follow '@': s3://bucket/flights.lance@exp."
        )
    chosen, spec = choose(text, candidates, travel)
    return PathRef(chosen.location, spec)
