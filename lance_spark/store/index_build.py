"""Builds segments of indexes that no version knows yet: trains, builds and merges. Runs on executors."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.indexing.kinds import Kind, find_kind
from lance_spark.indexing.training import Training
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import open_own
from lance_spark.store.failures import translated

BUILT = pa.schema([("segment", pa.binary())])
"""Pickled descriptions of segments, as pylance has them."""
_NOT_FOR_PYLANCE = frozenset({"metric", "num_partitions", "sample_rate", "max_iters", "num_segments"})
"""Settings that have been used for training, or are ours."""


class Model(NamedTuple):
    """What all segments of one build share, so that they can be merged."""

    training: Training
    centroids: Any
    codebook: Any = None
    rotation: str | None = None


class SegmentOrder(NamedTuple):
    """What the segments of one build have in common. Kinds go by their names."""

    location: DatasetLocation
    pin: PinnedVersion
    column: str
    kind: str
    name: str
    settings: Mapping[str, Any]
    model: Model | None = None


def train(order: SegmentOrder, training: Training, fragments: Collection[int]) -> Model:
    """A model of the vectors, from a sample that pylance takes of these fragments."""
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
    """Write a segment for fragments of a version below the branch's own directory. Nobody sees it yet.

    One that is not ``whole`` can only be merged.
    """
    kind = find_kind(order.kind)
    dataset = open_own(order.location, order.pin)
    with translated(order.location, "building an index"):
        segment = dataset.create_index_uncommitted(
            order.column,
            kind.lance,
            name=order.name,
            replace=True,  # the name may be taken by the index that the segment is for
            fragment_ids=list(fragments),
            **_arguments(kind, order),
        )
        if whole and kind.is_staged:
            segment = dataset.merge_existing_index_segments([segment])
    yield _packed(segment)


def merge_built(order: SegmentOrder, segments: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Write one segment with all that is in some."""
    dataset = open_own(order.location, order.pin)
    with translated(order.location, "merging segments of an index"):
        merged = dataset.merge_existing_index_segments([pickle.loads(segment) for segment in segments])
    yield _packed(merged)


def unpack(segment: bytes) -> Any:
    """A segment as pylance describes it, from what a task of ours gave."""
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
