"""Random histories of columns and rows on main and a branch, against plain dicts; pylance reads every state."""

import tempfile

import lance
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.backfills import LocalValues
from support.local_datasets import write

from lance_spark.columns.columns import add_filled_columns, alter_columns, fill_columns_by_groups, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.format.evolution import DropColumn, RenameColumn
from lance_spark.refs.refs import create_branch

LOCAL = LocalRunner(1)
BRANCHES = (None, "exp")


class World:
    """The table, and what it should hold: for each branch its columns and its rows by id."""

    def __init__(self, uri: str, stable: bool) -> None:
        for first in (0, 5):
            rows = pa.table({"id": pa.array(range(first, first + 5), pa.int64())})
            lance.write_dataset(rows, uri, mode="append" if first else "create", enable_stable_row_ids=stable)
        self.location = DatasetLocation.at(uri)
        create_branch(self.location, "exp", RefSpec())
        self.rows = {branch: {key: {"id": key} for key in range(10)} for branch in BRANCHES}
        self.columns: dict[str | None, list[str]] = {branch: ["id"] for branch in BRANCHES}
        self.next = 10

    def dataset(self, branch):
        return lance.dataset(self.location.branch_uri(branch))

    def others(self, branch):
        return self.columns[branch][1:]

    def values(self, name, factor):
        return LocalValues(
            self.location,
            lambda batch: {name: [factor * key for key in batch["id"].to_pylist()]},
            **{name: pa.int64()},
        )

    def check(self):
        for branch in BRANCHES:
            dataset = self.dataset(branch)
            dataset.validate()
            assert dataset.schema.names == self.columns[branch]
            found = {row["id"]: row for row in dataset.to_table().to_pylist()}
            expected = {
                key: {name: row.get(name) for name in self.columns[branch]} for key, row in self.rows[branch].items()
            }
            assert found == expected


def append(world, branch, choice, meanwhile=None):
    """Rows with the id alone, or with values in all columns."""
    keys = [world.next, world.next + 1, world.next + 2]
    world.next += 3
    names = world.columns[branch] if choice % 2 else ["id"]
    rows = [{name: key * (1 if name == "id" else 5) for name in names} for key in keys]
    schema = pa.schema([(name, pa.int64()) for name in names])
    lance.write_dataset(pa.Table.from_pylist(rows, schema), world.location.branch_uri(branch), mode="append")
    world.rows[branch] |= {row["id"]: row for row in rows}


def delete(world, branch, choice, meanwhile=None):
    gone = [key for key in world.rows[branch] if key % 7 == choice % 7]
    if len(gone) < len(world.rows[branch]):
        world.dataset(branch).delete(f"id % 7 = {choice % 7}")
        for key in gone:
            del world.rows[branch][key]


def compact(world, branch, choice, meanwhile=None):
    world.dataset(branch).optimize.compact_files()


def evolve(world, branch, choice, meanwhile=None):
    """An append that brings a column."""
    name = f"e{choice}"
    key = world.next
    world.next += 1
    rows = pa.table({name: pa.array([3], pa.int64()), "id": pa.array([key], pa.int64())})
    write(world.location.uri, rows, branch=branch or "main", merge_schema="true")
    if name not in world.columns[branch]:
        world.columns[branch].append(name)
    world.rows[branch][key] = {"id": key, name: 3}


def add(world, branch, choice, meanwhile=None):
    name = f"c{choice}"
    if name in world.columns[branch]:
        return
    computed = world.values(name, choice)
    computed.meanwhile = meanwhile
    add_filled_columns(world.location, branch, computed, BackfillOptions())
    world.columns[branch].append(name)
    for key, row in world.rows[branch].items():
        row[name] = choice * key


def fill(world, branch, choice, meanwhile=None):
    """Group by group. What others append with a value in the column keeps it; nothing does that here."""
    name = f"f{choice}"
    if name in world.columns[branch]:
        return
    computed = world.values(name, choice)
    computed.meanwhile = meanwhile
    world.columns[branch].append(name)
    fill_columns_by_groups(world.location, branch, computed, BackfillOptions(incremental=True), LOCAL)
    for key, row in world.rows[branch].items():
        if row.get(name) is None:
            row[name] = choice * key


def update(world, branch, choice, meanwhile=None):
    if not world.others(branch):
        return
    name = world.others(branch)[choice % len(world.others(branch))]
    computed = world.values(name, -choice)
    computed.meanwhile = meanwhile
    update_filled_columns(world.location, branch, computed, BackfillOptions())
    for key, row in world.rows[branch].items():
        row[name] = -choice * key


def drop(world, branch, choice, meanwhile=None):
    if not world.others(branch):
        return
    name = world.others(branch)[choice % len(world.others(branch))]
    alter_columns(world.location, branch, [DropColumn((name,))], LOCAL)
    world.columns[branch].remove(name)
    for row in world.rows[branch].values():
        row.pop(name, None)


def rename(world, branch, choice, meanwhile=None):
    if not world.others(branch):
        return
    name = world.others(branch)[choice % len(world.others(branch))]
    new = f"r{world.next}"
    world.next += 1
    alter_columns(world.location, branch, [RenameColumn((name,), new)], LOCAL)
    world.columns[branch][world.columns[branch].index(name)] = new
    for row in world.rows[branch].values():
        if name in row:
            row[new] = row.pop(name)


ROWS = st.sampled_from([append, delete, compact])
VERBS = st.sampled_from([append, delete, compact, evolve, add, add, fill, fill, update, update, drop, rename])
STEPS = st.lists(
    st.tuples(VERBS, st.sampled_from(BRANCHES), st.integers(1, 9), st.none() | st.tuples(ROWS, st.integers(1, 9))),
    min_size=1,
    max_size=12,
)


@given(STEPS, st.booleans())
def test_columns_and_rows_are_those_of_the_model(steps, stable):
    with tempfile.TemporaryDirectory() as directory:
        world = World(f"{directory}/t.lance", stable)
        for verb, branch, choice, other in steps:
            meanwhile = None
            if other is not None:

                def meanwhile(other=other, branch=branch):
                    other[0](world, branch, other[1])

            verb(world, branch, choice, meanwhile)
            world.check()
