"""The common ancestor of two versions, against a naive search through all versions and their parents."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.records.tracking import ChainLinks, Node, TakenIn, ancestors, holds, merge_bases

pytestmark = pytest.mark.pure

COMMIT, FORK, MERGE = "commit", "fork", "merge"


@dataclass
class History:
    """A graph as the search sees it, and the parents of every version."""

    newest: dict[str, int] = field(default_factory=lambda: {"": 1})
    parents: dict[Node, list[Node]] = field(default_factory=lambda: {Node("", 1): []})
    graph: dict[str, ChainLinks] = field(default_factory=lambda: {"": ChainLinks()})

    def head(self, chain: str) -> Node:
        return Node(chain, self.newest[chain])

    def commit(self, chain: str, source: Node | None = None) -> Node:
        before = self.head(chain)
        self.newest[chain] += 1
        found = self.head(chain)
        self.parents[found] = [before] if source is None else [before, source]
        if source is not None:
            known = self.graph[chain]
            self.graph[chain] = ChainLinks(known.fork, (*known.merges, TakenIn(found.version, source)))
        return found

    def fork(self, origin: Node) -> Node:
        """A branch, whose first version has the number of the one it is a copy of."""
        chain = f"branch-{len(self.graph)}"
        self.newest[chain] = origin.version
        self.graph[chain] = ChainLinks(origin)
        self.parents[self.head(chain)] = [origin]
        return self.head(chain)

    def above(self, node: Node) -> set[Node]:
        """A version with all that it descends from."""
        found, pending = set(), [node]
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += self.parents[one]
        return found

    def bases(self, one: Node, other: Node) -> list[Node]:
        common = self.above(one) & self.above(other)
        return sorted(node for node in common if not any(node in self.above(less) for less in common - {node}))


@st.composite
def histories(draw):
    history = History()
    for _ in range(draw(st.integers(0, 25))):
        node = draw(st.sampled_from(sorted(history.parents)))
        what = draw(st.sampled_from([COMMIT, FORK, MERGE]))
        if what == COMMIT:
            history.commit(node.chain)
        elif what == FORK:
            history.fork(node)
        else:
            into = draw(st.sampled_from(sorted(history.graph)))
            if into != node.chain:
                history.commit(into, node)
    nodes = st.sampled_from(sorted(history.parents))
    return history, draw(nodes), draw(nodes)


@given(histories())
def test_the_search_finds_what_a_walk_through_all_versions_finds(made):
    history, one, other = made
    assert merge_bases(one, other, history.graph) == history.bases(one, other)
    assert merge_bases(other, one, history.graph) == history.bases(one, other)
    assert holds(one, other, history.graph) == (other in history.above(one))
    newest: dict[str, int] = {}
    for chain, version in history.above(one):
        newest[chain] = max(version, newest.get(chain, 0))
    assert ancestors(one, history.graph) == newest


def test_a_branch_and_its_origin_have_the_fork_in_common():
    history = History()
    fork = history.commit("")
    branch = history.fork(fork)
    history.commit(branch.chain)
    history.commit("")
    assert merge_bases(history.head(""), history.head(branch.chain), history.graph) == [fork]


def test_after_a_merge_the_merged_version_is_the_base():
    history = History()
    branch = history.fork(history.head(""))
    merged = history.commit(branch.chain)
    history.commit("", merged)
    history.commit(branch.chain)
    assert merge_bases(history.head(""), history.head(branch.chain), history.graph) == [merged]


def test_merges_that_cross_leave_two_bases():
    history = History()
    branch = history.fork(history.head("")).chain
    one, other = history.commit(""), history.commit(branch)
    history.commit("", other)
    history.commit(branch, one)
    assert merge_bases(history.head(""), history.head(branch), history.graph) == [one, other]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_versions_that_have_everything_of_each_other_the_one_of_ones_own_line_is_the_base(names):
    """After a push: which of the two names is the smaller one is chance."""
    own, follower = names
    pushed = Node(own, 5)
    graph = {
        "": ChainLinks(),
        own: ChainLinks(Node("", 1), (TakenIn(5, Node(follower, 3)),)),
        follower: ChainLinks(Node("", 1), (TakenIn(3, pushed),)),
    }
    assert merge_bases(pushed, Node(follower, 4), graph) == [pushed]
    assert merge_bases(Node(own, 6), Node(follower, 3), graph) == [pushed]
    assert merge_bases(Node(follower, 4), pushed, graph) == [Node(follower, 3)]
    work = {**graph, "work": ChainLinks(pushed)}
    assert merge_bases(Node("work", 5), Node(follower, 4), work) == [pushed]


def test_a_branch_made_anew_holds_nothing_of_the_deleted_one():
    graph = {"": ChainLinks(merges=(TakenIn(5, Node("old", 4)),)), "new": ChainLinks(Node("", 2))}
    assert not holds(Node("", 5), Node("new", 4), graph)
    assert merge_bases(Node("", 5), Node("new", 4), graph) == [Node("", 2)]
    assert ancestors(Node("", 5), graph) == {"": 5, "old": 4}
