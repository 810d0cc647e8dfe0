"""Which versions of a remote are fetched, in which order, and what following branches have of each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.records.tracking import Follows, VersionPair
from lance_spark.core.refs import PinnedVersion
from lance_spark.remotes.fetch_rules import (
    Meeting,
    Received,
    RemoteChain,
    RemoteMerge,
    in_order,
    meetings,
    reshaping,
    stops,
    with_parents,
)

pytestmark = pytest.mark.pure


def chain(branch, versions, fork=None, **known):
    return RemoteChain(branch, branch or "", tuple(versions), fork and PinnedVersion(*fork), **known)


def follows(branch, *pairs):
    return Follows("origin", "/r", branch, pairs=tuple(VersionPair(*pair) for pair in pairs))


def by_branch(*found):
    return {entry.branch: entry for entry in found}


def branches_of(ordered):
    return [found.branch for found in ordered]


def test_parents_come_first():
    found = by_branch(
        chain("a", [3], ("z", 3)), chain("z", [2], (None, 2)), chain(None, [1, 2]), chain("b", [4], ("a", 3))
    )
    ordered = branches_of(in_order(found))
    assert sorted(ordered, key=str) == sorted(found, key=str)
    assert ordered.index(None) < ordered.index("z") < ordered.index("a") < ordered.index("b")


@given(st.lists(st.integers(-1, 5), max_size=6), st.randoms())
def test_every_branch_comes_once_and_after_its_parent(parents, chance):
    names = chance.sample("abcdef", len(parents))
    forks = [None if parent < 0 or not n else names[parent % n] for n, parent in enumerate(parents)]
    found = by_branch(chain(None, [1]), *(chain(name, [2], (fork, 1)) for name, fork in zip(names, forks, strict=True)))
    ordered = branches_of(in_order(found))
    assert sorted(ordered, key=str) == sorted(found, key=str)
    for name, fork in zip(names, forks, strict=True):
        assert ordered.index(fork) < ordered.index(name)


def test_a_parent_that_is_not_there_is_left_out():
    assert branches_of(in_order(by_branch(chain("a", [3], ("gone", 3)), chain(None, [1])))) == [None, "a"]


def test_a_branch_is_wanted_with_all_that_it_comes_from():
    forks = {"b": PinnedVersion("a", 4), "a": PinnedVersion(None, 2), "c": PinnedVersion(None, 2)}
    assert with_parents(["b"], forks) == {"b", "a", None}
    assert with_parents([None], forks) == {None}
    assert with_parents(["c", "a"], forks) == {"a", "c", None}
    assert with_parents(["rootless"], forks) == {"rootless"}
    assert with_parents([], forks) == set()


def test_without_branches_only_the_newest_version_is_fetched():
    main = chain(None, [3, 4, 5, 9])
    assert stops(main, 3, 9, [main]) == [9]
    assert stops(main, 9, 9, [main]) == []
    assert stops(main, 0, 5, [main]) == [5]


def test_a_fetch_stops_where_chains_touch():
    main = chain(None, range(1, 20), received=(Received(6, PinnedVersion(None, 3)),), reshaped=(15, 16))
    made = chain("a", [4, 5, 8], (None, 4))
    taker = chain(
        "b", [1, 7], (None, 1), taken=(RemoteMerge(7, PinnedVersion(None, 11)), RemoteMerge(9, PinnedVersion("a", 8)))
    )
    assert stops(main, 2, 19, [main, made, taker]) == [4, 6, 11, 15, 16, 19]
    assert stops(main, 6, 11, [main, made, taker]) == [11]
    assert stops(made, 4, 8, [main, made, taker]) == [8]


@given(st.sets(st.integers(1, 30), min_size=1), st.integers(0, 30), st.lists(st.integers(0, 40)), st.data())
def test_stops_ascend_exist_and_end_with_the_target(versions, seen, forks, data):
    until = data.draw(st.sampled_from(sorted(versions)))
    main = chain(None, sorted(versions))
    found = stops(main, seen, until, [main, *(chain(f"b{at}", [at], (None, at)) for at in forks)])
    assert found == sorted(set(found))
    assert set(found) <= {version for version in versions if seen < version <= until}
    assert set(forks) & {version for version in versions if seen < version <= until} <= set(found)
    assert (found[-1] == until) if until > seen else not found


def test_versions_that_change_columns_are_fetched_by_themselves():
    assert reshaping({}) == ()
    assert reshaping({4: "Append", 5: "Update", 6: "Delete"}) == ()
    assert reshaping({4: "Append", 5: "Update", 6: "Merge", 7: "Append", 8: "Project"}) == (5, 6, 7, 8)
    assert reshaping({4: "Merge", 5: "Append"}) == (4,)
    assert reshaping({4: "Append", 5: "Rewrite"}) == ()
    assert reshaping({4: "Append", 5: "Rewrite"}, more={"Rewrite"}) == (4, 5)


def test_nothing_counts_that_was_before_the_table_was_replaced():
    assert reshaping({4: "Merge", 5: "Append", 6: "Overwrite", 7: "Append"}) == (6,)
    assert reshaping({4: "Overwrite", 5: "Merge", 6: "Restore", 7: "Append", 8: "Project"}) == (6, 7, 8)


def test_a_merge_at_the_remote_is_an_edge_between_following_branches():
    main = chain(None, [1, 2, 3, 4], taken=(RemoteMerge(4, PinnedVersion("exp", 6)),))
    exp = chain("exp", [2, 5, 6], (None, 2))
    known = by_branch(follows(None, (1, 3), (2, 4)), follows("exp", (7, 2), (8, 6)))
    assert list(meetings([main, exp], known, {})) == [Meeting(None, VersionPair(2, 4), "exp", VersionPair(8, 6))]


def test_what_was_fetched_of_a_merge_is_at_least_what_it_took_in():
    """A pair that has the merge or more, and one of the source that has no more than was taken in."""
    main = chain(None, [1, 5], taken=(RemoteMerge(3, PinnedVersion("exp", 6)),))
    exp = chain("exp", [2, 7], (None, 1))
    known = by_branch(follows(None, (1, 1), (2, 5)), follows("exp", (7, 2), (8, 7)))
    assert list(meetings([main, exp], known, {})) == [Meeting(None, VersionPair(2, 5), "exp", VersionPair(7, 2))]
    known = by_branch(follows(None, (1, 1)), follows("exp", (7, 2), (8, 7)))
    assert list(meetings([main, exp], known, {})) == []
    assert list(meetings([main, exp], by_branch(follows("exp", (7, 2))), {})) == []


def test_a_branch_that_was_begun_anew_touches_its_parent_where_it_was_made():
    main = chain(None, [1, 2, 3, 4])
    exp = chain("exp", [2, 5], (None, 2))
    known = by_branch(follows(None, (1, 1), (9, 4)), follows("exp", (3, 2), (4, 5)))
    assert list(meetings([main, exp], known, {"exp": VersionPair(3, 2)})) == [
        Meeting(None, VersionPair(9, 4), "exp", VersionPair(3, 2)),
        Meeting("exp", VersionPair(3, 2), None, VersionPair(1, 1)),
    ]


def test_a_branch_whose_beginning_is_gone_only_has_what_its_parent_had_before():
    """Its oldest version is later than where it was made: its parent does not have everything of that."""
    main = chain(None, [1, 2, 3, 4])
    exp = chain("exp", [5], (None, 2))
    known = by_branch(follows(None, (1, 1), (9, 4)), follows("exp", (4, 5)))
    assert list(meetings([main, exp], known, {"exp": VersionPair(4, 5)})) == [
        Meeting("exp", VersionPair(4, 5), None, VersionPair(1, 1)),
    ]


BRANCHES = (None, "a", "b")
PAIRS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=4)


@given(st.data())
def test_no_edge_says_more_than_the_remote(data):
    """The one side has the merge, the other one no more than was taken in: so the edge is true."""
    found, known = [], {}
    for branch in BRANCHES:
        sources = [name for name in BRANCHES if name != branch]
        taken = data.draw(
            st.lists(
                st.builds(
                    RemoteMerge,
                    st.integers(1, 9),
                    st.builds(PinnedVersion, st.sampled_from(sources), st.integers(1, 9)),
                )
            )
        )
        found.append(chain(branch, range(1, 10), None, taken=tuple(taken)))
        entry = Follows("origin", "/r", branch)
        for pair in sorted(data.draw(PAIRS)):
            entry = entry.with_pair(VersionPair(*pair), 0)
        known[branch] = entry
    for meeting in meetings(found, known, {}):
        assert meeting.pair in known[meeting.branch].pairs
        assert meeting.source in known[meeting.source_branch].pairs
        taken = next(entry for entry in found if entry.branch == meeting.branch).taken
        assert any(
            entry.at <= meeting.pair.remote
            and entry.source.branch == meeting.source_branch
            and meeting.source.remote <= entry.source.version
            for entry in taken
        )
