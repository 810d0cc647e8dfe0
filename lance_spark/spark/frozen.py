"""``t.frozen``: fixed training sets, split by hashes and in a reproducible order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lance_spark.core.options import names_of
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.texts import counted
from lance_spark.core.words import ASKED_OF_COLLECTIONS, OF_FROZEN
from lance_spark.engine.session_spark import (
    START_ONE,
    SparkRunner,
    as_dataframe,
    engine_of,
    needed_session,
    session_or_none,
    with_metadata,
)
from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.frozen.draw_rules import DIFFERENCES, make_spec
from lance_spark.frozen.frozen import (
    diff_frozen,
    freeze,
    list_frozen,
    needed_plan,
    plan_reading,
    read_task,
    tasks_of,
    unfreeze,
)
from lance_spark.spark import at_server_rules
from lance_spark.spark.refs import Collection, Handle, tells

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lance_spark.frozen.draw_rules import FrozenDiff, Lineage

_HINT = f"{START_ONE} Without Spark, t.frozen.batches(...) reads."


@tells(at_server_rules.FROZEN)
@dataclass(frozen=True, repr=False)
class FrozenSets(Handle, Shown, Collection["Lineage"]):
    """The frozen sets of a dataset; ``create`` freezes rows of the version to which the handle points."""

    _kind, _typed, _words, _asked = "frozen set", "t.frozen", OF_FROZEN, ASKED_OF_COLLECTIONS

    def create(
        self,
        name: str,
        filter: str | None = None,
        split: Mapping[str, float] | None = None,
        by: str | Sequence[str] | None = None,
        seed: int = 0,
        code: str | None = None,
    ) -> Lineage:
        """Freeze the rows of this handle's version that pass the filter, split by hashes, in a shuffled order.

        The version gets the tag ``name``, and branch ``frozen/name`` holds the plan: the split and place of each row.
        Every cleanup keeps both. Rows that agree in the columns of ``by`` are in one split. The hash of these values
        and ``seed`` decides, so that sizes are close to the fractions of ``split``, and a group stays in its split when
        others are added. The same call yields the same rows on every machine. ``code`` is kept with the lineage.

        A second call with the same plan changes nothing, and finishes a killed call. Raises AlreadyExists for another
        plan of that name, InvalidName, InvalidOption, NotFound, and Refused for rows whose ``by`` is null.
        """
        spec = make_spec(name, filter, split, by, seed, code)
        return freeze(self.location, self._pin(), spec, engine_of(self.spark))

    def delete(self, name: str) -> None:
        """Delete a frozen set, its plan and its tags; rows are not touched. Raises NotFound."""
        unfreeze(self.location, name)

    def read(
        self,
        name: str,
        split: str | None = None,
        columns: str | Sequence[str] | None = None,
        with_position: bool = False,
    ) -> DataFrame:
        """The rows of a frozen set, or of one split, as a DataFrame whose partitions are in the set's order.

        There is no join: tasks look rows up by their ids at the frozen version. ``columns`` are whole columns; blobs
        are read as bytes. With ``with_position`` each row has ``_split`` and ``_position``; ``orderBy("_position")``
        restores the order after a shuffle. Raises NotFound, Conflict.
        """
        spark = needed_session(self.spark, _HINT)
        plan = needed_plan(self.location, name)
        reading = plan_reading(self.location, plan, columns, with_position)
        shown = to_spark(reading.schema)
        tasks = tasks_of(reading, *plan.lineage.range_of(split))
        wire = wire_schema(shown)
        read = partial(read_task, replace(reading, schema=wire))
        return with_metadata(SparkRunner(spark, "frozen").flat_map("read frozen rows", tasks, read, wire), shown)

    def batches(
        self,
        name: str,
        split: str | None = None,
        columns: str | Sequence[str] | None = None,
        with_position: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The same rows in this process, without Spark, batch by batch."""
        plan = needed_plan(self.location, name)
        reading = plan_reading(self.location, plan, columns, with_position)
        for task in tasks_of(reading, *plan.lineage.range_of(split)):
            yield from read_task(reading, task)

    def list(self) -> list[Lineage]:
        """All frozen sets with their lineage, by name."""
        return list_frozen(self.location)

    def lineage(self, name: str) -> Lineage:
        """A set's origin: version, filter, splits, columns, seed, code, rows of each split. Raises NotFound."""
        return needed_plan(self.location, name).lineage

    def diff(self, before: str, after: str, key: str | Sequence[str] = ()) -> FrozenDiff:
        """The differences between two sets: rows that were added, removed or moved to another split.

        The columns of ``key`` identify rows. By default, ids do if both sets are of one version, or of one branch with
        stable row ids; otherwise the table's key does. Raises NotFound, and Refused if nothing identifies rows.
        """
        columns = names_of(key)
        found = diff_frozen(self.location, (before, after), columns, engine_of(self.spark))
        spark = session_or_none(self.spark)
        if spark is None:
            return found
        return replace(found, frame=as_dataframe(spark, found.frame, to_spark(DIFFERENCES)))

    def _card(self) -> Card:
        sets = list_frozen(self.location)
        rows = tuple(
            (each.name, str(each.source), ", ".join(f"{size.name} {size.rows:,}" for size in each.sizes))
            for each in sets
        )
        grid = Grid(("set", "version", "rows"), rows)
        return Card(type(self).__name__, self.location.uri, counted(len(sets), "frozen set"), grids=(grid,))
