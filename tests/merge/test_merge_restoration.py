"""An older version that becomes the newest one again: who restores it, its fragments, and its indexes."""

from dataclasses import replace

import pytest
from support.merge_values import ID, contents, data_file, deletion, fragment, sides, steps, version

from lance_spark.core.refs import PinnedVersion
from lance_spark.format.contents import Field, IndexRecord
from lance_spark.format.versions import RESTORE, Root, Trace
from lance_spark.merge.assembly_rules import InPlacePolicy, ReplayPlan, place
from lance_spark.merge.change_rules import MergeChange
from lance_spark.merge.restore_rules import (
    IndexChange,
    given_up,
    index_change,
    moved,
    needs_pylance,
    with_own_ids,
)

pytestmark = pytest.mark.pure

ONE, TWO = fragment(1), fragment(2)
MINE, INTERNAL = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
OLD_PLACE, NEW_PLACE = Root("s3://old/t"), Root("s3://new/t")


def planned(now, then, change=None, **more):
    change = change or MergeChange()
    placed = place(change, now, then, InPlacePolicy(), sidecars=False)
    return ReplayPlan(
        sides(now, now, then, steps(None), steps(None)), change, placed, Trace(RESTORE, PinnedVersion(None, 1)), **more
    )


NOW = version([ONE], 3)


@pytest.mark.parametrize(
    ("now", "then", "needed"),
    [
        (NOW, version([ONE, TWO]), False),
        (NOW, version([]), False),
        (version([], 3), version([ONE]), True),
        (NOW, version([ONE], fields=(ID,)), True),
        (NOW, version([ONE], config={"a": "1"}), True),
        (NOW, version([ONE], table_metadata={"a": "1"}), True),
        (NOW, version([ONE], indexes={"v_idx": (MINE, [1], [1])}), False),
        (NOW, version([ONE], indexes={"__internal": (INTERNAL, [], [])}), True),
    ],
    ids=["rows", "nothing left", "empty now", "columns", "configuration", "metadata", "an index", "an internal index"],
)
def test_who_restores_a_version(now, then, needed):
    plan = planned(now, then)
    assert needs_pylance(plan) == needed
    assert needs_pylance(replace(plan, conflicts=(plan.sides.conflict("both"),)))
    assert needs_pylance(replace(plan, placed=replace(plan.placed, new_bases=(OLD_PLACE,))))


def test_places_that_only_the_older_version_read_from_may_be_where_the_dataset_was():
    then = version([fragment(1, data_file("a.lance", base=1))], bases={1: OLD_PLACE, 2: Root("s3://b/t/tree/x")})
    assert given_up(planned(NOW, then), "s3://b/t") == {OLD_PLACE}
    still = version([fragment(1, data_file("a.lance", base=5))], 3, bases={5: OLD_PLACE})
    assert given_up(planned(still, then), "s3://b/t") == set()
    assert given_up(planned(NOW, version([ONE])), "s3://b/t") == set()


def test_files_are_read_where_they_are_now():
    back = fragment(2, data_file("b.lance", base=1))
    now = version([ONE], 3, bases={4: NEW_PLACE})
    plan = planned(now, version([ONE, back], bases={1: OLD_PLACE}), MergeChange(added=(back,)))
    assert [copy.source for copy in plan.copies] == [OLD_PLACE]
    located = moved(plan, {1: NEW_PLACE})
    assert (located.placed.bases, located.copies, located.placed.new_bases) == ({NEW_PLACE: 4}, (), ())
    assert located.sides.theirs.bases[1] == NEW_PLACE


@pytest.mark.parametrize(
    ("now", "back", "ids"),
    [
        ([5], [(2, 0), (3, 0)], {2: 2, 3: 3}),
        ([2, 5], [(2, 0), (3, 0)], {2: 6, 3: 3}),
        ([5], [(0, 0), (3, 0)], {0: 6, 3: 3}),
        ([5], [(0, 0), (9, 0)], {0: 10, 9: 9}),
        ([5], [(2, 4)], {2: 2}),
        ([2], [(2, 4)], {2: 3}),
    ],
    ids=["free", "taken", "zero is no id", "above all", "with a deletion file", "renamed deletion file"],
)
def test_fragments_that_come_back_get_the_ids_they_had(now, back, ids):
    change = MergeChange(
        added=tuple(fragment(number, deleted=deletion(rows) if rows else None) for number, rows in back)
    )
    plan = with_own_ids(planned(version([fragment(number, "now.lance") for number in now], 3), version([]), change))
    assert plan.placed.ids == ids
    copied = [copy.target for copy in plan.copies if copy.target.startswith("_deletions")]
    assert copied == [f"_deletions/{ids[number]}-1-1.arrow" for number, rows in back if rows and ids[number] != number]


