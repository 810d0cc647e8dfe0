"""Tags of a whole lake: one version of each table, kept by every cleanup, whatever dies while they are made."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest
from lance_namespace import ListTablesRequest
from support.catalogs import ids_of, make_table, pylance, raw, rows, tables
from support.cleanup_datasets import RUNNER, overwrite
from support.killed import killed_at
from support.local_datasets import numbers

from lance_spark.catalog import lake, manifest_commits
from lance_spark.catalog.entry_rules import RemoveTable
from lance_spark.catalog.lake import at_ref, create_ref, delete_ref, list_refs
from lance_spark.catalog.lake_rules import KEY, TAG
from lance_spark.catalog.lookup import (
    create_namespace,
    describe_namespace,
    describe_table,
    open_catalog,
    open_table,
    read_name,
)
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.removing import collect_orphans, drop_table, plan_orphans, rename_table
from lance_spark.catalog.tables import alter_table, declare_table, deregister_table
from lance_spark.cleanup.lake import clean_lake
from lance_spark.cleanup.many_tables import FleetOptions
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.ref_expressions import TypedRef
from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, CorruptData, InvalidName, InvalidOption, NotFound, Refused, StorageFailure
from lance_spark.refs.refs import alter_tag, delete_tag, list_tags, move_tag

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
NONE = timedelta(0)
EVERYTHING = CleanupPolicy(
    older_than=NONE, commit_window=NONE, delete_unverified=True, error_if_tagged_old_versions=False
)


@pytest.fixture
def catalog(tmp_path):
    """ns.t with two versions, t in the root, old of V1 only, and a name without data."""
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns", {"owner": "me"})
    overwrite(make_table(catalog, "ns.t", color="red").location.uri, 10)
    make_table(catalog, "t")
    lance.write_dataset(numbers(3), f"{catalog.uri}/old.lance")
    declare_table(catalog, "ns.empty")
    return catalog


@pytest.fixture
def tagged(catalog):
    create_ref(catalog, TAG, "v1", NOW)
    return at_ref(catalog, TAG, "v1")


def read(catalog, name):
    location, pin = open_table(catalog, name, RefSpec())
    return lance.dataset(location.uri, version=pin.version).to_table()["id"].to_pylist()


def change_everything(catalog):
    for name in ("ns.t", "t"):
        overwrite(describe_table(catalog, name).location.uri, 90)
    overwrite(f"{catalog.uri}/old.lance", 90)
    alter_table(catalog, "ns.t", {"color": "blue"})
    make_table(catalog, "ns.new")
    create_namespace(catalog, "later")


def own_tags(catalog):
    """Names of the tags that pylance lists on the tables."""
    datasets = [path.parent for path in Path(catalog.uri).glob("*/_versions") if path.parent.name != "__manifest"]
    return {tag for path in datasets for tag in lance.dataset(str(path)).tags.list()}


def test_a_tag_has_one_version_of_each_table_whatever_happens_later(catalog, tagged):
    assert (tagged.ref.name, tagged.ref.tables, tagged.ref.created_at) == ("v1", 3, NOW)
    change_everything(catalog)
    assert tables(tagged, recursive=True) == ["ns.empty", "ns.t", "old", "t"]
    assert [read(tagged, name) for name in ("ns.t", "t", "old")] == [[10, 11, 12], [0, 1, 2], [0, 1, 2]]
    assert describe_table(tagged, "ns.t").properties == {"color": "red"}
    assert describe_namespace(tagged, "ns").properties == {"owner": "me"}
    assert [describe_table(tagged, name).declared for name in ("ns.t", "ns.empty")] == [False, True]
    with pytest.raises(NotFound, match="had no data when tag 'v1'"):
        open_table(tagged, "ns.empty", RefSpec())
    with pytest.raises(NotFound, match="no such table"):
        open_table(tagged, "ns.new", RefSpec())
    assert [tag.name for tag in list_refs(catalog, TAG)] == ["v1"]


@pytest.mark.parametrize("mode", ["compatibility", "v2"])
def test_other_readers_of_the_lake_see_nothing_of_it(catalog, mode):
    catalog = open_catalog(catalog.uri, mode=mode)
    before = rows(catalog), raw(catalog).version, pylance(catalog).list_tables(ListTablesRequest(id=[])).tables
    create_ref(catalog, TAG, "v1", NOW)
    assert (rows(catalog), raw(catalog).version) == before[:2]
    assert pylance(catalog).list_tables(ListTablesRequest(id=[])).tables == before[2]
    assert describe_table(catalog, "ns.t").properties == {"color": "red"}
    assert ids_of(catalog, "ns.t") == [10, 11, 12]


def test_the_tag_of_a_table_is_as_pylance_writes_it(catalog, tagged):
    uri = describe_table(catalog, "ns.t").location.uri
    dataset = lance.dataset(uri)
    dataset.tags.create("its-own", 2)
    ours, its_own = (
        json.loads(Path(f"{uri}/_refs/tags/{name}.json").read_text()) for name in (tagged.ref.pin_tag, "its-own")
    )
    times = ("createdAt", "updatedAt")
    assert {key: value for key, value in ours.items() if key not in times} == {
        key: value for key, value in its_own.items() if key not in times
    }
    assert ours.keys() == its_own.keys()
    known = dataset.tags.list()[tagged.ref.pin_tag]
    assert known["created_at"] == NOW
    assert lance.dataset(uri, version=tagged.ref.pin_tag).to_table()["id"].to_pylist() == [10, 11, 12]


def test_every_cleanup_keeps_the_versions(catalog, tagged):
    change_everything(catalog)
    for name in ("ns.t", "t"):
        dataset = lance.dataset(describe_table(catalog, name).location.uri)
        dataset.cleanup_old_versions(older_than=NONE, delete_unverified=True, error_if_tagged_old_versions=False)
    raw(catalog).cleanup_old_versions(older_than=NONE, delete_unverified=True, error_if_tagged_old_versions=False)
    report = clean_lake(catalog, FleetOptions(EVERYTHING, True), RUNNER, datetime.now(timezone.utc) + timedelta(days=9))
    assert report.complete
    assert [read(tagged, name) for name in ("ns.t", "t", "old")] == [[10, 11, 12], [0, 1, 2], [0, 1, 2]]

    delete_ref(catalog, TAG, "v1")
    assert (own_tags(catalog), list_refs(catalog, TAG)) == (set(), [])
    assert not raw(catalog).branches.list()
    clean_lake(catalog, FleetOptions(EVERYTHING, True), RUNNER, datetime.now(timezone.utc) + timedelta(days=9))
    assert len(lance.dataset(describe_table(catalog, "ns.t").location.uri).versions()) == 1
    assert ids_of(catalog, "ns.t") == [90, 91, 92]


STEPS = ["create_branch_at", "_note", "newest_manifest", "write_below", "replace_rows", "write_below 2", "_note 2"]


def killed(monkeypatch, step, after):
    """A process that ends right before or right after a step."""
    monkeypatch.setattr(lake, "_AT_ONCE", 1)
    name, _, call = step.partition(" ")
    return killed_at(manifest_commits if name == "replace_rows" else lake, name, int(call or 1), after=after)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_creation_leaves_nothing_or_what_can_be_deleted(catalog, monkeypatch, step, after):
    before = rows(catalog)
    with killed(monkeypatch, step, after):
        create_ref(catalog, TAG, "v1", NOW)
    assert rows(catalog) == before
    done = (step, after) == ("_note 2", True)
    if (step, after) == ("create_branch_at", False):
        assert list_refs(catalog, TAG) == []
    else:
        assert [tag.ready for tag in list_refs(catalog, TAG)] == [done]
        with pytest.raises(AlreadyExists):
            create_ref(catalog, TAG, "v1", NOW)
        if not done:
            with pytest.raises(NotFound, match="incomplete"):
                at_ref(catalog, TAG, "v1")
        delete_ref(catalog, TAG, "v1")
    assert own_tags(catalog) == set()
    create_ref(catalog, TAG, "v1", NOW)
    assert read(at_ref(catalog, TAG, "v1"), "ns.t") == [10, 11, 12]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["_note", "_unpin", "_unpin 2"])
def test_a_killed_deletion_is_never_a_tag_without_its_versions(catalog, tagged, monkeypatch, step, after):
    with killed(monkeypatch, step, after):
        delete_ref(catalog, TAG, "v1")
    if (step, after) == ("_note", False):
        assert read(tagged, "ns.t") == [10, 11, 12]
    else:
        with pytest.raises(NotFound, match="was deleted"):
            open_table(tagged, "ns.t", RefSpec())
        with pytest.raises(NotFound, match="incomplete"):
            at_ref(catalog, TAG, "v1")
    delete_ref(catalog, TAG, "v1")
    assert (own_tags(catalog), list_refs(catalog, TAG)) == (set(), [])


def test_a_failed_creation_leaves_nothing(catalog, monkeypatch):
    monkeypatch.setattr(lake, "newest_manifest", lambda _: (_ for _ in ()).throw(StorageFailure("503")))
    with pytest.raises(StorageFailure):
        create_ref(catalog, TAG, "v1", NOW)
    assert (own_tags(catalog), list_refs(catalog, TAG)) == (set(), [])


def test_a_tag_that_was_deleted_and_created_again_is_another_one(catalog, tagged):
    delete_ref(catalog, TAG, "v1")
    change_everything(catalog)
    create_ref(catalog, TAG, "v1", NOW)
    with pytest.raises(NotFound, match="was deleted since"):
        open_table(tagged, "ns.t", RefSpec())
    assert read(at_ref(catalog, TAG, "v1"), "ns.t") == [90, 91, 92]


def test_a_pinned_table_is_dropped_or_moved_only_on_purpose(catalog, tagged):
    with pytest.raises(Refused, match=r"tag 'v1' of the lake pins 'ns\.t'"):
        drop_table(catalog, "ns.t")
    with pytest.raises(Refused, match="pins 'old'"):
        drop_table(catalog, "old")
    with pytest.raises(Refused, match="pins 't'"):
        rename_table(catalog, "t", "u")
    rename_table(catalog, "ns.t", "ns.u")  # only its row changes
    assert read(tagged, "ns.t") == [10, 11, 12]
    assert drop_table(catalog, "ns.empty").data_kept is False
    drop_table(catalog, "ns.u", force=True)
    with pytest.raises(NotFound):
        open_table(tagged, "ns.t", RefSpec())
    delete_ref(catalog, TAG, "v1")


def test_directories_that_only_a_tag_names_are_kept(catalog, tagged):
    """pylance's namespace takes a row away and leaves no mark."""
    location = describe_table(catalog, "ns.t").location
    later = datetime.now(timezone.utc) + timedelta(days=9)
    described = describe_table(catalog, "ns.t")
    manifest_commits.apply(catalog.manifest, RemoveTable(described.identifier, described.path))
    assert plan_orphans(catalog, later, datasets=True).orphans == ()
    assert read(tagged, "ns.t") == [10, 11, 12]
    plan = plan_orphans(catalog, later, datasets=True)
    delete_ref(catalog, TAG, "v1", purge=True)
    assert plan.orphans == ()
    assert len(collect_orphans(plan_orphans(catalog, later, datasets=True)).deleted) == 1
    assert not Path(location.uri).exists()


