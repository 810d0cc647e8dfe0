"""Segments of indexes through pylance: builds them on executors; commits, deletes and describes them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import EPOCH, quoted_name
from lance_spark.errors import StorageFailure
from lance_spark.format.contents import IndexRecord, decode_indexes
from lance_spark.format.metadata import Segment
from lance_spark.format.transactions import MESSAGE
from lance_spark.indexes.index_rules import Kind, Training, find_kind
from lance_spark.pushdown.aggregates import IndexEnds
from lance_spark.storage import files
from lance_spark.storage.commits import check_written, commit_on
from lance_spark.storage.datasets import open_own, open_pinned
from lance_spark.storage.failures import translated
from lance_spark.storage.versions import read_manifest

BUILT = pa.schema([("segment", pa.binary())])
"""Pickled descriptions of segments, as pylance has them."""
_NOT_FOR_PYLANCE = frozenset({"metric", "num_partitions", "sample_rate", "max_iters", "num_segments"})
"""Settings used for training, or by this package only."""


class Model(NamedTuple):
    """The model that all segments of one build share, so that they can be merged."""

    training: Training
    centroids: Any
    codebook: Any = None
    rotation: str | None = None


class SegmentOrder(NamedTuple):
    """The parameters that all segments of one build share. Kinds are given by name."""

    location: DatasetLocation
    pin: PinnedVersion
    column: str
    kind: str
    name: str
    settings: Mapping[str, Any]
    model: Model | None = None


_FEW = re.compile("Unprocessable: (KMeans cannot train|Not enough rows to train)")


def train(order: SegmentOrder, training: Training, fragments: Collection[int]) -> Model | None:
    """A model of the vectors, from a sample that pylance takes of these fragments; None if it found too few."""
    try:
        return _trained(order, training, fragments)
    except StorageFailure as failed:
        if _FEW.search(str(failed)) is None:
            raise
    return None


def count_vectors(order: SegmentOrder, metric: str, fragments: Collection[int]) -> int:
    """The vectors that pylance trains on: without nulls, without NaN, and for cosine without zeros. Reads them all."""
    dataset = open_own(order.location, order.pin)
    chosen = [each for each in dataset.get_fragments() if each.fragment_id in fragments]
    with translated(order.location, "counting vectors"):
        path = ".".join(map(quoted_name, order.column.split(".")))
        scanner = dataset.scanner(columns={"v": path}, fragments=chosen)
        found = 0
        for batch in scanner.to_batches():
            there = batch.column(0).drop_null()
            numbers = there.flatten().to_numpy(zero_copy_only=False).reshape(-1, there.type.list_size).astype("f8")
            found += int((np.isfinite(numbers).all(axis=1) & ((metric != "cosine") | numbers.any(axis=1))).sum())
    return found


def _trained(order: SegmentOrder, training: Training, fragments: Collection[int]) -> Model:
    from lance.indices import IndicesBuilder
    from lance.lance import indices

    kind = find_kind(order.kind)
    dataset = open_own(order.location, order.pin)
    chosen = sorted(fragments)
    with translated(order.location, "training an index"):
        builder = IndicesBuilder(dataset, order.column)
        ivf = builder.train_ivf(
            training.partitions,
            distance_type=training.metric,
            sample_rate=training.sample_rate,
            max_iters=training.max_iters,
            fragment_ids=chosen,
        )
        if kind.has_codebook:
            codes = builder.train_pq(
                ivf,
                training.sub_vectors,
                sample_rate=training.codebook_rate,
                max_iters=training.max_iters,
                num_bits=training.bits,
                fragment_ids=chosen,
            )
            return Model(training, ivf.centroids, codebook=codes.codebook)
        if kind.name == "ivf_rq":
            return Model(training, ivf.centroids, rotation=indices.build_rq_model(builder.dimension, training.bits))
    return Model(training, ivf.centroids)


def build_segment(order: SegmentOrder, fragments: Sequence[int], whole: bool = True) -> Iterator[pa.RecordBatch]:
    """Write a segment for fragments of a version below the branch's own directory. It is not visible yet.

    One that is not ``whole`` can only be merged.
    """
    kind = find_kind(order.kind)
    dataset = open_own(order.location, order.pin)
    with translated(order.location, "building an index"):
        segment = dataset.create_index_uncommitted(
            order.column,
            kind.lance,
            name=order.name,
            replace=True,  # the index that the segment belongs to may already have the name
            fragment_ids=list(fragments),
            **_arguments(kind, order),
        )
        if whole and kind.is_staged:
            segment = dataset.merge_existing_index_segments([segment])
    yield _packed(segment)


def merge_built(order: SegmentOrder, segments: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Write one segment with the contents of several."""
    dataset = open_own(order.location, order.pin)
    with translated(order.location, "merging segments of an index"):
        merged = dataset.merge_existing_index_segments([pickle.loads(segment) for segment in segments])
    yield _packed(merged)


def unpack(segment: bytes) -> Any:
    """A segment as pylance describes it, from the output of a task of ours."""
    return pickle.loads(segment)


def _packed(segment: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"segment": [pickle.dumps(segment)]}, schema=BUILT)


def _arguments(kind: Kind, order: SegmentOrder) -> dict[str, Any]:
    given = {name: value for name, value in order.settings.items() if name not in _NOT_FOR_PYLANCE}
    model = order.model
    if model is None:
        return given
    given["metric"] = model.training.metric
    given["ivf_centroids"] = model.centroids
    given["num_partitions"] = len(model.centroids)
    if kind.has_codebook:
        given |= {
            "pq_codebook": model.codebook,
            "num_sub_vectors": model.training.sub_vectors,
            "num_bits": model.training.bits,
        }
    if model.rotation is not None:
        given |= {"rabitq_model": model.rotation, "num_bits": model.training.bits}
    return given


