"""Branches, tags and versions: legal names, lifetimes, ref files, and the choice of a version. Pure."""

from __future__ import annotations

import difflib
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote, unquote
from uuid import NAMESPACE_OID, uuid5

from lance_spark.core.show import Card, Shown, counted, from_span, moment, to_span
from lance_spark.core.stored_json import decode_json
from lance_spark.errors import CorruptData, InvalidName, InvalidOption, NotFound

MAIN = "main"
"""Name of the main branch in all input and output; internally, and in pylance, it is None."""

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


# --- Lifetime, owner and protection of a branch or tag, kept in the metadata of its ref file
# pylance keeps the map ``metadata`` of a ref file whenever it rewrites the file (to move a tag or to replace metadata),
# and drops all other unknown keys. So the settings are in that map. The default branch has no ref file, and pylance
# creates none; main's settings are in a file of this package, see :func:`main_file`.

EXPIRE_AFTER, RETAIN_VERSIONS, OWNER, PROTECTED = (
    "lance_spark.expire_after",
    "lance_spark.retain_versions",
    "lance_spark.owner",
    "lance_spark.protected",
)
_Value = TypeVar("_Value")
_Ref = TypeVar("_Ref")
WARNED = "lance_spark.expiry_warned"
"""When an expiry first announced the end of the ref, and which end that was."""
_KEYS = {"expire_after": EXPIRE_AFTER, "retain_versions": RETAIN_VERSIONS, "owner": OWNER, "protected": PROTECTED}
TAG_SETTINGS = ("expire_after", "owner")
"""The settings of a tag: it has one version, and is never written to."""
SETTINGS = tuple(_KEYS)


class BranchSettings(TypedDict, total=False):
    """The arguments for the lifetime of a branch; an omitted one stays unchanged."""

    expire_after: str | timedelta
    retain_versions: int
    owner: str
    protected: bool


class TagSettings(TypedDict, total=False):
    """The arguments for the lifetime of a tag; an omitted one stays unchanged."""

    expire_after: str | timedelta
    owner: str


@dataclass(frozen=True)
class Warned:
    since: datetime
    """UTC."""
    of: datetime
    """The announced end. If the ref now ends at another time, the warning does not count."""

    def __str__(self) -> str:
        return f"{self.since.isoformat()} {self.of.isoformat()}"


@dataclass(frozen=True, repr=False)
class Lifetime(Shown):
    expire_after: timedelta | None = None
    """A branch expires this long after its newest version was committed, a tag this long after it was last placed."""
    retain_versions: int | None = None
    """How many of its newest versions every cleanup keeps, regardless of the policy."""
    owner: str | None = None
    """The contact person."""
    protected: bool = False
    """Whether only branch merges may write to it, and deletion is refused."""
    warned: Warned | None = None
    unreadable: tuple[str, ...] = ()
    """Settings that other software wrote and that cannot be parsed. They cause no deletion, and a branch whose
    protection is among them counts as protected."""

    def __str__(self) -> str:
        said = [f"expires after {from_span(self.expire_after)}"] if self.expire_after is not None else []
        said += [f"keeps {counted(self.retain_versions, 'version')}"] if self.retain_versions is not None else []
        said += [f"owner {self.owner}"] if self.owner else []
        said += ["protected"] if self.protected else []
        return ", ".join([*said, *(f"{name} not understood" for name in self.unreadable)])

    def _card(self) -> Card:
        span = None if self.expire_after is None else from_span(self.expire_after)
        facts = (
            ("expires after", span or "never"),
            ("versions kept", f"{self.retain_versions:,}" if self.retain_versions else "as the cleanup says"),
            ("owner", self.owner or ""),
            ("protected", "yes" if self.protected else "no"),
            ("not understood", ", ".join(self.unreadable)),
        )
        return Card(type(self).__name__, summary=str(self) or "nothing is set", facts=facts)

    def as_record(self) -> dict[str, object]:
        """JSON values; None for a missing setting."""
        span = None if self.expire_after is None else from_span(self.expire_after)
        return {
            "expire_after": span,
            "retain_versions": self.retain_versions,
            "owner": self.owner,
            "protected": self.protected,
        }


