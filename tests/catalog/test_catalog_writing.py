"""Write jobs on tables of a catalog, step by step: declared, written, committed; or withdrawn."""

import os
import pickle

import lance
import pyarrow as pa
import pytest
from support.catalogs import ids_of, make_table, tables
from support.local_datasets import contents, make_dataset, numbers
from support.meanwhile import meanwhile

from lance_spark import errors
from lance_spark.catalog import tables as writing
from lance_spark.catalog.lookup import create_namespace, locate_table, open_catalog, open_table, table_exists
from lance_spark.catalog.removing import drop_table, rename_table
from lance_spark.catalog.tables import declare_table
from lance_spark.core.refs import RefSpec
from lance_spark.tables.read import pin_read
from lance_spark.tables.write import begin, finish, give_up, plan_write
from lance_spark.write import data_files
from lance_spark.write.data_files import write_rows
from lance_spark.write.plan_rules import WriteJob

NAMES = ("t", "ns.t")
"""A table whose directory has the name that V1 gives it, and one whose directory is a hash."""


@pytest.fixture(params=["v1", "v2", "compatibility"])
def lake(request, tmp_path):
    return opened(tmp_path, request.param)


@pytest.fixture
def both(tmp_path):
    return opened(tmp_path, "compatibility")


def opened(tmp_path, mode):
    catalog = open_catalog(str(tmp_path / "lake"), mode=mode)
    if mode != "v1":
        create_namespace(catalog, "ns")
    return catalog


def names(catalog):
    return NAMES if catalog.mode != "v1" else NAMES[:1]


def prepare(catalog, name, rows=None, overwrite=False, **options) -> tuple[WriteJob, list[str]]:
    """A job up to its commit, after the way to an executor and back."""
    rows = numbers(3) if rows is None else rows
    given = {"catalog": catalog.uri, "catalog_mode": catalog.mode, "path": name}
    job = begin(plan_write({**given, **{key: str(value) for key, value in options.items()}}, rows.schema, overwrite))
    job = pickle.loads(pickle.dumps(job))
    return job, write_rows(job, rows.to_batches())


def write(catalog, name, rows=None, overwrite=False, **options):
    return finish(*prepare(catalog, name, rows, overwrite, **options))


def directories(catalog):
    return sorted(found for found in os.listdir(catalog.uri) if found != "__manifest")


def test_a_table_that_is_not_there_is_made_and_one_that_is_there_is_written_to(lake):
    for name in names(lake):
        assert write(lake, name) == 1
        assert write(lake, name, numbers(2, 10)) == 2
        assert ids_of(lake, name) == [0, 1, 2, 10, 11]
        assert write(lake, name, numbers(1, 7), overwrite=True) == 3
        assert write(lake, name, numbers(1, 8), branch="exp", create_branch=True, from_version=1) == 2
        assert ids_of(lake, name) == [7]
        location, pin = open_table(lake, name, RefSpec(branch="exp"))
        assert (location, pin.branch) == (locate_table(lake, name), "exp")
    assert tables(lake, recursive=True) == sorted(names(lake), key=lambda name: name.replace(".", "$"))
    assert len(directories(lake)) == len(names(lake))


def test_two_that_make_one_table_are_one_winner_and_one_who_is_told(both):
    for name in NAMES:
        winner = prepare(both, name)
        with pytest.raises(errors.AlreadyExists, match=f"create table '{name}'.*already") as caught:
            prepare(both, name, create_table=True)
        assert "has no data" in caught.value.hint
        late = prepare(both, name, numbers(1, 9))  # joins what the other one has declared
        assert finish(*winner) == 1
        with pytest.raises(errors.Conflict, match="first"):
            finish(*late)
        assert ids_of(both, name) == [0, 1, 2]
        with pytest.raises(errors.AlreadyExists) as caught:
            prepare(both, name, create_table=True)
        assert "append" in caught.value.hint
        write(both, name, numbers(1, 9))
        assert ids_of(both, name) == [0, 1, 2, 9]


def test_a_table_that_somebody_makes_in_the_moment_it_was_missing_is_a_conflict(both, monkeypatch):
    really = writing.lookup.find_table

    def missing(catalog, identifier, doing):
        if doing.startswith("write"):
            raise errors.NotFound("not yet")
        return really(catalog, identifier, doing)

    monkeypatch.setattr(writing.lookup, "find_table", missing)
    for name in NAMES:
        make_table(both, name)
        with pytest.raises(errors.Conflict, match="already") as caught:
            prepare(both, name, numbers(1, 9))
        assert "it will write to that table" in caught.value.hint
        with pytest.raises(errors.AlreadyExists, match="already"):
            prepare(both, name, create_table=True)
        assert ids_of(both, name) == [0, 1, 2]


def test_a_job_that_fails_takes_the_name_back_and_leaves_nothing(lake):
    for name in names(lake):
        job, fragments = prepare(lake, name)
        assert table_exists(lake, name)
        give_up(job, fragments)
        assert not table_exists(lake, name)
        assert directories(lake) == []
        assert write(lake, name) == 1
        drop_table(lake, name)


