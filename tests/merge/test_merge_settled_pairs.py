"""Every pair of changes of rows, merged with a preference, against a table in memory.

``support/merge_pairs.py`` says what a merge of cells that prefers a side must give. Each pair gives that; afterwards
the other direction and the next merges work, and the settled conflict does not come back.
"""

import pytest
from support.merge_pair_tables import LAYOUTS, Places, run_pair
from support.merge_pairs import Inapplicable, meetings

KINDS = (
    "append",
    "delete",
    "update",
    "update in place",
    "upsert",
    "overwrite a part",
    "fill",
    "compact",
    "sort",
    "add computed",
)
VERBS = ("merge", "cherry-pick", "pull", "revert")
CASES = [(verb, layout) for verb in VERBS for layout in (LAYOUTS if verb == "merge" else LAYOUTS[2:])]
UNSETTLED = (
    "have no values in column",
    "wrote a column of rows that",
    "cannot be told",
    "several rows have the same key",
)
"""What no preference settles."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("settled"))


def is_one_row(layout, *specs):
    """Whether a row that was deleted and written again is the same one: so says its key, without ids."""
    return layout.keyed and not layout.stable and "overwrite a part" in {spec.kind for spec in specs}


def tried(places, verb, layout, theirs, ours):
    for one, other in meetings(theirs, ours):
        for prefer in ("ours", "theirs"):
            if is_one_row(layout, one, other):
                continue
            try:
                scene, came, wrong = run_pair(verb, places.fresh(layout), layout, one, other, prefer)
            except Inapplicable:
                continue
            if came != "both" and not scene.clash and not any(words in came for words in UNSETTLED):
                unmatched = "tells them apart" in came or "on='id'" in came
                wrong += [] if unmatched and not (layout.stable or layout.keyed) else ["stays a conflict"]
            yield from (f"{one} x {other}, prefer {prefer}: {fault} (came: {came[:500]})" for fault in wrong)


@pytest.mark.when(day=0.005)
@pytest.mark.parametrize(
    "case",
    [(*case, theirs, ours) for case in CASES for theirs in KINDS for ours in KINDS],
    ids=lambda case: f"{case[0]}: {case[1]}: {case[2]} x {case[3]}",
)
def test_a_preference_gives_what_a_merge_of_cells_gives(places, case):
    assert [*tried(places, *case)] == []
