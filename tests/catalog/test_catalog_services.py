"""Catalogs of services: what one of directories does, they do as far as the service answers it."""

import os
from datetime import datetime, timezone

import lance
import lance_namespace
import pyarrow as pa
import pytest
from support.rest_catalogs import KEY, Server, said, served
from support.scripts import script
from support.service_lakes import empty_glue

from lance_spark import LanceCatalog, LanceTable
from lance_spark.catalog.lookup import open_service
from lance_spark.cli.catalog.main import main
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, InvalidOption, LanceSparkWarning, NotFound, Refused
from lance_spark.fsck.lake import fsck_catalog
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.storage import services
from lance_spark.tables.local_write import write_arrow
from lance_spark.tables.write import begin, finish, give_up, plan_write

pytestmark = pytest.mark.when(spark="newest")
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(services, "SHORT", 0.0)


@pytest.fixture
def properties(tmp_path):
    with served(str(tmp_path / "lake")) as found:
        yield found


@pytest.fixture
def prod(properties):
    return LanceCatalog.connect("rest", properties)


def test_a_table_from_its_creation_to_its_end(prod):
    assert prod.create_namespace("a", {"owner": "me"})
    assert not prod.create_namespace("a", exist_ok=True)
    assert prod.describe_namespace("a").properties == {"owner": "me"}
    prod.create_namespace("a.b")
    prod.write_table(ROWS, "a.b.t")
    prod.write_table(ROWS, "a.b.t", "append")
    table = prod.table("a.b.t")
    assert table.count_rows() == 6
    table.branches.create("exp")
    prod.write_table(ROWS, "a.b.t", "append", branch="exp")
    assert (prod.table("a.b.t").count_rows(), prod.table("a.b.t", branch="exp").count_rows()) == (6, 9)
    table.branches.merge("exp", into="main")
    table.tags.create("v1")
    assert prod.table("a.b.t", tag="v1").count_rows() == 9
    prod.write_table(ROWS, "a.b.t", "overwrite")
    assert lance.dataset(table.location.uri).count_rows() == 3
    with pytest.raises(AlreadyExists):
        prod.write_table(ROWS, "a.b.t")
    prod.write_table(ROWS, "a.b.t", "ignore")
    removed = prod.deregister_table("a.b.t")
    assert not prod.table_exists("a.b.t")
    with pytest.warns(LanceSparkWarning, match="did not keep the properties"):
        prod.register_table("a.b.t", os.path.basename(removed.path), {"kept": "no"})
    assert prod.table("a.b.t", tag="v1").count_rows() == 9
    assert prod.list_tables("a", recursive=True) == ["a.b.t"]
    with pytest.raises(Refused, match="not empty"):
        prod.drop_namespace("a")
    assert [str(each.identifier) for each in prod.drop_namespace("a", cascade=True)] == ["a.b.t"]
    assert not os.path.exists(removed.path)
    assert prod.list_namespaces() == []


@pytest.mark.when(day=0)
def test_names_come_in_pages_and_in_order(prod, monkeypatch):
    monkeypatch.setattr("lance_spark.catalog.services._PAGE", 2)
    prod.create_namespace("a")
    names = [f"a.t{number}" for number in range(5)]
    for name in reversed(names):
        prod.declare_table(name)
    assert prod.list_tables("a") == names
    assert prod.list_tables("a", limit=2) == names[:2]
    assert prod.list_tables("a", limit=2, after="a.t1") == names[2:4]
    with pytest.raises(NotFound):
        prod.list_tables("nowhere")
    with pytest.raises(InvalidOption):
        prod.list_tables("a", limit=0)