def test_a_commit_that_fails_takes_the_name_back_unless_it_had_arrived(both, monkeypatch):
    commit = data_files.commit

    def lost(plan, fragments):
        raise errors.StorageFailure("no answer")

    def arrived(plan, fragments):
        commit(plan, fragments)
        raise errors.StorageFailure("no answer")

    for name in NAMES:
        for broken, expected in ((lost, False), (arrived, True)):
            monkeypatch.setattr(data_files, "commit", broken)
            with pytest.raises(errors.StorageFailure, match="no answer"):
                write(both, name)
            assert table_exists(both, name) is expected
        assert ids_of(both, name) == [0, 1, 2]
        monkeypatch.undo()


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_is_dropped_while_it_is_written_stays_dropped(both, name):
    job, fragments = prepare(both, name)
    drop_table(both, name)
    with pytest.raises(errors.Conflict, match="dropped, renamed or deregistered"):
        finish(job, fragments)
    assert (tables(both, recursive=True), directories(both)) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_is_dropped_in_the_moment_of_the_commit_stays_dropped(both, name, monkeypatch):
    meanwhile(monkeypatch, data_files, "commit", lambda: drop_table(both, name))
    with pytest.raises(errors.Conflict, match="dropped, renamed or deregistered"):
        write(both, name)
    assert (tables(both, recursive=True), directories(both)) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_is_made_anew_while_it_is_written_is_left_alone(both, name):
    job, fragments = prepare(both, name)
    drop_table(both, name)
    make_table(both, name, numbers(1, 5))
    other = contents(locate_table(both, name).uri)
    with pytest.raises(errors.Conflict):
        finish(job, fragments)
    assert (ids_of(both, name), contents(locate_table(both, name).uri)) == ([5], other)
    assert len(directories(both)) == 1


def test_a_table_that_is_renamed_while_it_is_written_gets_its_data_under_the_new_name(both):
    job, fragments = prepare(both, "ns.t")
    rename_table(both, "ns.t", "ns.u")
    assert finish(job, fragments) == 1
    assert (tables(both, recursive=True), ids_of(both, "ns.u")) == (["ns.u"], [0, 1, 2])


def test_a_table_that_somebody_else_declared_gets_its_data_and_stays_when_that_fails(lake):
    for name in names(lake):
        declare_table(lake, name)
        with pytest.raises(errors.NotFound, match="has no data yet"):
            pin_read({"catalog": lake.uri, "catalog_mode": lake.mode, "path": name})
        give_up(*prepare(lake, name))
        assert table_exists(lake, name)
        assert write(lake, name) == 1
        assert ids_of(lake, name) == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("no.t", {}, errors.NotFound, "no namespace 'no'"),
        ("ns", {}, errors.AlreadyExists, "namespace of that name"),
        ("t", {"branch": "exp"}, errors.NotFound, "no such table"),
        ("t", {"branch": "exp", "create_branch": True}, errors.NotFound, "no such table"),
        ("a$b", {}, errors.InvalidName, "cannot contain"),
        ("", {}, errors.InvalidName, "empty"),
        ("t", {"catalog_mode": "v3"}, errors.InvalidOption, "not a mode"),
        ("t", {"max_rows": 1}, errors.InvalidOption, "max_rows_per_file"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused_and_changes_nothing(both, name, options, error, words):
    before = contents(both.uri)
    with pytest.raises(error) as caught:
        prepare(both, name, **options)
    assert words in str(caught.value)
    assert contents(both.uri) == before


def test_a_frame_that_no_table_can_have_declares_none(both):
    before = contents(both.uri)
    with pytest.raises(errors.SchemaMismatch, match="two columns"):
        prepare(both, "t", pa.table([[1], [2]], ["a", "a"]))
    assert contents(both.uri) == before


def test_a_new_table_may_be_asked_for_at_a_path_as_well(tmp_path):
    given = {"path": str(tmp_path / "t.lance"), "create_table": "true"}
    job = begin(plan_write(given, numbers(1).schema, overwrite=False))
    assert finish(job, write_rows(job, numbers(1).to_batches())) == 1
    with pytest.raises(errors.AlreadyExists, match="A dataset already exists"):
        plan_write(given, numbers(1).schema, overwrite=True)


def test_a_misspelt_table_is_looked_for_among_those_of_its_namespace(both):
    for name in ("ns.flights", "other"):
        make_table(both, name)
    given = {"catalog": both.uri, "path": "ns.flight"}
    with pytest.raises(errors.NotFound, match=r"Cannot open table 'ns\.flight'") as caught:
        pin_read(given)
    assert "ns.flights" in caught.value.hint
    assert both.uri in caught.value.hint
    with pytest.raises(errors.NotFound) as caught:
        pin_read({**given, "path": "nothing.like.it"})
    assert both.uri in caught.value.hint


def test_a_missing_branch_of_a_table_is_named_as_it_is_for_a_path(both):
    make_dataset(declare_table(both, "t").location.uri).create_branch("exp", 1)
    with pytest.raises(errors.NotFound, match="no branch 'exq'") as caught:
        pin_read({"catalog": both.uri, "path": "t", "branch": "exq"})
    assert "'exp'" in caught.value.hint
    assert lance.dataset(locate_table(both, "t").uri).count_rows() == 3
