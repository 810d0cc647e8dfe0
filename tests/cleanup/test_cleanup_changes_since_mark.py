"""What became live since the mark: whoever tags, branches, restores or commits during a run wins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleanup_surveys import CLONE, NOW, ROOT, chain, fork, manifest, survey

from lance_spark.cleanup.retention_rules import Verdict
from lance_spark.cleanup.sweep_rules import newly_live

pytestmark = pytest.mark.pure


def verdict(*kept):
    return Verdict(tuple(kept), {})


def live(before, after, *verdicts):
    """By root and repository, the numbers of the versions whose files became live."""
    spans = [(after.chains[span.chain], span.positions) for span in newly_live(before, after, verdicts)]
    return {
        (after.repositories[chain.repository].uri, chain.root): [chain.files[at].version for at in positions]
        for chain, positions in spans
    }


ONE_GOES = verdict(False, True, True)


def test_nothing_becomes_live_in_a_world_that_stood_still():
    seen = survey(chain(), chain("a"), branches=[fork("a", 2)], tags=[("t", None, 2)])
    assert live(seen, seen, ONE_GOES, ONE_GOES) == {}


def test_manifests_that_were_deleted_since_are_not_live():
    after = survey(chain(versions=(2, 3)))
    assert live(survey(chain()), after, ONE_GOES) == {}


def test_a_new_version_is_live():
    assert live(survey(chain()), survey(chain(versions=(1, 2, 3, 4))), ONE_GOES) == {(ROOT, ""): [4]}


def test_a_manifest_that_was_written_again_is_live():
    for other in (manifest(1, NOW), manifest(1, size=7), manifest(1)._replace(name="1.manifest")):
        after = survey(chain(versions=(other, 2, 3)))
        assert live(survey(chain()), after, ONE_GOES) == {(ROOT, ""): [1]}


def test_a_new_detached_version_is_live():
    after = survey(chain(detached=[manifest(2**63)]))
    assert live(survey(chain()), after, ONE_GOES) == {(ROOT, ""): [2**63]}


def test_a_branch_in_the_making_is_live_before_it_has_a_ref():
    after = survey(chain(), chain("new", (1,), has_ref=False))
    assert live(survey(chain()), after, ONE_GOES) == {(ROOT, "tree/new"): [1]}


def test_a_tag_that_was_set_or_moved_onto_a_removed_version_holds_it():
    before = survey(chain(), tags=[("t", None, 2)])
    assert live(before, survey(chain(), tags=[("t", None, 1)]), ONE_GOES) == {(ROOT, ""): [1]}
    assert live(before, survey(chain(), chain("a"), tags=[("u", "a", 1)]), ONE_GOES) == {(ROOT, "tree/a"): [1, 2, 3]}


def test_a_branch_made_from_a_removed_version_holds_it():
    after = survey(chain(), branches=[fork("new", 1)])
    assert live(survey(chain()), after, ONE_GOES) == {(ROOT, ""): [1]}


def test_a_branch_of_old_does_not_hold_the_fork_version_that_the_policy_let_go():
    seen = survey(chain(), chain("a"), branches=[fork("a", 1), fork("b", 2, "a")])
    assert live(seen, seen, ONE_GOES, verdict(False, False, True)) == {}


def test_a_branch_that_was_made_anew_from_a_removed_version_holds_it():
    before = survey(chain(), branches=[fork("a", 1, created=100)])
    for made in (fork("a", 1, created=200), fork("a2", 1, created=100)):
        assert live(before, survey(chain(), branches=[made]), ONE_GOES) == {(ROOT, ""): [1]}
    before = survey(chain(), chain("b"), branches=[fork("a", 1)])
    moved = survey(chain(), chain("b"), branches=[fork("a", 1, "b")])
    assert live(before, moved, ONE_GOES, ONE_GOES) == {(ROOT, "tree/b"): [1]}


def test_once_manifests_were_deleted_those_that_are_still_listed_are_live():
    it = chain(versions=(2, 3), detached=[manifest(2**63)])
    verdicts = [verdict(False, False, True)]
    before, after = survey(chain()), survey(it)
    assert [span.positions for span in newly_live(before, after, verdicts, manifests_are_done=True)] == [(0, 2)]
    assert [span.positions for span in newly_live(before, after, verdicts)] == [(2,)]


def test_a_removed_version_that_is_the_latest_by_now_is_held():
    after = survey(chain(versions=(1,)))
    assert live(survey(chain()), after, ONE_GOES) == {(ROOT, ""): [1]}


def test_a_new_version_of_a_clone_is_live_and_its_numbers_are_not_held_by_tags_of_the_dataset():
    kept = verdict(True, True, True)
    before = survey(chain(), chain(repository=1))
    after = survey(chain(), chain(versions=(1, 2, 3, 4), repository=1), tags=[("t", None, 2)])
    assert live(before, after, ONE_GOES, kept) == {(CLONE, ""): [4]}


def test_a_clone_that_was_recorded_in_between_is_not_taken_for_another_one():
    before = survey(chain(), chain(versions=(3,), repository=1), repositories=(ROOT, "/clones/b"))
    after = survey(
        chain(),
        chain(versions=(3,), repository=1),
        chain(versions=(3,), repository=2),
        repositories=(ROOT, "/clones/a", "/clones/b"),
    )
    assert live(before, after, ONE_GOES, verdict(True)) == {("/clones/a", ""): [3]}


BRANCHES = (None, "a", "a/b")
NUMBERS = st.integers(1, 6)
CHAINS = st.sets(NUMBERS, min_size=1).map(sorted)
TAGS = st.dictionaries(st.sampled_from("tuv"), st.tuples(st.sampled_from(BRANCHES), NUMBERS))
FORKS = st.dictionaries(st.sampled_from(["a", "a/b", "x"]), st.tuples(st.sampled_from(BRANCHES), NUMBERS))
WORLDS = st.tuples(st.tuples(CHAINS, CHAINS, CHAINS), TAGS, FORKS)


def world(described):
    versions, tags, forks = described
    return survey(
        *(chain(branch, numbers) for branch, numbers in zip(BRANCHES, versions, strict=True)),
        tags=[(name, *target) for name, target in tags.items()],
        branches=[fork(name, number, parent) for name, (parent, number) in forks.items()],
    )


@given(before=WORLDS, after=WORLDS, removed=st.tuples(*[st.sets(NUMBERS)] * 3))
def test_what_becomes_live_are_new_manifests_and_removed_ones_that_something_new_holds(before, after, removed):
    verdicts = [
        verdict(*(number not in gone for number in numbers)) for numbers, gone in zip(before[0], removed, strict=True)
    ]
    expected = {}
    for branch, old, now, gone in zip(BRANCHES, before[0], after[0], removed, strict=True):
        held = {number for parent, number in after[1].values() if parent == branch}
        held |= {fork[1] for name, fork in after[2].items() if fork[0] == branch and before[2].get(name) != fork}
        held.add(max(now))
        needed = [number for number in now if number not in old or (number in gone and number in held)]
        if needed:
            expected[ROOT, f"tree/{branch}" if branch else ""] = needed
    assert live(world(before), world(after), *verdicts) == expected


def test_what_a_stream_reads_that_began_since_is_live():
    before, after = survey(chain()), survey(chain(), tags=[("reader-q", None, 1)])
    assert live(before, after, verdict(False, False, True)) == {(ROOT, ""): [1, 2]}
