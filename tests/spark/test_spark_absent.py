"""Handles and catalogs made with None for the session: all but DataFrames works, and those have an error of ours."""

from datetime import timedelta
from unittest.mock import Mock

import lance
import pandas as pd
import pytest
from support.merge_datasets import add, forked, head
from support.spark_fixtures import none_active

from lance_spark import CleanupPolicy, LanceCatalog, LanceTable
from lance_spark.catalog.tables import declare_table
from lance_spark.errors import InvalidOption, LanceSparkError, NotFound, Refused

EVERYTHING_OLD = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0), error_if_tagged_old_versions=False)


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    """No session is active, and nobody may start one."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "active", staticmethod(none_active))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", Mock(side_effect=AssertionError("a session was started")))


@pytest.fixture
def table(uri):
    """30 rows on main, and on a branch 'exp' five more."""
    forked(uri)
    add(uri, 30, 35, "exp")
    return LanceTable.for_path(uri)


def ids(table, branch=None):
    return sorted(head(table.location.uri, branch).to_table()["id"].to_pylist())


def test_branches_tags_and_handles(table):
    table.tags.create("v1")
    assert [tag.name for tag in table.tags.list()] == ["v1"]
    assert table.checkout(tag="v1").version == table.version
    assert table.checkout(branch="exp").count_rows() == 35
    assert table.schema.names == ["id", "v"]
    table.branches.create("more", tag="v1")
    table.branches.delete("more")


def test_a_merge_copies_with_threads_and_says_so(table):
    planned = table.branches.merge("exp", dry_run=True)
    done = table.branches.merge("exp")
    assert ids(table) == [*range(35)]
    assert (planned.ran_on, done.ran_on, done.as_record()["ran_on"]) == (None, "local", "local")


def test_picking_reverting_and_restoring(table):
    newest = table.checkout(branch="exp").version
    table.cherry_pick("exp", newest)
    assert ids(table) == [*range(35)]
    table.revert(table.version)
    assert ids(table) == [*range(30)]
    restored = table.checkout(version=1).restore()
    assert (restored.count_rows(), ids(table)) == (10, [*range(10)])


def test_a_transaction_is_published_or_not(table):
    with table.transaction("published") as step:
        add(table.location.uri, 50, 53, step.branch)
    assert ids(table) == [*range(30), 50, 51, 52]
    with pytest.raises(Refused, match="audit"), table.transaction(audit=lambda step: step.count_rows() < 3) as step:
        add(table.location.uri, 60, 63, step.branch)
    assert ids(table) == [*range(30), 50, 51, 52]


def test_clones_and_remotes(table, tmp_path):
    mine = table.clone(str(tmp_path / "mine.lance"))
    add(mine.location.uri, 70, 72)
    assert mine.remotes.push(message="two more").replayed.ran_on == "local"
    assert ids(table) == [*range(30), 70, 71]
    add(table.location.uri, 80, 81)
    assert mine.remotes.fetch(dry_run=True).of("main").state != "up to date"
    mine.remotes.pull()
    assert ids(mine) == [*range(30), 70, 71, 80]
    assert table.clone(str(tmp_path / "shallow.lance"), follow=False).count_rows() == 33
    assert table.clone(str(tmp_path / "deep.lance"), "deep", follow=False).count_rows() == 33


def test_a_cleanup_and_a_stored_plan(table, tmp_path):
    plan = table.cleanup(EVERYTHING_OLD)
    files, _ = plan.report().to_delete
    assert plan.candidates().num_rows == files > 0
    plan.store(str(tmp_path / "plan"))
    report = table.open_cleanup_plan(str(tmp_path / "plan")).apply()
    assert (report.count("deleted")[0], report.ran_on) == (files, "local")
    assert table.cleanup(EVERYTHING_OLD).apply().count("deleted") == (0, 0)
    assert ids(table, "exp") == [*range(35)]


def test_a_filter_counts_in_this_process(table):
    assert table.count_rows("id < 7") == 7
    assert table.checkout(branch="exp").count_rows("id % 2 = 0") == 18
    with pytest.raises(InvalidOption, match="no_such"):
        table.count_rows("no_such = 1")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda table: table.to_df(), id="to_df"),
        pytest.param(lambda table: table.versions(), id="versions"),
        pytest.param(lambda table: table.cleanup(run_on="spark"), id="cleanup on Spark"),
        pytest.param(lambda table: table.cleanup(run_on="spark"), id="plan on Spark"),
    ],
)
def test_what_needs_a_session_says_how_to_give_one(table, call):
    with pytest.raises(Refused, match="no Spark session") as raised:
        call(table)
    assert "SparkSession.builder.getOrCreate()" in (raised.value.hint or "")


def test_another_place_to_run_is_refused_with_the_names_of_all(table):
    with pytest.raises(InvalidOption, match="'auto', 'spark', 'local'"):
        table.cleanup(run_on="cluster")


def test_a_catalog_and_its_tables(tmp_path):
    catalog = LanceCatalog(str(tmp_path / "lake"))
    catalog.create_namespace("ns")
    place = declare_table(catalog.catalog, "ns.t").location.uri
    forked(place)
    assert catalog.list_tables("ns") == ["ns.t"]
    table = catalog.table("ns.t")
    add(place, 30, 31, "exp")
    assert table.branches.merge("exp").ran_on == "local"
    assert table.count_rows() == 31
    catalog.rename_table("ns.t", "ns.u")
    with pytest.raises(Refused, match="no Spark session"):
        catalog.register_views()
    with pytest.raises(Refused, match="no Spark session"):
        catalog.table("ns.u").to_df()


def test_no_dataset_is_told_as_ever(tmp_path):
    with pytest.raises(NotFound):
        LanceTable.for_path(str(tmp_path / "nothing.lance"))


def test_lance_writes_what_a_handle_reads(table):
    """Without Spark rows are written by pylance, into any branch."""
    lance.write_dataset(head(table.location.uri).to_table(), table.location.branch_uri("exp"), mode="overwrite")
    assert table.checkout(branch="exp").count_rows() == 30


def test_verbs_that_take_long_tell_how_far_they_are(table, tmp_path):
    """A merge, a check and clones with all files; what is told last is the end."""
    stages = {}

    def telling(verb):
        stages[verb] = []
        return stages[verb].append

    table.branches.merge("exp", progress=telling("merge"))
    table.fsck(progress=telling("fsck"))
    table.clone(str(tmp_path / "deep.lance"), "deep", follow=False, progress=telling("deep clone"))
    copy = table.clone(str(tmp_path / "clone.lance"), kind="deep", progress=telling("clone"))
    copy.remotes.pull(progress=telling("pull"))
    copy.remotes.push(progress=telling("push"))
    told = {verb: [step.stage for step in steps] for verb, steps in stages.items()}
    assert told["merge"] == ["compare versions", "copy", "copy", "commit", "carry indexes"]
    assert told["fsck"][0] == "look at branches, tags and clones"
    assert "read manifests" in told["fsck"]
    assert "copy" in told["clone"]
    assert "fetch branches" in told["pull"]
    assert told["push"]
    for verb in ("merge", "deep clone", "clone"):
        counted = [step for step in stages[verb] if step.total]
        assert counted[-1].done == counted[-1].total or verb == "clone"
    with pytest.raises(InvalidOption, match="progress must be a function"):
        table.fsck(progress=True)


def test_a_handle_begins_at_the_ref_that_is_named(table):
    uri = table.location.uri
    table.tags.create("v1")
    branch = LanceTable.for_path(uri, branch="exp")
    assert (branch.branch, branch.count_rows()) == ("exp", 35)
    assert LanceTable.for_path(uri, tag="v1").version == table.version
    assert LanceTable.for_path(uri, version=1).version == 1
    with pytest.raises(NotFound, match="'none'"):
        LanceTable.for_path(uri, branch="none")
    with pytest.raises(InvalidOption, match="tag"):
        LanceTable.for_path(uri, tag="v1", version=1)


@pytest.mark.parametrize("make", [LanceTable.for_path, LanceCatalog])
@pytest.mark.parametrize("first", [None, 7])
def test_what_is_no_path_is_told_to_come_second(make, first):
    with pytest.raises(InvalidOption, match="Expected a path or URI") as raised:
        make(first, "t.lance")
    assert "spark=spark" in raised.value.hint


def test_nouns_are_collections(table, tmp_path):
    table.tags.create("v1", branch="exp")
    table.branches.create("more")
    table.indexes.create("id", name="by_id")
    table.frozen.create("set", split={"train": 0.5, "val": 0.5})
    copy = table.clone(str(tmp_path / "copy.lance"))
    for things, names in (
        (table.branches, ["exp", "more"]),
        (table.tags, ["set", "v1"]),
        (table.indexes, ["by_id", "id_idx"]),
        (table.frozen, ["set"]),
        (copy.remotes, ["origin"]),
    ):
        assert [thing.name for thing in things] == names
        assert len(things) == len(names)
        assert all(name in things and things[name].name == name for name in names)
        assert "ex" not in things
        with pytest.raises(NotFound, match="'ex'"):
            things["ex"]
    assert table.tags["v1"].branch == "exp"
    with pytest.raises(NotFound, match="There is no tag 'v2'") as missing:
        table.tags["v2"]
    assert "v1" in missing.value.hint


def test_a_clone_is_shallow_or_deep(table, tmp_path):
    with pytest.raises(InvalidOption, match="'flat'"):
        table.clone(str(tmp_path / "flat.lance"), "flat")
    with pytest.raises(Refused, match="always recorded"):
        table.clone(str(tmp_path / "unrecorded.lance"), record=False)
    one = table.checkout(branch="exp").clone(str(tmp_path / "one.lance"), single_branch=True)
    assert (one.branch, [branch.name for branch in one.branches]) == ("exp", ["exp", "origin/exp", "origin/main"])


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda table: table.diff(1), "t.diff('@3')"),
        (lambda table: table.head("id"), "t.head(columns=['id'])"),
        (lambda table: table.head(columns=["idd"]), "Did you mean 'id'"),
        (lambda table: table.log("exp"), "t.checkout(branch='exp').log()"),
        (lambda table: table.restore("v1"), "tag='v1'"),
        (lambda table: table.write("append", pd.DataFrame({"id": [1]})), "t.write(df, mode='append')"),
        (lambda table: table.write([{"id": 1}]), "pa.Table.from_pylist(rows)"),
        (lambda table: table.branches.create("x", from_="main"), "branch=, tag= or version="),
    ],
)
def test_an_argument_of_another_kind_has_an_error_of_ours(table, call, hint):
    before = ids(table)
    with pytest.raises(LanceSparkError) as raised:
        call(table)
    assert hint in str(raised.value)
    assert ids(table) == before


def test_a_handle_writes_to_its_own_branch_only(table):
    """The option was dropped, and rows meant for a branch were on main."""
    rows = pd.DataFrame({"id": [99], "v": [0]})
    with pytest.raises(InvalidOption, match=r"writes to branch 'main'[^\n]*\n.*checkout\(branch='exp'\)\.write"):
        table.write(rows, branch="exp")
    assert (99 in ids(table), 99 in ids(table, "exp")) == (False, False)
    table.checkout(branch="exp").write(rows, branch="exp")
    table.write(rows, branch="main")
    assert (99 in ids(table), 99 in ids(table, "exp")) == (True, True)


def test_a_catalog_writes_pandas_to_a_branch_that_it_creates(tmp_path):
    lake = LanceCatalog(str(tmp_path / "lake"))
    rows = pd.DataFrame({"id": [1]})
    lake.write_table(rows, "docs")
    with pytest.raises(NotFound, match="There is no branch 'new'"):
        lake.write_table(rows, "docs", mode="append", branch="new")
    lake.write_table(rows, "docs", mode="append", branch="new", create_branch=True)
    assert [lake.table("docs", branch=name).count_rows() for name in ("main", "new")] == [1, 2]
