"""A workspace, and its TOML file ``.lance-git/config.toml``.

    dataset = "."            # a path, from the workspace's directory, or a URI
    branch = "main"

    [remotes.origin]
    uri = "s3://bucket/flights.lance"

Users edit the file by hand. So comments and order survive a change, every key is checked (a misspelled one would
silently mean the default), errors name the line, and secrets are refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lance_spark import hints
from lance_spark.core.location import canonical_uri, is_uri
from lance_spark.core.ref_names import check_branch_name, missing
from lance_spark.core.refs import MAIN
from lance_spark.errors import AlreadyExists, InvalidName, InvalidOption, LanceSparkError, NotFound

if TYPE_CHECKING:
    import tomlkit

DIRECTORY = ".lance-git"
CONFIG = f"{DIRECTORY}/config.toml"
_HEADER = "lance-git's workspace. No secrets here: credentials come from the environment or --storage."
_TOP = ("dataset", "branch", "cloning", "remotes")
_SECRET = re.compile(r"storage|key|secret|token|password|credential|sas", re.IGNORECASE)
_CREDENTIALS = re.compile(r"^\s*s3[an]?://[^/]*@|://[^/]*:[^/]*@", re.IGNORECASE)
_REMOTE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_POSITION = re.compile(r" at line \d+ col \d+$")
_RESERVED = frozenset({"heads", "tags", "HEAD", MAIN})
"""First path segments that have another meaning in a ref."""


@dataclass(frozen=True)
class RemoteEntry:
    name: str
    uri: str


@dataclass(frozen=True)
class Workspace:
    dataset: str
    """As written: a URI, or a path relative to the workspace's directory."""
    branch: str = MAIN
    remotes: Mapping[str, RemoteEntry] = field(default_factory=dict)
    cloning: str | None = None
    """The ``branch@version`` of origin that an unfinished clone will get."""


def parse_workspace(text: str) -> Workspace:
    """The workspace that a file describes. Raises InvalidOption that names the line."""
    document = _document(text)
    _check_keys(text, document, _TOP, "")
    remotes = _typed(text, "remotes", document.get("remotes", {}), dict)
    workspace = Workspace(
        dataset=_typed(text, "dataset", document.get("dataset"), str),
        branch=_typed(text, "branch", document.get("branch", MAIN), str),
        remotes={name: _remote(text, name, entry) for name, entry in remotes.items()},
        cloning=None if "cloning" not in document else _typed(text, "cloning", document["cloning"], str),
    )
    with _line(text, "dataset"):
        check_uri(workspace.dataset)
    with _line(text, "branch"):
        if workspace.branch != MAIN:
            check_branch_name(workspace.branch)
    return workspace


def render_workspace(workspace: Workspace) -> str:
    """The text of a new file. Raises InvalidOption for a value that the file must not hold."""
    import tomlkit  # for the shell alone: a write in Spark does not wait for it

    check_uri(workspace.dataset)
    document = tomlkit.document()
    document.add(tomlkit.comment(_HEADER))
    document["dataset"] = workspace.dataset
    document["branch"] = workspace.branch
    if workspace.cloning is not None:
        document["cloning"] = workspace.cloning
    text = document.as_string()
    for remote in workspace.remotes.values():
        text = with_remote(text, remote)
    return text


def with_branch(text: str, branch: str) -> str:
    document = _document(text)
    document["branch"] = branch
    return document.as_string()


def with_clone_finished(text: str) -> str:
    document = _document(text)
    document.pop("cloning", None)
    return document.as_string()


def with_remote(text: str, remote: RemoteEntry) -> str:
    """The same file with another remote added. Raises InvalidName, InvalidOption, AlreadyExists."""
    import tomlkit

    check_remote_name(remote.name)
    check_uri(remote.uri)
    if remote.name in parse_workspace(text).remotes:
        raise AlreadyExists(
            f"Remote '{remote.name}' already exists.", hint=f"lance-git remote set-url {remote.name} URI changes it."
        )
    document = _document(text)
    if "remotes" not in document:
        document["remotes"] = tomlkit.table(is_super_table=True)
    entry = tomlkit.table()
    entry["uri"] = remote.uri
    _remotes(document)[remote.name] = entry
    return document.as_string()


def with_remote_uri(text: str, remote: RemoteEntry) -> str:
    """The same file with another URI for a remote. Raises NotFound, InvalidOption."""
    check_uri(remote.uri)
    check_known_remote(parse_workspace(text).remotes, remote.name)
    document = _document(text)
    _remotes(document)[remote.name]["uri"] = remote.uri
    return document.as_string()


def without_remote(text: str, name: str) -> str:
    """The same file without a remote. Raises NotFound."""
    check_known_remote(parse_workspace(text).remotes, name)
    document = _document(text)
    del _remotes(document)[name]
    if not _remotes(document):
        del document["remotes"]
    return document.as_string()


def check_known_remote(remotes: Collection[str], name: str) -> None:
    """Raise NotFound, with near names, unless the remote is among those."""
    if name in remotes:
        return
    if not remotes:
        raise NotFound(f"There is no remote '{name}'.", hint="Add one with: lance-git remote add NAME URI.")
    raise NotFound(f"There is no remote '{name}'.", hint=missing("remote", name, remotes).hint)


