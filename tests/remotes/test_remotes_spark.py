"""``table.clone`` and ``table.remotes``: two tables with one history, as notebooks use them."""

import shutil

import pytest

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.fixture
def table(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    spark.range(0, 10).write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.branches.create("exp")
    table.checkout(branch="exp").write(spark.range(10, 12))
    return table


def ids(table):
    return sorted(row[0] for row in table.to_df().collect())


def test_what_is_written_on_either_side_reaches_the_other(spark, table, tmp_path):
    mine = table.checkout(branch="exp").clone(str(tmp_path / "mine"))
    assert (mine.branch, ids(mine)) == ("exp", [*range(12)])
    assert mine.remotes.list() == {"origin": table.location.uri}
    mine.write(spark.range(20, 22))
    pushed = mine.remotes.push(message="from me")
    assert (pushed.version, pushed.created) == (3, False)
    assert ids(table.checkout(branch="exp")) == [*range(12), 20, 21]

    table.checkout(branch="exp").write(spark.range(30, 31))
    mine.write(spark.range(40, 41))
    with pytest.raises(Refused, match="not a fast-forward"):
        mine.remotes.push()
    assert mine.remotes.fetch(table.location.uri, branches=["exp"]).of("exp").state == "up to date"
    pulled = mine.remotes.pull(message="from the others")
    assert pulled.merged.summary.rows_added == 1
    mine.remotes.push()
    assert ids(table.checkout(branch="exp")) == ids(mine) == [*range(12), 20, 21, 30, 40]
    assert ids(table) == [*range(10)]
    with pytest.raises(AlreadyExists):
        table.clone(str(tmp_path / "t.lance"))


def test_a_push_to_another_place_makes_a_dataset_there(spark, table, tmp_path):
    backup = table.remotes.at(str(tmp_path / "backup"), name="backup")
    assert table.remotes.push(backup, dry_run=True).version is None
    assert not (tmp_path / "backup").exists()
    table.remotes.push(backup)
    assert ids(LanceTable.for_path(str(tmp_path / "backup"), spark=spark)) == [*range(10)]
    assert table.remotes.list() == {"backup": str(tmp_path / "backup")}
    table.write(spark.range(50, 51))
    assert table.remotes.push("backup").replayed.summary.rows_added == 1


def test_a_table_that_was_moved_is_read_from_where_it_is(spark, table, tmp_path):
    old, new = table.location.uri, str(tmp_path / "moved.lance")
    shutil.move(old, new)
    moved = LanceTable.for_path(new, spark=spark)
    trial = moved.relocate(dry_run=True)
    assert [(found.branch, found.version) for found in trial.branches] == [("exp", None)]
    done = moved.relocate(old)
    assert {base.target.uri for base in done.repaired} == {new}
    assert ids(moved.checkout(branch="exp")) == [*range(12)]
    with pytest.raises(NotFound):
        moved.relocate(str(tmp_path / "elsewhere"))


def test_a_remote_that_cannot_be_meant_is_refused(spark, table, tmp_path):
    mine = table.clone(str(tmp_path / "mine"))
    with pytest.raises(NotFound, match="no remote 'orgin'"):
        mine.remotes.push("orgin")
    with pytest.raises(NotFound, match="no remote 'origin'"):
        table.remotes.fetch()
    with pytest.raises(InvalidOption, match="Remote 'origin' is"):
        mine.remotes.at(str(tmp_path / "other"), name="origin")
    with pytest.raises(InvalidOption, match="Remote 'origin' is"):
        mine.remotes.push(str(tmp_path / "other"))
    with pytest.raises(Refused, match="pinned to a tag or version"):
        mine.checkout(version=mine.version).remotes.pull()
    with pytest.raises(Refused, match="only a fetch writes to it"):
        mine.checkout(branch="origin/exp").remotes.pull(branch="exp")
    with pytest.raises(Refused, match="only a fetch writes to it"):
        mine.checkout(branch="origin/exp").transaction().__enter__()
    assert "transaction" not in str(mine.branches.list())
    assert not (tmp_path / "other").exists()
