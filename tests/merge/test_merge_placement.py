"""Where files come to lie: which stay, which are copied, and under which names."""

from dataclasses import replace

import pytest
from support.merge_values import HERE, THERE, data_file, deletion, fragment, version

from lance_spark.errors import Refused
from lance_spark.format.versions import Copy, Root
from lance_spark.merge.assembly_rules import InPlacePolicy, Placed, place
from lance_spark.merge.change_rules import Followed, MergeChange, Replacement

pytestmark = pytest.mark.pure

UNIQUE, TWIN = "1b4e28ba-2fa1-11d2-883f-0016d3cca427.lance", "9b4e28ba-2fa1-11d2-883f-0016d3cca427.lance"
GENERATED = "011001101001100101101001" + "0123456789abcdef0123456789" + ".lance"
SOURCE, FOREIGN = Root("s3://b/source"), Root("s3://b/files", is_dataset=False)
OURS = version([fragment(0), fragment(4)], bases={1: SOURCE})
THEIRS = version([], 2, "exp", bases={1: HERE, 2: SOURCE, 3: FOREIGN})


def added(*files, **more):
    return MergeChange(added=(fragment(9, *files, **more),))


def own(path, size=100):
    return Copy(THERE, f"data/{path}", f"data/{path}", size)


IN_PLACE = InPlacePolicy()
FILES = [
    # name, file, policy, base id in ours, copies
    ("of the branch", data_file(UNIQUE), IN_PLACE, None, [own(UNIQUE)]),
    ("with pylance's other pattern", data_file(GENERATED), IN_PLACE, None, [own(GENERATED)]),
    ("of ours", data_file(UNIQUE, base=1), IN_PLACE, None, []),
    ("of a place that ours knows", data_file(UNIQUE, base=2), IN_PLACE, 1, []),
    ("of an unknown place", data_file(UNIQUE, base=3), IN_PLACE, None, [Copy(FOREIGN, UNIQUE, f"data/{UNIQUE}", 100)]),
    ("everything stays", data_file(UNIQUE), InPlacePolicy(everything=True), 2, []),
    ("outside stays", data_file(UNIQUE, base=3), InPlacePolicy(outside=HERE.uri), 2, []),
    ("inside does not", data_file(UNIQUE), InPlacePolicy(outside=HERE.uri), None, [own(UNIQUE)]),
    ("there already", data_file(UNIQUE), InPlacePolicy(present={(UNIQUE, 100): SOURCE}), 1, []),
    ("another size", data_file(UNIQUE), InPlacePolicy(present={(UNIQUE, 99): SOURCE}), None, [own(UNIQUE)]),
    (
        "there, ours does not know",
        data_file(UNIQUE),
        InPlacePolicy(present={(UNIQUE, 100): FOREIGN}),
        None,
        [own(UNIQUE)],
    ),
]


@pytest.mark.parametrize(
    ("file", "policy", "base", "copies"), [case[1:] for case in FILES], ids=[case[0] for case in FILES]
)
def test_where_a_new_data_file_is_found(file, policy, base, copies):
    placed = place(added(file), OURS, THEIRS, policy, sidecars=False)
    assert list(placed.copies) == copies
    assert placed.bytes == sum(copy.size for copy in copies)
    assert placed.present.get((THEIRS.root_of(file), file.path), placed.bases[THEIRS.root_of(file)]) == base
    assert [root in OURS.bases.values() for root in placed.new_bases] == [False] * (base == 2)
    assert placed.ids == {9: 0}


def test_a_file_that_could_collide_gets_a_name_of_its_own_and_always_the_same():
    theirs = version([], 2, "exp", bases={1: HERE, 2: SOURCE})
    change = added("part-0.lance", data_file("a/b c.lance", 1))
    placed = place(change, OURS, theirs, IN_PLACE, sidecars=True)
    assert placed == place(change, OURS, theirs, IN_PLACE, sidecars=True)
    names = [copy.target for copy in placed.copies]
    assert names == [f"data/{placed.names[THERE, path]}" for path in ("part-0.lance", "a/b c.lance")]
    assert names[0].endswith("-part-0.lance")
    assert names[1].endswith("-a_b_c.lance")
    assert all(copy.sidecars for copy in placed.copies)
    third = Root("s3://b/third")
    elsewhere = place(change, OURS, version([], 2, "exp", bases={None: third}), IN_PLACE, sidecars=False)
    later = place(change, OURS, version([], 2, "exp", seconds=7), IN_PLACE, sidecars=False)
    parts = [placed.names[THERE, "part-0.lance"], elsewhere.names[third, "part-0.lance"]]
    assert len({*parts, later.names[THERE, "part-0.lance"]}) == 3


