"""From exceptions of stores and pylance to this package's errors, including the missing permission and its place.

pylance and botocore report which request was denied; an answer of S3 itself can name the permission. Nothing here
contacts a store.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from lance_spark import errors, hints
from lance_spark.core.layout import VERSIONS
from lance_spark.core.location import DatasetLocation
from lance_spark.core.services import is_secret
from lance_spark.storage import vended
from lance_spark.storage.vended import Refusal

READ, LIST, WRITE, DELETE = "read", "list", "write", "delete"
_S3 = {READ: "s3:GetObject", LIST: "s3:ListBucket", WRITE: "s3:PutObject", DELETE: "s3:DeleteObject"}
_WORDS = {
    "s3": _S3,
    "gs": {
        verb: f"storage.objects.{word}" for verb, word in zip(_S3, ("get", "list", "create", "delete"), strict=True)
    },
    "az": {verb: f"blobs/{word}" for verb, word in zip(_S3, ("read", "read", "write", "delete"), strict=True)},
}
_FAMILY = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_NOT_ALLOWED = re.compile(
    r"AccessDenied|not authorized|necessary privileges|AuthorizationPermissionMismatch|\b403\b|forbidden", re.I
)
_WHO_ARE_YOU = re.compile(
    r"SignatureDoesNot|InvalidAccessKey|ExpiredToken|InvalidToken|InvalidClientTokenId|unauthenticated", re.I
)
_EXPIRED = re.compile(r"ExpiredToken|TokenRefreshRequired|token (?:has|is) expired", re.I)
_SKEWED = re.compile(r"RequestTimeTooSkewed")
_HEAD_REFUSED = re.compile(r"performing HEAD\b.*status code: 40[01]\b|\(40[01]\) when calling the Head", re.I | re.S)
"""How S3 answers HEAD if the key is none any more: without a body, so without a reason. A wrong region looks alike."""
_TOLD_BY_S3 = re.compile(r"not authorized to perform: (s3:\w+) on resource: \"?arn:[\w-]+:s3:::([^\s\"]+)")
_BY_PYLANCE = re.compile(r"Error performing (\w+) (\S+) in ")
_PATH_BY_PYLANCE = re.compile(r"for path (\S+?): ")
_DELETION_BY_PYLANCE = re.compile(r"DeleteObjects request failed for key (\S+?): ")
_BY_BOTOCORE = re.compile(r"when calling the (\w+) operation")
_AGAIN = re.compile(r"after \d+ retr")
_SAID = re.compile(r"(?:AccessDenied|operation): (?!.*AccessDenied: )(.+)$", re.S)
_METHODS = {"GET": READ, "HEAD": READ, "PUT": WRITE, "POST": WRITE, "PATCH": WRITE, "DELETE": DELETE}
_FLAT = frozenset({"data", VERSIONS, "_transactions", "_deletions", "_indices", "_cleanup", "_backfill", "_quarantine"})
_COMMITTED = frozenset({"data", VERSIONS, "_transactions", "_deletions", "_indices"})


class Denial(NamedTuple):
    verb: str
    """READ, LIST, WRITE or DELETE."""
    permission: str
    """The permission's name in the store's terms."""
    place: str
    """URI of the directory, ending with a slash; of the bucket for a listing."""
    said: str = ""
    """The rest of the store's message."""
    asked_again: bool = False
    """Whether this answers a retry: an earlier attempt, whose answer was lost, might have arrived."""

    def __str__(self) -> str:
        return f"{self.permission} on {self.place}"

    @property
    def before_commit(self) -> bool:
        """Whether it was a write of a version's files or manifest: that version was never committed."""
        return self.verb == WRITE and not self.asked_again and not _COMMITTED.isdisjoint(self.place.split("/"))


def denial(text: str, location: DatasetLocation, path: str | None = None) -> Denial | None:
    """The denied request; None if the text does not show it, or the store rejected the credentials altogether.

    ``text`` contains no secrets. ``path`` is the requested file, relative to the location, if known.
    """
    words = _WORDS.get(_FAMILY.get(location.uri.partition("://")[0], ""))
    if words is None or _WHO_ARE_YOU.search(text) or _SKEWED.search(text) or not _NOT_ALLOWED.search(text):
        return None
    known = None if path is None else f"{location.uri}/{path}"
    if told := _TOLD_BY_S3.search(text):
        verb = next((verb for verb, word in words.items() if word == told[1]), WRITE)
        return Denial(verb, told[1], _directory(f"s3://{told[2]}", verb), _said(text))
    found = _request(text, location)
    if found is None:
        return None
    verb, uri = found
    place = _directory(uri or known or f"{location.uri}/", verb)
    return Denial(verb, words[verb], place, _said(text), bool(_AGAIN.search(text)))


