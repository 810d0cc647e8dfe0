"""What handles and results show of real datasets: without Spark, from metadata alone, and whatever the store says."""

import pickle
import shutil
from datetime import timedelta
from xml.etree import ElementTree

import lance
import pytest
import s3fs
from support.local_datasets import numbers

from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.log.print_rules import History
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.spark.catalog import LanceCatalog
from lance_spark.spark.table import LanceTable
from lance_spark.storage.datasets import pin_latest

SECRETS = {"aws_secret_access_key": "hush-hush", "azure_storage_sas_token": "hush-hush"}


@pytest.fixture
def table(uri):
    """Versions 1 and 2, a tag, a branch with rows of its own, deleted rows, and a merge."""
    lance.write_dataset(numbers(10), uri)
    lance.write_dataset(numbers(5, 10), uri, mode="append")
    found = LanceTable.for_path(uri, SECRETS)
    found.tags.create("v1")
    found.branches.create("exp/a")
    lance.write_dataset(numbers(1, 100), f"{uri}/tree/exp/a", mode="append")
    lance.dataset(uri).delete("id < 3")
    merge(found.location, pin_latest(found.location, "exp/a"), None, MergeOptions(message="audited"), LocalRunner())
    return found


def html(value):
    ElementTree.fromstring(f"<div>{value._repr_html_()}</div>")
    return value._repr_html_()


def told(value):
    """Everything that is shown of a value, the HTML checked to be well formed."""
    return f"{value!r}\n{value}\n{html(value)}"


def test_a_table_says_where_it_is_and_how_much_it_holds(table, uri):
    fragments = lance.dataset(uri).get_fragments()
    size = sum(file.file_size_bytes for fragment in fragments for file in fragment.metadata.files)
    head, *facts = str(table).splitlines()
    assert head == f"LanceTable {uri}"
    found = dict(fact.split(maxsplit=1) for fact in facts)
    assert found["at"] == "main@4, the newest version"
    assert found["rows"] == "13"
    assert found["columns"] == "1: id"
    assert found["size"].endswith("in 3 data files and 1 deletion file")
    assert size <= 1023
    assert found["size"].startswith(f"{size} B in ")
    assert repr(table) == f"<LanceTable {uri}: at main@4, 13 rows, {size} B>"
    assert "<td" in html(table)


@pytest.mark.parametrize(
    ("ref", "where"),
    [
        ({"branch": "exp/a"}, "exp/a@3, the newest version"),
        ({"tag": "v1"}, "main@2"),
        ({"version": 1}, "main@1"),
        ({"as_of": "2999-01-01T00:00:00Z"}, "main@4"),
    ],
)
def test_a_table_says_at_which_ref_it_is(table, ref, where):
    assert f"  at         {where}\n" in str(table.checkout(**ref))


def test_showing_reads_no_data(table, uri):
    before = {repr(value): str(value) for value in (table, table.branches, table.tags, table.remotes, table.log())}
    for directory in ("data", "_deletions", "tree/exp/a/data"):
        shutil.rmtree(f"{uri}/{directory}")
    for value in (table, table.branches, table.tags, table.remotes, table.log()):
        assert before[repr(value)] == str(value)


def test_a_handle_on_a_moment_does_not_read_the_whole_history(table):
    from lance_spark.core.table_options import parse_ref

    moment = parse_ref({"asOf": "2999-01-01T00:00:00Z"})
    shown = str(LanceTable(None, table.location, moment))
    assert "main as of 2999-01-01 00:00:00 UTC" in shown
    assert "was not looked up" in shown


def test_refs_show_as_tables(table, uri):
    assert repr(table.branches) == f"<Branches of {uri}: main and 1 branch>"
    assert str(table.branches).splitlines()[2].split()[:2] == ["branch", "made"]
    assert str(table.branches).splitlines()[3].startswith("exp/a   main@2     20")
    assert repr(table.tags).startswith(f"<Tags of {uri}: 1 tag")
    assert "v1   main@2" in str(table.tags)
    assert "exp/a" in html(table.branches)
    assert "v1" in html(table.tags)
    (branch,) = table.branches.list()
    assert repr(branch).startswith("<Branch exp/a: from main@2, made 20")
    assert table.branches.list() == [branch]
    assert "exp/a" in html(table.branches.list())
    assert "merged-" not in repr(table.tags)


def test_remotes_show_where_they_are(table, uri, tmp_path):
    assert repr(table.remotes) == f"<Remotes of {uri}: nothing was fetched from a remote yet>"
    clone = table.clone(str(tmp_path / "clone.lance"))
    assert repr(clone.remotes) == f"<Remotes of {clone.location.uri}: origin>"
    assert f"origin  {uri}" in str(clone.remotes)
    fetched = clone.remotes.fetch()
    assert str(fetched) == "origin has nothing new (2 branches)."
    pulled = clone.remotes.pull()
    assert str(pulled).startswith("Already up to date: main has everything of origin/main@")
    relocated = clone.relocate(dry_run=True)
    assert "base path" in str(relocated)
    for value in (clone, clone.remotes, fetched, pulled, relocated):
        assert "hush-hush" not in told(value)


