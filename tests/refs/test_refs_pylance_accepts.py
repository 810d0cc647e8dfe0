"""What pylance lets through without a word, and what is refused for it."""

import shutil
import threading

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, make_dataset, numbers, prepare, rows, write, written_since

from lance_spark.core.refs import RefSpec
from lance_spark.errors import Conflict, InvalidOption, LanceSparkError, NotFound, SchemaMismatch
from lance_spark.refs.refs import create_branch, list_branches
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import dataset_at
from lance_spark.tables.write import finish


def test_appending_to_a_column_whose_type_changed_meanwhile_is_a_conflict(uri):
    make_dataset(uri)
    job, fragments = prepare(uri, numbers(3, 10))
    lance.dataset(uri).alter_columns({"path": "id", "data_type": pa.int32()})
    with pytest.raises(Conflict, match=r"'id' .* was altered"):
        finish(job, fragments)
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [0, 1, 2]


def test_appending_to_a_column_dropped_meanwhile_is_a_conflict(uri):
    make_dataset(uri, pa.table({"id": [1], "note": ["a"]}))
    job, fragments = prepare(uri, pa.table({"id": [2], "note": ["b"]}))
    lance.dataset(uri).drop_columns(["note"])
    with pytest.raises(Conflict, match="'note'"):
        finish(job, fragments)


def test_a_column_added_meanwhile_is_no_conflict(uri):
    make_dataset(uri)
    job, fragments = prepare(uri, numbers(1, 10))
    lance.dataset(uri).add_columns({"double": "id * 2"})
    finish(job, fragments)
    assert lance.dataset(uri).to_table().to_pylist()[-1] == {"id": 10, "double": None}


def test_two_starts_of_one_branch_are_noticed(uri):
    make_dataset(uri, numbers(1), numbers(1, 1))
    location = locate(uri)
    for attempt in range(6):
        name = f"b{attempt}"
        outcomes: list[object] = []
        together = threading.Barrier(2)

        def create(version, name=name, outcomes=outcomes, together=together):
            together.wait()
            try:
                outcomes.append(create_branch(location, name, RefSpec(version=version)))
            except LanceSparkError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=create, args=(version,)) for version in (1, 2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        made = [outcome for outcome in outcomes if not isinstance(outcome, LanceSparkError)]
        assert len(made) <= 1, outcomes
        if not any(isinstance(outcome, Conflict) for outcome in outcomes):
            assert lance.dataset(f"{uri}/tree/{name}").count_rows() == made[0].parent_version


@pytest.mark.parametrize("branch", ["b", "exp/b"])
def test_a_branchs_own_directory_is_not_taken_for_a_dataset(uri, branch):
    make_dataset(uri)
    write(uri, numbers(1, 10), branch=branch, create_branch="true")
    for call in (lambda at: rows(at), lambda at: write(at, numbers(1)), lambda at: dataset_at(at, {})):
        with pytest.raises(InvalidOption, match=f"directory of branch '{branch}'"):
            call(f"{uri}/tree/{branch}/")


def test_a_dataset_below_a_directory_named_tree_is_a_dataset(tmp_path):
    uri = str(tmp_path / "tree" / "oak.lance")
    make_dataset(uri)
    assert len(rows(uri)) == 3


def test_rows_without_columns_are_refused(uri):
    make_dataset(uri)
    before = contents(uri)
    with pytest.raises(SchemaMismatch, match="no columns"):
        write(uri, numbers(3).select([]))
    assert not written_since(before, uri)


def test_an_unknown_file_format_is_refused_before_anything_is_written(uri, tmp_path):
    with pytest.raises(InvalidOption, match="data_storage_version"):
        write(uri, numbers(3), data_storage_version="2.9")
    assert not list(tmp_path.iterdir())


def test_a_branch_whose_files_are_gone_is_named(uri):
    make_dataset(uri)
    create_branch(locate(uri), "b", RefSpec())
    shutil.rmtree(f"{uri}/tree/b")
    with pytest.raises(NotFound, match=r"Branch 'b' .* has no versions"):
        rows(uri, branch="b")
    assert [branch.name for branch in list_branches(locate(uri))] == ["b"]