def test_files_of_one_name_in_two_places_are_two_files():
    change = added("part-0.lance", data_file("part-0.lance", base=3), data_file("part-0.lance", base=1))
    placed = place(change, OURS, THEIRS, IN_PLACE, sidecars=False)
    assert [(copy.source, copy.path) for copy in placed.copies] == [
        (THERE, "data/part-0.lance"),
        (FOREIGN, "part-0.lance"),
    ]
    assert len({copy.target for copy in placed.copies}) == 2
    assert (HERE, "part-0.lance") not in placed.names


def test_a_file_of_ours_does_not_stand_for_one_of_theirs_of_the_same_name():
    base = fragment(4, "part-0.lance")
    theirs = fragment(4, data_file("part-0.lance", base=1), data_file("part-0.lance"))
    change = MergeChange(replaced=(Replacement(base, base, theirs, True, False, False),))
    assert len(place(change, OURS, THEIRS, IN_PLACE, sidecars=False).copies) == 1


def replaced(files, deletion_too, both=False):
    base = fragment(4, UNIQUE)
    theirs = fragment(4, *files, deleted=deletion(3))
    return MergeChange(replaced=(Replacement(base, base, theirs, bool(files[1:]), deletion_too, both),))


def test_a_file_that_the_fragment_has_already_is_not_copied_again():
    written = replaced([UNIQUE, data_file(TWIN, 1)], deletion_too=False)
    assert place(written, OURS, THEIRS, IN_PLACE, False).copies == (own(TWIN),)


GONE = Copy(THERE, "_deletions/4-1-1.arrow", "_deletions/4-1-1.arrow")


@pytest.mark.parametrize(
    ("change", "copies"),
    [
        (replaced([UNIQUE], True), [GONE]),
        (replaced([UNIQUE], True, both=True), []),
        (replaced([UNIQUE], False), []),
        (
            added(UNIQUE, deleted=deletion(3)),
            [own(UNIQUE), replace(GONE, path="_deletions/9-1-1.arrow", target="_deletions/9-1-1.arrow")],
        ),
        (added(data_file(UNIQUE, base=2), deleted=deletion(3, base=2)), []),
        (
            MergeChange(added=(fragment(3, UNIQUE, deleted=deletion(3)),)),
            [own(UNIQUE), replace(GONE, path="_deletions/3-1-1.arrow", target="_deletions/5-1-1.arrow")],
        ),
    ],
    ids=["rows deleted", "rows deleted by both", "no rows deleted", "new", "in a place that ours knows", "id taken"],
)
def test_where_a_deletion_file_is_found(change, copies):
    assert list(place(change, OURS, THEIRS, IN_PLACE, False).copies) == copies


def test_a_deletion_file_is_not_looked_for_where_another_one_is_written():
    """The data file is in a place that ours knows, the deletion file is not, and a mask goes before it."""
    change = added(data_file(UNIQUE, base=2), deleted=deletion(2))
    masked = replace(change, followed=Followed(masks={9: (1, 2, 3)}))
    assert not place(masked, OURS, THEIRS, IN_PLACE, sidecars=False).copies
    assert place(change, OURS, THEIRS, IN_PLACE, sidecars=False).copies


@pytest.mark.parametrize(
    ("numbers", "deleted", "ids"),
    [
        ((1, 9), None, {1: 0, 9: 0}),
        ((5, 9), deletion(1), {5: 5, 9: 9}),
        ((4, 9), deletion(1), {4: 5, 9: 6}),
    ],
    ids=["without deletion files", "free", "taken"],
)
def test_ids_are_settled_where_names_of_deletion_files_begin_with_them(numbers, deleted, ids):
    change = MergeChange(added=tuple(fragment(number, deleted=deleted) for number in numbers))
    placed = place(change, OURS, THEIRS, InPlacePolicy(everything=True), False)
    assert placed.ids == ids


def test_new_places_get_the_next_free_ids():
    change = added(data_file(UNIQUE, base=3), data_file(TWIN, 1))
    placed = place(change, OURS, THEIRS, InPlacePolicy(everything=True), False)
    assert placed == Placed({FOREIGN: 2, THERE: 3}, (FOREIGN, THERE), ids={9: 0})


def test_blobs_go_only_where_the_base_paths_that_they_name_are_the_same():
    """A blob by reference has the number of a base path in its data file."""
    for bases in ({1: SOURCE}, {1: SOURCE, 3: SOURCE}):
        ours = version([fragment(0)], bases=bases)
        with pytest.raises(Refused, match="base path 3"):
            place(added(data_file(UNIQUE)), ours, THEIRS, IN_PLACE, sidecars=True)
        assert place(MergeChange(), ours, THEIRS, IN_PLACE, sidecars=True).copies == ()
    same = version([fragment(0)], bases={1: SOURCE, 3: FOREIGN})
    assert place(added(data_file(UNIQUE)), same, THEIRS, IN_PLACE, sidecars=True).copies
