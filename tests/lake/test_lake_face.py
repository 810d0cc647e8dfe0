"""``LanceCatalog.publish``: the branches of one name of many tables reach main together."""

import re
from datetime import timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.killed import killed_at
from support.local_datasets import numbers

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.catalog.lake import table_branch
from lance_spark.catalog.name_rules import identify_table
from lance_spark.errors import Conflict, InvalidOption, NotFound, Refused
from lance_spark.lake import publish as publishing

of_services = pytest.mark.on_services("rest")


@pytest.fixture
def lake(lake_of):
    """Three tables; two have a branch 'etl' with one more row."""
    lake = lake_of.connect()
    lake.create_namespace("air")
    for name in ("air.flights", "carriers", "other"):
        declared = lake.declare_table(name)
        lance.write_dataset(numbers(3), declared.location.uri)
    for name in ("air.flights", "carriers"):
        lake.table(name).branches.create("etl")
        append(lake, name, 10)
    return lake


def append(lake, name, start, branch="etl"):
    uri = lake.describe_table(name).location.uri
    lance.write_dataset(numbers(1, start), f"{uri}/tree/{branch}" if branch else uri, mode="append")


def ids(lake, name):
    return sorted(lance.dataset(lake.describe_table(name).location.uri).to_table()["id"].to_pylist())


def rows_of(table):
    return lance.dataset(f"{table.location.uri}/tree/{table.ref.branch}").count_rows()


@of_services
def test_all_tables_that_have_the_branch_are_published(lake):
    done = lake.publish("etl", message="nightly")
    assert (done.state, done.branch, done.message) == ("published", "etl", "nightly")
    assert [(table.name, table.before, table.after) for table in done.tables] == [
        ("air.flights", 1, 2),
        ("carriers", 1, 2),
    ]
    assert ids(lake, "air.flights") == ids(lake, "carriers") == [0, 1, 2, 10]
    assert ids(lake, "other") == [0, 1, 2]
    assert lake.publishes() == [done]
    assert "air.flights" in str(done)
    assert lake.publish("etl").state == "up to date"
    assert lake.recover() is None
    assert next(iter(lake.table("carriers").log())).action == "publish"


@of_services
def test_later_rows_of_the_branch_are_published_later(lake):
    lake.publish("etl")
    append(lake, "carriers", 20)
    append(lake, "carriers", 30, branch=None)
    assert [table.name for table in lake.publish("etl").tables] == ["carriers"]
    assert ids(lake, "carriers") == [0, 1, 2, 10, 20, 30]
    assert len(lake.publishes()) == 2
    assert len(lake.publishes(limit=1)) == 1


@of_services
def test_the_named_tables_only(lake):
    lake.publish("etl", tables=["carriers"])
    assert (ids(lake, "carriers"), ids(lake, "air.flights")) == ([0, 1, 2, 10], [0, 1, 2])


@of_services
@pytest.mark.parametrize(
    ("branch", "tables", "said"),
    [
        ("etl", ["other"], "Table 'other' has no branch 'etl'"),
        ("etl", ["absent"], "no (table 'absent'|such table)"),
        ("exp", None, "No table of .* has a branch 'exp'"),
    ],
)
def test_what_is_missing_is_named(lake, branch, tables, said):
    with pytest.raises(NotFound, match=said):
        lake.publish(branch, tables=tables)


@of_services
def test_the_audit_sees_the_branches_and_decides(lake):
    seen = {}

    def check(tables):
        seen.update({name: (table.ref.branch, rows_of(table)) for name, table in tables.items()})
        return False

    with pytest.raises(Refused, match="audit failed"):
        lake.publish("etl", audit=check)
    assert seen == {"air.flights": ("etl", 4), "carriers": ("etl", 4)}
    assert ids(lake, "carriers") == [0, 1, 2]
    assert lake.publishes() == []


@of_services
def test_a_dry_run_writes_nothing_and_names_conflicts(lake):
    ready = lake.publish("etl", dry_run=True)
    assert (ready.state, len(ready.tables), ready.conflicts) == ("ready", 2, ())
    uri = lake.describe_table("carriers").location.uri
    lance.dataset(uri).update({"id": "70"}, where="id = 1")
    lance.dataset(f"{uri}/tree/etl").update({"id": "80"}, where="id = 1")
    (conflict,) = lake.publish("etl", dry_run=True).conflicts
    assert conflict.startswith("carriers: ")
    with pytest.raises(Conflict, match="carriers: "):
        lake.publish("etl")
    assert ids(lake, "air.flights") == [0, 1, 2]
    assert lake.publishes() == []


@of_services
def test_dropped_columns_are_named(lake):
    uri = lake.describe_table("carriers").location.uri
    column = "extra"
    lance.dataset(uri).add_columns(pa.field(column, pa.int64()))
    lake.table("carriers").checkout(branch="etl").branches.merge("main", into="etl")
    lance.dataset(f"{uri}/tree/etl").drop_columns([column])
    for done in (lake.publish("etl", dry_run=True), lake.publish("etl")):
        dropped = {table.name: table.columns_dropped for table in done.tables}
        assert dropped == {"carriers": (column,), "air.flights": ()}
        assert f"dropped columns: {column}" in str(done)
    assert column not in lance.dataset(uri).schema.names


