"""Procedures for a whole lake: its branches, tags and publishes, without Spark; and the tables that tell of them."""

from dataclasses import replace

import lance
import pytest
from support.catalogs import make_table, tables
from support.killed import killed_at
from support.local_datasets import numbers

from lance_spark.catalog.lake import at_ref
from lance_spark.catalog.lake_rules import BRANCH, TAG
from lance_spark.catalog.lookup import create_namespace, locate_table, open_catalog, open_table
from lance_spark.catalog.removing import drop_table, rename_table
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused
from lance_spark.hints import said
from lance_spark.lake import publish as publishing
from lance_spark.sql.declaring import Context, find_procedure
from lance_spark.sql.lake_procedures import SYSTEM_TABLES
from lance_spark.sql.procedures import PROCEDURES


@pytest.fixture
def lake(tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns")
    for name in ("ns.t", "ns.u", "ns.v"):
        make_table(catalog, name)
    return Context(LocalRunner(2), catalog)


@pytest.fixture
def call(lake):
    def run(procedure, where=lake, /, **arguments):
        found = find_procedure(procedure).call(where, arguments)
        assert found.schema.equals(PROCEDURES[procedure].columns)
        return found.to_pylist()

    return run


def on(lake, name="etl", kind=BRANCH):
    return replace(lake, catalog=at_ref(lake.catalog, kind, name))


def ids(lake, name):
    location, pin = open_table(lake.catalog, name, RefSpec())
    at = lance.dataset(location.uri).checkout_version((pin.branch, pin.version))
    return sorted(at.to_table()["id"].to_pylist())


def append(lake, name, start, branch=None):
    """To main; or to the table's branch on a branch of the lake, or to one of its own."""
    if isinstance(branch, Context):
        _, branch = branch.to_change(name, None)
    uri = locate_table(lake.catalog, name).uri
    lance.write_dataset(numbers(1, start), uri if branch is None else f"{uri}/tree/{branch}", mode="append")


def system(lake, name):
    return [row for batch in SYSTEM_TABLES[name].read(lake.catalog) for row in batch.to_pylist()]


def test_a_branch_from_its_creation_to_its_end(lake, call):
    (made,) = call("create_lake_branch", name="etl", expire_after="30d", owner="me")
    assert (made["name"], made["tables"], made["ready"]) == ("etl", 3, True)
    assert (made["expire_after"], made["owner"], made["protected"]) == ("30d", "me", False)
    assert call("list_lake_branches") == system(lake, "branches") == [made]
    etl = on(lake)
    append(lake, "ns.t", 10, etl)
    make_table(etl.catalog, "ns.new")
    rename_table(etl.catalog, "ns.v", "ns.w")
    drop_table(etl.catalog, "ns.u")
    create_namespace(etl.catalog, "stage")
    diff = {
        (row["name"], row["change"], row["rows_added"], row["name_before"]) for row in call("diff_lake", name="etl")
    }
    assert diff == {
        ("ns.t", "changed", 1, None),
        ("ns.new", "new", 3, None),
        ("ns.w", "renamed", 0, "ns.v"),
        ("ns.u", "dropped", 0, None),
        ("stage", "new", None, None),
    }
    planned = call("merge_lake_branch", name="etl", dry_run=True)
    assert {(row["state"], row["table"], row["change"]) for row in planned} == {
        ("ready", "ns.t", "rows"),
        ("ready", "ns.new", "new"),
        ("ready", "ns.u", "dropped"),
        ("ready", "stage", "new"),
        ("ready", "ns.w", "renamed from ns.v"),
    }
    assert tables(lake.catalog, recursive=True) == ["ns.t", "ns.u", "ns.v"]
    done = call("merge_lake_branch", name="etl", message="nightly")
    assert {row["state"] for row in done} == {"published"}
    changed = next(row for row in done if row["change"] == "rows")
    assert (changed["table"], changed["version_before"], changed["version_after"]) == ("ns.t", 1, 2)
    assert (tables(lake.catalog, recursive=True), ids(lake, "ns.t")) == (["ns.new", "ns.t", "ns.w"], [0, 1, 2, 10])
    (again,) = call("merge_lake_branch", name="etl")
    assert (again["state"], again["table"]) == ("up to date", None)
    (listed,) = call("list_publishes")
    assert system(lake, "publishes") == system(etl, "publishes") == [listed]
    assert (listed["branch"], listed["message"], listed["tables"]) == ("etl", "nightly", ["ns.t"])
    assert listed["changes"] == ["ns.new: new", "ns.u: dropped", "ns.w: renamed from ns.v", "stage: new"]
    assert call("recover") == []
    assert call("drop_lake_branch", name="etl", purge=True) == [{"name": "etl"}]
    assert call("list_lake_branches") == []
    with pytest.raises(NotFound, match="no branch of the lake 'etl'"):
        call("drop_lake_branch", name="etl")


def test_a_branch_of_some_tables(lake, call):
    (made,) = call("create_lake_branch", name="etl", tables=["ns.t", "ns.u"])
    assert made["tables"] == 2
    with pytest.raises(InvalidOption, match=r"ARRAY<STRING>"):
        call("create_lake_branch", name="other", tables="ns")
    with pytest.raises(NotFound, match="'nothing'"):
        call("create_lake_branch", name="other", tables=["nothing"])
    call("create_lake_branch", name="kept", protected=True)
    with pytest.raises(Refused, match="protected") as refused:
        call("drop_lake_branch", name="kept")
    assert "lake.branches.alter('kept', protected=False) in Python" in said(refused.value.hint, "sql")


def test_conflicts_are_rows_of_a_dry_run(lake, call):
    call("create_lake_branch", name="etl")
    etl = on(lake)
    append(lake, "ns.t", 10, etl)
    location, branch = etl.to_change("ns.u", None)
    lance.dataset(location.uri).update({"id": "70"}, where="id = 1")
    lance.dataset(f"{location.uri}/tree/{branch}").update({"id": "80"}, where="id = 1")
    rows = {row["table"]: row for row in call("merge_lake_branch", name="etl", dry_run=True)}
    assert rows["ns.t"]["conflict"] is None
    assert rows["ns.u"]["state"] == "in conflict"
    assert rows["ns.u"]["conflict"].startswith("both sides deleted or updated the same rows")
    with pytest.raises(Conflict, match=r"ns\.u: both sides deleted"):
        call("merge_lake_branch", name="etl")
    assert ids(lake, "ns.t") == [0, 1, 2]


def test_branches_of_one_name_are_published_together(lake, call):
    for name in ("ns.t", "ns.u", "ns.v"):
        call("create_branch", table=name, name="nightly")
        append(lake, name, 10, "nightly")
    done = call("publish_branch", branch="nightly", tables=["ns.t", "ns.v"])
    assert [(row["table"], row["state"]) for row in done] == [("ns.t", "published"), ("ns.v", "published")]
    assert [ids(lake, name) for name in ("ns.t", "ns.u", "ns.v")] == [[0, 1, 2, 10], [0, 1, 2], [0, 1, 2, 10]]
    planned = call("publish_branch", branch="nightly", dry_run=True)
    assert [(row["table"], row["state"]) for row in planned] == [("ns.u", "ready")]


def test_recover_completes_a_publish_whose_process_died(lake, call):
    call("create_lake_branch", name="etl")
    append(lake, "ns.t", 10, on(lake))
    with killed_at(publishing, "publish_table"):
        call("merge_lake_branch", name="etl")
    assert [row["state"] for row in system(lake, "publishes")] == ["unfinished"]
    assert [(row["table"], row["state"]) for row in call("recover")] == [("ns.t", "published")]
    assert ids(lake, "ns.t") == [0, 1, 2, 10]


def test_tags(lake, call):
    (made,) = call("tag_lake", name="monday")
    assert (made["name"], made["tables"], made["ready"]) == ("monday", 3, True)
    append(lake, "ns.t", 10)
    assert call("list_lake_tags") == system(lake, "tags") == [made]
    at = on(lake, "monday", TAG)
    assert call("list_lake_tags", at) == [made]
    assert ids(at, "ns.t") == [0, 1, 2]
    for name in ("create_lake_tag", "drop_lake_tag", "create_lake_branch"):
        with pytest.raises(Refused, match="read at tag 'monday'"):
            call(name, at, name="tuesday")
    with pytest.raises(AlreadyExists) as raised:
        call("create_lake_tag", name="monday")
    assert "CALL lake.system.drop_lake_tag(name => 'monday')" in said(raised.value.hint, "sql", "lake")
    with pytest.raises(NotFound, match="tag of the lake 'tuesday'"):
        call("drop_lake_tag", name="tuesday")
    assert call("drop_lake_tag", name="monday") == [{"name": "monday"}]
    assert call("list_lake_tags") == []
    assert lance.dataset(locate_table(lake.catalog, "ns.t").uri).tags.list() == {}


@pytest.mark.parametrize("name", [name for name in PROCEDURES if "lake" in name or name in ("recover", "migrate")])
def test_tables_that_are_named_by_their_paths_have_no_lake(call, name):
    needed = {parameter.name: "x" for parameter in PROCEDURES[name].parameters if parameter.required}
    with pytest.raises(Refused, match="in no catalog"):
        call(name, Context(LocalRunner(2)), **needed)


def test_a_table_is_restored_to_its_versions_on_the_branch(lake, call):
    call("create_lake_branch", name="etl")
    etl = on(lake)
    append(lake, "ns.t", 10, etl)
    first = lance.dataset(locate_table(lake.catalog, "ns.t").uri).checkout_version(
        (etl.to_change("ns.t", None)[1], None)
    )
    append(lake, "ns.t", 11, etl)
    (told,) = call("restore", etl, table="ns.t", ref=str(first.version))
    assert (told["restored_version"], told["version"]) == (first.version, first.version + 2)
    assert ids(etl, "ns.t") == [0, 1, 2, 10]
    assert ids(lake, "ns.t") == [0, 1, 2]
    with pytest.raises(Refused, match="is a version of branch 'main', not an older one of 'lake/etl-"):
        call("restore", etl, table="ns.u", ref="1")
    with pytest.raises(Refused, match="which has one branch of each table"):
        call("restore", etl, table="ns.t", ref="main")
