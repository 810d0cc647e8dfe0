"""The verbs of tables that change columns, computed by Spark: what they write, pylance reads."""

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from support.local_datasets import contents, written_since

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused, SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", newest=0.6)]


def some(first):
    ids = list(range(first, first + 10))
    return pa.table({"id": pa.array(ids, pa.int32()), "x": pa.array([value / 2 for value in ids], pa.float32())})


@pytest.fixture
def table(spark, uri):
    """Three fragments of ten rows with an index on x, two rows deleted; in branch exp another one."""
    for first in (0, 10, 20):
        lance.write_dataset(some(first), uri, mode="append" if first else "create", enable_stable_row_ids=True)
    lance.dataset(uri).create_scalar_index("x", "BTREE")
    lance.dataset(uri).delete("id in (3, 20)")
    made = LanceTable.for_path(uri, spark=spark)
    made.branches.create("exp")
    lance.dataset(f"{uri}/tree/exp").delete("id = 14")
    return made


@pytest.fixture(params=["main", "exp"])
def branch(request, table):
    return table.checkout(branch=request.param)


def read(table, **arguments):
    dataset = lance.dataset(table.location.branch_uri(None if table.branch == "main" else table.branch))
    dataset.validate()
    return dataset.to_table(**arguments)


def pairs(table, name, **arguments):
    found = read(table, **arguments)
    return dict(zip(found["id"].to_pylist(), found[name].to_pylist(), strict=True))


def test_sql(branch):
    before, files, version = read(branch), contents(branch.location.uri), branch.version
    result = branch.add_columns(
        {"twice": "id * 2", "half": "x / 2", "odd word": "concat('n', `id` % 2)"}, message="more"
    )
    assert branch.version == version + 1
    found = read(branch)
    assert found.select(["id", "x"]) == before
    assert found.schema.field("twice").type == pa.int32()  # as Spark has it
    assert found.schema.field("half").type == pa.float64()
    assert all(row["twice"] == 2 * row["id"] and row["half"] == row["x"] / 2 for row in found.to_pylist())
    assert set(found["odd word"].to_pylist()) == {"n0", "n1"}
    assert (result.fragments, result.rows) == (3, 30)
    root = "" if branch.branch == "main" else "tree/exp/"
    assert all(path.startswith(root) for path in written_since(files, branch.location.uri))


def test_sql_without_a_column_and_with_vectors(branch):
    branch.add_columns({"one": "1", "v": "array(float(1), float(2))"}, vector={"v": 2})
    found = read(branch)
    assert found.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert set(found["one"].to_pylist()) == {1}
    assert found["v"].to_pylist() == [[1, 2]] * len(found)


def test_a_function(branch):
    def embed(batch):
        assert batch.schema.names == ["x"]
        assert len(batch) <= 4
        return {"emb": [[value, 1.0] if value else None for value in batch["x"].to_pylist()]}

    branch.add_columns_with(embed, schema="emb array<float>", columns=["x"], vector={"emb": 2}, batch_size=4)
    found = read(branch)
    assert found.schema.field("emb").type == pa.list_(pa.float32(), 2)
    assert all(row["emb"] == ([row["x"], 1] if row["x"] else None) for row in found.to_pylist())


def test_a_class_is_made_once_for_each_worker(spark, table, tmp_path):
    log = tmp_path / "loads"

    class Model:
        def __init__(self):
            import os

            with open(log, "a") as file:
                file.write(f"{os.getpid()}\n")

        def __call__(self, batch):
            return pa.table({"y": batch["id"]})

    table.add_columns_with(Model, schema="y int", columns=["id"])
    workers = log.read_text().split()
    assert len(workers) == len(set(workers))
    assert all(key == value for key, value in pairs(table, "y").items())


def test_a_dataframe(spark, branch):
    frame = spark.createDataFrame(
        [(key, f"n{key}", float(key)) for key in range(5, 100)], "id int, name string, z double"
    )
    branch.add_columns_from(frame, on="id")
    names = pairs(branch, "name")
    assert all(name == (f"n{key}" if key >= 5 else None) for key, name in names.items())
    assert pairs(branch, "z")[29] == 29.0


