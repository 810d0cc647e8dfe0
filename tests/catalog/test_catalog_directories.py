"""Directories of tables by their names and contents, and what can be wrong with a catalog."""

import pickle

import pyarrow as pa
import pytest

from lance_spark.catalog import entry_rules
from lance_spark.catalog.doctor_rules import dead_rows, directory_findings, row_findings, table_findings
from lance_spark.catalog.name_rules import Catalog, identify_table
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData, InvalidOption

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("paths", "is_table"),
    [
        ([], False),
        ([""], False),
        (["data/"], False),
        (["_versions/1.manifest"], True),
        (["data/deep/x"], True),
        ([".lance-reserved"], True),
        ([".lance-deregistered"], False),
        (["_versions/1.manifest", ".lance-deregistered"], False),
        (["data/.lance-deregistered"], True),
    ],
)
def test_a_directory_is_a_table_if_it_has_a_file_and_no_mark(paths, is_table):
    assert entry_rules.state_of(paths).is_table is is_table


def test_nothing_is_no_table():
    assert not entry_rules.ABSENT.has_files
    assert not entry_rules.ABSENT.is_table


@pytest.mark.parametrize(
    ("directory", "name"),
    [("a.lance", "a"), ("a.lance.lance", "a.lance"), (".lance", None), ("a", None), ("a.lanc", None)],
)
def test_v1_takes_a_directory_for_the_table_of_that_name(directory, name):
    assert entry_rules.v1_name(directory) == name
    assert name is None or entry_rules.v1_directory(identify_table([name])) == directory


def test_v2_puts_a_hash_before_the_id():
    assert entry_rules.hashed_directory(identify_table("ns1.my_table"), 2**40 + 0xAB) == "000000ab_ns1$my_table"
    assert entry_rules.hashed_id("000000ab_ns1$my_table") == "ns1$my_table"
    for other in ("t.lance", "__manifest", "0000000g_x", "000000ab_", "000000AB_x", "00000ab_x"):
        assert entry_rules.hashed_id(other) is None


def test_a_mark_tells_who_made_it_and_why():
    mark = entry_rules.Mark("drop", "t0")
    assert entry_rules.read_mark(mark.encode()) == mark
    for other in (None, b"", b"deregistered", b"{}", b"[]", b'{"by":"x","why":"drop","token":"t"}', b"\xff"):
        assert entry_rules.read_mark(other) is None


@pytest.mark.parametrize(
    "path", ["", "/x", "../x", "a/../../x", "a//b", "s3://b/x", ".", "a/", "__manifest", "__manifest/x", "a\\b"]
)
def test_no_row_leads_out_of_the_catalog(path):
    with pytest.raises(CorruptData, match="not a path of a table below its root"):
        Catalog(DatasetLocation("/lake")).at(path)


def test_a_table_is_below_the_root():
    assert Catalog(DatasetLocation("/lake")).at("a b/%$ü").uri == "/lake/a b/%$ü"
    assert Catalog(DatasetLocation("s3://b/lake")).at("00_ns$ü%").uri == "s3://b/lake/00_ns$%C3%BC%25"


def test_a_catalog_pickles_and_shows_no_secret():
    catalog = Catalog(DatasetLocation.at("s3://b/lake", {"aws_secret_access_key": "hush-hush"}), "v2")
    assert pickle.loads(pickle.dumps(catalog)) == catalog
    assert "hush-hush" not in repr(catalog)
    assert (catalog.reads_manifest, catalog.reads_directories) == (True, False)
    with pytest.raises(InvalidOption, match="'v3'"):
        Catalog(DatasetLocation("/lake"), "v3")


def kinds(findings):
    return sorted((finding.kind, finding.subject) for finding in findings)


def test_rows_tell_of_duplicates_missing_parents_odd_names_and_places_outside():
    entries = [
        entry_rules.Entry("ns", "namespace"),
        entry_rules.Entry("ns$a", "table", "d1"),
        entry_rules.Entry("b", "table", "d1"),
        entry_rules.Entry("no$c", "table", "d2"),
        entry_rules.Entry("twice", "table", "d3"),
        entry_rules.Entry("twice", "table", "d4"),
        entry_rules.Entry("it's", "table", "d5"),
        entry_rules.Entry("e", "table", "../e"),
        entry_rules.Entry("f", "table", None),
        entry_rules.Entry("ns$a$1", "table_version"),
        entry_rules.Entry("gone$1", "table_version"),
        entry_rules.Entry("view", "view"),
    ]
    assert kinds(row_findings(entries)) == [
        ("duplicate id", "twice"),
        ("duplicate location", "d1"),
        ("location outside", "e"),
        ("location outside", "f"),
        ("missing namespace", "no$c"),
        ("odd name", "it's"),
        ("stray row", "gone$1"),
    ]
    assert kinds(dead_rows(entries, {"d1": True, "d2": False})) == [("dead row", "no$c")]


def test_a_sound_catalog_has_no_findings():
    entries = [
        entry_rules.Entry("ns", "namespace"),
        entry_rules.Entry("ns$a", "table", "d1"),
        entry_rules.Entry("ns$a$1", "table_version"),
    ]
    names = ["object_id_btree", "object_type_bitmap", "base_objects_label_list"]
    assert list(row_findings(entries)) == []
    assert list(table_findings(entry_rules.SCHEMA, names, dict.fromkeys(entry_rules.SCHEMA.names, 1))) == []


def test_the_table_tells_what_it_lost():
    bare = pa.schema([field.remove_metadata() for field in entry_rules.SCHEMA if field.name != "base_objects"])
    assert kinds(table_findings(bare, ["object_id_btree"], {"owner": 3, "object_id": 3})) == [
        ("lost column", "owner"),
        ("missing index", "base_objects_label_list"),
        ("missing index", "object_type_bitmap"),
        ("missing primary key", "base_objects"),
        ("missing primary key", "object_id"),
    ]


def test_directories_tell_of_ghosts_and_of_tables_without_a_row():
    states = {
        "a.lance": entry_rules.state_of(["x"]),
        "b.lance": entry_rules.state_of(["x"]),
        "c.lance": entry_rules.state_of(["x", ".lance-deregistered"]),
        "d.lance": entry_rules.state_of(["x", ".lance-deregistered"]),
        "e.lance": entry_rules.ABSENT,
        ".lance": entry_rules.state_of(["x"]),
    }
    entries = [entry_rules.Entry("a", "table", "a.lance"), entry_rules.Entry("other", "table", "c.lance")]
    assert kinds(directory_findings(entries, states, ["f.lance", "readme"], True)) == [
        ("ghost", ".lance"),
        ("ghost", "e.lance"),
        ("ghost", "f.lance"),
        ("hidden from V1", "c.lance"),
        ("not registered", "b.lance"),
    ]
