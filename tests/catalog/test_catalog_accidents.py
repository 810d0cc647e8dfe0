"""Accidents of catalog services: odd names, answers that lie, requests done twice, tables replaced meanwhile."""

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import lance
import lance_namespace
import pyarrow as pa
import pytest
from support.rest_catalogs import KEY, Server, said
from support.small_catalog import small_catalog

from lance_spark import LanceCatalog
from lance_spark.catalog.lookup import locate_table
from lance_spark.catalog.removing import drop, plan_drop, plan_namespace_drop
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    InvalidName,
    InvalidOption,
    LanceSparkError,
    LanceSparkWarning,
    NotFound,
    PermissionDenied,
    Refused,
    StorageFailure,
)
from lance_spark.storage import credentials, services
from lance_spark.storage.credentials import options_now
from lance_spark.tables.write import begin, finish, give_up, plan_write
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.when(spark="newest")
night = pytest.mark.when(day=0)
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(services, "SHORT", 0.0)
    monkeypatch.setattr(services, "PATIENCE", 0.0)


@pytest.fixture
def small(tmp_path):
    with small_catalog(tmp_path) as (catalog, properties):
        catalog.properties = properties
        catalog.lake = LanceCatalog.connect("rest", properties)
        yield catalog


# --- Names

KEPT = ["a.b", "a..b", "..a", "ü", "日本", "%", "a%2Fb", "%24", "a b", "a#b", "a&b=c", "a+b", "a;b", "a:b", "a@b", "~"]
NEVER = ["", ".", "..", "a/b", "a\\b", "a$b", "a\nb", "a\0b", "a'b", 'a"b', "a`b", "a?b", " a", "a" * 300]


@pytest.mark.when(day={"name": ["a%2Fb"]})
@pytest.mark.parametrize("name", KEPT)
def test_a_name_means_the_same_table_in_every_question(small, name):
    lake = small.lake
    lake.create_namespace([name])
    lake.write_table(ROWS, [name, name])
    lake.write_table(ROWS, [name, name], "append")
    assert lake.table([name, name]).count_rows() == 6
    assert list(small.tables) == [f"{name}${name}"]
    listed = lake.list_tables(recursive=True)
    assert lake.table(listed[0]).count_rows() == 6
    lake.rename_table([name, name], [name, f"{name}x"])
    assert list(small.tables) == [f"{name}${name}x"]
    lake.drop_table([name, f"{name}x"])
    assert small.tables == {}


@pytest.mark.parametrize("name", NEVER)
def test_a_name_that_cannot_be_is_refused_before_anything_is_changed(small, name):
    for call in (
        lambda: small.lake.write_table(ROWS, ["a", name]),
        lambda: small.lake.declare_table([name, "t"]),
        lambda: small.lake.create_namespace([name]),
        lambda: small.lake.register_table(["a", name], "/x"),
        lambda: small.lake.rename_table(["a", "t"], ["a", name]),
    ):
        with pytest.raises(InvalidName):
            call()
    assert {action for action, _ in small.asked} <= {"table describe"}


def test_a_listed_name_that_nobody_could_ask_for_is_left_out_with_a_warning(small):
    small.tables = {name: {"location": "/x"} for name in ["ok", "../x", "a/b", "..", "a\nb"]}
    with pytest.warns(LanceSparkWarning, match="left out"):
        assert small.lake.list_tables() == ["ok"]


@night
def test_a_catalog_that_lowers_names(small):
    """As Glue and Hive do: both spellings are one table, and no row is written or merged twice."""
    small.fold = str.lower
    lake = LanceCatalog.connect("rest", {**small.properties, "publish_journal": str(small.directory / "journal")})
    lake.create_namespace("Sales")
    lake.write_table(ROWS, "Sales.Orders")
    with pytest.raises(AlreadyExists):
        lake.write_table(ROWS, "sales.orders")
    lake.write_table(ROWS, "SALES.ORDERS", "append")
    assert lake.list_tables(recursive=True) == ["sales.orders"]
    lake.table("sales.orders").branches.create("exp")
    lake.write_table(ROWS, "Sales.Orders", "append", branch="exp")
    try:
        lake.publish("exp", tables=["Sales.Orders", "sales.orders"])
    except LanceSparkError:
        lake.publish("exp", tables=["sales.orders"])
    assert lake.table("Sales.Orders").count_rows() == 9


