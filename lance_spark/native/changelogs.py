"""SQL's ``CHANGES FROM VERSION``: the change feed as what Spark's planner calls a changelog."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructField, StructType

from lance_spark.changes.changes import Bound, FeedEnds, Point, edge, feed_columns, range_ends
from lance_spark.changes.feed_rules import FeedOptions
from lance_spark.changes.frames_spark import changes_frame
from lance_spark.core.options import folded, to_columns
from lance_spark.core.ref_expressions import parse_moment, parse_version_text
from lance_spark.core.table_options import split_stream_options
from lance_spark.core.texts import quoted_name
from lance_spark.engine.types_spark import to_spark
from lance_spark.errors import InvalidOption, Refused
from lance_spark.jvm import answers, names
from lance_spark.jvm.bridge import Bridge, parsed_schema
from lance_spark.jvm.proxies import Implementation
from lance_spark.native.scan import TableStream
from lance_spark.storage.versions import read_contents

if TYPE_CHECKING:
    from lance_spark.core.location import DatasetLocation
    from lance_spark.core.refs import PinnedVersion
    from lance_spark.jvm.answers import Answer
    from lance_spark.native.places import Place

_SPARKS = frozenset(
    folded(name)
    for name in (
        "startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp", "startingBoundInclusive",
        "endingBoundInclusive", "deduplicationMode", "computeUpdates",
    )
)  # fmt: skip
"""Options that Spark itself turns into a range and a mode."""
_KEY = "key"


@dataclass(frozen=True)
class AskedChanges:
    """Spark's ``ChangelogContext`` as plain values."""

    first: Bound | None
    """None for a stream that begins with all rows."""
    last: Bound | None
    net: bool
    updates: bool
    """Whether an update is a pair of images; otherwise it is a delete and an insert."""

    @property
    def options(self) -> FeedOptions:
        return FeedOptions(images="update" if self.updates else "none", net=self.net)


def read_context(context: Any) -> AskedChanges:
    """Spark's request. Raises InvalidOption for text that is no version."""
    given = context.range()
    kind = given.getClass().getSimpleName()
    first: Bound | None = None
    last: Bound | None = None
    if kind == "VersionRange":
        first = Bound(_version(given.startingVersion()), bool(given.startingBoundInclusive()))
        if given.endingVersion().isPresent():
            last = Bound(_version(given.endingVersion().get()), bool(given.endingBoundInclusive()))
    elif kind == "TimestampRange":
        first = Bound(_moment(given.startingTimestamp()), bool(given.startingBoundInclusive()))
        if given.endingTimestamp().isPresent():
            last = Bound(_moment(given.endingTimestamp().get()), bool(given.endingBoundInclusive()))
    mode = str(context.deduplicationMode().name())
    return AskedChanges(first, last, mode == "NET_CHANGES", bool(context.computeUpdates()))


def _version(text: str) -> Point:
    """A number, as text or not, or a ref. 0, as other formats count, begins with the first version."""
    if text.strip() == "0":
        return 0
    typed = parse_version_text(text)
    return typed.version if typed.version is not None else str(typed.expression)


def _moment(micros: int) -> datetime:
    moment = parse_moment(micros).as_of
    assert moment is not None  # that is what it parses
    return moment


@dataclass(frozen=True)
class Changes:
    """A branch and what is asked about its changes."""

    place: Place
    pin: PinnedVersion
    asked: AskedChanges

    @property
    def location(self) -> DatasetLocation:
        return self.place.location

    @cached_property
    def ends(self) -> FeedEnds | None:
        """The versions before and after; None for a stream's changes from now on."""
        if self.asked.first is None:
            return None
        return range_ends(self.location, self.pin, self.asked.first, self.asked.last)

    @cached_property
    def schema(self) -> StructType:
        """The table's columns as the last version has them, then the feed's."""
        until = self.pin if self.ends is None else self.ends.until
        return to_spark(
            feed_columns(self.location, until, read_contents(self.location, until), self.asked.options).rows
        )

    @cached_property
    def key(self) -> str:
        """Distinguishes these changes from all others; contains no secret."""
        options = hashlib.sha256(repr(self.location.options).encode()).hexdigest()
        ends = self.ends if self.ends is None else (self.ends.since, self.ends.until, self.ends.until.stamp)
        return f"NativeChanges {self.location.uri} {ends or self.pin!r} {self.asked!r} {options}"


