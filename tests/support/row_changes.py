"""Tables whose rows change, a plain model of MERGE, and what has to hold of a table afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import lance
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import WriteOptions
from lance_spark.refs.refs import create_branch
from lance_spark.rows.action_rules import INSERT, OPERATION, PARTS, UPDATE, prepared
from lance_spark.rows.row_files import delete_offsets, write_parts
from lance_spark.rows.rows import Finish, Meets, new_terms
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.write.data_files import PartsJob, read_target
from lance_spark.write.plan_rules import WriteJob, WritePlan

Row = dict[str, Any]
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("day", pa.string())])


def some(ids: Iterable[int | None], x: int = 0, day: str = "mon") -> pa.Table:
    """Rows with these ids."""
    return pa.Table.from_pylist([{"id": key, "x": x, "day": day} for key in ids], schema=SCHEMA)


def changing_table(uri: str, branch: str | None, stable: bool) -> DatasetLocation:
    """Ids 0 to 19 in two fragments, without 3 and 13, with indexes on id and x; and 20 to 29 on the branch itself.

    One more row has no id.
    """
    lance.write_dataset(some(range(10)), uri, enable_stable_row_ids=stable)
    lance.write_dataset(some([*range(10, 20), None], x=1, day="tue"), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("id IN (3, 13)")
    location = DatasetLocation.at(uri)
    create_branch(location, "exp", RefSpec())
    lance.write_dataset(some(range(20, 30), x=2, day="wed"), location.branch_uri(branch), mode="append")
    return location


def rows_of(location: DatasetLocation, branch: str | None) -> list[Row]:
    """All rows, by pylance."""
    found: list[Row] = lance.dataset(location.branch_uri(branch)).to_table().to_pylist()
    return found


def multiset(rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    """The rows in no order."""
    return Counter(tuple(row.items()) for row in rows)


def check_table(location: DatasetLocation, branch: str | None, expected: Iterable[Row]) -> None:
    """The table has these rows, is sound, and its indexes give what scans give."""
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    expected = list(expected)
    assert multiset(dataset.to_table().to_pylist()) == multiset(expected)
    assert dataset.count_rows() == len(expected)
    for name in ("id", "x"):
        for value in {row[name] for row in expected if row[name] is not None}:
            found = dataset.to_table(filter=f"{name} = {value}").to_pylist()
            assert multiset(found) == multiset(row for row in expected if row[name] == value), (name, value)


def row_ids(location: DatasetLocation, branch: str | None) -> dict[int | None, tuple[int, int]]:
    """(row id, version of creation) by the column id."""
    dataset = lance.dataset(location.branch_uri(branch))
    names = ["id", "_row_created_at_version"]
    found = dataset.scanner(columns=names, with_row_id=True).to_table().to_pylist()
    return {row["id"]: (row["_rowid"], row["_row_created_at_version"]) for row in found}


class ModelClause(NamedTuple):
    """A clause twice: as the builder's method with its arguments, and in plain Python over (target, source)."""

    method: str
    arguments: tuple[Any, ...] = ()
    condition: Callable[[Any, Any], bool | None] | None = None
    values: Mapping[str, Callable[[Any, Any], Any]] | None = None


def modelled(
    target: Sequence[Row], source: Sequence[Row], on: Callable[[Row, Row], bool], clauses: Sequence[ModelClause]
) -> list[Row]:
    """The target after a merge, row by row. Raises ValueError where two rows of the source change one row."""
    after: list[Row] = []
    for row in target:
        partners = [other for other in source if on(row, other)]
        if not partners:
            after += _applied(row, None, "by_source", clauses)
            continue
        hits = [(clause, other) for other in partners if (clause := _chosen(row, other, "matched", clauses))]
        if len(hits) > 1 and not all("delete" in clause.method for clause, _ in hits):
            raise ValueError(f"{row} would change twice")
        after += _applied(row, hits[0][1], "matched", clauses) if hits else [row]
    for other in source:
        if not any(on(row, other) for row in target):
            after += _applied(None, other, "when_not_matched_insert", clauses)
    return after


def _chosen(row: Row | None, other: Row | None, case: str, clauses: Sequence[ModelClause]) -> ModelClause | None:
    for clause in clauses:
        by_source, inserts = "by_source" in clause.method, "insert" in clause.method
        kind = "by_source" if by_source else "when_not_matched_insert" if inserts else "matched"
        if kind == case and (clause.condition is None or clause.condition(row, other)):
            return clause
    return None


def _applied(row: Row | None, other: Row | None, case: str, clauses: Sequence[ModelClause]) -> list[Row]:
    clause = _chosen(row, other, case, clauses)
    if clause is None:
        return [] if row is None else [row]
    if "delete" in clause.method:
        return []
    before: Row = row or dict.fromkeys(SCHEMA.names)
    if clause.values is None:
        assert other is not None
        return [{name: other.get(name, value) for name, value in before.items()}]
    return [{**before, **{name: value(row, other) for name, value in clause.values.items()}}]


Actions = Sequence[tuple[int, Row]]
"""Operations, each with its row."""


def written(
    location: DatasetLocation,
    branch: str | None,
    rows: Actions | Callable[[Mapping[int, Row]], Actions],
    meets: Meets | None = None,
) -> Finish:
    """A change up to its commit, as executors write it in one task. It may be a function of the rows by their ids."""
    start = pin_latest(location, branch)
    target = read_target(location, start)
    with translated(location, "reading the rows"):
        found = open_pinned(location, start).scanner(with_row_address=True).to_table().to_pylist()
    places = {row["id"]: row.pop("_rowaddr") for row in found}
    actions = rows({row["id"]: row for row in found}) if callable(rows) else rows
    schema = pa.schema([(OPERATION, pa.int32()), ("_rowaddr", pa.int64()), *target.schema])
    frame = [
        {OPERATION: operation, "_rowaddr": None if operation == INSERT else places[row["id"]], **row}
        for operation, row in sorted(actions, key=lambda entry: entry[0])
    ]
    job = WriteJob(WritePlan(location, WriteOptions(branch=branch), "append", target.schema, start), start)
    batches = write_parts(PartsJob(job, target), [pa.RecordBatch.from_pylist(frame, schema=schema)])
    parts = pa.Table.from_batches(batches, PARTS)
    outcomes = [
        outcome
        for key in set(parts["fragment"].to_pylist())
        for outcome in delete_offsets(location, start, parts.filter(pc.equal(parts["fragment"], key))).to_pylist()
    ]
    terms = new_terms("merge", meets is not None, "", None)
    return Finish(location, start, prepared(outcomes, UPDATE), terms, meets, inserts_by_key=True)
