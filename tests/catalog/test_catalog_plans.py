"""A plan changes nothing, and can be stored; executed late, it does what it says or nothing at all."""

import pickle

import lance
import pytest
from support.catalogs import ids_of, make_table, namespaces, tables
from support.local_datasets import contents, make_dataset, numbers

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.lookup import (
    create_namespace,
    describe_table,
    locate_table,
    open_catalog,
    plan_namespace,
    table_exists,
)
from lance_spark.catalog.removing import drop, drop_table, plan_drop, plan_namespace_drop, plan_rename, rename
from lance_spark.catalog.tables import (
    alter,
    declare,
    deregister,
    deregister_table,
    plan_alteration,
    plan_deregistration,
    plan_registration,
    plan_table,
    register,
)
from lance_spark.clones.clone import shallow_clone
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import AlreadyExists, Conflict, NotFound, Refused
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows


@pytest.fixture(params=["v2", "compatibility"])
def lake(request, tmp_path):
    """A catalog with tables in the root and in a namespace, a deregistered table and an empty namespace."""
    catalog = open_catalog(str(tmp_path / "lake"), mode=request.param)
    for name in ("ns", "empty"):
        create_namespace(catalog, name)
    for name in ("t", "ns.t", "ns.out"):
        make_table(catalog, name)
    deregister_table(catalog, "ns.out")
    return catalog


def created(change, catalog):
    return manifest_commits.apply(catalog.manifest, change)