class NativeChangelog(Implementation):
    """Spark's ``Changelog``. The rows are final: Spark has neither to pair them nor to leave any out."""

    interfaces: ClassVar = (names.MAYBE_CHANGELOG,)
    same: ClassVar = True
    told: ClassVar = frozenset({"newScanBuilder"})

    def __init__(self, bridge: Bridge, name: str, changes: Changes) -> None:
        super().__init__(bridge)
        self._name, self._changes = name, changes

    def to_string(self) -> str:
        return self._changes.key

    def answered(self) -> dict[str, Answer]:
        final = ("containsCarryoverRows", "containsIntermediateChanges", "representsUpdateAsDeleteAndInsert")
        return {"name": answers.text(self._name), **{each: answers.flag(False) for each in final}}

    def columns(self) -> Any:
        return self.bridge.array(names.MAYBE_COLUMN, [self._column(field) for field in self._changes.schema])

    def _column(self, field: StructField) -> Any:
        kind = self.bridge.call(f"{names.DATA_TYPE}.fromJson", field.dataType.json())
        metadata = {key: value for key, value in field.metadata.items() if key != "comment"}
        told = json.dumps(metadata) if metadata else None
        create = f"{names.MAYBE_COLUMN}.create"
        return self.bridge.call(create, field.name, kind, field.nullable, field.metadata.get("comment"), told)

    def new_scan_builder(self, options: dict[str, str]) -> Any:
        """One for each occurrence in a query. Options are those of a stream, or only ``key``."""
        given = {name: value for name, value in options.items() if folded(name) not in _SPARKS}
        return _FeedScanBuilder(self.bridge, self._name, self._changes, given).java()


class _FeedScanBuilder(Implementation):
    """Spark's ``ScanBuilder``, which leaves columns out."""

    interfaces: ClassVar = (names.PUSH_COLUMNS,)
    told: ClassVar = frozenset({"pruneColumns"})

    def __init__(self, bridge: Bridge, name: str, changes: Changes, options: Mapping[str, str]) -> None:
        super().__init__(bridge)
        self._name, self._changes, self._options = name, changes, options
        self._columns = changes.schema

    def prune_columns(self, schema: str) -> None:
        """Nested fields stay: a feed compares whole columns."""
        wanted = set(parsed_schema(schema).names)
        self._columns = StructType([field for field in self._changes.schema if field.name in wanted])

    def build(self) -> Any:
        return FeedScan(self.bridge, self._name, self._changes, self._options, self._columns).java()


class FeedScan(Implementation):
    """Spark's ``V1Scan``: the only one whose rows may come from more than one stage."""

    interfaces: ClassVar = (names.MAYBE_V1_SCAN,)

    def __init__(
        self, bridge: Bridge, name: str, changes: Changes, options: Mapping[str, str], columns: StructType
    ) -> None:
        super().__init__(bridge)
        self._name, self._changes, self._options, self._columns = name, changes, options, columns

    def to_string(self) -> str:
        return self.description()

    def description(self) -> str:
        """In EXPLAIN: the versions before and after."""
        ends = self._changes.ends
        since = "all rows" if ends is None else ends.since or "nothing"
        until = "" if ends is None else f" to {ends.until}"
        return f"lance {self._changes.location.uri}, changes from {since}{until}, columns: {self._columns.names}"

    def answered(self) -> dict[str, Answer]:
        return {"readSchema": answers.schema(self._columns), "description": answers.text(self.description())}

    def to_v1_table_scan(self, context: Any) -> Any:
        """The rows, of which none is read before Spark runs the query."""
        bridge, changes = self.bridge, self._changes
        if changes.ends is None:
            raise Refused("CHANGES of a read begin with a version or a moment.", hint="Add FROM VERSION 1.")
        options = replace(changes.asked.options, key=self._key())
        frame = changes_frame(bridge.spark, changes.location, changes.ends, options, bridge.cores)
        chosen = frame.select(*map(quoted_name, self._columns.names))
        # With adaptive execution, Spark would run the shuffle as soon as it plans the query, for EXPLAIN too.
        settled = bridge.session.cloneSession()
        settled.conf().set("spark.sql.adaptive.enabled", "false")
        plan = chosen._jdf.queryExecution().analyzed()
        rows = bridge.call(f"{names.DATASET}.ofRows", settled, plan)
        return bridge.maker.feed(context, bridge.schema(self._columns), rows.queryExecution().toRdd())

    def _key(self) -> tuple[str, ...]:
        unknown = next((name for name in self._options if folded(name) != _KEY), None)
        if unknown is not None:
            raise InvalidOption(
                f"CHANGES takes no option '{unknown}'.", hint="Give deduplicationMode, computeUpdates or key."
            )
        return next((to_columns(_KEY, value) for value in self._options.values()), ())

    def to_micro_batch_stream(self, checkpoint: str) -> Any:
        """Our stream of changes, beginning where the statement says."""
        asked, options = self._changes.asked, {**self._options, **self._start()}
        if asked.net or asked.last is not None:
            what = "the net changes of" if asked.net else "an end to"
            raise Refused(
                f"A stream cannot have {what} a range: it goes on.",
                hint="Leave out deduplicationMode=netChanges, endingVersion and endingTimestamp; or read a range.",
            )
        split_stream_options(options)
        options |= {"changes": "true", "images": asked.options.images}
        return TableStream(self.bridge, self._changes.place, options).feed(self._changes.schema, checkpoint)

    def _start(self) -> dict[str, str]:
        first = self._changes.asked.first
        if first is None:
            return {}
        if isinstance(first.point, datetime):
            moment = edge(first.point, not first.inclusive)  # a stream begins after it
            return {"starting_timestamp": moment.isoformat()}
        if isinstance(first.point, int):
            return {"starting_version": str(max(1, first.point + (not first.inclusive)))}
        if not first.inclusive:
            raise InvalidOption("A stream begins with a version that is named.", hint="Leave out EXCLUSIVE.")
        return {"starting_version": first.point}