def _said(text: str) -> str:
    """The store's own words, if they go beyond "access denied"."""
    found = _SAID.search(text)
    said = found[1].rstrip(".") if found else ""
    return "" if said.lower() == "access denied" else said


def _request(text: str, location: DatasetLocation) -> tuple[str, str | None] | None:
    """The kind of request, and the URI of the file if the text contains it."""
    if asked := _BY_PYLANCE.search(text):
        verb = _METHODS.get(asked[1].upper())
        query = urlsplit(asked[2]).query
        if verb == READ and ("prefix=" in query or "list-type" in query):
            verb = LIST
        if query == "delete":
            verb = DELETE
        path = _PATH_BY_PYLANCE.search(text)
        return None if verb is None else (verb, f"{location.store}/{path[1]}" if path else None)
    if told := _DELETION_BY_PYLANCE.search(text):
        return DELETE, f"{location.store}/{told[1]}"
    if asked := _BY_BOTOCORE.search(text):
        name = asked[1]
        if name.startswith("List"):
            return LIST, None
        if name.startswith("Delete"):
            return DELETE, None
        return (READ if name.startswith(("Get", "Head")) else WRITE), None
    return None


def _directory(uri: str, verb: str) -> str:
    """The directory of a file, without random parts of its name: an index's own directory, or a plan's."""
    scheme, _, rest = uri.partition("://")
    bucket, *segments = rest.split("/")
    if verb == LIST:
        return f"{scheme}://{bucket}"
    above = segments[:-1]
    flat = next((at for at, segment in enumerate(segments) if at and segment in _FLAT), None)
    if flat is not None:
        above = segments[: flat + 1]
    return f"{scheme}://{'/'.join([bucket, *above])}/"


# --- What the operating system says about a local disk

_ERRNO = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]")


class _OnDisk(NamedTuple):
    """The error for one of the system's error numbers."""

    kind: type[errors.LanceSparkError]
    says: str
    hint: str


_FULL = "Free space there, then run it again. lance-git gc --execute removes old versions, also on a full disk."
_MODES = "Check the owner and the mode of its files and directories, and which user runs this."
_ON_DISK = {
    errno.ENOSPC: _OnDisk(errors.StorageFull, "The disk is full", _FULL),
    errno.EDQUOT: _OnDisk(errors.StorageFull, "The disk quota is used up", _FULL),
    errno.EROFS: _OnDisk(
        errors.PermissionDenied, "The file system is read-only", "Mount it for writing, or work on a clone elsewhere."
    ),
    errno.EACCES: _OnDisk(errors.PermissionDenied, "The operating system denied access", _MODES),
    errno.EPERM: _OnDisk(errors.PermissionDenied, "The operating system denied access", _MODES),
    errno.ENAMETOOLONG: _OnDisk(
        errors.InvalidName, "A name or path is longer than the file system allows", "Choose a shorter one."
    ),
    errno.ESTALE: _OnDisk(
        errors.StorageFailure,
        "The network file system lost track of a file",
        "Run it again. If that does not help, mount the file system again.",
    ),
    errno.EIO: _OnDisk(errors.StorageFailure, "The disk could not be read or written", "Check the disk."),
    errno.EMFILE: _OnDisk(
        errors.StorageFailure, "This process has too many open files", "Raise the limit, for example: ulimit -n 65536."
    ),
}


def _by_system(text: str, where: str, location: DatasetLocation) -> errors.LanceSparkError | None:
    """The error for what the operating system said about a local disk; None if it said nothing of the kind.

    Without this, a full disk would come with a hint about endpoints and regions.
    """
    found = _ERRNO.search(text) if location.is_local else None
    known = None if found is None else _ON_DISK.get(int(found[1] or found[2]))
    return None if known is None else known.kind(f"{known.says}: {where}: {text}", hint=known.hint)


# --- From pylance's exceptions to this package's errors
# pylance raises OSError, ValueError or RuntimeError with a text. The type depends on the call, so the text decides.
# Everything unrecognized is a StorageFailure: "unrecognized" must never be read as "absent".