def test_an_id_that_a_later_index_knows_is_not_given_again():
    """The fragment may have had other values when that index was made."""
    back = MergeChange(added=(TWO,))
    later = {"v_idx": (MINE, [1], [1, 2])}
    assert with_own_ids(planned(version([ONE], 3, indexes=later), version([ONE, TWO]), back)).placed.ids == {2: 3}
    both = version([ONE], 3, indexes=later), version([ONE, TWO], indexes=later)
    assert with_own_ids(planned(*both, back)).placed.ids == {2: 2}


def record(*fragments, name="v_idx", fields=(1,)):
    return IndexRecord(name, MINE, fields, 1, frozenset(fragments), None, 1, None, None)


def listed(*fragments, name="v_idx"):
    return {name: (MINE, [1], fragments)}


CHANGED = fragment(2, data_file("f2.lance", 0, -2), data_file("w.lance", 1))
INDEXES = [
    # name; fragments of then, of now; the index then; the current ones; fragments of the new one; whether it lacks some
    ("the same", [ONE, TWO], [ONE, TWO], (1, 2), [record(1, 2)], None, False),
    ("forgot a fragment", [ONE, TWO], [ONE, TWO], (1, 2), [record(1)], {1, 2}, False),
    ("dropped", [ONE, TWO], [ONE, TWO], (1, 2), [], {1, 2}, False),
    ("another id", [ONE, TWO], [ONE, fragment(7, "f2.lance")], (1, 2), [], {1}, True),
    ("other rows", [ONE, TWO], [ONE, fragment(2, deleted=deletion(1))], (1, 2), [], {1}, True),
    ("other values", [ONE, TWO], [ONE, CHANGED], (1, 2), [], {1}, True),
    ("other stable ids", [ONE, TWO], [ONE, fragment(2, row_ids=b"x")], (1, 2), [], {1}, True),
    ("knew only one", [ONE, TWO], [ONE, TWO], (1,), [], {1}, False),
    ("knows more now", [ONE, TWO], [ONE, TWO], (1,), [record(1, 2)], None, False),
    ("knows one that is gone", [ONE], [ONE], (1, 2), [record(1)], None, False),
]


@pytest.mark.parametrize(
    ("then", "now", "knew", "current", "new", "lacks"),
    [case[1:] for case in INDEXES],
    ids=[case[0] for case in INDEXES],
)
def test_a_restore_keeps_replaces_or_drops_an_index(then, now, knew, current, new, lacks):
    change = index_change(contents(then, indexes=listed(*knew)), [record(*knew)], contents(now), current)
    assert change == IndexChange(
        (record(*new),) if new is not None else (),
        tuple(current) if new is not None else (),
        ("v_idx",) if lacks else (),
    )


def test_an_index_of_a_list_is_limited_to_fragments_with_the_same_elements():
    elements = (Field(5, -1, "tags", "list", True, ()), Field(1, 5, "item", "string", True, ()))
    then = contents([ONE, TWO], elements, indexes={"v_idx": (MINE, [5], [1, 2])})
    known = record(1, 2, fields=(5,))
    change = index_change(then, [known], contents([ONE, CHANGED]), [])
    assert change == IndexChange((record(1, fields=(5,)),), (), ("v_idx",))


def test_an_index_made_since_and_those_of_pylance_stay_as_they_are():
    internal = record(1, name="__internal")
    then = contents([ONE], indexes=listed(1, name="__internal"))
    assert index_change(then, [internal], contents([ONE]), [record(1)]) == IndexChange()


def test_an_index_whose_files_are_gone_is_told():
    assert index_change(contents([ONE], indexes=listed(1)), [], contents([ONE]), []) == IndexChange(lacking=("v_idx",))
