"""Values of a function for the rows that were chosen: which rows it gets, and what the others keep."""

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.columns.column_files import CHOSEN, FillJob, FunctionItem, fill_chosen
from lance_spark.columns.columns import update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions, FilledFile
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData, SchemaMismatch
from lance_spark.storage.datasets import open_pinned

VECTOR = pa.list_(pa.float32(), 2)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("v", VECTOR), ("y", pa.int32())])


def some(first, count=10):
    ids = range(first, first + count)
    columns = [[*ids], [f"t{key}" for key in ids], [[key, -key] for key in ids], [*ids]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


@pytest.fixture(params=[False, True], ids=["plain", "stable row ids"])
def location(request, uri):
    for first in (0, 10, 20):
        lance.write_dataset(some(first), uri, mode="append" if first else "create", enable_stable_row_ids=request.param)
    dataset = lance.dataset(uri)
    dataset.delete("id IN (3, 4, 20)")
    dataset.update({"text": "'new'"}, where="id = 7")  # its stable row id is now one of another fragment
    return DatasetLocation.at(uri)


class Chosen:
    """Rows that a predicate of Python's is true for; what Spark does, in this process and in batches of 4."""

    at_once, parallelism, identity, reads = False, 1, None, None

    def __init__(self, location, function, predicate, *names, size=3):
        self.location, self.function, self.predicate, self.size = location, function, predicate, size
        self.schema = pa.schema([SCHEMA.field(name) for name in names])
        self.columns = ("id", "v", "text")
        self.inputs = (*self.columns, *names)

    def compute(self, pin, fragments, order):
        job = FillJob(self.location, pin, self.schema, order)
        made = fill_chosen(
            self.function, lambda number: FunctionItem(job, number, self.columns, self.size), self.told(pin, fragments)
        )
        return [FilledFile(**row) for batch in made for row in batch.to_pylist()]

    def told(self, pin, fragments):
        dataset = open_pinned(self.location, pin)
        for number in fragments:
            scanner = dataset.scanner(["id"], with_row_address=True, fragments=[dataset.get_fragment(number)])
            for batch in scanner.to_table().to_batches(max_chunksize=4):
                told = pa.array([self.predicate(key) for key in batch["id"].to_pylist()])
                yield pa.RecordBatch.from_arrays([batch["_rowaddr"].cast(pa.int64()), told], ["_rowaddr", CHOSEN])


def rows_of(location):
    dataset = lance.dataset(location.uri)
    dataset.validate()
    return {row["id"]: row for row in dataset.to_table().to_pylist()}


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_function_gets_the_rows_that_were_chosen_and_no_others(location, size):
    before, seen = rows_of(location), []

    def function(batch):
        assert batch.schema.field("v").type == VECTOR
        assert batch.num_rows <= size
        seen.extend(batch["id"].to_pylist())
        return {"v": np.ones((batch.num_rows, 2), np.float32), "y": [-key for key in batch["id"].to_pylist()]}

    update_filled_columns(
        location, None, Chosen(location, function, lambda key: key % 3 == 1, "v", "y", size=size), BackfillOptions()
    )
    chosen = {key for key in before if key % 3 == 1}
    assert sorted(seen) == sorted(chosen)
    assert rows_of(location) == {
        key: {**row, "v": [1.0, 1.0], "y": -key} if key in chosen else row for key, row in before.items()
    }


def test_rows_whose_ids_are_in_another_order_than_they_are(location):
    for key in (27, 17, 8):
        lance.dataset(location.uri).update({"text": "'late'"}, where=f"id = {key}")
    lance.dataset(location.uri).optimize.compact_files()
    (fragment,) = lance.dataset(location.uri).get_fragments()
    assert fragment.to_table()["id"].to_pylist()[-3:] == [27, 17, 8]
    before = rows_of(location)
    values = Chosen(location, lambda batch: {"y": [-key for key in batch["id"].to_pylist()]}, lambda key: key > 7, "y")
    update_filled_columns(location, None, values, BackfillOptions())
    assert rows_of(location) == {key: {**row, "y": -key} if key > 7 else row for key, row in before.items()}


@pytest.mark.parametrize("chosen", [False, True])
def test_a_condition_may_choose_no_row_or_every_row(location, chosen):
    before = rows_of(location)

    def function(batch):
        assert chosen, "no row, no call"
        return {"text": [None] * batch.num_rows}

    update_filled_columns(location, None, Chosen(location, function, lambda _: chosen, "text"), BackfillOptions())
    assert rows_of(location) == {key: {**row, "text": None if chosen else row["text"]} for key, row in before.items()}


@pytest.mark.parametrize("returned", [[1], [1, 2, 3, 4], ["a", "b"]])
def test_values_that_do_not_fit_change_nothing(location, returned):
    version = lance.dataset(location.uri).version
    values = Chosen(location, lambda _: {"y": returned}, lambda key: key in (1, 2), "y")
    with pytest.raises(SchemaMismatch):
        update_filled_columns(location, None, values, BackfillOptions())
    assert lance.dataset(location.uri).version == version


@pytest.mark.parametrize("lost", [slice(0, -1), slice(1, None)], ids=["last", "first"])
def test_a_row_of_which_nothing_is_told_ends_it(location, lost):
    class Less(Chosen):
        def told(self, pin, fragments):
            batches = [*super().told(pin, fragments)]
            return batches[lost]

    version = lance.dataset(location.uri).version
    values = Less(location, lambda batch: {"y": batch["id"]}, lambda _: True, "y")
    with pytest.raises((CorruptData, SchemaMismatch)):
        update_filled_columns(location, None, values, BackfillOptions())
    assert lance.dataset(location.uri).version == version
