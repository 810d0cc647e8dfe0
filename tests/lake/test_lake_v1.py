"""Refs of a catalog of directories (V1) are refs of its tables; and shallow clones of whole catalogs."""

from datetime import datetime, timezone

import lance
import pyarrow as pa
import pytest
from support.catalogs import make_table

from lance_spark import LanceCatalog
from lance_spark.catalog.lake import at_ref, create_ref, delete_ref, list_refs
from lance_spark.catalog.lake_rules import BRANCH, TAG
from lance_spark.catalog.lookup import open_table
from lance_spark.catalog.name_rules import Catalog
from lance_spark.catalog.tables import declare_table, deregister_table, register_table
from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.storage.datasets import locate

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)


@pytest.fixture
def directories(tmp_path):
    """Tables a and b, each with the ids 0, 1, 2; c is new since the refs were created."""
    for name in "ab":
        lance.write_dataset(pa.table({"id": [0, 1, 2]}), str(tmp_path / f"{name}.lance"))
    return Catalog(locate(str(tmp_path)), "v1")


def ids(catalog, name):
    location, pin = open_table(catalog, name, RefSpec())
    dataset = lance.dataset(location.uri).checkout_version((pin.branch, pin.version))
    return sorted(dataset.to_table()["id"].to_pylist())


def append(catalog, name, value, branch=None):
    uri = f"{catalog.uri}/{name}.lance"
    target = uri if branch is None else f"{uri}/tree/{branch}"
    lance.write_dataset(pa.table({"id": [value]}), target, mode="append")


@pytest.mark.parametrize("kind", [BRANCH, TAG])
def test_a_ref_is_one_of_that_name_on_each_table(directories, kind):
    assert create_ref(directories, kind, "v1", NOW).tables == 2
    append(directories, "a", 3)
    there = at_ref(directories, kind, "v1")
    assert (ids(there, "a"), ids(there, "b"), ids(directories, "a")) == ([0, 1, 2], [0, 1, 2], [0, 1, 2, 3])
    assert [(ref.name, ref.tables, ref.ready) for ref in list_refs(directories, kind)] == [("v1", 2, True)]
    with pytest.raises(AlreadyExists, match="v1"):
        create_ref(directories, kind, "v1", NOW)
    delete_ref(directories, kind, "v1", purge=True)
    assert list_refs(directories, kind) == []
    with pytest.raises(NotFound, match="v1"):
        at_ref(directories, kind, "v1")


def test_a_failure_leaves_the_ref_on_no_table(directories, monkeypatch):
    from lance_spark.catalog import lake_v1

    real, calls = lake_v1.create_tag_at, []

    def second_fails(*given):
        calls.append(given)
        if len(calls) == 2:
            raise Refused("denied")
        return real(*given)

    monkeypatch.setattr(lake_v1, "create_tag_at", second_fails)
    with pytest.raises(Refused, match="denied"):
        create_ref(directories, TAG, "v1", NOW)
    assert list_refs(directories, TAG) == []


def test_a_branch_has_writes_but_no_tables_of_its_own(directories):
    create_ref(directories, BRANCH, "exp", NOW)
    there = at_ref(directories, BRANCH, "exp")
    append(directories, "a", 9, "exp")
    assert (ids(there, "a"), ids(directories, "a")) == ([0, 1, 2, 9], [0, 1, 2])
    catalog = LanceCatalog(directories.uri, mode="v1")
    exp = catalog.checkout(branch="exp")
    assert exp.table("a").branch == "exp"
    for change in (
        lambda: declare_table(there, "new"),
        lambda: deregister_table(there, "a"),
        lambda: register_table(there, "new", "a.lance"),
        lambda: exp.drop_table("a"),
        lambda: catalog.branches.merge("exp"),
        lambda: catalog.branches.diff("exp"),
        lambda: catalog.branches.alter("exp", owner="me"),
    ):
        with pytest.raises(Refused) as refused:
            change()
        assert "V1" in str(refused.value) or "igrate" in str(refused.value)


def test_a_clone_of_a_lake_has_all_its_tables_or_none(tmp_path):
    lake = LanceCatalog(str(tmp_path / "lake"))
    lake.create_namespace("ns", {"owner": "me"})
    for name in ("ns.t", "u"):
        make_table(lake.catalog, name)
    lake.alter_table("ns.t", {"a": "b"})
    lake.declare_table("ns.empty")
    lake.branches.create("exp")
    uri = lake.describe_table("ns.t").location.uri
    lance.dataset(uri).delete("id = 0")
    clone = lake.clone(str(tmp_path / "clone"), branch="exp")
    assert (clone.list_tables(recursive=True), clone.describe_namespace("ns").properties) == (
        ["ns.t", "u"],
        {"owner": "me"},
    )
    assert clone.describe_table("ns.t").properties == {"a": "b"}
    assert clone.table("ns.t").count_rows() == lake.table("ns.t").count_rows() + 1
    assert clone.branches.list() == []
    assert at_ref(lake.catalog, BRANCH, "exp").ref.ready
    with pytest.raises(AlreadyExists, match="clone"):
        lake.clone(str(tmp_path / "clone"))
    lake.branches.delete("exp")
    with pytest.raises(Refused, match="read by the clone"):
        lake.drop_table("u")
    with pytest.raises(Refused, match="another store"):
        lake.clone("s3://bucket/clone")


@pytest.mark.parametrize("kind", [BRANCH, TAG])
def test_a_ref_of_no_table_would_be_stored_nowhere(tmp_path, kind):
    with pytest.raises(Refused, match="has data"):
        create_ref(Catalog(locate(str(tmp_path)), "v1"), kind, "x", NOW)