def test_a_tag_that_cannot_be_read_stops_the_collection(catalog, tagged):
    deregister_table(catalog, "ns.empty")
    for file in Path(f"{catalog.uri}/__manifest/tree/tags/v1/data").iterdir():
        file.unlink()
    with pytest.raises((CorruptData, NotFound)):
        plan_orphans(catalog, NOW, datasets=True)
    with pytest.raises((CorruptData, NotFound)):
        drop_table(catalog, "ns.t")


@pytest.mark.parametrize(
    "change",
    [
        lambda at: drop_table(at, "ns.t"),
        lambda at: drop_table(at, "ns.t", force=True),
        lambda at: rename_table(at, "ns.t", "ns.u"),
        lambda at: declare_table(at, "ns.u"),
        lambda at: deregister_table(at, "old"),
        lambda at: alter_table(at, "ns.t", {"a": "b"}),
        lambda at: create_namespace(at, "other"),
        lambda at: create_ref(at, TAG, "v2", NOW),
        lambda at: delete_ref(at, TAG, "v1"),
        lambda at: read_name(at, "ns.t@main"),
        lambda at: read_name(at, "ns.t", TypedRef(version=1)),
        lambda at: open_table(at, "ns.t", RefSpec(version=1)),
    ],
)
def test_nothing_of_a_tag_can_be_changed(catalog, tagged, change):
    before = rows(catalog), own_tags(catalog)
    with pytest.raises(Refused, match="tag 'v1'"):
        change(tagged)
    assert (rows(catalog), own_tags(catalog)) == before
    assert read(tagged, "ns.t") == [10, 11, 12]


