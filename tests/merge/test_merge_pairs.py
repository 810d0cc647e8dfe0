"""Every pair of changes, through every verb that replays changes, against a table in memory.

``support/merge_pairs.py`` says what a three-way merge of two changes must give; here real datasets make the changes.
Each pair gives that, or is a Conflict or Refused with a hint that changes nothing. Then pylance reads the table, fsck
finds it sound, its dry run said the same, and the other direction works as well.

By day each change meets some others; at night all meet.
"""

import re
from dataclasses import dataclass
from zlib import crc32

import pytest
from support.kinds import NIGHT
from support.merge_pair_page import STABLE, cells, combines
from support.merge_pair_tables import LAYOUTS, SCENES, Places, run_pair
from support.merge_pairs import KINDS, Clash, Inapplicable, begun, history, meetings, merged

CELLS = cells()
"""Of the table in docs/reference/merging.md."""
BY_DAY = 2
"""Pairs of a case."""


@dataclass(frozen=True)
class Known:
    """A fault that the matrix finds: how it shows, and a pair that shows it."""

    words: str
    verb: str
    layout: int
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.verb}: {self.theirs} x {self.ours}"


KNOWN: dict[str, list[Known]] = {}
"""By what they concern. Whoever mends one removes its line: the test below fails then."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("pairs"))


def tried(places, verb, layout, theirs, ours):
    """The faults of two kinds of changes, in all ways in which they meet."""
    for one, other in meetings(theirs, ours):
        try:
            _, came, wrong = run_pair(verb, places.fresh(layout), layout, one, other)
        except Inapplicable:
            continue
        for fault in wrong:
            yield f"{verb}, {layout}: {one} x {other}: {fault} (came: {came})"
        if NIGHT and verb == "merge" and layout == STABLE and (came == "both") != combines(CELLS[theirs, ours], other):
            yield f"{one} x {other}: {came}, and the page has {CELLS[theirs, ours]}: run merge_pair_page.py"


def met(verb, layout, theirs):
    """The changes that one meets: by day few, others in each case."""
    kinds = [*KINDS]
    if NIGHT:
        return kinds
    first = crc32(f"{verb} {layout} {theirs}".encode())
    return [kinds[(first + 11 * step) % len(kinds)] for step in range(BY_DAY)]


@pytest.mark.pure
def test_the_page_has_all_pairs_and_combines_none_that_the_model_does_not():
    assert CELLS.keys() == {(theirs, ours) for theirs in KINDS for ours in KINDS}
    met = [(mark, pair) for kinds, mark in CELLS.items() for pair in meetings(*kinds)]
    assert [(mark, *map(str, pair)) for mark, pair in met if combines(mark, pair[1]) and clashes(*pair)] == []


def clashes(theirs, ours):
    base = begun(keyed=False)
    try:
        merged(base, history(base, ours)[-1], history(base, theirs)[-1])
    except Clash:
        return True
    return False


CASES = [(verb, layout) for verb in SCENES for layout in (LAYOUTS if verb == "merge" else LAYOUTS[::3])]


@pytest.mark.when(day=0.01)
@pytest.mark.parametrize(("verb", "layout"), CASES, ids=[f"{verb}-{layout}" for verb, layout in CASES])
@pytest.mark.parametrize("theirs", KINDS)
def test_a_pair_gives_what_a_merge_of_cells_gives_or_is_refused(places, verb, layout, theirs):
    known = "|".join(fault.words for several in KNOWN.values() for fault in several)
    faults = [fault for ours in met(verb, layout, theirs) for fault in tried(places, verb, layout, theirs, ours)]
    assert [fault for fault in faults if not (known and re.search(known, fault, re.DOTALL))] == []


@pytest.mark.when(day=0)
@pytest.mark.parametrize(
    "known",
    [
        pytest.param(fault, marks=pytest.mark.xfail(strict=True, reason=kind), id=str(fault))
        for kind, several in KNOWN.items()
        for fault in several
    ],
)
def test_a_known_fault_is_mended(places, known):
    faults = tried(places, known.verb, LAYOUTS[known.layout], known.theirs, known.ours)
    assert [fault for fault in faults if re.search(known.words, fault, re.DOTALL)] == []
