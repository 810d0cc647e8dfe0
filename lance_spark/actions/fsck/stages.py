"""What runs on executors: reading manifests, listing base paths, holding both against each other, row ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.checkup import codes
from lance_spark.checkup.compare import SUSPECTS, Question, compare
from lance_spark.checkup.needed import needed_of_span
from lance_spark.cleanup.references import ChainSpan, KeyResolver
from lance_spark.cleanup.survey import Survey
from lance_spark.cleanup.sweep import FILES
from lance_spark.errors import CorruptData, NotFound
from lance_spark.layout.file_kinds import classify
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.merge.row_ids import read_row_ids
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.deletions import deleted_offsets
from lance_spark.store.insides import LookInside
from lance_spark.store.listing import list_range
from lance_spark.store.version_reader import read_manifests, read_snapshot

WHOLE = KeyRange(None, None)


@dataclass(frozen=True)
class NeedSpan:
    """Reads spans of versions, and tells what they need."""

    survey: Survey

    def __call__(self, span: ChainSpan) -> Iterator[pa.RecordBatch]:
        """NEEDED of one span."""
        chain = self.survey.chains[span.chain]
        repository = self.survey.repositories[chain.repository]
        paths = [chain.path(chain.files[position]) for position in span.positions]
        contents = zip(span.positions, read_manifests(repository, paths), strict=True)
        yield from needed_of_span(chain, span.chain, contents, KeyResolver(self.survey, os.path.realpath))


def about_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of NEEDED about versions."""
    for batch in batches:
        yield batch.filter(pc.is_valid(batch["code"]))


BASES = pa.schema([("base", pa.string()), ("chain", pa.int32()), ("first", pa.int32()), ("last", pa.int32())])


def about_bases(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """BASES: the base paths outside of all repositories, with chains whose versions read files from there."""
    for batch in batches:
        named = pa.Table.from_batches([batch.filter(pc.is_valid(batch["base"]))]).select(BASES.names)
        found = named.group_by(["base", "chain"]).aggregate([("first", "min"), ("last", "max")])
        yield from found.rename_columns(BASES.names).cast(BASES).to_batches()


@dataclass(frozen=True)
class ListBase:
    """Lists what is in a base path."""

    def __call__(self, place: DatasetLocation) -> Iterator[pa.RecordBatch]:
        """FILES, with URIs for paths and keys, of no chain."""
        for batch in list_range(place, WHOLE):
            named = [classify(path) for path in batch["path"].to_pylist()]
            columns: list[Any] = [
                [f"{place.uri}/{path}" for path in batch["path"].to_pylist()],
                [each.kind for each in named],
                [-1] * len(named),
                [f"{place.uri}/{each.key}" for each in named],
                [each.key for each in named],
                batch["size"].to_pylist(),
                [None] * len(named),
            ]
            arrays = [pa.array(values, field.type) for values, field in zip(columns, FILES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=FILES)


@dataclass(frozen=True)
class Compare:
    """Holds files against needs, and looks inside of them if it is asked to."""

    question: Question
    look: LookInside | None

    def __call__(self, files: pa.Table, needed: pa.Table) -> pa.Table:
        """SUSPECTS of one group."""
        return compare(files, needed, self.question, self.look)


@dataclass(frozen=True)
class RowIdItem:
    """The newest version of a branch, of which row ids are checked."""

    location: DatasetLocation
    pin: PinnedVersion
    chain: int
    position: int
    path: str
    """Of the manifest."""


def check_row_ids(item: RowIdItem) -> Iterator[pa.RecordBatch]:
    """SUSPECTS about the stable row ids of a version. What is missing or damaged was found before."""
    try:
        snapshot = read_snapshot(item.location, item.pin)
        wrong = list(_row_ids(item, snapshot)) if snapshot.contents.has_stable_row_ids else []
    except (NotFound, CorruptData):
        return
    nothing = dict.fromkeys(SUSPECTS.names)
    place = {"path": item.path, "chain": item.chain, "first": item.position, "last": item.position}
    rows = [{**nothing, **place, "code": c, "detail": d, "rows": n, "files": 1, "bytes": 0} for c, d, n in wrong]
    yield pa.RecordBatch.from_pylist(rows, SUSPECTS)


def _row_ids(item: RowIdItem, snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    contents: Contents = snapshot.contents
    kept, fragments = [], [fragment for fragment in contents.fragments() if fragment.row_ids]
    for fragment in fragments:
        ids = np.array(read_row_ids(fragment.row_ids), np.uint64)
        if len(ids) != fragment.physical_rows:
            detail = f"fragment {fragment.id} has {len(ids):,} row ids for {fragment.physical_rows:,} rows"
            yield codes.ROW_IDS_IMPOSSIBLE, detail, fragment.physical_rows
        elif len(ids) and int(ids.max()) >= contents.next_row_id:
            detail = f"fragment {fragment.id} has row id {int(ids.max()):,}, and {contents.next_row_id:,} comes next"
            yield codes.ROW_IDS_IMPOSSIBLE, detail, fragment.physical_rows
        kept.append(_without_deleted(item, snapshot, fragment, ids))
    values, counts = np.unique(np.concatenate(kept), return_counts=True) if kept else (np.array([]), np.array([]))
    twice = values[counts > 1]
    if len(twice):
        yield codes.ROW_IDS_TWICE, f"{len(twice):,} ids, such as {int(twice[0]):,}", int(counts[counts > 1].sum())


def _without_deleted(item: RowIdItem, snapshot: Snapshot, fragment: Fragment, ids: Any) -> Any:
    """An updated row keeps its id, and its old place is deleted."""
    if fragment.deletion is None or len(ids) != fragment.physical_rows:
        return ids
    return np.delete(ids, deleted_offsets(item.location, snapshot, fragment).to_numpy())