def check_remote_name(name: str) -> None:
    """Raise InvalidName unless the name can stand before a slash in a ref, as in ``origin/main``."""
    if not _REMOTE_NAME.fullmatch(name) or ".." in name:
        raise InvalidName(
            f"'{name}' is not a valid remote name: it may contain only letters, digits, '.', '-' and '_'.",
            hint="Most people call the first one origin.",
        )
    if name in _RESERVED:
        raise InvalidName(f"'{name}' is not a valid remote name: it means something else in a ref.")


def check_uri(uri: str) -> None:
    """Raise InvalidOption for an invalid URI, or one that holds credentials."""
    if not uri.strip():
        raise InvalidOption("The URI is empty.", hint="Give a path or a URI, such as s3://bucket/flights.lance.")
    if _CREDENTIALS.search(uri):
        raise InvalidOption(
            "The URI has credentials in it, and the workspace stores no secrets.",
            hint=hints.of("Remove them; they come from the environment, or from ", hints.STORAGE, " on each call."),
        )
    canonical_uri(uri, str)


def _remote(text: str, name: str, entry: object) -> RemoteEntry:
    key = f"remotes.{name}"
    with _line(text, key):
        check_remote_name(name)
    table = _typed(text, key, entry, dict)
    _check_keys(text, table, ("uri",), f"{key}.")
    uri = _typed(text, f"{key}.uri", table.get("uri"), str)
    with _line(text, f"{key}.uri"):
        check_uri(uri)
    return RemoteEntry(name, uri)


def _document(text: str) -> tomlkit.TOMLDocument:
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        return tomlkit.parse(text)
    except ParseError as problem:
        said = _POSITION.sub("", str(problem)).replace("'\\x00'", "the end").rstrip(".")
        raise InvalidOption(f"{CONFIG}, line {problem.line}: this is not TOML: {said}.") from None
    except TOMLKitError as problem:
        raise InvalidOption(f"{CONFIG} is not TOML: {problem}.") from None


def _remotes(document: tomlkit.TOMLDocument) -> Any:
    return document["remotes"]


def _check_keys(text: str, table: Mapping[str, object], known: Iterable[str], where: str) -> None:
    for key in table:
        if key in known:
            continue
        if _SECRET.search(key):
            raise _problem(
                text,
                where + key,
                f"'{where}{key}' does not belong here: the workspace stores no secrets",
                "Remove it; storage options come from the environment, or from --storage KEY=VALUE on each call.",
            )
        keys = ", ".join(known)
        raise _problem(text, where + key, f"'{where}{key}' is not a known key", f"Known keys: {keys}.")


def _typed(text: str, key: str, value: object, kind: type) -> Any:
    plain = value.unwrap() if hasattr(value, "unwrap") else value
    if isinstance(plain, kind):
        return plain
    expected = "text in quotes" if kind is str else "a table"
    if value is None:
        raise _problem(text, key, f"'{key}' is missing", f"Add {key.rpartition('.')[2]} = ..., with {expected}.")
    raise _problem(text, key, f"'{key}' is {plain!r}", f"It must be {expected}.")


@contextmanager
def _line(text: str, key: str) -> Iterator[None]:
    """Prefixes errors raised inside with the line of a key."""
    try:
        yield
    except LanceSparkError as problem:
        raise _problem(text, key, problem.message.rstrip("."), problem.hint) from None


def _problem(text: str, key: str, message: str, hint: str | None) -> InvalidOption:
    number = _line_of(text, key)
    where = f"{CONFIG}, line {number}" if number else CONFIG
    return InvalidOption(f"{where}: {message}.", hint=hint)


def _line_of(text: str, key: str) -> int | None:
    """Number of the line that sets a dotted key, or of the table for it; None if neither exists."""
    table, _, last = key.rpartition(".")
    current, fallback = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+([^\]]+)\]", line):
            current = _plain(header[1])
            if current == key:
                return number
            fallback = number if current == table else fallback
            continue
        name, equals, _ = line.partition("=")
        if equals and _plain(f"{current}.{name}" if current else name) == (f"{table}.{last}" if table else last):
            return number
    return fallback


def _plain(name: str) -> str:
    return re.sub(r"[\s\"']", "", name)


# --- The target of a command in the current directory: a workspace, or a dataset without one


@dataclass(frozen=True)
class OpenWorkspace:
    directory: str
    """Absolute path of the directory that holds ``.lance-git``."""
    workspace: Workspace

    @property
    def dataset_uri(self) -> str:
        return absolute(self.workspace.dataset, self.directory)

    def remote_uri(self, name: str) -> str:
        """URI or absolute path of one of the workspace's remotes."""
        return absolute(self.workspace.remotes[name].uri, self.directory)


@dataclass(frozen=True)
class PlainDataset:
    """A dataset on a local disk, found by its directory rather than by a workspace."""

    uri: str
    """Real path of the dataset's root."""
    branch: str | None = None
    """The branch whose directory led to the dataset; None outside of ``tree/``."""


def absolute(uri: str, directory: str) -> str:
    """A path made absolute against a directory; URIs and absolute paths are unchanged."""
    return uri if is_uri(uri) else posixpath.join(directory, uri)
