"""Overwrites of some rows: new rows in place of those of a condition, or of the partitions that they are in.

One version removes fragments that hold nothing else, takes the rows from others by deletion files, and adds the new
ones. Rows that others add meanwhile, and that would have been replaced, are a conflict.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.fact_rules import only_key
from lance_spark.layout.facts import layout_bounds
from lance_spark.layout.key_rules import Key, with_keys
from lance_spark.layout.layout_rules import TableLayout
from lance_spark.layout.pruning import judge
from lance_spark.rows.action_rules import REPLACING, Prepared
from lance_spark.rows.row_files import without_rows
from lance_spark.rows.rows import Finish, discard, finish, new_terms
from lance_spark.scan.fragment_reads import Scan, ScanColumns, check_filter, fragment_sizes
from lance_spark.storage import commits
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated


class Replaced(Protocol):
    def candidates(self, pin: PinnedVersion, fragments: Collection[int]) -> Mapping[int, bool]:
        """The fragments of a version that may have any; and whether surely all of their rows are."""

    def offsets(self, pin: PinnedVersion, fragment: int) -> list[int]:
        """Places of these rows in a fragment."""


@dataclass(frozen=True)
class OfKeys:
    location: DatasetLocation
    layout: TableLayout
    keys: frozenset[Key]

    def candidates(self, pin: PinnedVersion, fragments: Collection[int]) -> Mapping[int, bool]:
        """By the facts of their files."""
        schema = open_pinned(self.location, pin).schema
        kinds = {name: schema.field(name).type for name in self.layout.columns}
        found = {}
        for key, bounds in layout_bounds(self.location, pin, self.layout).items():
            only = only_key(self.layout.partition, bounds, kinds) if key in fragments else None
            if key in fragments and (only is None or only in self.keys):
                found[key] = only is not None
        return found

    def offsets(self, pin: PinnedVersion, fragment: int) -> list[int]:
        """By reading the columns of the key."""
        dataset = open_pinned(self.location, pin)
        columns = list(dict.fromkeys(each.column for each in self.layout.partition))
        found: list[int] = []
        with translated(self.location, "looking for rows of the partitions"):
            own = dataset.get_fragment(fragment)
            scanner = dataset.scanner(columns=columns, fragments=[own], with_row_address=True)
            for batch in scanner.to_batches():
                places = with_keys(self.layout, batch, self.keys)
                addresses = batch.column("_rowaddr").to_numpy()[places]
                found += (addresses.astype(np.int64) & 0xFFFFFFFF).tolist()
        return found


@dataclass(frozen=True)
class OfCondition:
    """The rows for which a predicate in Lance's SQL is true."""

    location: DatasetLocation
    predicate: str

    def candidates(self, pin: PinnedVersion, fragments: Collection[int]) -> Mapping[int, bool]:
        """Without those that the facts of their files rule out."""
        judged = judge(self.location, pin, self.predicate)
        return {key: key in judged.whole for key in fragments if key not in judged.excluded}

    def offsets(self, pin: PinnedVersion, fragment: int) -> list[int]:
        """By reading the columns of the predicate."""
        dataset = open_pinned(self.location, pin)
        with translated(self.location, "looking for rows to replace"):
            own = dataset.get_fragment(fragment)
            scanner = dataset.scanner(columns=[], fragments=[own], filter=self.predicate, with_row_address=True)
            addresses = scanner.to_table()["_rowaddr"].to_numpy()
        found: list[int] = (addresses.astype(np.int64) & 0xFFFFFFFF).tolist()
        return found


def replace_rows(
    location: DatasetLocation, start: PinnedVersion, replaced: Replaced, written: Sequence[str], message: str | None
) -> PinnedVersion:
    """Commit new fragments, pylance's JSON, in place of rows of the version that the write started from.

    Raises Conflict if others changed these rows, or added such; InvalidOption for a bad predicate. Then nothing was
    changed, and the files are deleted.
    """
    if isinstance(replaced, OfCondition):
        check_filter(Scan(location, start, ScanColumns(()), replaced.predicate))
    sizes = {each.fragment_id: each.live_rows for each in fragment_sizes(location, start)}
    changed: dict[int, str | None] = {}
    change = Prepared(changed, tuple(written), 0, 0, 0)
    deleted = 0
    with commits.undone_on_failure(partial(discard, location, start.branch, [change]), "files that were written"):
        for key, whole in replaced.candidates(pin=start, fragments=sizes.keys()).items():
            if whole:
                changed[key] = None
                deleted += sizes[key]
                continue
            offsets = replaced.offsets(start, key)
            if offsets:
                changed[key] = without_rows(location, start, key, offsets)
                deleted += len(offsets)
    if not changed and not written:
        return start

    def meets(pin: PinnedVersion, fragments: Sequence[int]) -> bool:
        found = replaced.candidates(pin, fragments)
        return any(whole or replaced.offsets(pin, key) for key, whole in found.items())

    predicate = replaced.predicate if isinstance(replaced, OfCondition) else ""
    terms = new_terms(REPLACING, True, predicate, message)
    ready = Prepared(changed, tuple(written), deleted, 0, sum_rows(written))
    return finish(Finish(location, start, ready, terms, meets, True)).version


def sum_rows(written: Sequence[str]) -> int:
    return sum(int(entry["physical_rows"]) for entry in map(json.loads, written))
