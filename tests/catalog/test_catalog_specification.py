"""The directory namespace's specification, paragraph by paragraph: the title of a section, and what it says."""

import os
import re
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest
from support.catalogs import ids_of, indexes, make_table, namespaces, raw, rows, tables
from support.local_datasets import numbers

from lance_spark.catalog.directories import look_at
from lance_spark.catalog.doctor import examine, mend
from lance_spark.catalog.entry_rules import Entry, new_rows
from lance_spark.catalog.lookup import (
    create_namespace,
    describe_namespace,
    describe_table,
    list_tables,
    locate_table,
    namespace_exists,
    open_catalog,
    table_exists,
)
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.removing import (
    collect_orphans,
    drop_namespace,
    drop_table,
    move_table,
    plan_orphans,
    rename_table,
)
from lance_spark.catalog.tables import (
    alter_namespace,
    alter_table,
    declare_table,
    deregister_table,
    register_table,
    withdraw,
)
from lance_spark.errors import AlreadyExists, InvalidName, InvalidOption, NotFound, Refused

MODES = ("v1", "v2", "compatibility")
HASHED = re.compile(r"[0-9a-f]{8}_.+")


@pytest.fixture
def root(tmp_path):
    return tmp_path


@pytest.fixture(params=MODES)
def any_mode(request, root):
    return open_catalog(str(root), mode=request.param)


@pytest.fixture
def v1(root):
    return open_catalog(str(root), mode="v1")


@pytest.fixture
def v2(root):
    return open_catalog(str(root), mode="v2")


@pytest.fixture
def both(root):
    return open_catalog(str(root))


def put(root, *paths):
    for path in paths:
        whole = root / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(b"")


def directories(root):
    return sorted(name for name in os.listdir(root) if (root / name).is_dir())


class TestV1DirectoryListing:
    def test_v1_is_a_simple_one_level_namespace(self, v1):
        """V1: "a lightweight, simple 1-level namespace that discovers tables by scanning the directory"."""
        assert tables(v1) == namespaces(v1) == []
        for act in (
            lambda: create_namespace(v1, "a"),
            lambda: tables(v1, "a"),
            lambda: declare_table(v1, "a.t"),
            lambda: table_exists(v1, "a.t"),
            lambda: drop_table(v1, "a.t"),
            lambda: declare_table(v1, "t", {"k": "v"}),
            lambda: rename_table(v1, "t", "u"),
            lambda: alter_namespace(v1, "", {"k": "v"}),
            lambda: alter_table(v1, "t", {"k": "v"}),
        ):
            with pytest.raises(Refused, match="V1"):
                act()
        assert describe_namespace(v1, "").properties == {}
        assert not Path(v1.manifest.uri).exists()

    def test_directory_layout(self, root, v1):
        """V1, "Directory Layout": a table is a subdirectory ``<table_name>.lance``; the specification's example."""
        for name in ("table1", "table2", "table3"):
            lance.write_dataset(numbers(2), str(root / f"{name}.lance"))
        put(root, "table3.lance/.lance-deregistered", "table4.lance/.lance-reserved")
        assert tables(v1) == ["table1", "table2", "table4"]
        assert locate_table(v1, "table1").uri == str(root / "table1.lance")
        assert ids_of(v1, "table2") == [0, 1]
        make_table(v1, "table5")
        assert "table5.lance" in directories(root)

    def test_table_existence(self, root, v1):
        """V1, "Table Existence": at least one file below the prefix, and no file ``.lance-deregistered``."""
        put(root, "nested.lance/data/deep/file", "reserved.lance/.lance-reserved", "gone.lance/.lance-deregistered")
        put(root, "gone.lance/_versions/1.manifest", "plain.lance", ".lance/x", "other/x", "notlance.lanc/x")
        (root / "empty.lance").mkdir()
        (root / "hollow.lance" / "data").mkdir(parents=True)
        assert tables(v1) == ["nested", "reserved"]
        for name in ("gone", "plain", "empty", "hollow", "other", "absent", "notlance"):
            assert not table_exists(v1, name)
            with pytest.raises(NotFound, match=f"Cannot describe table '{name}'"):
                describe_table(v1, name)
        assert table_exists(v1, "nested")
        assert table_exists(v1, "reserved")

    def test_marker_files_reserved(self, root, v1):
        """V1, "Marker Files": ``.lance-reserved`` says that a name is reserved but not yet created."""
        declared = declare_table(v1, "t")
        assert (root / "t.lance" / ".lance-reserved").exists()
        assert describe_table(v1, "t").declared
        with pytest.raises(AlreadyExists, match="Cannot create table 't'"):
            declare_table(v1, "t")
        lance.write_dataset(numbers(2), declared.location.uri)
        assert not describe_table(v1, "t").declared
        assert not withdraw(v1, declared), "what was written stays"
        assert ids_of(v1, "t") == [0, 1]

    def test_a_reservation_can_be_withdrawn(self, root, v1):
        """V1, "Marker Files": a job that failed gives the name back, and only its own."""
        first = declare_table(v1, "t")
        assert withdraw(v1, first)
        assert directories(root) == []
        second = declare_table(v1, "t")
        assert not withdraw(v1, first)
        assert table_exists(v1, "t")
        assert withdraw(v1, second)

    def test_marker_files_deregistered(self, root, v1):
        """V1, "Marker Files": ``.lance-deregistered`` excludes a table and preserves its data for re-registration."""
        make_table(v1, "t")
        assert deregister_table(v1, "t").path == "t.lance"
        assert (root / "t.lance" / ".lance-deregistered").exists()
        assert tables(v1) == []
        assert not table_exists(v1, "t")
        with pytest.raises(NotFound, match="deregistered"):
            describe_table(v1, "t")
        with pytest.raises(NotFound):
            deregister_table(v1, "t")
        with pytest.raises(AlreadyExists, match="deregistered"):
            declare_table(v1, "t")
        register_table(v1, "t")
        assert ids_of(v1, "t") == [0, 1, 2]
        with pytest.raises(AlreadyExists, match="already registered"):
            register_table(v1, "t")
        with pytest.raises(NotFound):
            register_table(v1, "absent")
        with pytest.raises(InvalidOption):
            register_table(v1, "t2", "t.lance")

    @pytest.mark.parametrize("deregistered", [False, True])
    def test_drop(self, root, v1, deregistered):
        """V1, "Table Existence": what is dropped has no file left, and its name is free."""
        make_table(v1, "t")
        if deregistered:
            deregister_table(v1, "t")
        drop_table(v1, "t")
        assert directories(root) == []
        with pytest.raises(NotFound, match="Cannot drop table 't'"):
            drop_table(v1, "t")
        make_table(v1, "t", numbers(1, 7))
        assert ids_of(v1, "t") == [7]


