"""What bash and zsh are told while somebody types."""

import os

import lance
import pyarrow as pa
import pytest
from click.shell_completion import BashComplete

from lance_spark import LanceCatalog
from lance_spark.cli.catalog.main import cli as catalog
from lance_spark.cli.main import cli as git


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    lance.write_dataset(pa.table({"id": [1]}), str(tmp_path / "t.lance"))
    dataset = lance.dataset(str(tmp_path / "t.lance"))
    dataset.create_branch("exp/a")
    dataset.tags.create("v1", 1)
    lake = LanceCatalog(str(tmp_path / "lake"))
    lake.create_namespace("air")
    lake.write_table(pa.table({"id": [1]}), "air.flights")
    monkeypatch.chdir(tmp_path)


def told(program, *words):
    found = BashComplete(program, {}, str(program.name), "X").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-C", "t.lance", "merge", ""), ["main", "exp/a", "v1"]),
        (("-C", "t.lance", "log", "e"), ["exp/a"]),
        (("-C", "t.lance", "branch", "-d", "ex"), ["exp/a"]),
        (("--dataset", "t.lance", "tag", "-d", "v"), ["v1"]),
        (("-C", "t.lance", "diff", "main", "v"), ["v1"]),
        (("-C", "t.lance", "diff", "main..e"), ["main..exp/a"]),
        (("merge", ""), []),
        (("che",), ["checkout", "cherry-pick"]),
        (("push", "--ta"), ["--tags"]),
    ],
)
def test_refs_verbs_and_options(words, expected):
    here = os.getcwd()
    assert told(git, *words) == expected
    os.chdir(here)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-C", "lake", "describe", ""), ["air", "air.flights"]),
        (("-C", "lake", "describe", "air.f"), ["air.flights"]),
        (("-C", "nowhere", "describe", ""), []),
        (("sta",), ["status"]),
    ],
)
def test_tables_of_a_catalog(words, expected):
    assert told(catalog, *words) == expected
