"""What indexes a version has, and what they cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.actions.glance import or_why
from lance_spark.actions.resolve import resolve
from lance_spark.history.overview import unknown_card
from lance_spark.indexing.card import indexes_card
from lance_spark.indexing.coverage import Rows, by_name, find_index, info
from lance_spark.indexing.kinds import described_kind, settings_of
from lance_spark.indexing.model import IndexInfo, IndexStats, SegmentInfo
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.metadata.indexes import Segment
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.show.card import Card
from lance_spark.store import version_reader
from lance_spark.store.datasets import open_pinned
from lance_spark.store.index_descriptions import describe_segments, index_details


@dataclass(frozen=True)
class Look:
    """A version and its indexes."""

    location: DatasetLocation
    pin: PinnedVersion
    contents: Contents
    rows: Rows
    indexes: Mapping[str, Sequence[Segment]]

    @property
    def schema(self) -> Any:
        """The columns."""
        return open_pinned(self.location, self.pin).schema

    def settings(self, name: str) -> dict[str, Any] | None:
        """What an index was made with; None where an old writer did not say, or for kinds that are not built here."""
        kind = described_kind(self.indexes[name][0].index_type)
        return None if kind is None else settings_of(kind, index_details(self.location, self.pin, name))


def look_at(location: DatasetLocation, pin: PinnedVersion) -> Look:
    """A version and its indexes: some requests for metadata."""
    contents = version_reader.read_contents(location, pin)
    if contents.counts_rows:
        rows = {fragment.id: fragment.rows for fragment in contents.fragments()}
    else:
        rows = {each.fragment_id: each.count_rows() for each in open_pinned(location, pin).get_fragments()}
    return Look(location, pin, contents, rows, by_name(describe_segments(location, pin)))


def list_indexes(location: DatasetLocation, pin: PinnedVersion) -> list[IndexInfo]:
    """The indexes of a version, by name."""
    look = look_at(location, pin)
    return [info(segments, look.rows) for segments in look.indexes.values()]


def index_stats(location: DatasetLocation, pin: PinnedVersion, name: str) -> IndexStats:
    """One index in detail, by its name or column. Raises NotFound."""
    look = look_at(location, pin)
    found = find_index(look.indexes, name)
    segments = look.indexes[found]
    told = tuple(
        SegmentInfo(
            uuid=segment.uuid,
            rows=sum(count for fragment, count in look.rows.items() if fragment in segment.fragments),
            fragments=tuple(sorted(segment.fragments)),
            bytes=segment.size_bytes or 0,
            inherited=segment.inherited,
            created_at=segment.created_at,
        )
        for segment in segments
    )
    return IndexStats(info(segments, look.rows), look.settings(found) or {}, told)


def look_at_indexes(what: str, location: DatasetLocation, ref: RefSpec) -> Card:
    """The indexes as a card; where the store does not answer, the card says why."""

    def look() -> Card:
        pin = resolve(location, ref)
        return indexes_card(what, location.uri, str(pin), list_indexes(location, pin))

    return or_why(look, lambda why: unknown_card(what, location.uri, why, ref))
