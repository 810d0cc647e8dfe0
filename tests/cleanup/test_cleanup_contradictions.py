"""What a survey has to show before anything is deleted, and what tells a moving world from a corrupt one."""

from dataclasses import replace

import pytest
from support.cleanup_surveys import CLONE, NOW, ROOT, chain, fork, manifest, survey

from lance_spark.errors import CorruptData
from lance_spark.survey.chain_rules import contradictions, manifest_at, not_explained, still_listed

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (survey(), f"{ROOT}/_versions shows no version"),
        (survey(chain(versions=())), f"{ROOT}/_versions shows no version"),
        (survey(chain(versions=(), detached=[manifest(2**63)])), f"{ROOT}/_versions shows no version"),
        (survey(chain(repository=1)), f"{ROOT}/_versions shows no version"),
        (survey(chain(), branches=[fork("a", 1)]), f"Branch 'a' of {ROOT}"),
        (survey(chain(), chain("a", ()), branches=[fork("a", 1)]), f"Branch 'a' of {ROOT}"),
        (survey(chain(), chain("a", has_ref=False), branches=[fork("a", 1)]), f"Branch 'a' of {ROOT}"),
        (survey(chain(), chain(repository=1), chain("a", (), repository=1)), f"Branch 'a' of {CLONE}"),
        (survey(chain(), chain(versions=(), repository=1)), f"Branch 'main' of {CLONE}"),
        (survey(chain(), tags=[("t", None, 4)]), "Tag 't' names version main@4"),
        (survey(chain(), tags=[("t", "gone", 1)]), "Tag 't' names version gone@1"),
        (survey(chain(), chain("z", has_ref=False), tags=[("t", "z", 1)]), "Tag 't' names version z@1"),
    ],
)
def test_a_run_stops_where_what_refs_promise_is_not_seen(seen, word):
    error = contradictions(seen)[0].error()
    assert isinstance(error, CorruptData)
    assert word in error.message
    assert "Nothing was deleted" in str(error)


def test_a_whole_repository_is_evidence_enough():
    clone = (chain(repository=1), chain("left", (), repository=1, has_ref=False))
    seen = survey(chain(), chain("a"), chain("z", has_ref=False), *clone, branches=[fork("a", 9)], tags=[("t", "a", 2)])
    assert contradictions(seen) == []


def test_a_version_with_two_manifests_stops_the_run():
    twice = [manifest(1), manifest(1)._replace(name="1.manifest"), manifest(2)]
    assert "two manifests" in contradictions(survey(chain(versions=twice)))[0].message


def test_versions_that_were_noted_down_have_to_be_there():
    assert contradictions(survey(replace(chain(), noted=3))) == []
    seen = contradictions(survey(replace(chain(), noted=4), replace(chain(repository=1), noted=9)))
    assert [each.message.split(" ends with ")[1] for each in seen] == [
        "version 3, but version 4 was written.",
        "version 3, but version 9 was written.",
    ]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (survey(chain(), branches=[fork("a", 1)]), survey(chain((None), (1, 2)), branches=[fork("a", 1)]), True),
        (survey(chain(), branches=[fork("a", 1)]), survey(chain(), branches=[fork("a", 1, created=9)]), False),
        (survey(chain(), branches=[fork("a", 1)]), survey(chain(), branches=[fork("b", 1)]), False),
        (survey(chain(), tags=[("t", None, 4)]), survey(chain(), tags=[("t", None, 4)]), True),
        (survey(chain(), tags=[("t", None, 4)]), survey(chain(), tags=[("t", None, 5)]), False),
        (survey(replace(chain(), noted=4)), survey(replace(chain(), noted=4)), True),
        (survey(replace(chain(), noted=4)), survey(replace(chain(), noted=5)), False),
        (survey(chain(), chain("a", (), repository=1)), survey(chain(), chain("a", (), repository=1)), True),
    ],
    ids=["lost branch", "made again", "another", "tag", "moved tag", "noted", "noted anew", "branch of a clone"],
)
def test_a_contradiction_is_the_same_one_only_if_nothing_moved(before, after, same):
    assert (contradictions(before) == contradictions(after)) == same


def test_a_manifest_that_was_written_again_in_the_same_place_is_another_one():
    before = survey(chain(), chain("a"), branches=[fork("a", 1)])
    seen = [manifest_at(before, each, at) for each in before.chains for at in range(3)]
    assert still_listed(before, seen) == seen
    again = chain("a", [manifest(1, NOW), manifest(2, NOW), manifest(3)])
    assert still_listed(survey(chain(), again, branches=[fork("a", 1)]), seen) == [*seen[:3], seen[5]]
    assert still_listed(survey(chain()), seen) == seen[:3]
    assert [each.path for each in seen[2:4]] == [
        f"_versions/{manifest(3).name}",
        f"tree/a/_versions/{manifest(1).name}",
    ]


@pytest.mark.parametrize(
    ("after", "unexplained"),
    [
        (survey(chain(), chain("a"), branches=[fork("a", 1)]), [2, 3]),  # listed and not to be read
        (survey(chain(), chain("a", (1,)), branches=[fork("a", 1)]), [2, 3]),  # no cleanup takes the newest
        (survey(chain(), chain("a", (1, 4)), branches=[fork("a", 1)]), []),  # another cleanup
        (survey(chain(), chain("a", (4,)), branches=[fork("a", 1)]), []),
        (survey(chain()), []),  # the branch is gone
        (survey(chain(), chain("a", [manifest(1, NOW)]), branches=[fork("a", 1)]), []),  # and made again
        (survey(chain(), chain("a", (1,), has_ref=False)), []),  # being deleted: its ref goes first
        (survey(chain(), chain("a", (1, 2), has_ref=False)), [2]),  # but what is listed has to be readable
    ],
    ids=[
        "listed",
        "newest",
        "cleaned",
        "cleaned up to the newest",
        "deleted",
        "made again",
        "being deleted",
        "listed without a ref",
    ],
)
def test_what_explains_that_a_manifest_could_not_be_read(after, unexplained):
    before = survey(chain(), chain("a"), branches=[fork("a", 1)])
    gone = [manifest_at(before, before.chains[1], at) for at in (1, 2)]
    assert [each.file.version for each in not_explained(before, after, gone)] == unexplained


def test_a_detached_version_is_never_the_newest():
    before = survey(chain(detached=[manifest(2**63 + 5)]))
    assert not_explained(before, survey(chain()), [manifest_at(before, before.chains[0], 3)]) == []


def test_a_branch_of_which_only_detached_versions_are_left_lost_its_newest_one():
    kept = manifest(2**63 + 5)
    before = survey(chain(), chain("a", detached=[kept]), branches=[fork("a", 1)])
    gone = [manifest_at(before, before.chains[1], 2)]
    after = survey(chain(), chain("a", (), detached=[kept]), branches=[fork("a", 1)])
    assert not_explained(before, after, gone) == gone


def test_names_that_are_being_changed_are_a_contradiction_only_if_they_stay_as_they_are():
    def half_way(done):
        both = [manifest(version) for version in (1, 2, 3)] + [manifest(done)._replace(name=f"{done}.manifest")]
        return survey(chain(versions=sorted(both)))

    assert contradictions(half_way(1)) == contradictions(half_way(1))
    assert contradictions(half_way(1)) != contradictions(half_way(2))
