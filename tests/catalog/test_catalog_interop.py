"""Beside pylance's own namespace, in each of its modes: what one writes the other reads; what it damages is told."""

import os
from datetime import datetime, timezone

import lance
import pytest
from lance.namespace import DirectoryNamespace
from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    DropTableRequest,
    ListNamespacesRequest,
    ListTablesRequest,
    NamespaceExistsRequest,
    RegisterTableRequest,
    TableExistsRequest,
)
from support.catalogs import PYLANCE, ids_of, indexes, make_table, namespaces, pylance, raw, rows, tables
from support.local_datasets import numbers

from lance_spark.catalog.doctor import examine, mend
from lance_spark.catalog.entry_rules import Entry, new_rows
from lance_spark.catalog.lookup import (
    create_namespace,
    describe_namespace,
    describe_table,
    locate_table,
    open_catalog,
    table_exists,
)
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.removing import drop_namespace, drop_table, rename_table
from lance_spark.catalog.tables import alter_namespace, declare_table, deregister_table, register_table
from lance_spark.errors import AlreadyExists, CorruptData, NotFound

NAMES = ["plain", "a b", "a.b", "ü", "日本", "a%b", "a%20b", "a#b", "a*b", "x.lance"]
WITH_MANIFEST = {
    "default": {},
    "v2": PYLANCE["v2"],
    "v2 indexed": {**PYLANCE["v2"], "inline_optimization_enabled": "true"},
    "compatibility": PYLANCE["compatibility"],
}


@pytest.fixture
def catalog(tmp_path):
    return open_catalog(str(tmp_path))


@pytest.fixture(params=WITH_MANIFEST)
def theirs(request, catalog):
    """pylance's namespace in every mode that has a manifest, opened before anything is written."""
    return DirectoryNamespace(root=catalog.uri, **WITH_MANIFEST[request.param])


def listed(theirs, *namespace):
    return sorted(theirs.list_tables(ListTablesRequest(id=list(namespace))).tables)


def place(theirs, *table):
    return theirs.describe_table(DescribeTableRequest(id=list(table))).location


def stream(count):
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = numbers(count)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_what_we_write_pylance_reads(catalog, theirs):
    create_namespace(catalog, "ns", {"a": "b"})
    create_namespace(catalog, "ns.sub")
    make_table(catalog, "t", numbers(1))
    make_table(catalog, "ns.t", numbers(2), k="v")
    make_table(catalog, "ns.sub.t", numbers(3))
    assert theirs.list_namespaces(ListNamespacesRequest(id=[])).namespaces == ["ns"]
    assert theirs.list_namespaces(ListNamespacesRequest(id=["ns"])).namespaces == ["sub"]
    assert theirs.describe_namespace(DescribeNamespaceRequest(id=["ns"])).properties == {"a": "b"}
    for count, name in enumerate((["t"], ["ns", "t"], ["ns", "sub", "t"]), start=1):
        assert listed(theirs, *name[:-1]) == ["t"]
        theirs.table_exists(TableExistsRequest(id=name))
        assert lance.dataset(place(theirs, *name)).count_rows() == count
        assert lance.dataset(namespace_client=theirs, table_id=name).count_rows() == count
    rename_table(catalog, "ns.t", "ns.sub.u")
    alter_namespace(catalog, "ns", {"c": "d"})
    assert listed(theirs, "ns", "sub") == ["t", "u"]
    assert lance.dataset(namespace_client=theirs, table_id=["ns", "sub", "u"]).count_rows() == 2
    assert theirs.describe_namespace(DescribeNamespaceRequest(id=["ns"])).properties == {"a": "b", "c": "d"}
    drop_table(catalog, "ns.sub.u")
    deregister_table(catalog, "ns.sub.t")
    drop_table(catalog, "t")
    assert listed(theirs, "ns", "sub") == listed(theirs) == []
    drop_namespace(catalog, "ns", cascade=True)
    assert theirs.list_namespaces(ListNamespacesRequest(id=[])).namespaces == []


