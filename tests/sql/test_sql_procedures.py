"""Procedures: each does what the action does, returns rows, and says what the action says; pylance reads the rest."""

import os
import time
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from support.catalogs import make_table, tables
from support.local_datasets import contents, numbers, written_since

from lance_spark import LanceTable
from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, InvalidName, InvalidOption, NotFound, Refused
from lance_spark.refs.refs import alter_branch, alter_tag
from lance_spark.sql.declaring import Context, find_procedure
from lance_spark.sql.procedures import PROCEDURES


@pytest.fixture
def lake(tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns")
    make_table(catalog, "ns.t")
    return Context(LocalRunner(2), catalog)


@pytest.fixture
def uri(lake):
    return lake.table("ns.t").uri


@pytest.fixture
def call(lake):
    def run(name, /, **arguments):
        arguments = {key.rstrip("_"): value for key, value in arguments.items()}
        table = find_procedure(name).call(lake, {"table": "ns.t", **arguments})
        assert table.schema.equals(PROCEDURES[name].columns)
        return table.to_pylist()

    return run


def ids(uri, branch=None):
    dataset = lance.dataset(uri)
    dataset = dataset if branch is None else dataset.checkout_version((branch, None))
    return sorted(dataset.to_table()["id"].to_pylist())


def append(uri, rows, branch=None):
    lance.write_dataset(rows, uri if branch is None else f"{uri}/tree/{branch}", mode="append")


def test_branches_and_tags(call, uri):
    append(uri, numbers(1, 10))
    assert call("create_tag", name="v1", ref="1") == [{"name": "v1", "branch": "main", "version": 1}]
    assert call("create_branch", name="exp", from_="v1") == [
        {"name": "exp", "parent_branch": "main", "parent_version": 1}
    ]
    append(uri, numbers(1, 20), "exp")
    assert call("create_branch", name="exp/two", from_="exp@2")[0]["parent_branch"] == "exp"
    assert call("create_tag", name="v2", ref="exp") == [{"name": "v2", "branch": "exp", "version": 2}]
    assert (ids(uri, "exp"), ids(uri, "exp/two")) == ([0, 1, 2, 20], [0, 1, 2, 20])
    assert call("create_branch", name="newest") == [{"name": "newest", "parent_branch": "main", "parent_version": 2}]
    assert call("drop_branch", name="exp/two") == [{"name": "exp/two"}]
    assert call("drop_tag", name="v2") == [{"name": "v2"}]
    assert set(lance.dataset(uri).branches.list()) == {"exp", "newest"}
    assert set(lance.dataset(uri).tags.list()) == {"v1"}


def test_an_index_is_made_on_a_branch(call, uri):
    call("create_branch", name="exp")
    (made,) = call("create_index", column="id", branch="exp", message="for lookups")
    assert (made["name"], made["kind"], made["branch"], made["rows"], made["segments"]) == (
        "id_idx",
        "btree",
        "exp",
        3,
        1,
    )
    assert lance.dataset(uri).describe_indices() == []
    exp = lance.dataset(f"{uri}/tree/exp", version=made["version"])
    assert [(index.name, index.index_type) for index in exp.describe_indices()] == [("id_idx", "BTree")]
    with pytest.raises(NotFound):
        call("create_index", column="nope")


def test_an_index_has_the_settings_that_are_given(call, uri):
    lance.write_dataset(pa.table({"text": ["a storm", "the sea"]}), uri, mode="overwrite")
    stop = {"remove_stop_words": True, "custom_stop_words": "storm, gale"}
    call("create_index", column="text", kind="inverted", with_position=True, **stop, num_segments=1)
    assert LanceTable.for_path(uri).indexes.stats("text_idx").settings["with_position"]
    found = [lance.dataset(uri).to_table(full_text_query=word).num_rows for word in ("sea", "storm")]
    assert found == [1, 0]
    with pytest.raises(InvalidOption, match="kind 'btree' has no setting 'stem'"):
        call("create_index", column="text", stem=True)


def test_merging_picking_and_reverting(call, uri):
    call("create_branch", name="exp")
    append(uri, numbers(1, 20), "exp")
    append(uri, numbers(1, 30), "exp")
    (dry,) = call("merge_branch", branch="exp", dry_run=True)
    assert (dry["version"], dry["rows_added"], ids(uri)) == (None, 2, [0, 1, 2])
    (picked,) = call("cherry_pick", ref="exp@2", message="the first")
    assert (picked["action"], picked["version"], ids(uri)) == ("cherry-pick", 2, [0, 1, 2, 20])
    (reverted,) = call("revert", version=2)
    assert (reverted["into"], ids(uri)) == ("main", [0, 1, 2])
    call("create_branch", name="two")
    append(uri, numbers(1, 40), "two")
    (merged,) = call("merge_branch", branch="two", into="main", ff_only=True)
    assert (merged["fast_forward"], merged["source"], ids(uri)) == (True, "two@4", [0, 1, 2, 40])


def test_conflicts_are_told_as_the_action_tells_them(call, uri):
    call("create_branch", name="exp")
    for place in (uri, f"{uri}/tree/exp"):
        lance.dataset(place).update({"id": "id + 100"}, where="id = 1")
    with pytest.raises(Conflict, match="cannot be combined"):
        call("merge_branch", branch="exp")
    (dry,) = call("merge_branch", branch="exp", dry_run=True)
    assert dry["version"] is None
    assert dry["conflicts"]


def test_a_conflict_is_settled_as_its_note_says(call, uri):
    call("create_branch", name="exp")
    for place in (uri, f"{uri}/tree/exp"):
        lance.dataset(place).delete("id = 1")
    (dry,) = call("merge_branch", branch="exp", dry_run=True)
    assert "prefer => 'theirs'" in dry["notes"][-1]
    (merged,) = call("merge_branch", branch="exp", prefer="theirs")
    assert (merged["conflicts"], ids(uri)) == ([], [0, 2])


def test_restoring(call, uri):
    append(uri, numbers(1, 10))
    call("create_tag", name="v1", ref="1")
    assert call("restore", ref="v1") == [{"branch": "main", "restored_version": 1, "version": 3, "indexes_lacking": []}]
    assert ids(uri) == [0, 1, 2]
    with pytest.raises(Refused, match="newest"):
        call("restore", ref="main")


def test_a_cleanup_deletes_only_when_it_is_told_to(call, uri):
    for start in (10, 20, 30):
        append(uri, numbers(1, start))
    given = {"older_than": "0s", "commit_window": "0s"}
    before = contents(uri)
    planned = call("cleanup", **given)
    assert {row["outcome"] for row in planned} == {"would be deleted"}
    assert sum(row["files"] for row in planned if row["kind"] == "manifest") == 3
    assert written_since(before, uri) == set()
    assert call("cleanup") == []  # nothing is two weeks old
    done = call("cleanup", **given, dry_run=False)
    assert {row["outcome"] for row in done} == {"deleted"}
    assert [entry["version"] for entry in lance.dataset(uri).versions()] == [4]
    assert ids(uri) == [0, 1, 2, 10, 20, 30]
    with pytest.raises(InvalidOption, match="older_than"):
        call("cleanup", older_than="a week")


def test_a_clone(call, uri, tmp_path):
    call("create_branch", name="exp")
    append(uri, numbers(1, 20), "exp")
    target = str(tmp_path / "clone.lance")
    (dry,) = call("clone", target=target, ref="exp", dry_run=True)
    assert (dry["dry_run"], (tmp_path / "clone.lance").exists()) == (True, False)
    (done,) = call("clone", target=target, ref="exp")
    assert (done["branch"], done["rows"], done["deep"]) == ("exp", 4, False)
    assert ids(target, "exp") == [0, 1, 2, 20]
    with pytest.raises(AlreadyExists):
        call("clone", target=uri)


def test_migrating(lake, tmp_path):
    for name in ("old", "older"):
        lance.write_dataset(numbers(2), f"{lake.catalog.uri}/{name}.lance")
    procedure = find_procedure("MIGRATE")
    assert [row["state"] for row in procedure.call(lake, {"dry_run": True}).to_pylist()] == ["would be registered"] * 2
    assert [row["table"] for row in procedure.call(lake, {}).to_pylist()] == ["old", "older"]
    assert procedure.call(lake, {}).num_rows == 0
    assert tables(lake.catalog) == ["old", "older"]
    with pytest.raises(Refused, match="in no catalog"):
        procedure.call(Context(LocalRunner(2)), {})


def test_tables_named_by_their_paths(uri):
    context = Context(LocalRunner(2))
    find_procedure("create_tag").call(context, {"TABLE": uri, "Name": "v1"})
    assert set(lance.dataset(uri).tags.list()) == {"v1"}
    with pytest.raises(NotFound, match="no Lance dataset"):
        find_procedure("create_tag").call(context, {"table": f"{uri}x", "name": "v1"})


@pytest.mark.parametrize(
    ("name", "arguments", "error", "says"),
    [
        ("create_branch", {}, InvalidOption, "needs the argument 'name'"),
        ("create_branch", {"name": "exp", "form": "v1"}, InvalidOption, "Did you mean 'from'"),
        ("create_branch", {"name": "exp", "NAME": "exp"}, InvalidOption, "given twice"),
        ("create_branch", {"name": 7}, InvalidOption, "must be STRING"),
        ("revert", {"version": True}, InvalidOption, "must be BIGINT"),
        ("revert", {"version": 99}, NotFound, "no version 99"),
        ("merge_branch", {"branch": "exp", "dry_run": "yes"}, InvalidOption, "must be BOOLEAN"),
        ("create_branch", {"name": "a b"}, InvalidName, "'a b'"),
        ("create_branch", {"name": "exp", "from": "nothing"}, NotFound, "no branch or tag 'nothing'"),
        ("create_branch", {"table": "ns.nothing", "name": "exp"}, NotFound, "no such table"),
        ("drop_branch", {"name": "nothing"}, NotFound, "nothing"),
        ("drop_tag", {"name": "nothing"}, NotFound, "nothing"),
    ],
)
def test_wrong_calls_change_nothing(call, lake, name, arguments, error, says):
    before = contents(lake.catalog.uri)
    with pytest.raises(error) as raised:
        call(name, **arguments)
    assert says in str(raised.value)
    assert written_since(before, lake.catalog.uri) == set()


def test_names_that_are_no_procedure():
    with pytest.raises(NotFound, match="create_branch"):
        find_procedure("create_brnch")
    with pytest.raises(NotFound, match="There are analyze, cherry_pick"):
        find_procedure("zzzz")


def test_optimize(call, uri):
    append(uri, numbers(3, 10))
    call("create_branch", name="exp")
    append(uri, numbers(2, 20), "exp")
    append(uri, numbers(2, 30), "exp")
    (planned,) = call("optimize", branch="exp", dry_run=True)
    assert (planned["dry_run"], planned["fragments_planned"], planned["commits"]) == (True, 2, 0)
    (done,) = call("optimize", branch="exp")
    assert (done["branch"], done["fragments_removed"], done["fragments_added"], done["rows"]) == ("exp", 2, 1, 4)
    assert done["version"] == lance.dataset(f"{uri}/tree/exp").version
    (done,) = call("optimize", where="id = 11", target_rows=2, partial_progress=1)
    assert (done["branch"], done["commits"], done["conflicts"], done["indexes_rehomed"]) == ("main", 0, [], [])
    assert call("optimize")[0]["fragments_removed"] == 2
    assert ids(uri) == [0, 1, 2, 10, 11, 12]
    assert call("optimize", branch="exp", own_only=False)[0]["fragments_removed"] == 3
    assert ids(uri, "exp") == [0, 1, 2, 10, 11, 12, 20, 21, 30, 31]
    with pytest.raises(InvalidOption, match="target_rows"):
        call("optimize", target_rows=0)


def test_fsck_finds_says_and_repairs(call, uri):
    assert call("fsck", deep=True) == []
    append(uri, numbers(4, 50))
    file = max((lance.dataset(uri).get_fragments()[-1].data_files()), key=lambda one: one.path)
    os.unlink(f"{uri}/data/{file.path}")
    (found,) = call("fsck")
    assert (found["severity"], found["code"], found["refs"], found["rows"]) == ("error", "data-missing", ["main"], 4)
    planned = call("fsck", repair=True, dry_run=True)
    assert [row["severity"] for row in planned] == ["error", "step"]
    assert lance.dataset(uri).branches.list() == {}
    done = call("fsck", repair=True)
    assert [row["severity"] for row in done] == ["error", "step", "record"]
    (made,) = lance.dataset(uri).branches.list()
    assert (ids(uri, made), done[1]["path"]) == ([0, 1, 2], made)
    assert "--undo" in done[2]["do"]


def test_storage(call, uri):
    lance.dataset(uri).create_branch("exp")
    append(uri, numbers(5, 10), "exp")
    records = {(row["kind"], row["ref"]): row for row in call("storage")}
    assert records.keys() >= {("branch", "main"), ("branch", "exp"), ("old versions", "exp")}
    assert records["branch", "exp"]["freed_bytes"] >= records["branch", "exp"]["owned_bytes"] > 0
    assert records["branch", "main"]["freed_bytes"] is None


def test_expire_refs(call, lake, uri):
    call("create_branch", name="exp")
    call("create_tag", name="v1")
    call("create_tag", name="stays")
    location = lake.table("ns.t")
    alter_branch(location, "exp", {"expire_after": "1s"})
    alter_tag(location, "v1", {"expire_after": timedelta(milliseconds=1)})
    assert {row["state"] for row in call("expire_refs")} == {"to be warned of"}
    (told,) = [row for row in call("expire_refs", dry_run=False) if row["kind"] == "tag"]
    assert (told["name"], told["outcome"]) == ("v1", "warned of")
    assert lance.dataset(uri).tags.list().keys() == {"v1", "stays"}
    time.sleep(1)
    gone = call("expire_refs", dry_run=False, warn="0s")
    assert {(row["name"], row["outcome"]) for row in gone} == {("exp", "deleted"), ("v1", "deleted")}
    assert (lance.dataset(uri).tags.list().keys(), lance.dataset(uri).branches.list().keys()) == ({"stays"}, set())
    with pytest.raises(InvalidOption):
        call("expire_refs", warn="soon")


def test_a_table_named_at_a_branch_is_that_branch(call, lake, uri):
    call("create_branch", name="dev")
    append(uri, numbers(1, 10), "dev")
    call("create_branch", name="exp")
    append(uri, numbers(1, 20), "exp")
    at_dev = "ns.t@dev"
    assert call("create_branch", table=at_dev, name="from-dev")[0]["parent_branch"] == "dev"
    assert call("create_tag", table=at_dev, name="v1", ref="1") == [{"name": "v1", "branch": "dev", "version": 1}]
    assert call("create_tag", table=at_dev, name="v2", ref="main") == [{"name": "v2", "branch": "main", "version": 1}]
    assert call("merge_branch", table=at_dev, branch="exp")[0]["into"] == "dev"
    assert (ids(uri), ids(uri, "dev")) == ([0, 1, 2], [0, 1, 2, 10, 20])
    assert call("revert", table=at_dev, version=3)[0]["into"] == "dev"
    assert call("restore", table=at_dev, ref="1")[0]["branch"] == "dev"
    assert call("optimize", table=at_dev)[0]["branch"] == "dev"
    assert call("merge_branch", table=at_dev, branch="exp", into="main")[0]["into"] == "main"
    for name in ("ns.t@v1", "ns.t@dev@2"):
        with pytest.raises(Refused, match="names a version, which never changes"):
            call("merge_branch", table=name, branch="exp")
    with pytest.raises(Refused, match="about the whole table"):
        call("fsck", table=at_dev)
    with pytest.raises(NotFound):
        call("merge_branch", table="ns.t@deb", branch="exp")
    by_path = Context(LocalRunner(2))
    made = find_procedure("create_branch").call(by_path, {"table": f"{uri}@dev", "name": "by-path"}).to_pylist()
    assert made[0]["parent_branch"] == "dev"
