"""Cards: one value as a line, as text and as HTML."""

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from lance_spark.core.show import Card, Grid, table, table_lines

pytestmark = pytest.mark.pure

EVIL = "<script>alert('x')</script> & \"co\""
SECRET = "https://me:hush-hush@host/t?sig=hush-hush"
GRID = Grid(("name", "files"), (("a", "1,200"), ("bb", "7")), right=frozenset({1}), title="tables")


def words(html):
    """What a reader sees of HTML, cell by cell; it has to be well formed."""
    ElementTree.fromstring(html)
    found = []
    parser = HTMLParser()
    parser.handle_data = found.append
    parser.feed(html)
    return found


@pytest.mark.parametrize(
    ("card", "line", "text"),
    [
        (Card("Thing"), "<Thing>", "Thing"),
        (Card("Thing", "/a"), "<Thing /a>", "Thing /a"),
        (Card("Thing", "/a", "3 rows"), "<Thing /a: 3 rows>", "Thing /a: 3 rows"),
        (
            Card("Thing", "/a", "3 rows", (("at", "main@3"), ("size", ""), ("committed", "today"))),
            "<Thing /a: 3 rows>",
            "Thing /a\n  at         main@3\n  committed  today",
        ),
        (
            Card("Thing", "", "2", grids=(Grid(("x",), ()), GRID), notes=("beware", "of it")),
            "<Thing: 2>",
            "Thing: 2\n\ntables\nname  files\na     1,200\nbb        7\n\nnote: beware\nnote: of it",
        ),
        (Card("Thing", SECRET, "a\nb"), "<Thing https://***@host/t?***: a b>", "Thing https://***@host/t?***: a b"),
    ],
)
def test_a_card_as_a_line_and_as_text(card, line, text):
    assert card.line() == line
    assert card.text() == text


def test_a_card_as_html():
    card = Card("Thing", "/a", "left out", (("rows", "3"), ("size", "")), (GRID,), ("beware",))
    facts, grid = ["rows", "3"], ["tables", "name", "files", "a", "1,200", "bb", "7"]
    assert words(card.html()) == ["Thing", " ", "/a", *facts, *grid, "note:", " beware"]


def test_html_without_facts_has_the_summary():
    assert words(Card("Thing", "", "3 rows").html()) == ["Thing", "3 rows"]


def test_everything_is_escaped_and_masked_in_html():
    told = f"{EVIL} {SECRET}"
    grid = Grid((told,), ((told,),), title=told)
    for card in (Card(told, told, told, grids=(grid,), notes=(told,)), Card(told, told, told, ((told, told),))):
        html = card.html()
        assert "<script" not in html
        assert "hush-hush" not in html
        assert "".join(words(html)).count(EVIL) == html.count("&lt;script&gt;") > 0


def test_numbers_are_aligned_to_the_right_in_html():
    cells = ElementTree.fromstring(Card("Thing", grids=(GRID,)).html()).iter()
    sides = {cell.text: "text-align:right" in cell.get("style") for cell in cells if cell.tag in ("td", "th")}
    assert sides == {"name": False, "a": False, "bb": False, "files": True, "1,200": True, "7": True}


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_end_at_the_right():
    assert table(("name", "files"), [("a", "1,000,000"), ("long name", "1")], right={1}).splitlines() == [
        "name           files",
        "a          1,000,000",
        "long name          1",
    ]
    assert table(("name",), []) == ""


def test_columns_as_lines_with_styles():
    assert table_lines(("a", "b"), [("1", "x"), ("22", "y")], bright=(1,)) == [
        [("head", "a   b")],
        [("plain", "1   x")],
        [("added", "22  y")],
    ]