def test_a_dataframe_with_a_key_of_two_columns_and_nulls_in_it(spark, table):
    frame = spark.createDataFrame(
        [(1, 0.5, "a"), (2, 9.0, "b"), (None, 1.0, "c"), (None, 1.0, "d")], "id int, x float, name string"
    )
    table.add_columns_from(frame, on=["id", "x"])
    assert {key: name for key, name in pairs(table, "name").items() if name} == {1: "a"}


def test_a_key_that_comes_twice_is_shown(spark, table):
    frame = spark.createDataFrame([(1, "a"), (7, "b"), (7, "c")], "id int, name string")
    with pytest.raises(SchemaMismatch, match="several rows with id = 7"):
        table.add_columns_from(frame, on="id")
    assert read(table).schema.names == ["id", "x"]


def test_values_that_depend_on_other_rows_are_refused_and_nothing_is_changed(table):
    version = table.version
    with pytest.raises(AnalysisException):
        table.add_columns({"y": "sum(x)"})
    with pytest.raises(SchemaMismatch, match=r"add_columns_from\(df, on=key\)"):
        table.add_columns({"y": "row_number() OVER (ORDER BY x DESC)"})
    assert table.version == version


def test_a_function_that_loses_rows_is_told_by_fragment_and_counts(table):
    with pytest.raises(
        SchemaMismatch, match=r"returned (8 values of 'y' for 9|9 values of 'y' for 10) rows of fragment \d"
    ):
        table.add_columns_with(lambda batch: {"y": batch["id"][1:]}, schema="y int", columns=["id"])
    assert read(table).schema.names == ["id", "x"]


def test_a_call_that_failed_goes_on(table, tmp_path):
    gone = tmp_path / "out of memory"
    gone.touch()

    def function(batch):
        import os

        if 25 in batch["id"].to_pylist() and os.path.exists(gone):
            raise MemoryError
        return {"y": batch["id"]}

    with pytest.raises(Exception, match="MemoryError"):
        table.add_columns_with(function, schema="y int", columns=["id"])
    gone.unlink()
    result = table.add_columns_with(function, schema="y int", columns=["id"])
    assert result.fragments == 3
    assert result.resumed in (1, 2)  # the third task was begun while the second one was running
    assert all(key == value for key, value in pairs(table, "y").items())


def test_group_by_group(branch):
    told = []
    branch.add_columns({"y": "id"}, incremental=True, progress=told.append)
    assert all(key == value for key, value in pairs(branch, "y").items())
    assert told
    branch.add_columns({"y": "id"}, incremental=True)  # nothing is left to do


def test_updates_take_all_forms_and_no_index_gives_an_old_answer(spark, branch):
    branch.update_columns({"x": "float(id * 10)"})
    assert pairs(branch, "x", filter="x = 70") == {7: 70}
    assert pairs(branch, "x", filter="x = 3.5") == {}
    branch.update_columns_with(lambda batch: {"x": [1.0] * len(batch)}, schema=["x"], columns=["id"])
    assert set(pairs(branch, "x").values()) == {1.0}
    frame = spark.createDataFrame([(7, 70.0), (8, None), (1000, 1.0)], "id int, x float")
    branch.update_columns_from(frame, on="id")
    found = pairs(branch, "x")
    assert (found[7], found[8], found[9]) == (70.0, None, 1.0)
    assert pairs(branch, "x", filter="x = 70") == {7: 70}


def test_columns_come_to_main_with_a_merge(table):
    exp = table.checkout(branch="exp")
    exp.add_columns({"y": "id + 1"})
    exp.update_columns({"x": "float(-id)"})
    lance.write_dataset(some(40), table.location.uri, mode="append")
    table.branches.merge("exp")
    found = read(table).to_pylist()
    assert all(
        (row["y"], row["x"]) == ((row["id"] + 1, -row["id"]) if row["id"] < 40 else (None, row["id"] / 2))
        for row in found
    )
    assert len(found) == 37


def test_drop_rename_and_alter_without_spark(table):
    handle = LanceTable.for_path(table.location.uri).checkout(branch="exp")
    handle.alter_columns({"id": "bigint"}, comments={"x": "half of it"}, nullable={"x": True}, message="wider")
    handle.rename_columns({"id": "key"})
    assert read(handle).schema.field("key").type == pa.int64()
    assert read(handle).schema.field("x").metadata[b"comment"] == b"half of it"
    assert str(handle.drop_columns(["x"])) == f"exp@{handle.version}: changed x"
    assert read(handle).schema.names == ["key"]
    assert read(table).schema.names == ["id", "x"]


