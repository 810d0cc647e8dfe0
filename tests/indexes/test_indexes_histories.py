"""Whatever happened to a table, a filter finds with scalar indexes the rows that it finds without, on every branch."""

import os
import random

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.row_changes import written

from lance_spark import LanceTable
from lance_spark.columns.columns import add_filled_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import LanceSparkError
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import finish

SEEDS = int(os.environ.get("INDEX_SEEDS", "100"))
BY_DAY = 1
STEPS = 20
KINDS = {
    "n": ("btree", "bitmap", "zonemap", "bloomfilter"),
    "tags": ("label_list",),
    "text": ("ngram", "btree", "bitmap"),
    "id": ("btree", "zonemap"),
}
VALUES = {
    "n": (None, *range(8)),
    "tags": (None, [], ["a"], ["a", "b"], ["c", None], ["z"]),
    "text": (None, "", "alpha beta", "gamma", "delta alpha", "gamma new"),
}
TYPES = {"n": pa.int64(), "tags": pa.list_(pa.string()), "text": pa.string()}
FILTERS = (
    *("n = 3", "n IS NULL", "n >= 5", "n IN (1, 2)", "NOT (n = 3)", "id < 20 AND n = 1", "text = 'gamma'"),
    *("array_has(tags, 'a')", "array_has(tags, 'z')", "contains(text, 'alpha')", "contains(text, 'gamma new')"),
)


