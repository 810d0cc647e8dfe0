"""Files of every kind and of none: indexes and what staged them, blobs, temporary and foreign files, every form of a
manifest's name, listings in parts.
"""

import os
from itertools import chain
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import (
    BLOB_DIGITS,
    NOW,
    RUNNER,
    UUID,
    age,
    age_all,
    append,
    assert_kept,
    candidates,
    clean,
    files,
    manifest,
    now_ns,
    orphans,
    overwrite,
    overwritten,
    plan,
    put,
    reads,
    versions,
)
from support.local_datasets import make_dataset, numbers
from support.shaped_datasets import PAYLOADS, blobs

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.layout import tile
from lance_spark.storage.datasets import locate
from lance_spark.storage.listing import list_range


def index_directories(uri):
    return {path.split("/")[1] for path in files(uri) if path.startswith("_indices/")}


def identifiers(uri):
    return {index["uuid"] for index in lance.dataset(uri).list_indices()}


@pytest.fixture
def reindexed(uri):
    """An index that was made again, beside one that was not."""
    table = numbers(20).append_column("kind", pa.array([n % 3 for n in range(20)]))
    lance.write_dataset(table, uri)
    lance.dataset(uri).create_scalar_index("kind", "BITMAP")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_scalar_index("id", "BTREE", replace=True)
    return uri


@pytest.mark.parametrize("days", [0, 30])
def test_a_replaced_index_goes_at_once_and_its_sibling_and_successor_stay(reindexed, days):
    age_all(reindexed, days)
    assert len(index_directories(reindexed)) == 3
    before = reads(reindexed)
    clean(reindexed)
    assert index_directories(reindexed) == identifiers(reindexed)
    assert len(identifiers(reindexed)) == 2
    assert_kept(reindexed, before)
    assert not orphans(reindexed)
    assert lance.dataset(reindexed).to_table(filter="id = 7 AND kind = 1").num_rows == 1
    assert len(os.listdir(Path(reindexed, "_indices"))) == 2  # the emptied directory is gone, too


def test_segments_of_an_index_that_was_extended_all_stay(uri):
    make_dataset(uri, numbers(20))
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    append(uri, 100)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert len(identifiers(uri)) == 2
    age_all(uri, 30)
    clean(uri)
    assert index_directories(uri) == identifiers(uri)
    assert lance.dataset(uri).to_table(filter="id IN (7, 101)")["id"].to_pylist() == [7, 101]


def test_a_lance_file_inside_an_index_is_the_indexes_and_no_data_file(reindexed):
    inside = [path for path in files(reindexed) if path.startswith("_indices/") and path.endswith(".lance")]
    assert inside
    made = plan(reindexed)
    assert {row["kind"] for row in made.candidates().to_pylist() if row["file"] in inside} == {"index"}


def test_files_of_an_index_newer_than_the_latest_manifest_go_when_a_removed_version_names_them(reindexed):
    gone = index_directories(reindexed) - identifiers(reindexed)
    age_all(reindexed, 1, under="_versions/")
    assert len(gone) == 1
    clean(reindexed)
    assert not gone & index_directories(reindexed)


def test_an_index_build_that_was_not_committed_stays_while_it_is_fresh_and_goes_when_aged(uri):
    make_dataset(uri)
    old = "99999999-2222-4333-8444-555555555555"
    for identifier, days in ((UUID, 6), (old, 8)):
        put(uri, f"_indices/{identifier}/partial_0/page_data.lance", days)
        put(uri, f"_indices/{identifier}/partial_1/deep/part.json", days)
    clean(uri)
    assert index_directories(uri) == {UUID}
    assert not Path(uri, "_indices", old).exists()


def blob_files(uri):
    return {path for path in files(uri) if path.endswith(".blob")}


def payloads(uri):
    dataset = lance.dataset(uri)
    payloads = dataset.to_table(columns=["payload"], blob_handling="all_binary")["payload"].to_pylist()
    assert dataset.count_rows() == len(payloads)
    return payloads


