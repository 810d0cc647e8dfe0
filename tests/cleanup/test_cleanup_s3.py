"""Cleanup on S3: few requests, faults that are told and mended, and nothing lost to how a URI was spelled."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
import s3fs
from support.s3_tables import IDS, Kept, objects, opened, rows, storage_options, write

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import PermissionDenied, StorageFailure
from lance_spark.jobs import cleanup
from lance_spark.refs.refs import create_tag
from lance_spark.storage import deleting
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.s3, pytest.mark.when(newest=0.5)]

EVERYTHING = {"older_than": timedelta(0), "commit_window": timedelta(0), "error_if_tagged_old_versions": False}
LEFT = {None: [2, 3, 7], "exp/b": [5]}


@pytest.fixture(scope="module")
def prepared(client, moto):
    """A bucket with :func:`busy_table`, as it was when that was made: (bucket, its contents)."""
    client.create_bucket(Bucket="busy")
    busy_table("s3://busy/warehouse/table.lance", storage_options(moto))
    return "busy", Kept(client, "busy")


def busy_table(table, storage):
    """Overwrites, an index, a deletion, a tag on version 2, a branch from version 3; what every version holds."""
    for first in (0, 10, 20):
        write(table, storage, range(first, first + 4), overwrite=first > 0)
    opened(table, storage).create_branch("exp/b", 3, storage_options=storage)
    write(table, storage, [30], branch="exp/b")
    write(table, storage, [40, 41], branch="exp/b", overwrite=True)
    opened(table, storage).create_scalar_index("id", "BTREE")
    opened(table, storage).delete("id = 20")
    write(table, storage, [50, 51], overwrite=True)
    write(table, storage, [60])
    create_tag(locate(table, storage), "kept", RefSpec(version=2))


@pytest.fixture
def bucket(request, bucket):
    """The bucket of the busy table for tests that take it; a new one for the others."""
    return request.getfixturevalue("prepared")[0] if "busy" in request.fixturenames else bucket


@pytest.fixture
def busy(prepared, table):
    prepared[1].put_back()
    return table


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Retries that do not wait, and fewer of them."""
    monkeypatch.setattr(deleting, "retry_delay", lambda *_: 0.0)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)


def clean(table, storage, **policy):
    plan = plan_cleanup(locate(table, storage), CleanupPolicy(**(policy or EVERYTHING)), LocalRunner(4), time.time_ns())
    return plan.apply()


def history(table, storage):
    """What pylance lists and reads, on main and on the branch."""
    return {
        branch: {
            entry["version"]: rows(table, storage, branch, entry["version"])
            for entry in opened(table, storage, branch).versions()
        }
        for branch in LEFT
    }


@pytest.fixture
def whole(busy, storage):
    """Assert that what pylance lists has the rows it had, and that it lists what a cleanup has to leave."""
    before = history(busy, storage)

    def check(exactly=True):
        now = history(busy, storage)
        for branch, left in LEFT.items():
            assert now[branch] == {version: before[branch][version] for version in now[branch]}
            assert (set(left) == now[branch].keys()) if exactly else (set(left) <= now[branch].keys())

    return check


@pytest.fixture
def left(client, bucket):
    """Keys below the dataset, as the store itself has them."""
    return lambda below="": {
        key.partition("table.lance/")[2] for key in objects(client, bucket) if f"table.lance/{below}" in key
    }


def orphans(table, storage, left):
    """Files that no version names which pylance lists; there are no blobs."""
    named = set()
    for branch in LEFT:
        dataset = opened(table, storage, branch)
        for row in dataset.tracked_files().read_all().to_pylist():
            named.add(f"{row['base_uri']}/{row['path']}".partition("table.lance/")[2])
        assert dataset.list_indices() == []
    ours = ("_hint.json", ".columns.json")
    return {key for key in left() - named if not key.startswith("_refs/") and not key.endswith(ours)}


def deletes(faulty, below=""):
    return [request for request in faulty.seen if request.method == "DELETE" and f"table.lance/{below}" in request.key]


