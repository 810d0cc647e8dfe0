"""Nested values in any memory layout, through every writer of rows: pylance reads what was given."""

import re

import lance
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.backfills import LocalValues
from support.cut_arrays import array, layouts, nested_types

from lance_spark import LanceTable
from lance_spark.columns import column_files
from lance_spark.columns.columns import add_filled_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.format.blobs import plain_bytes, wrapped
from lance_spark.format.storable import check_types
from lance_spark.optimize import rewrites
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

TYPES = nested_types()
EMPTY = pa.struct([])
ROWS = 60
LAYOUTS = sorted({name for kind in TYPES.values() for name in layouts(kind, ROWS, 0)})
DOUBLE = pa.struct([("u", pa.struct([("n", pa.int64()), ("b", pa.bool_())]))])


def written(uri, schema, batches, **options):
    job = begin(plan_write({"path": uri, **options}, schema, overwrite=False))
    finish(job, write_rows(job, batches))
    return lance.dataset(uri)


def stored(uri):
    return lance.dataset(uri).to_table().sort_by("id")


def check_columns(found, expected):
    for name in expected.schema.names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name


def whole_table(rows, nulls=0.3):
    """Rows with a column of each type."""
    return pa.table({"id": range(rows), **{name: array(kind, rows, nulls) for name, kind in TYPES.items()}})


@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.when(day=0.2)
def test_rows_in_any_layout_are_stored(uri, layout, nulls, version):
    chunks = {name: found[layout] for name, kind in TYPES.items() if layout in (found := layouts(kind, ROWS, nulls))}
    if version == "2.1":
        chunks = {name: found for name, found in chunks.items() if "map" not in name}
    schema = pa.schema([(name, found[0].type) for name, found in chunks.items()])
    batches = [pa.RecordBatch.from_arrays(list(each), schema=schema) for each in zip(*chunks.values(), strict=True)]
    found = written(uri, schema, batches, data_storage_version=version, max_rows_per_file="23")
    check_columns(found.to_table(), pa.Table.from_batches(batches))


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize(("rows", "most"), [(20, 7), (7, 20), (50, 50), (3, 10), (23, 1000)])
@pytest.mark.parametrize("bytes_", [None, "4k"])
def test_a_file_that_is_full_cuts_no_batch_inside_pylance(uri, rows, most, bytes_):
    whole = whole_table(100)
    options = {"max_rows_per_file": str(most), **({"max_bytes_per_file": bytes_} if bytes_ else {})}
    written(uri, whole.schema, whole.to_batches(max_chunksize=rows), **options)
    check_columns(stored(uri), whole)
    assert max(fragment.physical_rows for fragment in lance.dataset(uri).get_fragments()) <= most


@pytest.mark.parametrize("deleted", [None, "id % 10 < 2", "id < 25", "id > 25", "id % 20 < 19"])
@pytest.mark.parametrize("size", [7, 16, 1_000])
@pytest.mark.when(day=0.3)
def test_backfilled_values_are_stored(uri, monkeypatch, deleted, size):
    """However the rows that pylance goes through at once and the batches of values fall together."""
    monkeypatch.setattr(column_files, "batch_rows", lambda _width: size)
    values = whole_table(60).drop(["id"])
    for start in (0, 40):
        lance.write_dataset(pa.table({"id": range(start, min(60, start + 40))}), uri, mode="append")
    if deleted:
        lance.dataset(uri).delete(deleted)

    def of(batch):
        first = batch["id"][0].as_py()
        if batch["id"].to_pylist() == list(range(first, first + batch.num_rows)):
            return values.slice(first, batch.num_rows)
        return values.take(batch["id"])

    location = DatasetLocation.at(uri)
    computed = LocalValues(location, of, **{field.name: field.type for field in values.schema})
    add_filled_columns(location, None, computed, BackfillOptions())
    live = lance.dataset(uri).to_table(columns=["id"])["id"]
    check_columns(lance.dataset(uri).to_table(), values.take(live))
    computed.function = lambda batch: values.take(pa.array([59 - key for key in batch["id"].to_pylist()]))
    computed.identity = "another"
    update_filled_columns(location, None, computed, BackfillOptions())
    check_columns(lance.dataset(uri).to_table(), values.take(pa.array([59 - key for key in live.to_pylist()])))