@pytest.mark.parametrize("days", [0, 30])
def test_blobs_packed_and_dedicated_follow_the_data_file_that_has_them(uri, days):
    blobs(uri, "2.2")
    first = blob_files(uri)
    assert len({path.split("/")[1] for path in first}) == 2
    assert len(first) >= 4  # for each data file at least one packed and one dedicated
    age_all(uri, days)
    clean(uri)
    assert blob_files(uri) == first
    assert payloads(uri) == PAYLOADS[1:] * 2

    lance.write_dataset(lance.dataset(uri).schema.empty_table().slice(0), uri, mode="overwrite")
    clean(uri)
    assert blob_files(uri) == set()
    assert not [path for path in Path(uri, "data").iterdir() if path.is_dir()]
    assert not orphans(uri)


def test_blobs_of_fragments_that_were_compacted_go_and_those_of_the_new_fragment_stay(uri):
    blobs(uri, "2.2")
    before = blob_files(uri)
    lance.dataset(uri).optimize.compact_files()
    after = blob_files(uri) - before
    assert after
    clean(uri)
    assert blob_files(uri) == after
    assert payloads(uri) == PAYLOADS[1:] * 2
    assert not orphans(uri)


def test_blobs_that_only_a_branch_has_stay_until_it_writes_others(uri):
    blobs(uri, "2.2")
    lance.dataset(uri).create_branch("dev")
    branch = f"{uri}/tree/dev"
    overwrite(uri, 5)
    lance.dataset(branch).delete("id = 1")
    clean(uri, older_than=NOW, keep_fork_versions=False)
    assert payloads(branch) == PAYLOADS[2:] * 2
    assert blob_files(uri)
    overwrite(uri, 6, branch="dev")
    clean(uri, older_than=NOW, keep_fork_versions=False)
    assert not blob_files(uri)
    assert not orphans(uri)


STRANGERS = (
    "notes.txt",
    "data/notes.parquet",
    "data/no-extension",
    f"data/a/b/{BLOB_DIGITS}.blob",
    "data/a/short.blob",
    "_transactions/notes.json",
    "_transactions/deep/1-a.txn",
    "_deletions/notes.csv",
    "_indices/loose-file",
    "_indices/no-uuid/page.lance",
    "_versions/notes",
    "_versions/123.manifest.bak",
    "_fri/map/1.lance",
    "_blobs/a/b.blob",
    "_mem_wal/1/2",
    "_bt/x",
    "mine/data/x.lance",
    "mine/_versions/1.manifest",
    "tree/notes.txt",
)


def test_files_of_unknown_kind_survive_everything_and_are_named_in_the_report(uri):
    overwritten(uri, 3)
    for path in STRANGERS:
        put(uri, path, 1000)
    report = clean(uri, older_than=NOW, delete_unverified=True)
    assert set(STRANGERS) <= files(uri)
    unknown = [row for row in report.planned if row["reason"] == "unknown kind of file"]
    assert sum(row["files"] for row in unknown) == len(STRANGERS)
    assert {row["action"] for row in unknown} == {"keep"}
    assert not orphans(uri) - set(STRANGERS)


@pytest.mark.parametrize("directory", ["_transactions", "_indices", "_deletions"])
def test_a_missing_directory_is_no_error(uri, directory):
    overwritten(uri, 3)
    for path in Path(uri).glob(f"{directory}/*"):
        path.unlink()
    if Path(uri, directory).exists():
        Path(uri, directory).rmdir()
    clean(uri)
    assert versions(uri) == [3]


TEMPORARY = ("data/.tmp1", "data/a/.tmp2", "_versions/.tmpx", "_versions/.tmp/x", "_transactions/.tmp3")


@pytest.mark.parametrize("path", TEMPORARY)
def test_temporary_files_stay_while_fresh_and_go_when_aged(uri, path):
    make_dataset(uri)
    file = put(uri, path, 6)
    clean(uri)
    assert file.exists()
    age(file, 8)
    clean(uri)
    assert not file.exists()


def test_what_lies_behind_a_symbolic_link_is_not_deleted(uri, tmp_path):
    make_dataset(uri)
    outside = tmp_path / "outside"
    put(str(outside), "page_data.lance", 100)
    put(str(outside), "orphan.lance", 100)
    Path(uri, "_indices").mkdir()
    Path(uri, "_indices", UUID).symlink_to(outside)
    Path(uri, "data", "linked").symlink_to(outside)
    Path(uri, "_deletions").symlink_to(outside)
    clean(uri, older_than=NOW, delete_unverified=True)
    assert sorted(os.listdir(outside)) == ["orphan.lance", "page_data.lance"]
    assert Path(uri, "_indices", UUID).is_symlink()