class IndexedTable:
    """A table whose columns have indexes now and then, changed by random steps on main and on branches."""

    def __init__(self, uri, seed):
        self.location = DatasetLocation.at(uri)
        self.rng = random.Random(seed)
        self.next_id = 0
        self.branches = [None]
        self.done = [f"stable={seed % 2 == 0}"]
        lance.write_dataset(self.rows(40), uri, max_rows_per_file=10, enable_stable_row_ids=seed % 2 == 0)

    def rows(self, count):
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        columns = {name: pa.array([self.rng.choice(some) for _ in ids], TYPES[name]) for name, some in VALUES.items()}
        return pa.table({"id": pa.array(ids, pa.int64()), **columns})

    def head(self, branch):
        return lance.dataset(self.location.branch_uri(branch))

    def table(self, branch):
        t = LanceTable.for_path(self.location.uri)
        return t if branch is None else t.checkout(branch=branch)

    def step(self):
        steps = {
            self.append: 2,
            self.change: 4,
            self.change_by_pylance: 1,
            self.delete: 1,
            self.fill: 3,
            self.upsert: 2,
            self.compact: 2,
            self.sort: 1,
            self.index: 5,
            self.extend: 1,
            self.extend_by_pylance: 1,
            self.fork: 1,
            self.merge: 4,
            self.pick: 1,
            self.revert: 1,
            self.restore: 1,
            self.rename: 1,
        }
        (chosen,) = self.rng.choices(list(steps), list(steps.values()))
        branch = self.rng.choice(self.branches)
        self.done.append(f"{chosen.__name__} {branch or 'main'}")
        try:
            chosen(branch)
        except LanceSparkError as refused:
            self.done.append(f"({type(refused).__name__})")

    def append(self, branch):
        lance.write_dataset(self.rows(self.rng.randint(1, 15)), self.head(branch), mode="append", max_rows_per_file=10)

    def change(self, branch):
        """Update, delete and insert rows as statements do."""
        part, new = self.rng.randint(0, 5), {name: self.rng.choice(some) for name, some in VALUES.items()}
        chosen = {name: new[name] for name in self.rng.sample(list(new), self.rng.randint(1, 3))}

        def actions(rows):
            updated = [(UPDATE, {**row, **chosen}) for key, row in rows.items() if key % 6 == part]
            deleted = [(DELETE, {"id": key}) for key in rows if key % 23 == part + 6 and key % 6 != part]
            return [*updated, *deleted, *((INSERT, row) for row in self.rows(1).to_pylist())]

        finish(written(self.location, branch, actions))

    def change_by_pylance(self, branch):
        self.head(branch).update({"n": str(self.rng.randint(0, 7))}, f"id % 4 = {self.rng.randint(0, 3)}")

    def delete(self, branch):
        self.head(branch).delete(self.rng.choice((f"id % 9 = {self.rng.randint(0, 8)}", "id < 6", "n = 2")))

    def fill(self, branch):
        """Write a column in place."""
        name = self.rng.choice(list(TYPES))
        update_filled_columns(self.location, branch, self._values(name), BackfillOptions(resume=False))

    def _values(self, name):
        shift, some = self.rng.randint(0, 9), VALUES[name]

        def computed(batch):
            return {name: pa.array([some[(key + shift) % len(some)] for key in batch["id"].to_pylist()], TYPES[name])}

        return LocalValues(self.location, computed, **{name: TYPES[name]})

    def upsert(self, branch):
        """By pylance, which writes some columns beside the others."""
        there = self.head(branch).to_table(columns=["id"])["id"].to_pylist()
        ids = sorted(self.rng.sample(there, min(8, len(there))))
        rows = self.rows(len(ids)).set_column(0, "id", pa.array(ids, pa.int64()))
        names = self.rng.choice((["id", "n"], ["tags", "id"], ["text", "id"], ["tags", "text", "id", "n"]))
        self.head(branch).merge_insert("id").when_matched_update_all().execute(rows.select(names))

    def compact(self, branch):
        self.table(branch).optimize(own_only=False, target_rows=self.rng.choice((20, 100)))

    def sort(self, branch):
        self.table(branch).optimize(sort_by=self.rng.choice(("id", "text")))

    def index(self, branch):
        column = self.rng.choice(list(KINDS))
        kind = self.rng.choice(KINDS[column])
        self.done.append(f"{kind} of {column}")
        self.table(branch).indexes.create(column, kind=kind, name=f"{column}_idx", replace=True)

    def extend(self, branch):
        self.table(branch).indexes.optimize()

    def extend_by_pylance(self, branch):
        self.head(branch).optimize.optimize_indices(num_indices_to_merge=self.rng.choice((0, 1, 2)))

    def fork(self, branch):
        if len(self.branches) < 4:
            name = f"b{len(self.branches)}"
            self.table(branch).branches.create(name)
            self.branches.append(name)

    def merge(self, branch):
        other = self.rng.choice(self.branches)
        if other != branch:
            self.table(None).branches.merge(other or "main", into=branch or "main")

    def pick(self, branch):
        other = self.rng.choice(self.branches)
        if other != branch:
            self.table(branch).cherry_pick(other or "main", self.head(other).version)

    def revert(self, branch):
        self.table(branch).revert(max(self.head(branch).version - self.rng.randint(0, 2), 1))

    def restore(self, branch):
        version = self.rng.choice([each["version"] for each in self.head(branch).versions()][-4:])
        if {*TYPES} <= {*lance.dataset(self.location.branch_uri(branch), version=version).schema.names}:
            self.table(branch).restore(version)

    def rename(self, branch):
        """A column gives its name to another one, and goes."""
        name = self.rng.choice(list(TYPES))
        self.table(branch).rename_columns({name: "old"})
        add_filled_columns(self.location, branch, self._values(name), BackfillOptions(resume=False))
        self.table(branch).drop_columns(["old"])


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.when(day=0)] * (seed >= BY_DAY)) for seed in range(SEEDS)]
)
def test_whatever_happened_filters_find_the_rows_that_are_there(uri, seed):
    table = IndexedTable(uri, seed)
    for _ in range(STEPS):
        table.step()
        try:
            for branch in table.branches:
                dataset = table.head(branch)
                for where in FILTERS if {*TYPES} <= {*dataset.schema.names} else ():
                    found = dataset.to_table(filter=where, columns=["id"])["id"].to_pylist()
                    truth = dataset.scanner(filter=where, columns=["id"], use_scalar_index=False).to_table()
                    assert sorted(found) == sorted(truth["id"].to_pylist()), f"{where} on {branch or 'main'}"
        except Exception as failed:
            failed.add_note("; ".join(table.done))
            raise
