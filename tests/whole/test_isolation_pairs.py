"""Each pair of verbs at once, as a real race: what docs/reference/isolation.md says becomes of the two."""

from itertools import product
from pathlib import Path

import pytest
from support.isolation_pairs import AGAIN, BOTH, CONFLICT, START, VERBS, applied, effects, isolated_table, race

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "isolation.md"
_WORDS = {"b": BOTH, "a": AGAIN, "c": CONFLICT}
OUTCOMES = {
    "append": "bbbbccbcbbbbbb",
    "delete": "bbaabbabaabbab",
    "update": "bbaaccacaabbab",
    "row merge": "bbaaccacaabbab",
    "overwrite": "aaaaccaccaacaa",
    "overwrite of what it reads": "cccccccccaaccc",
    "overwrite of a part": "bbaaccacaabbab",
    "replace": "aaaaccaccaacaa",
    "alter": "aaaaaaaaaabaaa",
    "optimize": "baaabbabababab",
    "index": "bbbbaabababbbb",
    "restore": "bccccccccabcbb",
    "branch merge": "bbaaccacaabbbb",
    "stream batch": "bbbbccbcbbbbbb",
}
"""By the first verb: the outcome with each second one, in the order of VERBS."""


def outcome(first, second):
    return _WORDS[OUTCOMES[first][[*VERBS].index(second)]]


@pytest.mark.pure
def test_the_page_has_this_table():
    rows = [
        "| " + " | ".join(["", *VERBS]).strip() + " |",
        "|---" * (len(VERBS) + 1) + "|",
        *("| " + " | ".join([f"**{first}**", *(outcome(first, second) for second in VERBS)]) + " |" for first in VERBS),
    ]
    assert "\n".join(rows) in PAGE.read_text()


@pytest.mark.when(day=0.06)
@pytest.mark.parametrize(("first", "second"), product(VERBS, VERBS))
def test_what_becomes_of_two_at_once(uri, first, second):
    location = isolated_table(uri)
    found, conflict = race(location, first, second)
    alone = applied(second, True, START)
    if found == CONFLICT:
        assert effects(location) == alone
        assert conflict.hint
    else:
        orders = [applied(first, False, alone), applied(second, True, applied(first, False, START))]
        assert effects(location) in orders
    assert found == outcome(first, second)
