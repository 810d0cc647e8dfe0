"""The drawn graph of a log: where dots and lines are, and the SVG of it."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from support.log_entries import NOW, entries, histories, pin

from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import plain_text
from lance_spark.format.operations import LogEntry
from lance_spark.log.graph_rules import ROW, draw, lay_out, legend, svg
from lance_spark.log.print_rules import History, graph_lines

pytestmark = pytest.mark.pure

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<b onclick='x'>&\""


def told(*lines):
    """Dots as ``column version``, lines as ``branch: column,row ...``, with dots behind those that lead on."""
    drawing = lay_out(entries(*lines))
    tracks = [
        f"{track.branch or 'main'}: {' '.join(f'{x},{y}' for x, y in track.points)}{' ...' if track.open else ''}"
        for track in drawing.tracks
    ]
    assert [dot.at[1] for dot in drawing.dots] == list(range(len(lines)))
    return [f"{dot.at[0]} {dot.entry.pin}" for dot in drawing.dots], sorted(tracks)


@pytest.mark.parametrize(
    ("lines", "dots", "tracks"),
    [
        ((), [], []),
        (("main@1",), ["0 main@1"], []),
        (("main@2 main@1", "main@1"), ["0 main@2", "0 main@1"], ["main: 0,0 0,1"]),
        (("main@2 main@1",), ["0 main@2"], ["main: 0,0 0,1 ..."]),
        (
            ("exp@3 main@2", "main@3 main@2", "main@2 main@1", "main@1"),
            ["0 exp@3", "1 main@3", "0 main@2", "0 main@1"],
            ["exp: 0,0 0,1 0,2", "main: 0,2 0,3", "main: 1,1 0,2"],
        ),
        (
            ("main@4 main@3 exp@3", "exp@3 main@2", "main@3 main@2", "main@2"),
            ["0 main@4", "1 exp@3", "0 main@3", "0 main@2"],
            ["exp: 0,0 1,1", "exp: 1,1 1,2 0,3", "main: 0,0 0,1 0,2", "main: 0,2 0,3"],
        ),
        (
            ("a@2 a@1", "b@2 b@1", "a@1", "b@1"),
            ["0 a@2", "1 b@2", "0 a@1", "0 b@1"],
            ["a: 0,0 0,1 0,2", "b: 1,1 1,2 0,3"],
        ),
        (("main@4 main@3 gone@3", "main@3"), ["0 main@4", "0 main@3"], ["main: 0,0 0,1"]),
    ],
    ids=["nothing", "one", "two", "limited", "fork", "merge", "ended", "merge of a branch that is gone"],
)
def test_dots_and_lines(lines, dots, tracks):
    assert told(*lines) == (dots, tracks)


@given(histories())
def test_every_version_is_joined_to_each_of_its_parents(lines):
    listed = entries(*lines)
    drawing = lay_out(listed)
    at = {dot.entry.pin: dot.at for dot in drawing.dots}
    joined = sorted((track.points[0], track.points[-1]) for track in drawing.tracks)
    assert joined == sorted((at[entry.pin], at[parent]) for entry in listed for parent in entry.parents)
    for track in drawing.tracks:
        rows = [row for _, row in track.points]
        assert rows == list(range(rows[0], rows[0] + len(rows)))
        assert not set(track.points[1:-1]) & set(at.values())
    text = {row.entry.pin: row.graph.replace("M", "*") for row in draw(listed) if row.entry}
    assert {version: place[0] for version, place in at.items()} == {
        version: graph.index("*") // 2 for version, graph in text.items()
    }


def drawn(*found):
    return ElementTree.fromstring(svg(lay_out(found)))


def entry(version=3, parents=("main@2",), **arguments):
    return LogEntry(None, version, NOW, "Append", parents=tuple(map(pin, parents)), **arguments)


def test_names_are_labels_without_tags_that_only_protect_files():
    own = "merged-0123456789abcdef"
    given_names = {"heads": ("main", "copy"), "tags": ("v1", own), "forks": ("exp", "copy")}
    root = drawn(entry(**given_names), entry(2, ()))
    assert [text.text for text in root.iter(f"{SVG}text")] == ["main", "copy", "v1", "exp"]
    assert [title.text for title in root.iter(f"{SVG}title")] == [
        *("main@3", "branch main", "branch copy", "tag v1", "fork exp", "main@2")
    ]


def test_many_and_long_names_leave_room_for_the_table():
    root = drawn(entry(tags=tuple(f"tag-{number}" for number in range(40)), heads=("x" * 90,)))
    shown = [text.text for text in root.iter(f"{SVG}text")]
    assert shown == ["x" * 19 + "…", "tag-0", "tag-1", "38 more"]
    assert [title.text for title in root.iter(f"{SVG}title")][-1].startswith("tag tag-2, tag tag-3, ")
    assert float(root.get("width")) < 400


def test_all_of_the_drawing_is_inside_of_it():
    found = entries("main@4 main@3 exp@3", "exp@3 main@2", "main@3 main@2", "main@2 main@1")
    root = ElementTree.fromstring(svg(lay_out(found)))
    assert float(root.get("height")) == 4 * ROW
    assert len(list(root.iter(f"{SVG}circle"))) == 5  # a merge has a ring as well
    for circle in root.iter(f"{SVG}circle"):
        assert 0 < float(circle.get("cx")) < float(root.get("width"))
        assert 0 < float(circle.get("cy")) < float(root.get("height"))


def test_a_version_is_in_the_colour_of_its_branch():
    root = ElementTree.fromstring(svg(lay_out(entries("exp@3 main@2", "main@3 main@2", "main@2"))))
    exp, main, fork = (circle.get("fill") for circle in root.iter(f"{SVG}circle"))
    assert main == fork != exp
    assert [group.get("stroke") for group in root.findall(f"{SVG}g[@stroke]")] == [main, exp]


def test_a_history_is_the_text_of_the_graph_and_a_table():
    found = (
        entry(3, ("main@2",), message="why\nnot", total_rows=1200, tags=(EVIL,), heads=("main",)),
        entry(2, (), message=EVIL + "x" * 99),
    )
    history = History("/t.lance", PinnedVersion(None, 3), found, older=True)
    assert list(history) == list(found)
    assert len(history) == 2
    assert str(history) == plain_text(graph_lines(found))
    assert repr(history) == "<History /t.lance: 2 versions from main@3, and there are older ones>"
    root = ElementTree.fromstring(f"<div>{history._repr_html_()}</div>")
    rows = [["".join(cell.itertext()) for cell in row.findall("td")] for row in root.iter("tr")]
    assert rows[1][1:] == ["main@3", "append", "why not", "1,200", "2026-01-01 00:00:00 UTC"]
    assert rows[2] == ["main@2", "append", (EVIL + "x" * 99)[:49] + "…", "", "2026-01-01 00:00:00 UTC"]
    assert root.find(".//span").get("title") == EVIL + "x" * 99
    assert not list(root.iter("b"))[1:]  # the headline's


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (entries("main@2 main@1", "main@1"), ()),
        (entries("main@4 main@3 exp@3", "exp@3 main@2", "main@3 main@2", "main@2"), ("ring: merge",)),
        ((entry(1, (), heads=("main",)),), ("round label: newest version of a branch",)),
        ((entry(1, (), tags=("v1",), forks=("exp",)),), ("square label: tag", "dashed label: a branch was made here")),
        (entries("main@2 main@1"), ("dotted line: older versions that are not listed",)),
        ((), ()),
    ],
    ids=["plain", "merge", "branch", "tag and fork", "leads on", "nothing"],
)
def test_each_shape_that_a_drawing_has_is_explained(found, told):
    assert legend(lay_out(found)) == told
    html = History("/t", PinnedVersion(None, 4), tuple(found))._repr_html_()
    assert all(meaning in html for meaning in told)
    assert ("label:" in html) == any("label" in meaning for meaning in told)


def test_an_empty_history_and_a_long_one_show():
    assert "0 versions" in History("/t", PinnedVersion(None, 1), ())._repr_html_()
    long = entries(*(f"main@{number} main@{number - 1}" for number in range(900, 0, -1)))
    html = History("/t", PinnedVersion(None, 900), tuple(long))._repr_html_()
    assert html.count("<tr>") == 501
    assert "the 400 oldest of these are not drawn" in html
