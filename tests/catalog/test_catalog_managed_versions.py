"""A catalog that keeps the versions of its tables: each commit of ours goes through it, and no other change is made."""

import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from support.managed_versions import managed_versions
from support.rest_catalogs import KEY, served
from support.scripts import script
from support.stream_sources import Query

from lance_spark import CleanupPolicy, LanceCatalog, LanceTable, register, unregister
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, CorruptData, NotFound, Refused, StorageFailure
from lance_spark.fsck.lake import fsck_catalog
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.storage import services
from lance_spark.storage.commits import commit_on
from lance_spark.streams.sink import plan_stream
from lance_spark.streams.source import hold

pytestmark = pytest.mark.when(spark="newest")
ROWS = pa.table({"id": [1, 2, 3]})
MOVES = pytest.mark.parametrize("moves", [pytest.param(True, marks=pytest.mark.when(day=0)), False])
"""Whether the catalog puts manifests in their place; if not, a listing of the directory shows few of them."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(services, "SHORT", 0.0)


@pytest.fixture
def kept(tmp_path, moves):
    with managed_versions(tmp_path / "lake", moves) as (catalog, properties):
        catalog.properties = properties
        catalog.lake = LanceCatalog.connect("rest", properties)
        catalog.client = lance_namespace.connect("rest", properties)
        yield catalog


def ids(kept, name="t"):
    """As pylance's client reads them."""
    dataset = lance.dataset(namespace_client=kept.client, table_id=[name])
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def changed(spark, source):
    """What the statements of the test do, in order; each is one commit or more."""
    for statement in (
        "INSERT INTO kept.t SELECT id + 3 FROM kept.t",
        "UPDATE kept.t SET id = id + 10 WHERE id = 2",
        "DELETE FROM kept.t WHERE id = 1",
        f"MERGE INTO kept.t USING {source} s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        "ALTER TABLE kept.t ADD COLUMN twice BIGINT",
        "UPDATE kept.t SET twice = id * 2",
        "CALL kept.system.optimize(table => 't')",
    ):
        spark.sql(statement)


@pytest.mark.when(day=0)
@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.spark
def test_each_write_asks_the_catalog_for_its_version(spark, kept):
    register(spark, catalog="kept", impl="rest", properties=kept.properties)
    kept.lake.write_table(ROWS, "t")
    spark.createDataFrame([(3,), (7,)], "id BIGINT").createOrReplaceTempView("changes")
    try:
        changed(spark, "changes")
        table = LanceTable(spark, kept.lake.table("t").location)
        table.indexes.create("id", "BTREE")
        assert ids(kept) == [4, 5, 6, 7, 12]
        assert sorted(spark.table("kept.t").collect()) == [(each, each * 2) for each in ids(kept)]
        assert [row[0] for row in spark.sql("SELECT count(*) FROM kept.t VERSION AS OF 2").collect()] == [6]
        spark.range(2).write.mode("overwrite").saveAsTable("kept.t")
        spark.range(3).write.saveAsTable("kept.u")
    finally:
        unregister(spark)
    assert (ids(kept), ids(kept, "u")) == ([0, 1], [0, 1, 2])
    made = len(kept.versions["t"]) + len(kept.versions["u"])
    assert kept.asked["table/version/create"] - kept.refused == made > 9


@MOVES
def test_all_versions_are_there_although_the_directory_shows_few(kept):
    kept.lake.write_table(ROWS, "t")
    for _ in range(4):
        lance.write_dataset(ROWS, namespace_client=kept.client, table_id=["t"], mode="append")
    assert [kept.lake.table("t", version=each).count_rows() for each in (1, 2, 3, 5)] == [3, 6, 9, 15]
    assert [entry.version for entry in kept.lake.table("t").log()] == [5, 4, 3, 2, 1]
    with pytest.raises(NotFound, match="6"):
        kept.lake.table("t", version=6)
    kept.lake.table("t").restore(2)
    assert ids(kept) == [1, 1, 2, 2, 3, 3]


@MOVES
def test_writers_that_race_lose_no_row(kept):
    kept.lake.write_table(ROWS.slice(0, 0), "t")

    def write(number):
        for count in range(5):
            kept.lake.write_table(pa.table({"id": [number * 10 + count]}), "t", "append")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert ids(kept) == [number * 10 + count for number in range(4) for count in range(5)]
    assert sorted(kept.versions["t"]) == list(range(1, 22))


