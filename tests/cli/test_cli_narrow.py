"""Narrow terminals: tables are stacked and histories cut, so that no line wraps."""

import pytest

from lance_spark.core import show
from lance_spark.core.show import Grid, cut, table_lines

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