@of_services
def test_an_unfinished_publish_is_listed_and_recover_completes_it(lake):
    with killed_at(publishing, "publish_table"):
        lake.publish("etl")
    (unfinished,) = lake.publishes()
    assert unfinished.state == "unfinished"
    assert lake.recover().state == "published"
    assert ids(lake, "carriers") == ids(lake, "air.flights") == [0, 1, 2, 10]


def test_a_catalog_of_directories_is_refused_with_a_way(tmp_path):
    lake = LanceCatalog(f"{tmp_path}/lake")
    lance.write_dataset(numbers(3), f"{tmp_path}/lake/a.lance")
    lake.table("a").branches.create("etl")
    append(lake, "a", 10)
    with pytest.raises(Refused, match="__manifest") as refused:
        lake.publish("etl")
    assert "migrate()" in refused.value.hint
    lake.migrate()
    lake.publish("etl")
    assert ids(lake, "a") == [0, 1, 2, 10]


def test_cleanups_leave_the_journal(lake):
    lake.publish("etl")
    manifest = lake.catalog.manifest
    lance.dataset(manifest.uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert journals.sequences(manifest) == [1]
    assert lake.publishes()[0].state == "published"


def test_an_audit_that_returns_nothing_says_so(lake):
    with pytest.raises(Refused, match="returned None instead of True; nothing was published") as refused:
        lake.publish("etl", audit=lambda _: None)
    assert "Return True" in refused.value.hint
    lake.branches.create("nightly")
    lake.checkout(branch="nightly").create_namespace("stage")
    with pytest.raises(Refused, match="returned None"):
        lake.branches.merge("nightly", audit=lambda _: None)
    with pytest.raises(Refused, match="The audit failed"):
        lake.branches.merge("nightly", audit=lambda _: False)
    assert lake.publishes() == []


@pytest.mark.parametrize(
    ("answer", "said"), [(1, "an int"), ("ok", "a str"), (pa.table({"id": [1]}), "a Table"), (np.int64(1), "an int64")]
)
def test_an_audit_answers_with_a_bool(lake, answer, said):
    with pytest.raises(Refused, match=f"The audit returned {said} instead of True or False; nothing was published"):
        lake.publish("etl", audit=lambda _: answer)
    assert ids(lake, "carriers") == [0, 1, 2]
    assert lake.publish("etl", audit=lambda _: np.bool_(True)).tables


def test_a_table_is_written_from_a_table_of_arrow_and_from_no_list(lake):
    lake.write_table(pa.table({"id": [1]}), "b")
    assert ids(lake, "b") == [1]
    with pytest.raises(InvalidOption, match="A list of builtins cannot be written") as refused:
        lake.write_table([{"id": 1}], "c")
    assert "spark.createDataFrame" in refused.value.hint


def test_a_branch_of_the_lake_shows_its_settings(lake):
    made = lake.branches.create("nightly", expire_after="30d", owner="me")
    assert str(made.lifetime) == "expires after 30d, owner me"
    for shown in (made, lake.branches["nightly"], lake.branches, lake.checkout(branch="nightly").catalog.ref):
        assert "expires after 30d, owner me" in str(shown)
    with pytest.raises(NotFound, match="no branch of the lake 'nighly'") as missing:
        lake.branches.alter("nighly", owner="you")
    assert missing.value.hint == "Did you mean 'nightly'?"


def test_a_dry_run_lists_what_clashes(lake):
    lake.branches.create("nightly")
    for each in (lake, lake.checkout(branch="nightly")):
        each.create_namespace("stage")
        lance.write_dataset(numbers(3), each.declare_table("stage.x").location.uri)
    done = lake.branches.merge("nightly", dry_run=True)
    assert done.state == "in conflict"
    told = str(done)
    assert re.search(r"^stage\.x +that name was taken on main$", told, re.M)
    assert "note:" not in told


def test_a_misspelled_table_gets_near_names(lake):
    with pytest.raises(NotFound, match=r"no table or namespace 'air\.fligths'") as missing:
        lake.branches.create("nightly", tables=["air.fligths"])
    assert "air.flights" in missing.value.hint
    assert "nightly" not in lake.branches


def test_what_needs_a_branch_of_a_table_keeps_that_of_the_lake(lake):
    lake.branches.create("nightly")
    etl = lake.checkout(branch="nightly")
    table_branch(etl.catalog, identify_table("carriers"), "change it")
    etl.table("carriers").branches.create("exp")
    with pytest.raises(Refused, match=r"Cannot delete branch 'nightly' of the lake: .*'exp'") as refused:
        lake.branches.delete("nightly")
    assert "carriers" in refused.value.message
    assert refused.value.hint == "Delete 'exp' first."