def test_what_pylance_writes_we_read(catalog, theirs):
    theirs.create_namespace(CreateNamespaceRequest(id=["ns"], properties={"a": "b"}))
    theirs.create_namespace(CreateNamespaceRequest(id=["ns", "sub"]))
    theirs.create_table(CreateTableRequest(id=["ns", "t"]), stream(2))
    theirs.create_table(CreateTableRequest(id=["ns", "sub", "t"], properties={"k": "v"}), stream(3))
    theirs.create_table(CreateTableRequest(id=["r"]), stream(4))
    theirs.declare_table(DeclareTableRequest(id=["ns", "declared"]))
    assert namespaces(catalog, recursive=True) == ["ns", "ns.sub"]
    assert tables(catalog, recursive=True) == ["ns.declared", "ns.sub.t", "ns.t", "r"]
    assert describe_namespace(catalog, "ns").properties == {"a": "b"}
    assert describe_table(catalog, "ns.sub.t").properties == {"k": "v"}
    assert describe_table(catalog, "ns.declared").declared
    assert [len(ids_of(catalog, name)) for name in ("ns.t", "ns.sub.t", "r")] == [2, 3, 4]
    with pytest.raises(AlreadyExists):
        declare_table(catalog, "ns.declared")
    theirs.deregister_table(DeregisterTableRequest(id=["ns", "t"]))
    assert not table_exists(catalog, "ns.t")
    register_table(catalog, "ns.t")
    rename_table(catalog, "ns.t", "ns.sub.u")
    theirs.drop_table(DropTableRequest(id=["ns", "sub", "u"]))
    assert tables(catalog, "ns.sub") == ["ns.sub.t"]
    for name in (["ns", "sub", "t"], ["ns", "declared"]):
        theirs.drop_table(DropTableRequest(id=name))
    theirs.drop_namespace(DropNamespaceRequest(id=["ns", "sub"]))
    assert namespaces(catalog, recursive=True) == ["ns"]