_SOURCE_LINE = re.compile(r",? ?(?:location: )?/[^\s,]*\.rs:\d+(?::\d+)?")
_DENIED = re.compile(
    r"status code: 40[13]\b|access ?denied|permission ?denied|forbidden|unauthenticated|"
    r"SignatureDoesNot|InvalidAccessKey|ExpiredToken|InvalidToken",
    re.I,
)
_XML_ERROR = re.compile(r"(?:<\?xml[^>]*>\s*)?<Error\b.*(?:</Error>|$)", re.I | re.S)
_XML_SAID = re.compile(r"<(Code|Message)>([^<]*)<", re.I)
_URL_USER = re.compile(r"(?<=://)[^/\s@]+@")
_BAD_ENDPOINT = re.compile(r"InvalidUri|invalid endpoint|RelativeUrlWithoutBase", re.I)
NO_CREDENTIALS = "There are no credentials"
"""How the message begins."""
_NO_CREDENTIALS = re.compile(r"CredentialsNotLoaded|unable to locate credentials", re.I)
_NO_BUCKET = re.compile(r"NoSuchBucket|bucket does not exist", re.I)
_OUTCOME_UNKNOWN = re.compile(r"commit result for version \d+ is unknown|may or may not have been applied", re.I)
"""What pylance says of a commit that nobody answered. It also names a conflict, as if nothing had been committed."""
_CONFLICT = re.compile(r"conflict|incompatible (?:with concurrent )?transaction|too many concurrent writers", re.I)
_PATH = re.compile(r"(?<![\w<])(?:[a-z][\w+.-]*:/)?/[^\s,;'\"()]*", re.I)
_BROKEN_FILE = re.compile(
    r"generic memory error: invalid range|not appear to be a lance file|not have sufficient data|invalid seek|"
    r"correct footer",
    re.I,
)
_TOO_MUCH_TEXT = re.compile(r"offset overflow error", re.I)
_NO_DIRECTORY = re.compile(r"not a directory", re.I)
_LOST_FILE = re.compile(r"not found: (?!.*/_versions\b).*/(?:data|_deletions|_indices)/", re.I)
_BAD_INPUT = re.compile(
    r"invalid user input|error parsing statement|no field named|schema error|invalid input|"
    r"feature is not implemented|error applying filter expression",
    re.I,
)
_EXISTS = re.compile(r"already exists", re.I)
_UNREACHABLE = re.compile(
    r"generic \w+ error|error sending request|timed? ?out|connection|dns error|builder error", re.I
)
_CORRUPT = re.compile(
    r"corrupt|magic number|file size is too small|invalid range 0\.\.0|failed to decode|protobuf|"
    r"invalid wire|decode error|unexpected end|EOF|missing field|invalid json|expected value at line",
    re.I,
)
_ABSENT = re.compile(r"not found|no such file|does not exist", re.I)
_ENDPOINT = hints.of(
    "Check the endpoint, the region and, for plain HTTP, ", hints.storage_option("allow_http", "true"), "."
)
_UNSUPPORTED = re.compile(r"not supported|please upgrade|unsupported", re.I)


@contextmanager
def translated(location: DatasetLocation, doing: str) -> Iterator[None]:
    """Convert pylance's exceptions raised inside to this package's errors; ``doing`` completes "while ..."."""
    try:
        yield
    except errors.LanceSparkError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, NotImplementedError) as problem:
        raise from_pylance(problem, location, doing) from None
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":
            raise
        # Rust code panicked over unexpected bytes; the panic is not an Exception in Python.
        text, where = clean(str(problem), location), f"{location.uri} while {doing}"
        raise _no_answer(text, text, where) or _corrupt(text, where) from None


def from_pylance(problem: BaseException, location: DatasetLocation, doing: str) -> errors.LanceSparkError:
    """The error for an exception from pylance, without secrets and Rust source lines."""
    if location in vended.replaced:
        return vended.replaced[location]
    text = clean(str(problem), location)
    told = _without_paths(text, location)
    where = f"{location.uri} while {doing}"
    key_refused = _is_key_refused(told, location)
    if _OUTCOME_UNKNOWN.search(told):
        why = ", as the credentials were refused before their time" if key_refused else ""
        return errors.StorageFailure(
            f"Whether the commit was made is unknown{why}: {where}: {text}",
            hint="Look at the newest version before you run it again; no file was deleted.",
        )
    if key_refused:
        return _denied(text, where, denial(text, location), location)
    if by_system := _by_system(text, where, location):
        return by_system
    if _BROKEN_FILE.search(told):
        return _corrupt(text, where)
    if _TOO_MUCH_TEXT.search(told):
        return errors.Refused(
            f"Too many rows of long texts were read at once at {where}: a batch can hold 2 GiB of them.",
            hint="Read fewer rows at a time: option batch_size, such as 1000.",
        )
    if type(problem).__name__ == "CommitConflictError" or (_CONFLICT.search(told) and not _blames_user(told)):
        return errors.Conflict(
            f"A concurrent commit to {where} cannot be combined with this one: {text}", hint="Run it again."
        )
    return _refusal(told, text, where, location) or _absent_or_broken(told, text, where, doing)