VERBS = {
    "create a namespace": (lambda lake: plan_namespace(lake, "new"), None),
    "create a table": (lambda lake: plan_table(lake, "new"), declare),
    "create a table in a namespace": (lambda lake: plan_table(lake, "ns.new"), declare),
    "rename": (lambda lake: plan_rename(lake, "t", "ns.u"), rename),
    "rename in a namespace": (lambda lake: plan_rename(lake, "ns.t", "ns.u"), rename),
    "drop": (lambda lake: plan_drop(lake, "t"), drop),
    "drop in a namespace": (lambda lake: plan_drop(lake, "ns.t"), drop),
    "drop a namespace": (lambda lake: plan_namespace_drop(lake, "empty"), drop),
    "drop a namespace with all": (lambda lake: plan_namespace_drop(lake, "ns", cascade=True), drop),
    "deregister": (lambda lake: plan_deregistration(lake, "t"), deregister),
    "register": (lambda lake: plan_registration(lake, "ns.out"), register),
    "alter a table": (lambda lake: plan_alteration(lake, "table", "t", {"a": "1"}), alter),
    "alter a namespace": (lambda lake: plan_alteration(lake, "namespace", "ns", {"a": "1"}), alter),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_plan_changes_nothing_and_can_be_stored_and_executed_later(lake, verb):
    make, execute = VERBS[verb]
    before = contents(lake.uri)
    plan = pickle.loads(pickle.dumps(make(lake)))
    assert contents(lake.uri) == before
    assert "'" in str(plan) or "(" in str(plan)
    if execute is None:
        manifest_commits.apply(lake.manifest, plan)
    else:
        execute(plan)
    assert contents(lake.uri) != before


@pytest.mark.parametrize("name", ["new", "ns.new"])
def test_a_table_is_declared_by_one_execution_of_a_plan_alone(lake, name):
    plan = plan_table(lake, name)
    other = plan_table(lake, name)
    declare(plan)
    for late in (plan, other):
        with pytest.raises(AlreadyExists):
            declare(late)
    assert lance.write_dataset(numbers(2), describe_table(lake, name).location.uri).count_rows() == 2
    with pytest.raises(AlreadyExists):
        declare(plan)
    assert ids_of(lake, name) == [0, 1]


@pytest.mark.parametrize("name", ["t", "ns.t"])
def test_a_late_drop_takes_no_table_that_was_made_since(lake, name):
    plan = plan_drop(lake, name)
    drop_table(lake, name)
    with pytest.raises(NotFound):
        drop(plan)
    make_table(lake, name, numbers(1, 5))
    if locate_table(lake, name).uri != lake.at(plan.tables[0].path).uri:
        with pytest.raises(Conflict):
            drop(plan)
        assert ids_of(lake, name) == [5]


def test_a_late_drop_spares_what_a_clone_has_come_to_read(lake, tmp_path):
    plans = [plan_drop(lake, "ns.t"), plan_namespace_drop(lake, "ns", cascade=True)]
    shallow_clone(locate_table(lake, "ns.t"), PinnedVersion(None, 1), locate(str(tmp_path / "clone")), True)
    for plan in plans:
        with pytest.raises(Refused, match="read by the clone"):
            drop(plan)
    assert ids_of(lake, "ns.t") == [0, 1, 2]


def test_a_late_drop_of_a_namespace_takes_only_what_was_in_the_plan(lake):
    plan = plan_namespace_drop(lake, "ns", cascade=True)
    make_table(lake, "ns.late")
    with pytest.raises(Conflict, match=r"another process created 'ns\.late' in it"):
        drop(plan)
    assert [str(name) for name in tables(lake, recursive=True)] == ["ns.late", "ns.t", "t"]
    drop_table(lake, "ns.late")
    assert [str(table.identifier) for table in drop(plan)] == ["ns.t"]
    assert [str(name) for name in namespaces(lake)] == ["empty"]


def test_late_plans_are_refused_where_others_were_faster(lake):
    renamed, gone = plan_rename(lake, "ns.t", "ns.u"), plan_deregistration(lake, "ns.t")
    back, empty = plan_registration(lake, "ns.out"), plan_namespace_drop(lake, "empty")
    make_table(lake, "ns.u")
    make_table(lake, "empty.t")
    with pytest.raises(AlreadyExists):
        rename(renamed)
    drop_table(lake, "ns.t")
    with pytest.raises(NotFound):
        deregister(gone)
    register(plan_registration(lake, "ns.out"))
    with pytest.raises(AlreadyExists):
        register(back)
    with pytest.raises((Conflict, Refused)):
        drop(empty)
    assert [str(name) for name in tables(lake, recursive=True)] == ["empty.t", "ns.out", "ns.u", "t"]


def test_a_write_is_planned_stored_and_executed_later(tmp_path):
    uri = str(tmp_path / "d.lance")
    make_dataset(uri)
    before = contents(uri)
    options = {"path": uri, "branch": "dev", "create_branch": "true", "from_version": "1"}
    plan = plan_write(options, numbers(1).schema, overwrite=False)
    assert contents(uri) == before
    assert str(plan).splitlines() == [
        "create branch 'dev' at main@1",
        f"append to dev of {uri}",
        "columns: id int64",
    ]
    job = begin(pickle.loads(pickle.dumps(plan)))
    assert finish(job, write_rows(job, numbers(1, 7).to_batches())) == 2
    with pytest.raises(AlreadyExists, match="'dev'"):
        begin(plan)
    with pytest.raises(AlreadyExists, match="'dev'"):
        plan_write(options, numbers(1).schema, overwrite=False)
    assert lance.dataset(uri).checkout_version(("dev", None)).to_table()["id"].to_pylist() == [0, 1, 2, 7]


@pytest.mark.parametrize("name", ["new", "ns.new"])
def test_a_new_table_is_planned_stored_and_declared_when_the_write_begins(lake, name):
    before = contents(lake.uri)
    options = {"catalog": lake.uri, "catalog_mode": lake.mode, "path": name}
    plan = plan_write(options, numbers(1).schema, overwrite=False)
    assert contents(lake.uri) == before
    assert str(plan).startswith("declare the table in its catalog\ncreate ")
    job = begin(pickle.loads(pickle.dumps(plan)))
    assert table_exists(lake, name)
    with pytest.raises(Conflict, match=r"already|executed before"):
        begin(plan)
    assert finish(job, write_rows(job, numbers(2).to_batches())) == 1
    assert ids_of(lake, name) == [0, 1]