@pytest.mark.when(day=0)
def test_a_name_is_taken_once_and_released_after_a_failure(prod, properties):
    prod.create_namespace("a")
    options = {"catalog": prod.catalog.uri, "path": "a.t", "create_table": "true"}
    options |= {f"storage.{key}": value for key, value in prod.catalog.root.options}
    job = begin(plan_write(options, ROWS.schema, False))
    with pytest.raises(NotFound, match="no data yet"):
        prod.table("a.t")
    with pytest.raises(AlreadyExists):
        begin(plan_write(options, ROWS.schema, False))
    give_up(job, [])
    assert not prod.table_exists("a.t")
    assert write_arrow(options, ROWS, False, None) == 1
    # Somebody else drops it during the write: nothing is left of it.
    late = begin(plan_write({**options, "path": "a.u"}, ROWS.schema, False))
    client = lance_namespace.connect("rest", properties)
    client.drop_table(lance_namespace.DropTableRequest(id=["a", "u"]))
    with pytest.raises(Conflict):
        finish(late, [])
    assert prod.list_tables("a") == ["a.t"]


@pytest.mark.when(day=0)
def test_a_missing_namespace_is_an_error_although_the_server_would_take_it(prod):
    for write in (lambda: prod.write_table(ROWS, "zz.t"), lambda: prod.declare_table("zz.t")):
        with pytest.raises(NotFound):
            write()
    assert prod.list_tables(recursive=True) == []


@pytest.mark.when(day=0)
def test_what_a_service_lacks_is_refused_by_its_name(prod, tmp_path):
    prod.create_namespace("a")
    prod.write_table(ROWS, "a.t")
    for call, named in (
        (lambda: prod.rename_table("a.t", "a.u"), "rename_table"),
        (lambda: prod.move_table("a.t", ""), "rename_table"),
        (lambda: prod.alter_table("a.t", {"x": "y"}), "properties of a table"),
        (lambda: prod.alter_namespace("a", {"x": "y"}), "properties of a namespace"),
    ):
        with pytest.raises(Refused, match=named):
            call()
    for call in (
        lambda: prod.branches.create("b"),
        lambda: prod.branches.list(),
        lambda: prod.tags.create("b"),
        lambda: prod.checkout(branch="b"),
        lambda: prod.checkout(tag="b"),
        lambda: prod.checkout(published=True).list_tables(),
        lambda: prod.publish("b"),
        lambda: prod.publishes(),
        lambda: prod.recover(),
        lambda: prod.migrate(),
        lambda: prod.reflog(),
        lambda: prod.clone(str(tmp_path / "clone")),
    ):
        with pytest.raises(Refused, match="has no __manifest"):
            call()
    assert prod.table("a.t").count_rows() == 3


@pytest.mark.when(day=0)
def test_clones_and_protected_branches_keep_a_table(prod, tmp_path):
    prod.create_namespace("a")
    prod.write_table(ROWS, "a.t")
    prod.table("a.t").clone(str(tmp_path / "clone.lance"))
    with pytest.raises(Refused, match="clone"):
        prod.drop_namespace("a", cascade=True)
    prod.drop_table("a.t", force=True)
    prod.write_table(ROWS, "a.u")
    prod.table("a.u").branches.create("keep")
    prod.table("a.u").branches.alter("keep", protected=True)
    with pytest.raises(Refused, match="protected"):
        prod.drop_table("a.u", force=True)


@pytest.mark.when(day=0)
def test_all_tables_are_looked_at_checked_and_maintained(prod, properties, tmp_path):
    with pytest.raises(NotFound):
        prod.storage()
    prod.create_namespace("a")
    for name in ("a.t", "a.u", "r"):
        for mode in ("errorifexists", "overwrite", "append"):
            prod.write_table(ROWS, name, mode)
    prod.declare_table("a.declared")
    prod.table("a.t").clone(str(tmp_path / "clone.lance"))
    assert {row["table"] for row in prod.storage(run_on="local").tables} == {"a.t", "a.u", "a.declared", "r"}
    assert {row["table"] for row in prod.storage("a", run_on="local").tables} == {"a.t", "a.u", "a.declared"}
    policy = {"cleanup": {"older_than": "0s", "commit_window": "0s", "undo_window": "0s"}}
    assert prod.maintain(policy, run_on="local").apply().exit_code == 0
    assert lance.dataset(prod.table("a.u").location.uri).version > 1
    assert len(lance.dataset(prod.table("a.u").location.uri).versions()) < 3
    assert lance.dataset(str(tmp_path / "clone.lance")).count_rows() == 6
    report = fsck_catalog(prod.catalog, FsckOptions(), LocalRunner(), datetime.now(timezone.utc))
    assert sorted(check.table for check in report.tables) == ["a.t", "a.u", "r"]
    assert report.exit_code == 0


