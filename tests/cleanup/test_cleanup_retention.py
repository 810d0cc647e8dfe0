"""Which versions stay, rule by rule, and what stops a run."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.cleanup_surveys import CLONE, DAY, HOUR, NOW, chain, fork, manifest, survey

from lance_spark.cleanup.retention_rules import (
    CLOCK_MARGIN,
    CleanupPolicy,
    RunClock,
    VersionRule,
    judge,
    nanoseconds,
    positions_of_unknown_age,
    removed_paths,
    version_counts,
)
from lance_spark.errors import Refused

pytestmark = pytest.mark.pure

CLOCK = RunClock(NOW)
EVERYTHING = CleanupPolicy(older_than=timedelta(0), error_if_tagged_old_versions=False)


def kept_versions(seen, policy, ages=None):
    """By root, the numbers of the versions that stay."""
    verdicts = judge(seen, policy, CLOCK, ages or {})
    return {
        each.root: [file.version for file, stays in zip(each.files, verdict.kept, strict=True) if stays]
        for each, verdict in zip(seen.chains, verdicts, strict=True)
    }


def test_the_latest_version_of_every_branch_stays_whatever_the_policy():
    seen = survey(chain(), chain("a", (5,)), chain("a/b", (5, 7)), branches=[fork("a", 9), fork("a/b", 9)])
    assert kept_versions(seen, EVERYTHING) == {"": [3], "tree/a": [5], "tree/a/b": [7]}
    for policy in (
        CleanupPolicy(before_version=100),
        CleanupPolicy(versions={1, 2, 3}),
        CleanupPolicy(retain_versions=1),
    ):
        assert kept_versions(seen, policy)[""] == [3]


def test_all_conditions_of_a_rule_must_hold():
    ages = (30, 20, 10, 5, 2)
    seen = survey(chain(versions=[manifest(number, NOW - age * DAY) for number, age in enumerate(ages, 1)]))
    rule = {"older_than": timedelta(days=7), "before_version": 4, "retain_versions": 3, "versions": {2, 3, 4}}
    assert kept_versions(seen, CleanupPolicy(older_than=rule["older_than"]))[""] == [4, 5]
    assert kept_versions(seen, CleanupPolicy(before_version=4))[""] == [4, 5]
    assert kept_versions(seen, CleanupPolicy(retain_versions=3))[""] == [3, 4, 5]
    assert kept_versions(seen, CleanupPolicy(versions={2, 3, 4}))[""] == [1, 5]
    assert kept_versions(seen, CleanupPolicy(**rule))[""] == [1, 3, 4, 5]


def test_by_default_versions_of_two_weeks_go_and_younger_ones_stay():
    cutoff = NOW - 14 * DAY
    seen = survey(chain(versions=[manifest(number, NOW - 2 * DAY) for number in (1, 2, 3, 4)]))
    ages = {0: {0: cutoff - 1, 1: cutoff, 2: cutoff + 1}}
    assert kept_versions(seen, CleanupPolicy(), ages)[""] == [2, 3, 4]


def test_more_versions_to_retain_than_there_are_keeps_all():
    assert kept_versions(survey(chain()), CleanupPolicy(retain_versions=9))[""] == [1, 2, 3]


@pytest.mark.parametrize("policy", [EVERYTHING, CleanupPolicy(before_version=9), CleanupPolicy(retain_versions=1)])
def test_a_branch_without_a_ref_keeps_everything_for_it_may_be_in_the_making(policy):
    seen = survey(chain(), chain("new", has_ref=False, detached=[manifest(2**63)]))
    assert kept_versions(seen, policy)["tree/new"] == [1, 2, 3, 2**63]


def test_a_clone_keeps_everything_also_where_rules_and_tags_of_the_dataset_name_its_numbers():
    seen = survey(chain(), chain(repository=1), chain("a", repository=1), tags=[("t", None, 1)])
    verdicts = judge(seen, replace(EVERYTHING, branches={"*": VersionRule(retain_versions=1)}), CLOCK, {})
    assert [verdict.removed for verdict in verdicts] == [(1,), (), ()]
    assert verdicts[1].reasons == verdicts[2].reasons == {"of a clone": 3}


def test_detached_versions_stay():
    seen = survey(chain(detached=[manifest(2**63 + 5), manifest(2**63 + 9)]))
    verdict = judge(seen, EVERYTHING, CLOCK, {})[0]
    assert verdict.removed == (0, 1)
    assert verdict.reasons == {"latest": 1, "detached": 2}


def test_what_a_stream_has_yet_to_read_stays():
    """Of a chain with the tag of a reader: that version and all after it. Of other chains, and before it, nothing."""
    chains = [chain(versions=[manifest(number) for number in range(1, 7)]), chain("a", (3, 4, 5))]
    tags = [("reader-q", None, 3), ("reader-r", None, 4), ("stream-s", None, 1)]
    seen = survey(*chains, branches=[fork("a", 9)], tags=tags)
    assert kept_versions(seen, replace(EVERYTHING, error_if_tagged_old_versions=True)) == {
        "": [1, 3, 4, 5, 6], "tree/a": [5],
    }  # fmt: skip
    assert judge(seen, EVERYTHING, CLOCK, {})[0].reasons == {"tagged": 3, "a stream has yet to read it": 1, "latest": 1}


READERS_BELOW_THE_FORK = {
    "main's history first": (("reader-q-a.b", None, 2), {"": [2, 3, 4], "tree/a": [3, 4], "tree/a/b": [4, 5]}),
    "then that of the branch in between": (("reader-q-a.b", "a", 4), {"": [4], "tree/a": [4], "tree/a/b": [4, 5]}),
    "of the branch in between": (("reader-q-a", None, 2), {"": [2, 3, 4], "tree/a": [3, 4], "tree/a/b": [5]}),
    "main, by a query with an odd name": (("reader-q-a.b", None, 4), {"": [4], "tree/a": [4], "tree/a/b": [5]}),
    "a branch that is gone": (("reader-q-c", None, 2), {"": [2, 3, 4], "tree/a": [4], "tree/a/b": [5]}),
}


@pytest.mark.parametrize(("tag", "kept"), READERS_BELOW_THE_FORK.values(), ids=READERS_BELOW_THE_FORK)
def test_a_stream_that_reads_what_led_to_a_branch_has_yet_to_read_the_branch(tag, kept):
    chains = [chain(versions=(1, 2, 3, 4)), chain("a", (3, 4)), chain("a/b", (4, 5))]
    branches = [fork("a", 3), fork("a/b", 4, "a")]
    policy = replace(EVERYTHING, keep_fork_versions=False)
    assert kept_versions(survey(*chains, branches=branches, tags=[tag]), policy) == kept


def test_a_tagged_version_stays_and_a_tag_of_another_branch_protects_nothing():
    seen = survey(chain(), chain("a"), branches=[fork("a", 3)], tags=[("t", None, 1), ("u", "a", 2)])
    assert kept_versions(seen, EVERYTHING) == {"": [1, 3], "tree/a": [2, 3]}


def test_a_tag_on_a_version_that_would_go_refuses_the_run_and_is_named():
    seen = survey(chain(), chain("a"), branches=[fork("a", 3)], tags=[("t", None, 1), ("u", "a", 2), ("v", None, 3)])
    with pytest.raises(Refused, match="2 tagged versions") as caught:
        judge(seen, CleanupPolicy(older_than=timedelta(0)), CLOCK, {})
    assert "'t' (main@1)" in str(caught.value)
    assert "'u' (a@2)" in str(caught.value)
    assert "'v'" not in str(caught.value)


@pytest.mark.parametrize("policy", [CleanupPolicy(), CleanupPolicy(before_version=2), CleanupPolicy(versions={1, 3})])
def test_a_tag_on_a_version_that_stays_anyway_is_no_error(policy):
    seen = survey(chain(versions=[manifest(number, NOW) for number in (1, 2, 3)]), tags=[("t", None, 2)])
    assert 2 in kept_versions(seen, policy, {0: {0: NOW, 1: NOW}})[""]


def test_tags_are_an_error_or_keep_by_their_names():
    seen = survey(chain(), tags=[("nightly-1", None, 1), ("release-1", None, 2)])
    assert kept_versions(seen, CleanupPolicy(older_than=timedelta(0), tags={"*": "keep"}))[""] == [1, 2, 3]
    with pytest.raises(Refused, match=r"1 tagged version.*'release-1'"):
        judge(seen, replace(EVERYTHING, tags={"release-*": "error"}), CLOCK, {})


def test_the_tag_of_a_recorded_clone_keeps_its_version_and_is_no_error():
    seen = survey(chain(), tags=[("clone-1", None, 1)], recorded={"clone-1": CLONE})
    assert kept_versions(seen, CleanupPolicy(older_than=timedelta(0)))[""] == [1, 3]


def test_the_version_a_branch_was_made_from_stays_unless_the_policy_lets_it_go():
    branches = [fork("a", 2), fork("b", 1, "a"), fork("gone-parent", 1, "nobody")]
    seen = survey(chain(), chain("a"), chain("b"), chain("gone-parent"), branches=branches)
    assert kept_versions(seen, EVERYTHING) == {"": [2, 3], "tree/a": [1, 3], "tree/b": [3], "tree/gone-parent": [3]}
    released = kept_versions(seen, replace(EVERYTHING, keep_fork_versions=False))
    assert set(map(tuple, released.values())) == {(3,)}


def test_version_numbers_mean_main_and_rules_for_branches_mean_those():
    seen = survey(chain(), chain("a"), chain("exp/b"), branches=[fork("a", 3), fork("exp/b", 3)])
    assert kept_versions(seen, CleanupPolicy(before_version=3)) == {
        "": [3],
        "tree/a": [1, 2, 3],
        "tree/exp/b": [1, 2, 3],
    }
    policy = CleanupPolicy(versions={1}, branches={"exp/*": VersionRule(before_version=3)})
    assert kept_versions(seen, policy) == {"": [2, 3], "tree/a": [1, 2, 3], "tree/exp/b": [3]}


def test_an_empty_rule_for_a_branch_does_not_remove_its_young_versions():
    young = [manifest(number, NOW - 2 * DAY) for number in (1, 2, 3)]
    seen = survey(chain(), chain("a", young), branches=[fork("a", 3)])
    policy = CleanupPolicy(branches={"a": VersionRule()})
    assert positions_of_unknown_age(seen, policy, CLOCK) == {1: [0, 1]}
    assert kept_versions(seen, policy, {1: {0: NOW, 1: NOW}})["tree/a"] == [1, 2, 3]


def test_only_manifests_that_may_be_younger_than_the_cut_off_are_read_for_their_age():
    edge = NOW - 14 * DAY - nanoseconds(CLOCK_MARGIN)
    files = [
        manifest(1, edge - 1),
        manifest(2, edge),
        manifest(3, edge + 1),
        *(manifest(number, NOW - 2 * DAY) for number in (4, 5)),
    ]
    seen = survey(chain(versions=files), chain("z", files, has_ref=False), chain(versions=files, repository=1))
    assert positions_of_unknown_age(seen, CleanupPolicy(), CLOCK) == {0: [1, 2, 3]}
    assert positions_of_unknown_age(seen, CleanupPolicy(retain_versions=1), CLOCK) == {}
    policy = CleanupPolicy(older_than=timedelta(days=14), retain_versions=3)
    assert positions_of_unknown_age(seen, policy, CLOCK) == {0: [1]}


def test_a_version_whose_age_is_not_known_stays():
    within_the_margin = NOW - 14 * DAY - 1
    seen = survey(chain(versions=[manifest(number, within_the_margin) for number in (1, 2, 3)]))
    assert kept_versions(seen, CleanupPolicy())[""] == [1, 2, 3]


def test_ages_from_before_1970_fit_into_the_integers_of_arrow():
    assert CLOCK.before(timedelta(days=10)) == NOW - 10 * DAY
    assert CLOCK.before(timedelta.max) == CLOCK.surely_before(timedelta.max) == 0
    longest = CleanupPolicy(older_than=timedelta.max, commit_window=timedelta.max, unverified_age=timedelta.max)
    assert kept_versions(survey(aged(90, 80)), longest)[""] == [1, 2]
    assert positions_of_unknown_age(survey(aged(90, 80)), longest, CLOCK) == {}


def test_removed_versions_are_told_by_path_and_counted_by_branch():
    seen = survey(chain(), chain("a"), chain(repository=1), branches=[fork("a", 2)])
    verdicts = judge(seen, EVERYTHING, CLOCK, {})
    names = [file.name for file in seen.chains[0].versions]
    assert list(removed_paths(seen, verdicts)) == [
        f"_versions/{names[0]}",
        f"tree/a/_versions/{names[0]}",
        f"tree/a/_versions/{names[1]}",
    ]
    assert version_counts(seen, verdicts) == {
        "main": {"removed": 1, "fork of a branch": 1, "latest": 1},
        "a": {"removed": 2, "latest": 1},
    }


WINDOW = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(hours=8), error_if_tagged_old_versions=False)


def aged(*hours):
    """Versions 1, 2, ... that were committed so many hours ago."""
    return chain(versions=[manifest(number, NOW - int(age * HOUR)) for number, age in enumerate(hours, 1)])


@pytest.mark.parametrize(
    ("hours", "kept"),
    [
        ((90, 80, 70), [3]),
        ((90, 80, 7), [2, 3]),  # a job under way may have begun with version 2
        ((90, 80, 7, 6), [2, 3, 4]),
        ((7, 6, 5), [1, 2, 3]),
        ((90, 7, 80, 70), [1, 2, 3, 4]),  # no hole after a young one, whatever the clocks say
        ((90, 9.5), [2]),  # too old by a little more than the margin for clocks
    ],
)
@pytest.mark.parametrize(
    "policy",
    [
        WINDOW,
        replace(WINDOW, older_than=None, retain_versions=1),
        replace(WINDOW, older_than=None, before_version=99),
        replace(WINDOW, older_than=None, versions={1, 2, 3, 4}),
        replace(WINDOW, branches={"main": VersionRule(older_than=timedelta(0))}),
    ],
    ids=["older than", "retain", "before version", "versions", "rule of a branch"],
)
def test_versions_that_a_job_under_way_may_need_stay_whatever_the_rules_say(hours, kept, policy):
    assert kept_versions(survey(aged(*hours)), policy)[""] == kept
    every = list(range(1, len(hours) + 1))
    assert kept_versions(survey(aged(*hours)), replace(policy, commit_window=timedelta(days=30)))[""] == every
    assert kept_versions(survey(aged(*hours)), replace(policy, commit_window=timedelta(0)))[""] == every[-1:]


def test_the_reason_is_told_where_no_other_one_keeps_the_version():
    seen = survey(aged(90, 80, 7, 6, 5), branches=[fork("a", 3)], tags=[("t", None, 4)])
    verdict = judge(seen, WINDOW, CLOCK, {})[0]
    assert verdict.reasons == {"a job under way may need it": 1, "fork of a branch": 1, "tagged": 1, "latest": 1}
    untouched = judge(survey(aged(90, 7, 6)), CleanupPolicy(), CLOCK, {})[0]
    assert untouched.reasons == {"by the policy": 2, "latest": 1}


def test_a_tag_within_the_window_is_on_a_version_that_stays_anyway():
    seen = survey(aged(90, 7, 6), tags=[("t", None, 2)])
    assert kept_versions(seen, replace(WINDOW, error_if_tagged_old_versions=True))[""] == [1, 2, 3]


@pytest.mark.parametrize(("inside", "kept"), [(8.5, [3]), (7.9, [1, 2, 3])])
def test_where_the_clock_of_the_store_may_be_behind_the_time_inside_the_manifest_decides(inside, kept):
    seen = survey(aged(90, 8.5, 20))
    assert positions_of_unknown_age(seen, WINDOW, CLOCK) == {0: [1]}
    assert positions_of_unknown_age(survey(aged(90, 80, 7)), WINDOW, CLOCK) == {}
    ages = {0: {1: NOW - int(inside * HOUR)}}
    assert kept_versions(seen, WINDOW, ages)[""] == kept


def test_the_window_is_of_branches_as_well_and_clones_have_none():
    seen = survey(aged(90, 80), chain("a", aged(90, 80, 7).versions), branches=[fork("a", 1)])
    policy = replace(WINDOW, keep_fork_versions=False)
    assert kept_versions(seen, policy) == {"": [2], "tree/a": [2, 3]}
