"""A table with a protected branch is not dropped, through any door, until the protection is gone."""

import pytest
from support.catalogs import ids_of, make_table, tables
from support.local_datasets import contents

from lance_spark import LanceTable
from lance_spark.catalog import removing
from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.removing import rename_table
from lance_spark.catalog.tables import deregister_table
from lance_spark.errors import CorruptData, Refused

MODES = ["v1", "v2", "compatibility"]


@pytest.fixture
def catalog(tmp_path, mode):
    return open_catalog(str(tmp_path / "lake"), mode=mode)


def made(catalog, name="t", branch="main"):
    declared = make_table(catalog, name)
    table = LanceTable.for_path(declared.location.uri)
    if branch != "main":
        table.branches.create(branch)
    table.branches.alter(branch, protected=True)
    return table


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("branch", ["main", "exp"])
@pytest.mark.parametrize("force", [False, True])
def test_a_protected_table_is_not_dropped(catalog, branch, force):
    table = made(catalog, branch=branch)
    before = contents(table.location.uri)
    with pytest.raises(Refused, match=f"branch '{branch}' of .* is protected") as refused:
        removing.drop_table(catalog, "t", force=force)
    assert "protected=False" in refused.value.hint
    assert "deregister" in refused.value.hint
    assert contents(table.location.uri) == before
    assert ids_of(catalog, "t") == [0, 1, 2]
    table.branches.alter(branch, protected=False)
    removing.drop_table(catalog, "t", force=force)
    assert tables(catalog) == []
    assert not contents(table.location.uri)


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_nor_with_its_namespace(catalog):
    create_namespace(catalog, "ns")
    make_table(catalog, "ns.free")
    table = made(catalog, "ns.kept", "exp")
    with pytest.raises(Refused, match="is protected"):
        removing.drop_namespace(catalog, "ns", cascade=True, force=True)
    assert tables(catalog, "ns") == ["ns.free", "ns.kept"]
    assert ids_of(catalog, "ns.free") == [0, 1, 2]
    table.branches.alter("exp", protected=False)
    removing.drop_namespace(catalog, "ns", cascade=True)
    assert tables(catalog, recursive=True) == []


@pytest.mark.parametrize("mode", ["v2"])
def test_a_protection_since_the_plan_counts(catalog):
    table = made(catalog)
    table.branches.alter("main", protected=False)
    plan = removing.plan_drop(catalog, "t")
    table.branches.alter("main", protected=True)
    with pytest.raises(Refused, match="is protected"):
        removing.drop(plan)
    assert ids_of(catalog, "t") == [0, 1, 2]


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_a_ref_that_cannot_be_read_may_be_a_protection(catalog):
    table = made(catalog, branch="exp")
    with open(f"{table.location.uri}/_refs/branches/exp.json", "w") as ref:
        ref.write("{")
    with pytest.raises(CorruptData):
        removing.drop_table(catalog, "t")
    assert ids_of(catalog, "t") == [0, 1, 2]
    removing.drop_table(catalog, "t", force=True)
    assert tables(catalog) == []


@pytest.mark.parametrize("mode", ["compatibility"])
def test_what_keeps_all_files_is_allowed_and_keeps_the_protection(catalog):
    made(catalog)
    rename_table(catalog, "t", "u")  # moves the directory
    with pytest.raises(Refused, match="is protected"):
        removing.drop_table(catalog, "u")
    deregister_table(catalog, "u")
    assert tables(catalog) == []
