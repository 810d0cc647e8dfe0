"""A bar for notebooks: one line below each cell, which changes; nothing where nobody looks."""

import sys
from types import SimpleNamespace

import pytest

from lance_spark.core.progress import WorkProgress
from lance_spark.engine.progress_bar import NotebookBar, text_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (WorkProgress("copy", 3, 4), "copy [##################------] 3 of 4"),
        (WorkProgress("list files"), "list files"),
        ("air.f: done\nmore", "air.f: done"),
    ],
)
def test_the_text_of_a_progress(progress, text):
    assert text_of(progress) == text


def test_each_cell_of_a_notebook_has_one_line(monkeypatch):
    lines = []

    def display(data, raw, display_id):
        assert raw
        assert display_id
        lines.append([data["text/plain"]])
        return SimpleNamespace(update=lambda now, **_: lines[-1].append(now["text/plain"]))

    shell = SimpleNamespace(kernel=object(), execution_count=1)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    bar = NotebookBar()
    for cell in (1, 2):
        shell.execution_count = cell
        bar(WorkProgress("list"))
        bar(WorkProgress("copy", 1, 2))
    assert lines == [["list", "copy [############------------] 1 of 2"]] * 2


def test_nothing_is_shown_in_a_file(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    NotebookBar()(WorkProgress("copy", 1, 2))
    assert capsys.readouterr() == ("", "")