# --- Committing segments, and deleting those that were never committed


def check_segments(location: DatasetLocation, branch: str | None, new: Iterable[Any]) -> None:
    """Raise Conflict if files of new segments were deleted before the commit that names them."""
    paths = [f"_indices/{segment.uuid}/{file.path}" for segment in new for file in segment.files or ()]
    check_written(location, branch, paths)


def commit_segments(
    location: DatasetLocation,
    head: PinnedVersion,
    new: Iterable[Any],
    removed: Collection[str],
    message: str | None = None,
) -> PinnedVersion:
    """Add new segments, given as pylance's descriptions, to a branch, and remove those with these ids, in one version.

    The files of removed segments stay: older versions and other branches read them. Raises Conflict.
    """
    known = decode_indexes(read_manifest(location, head))
    gone = [as_index(record) for record in known if record.uuid in removed]
    return _commit(location, head, list(new), gone, {MESSAGE: message} if message else {})


def commit_indexes(
    location: DatasetLocation,
    head: PinnedVersion,
    new: Iterable[IndexRecord],
    removed: Iterable[IndexRecord],
    properties: Mapping[str, str],
) -> PinnedVersion:
    """Register segments of indexes whose files exist, and remove others. Raises Conflict.

    pylance removes fragments that another commit changed meanwhile from a segment's coverage.
    """
    return _commit(
        location, head, [as_index(index) for index in new], [as_index(index) for index in removed], properties
    )


def _commit(
    location: DatasetLocation, head: PinnedVersion, new: list[Any], removed: list[Any], properties: Mapping[str, str]
) -> PinnedVersion:
    import lance

    return commit_on(location, head, lance.LanceOperation.CreateIndex(new, removed), properties)


def discard_segments(location: DatasetLocation, branch: str | None, uuids: Iterable[str]) -> None:
    """Delete segments that no version names. Those that cannot be deleted now are left for a cleanup."""
    with suppress(StorageFailure):
        delete_segments(location, branch, uuids)


def delete_segments(location: DatasetLocation, branch: str | None, uuids: Iterable[str]) -> None:
    """Delete segments that no version names. Raises StorageFailure."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    files.delete(root, [f"_indices/{uuid}" for uuid in uuids])


def as_index(record: IndexRecord) -> Any:
    from lance.dataset import Index, IndexFile

    made = None if record.created_at is None else EPOCH + timedelta(milliseconds=record.created_at)
    return Index(
        uuid=record.uuid,
        name=record.name,
        fields=list(record.fields),
        dataset_version=record.dataset_version,
        fragment_ids=set(record.fragments or ()),
        index_version=record.index_version,
        created_at=made,
        base_id=record.base_id,
        files=[IndexFile(path, size) for path, size in record.files] or None,
        index_details=record.details,
        covering_fields=list(record.covering_fields),
    )


# --- Descriptions of the indexes of a version


def describe_segments(location: DatasetLocation, pin: PinnedVersion) -> Iterator[Segment]:
    for index in _described(location, pin):
        for segment in index.segments:
            yield Segment(
                name=index.name,
                index_type=index.index_type,
                columns=list(index.field_names),
                uuid=str(segment.uuid),
                fragments=frozenset(segment.fragment_ids),
                size_bytes=segment.size_bytes,
                created_at=segment.created_at,
                dataset_version=segment.dataset_version_at_last_update,
                inherited=segment.base_id is not None,
            )


def all_details(location: DatasetLocation, pin: PinnedVersion) -> dict[str, Mapping[str, Any]]:
    """The settings each index was built with, by its name, in pylance's words."""
    return {index.name: dict(index.details or {}) for index in _described(location, pin)}


def index_details(location: DatasetLocation, pin: PinnedVersion, name: str) -> Mapping[str, Any]:
    """The settings an index was built with, in pylance's words; empty if it does not report them.

    Of a text index, pylance 14.0.2 describes all but the list of stop words, and what an old writer did not record as
    it would build one today: rows added by the description had words that the others do not have. Its files tell.
    """
    for index in _described(location, pin):
        if index.name == name:
            details = dict(index.details or {})
            if index.index_type == _TEXT_INDEX:
                dataset = open_pinned(location, pin)
                with translated(location, "reading the settings of an index"):
                    segments = dataset.stats.index_stats(name).get("segments") or [{}]
                details |= {key: value for key, value in segments[0].get("params", {}).items() if value is not None}
            return details
    return {}


_TEXT_INDEX = "Inverted"


def _described(location: DatasetLocation, pin: PinnedVersion) -> Any:
    dataset = open_pinned(location, pin)
    with translated(location, "describing the indexes"):
        return dataset.describe_indices()


# --- The smallest and largest values of columns, from indexes

_SORTED = "BTree"
_UNKNOWN = "NULL"


def index_ends(
    location: DatasetLocation, pin: PinnedVersion, columns: Iterable[str]
) -> Mapping[str, list[IndexEnds]] | None:
    """The ends of each segment of the index on each column, from its statistics; None unless all have a sorted one."""
    dataset = open_pinned(location, pin)
    with translated(location, "reading value ranges of indexes"):
        names = {
            index.field_names[0]: index.name
            for index in dataset.describe_indices()
            if index.index_type == _SORTED and len(index.field_names) == 1
        }
        if not names.keys() >= set(columns):
            return None
        told = {column: dataset.stats.index_stats(names[column]).get("indices", ()) for column in columns}
    return {
        column: [(entry.get("min", _UNKNOWN), entry.get("max", _UNKNOWN)) for entry in segments]
        for column, segments in told.items()
    }
