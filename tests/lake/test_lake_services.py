"""Publishes of tables of a service: all or none, whoever dies, whatever becomes of the names meanwhile."""

import os
from pathlib import Path

import lance
import pytest
from support.killed import killed_at
from support.local_datasets import numbers
from support.rest_catalogs import KEY, Server, said, served
from support.service_lakes import service_lake

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.cli.catalog.main import main
from lance_spark.errors import AlreadyExists, NotFound, PermissionDenied, Refused
from lance_spark.lake import publish as publishing
from lance_spark.storage import services

pytestmark = pytest.mark.when(spark="newest", day=0)
NAMES = ("ns1.a", "ns1.b")
OLD, NEW = [0, 1, 2], [0, 1, 2, 10]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(services, "SHORT", 0.0)


@pytest.fixture(params=["rest", "glue"])
def there(request, tmp_path):
    endpoint = request.getfixturevalue("moto") if request.param == "glue" else None
    with service_lake(request.param, tmp_path / "lake", endpoint) as found:
        found.create_namespace("ns1")
        yield found


@pytest.fixture
def lake(there):
    """Two tables with a branch of one name, which has one more row."""
    return filled(there.connect())


def filled(lake):
    for name in NAMES:
        lake.write_table(numbers(3), name)
        lake.table(name).branches.create("etl")
        lake.write_table(numbers(1, 10), name, "append", branch="etl")
    return lake


def rows(uris):
    return [sorted(lance.dataset(uri).to_table()["id"].to_pylist()) for uri in uris]


def uris_of(lake):
    return [lake.describe_table(name).location.uri for name in NAMES]


STEPS = {
    "nothing is decided": (journals, "write_journal", 1, False, OLD),
    "it is decided": (journals, "write_journal", 1, True, NEW),
    "one table has it": (publishing, "publish_table", 1, True, NEW),
    "all tables have it": (publishing, "publish_table", 2, True, NEW),
    "the verdict is out": (journals, "decide", 1, True, NEW),
    "one table remembers": (publishing, "remember_publish", 1, True, NEW),
    "the outcome is out": (journals, "write_outcome", 1, True, NEW),
}


@pytest.mark.parametrize("step", STEPS)
def test_whoever_comes_next_ends_what_a_killed_one_began(there, lake, step):
    owner, name, call, after, expected = STEPS[step]
    with killed_at(owner, name, call, after=after):
        lake.publish("etl")
    again = there.connect()
    done = again.recover()
    assert (done is None) == (step in ("nothing is decided", "the outcome is out"))
    assert rows(uris_of(lake)) == [expected] * 2
    again.publish("etl")
    assert rows(uris_of(lake)) == [NEW] * 2
    assert again.publish("etl").state == "up to date"
    assert [each.state for each in there.connect().publishes()] == ["published"]


@pytest.mark.parametrize("meanwhile", ["deregistered", "dropped", "made anew"])
def test_names_that_are_given_away_meanwhile_split_no_publish(lake, meanwhile):
    places = uris_of(lake)
    with killed_at(publishing, "publish_table", 1, after=True):
        lake.publish("etl")
    half = rows(places)
    gone = half.index(NEW)
    if meanwhile == "deregistered" or lake.catalog.service.impl == "glue":
        lake.deregister_table(NAMES[gone])
        expected = [NEW] * 2  # the dataset is where it was
    else:
        lake.drop_table(NAMES[gone])
        expected = [OLD]
    if meanwhile == "made anew" and lake.catalog.service.impl == "glue":
        with pytest.raises(AlreadyExists, match="where there is a dataset already"):
            lake.write_table(numbers(1, 7), NAMES[gone])
        assert lake.list_tables("ns1") == [NAMES[1 - gone]]
    elif meanwhile == "made anew":
        lake.write_table(numbers(1, 7), NAMES[gone])
    lake.recover()
    other = [place for place in places if place != places[gone]]
    assert rows(places if len(expected) == 2 else other) == expected
    if meanwhile == "made anew" and lake.catalog.service.impl != "glue":
        assert rows([lake.describe_table(NAMES[gone]).location.uri]) == [[7]]


def test_a_conflict_in_one_table_keeps_all_as_they_were(lake):
    for where, value in (("", "70"), ("/tree/etl", "80")):
        lance.dataset(f"{uris_of(lake)[1]}{where}").update({"id": value}, where="id = 1")
    with pytest.raises(Exception, match=r"ns1\.b"):
        lake.publish("etl")
    assert rows(uris_of(lake))[0] == OLD


def test_a_catalog_that_is_away_ends_nothing(tmp_path, monkeypatch):
    with service_lake("rest", tmp_path / "lake") as there:
        there.create_namespace("ns1")
        lake = filled(there.connect())
        places = uris_of(lake)
        with killed_at(publishing, "publish_table", 1, after=True):
            lake.publish("etl")
        half, properties = rows(places), dict(there.properties)
        really = publishing.services.find
        monkeypatch.setattr(publishing.services, "find", denied)
        with pytest.raises(PermissionDenied):
            lake.recover()
        assert (rows(places), lake.publishes()[0].state) == (half, "unfinished")
        monkeypatch.setattr(publishing.services, "find", really)
        assert LanceCatalog.connect("rest", properties).recover().state == "published"
    assert rows(places) == [NEW] * 2