@pytest.mark.when(day=0)
def test_ours_and_other_clients_take_turns(prod, properties, tmp_path):
    client = lance_namespace.connect("rest", properties)
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["a"]))
    lance.write_dataset(ROWS, namespace_client=client, table_id=["a", "theirs"], mode="create")
    prod.write_table(ROWS, "a.ours")
    assert prod.table("a.theirs").count_rows() == 3
    assert lance.dataset(namespace_client=client, table_id=["a", "ours"]).count_rows() == 3
    lance.write_dataset(ROWS, namespace_client=client, table_id=["a", "ours"], mode="append")
    assert prod.table("a.ours").count_rows() == 6
    assert LanceCatalog(str(tmp_path / "lake")).list_tables("a") == prod.list_tables("a") == ["a.ours", "a.theirs"]


def test_dir_is_a_directory(tmp_path):
    assert LanceCatalog.connect("dir", {"root": str(tmp_path)}).catalog.service is None
    assert open_service("dir", {"root": str(tmp_path)}).uri == str(tmp_path)
    with pytest.raises(InvalidOption):
        LanceCatalog.connect("dir", {})


@pytest.mark.parametrize("location", [None, "", "x", "../x", "file:x"])
@pytest.mark.when(day=0.3)
def test_a_location_that_is_none_is_an_error(location):
    with Server(lambda *_: said({"location": location})) as server, pytest.raises(CorruptData):
        LanceCatalog.connect("rest", server.properties).table("t")


@pytest.mark.when(day=0)
def test_pages_that_go_in_circles_end():
    with Server(lambda *_: said({"tables": ["t"], "page_token": "again"})) as server, pytest.raises(CorruptData):
        LanceCatalog.connect("rest", server.properties).list_tables()


def test_no_text_shows_a_secret(prod, capsys):
    prod.create_namespace("a")
    prod.write_table(ROWS, "a.t")
    table = prod.table("a.t")
    for shown in (
        prod,
        prod.catalog,
        prod.catalog.root,
        table,
        table.location,
        prod.describe_table("a.t"),
        prod._card(),
    ):
        assert KEY not in f"{shown!r} {shown}"
    assert isinstance(table, LanceTable)
    assert KEY not in capsys.readouterr().out


@pytest.mark.s3
@pytest.mark.when(day=0)
def test_glue_has_namespaces_and_tables(moto, bucket, storage):
    keys = {"region": "us-east-1", "access_key_id": "me", "secret_access_key": KEY, "endpoint": moto}
    keys |= {f"storage.{key}": value for key, value in storage.items()}
    glue = LanceCatalog.connect("glue", keys)
    assert glue.create_namespace("sales", {"location": f"s3://{bucket}/sales"})
    assert not glue.create_namespace("sales", exist_ok=True)
    glue.write_table(ROWS, "sales.orders")
    glue.write_table(ROWS, "sales.orders", "append")
    with pytest.raises(AlreadyExists):
        glue.declare_table("sales.orders")
    glue.table("sales.orders").branches.create("exp")
    assert glue.table("sales.orders", branch="exp").count_rows() == 6
    assert (glue.list_namespaces(), glue.list_tables("sales")) == (["sales"], ["sales.orders"])
    for absent in ("sales.nope", "nope.orders", "sales.orders.branches"):
        with pytest.raises(NotFound):
            glue.table(absent)
    for call, named in (
        (lambda: glue.rename_table("sales.orders", "sales.o"), "rename_table"),
        (lambda: glue.drop_table("sales.orders"), "drop_table"),
    ):
        with pytest.raises(Refused, match=named):
            call()
    place = glue.deregister_table("sales.orders").path
    assert glue.list_tables("sales") == []
    glue.register_table("sales.orders", place)  # by declaring it there: Glue cannot register
    assert glue.table("sales.orders").count_rows() == 6
    assert KEY not in repr(glue.table("sales.orders").location)