@MOVES
def test_what_others_commit_in_between_is_kept_or_ends_the_write(kept):
    kept.lake.write_table(ROWS, "t")

    def theirs():
        lance.write_dataset(ROWS, namespace_client=kept.client, table_id=["t"], mode="append")

    kept.meanwhile = theirs
    kept.lake.write_table(pa.table({"id": [9]}), "t", "append")
    assert ids(kept) == [1, 1, 2, 2, 3, 3, 9]
    start = kept.lake.table("t")._pin()
    theirs()
    replaced = lance.LanceOperation.Overwrite(ROWS.schema, [])
    with pytest.raises(Conflict):
        commit_on(kept.lake.table("t").location, start, replaced)
    assert len(ids(kept)) == 10


@MOVES
def test_an_answer_that_is_lost_makes_no_row_twice_and_loses_none(kept):
    kept.lake.write_table(ROWS, "t")
    kept.lost = ["after"]
    kept.lake.write_table(pa.table({"id": [4]}), "t", "append")
    assert ids(kept) == [1, 2, 3, 4]
    files = set((kept.directory / "t" / "data").iterdir())
    kept.lost = ["before"]
    with pytest.raises(StorageFailure, match="unknown"):
        kept.lake.write_table(pa.table({"id": [5]}), "t", "append")
    assert ids(kept) == [1, 2, 3, 4]
    assert files < set((kept.directory / "t" / "data").iterdir())  # it may have been committed: they stay
    kept.lake.write_table(pa.table({"id": [5]}), "t", "append")
    assert ids(kept) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("moves", [False])
def test_a_catalog_that_says_only_in_descriptions_that_it_keeps_versions(kept, monkeypatch):
    """A commit past it would be a version that nobody else sees."""
    monkeypatch.setattr(kept, "_declared", lambda about: {"location": about["location"]})
    kept.lake.write_table(ROWS, "t")
    assert list(kept.versions["t"]) == [1]
    assert ids(kept) == [1, 2, 3]


@MOVES
def test_a_version_that_the_catalog_names_and_the_store_lacks_is_damage(kept):
    for mode in ("errorifexists", "append"):
        kept.lake.write_table(ROWS, "t", mode)
    Path("/", kept.versions["t"][2]["manifest_path"]).unlink()
    files = sorted(kept.directory.rglob("*"))
    for call in (
        lambda: kept.lake.table("t"),
        lambda: kept.lake.write_table(ROWS, "t", "append"),
        lambda: kept.lake.write_table(ROWS, "t", "overwrite"),
    ):
        with pytest.raises(CorruptData, match=r"version 2 of .*/lake/t, whose manifest is not there"):
            call()
    assert (list(kept.versions["t"]), sorted(kept.directory.rglob("*"))) == ([1, 2], files)


@MOVES
def test_what_is_no_commit_to_main_is_refused_by_its_name(kept, tmp_path):
    lake = kept.lake
    lake.write_table(ROWS, "t")
    table = lake.table("t")
    policy = CleanupPolicy(older_than=timedelta(0))
    for call, named in (
        (lambda: table.branches.create("exp"), "create branch 'exp'"),
        (lambda: lake.write_table(ROWS, "t", "append", branch="exp", create_branch=True), "create branch 'exp'"),
        (lambda: table.tags.create("v1"), "change tags"),
        (lambda: table.branches.alter("main", protected=True), "write _refs"),
        (lambda: table.cleanup(policy, run_on="local"), "clean it up"),
        (lambda: table.enable_auto_cleanup(5), "let pylance clean it up"),
        (lambda: table.clone(str(tmp_path / "clone")), "clone it"),
        (lambda: table.clone(str(tmp_path / "clone"), "deep", follow=False), "clone it"),
        (lambda: table.frozen.create("set"), "create branch 'frozen/set'"),
    ):
        with pytest.raises(Refused, match=f"(?s)Cannot {named}.*managed_versioning"):
            call()
    assert not (kept.directory / "t" / "_refs").exists()
    assert not (kept.directory / "t" / "tree").exists()
    assert list(kept.versions["t"]) == [1]
    assert not (tmp_path / "clone").exists()
    assert KEY not in repr(table.location)