def test_they_take_turns(catalog, theirs):
    """Every second write is pylance's, with an instance that was opened before the first one."""
    for number in range(8):
        create_namespace(catalog, f"o{number}")
        theirs.create_namespace(CreateNamespaceRequest(id=[f"t{number}"]))
        make_table(catalog, f"t{number}.x")
        theirs.declare_table(DeclareTableRequest(id=[f"o{number}", "x"]))
        if number % 4 == 0:
            drop_table(catalog, f"o{number}.x")
            theirs.drop_namespace(DropNamespaceRequest(id=[f"o{number}"]))
    kept = [number for number in range(8) if number % 4]
    assert namespaces(catalog) == sorted([f"t{n}" for n in range(8)] + [f"o{n}" for n in kept])
    assert tables(catalog, recursive=True) == sorted([f"t{n}.x" for n in range(8)] + [f"o{n}.x" for n in kept])
    assert sorted(theirs.list_namespaces(ListNamespacesRequest(id=[])).namespaces) == namespaces(catalog)
    create_namespace(catalog, "last")
    assert len(indexes(catalog)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_every_name_we_allow_leads_both_to_the_same_data(catalog, name):
    create_namespace(catalog, ["n s", "ü"][:1])
    make_table(catalog, ["n s", name])
    make_table(catalog, [name], numbers(2))
    v2, both = pylance(open_catalog(catalog.uri, mode="v2")), pylance(catalog)
    for theirs in (v2, both):
        assert lance.dataset(namespace_client=theirs, table_id=["n s", name]).count_rows() == 3
        assert listed(theirs, "n s") == [name]
    assert lance.dataset(namespace_client=v2, table_id=[name]).count_rows() == 2
    assert listed(v2) == [name]
    rename_table(catalog, [name], f"new {name}".replace(".", "-"))
    renamed = locate_table(catalog, f"new {name}".replace(".", "-")).uri
    assert lance.dataset(renamed).count_rows() == 2
    assert lance.dataset(place(v2, f"new {name}".replace(".", "-"))).count_rows() == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_name_that_pylance_gave_leads_us_to_its_data(catalog, name):
    theirs = pylance(open_catalog(catalog.uri, mode="v2"))
    theirs.create_namespace(CreateNamespaceRequest(id=["ns"]))
    lance.write_dataset(numbers(2), namespace_client=theirs, table_id=["ns", name], mode="create")
    assert ids_of(catalog, ["ns", name]) == [0, 1]
    rename_table(catalog, ["ns", name], "ns.new")
    assert lance.dataset(namespace_client=theirs, table_id=["ns", "new"]).count_rows() == 2
    drop_table(catalog, "ns.new")
    assert rows(catalog).keys() == {"ns"}


def test_directories_of_v1_are_the_same_tables_to_both(catalog, tmp_path):
    v1 = open_catalog(catalog.uri, mode="v1")
    theirs = pylance(v1)
    make_table(v1, "ours")
    lance.write_dataset(numbers(2), namespace_client=theirs, table_id=["theirs"], mode="create")
    theirs.declare_table(DeclareTableRequest(id=["declared"]))
    declare_table(v1, "mine")
    assert tables(v1) == listed(theirs) == ["declared", "mine", "ours", "theirs"]
    assert lance.dataset(namespace_client=theirs, table_id=["ours"]).count_rows() == 3
    for taken in ("declared", "theirs"):
        with pytest.raises(AlreadyExists):
            declare_table(v1, taken)
    with pytest.raises(Exception, match="already exists"):
        theirs.declare_table(DeclareTableRequest(id=["mine"]))
    deregister_table(v1, "ours")
    theirs.deregister_table(DeregisterTableRequest(id=["theirs"]))
    assert tables(v1) == listed(theirs) == ["declared", "mine"]
    for name in ("ours", "theirs"):
        register_table(v1, name)
    drop_table(v1, "theirs")
    theirs.drop_table(DropTableRequest(id=["ours"]))
    assert tables(v1) == listed(theirs) == ["declared", "mine"]
    assert sorted(os.listdir(tmp_path)) == ["declared.lance", "mine.lance"]


def test_tables_in_the_root_are_the_same_to_every_client_of_compatibility_mode(catalog):
    """Also to pylance's default, which looks at directories only."""
    make_table(catalog, "a")
    lance.write_dataset(numbers(2), f"{catalog.uri}/b.lance")
    clients = [DirectoryNamespace(root=catalog.uri, **properties) for properties in ({}, PYLANCE["compatibility"])]
    for theirs in clients:
        assert listed(theirs) == tables(catalog) == ["a", "b"]
        assert [lance.dataset(place(theirs, name)).count_rows() for name in "ab"] == [3, 2]
    deregister_table(catalog, "a")
    deregister_table(catalog, "b")
    for theirs in clients:
        assert listed(theirs) == tables(catalog) == []
    register_table(catalog, "a")
    register_table(catalog, "b")
    for theirs in clients:
        assert listed(theirs) == tables(catalog) == ["a", "b"]
    drop_table(catalog, "a")
    migrate(catalog)
    theirs = DirectoryNamespace(root=catalog.uri, **PYLANCE["v2"])
    assert listed(theirs) == ["b"]
    theirs.namespace_exists(NamespaceExistsRequest(id=[]))


def test_pylance_registers_what_we_deregistered_and_the_reverse(catalog):
    theirs = pylance(open_catalog(catalog.uri, mode="v2"))
    create_namespace(catalog, "ns")
    make_table(catalog, "ns.t")
    path = deregister_table(catalog, "ns.t").path
    theirs.register_table(RegisterTableRequest(id=["ns", "back"], location=path))
    assert ids_of(catalog, "ns.back") == [0, 1, 2]
    location = theirs.deregister_table(DeregisterTableRequest(id=["ns", "back"])).location
    register_table(catalog, "ns.again", location)
    assert ids_of(catalog, "ns.again") == [0, 1, 2]


def kinds(catalog):
    return {(found.kind, found.subject) for found in examine(catalog, datetime.now(timezone.utc))}


def test_a_sound_catalog_has_nothing_to_tell(catalog):
    create_namespace(catalog, "ns")
    make_table(catalog, "ns.t")
    make_table(catalog, "t")
    assert kinds(catalog) == set()


def test_the_doctor_tells_what_pylance_took_away_and_mends_what_it_can(catalog):
    create_namespace(catalog, "ns")
    make_table(catalog, "ns.t")
    raw(catalog).add_columns({"owner": "object_id"})
    create_namespace(catalog, "before")
    assert kinds(catalog) == set()
    theirs = pylance(catalog)
    theirs.create_namespace(CreateNamespaceRequest(id=["damage"]))
    theirs.declare_table(DeclareTableRequest(id=["no", "parent"]))
    assert kinds(catalog) == {
        ("lost column", "owner"),
        ("missing index", "object_id_btree"),
        ("missing index", "object_type_bitmap"),
        ("missing index", "base_objects_label_list"),
        ("missing namespace", "no$parent"),
    }
    (lost,) = [found for found in examine(catalog, datetime.now(timezone.utc)) if found.kind == "lost column"]
    version = int(lost.message.split()[1])
    assert lance.dataset(catalog.manifest.uri, version=version).to_table()["owner"].to_pylist().count("ns$t") == 1
    mended = mend(catalog, examine(catalog, datetime.now(timezone.utc)))
    assert len(mended) == 4
    assert kinds(catalog) == {("lost column", "owner")}
    assert namespaces(catalog) == ["before", "damage", "no", "ns"]


def test_the_doctor_tells_of_dead_rows_duplicates_ghosts_and_marks(catalog, tmp_path):
    for name in ("a", "b", "c"):
        make_table(catalog, name)
    twin = Entry("twin", "table", "b.lance")
    double = Entry("a", "table", "a.lance")
    lance.write_dataset(new_rows(raw(catalog).schema, [twin, double]), catalog.manifest.uri, mode="append")
    for path in (tmp_path / "c.lance").rglob("*"):
        if path.is_file():
            path.unlink()
    (tmp_path / "b.lance" / ".lance-deregistered").write_bytes(b"")
    (tmp_path / "f.lance").write_bytes(b"")
    (tmp_path / "e.lance").mkdir()
    lance.write_dataset(numbers(1), str(tmp_path / "v1.lance"))
    assert kinds(catalog) == {
        ("dead row", "c"),
        ("duplicate id", "a"),
        ("duplicate location", "a.lance"),
        ("duplicate location", "b.lance"),
        ("ghost", "e.lance"),
        ("ghost", "f.lance"),
        ("hidden from V1", "b.lance"),
        ("not registered", "v1.lance"),
    }
    mend(catalog, examine(catalog, datetime.now(timezone.utc)))
    assert {kind for kind, _ in kinds(catalog)}.isdisjoint({"dead row", "hidden from V1"})
    assert not table_exists(catalog, "c")
    assert ids_of(catalog, "b") == ids_of(catalog, "twin") == [0, 1, 2]


def test_mending_looks_again_first(catalog, tmp_path):
    make_table(catalog, "a")
    hidden = tmp_path / "a.lance"
    hidden.rename(tmp_path / "aside")
    found = examine(catalog, datetime.now(timezone.utc))
    assert [finding.kind for finding in found] == ["dead row"]
    (tmp_path / "aside").rename(hidden)
    mend(catalog, found)
    assert ids_of(catalog, "a") == [0, 1, 2], "the row was not dead any more"


def test_a_row_of_another_tool_that_leads_outside_is_never_followed(catalog, tmp_path):
    create_namespace(catalog, "ns")
    victim = tmp_path.parent / f"{tmp_path.name}-victim"
    lance.write_dataset(numbers(2), str(victim))
    evil = [
        Entry("ns$e", "table", f"../{victim.name}"),
        Entry("ns$f", "table", str(victim)),
        Entry("ns$g", "table", None),
    ]
    lance.write_dataset(new_rows(raw(catalog).schema, evil), catalog.manifest.uri, mode="append")
    for name in ("ns.e", "ns.f", "ns.g"):
        with pytest.raises(CorruptData, match=r"not a path of a table below its root|has no location"):
            locate_table(catalog, name)
        with pytest.raises(CorruptData):
            rename_table(catalog, name, "ns.new")
    assert {found.kind for found in examine(catalog, datetime.now(timezone.utc))} == {"location outside"}
    deregister_table(catalog, "ns.e")
    for name in ("ns.f", "ns.g"):
        assert drop_table(catalog, name).data_kept
        with pytest.raises(NotFound):
            locate_table(catalog, name)
    assert lance.dataset(str(victim)).count_rows() == 2