def read_lifetime(metadata: Mapping[str, str]) -> Lifetime:
    """The lifetime in a ref's metadata. Never raises: see ``Lifetime.unreadable``."""
    unreadable: list[str] = []

    def value(name: str, read: Callable[[str], _Value]) -> _Value | None:
        text = metadata.get(_KEYS[name])
        try:
            return None if text is None else read(text)
        except ValueError:
            unreadable.append(name)
            return None

    span = value("expire_after", partial(to_span, "expire_after"))
    versions, owner = value("retain_versions", _positive), value("owner", str)
    protected = value("protected", _boolean)
    return Lifetime(
        expire_after=span,
        retain_versions=versions,
        owner=owner,
        protected=bool(protected) or "protected" in unreadable,
        warned=_read_warned(metadata),
        unreadable=tuple(unreadable),
    )


_PLACE_WORDS = frozenset({"at", "base", "commit", "from", "from_", "ref", "source", "start", "start_point", "target"})
_PLACES = {True: "branch= or version=", False: "branch=, tag= or version="}


def changed_metadata(
    metadata: Mapping[str, str], settings: Mapping[str, object], unset: Iterable[str] = (), tag: bool = False
) -> dict[str, str]:
    """The metadata of a ref with some settings set and others removed; the rest stays.

    Raises InvalidOption for an unknown setting or an invalid value.
    """
    known = TAG_SETTINGS if tag else SETTINGS
    for name in (*settings, *unset):
        if name not in known:
            kind = "tag" if tag else "branch"
            place = f" It is at a version that {_PLACES[tag]} names." if name in _PLACE_WORDS else ""
            raise InvalidOption(f"A {kind} has no setting '{name}'.", hint=f"Settings: {', '.join(known)}.{place}")
    put = {_KEYS[name]: _text(name, value) for name, value in settings.items() if value is not None}
    gone = {_KEYS[name] for name in unset}
    both = sorted(gone & put.keys())
    if settings.get("protected") is False:
        gone.add(PROTECTED)
        del put[PROTECTED]
    if both:
        raise InvalidOption(f"'{both[0].rpartition('.')[2]}' cannot be set and unset at the same time.")
    if EXPIRE_AFTER in gone or EXPIRE_AFTER in put:
        gone.add(WARNED)  # the warning was about another end
    return {**{key: value for key, value in metadata.items() if key not in gone}, **put}


def with_warning(metadata: Mapping[str, str], warned: Warned) -> dict[str, str]:
    return {**metadata, WARNED: str(warned)}


def only_lifetime(metadata: Mapping[str, str]) -> bool:
    """Whether the metadata of a ref holds only its lifetime."""
    return metadata.keys() <= {*_KEYS.values(), WARNED}


def _text(name: str, value: object) -> str:
    if name == "expire_after":
        span = value if isinstance(value, timedelta) else to_span(name, str(value))
        if span <= timedelta(0):
            raise InvalidOption("expire_after must be longer than zero.", hint="Give a span such as 30d.")
        return from_span(span)
    if name == "retain_versions":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidOption(f"retain_versions is {value!r}, but it must be a whole number of at least 1.")
        return str(value)
    if name == "protected":
        if not isinstance(value, bool):
            raise InvalidOption(f"protected is {value!r}, but it must be True or False.")
        return str(value).lower()
    if not isinstance(value, str) or not value.strip():
        raise InvalidOption(f"owner is {value!r}, but it must be a text.", hint="To remove it: unset=['owner'].")
    return value


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _read_warned(metadata: Mapping[str, str]) -> Warned | None:
    """None for an unreadable warning: the ref then gets a new one."""
    try:
        since, of = (datetime.fromisoformat(part) for part in metadata.get(WARNED, "").split())
        return Warned(since.astimezone(timezone.utc), of.astimezone(timezone.utc))
    except ValueError:
        return None


# --- Branches, tags and versions as plain values

