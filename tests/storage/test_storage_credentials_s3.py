"""Storage options that expire in the middle of things, against a store that refuses them then."""

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from support import vending
from support.faulty_store import FaultyStore
from support.vending import Gate

from lance_spark import CleanupPolicy, LanceCatalog
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import InvalidOption, LanceSparkWarning, NotInstalled, PermissionDenied, StorageFailure
from lance_spark.fsck.file_contents import size_of
from lance_spark.spark.table import LanceTable
from lance_spark.storage import files, services
from lance_spark.storage.copying import copy_file
from lance_spark.storage.credentials import options_now
from lance_spark.storage.datasets import locate, open_latest, open_pinned, pin_latest
from lance_spark.storage.deleting import delete_batch
from lance_spark.storage.small_files import write_file
from lance_spark.tables.local_write import write_arrow

pytestmark = [pytest.mark.s3, pytest.mark.when(spark="newest")]
ROWS = pa.table({"id": list(range(100)), "text": [f"row {number}" for number in range(100)]})


def at(table, provider=vending.PROVIDER):
    return {"uri": table, "storage_options": {"token_provider": provider}}


def write(table, rows, provider=vending.PROVIDER, **options):
    return write_arrow({"path": table, "storage.token_provider": provider, **options}, rows, False, None)


def opened(table, provider=vending.PROVIDER):
    return LanceTable.for_path(table, {"token_provider": provider})


@pytest.mark.when(day=0)
@pytest.mark.parametrize("provider", [vending.PROVIDER, vending.OBJECT, vending.CLASS])
def test_keys_of_seconds_do_for_everything(gate, table, provider):
    gate.seconds = 6.0
    write(table, ROWS, provider)
    handle = opened(table, provider)
    held = open_pinned(handle.location, pin_latest(handle.location, None))
    for number in range(2):
        time.sleep(5.0)
        handle.branches.create(f"b{number}")
        write(table, ROWS.slice(0, 10 * number + 1), provider)
        assert held.to_table().num_rows == 100
    assert handle.count_rows() == 100 + 1 + 11
    time.sleep(5.0)
    handle.optimize(run_on="local")
    handle.branches.merge("b1", into="main")
    policy = CleanupPolicy(older_than="0s", commit_window="0s", keep_fork_versions=True)
    assert handle.cleanup(policy, run_on="local").apply().exit_code == 0
    assert gate.handed_out > 3


@pytest.mark.when(day=0)
def test_what_is_revoked_in_the_middle_is_renewed_before_its_time(gate, table):
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    pin = pin_latest(location, None)
    held = open_pinned(location, pin)
    gate.revoke()
    assert files.list_names(location, "_versions") != []
    gate.revoke()
    assert open_latest(location).count_rows() == 100
    gate.revoke()
    with pytest.raises(PermissionDenied):  # of a PUT nobody knows what came of it: it is not repeated here
        write_file(location, "note", b"x")
    assert open_pinned(location, pin) is not held
    assert opened(table).count_rows() == 100


@pytest.mark.when(day=0)
def test_a_clock_that_is_behind_is_noticed_when_the_store_refuses(gate, table):
    gate.seconds, gate.ahead = 1.0, 3600.0  # whoever reads the moment of expiry believes in another hour
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    for _ in range(2):
        time.sleep(1.1)
        assert files.list_names(location, "_versions") != []
        time.sleep(1.1)
        assert open_latest(location).count_rows() == 100
    assert gate.refused > 0


@pytest.mark.when(day=0)
def test_a_cleanup_of_many_files_outlives_many_keys(gate, table):
    gate.seconds = 1.0
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    for number in range(3):
        write_file(location, f"data/{number:04}.lance", b"x")
    paths = [f"data/{number:04}.lance" for number in range(3)]
    for path in paths:
        time.sleep(0.6)
        assert delete_batch(location, [path]).deleted == (path,)
    gate.revoke()
    assert delete_batch(location, paths).failed == ()
    assert gate.handed_out > 2