class TestV2Manifest:
    def test_nested_namespaces(self, v2):
        """V2: "Nested namespaces: Support for hierarchical namespace organization"."""
        for name in ("ns1", "ns1.ns2", "ns1.ns2.ns3", "other"):
            assert create_namespace(v2, name, {"name": name})
        for name in ("t", "ns1.t", "ns1.ns2.t", "ns1.ns2.ns3.t"):
            make_table(v2, name)
        assert namespaces(v2) == ["ns1", "other"]
        assert namespaces(v2, "ns1") == ["ns1.ns2"]
        assert namespaces(v2, recursive=True) == ["ns1", "ns1.ns2", "ns1.ns2.ns3", "other"]
        assert tables(v2) == ["t"]
        assert tables(v2, "ns1.ns2") == ["ns1.ns2.t"]
        assert tables(v2, "ns1", recursive=True) == ["ns1.ns2.ns3.t", "ns1.ns2.t", "ns1.t"]
        assert tables(v2, recursive=True) == ["ns1.ns2.ns3.t", "ns1.ns2.t", "ns1.t", "t"]
        for act in (lambda: tables(v2, "no"), lambda: namespaces(v2, "ns1.t"), lambda: tables(v2, "ns1.no")):
            with pytest.raises(NotFound, match="there is no such namespace"):
                act()

    def test_the_directory_is_not_scanned(self, root, v2):
        """V2: "Table discovery queries the manifest table instead of scanning the directory"."""
        lance.write_dataset(numbers(1), str(root / "t.lance"))
        assert tables(v2) == []
        assert not table_exists(v2, "t")
        make_table(v2, "t")
        assert HASHED.fullmatch(describe_table(v2, "t").path)
        assert ids_of(v2, "t") == [0, 1, 2]

    def test_metadata_support(self, v2):
        """V2: "namespaces can have associated properties/metadata, tables can be renamed"."""
        create_namespace(v2, "ns", {"a": "b", "ü": "ß"})
        assert describe_namespace(v2, "ns").properties == {"a": "b", "ü": "ß"}
        assert alter_namespace(v2, "ns", {"c": "d"}, ["a"]).properties == {"c": "d", "ü": "ß"}
        declared = make_table(v2, "ns.t", k="v")
        assert rename_table(v2, "ns.t", "ns.u").left_behind is None
        info = describe_table(v2, "ns.u")
        assert (info.path, info.properties) == (declared.path, {"k": "v"}), "only the row changes"
        assert not table_exists(v2, "ns.t")
        assert ids_of(v2, "ns.u") == [0, 1, 2]
        move_table(v2, "ns.u", "")
        assert tables(v2) == ["u"]
        assert alter_table(v2, "u", {"n": "1"}, ["k"]).properties == {"n": "1"}
        with pytest.raises(NotFound, match=r"Cannot rename table 'u' to 'no\.u': there is no namespace 'no'"):
            move_table(v2, "u", "no")
        create_namespace(v2, "x")
        with pytest.raises(AlreadyExists):
            rename_table(v2, "u", "x")

    def test_directory_layout(self, root, v2):
        """V2, "Directory Layout": ``__manifest``, and a directory ``<hash>_<object_id>`` for each table."""
        create_namespace(v2, "ns1")
        make_table(v2, "table2")
        make_table(v2, "ns1.table3")
        names = directories(root)
        assert [re.sub(r"^[0-9a-f]{8}", "hash", name) for name in sorted(names, key=lambda name: name[8:])] == [
            "hash_ns1$table3",
            "hash_table2",
            "__manifest",
        ]

    def test_manifest_table_schema(self, v2):
        """V2, "Manifest Table Schema": the five columns, ids joined with ``$``, relative locations, JSON metadata."""
        create_namespace(v2, "ns1", {"a": "b"})
        create_namespace(v2, "ns1.ns2")
        make_table(v2, "ns1.ns2.table_name")
        make_table(v2, "t")
        found = rows(v2)
        assert set(found) == {"ns1", "ns1$ns2", "ns1$ns2$table_name", "t"}
        assert {name: row["object_type"] for name, row in found.items()} == {
            "ns1": "namespace",
            "ns1$ns2": "namespace",
            "ns1$ns2$table_name": "table",
            "t": "table",
        }
        assert found["ns1"]["metadata"] == '{"a":"b"}'
        assert found["ns1"]["location"] is found["ns1"]["base_objects"] is None
        assert (Path(v2.uri) / found["t"]["location"]).is_dir()
        schema = raw(v2).schema
        assert [str(field.type) for field in schema][:4] == ["string"] * 4
        assert [field.nullable for field in schema] == [False, False, True, True, True]

    def test_schema_extensibility(self, v2):
        """V2, "Schema Extensibility": "Implementations should preserve unrecognized columns during updates"."""
        create_namespace(v2, "ns")
        make_table(v2, "ns.t")
        make_table(v2, "ns.gone")
        raw(v2).add_columns({"partition": "concat('p-', object_id)"})
        _everything(v2)
        found = rows(v2)
        assert (found["ns"]["partition"], found["ns$renamed"]["partition"]) == ("p-ns", "p-ns$t")
        assert found["ns$late"]["partition"] is None

    def test_rows_of_unknown_type_are_left_alone(self, v2):
        """V2, "Manifest Table Schema": rows of types that are not listed there belong to other tools."""
        create_namespace(v2, "ns")
        make_table(v2, "ns.t")
        make_table(v2, "ns.gone")
        own = [
            Entry("ns$t$1", "table_version", None, '{"manifest_path":"p"}'),
            Entry("ns$gone$1", "table_version", None, '{"manifest_path":"q"}'),
            Entry("ns$v", "view", None, "SELECT"),
            Entry("w", "view", "somewhere"),
        ]
        lance.write_dataset(new_rows(raw(v2).schema, own), v2.manifest.uri, mode="append")
        _everything(v2)
        found = rows(v2)
        assert {name for name, row in found.items() if row["object_type"] not in ("table", "namespace")} == {
            "ns$renamed$1",  # goes with its table
            "ns$v",
            "w",
        }
        assert found["ns$renamed$1"]["metadata"] == '{"manifest_path":"p"}'
        assert found["ns$v"]["metadata"] == "SELECT"
        assert tables(v2, "ns") == ["ns.late", "ns.renamed"]
        for name in ("ns.late", "ns.renamed"):
            drop_table(v2, name)
        with pytest.raises(Refused, match=r"not empty.*'ns\.v'"):
            drop_namespace(v2, "ns")
        for act in (lambda: create_namespace(v2, "w"), lambda: declare_table(v2, "w")):
            with pytest.raises(AlreadyExists, match="a view of that name"):
                act()

    def test_root_namespace_properties(self, v2):
        """V2, "Root Namespace Properties": no row; key-value pairs in the metadata of the table."""
        alter_namespace(v2, "", {"owner": "p", "schema": "s"})
        assert namespace_exists(v2, "")
        assert describe_namespace(v2, "").properties == raw(v2).metadata == {"owner": "p", "schema": "s"}
        assert rows(v2) == {}
        _everything_in_root(v2)
        assert alter_namespace(v2, "", unset=["schema"]).properties == {"owner": "p"}
        with pytest.raises(Refused, match="the root cannot be dropped"):
            drop_namespace(v2, "", cascade=True)
        with pytest.raises(AlreadyExists):
            create_namespace(v2, "")

    def test_manifest_table_indexes(self, v2):
        """V2, "Manifest Table Indexes": BTREE on object_id, Bitmap on object_type, LabelList on base_objects."""
        for number in range(30):
            create_namespace(v2, f"n{number}")
            assert indexes(v2) == {"object_id_btree", "object_type_bitmap", "base_objects_label_list"}
        kinds = {index.name: index.index_type for index in raw(v2).describe_indices()}
        assert {name: kind.upper().replace("_", "") for name, kind in kinds.items()} == {
            "object_id_btree": "BTREE",
            "object_type_bitmap": "BITMAP",
            "base_objects_label_list": "LABELLIST",
        }
        assert "ScalarIndexQuery" in raw(v2).scanner(filter="object_id = 'n3'").explain_plan()

    @pytest.mark.parametrize("name", ["ns", "t"])
    def test_manifest_table_commits(self, v2, name):
        """V2, "Manifest Table Commits": adding checks atomically whether the entry exists, and fails accordingly.

        What happens when several do it at once is in test_catalog_races.py and test_catalog_manifest.py.
        """
        create_namespace(v2, "ns")
        make_table(v2, "t")
        before = raw(v2).version
        for act in (
            lambda: create_namespace(v2, name),
            lambda: declare_table(v2, name),
            lambda: register_table(v2, name, describe_table(v2, "t").path),
        ):
            with pytest.raises(AlreadyExists, match=f"'{name}'"):
                act()
        assert raw(v2).version == before
        assert not create_namespace(v2, "ns", exist_ok=True)
        with pytest.raises(AlreadyExists):
            create_namespace(v2, "t", exist_ok=True)

    def test_manifest_table_directory(self, root, v2):
        """V2, "Manifest Table Directory": ``<hash>_<object_id>``, another hash when it is created again."""
        create_namespace(v2, "ns1")
        hashes = set()
        for _ in range(3):
            declared = make_table(v2, "ns1.my_table")
            hash_, _, object_id = declared.path.partition("_")
            assert re.fullmatch(r"[0-9a-f]{8}", hash_)
            assert object_id == "ns1$my_table"
            hashes.add(hash_)
            assert drop_table(v2, "ns1.my_table").data_kept is False
            assert not (root / declared.path).exists()
        assert len(hashes) == 3

    def test_deregister_and_register(self, root, v2):
        """V2: "All operations can be supported": a table leaves the catalog with its data kept, and comes back."""
        create_namespace(v2, "ns")
        make_table(v2, "ns.t", k="v")
        removed = deregister_table(v2, "ns.t")
        assert (removed.properties, removed.data_kept) == ({"k": "v"}, True)
        assert not table_exists(v2, "ns.t")
        assert look_at(v2.root, removed.path).has_files
        for location in (removed.path, str(root / removed.path), None):
            info = register_table(v2, "ns.t", location, removed.properties)
            assert (info.path, info.properties) == (removed.path, {"k": "v"})
            assert ids_of(v2, "ns.t") == [0, 1, 2]
            with pytest.raises(AlreadyExists, match=r"belongs to 'ns\.t'"):
                register_table(v2, "ns.other", removed.path)
            deregister_table(v2, "ns.t")
        register_table(v2, "ns.elsewhere", removed.path)
        assert not (root / removed.path / ".lance-deregistered").exists()

    @pytest.mark.parametrize(
        "location", ["../x", "/elsewhere/t.lance", "s3://other/t.lance", "a//b", "__manifest", "."]
    )
    def test_nothing_outside_of_the_catalog_is_registered(self, v2, location):
        """V2, "Manifest Table Schema": a location is a "relative path to the table directory within the root"."""
        with pytest.raises(InvalidOption, match="Cannot register table 't'"):
            register_table(v2, "t", location)
        with pytest.raises(NotFound, match="there is no table at 'absent'"):
            register_table(v2, "t", "absent")

    def test_dropping_a_namespace(self, root, v2):
        """V2: namespaces are dropped when they are empty, or with all that is in them."""
        for name in ("a", "a.b", "ab"):
            create_namespace(v2, name)
        for name in ("a.t", "a.b.t", "ab.t", "t"):
            make_table(v2, name)
        with pytest.raises(Refused, match="Cannot drop namespace 'a': it is not empty"):
            drop_namespace(v2, "a")
        dropped = drop_namespace(v2, "a", cascade=True)
        assert sorted(str(found.identifier) for found in dropped) == ["a.b.t", "a.t"]
        assert (namespaces(v2, recursive=True), tables(v2, recursive=True)) == (["ab"], ["ab.t", "t"])
        assert len(directories(root)) == 3
        with pytest.raises(NotFound, match="Cannot drop namespace 'a'"):
            drop_namespace(v2, "a")


