"""``__manifest`` as a table: changes are compare-and-set, indexes and unknown columns stay, readers see the newest."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest
from support.catalogs import indexes, make_table, namespaces, raw, rows, tables

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import INDEXES, PRIMARY_KEY, SCHEMA, AddNamespace, Entry, RowFilter, new_rows
from lance_spark.catalog.lookup import create_namespace, describe_namespace, open_catalog
from lance_spark.catalog.manifest_commits import newest, read_rows
from lance_spark.catalog.name_rules import identify_namespace
from lance_spark.catalog.removing import drop_namespace, rename_table
from lance_spark.catalog.tables import alter_namespace
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, NotFound

ALL_INDEXES = frozenset(name for name, _, _ in INDEXES)


@pytest.fixture
def catalog(tmp_path):
    return open_catalog(str(tmp_path), mode="v2")


def filled(catalog, count=3):
    for number in range(count):
        create_namespace(catalog, f"n{number}")
    return catalog


def test_the_first_write_makes_the_table_the_specification_describes(catalog):
    assert namespaces(catalog) == []
    assert not (catalog.manifest.is_local and shutil.os.path.exists(catalog.manifest.uri)), "a read makes nothing"
    create_namespace(catalog, "a")
    dataset = raw(catalog)
    assert dataset.schema.names == SCHEMA.names
    assert [field.type for field in dataset.schema] == [field.type for field in SCHEMA]
    assert dataset.schema.field("object_id").metadata[PRIMARY_KEY] == b"0"
    assert not dataset.schema.field("object_id").nullable
    assert indexes(catalog) == ALL_INDEXES


def test_a_change_is_small_and_the_indexes_stay_and_are_right(catalog, monkeypatch):
    filled(catalog, 8)
    with monkeypatch.context() as patch:
        patch.setattr(manifest_commits, "_FRAGMENTS", 1)
        create_namespace(catalog, "last")
    before = {found.uuid for index in raw(catalog).describe_indices() for found in index.segments}
    fragments = len(raw(catalog).get_fragments())
    make_table(catalog, "n3.t")
    drop_namespace(catalog, "n1")
    dataset = raw(catalog)
    assert {found.uuid for index in dataset.describe_indices() for found in index.segments} == before
    assert (fragments, len(dataset.get_fragments())) == (1, 2)
    for name, expected in (("n1", []), ("n3$t", ["n3$t"]), ("n0", ["n0"])):
        assert dataset.to_table(filter=f"object_id = '{name}'")["object_id"].to_pylist() == expected
    assert dataset.to_table(filter="object_type = 'table'")["object_id"].to_pylist() == ["n3$t"]


def test_many_changes_leave_few_files_and_whole_indexes(catalog):
    for number in range(40):
        create_namespace(catalog, f"n{number:02}")
        if number % 3 == 0:
            drop_namespace(catalog, f"n{number:02}")
    assert indexes(catalog) == ALL_INDEXES
    assert len(raw(catalog).get_fragments()) <= 12
    assert namespaces(catalog) == [f"n{number:02}" for number in range(40) if number % 3]
    by_index = raw(catalog).to_table(filter="object_id >= 'n' AND object_id < 'o'")["object_id"].to_pylist()
    assert sorted(by_index) == namespaces(catalog)


COMMITS = {
    "append": lambda dataset: lance.write_dataset(
        new_rows(dataset.schema, [Entry("app", "namespace")]), dataset.uri, mode="append"
    ),
    "insert": lambda dataset: (
        dataset.merge_insert("object_id")
        .when_not_matched_insert_all()
        .execute(new_rows(dataset.schema, [Entry("new", "namespace")]))
    ),
    "update": lambda dataset: dataset.update({"metadata": "'{}'"}, where="object_id = 'n0'"),
    "delete": lambda dataset: dataset.delete("object_id = 'n1'"),
    "index": lambda dataset: dataset.create_scalar_index("location", "BTREE"),
    "config": lambda dataset: dataset.update_config({"a": "b"}),
    "metadata": lambda dataset: dataset.update_metadata({"a": "b"}),
    "compaction": lambda dataset: dataset.optimize.compact_files(),
    "overwrite": lambda dataset: lance.write_dataset(dataset.to_table(), dataset.uri, mode="overwrite"),
    "column": lambda dataset: dataset.add_columns({"extra": "'x'"}),
}


@pytest.mark.parametrize("rewrites", [False, True])
@pytest.mark.parametrize("other", sorted(COMMITS.keys() - {"index", "config", "metadata"}))
def test_a_change_is_refused_if_any_row_or_column_was_committed_since_it_was_decided(
    catalog, other, rewrites, monkeypatch
):
    """Else a parent could be gone, or an id taken, by the time the change arrives."""
    filled(catalog)
    seen = newest(catalog.manifest)
    found, addresses = seen.addressed(RowFilter(everything=True))
    edit = AddNamespace(identify_namespace("mine"), {}).edit(found)
    monkeypatch.setattr(manifest_commits, "_FRAGMENTS", 1 if rewrites else 100)
    before = raw(catalog).version
    COMMITS[other](raw(catalog))
    assert raw(catalog).version > before
    gone = manifest_commits._by_fragment(found, addresses, edit.remove)
    with pytest.raises(Conflict):
        manifest_commits._write(catalog.manifest, seen, gone, edit, "test")
    assert "mine" not in rows(catalog)


@pytest.mark.parametrize("other", COMMITS)
def test_after_a_conflict_the_change_is_decided_anew_and_nothing_is_lost(catalog, other, monkeypatch):
    filled(catalog)
    commit, disturbed = manifest_commits.commit, []

    def disturb(*arguments):
        if not disturbed:
            disturbed.append(COMMITS[other](raw(catalog)))
        commit(*arguments)

    monkeypatch.setattr(manifest_commits, "commit", disturb)
    before = set(rows(catalog))
    create_namespace(catalog, "mine")
    assert disturbed
    gone = {"n1"} if other == "delete" else set()
    came = {"append": {"app"}, "insert": {"new"}}.get(other, set())
    assert set(rows(catalog)) == (before | came | {"mine"}) - gone
    if other == "column":
        assert {row["extra"] for name, row in rows(catalog).items() if name != "mine"} == {"x"}


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_change_is_not_lost_where_a_version_since_was_cleaned_up(catalog, rewrites, monkeypatch):
    """pylance writes an overwrite into the number that became free, where nobody ever sees it, and reports success."""
    filled(catalog)
    commit, disturbed = manifest_commits.commit, []

    def disturb(*arguments):
        if not disturbed:
            disturbed.append(raw(catalog).version)
            COMMITS["append"](raw(catalog))
            COMMITS["config"](raw(catalog))
            raw(catalog).cleanup_old_versions(retain_versions=1)
        commit(*arguments)

    monkeypatch.setattr(manifest_commits, "commit", disturb)
    monkeypatch.setattr(manifest_commits, "_FRAGMENTS", 1 if rewrites else 100)
    before = set(rows(catalog))
    create_namespace(catalog, "mine")
    assert disturbed
    assert set(rows(catalog)) == before | {"app", "mine"}


def test_a_conflict_leaves_no_data_file_behind(catalog, monkeypatch):
    filled(catalog)
    commit = manifest_commits.commit

    def disturb(*arguments):
        monkeypatch.setattr(manifest_commits, "commit", commit)
        raw(catalog).delete("object_id = 'n0'")
        commit(*arguments)

    monkeypatch.setattr(manifest_commits, "commit", disturb)
    create_namespace(catalog, "mine")
    named = set()
    for version in raw(catalog).versions():
        for fragment in lance.dataset(raw(catalog).uri, version=version["version"]).get_fragments():
            named |= {file.path for file in fragment.metadata.files}
    assert {path.name for path in (open_path(catalog) / "data").iterdir()} == named


def open_path(catalog):
    from pathlib import Path

    return Path(catalog.manifest.uri)


def test_if_others_commit_again_and_again_it_is_a_conflict(catalog, monkeypatch):
    filled(catalog)
    commit = manifest_commits.commit

    def disturb(*arguments):
        raw(catalog).update({"metadata": "'{}'"}, where="object_id = 'n0'")
        commit(*arguments)

    monkeypatch.setattr(manifest_commits, "commit", disturb)
    monkeypatch.setattr(manifest_commits, "_ATTEMPTS", 3)
    with pytest.raises(Conflict, match="Cannot create namespace 'mine': others kept changing the catalog"):
        create_namespace(catalog, "mine")


def test_two_that_make_the_table_at_once_both_succeed(tmp_path):
    for attempt in range(5):
        catalog = open_catalog(str(tmp_path / str(attempt)), mode="v2")
        start = threading.Barrier(4)
        errors = []

        def create(number, catalog=catalog, start=start, errors=errors):
            start.wait()
            try:
                create_namespace(catalog, f"n{number}")
            except Exception as problem:  # noqa: BLE001 - shown below
                errors.append(problem)

        threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert namespaces(catalog) == ["n0", "n1", "n2", "n3"]


def test_threads_of_one_process_take_turns_and_need_no_second_attempt(catalog, monkeypatch):
    monkeypatch.setattr(manifest_commits, "_ATTEMPTS", 1)
    filled(catalog)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: create_namespace(catalog, f"own{number:02}"), range(32)))
    assert [name for name in namespaces(catalog) if name.startswith("own")] == [f"own{n:02}" for n in range(32)]


def test_a_table_with_unknown_columns_keeps_them_through_every_kind_of_write(catalog, monkeypatch):
    filled(catalog)
    make_table(catalog, "n0.t")
    raw(catalog).add_columns({"owner": "object_id", "size": "7"})
    raw(catalog).update_metadata({"lineage_v1": "p"})
    raw(catalog).update_config({"lance.x": "y"})
    for fragments in (100, 1):
        monkeypatch.setattr(manifest_commits, "_FRAGMENTS", fragments)
        rename_table(catalog, "n0.t", "n1.t")
        rename_table(catalog, "n1.t", "n0.t")
        create_namespace(catalog, f"new{fragments}")
        alter_namespace(catalog, "n2", {"k": "v"})
        drop_namespace(catalog, f"new{fragments}")
    create_namespace(catalog, "late")
    found = rows(catalog)
    assert {name: (row["owner"], row["size"]) for name, row in found.items()} == {
        **{name: (name, 7) for name in ("n0", "n1", "n2", "n0$t")},
        "late": (None, None),
    }
    assert raw(catalog).metadata == {"lineage_v1": "p"}
    assert raw(catalog).config()["lance.x"] == "y"
    assert raw(catalog).schema.field("object_id").metadata[PRIMARY_KEY] == b"0"


def test_a_column_that_was_dropped_and_one_that_was_added_do_not_mix(catalog):
    """Then the numbers of the columns have gaps, which data files repeat."""
    filled(catalog)
    raw(catalog).add_columns({"a": "'a'", "b": "'b'"})
    raw(catalog).drop_columns(["a"])
    for number in range(15):
        create_namespace(catalog, f"x{number}")
    raw(catalog).add_columns({"c": "'c'"})
    for number in range(15):
        create_namespace(catalog, f"y{number}")
    found = rows(catalog)
    assert (found["n0"]["b"], found["n0"]["c"]) == ("b", "c")
    assert (found["x3"]["b"], found["x3"]["c"]) == (None, "c")
    assert (found["y3"]["b"], found["y3"]["c"]) == (None, None)


def test_rows_with_stable_ids_are_understood(tmp_path):
    catalog = open_catalog(str(tmp_path), mode="v2")
    table = new_rows(SCHEMA, [Entry("a", "namespace")])
    lance.write_dataset(table, catalog.manifest.uri, enable_stable_row_ids=True)
    filled(catalog)
    drop_namespace(catalog, "n1")
    assert set(rows(catalog)) == {"a", "n0", "n2"}


@pytest.mark.parametrize("child", ["item", "object_id"])
@pytest.mark.parametrize("missing", [(), ("metadata",), ("base_objects", "metadata")])
def test_a_table_of_an_older_tool_is_upgraded_by_the_first_write(catalog, child, missing):
    old = pa.schema(
        [
            field.remove_metadata().with_type(pa.list_(pa.field(child, pa.string())))
            if field.name == "base_objects"
            else field.remove_metadata()
            for field in SCHEMA
            if field.name not in missing
        ]
    )
    lance.write_dataset(new_rows(old, [Entry("a", "namespace"), Entry("a$t", "table", "00_a$t")]), catalog.manifest.uri)
    assert namespaces(catalog) == ["a"]
    assert tables(catalog, "a") == ["a.t"]
    create_namespace(catalog, "a.b", {"k": "v"})
    assert describe_namespace(catalog, "a.b").properties == {"k": "v"}
    assert set(raw(catalog).schema.names) == set(SCHEMA.names)
    assert raw(catalog).schema.field("object_id").metadata[PRIMARY_KEY] == b"0"
    assert indexes(catalog) == ALL_INDEXES


def test_what_is_no_manifest_is_not_taken_for_one(catalog):
    lance.write_dataset(pa.table({"x": [1]}), catalog.manifest.uri)
    with pytest.raises(CorruptData, match="not the manifest of a catalog"):
        namespaces(catalog)
    with pytest.raises(CorruptData):
        create_namespace(catalog, "a")


def test_a_cleanup_of_old_versions_disturbs_no_client_that_has_been_at_work(catalog):
    filled(catalog)
    assert namespaces(catalog) == ["n0", "n1", "n2"]
    other = lance.dataset(catalog.manifest.uri)
    other.optimize.compact_files()
    other.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert namespaces(catalog) == ["n0", "n1", "n2"]
    create_namespace(catalog, "n3")
    other = lance.dataset(catalog.manifest.uri)
    for number in range(5):
        create_namespace(catalog, f"m{number}")
    lance.dataset(catalog.manifest.uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(namespaces(catalog)) == 9
    with pytest.raises(AlreadyExists):
        create_namespace(catalog, "n3")


def test_a_version_that_is_cleaned_up_while_it_is_read_is_followed_by_the_newest(catalog, monkeypatch):
    filled(catalog)
    really, answers = manifest_commits.newest, []

    def slow(manifest_location):
        snapshot = really(manifest_location)
        if not answers:
            answers.append(snapshot.version)
            raw(catalog).optimize.compact_files()
            raw(catalog).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        return snapshot

    monkeypatch.setattr(manifest_commits, "newest", slow)
    monkeypatch.setattr(
        manifest_commits, "_session", lance.Session
    )  # what is cached would hide that the files are gone
    assert len(read_rows(catalog.manifest, RowFilter(everything=True)).entries) == 3


def test_a_catalog_that_lost_a_file_is_an_error_and_no_empty_one(catalog, monkeypatch):
    filled(catalog)
    monkeypatch.setattr(manifest_commits, "_session", lance.Session)
    for path in (open_path(catalog) / "data").iterdir():
        path.unlink()
    with pytest.raises((CorruptData, NotFound)):
        read_rows(catalog.manifest, RowFilter(everything=True))
    with pytest.raises((CorruptData, NotFound)):
        create_namespace(catalog, "x")


def test_a_catalog_made_anew_in_the_same_place_shows_its_own_rows(catalog):
    filled(catalog)
    assert len(namespaces(catalog)) == 3
    shutil.rmtree(catalog.manifest.uri)
    assert namespaces(catalog) == []
    create_namespace(catalog, "other")
    assert namespaces(catalog) == ["other"]


def test_indexes_that_pylance_took_away_come_back_with_the_next_write(catalog):
    from support.catalogs import pylance

    filled(catalog)
    pylance(catalog).create_namespace(CreateNamespaceRequest(id=["theirs"]))
    assert indexes(catalog) == frozenset()
    create_namespace(catalog, "ours")
    assert indexes(catalog) == ALL_INDEXES
    assert namespaces(catalog) == ["n0", "n1", "n2", "ours", "theirs"]


def test_properties_of_the_root_are_the_metadata_of_the_table(catalog):
    assert describe_namespace(catalog, "").properties == {}
    alter_namespace(catalog, "", {"schema": "x", "ü": "ß"})
    assert raw(catalog).metadata == {"schema": "x", "ü": "ß"}
    alter_namespace(catalog, "", {"schema": "y"}, ["ü", "absent"])
    assert describe_namespace(catalog, "").properties == {"schema": "y"}
    filled(catalog, 15)
    assert describe_namespace(catalog, "").properties == {"schema": "y"}


def test_each_version_says_what_was_done(catalog):
    create_namespace(catalog, "a")
    make_table(catalog, "a.t")
    said = [
        (raw(catalog).read_transaction(version["version"]).transaction_properties or {}).get("__lance_commit_message")
        for version in raw(catalog).versions()
    ]
    assert [text for text in said if text] == ["create namespace 'a'", "index the catalog", "create table 'a.t'"]


def test_a_store_that_cannot_be_read_is_no_empty_catalog(tmp_path):
    (tmp_path / "__manifest" / "_versions").mkdir(parents=True)
    (tmp_path / "__manifest" / "_versions" / "18446744073709551614.manifest").write_bytes(b"\0" * 100)
    catalog = open_catalog(str(tmp_path))
    with pytest.raises(CorruptData):
        tables(catalog)
    with pytest.raises(CorruptData):
        create_namespace(catalog, "a")


def test_the_manifest_is_cleaned_like_any_dataset_and_clients_at_work_go_on(catalog):
    for number in range(30):
        create_namespace(catalog, f"n{number}")
    policy = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0), delete_unverified=True)
    report = plan_cleanup(catalog.manifest, policy, LocalRunner(), time.time_ns()).apply()
    assert report.count("deleted")[0] > 60
    assert len(list(raw(catalog).versions())) == 1
    assert len(namespaces(catalog)) == 30
    create_namespace(catalog, "after")
    assert len(indexes(catalog)) == 3
    with pytest.raises(AlreadyExists):
        create_namespace(catalog, "n7")


def test_a_commit_that_arrived_although_it_was_told_to_have_failed_keeps_its_files(catalog, monkeypatch):
    """A store's answer may be lost: the client tries again, and its own version is in the way."""
    create_namespace(catalog, "a")
    commit = manifest_commits.commit

    def answer_lost(*given):
        monkeypatch.setattr(manifest_commits, "commit", commit)
        theirs = lance.LanceDataset.commit

        def arrives(*args, **named):
            theirs(*args, **named)
            raise OSError("Commit conflict for version 3")

        with monkeypatch.context() as patch:
            patch.setattr(lance.LanceDataset, "commit", arrives)
            commit(*given)

    monkeypatch.setattr(manifest_commits, "commit", answer_lost)
    with pytest.raises(AlreadyExists):
        create_namespace(catalog, "b")
    assert namespaces(catalog) == ["a", "b"]
    assert raw(catalog).to_table().num_rows == 2
