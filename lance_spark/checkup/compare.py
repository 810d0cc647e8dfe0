"""What versions need against what is there. Pure: whoever looks inside files hands in what it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.checkup import codes
from lance_spark.layout import file_kinds
from lance_spark.layout.file_kinds import classify

SUSPECTS = pa.schema(
    [
        ("code", pa.string()),
        ("path", pa.string()),  # relative to the dataset, or a URI
        ("base", pa.string()),  # base path of a file outside of all repositories
        ("chain", pa.int32()),  # null for files that no version names
        ("first", pa.int32()),  # position of the first version that names the file
        ("last", pa.int32()),
        ("expected", pa.int64()),  # bytes that were recorded; 0 for unknown
        ("rows", pa.int64()),  # rows hit
        ("detail", pa.string()),
        ("files", pa.int64()),  # 1, or how many files the row sums up
        ("bytes", pa.int64()),
    ]
)
COUNTED = "counted"
"""In the place of a code: the row says how many files of the dataset were listed."""
MOST = 1_000
"""So many files of one kind are named in one group; further ones are counted."""
_MISSING = {
    file_kinds.DATA: codes.DATA_MISSING,
    file_kinds.DELETION: codes.DELETION_MISSING,
    file_kinds.INDEX: codes.INDEX_MISSING,
    file_kinds.TRANSACTION: codes.TRANSACTION_MISSING,
}
_LEFT_OVER = frozenset(
    {
        file_kinds.DATA,
        file_kinds.BLOB,
        file_kinds.DELETION,
        file_kinds.INDEX,
        file_kinds.TRANSACTION,
        file_kinds.STAGING,
    }
)


class Need(NamedTuple):
    """One row of NEEDED about a file."""

    chain: int
    key: str
    local: str
    file: str | None
    base: str | None
    first: int
    last: int
    size: int
    rows: int
    deleted: int | None

    @property
    def kind(self) -> str:
        """What kind of file it is."""
        return file_kinds.INDEX if self.file is not None else classify(self.local).kind

    @property
    def path(self) -> str:
        """Its own path, for a file of an index the one inside of the index."""
        return f"{self.key}/{self.file}" if self.file else self.key


@dataclass(frozen=True)
class Inside:
    """What is inside of a file that is there."""

    path: str
    """Relative to the dataset, or a URI."""
    kind: str
    rows: int
    """Of the fragment; 0 for unknown."""
    deleted: int | None


Look = Callable[[list[Inside]], Iterable["tuple[str, str] | None"]]
"""Looks inside of files: for each a code and a detail, or None if it is sound."""


@dataclass(frozen=True)
class Question:
    """What decides, beside files and needs."""

    checked: frozenset[int]
    """Chains whose files have to be there: not those of deleted branches."""
    lost_bases: frozenset[str]
    """Base paths that lead nowhere or cannot be reached: their files are not asked for one by one."""
    left_before_ns: int
    """Files that no version names are left over if they were modified before."""


def compare(files: pa.Table, needed: pa.Table, question: Question, look: Look | None = None) -> pa.Table:
    """SUSPECTS for some FILES and all NEEDED with the same ``local``."""
    needs = _needs(needed)
    listed = _listed(files)
    found = [row for need in needs if _asked(need, question) and (row := _held_against(need, listed)) is not None]
    if look is not None:
        found += _looked_inside(needs, listed, question, look, {row["path"] for row in found})
    own = sum(chain is not None and chain >= 0 for chain in files["chain"].to_pylist())
    counted = {**dict.fromkeys(SUSPECTS.names), "code": COUNTED, "files": own}
    rows = [counted, *_few(found), *_left_over(files, {need.key for need in needs}, question)]
    return pa.Table.from_pylist(rows, SUSPECTS)


def _needs(needed: pa.Table) -> list[Need]:
    columns = [needed[name].to_pylist() for name in Need._fields]
    return [Need(*row) for row in zip(*columns, strict=True) if row[1] is not None]


class _There(NamedTuple):
    """What a listing shows."""

    sizes: Mapping[str, int]
    """By path."""
    by_key: Mapping[str, list[str]]
    """Paths by key, without blobs."""


def _listed(files: pa.Table) -> _There:
    sizes: dict[str, int] = {}
    by_key: dict[str, list[str]] = {}
    columns = (files[name].to_pylist() for name in ("path", "kind", "key", "size"))
    for path, kind, key, size in zip(*columns, strict=True):
        sizes[path] = size
        if kind != file_kinds.BLOB:  # beside a data file, under the same key
            by_key.setdefault(key, []).append(path)
    return _There(sizes, by_key)


def _asked(need: Need, question: Question) -> bool:
    return need.chain in question.checked and need.base not in question.lost_bases


def _paths(need: Need, there: _There) -> list[str]:
    """Where the file is; more than one for "any file of an index"."""
    if need.file:
        return [need.path] if need.path in there.sizes else []
    return there.by_key.get(need.key, [])


def _held_against(need: Need, there: _There) -> dict[str, Any] | None:
    paths = _paths(need, there)
    if not paths:
        return _row(need, _MISSING.get(need.kind, codes.OTHER_MISSING), "")
    if need.file == "":
        return None
    size = there.sizes[paths[0]]
    if need.size and size != need.size:
        code = codes.INDEX_SIZE_WRONG if need.kind == file_kinds.INDEX else codes.SIZE_WRONG
        return _row(need, code, f"{size:,} bytes instead of {need.size:,}")
    if not size and need.kind == file_kinds.DELETION:
        return _row(need, codes.SIZE_WRONG, "it is empty")
    if not size and need.kind == file_kinds.TRANSACTION:
        return _row(need, codes.TRANSACTION_MISSING, "it is empty")
    return None


def _row(need: Need, code: str, detail: str) -> dict[str, Any]:
    hit = 0 if need.kind in (file_kinds.INDEX, file_kinds.TRANSACTION) else need.rows
    return {
        "code": code,
        "path": need.path,
        "base": need.base,
        "chain": need.chain,
        "first": need.first,
        "last": need.last,
        "expected": need.size,
        "rows": hit,
        "detail": detail,
        "files": 1,
        "bytes": 0,
    }


def _looked_inside(
    needs: list[Need], there: _There, question: Question, look: Look, known: set[str]
) -> Iterator[dict[str, Any]]:
    """Each file is opened once, although many spans of versions name it; all of them are hit."""
    asked: dict[tuple[str, int, int | None], list[Need]] = {}
    for need in needs:
        if _asked(need, question) and need.path not in known:
            for path in _paths(need, there):
                asked.setdefault((path, need.rows, need.deleted), []).append(need)
    insides = [Inside(path, naming[0].kind, rows, deleted) for (path, rows, deleted), naming in asked.items()]
    for inside, naming, seen in zip(insides, asked.values(), look(insides), strict=True):
        if seen is not None:
            yield from ({**_row(need, *seen), "path": inside.path} for need in naming)


def _few(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The first rows of each code and chain, and one that counts the rest."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["code"], row["chain"]), []).append(row)
    for group in groups.values():
        yield from group[:MOST]
        rest = group[MOST:]
        if rest:
            yield {**rest[0], "files": len(rest), "rows": sum(row["rows"] for row in rest)}


def _left_over(files: pa.Table, needed: set[str], question: Question) -> Iterator[dict[str, Any]]:
    """One row that sums up the files that no version names, and that are no longer young."""
    columns = (files[name].to_pylist() for name in ("path", "kind", "chain", "key", "size", "modified_ns"))
    left = [
        (path, size)
        for path, kind, chain, key, size, modified in zip(*columns, strict=True)
        if kind in _LEFT_OVER and chain is not None and chain >= 0 and key not in needed
        if modified is not None and modified < question.left_before_ns
    ]
    if left:
        nothing = dict.fromkeys(SUSPECTS.names)
        total = sum(size for _, size in left)
        yield {**nothing, "code": codes.UNCOMMITTED, "path": left[0][0], "files": len(left), "bytes": total, "rows": 0}