def from_fsspec(problem: BaseException, location: DatasetLocation, path: str | None = None) -> errors.LanceSparkError:
    """The error for an exception from fsspec or botocore; those have no common base class.

    ``path`` is the requested file, if any, relative to the location.
    """
    # s3fs keeps the store's error code only in the cause of its exception.
    text = clean(f"{type(problem).__name__}: {problem.__cause__ or problem}", location)
    told = _without_paths(text, location)
    if by_system := _by_system(text, location.uri, location):
        return by_system
    if _is_key_refused(told, location) or isinstance(problem, PermissionError) or _DENIED.search(told):
        return _denied(text, location.uri, denial(text, location, path), location)
    return _no_answer(told, text, location.uri) or errors.StorageFailure(f"The store of {location.uri} failed: {text}")


def refusal_of(told: str) -> Refusal | None:
    """Why a store refused a request, as pylance or fsspec tell it; None if it did not refuse the key or its rights."""
    if _SKEWED.search(told):
        return None
    if _EXPIRED.search(told):
        return Refusal.EXPIRED
    if _WHO_ARE_YOU.search(told) or _HEAD_REFUSED.search(told):
        return Refusal.KEY
    return Refusal.RIGHTS if _DENIED.search(told) else None


def _is_key_refused(told: str, location: DatasetLocation) -> bool:
    """Whether a store refused the key that a provider handed out; the next request asks for another one."""
    refusal = refusal_of(told)
    if refusal is None or vended.provider_of(location) is None:
        return False
    vended.refused(location, time.monotonic(), refusal)
    return refusal is not Refusal.RIGHTS


def of_local_file(problem: OSError, path: str, what: str) -> errors.LanceSparkError:
    """The error for a local file or directory that cannot be read, written, made or removed; ``what`` says which."""
    known = from_fsspec(problem, DatasetLocation.at(path))
    return type(known)(f"{path} cannot be {what}: {problem.strerror}.", hint=known.hint)


def _no_answer(told: str, text: str, where: str) -> errors.StorageFailure | None:
    """The error if the store never answered; None if it did."""
    if _BAD_ENDPOINT.search(told):
        return errors.StorageFailure(
            f"The endpoint of {where} is not a URL: {text}",
            hint="Include the scheme, e.g. http://host:9000; unset the variable AWS_ENDPOINT if it is empty.",
        )
    if _NO_CREDENTIALS.search(told):
        return errors.StorageFailure(
            f"{NO_CREDENTIALS} for {where}: {text}",
            hint=hints.of(
                "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or give both as in ",
                hints.storage_option("aws_access_key_id", "..."),
                ".",
            ),
        )
    if _UNREACHABLE.search(told):
        return errors.StorageFailure(
            f"The store could not be reached: {where}: {text}",
            hint=None if where.startswith("/") else _ENDPOINT,
        )
    return None


def _denied(text: str, where: str, missing: Denial | None, location: DatasetLocation) -> errors.PermissionDenied:
    if _SKEWED.search(text):
        return errors.PermissionDenied(
            f"The store refused access to {where}, because this machine's clock and the store's differ: {text}",
            hint="Set the clock of this machine; S3 refuses requests whose time is off by more than 15 minutes.",
        )
    refusal = refusal_of(text)
    if refusal is Refusal.EXPIRED or (refusal is Refusal.KEY and vended.provider_of(location) is not None):
        return _expired(text, where, vended.provider_of(location) is not None)
    said = text if missing is None else f"{missing} is missing.{f' It said: {missing.said}.' if missing.said else ''}"
    problem = errors.PermissionDenied(
        f"The store denied access to {where}: {said}",
        hint="Check the credentials (storage options or the environment) and what they may read and write: the page "
        "'Permissions' of the documentation has what each verb needs.",
    )
    if missing is not None:
        problem.missing, problem.before_commit = str(missing), missing.before_commit
        problem.of_change = missing.verb in (WRITE, DELETE)
    return problem


