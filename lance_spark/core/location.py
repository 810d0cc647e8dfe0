"""A dataset's location: one canonical URI, and the storage options that open it.

pylance writes the URI it was given into branch and clone manifests, character for character, and its cleanup compares
the characters. Creating a branch through ``/p`` and cleaning up through ``file:///p/`` loses the branch's files. So
every URI is canonicalized before it reaches pylance, and every dataset is opened through :class:`DatasetLocation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from lance_spark import hints
from lance_spark.errors import InvalidOption

_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+")
_BUCKET_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "az", "abfs", "abfss"})
_OPENED = _BUCKET_SCHEMES | {"file"}
_WHERE = "local (or mounted) paths, s3://, gs://, az:// and abfss://"
_INSTEAD = {
    "hdfs": "HDFS does not work: put the dataset into an object store, or onto a file system that all machines mount "
    "at the same path.",
    "dbfs": "Databricks mounts it at /dbfs: write /dbfs{path}.",
    "gcs": "Write gs://bucket/path.",
    "wasb": "Write abfss://container@account.dfs.core.windows.net/path.",
}
_SAME = {"viewfs": "hdfs", "webhdfs": "hdfs", "swebhdfs": "hdfs", "wasbs": "wasb"}
_BUCKET = re.compile(r"[^\s?#%\\\[\]]+")
_PATH_CHARACTERS = "/-._~!$&'()*+,;=:@"


@dataclass(frozen=True)
class DatasetLocation:
    """A dataset's root. Pickles, hashes, and never shows a storage option's value."""

    uri: str
    """Canonical URI of the dataset root: an absolute local path, or ``scheme://bucket/key`` without trailing slash."""

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Storage options in pylance's spelling, sorted by key. Values can be secrets: hidden from ``repr``."""

    def __repr__(self) -> str:
        """The URI and the number of storage options."""
        return f"DatasetLocation({self.uri!r}, storage_options=<{len(self.options)} hidden>)"

    @property
    def storage_options(self) -> dict[str, str]:
        """A fresh dict of the storage options, for pylance."""
        return dict(self.options)

    @property
    def is_local(self) -> bool:
        """Whether the dataset is on a local (or mounted) file system."""
        return "://" not in self.uri

    @property
    def store(self) -> str:
        """The dataset's store: ``s3://bucket``, or ``file://`` for local disks."""
        if self.is_local:
            return "file://"
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc}"

    def branch_uri(self, branch: str | None) -> str:
        """A branch's own directory, or the root for main, None or "main" (specification, "Branch Dataset Layout").

        The branch's name is not percent-encoded: pylance looks for the unencoded name at the end of the URI.
        """
        return self.uri if branch in (None, "main") else f"{self.uri}/tree/{branch}"

    @staticmethod
    def at(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
        """A location from an already canonical URI (see :func:`canonical_uri`)."""
        return DatasetLocation(uri, tuple(sorted((storage_options or {}).items())))


def is_uri(text: str) -> bool:
    """Whether a text is a URI, ``s3://...`` or ``file:...``, rather than a plain path.

    Raises InvalidOption for ``s3:/b`` and as :func:`check_scheme` does.
    """
    check_scheme(text)
    return _split_scheme(text.strip())[0] is not None


def check_scheme(text: str) -> None:
    """Raise InvalidOption for input that begins with ``scheme:/`` of an unsupported store.

    Read as a path, ``dbfs:/x`` would become the directory ``./dbfs:/x``. The text might hold a password, so the error
    names the scheme only, plus the path if neither user nor host precedes it.
    """
    head, colon, rest = text.strip().partition(":")
    scheme = head.lower()
    if not colon or not rest.startswith("/") or not _SCHEME.fullmatch(head) or scheme in _OPENED:
        return
    instead = _INSTEAD.get(_SAME.get(scheme, scheme), "Put the dataset into one of these places.")
    path = "/..." if rest.startswith("//") and not rest.startswith("///") else f"/{rest.lstrip('/')}"
    raise InvalidOption(f"Datasets are opened at {_WHERE}, not at {head}:.", hint=instead.replace("{path}", path))


def is_relative(text: str) -> bool:
    """Whether a text is a path relative to the working directory of the process."""
    scheme, rest = _split_scheme(text.strip())
    if scheme not in (None, "file"):
        return False
    path = rest if scheme is None else _strip_file_authority(rest)
    return bool(path) and not path.startswith("/")


def refused_relative(text: str, whole: str | None = None) -> InvalidOption:
    """The error for a relative path on Spark Connect; ``whole`` is its absolute form on the client, if known."""
    path = text.strip()
    known = f"os.path.abspath({path.removeprefix('file:')!r})" if whole is None else repr(whole)
    return InvalidOption(
        f"'{path}' is a relative path, and on Spark Connect it would lead to a temporary directory of the server. "
        "Nothing was read or written.",
        hint=f"Give an absolute path that the server can reach, such as {known}, or a URI: s3://bucket/t.lance.",
    )


def is_within(uri: str, root: str) -> bool:
    """Whether a URI is a root or below it; both are canonical."""
    return uri == root or uri.startswith(f"{root}/")


def canonical_uri(text: str, realpath: Callable[[str], str]) -> str:
    """The one spelling of a dataset URI.

    Local paths (plain, relative, ``file:/p``, ``file:///p``, through symlinks) become the absolute real path;
    ``s3a://`` and ``s3n://`` become ``s3://``; trailing slashes are removed; percent-encoding is normalized, because
    pylance decodes it in URLs. ``realpath`` resolves a local path; it is an argument to keep this function pure.

    Raises InvalidOption for an empty URI, credentials inside the URI, a missing bucket, ``.``, ``..`` or empty path
    segments in an object-store URI, and local paths that pylance would spread over several places.
    """
    text = text.strip()
    if not text:
        raise InvalidOption("The dataset URI is empty.", hint="Give a path or a URI, such as s3://bucket/t.lance.")
    scheme, rest = _split_scheme(text)
    if scheme is None:
        return _local_path(text, realpath)
    if scheme == "file":
        return _local_path(_decoded(_strip_file_authority(rest)), realpath)
    return _object_store_uri(_SCHEME_ALIASES.get(scheme, scheme), rest, text)


def _split_scheme(text: str) -> tuple[str | None, str]:
    """(lower-case scheme, the text after the colon), or (None, text) for a plain path."""
    head, colon, rest = text.partition(":")
    if not colon or not _SCHEME.fullmatch(head):
        return None, text
    if head.lower() == "file" or rest.startswith("//"):
        return head.lower(), rest
    if head.lower() in _BUCKET_SCHEMES and rest.startswith("/"):
        raise InvalidOption(f"A URI needs two slashes after '{head}:'.", hint=f"Write {head}://bucket/path.")
    return None, text


def _strip_file_authority(rest: str) -> str:
    """``///p``, ``//localhost/p`` and Hadoop's ``/p`` are the same local path."""
    if not rest.startswith("//"):
        return rest
    authority, slash, path = rest[2:].partition("/")
    if authority not in ("", "localhost"):
        raise InvalidOption(
            f"A file URI cannot name the host '{authority}'.", hint="Write file:///absolute/path or a plain path."
        )
    return slash + path


def _local_path(path: str, realpath: Callable[[str], str]) -> str:
    """The real path. pylance puts the branches of ``/p/a?b`` into ``/p/a``, so any '?' is refused."""
    real = realpath(path) if path and "\0" not in path else ""
    if not real.isascii() and is_not_text(real):
        raise InvalidOption(
            f"The path {printable(real)} is not UTF-8, and Lance keeps paths as UTF-8.",
            hint="Rename the directory, or mount it under another name.",
        )
    if not real or "?" in real or real != real.strip():
        raise InvalidOption(
            f"'{path}' cannot be the path of a dataset.", hint="Use one without '?' and without a trailing space."
        )
    return real


def is_not_text(text: str) -> bool:
    """Whether the text has bytes that are not UTF-8, which Python keeps as lone surrogates (PEP 383)."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def printable(text: str) -> str:
    """The text with such bytes as escapes, which every terminal and log can take."""
    return text.encode("utf-8", "backslashreplace").decode()


def _decoded(text: str) -> str:
    """Percent-decoded text; bytes that are not text would all become the same replacement character."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidOption(f"The percent-encoding in '{text}' is not UTF-8.") from None


def _object_store_uri(scheme: str, rest: str, text: str) -> str:
    bucket, _, key = rest[2:].partition("/")
    user, at, _ = bucket.rpartition("@")
    if at and (scheme.startswith("s3") or ":" in user):
        raise InvalidOption(
            "Credentials inside a URI end up in manifests and logs.",
            hint=hints.of("Pass them as ", hints.STORAGE, ", or through the environment."),
        )
    if not _BUCKET.fullmatch(bucket):
        raise InvalidOption(f"'{text}' names no bucket.", hint=f"Write {scheme}://bucket/path/to/table.lance.")
    key = quote(_decoded(key).rstrip("/"), safe=_PATH_CHARACTERS)
    if any(segment in ("", ".", "..") for segment in key.split("/")) and key:
        raise InvalidOption(
            f"'{text}' has an empty, '.' or '..' path segment.", hint="Object stores have no such directories."
        )
    if "%3F" in key:
        # pylance writes no branch of such a dataset: it takes the rest for a query.
        raise InvalidOption(f"'{text}' cannot be the URI of a dataset.", hint="Use one without '?'.")
    return f"{scheme}://{bucket}/{key}" if key else f"{scheme}://{bucket}"
