"""Change feeds read in this process, and what they have to be: replayed onto the old rows they give the new ones."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa

from lance_spark.changes.changes import Point, feed_frame, find_ends, plan_changes
from lance_spark.changes.feed_rules import FeedOptions, FeedPlan
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve
from support.cleanup_datasets import place

Row = dict[str, Any]
TOLD = ("_change_type", "_commit_version", "_commit_timestamp", "_commit_branch")
GONE, CAME = ("delete", "update_preimage"), ("insert", "update_postimage")


def plan(uri: str, since: Point, until: Point | None = None, branch: str | None = None, **options: Any) -> FeedPlan:
    """What a feed would read; the options are those of ``LanceTable.changes``."""
    location = locate(uri)
    at = resolve(location, RefSpec(branch))
    return plan_changes(location, find_ends(location, at, since, until), FeedOptions(**options))


def feed(uri: str, since: Point, until: Point | None = None, branch: str | None = None, **options: Any) -> list[Row]:
    """The changes as dicts, by version."""
    table: pa.Table = feed_frame(LocalRunner(), plan(uri, since, until, branch, **options))
    return sorted(table.to_pylist(), key=lambda row: row["_commit_version"])


def brief(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Each change as (version, first letters of the words of its type, values of its columns), in their order."""
    short = [
        (
            row["_commit_version"],
            "".join(word[:3] for word in row["_change_type"].split("_")[-1:]),
            *(value for name, value in row.items() if name not in TOLD),
        )
        for row in rows
    ]
    return sorted(short, key=str)


def state(uri: str, at: PinnedVersion, columns: Sequence[str], **other_names: str) -> Counter[str]:
    """The rows of a version as pylance reads them, in some columns; those that it does not have are null.

    ``other_names`` are what versions may call some of the columns.
    """
    dataset = lance.dataset(place(uri, at.branch), version=at.version)
    known = {name: name for name in columns if name in dataset.schema.names}
    known |= {name: other for name, other in other_names.items() if name in columns and other in dataset.schema.names}
    rows = dataset.to_table(columns=known, with_row_address=True).to_pylist()
    return Counter(values(row, columns) for row in rows)


def values(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    return repr([row.get(name) for name in columns])


def replayed(before: Counter[str], changes: Iterable[Row], columns: Sequence[str]) -> Counter[str]:
    """Rows after changes, version by version. A row that is not there cannot go."""
    after = Counter(before)
    changes = list(changes)
    for version in sorted({row["_commit_version"] for row in changes}):
        rows = [row for row in changes if row["_commit_version"] == version]
        gone = Counter(values(row, columns) for row in rows if row["_change_type"] in GONE)
        came = Counter(values(row, columns) for row in rows if row["_change_type"] in CAME)
        assert gone <= after, f"version {version} takes rows that are not there: {gone - after}"
        after = after - gone + came
    return after


def pairs_of(changes: Iterable[Row], key: str = "id") -> Counter[tuple[str, Any]]:
    """How often there is each kind of change of each row."""
    return Counter((row["_change_type"], row[key]) for row in changes)


def by_key(rows: Counter[str], key: int = 0) -> dict[Any, str]:
    """Rows of ``state`` by one of their columns."""
    return {eval(row, {"nan": float("nan")})[key]: row for row in rows}


def expected(before: Counter[str], after: Counter[str]) -> Counter[tuple[str, Any]]:
    """What happened to rows that are told apart by their first column."""
    old, new = by_key(before), by_key(after)
    found: Counter[tuple[str, Any]] = Counter()
    found.update(("delete", key) for key in old.keys() - new.keys())
    found.update(("insert", key) for key in new.keys() - old.keys())
    changed = [key for key in old.keys() & new.keys() if old[key] != new[key]]
    found.update((kind, key) for key in changed for kind in ("update_preimage", "update_postimage"))
    return found


def replace_column(root: str, fragment: int, column: str, numbers: Sequence[int | None]) -> None:
    """Commit other values of one column of a fragment, those of deleted rows among them, as a DataReplacement."""
    from lance.file import LanceFileWriter
    from lance.fragment import DataFile

    dataset = lance.dataset(root)
    schema = pa.schema([dataset.schema.field(column)])
    name = f"{uuid.uuid4().hex}.lance"
    with LanceFileWriter(f"{root}/data/{name}", schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(numbers, schema.field(0).type)], schema=schema))
    group = lance.LanceOperation.DataReplacementGroup(fragment, DataFile.create(dataset, name))
    operation = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(root, operation, read_version=dataset.version)


def rewrite_column(root: str, fragment: int, numbers: Mapping[int, int]) -> None:
    """Commit other values of ``v`` for some rows of a fragment, by their row ids, as an Update that adds no rows."""
    dataset = lance.dataset(root)
    rows = pa.table({"_rowid": pa.array(numbers.keys(), pa.uint64()), "v": pa.array(numbers.values(), pa.int64())})
    changed, fields = dataset.get_fragment(fragment).update_columns(rows, left_on="_rowid", right_on="_rowid")[:2]
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[],
        updated_fragments=[changed],
        new_fragments=[],
        fields_modified=fields,
        update_mode="rewrite_columns",
    )
    lance.LanceDataset.commit(root, operation, read_version=dataset.version)
