"""Every shape of dataset gives through plan and scan exactly the rows, in the order, that pylance's own scan gives."""

import lance
import pytest
from support.local_datasets import make_dataset, numbers, rows, scan
from support.shaped_datasets import PAYLOADS, SHAPES, blobs, indexed, people, plain, stable_ids

from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch

READS = [
    {},
    {"columns": ["id"]},
    {"columns": ["vector", "id"]},
    {"with_row_id": True},
    {"with_row_address": True, "with_row_id": True, "columns": ["id"]},
    {"limit": 0},
    {"limit": 1},
    {"limit": 13},
    {"limit": 1000},
    {"filter": "id = 21"},
    {"filter": "id >= 5 AND id < 40"},
    {"filter": "id IN (3, 8, 22, 36, 41)", "with_row_id": True},
    {"filter": "kind = 3"},
    {"filter": "kind IN (1, 9)", "with_row_address": True},
    {"filter": "kind IS NULL"},
    {"filter": "kind != 2", "columns": ["vector"]},
    {"filter": "kind = 3 AND id > 20"},
    {"filter": "kind = 3 OR id = 7"},
    {"filter": "id < 0"},
    {"filter": "vector IS NOT NULL"},
    {"filter": "kind = 3", "limit": 4},
    {"filter": "id > 9", "limit": 11, "with_row_id": True},
    {"filter": "id > 9", "limit": 0},
]


def located(dataset: lance.LanceDataset) -> dict:
    root, _, branch = dataset.uri.partition("/tree/")
    return {"uri": root, "branch": branch} if branch else {"uri": root}


def as_options(read: dict) -> dict:
    return {key: ",".join(value) if key == "columns" else value for key, value in read.items()}


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_rows_and_their_order_are_pylances_however_the_scan_is_split(uri, shape):
    dataset = shape(uri)
    for read in READS:
        expected = dataset.scanner(**read).to_table().to_pylist()
        for split_size, cores in ((30_000, 2), (2**27, 1)):
            found = rows(**located(dataset), cores=cores, split_size=split_size, **as_options(read))
            assert found == expected, (read, split_size, cores)


@pytest.mark.parametrize("shape", [plain, indexed], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("filter", [None, "id >= 0", "kind >= 0"])
def test_rows_inside_one_fragment_are_spread_over_many_partitions(uri, shape, filter):
    dataset = shape(uri)
    asked = {} if filter is None else {"filter": filter}
    parts = scan(uri, split_size=1, **asked)
    assert max(len(part) for part in parts) == 1
    assert len(parts) > dataset.count_rows() // 2


def test_rows_of_one_fragment_that_an_index_finds_are_all_read_wherever_they_lie(uri):
    # Matches at the end of the fragment: a plan that cuts it by the number of matches would miss them.
    make_dataset(uri, numbers(200)).create_scalar_index("id", "BTREE")
    for split_size in (1, 70_000, 2**27):
        found = rows(uri, filter="id >= 150 OR id = 3", split_size=split_size)
        assert [row["id"] for row in found] == [3, *range(150, 200)]


def test_fragments_without_matches_are_not_planned_when_an_index_tells(uri):
    make_dataset(uri, *(numbers(10, start) for start in range(0, 100, 10))).create_scalar_index("id", "BTREE")
    assert sum(map(len, scan(uri, filter="id IN (5, 95)", split_size=1))) == 2
    assert len(scan(uri, filter="id IN (5, 95)", split_size=70_000)) == 2
    assert scan(uri, filter="id = 1000", split_size=1) == []


def test_stable_row_ids_differ_from_addresses_and_both_are_returned(uri):
    dataset = stable_ids(uri)
    found = rows(uri, with_row_id="true", with_row_address="true", columns="id", split_size=1)
    assert found == dataset.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table().to_pylist()
    assert any(row["_rowid"] != row["_rowaddr"] for row in found)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    "paths",
    ["point.x", "point.y.z", "point.y.w,id,point.x", "point.y,point.y.z", "point.x,point", "point,id,_rowid"],
)
def test_a_nested_column_is_null_where_its_struct_is_null(uri, version, paths):
    lance.write_dataset(people(12), uri, data_storage_version=version, max_rows_per_file=5)
    wanted = paths.split(",")
    expected = lance.dataset(uri).scanner(columns=["id", "point"], with_row_id=True).to_table().to_pylist()
    found = rows(uri, columns=paths, split_size=1)
    assert [list(row) for row in found] == [list(dict.fromkeys(path.split(".")[0] for path in wanted))] * 12
    for row, whole in zip(found, expected, strict=True):
        for path in wanted:
            given, original = row, whole
            for name in path.split("."):
                given, original = given and given[name], original and original[name]
            assert given == original
    assert sum(row["point"] is None for row in found) == 3
    assert sum(row["point"] is not None for row in found) == 9


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ("nope", NotFound, "no column 'nope'"),
        ("nme", NotFound, "Did you mean 'name'"),
        ("ID", NotFound, "Did you mean 'id'"),
        ("point.q", NotFound, "no column 'point.q'"),
        ("id.x", SchemaMismatch, "cannot be read on its own"),
    ],
)
def test_a_column_that_is_not_there_is_named_before_anything_is_read(uri, columns, error, said):
    plain(uri)
    with pytest.raises(error, match=said):
        rows(uri, columns=columns)


@pytest.mark.parametrize(
    "filter",
    [
        "id >",
        "nope = 1",
        "id = 'x'",
        "id + 1",
        "id IN ()",
        "foo(id) = 1",
        "count(*) > 1",
        "name = 'conflict' AND nope = 'access denied: 403 connection'",
        "id = 99999999999999999999999",
        "id / 0 = 1",
    ],
)
def test_a_filter_that_means_nothing_is_an_invalid_option(uri, filter):
    plain(uri)
    with pytest.raises(InvalidOption):
        rows(uri, filter=filter)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("handling", ["descriptions", "bytes"])
def test_blobs_come_as_descriptions_or_as_bytes(uri, version, handling):
    dataset = blobs(uri, version)
    theirs = {"descriptions": "blobs_descriptions", "bytes": "all_binary"}[handling]
    for read in ({}, {"filter": "id > 1"}, {"limit": 3}, {"columns": ["payload"]}):
        expected = dataset.scanner(blob_handling=theirs, **read).to_table().to_pylist()
        for split_size in (1, 2**27):
            assert rows(uri, blob_handling=handling, split_size=split_size, **as_options(read)) == expected
    if handling == "bytes":
        assert [row["payload"] for row in rows(uri, blob_handling="bytes")] == PAYLOADS[1:] * 2