def _everything(catalog):
    """All operations, on a catalog with ns, ns.t and ns.gone, until ns.renamed and ns.late are left."""
    create_namespace(catalog, "ns.sub")
    rename_table(catalog, "ns.t", "ns.renamed")
    alter_namespace(catalog, "ns", {"k": "v"})
    alter_table(catalog, "ns.renamed", {"k": "v"})
    drop_table(catalog, "ns.gone")
    make_table(catalog, "ns.late")
    path = deregister_table(catalog, "ns.late").path
    register_table(catalog, "ns.late", path)
    withdraw(catalog, declare_table(catalog, "ns.sub.x"))
    make_table(catalog, "ns.sub.y")
    drop_namespace(catalog, "ns.sub", cascade=True)
    for number in range(15):
        create_namespace(catalog, f"ns.n{number}")
    for number in range(15):
        drop_namespace(catalog, f"ns.n{number}")
    migrate(catalog)


def _everything_in_root(catalog):
    create_namespace(catalog, "a")
    make_table(catalog, "t")
    drop_namespace(catalog, "a")
    drop_table(catalog, "t")


class TestCompatibilityMode:
    def test_it_is_the_default(self, root, both):
        """Compatibility Mode: "By default ... supporting both V1 and V2 tables simultaneously"."""
        assert open_catalog(str(root)).mode == "compatibility"
        lance.write_dataset(numbers(1), str(root / "old.lance"))
        create_namespace(both, "ns")
        make_table(both, "ns.t")
        make_table(both, "new")
        assert tables(both, recursive=True) == ["new", "ns.t", "old"]

    def test_1_the_manifest_comes_first(self, root, both):
        """Compatibility Mode, 1: "first checks the manifest table, then falls back" to the directory."""
        lance.write_dataset(numbers(2), str(root / "a.lance"))
        assert describe_table(both, "a").registered is False
        assert table_exists(both, "a")
        make_table(open_catalog(str(root), mode="v2"), "a", numbers(3, 10))
        assert ids_of(both, "a") == [10, 11, 12]
        put(root, "m.lance/.lance-deregistered", "m.lance/x")
        assert not table_exists(both, "m")
        register = new_rows(raw(both).schema, [Entry("m", "table", "m.lance")])
        lance.write_dataset(register, both.manifest.uri, mode="append")
        assert table_exists(both, "m"), "a mark says nothing about a table with a row"

    def test_2_listings_are_merged_by_name(self, root, both):
        """Compatibility Mode, 2: merged, "with manifest entries taking precedence when duplicates exist"."""
        for name in ("a", "b", "d", "ü"):
            lance.write_dataset(numbers(1), str(root / f"{name}.lance"))
        (root / "empty.lance").mkdir()
        make_table(open_catalog(str(root), mode="v2"), "b", numbers(5))
        make_table(both, "c")
        assert tables(both) == ["a", "b", "c", "d", "ü"]
        assert len(ids_of(both, "b")) == 5
        pages, token = [], None
        while token is not None or not pages:
            page = list_tables(both, limit=2, page_token=token)
            pages.append([str(found) for found in page])
            token = page.next_token
        assert pages == [["a", "b"], ["c", "d"], ["ü"]]

    def test_2_a_directory_that_a_row_names_is_that_table_alone(self, root, both, v2):
        """Compatibility Mode, 2: one table is one table, also when it has another name than its directory."""
        lance.write_dataset(numbers(2), str(root / "old.lance"))
        migrate(v2)
        rename_table(v2, "old", "new")  # without compatibility only the row changes
        assert tables(both) == ["new"]
        assert not table_exists(both, "old")
        with pytest.raises(NotFound, match="belongs to table 'new'"):
            drop_table(both, "old")
        with pytest.raises(AlreadyExists):
            declare_table(both, "old")
        assert ids_of(both, "new") == [0, 1]

    def test_3_tables_in_the_root_have_a_row_and_the_name_of_v1(self, both, v1, v2):
        """Compatibility Mode, 3: "registered in the manifest and uses the V1 <table_name>.lance naming convention"."""
        declared = make_table(both, "t", k="v")
        assert declared.path == rows(both)["t"]["location"] == "t.lance"
        assert tables(v1) == tables(v2) == tables(both) == ["t"]
        assert ids_of(v1, "t") == ids_of(v2, "t") == [0, 1, 2]
        assert describe_table(both, "t").properties == {"k": "v"}

    def test_3_what_v1_has_is_not_created_again(self, root, both):
        """Compatibility Mode, 3 and 1: a table that is a directory only exists."""
        lance.write_dataset(numbers(2), str(root / "t.lance"))
        put(root, "m.lance/.lance-deregistered", "m.lance/x")
        for name in ("t", "m"):
            with pytest.raises(AlreadyExists, match=f"Cannot create table '{name}'"):
                declare_table(both, name)
        with pytest.raises(AlreadyExists, match="a table of that name"):
            create_namespace(both, "t")
        make_table(both, "other")
        with pytest.raises(AlreadyExists, match="a table of that name"):
            rename_table(both, "other", "t")
        assert rows(both).keys() == {"other"}
        assert ids_of(both, "t") == [0, 1]

    @pytest.mark.parametrize("registered", [True, False])
    def test_4_a_renamed_table_goes_to_a_hashed_path(self, root, both, v1, v2, registered):
        """Compatibility Mode, 4: a renamed table in the root "transitions to the V2 hash-based path naming"."""
        if registered:
            make_table(both, "t", k="v")
        else:
            lance.write_dataset(numbers(3), str(root / "t.lance"))
        dataset = lance.dataset(str(root / "t.lance"))
        dataset.tags.create("v1", 1)
        dataset.delete("id = 1")
        rename_table(both, "t", "u")
        info = describe_table(both, "u")
        assert HASHED.fullmatch(info.path)
        assert info.path.endswith("_u")
        assert info.properties == ({"k": "v"} if registered else {})
        assert directories(root) == sorted([info.path, "__manifest"])
        assert tables(both) == tables(v2) == ["u"]
        assert tables(v1) == []
        assert ids_of(both, "u") == [0, 2]
        assert lance.dataset(info.location.uri, version="v1").count_rows() == 3
        assert os.listdir(info.location.uri).count(".lance-incomplete") == 0
        make_table(both, "t", numbers(1, 50))
        assert (ids_of(both, "t"), ids_of(both, "u")) == ([50], [0, 2])
        rename_table(both, "u", "w")
        assert describe_table(both, "w").path == info.path, "it is hashed already"

    def test_4_moved_into_a_namespace(self, both):
        """Compatibility Mode, 4 and 5: the directory of V1 would go on to be a table in the root."""
        create_namespace(both, "ns")
        make_table(both, "t")
        move_table(both, "t", "ns")
        assert (tables(both), tables(both, "ns")) == ([], ["ns.t"])
        assert describe_table(both, "ns.t").path.endswith("_ns$t")
        move_table(both, "ns.t", "")
        assert tables(both) == ["t"]
        assert ids_of(both, "t") == [0, 1, 2]

    def test_4_a_declared_table_is_renamed_as_well(self, both):
        """Compatibility Mode, 4: also before it has data."""
        declare_table(both, "t")
        rename_table(both, "t", "u")
        assert describe_table(both, "u").declared
        assert tables(both) == ["u"]

    def test_4_a_table_that_others_read_does_not_move(self, root, both, v2):
        """Compatibility Mode, 4: branches and clones name the files by where they are, so it is refused."""
        declared = make_table(both, "t")
        lance.dataset(declared.location.uri).create_branch("exp")
        with pytest.raises(Refused, match="Cannot rename table 't' to 'u': its branches"):
            rename_table(both, "t", "u")
        assert tables(both) == ["t"]
        assert directories(root) == ["__manifest", "t.lance"]
        rename_table(v2, "t", "u")
        assert ids_of(both, "u") == [0, 1, 2]
        assert lance.dataset(locate_table(both, "u").uri).checkout_version(("exp", None)).count_rows() == 3

    def test_columns_and_rows_of_other_tools_survive_the_jobs_as_well(self, root, both):
        """V2, "Schema Extensibility": also a move to another path, a migration, the doctor and the collector."""
        create_namespace(both, "ns")
        make_table(both, "t")
        own = [Entry("t$1", "table_version", None, '{"manifest_path":"p"}'), Entry("w", "view", "somewhere")]
        lance.write_dataset(new_rows(raw(both).schema, own), both.manifest.uri, mode="append")
        raw(both).add_columns({"partition": "concat('p-', object_id)"})
        rename_table(both, "t", "u")
        move_table(both, "u", "ns")
        lance.write_dataset(numbers(2), str(root / "v1.lance"))
        assert [str(found) for found in migrate(both).tables] == ["v1"]
        shutil.rmtree(make_table(both, "ns.dead").location.uri)
        (root / "0000beef_ns$x").mkdir()
        raw(both).drop_index("object_type_bitmap")
        later = datetime.now(timezone.utc) + timedelta(days=2)
        assert collect_orphans(plan_orphans(both, later)).deleted == ("0000beef_ns$x",)
        mended = {found.kind for found in mend(both, examine(both, later))}
        assert mended == {"dead row", "missing index"}
        assert examine(both, later) == ()
        register_table(both, "v1", deregister_table(both, "v1").path)
        found = rows(both)
        assert {name: row["partition"] for name, row in found.items()} == {
            "ns": "p-ns",
            "ns$u": "p-t",
            "ns$u$1": "p-t$1",
            "w": "p-w",
            "v1": None,
        }
        assert found["ns$u$1"]["metadata"] == '{"manifest_path":"p"}'
        assert (found["w"]["object_type"], found["w"]["location"]) == ("view", "somewhere")
        assert ids_of(both, "ns.u") == [0, 1, 2]

    def test_5_child_namespaces_are_v2_only(self, root, both):
        """Compatibility Mode, 5: "For operations in child namespaces, only V2 behavior is used"."""
        create_namespace(both, "ns")
        declared = make_table(both, "ns.t")
        assert HASHED.fullmatch(declared.path)
        lance.write_dataset(numbers(1), str(root / "ns$x.lance"))
        assert tables(both, "ns") == ["ns.t"]
        assert tables(both) == []
        with pytest.raises(InvalidName):
            table_exists(both, ["ns$x"])
        assert deregister_table(both, "ns.t").path == declared.path
        register_table(both, "ns.t")
        drop_table(both, "ns.t")
        assert directories(root) == ["__manifest", "ns$x.lance"]

    @pytest.mark.parametrize("registered", [True, False])
    def test_deregister_and_register(self, root, both, v1, registered):
        """V1 "Marker Files" and Compatibility Mode: it vanishes, for V1 as well, and comes back with a row."""
        if registered:
            make_table(both, "t", k="v")
        else:
            lance.write_dataset(numbers(3), str(root / "t.lance"))
        removed = deregister_table(both, "t")
        assert (removed.path, removed.data_kept) == ("t.lance", True)
        assert (root / "t.lance" / ".lance-deregistered").exists()
        assert tables(both) == tables(v1) == []
        assert not table_exists(both, "t")
        with pytest.raises(NotFound):
            deregister_table(both, "t")
        info = register_table(both, "t", properties=removed.properties)
        assert (info.path, info.registered, info.properties) == ("t.lance", True, removed.properties)
        assert tables(both) == tables(v1) == ["t"]
        assert ids_of(both, "t") == [0, 1, 2]

    @pytest.mark.parametrize("state", ["registered", "directory", "deregistered", "declared"])
    def test_drop(self, root, both, state):
        """Table Existence and Compatibility Mode: nothing is left, whatever it was."""
        if state == "directory":
            lance.write_dataset(numbers(3), str(root / "t.lance"))
        elif state == "declared":
            declare_table(both, "t")
        else:
            make_table(both, "t")
        if state == "deregistered":
            deregister_table(both, "t")
        drop_table(both, "t")
        assert [name for name in directories(root) if name != "__manifest"] == []
        with pytest.raises(NotFound):
            drop_table(both, "t")
        make_table(both, "t", numbers(1, 9))
        assert ids_of(both, "t") == [9]

    def test_a_directory_of_two_tables_stays_for_the_other(self, root, both):
        """Manifest Table Schema: nothing keeps other tools from giving two ids one location."""
        create_namespace(both, "ns")
        make_table(both, "t")
        twin = new_rows(raw(both).schema, [Entry("ns$twin", "table", "t.lance")])
        lance.write_dataset(twin, both.manifest.uri, mode="append")
        assert drop_table(both, "t").data_kept
        assert not table_exists(both, "t")
        assert ids_of(both, "ns.twin") == [0, 1, 2]
        assert drop_table(both, "ns.twin").data_kept is False
        assert directories(root) == ["__manifest"]


