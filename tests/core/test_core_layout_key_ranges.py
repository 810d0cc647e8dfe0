"""Key ranges tile the key space: every path is in exactly one of them, whatever it is called."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_spark.core.layout import KeyRange, clip, tile

pytestmark = pytest.mark.pure

ROOTS = ["", "tree/a", "tree/a/b", "tree/a-b", "tree/é", "tree/日本/x", "tree/a.b", "tree/a0"]
BITS = st.text("01", min_size=24, max_size=24)
NAMES = st.one_of(
    BITS,
    st.text("0123456789abcdef", min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
    st.sampled_from(["0", "00", "1", "10", "!", " ", "-", "/", "z", "~", "\x7f", "é", "\uffff", "\U0001f600"]),
)
DIRECTORIES = st.sampled_from(
    ["", "data", "_deletions", "_transactions", "_versions", "_indices", "data0", "dat", "tree", "\x01", "😀"]
)
SETS_OF_ROOTS = st.lists(st.sampled_from(ROOTS), max_size=6).flatmap(
    lambda known: st.lists(NAMES, max_size=3).map(lambda free: [*known, *(f"tree/{name}" for name in free)])
)
PATHS = st.lists(st.builds("/".join, st.tuples(st.sampled_from(ROOTS), DIRECTORIES, NAMES)), max_size=30).map(
    lambda paths: [path.lstrip("/") for path in paths]
)
SPLITS = st.one_of(st.integers(1, 40), st.sampled_from([64, 100, 1000]))


@given(roots=SETS_OF_ROOTS, splits=SPLITS, paths=PATHS)
@example(roots=[""], splits=2, paths=["data/1", "data/10", "data/0", "data", "data/", "data0", "data/\uffff"])
def test_every_path_is_in_exactly_one_range(roots, splits, paths):
    parts = tile(roots, splits)
    at_the_cuts = [path for part in parts if part.until for path in (part.until, part.until + "\0", part.until[:-1])]
    for path in paths + at_the_cuts:
        assert sum(part.holds(path) for part in parts) == 1, path


@given(roots=SETS_OF_ROOTS, splits=SPLITS)
def test_ranges_follow_on_one_another_in_the_order_of_utf8_bytes(roots, splits):
    parts = tile(roots, splits)
    assert (parts[0].after, parts[-1].until) == (None, None)
    assert [part.until for part in parts[:-1]] == [part.after for part in parts[1:]]
    cuts = [part.until.encode() for part in parts[:-1]]
    assert cuts == sorted(set(cuts))


@given(first=NAMES, second=NAMES, third=NAMES)
def test_the_order_is_that_of_utf8_bytes(first, second, third):
    inside = first.encode() < second.encode() <= third.encode()
    assert KeyRange(first, third).holds(second) == inside


@given(part=st.builds(KeyRange, st.none() | NAMES, st.none() | NAMES), directory=NAMES, name=NAMES | st.just(""))
def test_a_directory_is_passed_by_only_if_nothing_in_it_is_in_the_range(part, directory, name):
    assert part.meets(directory) or not part.holds(f"{directory}/{name}")


@pytest.mark.parametrize(
    ("after", "until", "meets"),
    [
        (None, None, True),
        ("d0", None, False),
        ("d/z", None, True),
        ("d", None, True),
        (None, "d", False),
        (None, "d/", True),
        (None, "d.x", False),
        ("c", "d-z", False),
        ("d/a", "d/b", True),
        ("d1", "e", False),
    ],
)
def test_a_directory_holds_the_keys_up_to_its_name_with_the_next_character_after_a_slash(after, until, meets):
    assert KeyRange(after, until).meets("d") is meets


def test_data_files_are_cut_at_binary_prefixes():
    parts = tile([""], 8)
    assert [part.until for part in parts if (part.until or "").startswith("data/")] == [
        "data/",
        *(f"data/{number:03b}" for number in range(1, 8)),
    ]
    names = [f"data/{number:024b}.lance" for number in range(0, 2**24, 2**17)]
    shares = [sum(part.holds(name) for name in names) for part in parts]
    assert [share for share in shares if share] == [len(names) // 8] * 8


def test_numbered_files_are_cut_at_their_first_digits():
    for directory in ("_deletions", "_transactions"):
        parts = tile([""], 16)
        assert [part.after for part in parts if (part.after or "").startswith(directory)] == [
            f"{directory}/{digit}" for digit in range(2, 10)
        ]
        assert f"{directory}/5" in [part.after for part in tile([""], 2)]


def test_one_split_is_one_range():
    assert tile(["", "tree/a"], 1) == (KeyRange(None, None),)


@pytest.mark.parametrize("branches", [0, 1, 2, 7, 50, 1000])
@pytest.mark.parametrize("main", [[], [""]])
@pytest.mark.parametrize("splits", [2, 3, 8, 50, 64, 500])
def test_branches_share_the_splits(branches, main, splits):
    roots = [*main, *(f"tree/{number}" for number in range(branches))]
    if roots:
        assert splits / 2 <= len(tile(roots, splits)) <= 4 * splits + 4


def test_small_branches_are_grouped():
    roots = [f"tree/{number:02}" for number in range(50)]
    holders = [sum(part.holds(f"{root}/data/x") for root in roots) for part in tile(["", *roots], 20)]
    assert [many for many in holders if many] == [5] * 10


def test_a_large_branch_is_cut_as_main_is():
    assert {"tree/a/data/1", "tree/a/_deletions/5"} <= {part.until for part in tile(["", "tree/a"], 4)}


@pytest.mark.parametrize("splits", [0, -1])
def test_splits_that_cannot_tile_a_range_are_refused(splits):
    with pytest.raises(ValueError, match="cannot be cut"):
        tile([""], splits)


@given(
    after=st.none() | st.text("a/0\x7fé", max_size=5),
    until=st.none() | st.text("a/0\x7fé", max_size=5),
    path=st.text("a/0\x7fé"),
)
def test_every_path_of_a_range_begins_with_its_prefix(after, until, path):
    part = KeyRange(after, until)
    assert not part.holds(path) or path.startswith(part.prefix)
    assert KeyRange("data/000", "data/001").prefix == "data/00"


@given(roots=SETS_OF_ROOTS, splits=SPLITS, paths=PATHS, chosen=st.lists(st.sampled_from(ROOTS[1:]), max_size=4))
def test_clipped_ranges_hold_each_path_below_the_directories_once_and_nothing_else(roots, splits, paths, chosen):
    clipped = clip(tile(roots, splits), chosen)
    for path in [*paths, *(f"{directory}/data/1" for directory in ROOTS[1:])]:
        below = any(path.startswith(f"{directory}/") and path != f"{directory}/" for directory in chosen)
        at_the_end = path in {f"{directory}0" for directory in chosen}
        assert sum(part.holds(path) for part in clipped) == (below or at_the_end), path
