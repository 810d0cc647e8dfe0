"""``serve`` and ``diff --html``, as people type them; and pages from a notebook."""

import builtins
import http.client
import json
import signal
import subprocess
import sys
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from support.shown_lakes import SCRIPT, shown_lake, shown_table
from support.shown_pages import Tags

from lance_spark import LanceCatalog, LanceTable
from lance_spark.cli.catalog.main import main as lance_catalog
from lance_spark.cli.main import main as lance_git
from lance_spark.errors import NotFound, NotInstalled, Refused
from lance_spark.ui import pages


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return shown_table(str(tmp_path_factory.mktemp("cli") / "products.lance"))


def test_a_difference_is_one_page_that_needs_nothing_else(table, tmp_path, capsys):
    file = tmp_path / "diff.html"
    assert lance_git(["-C", table, "diff", "main..exp", "--rows", "--html", str(file)]) == 0
    told = capsys.readouterr()
    assert "~ name" in told.out  # the text is printed as without it
    assert f"The page is {file}" in told.err
    text = file.read_text(encoding="utf-8")
    seen = Tags(text)
    assert seen.scripts == seen.handlers == []
    assert [each for each in seen.addresses if not each.startswith("data:")] == []
    assert SCRIPT not in text
    words = "".join(seen.words)
    assert all(part in words for part in ("main@4", "exp@4", "9.99", "4.25", SCRIPT))
    assert "default-src 'none'" in text
    plain = tmp_path / "plain.html"
    assert lance_git(["-C", table, "diff", "main..exp", "--html", str(plain)]) == 0
    assert "9.99" not in plain.read_text()
    assert lance_git(["-C", table, "diff", "main..nope", "--html", str(tmp_path / "x")]) == 10
    assert not (tmp_path / "x").exists()
    assert lance_git(["-C", table, "diff", "main..exp", "--html", str(tmp_path)]) == 2  # a directory


@pytest.mark.when(day=0)
def test_a_branch_of_a_lake_is_one_page(tmp_path, capsys):
    shown_lake(tmp_path / "lake", tables=1)
    file = tmp_path / "diff.html"
    assert lance_catalog(["-C", f"{tmp_path}/lake", "diff", "etl/nightly", "--html", str(file)]) == 0
    assert "raw.events_00" in capsys.readouterr().out
    words = "".join(Tags(file.read_text()).words)
    assert all(part in words for part in ("etl/nightly", "raw.events_00", "changed"))


def test_without_the_extra_an_error_says_how_to_install_it(table, tmp_path, monkeypatch, capsys):
    found = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] in ("flask", "jinja2", "waitress"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, *rest)

    pages._environment.cache_clear()
    monkeypatch.setattr(builtins, "__import__", missing)
    assert lance_git(["-C", table, "diff", "main..exp", "--html", f"{tmp_path}/x"]) == 4
    assert "pip install 'lance-spark[ui]'" in capsys.readouterr().err
    assert lance_git(["serve", table, "--no-browser"]) == 4
    with pytest.raises(NotInstalled):
        LanceTable.for_path(table).browse(open_browser=False)


def test_pages_from_a_notebook(table):
    pytest.importorskip("waitress")
    shown = LanceTable.for_path(table).browse(open_browser=False)
    try:
        assert shown.url.startswith("http://127.0.0.1:")
        assert shown.url in shown._repr_html_()
        with urlopen(shown.url) as answer:
            assert "Find a row" in answer.read().decode()
        place = urlsplit(shown.url)
        asked = http.client.HTTPConnection(place.netloc)
        asked.request("GET", place.path, headers={"Host": "evil.example"})
        assert asked.getresponse().status == 403
        asked.close()
        with pytest.raises(Refused, match="cannot be used"):
            LanceTable.for_path(table).browse(port=place.port, open_browser=False)
    finally:
        shown.close()
    with pytest.raises(OSError, match="refused"):
        urlopen(shown.url)


def test_what_is_not_there_is_not_served(tmp_path):
    with pytest.raises(NotFound):
        LanceTable.for_path(f"{tmp_path}/nothing.lance").browse(open_browser=False)
    assert lance_git(["serve", f"{tmp_path}/nothing.lance", "--no-browser"]) == 10
    assert lance_catalog(["serve", f"{tmp_path}/nothing", "--no-browser"]) == 10


@pytest.mark.when(day=0)
@pytest.mark.parametrize("command", ["lance_spark.cli", "lance_spark.cli.catalog"])
def test_a_command_serves_until_it_is_interrupted(tmp_path, command):
    shown_lake(tmp_path / "lake", tables=1)
    lake = LanceCatalog(f"{tmp_path}/lake")
    about = lake.catalog.uri if command.endswith("catalog") else lake.describe_table("shop.products").location.uri
    words = [sys.executable, "-m", command, "serve", about, "--no-browser", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        lines = [running.stdout.readline() for _ in range(3)]
        url = json.loads("".join(lines))["url"]
        with urlopen(url) as answer:
            assert answer.status == 200
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 0
        assert running.stderr.read() == ""