class TestMigration:
    def scene(self, root, both):
        for name in ("a", "b", "ü", "c.d"):
            lance.write_dataset(numbers(2), str(root / f"{name}.lance"))
        put(root, "declared.lance/.lance-reserved", "gone.lance/.lance-deregistered", "gone.lance/x", "file.lance")
        put(root, "a$b.lance/x", "it's.lance/x", "other/x")
        (root / "empty.lance").mkdir()
        make_table(both, "row")

    def test_migration_from_v1_to_v2(self, root, both, v2):
        """Migration: "add all existing V1 table directory paths to the manifest table"; then V2 alone is enough."""
        self.scene(root, both)
        before = tables(both)
        version = raw(both).version
        done = migrate(both)
        assert [str(found) for found in done.tables] == ["a", "b", "`c.d`", "declared", "ü"]
        assert (done.registered, done.executed) == (1, True)
        assert {found.directory: found.why.split()[2] for found in done.skipped} == {
            "file.lance": "a",
            "gone.lance": "deregistered",
            "empty.lance": "no",
            "a$b.lance": "is",
            "it's.lance": "is",
        }
        assert raw(both).version == version + 1, "one commit"
        assert set(tables(v2)) == set(before) - {"`it's`", "it's"}
        for name in ("a", "b", "ü", "`c.d`"):
            assert ids_of(v2, name) == [0, 1]
        assert rows(both)["c.d"]["location"] == "c.d.lance"

    def test_it_is_idempotent_and_adds_what_came_meanwhile(self, root, both, v1):
        """Migration: gradual, "without disrupting existing workflows": writers of V1 may go on."""
        self.scene(root, both)
        migrate(both)
        version = raw(both).version
        assert migrate(both).tables == ()
        assert raw(both).version == version
        make_table(v1, "later")
        drop_table(v1, "a")
        assert [str(found) for found in migrate(both).tables] == ["later"]

    def test_a_dry_run_tells_the_same_and_changes_nothing(self, root, both):
        """Migration, as a plan."""
        self.scene(root, both)
        version = raw(both).version
        planned = migrate(both, dry_run=True)
        assert (len(planned.tables), planned.executed) == (5, False)
        assert "5 tables would be registered" in str(planned)
        assert raw(both).version == version
        assert migrate(both).tables == planned.tables

    def test_thousands_of_tables_are_one_commit_and_indexed(self, root, v2):
        """Migration: "add all existing V1 table directory paths"."""
        put(root, *(f"t{number:04}.lance/.lance-reserved" for number in range(1500)))
        assert len(migrate(v2).tables) == 1500
        messages = [
            (raw(v2).read_transaction(found["version"]).transaction_properties or {}).get("__lance_commit_message")
            for found in raw(v2).versions()
        ]
        assert [text for text in messages if text] == ["add tables", "index the catalog"]
        assert len(tables(v2)) == 1500
        assert len(indexes(v2)) == 3


