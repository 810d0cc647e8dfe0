"""Narrow terminals: tables are stacked and histories cut, so that no line wraps."""

import pytest

from lance_spark.cli.output import bar_text
from lance_spark.core import show
from lance_spark.core.show import Grid, aligned, cut, stacked, table_lines
from lance_spark.core.texts import columns_of, wrapped
from lance_spark.engine.local import WorkProgress
from lance_spark.engine.progress_bar import text_of

pytestmark = pytest.mark.pure

HEADER = ("", "branch", "what")
ROWS = [("*", "main", "data/0.lance is missing, and three versions name it"), ("", "exp/a-long-name", "2 files")]


@pytest.fixture(params=[None, 200, 80, 40, 12])
def width(request):
    before = show.WIDTH.set(request.param)
    yield request.param
    show.WIDTH.reset(before)


def test_no_line_of_a_table_is_wider_than_the_terminal_and_no_word_is_lost(width):
    text = Grid(HEADER, tuple(ROWS), title="").text()
    styled = "\n".join("".join(part for _, part in line) for line in table_lines(HEADER, ROWS, bright=[0]))
    for shown in (text, styled):
        lines = shown.splitlines()
        columns = width in (None, 200, 80)
        assert columns == (len(lines) == 3)
        if width is not None and width > 30:
            assert max(map(len, lines)) <= width
        words = {word for row in ROWS for cell in row for word in cell.split()}
        assert words <= set(shown.split()) or width == 12
    assert (table_lines(HEADER, ROWS, bright=[0])[0 if width in (12, 40) else 1][0][0]) == show.PLUS


def test_a_line_of_a_history_is_cut(width):
    line = [(show.GRAPH, "| * "), (show.VERSION, "main@3"), (show.PLAIN, "  append  5 rows  2026-11-27 23:49:41")]
    shown = "".join(text for _, text in cut(line))
    if width is None or width >= 80:
        assert cut(line) == line
    else:
        assert (len(shown), shown[-1]) == (width, "…")


WIDE = "feature/日本語の長い名前のブランチ"


@pytest.mark.parametrize(
    ("text", "columns"),
    [("main", 4), ("日本語", 6), ("e\u0301", 1), ("\uff46ull", 5), ("a日b", 4), ("🚀", 2), ("\u200b", 0), ("", 0)],
)
def test_characters_that_take_two_columns_count_as_two(text, columns):
    assert columns_of(text) == columns


@pytest.mark.parametrize("text", [WIDE, f"{WIDE} and {WIDE}", "日本語 " * 9, "a" * 50 + "日", "no wide ones " * 5])
@pytest.mark.parametrize("columns", [8, 11, 40])
def test_wide_characters_wrap_at_the_edge_and_none_is_lost(text, columns):
    lines = wrapped(text, columns)
    assert max(map(columns_of, lines)) <= columns
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_wide_characters_stand_in_columns():
    first, second = aligned([("日本", "x"), ("main", "y")])
    assert columns_of(first) == columns_of(second)


def test_a_history_with_wide_characters_is_cut(width):
    shown = "".join(text for _, text in cut([(show.GRAPH, "* "), (show.PLAIN, WIDE), (show.PLAIN, "  append")]))
    assert width is None or columns_of(shown) <= width
    assert shown.endswith("append" if width in (None, 200, 80) else "…")


def test_a_mark_stands_in_front_of_the_name_it_marks():
    assert stacked(("", "branch"), [("*", "main"), ("", "exp")], 40) == [["branch  * main"], ["branch  exp"]]


@pytest.mark.parametrize("columns", [None, 200, 79, 50, 39, 20, 9])
@pytest.mark.parametrize(
    "step", [WorkProgress("check tables", 40, 120), WorkProgress("日本語 の 表", 0, 2), WorkProgress("commit")]
)
def test_progress_stays_in_one_line_and_says_how_far_it_is(step, columns):
    """A line that wraps cannot be drawn over, and each new one would stand below it."""
    for text in (bar_text(step, 3.2, columns), text_of(step, columns)):
        assert columns is None or columns_of(text) <= columns
        if step.total > 1 and columns in (None, 200, 79, 50, 39):
            assert f"{step.done} of {step.total}" in text
            assert "[" in text
