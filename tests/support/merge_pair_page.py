"""The table of pairs in docs/reference/merging.md: read from it, and made anew.

``python tests/support/merge_pair_page.py`` runs every pair of changes through a merge and writes the table.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.merge_pair_tables import LAYOUTS, Places, combined
from support.merge_pairs import KINDS, Inapplicable, Spec, meetings

PAGE = Path(__file__).parents[2] / "docs/reference/merging.md"
BEGIN, END = "<!-- pairs -->", "<!-- end of pairs -->"
Outcomes = Mapping[Spec, bool]
"""Whether two kinds of changes combine, by the way in which they meet, which the change of ours tells."""


def letter(outcomes: Outcomes) -> str:
    """A cell: in which meetings both changes are in the result."""
    good = [spec for spec, both in outcomes.items() if both]
    for mark in MARKS:
        if good == [spec for spec in outcomes if combines(mark, spec)]:
            return mark
    return "?"


STABLE = LAYOUTS[2]
"""Rows can be traced by their ids, and no key is declared."""
MARKS = ("+", "-", "r", "c", "e", "=", "r=", "c=", "e=", "s")
"""The cells, explained on the page."""


def combines(mark: str, ours: Spec) -> bool:
    """Whether a cell says that both changes are in the result, for that meeting."""
    if mark in "+-s":
        return mark == "+" or (mark == "s" and not (ours.rows or ours.column))
    if ours.side == "alike":
        return "=" in mark
    return bool(
        ("r" in mark and ours.rows) or ("c" in mark and ours.column) or ("e" in mark and (ours.rows or ours.column))
    )


def cells() -> dict[tuple[str, str], str]:
    """The cells of the page, by the change of theirs and that of ours."""
    lines = [line for line in _table(PAGE.read_text()).splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    groups = {row[0]: row[1].split(", ") for row in rows[1:]}
    numbers = rows[0][2:]
    return {
        (theirs, ours): row[2 + at]
        for row in rows[1:]
        for theirs in groups[row[0]]
        for at, number in enumerate(numbers)
        for ours in groups[number]
    }


def _table(page: str) -> str:
    return page[page.index(BEGIN) : page.index(END)]


def found() -> dict[tuple[str, str], str]:
    """The cells as dry runs of merges of real tables have them; tests/merge/test_merge_pairs.py makes these merges."""
    every: defaultdict[tuple[str, str], dict[Spec, bool]] = defaultdict(dict)
    with tempfile.TemporaryDirectory() as directory:
        places = Places(Path(directory))
        for theirs in KINDS:
            for ours in KINDS:
                for one, other in meetings(theirs, ours):
                    try:
                        every[theirs, ours][other] = combined(places.fresh(STABLE), STABLE, one, other)
                    except Inapplicable:
                        continue
    return {pair: letter(outcomes) for pair, outcomes in every.items()}


def lines(letters: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """The table. Changes with equal cells share a row and a column."""
    groups: list[list[str]] = []
    for kind in KINDS:
        for group in groups:
            if all(_are_alike(letters, kind, other, [*group, kind]) for other in group):
                group.append(kind)
                break
        else:
            groups.append([kind])
    yield "| | theirs \\ ours | " + " | ".join(str(number) for number, _ in enumerate(groups, 1)) + " |"
    yield "|---|---|" + "---|" * len(groups)
    for number, group in enumerate(groups, 1):
        marks = [letters[group[0], other[-1]] for other in groups]
        yield f"| {number} | {', '.join(group)} | " + " | ".join(marks) + " |"


def _are_alike(letters: Mapping[tuple[str, str], str], one: str, two: str, group: Sequence[str]) -> bool:
    """Whether two changes have equal cells, also where those of a group meet each other."""
    same = all(letters[one, k] == letters[two, k] and letters[k, one] == letters[k, two] for k in KINDS)
    return same and len({letters[a, b] for a in group for b in group}) == 1


def main() -> None:
    page = PAGE.read_text()
    made = "\n".join([BEGIN, "", *lines(found()), "", ""])
    PAGE.write_text(page.replace(_table(page), made))


if __name__ == "__main__":
    main()
