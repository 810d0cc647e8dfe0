"""A whole catalog in one cleanup: its tables, its own table, and directories that no row names."""

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest
from lance_namespace_urllib3_client.models import ListTablesRequest
from support.catalogs import indexes, make_table, pylance, raw, tables
from support.cleanup_datasets import NOW, RUNNER, overwrite
from support.local_datasets import numbers

from lance_spark.catalog.entry_rules import Entry, new_rows
from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.manifest_commits import newest
from lance_spark.catalog.tables import declare_table, deregister_table
from lance_spark.cleanup import lake, many_tables
from lance_spark.cleanup.lake import clean_lake
from lance_spark.cleanup.many_tables import FleetOptions
from lance_spark.cleanup.report import catalog_policy
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.errors import NotFound, StorageFailure

EVERYTHING = CleanupPolicy(
    older_than=NOW, commit_window=NOW, delete_unverified=True, error_if_tagged_old_versions=False
)


@pytest.fixture
def catalog(tmp_path):
    """ns.t with three versions, a clone of its second one that nobody recorded; ns.new, declared; old, of V1 only."""
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns")
    declared = make_table(catalog, "ns.t")
    for start in (10, 20):
        overwrite(declared.location.uri, start)
    clone = declare_table(catalog, "ns.clone")
    lance.dataset(declared.location.uri).shallow_clone(clone.location.uri, ("main", 2))
    declare_table(catalog, "ns.new")
    old = f"{catalog.uri}/old.lance"
    lance.write_dataset(numbers(3), old)
    overwrite(old, 30)
    return catalog


def clean(catalog, execute=True, now=None):
    return clean_lake(catalog, FleetOptions(EVERYTHING, execute), RUNNER, now or datetime.now(timezone.utc))


def states(report):
    return {row["table"]: (row["state"], row["versions"]) for row in report.tables.rows}


def clone_rows(catalog):
    (clone,) = Path(catalog.uri).glob("*_ns$clone")
    return lance.dataset(str(clone)).to_table()["id"].to_pylist()


def test_every_table_is_a_row_and_clones_keep_what_they_read(catalog):
    dry = clean(catalog, execute=False)
    assert states(dry)["ns.t"] == ("would", 2)
    assert str(dry).splitlines()[-1].startswith("dry run: 4 tables: ")
    report = clean(catalog)
    assert (report.complete, report.exit_code) == (True, None)
    assert states(report) == {
        "ns.clone": ("done", 0),
        "ns.new": ("empty", 0),
        "ns.t": ("done", 2),
        "old": ("done", 1),
    }
    assert clone_rows(catalog) == [10, 11, 12]
    assert len(lance.dataset(f"{catalog.uri}/old.lance").versions()) == 1


def test_a_clone_that_is_deregistered_keeps_what_it_reads(catalog):
    deregister_table(catalog, "ns.clone")
    report = clean(catalog)
    assert states(report)["ns.t"] == ("done", 2)
    assert "ns.clone" not in states(report)
    assert clone_rows(catalog) == [10, 11, 12]


def test_one_bad_table_stops_no_other_one(catalog):
    Path(catalog.uri, "old.lance", "_refs", "tags").mkdir(parents=True)
    Path(catalog.uri, "old.lance", "_refs", "tags", "broken.json").write_text("{")
    rows = new_rows(raw(catalog).schema, [Entry("evil", "table", "../evil"), Entry("twice", "table", "old.lance")])
    lance.write_dataset(rows, raw(catalog), mode="append")
    report = clean(catalog)
    assert (report.complete, report.exit_code) == (False, None)
    assert {name for name, _ in report.problems} == {"evil", "twice"}, "one directory is cleaned once"
    assert states(report)["ns.t"] == ("done", 2)
    assert "evil: its row leads to no directory below the catalog" in str(report)


def test_while_one_cannot_be_reached_nothing_is_deleted_and_the_code_says_so(catalog, monkeypatch):
    orphan(catalog, days=2)
    real = many_tables.branch_directories

    def denied(location):
        if location.uri.endswith("$clone"):
            raise StorageFailure("The store does not answer.")
        return real(location)

    monkeypatch.setattr(many_tables, "branch_directories", denied)
    report = clean(catalog)
    assert {state for state, _ in states(report).values()} == {"failed"}
    assert report.exit_code == 20
    assert Path(catalog.uri, "0123abcd_ns$x").exists()


