"""What a refused request was for: which permission is missing, and where. From what stores and their clients say.

pylance and botocore say which request was refused; an answer of S3 itself may name the permission. Nothing here asks a
store.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from lance_spark.layout.names import VERSIONS
from lance_spark.location import DatasetLocation

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
    """A permission that is missing."""

    verb: str
    """READ, LIST, WRITE or DELETE."""
    permission: str
    """As the store calls it."""
    place: str
    """URI of the directory, ending with a slash; of the bucket for a listing."""
    said: str = ""
    """What the store said beside that."""
    asked_again: bool = False
    """Whether this answers a further attempt: then an earlier one, whose answer was lost, may have arrived."""

    def __str__(self) -> str:
        """The permission and where it is missing."""
        return f"{self.permission} on {self.place}"

    @property
    def before_commit(self) -> bool:
        """Whether it was a write of a version's files or manifest: then that version was never committed."""
        return self.verb == WRITE and not self.asked_again and not _COMMITTED.isdisjoint(self.place.split("/"))


def denial(text: str, location: DatasetLocation, path: str | None = None) -> Denial | None:
    """What was refused; None if the text does not tell, or the store did not take the credentials at all.

    ``text`` is without secrets. ``path`` is the file that the request was for, relative to the location, if known.
    """
    words = _WORDS.get(_FAMILY.get(location.uri.partition("://")[0], ""))
    if words is None or _WHO_ARE_YOU.search(text) or not _NOT_ALLOWED.search(text):
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
    """The store's own words, if they tell more than that access was denied."""
    found = _SAID.search(text)
    said = found[1].rstrip(".") if found else ""
    return "" if said.lower() == "access denied" else said


def _request(text: str, location: DatasetLocation) -> tuple[str, str | None] | None:
    """What was asked for, and the URI of the file if the text has it."""
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
    """The directory of a file, without what a writer names by chance: an index's own, or that of a plan."""
    scheme, _, rest = uri.partition("://")
    bucket, *segments = rest.split("/")
    if verb == LIST:
        return f"{scheme}://{bucket}"
    above = segments[:-1]
    flat = next((at for at, segment in enumerate(segments) if at and segment in _FLAT), None)
    if flat is not None:
        above = segments[: flat + 1]
    return f"{scheme}://{'/'.join([bucket, *above])}/"
