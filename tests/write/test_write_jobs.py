"""Write jobs on local disk: one version or nothing, checked by diffing all files and by pylance as the reader."""

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, prepare, rows, write, written_since
from support.shaped_datasets import PAYLOADS, blobs

from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import finish


def test_one_job_of_many_tasks_is_one_version(uri):
    assert write(uri, *(numbers(2, start) for start in range(0, 20, 2)), commit_message="first") == 1
    assert write(uri, numbers(3, 20), numbers(3, 23)) == 2
    assert write(uri, numbers(1, 7), numbers(1, 8), overwrite=True) == 3
    assert [lance.dataset(uri, version=v).to_table()["id"].to_pylist() for v in (1, 2, 3)] == [
        [*range(20)],
        [*range(26)],
        [7, 8],
    ]
    message = lance.dataset(uri).read_transaction(1).transaction_properties
    assert message["__lance_commit_message"] == "first"


def test_nothing_is_visible_before_the_commit(uri):
    make_dataset(uri)
    before = contents(uri)
    job, fragments = prepare(uri, numbers(2, 10), numbers(2, 20))
    assert {path.split("/")[0] for path in written_since(before, uri)} == {"data"}
    assert lance.dataset(uri).version == 1
    assert finish(job, fragments) == 2
    assert ids(uri) == [0, 1, 2, 10, 11, 20, 21]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_on_a_branch_writes_nothing_outside_the_branchs_directory(uri, overwrite):
    make_dataset(uri)
    for name in ("team/x", "other"):
        create_branch(locate(uri), name, RefSpec())
    before = contents(uri)
    write(uri, numbers(2, 10), numbers(2, 20), branch="team/x", overwrite=overwrite)
    written = written_since(before, uri)
    assert {path.partition("tree/team/x/")[0] for path in written} == {""}
    assert {path.split("/")[3] for path in written} == {"_versions", "_transactions", "data"}
    new = [10, 11, 20, 21]
    assert ids(uri, branch="team/x") == (new if overwrite else [0, 1, 2, *new])
    assert ids(uri) == ids(uri, branch="other") == [0, 1, 2]


def test_a_job_that_creates_its_branch_writes_the_branch_and_its_ref_file_only(uri):
    make_dataset(uri, numbers(3), numbers(1, 3))
    before = contents(uri)
    write(uri, numbers(1, 50), branch="exp/a", create_branch="true", from_version=1)
    outside = {path for path in written_since(before, uri) if not path.startswith("tree/exp/a/")}
    assert outside == {"_refs/branches/exp%2Fa.json"}
    assert ids(uri, branch="exp/a") == [0, 1, 2, 50]
    assert lance.dataset(uri).checkout_version(("exp/a", None)).to_table()["id"].to_pylist() == [0, 1, 2, 50]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"branch": "dev", "create_branch": "true"}, AlreadyExists),
        ({"branch": "de"}, NotFound),
        ({"branch": "new", "create_branch": "true", "from_version": 9}, NotFound),
        ({"branch": "new", "create_branch": "true", "from_tag": "none"}, NotFound),
        ({"branch": "dev/data", "create_branch": "true"}, InvalidOption),
        ({"data_storage_version": "2.0"}, Refused),
        ({"enable_stable_row_ids": "true"}, Refused),
        ({"tag": "v1"}, Refused),
        ({"version": 1}, Refused),
    ],
)
def test_a_refused_job_changes_nothing(uri, options, error):
    make_dataset(uri)
    create_branch(locate(uri), "dev", RefSpec())
    before = contents(uri)
    for overwrite in (False, True):
        with pytest.raises(error):
            write(uri, numbers(1), overwrite=overwrite, **options)
    assert contents(uri) == before


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"id": ["x"], "name": ["y"]}),
        pa.table({"id": pa.array([1], pa.int64()), "nme": ["y"]}),
        pa.table({"name": ["y"]}),
        pa.table({"id": pa.array([None], pa.int64())}),
        pa.table([pa.array([1], pa.int64()), pa.array([2], pa.int64())], names=["id", "id"]),
    ],
    ids=["other type", "unknown column", "missing column", "null", "twice"],
)
def test_rows_that_do_not_fit_leave_no_file(uri, table):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    lance.write_dataset(pa.table({"id": [1], "name": ["a"]}, schema=schema), uri)
    before = contents(uri)
    with pytest.raises(SchemaMismatch):
        write(uri, table)
    assert contents(uri) == before


def test_columns_that_may_be_null_are_filled_where_the_job_has_none(uri):
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("point", pa.struct([("x", pa.int32())]))])
    lance.write_dataset(pa.table({"id": [1], "name": ["a"], "point": [{"x": 1}]}, schema=schema), uri)
    write(uri, pa.table({"name": ["b"]}), pa.table({"name": ["c"]}))
    expected = [
        {"id": 1, "name": "a", "point": {"x": 1}},
        {"id": None, "name": "b", "point": None},
        {"id": None, "name": "c", "point": None},
    ]
    assert rows(uri) == lance.dataset(uri).to_table().to_pylist() == expected


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_bytes_are_appended_to_a_blob_column(uri, version):
    blobs(uri, version)
    table = pa.table({"id": pa.array(range(5), pa.int64()), "payload": pa.array(PAYLOADS, pa.binary())})
    write(uri, table)
    write(uri, table.select(["id"]))
    scanner = lance.dataset(uri).scanner(columns=["payload"], blob_handling="all_binary")
    assert scanner.to_table()["payload"].to_pylist() == PAYLOADS[1:] * 2 + PAYLOADS + [None] * 5
    descriptions = pa.table({"payload": pa.array([{"position": 1, "size": 2}])})
    with pytest.raises(SchemaMismatch, match="takes bytes"):
        write(uri, descriptions)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("count", [0, 2])
def test_a_new_dataset_has_the_file_format_and_row_ids_asked_for_even_without_rows(uri, version, count):
    write(uri, numbers(count), data_storage_version=version, enable_stable_row_ids="true", commit_message="m")
    made = lance.dataset(uri)
    assert (made.data_storage_version, made.has_stable_row_ids) == (version, True)
    assert made.schema == numbers(1).schema
    assert made.read_transaction(1).transaction_properties["__lance_commit_message"] == "m"
    write(uri, numbers(1, 5))
    write(uri, numbers(1, 6), overwrite=True)
    again = lance.dataset(uri)
    assert (again.data_storage_version, again.has_stable_row_ids, ids(uri)) == (version, True, [6])


def test_a_job_without_rows_appends_no_version_but_overwrites_and_creates(uri):
    assert write(uri, numbers(0)) == 1
    assert write(uri, numbers(0)) is None
    write(uri, numbers(3))
    assert write(uri, pa.table({"name": pa.array([], pa.string())}), overwrite=True) == 3
    assert (lance.dataset(uri).schema.names, rows(uri), rows(uri, filter="name = 'x'")) == (["name"], [], [])


def test_files_have_the_size_asked_for(uri):
    write(uri, numbers(10), max_rows_per_file=4)
    assert [fragment.count_rows() for fragment in lance.dataset(uri).get_fragments()] == [4, 4, 2]