def _expired(text: str, where: str, handed_out: bool) -> errors.PermissionDenied:
    if not handed_out:
        return errors.PermissionDenied(
            f"The credentials have expired: {where}: {text}",
            hint="Give new ones; or a token_provider, which hands out new ones in the middle of a job: the page "
            "'Permissions' of the documentation.",
        )
    return errors.PermissionDenied(
        f"The credentials were refused before their time, since they were revoked or a clock is off: {where}: {text}",
        hint="Run it again: the next request asks for new ones. If the store refuses these as well, look at what the "
        "provider may hand out, and at the clock of this machine.",
    )


def _blames_user(told: str) -> bool:
    """Whether pylance rejects the user's input; the text then also contains words of a filter."""
    return told.lower().startswith("invalid user input")


def _refusal(told: str, text: str, where: str, location: DatasetLocation) -> errors.LanceSparkError | None:
    """The error for a request that pylance or the store refused; None for any other text."""
    if _blames_user(told):
        return errors.InvalidOption(f"{text} ({where})")
    if _DENIED.search(told):
        return _denied(text, where, denial(text, location), location)
    if _NO_BUCKET.search(told):
        return errors.NotFound(
            f"The bucket of {where} does not exist: {text}", hint="Check the bucket name and the endpoint."
        )
    if _BAD_INPUT.search(told):
        return errors.InvalidOption(f"{text} ({where})")
    if _EXISTS.search(told):
        return errors.AlreadyExists(f"{text} ({where})")
    return None


def _absent_or_broken(told: str, text: str, where: str, doing: str) -> errors.LanceSparkError:
    if _LOST_FILE.search(text):
        return _corrupt(text, where)
    if _NO_DIRECTORY.search(told):
        return _absent(text, where, doing)
    if failure := _no_answer(told, text, where):
        return failure
    if _CORRUPT.search(told):
        return _corrupt(text, where)
    if _ABSENT.search(told):
        return _absent(text, where, doing)
    if _UNSUPPORTED.search(told):
        return errors.CorruptData(
            f"{text} ({where})", hint="The dataset was written by a newer Lance; upgrade pylance."
        )
    return errors.StorageFailure(f"Failed at {where}: {text}")


def _corrupt(text: str, where: str) -> errors.CorruptData:
    return errors.CorruptData(
        f"A file of {where} cannot be read: {text}",
        hint=hints.of("Read an older version, ", hints.READ_VERSION, "; or restore the file."),
    )


def _absent(text: str, where: str, doing: str) -> errors.NotFound:
    if doing != OPENING:
        return errors.NotFound(f"{text} ({where})")
    return errors.NotFound(
        f"There is no Lance dataset at {where.removesuffix(' while ' + doing)}.",
        hint="Check the path; a Lance dataset is a directory with a '_versions' directory inside.",
    )


def _without_paths(text: str, location: DatasetLocation) -> str:
    """The text without its paths: a directory named 'connection' or '403' must not look like a failure."""
    whole = location.uri.partition("://")[2] or location.uri.lstrip("/")
    key = "" if location.is_local else whole.partition("/")[2]
    for root in (whole, key):
        for spelling in {root, unquote(root), quote(root), quote(root, safe="")} - {""}:
            text = re.sub(rf"(?<!\w){re.escape(spelling)}(?:(?:/|%2F)[^\s,;'\"()]*|(?!\w))", " ", text)
    return _PATH.sub(" ", text)


OPENING = "opening the dataset"
"""The only step whose "not found" means the dataset itself; a value of ``doing``."""


def clean(text: str, location: DatasetLocation) -> str:
    """The text without Rust source positions and without secrets.

    Secrets are the values of storage options that might be secret, a URL's user and password, and everything in a
    store's XML except its code and message: S3 repeats the whole session token in an "expired token" answer.
    """
    for key, value in location.options:
        if len(value) > 3 and is_secret(key):
            text = text.replace(value, "***")
    for value in vended.secrets():
        text = text.replace(value, "***")
    text = _XML_ERROR.sub(lambda error: ": ".join(said for _, said in _XML_SAID.findall(error[0])), text)
    return _SOURCE_LINE.sub("", _URL_USER.sub("***@", text)).strip().rstrip(".,")