class Sizes(list):
    """Requests as the proxy notes them, and how many keys came in one."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def extend(self, requests):
        self.keys.append(len(requests))
        super().extend(requests)


def test_what_a_branch_a_tag_and_a_latest_version_need_stays_and_the_rest_is_gone(
    busy, storage, storage_through, whole, left
):
    assert clean(busy, storage_through).complete
    whole()
    assert orphans(busy, storage, left) == set()
    before = left()
    assert clean(busy, storage_through).outcomes == []
    assert left() == before


def test_a_thousand_files_are_one_request_and_none_is_asked_for_alone(
    busy, bucket, client, faulty, storage_through, monkeypatch, whole, left
):
    with ThreadPoolExecutor(16) as pool:
        stray = [f"warehouse/table.lance/data/stray-{number}.lance" for number in range(1010)]
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"1"), stray))
    monkeypatch.setattr(faulty, "seen", Sizes())
    report = clean(busy, storage_through, **EVERYTHING, delete_unverified=True)
    sizes = sorted(size for size in faulty.seen.keys if size > 1)
    files = report.count("deleted")[0]
    assert report.complete
    assert files > 1010
    # The manifests, then the files in two batches; then the record: its two parts at once, and its document.
    assert len(sizes) == 4
    assert sizes[0] == 2
    assert sizes[-1] <= 1000
    assert sum(sizes) == files + 2
    kinds = Counter((request.method, request.listing) for request in faulty.seen)
    assert kinds["DELETE", False] == files + 3
    assert kinds["PUT", False] == 3
    assert kinds["HEAD", False] <= 2
    assert kinds["GET", True] + kinds["GET", False] < 100
    assert not [request for request in faulty.seen if "/data/stray" in request.key and request.method != "DELETE"]
    whole()
    assert left("data/stray") == set()


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("fate", ["503 SlowDown", "error SlowDown", "error InternalError", "unanswered", "late 500"])
def test_a_store_that_is_busy_for_a_while_is_asked_again(busy, storage, faulty, storage_through, whole, left, fate):
    met = set()

    def first_time(request):
        new = request.method == "DELETE" and request.key not in met
        met.add(request.key)
        return fate if new else None

    faulty.rule = first_time
    report = clean(busy, storage_through)
    assert report.complete
    assert len(deletes(faulty)) > len({request.key for request in deletes(faulty)})
    faulty.rule = lambda _: None
    whole()
    assert orphans(busy, storage, left) == set()


@pytest.mark.parametrize(
    ("below", "fate"),
    [
        ("data/", "error SlowDown"),
        ("data/", "unanswered"),
        ("data/", "error AccessDenied"),
        ("data/", "403 AccessDenied"),
        ("tree/exp/b/", "unanswered"),
        ("tree/exp/b/", "error AccessDenied"),
        ("_indices/", "error AccessDenied"),
    ],
)
def test_keys_that_are_not_deleted_failed_and_the_next_run_finishes(
    busy, storage, faulty, storage_through, whole, left, below, fate
):
    faulty.rule = lambda request: fate if request in deletes(faulty, below) else None
    report = clean(busy, storage_through)
    assert not report.complete
    assert report.count("failed")[0] > 0
    assert all(below in row["example"] for row in report.outcomes if row["outcome"] == "failed" and "40" not in fate)
    assert "failed" in report.summary()
    faulty.rule = lambda _: None
    whole(exactly="tree" not in below)
    assert [key for key in left("_cleanup/") if key.endswith("_plan.json")]
    assert clean(busy, storage_through).complete
    whole()
    assert orphans(busy, storage, left) == set()


def test_a_version_whose_manifest_cannot_be_deleted_keeps_its_files(
    busy, storage, faulty, storage_through, whole, left
):
    faulty.rule = lambda request: "error AccessDenied" if request in deletes(faulty, "_versions/") else None
    report = clean(busy, storage_through)
    assert not report.complete
    assert report.count("kept")[0] > 0
    faulty.rule = lambda _: None
    assert set(history(busy, storage)[None]) == {1, 2, 3, 4, 5, 6, 7}
    whole(exactly=False)
    assert clean(busy, storage_through).complete
    whole()
    assert orphans(busy, storage, left) == set()


DENIED, FAILING, SILENT = ("403 AccessDenied", "500 InternalError", "silent 0.5")
VERSIONS, BRANCH_VERSIONS = "/_versions/", "/tree/exp/b/_versions/"
LISTINGS = ["/", "/tree/", "/tree/exp/", "/_refs/branches/", "/_refs/tags/", "/_clones/", "/_cleanup/"]


def unlisted(directory, fate):
    """A rule that has a fate for listings of a directory, by prefix or by range."""
    names = f"table.lance{directory}"
    return lambda request: (
        fate if request.listing and (request.key.endswith(names) or names in f"{request.after}/") else None
    )


@pytest.mark.parametrize(
    ("listing", "fate", "error"),
    [
        *((listing, DENIED, PermissionDenied) for listing in (*LISTINGS, VERSIONS, BRANCH_VERSIONS)),
        *((listing, FAILING, StorageFailure) for listing in ("/tree/", "/_clones/", VERSIONS, BRANCH_VERSIONS)),
        pytest.param(BRANCH_VERSIONS, SILENT, StorageFailure),
        pytest.param("/tree/", SILENT, StorageFailure, marks=pytest.mark.when(day=0)),
    ],
)
def test_a_listing_that_is_not_given_stops_the_run_and_nothing_is_deleted(
    busy, bucket, client, faulty, storage_through, monkeypatch, listing, fate, error
):
    monkeypatch.setattr(s3fs.S3FileSystem, "read_timeout", 0.2)
    before = objects(client, bucket)
    faulty.rule = unlisted(listing, fate)
    with pytest.raises(error):
        clean(busy, {**storage_through, "client_max_retries": "0", "timeout": "0.2s"})
    assert deletes(faulty) == []
    assert objects(client, bucket) == before


@pytest.mark.parametrize("listing", [VERSIONS, BRANCH_VERSIONS, "/tree/"])
def test_a_listing_that_is_denied_after_the_plan_was_made_stops_the_run(
    busy, bucket, client, faulty, storage_through, listing
):
    plan = plan_cleanup(locate(busy, storage_through), CleanupPolicy(**EVERYTHING), LocalRunner(4), time.time_ns())
    before = objects(client, bucket)
    faulty.rule = unlisted(listing, DENIED)
    with pytest.raises(PermissionDenied):
        plan.apply()
    assert objects(client, bucket) == before


PLAIN, SLASH, ENCODED = (f"s3://{{}}/warehouse/{name}" for name in ("table.lance", "table.lance/", "tabl%65.lance"))
OTHER_SCHEME = "s3a://{}/warehouse/table.lance"


def branch_made_at(uri, storage):
    """A branch with rows of main's first version, which main overwrote."""
    lance.write_dataset(pa.table({"id": [1, 2, 3]}, IDS), uri, storage_options=storage)
    branch = lance.dataset(uri, storage_options=storage).create_branch("b", storage_options=storage)
    lance.write_dataset(pa.table({"id": [4]}, IDS), branch, mode="append", storage_options=storage)
    lance.write_dataset(pa.table({"id": [9]}, IDS), uri, mode="overwrite", storage_options=storage)