def test_values_for_the_rows_of_a_condition(table):
    table.add_columns({"y": "CASE WHEN id < 6 THEN id END"})
    before = pairs(table, "y")
    table.update_columns({"y": "y + 10"}, where="y > 3")
    assert pairs(table, "y") == {key: y if y is None or y <= 3 else y + 10 for key, y in before.items()}


def test_a_function_and_a_frame_for_the_rows_of_a_condition(spark, branch):
    def negative(batch):
        assert all(key % 3 == 0 for key in batch["id"].to_pylist()), "a row that was not chosen"
        return {"x": [-float(key) for key in batch["id"].to_pylist()]}

    def twice(expected):
        assert pairs(branch, "x") == expected
        key = next(key for key, value in expected.items() if value == -27)
        assert pairs(branch, "x", filter="x = -27") == {key: -27}

    expected = {key: -key if key % 3 == 0 and key > 5 else x for key, x in pairs(branch, "x").items()}
    branch.update_columns_with(negative, schema=["x"], columns=["id"], where="id % 3 = 0 AND x > 2.5", batch_size=2)
    twice(expected)
    frame = spark.createDataFrame([(6, 1.0), (7, 2.0), (8, None), (1000, 1.0)], "id int, x float")
    branch.update_columns_from(frame, on="id", where="x > 0 OR id = NULL")  # that of 6 is less by now
    twice({**expected, 7: 2.0, 8: None})
    version = branch.version
    branch.update_columns_with(lambda _: None, schema=["x"], columns=["id"], where="id < 0")  # no row, no call
    assert branch.version <= version + 1
    twice({**expected, 7: 2.0, 8: None})


def test_several_changes_in_one_version(table):
    version = table.version
    with table.transaction(message="all of it") as working:
        working.add_columns({"y": "id + 1"})
        working.update_columns({"x": "float(y)"})
        working.rename_columns({"y": "next"})
    assert table.version == version + 1
    assert all((row["next"], row["x"]) == (row["id"] + 1, row["id"] + 1) for row in read(table).to_pylist())
    assert pairs(table, "next", filter="x = 8") == {7: 8}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.add_columns({"x": "id"}), AlreadyExists, "'x'"),
        (lambda t: t.add_columns({}), InvalidOption, "No column"),
        (lambda t: t.add_columns({"y": "NULL"}), SchemaMismatch, "no type"),
        (lambda t: t.add_columns_with(len), InvalidOption, "schema="),
        (lambda t: t.add_columns(t.to_df(), on="id"), InvalidOption, "a dict of SQL, not a DataFrame"),
        (lambda t: t.add_columns({"y": "id"}, batchsize=3), InvalidOption, "no option 'batchsize'"),
        (lambda t: t.add_columns_from(t.spark.range(3)), InvalidOption, "on='flight_id'"),
        (lambda t: t.add_columns_from(t.spark.range(3), on="key"), NotFound, "'key'"),
        (lambda t: t.update_columns({"y": "id"}), NotFound, "'y'"),
        (lambda t: t.update_columns({"x": "'a'"}), SchemaMismatch, "Column 'x'|column 'x'"),
        (lambda t: t.update_columns({"x": "1"}, where=" "), InvalidOption, "where must be a condition"),
        (
            lambda t: t.update_columns_with(lambda _: {}, schema=["x"], where="id + 3"),
            InvalidOption,
            "is int, not a cond",
        ),
        (lambda t: t.update_columns_from(t.to_df(), on="id", where="nope = 3"), AnalysisException, "nope"),
        (lambda t: t.checkout(version=1).add_columns({"y": "id"}), Refused, "pinned to"),
        (lambda t: t.drop_columns(["y"]), NotFound, "'y'"),
        (lambda t: t.alter_columns({"id": "string"}), InvalidOption, "wider type"),
        (lambda t: t.alter_columns({"id": "smallint"}), SchemaMismatch, "'id'"),
    ],
)
def test_what_is_refused_changes_nothing(table, call, error, words):
    before = contents(table.location.uri)
    with pytest.raises(error, match=words):
        call(table)
    assert written_since(before, table.location.uri) == set()
