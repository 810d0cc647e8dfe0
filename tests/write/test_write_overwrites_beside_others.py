"""Overwrites that meet a change of columns, or of rows that they read: a conflict, never undone in silence."""

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, make_dataset, prepare, written_since
from support.meanwhile import meanwhile

from lance_spark.core.isolation import ISOLATION, STATEMENT, Statement
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, InvalidOption
from lance_spark.storage.commits import change_table_metadata
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import finish, foresee, plan_write
from lance_spark.write import data_files as writing

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([10, 20], pa.int32()), "k": ["a", "b"]})
NEW = pa.table({"id": pa.array([7], pa.int64()), "n": pa.array([70], pa.int32()), "k": ["new"]})

ALTERS = {
    "add": lambda table: table.add_columns({"z": "id + 1"}),
    "drop": lambda table: table.drop_columns(["k"]),
    "rename": lambda table: table.alter_columns({"path": "n", "name": "m"}),
    "wider": lambda table: table.alter_columns({"path": "n", "data_type": pa.int64()}),
    "not null": lambda table: table.alter_columns({"path": "n", "nullable": False}),
    "comment": lambda table: table.replace_field_metadata("n", {"comment": "of"}),
}
COMMITS = {
    "append": (lambda table: lance.write_dataset(ROWS, table.uri, mode="append"), True),
    "delete": (lambda table: table.delete("id = 1"), True),
    "update": (lambda table: table.update({"k": "'other'"}, where="id = 2"), True),
    "compact": (lambda table: table.optimize.compact_files(), False),
    "index": (lambda table: table.create_scalar_index("id", "BTREE"), False),
    "config": (lambda table: table.update_config({"k": "v"}), False),
}


@pytest.fixture(autouse=True)
def table(uri):
    make_dataset(uri, ROWS, ROWS)


def refused(uri, job, fragments, words):
    before = contents(uri)
    with pytest.raises(Conflict, match=words) as caught:
        finish(job, fragments)
    assert "Run it again" in caught.value.hint
    assert "Nothing was changed" in caught.value.message
    assert len(written_since(before, uri)) == len(fragments)  # its own files are gone


@pytest.mark.parametrize("keep", ["true", "false"])
@pytest.mark.parametrize("how", ALTERS)
def test_an_overwrite_does_not_take_back_a_change_of_columns(uri, how, keep):
    job, fragments = prepare(uri, NEW, overwrite=True, overwrite_schema=keep)
    ALTERS[how](lance.dataset(uri))
    after = lance.dataset(uri).schema
    refused(uri, job, fragments, "the overwrite was planned")
    assert lance.dataset(uri).schema.equals(after, check_metadata=True)


@pytest.mark.parametrize("how", ["drop", "wider"])
def test_a_change_of_columns_before_the_job_begins_counts_too(uri, how):
    """Spark begins a write only after it has computed what goes before the last shuffle: that can take hours."""
    options = {STATEMENT: Statement(foresee({"path": uri}).planned_with, ()).as_text()}
    ALTERS[how](lance.dataset(uri))
    with pytest.raises(Conflict, match="the overwrite was planned"):
        plan_write({"path": uri, **options}, NEW.schema, overwrite=True)


def test_the_version_of_the_statement_may_be_gone(uri):
    lance.write_dataset(ROWS, uri, mode="append")
    lance.dataset(uri).cleanup_old_versions(retain_versions=1)
    with pytest.raises(Conflict, match="was cleaned up"):
        plan_write({"path": uri, "validate_from_version": "1"}, NEW.schema, overwrite=True)


@pytest.mark.parametrize("moment", ["before", "during"])
@pytest.mark.parametrize("how", COMMITS)
def test_rows_that_an_overwrite_of_what_it_read_did_not_see(uri, how, moment):
    commit, changes = COMMITS[how]
    read = lance.dataset(uri).version
    if moment == "before":
        commit(lance.dataset(uri))
    job, fragments = prepare(uri, NEW, overwrite=True, validate_from_version=read)
    if moment == "during":
        commit(lance.dataset(uri))
    if changes:
        refused(uri, job, fragments, "the statement did not see")
    else:
        finish(job, fragments)
        assert lance.dataset(uri).to_table().to_pylist() == NEW.to_pylist()


@pytest.mark.parametrize("how", COMMITS)
def test_an_overwrite_that_reads_something_else_replaces_what_is_there(uri, how):
    told = Statement(lance.dataset(uri).version, (("/other", None, 1),)).as_text()
    job, fragments = prepare(uri, NEW, overwrite=True, **{STATEMENT: told})
    COMMITS[how][0](lance.dataset(uri))
    finish(job, fragments)
    assert lance.dataset(uri).to_table().to_pylist() == NEW.to_pylist()
    assert lance.dataset(uri).metadata == {}


@pytest.mark.parametrize("event", ["append", "drop"])
def test_nothing_slips_in_between_the_last_look_and_the_commit(uri, monkeypatch, event):
    read = lance.dataset(uri).version
    job, fragments = prepare(uri, NEW, overwrite=True, validate_from_version=read)
    change = {**ALTERS, "append": COMMITS["append"][0]}[event]
    meanwhile(monkeypatch, writing, "commit_checked", lambda: change(lance.dataset(uri)))
    with pytest.raises(Conflict, match=r"did not see|would take that back"):
        finish(job, fragments)
    assert lance.dataset(uri).version == read + 1


def test_an_overwrite_whose_answer_was_lost_is_made_once(uri, monkeypatch):
    job, fragments = prepare(uri, NEW, overwrite=True)
    commit = writing.commit_checked

    def unclear(*arguments):
        commit(*arguments)
        raise Conflict("The answer was lost.")

    monkeypatch.setattr(writing, "commit_checked", unclear)
    assert finish(job, fragments) == lance.dataset(uri).version == 3


@pytest.mark.parametrize(
    ("options", "conflict"),
    [({}, False), ({"isolation_level": "serializable"}, True), ({"isolation_level": "WriteSerializable"}, False)],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_the_level_of_a_write(uri, options, conflict, overwrite):
    job, fragments = prepare(uri, NEW, overwrite=overwrite, **options)
    COMMITS["append"][0](lance.dataset(uri))
    if conflict:
        refused(uri, job, fragments, "the statement did not see")
    else:
        finish(job, fragments)


@pytest.mark.parametrize(
    ("overwrite", "reads", "conflict"),
    [
        (True, None, True),  # what Spark does not tell counts as read
        (True, (), False),
        (False, None, False),  # else no two jobs could append at once
        (False, (), False),
        (False, "itself", True),
    ],
)
def test_the_level_of_a_table(uri, overwrite, reads, conflict):
    change_table_metadata(DatasetLocation.at(uri), None, {ISOLATION: "Serializable"})
    version = lance.dataset(uri).version
    own = ((locate(uri).uri, None, version),) if reads == "itself" else reads
    job, fragments = prepare(uri, NEW, overwrite=overwrite, **{STATEMENT: Statement(version, own).as_text()})
    COMMITS["append"][0](lance.dataset(uri))
    if conflict:
        refused(uri, job, fragments, "the statement did not see")
    else:
        finish(job, fragments)


def test_an_unknown_isolation_level_is_refused(uri):
    with pytest.raises(InvalidOption, match="isolation_level"):
        plan_write({"path": uri, "isolation_level": "none"}, NEW.schema, overwrite=True)