def clean_around_branch(uri, storage):
    report = clean(uri, storage, **EVERYTHING, delete_unverified=True, keep_fork_versions=False)
    assert report.complete
    assert report.versions == {"main": {"removed": 1, "latest": 1}, "b": {"removed": 1, "latest": 1}}


@pytest.mark.parametrize("made", [SLASH, ENCODED])
@pytest.mark.parametrize("cleaned", [PLAIN, SLASH, OTHER_SCHEME])
def test_a_branch_keeps_its_rows_however_the_dataset_was_spelled(bucket, storage, made, cleaned):
    made = made.format(bucket)
    branch_made_at(made, storage)
    clean_around_branch(cleaned.format(bucket), storage)
    assert rows(made, storage, "b") == rows(PLAIN.format(bucket), storage, "b") == [1, 2, 3, 4]
    assert rows(made, storage) == [9]


def test_a_base_path_with_the_scheme_of_hadoop_is_the_same_place(bucket, client, storage):
    plain, slash, other = (spelling.format(bucket) for spelling in (PLAIN, SLASH, OTHER_SCHEME))
    branch_made_at(slash, storage)
    # pylance 14.0.2 does not know s3a://, but other writers do; the slash has left room for the letter.
    respell(client, bucket, slash, other)
    clean_around_branch(plain, storage)
    respell(client, bucket, other, slash)
    assert rows(plain, storage, "b") == [1, 2, 3, 4]


def respell(client, bucket, old, new):
    """Write another base path into the branch's manifests."""
    manifests = [key for key in objects(client, bucket) if "/tree/b/_versions/" in key and key.endswith(".manifest")]
    for key in manifests:
        content = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        assert old.encode() in content
        client.put_object(Bucket=bucket, Key=key, Body=content.replace(old.encode(), new.encode()))


@pytest.mark.parametrize("fate", ["error AccessDenied", "403 InvalidAccessKeyId", "403 SignatureDoesNotMatch"])
def test_no_secret_is_in_a_report_a_plan_a_record_or_an_error(busy, bucket, client, faulty, storage_through, fate):
    secrets = {**storage_through, "aws_session_token": "tOkEn+in/the=open"}
    plan = plan_cleanup(locate(busy, secrets), CleanupPolicy(**EVERYTHING), LocalRunner(4), time.time_ns())
    faulty.rule = lambda request: fate if request in deletes(faulty) else None
    report = plan.apply()
    assert not report.complete
    shown = [str(plan), repr(plan), str(report), repr(report), report.to_json()]
    records = [key for key in objects(client, bucket) if "/_cleanup/" in key]
    assert records
    shown += [client.get_object(Bucket=bucket, Key=key)["Body"].read().decode(errors="replace") for key in records]
    shown += [str(plan.candidates().to_pylist())]
    faulty.rule = lambda _: "403 InvalidAccessKeyId"
    with pytest.raises(PermissionDenied) as error:
        clean(busy, secrets)
    for text in [*shown, str(error.value), repr(error.value)]:
        for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"):
            assert secrets[name] not in text


def test_a_cleanup_that_may_not_delete_names_the_permission(busy, storage, faulty, storage_through, capsys):
    faulty.rule = lambda request: "error AccessDenied" if request.method == "DELETE" else None
    command = [
        "--catalog",
        busy.rpartition("/")[0],
        "--catalog-mode",
        "v1",
        "--older-than",
        "0s",
        "--commit-window",
        "0s",
    ]
    command += ["--on-tagged", "keep", "--local", "--execute"]
    command += [word for key, value in storage_through.items() for word in ("--storage", f"{key}={value}")]
    assert cleanup.main(command) == 21
    said = capsys.readouterr().out
    assert f"s3:DeleteObject on {busy}/_versions/ is missing" in said
    assert "the next run finishes" not in said
    assert " failed " in said.splitlines()[1]
    assert rows(busy, storage, version=3)
