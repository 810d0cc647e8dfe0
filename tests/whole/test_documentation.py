"""What the documentation says is true: each page is typed into real shells, and shows what comes out of them."""

import re

import pytest
from support.connect_server import Server
from support.desk import Desk
from support.kinds import NIGHT
from support.pages import PAGES, ROOT, blocks, examples
from support.type_table import TABLE

pytestmark = pytest.mark.spark

TYPED = [page for page in PAGES if examples(page)]
THEN = {
    "first-steps": """
import lance
sorted(lance.dataset("flights.lance").to_table()["flight"].to_pylist()) == list(range(1502))  # True
""",
    "changing-columns": """
import lance
lance.dataset("flights.lance/tree/exp").validate()
lance.dataset("flights.lance").version  # 1
""",
    "streaming": """
audited = t.count_rows()
refused = False
try:
    publish(t, lambda candidate: candidate.count_rows() < 0)
except ValueError:
    refused = True

refused, t.count_rows() == audited, [branch.name for branch in t.branches.list()]  # (True, True, ['ingest'])
""",
}
"""What is typed after a page, to see with other eyes that it did what it says."""


@pytest.fixture(scope="module", params=["classic", pytest.param("connect", marks=pytest.mark.when(day=0))])
def desk(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("desk")
    server = Server(tmp_path_factory.mktemp("server"))
    if request.param == "connect":
        server.start({})
    desk = Desk(place, server.url)
    try:
        yield desk
    finally:
        desk.close()
        server.kill()


BY_DAY = ("README", "fsck")
"""What somebody types first, and a page for a terminal. A page takes up to a minute."""


@pytest.mark.when(oldest=0)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[] if page.stem in BY_DAY else pytest.mark.when(day=0)) for page in TYPED],
)
def test_a_page_can_be_pasted_from_an_empty_directory_and_gives_what_it_shows(desk, page):
    left_out = {"classic": bool(desk.remote), "at night": not NIGHT}
    found = desk.type(page, THEN.get(page.stem, ""), frozenset(mark for mark, out in left_out.items() if out))
    assert not found, "\n\n".join(found)


def test_every_example_is_typed_or_says_why_not():
    """What is indented is for a terminal at a machine: how to install, to build, and to start a cluster."""
    for page in PAGES:
        for block in blocks(page.read_text()):
            reason = block.mark.removeprefix("not typed: ")
            assert block.language in ("python", "bash", "", "toml", "json", "sql"), (
                page.name,
                block.first_line,
            )
            assert reason == block.mark or len(reason) > 10, (page.name, block.first_line)
    assert {page.stem for page in TYPED} >= {"reading-and-writing", "lance-git", "cleanup", *BY_DAY, *THEN}


ON_THE_PAGE = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "fixed_size_binary": "fixed-size binary",
    "fixed_size_list": "fixed-size list (vector)",
    "timestamp": "timestamp without zone (s, ms, us, ns)",
    "decimal256": "decimal256 up to p = 38",
}
"""What docs/reference/types.md calls a type that Arrow names otherwise; digits and items left out."""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_page_about_types_says_what_spark_shows_for_what_is_stored(row):
    arrow = re.match(r"\w+", str(row.lance))[0]
    zoned = arrow == "timestamp" and row.lance.tz is not None
    name = "timestamp with zone" if zoned else ON_THE_PAGE.get(arrow, arrow)
    rows = re.findall(r"^\| (.+?) \| (.+?) \| ", (ROOT / "docs" / "reference" / "types.md").read_text(), re.MULTILINE)
    lines = [(types(left), types(right)) for left, right in rows]
    found = [(place, left, right) for left, right in lines for place in places(name, left)]
    assert len(found) == 1, f"docs/reference/types.md has {name} {len(found)} times"
    place, left, right = found[0]
    shown = right[place] if len(right) == len(left) else right[0]
    assert shown == "its values' type" or re.match(r"[a-z_ ]+", row.spark)[0] == re.match(r"[a-z_ ]+", shown)[0].strip()


def types(cell):
    """The types that a cell of the table lists."""
    return [kind.strip() for kind in re.split(r",(?![^(]*\))", cell)]


def places(name, kinds):
    """Where a list of types has this one, which may be followed by its parameters."""
    return [place for place, kind in enumerate(kinds) if kind == name or kind.startswith(f"{name}(")]