@pytest.mark.parametrize("order", [None, "id", "id, with more text than an array holds"])
def test_fragments_are_rewritten(uri, monkeypatch, order):
    """A compaction whose files would be full in the middle of a batch."""
    if order is not None and order != "id":
        order = "id"
        monkeypatch.setattr(rewrites, "_NARROW", 0)
        monkeypatch.setattr(rewrites, "_HELD", 10_000)
    whole = whole_table(300)
    for start in range(0, 300, 60):
        lance.write_dataset(whole.slice(start, 60).take(pa.array(range(59, -1, -1))), uri, mode="append")
    lance.dataset(uri).delete("id % 10 = 3")
    options = OptimizeOptions(target_rows=40, sort_by=order)
    optimize(DatasetLocation.at(uri), None, options, LocalRunner(1))
    check_columns(stored(uri), whole.filter(pa.array([number % 10 != 3 for number in range(300)])))


@pytest.mark.parametrize("kind", [DOUBLE, pa.struct([("b", pa.bool_())])], ids=["struct in a struct", "booleans"])
def test_pylance_still_needs_whole_arrays(uri, kind):
    """If this fails, pylance stores cut arrays: then _is_cut, safe_batches, _in_blocks and _into_one_file can go."""
    cut = pa.record_batch({"c": array(kind, 60, 0.3).slice(11, 40)})
    with pytest.raises(BaseException, match=r"end <= self\.len|null_bit_buffer") as caught:
        lance.write_dataset(cut, uri)
    assert not isinstance(caught.value, KeyboardInterrupt)


TEXTS = pa.list_(pa.string(), 2)
UNSTORABLE = {
    "vectors of text": (TEXTS, None, ("fixed length", "metadata")),
    "vectors of structs": (pa.list_(DOUBLE, 2), None, ("fixed length",)),
    "vectors of arrays": (pa.list_(pa.list_(pa.int32()), 2), "2.1", ("fixed length",)),
    "vectors of vectors of bytes": (pa.list_(pa.list_(pa.binary(), 2), 2), "2.3", ("fixed length",)),
    "inside an array": (pa.list_(TEXTS), None, ("fixed length",)),
    "inside a map": (pa.map_(pa.string(), TEXTS), None, ("fixed length",)),
    "a map": (pa.map_(pa.string(), pa.int32()), "2.1", ("no maps", "map_entries", "2.2")),
    "a map in a struct": (pa.struct([("m", pa.map_(pa.string(), pa.int32()))]), "legacy", ("'c.m'", "no maps")),
}


@pytest.mark.parametrize("case", UNSTORABLE)
def test_types_that_files_cannot_hold_are_refused(uri, case):
    kind, version, words = UNSTORABLE[case]
    options = {"data_storage_version": version} if version else {}
    with pytest.raises(SchemaMismatch) as caught:
        plan_write({"path": uri, **options}, pa.schema([("id", pa.int64()), ("c", kind)]), overwrite=False)
    assert all(word in str(caught.value) for word in ("'c", *words))


LOST = {
    "a null number": ("0.1", pa.int64(), [1, None], "a null"),
    "an empty string": ("legacy", pa.string(), ["a", ""], "an empty value"),
    "a null array": ("0.1", pa.list_(pa.int64()), [[1], None], "a null"),
    "a null inside an array": ("0.1", pa.list_(pa.bool_()), [[True, None]], "a null"),
    "a null vector": ("0.1", pa.list_(pa.float32(), 2), [None], "a null"),
    "a null struct": ("2.0", DOUBLE, [{"u": {"n": 1, "b": None}}, None], "a null struct"),
    "a null struct in a struct": ("2.0", DOUBLE, [{"u": None}], "a null struct"),
    "a null struct in an array": ("2.0", pa.list_(DOUBLE), [[None]], "a null struct"),
}