@pytest.mark.slow
@pytest.mark.when(day=0)
def test_a_cleanup_of_ten_thousand_files_outlives_its_keys(gate, table, client):
    gate.seconds = 2.0
    for number in range(2):
        write(table, ROWS.slice(number))
    bucket, _, key = table.removeprefix("s3://").partition("/")

    def put(number):
        client.put_object(Bucket=bucket, Key=f"{key}/data/{number:05}.lance", Body=b"x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(10_000)))
    policy = CleanupPolicy(older_than="0s", commit_window="0s", delete_unverified=True)
    before = gate.handed_out
    plan = opened(table).cleanup(policy, run_on="local")
    gate.revoke()
    done = plan.apply()
    assert done.exit_code == 0
    assert gate.handed_out > before + 2
    left = client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/data/")
    assert (left["KeyCount"], left["IsTruncated"]) == (2, False)
    assert opened(table).count_rows() == 199


@pytest.mark.when(day=0)
def test_a_deep_clone_begins_with_new_keys_and_says_that_they_have_to_last(gate, table, tmp_path):
    write(table, ROWS)
    gate.seconds = 60.0
    target = f"{table}-clone"
    options_now(locate(table, {"token_provider": vending.PROVIDER}))
    handed_out = gate.handed_out
    with pytest.warns(LanceSparkWarning, match="expire in 1 minute.*does not renew"):
        opened(table).clone(target, "deep", storage_options={"token_provider": vending.PROVIDER})
    assert gate.handed_out > handed_out
    assert opened(target).count_rows() == 100
    with warnings.catch_warnings():
        warnings.simplefilter("error", LanceSparkWarning)
        opened(table).clone(str(tmp_path / "here"), "deep")


def test_a_provider_that_is_away_for_a_moment_stops_nobody(gate, table, monkeypatch):
    location = locate(table, {"token_provider": vending.PROVIDER})
    monkeypatch.setattr(services, "PATIENCE", 0.0)
    monkeypatch.setattr(gate, "seconds", 1.5)
    first = options_now(location)
    monkeypatch.setattr(Gate, "key", lambda _: 1 / 0)
    time.sleep(1.3)  # due, and still good
    assert options_now(location) == first
    time.sleep(0.3)
    with pytest.raises(StorageFailure, match="failed: ZeroDivisionError") as failed:
        options_now(location)
    assert type(failed.value) is StorageFailure


@pytest.mark.parametrize("provider", ["os:abort", "os.path", "nowhere.to:be", "support.vending:GATE", "a b:c", ":"])
def test_what_is_no_provider_is_not_called(provider):
    with pytest.raises((InvalidOption, NotInstalled)):
        options_now(DatasetLocation.at("s3://bucket/t", {"token_provider": provider}))


def test_many_threads_ask_once(gate, table):
    location = locate(table, {"token_provider": vending.PROVIDER})
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(options_now(location))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gate.handed_out == 1
    assert len({options["aws_access_key_id"] for options in seen}) == 1


@pytest.mark.when(day=0)
def test_keys_that_a_store_refuses_early_teach_how_long_they_last(gate, table):
    """A machine whose clock is minutes behind meets one refusal, and not one for each key."""
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    gate.revoke()
    gate.seconds, gate.ahead = 1.5, 300.0
    files.list_names(location, "_versions")
    time.sleep(1.6)
    files.list_names(location, "_versions")
    refused = gate.refused
    held = open_latest(location)
    for number in range(4):
        time.sleep(0.9)
        write_file(location, f"note-{number}", b"x")  # a PUT is not repeated
        assert held.count_rows() == 100
        write(table, ROWS)
    assert gate.refused == refused > 0


@pytest.mark.when(day=0)
def test_a_clock_that_is_ahead_does_not_ask_for_each_request(gate, table):
    gate.seconds, gate.ahead = 3600.0, -3900.0  # whoever reads the moment of expiry believes it has passed
    start = time.monotonic()
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    held = open_latest(location)
    for _ in range(20):
        assert files.list_names(location, "_versions") != []
        assert held.to_table().num_rows == 100
    assert gate.handed_out <= time.monotonic() - start + 2
    assert gate.refused == 0


@pytest.mark.when(day=0)
def test_threads_that_are_refused_at_one_moment_ask_once(gate, table):
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    files.list_names(location, "_versions")
    handed_out = gate.handed_out
    gate.revoke()
    gate.slowly(0.2)
    with ThreadPoolExecutor(12) as pool:
        assert len(set(pool.map(lambda _: tuple(files.list_names(location, "data")), range(12)))) == 1
    assert gate.handed_out == handed_out + 1


@pytest.mark.when(day=0)
def test_whoever_lacks_a_right_does_not_ask_for_keys_all_the_time(gate, table):
    write(table, ROWS)
    location = locate(table, {"token_provider": vending.PROVIDER})
    gate.store.rule = lambda request: "403 AccessDenied" if "/data/" in request.key else None
    handed_out = gate.handed_out
    for _ in range(5):
        with pytest.raises(PermissionDenied, match="denied access"):
            files.read(location, "data/x.lance")
    assert gate.handed_out <= handed_out + 1


@pytest.mark.when(day=0)
def test_a_provider_that_comes_back_is_waited_for(gate, table, monkeypatch):
    monkeypatch.setattr(services, "_FIRST_PAUSE", 0.02)
    gate.away = True
    threading.Timer(0.3, setattr, (gate, "away", False)).start()
    assert write(table, ROWS) == 1


@pytest.mark.when(day=0)
def test_what_hides_the_reason_is_seen_as_a_refused_key(gate, table):
    """The answer to HEAD has no body: it says neither that a key expired, nor that anything is gone."""
    location = locate(table, {"token_provider": vending.PROVIDER})
    write_file(location, "note", b"12345")
    gate.revoke()
    assert files.look(location, "note").size == 5
    gate.revoke()
    assert files.exists(location, "note")
    gate.revoke()
    assert copy_file(location, "note", location, "copy") == 5
    gate.at(1, gate.revoke)
    for ask in (files.look, files.exists, size_of):
        with pytest.raises(PermissionDenied, match="refused before their time"):
            ask(location, "note")


@pytest.mark.when(day=0)
def test_no_stored_plan_has_a_secret(gate, table, tmp_path):
    from support.rest_catalogs import KEY, Server, said

    def answer(path, _body):
        return said({"location": table, "storage_options": gate.key()})

    with Server(answer) as server:
        catalog = LanceCatalog.connect("rest", server.properties)
        location = catalog.describe_table("t").location
        write(table, ROWS)
        write(table, ROWS)
        handle = LanceTable(None, location)
        assert handle.location.options
        plan = handle.cleanup(CleanupPolicy(older_than="0s", commit_window="0s"), run_on="local")
        plan.store(str(tmp_path / "plan"))
        reports = (plan.report(), handle.fsck())
    shown = [repr(handle), str(plan), repr(plan), repr(location), *(each.to_json() for each in reports)]
    stored = b"".join(path.read_bytes() for path in (tmp_path / "plan").rglob("*") if path.is_file())
    for secret in (KEY, "very-secret-", "token-of-"):
        assert secret.encode() not in stored
        assert secret not in "".join(shown)


@pytest.mark.when(day=0)
def test_a_renewal_may_name_another_endpoint(gate, moto, table):
    """As at a move of a store: from then on nobody asks the old one."""
    old, new = FaultyStore(moto), gate.store
    old.rule, gate.store, gate.seconds = gate._rule, old, 2.0
    write(table, ROWS)
    handle = opened(table)
    assert handle.count_rows("id >= 0") == 100
    gate.store, old.rule = new, lambda _: "silent 0"
    time.sleep(2.5)
    asked, count = len(old.seen), len(new.seen)
    assert handle.count_rows("id >= 1") == 99
    write(table, ROWS.slice(0, 3))
    assert opened(table).count_rows("id >= 1") == 101
    handle.tags.create("v1")
    assert [
        size_of(handle.location, f"_versions/{name}") > 0 for name in files.list_names(handle.location, "_versions")
    ]
    old.close()
    assert (len(old.seen), len(new.seen) > count) == (asked, True)