ROOT = "lance_spark.root"
"""Key in the metadata of a branch that shares nothing with its source: its first own version replaced the whole
table."""


@dataclass(frozen=True, repr=False)
class Branch(Shown):
    name: str
    parent_branch: str | None
    """Branch that it was created from; None for main."""
    parent_version: int
    created_at: datetime
    """Time of creation, UTC, whole seconds."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    """Distinguishes the branch from a later one of the same name, and from main, which has no identity. If an older
    writer did not record it, it is derived from the name and the time of creation."""
    discarded: str | None = field(default=None, compare=False)
    """Of a branch just created: the newest version of a deleted one of its name, which can no longer be restored."""

    @property
    def lifetime(self) -> Lifetime:
        return read_lifetime(self.metadata)

    @property
    def fork(self) -> PinnedVersion | None:
        """The version that it descends from; None for a branch that shares nothing with its source."""
        return None if ROOT in self.metadata else PinnedVersion(self.parent_branch, self.parent_version)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in a table of branches: name, source version, time of creation."""
        return self.name, f"{self.parent_branch or MAIN}@{self.parent_version}", moment(self.created_at)

    def _card(self) -> Card:
        name, origin, created = self.row
        discarded = "" if self.discarded is None else f"a deleted branch of its name, at {self.discarded}"
        facts = (("made from", origin), ("made", created), ("lifetime", str(self.lifetime)), ("discarded", discarded))
        return Card(type(self).__name__, name, f"from {origin}, made {created}", facts)


@dataclass(frozen=True, repr=False)
class Tag(Shown):
    name: str
    branch: str | None
    """Branch of the tagged version; None for main."""
    version: int
    created_at: datetime | None = None
    """Time of creation, UTC; None if an older writer did not record it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    changed_at: datetime | None = None
    """When it was last placed, UTC; None if that is not recorded, or cannot be parsed."""

    @property
    def lifetime(self) -> Lifetime:
        return read_lifetime(self.metadata)

    @property
    def target(self) -> PinnedVersion:
        return PinnedVersion(self.branch, self.version)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in a table of tags: name, version, time of creation."""
        return self.name, f"{self.branch or MAIN}@{self.version}", moment(self.created_at) if self.created_at else ""

    def _card(self) -> Card:
        name, version, created = self.row
        made = f", made {created}" if created else ""
        facts = (("version", version), ("made", created), ("lifetime", str(self.lifetime)))
        return Card(type(self).__name__, name, f"at {version}{made}", facts)


def _grouped(refs: Iterable[_Ref], branch_of: Callable[[_Ref], str | None]) -> dict[str | None, list[_Ref]]:
    found: dict[str | None, list[_Ref]] = {}
    for ref in refs:
        found.setdefault(branch_of(ref), []).append(ref)
    return found


@dataclass(frozen=True)
class RefTable:
    """All refs of a dataset as seen at one moment."""

    branches: Mapping[str, Branch]
    tags: Mapping[str, Tag]
    main: Lifetime = field(default_factory=Lifetime)
    """Main's settings, if they were looked up."""

    # What is asked for each branch is found once for all: a search through all refs for each of ten thousand branches
    # takes minutes.

    @cached_property
    def tags_on(self) -> Mapping[str | None, Sequence[Tag]]:
        """The tags by the branch of their versions, None for main; a branch without any is absent."""
        return _grouped(self.tags.values(), lambda tag: tag.branch)

    @cached_property
    def created_from(self) -> Mapping[str | None, Sequence[Branch]]:
        """The branches by their parent, None for main; a branch that is nobody's parent is absent."""
        return _grouped(self.branches.values(), lambda branch: branch.parent_branch)

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.branches)

    def branches_below(self, name: str) -> list[str]:
        """The branches whose names begin with a name and a slash, sorted."""
        first = bisect_left(self._names, f"{name}/")
        return self._names[first : bisect_left(self._names, f"{name}0", first)]  # "0" comes right after the slash