@pytest.mark.parametrize("case", LOST)
def test_values_that_an_old_format_would_change_are_refused(uri, case):
    version, kind, values, words = LOST[case]
    rows = pa.record_batch({"c": pa.array(values, kind)})
    with pytest.raises(SchemaMismatch, match=rf"'c' holds {words}, which files of format \d\.\d cannot hold"):
        written(uri, rows.schema, [rows], data_storage_version=version)


def test_values_that_an_old_format_keeps_are_stored(uri):
    old = {"a": pa.array([1, 2]), "t": ["x", None], "s": [{"n": 1, "t": None}, {"n": 2, "t": "y"}], "l": [[1], []]}
    rows = pa.record_batch(old)
    assert written(uri, rows.schema, [rows], data_storage_version="0.1").to_table().to_pylist() == rows.to_pylist()
    uri += "2"
    rows = pa.record_batch({"n": pa.array([1, None]), "t": ["", None], "l": [None, [None]], "s": [{"n": None}] * 2})
    assert written(uri, rows.schema, [rows], data_storage_version="2.0").to_table().to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("kind", [EMPTY, pa.list_(EMPTY), pa.struct([("x", EMPTY)]), pa.map_(pa.string(), EMPTY)])
def test_structs_without_fields_are_not_written_as_they_are(kind):
    with pytest.raises(SchemaMismatch, match="without fields"):
        check_types([pa.field("c", kind)], None)


NOT_IN_LANCE = {
    "run ends": (pc.run_end_encode(pa.array([1, 1])), "run_end_decode"),
    "list view": (pa.array([[1]], pa.list_view(pa.int64())), r"pa\.list_"),
    "large list view": (pa.array([[1]], pa.large_list_view(pa.int64())), r"pa\.list_"),
    "interval": (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "duration"),
    "sparse union": (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "struct"),
    "dense union": (
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        "struct",
    ),
    "no numbers": (pa.array([[]], pa.list_(pa.float32(), 0)), "any length"),
}
if hasattr(pa, "decimal32"):
    NOT_IN_LANCE |= {
        "narrow decimal": (pa.array([None], pa.decimal32(5, 1)), "decimal128"),
        "decimal": (pa.array([None], pa.decimal64(5, 1)), "decimal128"),
    }


@pytest.mark.parametrize("name", NOT_IN_LANCE)
def test_types_that_lance_has_not_are_refused_with_what_to_do(uri, name):
    column, hint = NOT_IN_LANCE[name]
    lance.write_dataset(pa.table({"a": [1]}), uri)
    with pytest.raises(SchemaMismatch, match=r"Column .c\.x. cannot be stored") as told:
        LanceTable.for_path(uri).write(
            pa.table({"c": pa.StructArray.from_arrays([column[:1]], ["x"])}), mode="overwrite"
        )
    assert re.search(hint, told.value.hint)
    assert lance.dataset(uri).schema.names == ["a"]


def test_a_text_that_has_no_utf_8_is_refused(uri):
    lance.write_dataset(pa.table({"a": ["x"]}), uri)
    with pytest.raises(InvalidOption, match="cannot become Arrow"):
        LanceTable.for_path(uri).write(pd.DataFrame({"a": ["\ud800"]}), mode="append")


def test_pylance_still_misreads_structs_without_fields(uri):
    """If this fails, pylance reads structs without fields: PLACEHOLDER need not be written any more."""
    table = pa.table({"m": pa.array([{}, None], EMPTY), "v": [42, 43]})
    try:
        found = lance.write_dataset(table, uri).to_table().to_pylist()
    except (OSError, ValueError):
        return
    assert found != table.to_pylist()


def test_pylance_still_cannot_read_a_run_of_lists_without_blobs(uri):
    """If this fails, new tables may have lists of blobs."""
    field = pa.field("l", pa.list_(lance.blob_field("item")))
    rows = wrapped(pa.array([[b"x"], []], plain_bytes(field).type), field)
    lance.write_dataset(pa.table([pa.array([0, 1]), rows], ["id", "l"]), uri, data_storage_version="2.2")
    with pytest.raises((OSError, ValueError)):
        lance.dataset(uri).to_table(offset=1)