def test_names_in_sql_are_those_of_the_tag(tagged):
    found = read_name(tagged, ["ns", "t"])
    assert (str(found.table), found.spec, found.metadata_table) == ("ns.t", RefSpec(version=2), None)
    assert read_name(tagged, ["ns", "t", "branches"]).metadata_table == "branches"


def test_what_cannot_be_had_is_refused(tmp_path, catalog):
    lance.write_dataset(numbers(3), str(tmp_path / "plain" / "t.lance"))
    with pytest.raises(Refused, match=r"has no __manifest\.\n.*migrate"):
        create_ref(open_catalog(str(tmp_path / "plain")), TAG, "v1", NOW)
    plain = open_catalog(str(tmp_path / "plain"))
    migrate(plain)
    create_ref(plain, TAG, "v1", NOW)
    assert read(at_ref(plain, TAG, "v1"), "t") == [0, 1, 2]
    for wrong in ("a/b", "", "é", "a..b"):
        with pytest.raises(InvalidName):
            create_ref(catalog, TAG, wrong, NOW)
    with pytest.raises(NotFound, match="no tag of the lake 'v2'"):
        at_ref(catalog, TAG, "v2")
    with pytest.raises(NotFound):
        delete_ref(catalog, TAG, "v2")
    with pytest.raises(InvalidOption, match="tags of a lake"):
        alter_table(catalog, "ns.t", {KEY: "{}"})
    assert list_refs(open_catalog(str(tmp_path / "plain"), mode="v1"), TAG) == []


def test_the_tags_of_tables_are_not_in_anybodys_way(catalog, tagged):
    """They are no releases: lists omit them, a default cleanup does not stop at them, and nobody deletes one alone."""
    location = describe_table(catalog, "ns.t").location
    overwrite(location.uri, 90)
    assert list_tags(location) == []
    assert [tag.name for tag in list_tags(location, everything=True)] == [tagged.ref.pin_tag]
    for change in (
        lambda: delete_tag(location, tagged.ref.pin_tag),
        lambda: move_tag(location, tagged.ref.pin_tag, RefSpec(version=1)),
        lambda: alter_tag(location, tagged.ref.pin_tag, {"expire_after": "1d"}),
    ):
        with pytest.raises(Refused, match="of the lake"):
            change()
    strict = replace(EVERYTHING, error_if_tagged_old_versions=True)
    report = clean_lake(catalog, FleetOptions(strict, True), RUNNER, datetime.now(timezone.utc) + timedelta(days=9))
    assert report.complete, str(report)
    assert read(tagged, "ns.t") == [10, 11, 12]