# --- Lists


def token_of(path):
    return parse_qs(urlsplit(path).query).get("page_token", [None])[0]


LISTS = {
    "the same token": lambda _: ("again", "t"),
    "tokens in a circle": lambda token: ({None: "a", "a": "b", "b": "c", "c": "a"}[token], f"t{token}"),
    "empty pages in a circle": lambda token: ({None: "a", "a": "b", "b": "a"}[token], None),
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("what", ["tables", "namespaces", "versions"])
def test_pages_that_go_in_circles_end(tmp_path, kind, what):
    asked = []

    def answer(path, body):
        if path.partition("?")[0].endswith("/describe"):
            return said({"location": str(tmp_path), "managed_versioning": True, "properties": {}})
        asked.append(path)
        token = token_of(path)
        token, name = LISTS[kind](token)
        names = [name] if name else []
        versions = [{"version": len(asked), "manifest_path": "x"} for _ in names]
        return said({"tables": names, "namespaces": names, "versions": versions, "page_token": token})

    with Server(answer) as server:
        lake = LanceCatalog.connect("rest", server.properties)
        call = {
            "tables": lake.list_tables,
            "namespaces": lake.list_namespaces,
            "versions": lambda: credentials.versions_of_catalog(lake.describe_table("t").location),
        }[what]
        with pytest.raises(CorruptData, match="same page"):
            call()
    assert len(asked) < 6


def test_empty_pages_with_a_token_are_not_the_end():
    following = {None: "1", "1": "2", "2": "3"}

    def answer(path, _):
        token = token_of(path)
        return said({"tables": ["t"] if token == "3" else [], "page_token": following.get(token)})

    with Server(answer) as server:
        assert LanceCatalog.connect("rest", server.properties).list_tables() == ["t"]


@night
def test_namespaces_that_are_the_same_at_every_depth_end():
    """A catalog without nesting that does not look at what is asked."""
    with Server(lambda *_: said({"namespaces": ["a", "b"], "tables": ["t"], "properties": {}})) as server:
        lake = LanceCatalog.connect("rest", server.properties)
        for call in (lake.list_namespaces, lake.list_tables):
            with pytest.raises(CorruptData, match="never end"):
                call(recursive=True)
        assert len(server.asked) < 200


# --- Answers

ERRORS = {
    "with a code": ({"code": 14, "error": "somebody else was first"}, Conflict),
    "denied": ({"code": 15, "error": "no"}, PermissionDenied),
    "without a code": ({"error": "internal error"}, StorageFailure),
    "as an object": ({"error": {"code": 500, "message": "oops"}}, StorageFailure),
    "a code without a text": ({"code": 18}, StorageFailure),
}


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("action", ["create", "declare", "drop", "deregister", "rename", "register"])
def test_an_error_with_the_status_of_success_is_an_error(small, kind, action):
    """A drop that was refused must not look done, nor a name taken that was not."""
    told, expected = ERRORS[kind]
    lake = small.lake
    lake.create_namespace("a")
    lake.write_table(ROWS, "a.t")
    place = small.tables["a$t"]["location"]
    call = {
        "create": lambda: lake.create_namespace("b"),
        "declare": lambda: lake.write_table(ROWS, "a.u"),
        "drop": lambda: lake.drop_table("a.t"),
        "deregister": lambda: lake.deregister_table("a.t"),
        "rename": lambda: lake.rename_table("a.t", "a.u"),
        "register": lambda: lake.register_table("a.u", place),
    }[action]
    small.accident = lambda _, asked, _name, plain: said(told) if asked.endswith(f" {action}") else plain()
    with pytest.raises(expected):
        call()
    assert (list(small.tables), list(small.namespaces)) == (["a$t"], ["a"])
    assert lance.dataset(place).count_rows() == 3


@night
def test_values_that_are_no_text_stop_nobody(small):
    small.lake.write_table(ROWS, "t")
    place = small.tables["t"]["location"]
    odd = {"nothing": None, "number": 7, "yes": True, "long": "x" * 2_000_000}
    small.tables["t"]["properties"] = odd
    small.tables["t"]["storage_options"] = {"expires_at_millis": 4_000_000_000_000, "aws_region": None}
    info = small.lake.describe_table("t")
    assert info.properties == {"number": "7", "yes": "true", "long": odd["long"]}
    assert (info.location.uri, options_now(info.location)) == (place, {"expires_at_millis": "4000000000000"})
    small.lake.write_table(ROWS, "t", "append")
    assert small.lake.table("t").count_rows() == 6


SAME = ["{0}/", "{0}//", "file://{0}", "file:{0}/", "{0}/../t"]
OTHER = ["hdfs://namenode/t", "ftp://x/t", "s3://me:hush-hush@b/t", "s3:///t", "s3://b/a/../t", "s3://b//t", "t", "./t"]


@pytest.mark.when(day={"spelled": ["{0}/", "file://{0}"]})
@pytest.mark.parametrize("spelled", SAME)
def test_one_place_in_another_spelling_is_one_place(small, tmp_path, spelled):
    place = str(tmp_path / "t")
    small.place = lambda _: spelled.format(place)
    small.lake.write_table(ROWS, "t")
    small.tables["t"]["location"] = place
    small.lake.write_table(ROWS, "t", "append")
    assert small.lake.table("t").location.uri == place
    assert lance.dataset(place).count_rows() == 6


@pytest.mark.parametrize("uri", ["s3a://b/t", "s3n://b/t/", "s3://b/t"])
def test_all_spellings_of_s3_are_one(small, uri):
    small.tables["t"] = {"location": uri, "storage_options": {"aws_region": "x"}}
    found = credentials.describe(small.lake.catalog.service, ["t"], "look")
    assert found.location == uri
    assert locate_table(small.lake.catalog, "t").uri == "s3://b/t"
    assert options_now(locate_table(small.lake.catalog, "t"))["aws_region"] == "x"


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("place", OTHER)
def test_a_place_that_cannot_be_opened_is_an_error_that_names_the_table(small, place):
    small.tables["t"] = {"location": place}
    for call in (lambda: small.lake.table("t"), lambda: small.lake.write_table(ROWS, "t", "append")):
        with pytest.raises((CorruptData, InvalidOption)) as problem:
            call()
        assert "'t'" in f"{problem.value}"
        assert "hush-hush" not in f"{problem.value} {problem.value.hint}"


# --- Requests that are done although nobody is told, or done twice


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("done", ["lost", "twice"])
@pytest.mark.parametrize("action", ["create", "declare", "drop", "deregister", "rename"])
def test_what_was_done_without_an_answer_is_not_done_again(small, action, done):
    lake = small.lake
    lake.create_namespace("a")
    lake.write_table(ROWS, "a.t")
    place = small.tables["a$t"]["location"]
    call = {
        "create": lambda: lake.create_namespace("b"),
        "declare": lambda: lake.write_table(ROWS, "a.u"),
        "drop": lambda: lake.drop_table("a.t"),
        "deregister": lambda: lake.deregister_table("a.t"),
        "rename": lambda: lake.rename_table("a.t", "a.u"),
    }[action]

    def accident(_, asked, name, plain):
        answer = plain()
        if not asked.endswith(f" {action}"):
            return answer
        return (503, {}, b"") if done == "lost" else plain()

    small.accident = accident
    count = len(small.asked)
    with pytest.raises(StorageFailure if done == "lost" else (AlreadyExists, NotFound, Conflict)) as problem:
        call()
    assert len([asked for asked, _ in small.asked[count:] if asked.endswith(f" {action}")]) == 1
    if done == "lost":
        assert "may have been done" in f"{problem.value}"
    small.accident = None
    if action == "declare":
        lake.write_table(ROWS, "a.u", "append")
        assert lake.table("a.u").count_rows() == 3
    elif action == "rename":
        assert lake.table("a.u").count_rows() == 3
    assert lance.dataset(place).count_rows() == 3


# --- What only a description says


def only_described(name):
    """A service whose answer to declare lacks what its description has."""

    def accident(_catalog, asked, _name, plain):
        status, headers, body = plain()
        if not asked.endswith(" declare"):
            return status, headers, body
        told = json.loads(body)
        told.pop(name, None)
        return said(told, status)

    return accident


def test_keys_that_only_a_description_has_open_a_new_table(small):
    small.seconds = 60.0
    small.accident = only_described("storage_options")
    assert keys_of(small.lake.declare_table("t").location).startswith("very-secret-t")
    job = begun(small)
    written = write_rows(job, ROWS.to_batches())
    assert finish(job, written) == 1
    assert small.lake.table("t").count_rows() == 3


def test_a_name_is_released_although_the_description_has_other_options(small):
    small.lake.create_namespace("a")
    for seconds in (None, 60.0):
        small.seconds = seconds
        plan = begin(plan_write({**where(small), "path": "a.t"}, ROWS.schema, False))
        assert list(small.tables) == ["a$t"]
        small.seconds = 60.0 if seconds is None else None
        give_up(plan, [])
        assert small.tables == {}


def test_a_new_table_that_was_replaced_at_once_is_not_written(small):
    def accident(_catalog, asked, name, plain):
        answer = plain()
        if asked.endswith(" declare"):
            small.tables[name] = {"location": small.place(name), "properties": {}}
        return answer

    small.accident = accident
    with pytest.raises(Conflict, match="replaced"):
        small.lake.write_table(ROWS, "t")
    assert not list(small.directory.rglob("*.manifest"))


@pytest.mark.parametrize("spelled", ["expires_at_millis", "EXPIRES_AT_MILLIS"])
def test_an_end_in_seconds_does_not_ask_for_each_request(vending, spelled):
    """It looks like the year 1970: such keys are used, and asked for again at most once a second."""
    vending.seconds = None
    asked = []

    def accident(_catalog, _asked, name, plain):
        told = json.loads(plain()[2])
        asked.append(name)
        keys = {"aws_secret_access_key": f"very-secret-{name}", spelled: int(time.time()) + 60}
        return said({**told, "storage_options": keys})

    vending.accident = accident
    place, end = located(vending), time.monotonic() + 1.5
    while time.monotonic() < end:
        assert keys_of(place) == "very-secret-t"
    assert 2 <= len(asked) <= 4


SPELLED = ["a b", "a%20b", "a%2Fb", "ü", "a#b", "a&b=c", "file: a b", "file: a%25b"]


@pytest.mark.when(day={"spelled": ["a%20b", "file: a b"]})
@pytest.mark.parametrize("spelled", SPELLED)
def test_one_place_is_the_same_for_the_client_of_pylance(small, tmp_path, spelled):
    name = spelled.removeprefix("file: ")
    place = str(tmp_path / unquote(name) if name != spelled else tmp_path / name)
    uri = f"file://{quote(place)}" if name != spelled else place
    lance.write_dataset(ROWS, place)
    small.tables["t"] = {"location": uri, "properties": {}}
    small.lake.write_table(ROWS, "t", "append")
    client = lance_namespace.connect("rest", small.properties)
    assert lance.dataset(place).count_rows() == small.lake.table("t").count_rows() == 6
    try:
        theirs = lance.dataset(namespace_client=client, table_id=["t"]).count_rows()
    except ValueError:  # it finds nothing there, rather than another dataset
        return
    assert theirs == 6


# --- Tables that are replaced meanwhile


def test_a_drop_takes_only_what_was_looked_at(small):
    """Between the plan and its execution, people are asked."""
    small.lake.create_namespace("a")
    for name in ("a.t", "a.u"):
        small.lake.write_table(ROWS, name)
    table, namespace = plan_drop(small.lake.catalog, "a.t"), plan_namespace_drop(small.lake.catalog, "a", cascade=True)
    old = small.tables["a$t"]
    small.tables["a$t"] = {"location": small.place("a.t"), "properties": {}}
    for plan in (table, namespace):
        with pytest.raises(Conflict, match=r"'a\.t' was replaced"):
            drop(plan)
    small.tables["a$t"] = old
    small.lake.write_table(ROWS, "a.v")
    with pytest.raises(Conflict, match=r"'a\.v' was created"):
        drop(namespace)
    assert sorted(small.tables) == ["a$t", "a$u", "a$v"]
    drop(table)
    assert sorted(small.tables) == ["a$u", "a$v"]


def where(small):
    options = {f"storage.{key}": value for key, value in small.lake.catalog.root.options}
    return {"catalog": small.lake.catalog.uri, "path": "t", **options}


def begun(small, mode="append"):
    return begin(plan_write(where(small), ROWS.schema, mode == "overwrite"))


def replaced(small, same_place):
    """The table, dropped and created again by somebody else, with other rows and more versions."""
    place = small.tables.pop("t")["location"]
    shutil.rmtree(place)
    place = place if same_place else small.place("t")
    small.tables["t"] = {"location": place, "properties": {}}
    for number in range(4):
        lance.write_dataset(pa.table({"id": [100 + number]}), place, mode="create" if not number else "append")
    return place


@pytest.mark.parametrize("same_place", [True, False], ids=["in its place", "elsewhere"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_job_of_the_old_table_writes_nothing_into_the_new_one(small, mode, same_place):
    small.lake.write_table(ROWS, "t")
    job = begun(small, mode)
    written = write_rows(job, ROWS.to_batches())
    place = replaced(small, same_place)
    with pytest.raises((Conflict, NotFound)):
        finish(job, written)
    assert lance.dataset(place).to_table()["id"].to_pylist() == [100, 101, 102, 103]
    assert small.lake.table("t").count_rows() == 4


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_job_writes_nothing_into_a_place_that_lost_its_name(small, mode):
    """As at a registration of other files, or if the service told of another table's place for a moment."""
    small.lake.write_table(ROWS, "t")
    old = small.tables["t"]["location"]
    job = begun(small, mode)
    written = write_rows(job, ROWS.to_batches())
    small.tables["t"] = {"location": small.place("t"), "properties": {}}
    lance.write_dataset(ROWS.slice(1), small.tables["t"]["location"])
    with pytest.raises(Conflict, match="when the write began"):
        finish(job, written)
    assert (lance.dataset(old).version, small.lake.table("t").count_rows()) == (1, 2)
    assert len(list(Path(old, "data").iterdir())) == 1


def test_a_catalog_that_is_away_at_the_commit_ends_no_job(small):
    small.lake.write_table(ROWS, "t")
    job = begun(small)
    written = write_rows(job, ROWS.to_batches())
    small.accident = lambda *_: (503, {}, b"")
    assert finish(job, written) == 2
    small.accident = None
    assert small.lake.table("t").count_rows() == 6


@night
@pytest.mark.parametrize("same_place", [True, False], ids=["in its place", "elsewhere"])
@pytest.mark.parametrize("verb", ["optimize", "restore", "index", "delete", "rename a column", "tag"])
def test_a_handle_of_the_old_table_changes_nothing_of_the_new_one(small, verb, same_place):
    small.lake.write_table(ROWS, "t")
    small.lake.write_table(ROWS, "t", "append")
    handle = small.lake.table("t", version=1 if verb == "restore" else None)
    assert handle.count_rows() in (3, 6)
    place = replaced(small, same_place)
    before = lance.dataset(place).version
    if same_place and verb == "restore":
        return  # of a handle on a version, the place and its number are what it names
    call = {
        "optimize": lambda: handle.optimize(run_on="local"),
        "restore": lambda: handle.restore(),
        "index": lambda: handle.indexes.create("id"),
        "delete": lambda: handle.delete("id = 1"),
        "rename a column": lambda: handle.rename_columns({"id": "x"}),
        "tag": lambda: handle.tags.create("v1"),
    }[verb]
    try:
        call()
    except LanceSparkError:
        assert lance.dataset(place).version == before
        return
    # What a handle of a branch does, it does with the newest version: of the table in its place.
    assert same_place
    assert sorted(lance.dataset(place).to_table().column(0).to_pylist()) == [100, 101, 102, 103]


def test_a_table_that_was_renamed_meanwhile_keeps_what_a_job_wrote(small):
    small.lake.write_table(ROWS, "t")
    job = begun(small)
    written = write_rows(job, ROWS.to_batches())
    small.lake.rename_table("t", "u")
    finish(job, written)
    assert small.lake.table("u").count_rows() == 6


# --- Keys


def keys_of(location: DatasetLocation) -> str:
    return options_now(location)["aws_secret_access_key"]


@pytest.fixture
def vending(small, monkeypatch):
    monkeypatch.setattr(credentials, "_PAUSE", 0.0)
    for name in ("t", "u"):
        small.tables[name] = {"location": f"s3://b/{name}", "properties": {}}
    small.seconds = 2.0
    return small


def located(small, name="t"):
    return locate_table(small.lake.catalog, name)


@night
def test_each_table_has_its_own_keys_also_when_they_are_renewed(vending):
    places = {name: located(vending, name) for name in ("t", "u")}
    end = time.monotonic() + 4.0
    with ThreadPoolExecutor(8) as pool:
        while time.monotonic() < end:
            for name in places:
                assert all(key.split("-")[2] == name for key in pool.map(lambda _: keys_of(places[name]), range(8)))  # noqa: B023
    assert 4 <= len(vending.handed_out) <= 8


def test_a_table_that_is_elsewhere_at_the_renewal_gets_no_keys(vending):
    """They would be those of another table: the store might let the old job write there, or refuse all it does."""
    vending.seconds = 0.5
    old = located(vending)
    keys_of(old)
    vending.tables["t"] = {"location": "s3://b/other", "properties": {}}
    time.sleep(1.1)
    with pytest.raises(Conflict, match="at another place"):
        options_now(old)
    assert located(vending).uri == "s3://b/other"
    assert keys_of(located(vending))


@night
def test_a_table_whose_versions_the_catalog_begins_to_keep_gets_no_keys_for_old_jobs(vending):
    """A commit past the catalog would be lost."""
    vending.seconds = 0.5
    old = located(vending)
    keys_of(old)
    vending.tables["t"]["managed_versioning"] = True
    time.sleep(1.1)
    with pytest.raises(Conflict, match="keep its versions"):
        options_now(old)


FAILS = {
    "away": (503, {}, b""),
    "denied": said({"code": 16, "error": "the token has expired"}, 401),
    "broken": (500, {}, b"oops"),
    "no JSON": (200, {}, b"<html>log in</html>"),
    "an error with the status of success": said({"error": "oops"}),
}


@pytest.mark.when(day={"kind": ["denied"]})
@pytest.mark.parametrize("kind", FAILS)
def test_a_renewal_that_fails_ends_nothing_as_long_as_the_keys_are_good(vending, kind):
    place = located(vending)
    first = keys_of(place)
    vending.accident = lambda *_: FAILS[kind]
    time.sleep(1.7)  # due, and still good
    assert keys_of(place) == first
    time.sleep(0.4)
    with pytest.raises((StorageFailure, PermissionDenied, CorruptData)) as problem:
        options_now(place)
    assert type(problem.value).__module__ == "lance_spark.errors"
    vending.accident = None
    assert keys_of(place) != first


@night
def test_a_catalog_that_does_not_answer_is_asked_by_one_thread_and_now_and_then(vending, monkeypatch):
    monkeypatch.setattr(credentials, "_PAUSE", 60.0)
    vending.seconds = 4.0
    place = located(vending)
    first = keys_of(place)
    count, asked = len(vending.asked), threading.Event()

    def silent(*_):
        asked.wait(0.5)
        return (503, {}, b"")

    vending.accident = silent
    time.sleep(3.3)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: keys_of(place), range(40))) == {first}
    assert len(vending.asked) == count + 1


@night
def test_a_renewal_that_is_cancelled_is_begun_again_by_the_next(vending, monkeypatch):
    place = located(vending)
    keys_of(place)
    time.sleep(1.7)

    def cancelled(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(credentials, "try_to_ask", cancelled)
        with pytest.raises(KeyboardInterrupt):
            keys_of(place)
    count = len(vending.handed_out)
    assert keys_of(place)
    assert len(vending.handed_out) == count + 1


# --- Secrets

TOLD = ["token-that-is-secret", "token that/is+secret", "t" * 3000]


@pytest.mark.parametrize("token", TOLD)
@pytest.mark.parametrize("said_as", ["{0}", "Bearer {0}", "?access_token={1}&x", "({0})"])
def test_what_a_server_repeats_of_a_key_is_hidden(token, said_as):
    text = said_as.format(token, quote(token, safe=""))
    with Server(lambda *_: said({"code": 15, "error": f"denied for {text}"}, 403)) as server:
        lake = LanceCatalog.connect(
            "rest", {"uri": server.properties["uri"], "headers.Authorization": f"Bearer {token}"}
        )
        with pytest.raises(PermissionDenied) as problem:
            lake.list_tables()
    for secret in (token, quote(token, safe="")):
        assert secret not in f"{problem.value} {problem.value.hint} {problem.value!r}"


@pytest.mark.parametrize("end", ["\n", "\r\n", "  "])
def test_a_key_from_a_file_is_sent_without_its_end_of_line(end):
    with Server(lambda *_: said({"tables": []})) as server:
        lake = LanceCatalog.connect("rest", {"uri": server.properties["uri"], "headers.x-api-key": KEY + end})
        assert lake.list_tables() == []
        assert server.asked[0][1]["x-api-key"] == KEY


@pytest.mark.parametrize("value", [f"{KEY}\nx: y", f"{KEY}\0", f"{KEY}ü"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(value):
    with pytest.raises(InvalidOption, match="cannot be sent") as problem:
        LanceCatalog.connect("rest", {"uri": "http://127.0.0.1:1", "headers.x-api-key": value}).list_tables()
    assert KEY not in f"{problem.value} {problem.value.hint}"


ADDRESSES = [
    "catalog.example",
    "ftp://x",
    "http://",
    f"https://me:{KEY}@x",
    f"https://x/?token={KEY}",
    f"https://x/#{KEY}",
]


@pytest.mark.parametrize("uri", ADDRESSES)
def test_an_address_that_is_none_or_has_a_key_in_it_is_refused_and_not_shown(uri):
    with pytest.raises(InvalidOption) as problem:
        LanceCatalog.connect("rest", {"uri": uri}).list_tables()
    assert KEY not in f"{problem.value} {problem.value.hint}"


# --- Two catalogs of one place


@night
def test_two_catalogs_of_one_directory_lose_no_row(small, tmp_path):
    """Each by another implementation: the place is what counts, whatever names it has."""
    here = LanceCatalog(str(tmp_path))
    here.write_table(ROWS, "t")
    small.lake.register_table("other", here.table("t").location.uri)

    def write(number):
        lake, name = (here, "t") if number % 2 else (small.lake, "other")
        lake.write_table(pa.table({"id": [number]}), name, "append")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(10, 22)))
    small.lake.deregister_table("other")
    place = here.table("t").location.uri
    assert sorted(lance.dataset(place).to_table()["id"].to_pylist()) == [1, 2, 3, *range(10, 22)]


@night
def test_a_proxy_that_takes_the_headers_away_is_a_denial(small):
    def proxy(path, body):
        return small.answer(path, body) if "x-api-key" in server.asked[-1][1] else said({"error": "who?"}, 401)

    server = Server(proxy)
    with server:
        small.tables["t"] = {"location": "/x", "properties": {}}
        with_key = LanceCatalog.connect("rest", server.properties)
        assert with_key.list_tables() == ["t"]
        without = LanceCatalog.connect("rest", {"uri": server.properties["uri"]})
        for call in (without.list_tables, lambda: without.drop_table("t"), lambda: without.declare_table("u")):
            with pytest.raises((PermissionDenied, Refused)):
                call()
    assert list(small.tables) == ["t"]
