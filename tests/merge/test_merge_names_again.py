"""A column is dropped or renamed, and another one gets its name: merged, pulled and pushed, at once or in steps."""

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import assert_sound, error_of, head, run
from support.remote_datasets import made_clone, pulled, pushed

from lance_spark import LanceTable
from lance_spark.columns.columns import alter_columns
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, NotCommittable
from lance_spark.format.evolution import AddColumn
from lance_spark.storage.datasets import locate

INNER = pa.struct([("a", pa.int64()), ("b", pa.int64())])
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", INNER)])


def dropped(uri, branch):
    head(uri, branch).drop_columns(["v"])
    head(uri, branch).add_columns(pa.field("v", pa.string()))


def renamed(uri, branch):
    head(uri, branch).alter_columns({"path": "v", "name": "old"})
    head(uri, branch).add_columns(pa.field("v", pa.string()))


def inside(uri, branch):
    head(uri, branch).drop_columns(["s.a"])
    alter_columns(locate(uri), branch, [AddColumn(("s", "a"), pa.string())], LocalRunner())


CHANGES = {"drop": (dropped, "v"), "rename": (renamed, "v"), "inside": (inside, "s.a")}
EVERY = pytest.mark.parametrize("change", CHANGES)


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path):
    uri = str(tmp_path / "t.lance")
    rows = [{"id": n, "v": n, "s": {"a": n, "b": n}} for n in range(4)]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=SCHEMA), uri, enable_stable_row_ids=request.param)
    return uri


def read(uri, branch=None):
    return sorted(head(uri, branch).to_table().to_pylist(), key=lambda row: row["id"])


@EVERY
@pytest.mark.parametrize("other", ["nothing", "delete"])
def test_what_pylance_cannot_commit_at_once_is_refused_by_the_dry_run_too(uri, change, other):
    make, path = CHANGES[change]
    head(uri).create_branch("exp")
    make(uri, "exp")
    if other == "delete" and change != "drop":  # which cannot be told from a cast
        head(uri).delete("id = 1")
    before = read(uri)
    planned, done = error_of(uri, dry_run=True), error_of(uri)
    assert isinstance(planned, NotCommittable)
    assert str(planned) == str(done)
    assert f"Column '{path}' of main@" in str(done)
    assert read(uri) == before


@EVERY
def test_the_way_of_the_hint_leads_out(uri, change):
    head(uri).create_branch("exp")
    CHANGES[change][0](uri, "exp")
    if change != "drop":  # which cannot be told from a cast
        head(uri).delete("id = 1")
    LanceTable.for_path(uri).branches.merge("exp@2")
    run(uri)
    run(uri, None, "exp")
    assert [row["id"] for row in read(uri)] == ([0, 1, 2, 3] if change == "drop" else [0, 2, 3])
    assert read(uri) == read(uri, "exp")
    assert head(uri).schema.field("v").type == (pa.int64() if change == "inside" else pa.string())
    assert_sound(head(uri))


@EVERY
@pytest.mark.parametrize("who", ["source", "clone"])
def test_a_clone_pulls_and_pushes_it_in_steps(uri, tmp_path, change, who):
    clone = str(tmp_path / "c.lance")
    made_clone(uri, clone)
    CHANGES[change][0](uri if who == "source" else clone, None)
    changes_rows = change != "drop" and who == "source"
    if changes_rows:
        head(clone).delete("id = 1")
    pulled(clone, uri)
    pushed(clone, uri)
    assert read(uri) == read(clone)
    assert [row["id"] for row in read(uri)] == ([0, 2, 3] if changes_rows else [0, 1, 2, 3])
    assert_sound(head(uri))


def test_a_column_that_was_renamed_beside_a_new_one_of_its_name_takes_updates(uri):
    head(uri).create_branch("exp")
    renamed(uri, None)
    head(uri, "exp").update({"v": "70"}, where="id = 1")
    run(uri)
    assert [(row["old"], row["v"]) for row in read(uri)] == [(0, None), (70, None), (2, None), (3, None)]
    assert_sound(head(uri))


@pytest.mark.parametrize("path", ["v", "s.a", "s"])
def test_a_column_that_one_side_dropped_and_the_other_renamed_beside_updates_is_a_conflict(uri, path):
    """Its values before the updates are looked for under the name that it had then."""
    head(uri).create_branch("exp")
    head(uri, "exp").drop_columns([path])
    head(uri).update({"id": "id + 100"}, where="id = 1")
    head(uri).alter_columns({"path": path, "name": "other"})
    before = read(uri)
    for source, into in (("exp", None), (None, "exp")):
        planned, done = run(uri, source, into, dry_run=True).conflicts, error_of(uri, source, into)
        assert isinstance(done, Conflict)
        assert all(str(each) in str(done) for each in planned)
    assert read(uri) == before