def orphan(catalog, days):
    place = Path(catalog.uri, "0123abcd_ns$x")
    place.mkdir()
    place.joinpath("a.lance").write_bytes(b"123")
    moment = datetime.now(timezone.utc).timestamp() - days * 86_400
    for path in (place / "a.lance", place):
        os.utime(path, (moment, moment))
    return place


@pytest.mark.parametrize("days", [0, 2])
def test_directories_of_no_table_go_after_a_day(catalog, days):
    place = orphan(catalog, days)
    dry = clean(catalog, execute=False)
    assert place.exists()
    assert [(each.name, each.state, each.bytes) for each in dry.upkeep if each.kind == "orphan"] == (
        [(place.name, "would", 3)] if days else []
    )
    report = clean(catalog)
    assert place.exists() is not bool(days)
    assert ("younger than a day" in str(report)) is not bool(days)
    assert tables(catalog, recursive=True) == ["ns.clone", "ns.new", "ns.t", "old"]


def test_the_catalogs_own_table_is_made_one_file_when_that_pays(catalog):
    while len(raw(catalog).get_fragments()) < lake._WORTH:
        create_namespace(catalog, f"n{raw(catalog).version}")
    before, listed = raw(catalog).version, tables(catalog, recursive=True)
    assert "4 files would become one" in str(clean(catalog, execute=False))
    assert raw(catalog).version == before
    report = clean(catalog)
    assert "4 files became one" in str(report)
    assert len(raw(catalog).get_fragments()) == 1
    assert indexes(catalog) == {"object_id_btree", "object_type_bitmap", "base_objects_label_list"}
    assert tables(catalog, recursive=True) == listed
    assert "became" not in str(clean(catalog)), "what is one file stays as it is"


def test_versions_of_the_catalog_go_and_a_client_that_was_open_all_the_time_goes_on(catalog):
    client = pylance(catalog)

    def seen():
        return set(client.list_tables(ListTablesRequest(id=["ns"])).tables)

    for number in range(110):
        create_namespace(catalog, f"n{number}")
    assert seen() == {"t", "clone", "new"}
    declare_table(catalog, "ns.later")
    versions = len(raw(catalog).versions())
    assert clean(catalog).complete
    assert len(raw(catalog).versions()) >= versions, "they are young"
    report = clean(catalog, now=datetime.now(timezone.utc) + timedelta(days=15))
    assert report.complete
    assert len(raw(catalog).versions()) == 100
    assert seen() == {"t", "clone", "new", "later"}
    assert len(tables(catalog, "ns")) == 4
    assert newest(catalog.manifest) is not None


def test_whatever_is_said_for_tables_the_catalog_keeps_what_clients_need():
    chosen = catalog_policy(EVERYTHING)
    assert (chosen.older_than, chosen.retain_versions, chosen.delete_unverified) == (timedelta(days=14), 100, False)
    longer = catalog_policy(CleanupPolicy(older_than=timedelta(days=90), retain_versions=500))
    assert (longer.older_than, longer.retain_versions) == (timedelta(days=90), 500)


def test_tables_of_each_mode_are_cleaned_as_its_clients_see_them(catalog):
    for mode, seen in (("v1", {"old"}), ("v2", {"ns.t", "ns.clone", "ns.new"})):
        report = clean(open_catalog(catalog.uri, mode=mode), execute=False)
        assert set(states(report)) == seen
        assert bool(report.upkeep) is (mode == "v2")


def test_a_place_with_nothing_in_it_is_no_catalog_that_is_clean(tmp_path):
    with pytest.raises(NotFound, match="There is nothing in"):
        clean(open_catalog(str(tmp_path / "typo")))


def test_the_report_is_json_as_well(catalog):
    told = json.loads(clean(catalog, execute=False).to_json())
    assert {table["table"] for table in told["tables"]} == {"ns.clone", "ns.new", "ns.t", "old"}
    assert [each["name"] for each in told["upkeep"]] == ["__manifest"]
    assert told["totals"]["files"] > 0
