"""Files and marks brought together: which holders need which file. Pure, the same code on Spark and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from lance_spark.cleanup.references import ANYWHERE, LEFTOVER
from lance_spark.layout import file_kinds
from lance_spark.refs.names import is_dataset_directory
from lance_spark.usage.holders import Holders, Ids

ATTRIBUTED = pa.schema(
    [
        ("kind", pa.string()),
        ("chain", pa.int32()),  # index into Survey.chains of the chain in whose directory they are
        ("holders", pa.string()),  # indexes into Holders.all, with commas between; see also STAYS
        ("files", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
STAYS = "-"
"""In the place of holders: nobody needs the file, and neither a cleanup nor the deletion of its branch takes it."""
_NOBODY: Ids = frozenset()


class Portion(NamedTuple):
    """Files of one kind in one directory that the same holders need."""

    kind: str
    chain: int
    holders: Ids
    stays: bool
    """Whether they stay although nobody needs them."""
    files: int
    bytes: int


def attribute(files: pa.Table, marks: pa.Table, holders: Holders, roots: Sequence[str]) -> pa.Table:
    """ATTRIBUTED for some FILES and all MARKS with the same ``local``. ``roots`` are those of all chains."""
    needed = _needed(marks, holders)
    sums: dict[tuple[str, int, str], list[int]] = {}
    texts: dict[Ids, str] = {_NOBODY: ""}
    columns = (files[name].to_pylist() for name in ("path", "kind", "chain", "key", "local", "size"))
    for path, kind, chain, key, local, size in zip(*columns, strict=True):
        ids = needed.get(key, _NOBODY)
        if anywhere := needed.get(ANYWHERE + local):
            ids |= anywhere
        if not ids:
            ids = _by_its_place(path, kind, chain, holders)
        if ids and ids not in texts:
            texts[ids] = ",".join(map(str, sorted(ids)))
        text = texts[ids] if ids or not _stays(path, kind, roots[chain]) else STAYS
        total = sums.setdefault((kind, chain, text), [0, 0])
        total[0] += 1
        total[1] += size
    rows = [(*group, *total) for group, total in sums.items()]
    arrays = zip(*rows, strict=True) if rows else ((),) * len(ATTRIBUTED)
    columns_ = [pa.array(values, field.type) for values, field in zip(arrays, ATTRIBUTED, strict=True)]
    return pa.table(columns_, schema=ATTRIBUTED)


def _needed(marks: pa.Table, holders: Holders) -> dict[str, Ids]:
    """Who needs the files of each key."""
    needed: dict[str, Ids] = {}
    spans: dict[tuple[int, int, int], Ids] = {}
    unions: dict[tuple[Ids, Ids], Ids] = {}  # few sets, of very many files: each is made once
    columns = (marks[name].to_pylist() for name in ("chain", "key", "first", "last"))
    for chain, key, first, last in zip(*columns, strict=True):
        if key is None or chain == LEFTOVER:
            continue
        span = (chain, first, last)
        if span not in spans:
            spans[span] = holders.chains[chain].of_span(first, last)
        ids, before = spans[span], needed.get(key)
        if before is None:
            needed[key] = ids
        elif before is not ids:
            pair = (before, ids)
            if pair not in unions:
                unions[pair] = before | ids
            needed[key] = unions[pair]
    return needed


def _by_its_place(path: str, kind: str, chain: int, holders: Holders) -> Ids:
    """Who holds a file that versions do not name: manifests, refs and notes."""
    if kind == file_kinds.MANIFEST:
        return holders.of_manifest(chain, path.rpartition("/")[2])
    if path in holders.ref_files:
        return frozenset({holders.ref_files[path]})
    return frozenset({holders.chains[chain].newest}) if kind == file_kinds.BOOKKEEPING else _NOBODY


def _stays(path: str, kind: str, root: str) -> bool:
    """Cleanups leave files of unknown kinds; with a branch go those in directories of its own."""
    if kind != file_kinds.UNKNOWN:
        return False
    return not root or not is_dataset_directory(path[len(root) + 1 :].partition("/")[0])


def portions(attributed: pa.Table) -> Iterator[Portion]:
    """ATTRIBUTED of all groups, added up."""
    sums = attributed.group_by(["kind", "chain", "holders"]).aggregate([("files", "sum"), ("bytes", "sum")])
    for row in sums.to_pylist():
        text = row["holders"]
        ids = frozenset(map(int, text.split(","))) if text not in ("", STAYS) else _NOBODY
        yield Portion(row["kind"], row["chain"], ids, text == STAYS, row["files_sum"], row["bytes_sum"])