def test_a_link_to_a_file_is_removed_and_what_it_leads_to_stays(uri, tmp_path):
    make_dataset(uri)
    precious = put(str(tmp_path), "precious.lance", 100)
    Path(uri, "data/link.lance").symlink_to(precious)
    clean(uri, older_than=NOW, delete_unverified=True)
    assert precious.exists()
    assert not Path(uri, "data/link.lance").is_symlink()


@pytest.mark.parametrize("names", ["V1", "V2"])
def test_manifests_of_both_names_go_beside_staged_and_foreign_ones(uri, names):
    v2 = names == "V2"
    for version in range(4):
        lance.write_dataset(
            numbers(3, 10 * version), uri, mode="overwrite" if version else "create", enable_v2_manifest_paths=v2
        )
    old = 2**64 - 2 if v2 else 1
    assert Path(uri, f"_versions/{old}.manifest").exists()
    put(uri, "_versions/junk.manifest", 100)
    put(uri, f"_versions/3.manifest-{UUID}", 100)
    put(uri, f"_versions/4.manifest#{UUID}", 0)
    before = reads(uri)
    clean(uri)
    assert versions(uri) == [4]
    assert_kept(uri, before)
    left = {path for path in files(uri) if path.startswith("_versions/")}
    latest, hint = 2**64 - 5 if v2 else 4, {"_versions/latest_version_hint.json"}
    staged = f"_versions/4.manifest#{UUID}"
    assert left - hint == {"_versions/junk.manifest", f"_versions/{latest}.manifest", staged}


def test_v1_manifests_that_were_migrated_to_v2_go_like_others(uri):
    for version in range(3):
        mode = "overwrite" if version else "create"
        lance.write_dataset(numbers(3, 10 * version), uri, mode=mode, enable_v2_manifest_paths=False)
    lance.dataset(uri).migrate_manifest_paths_v2()
    overwrite(uri, 100)
    assert manifest(uri, 1).exists()
    clean(uri)
    assert versions(uri) == [4]
    assert not orphans(uri)


NAMES = (
    *(f"data/{number:024b}{number:026x}.lance" for number in range(0, 2**24, 2**17)),
    *(f"data/{number:08x}-1111-4222-8333-444444444444.lance" for number in range(0, 2**32, 2**26)),
    "data/-.lance",
    "data/0.lance",
    "data/zzz.lance",
    "data/~.lance",
    "data/ü.lance",
    "data/2020/01/part.lance",
    "data0/x.lance",
    "data-/x.lance",
    f"data/zzz/{BLOB_DIGITS}.blob",
    *(f"_deletions/{number}-3-77.arrow" for number in range(0, 300, 7)),
    *(f"_transactions/{number}-{UUID}.txn" for number in range(0, 300, 7)),
    f"_transactions/a-{UUID}.txn",
    "tree/a/data/1.lance",
    "tree/a/b/data/1.lance",
    "tree/b/_deletions/1-1-1.bin",
)


@pytest.mark.parametrize("splits", [1, 2, 7, 16, 64])
def test_parallel_listings_of_any_names_are_together_the_full_listing(uri, splits):
    make_dataset(uri)
    for branch in ("a", "a/b", "b"):
        lance.dataset(uri).create_branch(branch)
    for path in NAMES:
        put(uri, path)
    ranges = tile(["", "tree/a", "tree/a/b", "tree/b"], splits)
    batches = chain.from_iterable(list_range(locate(uri), part) for part in ranges)
    listed = [path for batch in batches for path in batch["path"].to_pylist()]
    assert len(listed) == len(set(listed))
    assert set(listed) == files(uri)


@pytest.mark.parametrize("parallelism", [1, 5, 32])
def test_the_plan_is_the_same_however_many_tasks_make_it(uri, parallelism):
    overwritten(uri, 5)
    for path in NAMES:
        put(uri, path, 30)
    few = plan(uri)
    many = plan_cleanup(
        locate(uri), CleanupPolicy(older_than=NOW, commit_window=NOW), type(RUNNER)(parallelism), now_ns()
    )
    assert candidates(many) == candidates(few)
    assert many.facts.verdicts == few.facts.verdicts
    assert many.facts.sums == few.facts.sums
    assert {path for path in NAMES if path.startswith(("data/", "_"))} <= candidates(few)
