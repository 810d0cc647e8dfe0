"""Catalog services that answer badly: every answer is an error of ours, in time, and shows no secret."""

import pytest
from support.rest_catalogs import KEY, Server, said, slowly

from lance_spark import LanceCatalog
from lance_spark.catalog.lookup import list_tables
from lance_spark.core.services import Service
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    InvalidOption,
    NotFound,
    NotInstalled,
    PermissionDenied,
    Refused,
    StorageFailure,
)
from lance_spark.storage import services

pytestmark = pytest.mark.when(spark="newest")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(services, "PATIENCE", 0.0)
    monkeypatch.setattr(services, "SHORT", 0.0)
    monkeypatch.setattr(services, "DEADLINE", 0.6)


def asked(properties, operation="describe_table", request="DescribeTableRequest", **given):
    return services.ask(Service.of("rest", properties), operation, request, "look", id=["a", "t"], **given)


BAD = {
    "no JSON": ((200, {}, b"<html>hello</html>"), CorruptData),
    "a list": (said([1, 2]), CorruptData),
    "another schema": (said({"location": {"s3": "x"}}), CorruptData),
    "nested": ((200, {}, b"[" * 100_000), CorruptData),
    "half": ((200, {"content-length": "1000"}, b'{"location": "s3://b/'), StorageFailure),
    "500": ((500, {}, b"oops"), StorageFailure),
    "502": ((502, {}, b"<html>"), StorageFailure),
    "503": ((503, {}, b""), StorageFailure),
    "429": ((429, {"retry-after": "1"}, b""), StorageFailure),
    "401": ((401, {}, b""), PermissionDenied),
    "403": (said({"code": 15, "error": f"not with {KEY}"}, 403), PermissionDenied),
    "404 of a proxy": ((404, {}, b"nothing here"), NotFound),
    "no such table": (said({"code": 4, "error": "t"}, 404), NotFound),
    "no such namespace": (said({"code": 1, "error": "a"}, 404), NotFound),
    "taken": (said({"code": 5, "error": "t"}, 409), AlreadyExists),
    "raced": (said({"code": 14, "error": "t"}, 409), Conflict),
    "bad input": (said({"code": 13, "error": "what"}, 400), InvalidOption),
    "unsupported": (said({"code": 0, "error": "no"}, 406), Refused),
    "unsupported inside": (said({"code": 18, "error": "Not supported: describe_table"}, 500), Refused),
    "a code of tomorrow": (said({"code": 99, "error": "new"}, 400), StorageFailure),
    "a redirect": ((307, {"location": "http://127.0.0.1:1/steal"}, b""), PermissionDenied),
    "a redirect for good": ((301, {"location": "/v2"}, b""), PermissionDenied),
}


@pytest.mark.when(day={"case": ["a list", "another schema", "half", "500", "401", "unsupported inside"]})
@pytest.mark.parametrize("case", BAD)
def test_a_bad_answer_is_an_error_of_ours(case):
    answer, expected = BAD[case]
    with Server(lambda *_: answer) as server, pytest.raises(expected) as problem:
        asked(server.properties)
    assert server.properties["uri"].partition("//")[2] in f"{problem.value} {problem.value.hint}"
    assert KEY not in f"{problem.value!r} {problem.value}"
    assert type(problem.value).__module__ == "lance_spark.errors"  # others are not recognised in a task's text
    assert len(server.asked) == 1
    assert server.asked[0][1]["x-api-key"] == KEY


def test_a_refusal_names_the_operation():
    lacking, says = Server(lambda *_: said({"code": 0, "error": "no"}, 406)), "does not support rename_table"
    with lacking, pytest.raises(Refused, match=says):
        asked(lacking.properties, "rename_table", "RenameTableRequest", new_table_name="u")


def test_a_redirect_is_not_followed_to_another_host():
    with Server(lambda *_: said({"location": "s3://stolen/x"})) as thief:
        there = thief.properties["uri"]
        server = Server(lambda path, _: (307, {"location": f"{there}{path}"}, b""))
        with server, pytest.raises(PermissionDenied, match="redirects"):
            asked(server.properties)
        assert thief.asked == []


