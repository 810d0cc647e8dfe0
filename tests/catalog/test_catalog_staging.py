"""Tables created and replaced in steps: one winner, nothing left of what failed; pylance reads what is there."""

import os
import threading
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support.catalogs import ids_of, make_table, tables
from support.local_datasets import numbers, write

from lance_spark.catalog import staging
from lance_spark.catalog.lookup import create_namespace, describe_table, open_catalog, table_exists
from lance_spark.catalog.removing import drop_table
from lance_spark.catalog.staging import NameStage, TableDefinition, abort, begin, commit, make
from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import FileOptions, WriteOptions
from lance_spark.errors import AlreadyExists, Conflict, NotFound, Refused, SchemaMismatch, StorageFailure
from lance_spark.refs.refs import create_tag
from lance_spark.write import data_files

SCHEMA = pa.schema([pa.field("id", pa.int64(), metadata={"comment": "the key"}), pa.field("text", pa.string())])


@pytest.fixture(params=["v1", "v2", "compatibility"])
def lake(request, tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"), mode=request.param)
    if request.param != "v1":
        create_namespace(catalog, "ns")
    return catalog


@pytest.fixture(params=["v2", "compatibility"])
def rows_lake(request, tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"), mode=request.param)
    create_namespace(catalog, "ns")
    return catalog


def name_in(catalog):
    return "t" if catalog.mode == "v1" else "ns.t"


def fill(staged, rows):
    """The write of a job to the name that was taken, as Spark does it."""
    catalog = staged.catalog
    write(str(staged.identifier), rows, overwrite=True, catalog=catalog.uri, catalog_mode=catalog.mode)


def make_empty(catalog, name, way, *definition):
    """A table without rows, as CREATE TABLE and REPLACE TABLE make it."""
    definition = TableDefinition(*definition)
    make(NameStage(begin(catalog, name, way, definition.properties), {}, definition))
    return describe_table(catalog, name)


def directories(catalog):
    found = os.listdir(catalog.uri) if os.path.isdir(catalog.uri) else []
    return sorted(name for name in found if name != "__manifest")


@pytest.mark.parametrize("way", ["create", "create or replace"])
def test_a_new_table(lake, way):
    name = name_in(lake)
    staged = begin(lake, name, way)
    assert staged.is_new
    fill(staged, numbers(3))
    info = commit(staged)
    assert (ids_of(lake, name), info.declared) == ([0, 1, 2], False)


def test_properties_of_a_new_table(rows_lake):
    staged = begin(rows_lake, "ns.t", "create", {"owner": "ops"})
    fill(staged, numbers(3))
    assert commit(staged).properties == {"owner": "ops"}


@pytest.mark.parametrize("written", [False, True])
def test_a_new_table_that_is_given_up_leaves_nothing(lake, written):
    staged = begin(lake, name_in(lake), "create")
    if written:  # files, but no version
        lance.fragment.write_fragments(numbers(3), staged.location.uri)
    abort(staged)
    assert (tables(lake, recursive=True), directories(lake)) == ([], [])
    begin(lake, name_in(lake), "create")


def test_rows_that_are_committed_are_not_given_up(lake):
    staged = begin(lake, name_in(lake), "create")
    fill(staged, numbers(3))
    abort(staged)
    assert ids_of(lake, name_in(lake)) == [0, 1, 2]


@pytest.mark.parametrize("way", ["replace", "create or replace"])
def test_a_table_is_replaced_at_once(lake, way):
    name = name_in(lake)
    location = make_table(lake, name).location
    create_tag(location, "before", RefSpec())
    staged = begin(lake, name, way)
    assert not staged.is_new
    assert ids_of(lake, name) == [0, 1, 2]
    fill(staged, pa.table({"other": ["a"]}))
    commit(staged)
    assert lance.dataset(location.uri).to_table().to_pylist() == [{"other": "a"}]
    assert lance.dataset(location.uri, version="before").count_rows() == 3


def test_a_replaced_table_has_the_new_properties(rows_lake):
    make_table(rows_lake, "ns.t", owner="ops", old="1")
    staged = begin(rows_lake, "ns.t", "replace", {"owner": "me", "new": "2"})
    assert describe_table(rows_lake, "ns.t").properties == {"owner": "ops", "old": "1"}
    fill(staged, numbers(1))
    assert commit(staged).properties == {"owner": "me", "new": "2"}
    assert commit(begin(rows_lake, "ns.t", "replace")).properties == {}


def test_a_replacement_that_is_given_up_changes_nothing(lake):
    name = name_in(lake)
    make_table(lake, name)
    abort(begin(lake, name, "replace"))
    assert ids_of(lake, name) == [0, 1, 2]


def test_names_that_are_taken_or_not_there(lake):
    name = name_in(lake)
    with pytest.raises(NotFound, match="no such table"):
        begin(lake, name, "replace")
    make_table(lake, name)
    with pytest.raises(AlreadyExists):
        begin(lake, name, "create")
    if lake.mode != "v1":
        with pytest.raises(NotFound, match="namespace"):
            begin(lake, "nowhere.t", "create or replace")
    else:
        with pytest.raises(Refused):
            begin(lake, "x", "create", {"owner": "ops"})


def test_of_many_that_create_it_one_wins(lake):
    outcomes = []
    barrier = threading.Barrier(6)

    def run():
        barrier.wait()
        try:
            outcomes.append(begin(lake, name_in(lake), "create"))
        except AlreadyExists as taken:
            outcomes.append(taken)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [found for found in outcomes if not isinstance(found, AlreadyExists)]
    assert (len(outcomes), len(winners)) == (6, 1)
    fill(winners[0], numbers(2))
    commit(winners[0])
    assert ids_of(lake, name_in(lake)) == [0, 1]
    assert len(directories(lake)) == 1


def test_the_second_create_or_replace_is_told_to_run_again(rows_lake, monkeypatch):
    real = staging.declare_table

    def declare(*arguments):
        real(*arguments)
        return real(*arguments)

    monkeypatch.setattr(staging, "declare_table", declare)
    with pytest.raises(Conflict, match="already"):
        begin(rows_lake, "ns.t", "create or replace")


def test_a_table_that_is_dropped_while_it_is_written_stays_dropped(rows_lake):
    staged = begin(rows_lake, "ns.t", "create")
    drop_table(rows_lake, "ns.t")
    lance.write_dataset(numbers(3), staged.location.uri)
    with pytest.raises(Conflict):
        commit(staged)
    assert not table_exists(rows_lake, "ns.t")


def test_a_new_table_without_rows(lake):
    name = name_in(lake)
    info = make_empty(lake, name, "create", SCHEMA)
    dataset = lance.dataset(info.location.uri)
    assert dataset.schema.equals(SCHEMA, check_metadata=True)
    assert (dataset.count_rows(), info.declared) == (0, False)
    with pytest.raises(AlreadyExists):
        make_empty(lake, name, "create", SCHEMA)


def test_settings_of_a_new_table(rows_lake):
    options = WriteOptions(files=FileOptions(data_storage_version="2.0"), enable_stable_row_ids=True)
    info = make_empty(rows_lake, "ns.t", "create", SCHEMA, {"owner": "ops"}, options)
    dataset = lance.dataset(info.location.uri)
    assert (dataset.data_storage_version, dataset.has_stable_row_ids) == ("2.0", True)
    assert info.properties == {"owner": "ops"}


def test_what_no_table_can_be_made_of_takes_no_name(lake):
    with pytest.raises(SchemaMismatch):
        make_empty(lake, name_in(lake), "create", pa.schema([("a.b", pa.int64())]))
    assert (tables(lake, recursive=True), directories(lake)) == ([], [])


def test_a_store_that_fails_in_between_keeps_no_name(lake, monkeypatch):
    monkeypatch.setattr(data_files, "create_dataset", Mock(side_effect=StorageFailure("no answer")))
    with pytest.raises(StorageFailure):
        make_empty(lake, name_in(lake), "create", SCHEMA)
    assert (tables(lake, recursive=True), directories(lake)) == ([], [])


def test_a_replaced_table_without_rows(lake):
    name = name_in(lake)
    location = make_table(lake, name).location
    make_empty(lake, name, "replace", SCHEMA)
    dataset = lance.dataset(location.uri)
    assert (dataset.schema.names, dataset.count_rows(), dataset.version) == (["id", "text"], 0, 2)
    assert lance.dataset(location.uri, version=1).count_rows() == 3
    with pytest.raises(Refused, match="mix two formats"):
        make_empty(lake, name, "replace", SCHEMA, {}, WriteOptions(files=FileOptions(data_storage_version="2.0")))
    with pytest.raises(NotFound):
        make_empty(lake, "nothing", "replace", SCHEMA)