def named(properties):
    return ["--impl", "rest", *(word for pair in properties.items() for word in ("--property", "=".join(pair)))]


@pytest.mark.when(day=0)
def test_jobs_are_about_the_tables_of_a_service(prod, properties, capsys):
    prod.create_namespace("a")
    for name in ("a.t", "a.u"):
        for mode in ("errorifexists", "overwrite", "overwrite"):
            prod.write_table(ROWS, name, mode)
    now = ["--older-than", "0s", "--commit-window", "0s", "--undo-window", "0s", "--execute"]
    for job, options in (("cleanup", now), ("fsck", ["--deep"]), ("maintain", ["--execute"])):
        assert script(f"jobs/{job}.py").main([*named(properties), *options, "--local"]) == 0
        told = capsys.readouterr()
        assert "a.t" in told.out or "2 tables" in told.out
        assert KEY not in f"{told.out}{told.err}"
    assert len(lance.dataset(prod.table("a.u").location.uri).versions()) == 1
    for job, options in (
        ("cleanup", ["s3://b/t"]),
        ("cleanup", ["--catalog", "s3://b"]),
        ("cleanup", ["--catalog-mode", "v1"]),
        ("cleanup", ["--plan-dir", "/x"]),
        ("fsck", ["s3://b/t"]),
        ("fsck", ["--repair"]),
        ("maintain", ["s3://b"]),
    ):
        assert script(f"jobs/{job}.py").main([*named(properties), *options, "--local"]) == 2
    for job in ("cleanup", "fsck", "maintain"):
        assert script(f"jobs/{job}.py").main(["--property", "uri=x", "--local"]) == 2


@pytest.mark.when(day=0)
def test_what_is_written_for_a_directory_is_refused_for_a_service(properties, tmp_path, capsys):
    for verb in (["schedule", "--for", "cron", "--to", str(tmp_path / "out")], ["jar", str(tmp_path / "x.jar")]):
        assert main([*named(properties), *verb]) == 3
        assert "not services" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "x.jar").exists()


@pytest.mark.when(day=0)
def test_every_verb_of_the_shell_does_it_or_says_what_the_service_lacks(prod, properties, capsys):
    prod.create_namespace("a")
    prod.write_table(ROWS, "a.t")
    done = ("ls", "tree", "describe a", "describe a.t", "create b", "create b.t --table", "du", "fsck")
    of_lakes = ["migrate", "branch", "branch x", "checkout x", "diff x", "merge x", "log", "recover", "tag x", "reflog"]
    lacking = {
        "rename a.t a.u": "rename_table",
        "alter a.t -p x=y": "properties of a table",
        "alter a -p x=y": "properties of a namespace",
        **dict.fromkeys(of_lakes, "__manifest"),
    }
    for verb in (*done, "rm b --cascade --yes"):
        assert main([*named(properties), *verb.split()]) == 0, verb
    for verb, words in lacking.items():
        capsys.readouterr()
        assert main([*named(properties), *verb.split()]) == 3, verb
        told = capsys.readouterr().err
        assert words in told
        assert KEY not in told


@pytest.fixture
def glue(moto, bucket, storage):
    """The properties of Glue on moto, with a database ``sales``."""
    keys = {"region": "us-east-1", "access_key_id": "me", "secret_access_key": KEY, "endpoint": moto}
    found = keys | {f"storage.{key}": value for key, value in storage.items()}
    catalog = LanceCatalog.connect("glue", found)
    name = f"sales_{bucket.replace('-', '_')}"
    empty_glue(moto, "us-east-1")  # moto is one process for all tests
    catalog.create_namespace(name, {"location": f"s3://{bucket}/sales"})
    yield found, name
    empty_glue(moto, "us-east-1")