@dataclass(frozen=True)
class RefSpec:
    """The user's choice of a ref. At most one of ``tag`` and the other three is set; the parser checks that."""

    branch: str | None = None
    tag: str | None = None
    version: int | None = None
    as_of: datetime | None = None
    begins: Beginning | None = None
    """For a branch that does not exist before its first change; None for all others."""

    @property
    def is_branch(self) -> bool:
        """Whether it means the newest version of a branch."""
        return self == RefSpec(branch=self.branch, begins=self.begins)


@dataclass(frozen=True)
class Beginning:
    """Where a table's branch begins, which is created by the first change on a branch of the lake."""

    version: int
    """Main's version that is read before; 0 for main's newest one."""
    catalog: str
    """The catalog's root."""
    lake_branch: str
    lake_id: str
    """Distinguishes that branch of the lake from an earlier one of its name."""
    table: tuple[str, ...]
    """The parts of the table's name there."""


@dataclass(frozen=True)
class PinnedVersion:
    """One immutable version, which every executor opens."""

    branch: str | None
    """None for main."""
    version: int
    stamp: int | None = None
    """Commit time in nanoseconds since the epoch, as in the manifest. It distinguishes this version from one of the
    same number in a dataset that was deleted and recreated at the same place. None if unknown."""

    @property
    def reference(self) -> tuple[str, int]:
        """(branch, version) in pylance's form."""
        return self.branch or MAIN, self.version

    def __str__(self) -> str:
        """``branch@version``."""
        return f"{self.branch or MAIN}@{self.version}"


@dataclass(frozen=True)
class VersionInfo:
    version: int
    timestamp: datetime
    """Commit time from the manifest, UTC."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """pylance's summary, e.g. ``total_rows`` and ``total_data_files``, as text."""


# --- Decoding ref files (specification "Branch Metadata File Format" and "Tag File Format")
# pylance writes camelCase keys and rejects the snake_case ones that the published specification lists; one such file
# breaks its whole listing. This module reads both.

BRANCHES = "_refs/branches"
TAGS = "_refs/tags"
MAIN_FILE = "_refs/lance_spark/main.json"
"""Metadata of main, which has no ref file: like that of branches, an object with ``metadata``. The table's metadata
would not do: versions, branches and clones would inherit it, and a restore or an overwrite would undo it."""
_SUFFIX = ".json"
_UNEXPECTED = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, OSError)
"""Errors of decoding a value of the wrong kind, or a number that is not a time."""
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?([Zz]|[+-]\d\d:\d\d)")


def ref_file(directory: str, name: str) -> str:
    """Path of a ref file below the dataset root; ``/`` in the name is written ``%2F``."""
    return f"{directory}/{quote(name, safe='')}{_SUFFIX}"


def ref_name(path: str) -> str | None:
    """The branch or tag of a ref file; None for any other file."""
    name = path.rsplit("/", 1)[-1]
    return unquote(name[: -len(_SUFFIX)]) if name.endswith(_SUFFIX) else None


def parse_branch(name: str, content: bytes) -> Branch:
    """A branch from its ref file. Raises CorruptData, naming the branch, for unexpected content."""
    entry = _decode("branch", name, content)
    try:
        created = int(_either(entry, "createAt", "create_at"))
        return Branch(
            name=name,
            parent_branch=_text_or_none(_either(entry, "parentBranch", "parent_branch", default=None)),
            parent_version=int(_either(entry, "parentVersion", "parent_version")),
            created_at=datetime.fromtimestamp(created, timezone.utc),
            metadata=dict(entry.get("metadata") or {}),
            # That of an older writer's branch must differ from main's, and must not change with the ref.
            identity=_identity(entry.get("identifier")) or uuid5(NAMESPACE_OID, f"{created} {name}").hex,
        )
    except _UNEXPECTED as problem:
        raise _corrupt("branch", name, problem) from None