def test_a_log_is_what_lance_git_prints(table, uri, capsys):
    from lance_spark.cli.main import main

    for arguments, options in (
        ((), {}),
        (("--all",), {"all": True}),
        (("--stat", "-n", "2"), {"stat": True, "count": 2}),
        (("-n", "0"), {"count": None}),
    ):
        assert main(["--dataset", uri, "log", "--graph", *arguments]) == 0
        assert capsys.readouterr().out == f"{table.log(**options)}\n"
    assert main(["--dataset", uri, "log", "--graph", "exp/a"]) == 0
    assert capsys.readouterr().out == f"{table.checkout(branch='exp/a').log()}\n"
    main(["--dataset", uri, "log", "--graph", "main@2"])
    assert capsys.readouterr().out == f"{table.checkout(tag='v1').log()}\n"


def test_a_log_is_a_drawing_beside_a_table(table):
    history = table.log()
    assert isinstance(history, History)
    assert [str(entry.pin) for entry in history] == ["main@4", "main@3", "exp/a@3", "main@2", "main@1"]
    assert not history.older
    assert repr(history) == f"<History {table.location.uri}: 5 versions from main@4>"
    assert table.log(count=2).older
    root = ElementTree.fromstring(f"<div>{history._repr_html_()}</div>")
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 6
    assert next(row.findall("td")[-3].text for row in root.iter("tr") if row.findall("td")) == "audited"


def test_plans_and_reports_say_what_goes(table, uri, tmp_path):
    policy = CleanupPolicy(older_than=timedelta(0), retain_versions=1, error_if_tagged_old_versions=False)
    plan = table.cleanup(policy, run_on="local")
    stored = plan.store(str(tmp_path / "plan"))
    assert repr(plan).startswith(f"<CleanupPlan {uri}: dry run: ")
    assert str(plan) == str(plan.report())
    assert str(tmp_path / "plan") in html(stored)
    report = plan.apply()
    assert repr(report).startswith(f"<CleanupReport {uri}: ")
    for value in (plan, stored, plan.report(), report):
        assert "hush-hush" not in told(value)


def test_catalogs_and_what_they_tell(tmp_path):
    root = str(tmp_path / "lake")
    catalog = LanceCatalog(root, SECRETS)
    assert repr(catalog) == f"LanceCatalog({root!r}, mode='compatibility')"
    words = "compatibility: tables are rows of __manifest, or directories in the root without a row"
    assert str(catalog) == f"LanceCatalog {root}\n  mode  {words}"
    catalog.create_namespace("air", {"owner": "ops"})
    declared = catalog.declare_table("air.flights")
    lance.write_dataset(numbers(1), f"{root}/trips.lance")
    assert str(catalog).splitlines()[3:] == ["kind       name in the root", "namespace  air", "table      trips"]
    assert "trips" in html(catalog)
    shown = [catalog, declared, catalog.describe_table("trips"), catalog.describe_namespace("air")]
    shown += [catalog.migrate(dry_run=True), catalog.rename_table("air.flights", "air.f"), catalog.drop_table("air.f")]
    for value in shown:
        assert "hush-hush" not in told(value)
    assert "trips" in str(pickle.loads(pickle.dumps(catalog)))


def test_no_storage_option_shows(table):
    shown = [table, table.branches, table.tags, table.remotes, table.log(), table.branches.list(), table.tags.list()]
    shown += [*table.branches.list(), *table.tags.list()]
    for value in shown:
        assert "hush-hush" not in told(value)


UNREACHABLE = {
    **SECRETS,
    "aws_access_key_id": "k",
    "aws_endpoint": "http://127.0.0.1:9",
    "allow_http": "true",
    "client_max_retries": "0",
    "aws_region": "us-east-1",
}


def handles(location):
    table = LanceTable(None, location, RefSpec(branch="exp/a"))
    return table, table.branches, table.tags, table.remotes


def test_what_is_known_of_a_dataset_that_is_gone_shows(tmp_path):
    location = DatasetLocation.at(str(tmp_path / "nowhere.lance"), SECRETS)
    assert f"<LanceTable {location.uri}: at the newest version of exp/a; There is no " in repr(handles(location)[0])
    for value in handles(location):
        for text in (repr(value), str(value), html(value)):
            assert location.uri in text
            assert "There is no Lance dataset" in text
            assert "hush-hush" not in text


def test_what_is_known_shows_where_no_store_answers(monkeypatch):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    location = DatasetLocation.at("s3://gone/t.lance", UNREACHABLE)
    table, branches, *_ = handles(location)
    for text in (repr(table), html(branches), str(LanceCatalog("s3://gone/t.lance", UNREACHABLE))):
        assert "s3://gone/t.lance" in text
        assert "The store could not be reached" in text
        assert "hush-hush" not in text


def test_a_store_that_nobody_knows_shows():
    for value in handles(DatasetLocation.at("gopher://gone/t.lance", SECRETS)):
        assert "gopher://gone/t.lance" in told(value)


def test_a_damaged_dataset_shows_what_is_wrong(table, uri, tmp_path):
    for manifest in (tmp_path / "table.lance" / "_versions").iterdir():
        manifest.write_bytes(b"x" * 100)
    for value in (table, table.branches, table.tags, table.remotes):
        assert uri in told(value)
    for ref in (tmp_path / "table.lance" / "_refs").rglob("*.json"):
        ref.write_bytes(b"{")
    for value in (table, table.branches, table.tags, table.remotes):
        assert uri in told(value)


def test_a_damaged_ref_file_shows_what_is_wrong(table, uri, tmp_path):
    for ref in (tmp_path / "table.lance" / "_refs").rglob("*.json"):
        ref.write_bytes(b"{")
    for value in (table.branches, table.tags, table.remotes):
        assert "  unknown  " in str(value)