@pytest.mark.s3
@pytest.mark.when(day=0)
def test_jobs_are_about_the_tables_of_glue(glue, storage, capsys):
    properties, sales = glue
    catalog = LanceCatalog.connect("glue", properties)
    for mode in ("errorifexists", "overwrite", "overwrite"):
        catalog.write_table(ROWS, f"{sales}.t", mode)
    place = catalog.describe_table(f"{sales}.t").location.uri
    now = ["--older-than", "0s", "--commit-window", "0s", "--undo-window", "0s", "--execute"]
    pairs = [word for pair in properties.items() for word in ("--property", "=".join(pair))]
    for job, options in (("cleanup", now), ("fsck", ["--deep"]), ("maintain", ["--execute"])):
        assert script(f"jobs/{job}.py").main(["--impl", "glue", *pairs, *options, "--local"]) == 0
        told = capsys.readouterr()
        assert f"{sales}.t" in told.out or "1 table" in told.out
        assert KEY not in f"{told.out}{told.err}"
    assert len(lance.dataset(place, storage_options=storage).versions()) == 1
    assert main(["--impl", "glue", *pairs, "schedule", "--for", "cron", "--to", "unused"]) == 3
    assert "not services" in capsys.readouterr().err


@pytest.mark.s3
@pytest.mark.when(day=0)
def test_glue_and_its_own_client_take_turns_and_all_its_tables_are_maintained(glue, storage):
    properties, sales = glue
    ours, theirs = LanceCatalog.connect("glue", properties), lance_namespace.connect("glue", properties)
    ours.write_table(ROWS, f"{sales}.ours")
    described = theirs.describe_table(lance_namespace.DescribeTableRequest(id=[sales, "ours"]))
    lance.write_dataset(ROWS, described.location, mode="append", storage_options=storage)
    assert ours.table(f"{sales}.ours").count_rows() == 6
    declared = theirs.declare_table(lance_namespace.DeclareTableRequest(id=[sales, "theirs"]))
    lance.write_dataset(ROWS, declared.location, mode="create", storage_options=storage)
    ours.write_table(ROWS, f"{sales}.theirs", "append")
    assert lance.dataset(declared.location, storage_options=storage).count_rows() == 6
    asked = lance_namespace.ListTablesRequest(id=[sales])
    assert [f"{sales}.{name}" for name in sorted(theirs.list_tables(asked).tables)] == ours.list_tables(sales)
    ours.table(f"{sales}.ours").branches.create("exp")
    ours.write_table(ROWS, f"{sales}.ours", "append", branch="exp")
    ours.table(f"{sales}.ours").branches.merge("exp", into="main")
    assert ours.table(f"{sales}.ours").count_rows() == 9
    assert {row["table"] for row in ours.storage(sales, run_on="local").tables} == {f"{sales}.ours", f"{sales}.theirs"}
    policy = {"cleanup": {"older_than": "0s", "commit_window": "0s", "undo_window": "0s"}}
    assert ours.maintain(policy, run_on="local").apply().exit_code == 0
    report = fsck_catalog(ours.catalog, FsckOptions(), LocalRunner(), datetime.now(timezone.utc))
    assert {f"{sales}.ours", f"{sales}.theirs"} <= {check.table for check in report.tables}
    for call, named in (
        (lambda: ours.create_namespace(f"{sales}.deeper"), None),
        (lambda: ours.drop_namespace(sales), "not empty"),
        (lambda: ours.move_table(f"{sales}.ours", "elsewhere"), "rename_table"),
        (lambda: ours.alter_table(f"{sales}.ours", {"x": "y"}), "properties of a table"),
        (lambda: ours.publish("exp"), "__manifest"),
    ):
        with pytest.raises((Refused, InvalidOption), match=named):
            call()