@pytest.mark.parametrize(
    "name", ["", "a$b", "a/b", "../evil", "a\\b", "a\0b", "..", "it's", 'a"b', "a?b", " a", "x" * 300]
)
@pytest.mark.parametrize("mode", MODES)
def test_a_bad_name_touches_nothing(root, mode, name):
    """Issue, "Bad input": every rule is checked first."""
    catalog = open_catalog(str(root / "lake"), mode=mode)
    for act in (
        lambda: declare_table(catalog, [name]),
        lambda: create_namespace(catalog, [name]),
        lambda: register_table(catalog, [name], "x"),
        lambda: rename_table(catalog, "a", [name]),
    ):
        with pytest.raises(InvalidName):
            act()
    assert os.listdir(root) == []


def test_paging(v2):
    """Listing: pages in the order of the ids' bytes, whatever is created or dropped in between."""
    create_namespace(v2, "ns")
    for number in (3, 1, 2, 5, 4):
        declare_table(v2, f"ns.t{number}")
    page = list_tables(v2, "ns", limit=2)
    assert [str(found) for found in page] == ["ns.t1", "ns.t2"]
    drop_table(v2, "ns.t2")
    drop_table(v2, "ns.t3")
    page = list_tables(v2, "ns", limit=2, page_token=page.next_token)
    assert [str(found) for found in page] == ["ns.t4", "ns.t5"]
    assert page.next_token is None
    with pytest.raises(InvalidOption):
        list_tables(v2, "ns", limit=0)
