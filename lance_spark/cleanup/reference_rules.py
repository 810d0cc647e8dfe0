"""Marks: which versions name which files of the dataset. Built from the contents of manifests. Pure.

A mark states that all versions read between two positions of a chain name a file. Neighboring versions share nearly all
of their files, so one mark stands for thousands of versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lance_spark.core.layout import data_key
from lance_spark.core.location import canonical_uri, is_within
from lance_spark.errors import CorruptData, InvalidOption, Refused
from lance_spark.format.contents import RunDecoder
from lance_spark.format.manifest import BasePath, ManifestHead, NamedFile
from lance_spark.format.schema import in_batches
from lance_spark.survey.chain_rules import Chain, Survey, join

MARKS = pa.schema(
    [
        ("chain", pa.int32()),  # index into Survey.chains; LEFTOVER for evidence of an earlier run
        ("key", pa.string()),  # path in the dataset; null in the rows about a version or a foreign base
        ("local", pa.string()),  # path in its chain: matches files with marks
        ("first", pa.int32()),  # position of the first version that names it
        ("last", pa.int32()),  # ... and of the last one
        ("timestamp_ns", pa.int64()),  # commit time, in the rows about a version
        ("foreign", pa.string()),  # a base path outside of all repositories, in the rows about those
    ]
)
LEFTOVER = -1
"""The chain of marks that an unfinished run left: only versions that are gone by now named these files."""
ANYWHERE = "*/"
"""Prefix of a mark's key for a file in a foreign base. The mark protects the file of that name in every chain: after a
dataset was moved or copied, its branches still name the old place, as their manifests have absolute paths."""
_ROWS = 50_000


@dataclass(frozen=True)
class ChainSpan:
    """Versions of one chain, by position, that one task reads."""

    chain: int
    """Index into ``Survey.chains``."""
    positions: tuple[int, ...]


def cut_spans(
    survey: Survey, positions: Mapping[int, Sequence[int]], tasks: int, read: Mapping[int, Collection[int]]
) -> list[ChainSpan]:
    """Split the versions to read into spans of neighbors, about ``tasks`` in all and about equal in bytes.

    ``read`` are versions that were already read. No span crosses one of them: a mark states that all versions read
    between its ends name the file, which may be false for that version.
    """
    total = sum(survey.chains[chain].files[at].size for chain, unread in positions.items() for at in unread)
    share = max(1, total // max(1, tasks))
    spans = []
    for chain, unread in positions.items():
        taken: list[int] = []
        size = 0
        for position in sorted(unread):
            if taken and (size >= share or any(at in read.get(chain, ()) for at in range(taken[-1] + 1, position))):
                spans.append(ChainSpan(chain, tuple(taken)))
                taken, size = [], 0
            taken.append(position)
            size += survey.chains[chain].files[position].size
        if taken:
            spans.append(ChainSpan(chain, tuple(taken)))
    return spans


class KeyResolver:
    """Resolves the file names of a manifest to keys: paths in the dataset to clean."""

    def __init__(self, survey: Survey, realpath: Callable[[str], str]) -> None:
        self._repositories = [location.uri for location in survey.repositories]
        self._roots = survey.roots
        self._realpath = realpath
        self._root_of = lru_cache(maxsize=None)(self._resolved)
        self._in_clone = lru_cache(maxsize=None)(self._leads_into_clone)

    def resolve(self, chain: Chain, file: NamedFile) -> tuple[str, str] | None:
        """(key, local) of a file; None if it does not belong to the dataset."""
        if file.base is None:
            return (join(chain.root, file.path), file.path) if chain.repository == 0 else None
        root = self._root_of(file.base.path)
        if root is not None:
            return self._owned(join(root, file.path))
        if self.is_foreign(file.base):
            local = file.path if file.base.is_dataset_root else f"data/{file.path}"
            return ANYWHERE + local, local
        return None

    def is_foreign(self, base: BasePath) -> bool:
        """Whether a base path is outside all repositories."""
        return self._root_of(base.path) is None and not self._in_clone(base.path)

    def uri_of(self, base: BasePath) -> str | None:
        """The canonical URI of a base path; None for an invalid one."""
        return self._canonical(base.path)

    def _owned(self, path: str) -> tuple[str, str]:
        owner = self._roots.owner(path)
        local = path[len(owner) + 1 :] if owner else path
        local = data_key(local) if local.startswith("data/") else local
        return join(owner, local), local

    def _resolved(self, base: str) -> str | None:
        """A base path relative to the dataset; None if it is elsewhere."""
        own = self._repositories[0]
        if "://" not in base and not base.startswith("/") and not base.startswith("file:"):
            # Relative to the directory of the process that wrote it, which is no longer known.
            parts = [part for part in base.split("/") if part not in ("", ".", "..")]
            for count in range(len(parts), 0, -1):
                if own.split("/")[-count:] == parts[:count] and parts[count : count + 1] in ([], ["tree"]):
                    return "/".join(parts[count:])
        uri = self._canonical(base)
        if uri is None or not is_within(uri, own):
            return None
        rest = uri[len(own) + 1 :]
        return unquote(rest) if "://" in own else rest

    def _leads_into_clone(self, base: str) -> bool:
        uri = self._canonical(base)
        return uri is not None and any(is_within(uri, clone) for clone in self._repositories[1:])

    def _canonical(self, base: str) -> str | None:
        try:
            return canonical_uri(base, self._realpath)
        except InvalidOption:
            return None


def mark_span(
    chain: Chain, index: int, contents: Iterable[tuple[int, bytes]], resolver: KeyResolver
) -> Iterator[pa.RecordBatch]:
    """Marks of a span of versions, given as (position, manifest) in ascending order; batches of MARKS.

    Raises CorruptData and Refused, with the manifest's name, for an unreadable manifest.
    """
    yield from in_batches(_rows(chain, index, contents, resolver), MARKS, _ROWS)


def _rows(
    chain: Chain, index: int, contents: Iterable[tuple[int, bytes]], resolver: KeyResolver
) -> Iterator[tuple[Any, ...]]:
    decoder = RunDecoder()
    since: dict[NamedFile, int] = {}
    foreign = _ForeignBases(index, resolver)
    before = -1
    for position, content in contents:
        head, added, removed = _feed(decoder, chain, position, content)
        for file in removed:
            yield from _mark(chain, index, file, (since.pop(file), before), resolver)
        since.update(dict.fromkeys(added, position))
        yield index, None, None, position, position, head.timestamp_ns, None
        yield from foreign.after(position, before, added, removed)
        before = position
    for file, first in since.items():
        yield from _mark(chain, index, file, (first, before), resolver)
    yield from foreign.rest(before)


class _ForeignBases:
    """The base paths outside of all repositories from which versions read files. Manifests also list former ones."""

    def __init__(self, index: int, resolver: KeyResolver) -> None:
        self._index, self._resolver = index, resolver
        self._files: Counter[str] = Counter()
        self._since: dict[str, int] = {}

    def after(
        self, position: int, before: int, added: Iterable[NamedFile], removed: Iterable[NamedFile]
    ) -> Iterator[tuple[Any, ...]]:
        """Rows about the bases that a version no longer reads from, unlike those before it."""
        self._files.update(base.path for base in self._of(added))
        self._files.subtract(base.path for base in self._of(removed))
        for base in [base for base in self._since if not self._files[base]]:
            yield self._row(base, self._since.pop(base), before)
        for base, files in self._files.items():
            if files:
                self._since.setdefault(base, position)

    def rest(self, last: int) -> Iterator[tuple[Any, ...]]:
        """Rows about the bases that the last version reads from."""
        return (self._row(base, first, last) for base, first in self._since.items())

    def _of(self, files: Iterable[NamedFile]) -> Iterator[BasePath]:
        return (file.base for file in files if file.base is not None and self._resolver.is_foreign(file.base))

    def _row(self, base: str, first: int, last: int) -> tuple[Any, ...]:
        return self._index, None, None, first, last, None, base


def _feed(
    decoder: RunDecoder, chain: Chain, position: int, content: bytes
) -> tuple[ManifestHead, Iterable[NamedFile], Iterable[NamedFile]]:
    manifest = chain.files[position]
    try:
        head, added, removed = decoder.feed(content)
    except (CorruptData, Refused) as problem:
        raise type(problem)(
            f"{chain.path(manifest)}: {problem.message}",
            hint=problem.hint or "Nothing was deleted. Restore the manifest, or remove it if its version is lost.",
        ) from None
    if head.version != manifest.version:
        raise CorruptData(
            f"{chain.path(manifest)} holds version {head.version}.", hint="Nothing was deleted. Restore the manifest."
        )
    return head, added, removed


def _mark(
    chain: Chain, index: int, file: NamedFile, span: tuple[int, int], resolver: KeyResolver
) -> Iterator[tuple[Any, ...]]:
    keys = resolver.resolve(chain, file)
    if keys is not None:
        yield index, *keys, *span, None, None


def leftover_marks(keys: pa.Array, locals_: pa.Array) -> pa.RecordBatch:
    """Marks for files that only removed versions name, as an unfinished run proved."""
    count = len(keys)
    nothing = [pa.nulls(count, field.type) for field in list(MARKS)[5:]]
    zeros = pa.array([0] * count, pa.int32())
    chain = pa.array([LEFTOVER] * count, pa.int32())
    return pa.RecordBatch.from_arrays([chain, keys, locals_, zeros, zeros, *nothing], schema=MARKS)
