"""What versions need: every file that they name, with the size and rows that they recorded. Pure.

As marks do, a row says that all versions read between two positions of a chain name a file. A manifest that cannot be
understood is a row as well: the others are checked all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.checkup.codes import MANIFEST_DAMAGED, MANIFEST_GONE, MANIFEST_UNKNOWN, MANIFEST_WRONG, ROWS_IMPOSSIBLE
from lance_spark.cleanup.references import ANYWHERE, KeyResolver
from lance_spark.cleanup.survey import Chain
from lance_spark.errors import CorruptData, Refused
from lance_spark.layout.file_kinds import classify
from lance_spark.layout.names import stored_name
from lance_spark.manifest.contents import Contents, Fragment, decode_contents
from lance_spark.manifest.indexes import decode_indexes
from lance_spark.manifest.model import BasePath, ManifestHead, NamedFile
from lance_spark.manifest.run import RunDecoder

NEEDED = pa.schema(
    [
        ("chain", pa.int32()),
        ("key", pa.string()),  # of a file in the dataset its key, else its URI; null in rows about versions and bases
        ("local", pa.string()),  # what files and needs are brought together by
        ("file", pa.string()),  # path inside the directory of an index; "" for any file of it; else null
        ("base", pa.string()),  # base path, as it was written, of a file outside of all repositories
        ("first", pa.int32()),  # position of the first version that names it
        ("last", pa.int32()),
        ("size", pa.int64()),  # bytes, 0 for unknown
        ("rows", pa.int64()),  # of the fragment, deleted ones among them; 0 for unknown
        ("deleted", pa.int64()),  # how many rows a deletion file deletes; null for other files
        ("code", pa.string()),  # in rows about versions: what is wrong
        ("detail", pa.string()),
    ]
)
_ROWS = 50_000


class _Recorded(NamedTuple):
    """What a version recorded about a file."""

    file: str | None = None
    size: int = 0
    rows: int = 0
    deleted: int | None = None


@dataclass
class _Seen:
    """A file that the versions before name."""

    first: int
    recorded: list[_Recorded]


def needed_of_span(
    chain: Chain, index: int, contents: Iterable[tuple[int, bytes | None]], resolver: KeyResolver
) -> Iterator[pa.RecordBatch]:
    """NEEDED of a span of versions, given as (position, manifest) in ascending order; None for one that is gone."""
    rows = _Reading(chain, index, resolver).rows(contents)
    while taken := list(islice(rows, _ROWS)):
        columns = [pa.array(column, field.type) for column, field in zip(zip(*taken, strict=True), NEEDED, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=NEEDED)


class _Reading:
    """Reads one span."""

    def __init__(self, chain: Chain, index: int, resolver: KeyResolver) -> None:
        self._chain, self._index, self._resolver = chain, index, resolver
        self._decoder = RunDecoder()
        self._seen: dict[NamedFile, _Seen] = {}
        self._before: Contents | None = None
        self._last = -1

    def rows(self, contents: Iterable[tuple[int, bytes | None]]) -> Iterator[tuple[Any, ...]]:
        for position, content in contents:
            yield from self._version(position, content)
        for file, seen in self._seen.items():
            yield from self._needs(file, seen, self._last)

    def _version(self, position: int, content: bytes | None) -> Iterator[tuple[Any, ...]]:
        if content is None:
            yield self._about(position, MANIFEST_GONE, "")
            return
        try:
            head, added, removed = self._decoder.feed(content)
            now = decode_contents(content)
            recorded = self._recorded(content, head, now)
        except CorruptData as problem:
            yield self._about(position, MANIFEST_DAMAGED, problem.message)
            return
        except Refused as problem:
            yield self._about(position, MANIFEST_UNKNOWN, problem.message)
            return
        for file in removed:
            yield from self._needs(file, self._seen.pop(file, _Seen(self._last, [])), self._last)
        for file in added:
            self._seen[file] = _Seen(position, recorded.pop(file, [_Recorded()]))
        for file, now_recorded in recorded.items():
            seen = self._seen.get(file)
            if seen is not None and seen.recorded != now_recorded:
                yield from self._needs(file, _Seen(position, now_recorded), position)
        yield from self._checked(position, head, now)
        self._before, self._last = now, position

    def _checked(self, position: int, head: ManifestHead, now: Contents) -> Iterator[tuple[Any, ...]]:
        expected = self._chain.files[position].version
        if head.version != expected:
            yield self._about(position, MANIFEST_WRONG, f"it holds version {head.version}")
        seen: set[int] = set()
        for fragment in now.fragments() if self._before is None else now.fragments_without(self._before):
            if (
                fragment.deletion is not None
                and now.counts_rows
                and 0 < fragment.physical_rows < fragment.deletion.rows
            ):
                detail = (
                    f"fragment {fragment.id}: {fragment.deletion.rows} of {fragment.physical_rows} rows are deleted"
                )
                yield self._about(position, ROWS_IMPOSSIBLE, detail)
            if fragment.id in seen:
                yield self._about(position, ROWS_IMPOSSIBLE, f"two fragments have the id {fragment.id}")
            seen.add(fragment.id)

    def _recorded(self, content: bytes, head: ManifestHead, now: Contents) -> dict[NamedFile, list[_Recorded]]:
        """What is recorded of the files of fragments that the version before does not have, and of its indexes."""
        found: dict[NamedFile, list[_Recorded]] = {}
        for fragment in now.fragments() if self._before is None else now.fragments_without(self._before):
            found.update(_files_of(fragment, head, now.counts_rows))
        for index in decode_indexes(content):
            base = _base(head, index.base_id)
            prefix = "_indices/" if base is None or base.is_dataset_root else ""
            found[NamedFile(base, prefix + index.uuid)] = [_Recorded(path, size) for path, size in index.needed]
        return found

    def _needs(self, file: NamedFile, seen: _Seen, last: int) -> Iterator[tuple[Any, ...]]:
        place = self._place(file)
        if place is None:
            return
        key, local, base = place
        for one in seen.recorded:
            facts = (one.file, base, seen.first, last, one.size, one.rows, one.deleted)
            yield (self._index, key, local, *facts, None, None)

    def _place(self, file: NamedFile) -> tuple[str, str, str | None] | None:
        """(key, local, foreign base); None for a clone's file that is not in the dataset."""
        keys = self._resolver.resolve(self._chain, file)
        if keys is not None and not keys[0].startswith(ANYWHERE):
            return *keys, None
        if self._chain.repository or file.base is None:
            return None
        uri = self._resolver.uri_of(file.base) or file.base.path
        return f"{uri}/{file.path}", classify(file.path).key, file.base.path

    def _about(self, position: int, code: str, detail: str) -> tuple[Any, ...]:
        return (self._index, None, None, None, None, position, position, 0, 0, None, code, detail)


def _files_of(fragment: Fragment, head: ManifestHead, counts_rows: bool) -> Iterator[tuple[NamedFile, list[_Recorded]]]:
    rows = fragment.physical_rows if counts_rows else 0
    for file in fragment.files:
        base = _base(head, file.base_id)
        prefix = "data/" if base is None or base.is_dataset_root else ""
        yield NamedFile(base, prefix + stored_name(file.path)), [_Recorded(size=file.size, rows=rows)]
    deletion = fragment.deletion
    if deletion is not None:
        named = NamedFile(_base(head, deletion.base_id), deletion.path_for(fragment.id))
        yield named, [_Recorded(rows=rows, deleted=deletion.rows)]


def _base(head: ManifestHead, base_id: int | None) -> BasePath | None:
    return None if base_id is None else head.bases[base_id]