def test_an_answer_that_does_not_come_ends_in_time():
    with Server(lambda *_: slowly(1.0, said({}))) as server, pytest.raises(StorageFailure):
        asked(server.properties)


def test_an_answer_that_drips_ends_in_time():
    drips = (200, {"x-drips": "0.05"}, b'{"location": "s3://b/t"' + b" " * 100 + b"}")
    with Server(lambda *_: drips) as server, pytest.raises(StorageFailure, match="no answer within"):
        asked(server.properties)


LISTS = {
    "a name that is none": said({"tables": ["t", 1]}),
    "names that are no list": said({"tables": {"t": 1}}),
    "no names": said({"tables": None}),
    "another field": said({"names": ["t"]}),
    "a token that is none": said({"tables": ["t"], "page_token": 7}),
    "half": (200, {"content-length": "1000"}, b'{"tables": ["t"'),
    "half, as if whole": (200, {}, b'{"tables": ["t"'),
    "500": (500, {}, b"oops"),
    "429": (429, {"retry-after": "1"}, b""),
    "a redirect": (307, {"location": "http://127.0.0.1:1/steal"}, b""),
    "nothing": (200, {}, b""),
}


@pytest.mark.when(day={"case": ["half", "another field"]})
@pytest.mark.parametrize("case", LISTS)
@pytest.mark.parametrize("first", [True, False], ids=["the first page", "the second page"])
def test_a_list_is_whole_or_an_error(case, first):
    """A part that looks like all of it would let a cleanup of all tables, or a cascade, miss the others."""

    def answer(path, _):
        if "/list" not in path or (not first and "page_token" not in path):
            return said({"tables": ["s"], "page_token": "next"})
        return LISTS[case]

    with Server(answer) as server, pytest.raises((CorruptData, StorageFailure, PermissionDenied)) as problem:
        list_tables(LanceCatalog.connect("rest", server.properties).catalog)
    assert KEY not in f"{problem.value!r} {problem.value} {problem.value.hint}"


@pytest.mark.when(day=0)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("operation", ["describe_table", "declare_table", "drop_table", "list_tables"])
def test_no_operation_follows_a_redirect(status, operation):
    request = "".join(word.capitalize() for word in operation.split("_")) + "Request"
    with Server(lambda *_: said({"location": "s3://stolen/x"})) as thief:
        there = thief.properties["uri"]
        server = Server(lambda path, _: (status, {"location": f"{there}{path}"}, b""))
        with server, pytest.raises(PermissionDenied, match="redirects"):
            asked(server.properties, operation, request)
        assert thief.asked == []


def test_nobody_there(closed_port):
    with pytest.raises(StorageFailure):
        asked({"uri": closed_port, "headers.x-api-key": KEY})


def test_what_may_have_happened_is_said_and_not_repeated():
    with Server(lambda *_: (503, {}, b"")) as server:
        with pytest.raises(StorageFailure, match="may have been done"):
            asked(server.properties, "drop_table", "DropTableRequest")
        assert len(server.asked) == 1


def test_one_that_is_away_is_asked_again(monkeypatch):
    monkeypatch.setattr(services, "SHORT", 30.0)
    monkeypatch.setattr(services, "_FIRST_PAUSE", 0.01)
    answers = [(503, {}, b""), (429, {}, b""), (500, {}, b'{"code": 17, "error": "away"}')]
    with Server(lambda *_: answers.pop() if answers else said({"location": "s3://b/t"})) as server:
        assert asked(server.properties).location == "s3://b/t"
        assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("impl", "properties", "expected"),
    [("rest", {}, InvalidOption), ("nowhere.to.Be", {}, NotInstalled), ("os.path", {}, InvalidOption)],
)
def test_a_service_that_cannot_be_connected_to_is_an_error(impl, properties, expected):
    with pytest.raises(expected):
        services.ask(Service.of(impl, properties), "list_tables", "ListTablesRequest", "look", id=[])


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lance_namespace_impls", None)
    with pytest.raises(NotInstalled, match="lance-namespace-impls"):
        services.ask(Service.of("glue", {"region": "x"}), "list_tables", "ListTablesRequest", "look", id=[])
