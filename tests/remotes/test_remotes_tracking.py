"""What a following branch knows about the remote's, and how it is kept in the branch's metadata."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.records import tracking
from lance_spark.core.refs import Branch

pytestmark = pytest.mark.pure

NUMBERS = st.integers(1, 2**53)
NAMES = st.text(min_size=1, max_size=8)
EDGES = st.builds(tracking.Edge, NAMES | st.just(""), NUMBERS, st.builds(tracking.Node, NAMES | st.just(""), NUMBERS))
FOLLOWS = st.builds(
    tracking.Follows,
    remote=NAMES,
    uri=NAMES,
    branch=st.none() | NAMES.filter(lambda name: name != "main"),
    identity=NAMES | st.just(""),
    pairs=st.lists(st.builds(tracking.VersionPair, NUMBERS, NUMBERS), max_size=4).map(tuple),
    edges=st.lists(EDGES, max_size=4, unique=True).map(tuple),
    stamp=st.integers(0, 2**63),
)


def branch(metadata):
    return Branch("origin/main", None, 1, datetime.now(timezone.utc), metadata)


@given(FOLLOWS, st.dictionaries(NAMES, NAMES, max_size=3))
def test_it_is_read_as_it_was_written(follows, others):
    metadata = tracking.with_follows(others, follows)
    assert tracking.read_follows(branch(metadata)) == follows
    assert {key: value for key, value in metadata.items() if key != tracking.KEY} == {
        key: value for key, value in others.items() if key != tracking.KEY
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", "null", '{"remote": 1}', '{"pairs": [[1]]}'])
def test_what_somebody_else_wrote_is_nothing(text):
    assert tracking.read_follows(branch({tracking.KEY: text})) is None


def test_a_branch_of_ones_own_follows_nothing():
    assert tracking.read_follows(branch({})) is None


@pytest.mark.parametrize(
    ("remote", "name", "following"),
    [("origin", None, "origin/main"), ("origin", "exp", "origin/exp"), ("backup", "a/b", "backup/a/b")],
)
def test_names_of_following_branches(remote, name, following):
    assert tracking.following_name(remote, name) == following


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8))
def test_pairs_stay_in_order(steps):
    """Whatever is fetched, also an older version again: both numbers ascend, and the last one is what was fetched."""
    follows = tracking.Follows("origin", "/r", None)
    for local, remote in steps:
        follows = follows.with_pair(tracking.VersionPair(local, remote), 7)
        assert follows.newest == tracking.VersionPair(local, remote)
        assert follows.stamp == 7
        remotes = [pair.remote for pair in follows.pairs]
        assert remotes == sorted(set(remotes))
        locals_ = [pair.local for pair in follows.pairs]
        assert locals_ == sorted(locals_)


@given(st.lists(st.builds(tracking.VersionPair, st.integers(1, 9), st.integers(1, 9)), max_size=6), st.integers(1, 9))
def test_the_pairs_around_a_version(pairs, version):
    follows = tracking.Follows("origin", "/r", None)
    for pair in sorted(pairs):
        follows = follows.with_pair(pair, 0)
    before = [pair for pair in follows.pairs if pair.remote <= version]
    after = [pair for pair in follows.pairs if pair.remote >= version]
    assert follows.until(version) == (before[-1] if before else None)
    assert follows.since(version) == (after[0] if after else None)


def test_only_so_much_is_kept():
    follows = tracking.Follows("origin", "/r", None)
    for number in range(1, 700):
        follows = follows.with_pair(tracking.VersionPair(number, number), 0).with_edges(
            [tracking.Edge("", number, tracking.Node("x", number))]
        )
    assert follows.newest == tracking.VersionPair(699, 699)
    assert len(follows.pairs) == len(follows.edges) == 500
    assert follows.edges[-1].at == 699


def test_an_edge_is_kept_once():
    edge = tracking.Edge("", 1, tracking.Node("x", 2))
    follows = tracking.Follows("origin", "/r", None).with_edges([edge, edge])
    assert follows.with_edges([edge]) == follows
    assert follows.edges == (edge,)


def test_edges_are_notes_about_merges():
    """Whatever looks for a common ancestor finds them."""
    follows = tracking.Follows("origin", "/r", None).with_edges([tracking.Edge("b", 3, tracking.Node("", 7))])
    assert list(tracking.merged_notes([branch(tracking.with_follows({}, follows))])) == [
        tracking.MergeNote("b", 3, tracking.Node("", 7))
    ]
