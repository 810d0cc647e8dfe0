"""A catalog on S3: the same answers, few requests, one winner, and a store that fails is never an empty catalog."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import lance
import pytest
import s3fs
from lance.namespace import DirectoryNamespace
from lance_namespace import DescribeTableRequest, ListTablesRequest
from support.catalog_work import assert_sound, attempt, create, value_of, wander
from support.kinds import NIGHT
from support.processes import Job, Team
from support.s3_tables import objects

from lance_spark.catalog import directories
from lance_spark.catalog.lookup import (
    create_namespace,
    describe_table,
    list_namespaces,
    list_tables,
    locate_table,
    open_catalog,
    table_exists,
)
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.removing import drop_namespace, drop_table, rename_table
from lance_spark.catalog.tables import declare_table, deregister_table, register_table, withdraw
from lance_spark.errors import AlreadyExists, NotFound, PermissionDenied, StorageFailure
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.s3, pytest.mark.when(newest=0.5)]

TEAM = 8
ROUNDS = 20 if NIGHT else 1
"""Of three races each, in each of two modes. The store and the proxy take most of their time."""


@pytest.fixture(params=["compatibility", "v2", "v1"])
def catalog(request, bucket, storage):
    return open_catalog(f"s3://{bucket}/lake", storage, request.param)


@pytest.fixture
def both(bucket, storage):
    return open_catalog(f"s3://{bucket}/lake", storage)


def names(found):
    return [str(identifier) for identifier in found]


def put(client, bucket, *keys):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"x"), keys))


def below(client, bucket, prefix="lake/"):
    """Keys of everything but ``__manifest``, relative to the catalog."""
    return {key[len(prefix) :] for key in objects(client, bucket) if not key.startswith(f"{prefix}__manifest/")}


def test_tables_come_and_go(catalog, client, bucket):
    declared = declare_table(catalog, "t")
    assert [key.rpartition("/")[2] for key in below(client, bucket)] == [".lance-reserved"]
    assert describe_table(catalog, "t").declared
    with pytest.raises(AlreadyExists):
        declare_table(catalog, "t")
    assert withdraw(catalog, declared)
    assert below(client, bucket) == set()
    create(catalog, "t", 7)
    create(catalog, "ü b%c", 8)
    assert names(list_tables(catalog)) == ["t", "`ü b%c`"]
    assert (value_of(catalog, "t"), value_of(catalog, "`ü b%c`")) == (7, 8)
    path = deregister_table(catalog, "t").path
    assert not table_exists(catalog, "t")
    assert register_table(catalog, "t", path).path == path
    assert value_of(catalog, "t") == 7
    drop_table(catalog, "`ü b%c`")
    assert {key.partition("/")[0] for key in below(client, bucket)} == {path}
    drop_table(catalog, "t")
    assert below(client, bucket) == set()
    with pytest.raises(NotFound):
        drop_table(catalog, "t")


def test_a_rename_in_the_root_copies_inside_of_the_store(both, client, bucket):
    create(both, "t", 1)
    create(both, "plain", 2)
    lance.dataset(locate_table(both, "t").uri, storage_options=both.root.storage_options).tags.create("first", 1)
    create_namespace(both, "ns")
    before = {key.partition("/")[2] for key in below(client, bucket) if key.startswith("t.lance/")}
    rename_table(both, "t", "ns.ü")
    info = describe_table(both, "ns.ü")
    assert info.path.endswith("_ns$ü")
    assert {key.partition("/")[2] for key in below(client, bucket) if key.startswith(info.path)} == before
    assert not [key for key in below(client, bucket) if key.startswith("t.lance/")]
    assert value_of(both, "ns.ü") == 1
    location = info.location
    assert lance.dataset(location.uri, version="first", storage_options=location.storage_options).count_rows() == 1
    assert names(list_tables(both, recursive=True)) == ["ns.ü", "plain"]
    drop_namespace(both, "ns", cascade=True)
    assert {key.partition("/")[0] for key in below(client, bucket)} == {"plain.lance"}


def theirs(catalog, **properties):
    options = {f"storage.{key.removeprefix('aws_')}": value for key, value in catalog.root.options}
    return DirectoryNamespace(root=catalog.uri, vend_input_storage_options="true", **options, **properties)


def test_pylance_reads_what_we_write(both):
    create_namespace(both, "ns")
    create(both, "ns.a b", 5)
    create(both, "t", 6)
    namespace = theirs(both, dir_listing_enabled="false")
    assert namespace.list_tables(ListTablesRequest(id=["ns"])).tables == ["a b"]
    for name, value in ((["ns", "a b"], 5), (["t"], 6)):
        dataset = lance.dataset(namespace_client=namespace, table_id=name, storage_options=both.root.storage_options)
        assert dataset.to_table()["id"].to_pylist() == [value]


ODD = [
    "a.lance",
    "a.lance-x",
    "a.lance!",
    "a.lance0",
    "b",
    "big.lance",
    "c.lance",
    "ü.lance",
    "zz.lance",
    ".lance",
    "e.lance",
]


@pytest.mark.parametrize("page", [2, 3, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_a_listing_of_directories_is_right_whatever_lies_between_them(client, bucket, storage, monkeypatch, page, seed):
    chance = random.Random(seed)
    keys = set()
    for directory in ODD:
        files = [".lance-deregistered", ".lance-reserved", "!first", "_versions/1", "data/x", "~"]
        keys |= {f"lake/{directory}/{name}" for name in chance.sample(files, chance.randint(0, len(files)))}
    keys |= {f"lake/big.lance/data/{number:03}" for number in range(40)}
    keys |= {f"lake/00000000_x/{number:03}" for number in range(20)}
    keys |= {"lake/c.lance", "lake/plain", "lake/", "lake/e.lance/", "lake2/a.lance/x"}
    put(client, bucket, *keys)
    monkeypatch.setattr(directories, "_PAGE_KEYS", page)
    monkeypatch.setattr(directories, "_FEW", chance.choice([1, 3, 100]))
    root = locate(f"s3://{bucket}/lake", storage)
    wanted = [*ODD, "absent.lance"]
    found = directories.look(root, wanted)
    for directory in wanted:
        inside = {key.removeprefix(f"lake/{directory}/") for key in keys if key.startswith(f"lake/{directory}/")} - {""}
        assert found[directory].has_files == bool(inside), directory
        assert found[directory].deregistered == (".lance-deregistered" in inside), directory


def test_listing_v1_takes_a_few_requests_where_pylance_takes_one_for_each_table(
    client, bucket, faulty, storage_through
):
    catalog = open_catalog(f"s3://{bucket}/lake", storage_through, "v1")
    put(
        client,
        bucket,
        *(f"lake/t{number:03}.lance/{name}" for number in range(64) for name in ("_versions/1", "data/a")),
    )
    assert len(list_tables(catalog)) == 64
    ours = len(faulty.seen)
    faulty.seen.clear()
    namespace = theirs(catalog, manifest_enabled="false")
    faulty.seen.clear()
    assert len(namespace.list_tables(ListTablesRequest(id=[])).tables) == 64
    assert len(faulty.seen) >= 65
    assert ours <= 3
    faulty.seen.clear()
    assert len(list_tables(catalog, limit=3)) == 3
    assert len(faulty.seen) <= 3


def test_a_look_up_takes_no_more_requests_than_pylances(bucket, faulty, storage_through):
    catalog = open_catalog(f"s3://{bucket}/lake", storage_through, "v2")
    create_namespace(catalog, "ns")
    for number in range(3):
        declare_table(catalog, f"ns.t{number}")
    namespace = theirs(catalog, dir_listing_enabled="false")
    for _ in range(2):  # both know the catalog by now, as a client does that has been at work
        locate_table(catalog, "ns.t1")
        namespace.describe_table(DescribeTableRequest(id=["ns", "t1"]))
    faulty.seen.clear()
    locate_table(catalog, "ns.t2")
    ours = len(faulty.seen)
    faulty.seen.clear()
    namespace.describe_table(DescribeTableRequest(id=["ns", "t2"]))
    assert ours <= max(3, len(faulty.seen) + 1), [request.key for request in faulty.seen]


def test_a_marker_is_made_by_one_of_many(bucket, faulty, storage_through):
    location = locate(f"s3://{bucket}/lake/t.lance", storage_through)
    with ThreadPoolExecutor(TEAM) as pool:
        for round_ in range(5):
            name = f"m{round_}"
            made = list(
                pool.map(directories.put_new, [location] * TEAM, [name] * TEAM, map(b"%d".__mod__, range(TEAM)))
            )
            assert made.count(True) == 1
            assert directories.content_of(location, name) == b"%d" % made.index(True)


def test_a_marker_that_is_being_made_by_somebody_else_is_asked_for_again(bucket, faulty, storage_through):
    location = locate(f"s3://{bucket}/lake/t.lance", storage_through)
    fates = ["409 ConditionalRequestConflict"] * 2
    faulty.rule = lambda request: fates.pop() if fates and request.writes else None
    assert directories.put_new(location, "m", b"")
    assert fates == []
    assert not directories.put_new(location, "m", b"")


@pytest.mark.parametrize(
    ("mode", "fate", "error"),
    [
        ("compatibility", "403 AccessDenied", PermissionDenied),
        pytest.param("v2", "500 InternalError", StorageFailure, marks=pytest.mark.when(day=0)),
        pytest.param("v1", "403 AccessDenied", PermissionDenied, marks=pytest.mark.when(day=0)),
        pytest.param("v1", "500 InternalError", StorageFailure, marks=pytest.mark.when(day=0)),
    ],
)
def test_a_store_that_fails_is_no_empty_catalog(bucket, faulty, storage_through, monkeypatch, mode, fate, error):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    catalog = open_catalog(f"s3://{bucket}/lake", {**storage_through, "client_max_retries": "0"}, mode)
    create(catalog, "t", 1)
    faulty.rule = lambda request: fate if not request.writes else None
    for act in (
        lambda: list_tables(catalog),
        lambda: table_exists(catalog, "t"),
        lambda: locate_table(catalog, "none"),
        lambda: declare_table(catalog, "new"),
        lambda: drop_table(catalog, "t"),
        lambda: migrate(catalog),
    ):
        with pytest.raises(error) as caught:
            act()
        assert "hush-hush" not in str(caught.value)
    faulty.rule = lambda _: None
    assert names(list_tables(catalog)) == ["t"]
    assert value_of(catalog, "t") == 1


@pytest.mark.parametrize("mode", ["v1", "v2", "compatibility"])
def test_a_bucket_that_is_not_there_is_told(storage, mode):
    catalog = open_catalog("s3://no-such-bucket/lake", storage, mode)
    for act in (lambda: list_tables(catalog), lambda: declare_table(catalog, "t")):
        with pytest.raises(NotFound, match="bucket of s3://no-such-bucket/lake"):
            act()


def test_files_go_before_markers_so_that_nobody_takes_a_name_in_between(bucket, faulty, storage_through):
    catalog = open_catalog(f"s3://{bucket}/lake", storage_through)
    create(catalog, "t", 1)
    faulty.seen.clear()
    drop_table(catalog, "t")
    gone = [request.key.partition("t.lance/")[2] for request in faulty.seen if request.method in ("DELETE", "POST")]
    gone = [key for key in gone if key]
    assert gone[-2:] == [".lance-reserved", ".lance-deregistered"]
    assert gone[0].startswith("_versions/")


def test_a_drop_that_was_interrupted_keeps_the_name_until_it_is_collected(bucket, faulty, storage_through, monkeypatch):
    monkeypatch.setattr("lance_spark.storage.deleting._TRIES", 1)
    catalog = open_catalog(f"s3://{bucket}/lake", storage_through)
    create(catalog, "t", 1)
    faulty.rule = lambda request: (
        "error AccessDenied" if "/data/" in request.key and request.method == "DELETE" else None
    )
    with pytest.raises(StorageFailure, match="could not be deleted"):
        drop_table(catalog, "t")
    faulty.rule = lambda _: None
    assert not table_exists(catalog, "t")
    with pytest.raises(NotFound, match="is dropping or renaming it"):
        drop_table(catalog, "t")
    with pytest.raises(AlreadyExists):
        declare_table(catalog, "t")
    assert_sound(catalog)
    create_namespace(catalog, "ns")
    assert_sound(catalog)
    create(catalog, "t", 2)
    assert value_of(catalog, "t") == 2


def test_a_catalog_works_after_it_was_pickled(both):
    create(both, "t", 3)
    again = pickle.loads(pickle.dumps(both))
    assert value_of(again, "t") == 3
    assert "hush-hush" not in f"{again!r} {describe_table(again, 't')!r} {declare_table(again, 'u')!r}"


@pytest.fixture(scope="module")
def team():
    with Team(TEAM) as made:
        yield made


@pytest.mark.slow
@pytest.mark.when(day=0)
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_of_eight_processes_one_wins(team, bucket, faulty, storage_through, mode):
    """Through the proxy: moto looks whether a key is there and writes it in two steps, a real store in one."""
    catalog = open_catalog(f"s3://{bucket}/lake", storage_through, mode)
    for round_ in range(ROUNDS):
        outcomes = team.run([Job(attempt, (catalog, "create", "t", 10 * round_ + member)) for member in range(TEAM)])
        won = [value for kind, value in outcomes if kind == "ok"]
        assert (len(won), {kind for kind, _ in outcomes} - {"ok"}) == (1, {"AlreadyExists"})
        assert value_of(catalog, "t") == won[0]
        outcomes = team.run([Job(attempt, (catalog, "rename", "t", f"u{member}")) for member in range(TEAM)])
        ((_, name),) = [found for found in outcomes if found[0] == "ok"]
        assert {kind for kind, _ in outcomes} == {"ok", "NotFound"}
        assert names(list_tables(catalog)) == [name]
        assert value_of(catalog, name) == won[0]
        outcomes = team.run([Job(attempt, (catalog, "drop", name)) for _ in range(TEAM)])
        assert sorted(kind for kind, _ in outcomes) == ["NotFound"] * (TEAM - 1) + ["ok"]
    outcomes = team.run([Job(attempt, (catalog, "create", f"t{member}", member)) for member in range(TEAM)])
    assert [kind for kind, _ in outcomes] == ["ok"] * TEAM
    assert assert_sound(catalog) == {f"t{member}": member for member in range(TEAM)}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_whatever_they_do_the_catalog_stays_sound(team, bucket, faulty, storage_through, mode):
    catalog = open_catalog(f"s3://{bucket}/lake", storage_through, mode)
    create_namespace(catalog, "ns")
    for seed in range(ROUNDS):
        team.run([Job(wander, (catalog, ["a", "b", "ns.a"], member, seed, 3)) for member in range(TEAM)])
        assert_sound(catalog)
    assert names(list_namespaces(catalog)) == ["ns"]