@MOVES
def test_a_stream_reads_them(kept):
    kept.lake.write_table(ROWS, "t")
    options = {f"storage.{key}": value for key, value in kept.lake.catalog.root.options}
    query = Query("t", catalog=kept.lake.catalog.uri, query_id="q", **options)
    assert sorted(row["id"] for row in query.drain()) == [1, 2, 3]
    lance.write_dataset(pa.table({"id": [4]}), namespace_client=kept.client, table_id=["t"], mode="append")
    kept.lake.write_table(pa.table({"id": [5]}), "t", "append")
    assert sorted(row["id"] for row in query.restart().drain()) == [1, 2, 3, 4, 5]
    assert not (kept.directory / "t" / "_refs").exists()


@MOVES
def test_a_stream_into_them_is_refused_and_one_out_of_them_keeps_no_tag(kept):
    kept.lake.write_table(ROWS, "t")
    options = {"catalog": kept.lake.catalog.uri, "query_id": "q"}
    options |= {f"storage.{key}": value for key, value in kept.lake.catalog.root.options}
    for name in ("t", "new"):
        with pytest.raises(Refused, match=r"(?s)Cannot write a stream to it.*managed_versioning"):
            plan_stream({**options, "path": name}, ROWS.schema, False)
    assert list(kept.versions) == ["t"]
    assert list(kept.versions["t"]) == [1]
    table = kept.lake.table("t")
    assert not hold(table.location, "stream-q", (table._pin(),))
    assert not (kept.directory / "t" / "_refs").exists()


@pytest.mark.when(day=0)
@pytest.mark.parametrize("moves", [True, False])
def test_maintenance_and_cleanup_leave_them_alone_and_say_so(kept):
    for mode in ("errorifexists", "append", "append"):
        kept.lake.write_table(ROWS, "t", mode)
    policy = {"cleanup": {"older_than": "0s", "commit_window": "0s", "undo_window": "0s"}, "compaction": {}}
    report = kept.lake.maintain(policy, run_on="local").apply()
    assert report.exit_code == 0
    assert any("managed_versioning" in note for note in report.notes)
    pairs = [word for pair in kept.properties.items() for word in ("--property", "=".join(pair))]
    assert script("jobs/cleanup.py").main(["--impl", "rest", *pairs, "--older-than", "0s", "--execute", "--local"]) == 0
    assert ids(kept) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert list(kept.versions["t"]) == [1, 2, 3]
    assert [kept.lake.table("t", version=each).count_rows() for each in (1, 2, 3)] == [3, 6, 9]
    assert fsck_catalog(kept.lake.catalog, FsckOptions(), LocalRunner(), datetime.now(timezone.utc)).exit_code == 0


@pytest.mark.when(day=0)
def test_the_catalog_of_pylance_that_keeps_versions(tmp_path):
    with served(str(tmp_path), table_version_tracking_enabled="true") as properties:
        lake, client = LanceCatalog.connect("rest", properties), lance_namespace.connect("rest", properties)
        lake.create_namespace("a")
        lake.write_table(ROWS, "a.t")
        lake.write_table(ROWS, "a.t", "append")
        lance.write_dataset(ROWS, namespace_client=client, table_id=["a", "u"], mode="create")
        lake.write_table(ROWS, "a.u", "append")
        for name in ("t", "u"):
            assert lance.dataset(namespace_client=client, table_id=["a", name]).count_rows() == 6
            asked = lance_namespace.ListTableVersionsRequest(id=["a", name])
            assert sorted(each.version for each in client.list_table_versions(asked).versions) == [1, 2]
        with pytest.raises(Refused, match="create branch 'exp'"):
            lake.table("a.t").branches.create("exp")


@pytest.mark.parametrize("mode", ["append", "overwrite", "config"])
def test_a_handle_of_a_table_that_was_created_again_elsewhere_commits_nothing(tmp_path, mode):
    """The catalog would take the version by the table's name: nobody could read the files that it names."""
    with served(str(tmp_path), table_version_tracking_enabled="true") as properties:
        lake = LanceCatalog.connect("rest", properties)
        lake.create_namespace("a")
        lake.write_table(ROWS, "a.t")
        old = lake.table("a.t")
        lake.drop_table("a.t")
        lake.write_table(ROWS, "a.t")
        with pytest.raises(Refused, match=r"the table of that name is at another place") as refused:
            old.layout.cluster_by("id") if mode == "config" else old.write(ROWS, mode=mode)
        assert "Load it again" in refused.value.hint
        assert lake.table("a.t").head(9) == ROWS
        assert lake.table("a.t").version == 1
        lake.write_table(ROWS, "a.t", "append")
        assert lake.table("a.t").count_rows() == 6
