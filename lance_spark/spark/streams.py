"""``t.streams``: upserts of a stream's batches, for ``foreachBatch``: exactly once, with the row merge engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_properties import auto_compact
from lance_spark.errors import Conflict, InvalidOption
from lance_spark.session.caches import refresh
from lance_spark.spark import at_server_rules
from lance_spark.spark.refs import Handle, tells
from lance_spark.spark.registering import register_handle
from lance_spark.storage.commits import overtaken
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.followers import check_writable
from lance_spark.streams.query_records import look_for, put_tag
from lance_spark.streams.sink import mark, resume_stream, settle, settle_again, tidied
from lance_spark.streams.sink import query_id as found_query_id
from lance_spark.streams.sink_rules import Batch, BranchLook, decide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ATTEMPTS = 5
"""How often a batch is recomputed if others change the same rows meanwhile."""


@dataclass(frozen=True)
class UpsertBatches:
    """A function of a batch and its number; see :meth:`Streams.upsert`."""

    location: DatasetLocation
    branch: str | None
    key: tuple[str, ...]
    query: str | None
    checkpoint: str | None
    optimize_every: int | None = None
    storage: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Upsert a batch, unless it is already committed. Raises like ``LanceTable.merge``; Refused like the sink."""
        check_writable(self.location, self.branch)
        query = found_query_id(self.query, self.checkpoint, self.storage)
        batch = Batch(self.location.uri, self.branch, query, number)
        untidy = True
        look = None
        for left in range(_ATTEMPTS, -1, -1):
            head = pin_latest(self.location, self.branch)
            look = look_for(self.location, batch, head.version, look)
            decision = decide(batch, look)
            if decision.action == "begin":
                put_tag(self.location, batch, head.version)
                continue
            if decision.action == "skip":
                settle_again(self.location, batch, look, decision.at)
                return
            if untidy:
                untidy = False
                many = auto_compact(open_pinned(self.location, head).metadata)
                if tidied(self.optimize_every, number, self.location, head, many):
                    continue
            try:
                self._upsert(frame, batch, look)
            except Conflict:
                if not left:
                    raise
                continue  # others changed the same rows, or another driver committed this batch first: check again
            return
        raise overtaken(self.branch)

    def _upsert(self, frame: DataFrame, batch: Batch, look: BranchLook) -> None:
        def unless_done() -> None:
            now = look_for(self.location, batch, look.newest, look)
            if decide(batch, now).action != "commit":
                raise Conflict(f"Another driver committed batch {batch.number} of query {batch.query}.")

        from lance_spark.rows.merge_spark import RowMerge
        from lance_spark.rows.spark import change_rows

        register_handle(frame.sparkSession)
        merge = RowMerge(frame.sparkSession, self.location, self.branch, frame, self.key)
        change = merge.when_matched_update_all().when_not_matched_insert_all().change()
        done = change_rows(frame.sparkSession, replace(change, properties=batch.properties, check=unless_done))
        refresh(frame.sparkSession, self.location)
        made = done.version
        if not (done.rows_inserted or done.rows_updated):
            if batch.number:
                return
            made = mark(self.location, batch)
        settle(self.location, batch, made.version, alone=True)


@tells(at_server_rules.STREAMS)
class Streams(Handle):
    """Structured streaming into a table's branch, beyond ``df.writeStream.format("lance")``."""

    _typed = "t.streams"

    def upsert(
        self,
        key: str | Sequence[str],
        checkpoint: str | None = None,
        query_id: str | None = None,
        optimize_every: int | None = None,
    ) -> UpsertBatches:
        """A function for ``df.writeStream.foreachBatch(...)`` that upserts each batch exactly once.

        Rows whose key is in the table replace its row, all others are inserted; each batch is one version of this
        handle's branch. ``checkpoint`` is the query's own ``checkpointLocation``, from which its id is read. If that is
        not readable, give a ``query_id`` of your own. ``optimize_every`` compacts small fragments after this many
        batches, before the next one.

        Raises InvalidOption for invalid arguments, Refused at a tag or version, and if several source rows share the
        key of one row of the table: a batch must have one row for each key.
        """
        keys = names_of(key)
        if not keys:
            raise InvalidOption("An upsert needs the columns that identify rows.", hint="Give key='id'.")
        if checkpoint is None and query_id is None:
            raise InvalidOption(
                "A checkpoint or query_id is required to track committed batches.", hint="Give checkpoint=...."
            )
        branch = self._moving_branch("write to")
        check_writable(self.location, branch)
        options = dict(self.location.options)
        return UpsertBatches(self.location, branch, keys, query_id, checkpoint, optimize_every, options)

    def resume(self, query_id: str, last_batch: int) -> PinnedVersion:
        """Declare that all batches of a query up to ``last_batch`` are committed, and no later one.

        Use this after a query was refused because its progress was lost. Commits a version that records the
        declaration, and moves the query's tag there. Raises InvalidOption, NotFound, Conflict, and Refused at a tag or
        version.
        """
        return resume_stream(self.location, self._moving_branch("resume a stream into"), query_id, last_batch)