def parse_tag(name: str, content: bytes) -> Tag:
    """A tag from its ref file. Raises CorruptData, naming the tag, for unexpected content."""
    entry = _decode("tag", name, content)
    try:
        created = _either(entry, "createdAt", "created_at", default=None)
        made = None if created is None else _rfc3339(created)
        return Tag(
            name=name,
            branch=_text_or_none(entry.get("branch")),
            version=int(entry["version"]),
            created_at=made,
            metadata=dict(entry.get("metadata") or {}),
            changed_at=_changed_at(_either(entry, "updatedAt", "updated_at", default=None), made),
        )
    except _UNEXPECTED as problem:
        raise _corrupt("tag", name, problem) from None


def tag_file(target: PinnedVersion, size: int, now: datetime) -> bytes:
    """The ref file of a tag, with the fields that pylance writes; ``size`` is that of the manifest, bytes.

    Not through pylance, which sends several requests for each: a lake has thousands of tables.
    """
    stamp = now.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    content: dict[str, object] = {
        "branch": target.branch,
        "version": target.version,
        "createdAt": stamp,
        "updatedAt": stamp,
        "manifestSize": size,
        "metadata": {},
    }
    return json.dumps(content, indent=2).encode()


def _changed_at(updated: Any, made: datetime | None) -> datetime | None:
    """When a tag was last placed; None for an unreadable time, which matters only for tags that expire."""
    try:
        return made if updated is None else _rfc3339(updated)
    except _UNEXPECTED:
        return None


def parse_main(content: bytes) -> dict[str, str]:
    """The metadata of main. Raises CorruptData."""
    try:
        return {str(key): str(value) for key, value in _decode("branch", MAIN, content)["metadata"].items()}
    except _UNEXPECTED as problem:
        raise _corrupt("branch", MAIN, problem) from None


def main_file(metadata: Mapping[str, str]) -> bytes:
    return json.dumps({"metadata": dict(metadata)}, indent=2).encode()


_REQUIRED = object()


def _either(entry: Mapping[str, Any], camel: str, snake: str, default: Any = _REQUIRED) -> Any:
    for key in (camel, snake):
        if key in entry:
            return entry[key]
    if default is _REQUIRED:
        raise KeyError(camel)
    return default


def _identity(identifier: Any) -> str:
    """The branch's own id, the last in the list with its ancestors' ids; "" if it was created without an id.

    Beside version 0, pylance invents an id, a new one at each read, until the ref is changed.
    """
    version, unique = ((identifier or {}).get("version_mapping") or [[0, ""]])[-1]
    return str(unique) if version else ""


def _text_or_none(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _rfc3339(text: str) -> datetime:
    """An RFC 3339 time; pylance writes nanoseconds, and Python keeps microseconds."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an RFC 3339 time")
    seconds, fraction, offset = match.groups()
    offset = "+00:00" if offset in "Zz" else offset
    return datetime.fromisoformat(f"{seconds}.{(fraction or '').ljust(6, '0')}{offset}").astimezone(timezone.utc)


def _decode(kind: str, name: str, content: bytes) -> dict[str, Any]:
    try:
        entry = decode_json(content)
    except ValueError as problem:
        raise _corrupt(kind, name, problem) from None
    if not isinstance(entry, dict):
        raise _corrupt(kind, name, "not a JSON object")
    return entry


def _corrupt(kind: str, name: str, problem: object) -> CorruptData:
    reason = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
    return CorruptData(
        f"The ref file of {kind} '{name}' cannot be understood: {reason}.",
        hint="Restore the file, or delete it if the ref is not needed.",
    )


# --- Choosing a version, and suggesting the nearest ones


def newest_at(versions: Sequence[VersionInfo], moment: datetime, branch: str | None) -> int:
    """Number of the newest version committed at or before the moment.

    The highest number wins, not the latest timestamp: writers' clocks differ, but numbers always ascend.
    Raises NotFound if every version is younger.
    """
    candidates = [info.version for info in versions if info.timestamp <= moment]
    if not candidates:
        oldest = min((info.timestamp for info in versions), default=None)
        raise NotFound(
            f"Branch '{branch or MAIN}' has no version at or before {moment.isoformat()}.",
            hint=f"Its oldest version is from {oldest.isoformat()}." if oldest else None,
        )
    return max(candidates)


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
