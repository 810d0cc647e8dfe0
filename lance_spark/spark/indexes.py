"""``table.indexes``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_spark.actions.indexes import change, look
from lance_spark.actions.resolve import resolve
from lance_spark.indexing.model import IndexInfo, IndexRequest, IndexResult, IndexStats
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import RefSpec
from lance_spark.show.card import Card, Shown
from lance_spark.spark.engines import engine_of
from lance_spark.spark.refs import moving_branch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, repr=False)
class Indexes(Shown):
    """The indexes of a dataset at a ref. A handle that stands at a tag or version can look, and change nothing."""

    location: DatasetLocation
    spark: SparkSession | None
    ref: RefSpec

    def list(self) -> list[IndexInfo]:
        """All indexes, by name, with the rows that they cover."""
        return look.list_indexes(self.location, resolve(self.location, self.ref))

    def stats(self, name: str) -> IndexStats:
        """One index, by its name or its column: settings and segments. Raises NotFound."""
        return look.index_stats(self.location, resolve(self.location, self.ref), name)

    def create(
        self, column: str, kind: str = "btree", name: str | None = None, replace: bool = False, **settings: Any
    ) -> IndexResult:
        """Make an index on a column, built by the executors and committed as one version.

        ``kind`` is btree, bitmap, zonemap, bloomfilter, label_list, ngram, inverted (or fts), ivf_flat, ivf_sq, ivf_pq,
        ivf_rq, ivf_hnsw_flat, ivf_hnsw_sq or ivf_hnsw_pq; ``name`` is ``<column>_idx`` by default. On a branch, an
        index that it inherited stays as it is, and only the rows that it does not cover are indexed.

        ``settings`` depend on the kind. Vectors: metric (l2, cosine or dot), num_partitions, sample_rate (rows for each
        centroid), max_iters; num_sub_vectors and num_bits; m and ef_construction. Text: with_position, base_tokenizer,
        language, stem and the like. All: num_segments, how many segments there are to be; message, for the log.

        Raises NotFound for an unknown column, InvalidOption for an unknown kind or setting, SchemaMismatch for a column
        that the kind does not fit, AlreadyExists for a name that is taken (unless ``replace``), Refused for a handle at
        a tag or version, for no rows or too few to train on, and Conflict.
        """
        message = settings.pop("message", None)
        branch = moving_branch(self.ref, "make an index on")
        request = IndexRequest(column, kind, name, replace, settings, message)
        return change.create_index(self.location, branch, request, engine_of(self.spark))

    def optimize(self, name: str | None = None, message: str | None = None) -> list[IndexResult]:  # type: ignore[valid-type]
        """Index the rows that are not covered, of one index (by name or column) or of all.

        Small segments of the branch itself are built anew with them; inherited segments are not touched. Raises
        NotFound, Refused for a handle at a tag or version, and Conflict.
        """
        branch = moving_branch(self.ref, "optimize on")
        return change.optimize_indexes(self.location, branch, name, engine_of(self.spark), message)

    def drop(self, name: str, message: str | None = None) -> IndexResult:
        """Drop an index, by its name or column; other branches and older versions keep it. Raises NotFound, Refused."""
        return change.drop_index(self.location, moving_branch(self.ref, "drop from"), name, message)

    def _card(self) -> Card:
        return look.look_at_indexes(type(self).__name__, self.location, self.ref)
