"""Who made a version or moved a ref: what ``LANCE_AUTHOR`` says, and nobody without it."""

import lance
import pytest
from pyarrow import parquet
from support.command_line import call
from support.local_datasets import make_dataset, numbers

from lance_spark import LanceTable
from lance_spark.core.show import plain_text
from lance_spark.format.transactions import AUTHOR
from lance_spark.log.log import log
from lance_spark.log.print_rules import log_lines
from lance_spark.storage.datasets import locate

ANNA = "Anna Berg <anna@example.org>"


@pytest.fixture
def table(uri, monkeypatch):
    make_dataset(uri, numbers(6))
    monkeypatch.setenv("LANCE_AUTHOR", f"  {ANNA}\n")
    return LanceTable.for_path(uri)


def newest(uri, branch=None):
    return next(iter(log(locate(uri), branch)))


@pytest.mark.when(day=0)
def test_each_version_has_the_author_of_its_process(spark, table, uri, tmp_path, monkeypatch):
    parquet.write_table(numbers(2, 10), tmp_path / "more.parquet")
    assert call(uri, "import", tmp_path / "more.parquet", "-m", "more").code == 0
    table.delete("id = 1")
    table.update({"id": "id + 100"}, where="id = 2")
    table.add_columns({"twice": "id * 2"})
    table.indexes.create("id", "BTREE")
    assert call(uri, "import", tmp_path / "more.parquet", "--overwrite", "--yes").code == 0
    found = list(log(locate(uri), None))
    assert ([entry.author for entry in found], found[-2].message) == ([*[ANNA] * 6, None], "more")
    dataset = lance.dataset(uri)
    assert dataset.read_transaction(dataset.version).transaction_properties[AUTHOR] == ANNA
    monkeypatch.delenv("LANCE_AUTHOR")
    table.delete("id = 10")
    assert table.history(2).select("operation", "userName").collect() == [("delete", None), ("overwrite", ANNA)]


def test_a_merge_has_the_author_of_who_merges(table, uri, monkeypatch):
    table.branches.create("exp")
    lance.write_dataset(numbers(1, 50), table.location.branch_uri("exp"), mode="append")
    monkeypatch.setenv("LANCE_AUTHOR", "Bo")
    table.branches.merge("exp")
    assert newest(uri).author == "Bo"


def test_what_commands_and_notebooks_show(table, uri):
    table.branches.create("exp")
    lance.write_dataset(numbers(1, 50), table.location.branch_uri("exp"), mode="append")
    table.branches.merge("exp")
    table.tags.create("v1")
    table.tags.move("v1", version=1)
    assert f"    Author: {ANNA}" in plain_text(log_lines(log(locate(uri), None))).splitlines()
    assert ">author<" in table.log()._repr_html_()
    assert [change.author for change in table.reflog("v1").changes] == [ANNA]
    assert f"  {ANNA}" in str(table.reflog("v1"))
    told = call(uri, "log", "--json").json
    assert [version["author"] for version in told["versions"]] == [ANNA, None]