def denied(*_):
    raise PermissionDenied("not today")


def test_without_a_journal_publishes_are_refused_and_the_property_is_named(tmp_path):
    with served(str(tmp_path)) as properties:
        lake = LanceCatalog.connect("rest", properties)
        for call in (lambda: lake.publish("etl"), lake.recover, lake.publishes):
            with pytest.raises(Refused, match="need a journal") as refused:
                call()
            assert "publish_journal" in refused.value.hint
        with pytest.raises(Exception, match="absolute"):
            LanceCatalog.connect("rest", {**properties, "publish_journal": "here"}).publishes()


def test_the_journal_of_another_catalog_is_left_alone(there, lake, tmp_path):
    with killed_at(publishing, "publish_table"):
        lake.publish("etl")
    with served(str(tmp_path / "other")) as properties:
        other = LanceCatalog.connect("rest", {**properties, "publish_journal": there.properties["publish_journal"]})
        for call in (other.recover, lambda: other.publish("etl")):
            with pytest.raises(Refused, match="of the catalog"):
                call()
    assert lake.recover().state == "published"


def test_versions_that_the_catalog_keeps_and_tables_that_are_missing_are_named(tmp_path):
    managed = {"location": str(tmp_path / "t"), "managed_versioning": True}
    with Server(lambda *_: said(managed)) as server:
        lake = LanceCatalog.connect("rest", {**server.properties, "publish_journal": str(tmp_path / "journal")})
        with pytest.raises(Refused, match="managed_versioning"):
            lake.publish("etl", tables=["t"])
    with Server(lambda *_: said({"code": 4, "error": "no"}, 404)) as server:
        lake = LanceCatalog.connect("rest", {**server.properties, "publish_journal": str(tmp_path / "journal")})
        with pytest.raises(NotFound):
            lake.publish("etl", tables=["t"])
    assert not (tmp_path / "journal").exists()


def test_maintenance_and_the_shell_end_what_is_unfinished(there, lake, capsys):
    with killed_at(publishing, "publish_table"):
        lake.publish("etl")
    assert "unfinished; to be ended" in str(lake.maintain({}, run_on="local"))
    assert lake.maintain({}, run_on="local").apply().exit_code == 0
    assert rows(uris_of(lake)) == [NEW] * 2
    for name in NAMES:
        lake.write_table(numbers(1, 11), name, "append", branch="etl")
    with killed_at(publishing, "publish_table"):
        lake.publish("etl")
    words = [word for pair in there.properties.items() for word in ("--property", "=".join(pair))]
    assert main(["--impl", there.impl, *words, "recover"]) == 0
    told = capsys.readouterr()
    assert "published" in told.out
    assert KEY not in f"{told.out}{told.err}"
    assert rows(uris_of(lake)) == [[*NEW, 11]] * 2


def test_the_last_audit_goes_with_the_branch_that_it_looked_at(there, lake):
    audits = Path(there.properties["publish_journal"]) / "_lake" / "audits"
    lake.publish("etl", audit=lambda _: True)
    (kept,) = audits.iterdir()
    policy = {"cleanup": dict.fromkeys(("older_than", "commit_window", "undo_window", "unverified_age"), "0s")}
    policy["cleanup"]["delete_unverified"] = True
    os.utime(kept, (1, 1))
    lake.maintain(policy, run_on="local").apply()
    assert [*audits.iterdir()] == [kept]
    lake.table(NAMES[0]).branches.delete("etl", force=True)
    lake.maintain(policy, run_on="local").apply()
    assert [*audits.iterdir()] == [kept]
    lake.table(NAMES[1]).branches.delete("etl", force=True)
    assert "leftover" in str(lake.maintain(policy, run_on="local"))
    assert [*audits.iterdir()] == [kept]
    assert lake.maintain(policy, run_on="local").apply().exit_code == 0
    assert [*audits.iterdir()] == []
    assert lake.publishes()[0].state == "published"


@pytest.mark.s3
def test_a_journal_in_a_store(tmp_path, bucket, storage):
    with served(str(tmp_path / "lake")) as properties:
        given = {**properties, "publish_journal": f"s3://{bucket}/publishes"}
        lake = LanceCatalog.connect("rest", given, storage)
        lake.create_namespace("ns1")
        filled(lake)
        with killed_at(publishing, "publish_table", 1, after=True):
            lake.publish("etl")
        assert LanceCatalog.connect("rest", given, storage).recover().state == "published"
        assert rows(uris_of(lake)) == [NEW] * 2
        assert lake.table(NAMES[0]).version == 2
